/* forest.h - shared by the files of the forest synthesiser: the network as limited resources, trees
 * on it, and the packing found.
 *
 * A tree joins all ranks; its edges are messages between ranks, each over a path whose inner
 * vertices are switches. In a network that is as fast there as back (`even`) one undirected tree
 * serves both phases: reduce towards its root, broadcast from it, so that every edge is used once
 * in each direction. Otherwise, and for reduce-scatter and all-gather alone, trees are directed.
 * Internal to src/algo. */
#ifndef TT_FOREST_H
#define TT_FOREST_H

#include "algo/algo.h"

enum {
    TT_FOREST_TREES = 64,
    TT_FOREST_MOST_TREES = 256,
    TT_FOREST_COPIES = 128,
    TT_FOREST_RANKS = 1024,
    TT_FOREST_UNEVEN_RANKS = 192
};

/* The limited resources. Even: a cable carries each tree once per direction (half duplex: twice, so
 * it counts with half its speed). Else: each direction of a cable, both together when half duplex.
 * Then ranks whose ports carry less than their links, and ranks that add more slowly than their
 * links bring in. */
struct tt_forest_net {
    const struct tt_topo *t;
    bool even;
    uint32_t nres;
    double *cap; /* per resource, in units of the fastest link */
    double unit; /* bytes/s of that link */
    /* resource of a rank's sending, receiving side; UINT32_MAX: not limited. Even: the same for
     * both */
    uint32_t *port[2];
    uint32_t *sums;           /* resource of a rank's additions; UINT32_MAX: not limited */
    uint32_t *of_link;        /* resource of a directed link */
    struct tt_forest_work *w; /* scratch of the oracles */
};
tutti_status tt_forest_net_open(const struct tt_topo *t, bool even, struct tt_forest_net *ret,
                                struct tutti_error *err);
void tt_forest_net_close(struct tt_forest_net *n);

/* Resources that a message asks of the rank r that takes it in; `up`: r adds it to its own. Returns
 * how many. */
uint32_t tt_forest_taken_in(const struct tt_forest_net *n, uint32_t r, bool up, uint32_t ret[2]);

/* A message a -> b over links[first .. first+n-1] (directed, in that order). In an undirected tree
 * either direction. */
struct tt_forest_edge {
    uint32_t a, b, first, n;
};
struct tt_forest_tree {
    uint32_t root;
    uint32_t nedges, nlinks;
    struct tt_forest_edge *edges;
    uint32_t *links;
};
void tt_forest_tree_free(struct tt_forest_tree *t);

/* One share of the vector: `up` sums it at the root, `down` hands it out. Even networks: `down`
 * only, used both ways. */
struct tt_forest_pair {
    struct tt_forest_tree up, down;
    double weight;          /* share of the vector per time unit, then normalised */
    uint32_t copies, parts; /* chunks that travel on it, and the integer weight of each */
};
void tt_forest_pair_free(struct tt_forest_pair *p);

enum tt_pack_kind { TT_FOREST_BOTH, TT_FOREST_UP, TT_FOREST_DOWN };
enum tt_pack_kind tt_forest_kind_of(tutti_coll c);

/* Adds `by` to load[] for every use of a resource. */
void tt_forest_load(const struct tt_forest_net *n, const struct tt_forest_pair *p, double by,
                    double *load);

/* ---- oracle.c: cheapest trees under resource lengths ---- */
struct tt_forest_work;
bool tt_forest_work_make(struct tt_forest_net *n); /* n->w; false: out of memory */
void tt_forest_work_free(struct tt_forest_work *w);
/* The cheapest pair (BOTH), or tree of `root` (UP, DOWN) under lengths[nres]; *ret_cost its length.
 * `ret` is filled when not NULL. */
struct tt_forest_query {
    enum tt_pack_kind kind;
    /* candidates root, root + ranks/roots, ..; roots = ranks: all. Not used in even networks */
    uint32_t root, roots;
    const double *length;
    /* 0, or the charge of a step away from the root, as a share of a typical edge; then the tree is
     * not the cheapest */
    double shallow;
};
tutti_status tt_forest_cheapest(const struct tt_forest_net *n, const struct tt_forest_query *q,
                                struct tt_forest_pair *ret, double *ret_cost,
                                struct tutti_error *err);
/* The cheapest way from a source rank to a target rank; its links are appended. False: there is
 * none (or no memory). */
enum tt_pack_role { TT_FOREST_NEITHER, TT_FOREST_SOURCE, TT_FOREST_TARGET };
bool tt_forest_way(const struct tt_forest_net *n, const double *length, const uint8_t *role,
                   bool up, struct tt_forest_edge *ret, struct tt_vec *links);

/* Even networks: the cheapest ways from hub to all others, through switches alone; no edges where
 * some rank cannot be reached so. */
tutti_status tt_forest_star(const struct tt_forest_net *n, uint32_t hub, const double *length,
                            struct tt_forest_tree *ret, struct tutti_error *err);

/* ---- swap.c: trees changed edge by edge until no resource is asked for more than its limit
 * ---- */
/* The pairs count `copies` times each; those of one copy may be changed. Stops when work runs out:
 * *ret_excess is the remaining load beyond the limits. The pairs are trees at all times. */
tutti_status tt_forest_swap(const struct tt_forest_net *n, struct tt_forest_pair *pairs,
                            size_t npairs, const uint32_t *limit, uint64_t *work,
                            uint64_t *ret_excess, struct tutti_error *err);

/* ---- lp.c: the best weights of given columns, with prices ---- */
struct tt_forest_lp;
struct tt_forest_lp *tt_forest_lp_make(uint32_t rows, uint32_t most); /* NULL: out of memory */
void tt_forest_lp_free(struct tt_forest_lp *lp);
/* A column with use[rows] of each row (rows are limited to 1). False when there are `most`
 * already. */
bool tt_forest_lp_add(struct tt_forest_lp *lp, const double *use);
/* Maximises the sum of the weights; false when pivots ran out (the weights are feasible all the
 * same). */
bool tt_forest_lp_solve(struct tt_forest_lp *lp, uint64_t *work);
/* per column; returns their sum */
double tt_forest_lp_weights(const struct tt_forest_lp *lp, double *weight);
void tt_forest_lp_prices(const struct tt_forest_lp *lp, double *price); /* per row, >= 0 */

/* ---- pack.c ---- */
struct tt_forest_packing {
    uint32_t npairs;
    struct tt_forest_pair *pairs;
    bool even;
    /* bytes/s of the whole vector that the weights allow on the busiest resource */
    double rate;
    double dual_rate; /* no schedule of tree pairs has more (UP, DOWN: 0, the cut bound tells) */
};
void tt_forest_packing_free(struct tt_forest_packing *p);
tutti_status tt_forest_make(const struct tt_topo *t, enum tt_pack_kind kind, uint32_t trees,
                            struct tt_forest_packing *ret, struct tutti_error *err);
uint32_t tt_forest_per_root(uint32_t trees, uint32_t ranks); /* UP, DOWN: trees of each root */
/* Work of that, in units of the planning budget. */
uint64_t tt_forest_work_guess(const struct tt_topo *t, enum tt_pack_kind kind, uint32_t trees);
bool tt_forest_is_even(const struct tt_topo *t);
/* Is there a rank that adds more slowly than its links bring in? */
bool tt_forest_sums_matter(const struct tt_topo *t);
/* Does one undirected tree serve both phases of this kind? */
bool tt_forest_undirected(const struct tt_topo *t, enum tt_pack_kind kind);
/* how many at most: the option, or by the number of ranks */
uint32_t tt_forest_trees(const struct tt_algo_args *a);

/* ---- list.c: the operations ---- */
void tt_forest_list(const struct tt_forest_packing *p, const struct tt_algo_args *a,
                    struct tt_builder *b);
#endif
