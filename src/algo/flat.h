/* flat.h - collectives in one step, every message from its source straight to its destination.
 * Internal to src/algo.
 *
 * All list the operations of b->rank at `step` on channel 0. With p > 1 chunks (p = ranks) chunk c
 * belongs to rank c. */
#ifndef TT_FLAT_H
#define TT_FLAT_H

#include "algo/algo.h"

/* Sends the own chunk, read from `in`, to all others; receives theirs in OUT; copies the own one
 * there when `in` is not OUT. */
void tt_algo_flat_all_gather(struct tt_builder *b, uint32_t step, uint32_t in);
void tt_algo_flat_gather(struct tt_builder *b, uint32_t step); /* IN r -> OUT at the root */
/* IN at the root -> OUT r at rank r */
void tt_algo_flat_scatter(struct tt_builder *b, uint32_t step);
/* IN at the root -> OUT everywhere, all chunks */
void tt_algo_flat_broadcast(struct tt_builder *b, uint32_t step);
/* chunk source*p + destination */
void tt_algo_flat_all_to_all(struct tt_builder *b, uint32_t step);

/* Receives `chunk` of every other rank into scratch (rank j's in scratch j) and adds all p
 * contributions to OUT in rank order, the own one read from IN. Call it after the rank's sends of
 * this step are listed. */
void tt_algo_flat_sum(struct tt_builder *b, uint32_t step, uint32_t chunk);
/* The p-1 other ranks in the order r+1, r+2, ..: so that in each round every rank is the target of
 * one sender. */
uint32_t tt_algo_flat_peer(const struct tt_builder *b, uint32_t d); /* rank + d modulo p */
#endif
