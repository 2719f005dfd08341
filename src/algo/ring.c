/* ring.c - the ring: every rank talks to its two neighbours only.
 *
 * Rank r sends to r+1. The vector has p chunks; chunk r belongs to rank r. In the reduce-scatter a partial sum of chunk c starts at
 * rank c+1, travels once around, collects each rank's contribution and ends complete at rank c; in the all-gather the complete
 * chunk travels around once more.
 *
 *     p = 4, reduce-scatter: what each rank sends (number = chunk) and, in brackets, what is complete
 *          step   0 -> 1   1 -> 2   2 -> 3   3 -> 0
 *            0      3        0        1        2
 *            1      2        3        0        1
 *            2      1        2        3        0       then [0] [1] [2] [3]
 *     all-gather
 *            3      0        1        2        3
 *            4      3        0        1        2
 *            5      2        3        0        1
 *
 * Cost: 2(p-1) steps, 2(p-1)/p of the vector sent per rank, (p-1)/p reduced: the fewest bytes possible. In each step every rank waits
 * for its left neighbour, so that one slow rank slows all. Chunks are summed in p different orders (chunk c starts at rank c+1), the
 * same for every rank, since each chunk is summed along one path only.
 * Invariant: before step t of the reduce-scatter rank r holds the sum of ranks r-t .. r of chunk r-1-t. */
#include "algo/algos.h"
#include "algo/pieces.h"

static tutti_status ring_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    return tt_refuse_steps(2 * (uint64_t)a->problem.ranks, why);
}

static tutti_status ring_shape(const struct tt_algo_args *a, struct tt_shape *s, struct tutti_error *err)
{
    (void)a;
    (void)err;
    tt_pieces_shape(s);
    return TUTTI_OK;
}

static void ring_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    (void)a;
    (void)rank;
    tt_pieces_slice(b, TT_RING_RS, TT_RING_AG);
}

static uint64_t ring_ops(const struct tt_algo_args *a)
{
    return 4 * (uint64_t)a->problem.ranks;
}

const struct tt_algo tt_algo_ring = {
    .name = "ring",
    .desc = "neighbours only, fewest bytes, 2(p-1) steps: for long vectors",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .probe = ring_probe,
    .shape = ring_shape,
    .slice = ring_slice,
    .estimate_ops = ring_ops,
};
