/* close.c - ending communicators: together (close), alone (leave), at once (abort).
 *
 * Closing is a collective: it ends with a barrier, so that what the others have sent has arrived
 * and what nobody will read can be reported. Leaving waits for nobody. Everything here accepts a
 * communicator that is half open. Twins share links and engine, which the last one frees. */
#include <assert.h>
#include <stdlib.h>

#include "comm/open.h"

/* The last communicator of the world closes watch and boot, in this order: the watch uses boot's
 * lines. */
void tt_comm_world_release(struct tt_world *w)
{
    if (!w || atomic_fetch_sub(&w->refs, 1) > 1)
        return;
    assert(atomic_load(&w->refs) == 0);
    tt_watch_close(w->watch);
    tt_boot_close(w->boot);
    tt_topo_free(w->topo);
    tt_comm_given_free(w->given);
    tt_plan_tuning_free(w->tuning);
    tt_comm_trace_free(w);
    free(w->history);
    free(w);
}

/* Does not take c's lock, so that any thread may call it while others wait in calls on c. */
void tt_comm_abort(struct tt_comm *c, const char *reason)
{
    struct tt_trouble t = {.kind = TT_TROUBLE_ABORT, .peer = UINT32_MAX};
    tt_str_fit(t.text, sizeof t.text, reason ? reason : "no reason given");
    tt_watch_report(c->world->watch, &t);
    if (c->wire.direct)
        tt_direct_abort(c->wire.direct);
}

/* Ends what this communicator has on the engine; true: it was the last one there. A program is
 * still running only if the trainer gave up; the engine is then stopped for all, and the others are
 * told. */
static bool end_context(struct tt_comm *c, bool leaves)
{
    struct tt_shared *s = c->shared;
    tt_comm_enter(c);
    assert(s->users > 0);
    bool last = --s->users == 0;
    s->left = s->left || leaves;
    if (!last && c->context && tt_exec_context_running(c->context))
        tt_exec_engine_kill(
            c->engine, &(struct tt_exec_engine_fault){.kind = TT_FAULT_CLOSED, .peer = UINT32_MAX});
    for (size_t i = 0; i < c->nkept; i++)
        tt_comm_kept_free(c->kept[i]);
    free(c->kept);
    if (!last)
        tt_exec_context_close(c->context);
    tt_comm_unlock(c);
    return last;
}

/* Is there a verdict, whether this communicator has returned it or not? */
static bool has_failed(const struct tt_comm *c)
{
    struct tt_verdict v;
    return c->failed || tt_watch_verdict(c->world->watch, &v);
}

/* Frees everything of this rank. leaves: the sockets stay open until the others have what was sent
 * to them. */
static void take_down(struct tt_comm *c, bool leaves)
{
    if (end_context(c, leaves)) {
        tt_exec_engine_free(c->engine);
        if (c->wire.transport && (c->shared->left || has_failed(c))) {
            (c->shared->left ? tt_transport_leave : tt_transport_abandon)(c->wire.transport);
            c->wire.transport = NULL;
        }
        tt_comm_wire_close(&c->wire);
        tt_comm_shared_free(c->shared);
    }
    if (c->topo != c->world->topo)
        tt_topo_free(c->topo);
    tt_comm_plans_free(c->plans);
    tt_comm_dump_close(c);
    tt_vec_free(&c->passed);
    if (c->tag)
        tt_watch_part(c->world->watch, c->tag);
    tt_comm_world_release(c->world);
    free(c->members);
    free(c->algo);
    free(c);
}

/* Waits for the other ranks, and reports what the program can no longer learn from a call. */
static void part_company(struct tt_comm *c)
{
    c->closing = true;
    if (c->failed || c->size < 2)
        return;
    tt_comm_lock(c);
    tt_exec_engine_poll_always(c->engine, true);
    tt_comm_unlock(c);
    tutti_status st = tt_comm_run(c, &(struct tt_call){.coll = TUTTI_BARRIER, .why = TT_WHY_CLOSE});
    if (st && !atomic_load(&c->world->heard))
        tt_comm_tell_close(c);
    if (st)
        return;
    tt_comm_lock(c);
    tt_exec_engine_poll_always(c->engine, false);
    tt_exec_engine_progress(c->engine); /* messages sent before the others closed have arrived */
    tt_comm_unlock(c);
    tt_comm_tell_unread(c);
}

/* The helper ends first: it uses everything that follows. */
void tt_comm_close(struct tt_comm *c)
{
    if (!c)
        return;
    if (atomic_load(&c->world->succeeded)) {
        tt_comm_leave(c);
        return;
    }
    tt_comm_helper_end(c);
    tt_comm_report_end(c);
    if (c->plans) {
        tt_comm_trace_end(c);
        tt_comm_given_close(c);
        part_company(c);
    }
    take_down(c, false);
}

void tt_comm_leave(struct tt_comm *c)
{
    if (!c)
        return;
    tt_comm_helper_end(c);
    tt_comm_report_drop(c);
    tt_comm_given_close(c);
    take_down(c, !c->failed); /* after an error none of the caller's data is sent any more */
}
