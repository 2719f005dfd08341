/* plan.c - a plan from question to answer.
 *
 *     check the problem -> cached? -> bound -> choose (choose.c) -> remember -> plan
 *
 * A plan owns its candidates, its bounds (with the sides of their cuts) and the schedule of a
 * synthesised algorithm. It borrows nothing: algorithms are lines of a static table. Other
 * schedules, which can be large, are built on demand from algorithm and options alone. */
#include "plan/plan_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

tutti_status tt_plan_check(const struct tt_topo *t, const struct tt_problem *p,
                           struct tt_problem *ret, uint64_t *ret_bytes, struct tutti_error *err)
{
    struct tt_problem checked = *p;
    uint64_t bytes;

    if ((unsigned)p->coll >= TUTTI_COLL_COUNT || (unsigned)p->dtype >= TUTTI_DTYPE_COUNT ||
        (unsigned)p->redop > TT_REDOP_USER)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "no such collective (%d), data type (%d) or reduction (%d)", (int)p->coll,
                       (int)p->dtype, (int)p->redop);
    if (p->ranks != t->ranks)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "the problem has %u ranks, but the network %s has %u", p->ranks, t->spec,
                       t->ranks);
    if (p->root >= p->ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "root %u does not exist: ranks are 0 to %u", p->root,
                       p->ranks - 1);
    if (p->coll == TUTTI_BARRIER)
        checked.count = 0;
    if (__builtin_mul_overflow(checked.count, (uint64_t)tt_sched_dtype_bytes(p->dtype), &bytes))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "%llu elements of %s are more bytes than 64 bits can count",
                       (unsigned long long)p->count, tt_sched_dtype_name(p->dtype));
    *ret = checked;
    *ret_bytes = bytes;
    return TUTTI_OK;
}

/* Bounds know links, not caches. On a shared-memory topology a measured time may be below the
 * bound; the bound is then lowered to it. */
static void cap_bound(struct tt_plan *plan)
{
    if (plan->bounds.time_ps <= plan->cost.time_ps)
        return;
    plan->bounds.time_ps = plan->cost.time_ps;
    plan->ratio_to_bound = plan->cost.time_ps ? 1 : 0;
}

/* Bounds first, since the ratios of the candidates refer to them; then the choice. No cache of
 * choices. */
static tutti_status plan_make(struct tt_pricing *pricing, uint64_t bytes,
                              const struct tt_plan_options *o, struct tt_plan **ret,
                              struct tutti_error *err)
{
    const struct tt_problem *p = &pricing->args.problem;
    struct tt_plan *plan = tt_zalloc(1, sizeof *plan);
    tutti_status st;

    if (!plan)
        return tt_fail_memory(err, "plan");
    plan->problem = *p;
    st = tt_bound_make(pricing->args.topo, p->coll, p->root, bytes, &plan->bounds, err);
    if (!st) {
        pricing->bound_ps = plan->bounds.time_ps;
        st = tt_plan_choose(pricing, o, bytes, plan, err);
    }
    if (!st && pricing->args.topo->memory.npoints)
        cap_bound(plan);
    if (st) {
        tt_plan_free(plan);
        return st;
    }
    *ret = plan;
    return TUTTI_OK;
}

static struct tt_algo_args args_of(const struct tt_plan *p, const struct tt_topo *t)
{
    return (struct tt_algo_args){.problem = p->problem, .topo = t, .options = p->options};
}

/* Completes a plan found in the cache; its schedule is attached if the cache still has it, else
 * tt_plan_schedule builds it again. */
static void take_known(struct tt_plan *plan, const struct tt_topo *t, struct tt_plan_cache *cache)
{
    struct tt_algo_args args = args_of(plan, t);

    plan->from_cache = true;
    (void)tt_plan_built_find(cache, plan->algo, &args, &plan->built);
}

/* tt_plan_make with a cache. A plan that cannot be remembered for lack of memory is an error
 * too. */
static tutti_status make_cached(struct tt_pricing *pricing, uint64_t bytes,
                                const struct tt_plan_options *o, struct tt_plan **ret,
                                struct tutti_error *err)
{
    const struct tt_topo *t = pricing->args.topo;
    const size_t vertices = (size_t)t->ranks + t->switches;
    struct tt_str key;
    struct tt_plan *plan = NULL;
    tutti_status st = tt_plan_key(t, &pricing->args.problem, o, &key, err);

    if (st)
        return st;
    st = tt_plan_cache_find(pricing->cache, &key, vertices, &plan, err);
    if (plan) {
        take_known(plan, t, pricing->cache);
    } else if (!st) {
        st = plan_make(pricing, bytes, o, &plan, err);
        if (!st)
            st = tt_plan_cache_put(pricing->cache, &key, plan, vertices, err);
    }
    tt_str_free(&key);
    if (st) {
        tt_plan_free(plan);
        return st;
    }
    *ret = plan;
    return TUTTI_OK;
}

tutti_status tt_plan_make(const struct tt_topo *t, const struct tt_problem *p,
                          const struct tt_plan_options *o, struct tt_plan_cache *cache,
                          struct tt_plan **ret, struct tutti_error *err)
{
    struct tt_pricing pricing = {.args.topo = t, .cache = cache};
    uint64_t bytes = 0;
    tutti_status st = tt_plan_check(t, p, &pricing.args.problem, &bytes, err);

    if (st)
        return st;
    return cache ? make_cached(&pricing, bytes, o, ret, err)
                 : plan_make(&pricing, bytes, o, ret, err);
}

/* For plans on the stack (envelope.c); tt_plan_free is for those that tt_plan_make returned. */
void tt_plan_clear(struct tt_plan *p)
{
    tt_bound_free(&p->bounds);
    for (size_t i = 0; i < p->ncandidates; i++)
        tt_plan_built_free(&p->candidates[i].built);
    free(p->candidates);
    tt_plan_built_free(&p->built);
}

void tt_plan_free(struct tt_plan *p)
{
    if (p)
        tt_plan_clear(p);
    free(p);
}

static void *copy_of(const void *data, size_t n, size_t size)
{
    void *copy = tt_alloc(n, size);
    return copy ? memcpy(copy, data, n * size) : NULL;
}

/* Copies the arrays of a plan whose other fields are copied already. The pointers in `copy` are
 * NULL before; on failure `copy` owns only what was copied and can be freed. */
static bool copy_arrays(const struct tt_plan *p, size_t vertices, struct tt_plan *copy)
{
    bool ok = true;

    if (p->candidates) {
        copy->candidates = tt_alloc(p->ncandidates, sizeof *p->candidates);
        ok = copy->candidates != NULL;
        if (ok)
            memcpy(copy->candidates, p->candidates, p->ncandidates * sizeof *p->candidates);
        copy->ncandidates = ok ? p->ncandidates : 0;
    }
    for (size_t k = 0; k < TT_BOUND_KINDS; k++) {
        const struct tt_bound *b = &p->bounds.item[k];
        if (b->side)
            ok = (copy->bounds.item[k].side = copy_of(b->side, vertices, sizeof *b->side)) && ok;
        if (b->part)
            ok = (copy->bounds.item[k].part = copy_of(b->part, vertices, sizeof *b->part)) && ok;
    }
    return ok;
}

tutti_status tt_plan_copy(const struct tt_plan *p, size_t vertices, struct tt_plan **ret,
                          struct tutti_error *err)
{
    struct tt_plan *copy = tt_alloc(1, sizeof *copy);

    if (!copy)
        return tt_fail_memory(err, "plan");
    /* Pointers are cleared before anything can fail: the copy must never free what the original
     * owns. */
    *copy = *p;
    copy->candidates = NULL;
    copy->built.sched = NULL;
    for (size_t k = 0; k < TT_BOUND_KINDS; k++) {
        copy->bounds.item[k].side = NULL;
        copy->bounds.item[k].part = NULL;
    }
    if (!copy_arrays(p, vertices, copy)) {
        tt_plan_free(copy);
        return tt_fail_memory(err, "plan");
    }
    *ret = copy;
    return TUTTI_OK;
}

/* A plan is only valid on the network that it was made for; the hash is known with a built
 * schedule. */
static tutti_status check_network(const struct tt_plan *p, const struct tt_topo *t,
                                  struct tutti_error *err)
{
    if (p->problem.ranks != t->ranks)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "the plan is for %u ranks, but the network %s has %u", p->problem.ranks,
                       t->spec, t->ranks);
    if (p->built.sched && p->built.sched->shape.topo_hash != t->hash)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "the plan was made for another network than %s: plan again for this one",
                       t->spec);
    return TUTTI_OK;
}

/* Builds the schedule that neither plan nor cache holds any more. */
static tutti_status build_again(const struct tt_plan *p, const struct tt_topo *t,
                                struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_algo_args args = args_of(p, t);
    struct tt_built built;
    tutti_status st = tt_plan_build(p->algo, &args, NULL, &built, err);

    if (!st)
        *ret = built.sched;
    return st;
}

tutti_status tt_plan_schedule(const struct tt_plan *p, const struct tt_topo *t,
                              struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_algo_args args = args_of(p, t);
    tutti_status st = check_network(p, t, err);

    if (st)
        return st;
    if (p->built.sched)
        return tt_sched_share(p->built.sched, NULL, ret, err);
    return p->algo->build ? build_again(p, t, ret, err) : tt_algo_build(p->algo, &args, ret, err);
}

tutti_status tt_plan_first_slice(const struct tt_plan *p, const struct tt_topo *t,
                                 struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_algo_args args = args_of(p, t);
    struct tt_sched *s = NULL;
    tutti_status st = check_network(p, t, err);
    if (!st && !p->algo->slice)
        st = tt_fail(err, TUTTI_ERR_REFUSED,
                     "%s builds all ranks together: it has no slice of one rank", p->algo->name);
    if (!st)
        st = tt_algo_slice(p->algo, &args, 0, 1, &s, err);
    if (!st && !s->shape.symmetric)
        st = tt_fail(err, TUTTI_ERR_REFUSED, "%s is not symmetric: its ranks do different things",
                     p->algo->name);
    if (st)
        tt_sched_free(s);
    else
        *ret = s;
    return st;
}
