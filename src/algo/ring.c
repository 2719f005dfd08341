/* ring.c - the ring: every rank communicates with its two neighbours only.
 *
 * Rank r sends to r+1. The vector has p chunks; chunk r belongs to rank r. In the reduce-scatter a
 * partial sum of chunk c starts at rank c+1, travels once around, collects each rank's contribution
 * and ends complete at rank c; in the all-gather the complete chunk travels around once more.
 *
 *     p = 4, reduce-scatter: what each rank sends (number = chunk), in brackets what is complete
 *          step   0 -> 1   1 -> 2   2 -> 3   3 -> 0
 *            0      3        0        1        2
 *            1      2        3        0        1
 *            2      1        2        3        0       then [0] [1] [2] [3]
 *     all-gather
 *            3      0        1        2        3
 *            4      3        0        1        2
 *            5      2        3        0        1
 *
 * In a group of n, member i sends in step t block i-1-t (reduce-scatter) or i-t (all-gather), all
 * modulo n; a reversed ring counts the other way. Each block is received once in each phase: a
 * partial sum is the local contribution plus the message, written once.
 *
 * Cost: 2(p-1) steps, 2(p-1)/p of the vector sent per rank, (p-1)/p reduced: the fewest bytes
 * possible. In each step every rank waits for its left neighbour, so one slow rank slows all.
 * Chunks are summed in p different orders (chunk c starts at rank c+1), the same for every rank,
 * since each chunk is summed along one path only.
 * Invariant: before step t of the reduce-scatter rank r holds the sum of ranks r-t .. r of chunk
 * r-1-t. */
#include <assert.h>

#include "algo/algos.h"
#include "algo/phases.h"

static uint32_t ring_steps(uint32_t n)
{
    return n - 1;
}

static struct tt_hop ring_hop(const struct tt_phase *p, uint32_t t, bool send)
{
    const struct tt_group *g = &p->group;
    uint32_t back = t + (p->kind->reduces ? 1 : 0) + (send ? 0 : 1);
    bool up = send != p->reverse; /* the peer is member me+1 */
    assert(t < g->n - 1);
    return (struct tt_hop){
        .peer = tt_algo_group_rank(g, up ? tt_algo_group_after(g, g->me, 1)
                                         : tt_algo_group_before(g, g->me, 1)),
        .block =
            p->reverse ? tt_algo_group_after(g, g->me, back) : tt_algo_group_before(g, g->me, back),
        .n = 1,
    };
}

const struct tt_phase_kind tt_algo_ring_rs = {.reduces = true,
                                              .reversible = true,
                                              .receives_once = true,
                                              .steps = ring_steps,
                                              .hop = ring_hop};
const struct tt_phase_kind tt_algo_ring_ag = {
    .reversible = true, .receives_once = true, .steps = ring_steps, .hop = ring_hop};

static tutti_status ring_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    return tt_algo_refuse_steps(2 * (uint64_t)a->problem.ranks, why);
}

static tutti_status ring_shape(const struct tt_algo_args *a, struct tt_shape *s,
                               struct tutti_error *err)
{
    (void)a;
    (void)err;
    tt_algo_phases_shape(s);
    return TUTTI_OK;
}

static void ring_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    (void)a;
    (void)rank;
    tt_algo_phases_slice(b, &tt_algo_ring_rs, &tt_algo_ring_ag);
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
