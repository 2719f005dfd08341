/* classes.c - sorts the links of a rotational network into classes by what they connect.
 *
 *     ring of 4:   0 -> 1, 1 -> 2, 2 -> 3, 3 -> 0  are class 1;
 *                  1 -> 0, 2 -> 1, 3 -> 2, 0 -> 3  are class 3 (a jump of -1)
 *     torus 3x3:   0 -> 1, 1 -> 2, 2 -> 0, 3 -> 4, ... are class 1,
 *                  0 -> 3, 3 -> 6, 6 -> 0, ... are class 3, backwards 8 and 6
 *     star of 4:   rank -> switch is class 0,  switch -> rank is class 4
 *
 * Invariant: every rank has exactly one link of each class that exists, so (class, place) names
 * a link. */
#include "cost/classes.h"

#include <stdlib.h>

#include "cost/load.h"

/* The class of one hop along a dimension, forward or back. In a dimension of two ranks both are
 * the same. */
static uint32_t class_on_grid(const struct tt_topo *t, uint32_t from, uint32_t to)
{
    uint32_t weight = 1;
    for (uint32_t d = t->ndims; d-- > 0; weight *= t->dims[d]) {
        uint32_t size = t->dims[d], x = from / weight % size, y = to / weight % size;
        if (x != y)
            return y == (x + 1) % size ? weight : t->ranks - weight;
    }
    return UINT32_MAX;
}

uint32_t tt_cost_class_of(const struct tt_topo *t, uint32_t d)
{
    uint32_t from = d & 1 ? t->links[d / 2].b : t->links[d / 2].a,
             to = d & 1 ? t->links[d / 2].a : t->links[d / 2].b, n = t->ranks;
    if (t->toroidal && !t->rotational)
        return class_on_grid(t, from, to);
    if (from < n && to < n)
        return to >= from ? to - from : to + n - from;
    return from < n ? 0 : to < n ? n : UINT32_MAX;
}

uint32_t tt_cost_class_place(const struct tt_topo *t, uint32_t d)
{
    const struct tt_link *link = &t->links[d / 2];
    uint32_t from = d & 1 ? link->b : link->a, to = d & 1 ? link->a : link->b;
    return from < t->ranks ? from : to;
}

uint32_t tt_cost_class_resource(const struct tt_topo *t, uint32_t cls, bool half)
{
    if (!half)
        return cls;
    if (cls == t->ranks)
        return 0;
    return cls && cls > t->ranks - cls ? t->ranks - cls : cls;
}

/* Goes backwards, so first_link keeps the lowest id of each class. */
static tutti_status classes_find(const struct tt_topo *t, uint32_t *first_link, uint64_t *rate,
                                 uint32_t *links, struct tutti_error *err)
{
    for (uint32_t d = 2 * t->nlinks; d-- > 0;) {
        uint32_t cls = tt_cost_class_of(t, d);
        if (cls == UINT32_MAX)
            return tt_fail(err, TUTTI_ERR_MISMATCH, "cost by symmetry: links between switches");
        const struct tt_link *link = &t->links[d / 2];
        first_link[cls] = d;
        rate[cls] = tt_cost_rate(link->bw[link->half ? 0 : d & 1]);
        links[cls]++;
    }
    /* A class with several links per rank has no "the link at place v". */
    for (uint32_t i = 0; i <= t->ranks; i++)
        if (links[i] != 0 && links[i] != t->ranks)
            return tt_fail(err, TUTTI_ERR_MISMATCH, "cost by symmetry: parallel links");
    return TUTTI_OK;
}

tutti_status tt_cost_classes_find(const struct tt_topo *t, uint32_t *first_link, uint64_t *rate,
                                  struct tutti_error *err)
{
    uint32_t *links = tt_zalloc((size_t)t->ranks + 1, sizeof *links);
    if (!links)
        return tt_fail_memory(err, "link classes");
    for (uint32_t i = 0; i <= t->ranks; i++) {
        first_link[i] = UINT32_MAX;
        rate[i] = 1;
    }
    tutti_status st = classes_find(t, first_link, rate, links, err);
    free(links);
    return st;
}
