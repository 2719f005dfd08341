/* explain.c - what ran for a kind of call: the schedule of the kept program, its segments, how its
 * operations were carried out, and what was predicted. Asking makes the program if no call has made
 * it yet. */
#include <string.h>

#include "comm/comm_int.h"

static const char *origin_name(enum tt_origin o)
{
#define ORIGIN_NAME(id, name) name,
    static const char *const names[] = {TT_ORIGIN_LIST(ORIGIN_NAME)};
#undef ORIGIN_NAME
    return names[o];
}

static void explain(const struct tt_kept *k, struct tt_comm_explained *ret)
{
    const struct tt_shape *s = &tt_comm_kept_sched(k)->shape;
    struct tt_comm_explained e = {.algo = k->info.algo,
                                  .origin = origin_name(k->plan->origin),
                                  .segments = tt_exec_program_segments(k->program),
                                  .predicted_us = k->info.predicted_us,
                                  .own_us = k->info.own_us,
                                  .bound_us = k->info.bound_us};
    memcpy(e.options, s->options, sizeof e.options);
    tt_exec_program_carried(k->program, &e.carried);
    *ret = e;
}

tutti_status tt_comm_explain(struct tt_comm *c, const struct tt_call *call,
                             struct tt_comm_explained *ret, struct tutti_error *err)
{
    struct tt_kept *k;
    tt_comm_lock(c);
    tutti_status st = tt_comm_program(c, call, &k, err);
    if (!st)
        explain(k, ret);
    tt_comm_unlock(c);
    return st;
}
