/* plan.c - the public functions of plans and bounds over plan/ and bound/.
 *
 * A plan holds its topology (api_topo.holders), so that the caller may free the topology first. The
 * functions that only look (tutti_plan_algo, tutti_plan_info, ...) abort on a bad handle.
 *
 *     topology + options --make--> plan --schedule--> schedule
 *                                    |--explain, info, rate, count, simulate: what is known already
 *     topology + problem --bound_make--> bounds --get, best, cut, parts */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

/* Reads a tuning file; the caller frees *ret. */
static tutti_status read_tuning(const char *path, struct tt_tuning **ret, struct tutti_error *err)
{
    FILE *in;
    const char *name;
    tutti_status st = tt_api_open(path, "r", &in, &name, err);
    if (st)
        return st;
    st = tt_plan_tuning_read(in, name, ret, err);
    tt_api_close(in, name, false, NULL);
    return st;
}

static void plan_free(struct api_plan *plan)
{
    if (!plan)
        return;
    tt_plan_free(plan->p);
    tt_plan_tuning_free(plan->tuning);
    tt_api_topo_release(plan->topo);
    free(plan);
}

/* The watcher of planning in this thread (tutti_plan_watched). Thread-local, so that threads that
 * plan at the same time do not see each other's candidates. */
static _Thread_local struct {
    tutti_plan_watch_fn *watch;
    void *ctx;
} watched;

void tutti_plan_watched(tutti_plan_watch_fn *watch, void *ctx)
{
    watched.watch = watch;
    watched.ctx = ctx;
}

/* Fills *plan; on failure the caller frees what was filled so far. */
static tutti_status plan_make(const struct api_topo *topo, const struct tutti_plan_options *options,
                              struct api_plan *plan, struct tutti_error *err)
{
    struct tt_problem problem;
    struct tt_plan_options o;
    tutti_status st = tt_api_problem(options, topo->t->ranks, &problem, err);
    if (!st)
        st = tt_api_options(options, &o, err);
    if (!st && options->tuning)
        st = read_tuning(options->tuning, &plan->tuning, err);
    if (st)
        return st;
    plan->topo = tt_api_topo_hold(topo);
    o.tuning = plan->tuning;
    o.watch = watched.watch;
    o.watch_ctx = watched.ctx;
    return tt_plan_make(topo->t, &problem, &o, topo->plans, &plan->p, err);
}

/* On failure plan_free accepts a plan that is filled in part. */
tutti_status tutti_plan_make(const struct tutti_topo *topo,
                             const struct tutti_plan_options *options, struct tutti_plan **ret_plan,
                             struct tutti_error *err)
{
    struct tutti_plan_options given;
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "ret_plan", ret_plan) : TUTTI_ERR_ARG;
    if (!st)
        st = api_struct("tutti_plan_options", options, &given, err);
    if (st)
        return st;
    struct api_plan *plan = tt_zalloc(1, sizeof *plan);
    st = plan ? plan_make(t, &given, plan, err) : tt_fail_memory(err, "plan");
    void *handle = st ? NULL : tt_api_make(API_PLAN, plan, NULL, err);
    if (!handle) {
        plan_free(plan);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret_plan = handle;
    return TUTTI_OK;
}

void tutti_plan_free(struct tutti_plan *plan)
{
    plan_free(api_end(PLAN, plan));
}

/* The plan behind a handle, for functions without a status: aborts on a bad one. */
static const struct tt_plan *must_see(const struct tutti_plan *plan, const char *function)
{
    return ((const struct api_plan *)tt_api_needed(API_PLAN, plan, function))->p;
}

const char *tutti_plan_algo(const struct tutti_plan *plan)
{
    return must_see(plan, __func__)->algo->name;
}

double tutti_plan_predicted_us(const struct tutti_plan *plan)
{
    return tt_api_us(must_see(plan, __func__)->cost.time_ps);
}

double tutti_plan_bound_us(const struct tutti_plan *plan)
{
    return tt_api_us(must_see(plan, __func__)->bounds.time_ps);
}

tutti_status tutti_plan_schedule(const struct tutti_plan *plan,
                                 struct tutti_schedule **ret_schedule, struct tutti_error *err)
{
    struct tt_sched *s = NULL;
    const struct api_plan *p = api_find(PLAN, plan, err);
    tutti_status st = p ? api_given(err, "ret_schedule", ret_schedule) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_plan_schedule(p->p, p->topo->t, &s, err);
    return st ? st : tt_api_schedule_wrap(s, ret_schedule, err);
}

tutti_status tutti_plan_first_slice(const struct tutti_plan *plan, struct tutti_schedule **ret,
                                    struct tutti_error *err)
{
    struct tt_sched *s = NULL;
    const struct api_plan *p = api_find(PLAN, plan, err);
    tutti_status st = p ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_plan_first_slice(p->p, p->topo->t, &s, err);
    return st ? st : tt_api_schedule_wrap(s, ret, err);
}

/* Candidates exist only after an automatic choice: a named algorithm has none. */
tutti_status tutti_plan_explain(const struct tutti_plan *plan, size_t i,
                                struct tutti_candidate *ret_candidate, struct tutti_error *err)
{
    const struct api_plan *p = api_find(PLAN, plan, err);
    tutti_status st = p ? api_given(err, "ret_candidate", ret_candidate) : TUTTI_ERR_ARG;
    if (st)
        return st;
    if (i >= p->p->ncandidates)
        return tt_fail(err, TUTTI_ERR_RANGE, "plan: there is no candidate %zu", i);
    const struct tt_candidate *c = &p->p->candidates[i];
    *ret_candidate = (struct tutti_candidate){.algo = c->algo->name,
                                              .refused = c->refused,
                                              .skipped = c->skipped,
                                              .predicted_us = tt_api_us(c->cost.time_ps),
                                              .ratio_to_bound = c->ratio_to_bound,
                                              .segments = c->segments,
                                              .steps = c->cost.steps,
                                              .why = c->why};
    return TUTTI_OK;
}

double tutti_plan_flow_us(const struct tutti_plan *plan, size_t i)
{
    const struct tt_plan *p = must_see(plan, __func__);
    return tt_api_us(i < p->ncandidates ? p->candidates[i].flow_ps : p->flow_ps);
}

/* Numbers of operations and chunks need a schedule; everything else the plan knows. */
void tutti_plan_info(const struct tutti_plan *plan, const struct tutti_schedule *schedule,
                     struct tutti_plan_info *ret)
{
    const struct tt_plan *p = must_see(plan, __func__);
    const struct tt_sched *s = schedule ? api_need(SCHEDULE, schedule) : NULL;
    api_must("ret", ret);
    const struct tt_bound *best = &p->bounds.item[p->bounds.best];
    *ret = (struct tutti_plan_info){
        .algo = p->algo->name,
        .steps = p->cost.steps,
        .segments = (uint32_t)tt_algo_option_number(p->algo, &p->options, "segments", 1),
        .messages = p->cost.messages,
        .predicted_us = tt_api_us(p->cost.time_ps),
        .bound_us = tt_api_us(p->bounds.time_ps),
        .ratio_to_bound = p->ratio_to_bound,
        .bound_kind = tt_bound_name(p->bounds.best),
        .certificate = best->text,
        .max_link_contention = p->cost.max_link_contention,
        .exact = p->cost.exact,
        .from_tuning = p->from_tuning,
        .winner = p->candidates ? p->algo->name : NULL};
    tt_algo_options_format(&p->options, ret->options, sizeof ret->options);
    if (s) {
        ret->ops = s->nops;
        ret->chunks = s->shape.chunks;
    }
}

/* The rate is that of small segments. The gap is measured against the better of the two bounds
 * and never negative. */
void tutti_plan_rate(const struct tutti_plan *plan, struct tutti_plan_info *info)
{
    const struct tt_plan *p = must_see(plan, __func__);
    api_must("info", info);
    const struct tt_algo_report r = p->built.report;
    double bytes = (double)p->problem.count * tt_sched_dtype_bytes(p->problem.dtype), bound;
    if (bytes <= 0 || r.rate <= 0)
        return;
    info->has_rate = true;
    info->rate_Bps = r.rate;
    info->dual_bound_us = r.dual_rate > 0 ? bytes / r.dual_rate * 1e6 : 0;
    bound = info->dual_bound_us > info->bound_us ? info->dual_bound_us : info->bound_us;
    info->gap = bound > 0 && bytes / r.rate * 1e6 > bound ? bytes / r.rate * 1e6 / bound - 1 : 0;
}

tutti_status tutti_plan_count(const struct tutti_plan *plan, uint64_t *ret_ops,
                              uint32_t *ret_chunks, struct tutti_error *err)
{
    const struct api_plan *p = api_find(PLAN, plan, err);
    tutti_status st =
        p ? api_given(err, "ret_ops", ret_ops, "ret_chunks", ret_chunks) : TUTTI_ERR_ARG;
    return st ? st : tt_plan_count(p->p, p->topo->t, ret_ops, ret_chunks, err);
}

void tutti_plan_simulate(const struct tutti_plan *plan, struct tutti_sim_result *ret)
{
    const struct tt_plan *p = must_see(plan, __func__);
    api_must("ret", ret);
    tt_api_sim_result(&p->cost, ret);
}

/* The envelope in the form of plan/. bytes: the least and the greatest size. The caller frees
 * *ret. */
static tutti_status envelope(const struct api_topo *topo, const struct tutti_plan_options *options,
                             const uint64_t bytes[2], struct tt_envelope_piece **ret, size_t *ret_n,
                             struct tutti_error *err)
{
    struct tt_problem problem;
    struct tt_plan_options o;
    struct tt_tuning *tuning = NULL;
    tutti_status st = tt_api_problem(options, topo->t->ranks, &problem, err);
    if (!st)
        st = tt_api_options(options, &o, err);
    if (!st && options->tuning)
        st = read_tuning(options->tuning, &tuning, err);
    if (!st) {
        o.tuning = tuning;
        st = tt_plan_envelope(topo->t, &problem, &o, bytes[0], bytes[1], ret, ret_n, err);
    }
    tt_plan_tuning_free(tuning);
    return st;
}

tutti_status tutti_plan_envelope(const struct tutti_topo *topo,
                                 const struct tutti_plan_options *options, uint64_t min_bytes,
                                 uint64_t max_bytes, struct tutti_envelope_piece **ret,
                                 size_t *ret_n, struct tutti_error *err)
{
    struct tutti_plan_options given;
    struct tt_envelope_piece *pieces = NULL;
    size_t n = 0;
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "ret", ret, "ret_n", ret_n) : TUTTI_ERR_ARG;
    if (!st)
        st = api_struct("tutti_plan_options", options, &given, err);
    if (!st)
        st = envelope(t, &given, (uint64_t[]){min_bytes, max_bytes}, &pieces, &n, err);
    if (st)
        return st;
    struct tutti_envelope_piece *out = tt_alloc(n ? n : 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        out[i] = (struct tutti_envelope_piece){.from_bytes = pieces[i].from_bytes,
                                               .to_bytes = pieces[i].to_bytes,
                                               .algo = pieces[i].algo->name,
                                               .from_us = tt_api_us(pieces[i].from_ps),
                                               .to_us = tt_api_us(pieces[i].to_ps)};
    free(pieces);
    if (!out)
        return tt_fail_memory(err, "envelope");
    *ret = out;
    *ret_n = n;
    return TUTTI_OK;
}

/* Bounds hold for any schedule: no algorithm, type or reduction is needed, only bytes. */
tutti_status tutti_bound_make(const struct tutti_topo *topo, tutti_coll coll, uint32_t root,
                              uint64_t bytes, struct tutti_bound **ret, struct tutti_error *err)
{
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (st)
        return st;
    if ((unsigned)coll >= TUTTI_COLL_COUNT)
        return tt_api_bad(__func__, err, TUTTI_ERR_ARG, "there is no collective %d", (int)coll);
    if (root >= t->t->ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "root %u is not one of the %u ranks", root,
                       t->t->ranks);
    struct api_bound *b = tt_zalloc(1, sizeof *b);
    if (!b)
        return tt_fail_memory(err, "bound");
    st = tt_bound_make(t->t, coll, root, bytes, &b->b, err);
    void *handle = st ? NULL : tt_api_make(API_BOUND, b, NULL, err);
    if (!handle) {
        tt_bound_free(&b->b);
        free(b);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

bool tutti_bound_get(const struct tutti_bound *bound, size_t i, struct tutti_bound_info *ret)
{
    const struct api_bound *object = api_need(BOUND, bound);
    api_must("ret", ret);
    if (i >= TT_BOUND_KINDS)
        return false;
    const struct tt_bound *b = &object->b.item[i];
    *ret = (struct tutti_bound_info){.kind = tt_bound_name((enum tt_bound_kind)i),
                                     .applies = b->applies,
                                     .complete = b->complete,
                                     .bound_us = tt_api_us(b->time_ps)};
    snprintf(ret->certificate, sizeof ret->certificate, "%s", b->text);
    return true;
}

size_t tutti_bound_best(const struct tutti_bound *bound)
{
    return (size_t)((const struct api_bound *)api_need(BOUND, bound))->b.best;
}

/* The cut is the certificate of the cut bound; NULL when that kind does not apply. */
const uint8_t *tutti_bound_cut(const struct tutti_bound *bound, double *ret_bytes,
                               double *ret_capacity)
{
    const struct api_bound *object = api_need(BOUND, bound);
    const struct tt_bound *b = &object->b.item[TT_BOUND_CUT];
    api_must("ret_bytes", ret_bytes, "ret_capacity", ret_capacity);
    if (b->side) {
        *ret_bytes = b->bytes;
        *ret_capacity = b->capacity;
    }
    return b->side;
}

const uint32_t *tutti_bound_parts(const struct tutti_bound *bound,
                                  struct tutti_bound_partition *ret)
{
    const struct api_bound *object = api_need(BOUND, bound);
    const struct tt_bound *b = &object->b.item[TT_BOUND_PARTITION];
    api_must("ret", ret);
    if (b->part)
        *ret = (struct tutti_bound_partition){
            .parts = b->parts, .bytes = b->bytes, .capacity = b->capacity, .tight = b->tight};
    return b->part;
}

void tutti_bound_free(struct tutti_bound *bound)
{
    struct api_bound *b = api_end(BOUND, bound);
    if (b)
        tt_bound_free(&b->b);
    free(b);
}
