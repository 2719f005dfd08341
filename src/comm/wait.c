/* wait.c - starting, waiting in a call (by rounds: progress.c), and failing. At the deadline a wait asks the watch which rank is to blame
 * and takes its answer, a second later at the latest. After a verdict the communicator is condemned: every later call answers the same
 * error at once. */
#include <stdlib.h>
#include <string.h>

#include "comm/parts.h"

static const uint64_t grace_ns = 900000000;

tutti_status tt_comm_fail(struct tt_comm *c, const struct tutti_error *err)
{
    c->last = *err;
    return err->status;
}

static tutti_status judged(struct tt_comm *c, const struct tt_verdict *v)
{
    c->failed = true;
    tt_fail(&c->last,
            v->blame == TT_BLAME_ABORTED      ? TUTTI_ERR_ABORTED
            : v->blame == TT_BLAME_MISMATCHED ? TUTTI_ERR_DIFFERS
                                              : TUTTI_ERR_PEER,
            "%s", v->text);
    tt_tell_failure(c);
    if (c->wire.direct)
        tt_direct_quit(c->wire.direct);
    tt_engine_kill(c->engine, &(struct tt_engine_fault){.kind = TT_FAULT_CLOSED, .peer = v->culprit});
    return c->last.status;
}

tutti_status tt_comm_condemn(struct tt_comm *c, const struct tt_trouble *t)
{
    struct tt_verdict v;
    tt_watch_report(c->world->watch, t);
    tt_watch_await(c->world->watch, tt_now_ns() + grace_ns, &v);
    return judged(c, &v);
}

/* The world rank of an engine's peer; the engine of a message knows two ranks only, its description names the other one. */
static uint32_t world_rank(const struct tt_comm *c, const struct tt_op_desc *op, uint32_t peer)
{
    uint32_t r = op->busy >= TT_OP_SENDING ? op->root : peer;
    return r < c->size ? c->members[r] : UINT32_MAX;
}

tutti_status tt_comm_verdict(struct tt_comm *c)
{
    struct tt_verdict v;
    if (c->failed)
        return c->last.status;
    return tt_watch_verdict(c->world->watch, &v) ? judged(c, &v) : TUTTI_OK;
}

/* The engine has failed: the verdict on that, asked for if need be. */
static tutti_status broken(struct tt_comm *c, const struct tt_engine *e, const struct tt_op_desc *op)
{
    const struct tt_engine_fault *f = tt_engine_fault(e);
    uint32_t kind = f->kind == TT_FAULT_CLOSED ? TT_TROUBLE_CLOSED : TT_TROUBLE_MISMATCH;
    struct tt_trouble t = {.kind = kind, .op = *op, .peer = world_rank(c, op, f->peer)};
    struct tt_verdict v;
    return tt_watch_verdict(c->world->watch, &v) ? judged(c, &v) : tt_comm_condemn(c, &t);
}

tutti_status tt_comm_late(struct tt_comm *c, const struct tt_program *p, const struct tt_op_desc *op)
{
    struct tt_trouble t = {.kind = TT_TROUBLE_DEADLINE, .op = *op, .peer = world_rank(c, op, tt_program_waiting(p))};
    return tt_comm_condemn(c, &t);
}

/* Starts the program of k as the next request. */
tutti_status tt_comm_begin(struct tt_comm *c, struct tt_kept *k, const struct tt_call *call, const struct tt_op_desc *op)
{
    struct tutti_error err;
    tutti_status st = tt_comm_verdict(c);
    if (st)
        return st;
    uint32_t seq = ++c->seq;
    struct tt_start s = {
        .program = k->program, .in = call->in, .out = call->out, .seq = seq, .fingerprint = tt_mix64(k->fingerprint ^ tt_mix64(seq))};
    st = tt_context_start(c->context, &s, &err);
    if (st && tt_engine_fault(c->engine)->kind != TT_FAULT_NONE)
        return broken(c, c->engine, op);
    if (st) {
        c->seq--;
        c->calls--;
        return tt_comm_fail(c, &err);
    }
    k->running = true;
    return TUTTI_OK;
}

/* Waits for the program until the deadline; the lock is held. */
tutti_status tt_comm_finish(struct tt_comm *c, struct tt_engine *e, const struct tt_program *p, const struct tt_op_desc *op)
{
    struct tutti_error err;
    struct tt_waiting w;
    tt_waiting_call(c, e, op->count * tt_dtype_bytes(op->dtype), &w);
    for (;;) {
        tutti_status st = tt_engine_test(e, p, &err);
        if (st == TUTTI_OK)
            return st;
        if (st != TUTTI_IN_PROGRESS)
            return broken(c, e, op);
        st = tt_comm_round(c, &w);
        if (st)
            return st == TUTTI_ERR_TIMEOUT ? tt_comm_late(c, p, op) : st;
    }
}

tutti_status tt_comm_test(struct tt_comm *c, const struct tt_program *p, const struct tt_op_desc *op)
{
    struct tutti_error err;
    tt_comm_progress(c);
    tutti_status st = tt_engine_test(c->engine, p, &err);
    return st < 0 ? tt_comm_finish(c, c->engine, p, op) : st;
}
