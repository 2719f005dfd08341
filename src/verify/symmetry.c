/* symmetry.c - proves that every rank does what rank 0 does, shifted.
 *
 * shape.symmetric declares that the messages of rank r are those of rank 0 with peers shifted by
 * r and chunks by r*chunks/ranks. Cost and others then look at one rank only, so the claim is
 * proved for all ranks. Compared are, per message: step, direction, peer, channel, kind, and the
 * set of chunks with the kinds of their buffers. Not compared are the order within a step, the
 * numbers of scratch buffers, and local operations.
 *
 *     p = 4 ring: rank 0 sends chunk 3 to 1; rank 2 must send chunk (3+2) mod 4 = 1 to 3. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "verify/verify_int.h"

/* A message end in the order of comparison. */
struct message {
    uint32_t step, peer; /* peer relative to its rank, as rank 0 sees it */
    uint32_t op;         /* index in its slice */
    uint16_t channel;
    bool receives;
};

/* Adjacent chunks relative to their rank, as numbers of the fold. */
struct part {
    uint32_t buffers, first, len;
};

/* One rank's messages, sorted for comparison. */
struct view {
    uint32_t rank;
    struct tt_vfold fold;
    uint32_t shift; /* how far the rank's chunks are shifted, in rows of the fold */
    struct tt_slice slice;
    struct tt_vec messages;
    struct tt_vec parts; /* struct part: of one message; of all messages for rank 0 */
    struct tt_vec start; /* size_t, rank 0 only: first part of each message, and the end */
};

/* `op` is the last key: messages of one line keep their order. */
static int by_message(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->receives != y->receives)
        return x->receives ? 1 : -1;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    if (x->channel != y->channel)
        return x->channel < y->channel ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static int by_part(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->buffers != y->buffers)
        return x->buffers < y->buffers ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts the elements from index `from` on, unless they are in order. */
static void sort(struct tt_vec *v, size_t from, int (*compare)(const void *, const void *))
{
    char *p = v->data;
    size_t i = from + 1;
    while (i < v->len && compare(p + (i - 1) * v->elem, p + i * v->elem) < 0)
        i++;
    if (i < v->len)
        qsort(p + from * v->elem, v->len - from, v->elem, compare);
}

/* Lists and sorts the rank's message ends; the vectors are reused from rank to rank. */
static bool symmetry_look(struct view *w, const struct tt_sched *s, uint32_t rank)
{
    uint32_t ranks = s->shape.ranks;
    w->rank = rank;
    w->shift = rank * (s->shape.chunks / ranks / w->fold.every);
    w->slice = tt_sched_slice(s, rank);
    w->messages.len = 0;
    for (uint32_t i = 0; i < w->slice.nops; i++) {
        const struct tt_op *op = &w->slice.ops[i];
        struct message m = {.step = op->step,
                            .peer = (op->peer + ranks - rank) % ranks,
                            .op = i,
                            .channel = op->channel};
        m.receives = op->kind != TT_OP_SEND;
        if (op->kind <= TT_OP_RECV_REDUCE && !tt_vec_push(&w->messages, &m, 1))
            return false;
    }
    sort(&w->messages, 0, by_message);
    return true;
}

/* Input, output or scratch; scratch buffers are not distinguished. */
static uint32_t kind_of(uint32_t buf)
{
    return buf < TT_BUF_SCRATCH ? buf : TT_BUF_SCRATCH;
}

/* Merges parts that touch, from index `from` on. Afterwards equal sets of chunks are equal
 * lists. */
static void symmetry_join(struct tt_vec *parts, size_t from)
{
    struct part *p = parts->data;
    size_t n = from;
    for (size_t i = from; i < parts->len; i++) {
        if (n > from && p[n - 1].buffers == p[i].buffers &&
            p[n - 1].first + p[n - 1].len == p[i].first)
            p[n - 1].len += p[i].len;
        else
            p[n++] = p[i];
    }
    parts->len = n;
}

/* Appends the chunks of an operation, shifted back by the rank's shift. A range that wraps is
 * cut in two. No range leaves its column of the fold, so only the row is shifted. */
static bool list_parts(struct view *w, uint32_t op)
{
    uint32_t rows = w->fold.rows;
    struct tt_vwalk walk = tt_vwalk_folded(&w->slice, &w->slice.ops[op], &w->fold);
    struct tt_vrange r;
    size_t from = w->parts.len;
    while (tt_vwalk_next(&walk, &r)) {
        uint32_t row = r.first % rows, column = r.first - row,
                 first = row >= w->shift ? row - w->shift : row + rows - w->shift;
        uint32_t head = r.len <= rows - first ? r.len : rows - first;
        struct part p[2] = {
            {.buffers = kind_of(r.buf) * 4 + kind_of(r.src), .first = column + first, .len = head}};
        p[1] = (struct part){.buffers = p[0].buffers, .first = column, .len = r.len - head};
        if (!tt_vec_push(&w->parts, p, p[1].len > 0 ? 2 : 1))
            return false;
    }
    sort(&w->parts, from, by_part);
    symmetry_join(&w->parts, from);
    return true;
}

/* Lists rank 0's parts once, since every other rank is compared with them. */
static bool list_all_parts(struct view *zero)
{
    bool ok = tt_vec_push(&zero->start, &zero->parts.len, 1) != NULL;
    for (size_t i = 0; ok && i < zero->messages.len; i++) {
        const struct message *m = tt_vec_at(&zero->messages, i);
        ok = list_parts(zero, m->op) && tt_vec_push(&zero->start, &zero->parts.len, 1);
    }
    return ok;
}

/* Does message `i` of rank 0 have the parts just listed for the other rank? */
static bool same_parts(const struct view *zero, size_t i, const struct tt_vec *parts)
{
    const size_t *start = tt_vec_at(&zero->start, i);
    const struct part *x = (const struct part *)zero->parts.data + start[0], *y = parts->data;
    bool same = start[1] - start[0] == parts->len;
    for (size_t k = 0; same && k < parts->len; k++)
        same = x[k].buffers == y[k].buffers && x[k].first == y[k].first && x[k].len == y[k].len;
    return same;
}

/* Compares message `i` of both: returns what differs, or NULL. Chunks are compared as sets,
 * because spans may differ in where they wrap. *failed: out of memory. */
static const char *symmetry_difference(const struct view *zero, struct view *w, size_t i,
                                       bool *failed)
{
    const struct message *x = tt_vec_at(&zero->messages, i), *y = tt_vec_at(&w->messages, i);
    if (x->step != y->step)
        return "step";
    if (x->receives != y->receives || zero->slice.ops[x->op].kind != w->slice.ops[y->op].kind)
        return "kind";
    if (x->peer != y->peer)
        return "peer";
    if (x->channel != y->channel)
        return "channel";
    w->parts.len = 0;
    *failed = !list_parts(w, y->op);
    return *failed || same_parts(zero, i, &w->parts) ? NULL : "chunks or buffers";
}

/* If one rank has more messages, the first difference decides; equal beginnings leave the
 * numbers. */
static tutti_status symmetry_compare(struct tt_verifier *v, const struct view *zero, struct view *w)
{
    size_t n = zero->messages.len, m = w->messages.len;
    for (size_t i = 0; i < n && i < m; i++) {
        bool failed = false;
        const char *what = symmetry_difference(zero, w, i, &failed);
        const struct message *x = tt_vec_at(&zero->messages, i), *y = tt_vec_at(&w->messages, i);
        if (failed)
            return tt_fail_memory(v->err, "symmetry");
        if (what)
            return tt_verify_fault(
                v, w->rank, y->op,
                "step %" PRIu32
                ": not symmetric as declared: %s of %s (%s) is not that of op %" PRIu32
                " of rank 0 shifted by %" PRIu32,
                y->step, what, tt_verify_say_op(&w->slice.ops[y->op]).s,
                tt_verify_say_chunks(&w->slice, &w->slice.ops[y->op]).s, x->op, w->rank);
    }
    if (n == m)
        return TUTTI_OK;
    uint64_t op = m > n ? ((const struct message *)tt_vec_at(&w->messages, n))->op : w->slice.nops;
    return tt_verify_fault(v, w->rank, op,
                           "not symmetric as declared: rank %" PRIu32
                           " has %zu messages, rank 0 has %zu",
                           w->rank, m, n);
}

tutti_status tt_verify_symmetry(struct tt_verifier *v)
{
    struct tt_vfold plain = {.every = 1, .rows = v->shape->chunks};
    uint32_t each = v->shape->chunks / v->shape->ranks;
    /* The fold can be used only if a rank's share of chunks is whole rows of it. */
    struct view zero = {.fold = each % v->fold.every ? plain : v->fold}, w = {.fold = zero.fold};
    tutti_status st = TUTTI_OK;
    if (!v->shape->symmetric)
        return TUTTI_OK;
    assert(v->shape->chunks % v->shape->ranks == 0);
    zero.messages.elem = w.messages.elem = sizeof(struct message);
    zero.parts.elem = w.parts.elem = sizeof(struct part);
    zero.start.elem = sizeof(size_t);
    bool ok = symmetry_look(&zero, v->sched, 0) && list_all_parts(&zero);
    for (uint32_t r = 1; r < v->shape->ranks && ok && !st; r++) {
        ok = symmetry_look(&w, v->sched, r);
        if (ok)
            st = symmetry_compare(v, &zero, &w);
    }
    tt_vec_free(&zero.messages);
    tt_vec_free(&zero.parts);
    tt_vec_free(&zero.start);
    tt_vec_free(&w.messages);
    tt_vec_free(&w.parts);
    return ok ? st : tt_fail_memory(v->err, "symmetry");
}
