/* call.c - blocking calls and persistent requests.
 *
 * A blocking call makes progress itself. A started request makes progress in every wait, in every
 * other call on the communicator, and on a background thread that sleeps whenever no request is
 * started.
 *
 *     make --> start --> test/wait/join ... done --> start ...          a request
 *                                           '-----> free
 *
 * A request changes only under the communicator's lock. After its end it keeps its status until the
 * next start. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"

/* How the watch knows this call: every rank that is in the same call describes it the same way. A
 * field that is not changed is not stored: the description is read by words right after. */
static void call_describe(struct tt_comm *c, const struct tt_call *call, const struct tt_kept *k,
                          struct tt_op_desc *ret)
{
    *ret = k->op;
    ret->seq = ++c->calls;
    if (ret->why != (uint8_t)call->why)
        ret->why = (uint8_t)call->why;
}

/* NULL buffers where there is data are the caller's mistake: only this rank gets the error, and the
 * communicator stays usable. */
TT_HOT static tutti_status check_buffers(const struct tt_call *call, const struct tt_kept *k,
                                         struct tutti_error *err)
{
    uint64_t in = tt_exec_program_in_elems(k->program), out = tt_exec_program_out_elems(k->program);
    if ((in && !call->in) || (out && !call->out))
        return tt_fail(err, TUTTI_ERR_ARG, "%s: the %s buffer is NULL",
                       tt_sched_coll_name(call->coll), in && !call->in ? "input" : "output");
    return TUTTI_OK;
}

TT_HOT tutti_status tt_comm_run(struct tt_comm *c, const struct tt_call *call)
{
    struct tt_kept *k = NULL;
    struct tutti_error err;
    tt_comm_lock(c);
    /* After a verdict every call returns it at once. */
    tutti_status st = c->failed ? c->last.status : tt_comm_program(c, call, &k, &err);
    if (!st)
        st = check_buffers(call, k, &err);
    if (st && !c->failed)
        tt_comm_fail(c, &err);
    if (!st) {
        struct tt_op_desc op;
        call_describe(c, call, k, &op);
        tt_watch_enter(c->world->watch, &op);
        tt_meter_log_enter(c->log, op.seq);
        uint64_t start_ns = c->world->record ? tt_now_ns() : 0;
        st = tt_comm_begin(c, k, call, &op);
        uint32_t seq = c->seq;
        if (!st)
            st = tt_comm_finish(c, k->program, &op);
        if (start_ns)
            tt_comm_trace_call(c, k, &op, &(struct tt_trace_call){start_ns, seq, false});
        k->running = false;
        tt_meter_log_leave(c->log, op.seq);
        tt_watch_leave(c->world->watch, c->tag);
    }
    tt_comm_unlock(c);
    return st;
}

/* r->call must not point to memory of the caller: counts and blocks are in the kept program. */
tutti_status tt_comm_request_make(struct tt_comm *c, const struct tt_call *call,
                                  struct tt_request **ret)
{
    struct tutti_error err = {0};
    struct tt_request *r = tt_zalloc(1, sizeof *r);
    tt_comm_lock(c);
    tutti_status st = r ? TUTTI_OK : tt_fail_memory(&err, "request");
    if (!st)
        st = c->failed ? tt_fail(&err, c->last.status, "%s", c->last.text)
                       : tt_comm_program(c, call, &r->kept, &err);
    if (!st)
        st = check_buffers(call, r->kept, &err);
    if (st) {
        tt_comm_fail(c, &err);
        free(r);
    } else {
        r->comm = c;
        r->call = *call;
        r->call.counts = NULL;
        r->call.blocks = NULL;
        r->call.user = r->kept->key.user;
        r->call.background = true;
        /* A held program is not replaced while the request exists. */
        r->kept->holders++;
        r->work.program = r->kept->program;
        *ret = r;
    }
    tt_comm_unlock(c);
    return st;
}

/* A request is a collective (kept) or a message between two ranks (letter). */
static tutti_status call_begin(struct tt_request *r)
{
    struct tt_comm *c = r->comm;
    if (!r->kept)
        return tt_comm_message_begin(c, &r->letter, &r->op);
    call_describe(c, &r->call, r->kept, &r->op);
    tt_watch_enter(c->world->watch, &r->op);
    tt_meter_log_enter(c->log, r->op.seq);
    r->begun_ns = c->world->record ? tt_now_ns() : 0;
    tutti_status st = tt_comm_begin(c, r->kept, &r->call, &r->op);
    r->begun_seq = c->seq;
    return st;
}

tutti_status tt_comm_request_start(struct tt_request *r)
{
    struct tt_comm *c = r->comm;
    struct tutti_error err = {0};
    tt_comm_lock(c);
    tutti_status st =
        r->started ? tt_fail(&err, TUTTI_ERR_ARG, "the request is started already") : TUTTI_OK;
    if (st) {
        tt_comm_fail(c, &err);
    } else {
        r->asked_ns = 0;
        st = call_begin(r);
        r->started = !st;
        r->last = st;
        if (r->started) {
            atomic_fetch_add(&c->started, 1);
            tt_comm_helper_wake(c);
        }
    }
    tt_comm_unlock(c);
    return st;
}

/* Records the end of a request; IN_PROGRESS: it has not ended. A request that is done or has failed
 * may be started again; until then tests and waits return how it ended. */
static tutti_status call_settle(struct tt_request *r, tutti_status st)
{
    if (st == TUTTI_IN_PROGRESS)
        return st;
    assert(r->started && atomic_load(&r->comm->started) > 0);
    r->last = st;
    r->started = false;
    atomic_fetch_sub(&r->comm->started, 1);
    if (r->kept) {
        r->kept->running = false;
        if (r->begun_ns)
            tt_comm_trace_call(r->comm, r->kept, &r->op,
                               &(struct tt_trace_call){r->begun_ns, r->begun_seq, true});
        tt_meter_log_leave(r->comm->log, r->op.seq);
        tt_watch_leave(r->comm->world->watch, r->comm->tag);
    }
    return st;
}

/* The request is not done: is there a verdict, or has nothing moved for as long as the deadline
 * allows? A caller that only tests must learn of it too. */
static tutti_status call_check(struct tt_request *r)
{
    struct tt_comm *c = r->comm;
    uint64_t now = tt_now_ns();
    r->asked_ns = r->asked_ns ? r->asked_ns : now;
    tutti_status st = tt_comm_verdict(c);
    if (!st && now >= tt_comm_deadline(c, r->asked_ns, c->moved_ns))
        return tt_comm_late(c, &r->work, &r->op);
    return st ? st : TUTTI_IN_PROGRESS;
}

/* One poll of a started request. If a thread of the caller makes progress (pumped), that thread
 * watches deadlines. */
static tutti_status call_look(struct tt_request *r)
{
    tutti_status st = tt_comm_test(r->comm, &r->work, &r->op);
    return st == TUTTI_IN_PROGRESS && !r->comm->pumped ? call_check(r) : st;
}

/* The same, with progress left to the helper. An error does not count as movement: it is found by
 * the poll that is due when nothing has moved for a while. */
static tutti_status look_quietly(struct tt_request *r)
{
    struct tt_comm *c = r->comm;
    bool quiet =
        tt_now_ns() - c->moved_ns < TT_GLANCE_NS && tt_comm_ask(c, &r->work) == TUTTI_IN_PROGRESS;
    return quiet ? call_check(r) : call_look(r);
}

static tutti_status call_finish(struct tt_request *r)
{
    return tt_comm_await(r->comm, &r->work, &r->op);
}

/* The caller will not ask again: the request is done, or late. */
static tutti_status look_last(struct tt_request *r)
{
    tutti_status st = tt_comm_test(r->comm, &r->work, &r->op);
    return st == TUTTI_IN_PROGRESS ? tt_comm_late(r->comm, &r->work, &r->op) : st;
}

/* Asks a started request in one of these ways; for any other, the status of its last start is
 * returned. */
static tutti_status call_ask(struct tt_request *r, tutti_status (*how)(struct tt_request *r))
{
    tt_comm_lock(r->comm);
    tutti_status st = r->last;
    if (r->started) {
        if (r->kept)
            tt_meter_log_wait(r->comm->log, r->op.seq);
        uint64_t since = how == call_finish && r->kept && r->begun_ns ? tt_now_ns() : 0;
        st = call_settle(r, how(r));
        if (since)
            tt_comm_trace_wait(r->comm, r->begun_seq, since);
    }
    tt_comm_unlock(r->comm);
    return st;
}

bool tt_comm_request_started(const struct tt_request *r)
{
    return r->started;
}

tutti_status tt_comm_request_test(struct tt_request *r)
{
    return call_ask(r, call_look);
}

tutti_status tt_comm_request_wait(struct tt_request *r)
{
    return call_ask(r, call_finish);
}

tutti_status tt_comm_request_overdue(struct tt_request *r)
{
    return call_ask(r, look_last);
}

tutti_status tt_comm_request_join(struct tt_request *r)
{
    struct tt_comm *c = r->comm;
    /* Acquire pairs with the release store in helper_make: the helper is complete when it is
     * seen. */
    if (!atomic_load_explicit(&c->helper, memory_order_acquire))
        return tt_comm_request_wait(r);
    /* `seen` is read before the request is asked: news in between makes the await return at once,
     * so no end is missed. */
    for (;;) {
        uint64_t seen = tt_comm_news_told(c);
        tutti_status st = call_ask(r, look_quietly);
        if (st != TUTTI_IN_PROGRESS)
            return st;
        tt_comm_news_await(c, seen, tt_now_ns() + TT_GLANCE_NS);
    }
}

/* Takes back a receive that no message has matched; everything else is waited for. */
void tt_comm_request_end(struct tt_request *r)
{
    tt_comm_lock(r->comm);
    if (r->started && !r->kept && tt_exec_letter_cancel(&r->letter))
        call_settle(r, TUTTI_ERR_ABORTED);
    tt_comm_unlock(r->comm);
    tt_comm_request_wait(r); /* one that is not started returns at once */
}

void tt_comm_request_free(struct tt_request *r)
{
    if (!r)
        return;
    tt_comm_lock(r->comm);
    if (r->kept)
        r->kept->holders--;
    else
        tt_exec_letter_forget(r->comm->context);
    tt_comm_unlock(r->comm);
    free(r);
}

void tt_comm_request_drop(struct tt_request *r)
{
    free(r);
}

const char *tt_comm_request_algo(const struct tt_request *r)
{
    return r->kept ? r->kept->info.algo : "";
}

tutti_status tt_comm_plan(struct tt_comm *c, const struct tt_call *call,
                          struct tt_comm_plan_info *ret, struct tutti_error *err)
{
    struct tt_kept *k;
    tt_comm_lock(c);
    tutti_status st = tt_comm_program(c, call, &k, err);
    if (!st)
        *ret = k->info;
    tt_comm_unlock(c);
    return st;
}
