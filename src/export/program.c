/* program.c - matches messages with their partners and cuts operations into acts (program.h has an
 * example).
 *
 * Matching: the ends of all messages are sorted by connection and place; the i-th send and the i-th
 * receive are the same message, since messages of one connection arrive in order. Cutting: the runs
 * of both ends are merged, so that both have the same acts. */
#include "export/program.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ACTS_MAX = 1 << 26 }; /* of one rank: no engine reads a larger file */

/* One end of a message: its connection, and its place in the schedule. */
struct end {
    uint32_t src, dst, channel;
    uint64_t number; /* of the operation in the schedule */
};

int tt_export_compare(const uint32_t *a, const uint32_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int compare_ends(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    const uint32_t kx[] = {x->src, x->dst, x->channel}, ky[] = {y->src, y->dst, y->channel};
    int order = tt_export_compare(kx, ky, countof(kx));
    return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

static bool is_receive(const struct tt_op *op)
{
    return op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE;
}

/* Lists both kinds of ends; false when out of memory. */
static bool collect_ends(const struct tt_sched *s, struct tt_vec *sends, struct tt_vec *receives)
{
    for (uint32_t rank = 0; rank < s->shape.ranks; rank++) {
        struct tt_slice sl = tt_sched_slice(s, rank);
        for (uint32_t i = 0; i < sl.nops; i++) {
            const struct tt_op *op = &sl.ops[i];
            const uint64_t number = tt_export_number(s, rank, i);
            if (op->kind == TT_OP_SEND &&
                !tt_vec_push(sends, &(struct end){rank, op->peer, op->channel, number}, 1))
                return false;
            if (is_receive(op) &&
                !tt_vec_push(receives, &(struct end){op->peer, rank, op->channel, number}, 1))
                return false;
        }
    }
    return true;
}

/* Pairs the i-th send with the i-th receive. Messages of one connection match in order, so that
 * both lists, sorted by connection and place, correspond. */
static tutti_status pair_ends(struct tt_export_program *p, struct tt_vec *sends,
                              struct tt_vec *receives, struct tutti_error *err)
{
    if (sends->len)
        qsort(sends->data, sends->len, sizeof(struct end), compare_ends);
    if (receives->len)
        qsort(receives->data, receives->len, sizeof(struct end), compare_ends);
    const size_t n = sends->len > receives->len ? sends->len : receives->len;
    for (size_t i = 0; i < n; i++) {
        const struct end *a = i < sends->len ? tt_vec_at(sends, i) : NULL;
        const struct end *b = i < receives->len ? tt_vec_at(receives, i) : NULL;
        if (!a || !b || a->src != b->src || a->dst != b->dst || a->channel != b->channel) {
            const struct end *e = a ? a : b;
            return tt_fail(err, TUTTI_ERR_INCORRECT,
                           "rank %u and rank %u do not exchange the same number of messages on "
                           "channel %u (tutti verify says more)",
                           e->src, e->dst, e->channel);
        }
        p->partner[a->number] = b->number;
        p->partner[b->number] = a->number;
    }
    return TUTTI_OK;
}

tutti_status tt_export_program_open(const struct tt_sched *s, struct tt_export_program *ret,
                                    struct tutti_error *err)
{
    struct tt_vec sends = {.elem = sizeof(struct end)}, receives = {.elem = sizeof(struct end)};
    *ret = (struct tt_export_program){.sched = s,
                                      .acts = {.elem = sizeof(struct tt_act)},
                                      .edges = {.elem = sizeof(struct tt_edge)},
                                      .deps = {.shape = &s->shape},
                                      .mine = {.elem = sizeof(struct tt_act)},
                                      .theirs = {.elem = sizeof(struct tt_act)}};
    if (s->nslices != s->shape.ranks)
        return tt_fail(err, TUTTI_ERR_ARG, "the schedule does not hold all ranks");
    tutti_status st = TUTTI_OK;
    ret->partner = tt_alloc(s->nops ? s->nops : 1, sizeof *ret->partner);
    if (!ret->partner || !collect_ends(s, &sends, &receives))
        st = tt_fail_memory(err, "matching messages");
    if (!st) {
        /* 0xff..: UINT64_MAX, no partner. */
        memset(ret->partner, 0xff, s->nops * sizeof *ret->partner);
        st = pair_ends(ret, &sends, &receives, err);
    }
    tt_vec_free(&sends);
    tt_vec_free(&receives);
    if (st)
        tt_export_program_close(ret);
    return st;
}

void tt_export_program_close(struct tt_export_program *p)
{
    free(p->partner);
    free(p->first_act);
    tt_vec_free(&p->acts);
    tt_vec_free(&p->edges);
    tt_vec_free(&p->mine);
    tt_vec_free(&p->theirs);
    tt_sched_deps_free(&p->deps);
    *p = (struct tt_export_program){0};
}

static int compare_runs(const void *a, const void *b)
{
    const struct tt_act *x = a, *y = b;
    return x->chunk < y->chunk ? -1 : x->chunk > y->chunk;
}

/* Adds the ranges of one span as acts like `like`. */
static tutti_status add_span(struct tt_vec *to, const struct tt_span *s, struct tt_act like,
                             struct tutti_error *err)
{
    for (uint32_t i = 0; i < s->reps; i++) {
        like.chunk = s->first + i * s->stride;
        like.len = s->len;
        if (to->len >= ACTS_MAX)
            return tt_fail(err, TUTTI_ERR_LIMIT,
                           "more than %d ranges of chunks at one rank: too much for a file",
                           ACTS_MAX);
        if (!tt_vec_push(to, &like, 1))
            return tt_fail_memory(err, "acts");
    }
    return TUTTI_OK;
}

/* The runs of one end of a message, in rising order of chunks. */
static tutti_status runs_of(const struct tt_slice *sl, const struct tt_op *op, struct tt_vec *ret,
                            struct tutti_error *err)
{
    static const uint8_t kinds[] = {[TT_OP_SEND] = TT_ACT_SEND,
                                    [TT_OP_RECV] = TT_ACT_RECV,
                                    [TT_OP_RECV_REDUCE] = TT_ACT_RECV_ADD,
                                    [TT_OP_COPY] = TT_ACT_COPY};
    ret->len = 0;
    for (uint32_t i = 0; i < op->nspans; i++) {
        const struct tt_span *s = &sl->spans[op->span + i];
        tutti_status st = add_span(
            ret, s, (struct tt_act){.kind = kinds[op->kind], .buf = s->buf, .src = s->src}, err);
        if (st)
            return st;
    }
    if (ret->len > 1)
        qsort(ret->data, ret->len, sizeof(struct tt_act), compare_runs);
    return TUTTI_OK;
}

/* Cuts the runs of `mine` wherever those of `theirs` begin or end. Invariant: everything before
 * the two positions is covered by acts, and both positions are at the same chunk. Both must
 * cover the same chunks. */
static tutti_status cut_runs(struct tt_export_program *p, uint32_t op, struct tutti_error *err)
{
    size_t i = 0, j = 0;
    uint32_t into_mine = 0, into_theirs = 0;
    while (i < p->mine.len && j < p->theirs.len) {
        const struct tt_act *a = tt_vec_at(&p->mine, i), *b = tt_vec_at(&p->theirs, j);
        if (a->chunk + into_mine != b->chunk + into_theirs)
            break;
        const uint32_t left = a->len - into_mine, right = b->len - into_theirs,
                       len = left < right ? left : right;
        struct tt_act cut = *a;
        cut.chunk = a->chunk + into_mine;
        cut.len = len;
        cut.op = op;
        if (!tt_vec_push(&p->acts, &cut, 1))
            return tt_fail_memory(err, "acts");
        into_mine += len;
        into_theirs += len;
        if (into_mine == a->len)
            i++, into_mine = 0;
        if (into_theirs == b->len)
            j++, into_theirs = 0;
    }
    if (i == p->mine.len && j == p->theirs.len)
        return TUTTI_OK;
    return tt_fail(
        err, TUTTI_ERR_INCORRECT,
        "rank %u, op %u: the other end of the message has other chunks (tutti verify says more)",
        p->rank, op);
}

/* The acts of a message's end on this rank; looks at the other end for the cuts only. */
static tutti_status message_acts(struct tt_export_program *p, uint32_t i, struct tutti_error *err)
{
    const struct tt_op *op = &p->slice.ops[i];
    const struct tt_slice other = tt_sched_slice(p->sched, op->peer);
    const uint64_t there = p->partner[tt_export_number(p->sched, p->rank, i)];
    assert(there != UINT64_MAX);
    const struct tt_op *theirs = &other.ops[there - tt_export_number(p->sched, op->peer, 0)];
    tutti_status st = runs_of(&p->slice, op, &p->mine, err);
    if (!st)
        st = runs_of(&other, theirs, &p->theirs, err);
    return st ? st : cut_runs(p, i, err);
}

static tutti_status copy_acts(struct tt_export_program *p, uint32_t i, struct tutti_error *err)
{
    tutti_status st = runs_of(&p->slice, &p->slice.ops[i], &p->mine, err);
    for (size_t k = 0; !st && k < p->mine.len; k++) {
        struct tt_act a = *(const struct tt_act *)tt_vec_at(&p->mine, k);
        a.op = i;
        if (!tt_vec_push(&p->acts, &a, 1))
            st = tt_fail_memory(err, "acts");
    }
    return st;
}

/* The operand that the sum begins with. One that is in the destination already needs no copy.
 * When the destination is OUT, IN comes before others, because the two may be the same memory. */
static uint32_t first_operand(const struct tt_span *to, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++)
        if (to[k].src == to->buf)
            return k;
    for (uint32_t k = 1; k < n; k++)
        if (to->buf == TT_BUF_OUT && to[k].src == TT_BUF_IN)
            return k;
    return 1;
}

/* Destination = sum of the operands: a copy of one, then additions of the others. Addition
 * commutes; an engine that rounds may round differently from us. */
static tutti_status reduce_acts(struct tt_export_program *p, uint32_t i, struct tutti_error *err)
{
    const struct tt_op *op = &p->slice.ops[i];
    const struct tt_span *to = &p->slice.spans[op->span];
    const uint32_t first = first_operand(to, op->nspans);
    tutti_status st = TUTTI_OK;
    if (to[first].src != to->buf)
        st = add_span(
            &p->acts, to,
            (struct tt_act){.kind = TT_ACT_COPY, .buf = to->buf, .src = to[first].src, .op = i},
            err);
    for (uint32_t k = 1; !st && k < op->nspans; k++)
        if (k != first)
            st = add_span(
                &p->acts, to,
                (struct tt_act){.kind = TT_ACT_ADD, .buf = to->buf, .src = to[k].src, .op = i},
                err);
    return st;
}

static int compare_edges(const void *a, const void *b)
{
    const struct tt_edge *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The waits of the live rule. An engine decides by the call whether IN and OUT are one memory:
 * when both are allowed, the waits of both hold. The two lists are merged and duplicates
 * removed. */
static tutti_status find_edges(struct tt_export_program *p, struct tutti_error *err)
{
    p->deps.inplace = false;
    tutti_status st = tt_sched_deps_find(&p->deps, &p->slice, &p->edges, err);
    if (st || !p->sched->shape.inplace)
        return st;
    p->deps.inplace = true;
    st = tt_sched_deps_find(&p->deps, &p->slice, &p->edges, err);
    if (st || !p->edges.len)
        return st;
    struct tt_edge *e = p->edges.data;
    qsort(e, p->edges.len, sizeof *e, compare_edges);
    size_t kept = 1;
    for (size_t i = 1; i < p->edges.len; i++)
        if (compare_edges(&e[i], &e[kept - 1]))
            e[kept++] = e[i];
    p->edges.len = kept;
    return TUTTI_OK;
}

tutti_status tt_export_program_rank(struct tt_export_program *p, uint32_t rank,
                                    struct tutti_error *err)
{
    p->rank = rank;
    p->slice = tt_sched_slice(p->sched, rank);
    p->acts.len = p->edges.len = 0;
    free(p->first_act);
    p->first_act = tt_alloc(p->slice.nops + 1, sizeof *p->first_act);
    tutti_status st = p->first_act ? TUTTI_OK : tt_fail_memory(err, "acts");
    for (uint32_t i = 0; !st && i < p->slice.nops; i++) {
        p->first_act[i] = (uint32_t)p->acts.len;
        switch (p->slice.ops[i].kind) {
        case TT_OP_COPY:
            st = copy_acts(p, i, err);
            break;
        case TT_OP_REDUCE:
            st = reduce_acts(p, i, err);
            break;
        default:
            st = message_acts(p, i, err);
            break;
        }
    }
    if (st)
        return st;
    p->first_act[p->slice.nops] = (uint32_t)p->acts.len;
    return find_edges(p, err);
}
