/* cells.c - where the vector is cut, so that every cell has one representative in every group.
 *
 * A leaf has the whole vector in one cell. To join the children of a node their cuts are laid over
 * each other; then the vector of the node has, for each child in turn, a copy of that picture
 * shrunk to the child's share: there the child's representative keeps what the others send. Groups
 * (2 1) with equal shares per branch:
 *
 *    child 0   |  rank 0   |  rank 1   |   node   |rank 0|rank 1|    rank 2    |   kept by  0  0  1
 *    child 1   |        rank 2         |   child 0|rank 0|rank 1|rank 0|rank 1 |
 *                                          child 1|  rank 2     |   rank 2     |
 *
 * Since children come one after the other, a rank ends with one range, and the ranges follow the
 * order of the leaves. Cuts that differ by less than a billionth of the vector are one cut: sums of
 * shares are only as exact as doubles. */
#include "algo/flex/flex.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const double same_cut = 1e-9;

enum { MAX_DENOMINATOR = 1 << 20, MAX_WEIGHTS = 1 << 30 };

/* The cuts of all children together: cell i ends at end[i] and is cell index[i * children + k] of
 * child k. */
struct overlay {
    uint32_t n;
    struct tt_vec end, index;
};

/* Each round cuts at the nearest end of a child's cell and moves all children that end there. On
 * failure the caller frees what was made. */
static tutti_status overlay_make(const struct tt_flex_cells *child, uint32_t children,
                                 struct overlay *o, struct tutti_error *err)
{
    uint32_t *at = tt_zalloc(children, sizeof *at);
    bool more = true, ok = at != NULL;
    *o = (struct overlay){.end = {.elem = sizeof(double)}, .index = {.elem = sizeof(uint32_t)}};
    /* Invariant: everything before the cell at[k] of every child is in the overlay. */
    while (ok && more) {
        double next = 1;
        for (uint32_t k = 0; k < children; k++)
            next = child[k].end[at[k]] < next ? child[k].end[at[k]] : next;
        more = next < 1 - same_cut;
        next = more ? next : 1;
        ok = tt_vec_push(&o->end, &next, 1) && tt_vec_push(&o->index, at, children);
        o->n++;
        for (uint32_t k = 0; more && k < children; k++)
            at[k] += child[k].end[at[k]] <= next + same_cut && at[k] + 1 < child[k].n;
    }
    free(at);
    return ok ? TUTTI_OK : tt_fail_memory(err, "cells");
}

static tutti_status cells_alloc(struct tt_flex_cells *c, uint32_t n, bool inner,
                                struct tutti_error *err)
{
    assert(n > 0);
    c->n = n;
    c->end = tt_alloc(n, sizeof *c->end);
    c->rep = tt_alloc(n, sizeof *c->rep);
    c->kept = inner ? tt_alloc(n, sizeof *c->kept) : NULL;
    return c->end && c->rep && (c->kept || !inner) ? TUTTI_OK : tt_fail_memory(err, "cells");
}

/* Children whose share is negligible keep nothing. */
static bool keeps(const struct tt_flex_node *v)
{
    return v->share > same_cut;
}

/* One cell of the node: cell i of the overlay, kept by child k. */
static void set_cell(struct tt_flex_cells *node, struct tt_flex_cells *child, uint32_t children,
                     uint32_t cell, uint32_t k, const uint32_t *index)
{
    node->rep[cell] = child[k].rep[index[k]];
    node->kept[cell] = k;
    for (uint32_t w = 0; w < children; w++)
        child[w].lower[cell] = index[w];
}

/* The node's cells: for each child that keeps something, the overlay shrunk to the child's share.
 * Every child learns which of its cells is part of which cell of the node. */
static tutti_status cells_join(const struct tt_flex_tree *t, uint32_t v, const struct overlay *o,
                               struct tt_flex_cells *all, struct tutti_error *err)
{
    assert(t->node[v].count > 0);
    const struct tt_flex_node *node = &t->node[v];
    struct tt_flex_cells *child = &all[node->first];
    uint64_t n = 0;
    uint32_t cell = 0;
    double begin = 0;
    for (uint32_t k = 0; k < node->count; k++)
        n += keeps(&t->node[node->first + k]) ? o->n : 0;
    if (n > TT_FLEX_MAX_CELLS)
        return tt_fail(
            err, TUTTI_ERR_REFUSED,
            "groups of different sizes cut the vector into %llu pieces; at most %d are accepted",
            (unsigned long long)n, (int)TT_FLEX_MAX_CELLS);
    tutti_status st = cells_alloc(&all[v], (uint32_t)n, true, err);
    for (uint32_t k = 0; k < node->count && !st; k++) {
        child[k].lower = tt_alloc((size_t)n, sizeof *child[k].lower);
        st = child[k].lower ? TUTTI_OK : tt_fail_memory(err, "cells");
    }
    for (uint32_t k = 0; k < node->count && !st; k++) {
        double share = t->node[node->first + k].share;
        for (uint32_t i = 0; keeps(&t->node[node->first + k]) && i < o->n; i++, cell++) {
            set_cell(&all[v], child, node->count, cell, k,
                     (const uint32_t *)o->index.data + (size_t)i * node->count);
            all[v].end[cell] = begin + share * ((const double *)o->end.data)[i];
        }
        begin += share;
    }
    /* shares add up to 1 only within rounding */
    if (!st)
        all[v].end[n - 1] = 1;
    return st;
}

/* A leaf has the whole vector; an inner node joins its children, which are made already. */
static tutti_status make_node(const struct tt_flex_tree *t, uint32_t v, struct tt_flex_cells *all,
                              struct tutti_error *err)
{
    const struct tt_flex_node *node = &t->node[v];
    struct overlay o;
    tutti_status st;
    if (node->count == 0) {
        st = cells_alloc(&all[v], 1, false, err);
        if (!st) {
            all[v].end[0] = 1;
            all[v].rep[0] = node->rank;
        }
        return st;
    }
    st = overlay_make(&all[node->first], node->count, &o, err);
    if (!st)
        st = cells_join(t, v, &o, all, err);
    tt_vec_free(&o.end);
    tt_vec_free(&o.index);
    return st;
}

/* From the last node to the root: children have higher numbers than their parents. */
tutti_status tt_flex_cells_make(const struct tt_flex_tree *t, struct tt_flex_cells **ret,
                                struct tutti_error *why)
{
    struct tt_flex_cells *all = tt_zalloc(t->nnodes, sizeof *all);
    tutti_status st = all ? TUTTI_OK : tt_fail_memory(why, "cells");
    for (uint32_t v = t->nnodes; v-- > 0 && !st;)
        st = make_node(t, v, all, why);
    if (!st)
        *ret = all;
    else
        tt_flex_cells_free(t, all);
    return st;
}

void tt_flex_cells_free(const struct tt_flex_tree *t, struct tt_flex_cells *cells)
{
    for (uint32_t v = 0; cells && v < t->nnodes; v++) {
        free(cells[v].end);
        free(cells[v].rep);
        free(cells[v].kept);
        free(cells[v].lower);
    }
    free(cells);
}

/* ---- weights ---- */

static uint64_t cells_gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The smallest denominator of a fraction that equals x within the precision of doubles, by
 * continued fractions; 0: there is no small one. */
static uint64_t denominator(double x)
{
    uint64_t before = 0, q = 1;
    double rest = x;
    for (int i = 0; i < 40 && q <= MAX_DENOMINATOR; i++) {
        double p = floor(x * (double)q + 0.5);
        if (fabs(x * (double)q - p) < 1e-11 * (double)q)
            return q;
        rest = rest - floor(rest);
        if (rest <= 0)
            break;
        rest = 1 / rest;
        double a = floor(rest);
        if (a > MAX_DENOMINATOR)
            break;
        uint64_t next = (uint64_t)a * q + before;
        before = q;
        q = next;
    }
    return 0;
}

/* A common denominator of all cuts, or 0. */
static uint64_t common_denominator(const struct tt_flex_cells *c)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < c->n && all; i++) {
        uint64_t q = denominator(c->end[i]);
        all = q ? all / cells_gcd(all, q) * q : 0;
        if (all > MAX_WEIGHTS)
            return 0;
    }
    return all;
}

/* Without a common denominator the weights are rounded to 2^-30 of the vector. Ends are rounded,
 * not lengths, so that the weights add up exactly. */
tutti_status tt_flex_weights(const struct tt_flex_cells *root, uint32_t **ret,
                             struct tutti_error *err)
{
    uint64_t exact = common_denominator(root), total = exact ? exact : MAX_WEIGHTS, before = 0;
    uint32_t *w = tt_alloc(root->n, sizeof *w);
    bool equal = true;
    if (!w)
        return tt_fail_memory(err, "weights");
    for (uint32_t i = 0; i < root->n; i++) {
        uint64_t end = (uint64_t)(root->end[i] * (double)total + 0.5);
        assert(end >= before);
        w[i] = (uint32_t)(end - before);
        before = end;
        equal = equal && w[i] == w[0];
    }
    if (equal) {
        free(w);
        w = NULL;
    }
    *ret = w;
    return TUTTI_OK;
}
