/* wait.c - starting and waiting. A wait alternates between progress and sleep: it polls, yields a little while (a core of one's own:
 * spins), then sleeps in the transport in short naps, so that a verdict of the watch is seen soon. At the deadline it asks the watch who is
 * to blame and takes its answer, a second later at the latest.
 *
 * Looking pays where the answer is microseconds away. Much data through a descriptor is a long row of waits, each as long as a piece is
 * under way: there whoever shares his core sleeps at once, and one with a core of his own soon. Others can use the time, and nothing is
 * lost, because the kernel receives meanwhile.
 *
 * After a verdict the communicator is condemned: every later call answers the same error at once. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comm/parts.h"

enum { SPINS = 2000, YIELDS = 100 };
enum { MUCH_BYTES = 1 << 20, MUCH_SPINS = 300, MUCH_YIELDS = 1 };
static const uint64_t nap_ns = 20000000, short_nap_ns = 200000, grace_ns = 900000000;

void tt_comm_on_idle(struct tt_comm *c, void (*idle)(void *ctx), void *ctx)
{
    c->idle = idle;
    c->idle_ctx = ctx;
}

/* Before a wait sleeps: somebody else may use the moment, and then it must be short. Until when to sleep. */
static uint64_t nap_until(const struct tt_comm *c, uint64_t now, uint64_t deadline)
{
    uint64_t until = now + (c->idle ? short_nap_ns : nap_ns);
    if (c->idle)
        c->idle(c->idle_ctx);
    return until < deadline ? until : deadline;
}

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

/* The engine's own fault, as a report to the watch. */
static struct tt_trouble trouble_of(const struct tt_comm *c, const struct tt_engine *e, const struct tt_op_desc *op)
{
    const struct tt_engine_fault *f = tt_engine_fault(e);
    struct tt_trouble t = {.op = *op, .peer = world_rank(c, op, f->peer)};
    t.kind = f->kind == TT_FAULT_CLOSED ? TT_TROUBLE_CLOSED : TT_TROUBLE_MISMATCH;
    return t;
}

static tutti_status late(struct tt_comm *c, const struct tt_engine *e, const struct tt_program *p, const struct tt_op_desc *op)
{
    struct tt_trouble t = {.kind = TT_TROUBLE_DEADLINE, .op = *op, .peer = world_rank(c, op, tt_engine_waiting(e, p))};
    return tt_comm_condemn(c, &t);
}

/* Starts the program of k as the next request. */
tutti_status tt_comm_begin(struct tt_comm *c, struct tt_kept *k, const struct tt_call *call, const struct tt_op_desc *op)
{
    struct tutti_error err;
    struct tt_verdict v;
    if (c->failed)
        return c->last.status;
    if (tt_watch_verdict(c->world->watch, &v))
        return judged(c, &v);
    uint32_t seq = ++c->seq;
    struct tt_start s = {
        .program = k->program, .in = call->in, .out = call->out, .seq = seq, .fingerprint = tt_mix64(k->fingerprint ^ tt_mix64(seq))};
    tutti_status st = tt_engine_start(c->engine, &s, &err);
    if (st && tt_engine_fault(c->engine)->kind != TT_FAULT_NONE) {
        struct tt_trouble trouble = trouble_of(c, c->engine, op);
        return tt_comm_condemn(c, &trouble);
    }
    if (st) {
        c->seq--;
        c->calls--;
        return tt_comm_fail(c, &err);
    }
    k->running = true;
    return TUTTI_OK;
}

/* How many looks in a row may find nothing before a wait sleeps. */
static unsigned patience_of(const struct tt_comm *c, const struct tt_op_desc *op)
{
    bool much = c->wire.fd >= 0 && op->count >= MUCH_BYTES / tt_dtype_bytes(op->dtype);
    if (c->wire.oversubscribed)
        return much ? MUCH_YIELDS : YIELDS;
    return much ? MUCH_SPINS : SPINS;
}

/* Waits for the program until the deadline; the lock is held. */
tutti_status tt_comm_finish(struct tt_comm *c, struct tt_engine *e, const struct tt_program *p, const struct tt_op_desc *op)
{
    struct tutti_error err;
    struct tt_verdict v;
    struct tt_transport *t = c->wire.transport;
    uint64_t idle = 0, since = 0;
    const unsigned patience = patience_of(c, op);
    for (;;) {
        tutti_status st = tt_engine_test(e, p, &err);
        if (st == TUTTI_OK)
            return st;
        if (st != TUTTI_IN_PROGRESS) {
            struct tt_trouble trouble = trouble_of(c, e, op);
            return tt_watch_verdict(c->world->watch, &v) ? judged(c, &v) : tt_comm_condemn(c, &trouble);
        }
        if (tt_engine_progress(e)) {
            idle = 0;
            continue;
        }
        if (++idle == 1 && c->wire.oversubscribed)
            since = tt_now_ns(); /* others may have the core for long */
        if (idle < patience) {
            if (c->wire.oversubscribed)
                sched_yield();
            continue;
        }
        uint64_t now = tt_now_ns();
        since = idle == patience && !c->wire.oversubscribed ? now : since;
        uint64_t deadline = since + c->world->timeout_ns;
        if (tt_watch_verdict(c->world->watch, &v))
            return judged(c, &v);
        if (now >= deadline)
            return late(c, e, p, op);
        t->ops->wait(t, nap_until(c, now, deadline));
    }
}

tutti_status tt_comm_finish_kept(struct tt_comm *c, struct tt_kept *k, const struct tt_op_desc *op)
{
    return tt_comm_finish(c, c->engine, k->program, op);
}

tutti_status tt_comm_late_kept(struct tt_comm *c, struct tt_kept *k, const struct tt_op_desc *op)
{
    return late(c, c->engine, k->program, op);
}

bool tt_comm_kept_done(struct tt_comm *c, const struct tt_kept *k)
{
    struct tutti_error err;
    return tt_engine_test(c->engine, k->program, &err) != TUTTI_IN_PROGRESS;
}

tutti_status tt_comm_verdict(struct tt_comm *c)
{
    struct tt_verdict v;
    if (c->failed)
        return c->last.status;
    return tt_watch_verdict(c->world->watch, &v) ? judged(c, &v) : TUTTI_OK;
}

tutti_status tt_comm_test_kept(struct tt_comm *c, struct tt_kept *k, const struct tt_op_desc *op)
{
    struct tutti_error err;
    tutti_status st;
    if (tt_engine_progress(c->engine))
        c->moved_ns = tt_now_ns();
    st = tt_engine_test(c->engine, k->program, &err);
    return st < 0 ? tt_comm_finish(c, c->engine, k->program, op) : st;
}
