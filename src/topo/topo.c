/* topo.c - the life of a network: an empty one, links appended, finished, freed.
 *
 * tt_topo_finish is the only gate: whatever a generator or a file says is checked there (ends,
 * bandwidths, every vertex connected, the hierarchy, the regular structure that a closed-form
 * routing claims), then the adjacency, the routes and the hash are made.
 *
 *     tt_topo_new -> tt_topo_add_link ... -> tt_topo_finish: check, graph, routes, hash
 *
 * Invariant of a finished topology: the arcs of a vertex in t->g are in ascending order of
 * neighbour, then link id; so "the lowest neighbour" is "the first arc" everywhere. */
#include <assert.h>

#include "topo/topo_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tutti_status tt_topo_new(const char *kind, uint32_t ranks, uint32_t switches, struct tt_topo **ret,
                         struct tutti_error *err)
{
    if (ranks == 0)
        return tt_fail(err, TUTTI_ERR_RANGE, "%s: 0 ranks; at least 1 is needed", kind);
    if (ranks > TT_TOPO_MAX_RANKS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%s: %u ranks; at most %d are accepted", kind, ranks,
                       TT_TOPO_MAX_RANKS);
    if (switches > TT_TOPO_MAX_VERTICES - ranks)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "%s: %u switches; ranks and switches together are at most %d", kind,
                       switches, TT_TOPO_MAX_VERTICES);
    struct tt_topo *t = tt_zalloc(1, sizeof *t);
    if (!t)
        return tt_fail_memory(err, "topology");
    t->ranks = ranks;
    t->switches = switches;
    t->kind = tt_strdup(kind);
    if (!t->kind) {
        tt_topo_free(t);
        return tt_fail_memory(err, "topology");
    }
    *ret = t;
    return TUTTI_OK;
}

/* Accepts every state between tt_topo_new and the end of tt_topo_finish. */
void tt_topo_free(struct tt_topo *t)
{
    if (!t)
        return;
    if (t->names)
        for (uint32_t v = 0; v < t->ranks + t->switches; v++)
            free(t->names[v]);
    free(t->names);
    free(t->spec);
    free(t->kind);
    free(t->links);
    tt_graph_free(&t->g);
    tt_topo_tree_free(t->tree);
    tt_topo_routes_free(t->routes);
    free(t);
}

/* The capacity is not stored: it is always the next power of two of nlinks, at least 16. */
tutti_status tt_topo_add_link(struct tt_topo *t, const struct tt_link *link,
                              struct tutti_error *err)
{
    uint32_t n = t->nlinks;
    if (n >= TT_TOPO_MAX_LINKS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%s: more than %d links", t->kind, TT_TOPO_MAX_LINKS);
    if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
        struct tt_link *more = tt_resize(t->links, n ? 2 * (size_t)n : 16, sizeof *more);
        if (!more)
            return tt_fail_memory(err, "links");
        t->links = more;
    }
    t->links[n] = *link;
    /* Readers of either direction find the shared bandwidth. */
    if (link->half)
        t->links[n].bw[1] = link->bw[0];
    t->nlinks++;
    return TUTTI_OK;
}

/* A vertex that does not exist gets a number too: messages about bad input need one. */
char *tt_topo_vertex_name(const struct tt_topo *t, uint32_t v, char *buf, size_t cap)
{
    if (t->names && v < t->ranks + t->switches && t->names[v])
        snprintf(buf, cap, "%s", t->names[v]);
    else if (v < t->ranks)
        snprintf(buf, cap, "rank %u", v);
    else
        snprintf(buf, cap, "switch %u", v - t->ranks);
    return buf;
}

/* Written so that NaN fails. */
static tutti_status check_bw(double bw, struct tutti_error *err)
{
    if (!(bw > 0))
        return tt_fail(err, TUTTI_ERR_RANGE, "bandwidth %g bytes/s is not positive", bw);
    if (!(bw >= TT_TOPO_MIN_BW && bw <= TT_TOPO_MAX_BW))
        return tt_fail(err, TUTTI_ERR_RANGE, "bandwidth %g bytes/s; allowed are %g to %g", bw,
                       TT_TOPO_MIN_BW, TT_TOPO_MAX_BW);
    return TUTTI_OK;
}

tutti_status tt_topo_link_check(const struct tt_topo *t, const struct tt_link *link,
                                struct tutti_error *err)
{
    uint32_t n = t->ranks + t->switches;
    uint32_t top = link->a > link->b ? link->a : link->b;
    if (top >= n)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "vertex %u does not exist: %u rank%s and %u switch%s are 0 to %u", top,
                       t->ranks, t->ranks == 1 ? "" : "s", t->switches,
                       t->switches == 1 ? "" : "es", n - 1);
    if (link->a == link->b)
        return tt_fail(err, TUTTI_ERR_RANGE, "vertex %u is joined with itself", link->a);
    tutti_status st = check_bw(link->bw[0], err);
    if (!st)
        st = check_bw(link->bw[1], err);
    if (!st && link->latency_ps > TT_TOPO_MAX_LATENCY_PS)
        st = tt_fail(err, TUTTI_ERR_RANGE, "latency %llu ps; at most 10 s is allowed",
                     (unsigned long long)link->latency_ps);
    return st;
}

tutti_status tt_topo_gamma_check(double gamma, struct tutti_error *err)
{
    if (!(gamma >= 0 && gamma <= 1))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "gamma (reduction time per byte) is %g s; allowed are 0 to 1 s", gamma);
    return TUTTI_OK;
}

/* Every number of the network is in its range; the first that is not is named. */
static tutti_status check_values(const struct tt_topo *t, struct tutti_error *err)
{
    for (uint32_t i = 0; i < t->nlinks; i++) {
        tutti_status st = tt_topo_link_check(t, &t->links[i], err);
        if (st) {
            tt_fail_prefix(err, "link %u", i);
            return st;
        }
    }
    if (t->ports > TT_TOPO_MAX_PORTS)
        return tt_fail(err, TUTTI_ERR_RANGE, "ports is %u; allowed are 1 to %d", t->ports,
                       TT_TOPO_MAX_PORTS);
    if (t->overhead_ps > TT_TOPO_MAX_LATENCY_PS)
        return tt_fail(err, TUTTI_ERR_RANGE, "overhead is %llu ps; at most 10 s is allowed",
                       (unsigned long long)t->overhead_ps);
    if (t->memory.npoints && t->ranks < 2)
        return tt_fail(err, TUTTI_ERR_RANGE, "memory: a network of one rank has none");
    tutti_status st = tt_topo_memory_check(&t->memory, err);
    return st ? st : tt_topo_gamma_check(t->gamma, err);
}

/* Names v and a vertex that cannot reach it. */
static tutti_status fail_lonely(const struct tt_topo *t, uint32_t v, struct tutti_error *err)
{
    char a[80], b[80];
    tt_topo_vertex_name(t, v, a, sizeof a);
    tt_topo_vertex_name(t, v == 0 ? 1 : 0, b, sizeof b);
    return tt_fail(err, TUTTI_ERR_RANGE, "%s cannot reach %s: no links lead from one to the other",
                   b, a);
}

/* Every vertex needs a link (unless it is the only one). L links touch at most 2L vertices, so the
 * first 2L+1 vertices include an unconnected one if there is any: no memory is allocated for what a
 * file merely claims to have. */
static tutti_status check_lonely(const struct tt_topo *t, struct tutti_error *err)
{
    uint64_t n = (uint64_t)t->ranks + t->switches, touched = 2 * (uint64_t)t->nlinks + 1;
    if (n == 1)
        return TUTTI_OK;
    n = n < touched ? n : touched;
    uint8_t *seen = tt_zalloc(n, 1);
    if (!seen)
        return tt_fail_memory(err, "vertices");
    for (uint32_t i = 0; i < t->nlinks; i++) {
        if (t->links[i].a < n)
            seen[t->links[i].a] = 1;
        if (t->links[i].b < n)
            seen[t->links[i].b] = 1;
    }
    const uint8_t *lonely = memchr(seen, 0, n);
    tutti_status st = lonely ? fail_lonely(t, (uint32_t)(lonely - seen), err) : TUTTI_OK;
    free(seen);
    return st;
}

/* Sorts the arcs of every vertex by neighbour: visiting all u in order and appending u to the lists
 * of its neighbours leaves every list sorted. The reverse of arc e is e ^ 1. */
static tutti_status sort_arcs(struct tt_graph *g, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint32_t *at = tt_alloc(g->n, sizeof *at), *head = tt_alloc(g->narcs + 1u, sizeof *head),
             *id = tt_alloc(g->narcs + 1u, sizeof *id);
    if (!at || !head || !id) {
        st = tt_fail_memory(err, "adjacency");
        goto out;
    }
    memcpy(at, g->start, g->n * sizeof *at);
    for (uint32_t u = 0; u < g->n; u++)
        for (uint32_t k = g->start[u]; k < g->start[u + 1]; k++) {
            assert(at[g->head[k]] < g->start[g->head[k] + 1]);
            uint32_t slot = at[g->head[k]]++;
            head[slot] = u;
            id[slot] = g->id[k] ^ 1;
        }
    if (g->narcs) {
        memcpy(g->head, head, g->narcs * sizeof *head);
        memcpy(g->id, id, g->narcs * sizeof *id);
    }
out:
    free(at);
    free(head);
    free(id);
    return st;
}

/* Arc ids are directed link ids: 2*i from a to b, 2*i+1 back. */
static tutti_status make_graph(struct tt_topo *t, struct tutti_error *err)
{
    uint32_t narcs = 2 * t->nlinks;
    uint32_t *tail = tt_alloc(narcs + 1u, sizeof *tail), *head = tt_alloc(narcs + 1u, sizeof *head);
    tutti_status st = tail && head ? TUTTI_OK : tt_fail_memory(err, "adjacency");
    if (st)
        goto out;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        tail[2 * i] = head[2 * i + 1] = t->links[i].a;
        head[2 * i] = tail[2 * i + 1] = t->links[i].b;
    }
    st = tt_graph_make(t->ranks + t->switches, narcs, tail, head, &t->g, err);
out:
    free(tail);
    free(head);
    return st ? st : sort_arcs(&t->g, err);
}

/* Switches must be reachable too: all vertices, not only ranks. */
static tutti_status check_connected(const struct tt_topo *t, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint32_t *dist = tt_alloc(t->g.n, sizeof *dist), *queue = tt_alloc(t->g.n, sizeof *queue);
    if (!dist || !queue) {
        st = tt_fail_memory(err, "connectivity");
        goto out;
    }
    tt_graph_bfs(&t->g, 0, dist, queue);
    for (uint32_t v = 0; v < t->g.n && !st; v++)
        if (dist[v] == UINT32_MAX)
            st = fail_lonely(t, v, err);
out:
    free(dist);
    free(queue);
    return st;
}

/* Have all links the same speeds, latency and duplex? */
static bool uniform(const struct tt_topo *t)
{
    for (uint32_t i = 1; i < t->nlinks; i++) {
        const struct tt_link *x = &t->links[0], *y = &t->links[i];
        if (x->bw[0] != y->bw[0] || x->bw[1] != y->bw[1] || x->latency_ps != y->latency_ps ||
            x->half != y->half)
            return false;
    }
    return true;
}

/* Does rank r -> r+1 map the network onto itself? Stars may have different speeds up and down (the
 * rank's end is always a); loops must be the same both ways, because the cable of jump n/2 is used
 * in both directions. */
static bool is_rotational(const struct tt_topo *t)
{
    if (t->routing == TT_ROUTE_STAR)
        return uniform(t);
    if (t->routing != TT_ROUTE_CIRCULANT || t->switches)
        return false;
    return uniform(t) && (t->nlinks == 0 || t->links[0].bw[0] == t->links[0].bw[1]);
}

/* A cable from every rank to the next one along every dimension, and no other. Half duplex is left
 * out: moving along a dimension would use both directions at once. */
static bool is_toroidal(const struct tt_topo *t)
{
    uint64_t links = 0;
    if (t->routing != TT_ROUTE_GRID || !t->ndims || t->switches || !uniform(t))
        return false;
    for (uint32_t d = 0; d < t->ndims; d++) {
        if (!t->wrap && t->dims[d] > 2)
            return false;
        links += t->dims[d] > 2 ? t->ranks : t->dims[d] == 2 ? t->ranks / 2 : 0;
    }
    return links == t->nlinks &&
           (!links || (t->links[0].bw[0] == t->links[0].bw[1] && !t->links[0].half));
}

/* The order of values counts: a then b gives another hash than b then a. */
static uint64_t topo_feed(uint64_t h, uint64_t v)
{
    return tt_mix64((h ^ v) + UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t feed_real(uint64_t h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return topo_feed(h, bits);
}

uint64_t tt_topo_memory_hash(const struct tt_memory *m, uint64_t h)
{
    if (!m->npoints)
        return h;
    h = topo_feed(topo_feed(topo_feed(h, m->npoints), m->box_bytes), m->segment_bytes);
    for (uint32_t i = 0; i < m->npoints; i++)
        h = topo_feed(topo_feed(topo_feed(topo_feed(h, m->point[i].bytes), m->point[i].move_ps),
                                m->point[i].own_ps),
                      m->point[i].box_ps);
    return h;
}

/* Integers are mixed by value, so that byte order does not matter. The kind, the names and `wrap`
 * (the links show it) are left out; the hierarchy is included, because it decides which schedules
 * exist. Never 0, which means "any topology" elsewhere. */
static uint64_t hash_of(const struct tt_topo *t)
{
    uint64_t h =
        topo_feed(topo_feed(topo_feed(UINT64_C(0x7475747469), t->ranks), t->switches), t->nlinks);
    h = topo_feed(topo_feed(feed_real(topo_feed(h, t->ports), t->gamma), t->overhead_ps),
                  t->routing);
    h = tt_topo_memory_hash(&t->memory, h);
    h = topo_feed(h, t->ndims);
    for (uint32_t d = 0; d < t->ndims; d++)
        h = topo_feed(h, t->dims[d]);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        h = topo_feed(h, (uint64_t)l->a << 32 | l->b);
        h = feed_real(feed_real(h, l->bw[0]), l->bw[1]);
        h = topo_feed(h, l->latency_ps << 1 | l->half);
    }
    h = topo_feed(h, t->tree ? t->tree->nnodes : 0);
    for (uint32_t i = 1; t->tree && i < t->tree->nnodes; i++)
        h = topo_feed(topo_feed(h, (uint64_t)t->tree->parent[i] << 32 | t->tree->rank[i]),
                      t->tree->uplink[i]);
    return h ? h : 1;
}

/* In this order: every step relies on what the steps before it have checked. */
static tutti_status topo_finish(struct tt_topo *t, struct tutti_error *err)
{
    tutti_status st = check_values(t, err);
    if (!st)
        st = check_lonely(t, err);
    if (!st)
        st = make_graph(t, err);
    if (!st)
        st = check_connected(t, err);
    if (!st && t->tree)
        st = tt_topo_tree_check(t, err);
    if (!st)
        st = tt_topo_routes_make(t, err);
    if (!st && !t->spec && !(t->spec = tt_strdup(t->kind)))
        st = tt_fail_memory(err, "topology");
    return st;
}

/* Symmetries and hash come last: they rely on checked values and made routes. */
tutti_status tt_topo_finish(struct tt_topo *t, struct tt_topo **ret, struct tutti_error *err)
{
    tutti_status st = topo_finish(t, err);
    if (st) {
        tt_topo_free(t);
        return st;
    }
    assert(t->routes && t->g.n == t->ranks + t->switches && t->g.narcs == 2 * t->nlinks);
    t->rotational = is_rotational(t);
    t->toroidal = is_toroidal(t);
    t->hash = hash_of(t);
    *ret = t;
    return TUTTI_OK;
}
