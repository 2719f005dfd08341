/* log.c - what a rank records about its calls if a report is wanted: entry, start of waiting, exit.
 * Each costs a clock reading and no allocation; the last TT_LOG_CALLS calls are kept, in a ring
 * indexed by call number. Calls write it under the communicator's lock. l NULL: no report. */
#include "meter/meter.h"

static struct tt_log_call *log_at(struct tt_log *l, uint32_t call)
{
    return &l->calls[call % TT_LOG_CALLS];
}

void tt_meter_log_enter(struct tt_log *l, uint32_t call)
{
    if (!l)
        return;
    int64_t now = (int64_t)tt_now_ns();
    *log_at(l, call) = (struct tt_log_call){
        .start_ns = now, .wait_ns = now, .end_ns = now, .blocked_ns = l->blocked_ns};
}

void tt_meter_log_wait(struct tt_log *l, uint32_t call)
{
    if (l)
        log_at(l, call)->wait_ns = (int64_t)tt_now_ns();
}

void tt_meter_log_leave(struct tt_log *l, uint32_t call)
{
    if (!l)
        return;
    struct tt_log_call *c = log_at(l, call);
    c->end_ns = (int64_t)tt_now_ns();
    l->blocked_ns += c->end_ns - c->wait_ns;
}
