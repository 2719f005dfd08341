/* refs.c - sends pieces by reference: the sender says where the bytes are, the receiver uses them
 * there.
 *
 *     memory of the piece     reference   the receiver loads from   the sender's piece is done
 *     heap (tutti_mem_alloc)  HEAP        the sender's heap         when TAKEN comes
 *     other                   WINDOW      the sender's window       at once: it was copied there
 *
 * A reference also carries what else its receiver must know: the place where it may write a result
 * (reduce.c), or that an operand of its own was taken, which would otherwise be a message by
 * itself.
 *
 * Short pieces and pieces of several fragments go as bytes. A piece that finds no room in the
 * window waits for it; if nothing moves any more it goes as bytes too. The receiver sends TAKEN
 * when its operation has used the piece; TAKEN returns the cookie (HEAP) or the slots (WINDOW) of
 * the reference. If the ring is full the piece is owed, and the program is not done before it has
 * been told.
 *
 * Deadlock. A sender waits while a reduction holds its memory, and a ring has no room behind a
 * frame that is held; that reduction may wait for what the same sender does next. So when nothing
 * has moved for STALL_NS, held pieces are copied to where their receives put them, and given back
 * (tt_exec_let_go).
 *
 * A peer that fails may change memory that it referred to. Therefore a rank checks for an abort
 * (direct.h) after it has read a peer's heap; windows are never given back to the program and need
 * no check. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

/* Longer than other ranks usually keep a core. */
static const uint64_t STALL_NS = 20000000;
static_assert(TT_XUNITS <= UINT8_MAX + 1, "a reference names its slot in 8 bits");

/* The key of a piece's window copy. All sends of a group share it, and with it the copy. */
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

/* The counter of sends of this piece that have gone, over its group; NULL: the piece has one send
 * only. */
static uint16_t *sent_of(const struct tt_xlink *l, uint32_t task)
{
    const struct tt_program *p = l->program;
    uint32_t i = tt_xtask_op(p, task), group = p->ops[i].group;
    if (group == TT_XNO || p->ops[group].sent == TT_XNO)
        return NULL;
    assert(l->piece < p->ops[group].npieces && p->ops[group].sent < p->nsent);
    return &p->sent[p->ops[group].sent + (task - i * p->segments) * p->ops[group].npieces +
                    l->piece];
}

/* Refers to the piece's copy in the window and makes it if there is none yet. It is made for the
 * sends of the group that are still to come. False: no room. */
static bool take_window(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                        const struct iovec *iov, struct tt_xref *ret)
{
    struct tt_xslot key = key_of(l, task), *s = tt_exec_window_find(e, &key);
    if (!s) {
        const uint16_t *sent = sent_of(l, task);
        assert(!sent || *sent < l->program->ops[key.group].nsends);
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

/* Has nothing moved for so long that waiting for room may be waiting for this rank itself? Peers
 * take pieces in an order of their own. If only this context runs, the engine's idle time answers
 * it; otherwise what moves for other contexts does not count, since that may never stop. */
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

/* Memory of the heap is referred to as it is; the cookie names program slot and task, like that of
 * a send. Other memory needs a window with room. */
tutti_status tt_exec_refer(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                           const struct iovec *iov, struct tt_xref *ret)
{
    if (l->place == TT_NO_PLACE || iov->iov_len < e->ref_bytes)
        return TUTTI_ERR_REFUSED;
    bool heap = tt_direct_owns(e->direct, iov->iov_base, iov->iov_len);
    if (heap) {
        assert(l->program->slot < e->max_requests);
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

/* A piece of a group may have gone in another form (bytes, WRITTEN) although a copy for the group
 * exists: that send no longer needs the copy. */
void tt_exec_referred(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                      const struct tt_xref *ref)
{
    uint16_t *sent = sent_of(l, task);
    bool window = ref && ref->kind == TT_XKIND_WINDOW;
    struct tt_xslot key, *s = NULL;
    if (window) {
        assert(ref->slot < TT_XUNITS);
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

/* The reference comes from the peer: its range is checked against the peer's window or heap before
 * it becomes a pointer. */
bool tt_exec_resolve(const struct tt_engine *e, struct tt_xpeer *pe, const struct tt_event *ev,
                     uint64_t bytes, struct tt_xkept *ret)
{
    uint32_t place = e->places ? e->places[pe->world] : TT_NO_PLACE;
    *ret = (struct tt_xkept){.pe = pe, .bytes = (uint32_t)bytes};
    if (place == TT_NO_PLACE || ev->bytes != sizeof ret->ref)
        return false;
    memcpy(&ret->ref, ev->data, sizeof ret->ref);
    const struct tt_xref *r = &ret->ref;
    if (r->kind == TT_XKIND_WINDOW && r->slot < TT_XUNITS &&
        r->at <= tt_direct_stream_bytes(e->direct) &&
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

/* The check follows the read: only then it proves that the peer had not aborted while its memory
 * was read. */
bool tt_exec_use(struct tt_engine *e, struct tt_program *p, const struct tt_xop *op,
                 const struct tt_xwalk *w, const struct tt_xkept *k)
{
    assert(k->data || !k->bytes);
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

/* TAKEN of a piece in a heap, as a message of its own. */
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
    assert(e->ntaken > 0 && n->taken);
    n->taken = n->taken_bytes = 0;
    e->ntaken--;
}

/* Sends TAKEN for all taken window slots of one local rank. Slots belong to no context. */
static void tell_slots(struct tt_engine *e, struct tt_xnear *n)
{
    struct tt_xref taken = {.extra = n->taken, .taken_kind = TT_XKIND_WINDOW};
    const struct tt_tag tag = {.comm = TT_XCOMM_NONE, .channel = TT_XCH_TAKEN};
    const struct iovec iov = {.iov_base = &taken, .iov_len = sizeof taken};
    if (e->transport->ops->send(e->transport, n->rank, &tag, &iov, 1, 0) !=
        TUTTI_IN_PROGRESS) /* an error means that the rank has ended: nothing is owed to it */
        forget_slots(e, n);
}

void tt_exec_tell_slots(struct tt_engine *e)
{
    for (uint32_t place = 0; e->ntaken && place < tt_direct_nlocal(e->direct); place++)
        if (e->near[place].taken)
            tell_slots(e, &e->near[place]);
}

/* A taken slot is reported with the next piece to its owner; at once when the slots not yet
 * reported are a quarter of one peer's equal share of the window. */
static void note_slot(struct tt_engine *e, const struct tt_xkept *k)
{
    struct tt_xnear *n = &e->near[e->places[k->pe->world]];
    assert(e->places[k->pe->world] != TT_NO_PLACE && k->ref.slot < TT_XUNITS);
    e->ntaken += n->taken == 0;
    n->taken |= UINT64_C(1) << k->ref.slot;
    n->taken_bytes += k->bytes;
    if (n->taken_bytes * 4 * (tt_direct_nlocal(e->direct) - 1) >= tt_direct_stream_bytes(e->direct))
        tell_slots(e, n);
}

/* The offer entry of a send's segment; NULL: no reduction may write for it. */
static struct tt_xoffer *offer_of(const struct tt_xlink *l, uint32_t task)
{
    const struct tt_program *p = l->program;
    uint32_t i = tt_xtask_op(p, task);
    return p->ops[i].offer == TT_XNO ? NULL
                                     : &p->offers[p->ops[i].offer + (task - i * p->segments)];
}

/* `extra` has room for one thing: an offer, if there is one, has come first. */
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

/* The piece has gone with what its reference carried. A debt that it could not carry is told by a
 * message of its own. */
void tt_exec_settled(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                     const struct tt_xref *ref)
{
    struct tt_xoffer *o = offer_of(l, task);
    if (ref && ref->taken_kind == TT_XKIND_WINDOW)
        forget_slots(e, &e->near[l->place]);
    if (!o || !o->debt)
        return;
    assert(o->debt <= l->program->npieces);
    uint64_t piece = o->debt - 1;
    o->debt = 0;
    if (ref && ref->taken_kind != TT_XKIND_NONE && ref->taken_kind != TT_XKIND_WINDOW)
        l->program->pieces[piece] = TT_XTAKEN;
    else
        tt_exec_give_back(e, l->program, piece);
}

/* The piece has been used: its frame is released, its slot noted, or its sender told. If the ring
 * is full the piece is OWED, and tt_exec_pay tries again. */
void tt_exec_give_back(struct tt_engine *e, struct tt_program *p, uint64_t piece)
{
    const struct tt_xkept *k = &p->refs[piece];
    assert(piece < p->npieces && p->pieces[piece] != TT_XMISSING && p->pieces[piece] != TT_XOWED);
    assert(p->pieces[piece] != TT_XHELD || e->held > 0);
    e->held -= p->pieces[piece] == TT_XHELD;
    p->pieces[piece] = TT_XTAKEN;
    if (k->frame) {
        assert(e->held_bytes >= k->bytes);
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

/* Tries all owed pieces of a program. */
static void pay(struct tt_engine *e, struct tt_program *p)
{
    for (uint64_t i = 0; i < p->npieces && p->owed; i++) {
        if (p->pieces[i] != TT_XOWED || refs_tell(p, &p->refs[i]) == TUTTI_IN_PROGRESS)
            continue;
        p->pieces[i] = TT_XTAKEN;
        assert(e->owing > 0);
        e->owing -= --p->owed == 0;
    }
}

/* tt_exec_work ends programs that were only waiting for this. */
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

/* Carries out a held receive after all: the reduction then finds the bytes in its own place
 * (reduce.c looks at the piece's state). */
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

/* Lands every held piece of the context's programs. */
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

/* The bits come from a peer: naming a slot that no peer has a reference to is a fault. */
void tt_exec_taken_slots(struct tt_engine *e, uint32_t world, uint64_t slots)
{
    for (; slots; slots &= slots - 1)
        if (!tt_exec_window_taken(e, (uint32_t)__builtin_ctzll(slots)))
            tt_exec_fault(e,
                          &(struct tt_exec_engine_fault){.kind = TT_FAULT_PROTOCOL, .peer = world});
}

/* The cookie comes back from a peer: it must name a send of the same request that is not done. Then
 * it is the same as TT_EV_SENT. */
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
