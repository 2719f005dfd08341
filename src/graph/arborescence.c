/* arborescence.c - the cheapest spanning tree directed away from a root (Chu, Liu 1965; Edmonds
 * 1967) in a complete graph.
 *
 * Every vertex but the root picks its cheapest arc in. Where the picks form cycles, each cycle
 * becomes one vertex of a smaller graph, in which an arc into the cycle costs what it adds: its own
 * weight less that of the pick it would replace. The answer there is expanded level by level: the
 * arc that enters a cycle replaces the pick of the vertex it leads to, all others keep theirs.
 *
 *      root --5--> a <--1-- b      picks b->a, a->b: a cycle; root->a adds 5-1, root->b adds 3-2
 *          \--3--> b <--2-- a      the root enters at b (1 is less than 4): answer root->b->a, 3+1
 *
 * Cost: O(n^2) per level; all cycles of a level are contracted at once, so there are few levels.
 * Ties go to the lower vertex. */
#include "graph/graph.h"

#include <assert.h>
#include <stdlib.h>

struct arc {
    double weight;
    uint32_t from, to; /* vertices of the caller */
};

/* A graph of n vertices, some of them contracted cycles of the graph before. */
struct level {
    uint32_t n, root;
    struct arc *arcs;  /* [from * n + to] */
    struct arc *pick;  /* per vertex: cheapest arc in */
    uint32_t *pick_at; /* where that comes from, as a vertex of this level */
    uint32_t *up;      /* vertex of the next level */
    uint32_t *of;      /* caller's vertex -> vertex of this level */
};

static void level_free(struct level *l)
{
    free(l->arcs);
    free(l->pick);
    free(l->pick_at);
    free(l->up);
    free(l->of);
}

/* vertices: of the caller's graph. On failure the caller frees what was made. */
static bool level_alloc(struct level *l, uint32_t n, uint32_t vertices)
{
    *l = (struct level){.n = n};
    l->arcs = tt_alloc((size_t)n * n, sizeof *l->arcs);
    l->pick = tt_alloc(n, sizeof *l->pick);
    l->pick_at = tt_alloc(n, sizeof *l->pick_at);
    l->up = tt_alloc(n, sizeof *l->up);
    l->of = tt_alloc(vertices, sizeof *l->of);
    return l->arcs && l->pick && l->pick_at && l->up && l->of;
}

/* Row by row, as the arcs lie in memory. The strict comparison keeps the lowest of equal
 * sources. */
static void pick_arcs(struct level *l)
{
    for (uint32_t v = 0; v < l->n; v++)
        l->pick_at[v] = UINT32_MAX;
    for (uint32_t u = 0; u < l->n; u++) {
        const struct arc *row = l->arcs + (size_t)u * l->n;
        for (uint32_t v = 0; v < l->n; v++)
            if (u != v && (l->pick_at[v] == UINT32_MAX || row[v].weight < l->pick[v].weight)) {
                l->pick[v] = row[v];
                l->pick_at[v] = u;
            }
    }
    l->pick_at[l->root] = UINT32_MAX;
}

/* Numbers the vertices of the next level in `up`: one per cycle of picks, one per vertex outside.
 * Returns how many. */
static uint32_t number_cycles(struct level *l)
{
    const uint32_t none = UINT32_MAX;
    /* until numbered, `up` holds the mark of the walk that visited the vertex, from n on */
    uint32_t *seen = l->up, next = 0;
    for (uint32_t v = 0; v < l->n; v++)
        seen[v] = none;
    for (uint32_t start = 0; start < l->n; start++) {
        uint32_t mark = l->n + start, v = start;
        while (v != none && seen[v] == none) {
            seen[v] = mark;
            v = l->pick_at[v];
        }
        if (v != none && seen[v] == mark) { /* a new cycle, from v on */
            for (uint32_t w = v; seen[w] == mark; w = l->pick_at[w])
                seen[w] = next;
            next++;
        }
        for (v = start; v != none && seen[v] == mark; v = l->pick_at[v])
            seen[v] = next++;
    }
    assert(next > 0 && next <= l->n);
    return next;
}

/* The arcs of the contracted graph: of all that coincide, the cheapest. */
static void contract(const struct level *l, struct level *c, uint32_t vertices)
{
    for (size_t i = 0; i < (size_t)c->n * c->n; i++)
        c->arcs[i].from = UINT32_MAX;
    assert(c->n < l->n);
    c->root = l->up[l->root];
    for (uint32_t v = 0; v < vertices; v++)
        c->of[v] = l->up[l->of[v]];
    for (uint32_t u = 0; u < l->n; u++) {
        const uint32_t n = l->n, root = l->root, *up = l->up;
        const struct arc *row = l->arcs + (size_t)u * n, *pick = l->pick;
        struct arc *into = c->arcs + (size_t)up[u] * c->n;
        for (uint32_t v = 0; v < n; v++) {
            if (up[u] == up[v] || v == root)
                continue;
            struct arc *best = &into[up[v]];
            const double adds = row[v].weight - pick[v].weight;
            if (best->from == UINT32_MAX || adds < best->weight)
                *best = (struct arc){adds, row[v].from, row[v].to};
        }
    }
    /* arcs into the root are never picked, but must have a weight */
    for (uint32_t u = 0; u < c->n; u++)
        if (c->arcs[(size_t)u * c->n + c->root].from == UINT32_MAX)
            c->arcs[(size_t)u * c->n + c->root] = (struct arc){0};
}

/* Keeps the picks of l, except at the vertex where the arc into its cycle enters. */
static void expand(struct level *l, const struct level *c)
{
    for (uint32_t v = 0; v < l->n; v++) {
        uint32_t s = l->up[v];
        if (s != c->root && l->of[c->pick[s].to] == v)
            l->pick[v] = c->pick[s];
    }
}

/* inward: the arcs are reversed, and so is the resulting tree. */
static void first_level(struct level *l, const double *weight, uint32_t root, bool inward)
{
    uint32_t n = l->n;
    l->root = root;
    for (uint32_t u = 0; u < n; u++) {
        l->of[u] = u;
        for (uint32_t v = 0; v < n; v++)
            l->arcs[(size_t)u * n + v] =
                (struct arc){weight[inward ? (size_t)v * n + u : (size_t)u * n + v], u, v};
    }
}

tutti_status tt_graph_arborescence(uint32_t n, uint32_t root, const double *weight, bool inward,
                                   uint32_t *parent, struct tutti_error *err)
{
    struct tt_vec levels = {.elem = sizeof(struct level)};
    struct level *l = tt_vec_push(&levels, NULL, 1);
    tutti_status st = TUTTI_ERR_MEMORY;
    bool ok = l && level_alloc(l, n, n);
    assert(root < n);
    if (ok)
        first_level(l, weight, root, inward);
    /* Each round either finds no cycle or adds a smaller level; the root alone has none. */
    for (bool cyclic = ok; cyclic;) {
        l = tt_vec_at(&levels, levels.len - 1);
        pick_arcs(l);
        uint32_t fewer = number_cycles(l);
        cyclic = fewer < l->n;
        if (!cyclic)
            break;
        struct level *c = tt_vec_push(&levels, NULL, 1);
        ok = c && level_alloc(c, fewer, n);
        cyclic = ok;
        if (ok)
            contract(tt_vec_at(&levels, levels.len - 2), c, n);
    }
    if (!ok) {
        tt_fail_memory(err, "arborescence");
        goto out;
    }
    for (size_t i = levels.len - 1; i-- > 0;)
        expand(tt_vec_at(&levels, i), tt_vec_at(&levels, i + 1));
    l = tt_vec_at(&levels, 0);
    for (uint32_t v = 0; v < n; v++)
        parent[v] = v == root ? UINT32_MAX : l->pick[v].from;
    st = TUTTI_OK;
out:
    for (size_t i = 0; i < levels.len; i++)
        level_free(tt_vec_at(&levels, i));
    tt_vec_free(&levels);
    return st;
}
