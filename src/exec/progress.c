/* progress.c - polls the transport once and does everything that follows from it.
 *
 *     event      belongs to                          goes to
 *     SENT       a program's task, or a letter       send.c, letter.c
 *     CLOSED     a rank                              context.c: ends its role in every context
 *     arrival    no context: HELLO, BYE, TAKEN       context.c, refs.c
 *                a closed context                    stash.c, which discards it
 *                a context: letter, control, data    letter.c, handle_control, receive.c
 *
 * Events are handled in the order the transport gives them; whatever one makes possible (a
 * reduction, the next send) is done before the next event. What could not be done for lack of room
 * (a full queue, no credit, a full stash) stands in lists that are tried again after the events.
 *
 * After a fault nothing is used any more: events are given back, and the peer of a mismatch is
 * told. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

enum { GLANCES = 8 };

static void handle_closed(struct tt_engine *e, const struct tt_event *ev)
{
    tt_exec_stash_bereave(e, ev->peer);
    tt_exec_context_gone(e, ev->peer, ev->error);
}

/* Gives transport memory back. Other kinds of events hold none. */
static void progress_release(struct tt_engine *e, const struct tt_event *ev)
{
    if (ev->kind == TT_EV_DATA)
        e->transport->ops->release(e->transport, ev);
}

static void progress_protocol(struct tt_engine *e, const struct tt_event *ev)
{
    tt_exec_fault(e, &(struct tt_exec_engine_fault){
                         .kind = TT_FAULT_PROTOCOL, .peer = ev->peer, .seq = ev->tag.request});
}

/* A payload of another length gives an empty reference, which names nothing. */
static struct tt_xref reference(const struct tt_event *ev)
{
    struct tt_xref r = {0};
    if (ev->bytes == sizeof r)
        memcpy(&r, ev->data, sizeof r);
    return r;
}

/* Control messages of no context. */
static void handle_word(struct tt_engine *e, const struct tt_event *ev)
{
    if (ev->kind == TT_EV_DATA &&
        (ev->tag.channel == TT_XCH_HELLO || ev->tag.channel == TT_XCH_BYE))
        tt_exec_context_heard(e, ev);
    else if (ev->kind == TT_EV_DATA && ev->tag.channel == TT_XCH_TAKEN)
        tt_exec_taken_slots(e, ev->peer, reference(ev).extra);
    else
        progress_protocol(e, ev);
    progress_release(e, ev);
}

/* Control messages of a context. STARTED has done its work in tt_exec_hear before this is called;
 * only its fingerprint remains to be compared. */
static void handle_control(struct tt_engine *e, struct tt_xpeer *pe, const struct tt_event *ev)
{
    const struct tt_program *p = tt_exec_find(pe->context, ev->tag.request);
    uint64_t mine = 0;
    bool known = ev->kind == TT_EV_DATA && ev->tag.channel <= TT_XCH_TAKEN;
    if (!known || (ev->tag.channel == TT_XCH_MISMATCH && ev->bytes != sizeof mine)) {
        progress_protocol(e, ev);
    } else if (ev->tag.channel == TT_XCH_TAKEN) {
        const struct tt_xref taken = reference(ev);
        progress_release(e, ev); /* before the sends that it makes possible need room */
        tt_exec_taken(e, pe, ev->tag.request, &taken);
        return;
    } else if (ev->tag.channel == TT_XCH_MISMATCH) {
        memcpy(&mine, ev->data, sizeof mine);
        bool letter = ev->tag.message == TT_LETTER_IN; /* the peer receives a letter of ours */
        tt_exec_fault(
            e, &(struct tt_exec_engine_fault){.kind = TT_FAULT_MISMATCH,
                                              .peer = ev->peer,
                                              .seq = letter ? ev->tag.segment : ev->tag.request,
                                              .mine = mine,
                                              .theirs = ev->tag.fingerprint,
                                              .context = pe->context,
                                              .letter = letter ? TT_LETTER_OUT : 0});
    } else if (p && p->fingerprint != ev->tag.fingerprint) {
        tt_exec_mismatch(e, pe, p, ev->tag.fingerprint);
    }
    progress_release(e, ev);
}

/* Keeps an event that found no room. The list is bounded; an overflow is treated as a fault of the
 * protocol, since senders that keep to their credit rarely need it. */
static void defer(struct tt_engine *e, const struct tt_event *ev)
{
    if (e->ndeferred < TT_XDEFERRED)
        e->deferred[e->ndeferred++] = *ev;
    else
        progress_protocol(e, ev);
}

/* The sender of an event as its context knows it; NULL: the context has been closed. */
static struct tt_xpeer *sender(struct tt_engine *e, const struct tt_event *ev)
{
    struct tt_context *x = tt_exec_context_find(e, ev->tag.comm);
    return x ? tt_exec_context_sender(x, ev->peer) : NULL;
}

/* A peer that has said BYE ends once its last accepted piece is complete. */
static void settle_end(struct tt_xpeer *pe)
{
    if (pe->closed && pe->filling == 0 && !pe->context->engine->failed)
        tt_exec_context_end(pe, pe->error);
}

static void handle_letter(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    if (ev->kind != TT_EV_RECEIVED) {
        if (!tt_exec_letter_arrived(pe, ev))
            defer(e, ev);
        return;
    }
    tt_exec_letter_received(pe, ev);
    settle_end(pe);
}

static void handle_received(struct tt_xpeer *pe, const struct tt_event *ev)
{
    tt_exec_received(pe, ev);
    settle_end(pe);
}

/* Anything but a letter names a request that the sender has started: that is credit. */
static void handle_arrival(struct tt_engine *e, const struct tt_event *ev)
{
    if (ev->tag.comm == TT_XCOMM_NONE) {
        handle_word(e, ev);
        return;
    }
    struct tt_xpeer *pe = sender(e, ev);
    if (!pe) {
        if (ev->kind == TT_EV_RECEIVED)
            tt_exec_stash_discarded(e, ev);
        else if (!tt_exec_stash_discard(e, ev))
            defer(e, ev);
        return;
    }
    pe->context->moved++;
    if (ev->tag.channel < TT_XCH_LETTER)
        tt_exec_hear(pe, ev->tag.request);
    bool letter = ev->tag.channel >= TT_XCH_LETTER && ev->tag.channel <= TT_XCH_CREDIT;
    pe->context->mailed += letter;
    if (letter)
        handle_letter(pe, ev);
    else if (ev->tag.channel >= TT_CH_CONTROL)
        handle_control(e, pe, ev);
    else if (ev->kind == TT_EV_RECEIVED)
        handle_received(pe, ev);
    else if (!tt_exec_receive(pe, ev))
        defer(e, ev);
}

static void handle(struct tt_engine *e, const struct tt_event *ev)
{
    assert(ev->peer < e->size);
    if (e->failed)
        progress_release(e, ev);
    else if (ev->kind == TT_EV_SENT)
        tt_exec_sent(e, ev);
    else if (ev->kind == TT_EV_CLOSED)
        handle_closed(e, ev);
    else
        handle_arrival(e, ev);
}

static bool progress_receive(struct tt_xpeer *pe, const struct tt_event *ev)
{
    return ev->tag.channel >= TT_XCH_LETTER ? tt_exec_letter_arrived(pe, ev)
                                            : tt_exec_receive(pe, ev);
}

/* Tries events again that found no room; their requests may have been started since. Invariant: the
 * first `kept` entries are those that still wait, in order. */
bool tt_exec_retry_deferred(struct tt_engine *e)
{
    uint32_t n = e->ndeferred, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tt_event ev = e->deferred[i];
        struct tt_xpeer *pe = e->failed ? NULL : sender(e, &ev);
        if (e->failed)
            progress_release(e, &ev);
        else if (!(pe ? progress_receive(pe, &ev) : tt_exec_stash_discard(e, &ev)))
            e->deferred[kept++] = ev;
    }
    assert(e->ndeferred == n); /* what is tried again defers nothing itself */
    e->ndeferred = kept;
    return kept < n;
}

/* Tells the peer of a mismatch what this rank has. Tried until the transport takes it. */
static void report_mismatch(struct tt_engine *e)
{
    struct tt_xpeer *pe = tt_exec_context_sender(e->report, e->fault.peer);
    assert(pe && e->failed && e->fault.kind == TT_FAULT_MISMATCH);
    struct tt_tag tag = {.fingerprint = e->fault.mine,
                         .request = e->fault.seq,
                         .comm = pe->comm,
                         .channel = TT_XCH_MISMATCH};
    if (e->fault.letter) {
        tag.request = e->report->seq;
        tag.message = e->fault.letter;
        tag.segment = e->fault.seq;
    }
    if (tt_exec_send_control(pe, &tag, &e->fault.theirs, sizeof e->fault.theirs) !=
        TUTTI_IN_PROGRESS)
        e->report = NULL;
}

/* Tries everything that waits for room. Among the sends control messages go first: peers may wait
 * for them. */
static bool retry(struct tt_engine *e)
{
    bool any = false;
    if (e->ndeferred)
        any = tt_exec_retry_deferred(e);
    if (e->report)
        report_mismatch(e);
    if (e->failed)
        return any;
    if (e->due)
        any = tt_exec_context_pay(e) || any;
    if (e->mail)
        any = tt_exec_letter_deliver(e) || any;
    if (e->owing)
        any = tt_exec_pay(e) || any;
    if (e->waiting)
        any = tt_exec_send_waiting(e) || any;
    if (e->held)
        any = tt_exec_let_go(e) || any;
    return any;
}

/* Does something stand in the lists that retry works through? */
static bool has_lists(const struct tt_engine *e)
{
    return e->waiting || e->ndeferred || e->due || e->mail || e->report || e->owing || e->held;
}

/* May the transport wait, because boxes alone are waited for? What still comes (introductions, the
 * end of a peer) is looked for every GLANCES looks: on shared cores looking into the rings of all
 * peers takes as long as the rest of a small call. */
static bool may_skip(struct tt_engine *e)
{
    bool alone = e->nboxed && e->nboxed == e->nrunning && !e->letters && !e->ntaken;
    return alone && !e->every && !has_lists(e) && ++e->glances % GLANCES;
}

void tt_exec_engine_poll_always(struct tt_engine *e, bool every)
{
    e->every = every;
}

/* Boxes come first: an exchange of small vectors takes less time than polling the transport, which
 * can wait when that was all. While boxes have more to do (a long row) it is polled as well, so
 * that messages beside it are not starved. Window slots are reported only when nothing else
 * happened: usually the next piece carries them (refs.c). */
TT_HOT bool tt_exec_engine_progress(struct tt_engine *e)
{
    const bool boxed = e->boxing && tt_exec_box_progress(e);
    if (boxed && !e->boxing)
        return true;
    size_t n = may_skip(e) ? 0 : e->transport->ops->poll(e->transport, e->events, TT_XEVENTS);
    assert(n <= TT_XEVENTS);
    for (size_t i = 0; i < n; i++)
        handle(e, &e->events[i]);
    bool any = boxed || n > 0;
    if (!any && e->ntaken)
        tt_exec_tell_slots(e);
    if (has_lists(e))
        any = retry(e) || any;
    tt_exec_stats_looked(e, n);
    return any;
}
