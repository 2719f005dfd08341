/* fold.c - which rank has which role when the count is not a power of two; fold.h draws the rule.
 *
 * Both maps are monotone, so that a range of core ranks is a range of chunks and rank order is core
 * order. */
#include "algo/fold.h"

struct tt_fold tt_algo_fold_make(uint32_t ranks, uint32_t rank)
{
    uint32_t core = (uint32_t)tt_floor_pow2(ranks), extra = ranks - core;
    bool paired = rank < 2 * extra;
    return (struct tt_fold){
        .core = core,
        .extra = extra,
        .idle = paired && rank % 2 == 0,
        .doubled = paired && rank % 2 == 1,
        .me = paired ? rank / 2 : rank - extra,
    };
}

uint32_t tt_algo_fold_rank(const struct tt_fold *f, uint32_t core_rank)
{
    return core_rank < f->extra ? 2 * core_rank + 1 : core_rank + f->extra;
}

uint32_t tt_algo_fold_chunk(const struct tt_fold *f, uint32_t core_rank)
{
    return core_rank + (core_rank < f->extra ? core_rank : f->extra);
}
