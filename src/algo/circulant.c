/* circulant.c - reduce-scatter and all-gather in ceil(log2 p) steps each for any number of ranks,
 * with the fewest bytes (Traeff 2024).
 *
 * Rank r names chunks by their offset j = chunk - r (mod p). Each step of the reduce-scatter keeps
 * the first half of the live offsets, rounded up, and sends the rest, offsets s .. c-1 with s =
 * ceil(c/2), to rank r+s, where they are offsets 0 .. c-1-s. The all-gather does the same steps
 * backwards. A message is one cyclic range of chunks: at most two spans, no packing, no rotation.
 *
 *     p = 5, rank 0 (rank r: add r to all numbers, modulo 5)
 *          step   sends           to     receives and adds   from
 *            0    chunks 3,4      3      chunks 0,1           2     c = 5 -> 3
 *            1    chunk  2        2      chunk  0             3     c = 3 -> 2
 *            2    chunk  1        1      chunk  0             4     c = 2 -> 1; chunk 0 is complete
 *            3    chunk  0        4      chunk  1             1
 *            4    chunk  0        3      chunk  2             2
 *            5    chunks 0,1      2      chunks 3,4           3
 *
 * Cost: 2 ceil(log2 p) steps, 2(p-1)/p of the vector sent per rank, (p-1)/p reduced; the largest
 * messages go farthest. In each step a rank waits for one other. All ranks do the same, shifted, so
 * no rank is special whatever p is. Each chunk is summed at its owner's side once: all ranks get
 * the same bits; for p = 2^q every chunk has the same summation tree as in halving-doubling.
 *
 * Invariant of the reduce-scatter: before step t offsets 0 .. ceil(n/2^t)-1 hold partial sums that
 * together, over all members, have every contribution once; all other offsets are spent. Invariant
 * of the all-gather: before step t of q offsets 0 .. ceil(n/2^(q-t))-1 are complete. */
#include <assert.h>

#include "algo/algos.h"
#include "algo/phases.h"

static uint32_t circulant_steps(uint32_t n)
{
    return tt_ceil_log2(n);
}

/* ceil(n / 2^t) */
static uint32_t offsets_left(uint32_t n, uint32_t t)
{
    return (uint32_t)(((uint64_t)n + (1ull << t) - 1) >> t);
}

/* The reduce-scatter moves offsets s..c-1 from member i to i+s, where they are offsets 0..c-s-1;
 * the all-gather moves them back. */
static struct tt_hop circulant_hop(const struct tt_phase *p, uint32_t t, bool send)
{
    const struct tt_group *g = &p->group;
    assert(t < tt_ceil_log2(g->n));
    uint32_t level = p->kind->reduces ? t : tt_ceil_log2(g->n) - 1 - t;
    uint32_t c = offsets_left(g->n, level), s = offsets_left(g->n, level + 1);
    /* the far end of the pair: offsets s..c-1 here, peer i+s */
    bool far = send == p->kind->reduces;
    assert(s < c && c - s <= s);
    return (struct tt_hop){
        .peer = tt_algo_group_rank(g, far ? tt_algo_group_after(g, g->me, s)
                                          : tt_algo_group_before(g, g->me, s)),
        .block = far ? tt_algo_group_after(g, g->me, s) : g->me,
        .n = c - s,
    };
}

/* With an odd number of members the middle offset receives nothing in the first step. */
static bool circulant_carried(const struct tt_group *g, uint32_t *ret_block)
{
    *ret_block = tt_algo_group_after(g, g->me, g->n / 2);
    return g->n % 2 == 1;
}

const struct tt_phase_kind tt_algo_circulant_rs = {
    .reduces = true, .steps = circulant_steps, .hop = circulant_hop, .carried = circulant_carried};
const struct tt_phase_kind tt_algo_circulant_ag = {.steps = circulant_steps, .hop = circulant_hop};

static tutti_status circulant_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                    struct tutti_error *err)
{
    (void)a;
    (void)err;
    tt_algo_phases_shape(s);
    return TUTTI_OK;
}

static void circulant_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    (void)a;
    (void)rank;
    tt_algo_phases_slice(b, &tt_algo_circulant_rs, &tt_algo_circulant_ag);
}

const struct tt_algo tt_algo_circulant = {
    .name = "circulant",
    .desc = "fewest bytes in 2 ceil(log2 p) steps for any number of ranks, at most two spans per "
            "message",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .shape = circulant_shape,
    .slice = circulant_slice,
};
