/* prices.c - predicted times of collectives on a topology; policies ask for thousands of them.
 *
 * Every price is that of a plan for exactly that many bytes: `tutti sim` of that size prints the
 * same. Where the planner chooses, it compares all algorithms at powers of two only; between two
 * powers that chose the same algorithm, that algorithm is priced. (Costs are minima of functions
 * that grow linearly with the size, as long as segments are fixed: what is best at both ends is
 * best between.) Between two powers that differ the planner is asked again.
 *
 *     bytes    64K        128K         256K         512K
 *     choice   swing      swing        ring         ring
 *                  swing       asked        ring            for sizes between
 *
 * Answers are kept in a hash table with open addressing. */
#include <assert.h>

#include "trainsim/trainsim.h"

#include <stdlib.h>

#include "plan/plan.h"
#include "sim/sim.h"

enum { FLOW_MS = 20 }; /* of planning one size, when all are simulated anyway */

/* One answer by (bytes, coll, carrier); carrier: the algorithm that the policy asked for. */
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

/* An unknown algorithm is refused here, not when the first price is asked for. */
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

/* Also for prices that are only partly built. */
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

/* The slot of a key, or the free one where it belongs. Half the slots are free, so it ends. */
static struct price *slot_of(struct price *table, size_t cap, const struct price *key)
{
    assert((cap & (cap - 1)) == 0);
    uint64_t h = tt_mix64(key->bytes * 64 + key->coll * 8u + key->carrier);
    for (size_t i = h & (cap - 1);; i = (i + 1) & (cap - 1)) {
        struct price *x = &table[i];
        if (!x->used ||
            (x->bytes == key->bytes && x->coll == key->coll && x->carrier == key->carrier))
            return x;
    }
}

/* Doubles the table; pointers into the old one become invalid. */
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
        return; /* no memory: the price is computed again next time */
    assert(x->used && 2 * (p->n + 1) <= p->cap);
    struct price *slot = slot_of(p->table, p->cap, x);
    p->n += !slot->used;
    *slot = *x;
}

/* ---- asking the planner ---- */

/* The flow simulator's time of the plan's schedule. */
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

/* Plans one size and stores time and algorithm in x; algo NULL: the planner chooses. */
static tutti_status prices_ask(struct tt_prices *p, const char *algo, struct price *x,
                               struct tutti_error *err)
{
    struct tt_problem problem = {.coll = (tutti_coll)x->coll,
                                 .ranks = p->t->ranks,
                                 .count = (x->bytes + 3) / 4,
                                 .dtype = TUTTI_F32};
    struct tt_plan_options o = {.algo = algo, .flow_ms = p->flow ? FLOW_MS : TT_PLAN_NO_FLOW};
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

/* The algorithm that the planner chooses for a power of two. */
static const struct tt_algo *chosen_at(struct tt_prices *p, tutti_coll coll, uint64_t bytes)
{
    const struct price *x = price_of(p, coll, TT_POLICY_AUTO, bytes);
    return x ? x->algo : NULL;
}

/* The algorithm chosen at both neighbouring powers of two; NULL: they differ, or bytes is one. */
static const char *chosen_around(struct tt_prices *p, tutti_coll coll, uint64_t bytes)
{
    uint64_t below = tt_floor_pow2(bytes);
    if (below == bytes || below < 64)
        return NULL;
    const struct tt_algo *a = chosen_at(p, coll, below), *b = chosen_at(p, coll, below * 2);
    return a && a == b ? a->name : NULL;
}

/* The policy's algorithm, else the one the prices were opened with, else the planner's. */
static const char *algo_for(struct tt_prices *p, tutti_coll coll, uint8_t carrier, uint64_t bytes)
{
    if (carrier != TT_POLICY_AUTO)
        return tt_policy_algo_name((enum tt_policy_algo)carrier);
    return p->algo[0] ? p->algo : chosen_around(p, coll, bytes);
}

/* Recursion is one level deep: a size between powers asks for the powers, and those ask for no
 * other. The nested calls may grow the table, so the slot is looked up again afterwards. */
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

/* The callback of tt_policy_costs; UINT64_MAX: no such plan, or no memory for the answer. */
static uint64_t cost(void *ctx, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes)
{
    const struct price *x = price_of(ctx, coll, (uint8_t)algo, bytes);
    return x ? x->ps : UINT64_MAX;
}

struct tt_policy_costs tt_trainsim_prices_costs(struct tt_prices *p)
{
    return (struct tt_policy_costs){.cost = cost, .ctx = p, .ranks = p->t->ranks};
}
