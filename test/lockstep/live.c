/* live.c - the live meaning: ranks that know only their own lists.
 *
 * An operation waits for all earlier ones of its rank that touch one of its places (one of the two writing), and for those on the same
 * (peer, channel) and direction. `blockers` counts what it still waits for; a message happens when both ends wait for nothing. Sweeps over
 * all ranks from a random place on, passing over a quarter of what could run, until nothing can: what is then left is stuck. */
#include <stdlib.h>

#include "parts.h"

struct life {
    uint8_t *waits; /* waits[i * n + j]: operation i waits for j < i */
    size_t *blockers;
    bool *done;
};

struct access {
    uint64_t place;
    size_t op;
    bool writes;
};

static int compare_accesses(const void *pa, const void *pb)
{
    const struct access *a = pa, *b = pb;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

static void add_access(struct ls *l, struct tt_vec *v, size_t op, struct ls_item at, bool writes)
{
    struct access a = {.place = ls_place(l, writes ? at.buf : at.src, at.chunk), .op = op, .writes = writes};
    if (!tt_vec_push(v, &a, 1))
        abort();
}

static void add_accesses(struct ls *l, struct tt_vec *v, const struct ls_rank *k, size_t op)
{
    const struct ls_op *o = &k->ops[op];
    const struct ls_item *it = ls_op_items(k, o);
    for (size_t i = 0; i < o->n; i++) {
        if (o->op->kind != TT_OP_SEND)
            add_access(l, v, op, it[i], true);
        if (o->op->kind != TT_OP_RECV && o->op->kind != TT_OP_REDUCE)
            add_access(l, v, op, it[i], false);
        for (uint32_t n = 1; o->op->kind == TT_OP_REDUCE && n < o->op->nspans; n++)
            add_access(l, v, op, (struct ls_item){.chunk = it[i].chunk, .src = o->spans[n].src}, false);
    }
}

static void mark_conflicts(struct ls *l, const struct ls_rank *k, uint8_t *waits)
{
    struct tt_vec v = {.elem = sizeof(struct access)};
    for (size_t i = 0; i < k->n; i++)
        add_accesses(l, &v, k, i);
    if (v.len > 0)
        qsort(v.data, v.len, v.elem, compare_accesses);
    const struct access *a = v.data;
    for (size_t j = 0; j < v.len; j++)
        for (size_t i = j + 1; i < v.len && a[i].place == a[j].place; i++)
            if (a[i].op != a[j].op && (a[i].writes || a[j].writes))
                waits[a[i].op * k->n + a[j].op] = 1;
    tt_vec_free(&v);
}

static void mark_lines(const struct ls_rank *k, uint8_t *waits)
{
    for (size_t i = 0; i < k->n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct tt_op *a = k->ops[i].op, *b = k->ops[j].op;
            bool messages = ls_is_message(a) && ls_is_message(b) && (a->kind == TT_OP_SEND) == (b->kind == TT_OP_SEND);
            if (messages && a->peer == b->peer && a->channel == b->channel)
                waits[i * k->n + j] = 1;
        }
}

static struct life life_of(struct ls *l, const struct ls_rank *k)
{
    struct life f = {.waits = ls_alloc((uint64_t)k->n * k->n, 1),
                     .blockers = ls_alloc(k->n, sizeof *f.blockers),
                     .done = ls_alloc(k->n, sizeof *f.done)};
    mark_conflicts(l, k, f.waits);
    mark_lines(k, f.waits);
    return f;
}

/* Nothing is done yet. */
static void rewind_life(struct life *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        f->done[i] = false;
        f->blockers[i] = 0;
        for (size_t j = 0; j < i; j++)
            f->blockers[i] += f->waits[i * n + j];
    }
}

static bool is_ready(const struct life *f, size_t i)
{
    return !f->done[i] && f->blockers[i] == 0;
}

static void finish(struct life *f, size_t n, size_t j)
{
    f->done[j] = true;
    for (size_t i = j + 1; i < n; i++)
        f->blockers[i] -= f->waits[i * n + j];
}

static bool pass_message(struct ls *l, uint32_t rank, const struct ls_op *o)
{
    const struct ls_rank *k = &l->rank[rank], *peer = &l->rank[o->op->peer];
    const struct ls_op *to = &peer->ops[o->partner];
    if (!ls_same_chunks(k, o, peer, to))
        return ls_fault(&l->result, LS_UNMATCHED, o->op->peer, o->partner, "the message has other chunks");
    uint64_t *message = ls_read(l, rank, o, 0), *data = message ? ls_receive(l, o->op->peer, to, message) : NULL;
    bool ok = data && ls_write(l, o->op->peer, to, data);
    free(message);
    free(data);
    return ok;
}

enum moved { NOTHING, SOMETHING, FAILED };

/* Tries one operation; messages are tried from the sender's side. */
static enum moved try_op(struct ls *l, struct life *life, uint32_t rank, size_t i, struct tt_rng *rng)
{
    const struct ls_op *o = &l->rank[rank].ops[i];
    bool send = o->op->kind == TT_OP_SEND;
    if (!is_ready(&life[rank], i) || ls_is_receive(o->op))
        return NOTHING;
    if (send && (o->partner == LS_NOBODY || !is_ready(&life[o->op->peer], o->partner)))
        return NOTHING;
    if (tt_rng_below(rng, 4) == 0)
        return SOMETHING; /* another time */
    if (!(send ? pass_message(l, rank, o) : ls_run_local(l, rank, o)))
        return FAILED;
    finish(&life[rank], l->rank[rank].n, i);
    if (send)
        finish(&life[o->op->peer], l->rank[o->op->peer].n, o->partner);
    return SOMETHING;
}

static enum moved sweep(struct ls *l, struct life *life, struct tt_rng *rng)
{
    uint32_t p = l->s->shape.ranks, first = (uint32_t)tt_rng_below(rng, p);
    enum moved all = NOTHING;
    for (uint32_t i = 0; i < p; i++) {
        uint32_t r = (first + i) % p;
        size_t n = l->rank[r].n, from = n ? (size_t)tt_rng_below(rng, n) : 0;
        for (size_t j = 0; j < n; j++) {
            enum moved one = try_op(l, life, r, (from + j) % n, rng);
            if (one == FAILED)
                return FAILED;
            all = one == SOMETHING ? SOMETHING : all;
        }
    }
    return all;
}

static bool all_done(struct ls *l, const struct life *life)
{
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        for (size_t i = 0; i < l->rank[r].n; i++)
            if (!life[r].done[i])
                return ls_fault(&l->result, LS_STUCK, r, i, "never happens");
    return true;
}

/* One segment of every chunk, from the first operation to the last. */
static bool run_segment(struct ls *l, struct life *life, struct tt_rng *rng)
{
    enum moved m;
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        rewind_life(&life[r], l->rank[r].n);
    do
        m = sweep(l, life, rng);
    while (m == SOMETHING);
    return m != FAILED && all_done(l, life);
}

bool ls_run_live(struct ls *l)
{
    const struct tt_shape *s = &l->s->shape;
    struct life *life = ls_alloc(s->ranks, sizeof *life);
    struct tt_rng rng;
    bool ok = true;
    tt_rng_seed(&rng, l->o.seed);
    l->now = LS_GIVEN;
    for (uint32_t r = 0; r < s->ranks; r++)
        life[r] = life_of(l, &l->rank[r]);
    for (l->segment = 0; ok && l->segment < s->segments; l->segment++)
        ok = run_segment(l, life, &rng);
    for (uint32_t r = 0; r < s->ranks; r++) {
        free(life[r].waits);
        free(life[r].blockers);
        free(life[r].done);
    }
    free(life);
    return ok;
}
