/* shallow.c - trees that pay for their depth: each rank joins where its way plus a charge for every
 * step to the root is cheapest. Without a charge that is Prim's spanning tree; the higher the
 * charge, the fewer steps to the root. */
#include <string.h>

#include "algo/forest/oracle.h"

uint32_t tt_forest_cheapest_rank(const struct tt_forest_net *n, const double *length,
                                 double *ret_typical)
{
    const struct tt_graph *g = &n->t->g;
    uint32_t best = 0;
    double least = 1e300, sum = 0;
    for (uint32_t r = 0; r < n->t->ranks; r++) {
        double own = 1e300;
        for (uint32_t k = g->start[r]; k < g->start[r + 1]; k++)
            own = length[n->of_link[g->id[k]]] < own ? length[n->of_link[g->id[k]]] : own;
        own += tt_forest_sent_length(n, length, r);
        sum += own;
        if (own < least) {
            least = own;
            best = r;
        }
    }
    *ret_typical = 2 * sum / n->t->ranks;
    return best;
}

/* Extends from v to switches and to ranks that have not joined (set[] is UINT32_MAX). */
static void oracle_reach(const struct tt_forest_net *n, const double *length, uint32_t v)
{
    const struct tt_graph *g = &n->t->g;
    struct tt_forest_work *w = n->w;
    for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
        uint32_t x = g->head[k];
        if (x >= n->t->ranks || w->set[x] == UINT32_MAX)
            tt_forest_shorten(n, length, v, k, false);
    }
}

/* v joins at the end of its way: since v was reached, the way may have come to lead to another,
 * nearer rank. */
static bool oracle_join(const struct tt_forest_net *n, uint32_t v, struct tt_vec *edges,
                        struct tt_vec *links)
{
    struct tt_forest_work *w = n->w;
    struct tt_forest_edge e = {.b = v, .first = (uint32_t)links->len};
    bool ok = true;
    tt_forest_append_way(n->t, w->via, v, links, &ok);
    if (!ok)
        return false;
    e.n = (uint32_t)links->len - e.first;
    e.a = tt_forest_tail_of(n->t, ((const uint32_t *)links->data)[e.first]);
    w->set[v] = w->set[e.a] + 1;
    return tt_vec_push(edges, &e, 1);
}

/* A joined rank offers ways that begin with its depth's charge. */
static void become_source(const struct tt_forest_net *n, const struct tt_forest_query *q,
                          uint32_t v, double charge)
{
    struct tt_forest_work *w = n->w;
    w->dist[v] = charge * w->set[v] + tt_forest_sent_length(n, q->length, v);
    w->via[v] = UINT32_MAX;
    oracle_reach(n, q->length, v);
}

tutti_status tt_forest_shallow_tree(const struct tt_forest_net *n, const struct tt_forest_query *q,
                                    struct tt_forest_tree *ret, struct tutti_error *err)
{
    struct tt_vec edges = {.elem = sizeof(struct tt_forest_edge)},
                  links = {.elem = sizeof(uint32_t)};
    struct tt_forest_work *w = n->w;
    double typical;
    uint32_t root = tt_forest_cheapest_rank(n, q->length, &typical);
    bool ok = true;
    w->nheap = 0;
    for (uint32_t v = 0; v < n->t->ranks + n->t->switches; v++)
        w->dist[v] = 1e300;
    memset(w->set, 0xff, n->t->ranks * sizeof *w->set);
    w->set[root] = 0;
    become_source(n, q, root, q->shallow * typical);
    while (w->nheap > 0 && ok) {
        struct heap_item x = tt_forest_heap_pop(w);
        bool rank = x.vertex < n->t->ranks;
        if (x.dist != w->dist[x.vertex] || (rank && w->set[x.vertex] != UINT32_MAX))
            continue;
        if (rank) {
            ok = oracle_join(n, x.vertex, &edges, &links);
            become_source(n, q, x.vertex, q->shallow * typical);
        } else {
            oracle_reach(n, q->length, x.vertex);
        }
    }
    return tt_forest_tree_done(&edges, &links, ok && !w->nomem, ret, err);
}
