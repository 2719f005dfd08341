/* tree.c - the hierarchy of a network: which ranks are behind which switch, as a rooted tree.
 *
 * Nodes are numbered breadth-first, so that the children of a node are consecutive and parents
 * never decrease:
 *
 *     (2 1)            node 0           parent -  0 0  1 1 2
 *                     /      \          first  1  3 5
 *                    1        2         count  2  2 1  0 0 0
 *                   3 4       5         rank   -  - -  0 1 2
 *
 * Leaves are ranks, inner nodes are switches; the switch of an inner node is the other end of its
 * children's uplinks. */
#include "topo/topo_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* UINT32_MAX everywhere: no rank, no parent, no uplink. */
tutti_status tt_topo_tree_new(uint32_t nnodes, struct tt_tree **ret, struct tutti_error *err)
{
    struct tt_tree *t = tt_zalloc(1, sizeof *t);
    if (!t)
        return tt_fail_memory(err, "hierarchy");
    t->nnodes = nnodes;
    t->first = tt_zalloc(nnodes, sizeof *t->first);
    t->count = tt_zalloc(nnodes, sizeof *t->count);
    t->rank = tt_alloc(nnodes, sizeof *t->rank);
    t->parent = tt_alloc(nnodes, sizeof *t->parent);
    t->uplink = tt_alloc(nnodes, sizeof *t->uplink);
    if (!t->first || !t->count || !t->rank || !t->parent || !t->uplink) {
        tt_topo_tree_free(t);
        return tt_fail_memory(err, "hierarchy");
    }
    memset(t->rank, 0xff, nnodes * sizeof *t->rank);
    memset(t->parent, 0xff, nnodes * sizeof *t->parent);
    memset(t->uplink, 0xff, nnodes * sizeof *t->uplink);
    *ret = t;
    return TUTTI_OK;
}

void tt_topo_tree_free(struct tt_tree *t)
{
    if (!t)
        return;
    free(t->first);
    free(t->count);
    free(t->rank);
    free(t->parent);
    free(t->uplink);
    free(t);
}

/* Breadth-first numbering makes children consecutive, so the first and their number suffice. */
tutti_status tt_topo_tree_link(struct tt_tree *t, struct tutti_error *err)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < t->nnodes; i++) {
        uint32_t p = t->parent[i];
        if (p >= i || p < last)
            return tt_fail(
                err, TUTTI_ERR_RANGE,
                "tree node %u has parent %u; parents must be earlier nodes and never decrease", i,
                p);
        assert(p < t->nnodes);
        if (t->count[p]++ == 0)
            t->first[p] = i;
        last = p;
    }
    return TUTTI_OK;
}

/* Children have higher numbers than their parent, and nodes are checked from the last to the first:
 * vertex[i] of an inner node is known once its children were checked. */
static tutti_status check_node(const struct tt_topo *t, uint32_t i, uint32_t *vertex,
                               struct tutti_error *err)
{
    const struct tt_tree *tree = t->tree;
    uint32_t p = tree->parent[i], up = tree->uplink[i];
    assert(p < i && vertex[i] != UINT32_MAX); /* its children, or its rank, came before */
    if (up >= t->nlinks)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "tree node %u has uplink %u, but there are only %u links", i, up, t->nlinks);
    const struct tt_link *l = &t->links[up];
    if (l->a != vertex[i] && l->b != vertex[i])
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "uplink %u of tree node %u does not end at the node's own rank or switch",
                       up, i);
    uint32_t other = l->a == vertex[i] ? l->b : l->a;
    if (other < t->ranks || (vertex[p] != UINT32_MAX && vertex[p] != other))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "uplink %u of tree node %u does not lead to the switch of its parent %u", up,
                       i, p);
    vertex[p] = other;
    return TUTTI_OK;
}

/* Fills vertex with the ranks of leaves; inner nodes stay UINT32_MAX. */
static tutti_status check_leaves(const struct tt_topo *t, uint32_t *vertex, struct tutti_error *err)
{
    const struct tt_tree *tree = t->tree;
    uint32_t leaves = 0;
    tutti_status st = TUTTI_OK;
    uint8_t *seen = tt_zalloc(t->ranks, 1);
    if (!seen)
        return tt_fail_memory(err, "hierarchy");
    for (uint32_t i = 0; i < tree->nnodes && !st; i++) {
        uint32_t r = tree->rank[i];
        vertex[i] = r;
        if ((tree->count[i] == 0) != (r != UINT32_MAX))
            st = tt_fail(err, TUTTI_ERR_RANGE, "tree node %u must have either children or a rank",
                         i);
        else if (r != UINT32_MAX && (r >= t->ranks || seen[r]++))
            st = tt_fail(err, TUTTI_ERR_RANGE, "tree node %u has rank %u, which %s", i, r,
                         r >= t->ranks ? "does not exist" : "is there twice");
        leaves += r != UINT32_MAX;
    }
    if (!st && leaves != t->ranks)
        st = tt_fail(err, TUTTI_ERR_RANGE, "the tree has %u leaves for %u ranks", leaves, t->ranks);
    free(seen);
    return st;
}

/* No switch may be two nodes. */
static tutti_status check_switches(const struct tt_topo *t, const uint32_t *vertex,
                                   struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint8_t *seen = tt_zalloc(t->switches + 1u, 1);
    if (!seen)
        return tt_fail_memory(err, "hierarchy");
    for (uint32_t i = 0; i < t->tree->nnodes && !st; i++)
        if (t->tree->count[i] && seen[vertex[i] - t->ranks]++)
            st = tt_fail(err, TUTTI_ERR_RANGE, "switch %u stands for two nodes of the tree",
                         vertex[i] - t->ranks);
    free(seen);
    return st;
}

/* Leaves first, then from the last node to the root: a node is checked after its children. */
tutti_status tt_topo_tree_check(const struct tt_topo *t, struct tutti_error *err)
{
    uint32_t *vertex = tt_alloc(t->tree->nnodes, sizeof *vertex);
    if (!vertex)
        return tt_fail_memory(err, "hierarchy");
    tutti_status st = check_leaves(t, vertex, err);
    for (uint32_t i = t->tree->nnodes; i-- > 1 && !st;)
        st = check_node(t, i, vertex, err);
    if (!st)
        st = check_switches(t, vertex, err);
    free(vertex);
    return st;
}
