/* context_meet.c - what members of a context tell each other: HELLO, BYE, and words that are due
 * (context.c draws them).
 *
 * A word that finds no room in the transport is owed and paid at the next progress, so that nothing
 * waits here. A closed context is freed only when it owes nothing. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

enum { HELLOS = 1 << 20 }; /* bounds what peers can make this rank keep */

/* ---- control messages that are due ---- */

/* Sends one control message; the status is the transport's. HELLO and BYE belong to no context,
 * since their receiver may not have it: they carry its key. */
static tutti_status context_say(struct tt_xpeer *pe, uint8_t word)
{
    struct tt_context *x = pe->context;
    assert(pe->met || word == TT_XDUE_HELLO || word == TT_XDUE_BYE);
    struct tt_tag tag = {.fingerprint = x->fingerprint,
                         .request = x->seq,
                         .comm = pe->comm,
                         .channel = TT_XCH_STARTED};
    if (word == TT_XDUE_CREDIT) {
        tag.request = pe->letters_in;
        tag.channel = TT_XCH_CREDIT;
    }
    if (word == TT_XDUE_STARTED || word == TT_XDUE_CREDIT)
        return tt_exec_send_control(pe, &tag, NULL, 0);
    tag = (struct tt_tag){.request = x->comm,
                          .comm = TT_XCOMM_NONE,
                          .channel = word == TT_XDUE_HELLO ? TT_XCH_HELLO : TT_XCH_BYE};
    return tt_exec_send_control(pe, &tag, &x->key, sizeof x->key);
}

/* Sends what is due, HELLO first and BYE last (the order of the bits). False: the transport has no
 * room. STARTED and CREDIT need the peer's number of the context and stay due until its HELLO
 * comes; to a closed peer everything counts as said. */
static bool say_due(struct tt_xpeer *pe)
{
    for (uint8_t word = TT_XDUE_HELLO; word <= TT_XDUE_BYE; word = (uint8_t)(word << 1)) {
        if (!(pe->due_words & word) || (word != TT_XDUE_HELLO && word != TT_XDUE_BYE && !pe->met))
            continue;
        if (!pe->closed && context_say(pe, word) == TUTTI_IN_PROGRESS)
            return false;
        pe->due_words &= (uint8_t)~word;
        pe->greeted = pe->greeted || word == TT_XDUE_HELLO;
        if (word == TT_XDUE_STARTED)
            pe->told = pe->due;
        if (word == TT_XDUE_CREDIT)
            pe->letters_in = 0;
    }
    return true;
}

/* With word 0 it only tries what is due already. */
void tt_exec_context_owe(struct tt_xpeer *pe, uint8_t word)
{
    struct tt_engine *e = pe->context->engine;
    pe->due_words |= word;
    if (pe->due_listed || say_due(pe))
        return;
    pe->due_listed = true;
    pe->due_next = e->due;
    e->due = pe;
}

/* Invariant: every peer before *at is still due. forget_closed may free the peer just taken out of
 * the list, so pe is not used after it. */
bool tt_exec_context_pay(struct tt_engine *e)
{
    bool any = false;
    for (struct tt_xpeer **at = &e->due, *pe = *at; pe; pe = *at) {
        assert(pe->due_listed);
        if (!say_due(pe)) {
            at = &pe->due_next;
            continue;
        }
        *at = pe->due_next;
        pe->due_listed = false;
        any = true;
        if (pe->context->closing)
            tt_exec_context_forget(pe->context);
    }
    return any;
}

/* ---- introductions ---- */

/* The peer has introduced itself. What waited for that is sent now, or a HELLO in return, if none
 * was sent yet. */
static void context_meet(struct tt_xpeer *pe, uint16_t comm)
{
    pe->met = true;
    pe->comm = comm;
    tt_exec_context_owe(pe, pe->greeted ? 0 : TT_XDUE_HELLO);
}

/* The member of the open context with this key; NULL: it is not open, or the rank does not belong
 * to it. */
static struct tt_xpeer *member(const struct tt_engine *e, uint64_t key, uint32_t world)
{
    for (uint32_t i = 0; i < e->ncontexts; i++)
        if (e->contexts[i] && e->contexts[i]->key == key && !e->contexts[i]->closing)
            return tt_exec_context_sender(e->contexts[i], world);
    return NULL;
}

/* Order does not matter: the last entry fills the gap. */
static void forget_hello(struct tt_engine *e, const struct tt_xhello *h)
{
    struct tt_xhello *all = e->hellos.data;
    for (size_t i = 0; i < e->hellos.len; i++)
        if (all[i].key == h->key && all[i].world == h->world)
            all[i--] = all[--e->hellos.len];
}

/* HELLO or BYE came. Of a context that is not open, a HELLO is kept and a BYE removes it.
 * Everything else is a fault. */
void tt_exec_context_heard(struct tt_engine *e, const struct tt_event *ev)
{
    struct tt_xhello h = {.world = ev->peer, .comm = (uint16_t)ev->tag.request};
    bool ok = ev->bytes == sizeof h.key && ev->tag.request <= UINT16_MAX;
    if (ok)
        memcpy(&h.key, ev->data, sizeof h.key);
    struct tt_xpeer *pe = ok && h.key ? member(e, h.key, h.world) : NULL;
    if (pe && ev->tag.channel == TT_XCH_BYE)
        tt_exec_context_end(pe, 0);
    else if (pe)
        context_meet(pe, h.comm);
    else if (ok && ev->tag.channel == TT_XCH_BYE)
        forget_hello(e, &h);
    else if (!ok || !h.key || e->hellos.len >= HELLOS || !tt_vec_push(&e->hellos, &h, 1))
        tt_exec_fault(e,
                      &(struct tt_exec_engine_fault){.kind = TT_FAULT_PROTOCOL, .peer = ev->peer});
}

void tt_exec_context_answer(struct tt_context *x)
{
    struct tt_vec *v = &x->engine->hellos;
    struct tt_xhello *all = v->data;
    size_t kept = 0;
    for (size_t i = 0; i < v->len; i++) {
        struct tt_xpeer *pe = all[i].key == x->key ? tt_exec_context_sender(x, all[i].world) : NULL;
        if (pe)
            context_meet(pe, all[i].comm);
        else
            all[kept++] = all[i];
    }
    v->len = kept;
}

/* Nothing more comes from the peer: programs and letters that still need it fail the engine. */
void tt_exec_context_end(struct tt_xpeer *pe, int error)
{
    struct tt_context *x = pe->context;
    struct tt_engine *e = x->engine;
    pe->closed = x->any_closed = true;
    pe->error = error;
    if (pe->filling)
        return; /* pieces are still being received: settle_end (progress.c) calls again */
    for (uint32_t i = 0; x->nrunning && i < e->max_requests; i++)
        if (e->slots[i] && e->slots[i]->context == x)
            tt_exec_missing(e, e->slots[i]);
    tt_exec_letter_forsaken(pe);
}
