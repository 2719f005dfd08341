/* reduce.c - n-ary reductions whose operands and results are where they are wanted.
 *
 *     operands   a held piece (at its sender, in its window or in transport memory); an own place
 *     results    the own place; the places that peers offered; a copy in the own window for peers
 *                that get a reference
 *
 *     3 ranks, rank 0, all in the heap:  in[0] + in[1] + in[2] -> out[0], out[1], out[2]
 *                                        one pass, then WRITTEN to 1 and 2
 *                      other memory:     in[0] + w[1] + w[2] -> out[0], window
 *                                        one pass, then references to 1 and 2
 *
 * An offer comes with the operand (lower.c). A peer that makes none gets a reference, which costs
 * it one copy.
 *
 * Writing into a peer's memory needs a lease (direct_quit.c): a peer that aborts waits for it to
 * end before it uses its memory again. Operands are given back when the whole segment has been
 * reduced. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

/* ---- offers ---- */

/* Where a receive's segment lies, if that is one run; otherwise NULL. */
static char *place_of(const struct tt_program *p, const struct tt_xop *op, uint32_t segment,
                      uint64_t *ret_bytes)
{
    struct tt_xwalk w = {
        .p = p, .word = p->code + op->code, .width = op->width, .segment = segment};
    struct tt_xfrag f;
    *ret_bytes = tt_exec_op_bytes(p, op, segment);
    w.want = *ret_bytes >> p->elem_shift;
    if (!w.want || !tt_xwalk_next(&w, &f) || w.want)
        return NULL;
    return tt_xat(p, &f, 0);
}

/* Nothing has been offered or sent in this run. */
void tt_exec_offers_clear(struct tt_program *p)
{
    if (p->noffers)
        memset(p->offers, 0, p->noffers * sizeof *p->offers);
    if (p->nsent)
        memset(p->sent, 0, p->nsent * sizeof *p->sent);
}

/* Only memory of the heap can be offered: peers map nothing else. */
void tt_exec_offer(const struct tt_engine *e, const struct tt_program *p, const struct tt_xop *send,
                   uint32_t segment, struct tt_xref *ref)
{
    if (send->answer == TT_XNO || !(p->ops[send->answer].offers >> p->mode & 1))
        return;
    const struct tt_xop *recv = &p->ops[send->answer];
    uint64_t bytes;
    const char *at = place_of(p, recv, segment, &bytes);
    if (!at || !tt_direct_owns(e->direct, at, (size_t)bytes))
        return;
    ref->extra = (uintptr_t)at;
    ref->message = recv->message;
}

/* Notes the place that came with a held operand, if it is for the send that answers it. A place
 * that cannot be reached resolves to NULL, which is no offer. */
void tt_exec_offered(const struct tt_engine *e, struct tt_program *p, const struct tt_xop *recv,
                     uint32_t segment, const struct tt_xkept *k)
{
    const struct tt_xop *send = recv->answer == TT_XNO ? NULL : &p->ops[recv->answer];
    if (!send || !k->ref.extra || k->ref.taken_kind != TT_XKIND_NONE ||
        send->message != k->ref.message)
        return;
    assert(send->kind == TT_OP_SEND && send->offer + segment < p->noffers);
    p->offers[send->offer + segment].to = tt_direct_resolve(
        e->direct, e->places[k->pe->world], k->ref.extra, tt_exec_op_bytes(p, send, segment));
}

/* ---- one reduction ---- */

/* One segment of a reduction; `piece` moves over it. */
struct job {
    struct tt_engine *e;
    struct tt_program *p;
    const struct tt_xop *op;
    uint32_t segment, piece;
    bool reads;  /* memory of peers that they may take back */
    bool copied; /* the result can be sent without waiting for room */
};

/* The number of the current piece in tt_program.pieces, for a receive that brings it. */
static uint64_t piece_number(const struct job *j, const struct tt_xop *recv)
{
    return recv->piece + (uint64_t)j->segment * recv->npieces + j->piece;
}

/* Operand w of the current piece, if it is held; NULL: it is where the program says, because no
 * receive was marked, or because the piece has landed meanwhile. */
static const struct tt_xkept *held(const struct job *j, uint32_t w, uint64_t *ret_piece)
{
    uint32_t recv = j->op->holds == TT_XNO ? TT_XNO : j->p->holds[j->op->holds + w];
    if (recv == TT_XNO)
        return NULL;
    assert(j->p->ops[recv].kind == TT_OP_RECV && j->piece < j->p->ops[recv].npieces);
    *ret_piece = piece_number(j, &j->p->ops[recv]);
    return j->p->pieces[*ret_piece] == TT_XHELD ? &j->p->refs[*ret_piece] : NULL;
}

/* Fills p->from[w] with the held operands of the current piece, NULL where not held. Heaps of peers
 * need a check for an abort after reading (`reads`). */
static void get_operands(struct job *j)
{
    struct tt_program *p = j->p;
    for (uint32_t w = 0; w + 1 < j->op->width; w++) {
        uint64_t piece;
        const struct tt_xkept *k = held(j, w, &piece);
        p->from[w] = k ? k->data : NULL;
        j->reads = j->reads || (k && !k->frame && k->ref.kind != TT_XKIND_WINDOW);
    }
}

/* An operand whose sender gets the result at once is given back with that send: true, and the send
 * has the debt. Only if the send needs no room first: otherwise the peer would wait for both. */
static bool tell_later(const struct job *j, uint32_t w, const struct tt_xkept *k, uint64_t piece)
{
    struct tt_program *p = j->p;
    uint32_t send = p->ops[p->holds[j->op->holds + w]].answer;
    struct tt_xoffer *o = send == TT_XNO ? NULL : &p->offers[p->ops[send].offer + j->segment];
    if (!o || k->frame || k->ref.kind == TT_XKIND_WINDOW || !(o->written || j->copied))
        return false;
    assert(!o->debt && j->e->held > 0);
    o->debt = piece + 1;
    p->pieces[piece] = TT_XTAKEN;
    j->e->held--;
    return true;
}

/* Gives back the operands of the current piece. `single`: the segment is one piece; only then the
 * debt of a send, which has one entry per segment, names them all. */
static void give_back(struct job *j, bool single)
{
    uint64_t piece;
    for (uint32_t w = 0; w + 1 < j->op->width; w++) {
        const struct tt_xkept *k = held(j, w, &piece);
        if (k && !(single && tell_later(j, w, k, piece)))
            tt_exec_give_back(j->e, j->p, piece);
    }
}

/* Adds the places that peers offered for sends of the result; returns how many. */
static uint32_t add_offers(const struct job *j, uint32_t ndst, bool *ret_leased)
{
    struct tt_program *p = j->p;
    const uint32_t *succ = p->succ + j->op->succ[p->mode];
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->op->nsucc[p->mode]; i++) {
        const struct tt_xop *s = &p->ops[succ[i]];
        struct tt_xoffer *o =
            s->kind == TT_OP_SEND && s->offer != TT_XNO ? &p->offers[s->offer + j->segment] : NULL;
        if (!o || !o->to)
            continue;
        assert(ndst + n < p->nlinks + 2); /* the length of `to` */
        o->written = true;
        p->to[ndst + n++] = o->to + (uint64_t)j->piece * TT_XPIECE;
    }
    *ret_leased = n > 0;
    return n;
}

/* Adds a copy in the window for the peers that did not offer a place; returns 0 or 1. Not needed if
 * the result lies in the heap: then it is referred to there. */
static uint32_t add_window(const struct job *j, uint32_t ndst, uint32_t offered, uint64_t bytes)
{
    const struct tt_program *p = j->p;
    if (j->op->group == TT_XNO || bytes < j->e->ref_bytes || p->ops[j->op->group].nsends <= offered)
        return 0;
    if (tt_direct_owns(j->e->direct, p->to[0], (size_t)bytes))
        return 0;
    struct tt_xslot key = {.program = p,
                           .seq = p->seq,
                           .group = j->op->group,
                           .piece = j->piece << 16 | j->segment,
                           .near = TT_XNO};
    struct tt_xslot *s = tt_exec_window_take(j->e, &key, bytes, p->ops[j->op->group].nsends);
    assert(ndst < p->nlinks + 2);
    if (s)
        p->to[ndst] = tt_exec_window_at(j->e, s);
    return s != NULL;
}

/* Reduces one fragment, `at` bytes into the piece. Own places come from the program, all others are
 * runs for the whole piece. */
static void reduce_combine(const struct job *j, const struct tt_xfrag *f, uint64_t at,
                           uint32_t ndst)
{
    struct tt_program *p = j->p;
    void *first = p->to[0];
    for (uint32_t w = 1; w < j->op->width; w++)
        p->operands[w - 1] = p->from[w - 1] ? (const char *)p->from[w - 1] + at : tt_xat(p, f, w);
    p->to[0] = tt_xat(p, f, 0);
    for (uint32_t i = 1; i < ndst; i++)
        p->to[i] = (char *)p->to[i] + at;
    const struct tt_reduce r = {.dtype = p->dtype,
                                .redop = p->redop,
                                .user = p->user.fn ? &p->user : NULL,
                                .nsrc = j->op->width - 1,
                                .ndst = ndst,
                                .src = p->operands,
                                .dst = p->to,
                                .count = (size_t)f->elems,
                                .divisor = f->divide ? p->divisor : 1};
    tt_kernel_reduce_run(&r);
    for (uint32_t i = 1; i < ndst; i++)
        p->to[i] = (char *)p->to[i] - at;
    p->to[0] = first;
}

/* Reduces the current piece in one pass over its fragments. False: a peer has aborted, and the
 * engine has failed. The lease covers all fragments. */
static bool reduce_piece(struct job *j)
{
    struct tt_program *p = j->p;
    struct tt_xwalk w = tt_xwalk_piece(p, j->op, j->segment, j->piece), first = w;
    struct tt_xfrag f;
    bool leased = false;
    uint64_t at = 0, bytes = tt_xwalk_bytes(&w);
    get_operands(j);
    if (!tt_xwalk_next(&first, &f))
        return true;
    p->to[0] = tt_xat(p, &f, 0);
    uint32_t offered = add_offers(j, 1, &leased), ndst = 1 + offered;
    /* A result of several fragments is sent as bytes: no copy is needed. */
    uint32_t window = first.want ? 0 : add_window(j, ndst, offered, bytes);
    ndst += window;
    j->copied = window || (!first.want && tt_direct_owns(j->e->direct, p->to[0], (size_t)bytes));
    if (leased && !tt_direct_lease(j->e->direct)) {
        tt_exec_lost(j->e, UINT32_MAX);
        return false;
    }
    while (tt_xwalk_next(&w, &f)) {
        reduce_combine(j, &f, at, ndst);
        at += f.elems << p->elem_shift;
    }
    if (leased)
        tt_direct_release(j->e->direct);
    return true;
}

/* Reads first, then checks for an abort, then gives back: an operand is not reported as taken if
 * its bytes may have been wrong. */
void tt_exec_reduce(struct tt_engine *e, struct tt_program *p, uint32_t task)
{
    const uint32_t i = tt_xtask_op(p, task);
    struct job j = {.e = e, .p = p, .op = &p->ops[i], .segment = task - i * p->segments};
    assert(j.op->kind == TT_OP_REDUCE && p->tasks[task].waits == 0);
    uint64_t bytes = tt_exec_op_bytes(p, j.op, j.segment);
    for (; (uint64_t)j.piece * TT_XPIECE < bytes; j.piece++)
        if (!reduce_piece(&j))
            return;
    if (j.reads && tt_direct_aborted(e->direct)) {
        tt_exec_lost(e, UINT32_MAX);
        return;
    }
    for (j.piece = 0; (uint64_t)j.piece * TT_XPIECE < bytes; j.piece++)
        give_back(&j, bytes <= TT_XPIECE);
}
