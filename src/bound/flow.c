/* flow.c - finds the best cut by maximum flows on the directed network.
 *
 * Constant need (allreduce, broadcast, reduce): the smallest capacity out of a set decides.
 * Every set with ranks on both sides separates rank 0 (or the root) from some rank v, in one
 * direction or the other, so p-1 flows there and p-1 back find it. Later flows stop as soon as
 * they exceed the smallest so far. Half-duplex links share both directions: the same flows on
 * undirected capacities serve need+ + need-.
 *
 * Need proportional to the ranks inside (all-gather; gather when the root is outside): the
 * largest a/B(A), by Newton's method. Let the best so far be a/B. Join a source s to every rank
 * with capacity B and multiply all links by a. A set A without v has
 *
 *     cut = (p - ranks(A)) * B + a * B(A)  <  p * B    if and only if    ranks(A) / B(A) > a / B,
 *
 * so a maximum flow s -> v of less than p*B gives a better set. Take it and ask again; otherwise
 * go to the next v. A v that was passed need not be examined again, because later ratios are
 * harder to beat: p flows and a few more. (This is the optimality test of ForestColl, arXiv
 * 2402.06787, with cuts in place of a binary search.) No set has more than p-1 ranks or less
 * than the smallest capacity. If one set has both, which the cheaper flows above tell, it is the
 * best at once. Reduce-scatter and scatter are the same with all links reversed.
 *
 * All-to-all (a(p-a) blocks) has no such test; smallest cuts, and rank prefixes with the
 * switches placed by a flow, are examined. The work is limited to flows worth MAX_WORK arc
 * visits; beyond that, ranks v are sampled evenly and the result is not complete. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bound/bound_int.h"

/* NEWTON_FLOW: a flow from all ranks is so many times the work of one from a single rank */
enum { MAX_WORK = 50000000, NEWTON_FLOW = 32 };

/* The flow network: links as arcs, then arcs s -> rank and rank -> t for every rank (capacity 0
 * when not wanted). s is vertex n, t is n + 1. */
struct flow {
    const struct tt_ask *q;
    struct tt_cut *best;
    struct tt_maxflow *f;
    uint32_t n, links, narcs; /* vertices of the network; directed links; all arcs */
    uint64_t *cap;            /* capacities of the current question */
    uint8_t *side;            /* n + 2 */
    uint64_t budget;          /* flows that may still run */
    uint64_t least;           /* the smallest directed cut found */
};

static void flow_close(struct flow *w)
{
    tt_graph_maxflow_free(w->f);
    free(w->cap);
    free(w->side);
}

/* Arcs: link i as 2 i and 2 i + 1, then source to each rank, then each rank to sink. */
tutti_status tt_bound_flow_make(const struct tt_topo *t, struct tt_maxflow **ret,
                                struct tutti_error *err)
{
    uint32_t n = t->ranks + t->switches, links = 2 * t->nlinks, narcs = links + 2 * t->ranks;
    uint32_t *tail = tt_alloc(narcs, sizeof *tail), *head = tt_alloc(narcs, sizeof *head);
    tutti_status st = tail && head ? TUTTI_OK : tt_fail_memory(err, "flows");
    for (uint32_t i = 0; !st && i < t->nlinks; i++) {
        tail[2 * i] = head[2 * i + 1] = t->links[i].a;
        head[2 * i] = tail[2 * i + 1] = t->links[i].b;
    }
    for (uint32_t v = 0; !st && v < t->ranks; v++) {
        tail[links + v] = n;
        head[links + v] = tail[links + t->ranks + v] = v;
        head[links + t->ranks + v] = n + 1;
    }
    if (!st)
        st = tt_graph_maxflow_make(n + 2, narcs, tail, head, ret, err);
    free(tail);
    free(head);
    return st;
}

static tutti_status flow_open(struct flow *w, struct tutti_error *err)
{
    const struct tt_topo *t = w->q->t;
    w->n = t->ranks + t->switches;
    w->links = 2 * t->nlinks;
    w->narcs = w->links + 2 * t->ranks;
    w->budget = MAX_WORK / w->narcs;
    w->cap = tt_zalloc(w->narcs, sizeof *w->cap);
    w->side = tt_alloc((size_t)w->n + 2, 1);
    return w->cap && w->side ? tt_bound_flow_make(t, &w->f, err) : tt_fail_memory(err, "flows");
}

enum form { THERE, BACK, UNDIRECTED };

/* Sets the link capacities in a form, times `factor`, and no capacity at s and t. */
static void set_caps(struct flow *w, enum form form, uint64_t factor)
{
    const struct tt_ask *q = w->q;
    for (uint32_t d = 0; d < w->links; d++) {
        uint64_t c = q->cap[form == BACK ? d ^ 1 : d];
        if (form == UNDIRECTED && !q->t->links[d / 2].half)
            c += q->cap[d ^ 1];
        w->cap[d] = c * factor;
    }
    memset(w->cap + w->links, 0, (size_t)(w->narcs - w->links) * sizeof *w->cap);
}

/* Runs flows from `base` to every other rank, or to evenly sampled ones if the budget is too
 * small, and offers the smallest cut. Returns whether all ranks were examined. `limit` is the
 * smallest flow so far: a flow that reaches it is stopped. */
static bool cuts_around(struct flow *w, uint32_t base, enum form form)
{
    uint32_t p = w->q->p, runs = p;
    uint64_t limit = UINT64_MAX;
    if (w->budget < p)
        runs = w->budget ? (uint32_t)w->budget : 1;
    w->budget -= w->budget < runs ? w->budget : runs;
    set_caps(w, form, 1);
    assert(runs > 0 && runs <= p && base < p);
    for (uint64_t i = 0; i < runs; i++) {
        uint32_t v = (uint32_t)(i * p / runs);
        if (v == base)
            continue;
        uint64_t flow = tt_graph_maxflow_run(w->f, w->cap, base, v, limit);
        if (flow >= limit)
            continue;
        limit = flow;
        if (form != UNDIRECTED && flow < w->least)
            w->least = flow;
        tt_graph_maxflow_side(w->f, w->side);
        tt_bound_cut_offer(w->q, w->best, w->side);
    }
    return runs == p;
}

/* Both directions, except where the collective needs one only or links are the same in both. */
static bool smallest_cuts(struct flow *w)
{
    const struct tt_ask *q = w->q;
    uint32_t base = tt_bound_need_root(q) ? q->root : 0;
    bool outward = q->coll != TUTTI_REDUCE, inward = q->coll != TUTTI_BROADCAST;
    bool complete = true;
    if (outward)
        complete = cuts_around(w, base, THERE);
    if (inward && !(outward && q->even))
        complete = cuts_around(w, base, BACK) && complete;
    return complete;
}

/* Ranks in a set, and the capacity out of it in the given form. */
struct share {
    uint64_t ranks, cap;
};

static struct share flow_measure(const struct flow *w, enum form form)
{
    const struct tt_topo *t = w->q->t;
    struct share s = {0, 0};
    for (uint32_t v = 0; v < t->ranks; v++)
        s.ranks += w->side[v];
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        if (w->side[l->a] != w->side[l->b])
            s.cap += w->q->cap[(2 * i + !w->side[l->a]) ^ (form == BACK)];
    }
    return s;
}

static bool share_more(struct share a, struct share b)
{
    return (unsigned __int128)a.ranks * b.cap > (unsigned __int128)b.ranks * a.cap;
}

/* The set of all vertices but rank v, where Newton's method starts. */
static struct share all_but(struct flow *w, uint32_t v, enum form form)
{
    memset(w->side, 1, w->n);
    w->side[v] = 0;
    return flow_measure(w, form);
}

/* The network of Newton's method for the ratio ranks / cap (see the top). */
static void set_newton(struct flow *w, enum form form, struct share s)
{
    set_caps(w, form, s.ranks);
    for (uint32_t v = 0; v < w->q->p; v++)
        w->cap[w->links + v] = s.cap;
}

/* Raises *s to the best set without v; false if the budget ended first. Each round finds a
 * strictly better set, and there are finitely many. */
static bool newton(struct flow *w, uint32_t v, enum form form, struct share *s)
{
    uint64_t p = w->q->p;
    while (w->budget >= NEWTON_FLOW) {
        w->budget -= NEWTON_FLOW;
        if (tt_graph_maxflow_run(w->f, w->cap, w->n, v, p * s->cap) >= p * s->cap)
            return true;
        tt_graph_maxflow_side(w->f, w->side);
        *s = flow_measure(w, form);
        tt_bound_cut_offer(w->q, w->best, w->side);
        set_newton(w, form, *s);
    }
    return false;
}

/* Collectives whose need grows with the ranks inside. Returns whether the best cut was found. */
static bool proportional_cuts(struct flow *w)
{
    const struct tt_ask *q = w->q;
    enum form form = q->coll == TUTTI_ALL_GATHER || q->coll == TUTTI_GATHER ? THERE : BACK;
    uint32_t first = tt_bound_need_root(q) ? q->root : 0,
             last = tt_bound_need_root(q) ? q->root : q->p - 1;
    uint64_t sum = 0;
    for (uint32_t d = 0; d < w->links; d++)
        sum += q->cap[d];
    if (sum >= (UINT64_C(1) << 62) / q->p || (uint64_t)w->links * (last - first + 1) > MAX_WORK)
        /* the products must fit 64 bits, and the start alone must not be too much work */
        return false;
    struct share s = all_but(w, first, form);
    for (uint32_t v = first; v < last; v++) {
        struct share other = all_but(w, v + 1, form);
        s = share_more(other, s) ? other : s;
    }
    if (s.ranks + 1 == q->p && first < last && smallest_cuts(w) && s.cap == w->least)
        return true;
    set_newton(w, form, s);
    for (uint32_t v = first; v <= last; v++)
        if (!newton(w, v, form, &s))
            return false;
    return true;
}

/* Offers rank prefixes {0..i-1} with the switches placed where they cost least: as many as the
 * budget allows, the half among them. `sum` exceeds all links together, so no minimum cut
 * contains an arc at s or t. */
static void prefix_cuts(struct flow *w)
{
    uint32_t p = w->q->p;
    uint64_t stride = w->budget ? p / w->budget + 1 : p, sum = 1;
    set_caps(w, THERE, 1);
    for (uint32_t d = 0; d < w->links; d++)
        sum += w->cap[d];
    for (uint64_t i = p / 2 % stride; i < p; i += stride) {
        if (i == 0)
            continue;
        for (uint32_t v = 0; v < p; v++) {
            w->cap[w->links + v] = v < i ? sum : 0;
            w->cap[w->links + p + v] = v < i ? 0 : sum;
        }
        tt_graph_maxflow_run(w->f, w->cap, w->n, w->n + 1, UINT64_MAX);
        tt_graph_maxflow_side(w->f, w->side);
        tt_bound_cut_offer(w->q, w->best, w->side);
    }
}

tutti_status tt_bound_cut_by_flow(const struct tt_ask *q, struct tt_cut *best, bool *ret_complete,
                                  struct tutti_error *err)
{
    struct flow w = {.q = q, .best = best, .least = UINT64_MAX};
    bool constant =
        q->coll == TUTTI_ALLREDUCE || q->coll == TUTTI_BROADCAST || q->coll == TUTTI_REDUCE;
    bool complete = false;
    tutti_status st = flow_open(&w, err);
    if (st)
        goto out;
    if (constant)
        complete = smallest_cuts(&w);
    else if (q->coll != TUTTI_ALL_TO_ALL)
        complete = proportional_cuts(&w);
    if (!complete && !constant)
        smallest_cuts(&w);
    if (q->coll == TUTTI_ALL_TO_ALL && q->t->switches > 0)
        prefix_cuts(&w);
    if (q->half && !tt_bound_need_root(q))
        complete = cuts_around(&w, 0, UNDIRECTED) && complete;
    *ret_complete = complete;
out:
    flow_close(&w);
    return st;
}
