/* algos.h - the algorithms themselves, one per file, and what the table needs of them. Internal to
 * src/algo. */
#ifndef TT_ALGOS_H
#define TT_ALGOS_H

#include "algo/algo.h"

/* TT_COLLS(a) | TT_COLLS(b): the bit set of `colls`. */
#define TT_COLLS(id) (1u << TUTTI_##id)

extern const struct tt_algo tt_algo_ring;
extern const struct tt_algo tt_algo_bi_ring;
extern const struct tt_algo tt_algo_recursive_doubling;
extern const struct tt_algo tt_algo_halving_doubling;
extern const struct tt_algo tt_algo_circulant;
extern const struct tt_algo tt_algo_direct;
extern const struct tt_algo tt_algo_double_tree;
extern const struct tt_algo tt_algo_bucket;
extern const struct tt_algo tt_algo_hierarchical;
extern const struct tt_algo tt_algo_swing;
extern const struct tt_algo tt_algo_chain;
extern const struct tt_algo tt_algo_binomial;
extern const struct tt_algo tt_algo_oneshot;
extern const struct tt_algo tt_algo_multitree;
extern const struct tt_algo tt_algo_shd;
extern const struct tt_algo tt_algo_hdrm;
extern const struct tt_algo tt_algo_flex;
extern const struct tt_algo tt_algo_forest;
#endif
