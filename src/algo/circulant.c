/* circulant.c - reduce-scatter and all-gather in ceil(log2 p) steps each for any number of ranks, with the fewest bytes (Traeff 2024).
 *
 * Rank r names chunks by their offset j = chunk - r (mod p). Each step of the reduce-scatter keeps the first half of the live offsets,
 * rounded up, and sends the rest, offsets s .. c-1 with s = ceil(c/2), to rank r+s, where they are offsets 0 .. c-1-s. The
 * all-gather does the same steps backwards. A message is one cyclic range of chunks: at most two spans, no packing, no rotation.
 *
 *     p = 5, rank 0 (rank r: add r to all numbers, modulo 5)
 *          step   sends           to     receives and adds   from
 *            0    chunks 3,4      3      chunks 0,1           2        c = 5 -> 3
 *            1    chunk  2        2      chunk  0             3        c = 3 -> 2
 *            2    chunk  1        1      chunk  0             4        c = 2 -> 1; chunk 0 is complete
 *            3    chunk  0        4      chunk  1             1
 *            4    chunk  0        3      chunk  2             2
 *            5    chunks 0,1      2      chunks 3,4           3
 *
 * Cost: 2 ceil(log2 p) steps, 2(p-1)/p of the vector sent per rank, (p-1)/p reduced; the largest messages go farthest. In each step a
 * rank waits for one other. All ranks do the same, shifted, so that no rank is special whatever p is. Each chunk is summed at its
 * owner's side once: all ranks get the same bits; for p = 2^q every chunk has the same summation tree as in halving-doubling.
 * The invariants are stated in pieces.c, which lists the steps. */
#include "algo/algos.h"
#include "algo/pieces.h"

static tutti_status circulant_shape(const struct tt_algo_args *a, struct tt_shape *s, struct tutti_error *err)
{
    (void)a;
    (void)err;
    tt_pieces_shape(s);
    return TUTTI_OK;
}

static void circulant_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    (void)a;
    (void)rank;
    tt_pieces_slice(b, TT_CIRCULANT_RS, TT_CIRCULANT_AG);
}

const struct tt_algo tt_algo_circulant = {
    .name = "circulant",
    .desc = "fewest bytes in 2 ceil(log2 p) steps for any number of ranks, at most two spans per message",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .shape = circulant_shape,
    .slice = circulant_slice,
};
