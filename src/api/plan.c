/* Public plan and bound functions over plan/ and bound/. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

static tutti_status read_tuning(const char *path, struct tt_tuning **ret, struct tutti_error *err)
{
    FILE *in;
    const char *name;
    tutti_status st = api_open(path, "r", &in, &name, err);
    if (st)
        return st;
    st = tt_tuning_read(in, name, ret, err);
    api_close(in, name, false, NULL);
    return st;
}

tutti_status tutti_plan_make(const struct tutti_topo *topo, const struct tutti_plan_options *options, struct tutti_plan **ret_plan,
                             struct tutti_error *err)
{
    if (!topo || !ret_plan)
        return tt_fail(err, TUTTI_ERR_ARG, "plan: no topology given");
    struct tt_problem problem;
    struct tt_plan_options o;
    struct tutti_plan *plan = NULL;
    tutti_status st = api_problem(options, topo->t->ranks, &problem, err);
    if (!st)
        st = api_options(options, &o, err);
    if (st)
        return st;
    plan = tt_zalloc(1, sizeof *plan);
    if (!plan)
        return tt_fail_memory(err, "plan");
    plan->topo = topo;
    if (options->tuning)
        st = read_tuning(options->tuning, &plan->tuning, err);
    o.tuning = plan->tuning;
    if (!st)
        st = tt_plan_make(topo->t, &problem, &o, topo->plans, &plan->p, err);
    if (st) {
        tutti_plan_free(plan);
        return st;
    }
    *ret_plan = plan;
    return TUTTI_OK;
}

void tutti_plan_free(struct tutti_plan *plan)
{
    if (!plan)
        return;
    tt_plan_free(plan->p);
    tt_tuning_free(plan->tuning);
    free(plan);
}

const char *tutti_plan_algo(const struct tutti_plan *plan)
{
    return plan->p->algo->name;
}

double tutti_plan_predicted_us(const struct tutti_plan *plan)
{
    return api_us(plan->p->cost.time_ps);
}

double tutti_plan_bound_us(const struct tutti_plan *plan)
{
    return api_us(plan->p->bounds.time_ps);
}

static tutti_status list(const struct tutti_plan *plan,
                         tutti_status (*make)(const struct tt_plan *, const struct tt_topo *, struct tt_sched **, struct tutti_error *),
                         struct tutti_schedule **ret, struct tutti_error *err)
{
    struct tutti_schedule *s = tt_zalloc(1, sizeof *s);
    if (!s)
        return tt_fail_memory(err, "schedule");
    tutti_status st = make(plan->p, plan->topo->t, &s->s, err);
    if (st) {
        free(s);
        return st;
    }
    *ret = s;
    return TUTTI_OK;
}

tutti_status tutti_plan_schedule(const struct tutti_plan *plan, struct tutti_schedule **ret_schedule, struct tutti_error *err)
{
    return list(plan, tt_plan_schedule, ret_schedule, err);
}

tutti_status tutti_plan_first_slice(const struct tutti_plan *plan, struct tutti_schedule **ret, struct tutti_error *err)
{
    return list(plan, tt_plan_first_slice, ret, err);
}

tutti_status tutti_plan_explain(const struct tutti_plan *plan, size_t i, struct tutti_candidate *ret_candidate, struct tutti_error *err)
{
    if (i >= plan->p->ncandidates)
        return tt_fail(err, TUTTI_ERR_RANGE, "plan: there is no candidate %zu", i);
    const struct tt_candidate *c = &plan->p->candidates[i];
    *ret_candidate = (struct tutti_candidate){.algo = c->algo->name,
                                              .refused = c->refused,
                                              .skipped = c->skipped,
                                              .predicted_us = api_us(c->cost.time_ps),
                                              .ratio_to_bound = c->ratio_to_bound,
                                              .segments = c->segments,
                                              .steps = c->cost.steps,
                                              .why = c->why};
    return TUTTI_OK;
}

void tutti_plan_info(const struct tutti_plan *plan, const struct tutti_schedule *schedule, struct tutti_plan_info *ret)
{
    const struct tt_plan *p = plan->p;
    const struct tt_bound *best = &p->bounds.item[p->bounds.best];
    *ret = (struct tutti_plan_info){.algo = p->algo->name,
                                    .steps = p->cost.steps,
                                    .segments = (uint32_t)tt_option_number(p->algo, &p->options, "segments", 1),
                                    .messages = p->cost.messages,
                                    .predicted_us = api_us(p->cost.time_ps),
                                    .bound_us = api_us(p->bounds.time_ps),
                                    .ratio_to_bound = p->ratio_to_bound,
                                    .bound_kind = tt_bound_name(p->bounds.best),
                                    .certificate = best->text,
                                    .max_link_contention = p->cost.max_link_contention,
                                    .exact = p->cost.exact,
                                    .from_tuning = p->from_tuning,
                                    .winner = p->candidates ? p->algo->name : NULL};
    tt_options_format(&p->options, ret->options, sizeof ret->options);
    if (schedule) {
        ret->ops = schedule->s->nops;
        ret->chunks = schedule->s->shape.chunks;
    }
}

void tutti_plan_rate(const struct tutti_plan *plan, struct tutti_plan_info *info)
{
    const struct tt_plan *p = plan->p;
    const struct tt_algo_report r = p->built.report;
    double bytes = (double)p->problem.count * tt_dtype_bytes(p->problem.dtype), bound;
    if (bytes <= 0 || r.rate <= 0)
        return;
    info->has_rate = true;
    info->rate_Bps = r.rate;
    info->dual_bound_us = r.dual_rate > 0 ? bytes / r.dual_rate * 1e6 : 0;
    bound = info->dual_bound_us > info->bound_us ? info->dual_bound_us : info->bound_us;
    info->gap = bound > 0 && bytes / r.rate * 1e6 > bound ? bytes / r.rate * 1e6 / bound - 1 : 0;
}

tutti_status tutti_plan_count(const struct tutti_plan *plan, uint64_t *ret_ops, uint32_t *ret_chunks, struct tutti_error *err)
{
    return tt_plan_count(plan->p, plan->topo->t, ret_ops, ret_chunks, err);
}

void tutti_plan_simulate(const struct tutti_plan *plan, struct tutti_sim_result *ret)
{
    api_sim_result(&plan->p->cost, ret);
}

tutti_status tutti_plan_envelope(const struct tutti_topo *topo, const struct tutti_plan_options *options, uint64_t min_bytes,
                                 uint64_t max_bytes, struct tutti_envelope_piece **ret, size_t *ret_n, struct tutti_error *err)
{
    struct tt_problem problem;
    struct tt_plan_options o;
    struct tt_envelope_piece *pieces = NULL;
    struct tt_tuning *tuning = NULL;
    size_t n = 0;
    tutti_status st = api_problem(options, topo->t->ranks, &problem, err);
    if (!st)
        st = api_options(options, &o, err);
    if (!st && options->tuning)
        st = read_tuning(options->tuning, &tuning, err);
    if (!st) {
        o.tuning = tuning;
        st = tt_plan_envelope(topo->t, &problem, &o, min_bytes, max_bytes, &pieces, &n, err);
    }
    tt_tuning_free(tuning);
    if (st)
        return st;
    struct tutti_envelope_piece *out = tt_alloc(n ? n : 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        out[i] = (struct tutti_envelope_piece){.from_bytes = pieces[i].from_bytes,
                                               .to_bytes = pieces[i].to_bytes,
                                               .algo = pieces[i].algo->name,
                                               .from_us = api_us(pieces[i].from_ps),
                                               .to_us = api_us(pieces[i].to_ps)};
    free(pieces);
    if (!out)
        return tt_fail_memory(err, "envelope");
    *ret = out;
    *ret_n = n;
    return TUTTI_OK;
}

tutti_status tutti_bound_make(const struct tutti_topo *topo, tutti_coll coll, uint32_t root, uint64_t bytes, struct tutti_bound **ret,
                              struct tutti_error *err)
{
    if (!topo || (unsigned)coll >= TUTTI_COLL_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "bound: a topology and a known collective are needed");
    if (root >= topo->t->ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "root %u is not one of the %u ranks", root, topo->t->ranks);
    struct tutti_bound *b = tt_zalloc(1, sizeof *b);
    if (!b)
        return tt_fail_memory(err, "bound");
    tutti_status st = tt_bounds_make(topo->t, coll, root, bytes, &b->b, err);
    if (st) {
        free(b);
        return st;
    }
    *ret = b;
    return TUTTI_OK;
}

bool tutti_bound_get(const struct tutti_bound *bound, size_t i, struct tutti_bound_info *ret)
{
    if (i >= TT_BOUND_KINDS)
        return false;
    const struct tt_bound *b = &bound->b.item[i];
    *ret = (struct tutti_bound_info){
        .kind = tt_bound_name((enum tt_bound_kind)i), .applies = b->applies, .complete = b->complete, .bound_us = api_us(b->time_ps)};
    snprintf(ret->certificate, sizeof ret->certificate, "%s", b->text);
    return true;
}

size_t tutti_bound_best(const struct tutti_bound *bound)
{
    return (size_t)bound->b.best;
}

const uint8_t *tutti_bound_cut(const struct tutti_bound *bound, double *ret_bytes, double *ret_capacity)
{
    const struct tt_bound *b = &bound->b.item[TT_BOUND_CUT];
    if (b->side) {
        *ret_bytes = b->bytes;
        *ret_capacity = b->capacity;
    }
    return b->side;
}

const uint32_t *tutti_bound_parts(const struct tutti_bound *bound, struct tutti_bound_partition *ret)
{
    const struct tt_bound *b = &bound->b.item[TT_BOUND_PARTITION];
    if (b->part)
        *ret = (struct tutti_bound_partition){.parts = b->parts, .bytes = b->bytes, .capacity = b->capacity, .tight = b->tight};
    return b->part;
}

void tutti_bound_free(struct tutti_bound *bound)
{
    if (bound)
        tt_bounds_free(&bound->b);
    free(bound);
}
