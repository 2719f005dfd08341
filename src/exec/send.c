/* send.c - hands ready send tasks to the transport.
 *
 * A link (one peer of one program) has a queue of ready send tasks, sorted by segment, and the
 * number of the next piece of the first task. Pieces go out at once while credit (credit.c) and the
 * transport's queue allow it. A link that had to stop stands in the engine's list and is tried
 * again at every progress. Each program has its own links, so a request that may not send never
 * blocks another one.
 *
 *     form of a piece   when                              done
 *     BYTES, short      at most TT_INLINE_MAX bytes       at once: the transport has copied it
 *     BYTES             otherwise                         with TT_EV_SENT
 *     REF               refs.c can refer to it            WINDOW at once; HEAP with TAKEN
 *     WRITTEN           its reduction wrote the place     at once
 *
 * The cookie of TT_EV_SENT and TAKEN is (program slot + 1) << 32 | task. A piece of more fragments
 * than a transport takes is put together in the operation's packing place first.
 *
 * Invariant: a link is in the list exactly while `waiting` is set, and then its queue is not
 * empty. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

/* ---- the list of links that have something left to send ---- */

static void send_enlist(struct tt_engine *e, struct tt_xlink *l)
{
    assert(!l->waiting && l->head != TT_XNO);
    l->waiting = true;
    l->after = NULL;
    l->before = e->waiting_last;
    if (e->waiting_last)
        e->waiting_last->after = l;
    else
        e->waiting = l;
    e->waiting_last = l;
}

static void delist(struct tt_engine *e, struct tt_xlink *l)
{
    assert(l->waiting && l->head == TT_XNO);
    l->waiting = false;
    if (l->before)
        l->before->after = l->after;
    else
        e->waiting = l->after;
    if (l->after)
        l->after->before = l->before;
    else
        e->waiting_last = l->before;
}

/* ---- one piece ---- */

/* Describes the piece's memory; returns the number of entries. Operations whose pieces could have
 * more than TT_IOV_MAX have a packing place instead. */
static int send_gather(struct tt_program *p, const struct tt_xwalk *piece, struct iovec *iov)
{
    struct tt_xwalk w = *piece;
    struct tt_xfrag f;
    int n = 0;
    while (tt_xwalk_next(&w, &f)) {
        assert(n < TT_IOV_MAX);
        iov[n++] = (struct iovec){.iov_base = tt_xat(p, &f, 0),
                                  .iov_len = (size_t)f.elems << p->elem_shift};
    }
    return n;
}

/* Puts the piece together in its part of the packing place, which stays unchanged until it is
 * sent. */
static int send_pack(struct tt_program *p, const struct tt_xop *op, const struct tt_xwalk *piece,
                     uint32_t number, struct iovec *iov)
{
    assert(op->land + op->stride * (piece->segment + 1) <= p->own_bytes);
    char *to = p->own + op->land + op->stride * piece->segment + (uint64_t)number * TT_XPIECE;
    struct tt_xwalk w = *piece;
    struct tt_xfrag f;
    iov[0] = (struct iovec){.iov_base = to, .iov_len = (size_t)tt_xwalk_bytes(&w)};
    while (tt_xwalk_next(&w, &f)) {
        memcpy(to, tt_xat(p, &f, 0), (size_t)f.elems << p->elem_shift);
        to += f.elems << p->elem_shift;
    }
    return 1;
}

static void piece_done(struct tt_program *p, struct tt_xlink *l, uint32_t task)
{
    assert(l->out_left > 0 && p->tasks[task].left > 0);
    l->out_left--;
    if (--p->tasks[task].left == 0)
        tt_exec_finish(p, task);
}

/* Has the reduction of this segment written the peer's place? */
static bool is_written(const struct tt_program *p, const struct tt_xop *op, uint32_t segment)
{
    return op->offer != TT_XNO && p->offers[op->offer + segment].written;
}

static void send_count(struct tt_program *p, uint32_t form)
{
    p->carried.message += form == TT_XFORM_BYTES;
    p->carried.read += form == TT_XFORM_REF;
    p->carried.write += form == TT_XFORM_WRITTEN;
}

/* A piece that is about to be sent: its form, and the memory that the transport gets. */
struct outgoing {
    const struct tt_xop *op;
    uint32_t task, segment, form;
    uint64_t bytes;
    int niov;
    struct tt_xref ref; /* unless its form is BYTES: what is sent instead */
    struct iovec iov[TT_IOV_MAX];
};

/* Chooses the form. TUTTI_IN_PROGRESS: the window has no room now; a copy that was made there
 * meanwhile is found again next time. */
static tutti_status send_shape(struct tt_engine *e, struct tt_xlink *l, const struct tt_xwalk *w,
                               struct outgoing *o)
{
    struct tt_program *p = l->program;
    o->form = TT_XFORM_WRITTEN;
    if (!is_written(p, o->op, o->segment)) {
        o->niov = o->op->land == TT_XNOWHERE ? send_gather(p, w, o->iov)
                                             : send_pack(p, o->op, w, l->piece, o->iov);
        tutti_status by_ref =
            o->niov == 1 ? tt_exec_refer(e, l, o->task, o->iov, &o->ref) : TUTTI_ERR_REFUSED;
        if (by_ref == TUTTI_IN_PROGRESS)
            return by_ref;
        o->form = by_ref ? TT_XFORM_BYTES : TT_XFORM_REF;
    }
    if (o->form != TT_XFORM_BYTES) {
        tt_exec_offer(e, p, o->op, o->segment, &o->ref);
        tt_exec_settle(e, l, o->task, &o->ref);
        o->iov[0] = (struct iovec){.iov_base = &o->ref, .iov_len = sizeof o->ref};
        o->niov = 1;
    }
    return TUTTI_OK;
}

/* The transport has taken the piece. start_ns: when it was asked, if that is recorded. */
static void send_note(struct tt_engine *e, struct tt_xlink *l, const struct outgoing *o,
                      uint64_t start_ns)
{
    struct tt_program *p = l->program;
    tt_exec_credit_spend(l, tt_xcost(o->bytes));
    /* A change without an event must count as progress for is_stalled (refs.c). */
    p->context->moved++;
    l->pe->stats.bytes_out += o->bytes;
    if (start_ns)
        tt_exec_stats_piece(l, TT_RECORD_SEND,
                            &(struct tt_xnote){o->op->channel, o->op->message,
                                               o->segment << 16 | l->piece, o->bytes, start_ns});
    send_count(p, o->form);
    if (l->place == TT_NO_PLACE)
        return;
    tt_exec_referred(e, l, o->task, o->form == TT_XFORM_REF ? &o->ref : NULL);
    tt_exec_settled(e, l, o->task, o->form == TT_XFORM_BYTES ? NULL : &o->ref);
}

/* Hands piece l->piece of the task over. TUTTI_IN_PROGRESS: no credit or no room now. */
static tutti_status send_piece(struct tt_engine *e, struct tt_xlink *l, uint32_t task)
{
    struct tt_program *p = l->program;
    uint32_t i = tt_xtask_op(p, task), segment = task - i * p->segments, piece = l->piece;
    const struct tt_xop *op = &p->ops[i];
    struct tt_xwalk w = tt_xwalk_piece(p, op, segment, piece);
    struct outgoing o;
    assert(p->state == TT_XRUNNING && piece < op->npieces && op->kind == TT_OP_SEND);
    o.op = op;
    o.task = task;
    o.segment = segment;
    o.bytes = tt_xwalk_bytes(&w);
    o.ref = (struct tt_xref){0};
    if (!tt_exec_credit_allows(e, l, tt_xcost(o.bytes)) || send_shape(e, l, &w, &o))
        return TUTTI_IN_PROGRESS;
    assert(o.form != TT_XFORM_BYTES || o.niov > 0 || !o.bytes);
    const struct tt_tag tag = {.fingerprint = p->fingerprint ^ l->out_salt,
                               .request = p->seq,
                               .message = op->message | o.form << TT_XFORM_SHIFT,
                               .segment = piece << 16 | segment,
                               .comm = l->pe->comm,
                               .channel = op->channel};
    bool kept = o.form == TT_XFORM_BYTES && o.bytes > TT_INLINE_MAX; /* until TT_EV_SENT */
    uint64_t cookie = kept ? (uint64_t)(p->slot + 1) << 32 | task : 0;
    uint64_t start_ns = e->record ? tt_now_ns() : 0;
    tutti_status st =
        e->transport->ops->send(e->transport, l->pe->world, &tag, o.iov, o.niov, cookie);
    if (st)
        return st;
    send_note(e, l, &o, start_ns);
    if (o.form == TT_XFORM_REF ? o.ref.kind == TT_XKIND_WINDOW : !kept)
        piece_done(p, l, task);
    return TUTTI_OK;
}

/* Sends what can be sent; true when nothing is left. With an ending peer (TUTTI_ERR_IO) the pieces
 * keep waiting: TT_EV_CLOSED follows. Invariant: pieces before l->piece of the first task have
 * gone. */
static bool send_flush(struct tt_engine *e, struct tt_xlink *l)
{
    struct tt_program *p = l->program;
    while (l->head != TT_XNO) {
        uint32_t task = l->head, n = p->fresh[p->mode][task].left;
        assert(l->piece <= n && task < p->ntasks);
        while (l->piece < n) {
            tutti_status st = send_piece(e, l, task);
            if (st && st != TUTTI_IN_PROGRESS && st != TUTTI_ERR_IO)
                tt_exec_protocol(e, l->pe, p->seq);
            if (st)
                return false;
            l->piece++;
        }
        l->head = p->next[task];
        l->piece = 0;
    }
    return true;
}

static uint32_t segment_of(const struct tt_program *p, uint32_t task)
{
    return p->segments == 1 ? 0 : task % p->segments;
}

/* Inserts the task by segment, behind a task that is being sent. The result of a segment goes
 * before what the next one needs, so that what is kept for it (a window, a peer's operands) comes
 * free. */
static void send_queue(struct tt_program *p, struct tt_xlink *l, uint32_t task)
{
    uint32_t segment = segment_of(p, task), at = l->head;
    assert(p->tasks[task].waits == 0 && (at == TT_XNO || p->next[l->tail] == TT_XNO));
    p->next[task] = TT_XNO;
    if (l->head == TT_XNO) {
        l->head = l->tail = task;
    } else if (segment_of(p, l->tail) <= segment) {
        p->next[l->tail] = task;
        l->tail = task;
    } else if (segment_of(p, at) > segment && l->piece == 0) {
        p->next[task] = at;
        l->head = task;
    } else {
        while (p->next[at] != TT_XNO && segment_of(p, p->next[at]) <= segment)
            at = p->next[at];
        p->next[task] = p->next[at];
        p->next[at] = task;
        l->tail = p->next[task] == TT_XNO ? task : l->tail;
    }
}

/* A link that is waiting is full: the task is sent when its turn comes. */
void tt_exec_send(struct tt_engine *e, struct tt_program *p, uint32_t task)
{
    struct tt_xlink *l = &p->links[p->ops[tt_xtask_op(p, task)].link];
    send_queue(p, l, task);
    if (!l->waiting && !send_flush(e, l) && !e->failed)
        send_enlist(e, l);
}

/* Tries every link of the list once. tt_exec_work comes last, because it may end the program. */
bool tt_exec_send_waiting(struct tt_engine *e)
{
    bool any = false;
    for (struct tt_xlink *l = e->waiting, *after; l && !e->failed; l = after) {
        assert(l->waiting);
        uint32_t head = l->head, piece = l->piece;
        bool all = send_flush(e, l);
        if (e->failed)
            return true;
        after = l->after;
        any = any || l->head != head || l->piece != piece;
        if (all)
            delist(e, l);
        tt_exec_work(e, l->program);
    }
    return any;
}

/* The transport has given a piece back. Cookies are this rank's own, hence the assertion. */
void tt_exec_sent(struct tt_engine *e, const struct tt_event *ev)
{
    if (ev->cookie & TT_XCOOKIE_LETTER) {
        tt_exec_letter_sent(e, (uint32_t)ev->cookie);
        return;
    }
    uint64_t slot = (ev->cookie >> 32) - 1;
    uint32_t task = (uint32_t)ev->cookie;
    struct tt_program *p = slot < e->max_requests ? e->slots[slot] : NULL;
    assert(p && task < p->ntasks && p->tasks[task].left);
    p->context->moved++;
    piece_done(p, &p->links[p->ops[tt_xtask_op(p, task)].link], task);
    tt_exec_work(e, p);
}

/* Control messages are short and copied by the transport: payload may be on the stack. */
tutti_status tt_exec_send_control(struct tt_xpeer *pe, const struct tt_tag *tag,
                                  const void *payload, size_t bytes)
{
    struct tt_transport *t = pe->context->engine->transport;
    assert(bytes <= TT_INLINE_MAX);
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)payload, .iov_len = bytes};
    return t->ops->send(t, pe->world, tag, &iov, bytes ? 1 : 0, 0);
}
