/* pack.h - shared by the two ways of packing: trees of equal weight (equal.c) and weights from a
 * linear program (pack.c). Internal to the forest. */
#ifndef TT_FOREST_PACK_H
#define TT_FOREST_PACK_H

#include "algo/forest/forest.h"

struct tt_forest_packer {
    struct tt_forest_net net;
    enum tt_pack_kind kind;
    struct tt_vec pairs; /* struct tt_forest_pair */
    uint32_t per_root;   /* UP, DOWN: trees of each root */
    double *load, *length, *best_length, *use;
    uint32_t *limit;
    /* smallest bound so far, in units of the fastest link; best_length proves it (its sum with the
     * capacities is 1) */
    double dual;
    uint64_t work; /* still allowed, in about nanoseconds */
};

struct tt_forest_pair *tt_forest_packer_pair(const struct tt_forest_packer *k, size_t i);
void tt_forest_packer_free_pairs(struct tt_vec *pairs);
/* largest load / capacity */
double tt_forest_packer_busiest(const struct tt_forest_packer *k, const double *load);
/* recomputes load[] from the pairs and their copies */
void tt_forest_packer_reload(struct tt_forest_packer *k);
uint64_t tt_forest_packer_query_work(const struct tt_forest_packer *k, uint32_t roots);
bool tt_forest_packer_spend(struct tt_forest_packer *k, uint64_t work);
/* The cheapest pair under `length`; what that proves is remembered in dual. */
tutti_status tt_forest_packer_ask(struct tt_forest_packer *k, const struct tt_forest_query *q,
                                  struct tt_forest_pair *ret, double *ret_cost,
                                  struct tutti_error *err);

/* ---- equal.c ---- */
enum { TT_FOREST_ROUNDS = 12 };
/* Lays trees of equal weight into k->pairs, which must be empty. Roots: see struct
 * tt_forest_packer. */
tutti_status tt_forest_lay(struct tt_forest_packer *k, uint32_t trees, struct tutti_error *err);
/* UP, DOWN: the best number of trees per root up to `most`. */
tutti_status tt_forest_equal_rooted(struct tt_forest_packer *k, uint32_t most,
                                    struct tutti_error *err);
/* BOTH: the best found of at most `trees` different trees whose copies have equal weights, into
 * *best (empty before, or the best of a former call with its rate); k->pairs is empty before and
 * after. */
tutti_status tt_forest_equal(struct tt_forest_packer *k, uint32_t trees, struct tt_vec *best,
                             double *best_rate, struct tutti_error *err);

/* pack_weigh.c; at most TT_FOREST_GENERATED trees are added to those that were laid */
enum { TT_FOREST_GENERATED = 600 };
/* Weights from the program, then fewer and fewer trees until there are at most `trees`. */
tutti_status tt_forest_pack_weigh(struct tt_forest_packer *k, uint32_t trees, double *ret_rate,
                                  struct tutti_error *err);

#endif
