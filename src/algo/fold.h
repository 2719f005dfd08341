/* fold.h - rank counts that are not powers of two, for algorithms that work on 2^q ranks. Internal
 * to src/algo.
 *
 * p = 2^q + x: the ranks below 2x form pairs (2i, 2i+1). The even one hands its data to the odd
 * one, which is core rank i, and gets the result back at the end; ranks from 2x on are core ranks
 * r-x. Core rank v represents chunks v + min(v, x) and, when v < x, the next.
 *
 *     p = 5: q = 2, x = 1      rank  0  1  2  3  4       core rank   0    1  2  3
 *                              core  -  0  1  2  3       chunks     0,1   2  3  4 */
#ifndef TT_FOLD_H
#define TT_FOLD_H

#include "algo/algo.h"

struct tt_fold {
    uint32_t core;  /* 2^q */
    uint32_t extra; /* x */
    bool idle;      /* this rank handed its data over to rank+1 */
    bool doubled;   /* this rank also represents rank-1 */
    uint32_t me;    /* core rank; of an idle rank: its partner's */
};
struct tt_fold tt_algo_fold_make(uint32_t ranks, uint32_t rank);
/* the rank that is this core rank */
uint32_t tt_algo_fold_rank(const struct tt_fold *f, uint32_t core_rank);
/* the first chunk it represents; core: the number of ranks */
uint32_t tt_algo_fold_chunk(const struct tt_fold *f, uint32_t core_rank);
#endif
