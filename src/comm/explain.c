/* explain.c - what ran for a kind of call: the kept program's schedule, its segments, how its operations were carried out, and what was
 * predicted. */
#include <string.h>

#include "comm/parts.h"

/* Direct access replaces this rank's messages: short vectors go through boxes, others are read. */
static void carried_directly(const struct tt_comm *c, const struct tt_kept *k, struct tt_carried *ret)
{
    const struct tt_shape *s = &k->sched->shape;
    struct tt_slice own = tt_sched_slice(k->sched, c->rank);
    uint64_t n = 0;
    for (size_t i = 0; i < own.nops; i++)
        n += own.ops[i].kind <= TT_OP_RECV_REDUCE;
    *(s->count * tt_dtype_bytes(s->dtype) <= tt_direct_box_max(c->wire.direct) ? &ret->box : &ret->read) = n;
}

static void explain(const struct tt_comm *c, const struct tt_kept *k, struct tt_comm_explained *ret)
{
    const struct tt_shape *s = &k->sched->shape;
    struct tt_comm_explained e = {.algo = k->info.algo,
                                  .segments = k->program ? tt_program_segments(k->program) : s->segments,
                                  .predicted_us = k->info.predicted_us,
                                  .bound_us = k->info.bound_us};
    memcpy(e.options, s->options, sizeof e.options);
    if (k->program)
        tt_program_carried(k->program, &e.carried);
    else
        carried_directly(c, k, &e.carried);
    *ret = e;
}

tutti_status tt_comm_explain(struct tt_comm *c, const struct tt_call *call, struct tt_comm_explained *ret, struct tutti_error *err)
{
    struct tt_kept *k;
    tt_comm_lock(c);
    tutti_status st = tt_comm_program(c, call, &k, err);
    if (!st)
        explain(c, k, ret);
    tt_comm_unlock(c);
    return st;
}
