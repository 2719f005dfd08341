/* oracle.h - what the searches for cheapest trees share: distance.c (lengths from ranks), oracle.c
 * (spanning trees, arborescences) and shallow.c (trees that pay for their depth). */
#ifndef TT_ALGO_FOREST_ORACLE_H
#define TT_ALGO_FOREST_ORACLE_H

#include "algo/forest/forest.h"

struct heap_item {
    double dist;
    uint32_t vertex;
};
struct cable {
    double length;
    uint32_t link;
};

struct tt_forest_work {
    double *dist;              /* even: n; else ranks * n */
    uint32_t *via;             /* the directed link by which a vertex is reached */
    uint32_t *owner;           /* the rank whose region a vertex is in */
    double *between, *charged; /* not even: ranks * ranks */
    struct heap_item *heap;
    size_t nheap, heap_cap;
    bool nomem; /* the heap could not grow */
    struct cable *cables;
    uint32_t *set;    /* union-find of the ranks */
    uint32_t *parent; /* 4 * ranks: arborescences being compared, and the best */
};

/* distance.c: lengths */
uint32_t tt_forest_tail_of(const struct tt_topo *t, uint32_t d);
/* Appends the way to v from where `via` begins: links in order of travel. */
void tt_forest_append_way(const struct tt_topo *t, const uint32_t *via, uint32_t v,
                          struct tt_vec *links, bool *ok);
/* The way to the head of v's arc k through v, if that is shorter than what is known. */
void tt_forest_shorten(const struct tt_forest_net *n, const double *length, uint32_t v, uint32_t k,
                       bool up);
/* Entries are not moved up when a distance falls: the vertex is pushed again, and outdated entries
 * are recognised by their distance. */
void tt_forest_heap_push(struct tt_forest_work *w, double dist, uint32_t vertex);
struct heap_item tt_forest_heap_pop(struct tt_forest_work *w);
/* What a rank's sending side adds to every path. */
double tt_forest_sent_length(const struct tt_forest_net *n, const double *length, uint32_t r);
/* What the rank at its end adds to a path; `up`: that of an in-tree. */
double tt_forest_taken_length(const struct tt_forest_net *n, const double *length, uint32_t r,
                              bool up);
/* Distances from the ranks first..last, all at once, through switches. From a single rank other
 * ranks are reached too; from several, only regions matter. */
void tt_forest_spread(const struct tt_forest_net *n, const double *length, uint32_t first,
                      uint32_t last, double *dist, uint32_t *via);

/* oracle.c, shallow.c: trees */
/* Hands the lists over to the tree, or frees them. */
tutti_status tt_forest_tree_done(struct tt_vec *edges, struct tt_vec *links, bool ok,
                                 struct tt_forest_tree *ret, struct tutti_error *err);
/* The rank with the cheapest link; *ret_typical: the mean of that over all ranks, both ends
 * counted. */
uint32_t tt_forest_cheapest_rank(const struct tt_forest_net *n, const double *length,
                                 double *ret_typical);
/* Invariant: set[r] is the depth of joined ranks, UINT32_MAX of the others. */
tutti_status tt_forest_shallow_tree(const struct tt_forest_net *n, const struct tt_forest_query *q,
                                    struct tt_forest_tree *ret, struct tutti_error *err);

#endif
