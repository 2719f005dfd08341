/* swap.c - changes trees of equal weight edge by edge until no resource is loaded beyond its limit.
 *
 * Whole trees laid by lengths (equal.c) end with a few resources used once too often and as many
 * with room. An edge of a tree that uses such a resource is taken out; the two halves of the tree
 * are joined again by the cheapest way, where a resource with room is cheap, a full one costs 1 and
 * the one just left is forbidden. The surplus thereby moves to another resource, where another tree
 * moves it on, until it reaches one with room. Ties are broken by a seeded generator, so that the
 * surplus wanders instead of going back and forth.
 *
 *     two trees on a square of cables that carry one each:
 *     tree A 0-1-2-3, tree B 1-2-3-0: cables 1-2 and 2-3 have a surplus
 *     (three edges each on four cables cannot fit; limits 2 on cables 1-2, 2-3 would do)
 *
 * In a switchless network this walks the exchange graph of the spanning trees' matroid, in which a
 * chain of exchanges exists whenever a packing does (Edmonds 1965); elsewhere it is a heuristic.
 * Undirected trees: any way between the halves. Out-trees: the lower half gets another parent;
 * in-trees likewise. Cost of a move: O(edges of all trees + links of the network). Invariant:
 * load[] is the trees' use. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/forest/forest.h"

/* One in so many moves that add to the surplus is kept; the search ends after PATIENCE moves (more
 * on large networks) without progress. */
enum { WORSE_ONE_IN = 64, PATIENCE = 1000 };
/* lengths of a resource; a full one has length 1 */
static const double FORBIDDEN = 1e6, NOISE = 0.001;

struct swapper {
    const struct tt_forest_net *net;
    struct tt_forest_pair *pairs;
    size_t npairs;
    const uint32_t *limit;
    uint32_t *load;
    double *length;
    uint8_t *role;
    uint32_t *set; /* union-find of the ranks */
    struct tt_rng rng;
    uint64_t excess;
    uint64_t looked; /* edges visited, for counting work */
};

/* An edge of one of the trees. */
struct place {
    struct tt_forest_tree *tree;
    uint32_t edge;
    bool inward;
};

/* ---- loads ---- */

/* excess is the sum over resources of load beyond the limit; both functions keep it true. */
static void swap_use(struct swapper *s, uint32_t resource, uint32_t by)
{
    for (uint32_t i = 0; i < by; i++)
        s->excess += s->load[resource]++ >= s->limit[resource];
}

static void use_edge(struct swapper *s, const struct tt_forest_tree *t,
                     const struct tt_forest_edge *e, bool up, uint32_t by)
{
    uint32_t out = s->net->port[0][e->a], in[2];
    for (uint32_t i = 0; i < e->n; i++)
        swap_use(s, s->net->of_link[t->links[e->first + i]], by);
    if (out != UINT32_MAX)
        swap_use(s, out, by);
    for (uint32_t k = tt_forest_taken_in(s->net, e->b, up, in); k > 0; k--)
        swap_use(s, in[k - 1], by);
}

static void swap_leave(struct swapper *s, uint32_t resource)
{
    assert(s->load[resource] > 0);
    s->excess -= s->load[resource]-- > s->limit[resource];
}

static void leave_edge(struct swapper *s, const struct tt_forest_tree *t,
                       const struct tt_forest_edge *e, bool up)
{
    uint32_t out = s->net->port[0][e->a], in[2];
    for (uint32_t i = 0; i < e->n; i++)
        swap_leave(s, s->net->of_link[t->links[e->first + i]]);
    if (out != UINT32_MAX)
        swap_leave(s, out);
    for (uint32_t k = tt_forest_taken_in(s->net, e->b, up, in); k > 0; k--)
        swap_leave(s, in[k - 1]);
}

static void use_trees(struct swapper *s)
{
    for (size_t i = 0; i < s->npairs; i++) {
        const struct tt_forest_tree *both[] = {&s->pairs[i].up, &s->pairs[i].down};
        for (size_t k = 0; k < countof(both); k++)
            for (uint32_t e = 0; e < both[k]->nedges; e++)
                use_edge(s, both[k], &both[k]->edges[e], k == 0, s->pairs[i].copies);
    }
}

/* ---- what to take out ---- */

static bool edge_uses(const struct swapper *s, const struct tt_forest_tree *t,
                      const struct tt_forest_edge *e, bool up, uint32_t resource)
{
    bool uses = s->net->port[0][e->a] == resource || s->net->port[1][e->b] == resource ||
                (up && s->net->sums[e->b] == resource);
    for (uint32_t i = 0; i < e->n && !uses; i++)
        uses = s->net->of_link[t->links[e->first + i]] == resource;
    return uses;
}

/* Does every edge at this end of e use the resource: the rank's port, or its only cable? */
static bool is_only_way(const struct swapper *s, uint32_t rank, int side, uint32_t link,
                        uint32_t resource)
{
    const struct tt_graph *g = &s->net->t->g;
    return s->net->port[side][rank] == resource ||
           (g->start[rank + 1] - g->start[rank] == 1 && s->net->of_link[link] == resource);
}

static bool is_leaf(const struct tt_forest_tree *t, uint32_t rank)
{
    uint32_t degree = 0;
    for (uint32_t i = 0; i < t->nedges; i++)
        degree += t->edges[i].a == rank || t->edges[i].b == rank;
    return degree == 1;
}

/* Would the tree have to use the resource again? A leaf must be joined, and so must the lower half
 * of a directed tree. */
static bool is_needed(const struct swapper *s, const struct place *at, uint32_t resource)
{
    const struct tt_forest_tree *t = at->tree;
    const struct tt_forest_edge *e = &t->edges[at->edge];
    bool a = is_only_way(s, e->a, 0, t->links[e->first], resource),
         b = is_only_way(s, e->b, 1, t->links[e->first + e->n - 1], resource);
    if (s->net->even)
        return (a && is_leaf(t, e->a)) || (b && is_leaf(t, e->b));
    return at->inward ? a : b;
}

/* Picks a resource beyond its limit. */
static uint32_t pick_resource(struct swapper *s)
{
    uint32_t n = s->net->nres, from = (uint32_t)tt_rng_below(&s->rng, n);
    for (uint32_t i = 0; i < n; i++)
        if (s->load[(from + i) % n] > s->limit[(from + i) % n])
            return (from + i) % n;
    return UINT32_MAX;
}

/* Picks an edge that uses it, of a tree that may be changed. */
static bool pick_edge(struct swapper *s, uint32_t resource, struct place *ret)
{
    size_t n = 2 * s->npairs, from = (size_t)tt_rng_below(&s->rng, n);
    for (size_t i = 0; i < n; i++) {
        struct tt_forest_pair *p = &s->pairs[(from + i) % n / 2];
        struct tt_forest_tree *t = (from + i) % 2 ? &p->up : &p->down;
        if (t->nedges == 0 || p->copies != 1)
            continue;
        uint32_t first = (uint32_t)tt_rng_below(&s->rng, t->nedges);
        for (uint32_t k = 0; k < t->nedges; k++, s->looked++) {
            struct place at = {t, (first + k) % t->nedges, t == &p->up};
            if (!edge_uses(s, t, &t->edges[at.edge], at.inward, resource) ||
                is_needed(s, &at, resource))
                continue;
            *ret = at;
            return true;
        }
    }
    return false;
}

/* ---- what to put in ---- */

/* Union-find with path halving. */
static uint32_t set_of(uint32_t *set, uint32_t v)
{
    while (set[v] != v)
        v = set[v] = set[set[v]];
    return v;
}

/* Where the new way may begin and end, once the edge is gone. */
static void set_roles(struct swapper *s, const struct place *at)
{
    const struct tt_forest_tree *t = at->tree;
    const struct tt_forest_edge *gone = &t->edges[at->edge];
    uint32_t p = s->net->t->ranks;
    for (uint32_t v = 0; v < p; v++)
        s->set[v] = v;
    for (uint32_t i = 0; i < t->nedges; i++)
        if (i != at->edge)
            s->set[set_of(s->set, t->edges[i].a)] = set_of(s->set, t->edges[i].b);
    uint32_t from = set_of(s->set, gone->a);
    for (uint32_t v = 0; v < p; v++)
        s->role[v] = set_of(s->set, v) == from ? TT_FOREST_SOURCE : TT_FOREST_TARGET;
    for (uint32_t v = 0; v < p && !s->net->even; v++) { /* the lower half is joined where it was */
        bool lower = at->inward ? s->role[v] == TT_FOREST_SOURCE : s->role[v] == TT_FOREST_TARGET;
        if (lower && v != (at->inward ? gone->a : gone->b))
            s->role[v] = TT_FOREST_NEITHER;
    }
}

/* Room is cheap, the cheaper the emptier; beyond the limit lengths rise with the surplus. The noise
 * breaks ties. */
static void set_lengths(struct swapper *s, uint32_t avoid)
{
    for (uint32_t r = 0; r < s->net->nres; r++) {
        uint32_t load = s->load[r], limit = s->limit[r];
        double full = limit ? (double)load / limit : 1,
               noise = (double)(tt_rng_next(&s->rng) >> 11) * 0x1p-53 * NOISE;
        s->length[r] = noise + (load < limit ? 0.1 * full * full : 1 + 4.0 * (load - limit));
    }
    s->length[avoid] = FORBIDDEN;
}

/* Another way takes the place of the edge; its links are appended to the tree's (see tidy). */
static bool put_in(struct tt_forest_tree *t, uint32_t edge, struct tt_forest_edge e,
                   const struct tt_vec *links)
{
    uint32_t *more = tt_resize(t->links, (size_t)t->nlinks + links->len, sizeof *more);
    if (!more)
        return false;
    t->links = more;
    memcpy(t->links + t->nlinks, links->data, links->len * sizeof *more);
    e.first = t->nlinks;
    t->nlinks += (uint32_t)links->len;
    t->edges[edge] = e;
    return true;
}

/* One exchange; kept unless it adds to the surplus (rare exceptions leave local minima). */
static tutti_status swap_move(struct swapper *s, uint32_t resource, const struct place *at,
                              struct tt_vec *links, struct tutti_error *err)
{
    struct tt_forest_tree *t = at->tree;
    struct tt_forest_edge old = t->edges[at->edge], fresh;
    uint64_t before = s->excess;
    leave_edge(s, t, &old, at->inward);
    set_roles(s, at);
    set_lengths(s, resource);
    links->len = 0;
    if (!tt_forest_way(s->net, s->length, s->role, at->inward, &fresh, links)) {
        use_edge(s, t, &old, at->inward, 1);
        return TUTTI_OK;
    }
    if (!put_in(t, at->edge, fresh, links))
        return tt_fail_memory(err, "trees");
    use_edge(s, t, &t->edges[at->edge], at->inward, 1);
    if (s->excess <= before ||
        (s->excess == before + 1 && tt_rng_below(&s->rng, WORSE_ONE_IN) == 0))
        return TUTTI_OK;
    leave_edge(s, t, &t->edges[at->edge], at->inward);
    t->nlinks -= (uint32_t)links->len;
    t->edges[at->edge] = old;
    use_edge(s, t, &old, at->inward, 1);
    return TUTTI_OK;
}

/* Drops the links that no edge uses any more. */
static bool swap_tidy(struct tt_forest_tree *t)
{
    if (t->nedges == 0)
        return true;
    uint32_t *links = tt_alloc((size_t)t->nlinks + 1, sizeof *links), n = 0;
    if (!links)
        return false;
    for (uint32_t i = 0; i < t->nedges; i++) {
        memcpy(links + n, t->links + t->edges[i].first, t->edges[i].n * sizeof *links);
        t->edges[i].first = n;
        n += t->edges[i].n;
    }
    free(t->links);
    t->links = links;
    t->nlinks = n;
    return true;
}

/* Runs until there is no surplus, work runs out, or the surplus has not shrunk for long. */
static tutti_status swap_run(struct swapper *s, uint64_t *work, struct tutti_error *err)
{
    uint64_t each =
                 16 * (uint64_t)s->net->t->nlinks + 8 * (uint64_t)(s->net->nres + s->net->t->ranks),
             least = s->excess, waited = 0;
    struct tt_vec links = {.elem = sizeof(uint32_t)};
    tutti_status st = TUTTI_OK;
    for (; s->excess > 0 && *work > 0 && waited < PATIENCE + 16 * (uint64_t)s->net->nres && !st;
         waited++) {
        uint32_t r = pick_resource(s);
        struct place at;
        s->looked = 0;
        if (pick_edge(s, r, &at))
            st = swap_move(s, r, &at, &links, err);
        waited = s->excess < least ? 0 : waited;
        least = s->excess < least ? s->excess : least;
        *work -= *work < each + s->looked ? *work : each + s->looked;
    }
    tt_vec_free(&links);
    return st;
}

tutti_status tt_forest_swap(const struct tt_forest_net *n, struct tt_forest_pair *pairs,
                            size_t npairs, const uint32_t *limit, uint64_t *work,
                            uint64_t *ret_excess, struct tutti_error *err)
{
    struct swapper s = {.net = n, .pairs = pairs, .npairs = npairs, .limit = limit};
    s.load = tt_zalloc(n->nres, sizeof *s.load);
    s.length = tt_alloc(n->nres, sizeof *s.length);
    s.role = tt_alloc(n->t->ranks, sizeof *s.role);
    s.set = tt_alloc(n->t->ranks, sizeof *s.set);
    bool ok = s.load && s.length && s.role && s.set;
    tutti_status st = ok ? TUTTI_OK : tt_fail_memory(err, "trees");
    tt_rng_seed(&s.rng, npairs);
    if (ok) {
        use_trees(&s);
        st = swap_run(&s, work, err);
    }
    for (size_t i = 0; i < npairs && ok; i++)
        ok = swap_tidy(&pairs[i].up) && swap_tidy(&pairs[i].down);
    if (!st && !ok)
        st = tt_fail_memory(err, "trees");
    if (!st)
        *ret_excess = s.excess;
    free(s.load);
    free(s.length);
    free(s.role);
    free(s.set);
    return st;
}
