/* topo_int.h - shared by the files of topo/ and by nothing else: the parsed spec, the layout of
 * regular cables, the routing tables. */
#ifndef TT_TOPO_INTERNAL_H
#define TT_TOPO_INTERNAL_H

#include "topo/topo.h"

enum {
    TT_TOPO_MAX_VERTICES = 1 << 24,
    TT_TOPO_MAX_PORTS = 1 << 16,
    TT_SPEC_MAX_TEXT = 1 << 20, /* characters */
    TT_SPEC_LEVELS = 64,        /* nesting of a tree, and bandwidths in its link part */
};
#define TT_TOPO_MAX_LATENCY_PS \
    UINT64_C(10000000000000) /* 10 s: a route of 2^20 links still fits 64 bits */
#define TT_TOPO_MIN_BW 1.0   /* bytes/s */
#define TT_TOPO_MAX_BW 1e18

/* ---- topo.c ---- */
/* Ends, bandwidths and latency of a link of t; the reason does not name the link. */
tutti_status tt_topo_link_check(const struct tt_topo *t, const struct tt_link *link,
                                struct tutti_error *err);
tutti_status tt_topo_gamma_check(double gamma, struct tutti_error *err);

/* ---- find.c ---- */
/* "rank N", "switch N" or a vertex's number; false: none of these. */
bool tt_topo_plain_vertex(const struct tt_topo *t, const char *text, uint32_t *ret);

/* ---- tree.c ---- */
/* parent, uplink, rank all UINT32_MAX */
tutti_status tt_topo_tree_new(uint32_t nnodes, struct tt_tree **ret, struct tutti_error *err);
/* accepts NULL */
void tt_topo_tree_free(struct tt_tree *tree);
/* Fills first and count from parent (which must not decrease). */
tutti_status tt_topo_tree_link(struct tt_tree *tree, struct tutti_error *err);
/* Every rank is a leaf once, inner nodes have children and are switches, uplinks join a node with
 * its parent. */
tutti_status tt_topo_tree_check(const struct tt_topo *t, struct tutti_error *err);

/* ---- the parsed spec (spec.c) ---- */
struct tt_spec {
    char *text; /* owned; the pieces below point into it */
    const char *kind;
    struct tt_vec args;        /* const char *: the positional parameters */
    const char *t, *h, *over;  /* values of key=value parameters, NULL when absent */
    struct tt_link link;       /* what every link is made from; a = b = 0 */
    double bw[TT_SPEC_LEVELS]; /* bandwidths of the link part; nbw >= 1 */
    uint32_t nbw;
    uint32_t ports;
    double gamma;
    uint64_t overhead_ps;
};
const char *tt_topo_spec_arg(const struct tt_spec *s, size_t i);
/* Exactly n positional parameters. */
tutti_status tt_topo_spec_want(const struct tt_spec *s, size_t n, struct tutti_error *err);
/* Parameter `what` given as `text`: a whole number in [min, max]; the error names all of these. */
tutti_status tt_topo_spec_count(const struct tt_spec *s, const char *what, const char *text,
                                const uint64_t range[2], uint32_t *ret, struct tutti_error *err);
/* "8x8x4" into dims[TT_TOPO_MAX_DIMS]; each at least 1, the product at most TT_TOPO_MAX_RANKS. */
tutti_status tt_topo_spec_dims(const struct tt_spec *s, const char *text, uint32_t *dims,
                               uint32_t *ret_ndims, struct tutti_error *err);
/* Refuses more than TT_TOPO_MAX_RANKS / TT_TOPO_MAX_LINKS with the number. */
tutti_status tt_topo_spec_limit(const struct tt_spec *s, uint64_t ranks, uint64_t links,
                                struct tutti_error *err);
/* Cuts text at `sep`, returns the piece without blanks around it and advances *rest (NULL at the
 * end). */
char *tt_topo_spec_cut(char **rest, char sep);

/* ---- kinds (kinds.c) and their generators (gen_*.c) ---- */
struct tt_maker {
    const char *keys; /* which of "t", "h", "over" it takes, as "t h" */
    /* not finished yet */
    tutti_status (*make)(const struct tt_spec *s, struct tt_topo **ret, struct tutti_error *err);
};
/* Index of a kind, or -1. */
int tt_topo_kind_find(const char *name);
const struct tt_maker *tt_topo_kind_maker(int kind);
/* "did you mean ...?" for an unknown kind. */
char *tt_topo_kind_near(const char *name, char *buf, size_t cap);
/* Whether a finished topology read from a file has the links of the kind it claims (loops, grids,
 * stars, fat-trees). */
tutti_status tt_topo_kind_check(const struct tt_topo *t, struct tutti_error *err);

/* A generator reads the parameters of the spec, checks them against the limits and returns a
 * topology with all its links that is not finished: spec.c adds ports, gamma and overhead and
 * finishes it. On failure nothing is left to free. */
tutti_status tt_topo_gen_star(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err);
tutti_status tt_topo_gen_ring(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err);
tutti_status tt_topo_gen_full(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err);
tutti_status tt_topo_gen_torus(const struct tt_spec *s, struct tt_topo **ret,
                               struct tutti_error *err);
tutti_status tt_topo_gen_mesh(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err);
tutti_status tt_topo_gen_hypercube(const struct tt_spec *s, struct tt_topo **ret,
                                   struct tutti_error *err);
tutti_status tt_topo_gen_dln(const struct tt_spec *s, struct tt_topo **ret,
                             struct tutti_error *err);
tutti_status tt_topo_gen_dln2d(const struct tt_spec *s, struct tt_topo **ret,
                               struct tutti_error *err);
tutti_status tt_topo_gen_dsn(const struct tt_spec *s, struct tt_topo **ret,
                             struct tutti_error *err);
tutti_status tt_topo_gen_fattree(const struct tt_spec *s, struct tt_topo **ret,
                                 struct tutti_error *err);
tutti_status tt_topo_gen_bigraph(const struct tt_spec *s, struct tt_topo **ret,
                                 struct tutti_error *err);
tutti_status tt_topo_gen_dragonfly(const struct tt_spec *s, struct tt_topo **ret,
                                   struct tutti_error *err);
tutti_status tt_topo_gen_tree(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err);
tutti_status tt_topo_gen_nics(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err);

/* The jumps of DLN(n, t), ascending, each at most n/2; returns how many (at most 33). */
uint32_t tt_topo_dln_jumps(uint32_t n, uint32_t t, uint32_t *jumps);

/* Ends of link i of an m-ary fat-tree of `levels` levels (numbered in gen_switched.c): ranks first,
 * then level by level upwards. */
struct tt_fattree {
    uint32_t arity, levels;
    uint32_t row;    /* switches per level: arity^(levels-1) */
    uint32_t ranks;  /* arity^levels */
    uint32_t nlinks; /* levels * ranks */
};
/* false: larger than TT_TOPO_MAX_RANKS */
bool tt_topo_fattree_make(uint64_t arity, uint64_t levels, struct tt_fattree *ret);
void tt_topo_fattree_ends(const struct tt_fattree *f, uint32_t i, uint32_t *ret_a, uint32_t *ret_b);

/* ---- regular cables (route_loop.c) ---- An axis is a set of parallel loops (or lines) of n
 * vertices: vertex = origin + (outer * n + c) * stride + inner. A class of cables joins every c
 * with c+jump. It has n cables per loop, n/2 when 2*jump = n (the jump is its own inverse), n-1 on
 * a line.
 *
 *     torus 2x3, first axis: n 2, stride 3      0  1  2     second axis: n 3, stride 1
 *                loops 0-3, 1-4, 2-5            3  4  5     loops 0-1-2, 3-4-5 */
struct tt_axis {
    uint32_t origin, total, n, stride;
    bool wrap;
};
/* The axes of a grid or circulant topology, first dimension first; returns how many. `axes` has
 * TT_TOPO_MAX_DIMS entries. */
uint32_t tt_topo_axes(const struct tt_topo *t, struct tt_axis *axes);
uint32_t tt_topo_axis_cables(const struct tt_axis *x, uint32_t jump);
void tt_topo_axis_ends(const struct tt_axis *x, uint32_t jump, uint32_t i, uint32_t *ret_a,
                       uint32_t *ret_b);

/* ---- routing tables (route.c and friends) ---- */
/* One axis, its classes of cables by ascending jump, and its table of next hops. */
struct tt_loop {
    struct tt_axis axis;
    uint32_t njumps, capacity;
    uint32_t *jump, *base; /* of each class: the jump, the id of its first link */
    uint16_t *next;        /* wrap: by remaining offset, 2 * class + (1: backwards) */
    uint32_t *dist;        /* wrap: links to this offset */
};

/* How shortest routes are found; route_shortest.c compares the three. */
enum tt_search { TT_SEARCH_TREE, TT_SEARCH_TABLE, TT_SEARCH_QUERY };

/* Made with the topology, read-only afterwards. Which members are used depends on the routing. */
struct tt_routes {
    uint32_t max; /* upper bound on the length of a route */
    uint32_t nloops;
    struct tt_loop loop[TT_TOPO_MAX_DIMS];
    struct tt_fattree fattree;
    enum tt_search search; /* TT_ROUTE_SHORTEST */
    /* TREE: vertices breadth-first from rank 0; CSR arc to the parent; distance to rank 0 */
    uint32_t *order, *up, *depth;
    /* TABLE, QUERY: the network without ranks that hang on one switch; arc id = CSR arc of t->g */
    struct tt_graph core;
    /* by vertex: its number in the core, UINT32_MAX for hanging ranks */
    uint32_t *index;
    /* TABLE: by core vertex its row, UINT32_MAX: no destination; next[row * core.n + at]: CSR
     * arc */
    uint32_t nrows, *row, *next;
};
tutti_status tt_topo_routes_make(struct tt_topo *t, struct tutti_error *err);
void tt_topo_routes_free(struct tt_routes *r); /* accepts NULL */

/* Checks that the links are those of loops, then makes the tables. */
tutti_status tt_topo_loops_make(const struct tt_topo *t, struct tt_routes *r,
                                struct tutti_error *err);
void tt_topo_loops_free(struct tt_routes *r);
/* Appends the route to links[0..]; returns its length, at most r->max. */
uint32_t tt_topo_loops_route(const struct tt_topo *t, uint32_t src, uint32_t dst, uint32_t *links);
uint32_t tt_topo_loop_distance(const struct tt_loop *l, uint32_t from, uint32_t to);

/* Chooses one of the searches by the size of the network and makes its tables. */
tutti_status tt_topo_shortest_make(const struct tt_topo *t, struct tt_routes *r,
                                   struct tutti_error *err);
void tt_topo_shortest_free(struct tt_routes *r);
tutti_status tt_topo_shortest_route(const struct tt_topo *t, uint32_t src, uint32_t dst,
                                    uint32_t *links, uint32_t *ret_len, struct tutti_error *err);
/* Like tt_graph_bfs, but stops once every vertex is reached: in dense cores long before every arc
 * was visited. */
void tt_topo_core_bfs(const struct tt_graph *core, uint32_t source, uint32_t *dist,
                      uint32_t *queue);
/* Where a rank's routes enter the core: its only switch, or the rank itself. */
uint32_t tt_topo_anchor(const struct tt_topo *t, uint32_t rank);
/* topo.c: h with all of m mixed in; h itself when there is no memory. */
uint64_t tt_topo_memory_hash(const struct tt_memory *m, uint64_t h);
#endif
