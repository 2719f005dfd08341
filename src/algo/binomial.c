/* binomial.c - the binomial tree: broadcast, reduce, gather, scatter, all-reduce and barrier in
 * ceil(log2 p) steps each way.
 *
 * Ranks are numbered from the root: v = (rank - root) mod p. The parent of v is v without its
 * lowest set bit; the children of v are v + 2^s for every 2^s below that bit (the root: below p).
 * So the subtree of v is the run v .. v + lowbit(v) - 1, cut at p: what gather and scatter move is
 * one cyclic range of chunks. On 5 ranks, root 0, q = ceil(log2 5) = 3 (edges carry the reduce step
 * s):
 *
 *          0                reduce     s=0: 1->0, 3->2     s=1: 2->0      s=2: 4->0
 *     0 /  |1   \ 2         broadcast  t=0: 0->4           t=1: 0->2      t=2: 0->1, 2->3
 *      1   2     4          gather     the reduce with ranges: 3 sends {3} to 2, then 2 sends {2,3}
 *          |0               scatter    the broadcast with ranges: 0 sends {4}, then {2,3}, then {1}
 *          3                allreduce  reduce to rank 0, then broadcast: 2q steps; barrier: no data
 *
 * The broadcast is the reduce reversed: t = q-1-s.
 *
 * A parent receives from one child per step and adds lower ranks first: acc = acc + message, a
 * fixed order, and every rank receives the root's bits. Cost: q steps; reduce and broadcast move S
 * per edge and the root handles q*S, so segments pipeline the levels; gather and scatter move
 * (p-1)/p S through the root. */
#include "algo/algos.h"
#include "algo/phases.h"

struct seat {
    uint32_t p, root, v; /* v: number counted from the root */
    uint32_t q;          /* ceil(log2 p) */
    uint32_t level;      /* index of v's lowest set bit: the step of its message up; the root: q */
};

static struct seat take_seat(uint32_t p, uint32_t root, uint32_t rank)
{
    uint32_t v = rank >= root ? rank - root : rank + (p - root);
    uint32_t q = tt_ceil_log2(p);
    return (struct seat){p, root, v, q, v ? (uint32_t)__builtin_ctz(v) : q};
}

static uint32_t rank_of(const struct seat *t, uint32_t v)
{
    return (uint32_t)(((uint64_t)t->root + v) % t->p);
}

static uint32_t parent(const struct seat *t)
{
    return rank_of(t, t->v & (t->v - 1));
}

static bool has_child(const struct seat *t, uint32_t s)
{
    return s < t->level && (uint64_t)t->v + (1ull << s) < t->p;
}

static uint32_t binomial_child(const struct seat *t, uint32_t s)
{
    return rank_of(t, t->v + (1u << s));
}

/* Reduces the only chunk to v = 0; sums grow in `acc`. Invariant before step s: `held` has the sum
 * of v .. v + 2^s - 1 (cut at p). */
static void reduce_up(struct tt_builder *b, const struct seat *t, uint32_t acc)
{
    uint32_t held = TT_BUF_IN;
    for (uint32_t s = 0; s < t->level; s++) {
        if (!has_child(t, s))
            continue;
        struct tt_span sum = tt_sched_span_from(acc, held, 0, 1);
        tt_sched_emit_recv_reduce(b, s, binomial_child(t, s), 0, &sum, 1);
        held = acc;
    }
    struct tt_span up = tt_sched_span_range(held, 0, 1);
    if (t->v)
        tt_sched_emit_send(b, t->level, parent(t), 0, &up, 1);
}

/* Spreads the only chunk from `held` of v = 0 to OUT of all, from step `first` on; the message to
 * level s goes in step q-1-s. */
static void spread_down(struct tt_builder *b, const struct seat *t, uint32_t held, uint32_t first)
{
    struct tt_span out = tt_sched_span_range(TT_BUF_OUT, 0, 1);
    if (t->v) {
        tt_sched_emit_recv(b, first + t->q - 1 - t->level, parent(t), 0, &out, 1);
        held = TT_BUF_OUT;
    }
    struct tt_span down = tt_sched_span_range(held, 0, 1);
    for (uint32_t s = t->level; s-- > 0;)
        if (has_child(t, s))
            tt_sched_emit_send(b, first + t->q - 1 - s, binomial_child(t, s), 0, &down, 1);
}

/* Chunks of the subtree of the child at level s (v + 2^s, 2^s of them, cut at p) in buffer `buf`: 1
 * or 2 spans. */
static size_t child_range(const struct seat *t, uint32_t s, uint32_t buf, struct tt_span out[2])
{
    uint32_t v = t->v + (1u << s), room = t->p - v, len = 1u << s < room ? 1u << s : room;
    return tt_sched_span_cyclic(buf, buf, rank_of(t, v), len, t->p, out);
}

/* The subtree of v itself: its own chunk in `own`, the others in scratch: 1 to 3 spans, in the
 * chunk order of child_range. */
static size_t subtree_range(const struct seat *t, uint32_t own, struct tt_span out[3])
{
    uint32_t room = t->p - t->v, len = 1u << t->level < room ? 1u << t->level : room;
    out[0] = tt_sched_span_range(own, rank_of(t, t->v), 1);
    return 1 + (len > 1 ? tt_sched_span_cyclic(TT_BUF_SCRATCH, TT_BUF_SCRATCH, rank_of(t, t->v + 1),
                                               len - 1, t->p, out + 1)
                        : 0);
}

/* Invariant before step s: the chunks of v .. v + 2^s - 1 (cut at p) are here: the own one in IN,
 * the others in scratch (root: OUT). */
static void binomial_gather(struct tt_builder *b, const struct seat *t)
{
    struct tt_span r[3];
    uint32_t store = t->v ? TT_BUF_SCRATCH : TT_BUF_OUT;
    for (uint32_t s = 0; s < t->level; s++)
        if (has_child(t, s))
            tt_sched_emit_recv(b, s, binomial_child(t, s), 0, r, child_range(t, s, store, r));
    if (t->v) {
        tt_sched_emit_send(b, t->level, parent(t), 0, r, subtree_range(t, TT_BUF_IN, r));
        return;
    }
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, t->root, 1);
    tt_sched_emit_copy(b, t->q - 1, &own, 1);
}

static void binomial_scatter(struct tt_builder *b, const struct seat *t)
{
    struct tt_span r[3];
    uint32_t store = t->v ? TT_BUF_SCRATCH : TT_BUF_IN;
    if (t->v)
        tt_sched_emit_recv(b, t->q - 1 - t->level, parent(t), 0, r,
                           subtree_range(t, TT_BUF_OUT, r));
    for (uint32_t s = t->level; s-- > 0;)
        if (has_child(t, s))
            tt_sched_emit_send(b, t->q - 1 - s, binomial_child(t, s), 0, r,
                               child_range(t, s, store, r));
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, t->root, 1);
    if (!t->v)
        tt_sched_emit_copy(b, t->q - 1, &own, 1);
}

/* The root keeps sending from IN and copies last: the copy delays no message, and in place nothing
 * is read after it. */
static void broadcast(struct tt_builder *b, const struct seat *t)
{
    struct tt_span all = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 1);
    spread_down(b, t, TT_BUF_IN, 0);
    if (!t->v)
        tt_sched_emit_copy(b, t->q - 1, &all, 1);
}

static void binomial_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    tutti_coll coll = a->problem.coll;
    bool rooted = coll != TUTTI_ALLREDUCE && coll != TUTTI_BARRIER;
    struct seat t = take_seat(a->problem.ranks, rooted ? a->problem.root : 0, rank);
    if (t.p == 1) {
        tt_algo_emit_alone(b);
    } else if (coll == TUTTI_GATHER) {
        binomial_gather(b, &t);
    } else if (coll == TUTTI_SCATTER) {
        binomial_scatter(b, &t);
    } else if (coll == TUTTI_BROADCAST) {
        broadcast(b, &t);
    } else if (coll == TUTTI_REDUCE) {
        reduce_up(b, &t, t.v ? TT_BUF_SCRATCH : TT_BUF_OUT);
    } else {
        reduce_up(b, &t, TT_BUF_OUT);
        spread_down(b, &t, TT_BUF_OUT, t.q);
    }
}

static tutti_status binomial_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                   struct tutti_error *err)
{
    tutti_coll coll = a->problem.coll;
    (void)err;
    bool ranges = coll == TUTTI_GATHER || coll == TUTTI_SCATTER;
    s->chunks = ranges ? a->problem.ranks : 1;
    s->nbufs = ranges || coll == TUTTI_REDUCE ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

const struct tt_algo tt_algo_binomial = {
    .name = "binomial",
    .desc = "binomial tree: log2(p) steps to or from the root, for small vectors and all rooted "
            "collectives",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(BROADCAST) | TT_COLLS(REDUCE) | TT_COLLS(GATHER) |
             TT_COLLS(SCATTER) | TT_COLLS(BARRIER),
    .pipelined = true,
    .shape = binomial_shape,
    .slice = binomial_slice,
};
