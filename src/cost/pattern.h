/* pattern.h - inside of cost/: how much a link carries at each place of a rotational network,
 * and the maximum of it.
 *
 * Rank r's copy of rank 0's message has the chunks of rank 0's shifted by r*m, m = chunks/ranks.
 * The load of the links of one class is therefore one function of the place v: a sum of windows
 * of chunks, each shifted by v*m. A pattern is that sum, coded in terms
 *
 *     load(v) = sum over terms of weight * T(at + v*m),
 *     T(y+m) - T(y) = offset of chunk y (past the end: one more turn)
 *
 * so that a window is four terms, and so is a window that travels over any number of
 * neighbouring links. Arithmetic is modulo 2^64: the loads themselves fit (the caller checks an
 * upper bound), whatever the terms come to. */
#ifndef TT_COST_PATTERN_H
#define TT_COST_PATTERN_H

#include "sched/sched.h"

struct tt_term {
    uint32_t resource; /* for lists of several resources; 0 in patterns */
    uint32_t at;
    uint64_t weight; /* modulo 2^64 */
};

/* Neighbouring places first .. first+n-1 (modulo ranks) where a message of rank 0 is carried. */
struct tt_pattern_places {
    uint32_t resource, first, n;
};

/* A pattern without its place: `shift` is added to every `at`. TT_NO_PATTERN: unknown. */
struct tt_pattern_ref {
    uint32_t id, shift;
};
#define TT_NO_PATTERN UINT32_MAX

/* All different patterns met so far, each evaluated at most once. A pattern that would take too
 * long (counted, not timed) is declined, and when all work together exceeds the limit, all later
 * ones are. Callers then fall back on their upper bound. */
struct tt_patterns {
    uint32_t ranks, chunks, stride; /* stride: m in the formulas above */
    /* as in struct tt_bind; rest: elements after the last unit */
    uint64_t elem_bytes, quantum, units, rest;
    uint64_t *table;            /* T(0) .. T(4*chunks+2*stride) */
    struct tt_vec terms, known; /* terms of all patterns; struct known (pattern.c) */
    uint32_t *slots;            /* hash table of ids */
    size_t nslots;
    uint64_t work; /* work done so far */
    bool nomem;
};

/* b must have equal weights and a number of chunks that is a multiple of ranks; it is not needed
 * afterwards. */
tutti_status tt_cost_patterns_open(struct tt_patterns *p, const struct tt_bind *b, uint32_t ranks,
                                   struct tutti_error *err);
void tt_cost_patterns_close(struct tt_patterns *p); /* accepts a zeroed one */
/* Must no further patterns be evaluated? Too much work, or no memory (p->nomem). */
bool tt_cost_patterns_over(const struct tt_patterns *p);
/* Counts work; false if it exceeds the limit. */
bool tt_cost_patterns_spend(struct tt_patterns *p, uint64_t work);

/* Appends `weight` times the chunks of s (rank 0's) carried at these places. */
void tt_cost_terms_add(struct tt_patterns *p, struct tt_vec *terms,
                       const struct tt_pattern_places *at, const struct tt_span *s,
                       uint64_t weight);
/* Sorts by resource and place, merges equal places, drops terms that cancel out. */
void tt_cost_terms_join(struct tt_vec *terms);
/* Adds the pattern to *sum (sorted, one resource), or subtracts it (sign -1). */
void tt_cost_terms_merge(struct tt_patterns *p, struct tt_vec *sum, struct tt_pattern_ref ref,
                         int sign);
/* Finds or learns the pattern of n sorted terms of one resource. */
struct tt_pattern_ref tt_cost_patterns_find(struct tt_patterns *p, const struct tt_term *terms,
                                            size_t n);
/* The most bytes over all places; false if declined. */
bool tt_cost_patterns_max(struct tt_patterns *p, uint32_t id, uint64_t *ret_bytes);
/* Bytes at one place; false if declined. The first call per pattern computes all places. */
bool tt_cost_patterns_at(struct tt_patterns *p, struct tt_pattern_ref ref, uint32_t place,
                         uint64_t *ret_bytes);

/* pattern_max.c: the most elements over all places; the elements at each of the places 0 ..
 * ranks-1. false if declined. */
bool tt_cost_pattern_most(struct tt_patterns *p, const struct tt_term *terms, uint32_t n,
                          uint64_t *ret_elems);
bool tt_cost_pattern_values(struct tt_patterns *p, const struct tt_term *terms, uint32_t n,
                            uint64_t *ret_elems);
#endif
