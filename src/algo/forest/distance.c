/* distance.c - lengths from ranks through switches (Dijkstra with a binary heap), and the memory
 * that all searches of one network share (struct tt_forest_work). A heap that cannot grow sets
 * `nomem`, which the search that used it reports at its end. Ranks are never inside a path. */
#include <stdlib.h>

#include "algo/forest/oracle.h"

void tt_forest_work_free(struct tt_forest_work *w)
{
    if (!w)
        return;
    free(w->dist);
    free(w->via);
    free(w->owner);
    free(w->between);
    free(w->charged);
    free(w->heap);
    free(w->cables);
    free(w->set);
    free(w->parent);
    free(w);
}

/* On failure n->w keeps what was made; tt_forest_work_free accepts that. */
bool tt_forest_work_make(struct tt_forest_net *n)
{
    size_t p = n->t->ranks, v = p + n->t->switches, m = n->even ? v : p * v;
    struct tt_forest_work *w = n->w = tt_zalloc(1, sizeof *w);
    if (!w)
        return false;
    w->heap_cap = 2 * (size_t)n->t->nlinks + v + 1;
    w->dist = tt_alloc(m, sizeof *w->dist);
    w->via = tt_alloc(m, sizeof *w->via);
    w->owner = tt_alloc(v, sizeof *w->owner);
    w->between = tt_alloc(n->even ? 1 : p * p, sizeof *w->between);
    w->charged = tt_alloc(n->even ? 1 : p * p, sizeof *w->charged);
    w->heap = tt_alloc(w->heap_cap, sizeof *w->heap);
    w->cables = tt_alloc((size_t)n->t->nlinks + 1, sizeof *w->cables);
    w->set = tt_alloc(p, sizeof *w->set);
    w->parent = tt_alloc(4 * p, sizeof *w->parent);
    return w->dist && w->via && w->owner && w->between && w->charged && w->heap && w->cables &&
           w->set && w->parent;
}

/* ---- distances ---- */

static bool nearer(struct heap_item a, struct heap_item b)
{
    return a.dist < b.dist || (a.dist == b.dist && a.vertex < b.vertex);
}

void tt_forest_heap_push(struct tt_forest_work *w, double dist, uint32_t vertex)
{
    size_t i = w->nheap;
    struct heap_item x = {dist, vertex}, *more = w->heap;
    if (i == w->heap_cap)
        more = tt_resize(w->heap, 2 * i, sizeof *more);
    if (!more) {
        w->nomem = true;
        return;
    }
    w->heap_cap = i == w->heap_cap ? 2 * i : w->heap_cap;
    w->heap = more;
    w->nheap++;
    for (; i > 0 && nearer(x, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = x;
}

struct heap_item tt_forest_heap_pop(struct tt_forest_work *w)
{
    struct heap_item top = w->heap[0], x = w->heap[--w->nheap];
    size_t i = 0;
    for (size_t c = 1; c < w->nheap; c = 2 * i + 1) {
        if (c + 1 < w->nheap && nearer(w->heap[c + 1], w->heap[c]))
            c++;
        if (!nearer(w->heap[c], x))
            break;
        w->heap[i] = w->heap[c];
        i = c;
    }
    w->heap[i] = x;
    return top;
}

/* Extends from v over its links; `ends`: ranks are reached too (but never passed through). */
static void relax(const struct tt_forest_net *n, const double *length, uint32_t v, bool ends,
                  double *dist, uint32_t *via)
{
    const struct tt_graph *g = &n->t->g;
    struct tt_forest_work *w = n->w;
    for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
        uint32_t x = g->head[k];
        double d = dist[v] + length[n->of_link[g->id[k]]];
        if ((x < n->t->ranks && !ends) || d >= dist[x])
            continue;
        dist[x] = d;
        via[x] = g->id[k];
        w->owner[x] = w->owner[v];
        if (x >= n->t->ranks)
            tt_forest_heap_push(w, d, x);
    }
}

double tt_forest_sent_length(const struct tt_forest_net *n, const double *length, uint32_t r)
{
    return n->port[0][r] == UINT32_MAX ? 0 : length[n->port[0][r]];
}

double tt_forest_taken_length(const struct tt_forest_net *n, const double *length, uint32_t r,
                              bool up)
{
    uint32_t in[2], count = tt_forest_taken_in(n, r, up, in);
    return (count > 0 ? length[in[0]] : 0) + (count > 1 ? length[in[1]] : 0);
}

void tt_forest_spread(const struct tt_forest_net *n, const double *length, uint32_t first,
                      uint32_t last, double *dist, uint32_t *via)
{
    uint32_t vertices = n->t->ranks + n->t->switches;
    struct tt_forest_work *w = n->w;
    bool ends = first == last;
    w->nheap = 0;
    for (uint32_t v = 0; v < vertices; v++) {
        dist[v] = 1e300;
        via[v] = UINT32_MAX;
    }
    for (uint32_t r = first; r <= last; r++) {
        dist[r] = tt_forest_sent_length(n, length, r);
        w->owner[r] = r;
    }
    for (uint32_t r = first; r <= last; r++)
        relax(n, length, r, ends, dist, via);
    while (w->nheap > 0) {
        struct heap_item x = tt_forest_heap_pop(w);
        if (x.dist == dist[x.vertex])
            relax(n, length, x.vertex, ends, dist, via);
    }
}

uint32_t tt_forest_tail_of(const struct tt_topo *t, uint32_t d)
{
    return d & 1 ? t->links[d / 2].b : t->links[d / 2].a;
}

void tt_forest_append_way(const struct tt_topo *t, const uint32_t *via, uint32_t v,
                          struct tt_vec *links, bool *ok)
{
    size_t from = links->len;
    for (; via[v] != UINT32_MAX && *ok; v = tt_forest_tail_of(t, via[v]))
        *ok = tt_vec_push(links, &via[v], 1);
    uint32_t *l = links->data;
    for (size_t i = from, j = links->len; i + 1 < j; i++) {
        uint32_t x = l[i];
        l[i] = l[--j];
        l[j] = x;
    }
}

void tt_forest_shorten(const struct tt_forest_net *n, const double *length, uint32_t v, uint32_t k,
                       bool up)
{
    const struct tt_graph *g = &n->t->g;
    struct tt_forest_work *w = n->w;
    uint32_t x = g->head[k];
    double d = w->dist[v] + length[n->of_link[g->id[k]]];
    d += x < n->t->ranks ? tt_forest_taken_length(n, length, x, up) : 0;
    if (d >= w->dist[x])
        return;
    w->dist[x] = d;
    w->via[x] = g->id[k];
    tt_forest_heap_push(w, d, x);
}

/* ---- one way ---- */

/* Extends from v to switches and targets; other ranks are never entered. */
static void go_on(const struct tt_forest_net *n, const double *length, uint32_t v,
                  const uint8_t *role, bool up)
{
    const struct tt_graph *g = &n->t->g;
    for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
        uint32_t x = g->head[k];
        if (x >= n->t->ranks || role[x] == TT_FOREST_TARGET)
            tt_forest_shorten(n, length, v, k, up);
    }
}

/* Dijkstra from all sources at once; the first target that leaves the heap is the nearest. */
bool tt_forest_way(const struct tt_forest_net *n, const double *length, const uint8_t *role,
                   bool up, struct tt_forest_edge *ret, struct tt_vec *links)
{
    struct tt_forest_work *w = n->w;
    uint32_t end = UINT32_MAX;
    bool ok = true;
    w->nheap = 0;
    for (uint32_t v = 0; v < n->t->ranks + n->t->switches; v++) {
        w->dist[v] = v < n->t->ranks && role[v] == TT_FOREST_SOURCE
                         ? tt_forest_sent_length(n, length, v)
                         : 1e300;
        w->via[v] = UINT32_MAX;
    }
    for (uint32_t r = 0; r < n->t->ranks; r++)
        if (role[r] == TT_FOREST_SOURCE)
            go_on(n, length, r, role, up);
    while (w->nheap > 0 && end == UINT32_MAX) {
        struct heap_item x = tt_forest_heap_pop(w);
        if (x.dist != w->dist[x.vertex])
            continue;
        if (x.vertex < n->t->ranks)
            end = x.vertex;
        else
            go_on(n, length, x.vertex, role, up);
    }
    *ret = (struct tt_forest_edge){.b = end, .first = (uint32_t)links->len};
    if (end == UINT32_MAX || w->nomem)
        return false;
    tt_forest_append_way(n->t, w->via, end, links, &ok);
    ret->n = (uint32_t)links->len - ret->first;
    if (ok)
        ret->a = tt_forest_tail_of(n->t, ((const uint32_t *)links->data)[ret->first]);
    return ok;
}
