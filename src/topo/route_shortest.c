/* route_shortest.c - routes on any network: fewest links, then at each hop the lowest neighbour;
 * among parallel links the one with number (destination mod count) in id order, so that different
 * destinations spread over them. Ranks with links to several vertices forward.
 *
 * A rank that hangs on a single switch needs no table: its routes are those of the switch, plus its
 * own link. What remains is the core.
 *
 *     0 1   2 3     core: a b c. Three ways, in this order:
 *      \|   |/      1. a tree: parents and depths only; memory V, O(length)
 *       a - b       2. the next hop for every (core vertex, destination in the core); memory A*C,
 *        \ /           O(length)
 *         c - 4     3. where A*C or the work A*arcs is beyond the limits below: a search from the
 *                      destination per query, which stops at the source; no memory
 *
 * A: core vertices with ranks, C: core vertices. All three give the same routes. */
#include "topo/topo_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES (UINT64_C(1) << 26)
#define MAX_WORK    (UINT64_C(1) << 29) /* arcs visited while filling the table: about a second */

void tt_topo_shortest_free(struct tt_routes *r)
{
    free(r->order);
    free(r->up);
    free(r->depth);
    free(r->index);
    free(r->row);
    free(r->next);
    tt_graph_free(&r->core);
}

/* Is v a rank whose only link leads to a switch? */
static bool hangs(const struct tt_topo *t, uint32_t v)
{
    return v < t->ranks && t->g.start[v + 1] - t->g.start[v] == 1 &&
           t->g.head[t->g.start[v]] >= t->ranks;
}

uint32_t tt_topo_anchor(const struct tt_topo *t, uint32_t rank)
{
    assert(rank < t->ranks);
    return hangs(t, rank) ? t->g.head[t->g.start[rank]] : rank;
}

/* ---- trees ---- */

/* Breadth-first from rank 0; order is both the queue and the result. */
static tutti_status make_tree(const struct tt_topo *t, struct tt_routes *r, struct tutti_error *err)
{
    const struct tt_graph *g = &t->g;
    uint32_t tail = 1;
    r->order = tt_alloc(g->n, sizeof *r->order);
    r->up = tt_alloc(g->n, sizeof *r->up);
    r->depth = tt_alloc(g->n, sizeof *r->depth);
    if (!r->order || !r->up || !r->depth)
        return tt_fail_memory(err, "routes");
    r->order[0] = r->depth[0] = 0;
    r->up[0] = UINT32_MAX;
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t u = r->order[i], parent = u ? g->head[r->up[u]] : UINT32_MAX;
        for (uint32_t k = g->start[u]; k < g->start[u + 1]; k++) {
            uint32_t v = g->head[k];
            if (v == parent)
                continue;
            uint32_t back = g->start[v];
            while (g->id[back] != (g->id[k] ^ 1))
                back++;
            r->up[v] = back;
            r->depth[v] = r->depth[u] + 1;
            assert(tail < g->n);
            r->order[tail++] = v;
        }
    }
    assert(tail == g->n); /* a tree reaches every vertex once */
    r->max = 2 * r->depth[r->order[g->n - 1]];
    return TUTTI_OK;
}

/* Climbs from the deeper end until both meet. */
static uint32_t route_tree(const struct tt_topo *t, uint32_t src, uint32_t dst, uint32_t *links)
{
    const struct tt_routes *r = t->routes;
    const struct tt_graph *g = &t->g;
    uint32_t a = src, b = dst, len = 0;
    while (a != b) { /* the length comes first: the way down is filled in from its end */
        if (r->depth[a] >= r->depth[b])
            a = g->head[r->up[a]];
        else
            b = g->head[r->up[b]];
        len++;
    }
    uint32_t lo = 0, hi = len;
    for (uint32_t v = src; v != a; v = g->head[r->up[v]])
        links[lo++] = g->id[r->up[v]];
    for (uint32_t v = dst; v != a; v = g->head[r->up[v]])
        links[--hi] = g->id[r->up[v]] ^ 1;
    assert(lo == hi && len <= r->max);
    return len;
}

/* ---- the core ---- */

/* Numbers the vertices that do not hang and counts the arcs between them. */
static void number_core(const struct tt_topo *t, struct tt_routes *r, uint32_t *ret_n,
                        uint32_t *ret_arcs)
{
    uint32_t n = 0, arcs = 0;
    for (uint32_t v = 0; v < t->g.n; v++)
        r->index[v] = hangs(t, v) ? UINT32_MAX : n++;
    for (uint32_t v = 0; v < t->g.n; v++)
        for (uint32_t k = t->g.start[v]; k < t->g.start[v + 1] && r->index[v] != UINT32_MAX; k++)
            arcs += r->index[t->g.head[k]] != UINT32_MAX;
    *ret_n = n;
    *ret_arcs = arcs;
}

/* The core keeps the order of the arcs (by neighbour); its arc ids become positions in t->g. */
static tutti_status make_core(const struct tt_topo *t, struct tt_routes *r, struct tutti_error *err)
{
    const struct tt_graph *g = &t->g;
    uint32_t n, arcs, at = 0, *tail = NULL, *head = NULL, *where = NULL;
    tutti_status st = TUTTI_OK;
    r->index = tt_alloc(g->n, sizeof *r->index);
    if (!r->index)
        return tt_fail_memory(err, "routes");
    number_core(t, r, &n, &arcs);
    tail = tt_alloc(arcs + 1u, sizeof *tail);
    head = tt_alloc(arcs + 1u, sizeof *head);
    where = tt_alloc(arcs + 1u, sizeof *where);
    if (!tail || !head || !where) {
        st = tt_fail_memory(err, "routes");
        goto out;
    }
    for (uint32_t v = 0; v < g->n; v++)
        for (uint32_t k = g->start[v]; k < g->start[v + 1] && r->index[v] != UINT32_MAX; k++)
            if (r->index[g->head[k]] != UINT32_MAX) {
                tail[at] = r->index[v];
                head[at] = r->index[g->head[k]];
                where[at++] = k;
            }
    st = tt_graph_make(n, arcs, tail, head, &r->core, err);
    for (uint32_t k = 0; !st && k < arcs; k++)
        r->core.id[k] = where[r->core.id[k]];
out:
    free(tail);
    free(head);
    free(where);
    return st;
}

/* ---- the table ---- */

/* Core vertices that are ranks, or on which ranks hang, get a row each. */
static tutti_status number_rows(const struct tt_topo *t, struct tt_routes *r,
                                struct tutti_error *err)
{
    r->row = tt_alloc(r->core.n, sizeof *r->row);
    if (!r->row)
        return tt_fail_memory(err, "routes");
    memset(r->row, 0xff, r->core.n * sizeof *r->row);
    for (uint32_t rank = 0; rank < t->ranks; rank++) {
        uint32_t *row = &r->row[r->index[tt_topo_anchor(t, rank)]];
        if (*row == UINT32_MAX)
            *row = r->nrows++;
    }
    return TUTTI_OK;
}

/* The test on `tail` ends the search early: no further vertex can be reached. */
void tt_topo_core_bfs(const struct tt_graph *core, uint32_t source, uint32_t *dist, uint32_t *queue)
{
    uint32_t head = 0, tail = 1;
    memset(dist, 0xff, core->n * sizeof *dist);
    dist[source] = 0;
    queue[0] = source;
    while (head < tail && tail < core->n) {
        uint32_t u = queue[head++];
        for (uint32_t k = core->start[u]; k < core->start[u + 1]; k++) {
            uint32_t v = core->head[k];
            if (dist[v] == UINT32_MAX) {
                dist[v] = dist[u] + 1;
                queue[tail++] = v;
            }
        }
    }
}

/* The first arc towards the destination: arcs are sorted, so it leads to the lowest neighbour. */
static uint32_t best_arc(const struct tt_graph *core, const uint32_t *dist, uint32_t v)
{
    uint32_t k = core->start[v];
    while (dist[core->head[k]] != dist[v] - 1)
        k++;
    return core->id[k];
}

/* A search from every destination gives the next hops of all vertices towards it. */
static tutti_status fill_table(struct tt_routes *r, struct tutti_error *err)
{
    uint32_t n = r->core.n, *dist = tt_alloc(n, sizeof *dist), *queue = tt_alloc(n, sizeof *queue);
    tutti_status st = TUTTI_OK;
    r->next = tt_alloc((size_t)r->nrows * n, sizeof *r->next);
    if (!r->next || !dist || !queue) {
        st = tt_fail_memory(err, "routes");
        goto out;
    }
    for (uint32_t w = 0; w < n; w++) {
        if (r->row[w] == UINT32_MAX)
            continue;
        uint32_t *next = r->next + (size_t)r->row[w] * n;
        tt_topo_core_bfs(&r->core, w, dist, queue);
        for (uint32_t v = 0; v < n; v++) {
            next[v] = v == w ? UINT32_MAX : best_arc(&r->core, dist, v);
            r->max = dist[v] > r->max ? dist[v] : r->max;
        }
    }
    r->max += 2; /* the links of hanging ranks at both ends */
out:
    free(dist);
    free(queue);
    return st;
}

/* No two ranks are farther apart than twice the distance of the farthest vertex from rank 0. */
static tutti_status bound_routes(const struct tt_topo *t, struct tt_routes *r,
                                 struct tutti_error *err)
{
    uint32_t *dist = tt_alloc(t->g.n, sizeof *dist), *queue = tt_alloc(t->g.n, sizeof *queue),
             far = 0;
    tutti_status st = dist && queue ? TUTTI_OK : tt_fail_memory(err, "routes");
    if (!st)
        tt_graph_bfs(&t->g, 0, dist, queue);
    for (uint32_t v = 0; !st && v < t->ranks; v++)
        far = dist[v] > far ? dist[v] : far;
    r->max = 2 * far;
    free(dist);
    free(queue);
    return st;
}

/* A connected network with one link less than vertices is a tree. */
tutti_status tt_topo_shortest_make(const struct tt_topo *t, struct tt_routes *r,
                                   struct tutti_error *err)
{
    r->search = TT_SEARCH_TREE;
    if (t->nlinks + 1 == t->g.n)
        return make_tree(t, r, err);
    tutti_status st = make_core(t, r, err);
    if (!st)
        st = number_rows(t, r, err);
    if (st)
        return st;
    bool fits = (uint64_t)r->nrows * r->core.n <= MAX_ENTRIES &&
                (uint64_t)r->nrows * r->core.narcs <= MAX_WORK;
    r->search = fits ? TT_SEARCH_TABLE : TT_SEARCH_QUERY;
    return fits ? fill_table(r, err) : bound_routes(t, r, err);
}

/* ---- routes ---- */

/* Distances to `to` of the vertices that a shortest way from `from` may use. The search stops once
 * `from` is reached: all nearer vertices are known by then. */
static void search_back(const struct tt_graph *core, uint32_t from, uint32_t to, uint32_t *dist,
                        uint32_t *queue)
{
    uint32_t head = 0, tail = 1;
    memset(dist, 0xff, core->n * sizeof *dist);
    queue[0] = to;
    dist[to] = 0;
    while (head < tail && dist[from] == UINT32_MAX) {
        uint32_t u = queue[head++];
        for (uint32_t k = core->start[u]; k < core->start[u + 1]; k++) {
            uint32_t v = core->head[k];
            if (dist[v] == UINT32_MAX) {
                dist[v] = dist[u] + 1;
                queue[tail++] = v;
            }
        }
    }
}

/* Arc k is the first of several parallel ones; the destination selects one of them. */
static uint32_t route_shortest_spread(const struct tt_graph *g, uint32_t v, uint32_t k,
                                      uint32_t dst)
{
    uint32_t count = 1;
    while (k + count < g->start[v + 1] && g->head[k + count] == g->head[k])
        count++;
    return k + dst % count;
}

/* Between two core vertices (both as vertices of t); dist NULL: by the table. */
static uint32_t route_shortest_walk(const struct tt_topo *t, uint32_t v, uint32_t to, uint32_t dst,
                                    const uint32_t *dist, uint32_t *links)
{
    const struct tt_routes *r = t->routes;
    uint32_t len = 0;
    while (v != to) {
        uint32_t at = r->index[v];
        uint32_t k = dist ? best_arc(&r->core, dist, at)
                          : r->next[(size_t)r->row[r->index[to]] * r->core.n + at];
        k = route_shortest_spread(&t->g, v, k, dst);
        links[len++] = t->g.id[k];
        v = t->g.head[k];
    }
    return len;
}

/* QUERY allocates its work space per call, so that threads need no lock. */
tutti_status tt_topo_shortest_route(const struct tt_topo *t, uint32_t src, uint32_t dst,
                                    uint32_t *links, uint32_t *ret_len, struct tutti_error *err)
{
    const struct tt_routes *r = t->routes;
    uint32_t from = tt_topo_anchor(t, src), to = tt_topo_anchor(t, dst), len = 0, *dist = NULL;
    if (r->search == TT_SEARCH_TREE) {
        *ret_len = route_tree(t, src, dst, links);
        return TUTTI_OK;
    }
    if (r->search == TT_SEARCH_QUERY) {
        dist = tt_alloc(2 * (size_t)r->core.n, sizeof *dist);
        if (!dist)
            return tt_fail_memory(err, "route");
        search_back(&r->core, r->index[from], r->index[to], dist, dist + r->core.n);
    }
    if (from != src)
        links[len++] = t->g.id[t->g.start[src]];
    len += route_shortest_walk(t, from, to, dst, dist, links + len);
    if (to != dst)
        links[len++] = t->g.id[t->g.start[dst]] ^ 1;
    free(dist);
    *ret_len = len;
    return TUTTI_OK;
}
