/* progress.c - one look at the transport, and everything that follows from it.
 *
 * Events are handled in the order the transport gives them; whatever one makes possible (a reduction, the next send) is done before the
 * next is looked at. What could not be done for lack of room (a full queue, no credit, a full stash) stands in lists that are tried once
 * more. After a fault nothing is used any more: events are given back, and the peer of a mismatch is told. */
#include <string.h>

#include "exec/parts.h"

static void handle_closed(struct tt_engine *e, const struct tt_event *ev)
{
    struct tt_xpeer *pe = &e->peers[ev->peer];
    pe->closed = e->any_closed = true;
    pe->error = ev->error;
    if (pe->notice)
        e->notices--;
    pe->notice = false;
    for (uint32_t i = 0; i < e->max_requests; i++)
        if (e->slots[i])
            tt_xmissing(e, e->slots[i]);
}

static void handle_control(struct tt_engine *e, const struct tt_event *ev)
{
    const struct tt_program *p = tt_xfind(e, ev->tag.request);
    uint64_t mine = 0;
    bool known = ev->kind == TT_EV_DATA && ev->tag.channel <= TT_XCH_TAKEN;
    if (!known || (ev->tag.channel == TT_XCH_MISMATCH && ev->bytes != sizeof mine)) {
        tt_xprotocol(e, ev->peer, ev->tag.request);
    } else if (ev->tag.channel == TT_XCH_TAKEN) {
        struct tt_xref taken = {0};
        if (ev->bytes == sizeof taken)
            memcpy(&taken, ev->data, sizeof taken);
        e->transport->ops->release(e->transport, ev); /* before what it makes possible */
        tt_exec_taken(e, ev->peer, ev->tag.request, &taken);
        return;
    } else if (ev->tag.channel == TT_XCH_MISMATCH) {
        memcpy(&mine, ev->data, sizeof mine);
        tt_xfault(e, &(struct tt_engine_fault){
                         .kind = TT_FAULT_MISMATCH, .peer = ev->peer, .seq = ev->tag.request, .mine = mine, .theirs = ev->tag.fingerprint});
    } else if (p && p->fingerprint != ev->tag.fingerprint) {
        tt_xmismatch(e, ev->peer, p, ev->tag.fingerprint);
    }
    if (ev->kind == TT_EV_DATA)
        e->transport->ops->release(e->transport, ev);
}

static void defer(struct tt_engine *e, const struct tt_event *ev)
{
    if (e->ndeferred < TT_XDEFERRED)
        e->deferred[e->ndeferred++] = *ev;
    else
        tt_xprotocol(e, ev->peer, ev->tag.request);
}

static void handle_arrival(struct tt_engine *e, const struct tt_event *ev)
{
    if (ev->tag.comm != e->comm) {
        tt_xprotocol(e, ev->peer, ev->tag.request);
        if (ev->kind == TT_EV_DATA)
            e->transport->ops->release(e->transport, ev);
        return;
    }
    tt_xhear(e, ev->peer, ev->tag.request);
    if (ev->tag.channel >= TT_CH_CONTROL)
        handle_control(e, ev);
    else if (ev->kind == TT_EV_RECEIVED)
        tt_xreceived(e, ev);
    else if (!tt_xreceive(e, ev))
        defer(e, ev);
}

static void handle(struct tt_engine *e, const struct tt_event *ev)
{
    if (e->failed) {
        if (ev->kind == TT_EV_DATA)
            e->transport->ops->release(e->transport, ev);
        return;
    }
    if (ev->kind == TT_EV_SENT)
        tt_xsent(e, ev);
    else if (ev->kind == TT_EV_CLOSED)
        handle_closed(e, ev);
    else
        handle_arrival(e, ev);
}

/* Events that found the stash full; their requests may have been started since. */
bool tt_xretry_deferred(struct tt_engine *e)
{
    uint32_t n = e->ndeferred, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tt_event ev = e->deferred[i];
        if (e->failed)
            handle(e, &ev);
        else if (!tt_xreceive(e, &ev))
            e->deferred[kept++] = ev;
    }
    e->ndeferred = kept;
    return kept < n;
}

/* Tells the peer of a mismatch what we have. */
static void report_mismatch(struct tt_engine *e)
{
    const struct tt_tag tag = {.fingerprint = e->fault.mine, .request = e->fault.seq, .comm = e->comm, .channel = TT_XCH_MISMATCH};
    if (tt_xsend_control(e, e->fault.peer, &tag, &e->fault.theirs, sizeof e->fault.theirs) != TUTTI_IN_PROGRESS)
        e->report = false;
}

static bool retry(struct tt_engine *e)
{
    bool any = false;
    if (e->ndeferred)
        any = tt_xretry_deferred(e);
    if (e->report)
        report_mismatch(e);
    if (e->failed)
        return any;
    if (e->notices)
        any = tt_xcredit_retry(e) || any;
    if (e->owing)
        any = tt_exec_pay(e) || any;
    if (e->waiting)
        any = tt_xsend_waiting(e) || any;
    if (e->held)
        any = tt_exec_let_go(e) || any;
    return any;
}

bool tt_engine_progress(struct tt_engine *e)
{
    size_t n = e->transport->ops->poll(e->transport, e->events, TT_XEVENTS);
    for (size_t i = 0; i < n; i++)
        handle(e, &e->events[i]);
    bool any = n > 0;
    if (e->box_first)
        any = tt_exec_box_progress(e) || any;
    if (!any && e->ntaken)
        tt_exec_tell_slots(e);
    if (e->waiting || e->ndeferred || e->notices || e->report || e->owing || e->held)
        any = retry(e) || any;
    tt_xstats_looked(e, n);
    return any;
}
