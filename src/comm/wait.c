/* wait.c - starting, waiting in a call (by rounds: progress.c), and failing.
 *
 *     await: ask --done--> OK
 *             | in progress: round --deadline--> late: report to the watch, await its verdict
 *             | failed     : broken: the same for what the engine found
 *
 * At the deadline a wait asks the watch which rank is to blame and takes its answer, a second later
 * at the latest. After a verdict the communicator has failed: every later call returns the same
 * error at once. Calls and requests hold the lock here; tt_comm_refuse takes it. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"

/* How long to wait for a verdict; after that this rank decides alone. */
static const uint64_t grace_ns = 900000000;

tutti_status tt_comm_fail(struct tt_comm *c, const struct tutti_error *err)
{
    if (!c->failed) /* a verdict is never replaced */
        c->last = *err;
    return c->last.status;
}

tutti_status tt_comm_refuse(struct tt_comm *c, const struct tutti_error *err)
{
    tt_comm_lock(c);
    tutti_status st = tt_comm_fail(c, err);
    tt_comm_unlock(c);
    return st;
}

static tutti_status status_of(const struct tt_verdict *v)
{
    return v->blame == TT_BLAME_ABORTED      ? TUTTI_ERR_ABORTED
           : v->blame == TT_BLAME_MISMATCHED ? TUTTI_ERR_DIFFERS
                                             : TUTTI_ERR_PEER;
}

/* The communicator fails for good. Direct access is stopped first, so that no peer writes to the
 * caller's buffers after the call has returned. */
static tutti_status wait_judged(struct tt_comm *c, const struct tt_verdict *v)
{
    c->failed = true;
    tt_fail(&c->last, status_of(v), "%s", v->text);
    assert(c->last.status < 0);
    tt_comm_tell_failure(c);
    tt_comm_tell_verdict(c, v);
    if (!c->closing)
        atomic_store(&c->world->heard, true);
    if (c->wire.direct)
        tt_direct_quit(c->wire.direct);
    if (c->engine)
        tt_exec_engine_kill(
            c->engine, &(struct tt_exec_engine_fault){.kind = TT_FAULT_CLOSED, .peer = v->culprit});
    return c->last.status;
}

tutti_status tt_comm_condemn(struct tt_comm *c, const struct tt_trouble *t)
{
    struct tt_verdict v;
    tt_watch_report(c->world->watch, t);
    tt_watch_await(c->world->watch, tt_now_ns() + grace_ns, &v);
    return wait_judged(c, &v);
}

/* The world rank of a peer of the engine; UINT32_MAX: unknown. */
static uint32_t world_rank(const struct tt_comm *c, uint32_t peer)
{
    return peer < c->size ? c->members[peer] : UINT32_MAX;
}

TT_HOT tutti_status tt_comm_verdict(struct tt_comm *c)
{
    struct tt_verdict v;
    if (c->failed)
        return c->last.status;
    return tt_watch_verdict(c->world->watch, &v) ? wait_judged(c, &v) : TUTTI_OK;
}

/* The two sides of a message differ, which any call may find: describes what the peer does and what
 * this rank does. The fault packs type (upper 16 bits) and length in bytes. */
static void describe_mismatch(const struct tt_comm *c, const struct tt_exec_engine_fault *f,
                              struct tt_trouble *t)
{
    bool in = f->letter == TT_LETTER_IN;
    tutti_dtype mine = (tutti_dtype)(f->mine >> 48), theirs = (tutti_dtype)(f->theirs >> 48);
    const uint64_t length = (UINT64_C(1) << 48) - 1;
    uint64_t my_count = (f->mine & length) / tt_sched_dtype_bytes(mine),
             their_count = (f->theirs & length) / tt_sched_dtype_bytes(theirs);
    t->op = (struct tt_op_desc){.comm = c->tag,
                                .count = my_count,
                                .dtype = (uint8_t)mine,
                                .root = t->peer,
                                .print = f->seq,
                                .busy = in ? TT_OP_RECEIVING : TT_OP_SENDING};
    snprintf(t->text, sizeof t->text,
             "%s %" PRIu64 " %s where rank %" PRIu32 " %s %" PRIu64 " %s (tag %" PRIu32 ")",
             in ? "sends" : "receives", their_count, tt_sched_dtype_name(theirs),
             c->members[c->rank], in ? "receives" : "sends", my_count, tt_sched_dtype_name(mine),
             f->seq);
}

/* A piece of a message came twice: describes what the peer did. */
static void describe_repeated(const struct tt_comm *c, const struct tt_exec_engine_fault *f,
                              struct tt_trouble *t)
{
    t->op = (struct tt_op_desc){
        .comm = c->tag, .root = t->peer, .print = f->seq, .busy = TT_OP_RECEIVING};
    snprintf(t->text, sizeof t->text,
             "sent piece %" PRIu64 " of its message with tag %" PRIu32 " twice", f->theirs, f->seq);
}

tutti_status tt_comm_broken(struct tt_comm *c, const struct tt_op_desc *op)
{
    const struct tt_exec_engine_fault *f = tt_exec_engine_fault(c->engine);
    if (c->failed)
        return c->last.status;
    uint32_t kind = f->kind == TT_FAULT_CLOSED ? TT_TROUBLE_CLOSED : TT_TROUBLE_MISMATCH;
    struct tt_trouble t = {.kind = kind, .op = *op, .peer = world_rank(c, f->peer)};
    struct tt_verdict v;
    /* another twin's request: only the thread that uses it can describe it */
    if (f->context && f->context != c->context) {
        tt_comm_apart_begin(c, true);
        tt_watch_await(c->world->watch, tt_now_ns() + grace_ns, &v);
        tt_comm_apart_end(c, true);
        return wait_judged(c, &v);
    }
    if (f->letter && f->kind == TT_FAULT_PROTOCOL)
        describe_repeated(c, f, &t);
    else if (f->letter && (f->mine >> 48) < TUTTI_DTYPE_COUNT &&
             (f->theirs >> 48) < TUTTI_DTYPE_COUNT)
        describe_mismatch(c, f, &t);
    if (f->kind == TT_FAULT_CLOSED && f->error == EBADMSG)
        snprintf(t.text, sizeof t.text, "bytes were altered on the way");
    return tt_watch_verdict(c->world->watch, &v) ? wait_judged(c, &v) : tt_comm_condemn(c, &t);
}

tutti_status tt_comm_unable(const struct tt_setup *s, uint32_t peer, tutti_status st,
                            struct tutti_error *err)
{
    if (!st || !s->through)
        return st;
    bool late = st == TUTTI_ERR_TIMEOUT || st == TUTTI_ERR_PEER || st == TUTTI_ERR_ABORTED;
    struct tt_watch *w = s->through->world->watch;
    struct tt_trouble t = {.kind = late ? TT_TROUBLE_DEADLINE : TT_TROUBLE_UNABLE,
                           .peer = peer,
                           .op = tt_comm_setup_op(s)};
    struct tt_verdict v;
    tt_str_fit(t.text, sizeof t.text, err->text);
    tt_watch_report(w, &t);
    tt_watch_await(w, tt_now_ns() + grace_ns, &v);
    tt_comm_tell_verdict(s->through, &v);
    atomic_store(&s->through->world->heard, true);
    if (!late && v.blame == TT_BLAME_UNABLE &&
        v.culprit == tt_boot_config(s->through->world->boot)->rank)
        return st; /* this rank's own error is more precise */
    return tt_fail(err, status_of(&v), "%s", v.text);
}

/* While the world opens there is no communicator yet: the watch knows its steps by another
 * number. */
struct tt_op_desc tt_comm_setup_op(const struct tt_setup *s)
{
    bool opening = s->why == TT_WHY_OPEN;
    return (struct tt_op_desc){.comm = opening ? TT_COMM_OPENING : s->through->tag,
                               .seq = opening ? s->through->steps : s->through->calls,
                               .coll = TUTTI_ALL_GATHER,
                               .dtype = TUTTI_U8,
                               .busy = TT_OP_COLL,
                               .why = (uint8_t)s->why};
}

tutti_status tt_comm_late(struct tt_comm *c, const struct tt_comm_work *w,
                          const struct tt_op_desc *op)
{
    uint32_t peer =
        w->letter ? tt_exec_letter_waiting(w->letter) : tt_exec_program_waiting(w->program);
    struct tt_trouble t = {.kind = TT_TROUBLE_DEADLINE, .op = *op, .peer = world_rank(c, peer)};
    return tt_comm_condemn(c, &t);
}

/* The sequence number is the same on all ranks, so equal calls in another order differ in their
 * fingerprints. */
TT_HOT tutti_status tt_comm_start(struct tt_comm *c, struct tt_start *s,
                                  const struct tt_op_desc *op)
{
    struct tutti_error err;
    tutti_status st = tt_comm_verdict(c);
    if (st)
        return st;
    assert(!c->failed && s->program);
    s->seq = c->seq + 1;
    s->fingerprint = tt_mix64(s->fingerprint ^ tt_mix64(s->seq + ((uint64_t)op->why << 32)));
    st = tt_exec_context_start(c->context, s, &err);
    if (st)
        return tt_exec_engine_fault(c->engine)->kind != TT_FAULT_NONE ? tt_comm_broken(c, op)
                                                                      : tt_comm_fail(c, &err);
    c->seq++;
    return TUTTI_OK;
}

/* A start that failed without a verdict does not count as a call: the numbers must stay equal on
 * all ranks. */
TT_HOT tutti_status tt_comm_begin(struct tt_comm *c, struct tt_kept *k, const struct tt_call *call,
                                  const struct tt_op_desc *op)
{
    assert(!k->running && k->program);
    struct tt_start s = {
        .program = k->program, .in = call->in, .out = call->out, .fingerprint = k->fingerprint};
    tutti_status st = tt_comm_start(c, &s, op);
    if (!st)
        k->running = true;
    else if (!c->failed)
        c->calls--;
    return st;
}

TT_HOT tutti_status tt_comm_ask(const struct tt_comm *c, const struct tt_comm_work *w)
{
    struct tutti_error err;
    return w->letter ? tt_exec_letter_test(w->letter, &err)
                     : tt_exec_engine_test(c->engine, w->program, &err);
}

/* Waits until the work is done, fails, or its deadline passes. The lock is held, but released in
 * between for twins, and for other calls while a message is waited for. */
TT_HOT tutti_status tt_comm_await(struct tt_comm *c, const struct tt_comm_work *work,
                                  const struct tt_op_desc *op)
{
    struct tt_waiting w;
    bool blocks = op->count == UINT64_MAX; /* of any length */
    /* Small calls usually end at the first look, which needs no description. */
    bool moved = tt_comm_ask(c, work) == TUTTI_IN_PROGRESS && tt_exec_engine_progress(c->engine);
    if (!tt_comm_ask(c, work))
        return TUTTI_OK;
    tt_comm_waiting_call(c, blocks ? 0 : op->count * tt_sched_dtype_bytes(op->dtype), &w);
    w.message = work->letter;
    w.beside = w.beside || w.message;
    /* other calls may run while a message is waited for: one of them may have to answer first */
    w.collective = !w.message;
    tt_comm_waiting_looked(c, &w, moved);
    for (;;) {
        tutti_status st = tt_comm_ask(c, work);
        if (!st)
            return st;
        if (st != TUTTI_IN_PROGRESS)
            return tt_comm_broken(c, op);
        st = tt_comm_round(c, &w);
        if (st)
            return st == TUTTI_ERR_TIMEOUT ? tt_comm_late(c, work, op) : st;
        if (!w.collective || c->shared->users > 1)
            tt_comm_give_way(c, w.collective);
    }
}

TT_HOT tutti_status tt_comm_finish(struct tt_comm *c, const struct tt_program *p,
                                   const struct tt_op_desc *op)
{
    return tt_comm_await(c, &(struct tt_comm_work){.program = p}, op);
}

tutti_status tt_comm_test(struct tt_comm *c, const struct tt_comm_work *w,
                          const struct tt_op_desc *op)
{
    tt_comm_progress(c);
    tutti_status st = tt_comm_ask(c, w);
    return st < 0 ? tt_comm_broken(c, op) : st;
}
