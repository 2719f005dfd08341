/* pack.h - what the two ways of packing share: trees of equal weight (equal.c) and weights from a linear program
 * (pack.c). Internal to the forest. */
#ifndef TT_FOREST_PACK_H
#define TT_FOREST_PACK_H

#include "algo/forest/forest.h"

struct tt_packer {
    struct tt_pack_net net;
    enum tt_pack_kind kind;
    struct tt_vec pairs; /* struct tt_pack_pair */
    uint32_t per_root;   /* UP, DOWN: trees of each root */
    double *load, *length, *best_length, *use;
    uint32_t *limit;
    double dual;   /* smallest bound so far, in units of the fastest link; best_length proves it (its sum with the capacities is 1) */
    uint64_t work; /* still allowed, in about nanoseconds */
};

struct tt_pack_pair *tt_packer_pair(const struct tt_packer *k, size_t i);
void tt_packer_free_pairs(struct tt_vec *pairs);
double tt_packer_busiest(const struct tt_packer *k, const double *load); /* largest load / capacity */
void tt_packer_reload(struct tt_packer *k);                              /* load[] anew, from the pairs and their copies */
uint64_t tt_packer_query_work(const struct tt_packer *k, uint32_t roots);
bool tt_packer_spend(struct tt_packer *k, uint64_t work);
/* The cheapest pair under `length`; what that proves is remembered in dual. */
tutti_status tt_packer_ask(struct tt_packer *k, const struct tt_pack_query *q, struct tt_pack_pair *ret, double *ret_cost,
                           struct tutti_error *err);

/* ---- equal.c ---- */
enum { TT_PACK_ROUNDS = 12 };
/* Lays trees of equal weight into k->pairs, which must be empty. Roots: see struct tt_packer. */
tutti_status tt_pack_lay(struct tt_packer *k, uint32_t trees, struct tutti_error *err);
/* UP, DOWN: the best number of trees per root up to `most`. */
tutti_status tt_pack_equal_rooted(struct tt_packer *k, uint32_t most, struct tutti_error *err);
/* BOTH: the best found of at most `trees` different trees whose copies have equal weights, into *best (empty before, or the best of a
 * former call with its rate); k->pairs is empty before and after. */
tutti_status tt_pack_equal(struct tt_packer *k, uint32_t trees, struct tt_vec *best, double *best_rate, struct tutti_error *err);
#endif
