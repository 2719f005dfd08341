/* price.c - one candidate: is it possible, what does it cost, and what determines its time.
 *
 * There are two ways to a price (work.c decides which). The long way builds all ranks and calls
 * tt_cost_sched. The short way needs a symmetric schedule on a rotational network: rank 0's
 * slice stands for all ranks, so a ring of 65,536 ranks costs no more than its own 131,070
 * steps. Both give the same numbers, except in rare cases where the short way has only an upper
 * bound and says so.
 *
 * Unless a number of segments was given, the best one is searched: at once for pipelined
 * algorithms, for others when the time can improve (K segments overlap K steps, which helps only
 * if these load different links) and work is left. */
#include "plan/plan_int.h"

#include <assert.h>

/* Turns a refusal (also "too large") into a property of the candidate; passes on every other
 * failure. */
static tutti_status as_refusal(tutti_status st, const struct tutti_error *why,
                               struct tt_candidate *c, struct tutti_error *err)
{
    if (st != TUTTI_ERR_REFUSED && st != TUTTI_ERR_LIMIT) {
        if (err)
            *err = *why;
        return st;
    }
    c->refused = true;
    snprintf(c->why, sizeof c->why, "%.*s", (int)sizeof c->why - 1, why->text);
    return TUTTI_OK;
}

tutti_status tt_plan_price_probe(const struct tt_pricing *p, const struct tt_algo *al,
                                 struct tt_candidate *ret, struct tt_way *ret_way,
                                 struct tutti_error *err)
{
    struct tt_candidate c = {.algo = al};
    struct tutti_error why;
    struct tt_way way = {0};
    tutti_status st = tt_algo_probe(al, &p->args, &why);

    if (!st && p->reproducible && tt_sched_coll_sums(p->args.problem.coll) && !al->rank_order)
        st = tt_fail(&why, TUTTI_ERR_REFUSED,
                     "sums in an order that depends on size; reproducible needs rank order");
    if (!st)
        st = tt_plan_way_choose(p, al, &way, &why);
    if (st)
        st = as_refusal(st, &why, &c, err);
    if (st)
        return st;
    *ret = c;
    *ret_way = way;
    return TUTTI_OK;
}

/* Builds a synthesised schedule once; the candidate owns it from then on, also when pricing
 * fails. */
static tutti_status hold_built(const struct tt_pricing *p, struct tt_candidate *c,
                               struct tutti_error *err)
{
    if (!c->algo->build || c->built.sched)
        return TUTTI_OK;
    return tt_plan_build(c->algo, &p->args, p->cache, &c->built, err);
}

/* The long way. `search`: also choose the best number of segments. */
static tutti_status price_whole(const struct tt_pricing *p, bool search, struct tt_candidate *c,
                                struct tutti_error *err)
{
    const struct tt_problem *pr = &p->args.problem;
    struct tt_sched *listed = NULL;
    const struct tt_sched *s = c->built.sched;
    tutti_status st = s ? TUTTI_OK : tt_algo_build(c->algo, &p->args, &listed, err);

    if (st)
        return st;
    s = s ? s : listed;
    c->segments = s->shape.segments;
    if (search)
        st = tt_cost_best_segments(s, p->args.topo, pr->count, pr->dtype, TT_MAX_SEGMENTS,
                                   &c->segments, &c->cost, err);
    else
        st = tt_cost_sched(s, p->args.topo, pr->count, pr->dtype, &c->cost, err);
    tt_sched_free(listed);
    return st;
}

/* The short way: builds and prices rank 0 only. */
static tutti_status price_rank0(const struct tt_pricing *p, bool search, struct tt_candidate *c,
                                struct tutti_error *err)
{
    const struct tt_problem *pr = &p->args.problem;
    struct tt_sched *s;
    tutti_status st = tt_algo_slice(c->algo, &p->args, 0, 1, &s, err);

    if (st)
        return st;
    c->segments = s->shape.segments;
    if (search)
        st = tt_cost_best_segments(s, p->args.topo, pr->count, pr->dtype, TT_MAX_SEGMENTS,
                                   &c->segments, &c->cost, err);
    else
        st = tt_cost_symmetric(s, p->args.topo, pr->count, pr->dtype, &c->cost, err);
    tt_sched_free(s);
    return st;
}

/* On a shared-memory topology the number of segments follows from the topology, so finding it
 * needs no search. */
static bool has_rule(const struct tt_pricing *p, const struct tt_algo *al)
{
    return p->args.topo->memory.npoints && tt_plan_way_searches(p, al);
}

/* The short way, and the long one after it where the short one fails or is inexact and `spare`
 * allows. */
static tutti_status price_symmetric(const struct tt_pricing *p, const struct tt_way *way,
                                    uint64_t spare, struct tt_candidate *c, struct tutti_error *err)
{
    tutti_status st = price_rank0(p, has_rule(p, c->algo), c, err);

    if (st == TUTTI_ERR_MISMATCH) /* parallel links have no symmetry classes */
        return price_whole(p, has_rule(p, c->algo), c, err);
    if (!st && !c->cost.exact && way->whole <= spare)
        return price_whole(p, has_rule(p, c->algo), c, err);
    return st;
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return (unsigned)(100.0 * (double)part / (double)whole + 0.5);
}

/* Parts are separated by commas; the first one follows the number of steps after a semicolon. */
static void add_part(struct tt_str *b, const char *name, uint64_t part, const struct tt_cost *cost)
{
    const char *before = b->len > 0 && b->s[b->len - 1] == '%' ? ", " : "; ";
    if (part > 0)
        tt_str_printf(b, "%s%s %u%%", before, name, percent(part, cost->time_ps));
}

/* Links are numbered per direction: 2 * link, + 1 for b to a. */
static void add_busiest(struct tt_str *b, const struct tt_topo *t, const struct tt_cost *cost)
{
    const struct tt_link *l = &t->links[cost->busiest_link / 2];
    bool back = cost->busiest_link & 1;
    char from[64], to[64], size[32];

    if (cost->busiest_bytes == 0)
        return;
    assert(cost->busiest_link / 2 < t->nlinks);
    tt_topo_vertex_name(t, back ? l->b : l->a, from, sizeof from);
    tt_topo_vertex_name(t, back ? l->a : l->b, to, sizeof to);
    tt_str_printf(b, "; busiest link %s->%s carries %s", from, to,
                  tt_format_size(cost->busiest_bytes, size, sizeof size));
}

/* Writes c->why: "14 steps; latency 61%, links 39%; busiest link switch 0->rank 3 carries 96
 * MiB". */
static tutti_status price_explain(const struct tt_topo *t, struct tt_candidate *c,
                                  struct tutti_error *err)
{
    const struct tt_cost *cost = &c->cost;
    struct tt_str b = {0};

    if (cost->messages == 0)
        tt_str_printf(&b, "no messages");
    else
        tt_str_printf(&b, "%u step%s", cost->steps, cost->steps == 1 ? "" : "s");
    if (c->segments > 1)
        tt_str_printf(&b, " in %u segments", c->segments);
    add_part(&b, "latency", cost->latency_ps, cost);
    add_part(&b, "links", cost->transfer_ps, cost);
    add_part(&b, "reducing", cost->reduce_ps, cost);
    add_part(&b, "host overhead", cost->overhead_ps, cost);
    add_busiest(&b, t, cost);
    if (!cost->exact)
        tt_str_printf(&b, "; predicted_us is an upper bound");
    if (b.failed)
        return tt_fail_memory(err, "explanation");
    snprintf(c->why, sizeof c->why, "%s", b.s);
    tt_str_free(&b);
    return TUTTI_OK;
}

/* Explains the priced copy and replaces c by it; c is unchanged on failure. */
static tutti_status accept(const struct tt_pricing *p, struct tt_candidate *priced,
                           struct tt_candidate *c, struct tutti_error *err)
{
    tutti_status st = price_explain(p->args.topo, priced, err);

    if (st)
        return st;
    assert(!priced->refused && priced->algo == c->algo && priced->segments > 0);
    if (p->bound_ps > 0)
        priced->ratio_to_bound = (double)priced->cost.time_ps / (double)p->bound_ps;
    *c = *priced;
    return TUTTI_OK;
}

tutti_status tt_plan_price(const struct tt_pricing *p, const struct tt_way *way, uint64_t spare,
                           struct tt_candidate *c, struct tutti_error *err)
{
    struct tt_candidate priced;
    tutti_status st = hold_built(p, c, err);

    assert(!c->refused);
    if (st)
        return st;
    priced = *c;
    st = way->by_symmetry
             ? price_symmetric(p, way, spare, &priced, err)
             : price_whole(p, tt_plan_way_searches_first(p, c->algo) || has_rule(p, c->algo),
                           &priced, err);
    return st ? st : accept(p, &priced, c, err);
}

tutti_status tt_plan_price_again(const struct tt_pricing *p, const struct tt_sched *s, uint32_t k,
                                 struct tt_candidate *c, struct tutti_error *err)
{
    const struct tt_problem *pr = &p->args.problem;
    struct tt_candidate priced = *c;
    struct tt_sched cut = *s; /* borrows everything; only the number of segments differs */
    tutti_status st;

    assert(k > 0 && k <= TT_MAX_SEGMENTS && !c->refused);
    cut.shape.segments = priced.segments = k;
    st = tt_cost_sched(&cut, p->args.topo, pr->count, pr->dtype, &priced.cost, err);
    return st ? st : accept(p, &priced, c, err);
}

uint64_t tt_plan_price_hope(const struct tt_pricing *p, const struct tt_way *way,
                            const struct tt_candidate *c)
{
    uint64_t least;

    if (!way->splits || !tt_plan_way_searches(p, c->algo) || tt_plan_way_searches_first(p, c->algo))
        return UINT64_MAX;
    least = tt_cost_segments_floor(&c->cost, p->args.topo);
    return least < c->cost.time_ps ? least : UINT64_MAX;
}

uint64_t tt_plan_price_search_work(const struct tt_way *way, const struct tt_candidate *c)
{
    uint64_t work = c->cost.by_symmetry ? way->work : way->whole;

    return work > UINT64_MAX / TT_SEARCH_COST ? UINT64_MAX : work * TT_SEARCH_COST;
}

tutti_status tt_plan_price_search(const struct tt_pricing *p, struct tt_candidate *c,
                                  struct tutti_error *err)
{
    struct tt_candidate priced = *c;
    tutti_status st = c->cost.by_symmetry ? price_rank0(p, true, &priced, err)
                                          : price_whole(p, true, &priced, err);

    return st ? st : accept(p, &priced, c, err);
}
