/* letter.c - letters: messages between two ranks of a context, with tags, outside the order of its
 * requests.
 *
 *     short   sender    LETTER with its bytes ------>  a receive is posted: copied to its place;
 *             done at once                             otherwise kept until one is
 *                       <------------------ CREDIT     when taken, several letters at a time
 *     long    sender    LETTER (envelope) ---------->  a receive is posted, now or later
 *                       <---------------------- GO
 *                       BODY, BODY, ... pieces ----->  straight to their place
 *
 * A sender's short letters may use LETTERS blocks of the receiver's memory; beyond that, short
 * letters go by rendezvous like long ones. An envelope without a receive takes one block in any
 * case: otherwise a letter that is asked for could wait behind letters that are not.
 *
 * Everything that one rank sends to another stands in one queue, the peer's mail: envelopes stay in
 * order, and what finds no room in the transport, or no peer that knows the context yet, waits
 * there. A receive takes the first kept letter that fits; an arriving letter takes the first posted
 * receive that fits.
 *
 * Invariant: no kept letter fits a posted receive. Letters are the caller's memory; the engine only
 * links them, from start to finish. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/letter.h"

/* ---- under way ---- */

/* The engine's list of all letters under way, so that a fault finds them. */
static void letter_enlist(struct tt_engine *e, struct tt_letter *l)
{
    l->before = NULL;
    l->after = e->letters;
    if (e->letters)
        e->letters->before = l;
    e->letters = l;
}

void tt_exec_letter_finish(struct tt_engine *e, struct tt_letter *l, enum letter_state how)
{
    assert(l->state != DONE && l->state != FAILED && (l->before || e->letters == l));
    assert(l->id == TT_XNO || (l->id < e->nids && e->by_id[l->id] == l));
    if (l->before)
        l->before->after = l->after;
    else
        e->letters = l->after;
    if (l->after)
        l->after->before = l->before;
    if (l->id != TT_XNO)
        e->by_id[l->id] = NULL;
    l->id = TT_XNO;
    l->state = (uint8_t)how;
    l->context->moved++;
    l->context->mailed++;
    e->finished++;
}

/* Doubles the table of ids. tt_exec_letter_prepare calls it, so that starting a letter need not. */
static bool more_ids(struct tt_engine *e)
{
    uint32_t n = e->nids ? 2 * e->nids : FIRST_IDS;
    struct tt_letter **larger = realloc(e->by_id, n * sizeof(struct tt_letter *));
    if (!larger)
        return false;
    memset(larger + e->nids, 0, (n - e->nids) * sizeof(struct tt_letter *));
    e->by_id = larger;
    e->nids = n;
    return true;
}

bool tt_exec_letter_give_id(struct tt_engine *e, struct tt_letter *l)
{
    assert(l->id == TT_XNO);
    uint32_t i = 0, at = e->next_id;
    while (i < e->nids && e->by_id[(at + i) % e->nids])
        i++;
    if (i == e->nids) {
        at = e->nids;
        if (!more_ids(e))
            return false;
        i = 0;
    }
    l->id = (at + i) % e->nids;
    assert(!e->by_id[l->id]);
    e->by_id[l->id] = l;
    e->next_id = l->id + 1;
    return true;
}

void tt_exec_letter_protocol(struct tt_xpeer *pe)
{
    tt_exec_protocol(pe->context->engine, pe, 0);
}

/* Posted lists and mail queues point to letters that have ended now: they are emptied with them. */
void tt_exec_letter_fail_all(struct tt_engine *e)
{
    while (e->letters) {
        e->letters->context->posted = e->letters->context->posted_last = NULL;
        tt_exec_letter_finish(e, e->letters, FAILED);
    }
    for (; e->mail; e->mail = e->mail->mail_next) {
        e->mail->mail = NULL;
        e->mail->mail_listed = false;
    }
}

/* ---- starting and asking ---- */

/* Takes the first kept letter that fits; otherwise posts the receive. */
static tutti_status start_receive(struct tt_letter *l, struct tutti_error *err)
{
    struct tt_context *x = l->context;
    struct tt_xblock *before = NULL, *b = x->letters;
    while (b && !tt_exec_letter_fits(l, b->pe, &b->tag)) {
        before = b;
        b = b->later;
    }
    if (!b) {
        assert(!x->posted || !x->posted_last->behind);
        l->state = POSTED;
        l->behind = NULL;
        if (x->posted)
            x->posted_last->behind = l;
        else
            x->posted = l;
        x->posted_last = l;
        return TUTTI_OK;
    }
    bool whole = !(b->tag.segment & LONG);
    if (!tt_exec_letter_match(l, b->pe, &b->tag))
        return TUTTI_OK;
    if (!whole && !tt_exec_letter_give_id(x->engine, l))
        return tt_fail_memory(err, "message");
    if (before)
        before->later = b->later;
    else
        x->letters = b->later;
    if (x->letters_last == b)
        x->letters_last = before;
    tt_exec_stash_copy(b, l->data);
    if (whole)
        tt_exec_letter_take_short(l);
    else
        tt_exec_letter_ask_long(l, b->tag.request);
    tt_exec_stash_give(x->engine, b);
    return TUTTI_OK;
}

static tutti_status check_peer(const struct tt_context *x, uint32_t peer, struct tutti_error *err)
{
    if (peer == TT_ANY && x->n == 1)
        return tt_fail(err, TUTTI_ERR_RANGE, "a message from any other rank: there is none");
    if (peer != TT_ANY && (peer >= x->n || peer == x->rank))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "peer %" PRIu32 ": another one of the %" PRIu32 " ranks is needed", peer,
                       x->n);
    return TUTTI_OK;
}

/* Invariant: nids >= prepared, so give_id finds a free id for every prepared letter. */
tutti_status tt_exec_letter_prepare(struct tt_context *x, uint32_t peer, struct tutti_error *err)
{
    struct tt_engine *e = x->engine;
    tutti_status st = check_peer(x, peer, err);
    if (!st && ((peer != TT_ANY && !tt_exec_context_peer(x, peer)) ||
                (e->prepared == e->nids && !more_ids(e))))
        st = tt_fail_memory(err, "message");
    e->prepared += !st;
    return st;
}

void tt_exec_letter_forget(struct tt_context *x)
{
    assert(x->engine->prepared > 0);
    x->engine->prepared--;
}

tutti_status tt_exec_letter_start(struct tt_context *x, struct tt_letter *l,
                                  struct tutti_error *err)
{
    struct tt_engine *e = x->engine;
    tutti_status st = check_peer(x, l->peer, err);
    if (st)
        return st;
    assert(l->kind <= KIND && (!l->sends || (l->peer != TT_ANY && l->tag != TT_ANY)));
    l->context = x;
    l->id = TT_XNO;
    l->under_way = 0;
    l->done = l->come = 0;
    l->first_missing = 0;
    l->next = NOTHING;
    /* If the engine has failed, the letter fails with it, and nothing is linked. */
    l->state = FAILED;
    if (e->failed)
        return tt_exec_letter_test(l, err);
    l->pe = l->peer == TT_ANY ? NULL : tt_exec_context_peer(x, l->peer);
    if (l->peer != TT_ANY && !l->pe)
        return tt_fail_memory(err, "peer");
    if (l->pe && !l->pe->greeted)
        tt_exec_context_owe(l->pe, TT_XDUE_HELLO);
    letter_enlist(e, l);
    l->state = ASKED;
    if (l->sends)
        tt_exec_letter_queue(l, ENVELOPE);
    else
        st = start_receive(l, err);
    if (st)
        tt_exec_letter_finish(e, l, FAILED);
    else if (l->pe && l->pe->closed)
        tt_exec_letter_forsaken(l->pe);
    return st ? st : e->failed ? tt_exec_letter_test(l, err) : TUTTI_OK;
}

tutti_status tt_exec_letter_test(const struct tt_letter *l, struct tutti_error *err)
{
    if (l->state == FAILED)
        return tt_exec_engine_failure(l->context->engine, err);
    return l->state == DONE ? TUTTI_OK : TUTTI_IN_PROGRESS;
}

uint32_t tt_exec_letter_waiting(const struct tt_letter *l)
{
    return l->pe ? l->pe->world : UINT32_MAX;
}

bool tt_exec_letter_cancel(struct tt_letter *l)
{
    struct tt_letter *before = NULL;
    if (l->state != POSTED)
        return false;
    for (struct tt_letter *at = l->context->posted; at != l; at = at->behind)
        before = at;
    tt_exec_letter_unpost(l, before);
    tt_exec_letter_finish(l->context->engine, l, NEW);
    return true;
}

/* A receive from any rank is not tied to the peer: its `pe` is NULL until something comes. */
void tt_exec_letter_forsaken(const struct tt_xpeer *pe)
{
    struct tt_engine *e = pe->context->engine;
    for (const struct tt_letter *l = e->letters; l; l = l->after)
        if (l->pe == pe) {
            tt_exec_fault(e, &(struct tt_exec_engine_fault){
                                 .kind = TT_FAULT_CLOSED, .peer = pe->world, .error = pe->error});
            return;
        }
}

uint32_t tt_exec_letter_unread(const struct tt_context *x, struct tt_letter *ret_first)
{
    uint32_t n = 0;
    for (const struct tt_xblock *b = x->letters; b; b = b->later, n++)
        if (n == 0)
            *ret_first = (struct tt_letter){.from = b->pe->rank,
                                            .from_tag = b->tag.message,
                                            .got = b->tag.fingerprint,
                                            .kind = b->tag.segment & KIND};
    return n;
}

/* The context is being closed: posted receives are cancelled and kept letters are freed. */
void tt_exec_letter_drop(struct tt_context *x)
{
    while (x->posted && tt_exec_letter_cancel(x->posted))
        ;
    x->posted = NULL;
    for (struct tt_xblock *b = x->letters, *later; b; b = later) {
        later = b->later;
        tt_exec_stash_give(x->engine, b);
    }
    x->letters = NULL;
}
