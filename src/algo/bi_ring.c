/* bi_ring.c - two rings in opposite directions, each on half of the data.
 *
 * A cable of a physical ring carries data both ways at once; one ring uses only one way. Here chunk
 * 2r+0 of rank r travels in a ring r -> r+1 on channel 0 and chunk 2r+1 in a ring r -> r-1 on
 * channel 1, in the same steps.
 *
 *     p = 4, reduce-scatter, what rank 0 sends (chunk numbers)
 *          step   to rank 1, channel 0      to rank 3, channel 1
 *            0    6  (of rank 3)            3  (of rank 1)
 *            1    4  (of rank 2)            5  (of rank 2)
 *            2    2  (of rank 1)            7  (of rank 3)      then rank 0 has 0 and 1 complete
 *
 * Cost: 2(p-1) steps like the ring, 2(p-1)/p of the vector sent per rank, but half of it to each
 * side: half the transfer time on a ring network, no gain behind one port. Every rank waits for
 * both neighbours in each step. The rings share no chunk, so each is correct by itself (invariant:
 * ring.c). */
#include "algo/algos.h"
#include "algo/phases.h"

static tutti_status bi_ring_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    return tt_algo_refuse_steps(2 * (uint64_t)a->problem.ranks, why);
}

static tutti_status bi_ring_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                  struct tutti_error *err)
{
    (void)err;
    s->chunks = 2 * a->problem.ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    s->symmetric = true;
    return TUTTI_OK;
}

static void bi_ring_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    uint32_t p = a->problem.ranks;
    tutti_coll coll = a->problem.coll;
    bool rs = tt_sched_coll_reduces(coll);
    uint32_t work = coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH : TT_BUF_OUT;
    struct tt_phase phases[4];
    size_t n = 0;
    if (p == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    for (uint16_t d = 0; d < 2; d++) {
        struct tt_phase half = {.kind = &tt_algo_ring_rs,
                                .in = TT_BUF_IN,
                                .work = work,
                                .out = TT_BUF_OUT,
                                .channel = d,
                                .reverse = d == 1};
        half.group = (struct tt_group){
            .n = p, .me = rank, .stride = 1, .blocks = {.first = d, .step = 2, .len = 1}};
        if (rs)
            phases[n++] = half;
        half.kind = &tt_algo_ring_ag;
        half.in = rs ? TT_BUF_OUT : TT_BUF_IN;
        half.step = rs ? p - 1 : 0;
        if (tt_algo_coll_gathers(coll))
            phases[n++] = half;
    }
    tt_algo_phases_emit(b, phases, n);
}

static uint64_t bi_ring_ops(const struct tt_algo_args *a)
{
    return 8 * (uint64_t)a->problem.ranks;
}

const struct tt_algo tt_algo_bi_ring = {
    .name = "bi-ring",
    .desc = "two rings in opposite directions on half the data each: uses both directions of a "
            "physical ring",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .probe = bi_ring_probe,
    .shape = bi_ring_shape,
    .slice = bi_ring_slice,
    .estimate_ops = bi_ring_ops,
};
