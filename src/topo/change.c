/* change.c - a network as it would be with some links slower or cut, for what-if questions.
 *
 * With slower links it keeps its kind, dimensions, hierarchy and routes. Without a cable it is a
 * network of no particular kind: routes are then the shortest ones that are left, and links after
 * the missing cable have other numbers. */
#include "topo/topo_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* By directed link: the factor that divides its bandwidth; infinite: cut. Half-duplex cables share
 * one bandwidth, and a cut breaks the whole cable, so both directions get the factor then. */
static tutti_status change_collect(const struct tt_topo *t, const struct tt_topo_change *change,
                                   size_t n, double **ret, struct tutti_error *err)
{
    double *by = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *by);
    if (!by)
        return tt_fail_memory(err, "links");
    for (size_t d = 0; d < 2 * (size_t)t->nlinks; d++)
        by[d] = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t d = change[i].link;
        if (d / 2 >= t->nlinks || !(change[i].factor > 0)) {
            free(by);
            return tt_fail(err, TUTTI_ERR_ARG,
                           "change %zu: there is no link %u, or its factor is not positive", i, d);
        }
        by[d] *= change[i].factor;
        if (t->links[d / 2].half || isinf(change[i].factor))
            by[d ^ 1] = by[d];
    }
    *ret = by;
    return TUTTI_OK;
}

/* All cables that are not cut, in their order. */
static tutti_status copy_links(const struct tt_topo *t, const double *by, struct tt_topo *ret,
                               struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    for (uint32_t i = 0; i < t->nlinks && !st; i++) {
        struct tt_link l = t->links[i];
        if (isinf(by[2 * i]) || isinf(by[2 * i + 1]))
            continue;
        l.bw[0] /= by[2 * i];
        l.bw[1] /= by[2 * i + 1];
        st = tt_topo_add_link(ret, &l, err);
    }
    return st;
}

/* Vertices keep their numbers, so the names stay as they are. */
static tutti_status copy_names(const struct tt_topo *t, struct tt_topo *ret,
                               struct tutti_error *err)
{
    size_t n = (size_t)t->ranks + t->switches;
    if (!t->names)
        return TUTTI_OK;
    ret->names = tt_zalloc(n, sizeof *ret->names);
    for (size_t v = 0; ret->names && v < n; v++)
        if (t->names[v] && !(ret->names[v] = tt_strdup(t->names[v])))
            return tt_fail_memory(err, "names");
    return ret->names ? TUTTI_OK : tt_fail_memory(err, "names");
}

/* Copies what a network has only with all its cables: routing, dimensions, hierarchy. */
static tutti_status copy_shape(const struct tt_topo *t, struct tt_topo *ret,
                               struct tutti_error *err)
{
    ret->routing = t->routing;
    ret->ndims = t->ndims;
    memcpy(ret->dims, t->dims, sizeof ret->dims);
    ret->wrap = t->wrap;
    if (!t->tree)
        return TUTTI_OK;
    size_t bytes = t->tree->nnodes * sizeof(uint32_t);
    tutti_status st = tt_topo_tree_new(t->tree->nnodes, &ret->tree, err);
    if (st)
        return st;
    memcpy(ret->tree->parent, t->tree->parent, bytes);
    memcpy(ret->tree->rank, t->tree->rank, bytes);
    memcpy(ret->tree->uplink, t->tree->uplink, bytes);
    return tt_topo_tree_link(ret->tree, err);
}

/* t is not changed; *ret is a topology of its own, which the caller frees. */
tutti_status tt_topo_change(const struct tt_topo *t, const struct tt_topo_change *change, size_t n,
                            struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_topo *x = NULL;
    double *by = NULL;
    bool cut = false;
    for (size_t i = 0; i < n; i++)
        cut = cut || isinf(change[i].factor);
    if (t->memory.npoints)
        return tt_fail(
            err, TUTTI_ERR_REFUSED,
            "%s is the memory of one host, with times of its own: its links have no effect",
            t->spec);
    tutti_status st = change_collect(t, change, n, &by, err);
    if (!st)
        st = tt_topo_new(cut ? "custom" : t->kind, t->ranks, t->switches, &x, err);
    if (!st)
        st = copy_links(t, by, x, err);
    if (!st)
        st = copy_names(t, x, err);
    if (!st && !cut)
        st = copy_shape(t, x, err);
    free(by);
    if (st) {
        tt_topo_free(x);
        return st;
    }
    /* finish frees x on failure; a missing spec is replaced by the kind there. */
    x->ports = t->ports;
    x->gamma = t->gamma;
    x->overhead_ps = t->overhead_ps;
    x->spec = tt_strdup(t->spec);
    return tt_topo_finish(x, ret, err);
}
