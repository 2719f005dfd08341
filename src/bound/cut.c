/* cut.c - how much must cross a cut: for every set A of vertices with ranks inside and outside,
 * T >= need(A) / capacity(A).
 *
 *     ranks 0 1 | 2 3 on two switches joined by a slow link u:      0           2
 *     allreduce of S: S must pass u in each direction,               \    u    /
 *     T >= S / bw(u); half duplex: both share u, 2 S / bw(u)     1 -- x ===== y -- 3
 *
 * Each cut, with full-duplex capacities F+ out, F- in and half-duplex capacity H, proves need+ /
 * (F+ + H) and need- / (F- + H), and, because H serves both directions, (need+ + need-) / (F+ +
 * F- + H).
 *
 * Which cuts are examined, and when these suffice ("complete"):
 *
 *     trees         star, nics, hierarchies, chains: one cut per link. Complete: the best connected
 *                   part of a cut proves at least as much (mediant of its parts), and cutting that
 *                   part off by one of its links only lowers the capacity and adds ranks inside;
 *                   the same for a(p-a).
 *     transitive    networks that look the same from every rank, simple, of one speed: the cut
 *                   around one rank is a smallest one (Mader 1971: the connectivity of a connected
 *                   vertex-transitive graph is its degree), and it also has the most ranks on one
 *                   side. Complete except for all-to-all.
 *     others        single ranks, then maximum flows (flow.c).
 *     candidates    prefixes {0..i} of the ranks of switchless networks, and halves of grids: what
 *                   all-to-all needs, and candidates for the other collectives. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bound/bound_int.h"

struct tt_ratio tt_bound_cut_score(const struct tt_ask *q, const struct tt_cut_sum *s,
                                   int *ret_form)
{
    struct tt_ratio best = {0, 1};
    if (s->ranks == 0 || s->ranks == q->p)
        return best;
    assert(s->ranks < q->p);
    uint64_t out = tt_bound_need_cross(q, s->ranks, s->with_root),
             in = tt_bound_need_cross(q, q->p - s->ranks, !s->with_root);
    struct tt_ratio form[3] = {
        {out, s->out + s->half}, {in, s->in + s->half}, {out + in, s->out + s->in + s->half}};
    for (int i = 0; i < (s->half ? 3 : 2); i++)
        if (form[i].bytes > 0 && form[i].cap > 0 && tt_ratio_more(form[i], best)) {
            best = form[i];
            *ret_form = i;
        }
    return best;
}

struct tt_cut_sum tt_bound_cut_measure(const struct tt_ask *q, const uint8_t *side)
{
    struct tt_cut_sum s = {.with_root = side[q->root]};
    for (uint32_t v = 0; v < q->p; v++)
        s.ranks += side[v];
    for (uint32_t i = 0; i < q->t->nlinks; i++) {
        const struct tt_link *l = &q->t->links[i];
        if (side[l->a] == side[l->b])
            continue;
        /* Directed link 2 i leaves a: it is the one out of the set if a is inside. */
        uint64_t out = q->cap[2 * i + !side[l->a]], in = q->cap[2 * i + side[l->a]];
        if (l->half)
            s.half += out;
        else {
            s.out += out;
            s.in += in;
        }
    }
    return s;
}

void tt_bound_cut_offer(const struct tt_ask *q, struct tt_cut *best, const uint8_t *side)
{
    struct tt_cut_sum s = tt_bound_cut_measure(q, side);
    int form = 0;
    struct tt_ratio r = tt_bound_cut_score(q, &s, &form);
    if (!tt_ratio_more(r, best->ratio))
        return;
    assert(s.ranks > 0 && s.ranks < q->p);
    best->ratio = r;
    best->both = form == 2;
    /* In form 1 the bytes flow into the set; the complement is then the side that they leave. */
    best->ranks = form == 1 ? q->p - s.ranks : s.ranks;
    for (uint32_t v = 0; v < q->t->ranks + q->t->switches; v++)
        best->side[v] = form == 1 ? !side[v] : side[v];
}

/* ---- trees: one cut per link, the set is what hangs below it ---- */

/* Arrays over the vertices of a tree that is rooted at vertex 0. */
struct tree_walk {
    /* vertices in breadth-first order; the directed link from a vertex to its parent */
    uint32_t *order, *up;
    uint32_t *below; /* ranks at or below a vertex */
    uint8_t *root_below, *side;
};

/* `(id ^ 1) == up[v]` skips the link back to the parent. */
static void tree_order(const struct tt_ask *q, struct tree_walk *w)
{
    const struct tt_graph *g = &q->t->g;
    uint32_t len = 1;
    memset(w->up, 0xff, (size_t)g->n * sizeof *w->up);
    w->order[0] = 0;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t v = w->order[i];
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            uint32_t child = g->head[k];
            if (child == 0 || w->up[child] != UINT32_MAX || (g->id[k] ^ 1) == w->up[v])
                continue;
            w->up[child] = g->id[k] ^ 1;
            w->order[len++] = child;
        }
    }
    assert(len == g->n);
}

/* The vertex that directed link d leads to. */
static uint32_t head_of(const struct tt_topo *t, uint32_t d)
{
    return d & 1 ? t->links[d / 2].a : t->links[d / 2].b;
}

/* Returns the vertex whose link to its parent is the best cut; 0 (which has no parent) if no cut
 * proves anything. Vertices are visited in reverse breadth-first order, so below[v] is final
 * when v is reached. */
static uint32_t tree_best(const struct tt_ask *q, struct tree_walk *w)
{
    uint32_t n = q->t->g.n, best_v = 0;
    struct tt_ratio best = {0, 1};
    for (uint32_t v = 0; v < n; v++) {
        w->below[v] = v < q->p;
        w->root_below[v] = v == q->root;
    }
    for (uint32_t i = n; i-- > 1;) {
        uint32_t v = w->order[i], d = w->up[v], parent = head_of(q->t, d);
        bool half = q->t->links[d / 2].half;
        struct tt_cut_sum s = {.ranks = w->below[v], .with_root = w->root_below[v]};
        s.half = half ? q->cap[d] : 0;
        s.out = half ? 0 : q->cap[d];
        s.in = half ? 0 : q->cap[d ^ 1];
        int form = 0;
        struct tt_ratio r = tt_bound_cut_score(q, &s, &form);
        if (tt_ratio_more(r, best)) {
            best = r;
            best_v = v;
        }
        w->below[parent] += w->below[v];
        w->root_below[parent] |= w->root_below[v];
    }
    return best_v;
}

static tutti_status tree_cuts(const struct tt_ask *q, struct tt_cut *best, struct tutti_error *err)
{
    uint32_t n = q->t->g.n;
    struct tree_walk w = {.order = tt_alloc(n, sizeof(uint32_t)),
                          .up = tt_alloc(n, sizeof(uint32_t)),
                          .below = tt_alloc(n, sizeof(uint32_t))};
    tutti_status st = TUTTI_OK;
    w.root_below = tt_alloc(n, 1);
    w.side = tt_zalloc(n, 1);
    if (!w.order || !w.up || !w.below || !w.root_below || !w.side) {
        st = tt_fail_memory(err, "cuts of a tree");
        goto out;
    }
    tree_order(q, &w);
    uint32_t top = tree_best(q, &w);
    /* Parents precede their children, so one pass marks everything below `top`. */
    for (uint32_t i = 1; i < n && top; i++) {
        uint32_t v = w.order[i];
        w.side[v] = v == top || w.side[head_of(q->t, w.up[v])];
    }
    tt_bound_cut_offer(q, best, w.side);
out:
    free(w.order);
    free(w.up);
    free(w.below);
    free(w.root_below);
    free(w.side);
    return st;
}

/* ---- sets of ranks ---- */

/* Updates the sums for v joining the set: links to the inside no longer cross, the others do
 * now. */
static void sum_join(const struct tt_ask *q, struct tt_cut_sum *s, const uint8_t *side, uint32_t v)
{
    const struct tt_graph *g = &q->t->g;
    for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
        uint64_t there = q->cap[g->id[k]], back = q->cap[g->id[k] ^ 1];
        bool half = q->t->links[g->id[k] / 2].half, inside = side[g->head[k]];
        if (half && inside)
            s->half -= there;
        else if (half)
            s->half += there;
        else if (inside) {
            s->out -= back;
            s->in -= there;
        } else {
            s->out += there;
            s->in += back;
        }
    }
    s->ranks += v < q->p;
    s->with_root |= v == q->root;
}

/* Examines single ranks, then (in a switchless network) the prefixes {0..i}, in time linear in
 * the links. `side` is scratch, zero before and after. */
static void rank_cuts(const struct tt_ask *q, struct tt_cut *best, uint8_t *side)
{
    struct tt_ratio most = {0, 1};
    struct tt_cut_sum prefix = {0};
    uint32_t first = 0, last = 0;
    int form;
    for (uint32_t v = 0; v < q->p; v++) {
        struct tt_cut_sum one = {0};
        sum_join(q, &one, best->side, v); /* best->side is all 0 here: v alone */
        struct tt_ratio r = tt_bound_cut_score(q, &one, &form);
        if (tt_ratio_more(r, most)) {
            most = r;
            first = last = v;
        }
    }
    for (uint32_t v = 0; q->t->switches == 0 && v + 1 < q->p; v++) {
        sum_join(q, &prefix, side, v);
        side[v] = 1;
        struct tt_ratio r = tt_bound_cut_score(q, &prefix, &form);
        if (tt_ratio_more(r, most)) {
            most = r;
            first = 0;
            last = v;
        }
    }
    memset(side, 0, q->p);
    memset(side + first, 1, last - first + 1);
    tt_bound_cut_offer(q, best, side);
    memset(side, 0, q->p);
}

/* Offers the lower half of each dimension of a grid. */
static void grid_cuts(const struct tt_ask *q, struct tt_cut *best, uint8_t *side)
{
    const struct tt_topo *t = q->t;
    uint32_t inner = 1; /* ranks per coordinate step of this dimension */
    for (uint32_t d = t->ndims; d-- > 0 && t->switches == 0;) {
        for (uint32_t v = 0; v < q->p; v++)
            side[v] = v / inner % t->dims[d] < t->dims[d] / 2;
        inner *= t->dims[d];
        tt_bound_cut_offer(q, best, side);
    }
    memset(side, 0, q->p);
}

bool tt_bound_cut_transitive(const struct tt_ask *q)
{
    const struct tt_topo *t = q->t;
    if (t->switches || !(t->rotational || (t->ndims > 0 && t->wrap && t->routing == TT_ROUTE_GRID)))
        return false;
    for (uint32_t i = 0; i < t->nlinks; i++)
        if (q->cap[2 * i] != q->cap[0] || q->cap[2 * i + 1] != q->cap[0] ||
            t->links[i].half != t->links[0].half)
            return false;
    /* arcs are sorted by neighbour, so parallel links are adjacent */
    for (uint32_t k = t->g.start[0]; k + 1 < t->g.start[1]; k++)
        if (t->g.head[k] == t->g.head[k + 1])
            return false;
    return true;
}

/* A connected network with one link less than vertices is a tree. */
static tutti_status find_cut(const struct tt_ask *q, struct tt_cut *best, bool *ret_complete,
                             struct tutti_error *err)
{
    uint32_t n = q->t->ranks + q->t->switches;
    *ret_complete = true;
    if (q->t->nlinks + 1 == n)
        return tree_cuts(q, best, err);
    uint8_t *side = tt_zalloc(n, 1);
    if (!side)
        return tt_fail_memory(err, "cuts");
    rank_cuts(q, best, side);
    grid_cuts(q, best, side);
    free(side);
    if (!tt_bound_cut_transitive(q))
        return tt_bound_cut_by_flow(q, best, ret_complete, err);
    *ret_complete = q->coll != TUTTI_ALL_TO_ALL;
    return TUTTI_OK;
}

tutti_status tt_bound_cut(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    struct tt_cut best = {.ratio = {0, 1}};
    if (q->coll == TUTTI_BARRIER) {
        snprintf(b->text, sizeof b->text, "a barrier moves no data");
        return TUTTI_OK;
    }
    best.side = tt_zalloc((size_t)q->t->ranks + q->t->switches, 1);
    if (!best.side)
        return tt_fail_memory(err, "cut");
    tutti_status st = find_cut(q, &best, &b->complete, err);
    if (!st)
        st = tt_bound_ratio_time(q, best.ratio, &b->time_ps, err);
    if (st || best.ratio.bytes == 0) {
        snprintf(b->text, sizeof b->text, "too few bytes to tell");
        free(best.side);
        return st;
    }
    b->applies = true;
    b->bytes = (double)best.ratio.bytes;
    b->capacity = tt_bound_ratio_capacity(q, best.ratio);
    b->both = best.both;
    b->side = best.side;
    b->side_ranks = best.ranks;
    tt_bound_words_cut(q, b);
    return TUTTI_OK;
}
