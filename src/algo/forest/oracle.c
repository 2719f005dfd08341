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

#include "algo/forest/oracle.h"

/* ---- trees ---- */

tutti_status tt_forest_tree_done(struct tt_vec *edges, struct tt_vec *links, bool ok,
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
    tt_forest_append_way(n->t, w->via, l->a, links, &ok);
    ok = ok && tt_vec_push(links, &across, 1);
    for (uint32_t v = l->b; w->via[v] != UINT32_MAX && ok; v = tt_forest_tail_of(n->t, w->via[v])) {
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
    tt_forest_spread(n, length, 0, p - 1, w->dist, w->via);
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
    return ret ? tt_forest_tree_done(&edges, &links, ok, ret, err) : TUTTI_OK;
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
    tt_forest_spread(n, length, hub, hub, n->w->dist, n->w->via);
    for (uint32_t v = 0; v < n->t->ranks; v++)
        if (v != hub && n->w->via[v] == UINT32_MAX)
            return TUTTI_OK;
    for (uint32_t v = 0; v < n->t->ranks && ok; v++) {
        struct tt_forest_edge e = {.a = hub, .b = v, .first = (uint32_t)links.len};
        if (v == hub)
            continue;
        tt_forest_append_way(n->t, n->w->via, v, &links, &ok);
        e.n = (uint32_t)links.len - e.first;
        ok = ok && tt_vec_push(&edges, &e, 1);
    }
    return tt_forest_tree_done(&edges, &links, ok, ret, err);
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
        tt_forest_spread(n, length, r, r, dist, w->via + (size_t)r * vertices);
        for (uint32_t v = 0; v < p; v++)
            w->between[(size_t)r * p + v] = dist[v] + tt_forest_taken_length(n, length, v, false);
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
        tt_forest_append_way(n->t, n->w->via + (size_t)e.a * vertices, e.b, &links, &ok);
        e.n = (uint32_t)links.len - e.first;
        ok = ok && tt_vec_push(&edges, &e, 1);
    }
    ret->root = root;
    return tt_forest_tree_done(&edges, &links, ok, ret, err);
}

/* The cheapest of the roots root, root + p/roots, ..: the trees' parents go to w->parent[2p ..]
 * (up) and [3p ..] (down). */
static tutti_status best_root(const struct tt_forest_net *n, const struct tt_forest_query *q,
                              uint32_t *ret_root, double *ret_cost, struct tutti_error *err)
{
    uint32_t p = n->t->ranks, *now = n->w->parent, *best = n->w->parent + 2 * (size_t)p;
    double least = 1e300, charge;
    tutti_status st = TUTTI_OK;
    tt_forest_cheapest_rank(n, q->length, &charge);
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
        st = tt_forest_shallow_tree(n, q, &pair.down, err);
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
