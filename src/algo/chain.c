/* chain.c - the pipelined chain: broadcast, reduce and all-reduce along one line of ranks.
 *
 * Ranks are in a line, v = (rank - root) mod p from the root on (all-reduce: root 0). K segments
 * pipeline the line: while segment k is at rank v, segment k+1 is at the rank before. On 4 ranks,
 * root 1:
 *
 *     v        0     1     2     3
 *     rank     1     2     3     0
 *     reduce   1 <-- 2 <-- 3 <-- 0      steps 2, 1, 0 (right to left): in step p-1-v rank v sends
 *                                       its own and all later contributions
 *     bcast    1 --> 2 --> 3 --> 0      steps 0, 1, 2: v receives in step v-1 and sends in step v
 *     allreduce                         reduce, then bcast (steps p-1 ..): both directions of
 *                                       every link work at once when the pipe is full
 *
 * Sums are own + (sum of the later ranks), one fixed nesting; every rank gets the root's bits.
 * Cost: p-1 steps (all-reduce 2(p-1)), S bytes over every link in each direction used; with K
 * segments (p-2+K) * (alpha + S/K beta), near S beta for large S: half the ring's traffic for a
 * broadcast. Each rank waits only for its neighbours. */
#include "algo/algos.h"
#include "algo/phases.h"

struct seat {
    uint32_t p, v, before, after; /* ranks of v-1 and v+1 */
};

static struct seat take_seat(uint32_t p, uint32_t root, uint32_t rank)
{
    uint32_t v = rank >= root ? rank - root : rank + (p - root);
    return (struct seat){p, v, rank ? rank - 1 : p - 1, rank + 1 < p ? rank + 1 : 0};
}

static void reduce_to_front(struct tt_builder *b, const struct seat *t, uint32_t acc)
{
    bool last = t->v == t->p - 1;
    struct tt_span sum = tt_sched_span_from(acc, TT_BUF_IN, 0, 1),
                   held = tt_sched_span_range(last ? TT_BUF_IN : acc, 0, 1);
    if (!last)
        tt_sched_emit_recv_reduce(b, t->p - 2 - t->v, t->after, 0, &sum, 1);
    if (t->v)
        tt_sched_emit_send(b, t->p - 1 - t->v, t->before, 0, &held, 1);
}

static void spread_to_back(struct tt_builder *b, const struct seat *t, uint32_t root_buf,
                           uint32_t first)
{
    struct tt_span out = tt_sched_span_range(TT_BUF_OUT, 0, 1),
                   held = tt_sched_span_range(t->v ? TT_BUF_OUT : root_buf, 0, 1);
    if (t->v)
        tt_sched_emit_recv(b, first + t->v - 1, t->before, 0, &out, 1);
    if (t->v < t->p - 1)
        tt_sched_emit_send(b, first + t->v, t->after, 0, &held, 1);
}

static void chain_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    tutti_coll coll = a->problem.coll;
    struct seat t =
        take_seat(a->problem.ranks, coll == TUTTI_ALLREDUCE ? 0 : a->problem.root, rank);
    if (t.p == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    if (coll == TUTTI_REDUCE) {
        reduce_to_front(b, &t, t.v ? TT_BUF_SCRATCH : TT_BUF_OUT);
    } else if (coll == TUTTI_ALLREDUCE) {
        reduce_to_front(b, &t, TT_BUF_OUT);
        spread_to_back(b, &t, TT_BUF_OUT, t.p - 1);
    } else {
        struct tt_span all = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 1);
        spread_to_back(b, &t, TT_BUF_IN, 0);
        if (!t.v)
            tt_sched_emit_copy(b, 0, &all, 1);
    }
}

static tutti_status chain_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                struct tutti_error *err)
{
    (void)err;
    s->chunks = 1;
    s->nbufs = a->problem.coll == TUTTI_REDUCE ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

const struct tt_algo tt_algo_chain = {
    .name = "chain",
    .desc = "pipelined chain: every rank hands segments to its neighbour; for large broadcasts and "
            "reduces",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(BROADCAST) | TT_COLLS(REDUCE),
    .pipelined = true,
    .shape = chain_shape,
    .slice = chain_slice,
};
