/* measure.c - counts and distances of a finished network, and the injection rate of a rank.
 *
 * Distances are in links, ranks to ranks: closed forms for stars, fat-trees and loops (each
 * dimension alone, then added up: in a product of loops distances add), one pass over a tree, and
 * otherwise a search from every vertex that holds ranks. Where that would be too much work (a file
 * of a few bytes can describe a very large network) only every k-th of them is searched: then the
 * mean is over the pairs of those, and the diameter is the longest distance found.
 * All totals fit 64 bits: at most 2^40 pairs with distances below 2^21. */
#include "topo/topo_int.h"

#include <stdlib.h>
#include <string.h>

#define WORK_MAX (UINT64_C(1) << 28) /* links that all searches together may visit: seconds */

struct distances {
    uint64_t total; /* over ordered pairs of different ranks */
    uint32_t max;
    uint64_t sources; /* ranks whose pairs were counted; 0: all */
};

static uint32_t degree(const struct tt_topo *t, uint32_t v)
{
    return t->g.start[v + 1] - t->g.start[v];
}

/* Over ranks; where every rank has a single link, over switches, whose degree says more. */
static uint32_t largest_degree(const struct tt_topo *t)
{
    uint32_t max = 0;
    bool single = t->switches > 0;
    for (uint32_t r = 0; r < t->ranks; r++) {
        max = degree(t, r) > max ? degree(t, r) : max;
        single = single && degree(t, r) == 1;
    }
    for (uint32_t v = t->ranks; single && v < t->g.n; v++)
        max = degree(t, v) > max ? degree(t, v) : max;
    return max;
}

/* ---- closed forms ---- */

/* Any two ranks are two links apart. */
static void measure_star(const struct tt_topo *t, struct distances *d)
{
    d->total = 2 * (uint64_t)t->ranks * (t->ranks - 1);
    d->max = t->ranks > 1 ? 2 : 0;
}

/* From any rank, arity^l - arity^(l-1) others are reached over an ancestor of height l. */
static void measure_fattree(const struct tt_topo *t, struct distances *d)
{
    const struct tt_fattree *f = &t->routes->fattree;
    uint64_t below = 1, sum = 0;
    for (uint32_t l = 1; l <= f->levels; l++) {
        sum += 2 * l * (below * f->arity - below);
        below *= f->arity;
    }
    d->total = sum * t->ranks;
    d->max = 2 * f->levels;
}

/* Sum over ordered pairs of coordinates, and the largest distance. */
static uint64_t loop_total(const struct tt_loop *l, uint32_t *ret_max)
{
    uint64_t n = l->axis.n, sum = 0;
    *ret_max = l->axis.wrap ? 0 : l->axis.n - 1;
    if (!l->axis.wrap)
        return (n - 1) * n * (n + 1) / 3;
    for (uint32_t o = 0; o < n; o++) {
        sum += l->dist[o];
        *ret_max = l->dist[o] > *ret_max ? l->dist[o] : *ret_max;
    }
    return sum * n;
}

/* Every pair of coordinates of one loop stands for (positions / n)^2 pairs of positions. With h
 * hosts per position a pair of positions is h^2 pairs of ranks, two links longer; ranks of the same
 * position are two links apart. */
static void measure_loops(const struct tt_topo *t, struct distances *d)
{
    uint64_t positions = t->switches ? t->switches : t->ranks, hosts = t->ranks / positions;
    for (uint32_t i = 0; i < t->routes->nloops; i++) {
        uint32_t max;
        uint64_t others = positions / t->routes->loop[i].axis.n;
        d->total += others * others * loop_total(&t->routes->loop[i], &max);
        d->max += max;
    }
    d->total *= hosts * hosts;
    if (t->switches) {
        d->total += 2 * (uint64_t)t->ranks * (t->ranks - 1);
        d->max += t->ranks > 1 ? 2 : 0;
    }
}

/* ---- trees ---- */

/* Leaves first: below[v] ranks are at or under v, the deepest of them deep[v] links down
 * (UINT32_MAX: none). A link is on the way of below * (ranks - below) pairs each way; the longest
 * way turns at some vertex and joins its two deepest branches. */
static tutti_status measure_tree(const struct tt_topo *t, struct distances *d,
                                 struct tutti_error *err)
{
    const struct tt_routes *r = t->routes;
    uint32_t *below = tt_zalloc(t->g.n, sizeof *below), *deep = tt_zalloc(t->g.n, sizeof *deep);
    tutti_status st = below && deep ? TUTTI_OK : tt_fail_memory(err, "distances");
    for (uint32_t i = t->g.n; !st && i-- > 0;) {
        uint32_t v = r->order[i];
        below[v] += v < t->ranks;
        if (v == 0 || below[v] == 0)
            continue;
        uint32_t p = t->g.head[r->up[v]], depth = deep[v] + 1;
        d->total += 2 * (uint64_t)below[v] * (t->ranks - below[v]);
        if ((below[p] || p < t->ranks) && deep[p] + depth > d->max)
            d->max = deep[p] + depth;
        deep[p] = depth > deep[p] ? depth : deep[p];
        below[p] += below[v];
    }
    free(below);
    free(deep);
    return st;
}

/* ---- searches ---- */

struct search {
    const struct tt_topo *t;
    uint32_t *held;         /* by core vertex: ranks that are it or hang on it */
    uint32_t *dist, *queue; /* work space of the core's size */
};

/* 1 when the ranks at this core vertex hang on it, 0 when it is itself a rank. */
static uint32_t hanging(const struct search *s, uint32_t v)
{
    return v >= s->t->ranks;
}

/* Is v in the core, with ranks that are it or hang on it? */
static bool holds(const struct search *s, uint32_t v)
{
    uint32_t at = s->t->routes->index[v];
    return at != UINT32_MAX && s->held[at];
}

/* The links that searches from all vertices that hold ranks would visit. */
static uint64_t work_of(const struct search *s)
{
    uint64_t holders = 0;
    for (uint32_t v = 0; s->held && v < s->t->g.n; v++)
        holders += holds(s, v);
    return holders * (2 * (uint64_t)s->t->nlinks + s->t->g.n);
}

/* Adds the pairs of the ranks at `vertex` with all ranks. */
static void measure_from(const struct search *s, uint32_t vertex, struct distances *d)
{
    const struct tt_topo *t = s->t;
    const uint32_t *index = t->routes->index;
    uint64_t here = s->held[index[vertex]];
    tt_topo_core_bfs(&t->routes->core, index[vertex], s->dist, s->queue);
    for (uint32_t u = 0; u < t->g.n; u++) {
        uint64_t there = index[u] == UINT32_MAX ? 0 : s->held[index[u]];
        uint64_t pairs = u == vertex ? here * (here - 1) : here * there;
        if (pairs == 0)
            continue;
        uint32_t len = s->dist[index[u]] + hanging(s, vertex) + hanging(s, u);
        d->total += pairs * len;
        d->max = len > d->max ? len : d->max;
    }
}

/* `every` is 1 as long as the work fits. Holders are taken in vertex order, so the choice is the
 * same on every machine. */
static tutti_status measure_search(const struct tt_topo *t, struct distances *d,
                                   struct tutti_error *err)
{
    uint32_t n = t->routes->core.n;
    struct search s = {t, tt_zalloc(n, sizeof(uint32_t)), tt_alloc(n, sizeof(uint32_t)),
                       tt_alloc(n, sizeof(uint32_t))};
    tutti_status st = s.held && s.dist && s.queue ? TUTTI_OK : tt_fail_memory(err, "distances");
    for (uint32_t r = 0; !st && r < t->ranks; r++)
        s.held[t->routes->index[tt_topo_anchor(t, r)]]++;
    uint64_t every = work_of(&s) / WORK_MAX + 1, holders = 0;
    for (uint32_t v = 0; !st && v < t->g.n; v++)
        if (holds(&s, v) && holders++ % every == 0) {
            measure_from(&s, v, d);
            d->sources += s.held[t->routes->index[v]];
        }
    free(s.held);
    free(s.dist);
    free(s.queue);
    return st;
}

/* Closed forms need no memory; only trees and searches can fail. */
tutti_status tt_topo_measure(const struct tt_topo *t, struct tt_topo_metrics *ret,
                             struct tutti_error *err)
{
    struct distances d = {0};
    tutti_status st = TUTTI_OK;
    if (t->routing == TT_ROUTE_STAR)
        measure_star(t, &d);
    else if (t->routing == TT_ROUTE_FATTREE)
        measure_fattree(t, &d);
    else if (t->routing != TT_ROUTE_SHORTEST)
        measure_loops(t, &d);
    else if (t->routes->search == TT_SEARCH_TREE)
        st = measure_tree(t, &d, err);
    else
        st = measure_search(t, &d, err);
    if (st)
        return st;
    uint64_t sources = d.sources ? d.sources : t->ranks;
    double pairs = (double)sources * (double)(t->ranks - 1);
    *ret = (struct tt_topo_metrics){.ranks = t->ranks,
                                    .switches = t->switches,
                                    .links = t->nlinks,
                                    .degree = largest_degree(t),
                                    .diameter = d.max,
                                    .mean_path = pairs > 0 ? (double)d.total / pairs : 0,
                                    .exact = sources == t->ranks};
    return TUTTI_OK;
}

/* ---- injection ---- */

/* A rank without links (the only one) counts as having one port, so that divisions are safe. */
uint32_t tt_topo_ports(const struct tt_topo *t, uint32_t rank)
{
    if (t->ports)
        return t->ports;
    uint32_t n = degree(t, rank);
    return n ? n : 1;
}

/* Sum of the `ports` fastest of the rank's links, outwards (side 0) or inwards (side 1): each round
 * takes the next lower speed. */
static double port_rate(const struct tt_topo *t, uint32_t rank, uint32_t side)
{
    uint32_t left = tt_topo_ports(t, rank);
    double sum = 0, last = 0;
    while (left > 0) {
        double best = 0;
        uint32_t count = 0;
        for (uint32_t k = t->g.start[rank]; k < t->g.start[rank + 1]; k++) {
            uint32_t arc = t->g.id[k] ^ side;
            double bw = t->links[arc / 2].bw[arc & 1];
            if (last > 0 && bw >= last)
                continue;
            count = bw > best ? 1 : count + (bw == best);
            best = bw > best ? bw : best;
        }
        if (count == 0)
            break;
        count = count < left ? count : left;
        sum += best * count;
        left -= count;
        last = best;
    }
    return sum;
}

double tt_topo_egress(const struct tt_topo *t, uint32_t rank)
{
    return port_rate(t, rank, 0);
}

double tt_topo_ingress(const struct tt_topo *t, uint32_t rank)
{
    return port_rate(t, rank, 1);
}
