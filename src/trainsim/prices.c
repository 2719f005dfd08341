/* prices.c - predicted times of collectives on a topology, for policies to ask for thousands of
 * them.
 *
 * Every price is that of a plan for exactly so many bytes: `tutti sim` of that size says the same.
 * Where the planner chooses, whole choices are made at powers of two only; between two of them that
 * chose the same algorithm, that algorithm is priced. (Costs are minima of functions that grow
 * linearly with the size, as far as segments are fixed: what is best at both ends is best between.)
 * Between two that differ the planner is asked again. Answers are kept in a hash table with open
 * addresses. */
#include "trainsim/trainsim.h"

#include <stdlib.h>

#include "plan/plan.h"
#include "sim/sim.h"

struct price {
    uint64_t bytes, ps;
    const struct tt_algo *algo; /* NULL: refused */
    uint8_t coll, carrier, used;
};

struct tt_prices {
    const struct tt_topo *t;
    char algo[40]; /* "": the planner chooses */
    bool flow;
    struct price *table; /* cap is a power of two, at most half is used */
    size_t n, cap;
    struct tt_plan_cache *plans; /* synthesised schedules serve all sizes */
    struct tutti_error failure;  /* status 0: none */
};

tutti_status tt_trainsim_prices_open(const struct tt_topo *t, const struct tt_prices_options *o,
                                     struct tt_prices **ret, struct tutti_error *err)
{
    bool named = o->algo && !tt_streq(o->algo, "auto");
    if (named && !tt_algo_find(o->algo))
        return tt_algo_unknown(o->algo, err);
    struct tt_prices *p = tt_zalloc(1, sizeof *p);
    if (!p)
        return tt_fail_memory(err, "prices");
    p->t = t;
    p->flow = o->flow;
    p->cap = 1024;
    p->table = tt_zalloc(p->cap, sizeof *p->table);
    if (named)
        snprintf(p->algo, sizeof p->algo, "%s", o->algo);
    p->plans = tt_plan_cache_of_schedules();
    if (!p->table || !p->plans) {
        tt_trainsim_prices_close(p);
        return tt_fail_memory(err, "prices");
    }
    *ret = p;
    return TUTTI_OK;
}

void tt_trainsim_prices_close(struct tt_prices *p)
{
    if (p) {
        free(p->table);
        tt_plan_cache_free(p->plans);
    }
    free(p);
}

const struct tutti_error *tt_trainsim_prices_failure(const struct tt_prices *p)
{
    return p->failure.status ? &p->failure : NULL;
}

uint64_t tt_trainsim_prices_hash(const struct tt_prices *p)
{
    return tt_hash_bytes(p->t->hash + (p->flow ? 1 : 0), p->algo, sizeof p->algo);
}

/* ---- the table ---- */

static struct price *slot_of(struct price *table, size_t cap, const struct price *key)
{
    uint64_t h = tt_mix64(key->bytes * 64 + key->coll * 8u + key->carrier);
    for (size_t i = h & (cap - 1);; i = (i + 1) & (cap - 1)) {
        struct price *x = &table[i];
        if (!x->used ||
            (x->bytes == key->bytes && x->coll == key->coll && x->carrier == key->carrier))
            return x;
    }
}

static bool prices_grow(struct tt_prices *p)
{
    struct price *more = tt_zalloc(p->cap * 2, sizeof *more);
    if (!more)
        return false;
    for (size_t i = 0; i < p->cap; i++)
        if (p->table[i].used)
            *slot_of(more, p->cap * 2, &p->table[i]) = p->table[i];
    free(p->table);
    p->table = more;
    p->cap *= 2;
    return true;
}

static void prices_keep(struct tt_prices *p, const struct price *x)
{
    if (2 * (p->n + 1) > p->cap && !prices_grow(p))
        return; /* it will be computed again */
    struct price *slot = slot_of(p->table, p->cap, x);
    p->n += !slot->used;
    *slot = *x;
}

/* ---- asking the planner ---- */

static tutti_status prices_simulate(const struct tt_prices *p, const struct tt_plan *plan,
                                    uint64_t *ret_ps, struct tutti_error *err)
{
    struct tt_sched *s = NULL;
    struct tt_sim_report *r = NULL;
    struct tt_sim_options o = {.level = TT_SIM_FLOW};
    tutti_status st = tt_plan_schedule(plan, p->t, &s, err);
    if (!st)
        st = tt_sim_run(s, p->t, plan->problem.count, plan->problem.dtype, &o, &r, err);
    if (!st)
        *ret_ps = r->time_ps;
    tt_sim_report_free(r);
    tt_sched_free(s);
    return st;
}

/* The plan's time for one size; algo NULL: the planner chooses. */
static tutti_status prices_ask(struct tt_prices *p, const char *algo, struct price *x,
                               struct tutti_error *err)
{
    struct tt_problem problem = {.coll = (tutti_coll)x->coll,
                                 .ranks = p->t->ranks,
                                 .count = (x->bytes + 3) / 4,
                                 .dtype = TUTTI_F32};
    struct tt_plan_options o = {.algo = algo};
    struct tt_plan *plan = NULL;
    tutti_status st = tt_plan_make(p->t, &problem, &o, p->plans, &plan, err);
    if (st)
        return st;
    x->algo = plan->algo;
    x->ps = plan->cost.time_ps;
    if (p->flow)
        st = prices_simulate(p, plan, &x->ps, err);
    tt_plan_free(plan);
    return st;
}

static const struct price *price_of(struct tt_prices *p, tutti_coll coll, uint8_t carrier,
                                    uint64_t bytes);

/* What the planner chooses for a power of two. */
static const struct tt_algo *chosen_at(struct tt_prices *p, tutti_coll coll, uint64_t bytes)
{
    const struct price *x = price_of(p, coll, TT_POLICY_AUTO, bytes);
    return x ? x->algo : NULL;
}

/* The algorithm chosen at both neighbouring powers of two; NULL: they differ, or this is one. */
static const char *chosen_around(struct tt_prices *p, tutti_coll coll, uint64_t bytes)
{
    uint64_t below = tt_floor_pow2(bytes);
    if (below == bytes || below < 64)
        return NULL;
    const struct tt_algo *a = chosen_at(p, coll, below), *b = chosen_at(p, coll, below * 2);
    return a && a == b ? a->name : NULL;
}

static const char *algo_for(struct tt_prices *p, tutti_coll coll, uint8_t carrier, uint64_t bytes)
{
    if (carrier != TT_POLICY_AUTO)
        return tt_policy_algo_name((enum tt_policy_algo)carrier);
    return p->algo[0] ? p->algo : chosen_around(p, coll, bytes);
}

static const struct price *price_of(struct tt_prices *p, tutti_coll coll, uint8_t carrier,
                                    uint64_t bytes)
{
    struct price x = {
        .bytes = bytes, .ps = UINT64_MAX, .coll = (uint8_t)coll, .carrier = carrier, .used = 1};
    struct tutti_error err;
    const struct price *slot = slot_of(p->table, p->cap, &x);
    if (slot->used)
        return slot;
    if (prices_ask(p, algo_for(p, coll, carrier, bytes), &x, &err)) {
        p->failure = err;
        x.ps = UINT64_MAX;
        x.algo = NULL;
    }
    prices_keep(p, &x);
    slot = slot_of(p->table, p->cap, &x);
    return slot->used ? slot : NULL;
}

static uint64_t cost(void *ctx, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes)
{
    const struct price *x = price_of(ctx, coll, (uint8_t)algo, bytes);
    return x ? x->ps : UINT64_MAX;
}

struct tt_policy_costs tt_trainsim_prices_costs(struct tt_prices *p)
{
    return (struct tt_policy_costs){.cost = cost, .ctx = p, .ranks = p->t->ranks};
}
