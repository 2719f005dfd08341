/* plans_lead.c - rank 0 of a hand-over: finds the plan (the user's, or the planner's), has it
 * proved and dumped where the settings ask for it, and packs the note and all slices (plans.c draws
 * the hand-over). A failure is handed out too, as a note with its reason: all ranks fail alike. */
#include <assert.h>
#include <string.h>

#include "comm/plans.h"

uint64_t tt_comm_plans_predicted(const struct tt_plan *plan)
{
    return plan->flow_ps ? plan->flow_ps : plan->cost.time_ps;
}

/* Blocks of equal length, because the slices are handed out by a scatter. */
static tutti_status pack_all(const struct tt_sched *s, struct plan_note *n, char **ret,
                             struct tutti_error *err)
{
    size_t most = 0;
    for (uint32_t r = 0; r < s->nslices; r++) {
        size_t bytes = tt_sched_packed_bytes(s, r);
        most = bytes > most ? bytes : most;
    }
    assert(most > 0 && s->nslices == s->shape.ranks);
    char *all = tt_zalloc(s->nslices, most);
    if (!all)
        return tt_fail_memory(err, "slices");
    for (uint32_t r = 0; r < s->nslices; r++)
        tt_sched_pack(s, r, all + r * most);
    n->block_bytes = most;
    *ret = all;
    return TUTTI_OK;
}

/* The planner's schedule for all ranks, and what to say about it. */
static tutti_status find_planned(const struct tt_comm *c, const struct tt_comm_ask *ask,
                                 struct plan_note *n, struct tt_sched **ret,
                                 struct tutti_error *err)
{
    struct tt_plan *plan = NULL;
    tutti_status st = tt_comm_plans_plan(c, ask, &plan, err);
    if (!st)
        st = tt_plan_schedule(plan, c->topo, ret, err);
    if (!st) {
        n->predicted_ps = tt_comm_plans_predicted(plan);
        n->bound_ps = plan->bounds.time_ps;
        n->options = plan->options;
        n->origin = tt_comm_plans_origin(ask, plan);
        n->hash = tt_comm_plans_hash(c, plan->algo, &plan->options, (*ret)->hash);
        snprintf(n->algo, sizeof n->algo, "%s", plan->algo->name);
    }
    tt_plan_free(plan);
    return st;
}

tutti_status tt_comm_plans_given(struct tt_comm *c, const struct tt_comm_ask *ask,
                                 struct plan_note *n, struct tt_sched **ret,
                                 struct tutti_error *err)
{
    const struct tt_problem *p = &ask->problem;
    struct tt_sched *s = NULL;
    struct tt_cost cost = {0};
    struct tt_bounds bounds = {0};
    tutti_status st = tt_comm_given_plan(c, p, &s, err);
    if (!st)
        st = tt_cost_sched(s, c->topo, p->count, p->dtype, &cost, err);
    if (!st)
        st = tt_bound_make(c->topo, p->coll, p->root, p->count * tt_sched_dtype_bytes(p->dtype),
                           &bounds, err);
    if (st) {
        tt_sched_free(s);
        return st;
    }
    n->predicted_ps = cost.time_ps;
    /* as cap_bound in plan.c: bounds know links, not caches */
    n->bound_ps = bounds.time_ps < cost.time_ps ? bounds.time_ps : cost.time_ps;
    n->origin = TT_ORIGIN_GIVEN;
    n->hash = tt_comm_plans_hash(c, NULL, &n->options, s->hash);
    snprintf(n->algo, sizeof n->algo, "%s", s->shape.algo);
    tt_bound_free(&bounds);
    *ret = s;
    return TUTTI_OK;
}

/* Proved before any rank gets it. */
static tutti_status admit(struct tt_comm *c, const struct tt_comm_ask *ask,
                          const struct plan_note *n, const struct tt_sched *whole,
                          struct tutti_error *err)
{
    struct tt_agreed a = {
        .problem = ask->problem, .algo = tt_algo_find(n->algo), .options = n->options};
    snprintf(a.name, sizeof a.name, "%s", n->algo);
    return tt_comm_prove_admit(c, &a, whole, err);
}

tutti_status tt_comm_plans_prepare(struct tt_comm *c, const struct tt_comm_ask *ask,
                                   struct plan_note *n, char **ret_all, struct tutti_error *err)
{
    struct tt_sched *whole = NULL;
    tutti_status st = tt_comm_given_runs(c, ask) ? tt_comm_plans_given(c, ask, n, &whole, err)
                                                 : find_planned(c, ask, n, &whole, err);
    if (!st)
        st = admit(c, ask, n, whole, err);
    if (!st)
        st = pack_all(whole, n, ret_all, err);
    tt_sched_free(whole);
    return st;
}

void tt_comm_plans_refuse(struct plan_note *n, tutti_status st, const struct tutti_error *why)
{
    n->status = st;
    if (st)
        memcpy(n->why, why->text, sizeof n->why);
}
