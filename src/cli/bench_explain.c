/* bench_explain.c - the lines of bench --explain: which schedule ran, how its messages were carried
 * out, and how the measured time compares with the predicted one.
 *
 * A rank knows only how its own operations were carried out. The counts of all ranks are summed by
 * an all-reduce, so that they are those of the whole schedule. That all-reduce runs after the
 * measurement and does not disturb it. */
#include "cli/bench_explain.h"

#include <stdio.h>
#include <string.h>

/* Replaces the counts of this rank by those of all ranks. Collective. */
static tutti_status sum_counts(struct tutti_comm *comm, struct tutti_comm_explained *e)
{
    int64_t n[] = {(int64_t)e->message, (int64_t)e->read, (int64_t)e->write, (int64_t)e->box};
    tutti_status st = tutti_allreduce(comm, n, n, sizeof n / sizeof n[0], TUTTI_I64, TUTTI_SUM);
    e->message = (uint64_t)n[0];
    e->read = (uint64_t)n[1];
    e->write = (uint64_t)n[2];
    e->box = (uint64_t)n[3];
    return st;
}

tutti_status cli_bench_explain(struct tutti_comm *comm, const struct bench_problem *p,
                               double time_us, struct bench_explained *ret, struct tutti_error *err)
{
    struct bench_explained e = {.plan = {.size = sizeof e.plan}};
    tutti_status st = tutti_comm_explain(comm, p->coll, p->count, p->dtype, p->op, &e.plan, err);
    if (st)
        return st;
    st = sum_counts(comm, &e.plan);
    if (st) {
        *err = *tutti_comm_last_error(comm);
        return st;
    }
    /* Buffers of tutti_mem_alloc are read by peers in place, which the library predicts
     * separately. */
    e.plan.predicted_us = p->own ? e.plan.own_us : e.plan.predicted_us;
    e.ratio = e.plan.predicted_us > 0 ? time_us / e.plan.predicted_us : 0;
    *ret = e;
    return TUTTI_OK;
}

void cli_bench_explain_json(struct tutti_json *j, const struct bench_explained *e)
{
    tutti_json_string(j, "options", e->plan.options);
    tutti_json_string(j, "origin", e->plan.origin);
    tutti_json_u64(j, "segments", e->plan.segments);
    tutti_json_object(j, "carried");
    tutti_json_u64(j, "message", e->plan.message);
    tutti_json_u64(j, "read", e->plan.read);
    tutti_json_u64(j, "write", e->plan.write);
    tutti_json_u64(j, "box", e->plan.box);
    tutti_json_end(j);
    tutti_json_real(j, "bound_us", e->plan.bound_us);
    if (e->ratio > 0)
        tutti_json_real(j, "measured_by_predicted", e->ratio);
    else
        tutti_json_null(j, "measured_by_predicted");
}

/* What chose the schedule (the origin of tutti_comm_explain), in words for people. */
static const char *origin_words(const char *origin)
{
    if (!strcmp(origin, "plan"))
        return "the plan that was given";
    if (!strcmp(origin, "tuning"))
        return "by the tuning file";
    return strcmp(origin, "named") ? "the planner's choice" : "as named";
}

void cli_bench_explain_text(const struct bench_explained *e, double time_us)
{
    const struct tutti_comm_explained *p = &e->plan;
    printf("#   %s%s%s%s (%s), %u segment%s; operations of all ranks by message %llu, read %llu, "
           "write %llu, box %llu",
           p->algo, *p->options ? " (" : "", p->options, *p->options ? ")" : "",
           origin_words(p->origin), p->segments, p->segments == 1 ? "" : "s",
           (unsigned long long)p->message, (unsigned long long)p->read,
           (unsigned long long)p->write, (unsigned long long)p->box);
    printf("; predicted %.1f us, measured %.1f us", p->predicted_us, time_us);
    if (e->ratio > 0)
        printf(": %.2f x", e->ratio);
    printf("\n");
    fflush(stdout);
}
