/* receive.c - brings arriving pieces to where they belong.
 *
 *     what came                          operation ready           not ready
 *     bytes in transport memory (DATA)   copied or reduced there   copied to the landing place
 *     only a header (HEADER), receive    accepted into its place   accepted into the landing place
 *     HEADER, receive-reduce             accepted into a stage,    accepted into the landing place
 *                                        still in cache when used
 *     a reference (refs.c)               used where it lies        kept
 *     WRITTEN (reduce.c)                 done                      noted
 *     an operand of a marked reduction   held where it lies, by reference or in transport memory
 *     a piece of a later request         the stash (stash.c)
 *
 * If no stage is free, a receive-reduce uses its landing place.
 *
 * Every piece has a state, so each is used exactly once whatever the order of arrival. A piece that
 * fits nowhere, has another length or comes twice is a fault of the protocol. Transport memory is
 * given back before anything that the piece made possible is done: the sends of that may need the
 * room. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

/* The piece that a tag names, and all that is needed to deal with it. */
struct target {
    const struct tt_xop *op;
    struct tt_xlink *link;
    uint32_t task;
    uint64_t piece;
    uint8_t *state;
    char *land; /* valid when the operation has a landing place */
    struct tt_xwalk walk;
    uint32_t message, part; /* numbers of the message and of the piece, as traces have them */
};

/* The landing place of a piece; NULL: its operation has none. */
static char *landing(const struct tt_program *p, const struct tt_xop *op, uint32_t segment,
                     uint32_t piece)
{
    return op->land == TT_XNOWHERE
               ? NULL
               : p->own + op->land + op->stride * segment + (uint64_t)piece * TT_XPIECE;
}

/* Bytes, reference or WRITTEN: the top bits of the message number. */
static uint32_t form_of(const struct tt_event *ev)
{
    return ev->tag.message >> TT_XFORM_SHIFT;
}

/* Finds the piece that the tag names; false: there is none, or its length is wrong. Everything in a
 * tag comes from the peer and is checked here. The length of a reference is checked when it is
 * resolved. */
static bool locate(const struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev,
                   struct target *ret)
{
    const struct tt_xlane *lane = tt_exec_lane_find(p, pe->rank, ev->tag.channel);
    uint32_t segment = ev->tag.segment & 0xffff, piece = ev->tag.segment >> 16;
    uint32_t message = ev->tag.message & TT_XMESSAGE;
    if (!lane || message >= lane->n || segment >= p->segments)
        return false;
    uint32_t i = p->lane_ops[lane->first + message], task = i * p->segments + segment;
    const struct tt_xop *op = &p->ops[i];
    if (piece >= p->fresh[p->mode][task].left)
        return false;
    *ret = (struct target){.op = op,
                           .link = &p->links[lane->link],
                           .task = task,
                           .message = message,
                           .part = segment << 16 | piece,
                           .piece = op->piece + (uint64_t)segment * op->npieces + piece,
                           .land = landing(p, op, segment, piece),
                           .walk = tt_xwalk_piece(p, op, segment, piece)};
    assert(lane->link < p->nlinks && ret->piece < p->npieces);
    ret->state = &p->pieces[ret->piece];
    return form_of(ev) != TT_XFORM_BYTES || tt_xwalk_bytes(&ret->walk) == ev->bytes;
}

static bool is_ready(const struct tt_program *p, const struct target *t)
{
    return p->tasks[t->task].waits == 0;
}

/* The bytes are at `data`: uses them, or keeps them in the landing place until the operation is
 * ready. True: that completed the task. */
static bool receive_put(struct tt_program *p, const struct target *t, const void *data,
                        uint32_t bytes)
{
    assert(p->tasks[t->task].left > 0 && *t->state != TT_XTAKEN);
    if (is_ready(p, t)) {
        tt_exec_consume(p, t->op, &t->walk, data);
        *t->state = TT_XTAKEN;
        return --p->tasks[t->task].left == 0;
    }
    assert(t->land || !bytes);
    if (data != t->land && bytes)
        memcpy(t->land, data, bytes);
    *t->state = TT_XLANDED;
    return false;
}

/* Counts the piece, and runs what its task made possible if it completed it. Last, because the
 * program may end here. */
static void arrived(struct tt_engine *e, struct tt_program *p, const struct target *t,
                    uint64_t bytes, bool complete)
{
    assert(t->link->in_left > 0);
    t->link->in_left--;
    tt_exec_stats_arrived(e, t->link, (uint32_t)bytes);
    if (e->record)
        tt_exec_stats_piece(
            t->link, TT_RECORD_RECEIVE,
            &(struct tt_xnote){t->op->channel, t->message, t->part, bytes, tt_now_ns()});
    if (!complete)
        return;
    tt_exec_finish(p, t->task);
    tt_exec_work(e, p);
}

/* Checks fingerprint and tag of an arriving piece and finds its target. False: the engine has
 * failed. The salt is the link's, so the lane must be known before the fingerprint is compared. */
static bool receive_fits(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev,
                         struct target *ret)
{
    struct tt_engine *e = pe->context->engine;
    const struct tt_xlane *lane = tt_exec_lane_find(p, pe->rank, ev->tag.channel);
    if (ev->tag.fingerprint !=
        (lane ? p->fingerprint ^ p->links[lane->link].in_salt : p->fingerprint)) {
        tt_exec_mismatch(e, pe, p, ev->tag.fingerprint);
        return false;
    }
    if (locate(pe, p, ev, ret) && *ret->state == TT_XMISSING)
        return true;
    tt_exec_protocol(e, pe, p->seq);
    return false;
}

/* ---- pieces that stay where they are ---- */

/* The piece stays where it is until its reduction has run; for the receive that is all. True: that
 * completed the task. */
static bool receive_hold(struct tt_engine *e, struct tt_program *p, const struct target *t,
                         const struct tt_xkept *k)
{
    assert(*t->state == TT_XMISSING && t->op->held_by != TT_XNO && p->tasks[t->task].left > 0);
    p->refs[t->piece] = *k;
    e->held++;
    *t->state = TT_XHELD;
    return --p->tasks[t->task].left == 0;
}

/* Uses a kept reference now and tells its sender. True: that completed the task. False also when a
 * peer has aborted: then the engine has failed. */
static bool receive_use(struct tt_engine *e, struct tt_program *p, const struct target *t)
{
    if (!tt_exec_use(e, p, t->op, &t->walk, &p->refs[t->piece]))
        return false;
    tt_exec_give_back(e, p, t->piece);
    return --p->tasks[t->task].left == 0;
}

/* May the piece stay where it is until the reduction runs? In a window only if the rest of its
 * message has room there too: the reduction waits for all of it. */
static bool may_stay(const struct tt_engine *e, const struct tt_program *p, const struct target *t,
                     const struct tt_xkept *k)
{
    if (t->op->held_by == TT_XNO)
        return false;
    if (k->ref.kind == TT_XKIND_WINDOW)
        return tt_exec_window_holds(e, p->fresh[p->mode][t->task].left, TT_XPIECE);
    return p->ops[t->op->held_by].borrows >> p->mode & 1;
}

/* True: that completed the task. An offer that came with the operand is noted before the reduction
 * can run. */
static bool put_reference(struct tt_engine *e, struct tt_program *p, const struct target *t,
                          const struct tt_event *ev)
{
    struct tt_xkept k;
    if (!tt_exec_resolve(e, t->link->pe, ev, tt_xwalk_bytes(&t->walk), &k)) {
        tt_exec_protocol(e, t->link->pe, p->seq);
        return false;
    }
    if (may_stay(e, p, t, &k)) {
        tt_exec_offered(e, p, t->op, t->walk.segment, &k);
        return receive_hold(e, p, t, &k);
    }
    assert(*t->state == TT_XMISSING);
    p->refs[t->piece] = k;
    *t->state = TT_XKEPT;
    return is_ready(p, t) && receive_use(e, p, t);
}

/* The sender's reduction has written the piece into its place. */
static bool put_written(struct tt_program *p, const struct target *t)
{
    assert(*t->state == TT_XMISSING);
    *t->state = is_ready(p, t) ? TT_XTAKEN : TT_XWRITTEN;
    return is_ready(p, t) && --p->tasks[t->task].left == 0;
}

/* A piece that is not bytes; ev->data is a copy outside transport memory. What the message says
 * about this rank's own piece comes first: in place the result may have been written where that
 * piece was. */
static void receive_form(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    struct target t;
    const struct tt_xref *ref = ev->data;
    if (!receive_fits(pe, p, ev, &t))
        return;
    if (ev->bytes != sizeof *ref || !p->refs) {
        tt_exec_protocol(e, pe, p->seq);
        return;
    }
    if (ref->taken_kind != TT_XKIND_NONE)
        tt_exec_taken(e, pe, p->seq, ref);
    if (p->state != TT_XRUNNING)
        return;
    bool complete =
        form_of(ev) == TT_XFORM_WRITTEN ? put_written(p, &t) : put_reference(e, p, &t, ev);
    if (p->state == TT_XRUNNING)
        arrived(e, p, &t, tt_xwalk_bytes(&t.walk), complete);
}

/* May a payload stay in transport memory until its reduction runs? A ring frees memory in order, so
 * a message of many pieces would block itself behind its first ones; and half of a ring must stay
 * for everything else. */
static bool may_hold(struct tt_engine *e, const struct target *t, const struct tt_event *ev)
{
    return t->op->held_by != TT_XNO && t->op->npieces == 1 && ev->bytes &&
           e->held_bytes + ev->bytes <= TT_XHOLD;
}

/* For pieces from the stash: the caller owns ev->data. */
void tt_exec_receive_bytes(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev)
{
    struct target t;
    if (form_of(ev) != TT_XFORM_BYTES)
        receive_form(pe, p, ev);
    else if (receive_fits(pe, p, ev, &t))
        arrived(pe->context->engine, p, &t, ev->bytes, receive_put(p, &t, ev->data, ev->bytes));
}

/* For pieces in transport memory. A reference is copied and its frame released at once. Of a held
 * payload the frame is released by tt_exec_give_back. */
static void receive_data(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    struct target t;
    if (form_of(ev) != TT_XFORM_BYTES) {
        struct tt_event copy = *ev;
        struct tt_xref ref = {0};
        if (ev->bytes == sizeof ref)
            memcpy(&ref, ev->data, sizeof ref);
        copy.data = &ref;
        e->transport->ops->release(e->transport, ev);
        receive_form(pe, p, &copy);
        return;
    }
    bool ok = receive_fits(pe, p, ev, &t);
    if (ok && may_hold(e, &t, ev)) {
        e->held_bytes += ev->bytes;
        arrived(e, p, &t, ev->bytes,
                receive_hold(e, p, &t,
                             &(struct tt_xkept){
                                 .data = ev->data, .pe = pe, .bytes = ev->bytes, .frame = true}));
        return;
    }
    bool complete = ok && receive_put(p, &t, ev->data, ev->bytes);
    e->transport->ops->release(e->transport, ev);
    if (ok)
        arrived(e, p, &t, ev->bytes, complete);
}

/* ---- large payloads on sockets ---- */

/* Describes the destination itself, if the operation is ready, the bytes need no work and the
 * fragments are few enough; otherwise 0. */
static int direct_places(struct tt_program *p, const struct target *t, struct iovec *iov)
{
    struct tt_xwalk w = t->walk;
    struct tt_xfrag f;
    int n = 0;
    if (!is_ready(p, t) || t->op->kind != TT_OP_RECV || t->op->divides)
        return 0;
    while (tt_xwalk_next(&w, &f)) {
        if (n == TT_IOV_MAX)
            return 0;
        iov[n++] = (struct iovec){.iov_base = tt_xat(p, &f, 0),
                                  .iov_len = (size_t)f.elems << p->elem_shift};
    }
    *t->state = TT_XDIRECT;
    return n;
}

/* A stage if the operation is ready and one is free, else the landing place. compile.c has given
 * one to every receive that can come here. */
static int buffer_place(struct tt_engine *e, struct tt_program *p, const struct target *t,
                        uint32_t bytes, struct iovec *iov)
{
    void *to = t->land;
    *t->state = TT_XLANDING;
    assert(bytes <= TT_XPIECE && e->nfree_stages <= TT_XSTAGES);
    if (is_ready(p, t) && e->nfree_stages > 0) {
        uint8_t stage = e->free_stage[--e->nfree_stages];
        *t->state = (uint8_t)(TT_XSTAGED + stage);
        to = e->stages + (size_t)stage * TT_XPIECE;
    }
    assert(to);
    iov[0] = (struct iovec){.iov_base = to, .iov_len = bytes};
    return 1;
}

/* Answers an announced payload. While it is being filled the peer must not be taken for ended:
 * `filling` counts such pieces. */
static void receive_header(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    struct iovec iov[TT_IOV_MAX];
    struct target t;
    if (!receive_fits(pe, p, ev, &t))
        return;
    int n = direct_places(p, &t, iov);
    if (n == 0)
        n = buffer_place(e, p, &t, ev->bytes, iov);
    tutti_status st = e->transport->ops->accept(e->transport, ev->peer, ev->stream, iov, n);
    if (st && st != TUTTI_ERR_IO)
        tt_exec_protocol(e, pe, p->seq);
    pe->filling += !st;
}

/* An accepted payload is complete. A piece that was accepted before its request was started is
 * found in the stash: its state here is still MISSING. */
void tt_exec_received(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    struct tt_program *p = tt_exec_find(pe->context, ev->tag.request);
    struct target t;
    pe->filling--;
    if (!p || !locate(pe, p, ev, &t) || *t.state == TT_XMISSING) {
        tt_exec_stash_received(pe, ev);
        return;
    }
    bool complete = false;
    if (*t.state == TT_XDIRECT) {
        *t.state = TT_XTAKEN;
        complete = --p->tasks[t.task].left == 0;
    } else if (*t.state == TT_XLANDING) {
        complete = receive_put(p, &t, t.land, ev->bytes);
    } else {
        assert(*t.state >= TT_XSTAGED);
        uint8_t stage = (uint8_t)(*t.state - TT_XSTAGED);
        assert(stage < TT_XSTAGES && e->nfree_stages < TT_XSTAGES);
        complete = receive_put(p, &t, e->stages + (size_t)stage * TT_XPIECE, ev->bytes);
        e->free_stage[e->nfree_stages++] = stage;
    }
    arrived(e, p, &t, ev->bytes, complete);
}

/* ---- */

/* An event of a running program goes to it; one of a later request to the stash. False: the stash
 * has no room, and the caller keeps the event. */
bool tt_exec_receive(struct tt_xpeer *pe, const struct tt_event *ev)
{
    const struct tt_context *x = pe->context;
    struct tt_engine *e = x->engine;
    struct tt_program *p = tt_exec_find(x, ev->tag.request);
    bool data = ev->kind == TT_EV_DATA;
    if (p) {
        if (data)
            receive_data(pe, p, ev);
        else
            receive_header(pe, p, ev);
        return true;
    }
    if (x->any && !tt_xlater(ev->tag.request, x->seq)) { /* its request has received everything */
        tt_exec_protocol(e, pe, ev->tag.request);
        if (data)
            e->transport->ops->release(e->transport, ev);
        return true;
    }
    if (!data)
        return tt_exec_stash_accept(pe, ev);
    if (!tt_exec_stash_data(pe, ev))
        return false;
    e->transport->ops->release(e->transport, ev);
    return true;
}

/* Pieces that are still missing, or being received, are used when they are complete: the task is
 * ready now. The loop stops when a use fails the engine. */
bool tt_exec_receive_landed(struct tt_engine *e, struct tt_program *p, uint32_t task)
{
    const uint32_t i = tt_xtask_op(p, task), segment = task - i * p->segments;
    const struct tt_xop *op = &p->ops[i];
    assert(p->tasks[task].waits == 0);
    uint8_t *state = &p->pieces[op->piece + (uint64_t)segment * op->npieces];
    for (uint32_t k = 0; k < op->npieces && p->state == TT_XRUNNING; k++) {
        uint64_t piece = op->piece + (uint64_t)segment * op->npieces + k;
        if (state[k] != TT_XLANDED && state[k] != TT_XKEPT && state[k] != TT_XWRITTEN)
            continue;
        const struct tt_xwalk w = tt_xwalk_piece(p, op, segment, k);
        if (state[k] == TT_XKEPT) {
            if (!tt_exec_use(e, p, op, &w, &p->refs[piece]))
                return false;
            tt_exec_give_back(e, p, piece);
        } else {
            if (state[k] == TT_XLANDED)
                tt_exec_consume(p, op, &w, landing(p, op, segment, k));
            state[k] = TT_XTAKEN;
        }
        assert(p->tasks[task].left > 0);
        p->tasks[task].left--;
    }
    return p->state == TT_XRUNNING && p->tasks[task].left == 0;
}
