/* oracle.c - the cheapest tree over all ranks when every resource has a length.
 *
 * Even networks: a minimum spanning tree of the ranks' distances through switches, found without
 * computing all distances (Mehlhorn 1988): grow the region of vertices nearest to each rank, then
 * take the cables between two regions by rising length (Kruskal). Others: distances from every rank
 * through switches, then the cheapest arborescence on them; for pairs the root with the least sum.
 *
 *     0 -1- x -1- 1        regions {0,x}, {1}, {2}: x-1 joins 0 and 1 at length 2, x-2 0 and 2 at 3
 *           |2             tree: 0-x-1 and 0-x-2 (cable 0-x is used twice)
 *           2
 *
 * Ranks are never inside a path: data that pass through a rank may as well be summed there. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/forest/forest.h"

struct heap_item {
    double dist;
    uint32_t vertex;
};
struct cable {
    double length;
    uint32_t link;
};

struct tt_forest_work {
    double *dist;              /* even: n; else ranks * n */
    uint32_t *via;             /* the directed link by which a vertex is reached */
    uint32_t *owner;           /* the rank whose region a vertex is in */
    double *between, *charged; /* not even: ranks * ranks */
    struct heap_item *heap;
    size_t nheap, heap_cap;
    bool nomem; /* the heap could not grow */
    struct cable *cables;
    uint32_t *set;    /* union-find of the ranks */
    uint32_t *parent; /* 4 * ranks: arborescences being compared, and the best */
};

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

/* Entries are not moved up when a distance falls: the vertex is pushed again, and outdated entries
 * are recognised by their distance. */
static void heap_push(struct tt_forest_work *w, double dist, uint32_t vertex)
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

static struct heap_item heap_pop(struct tt_forest_work *w)
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
            heap_push(w, d, x);
    }
}

/* What a rank's sending side adds to every path. */
static double sent_length(const struct tt_forest_net *n, const double *length, uint32_t r)
{
    return n->port[0][r] == UINT32_MAX ? 0 : length[n->port[0][r]];
}

/* What the rank at its end adds to a path; `up`: that of an in-tree. */
static double taken_length(const struct tt_forest_net *n, const double *length, uint32_t r, bool up)
{
    uint32_t in[2], count = tt_forest_taken_in(n, r, up, in);
    return (count > 0 ? length[in[0]] : 0) + (count > 1 ? length[in[1]] : 0);
}

/* Distances from the ranks first..last, all at once, through switches. From a single rank other
 * ranks are reached too; from several, only regions matter. */
static void oracle_spread(const struct tt_forest_net *n, const double *length, uint32_t first,
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
        dist[r] = sent_length(n, length, r);
        w->owner[r] = r;
    }
    for (uint32_t r = first; r <= last; r++)
        relax(n, length, r, ends, dist, via);
    while (w->nheap > 0) {
        struct heap_item x = heap_pop(w);
        if (x.dist == dist[x.vertex])
            relax(n, length, x.vertex, ends, dist, via);
    }
}

/* ---- trees ---- */

static uint32_t tail_of(const struct tt_topo *t, uint32_t d)
{
    return d & 1 ? t->links[d / 2].b : t->links[d / 2].a;
}

/* Appends the way to v from where `via` begins: links in order of travel. */
static void append_way(const struct tt_topo *t, const uint32_t *via, uint32_t v,
                       struct tt_vec *links, bool *ok)
{
    size_t from = links->len;
    for (; via[v] != UINT32_MAX && *ok; v = tail_of(t, via[v]))
        *ok = tt_vec_push(links, &via[v], 1);
    uint32_t *l = links->data;
    for (size_t i = from, j = links->len; i + 1 < j; i++) {
        uint32_t x = l[i];
        l[i] = l[--j];
        l[j] = x;
    }
}

/* Hands the lists over to the tree, or frees them. */
static tutti_status tree_done(struct tt_vec *edges, struct tt_vec *links, bool ok,
                              struct tt_forest_tree *ret, struct tutti_error *err)
{
    if (!ok) {
        tt_vec_free(edges);
        tt_vec_free(links);
        return tt_fail_memory(err, "tree");
    }
    ret->edges = edges->data;
    ret->nedges = (uint32_t)edges->len;
    ret->links = links->data;
    ret->nlinks = (uint32_t)links->len;
    return TUTTI_OK;
}

static int by_length(const void *a, const void *b)
{
    const struct cable *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->link < y->link ? -1 : x->link > y->link;
}

/* Union-find with path halving. */
static uint32_t set_of(uint32_t *set, uint32_t v)
{
    while (set[v] != v)
        v = set[v] = set[set[v]];
    return v;
}

/* Cables between two regions, by rising total length of the way over them. */
static size_t list_cables(const struct tt_forest_net *n, const double *length)
{
    struct tt_forest_work *w = n->w;
    size_t count = 0;
    for (uint32_t i = 0; i < n->t->nlinks; i++) {
        const struct tt_link *l = &n->t->links[i];
        if (w->dist[l->a] < 1e300 && w->dist[l->b] < 1e300 && w->owner[l->a] != w->owner[l->b])
            w->cables[count++] =
                (struct cable){w->dist[l->a] + w->dist[l->b] + length[n->of_link[2 * i]], i};
    }
    qsort(w->cables, count, sizeof *w->cables, by_length);
    return count;
}

/* Adds the edge owner(a) .. a - b .. owner(b) over the cable a-b. */
static bool add_cable(const struct tt_forest_net *n, uint32_t cable, struct tt_vec *edges,
                      struct tt_vec *links)
{
    const struct tt_link *l = &n->t->links[cable];
    struct tt_forest_work *w = n->w;
    struct tt_forest_edge e = {
        .a = w->owner[l->a], .b = w->owner[l->b], .first = (uint32_t)links->len};
    uint32_t across = 2 * cable;
    bool ok = true;
    append_way(n->t, w->via, l->a, links, &ok);
    ok = ok && tt_vec_push(links, &across, 1);
    for (uint32_t v = l->b; w->via[v] != UINT32_MAX && ok; v = tail_of(n->t, w->via[v])) {
        uint32_t back = w->via[v] ^ 1;
        ok = tt_vec_push(links, &back, 1);
    }
    e.n = (uint32_t)links->len - e.first;
    return ok && tt_vec_push(edges, &e, 1);
}

/* ret NULL: only the cost is wanted. */
static tutti_status spanning_tree(const struct tt_forest_net *n, const double *length,
                                  struct tt_forest_tree *ret, double *ret_cost,
                                  struct tutti_error *err)
{
    struct tt_vec edges = {.elem = sizeof(struct tt_forest_edge)},
                  links = {.elem = sizeof(uint32_t)};
    struct tt_forest_work *w = n->w;
    uint32_t p = n->t->ranks, joined = 1;
    bool ok = true;
    oracle_spread(n, length, 0, p - 1, w->dist, w->via);
    size_t count = list_cables(n, length);
    *ret_cost = 0;
    for (uint32_t r = 0; r < p; r++)
        w->set[r] = r;
    for (size_t i = 0; i < count && joined < p && ok; i++) {
        const struct tt_link *l = &n->t->links[w->cables[i].link];
        uint32_t a = set_of(w->set, w->owner[l->a]), b = set_of(w->set, w->owner[l->b]);
        if (a == b)
            continue;
        w->set[a] = b;
        joined++;
        *ret_cost += w->cables[i].length;
        ok = !ret || add_cable(n, w->cables[i].link, &edges, &links);
    }
    assert(!ok || joined == p);
    return ret ? tree_done(&edges, &links, ok, ret, err) : TUTTI_OK;
}

/* ---- shallow trees: each rank joins where its way plus a charge for every step to the root is
 * least (Prim; without a charge the cheapest tree). Ranks that join become sources of further ways,
 * so distances may fall again during the search. ---- */

/* The rank with the cheapest link; *ret_typical: the mean of that over all ranks, both ends
 * counted. */
static uint32_t cheapest_rank(const struct tt_forest_net *n, const double *length,
                              double *ret_typical)
{
    const struct tt_graph *g = &n->t->g;
    uint32_t best = 0;
    double least = 1e300, sum = 0;
    for (uint32_t r = 0; r < n->t->ranks; r++) {
        double own = 1e300;
        for (uint32_t k = g->start[r]; k < g->start[r + 1]; k++)
            own = length[n->of_link[g->id[k]]] < own ? length[n->of_link[g->id[k]]] : own;
        own += sent_length(n, length, r);
        sum += own;
        if (own < least) {
            least = own;
            best = r;
        }
    }
    *ret_typical = 2 * sum / n->t->ranks;
    return best;
}

/* The way to the head of v's arc k through v, if that is shorter than what is known. */
static void oracle_relax(const struct tt_forest_net *n, const double *length, uint32_t v,
                         uint32_t k, bool up)
{
    const struct tt_graph *g = &n->t->g;
    struct tt_forest_work *w = n->w;
    uint32_t x = g->head[k];
    double d = w->dist[v] + length[n->of_link[g->id[k]]];
    d += x < n->t->ranks ? taken_length(n, length, x, up) : 0;
    if (d >= w->dist[x])
        return;
    w->dist[x] = d;
    w->via[x] = g->id[k];
    heap_push(w, d, x);
}

/* Extends from v to switches and to ranks that have not joined (set[] is UINT32_MAX). */
static void oracle_reach(const struct tt_forest_net *n, const double *length, uint32_t v)
{
    const struct tt_graph *g = &n->t->g;
    struct tt_forest_work *w = n->w;
    for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
        uint32_t x = g->head[k];
        if (x >= n->t->ranks || w->set[x] == UINT32_MAX)
            oracle_relax(n, length, v, k, false);
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
    append_way(n->t, w->via, v, links, &ok);
    if (!ok)
        return false;
    e.n = (uint32_t)links->len - e.first;
    e.a = tail_of(n->t, ((const uint32_t *)links->data)[e.first]);
    w->set[v] = w->set[e.a] + 1;
    return tt_vec_push(edges, &e, 1);
}

/* A joined rank offers ways that begin with its depth's charge. */
static void become_source(const struct tt_forest_net *n, const struct tt_forest_query *q,
                          uint32_t v, double charge)
{
    struct tt_forest_work *w = n->w;
    w->dist[v] = charge * w->set[v] + sent_length(n, q->length, v);
    w->via[v] = UINT32_MAX;
    oracle_reach(n, q->length, v);
}

/* Invariant: set[r] is the depth of joined ranks, UINT32_MAX of the others. */
static tutti_status shallow_tree(const struct tt_forest_net *n, const struct tt_forest_query *q,
                                 struct tt_forest_tree *ret, struct tutti_error *err)
{
    struct tt_vec edges = {.elem = sizeof(struct tt_forest_edge)},
                  links = {.elem = sizeof(uint32_t)};
    struct tt_forest_work *w = n->w;
    double typical;
    uint32_t root = cheapest_rank(n, q->length, &typical);
    bool ok = true;
    w->nheap = 0;
    for (uint32_t v = 0; v < n->t->ranks + n->t->switches; v++)
        w->dist[v] = 1e300;
    memset(w->set, 0xff, n->t->ranks * sizeof *w->set);
    w->set[root] = 0;
    become_source(n, q, root, q->shallow * typical);
    while (w->nheap > 0 && ok) {
        struct heap_item x = heap_pop(w);
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
    return tree_done(&edges, &links, ok && !w->nomem, ret, err);
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
            oracle_relax(n, length, v, k, up);
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
        w->dist[v] =
            v < n->t->ranks && role[v] == TT_FOREST_SOURCE ? sent_length(n, length, v) : 1e300;
        w->via[v] = UINT32_MAX;
    }
    for (uint32_t r = 0; r < n->t->ranks; r++)
        if (role[r] == TT_FOREST_SOURCE)
            go_on(n, length, r, role, up);
    while (w->nheap > 0 && end == UINT32_MAX) {
        struct heap_item x = heap_pop(w);
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
    append_way(n->t, w->via, end, links, &ok);
    ret->n = (uint32_t)links->len - ret->first;
    if (ok)
        ret->a = tail_of(n->t, ((const uint32_t *)links->data)[ret->first]);
    return ok;
}

/* A tree without edges means that some rank cannot be reached through switches alone. */
tutti_status tt_forest_star(const struct tt_forest_net *n, uint32_t hub, const double *length,
                            struct tt_forest_tree *ret, struct tutti_error *err)
{
    struct tt_vec edges = {.elem = sizeof(struct tt_forest_edge)},
                  links = {.elem = sizeof(uint32_t)};
    bool ok = true;
    assert(n->even);
    *ret = (struct tt_forest_tree){.root = hub};
    oracle_spread(n, length, hub, hub, n->w->dist, n->w->via);
    for (uint32_t v = 0; v < n->t->ranks; v++)
        if (v != hub && n->w->via[v] == UINT32_MAX)
            return TUTTI_OK;
    for (uint32_t v = 0; v < n->t->ranks && ok; v++) {
        struct tt_forest_edge e = {.a = hub, .b = v, .first = (uint32_t)links.len};
        if (v == hub)
            continue;
        append_way(n->t, n->w->via, v, &links, &ok);
        e.n = (uint32_t)links.len - e.first;
        ok = ok && tt_vec_push(&edges, &e, 1);
    }
    return tree_done(&edges, &links, ok, ret, err);
}

/* ---- directed ---- */

/* The distance between two ranks includes both ports; what summing costs is added by trees that
 * sum. */
static void all_distances(const struct tt_forest_net *n, const double *length)
{
    uint32_t p = n->t->ranks, vertices = p + n->t->switches;
    struct tt_forest_work *w = n->w;
    for (uint32_t r = 0; r < p; r++) {
        double *dist = w->dist + (size_t)r * vertices;
        oracle_spread(n, length, r, r, dist, w->via + (size_t)r * vertices);
        for (uint32_t v = 0; v < p; v++)
            w->between[(size_t)r * p + v] = dist[v] + taken_length(n, length, v, false);
    }
}

/* The additions that every message to v costs. */
static double sum_length(const struct tt_forest_net *n, const double *length, uint32_t v)
{
    return n->sums[v] == UINT32_MAX ? 0 : length[n->sums[v]];
}

/* Distances with a charge on all arcs whose upper end is not the root, so that children of the root
 * are preferred. */
static void charge_others(const struct tt_forest_net *n, const double *length, uint32_t root,
                          bool inward, double charge)
{
    uint32_t p = n->t->ranks;
    for (uint32_t u = 0; u < p; u++)
        for (uint32_t v = 0; v < p; v++)
            n->w->charged[(size_t)u * p + v] = n->w->between[(size_t)u * p + v] +
                                               (inward ? sum_length(n, length, v) : 0) +
                                               ((inward ? v : u) == root ? 0 : charge);
}

/* The charge shapes the tree; the cost is counted without it. */
static tutti_status arborescence(const struct tt_forest_net *n, const double *length, uint32_t root,
                                 bool inward, double charge, uint32_t *parent, double *ret_cost,
                                 struct tutti_error *err)
{
    uint32_t p = n->t->ranks;
    const double *d = n->w->between;
    charge_others(n, length, root, inward, charge);
    tutti_status st = tt_graph_arborescence(p, root, n->w->charged, inward, parent, err);
    double sum = 0;
    for (uint32_t v = 0; v < p && !st; v++)
        if (v != root)
            sum += inward ? d[(size_t)v * p + parent[v]] + sum_length(n, length, parent[v])
                          : d[(size_t)parent[v] * p + v];
    *ret_cost = sum;
    return st;
}

/* The tree of the given parents, with the paths that all_distances found. */
static tutti_status take_tree(const struct tt_forest_net *n, uint32_t root, bool inward,
                              const uint32_t *parent, struct tt_forest_tree *ret,
                              struct tutti_error *err)
{
    struct tt_vec edges = {.elem = sizeof(struct tt_forest_edge)},
                  links = {.elem = sizeof(uint32_t)};
    uint32_t p = n->t->ranks, vertices = p + n->t->switches;
    bool ok = true;
    for (uint32_t v = 0; v < p && ok; v++) {
        if (v == root)
            continue;
        struct tt_forest_edge e = {
            .a = inward ? v : parent[v], .b = inward ? parent[v] : v, .first = (uint32_t)links.len};
        append_way(n->t, n->w->via + (size_t)e.a * vertices, e.b, &links, &ok);
        e.n = (uint32_t)links.len - e.first;
        ok = ok && tt_vec_push(&edges, &e, 1);
    }
    ret->root = root;
    return tree_done(&edges, &links, ok, ret, err);
}

/* The cheapest of the roots root, root + p/roots, ..: the trees' parents go to w->parent[2p ..]
 * (up) and [3p ..] (down). */
static tutti_status best_root(const struct tt_forest_net *n, const struct tt_forest_query *q,
                              uint32_t *ret_root, double *ret_cost, struct tutti_error *err)
{
    uint32_t p = n->t->ranks, *now = n->w->parent, *best = n->w->parent + 2 * (size_t)p;
    double least = 1e300, charge;
    tutti_status st = TUTTI_OK;
    cheapest_rank(n, q->length, &charge);
    charge *= q->shallow;
    for (uint32_t i = 0; i < q->roots && !st; i++) {
        uint32_t r = (uint32_t)((q->root + (uint64_t)i * p / q->roots) % p);
        double up = 0, down = 0;
        if (q->kind != TT_FOREST_DOWN)
            st = arborescence(n, q->length, r, true, charge, now, &up, err);
        if (!st && q->kind != TT_FOREST_UP)
            st = arborescence(n, q->length, r, false, charge, now + p, &down, err);
        if (st || up + down >= least)
            continue;
        least = up + down;
        *ret_root = r;
        memcpy(best, now, 2 * (size_t)p * sizeof *now);
    }
    *ret_cost = least;
    return st;
}

tutti_status tt_forest_cheapest(const struct tt_forest_net *n, const struct tt_forest_query *q,
                                struct tt_forest_pair *ret, double *ret_cost,
                                struct tutti_error *err)
{
    uint32_t p = n->t->ranks, root = q->root;
    struct tt_forest_pair pair = {0};
    tutti_status st;
    if (n->even && q->shallow > 0) {
        st = shallow_tree(n, q, &pair.down, err);
        *ret_cost = 0;
    } else if (n->even) {
        st = spanning_tree(n, q->length, ret ? &pair.down : NULL, ret_cost, err);
    } else {
        all_distances(n, q->length);
        st = best_root(n, q, &root, ret_cost, err);
        if (!st && ret && q->kind != TT_FOREST_DOWN)
            st = take_tree(n, root, true, n->w->parent + 2 * (size_t)p, &pair.up, err);
        if (!st && ret && q->kind != TT_FOREST_UP)
            st = take_tree(n, root, false, n->w->parent + 3 * (size_t)p, &pair.down, err);
    }
    if (st) {
        tt_forest_pair_free(&pair);
        return st;
    }
    if (ret)
        *ret = pair;
    return TUTTI_OK;
}
