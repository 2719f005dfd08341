/* fluid_share.c - weighted max-min fair rates of what is connected with the dirty resources.
 *
 * Progressive filling. A resource with room c for open flows of weights w1, w2, ... is full at
 * the level c / (w1 + w2 + ...). The resource with the lowest level settles its flows (rate =
 * level * weight), which takes room and weight from their other resources; the levels of those
 * can only rise. The heap's entries are therefore lower bounds: an entry that is out of date is
 * put back with its present level.
 *
 *     link A 10: flows 1, 2   levels A 5, B 4   B settles 2 and 3 at 4 each; A has 6 left for 1
 *     link B  8: flows 2, 3
 *
 * Levels that differ only by rounding count as equal, so flows in equal positions get the same
 * rate to the last bit. Cost: O(hops of the flows reached * log resources reached). Flows not
 * connected with a dirty resource cannot change and are not examined. */
#include "sim/fluid.h"

#include <assert.h>
#include <math.h>

static const double same = 1 + 1e-12;

static struct tt_flow *flow_at(const struct tt_fluid *f, uint32_t i)
{
    assert(i < f->flows.len);
    return (struct tt_flow *)f->flows.data + i;
}

/* ---- what is connected ---- */

/* Adds a resource to the component, with all its room and all its flows open. Idle ones do not
 * limit. */
static void reach_res(struct tt_fluid *f, uint32_t id)
{
    assert(id < f->nres);
    struct tt_res *r = &f->res[id];
    if (r->mark == f->mark || r->n == 0)
        return;
    r->mark = f->mark;
    r->room = r->rate;
    r->open = r->n;
    r->weight = 0;
    uint32_t *near = tt_vec_room(&f->near);
    if (near)
        *near = id;
    else
        f->failed = true;
}

static void reach_flow(struct tt_fluid *f, uint32_t i)
{
    struct tt_flow *w = flow_at(f, i);
    const struct tt_lane *l = &f->lane[w->conn];
    if (w->mark == f->mark)
        return;
    w->mark = f->mark;
    for (uint32_t k = 0; k < l->n; k++)
        reach_res(f, f->hops[l->at + k]);
}

/* A breadth-first search over resources; `near` is its queue. Weights are summed on the way. */
static void reach_all(struct tt_fluid *f)
{
    const uint32_t *dirty = f->dirty.data;
    f->reached.len = f->near.len = f->rates.len = f->levels.len = 0;
    for (size_t i = 0; i < f->dirty.len; i++)
        reach_res(f, dirty[i]);
    for (size_t i = 0; i < f->near.len && !f->failed; i++) {
        struct tt_res *r = &f->res[((const uint32_t *)f->near.data)[i]];
        f->examined += r->n;
        for (uint32_t k = 0; k < r->n; k++) {
            reach_flow(f, r->list[k].flow);
            r->weight += flow_at(f, r->list[k].flow)->weight;
        }
    }
    f->dirty.len = 0;
}

/* ---- levels ---- */

/* A binary heap, lowest level first. */
static void level_put(struct tt_fluid *f, struct tt_level e)
{
    if (!tt_vec_room(&f->levels)) {
        f->failed = true;
        return;
    }
    struct tt_level *h = f->levels.data;
    size_t i = f->levels.len - 1;
    for (; i > 0 && e.level < h[(i - 1) / 2].level; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = e;
}

static struct tt_level level_take(struct tt_fluid *f)
{
    assert(f->levels.len > 0);
    struct tt_level *h = f->levels.data, top = h[0], e = h[--f->levels.len];
    size_t n = f->levels.len, i = 0;
    for (size_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && h[child + 1].level < h[child].level)
            child++;
        if (!(h[child].level < e.level))
            break;
        h[i] = h[child];
        i = child;
    }
    if (n)
        h[i] = e;
    return top;
}

/* The flow keeps this rate; all its resources lose that room and its weight. */
static void settle_flow(struct tt_fluid *f, uint32_t i, double level)
{
    struct tt_flow *w = flow_at(f, i);
    const struct tt_lane *l = &f->lane[w->conn];
    double rate = level * w->weight;
    w->mark = f->mark + 1;
    uint32_t *reached = tt_vec_room(&f->reached);
    double *rates = tt_vec_room(&f->rates);
    if (!reached || !rates) {
        f->failed = true;
        return;
    }
    *reached = i;
    *rates = rate;
    for (uint32_t k = 0; k < l->n; k++) {
        struct tt_res *r = &f->res[f->hops[l->at + k]];
        assert(r->open > 0);
        r->room -= rate;
        r->weight -= w->weight;
        r->open--;
    }
}

/* Settles the resource's flows that have no rate yet. */
static void settle_res(struct tt_fluid *f, const struct tt_res *r, double level)
{
    for (uint32_t k = 0; k < r->n && !f->failed; k++)
        if (flow_at(f, r->list[k].flow)->mark == f->mark)
            settle_flow(f, r->list[k].flow, level);
}

static double level_of(const struct tt_res *r)
{
    return r->room / r->weight;
}

/* Settles the resources at the lowest level of all without the heap: often that is everything.
 * Returns the level. `open == n` skips those that lost a flow on the way; fill_rest handles
 * them. */
static double fill_lowest(struct tt_fluid *f)
{
    const uint32_t *near = f->near.data;
    double least = INFINITY;
    for (size_t i = 0; i < f->near.len; i++)
        least = fmin(least, level_of(&f->res[near[i]]));
    for (size_t i = 0; i < f->near.len && !f->failed; i++) {
        const struct tt_res *r = &f->res[near[i]];
        if (r->open == r->n && level_of(r) <= least * same)
            settle_res(f, r, least);
    }
    return least;
}

/* Settles the others, lowest level first. Rounding may take a level below the last one, or leave
 * no weight for a flow that is still open: both get the last level, so no rate decreases. */
static void fill_rest(struct tt_fluid *f, double last)
{
    while (f->levels.len && !f->failed) {
        struct tt_level e = level_take(f);
        const struct tt_res *r = &f->res[e.res];
        if (r->open == 0)
            continue;
        double now = r->weight > 0 && r->room > 0 ? level_of(r) : last;
        if (now > e.level * same) {
            level_put(f, (struct tt_level){now, e.res});
            continue;
        }
        if (!(e.level <= last * same))
            last = e.level;
        settle_res(f, r, last);
    }
}

void tt_sim_fluid_share(struct tt_fluid *f)
{
    if (f->mark > UINT32_MAX - 4) { /* marks start again: forget old ones */
        for (uint32_t i = 0; i < f->nres; i++)
            f->res[i].mark = 0;
        for (size_t i = 0; i < f->flows.len; i++)
            flow_at(f, (uint32_t)i)->mark = 0;
        f->mark = 0;
    }
    f->mark += 2;
    reach_all(f);
    double least = fill_lowest(f);
    for (size_t i = 0; i < f->near.len && !f->failed; i++) {
        uint32_t id = ((const uint32_t *)f->near.data)[i];
        const struct tt_res *r = &f->res[id];
        if (r->open > 0)
            level_put(f, (struct tt_level){r->weight > 0 && r->room > 0 ? level_of(r) : least, id});
    }
    fill_rest(f, least);
}
