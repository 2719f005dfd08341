/* sim.c - one run of an experiment at level flow or packet, and the better of two ways to issue a
 * schedule.
 *
 * A schedule can be issued step by step (level step: no rank begins a step before all have ended
 * the last one) or as its data allow (level flow). Neither is always faster: running ahead hides
 * latency, but messages of different steps may then meet on a link. Comparisons take the faster
 * of the two for every algorithm, so that none is judged by an unsuitable way of issuing. */
#include "repro/report_int.h"

#include <math.h>
#include <stdio.h>

/* Progress of the simulator to that of the report; true: go on. */
static bool sim_show(void *report, double fraction)
{
    repro_progress(report, fraction);
    return true;
}

/* What lists a plan's ranks: all of them, or rank 0 to stand for all. */
typedef tutti_status (*lister)(const struct tutti_plan *p, struct tutti_schedule **ret,
                               struct tutti_error *err);

static tutti_status run_listed(const struct tutti_plan *p, lister list, const struct tutti_topo *t,
                               uint64_t count, const struct tutti_sim_options *o,
                               struct tutti_sim **ret, struct tutti_error *err)
{
    struct tutti_schedule *s = NULL;
    tutti_status st = list(p, &s, err);
    if (!st)
        st = tutti_sim_run(s, t, count, TUTTI_F32, o, ret, err);
    tutti_schedule_free(s);
    return st;
}

/* Runs rank 0 alone where it can stand for all (a ring of 4,096 ranks would not fit otherwise),
 * else all ranks, unless `one`. */
static tutti_status run_plan(const struct tutti_plan *p, const struct tutti_topo *t, uint64_t count,
                             const struct tutti_sim_options *o, bool one,
                             struct tutti_sim_info *ret, struct tutti_error *err)
{
    struct tutti_sim *sim = NULL;
    tutti_status st = run_listed(p, tutti_plan_first_slice, t, count, o, &sim, err);
    if (st && one)
        st = TUTTI_ERR_REFUSED;
    else if (st)
        st = run_listed(p, tutti_plan_schedule, t, count, o, &sim, err);
    if (!st)
        tutti_sim_info(sim, ret);
    tutti_sim_free(sim);
    return st;
}

/* Refusals are answers (false); other failures are kept in the report. */
static bool sim_simulate(struct repro_report *r, const struct repro_case *c,
                         const struct tutti_sim_options *o, bool one, struct tutti_sim_info *ret)
{
    struct tutti_sim_options with = *o;
    const struct tutti_topo *t;
    const struct tutti_plan *p;
    struct tutti_error err;
    if (repro_failed(r))
        return false;
    if (repro_counts(r)) {
        *ret = (struct tutti_sim_info){0};
        return true;
    }
    with.progress = sim_show;
    with.progress_ctx = r;
    tutti_status st = repro_plan(r, c, &t, &p, &err);
    if (!st)
        st = run_plan(p, t, c->bytes / 4, &with, one, ret, &err);
    if (st && st != TUTTI_ERR_REFUSED)
        repro_fail(r, &err);
    return !st;
}

bool repro_simulate(struct repro_report *r, const struct repro_case *c,
                    const struct tutti_sim_options *o, struct tutti_sim_info *ret)
{
    return sim_simulate(r, c, o, false, ret);
}

bool repro_simulate_one(struct repro_report *r, const struct repro_case *c,
                        const struct tutti_sim_options *o, struct tutti_sim_info *ret)
{
    return sim_simulate(r, c, o, true, ret);
}

double repro_best_us(struct repro_report *r, const struct repro_case *c, const char **ret_level)
{
    const struct tutti_sim_options flow = {0};
    struct tutti_sim_result step;
    struct tutti_sim_info free_running;
    if (!repro_price(r, c->spec, c->algo, c->options, c->bytes, &step) ||
        !repro_simulate(r, c, &flow, &free_running))
        return NAN;
    bool lockstep = step.time_us < free_running.time_us;
    if (ret_level)
        *ret_level = lockstep ? "step" : "flow";
    return lockstep ? step.time_us : free_running.time_us;
}

double repro_bound_us(struct repro_report *r, const char *spec, uint64_t bytes)
{
    struct tutti_topo *t = NULL;
    struct tutti_bound *b = NULL;
    struct tutti_bound_info info = {.bound_us = (double)NAN};
    struct tutti_error err;
    if (repro_counts(r) || repro_failed(r))
        return (double)NAN;
    tutti_status st = tutti_topo_parse(spec, &t, &err);
    if (!st)
        st = tutti_bound_make(t, TUTTI_ALLREDUCE, 0, bytes, &b, &err);
    if (!st)
        (void)tutti_bound_get(b, tutti_bound_best(b), &info);
    else
        repro_fail(r, &err);
    tutti_bound_free(b);
    tutti_topo_free(t);
    return info.bound_us;
}

double repro_busbw(uint64_t bytes, uint32_t ranks, double us)
{
    return (double)bytes / us / 1e3 * 2 * (ranks - 1) / ranks;
}
