/* shd.h - shift halving-doubling: which blocks move in which step. Internal to src/algo.
 *
 * The members of a loop of n number blocks by their offset j = block - member (mod n). The
 * distances of the loop are d_1 = ceil(n/2), d_2 = ceil(d_1/2), .., 1 (level 0, 1, ..). Every
 * offset below n is a sum of some of them in one greedy way: take d_1 when it fits, then d_2, ...
 * Those sums are the digits of the offset. Step i of a reduce-scatter takes away the digit of one
 * level: an offset that has it set is sent by that distance and is then the offset without the
 * digit. Any order of the levels is right, for any n: leaving a digit out of a greedy sum gives the
 * greedy sum of a smaller number, which is an offset too (by induction: [0,n) is [0,d) and d +
 * [0,n-d) with n-d <= d, and the sums of [0,n-d) are among those of [0,d)). So after all levels
 * every contribution is at offset 0, its owner, added once. */
#ifndef TT_SHD_H
#define TT_SHD_H

#include "algo/algo.h"

enum { TT_SHD_LEVELS = 32, TT_SHD_DIMS = 2, TT_SHD_COPIES = 32 };

struct tt_shd_loop {
    uint32_t n, levels;           /* levels = ceil(log2 n) */
    uint32_t jump[TT_SHD_LEVELS]; /* falling */
};
struct tt_shd_loop tt_shd_loop_make(uint32_t n);

/* step[i]: the level that step i of the reduce-scatter takes away; the all-gather goes
 * backwards. */
struct tt_shd_order {
    uint8_t step[TT_SHD_LEVELS];
};

/* Offsets first + i*stride .. + len - 1, i < reps. */
struct tt_shd_run {
    uint32_t first, len, stride, reps;
};
typedef void (*tt_shd_sink)(void *ctx, const struct tt_shd_run *run);

/* The offsets that leave in a step, always in the same order of runs; at the receiver they are jump
 * less. Takes time in the number of runs: one, where the levels left are the lowest ones or n is a
 * power of two and the levels done lie together. */
void tt_shd_leaving(const struct tt_shd_loop *l, const struct tt_shd_order *o, uint32_t step,
                    tt_shd_sink sink, void *ctx);
/* The offsets that neither leave nor receive in step 0. */
void tt_shd_untouched(const struct tt_shd_loop *l, const struct tt_shd_order *o, tt_shd_sink sink,
                      void *ctx);

/* A digit of the rank number, rank / weight % size, whose members form loops. */
struct tt_shd_dim {
    uint32_t size, weight;
    struct tt_shd_loop loop;
    struct tt_shd_order order;
    /* so many steps at the head of the order cost the same, the least: copies rotate these */
    uint32_t cheapest;
};

/* What all ranks agree on, from problem, topology and options. Part p of every rank's block runs by
 * itself: direction p % directions (1: backwards), copy p / directions. */
struct tt_shd {
    uint32_t ranks, ndims; /* ndims 0: one rank */
    struct tt_shd_dim dim[TT_SHD_DIMS];
    bool turns; /* copies begin with either dimension; otherwise all begin with dim[0] */
    uint32_t directions, copies, parts;
};
tutti_status tt_shd_make(const struct tt_algo_args *a, struct tt_shd *ret, struct tutti_error *err);
/* The dimension that a part is on in phase i, and its order there. */
const struct tt_shd_dim *tt_shd_phase(const struct tt_shd *h, uint32_t part, uint32_t i,
                                      struct tt_shd_order *ret);
#endif
