/* flex.h - the parts of the flex algorithm: hierarchy, shares, cells, messages. Internal to
 * src/algo and its tests.
 *
 * A hierarchy is a rooted tree whose leaves are the ranks; every node but the root has an uplink.
 * Nodes with one child are left out here. The data of a group are spread over its ranks: the vector
 * [0, 1) is cut in cells, and for each cell one rank of the group, its representative, has the sum
 * over the group. flex.c describes how the groups of a level become one. */
#ifndef TT_FLEX_H
#define TT_FLEX_H

#include "algo/algo.h"

struct tt_flex_node {
    uint32_t parent;       /* UINT32_MAX for the root, which is node 0 */
    uint32_t first, count; /* children: consecutive; count 0: a leaf, otherwise at least 2 */
    uint32_t rank;         /* of a leaf; else UINT32_MAX */
    uint32_t leaves;       /* ranks below */
    uint32_t height;       /* 0: a leaf */
    /* bytes/s of the uplink each way while both ways are busy; the root: infinite */
    double bw;
    /* the part that this child keeps of what its parent's group keeps; siblings add up to 1 */
    double share;
    double cap; /* shares.c: room on the links below and above, see there */
};

struct tt_flex_tree {
    uint32_t nnodes;
    struct tt_flex_node *node; /* parents before children */
};

/* ---- tree.c ---- */
/* The hierarchy of a network: its own, or that of a network that is a tree of switches with the
 * ranks as leaves, rooted in its middle. TUTTI_ERR_REFUSED with the reason when there is none.
 * Shares are not set. */
tutti_status tt_flex_tree_make(const struct tt_topo *t, struct tt_flex_tree *ret,
                               struct tutti_error *why);
void tt_flex_tree_free(struct tt_flex_tree *t);

/* ---- shares.c ---- */
enum tt_flex_shares {
    TT_FLEX_OPTIMAL,
    TT_FLEX_EVEN,
    TT_FLEX_BRANCH,
    TT_FLEX_LEADER,
    TT_FLEX_BROKE
};
/* Sets the shares of all nodes. Optimal: the least time of tt_flex_time, and among those shares as
 * equal as can be. Even: the same per rank. Branch: the same per child. Leader and broke: the same
 * per child, but in groups of ranks (hosts) only the first keeps something, or as many of the first
 * as the smallest such group has. */
void tt_flex_share(struct tt_flex_tree *t, enum tt_flex_shares how);
/* What the uplink of node v carries outwards and inwards in a reduce-scatter with direct messages,
 * as parts of the vector. */
void tt_flex_load(const struct tt_flex_tree *t, uint32_t v, double *ret_out, double *ret_in);
/* Seconds per byte of an all-reduce: overlapped, the largest (out + in) / bw; otherwise twice the
 * largest max(out, in) / bw. */
double tt_flex_time(const struct tt_flex_tree *t, bool overlapped);

/* ---- cells.c ---- */
/* How the group of a node has the vector: cell i ends at end[i] (the last at 1) and lies with rank
 * rep[i]. `lower[i]`: which cell of this node has cell i of its parent. */
struct tt_flex_cells {
    uint32_t n;
    double *end;
    uint32_t *rep;
    uint32_t *kept;  /* inner nodes: the child (0 .. count-1) whose representative keeps the cell */
    uint32_t *lower; /* not at the root */
};
enum { TT_FLEX_MAX_CELLS = 1 << 18 };
/* An array of nnodes. TUTTI_ERR_REFUSED when the vector falls in too many cells. */
tutti_status tt_flex_cells_make(const struct tt_flex_tree *t, struct tt_flex_cells **ret,
                                struct tutti_error *why);
/* accepts NULL */
void tt_flex_cells_free(const struct tt_flex_tree *t, struct tt_flex_cells *cells);
/* Integer weights of the root's cells: exact when their lengths are fractions with a small common
 * denominator. All equal: NULL. */
tutti_status tt_flex_weights(const struct tt_flex_cells *root, uint32_t **ret,
                             struct tutti_error *err);

/* ---- runs.c ---- */
/* Chunks first .. first+len-1 go from src to dst in a step of the reduce-scatter: read from `from`,
 * and at the destination added to `add` into `to`, or (add is TT_FLEX_APART) only put there,
 * because others arrive with them. The all-gather is the same backwards. */
enum { TT_FLEX_APART = 0xffffffff };
struct tt_flex_run {
    uint32_t step, src, dst, first, len;
    uint32_t from, to, add;
};
/* A rank adds what arrived apart: all children of a group in order into `to`, its own part (child
 * `own`) being read from `add`. */
struct tt_flex_sum {
    uint32_t step, rank, first, len;
    uint32_t to, add, own, children;
};
/* What is to be listed. Blocks: the whole runs several times, on equal parts of the vector, each
 * one step behind the one before. */
struct tt_flex_plan {
    struct tt_flex_tree tree;
    struct tt_flex_cells *cells;
    bool circulant;
    bool scatter; /* no all-gather follows: OUT of foreign chunks does not exist */
    uint32_t blocks;
    uint32_t steps;         /* of the reduce-scatter */
    uint32_t top;           /* first step of the root's group */
    struct tt_vec run, sum; /* struct tt_flex_run, struct tt_flex_sum */
};
/* scratch: partial sums; then the children's parts, one buffer each */
enum { TT_FLEX_SUM = TT_BUF_SCRATCH, TT_FLEX_ARRIVALS };
uint32_t tt_flex_steps(const struct tt_flex_tree *t, bool circulant, uint32_t blocks);
tutti_status tt_flex_runs_make(struct tt_flex_plan *p, struct tutti_error *err);

/* ---- emit.c ---- */
/* Lists all ranks, by the runs of p. */
void tt_flex_emit(struct tt_flex_plan *p, struct tt_builder *b);
#endif
