/* schedule.c - the public functions of schedules over sched/, verify/, cost/ and algo/: reading,
 * writing, proving, pricing, and building a named algorithm without a plan.
 *
 *     file --read--> schedule --verify--> verdict
 *     plan --------->    |----simulate--> time on a topology (level step)
 *     algorithm ---->    '----write-----> file */
#include "api/api.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "cost/cost.h"
#include "verify/verify.h"

tutti_status tt_api_schedule_wrap(struct tt_sched *s, struct tutti_schedule **ret,
                                  struct tutti_error *err)
{
    void *handle = tt_api_make(API_SCHEDULE, s, NULL, err);
    if (!handle) {
        tt_sched_free(s);
        return TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

/* Reads from a file. `checked`: refuses schedules that are not well-formed. */
static tutti_status read_path(const char *path, bool checked, struct tutti_schedule **ret,
                              struct tutti_error *err)
{
    FILE *in;
    const char *name;
    tutti_status st = tt_api_open(path, "r", &in, &name, err);
    if (st)
        return st;
    struct tt_sched *s = NULL;
    st = checked ? tt_sched_read(in, name, &s, err) : tt_sched_read_unchecked(in, name, &s, err);
    tt_api_close(in, name, false, NULL);
    return st ? st : tt_api_schedule_wrap(s, ret, err);
}

tutti_status tutti_schedule_read(const char *path, struct tutti_schedule **ret_schedule,
                                 struct tutti_error *err)
{
    tutti_status st = api_given(err, "path", path, "ret_schedule", ret_schedule);
    return st ? st : read_path(path, true, ret_schedule, err);
}

tutti_status tutti_schedule_read_unchecked(const char *path, struct tutti_schedule **ret,
                                           struct tutti_error *err)
{
    tutti_status st = api_given(err, "path", path, "ret", ret);
    return st ? st : read_path(path, false, ret, err);
}

/* The first error counts: that of writing, else that of closing. */
tutti_status tutti_schedule_write(const struct tutti_schedule *schedule, const char *path,
                                  struct tutti_error *err)
{
    FILE *out;
    const char *name;
    const struct tt_sched *s = api_find(SCHEDULE, schedule, err);
    tutti_status st = s ? api_given(err, "path", path) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_api_open(path, "w", &out, &name, err);
    if (st)
        return st;
    st = tt_sched_write(s, out, err);
    tutti_status closed = tt_api_close(out, name, true, st ? NULL : err);
    return st ? st : closed;
}

void tutti_schedule_free(struct tutti_schedule *schedule)
{
    tt_sched_free(api_end(SCHEDULE, schedule));
}

/* Translates the verdict; `why` is empty for a correct schedule. */
static tutti_status verify(const struct tt_sched *s, const struct tt_verify_options *o,
                           struct tutti_verdict *ret, struct tutti_error *err)
{
    struct tt_verify_result r;
    tutti_status st = tt_verify(s, o, &r, err);
    if (st)
        return st;
    *ret = (struct tutti_verdict){.ok = r.ok,
                                  .exact = r.method == TT_VERIFY_EXACT,
                                  .error_probability = r.error_probability,
                                  .ranks = r.ranks,
                                  .ops = r.ops,
                                  .messages = r.messages,
                                  .header = r.header,
                                  .rank = r.rank,
                                  .op = r.op};
    snprintf(ret->why, sizeof ret->why, "%s", r.ok ? "" : r.why);
    return TUTTI_OK;
}

tutti_status tutti_schedule_verify_progress(const struct tutti_schedule *schedule,
                                            void (*progress)(void *ctx, double fraction), void *ctx,
                                            struct tutti_verdict *ret, struct tutti_error *err)
{
    const struct tt_sched *s = api_find(SCHEDULE, schedule, err);
    tutti_status st = s ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    return st ? st
              : verify(s, &(struct tt_verify_options){.progress = progress, .ctx = ctx}, ret, err);
}

tutti_status tutti_schedule_verify(const struct tutti_schedule *schedule,
                                   struct tutti_verdict *ret_verdict, struct tutti_error *err)
{
    const struct tt_sched *s = api_find(SCHEDULE, schedule, err);
    tutti_status st = s ? api_given(err, "ret_verdict", ret_verdict) : TUTTI_ERR_ARG;
    return st ? st : verify(s, &(struct tt_verify_options){0}, ret_verdict, err);
}

void tt_api_sim_result(const struct tt_cost *c, struct tutti_sim_result *ret)
{
    *ret = (struct tutti_sim_result){.time_us = tt_api_us(c->time_ps),
                                     .latency_us = tt_api_us(c->latency_ps),
                                     .transfer_us = tt_api_us(c->transfer_ps),
                                     .reduce_us = tt_api_us(c->reduce_ps),
                                     .overhead_us = tt_api_us(c->overhead_ps),
                                     .steps = c->steps,
                                     .bytes_on_busiest_link = c->busiest_bytes,
                                     .busiest_link = c->busiest_link,
                                     .max_link_contention = c->max_link_contention,
                                     .messages = c->messages};
}

tutti_status tutti_schedule_simulate(const struct tutti_schedule *schedule,
                                     const struct tutti_topo *topo, uint64_t count,
                                     tutti_dtype dtype, struct tutti_sim_result *ret_result,
                                     struct tutti_error *err)
{
    struct tt_cost c;
    const struct tt_sched *s = api_find(SCHEDULE, schedule, err);
    const struct api_topo *t = s ? api_find(TOPO, topo, err) : NULL;
    tutti_status st = t ? api_given(err, "ret_result", ret_result) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_api_dtype(__func__, dtype, err);
    if (st)
        return st;
    /* Routes are numbers of links: on another network they would mean other links. */
    if (s->nroutes > 0 && s->shape.topo_hash != t->t->hash)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "the plan's routes belong to the network with hash %016llx; %s has %016llx: "
                       "plan again for this network",
                       (unsigned long long)s->shape.topo_hash, t->t->spec,
                       (unsigned long long)t->t->hash);
    st = tt_cost_sched(s, t->t, count, dtype, &c, err);
    if (st)
        return st;
    tt_api_sim_result(&c, ret_result);
    return TUTTI_OK;
}

void tutti_schedule_info(const struct tutti_schedule *schedule, struct tutti_schedule_info *ret)
{
    const struct tt_sched *s = api_need(SCHEDULE, schedule);
    api_must("ret", ret);
    *ret = (struct tutti_schedule_info){.coll = s->shape.coll,
                                        .dtype = s->shape.dtype,
                                        .redop = s->shape.redop,
                                        .algo = s->shape.algo,
                                        .options = s->shape.options,
                                        .ranks = s->shape.ranks,
                                        .root = s->shape.root,
                                        .chunks = s->shape.chunks,
                                        .segments = s->shape.segments,
                                        .steps = s->steps,
                                        .buffers = s->shape.nbufs,
                                        .ops = s->nops,
                                        .count = s->shape.count,
                                        .hash = s->hash,
                                        .topo_hash = s->shape.topo_hash,
                                        .network = s->shape.network,
                                        .nroutes = s->nroutes,
                                        .symmetric = s->shape.symmetric,
                                        .inplace = s->shape.inplace,
                                        .uneven = tt_sched_coll_has_owners(s->shape.coll) &&
                                                  !tt_sched_shape_equal_blocks(&s->shape)};
}

/* The ranks first .. first + n - 1, or all for n == 0. A synthesised algorithm (al->build) can
 * only be built whole, and its result is kept in the topology's cache. */
tutti_status tutti_schedule_build(const struct tutti_topo *topo, uint32_t ranks,
                                  const struct tutti_plan_options *options, uint32_t first,
                                  uint32_t n, struct tutti_schedule **ret, struct tutti_error *err)
{
    struct tutti_plan_options given;
    struct tt_plan_options o;
    struct tt_algo_args args = {0};
    const struct api_topo *t = topo ? api_find(TOPO, topo, err) : NULL;
    tutti_status st = topo && !t ? TUTTI_ERR_ARG : api_given(err, "ret", ret);
    if (!st)
        st = api_struct("tutti_plan_options", options, &given, err);
    if (!st)
        st = tt_api_problem(&given, ranks, &args.problem, err);
    if (!st)
        st = tt_api_options(&given, &o, err);
    if (st)
        return st;
    const struct tt_algo *al = given.algo ? tt_algo_find(given.algo) : NULL;
    if (!al)
        return tt_algo_unknown(given.algo ? given.algo : "", err);
    args.topo = t ? t->t : NULL;
    args.options = o.algo_options;
    struct tt_built built = {0};
    if (al->build && n == 0)
        st = tt_plan_build(al, &args, t ? t->plans : NULL, &built, err);
    else
        st = n ? tt_algo_slice(al, &args, first, n, &built.sched, err)
               : tt_algo_build(al, &args, &built.sched, err);
    return st ? st : tt_api_schedule_wrap(built.sched, ret, err);
}
