/* refs.c - pieces by reference: the sender says where the bytes are, the receiver uses them there.
 *
 *     memory of the piece        reference    the receiver                        the sender's piece is done
 *     heap (tutti_mem)           HEAP         loads from the sender's memory      with TAKEN
 *     ordinary                   WINDOW       loads from the sender's window      at once: it was copied there (window.c)
 *
 * With a reference goes what else the peer must know: the place where it may write the result
 * (reduce.c), or that its own operand was taken, which otherwise is a message of its own.
 *
 * Short pieces and pieces of several fragments go as bytes. A piece that finds no room in the
 * window waits for it, unless nothing moves any more: then it goes as bytes too. TAKEN follows when
 * the operation has used the piece; it carries back what names it at its sender. A full ring delays
 * it: the piece is owed, and a program is not done before it has paid.
 *
 * A sender waits while a reduction holds its memory, a ring has no room behind a frame that is
 * held, and the reduction may wait for what that sender does next: when nothing moves any more,
 * held pieces are copied to where their receives put them, and given back (tt_exec_let_go).
 *
 * A peer that fails may change what it referred to: after reading its own memory (not its window)
 * one looks for an abort (direct.h). */
#include <string.h>

#include "exec/exec_int.h"

/* Longer than other ranks may have the core. */
static const uint64_t STALL_NS = 20000000;

static struct tt_xslot key_of(const struct tt_xlink *l, uint32_t task)
{
    const struct tt_program *p = l->program;
    uint32_t i = tt_xtask_op(p, task), group = p->ops[i].group == TT_XNO ? i : p->ops[i].group;
    bool shared = p->ops[i].group != TT_XNO && p->ops[group].nsends > 1;
    return (struct tt_xslot){.program = p,
                             .seq = p->seq,
                             .group = group,
                             .piece = l->piece << 16 | (task - i * p->segments),
                             .near = shared ? TT_XNO : l->place};
}

/* How many sends of the piece's group have gone; NULL: it is the only one. */
static uint16_t *sent_of(const struct tt_xlink *l, uint32_t task)
{
    const struct tt_program *p = l->program;
    uint32_t i = tt_xtask_op(p, task), group = p->ops[i].group;
    if (group == TT_XNO || p->ops[group].sent == TT_XNO)
        return NULL;
    return &p->sent[p->ops[group].sent + (task - i * p->segments) * p->ops[group].npieces +
                    l->piece];
}

static bool take_window(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                        const struct iovec *iov, struct tt_xref *ret)
{
    struct tt_xslot key = key_of(l, task), *s = tt_exec_window_find(e, &key);
    if (!s) {
        const uint16_t *sent = sent_of(l, task);
        s = tt_exec_window_take(e, &key, iov->iov_len,
                                sent ? l->program->ops[key.group].nsends - *sent : 1);
        if (!s)
            return false;
        memcpy(tt_exec_window_at(e, s), iov->iov_base, iov->iov_len);
    }
    *ret = (struct tt_xref){
        .at = s->unit * e->unit_bytes, .kind = TT_XKIND_WINDOW, .slot = (uint8_t)s->unit};
    return true;
}

/* Nothing has come for so long that waiting for room may be waiting for oneself: peers take pieces
 * in an order of their own. What moves for other contexts does not count: theirs may never stand
 * still. */
static bool is_stalled(struct tt_context *x)
{
    const struct tt_engine *e = x->engine;
    bool alone = e->nrunning == x->nrunning;
    if (alone && !e->idle_since)
        return false;
    uint64_t now = tt_now_ns();
    if (alone || (e->idle_since && now - e->idle_since > STALL_NS))
        return now - e->idle_since > STALL_NS;
    if (!x->still_ns || x->still_moved != x->moved) {
        x->still_ns = now;
        x->still_moved = x->moved;
    }
    return now - x->still_ns > STALL_NS;
}

tutti_status tt_exec_refer(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                           const struct iovec *iov, struct tt_xref *ret)
{
    if (l->place == TT_NO_PLACE || iov->iov_len < e->ref_bytes)
        return TUTTI_ERR_REFUSED;
    bool heap = tt_direct_owns(e->direct, iov->iov_base, iov->iov_len);
    if (heap) {
        *ret = (struct tt_xref){.at = (uintptr_t)iov->iov_base,
                                .cookie = (uint64_t)(l->program->slot + 1) << 32 | task,
                                .kind = TT_XKIND_HEAP};
        return TUTTI_OK;
    }
    if (!e->unit_bytes || iov->iov_len > e->unit_bytes * TT_XUNITS)
        return TUTTI_ERR_REFUSED;
    if (take_window(e, l, task, iov, ret))
        return TUTTI_OK;
    return is_stalled(l->program->context) ? TUTTI_ERR_REFUSED : TUTTI_IN_PROGRESS;
}

void tt_exec_referred(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                      const struct tt_xref *ref)
{
    uint16_t *sent = sent_of(l, task);
    bool window = ref && ref->kind == TT_XKIND_WINDOW;
    struct tt_xslot key, *s = NULL;
    if (window) {
        s = &e->slots_out[ref->slot];
    } else if (sent && ~e->units) {
        key = key_of(l, task);
        s = tt_exec_window_find(e, &key);
    }
    if (s)
        tt_exec_window_sent(e, s, window);
    if (sent)
        (*sent)++;
}

bool tt_exec_resolve(const struct tt_engine *e, struct tt_xpeer *pe, const struct tt_event *ev,
                     uint64_t bytes, struct tt_xkept *ret)
{
    uint32_t place = e->places ? e->places[pe->world] : TT_NO_PLACE;
    *ret = (struct tt_xkept){.pe = pe, .bytes = (uint32_t)bytes};
    if (place == TT_NO_PLACE || ev->bytes != sizeof ret->ref)
        return false;
    memcpy(&ret->ref, ev->data, sizeof ret->ref);
    const struct tt_xref *r = &ret->ref;
    if (r->kind == TT_XKIND_WINDOW && r->at <= tt_direct_stream_bytes(e->direct) &&
        bytes <= tt_direct_stream_bytes(e->direct) - r->at)
        ret->data = (char *)tt_direct_stream(e->direct, place) + r->at;
    else if (r->kind == TT_XKIND_HEAP)
        ret->data = tt_direct_resolve(e->direct, place, r->at, bytes);
    return ret->data;
}

void tt_exec_lost(struct tt_engine *e, uint32_t world)
{
    tt_exec_fault(e, &(struct tt_exec_engine_fault){.kind = TT_FAULT_CLOSED, .peer = world});
}

bool tt_exec_use(struct tt_engine *e, struct tt_program *p, const struct tt_xop *op,
                 const struct tt_xwalk *w, const struct tt_xkept *k)
{
    tt_exec_consume(p, op, w, k->data);
    if (k->ref.kind == TT_XKIND_WINDOW || !tt_direct_aborted(e->direct))
        return true;
    tt_exec_lost(e, k->pe->world);
    return false;
}

/* ---- telling the sender ---- */

static struct tt_xref taken_of(const struct tt_xkept *k)
{
    return (struct tt_xref){.extra = k->ref.cookie, .taken_kind = k->ref.kind};
}

static tutti_status refs_tell(const struct tt_program *p, const struct tt_xkept *k)
{
    const struct tt_xref taken = taken_of(k);
    const struct tt_tag tag = {.fingerprint = p->fingerprint,
                               .request = p->seq,
                               .comm = k->pe->comm,
                               .channel = TT_XCH_TAKEN};
    return tt_exec_send_control(k->pe, &tag, &taken, sizeof taken);
}

static void forget_slots(struct tt_engine *e, struct tt_xnear *n)
{
    n->taken = n->taken_bytes = 0;
    e->ntaken--;
}

static void tell_slots(struct tt_engine *e, struct tt_xnear *n)
{
    struct tt_xref taken = {.extra = n->taken, .taken_kind = TT_XKIND_WINDOW};
    const struct tt_tag tag = {.comm = TT_XCOMM_NONE, .channel = TT_XCH_TAKEN};
    const struct iovec iov = {.iov_base = &taken, .iov_len = sizeof taken};
    if (e->transport->ops->send(e->transport, n->rank, &tag, &iov, 1, 0) !=
        TUTTI_IN_PROGRESS) /* to a rank that has ended nothing is owed */
        forget_slots(e, n);
}

void tt_exec_tell_slots(struct tt_engine *e)
{
    for (uint32_t place = 0; e->ntaken && place < tt_direct_nlocal(e->direct); place++)
        if (e->near[place].taken)
            tell_slots(e, &e->near[place]);
}

/* A slot is told with whatever goes to its owner next, unless the owner may soon need it. */
static void note_slot(struct tt_engine *e, const struct tt_xkept *k)
{
    struct tt_xnear *n = &e->near[e->places[k->pe->world]];
    e->ntaken += n->taken == 0;
    n->taken |= UINT64_C(1) << k->ref.slot;
    n->taken_bytes += k->bytes;
    if (n->taken_bytes * 4 * (tt_direct_nlocal(e->direct) - 1) >= tt_direct_stream_bytes(e->direct))
        tell_slots(e, n);
}

static struct tt_xoffer *offer_of(const struct tt_xlink *l, uint32_t task)
{
    const struct tt_program *p = l->program;
    uint32_t i = tt_xtask_op(p, task);
    return p->ops[i].offer == TT_XNO ? NULL
                                     : &p->offers[p->ops[i].offer + (task - i * p->segments)];
}

void tt_exec_settle(const struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                    struct tt_xref *ref)
{
    const struct tt_xoffer *o = offer_of(l, task);
    struct tt_xref taken = {.extra = e->near[l->place].taken, .taken_kind = TT_XKIND_WINDOW};
    if (o && o->debt)
        taken = taken_of(&l->program->refs[o->debt - 1]);
    if (!taken.extra || ref->extra)
        return;
    ref->extra = taken.extra;
    ref->taken_kind = taken.taken_kind;
}

void tt_exec_settled(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                     const struct tt_xref *ref)
{
    struct tt_xoffer *o = offer_of(l, task);
    if (ref && ref->taken_kind == TT_XKIND_WINDOW)
        forget_slots(e, &e->near[l->place]);
    if (!o || !o->debt)
        return;
    uint64_t piece = o->debt - 1;
    o->debt = 0;
    if (ref && ref->taken_kind != TT_XKIND_NONE && ref->taken_kind != TT_XKIND_WINDOW)
        l->program->pieces[piece] = TT_XTAKEN;
    else
        tt_exec_give_back(e, l->program, piece);
}

void tt_exec_give_back(struct tt_engine *e, struct tt_program *p, uint64_t piece)
{
    const struct tt_xkept *k = &p->refs[piece];
    e->held -= p->pieces[piece] == TT_XHELD;
    p->pieces[piece] = TT_XTAKEN;
    if (k->frame) {
        e->held_bytes -= k->bytes;
        e->transport->ops->release(e->transport, &(struct tt_event){.kind = TT_EV_DATA,
                                                                    .peer = k->pe->world,
                                                                    .bytes = k->bytes,
                                                                    .data = k->data});
        return;
    }
    if (k->ref.kind == TT_XKIND_WINDOW) {
        note_slot(e, k);
        return;
    }
    if (refs_tell(p, k) != TUTTI_IN_PROGRESS)
        return;
    p->pieces[piece] = TT_XOWED;
    e->owing += p->owed++ == 0;
}

static void pay(struct tt_engine *e, struct tt_program *p)
{
    for (uint64_t i = 0; i < p->npieces && p->owed; i++) {
        if (p->pieces[i] != TT_XOWED || refs_tell(p, &p->refs[i]) == TUTTI_IN_PROGRESS)
            continue;
        p->pieces[i] = TT_XTAKEN;
        e->owing -= --p->owed == 0;
    }
}

bool tt_exec_pay(struct tt_engine *e)
{
    uint32_t before = e->owing;
    for (uint32_t i = 0; i < e->max_requests && e->owing && !e->failed; i++) {
        struct tt_program *p = e->slots[i];
        if (!p || !p->owed)
            continue;
        pay(e, p);
        tt_exec_work(e, p);
    }
    return e->owing != before;
}

/* Its receive is carried out after all: the reduction finds the bytes in their place. */
static void land(struct tt_engine *e, struct tt_program *p, const struct tt_xop *op,
                 uint32_t segment)
{
    for (uint32_t k = 0; k < op->npieces && !e->failed; k++) {
        uint64_t piece = op->piece + (uint64_t)segment * op->npieces + k;
        const struct tt_xwalk w = tt_xwalk_piece(p, op, segment, k);
        if (p->pieces[piece] == TT_XHELD && tt_exec_use(e, p, op, &w, &p->refs[piece]))
            tt_exec_give_back(e, p, piece);
    }
}

static void let_go(struct tt_context *x)
{
    struct tt_engine *e = x->engine;
    for (uint32_t s = 0; s < e->max_requests && !e->failed; s++) {
        struct tt_program *p = e->slots[s];
        for (uint32_t i = 0; p && p->context == x && p->refs && i < p->nops; i++)
            for (uint32_t k = 0; p->ops[i].held_by != TT_XNO && k < p->segments && !e->failed; k++)
                land(e, p, &p->ops[i], k);
    }
}

bool tt_exec_let_go(struct tt_engine *e)
{
    uint32_t before = e->held;
    for (uint32_t i = 0; e->held && i < e->ncontexts && !e->failed; i++)
        if (e->contexts[i] && e->contexts[i]->nrunning && is_stalled(e->contexts[i]))
            let_go(e->contexts[i]);
    return e->held != before;
}

void tt_exec_taken_slots(struct tt_engine *e, uint32_t world, uint64_t slots)
{
    for (; slots; slots &= slots - 1)
        if (!tt_exec_window_taken(e, (uint32_t)__builtin_ctzll(slots)))
            tt_exec_fault(e,
                          &(struct tt_exec_engine_fault){.kind = TT_FAULT_PROTOCOL, .peer = world});
}

void tt_exec_taken(struct tt_engine *e, struct tt_xpeer *pe, uint32_t seq,
                   const struct tt_xref *ref)
{
    uint64_t slot = (ref->extra >> 32) - 1;
    uint32_t task = (uint32_t)ref->extra;
    if (ref->taken_kind == TT_XKIND_WINDOW) {
        tt_exec_taken_slots(e, pe->world, ref->extra);
        return;
    }
    const struct tt_program *p = slot < e->max_requests ? e->slots[slot] : NULL;
    bool known = p && p->context == pe->context && p->seq == seq && task < p->ntasks &&
                 p->tasks[task].left && p->ops[tt_xtask_op(p, task)].kind == TT_OP_SEND;
    if (known)
        tt_exec_sent(
            e, &(struct tt_event){.kind = TT_EV_SENT, .peer = pe->world, .cookie = ref->extra});
    else
        tt_exec_protocol(e, pe, seq);
}
