/* letter_receive.c - what arrives: envelopes, GO and bodies (letter.c draws them).
 *
 * An envelope finds the first posted receive that fits, or is kept; a receive that is posted later
 * finds it there. Both sides of a match use the same function, so that order and tags are compared
 * in one place. A peer that breaks the protocol ends the engine: its bytes have no place to go. */
#include <assert.h>
#include <string.h>

#include "exec/letter.h"

/* A piece overtakes fewer than OVERTAKEN others: transports keep the order of a stream, and those
 * with several have at most eight. */
enum { OVERTAKEN = 64 };

bool tt_exec_letter_fits(const struct tt_letter *l, const struct tt_xpeer *pe,
                         const struct tt_tag *tag)
{
    return (l->peer == TT_ANY || l->peer == pe->rank) &&
           (l->tag == TT_ANY || l->tag == tag->message);
}

bool tt_exec_letter_match(struct tt_letter *l, struct tt_xpeer *pe, const struct tt_tag *tag)
{
    uint64_t theirs = tag->fingerprint;
    uint32_t kind = tag->segment & KIND;
    l->pe = pe;
    l->from = pe->rank;
    l->from_tag = tag->message;
    l->got = theirs;
    if (kind == l->kind && (l->exact ? theirs == l->bytes : theirs <= l->bytes))
        return true;
    struct tt_engine *e = pe->context->engine;
    e->report = e->failed ? e->report : pe->context;
    tt_exec_fault(e, &(struct tt_exec_engine_fault){.kind = TT_FAULT_MISMATCH,
                                                    .peer = pe->world,
                                                    .seq = tag->message,
                                                    .mine = (uint64_t)l->kind << 48 | l->bytes,
                                                    .theirs = (uint64_t)kind << 48 | theirs,
                                                    .context = pe->context,
                                                    .letter = TT_LETTER_IN});
    return false;
}

/* Blocks that are free again are reported together: one CREDIT per quarter of the allowance. */
static void note_taken(struct tt_xpeer *pe, uint64_t bytes)
{
    pe->letters_in += tt_xcost(bytes);
    if (pe->letters_in >= CREDIT)
        tt_exec_context_owe(pe, TT_XDUE_CREDIT);
}

void tt_exec_letter_take_short(struct tt_letter *l)
{
    assert(!l->sends && l->got <= l->bytes);
    l->pe->stats.bytes_in += l->got;
    note_taken(l->pe, l->got);
    tt_exec_letter_finish(l->context->engine, l, DONE);
}

void tt_exec_letter_ask_long(struct tt_letter *l, uint32_t other)
{
    assert(!l->sends && l->id != TT_XNO && l->next == NOTHING);
    l->other = other;
    l->state = MOVING;
    tt_exec_letter_queue(l, GO);
}

/* The first posted receive that fits, and the one before it in the list. */
static struct tt_letter *find_posted(struct tt_context *x, const struct tt_xpeer *pe,
                                     const struct tt_tag *tag, struct tt_letter **ret_before)
{
    struct tt_letter *l = x->posted;
    for (*ret_before = NULL; l && !tt_exec_letter_fits(l, pe, tag); l = l->behind)
        *ret_before = l;
    return l;
}

void tt_exec_letter_unpost(struct tt_letter *l, struct tt_letter *before)
{
    struct tt_context *x = l->context;
    assert(l->state == POSTED && (before ? before->behind == l : x->posted == l));
    if (before)
        before->behind = l->behind;
    else
        x->posted = l->behind;
    if (x->posted_last == l)
        x->posted_last = before;
    l->state = NEW;
}

/* Keeps a letter without a receive, in the order of arrival. False: no memory; the event is tried
 * again. */
static bool keep(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_context *x = pe->context;
    struct tt_xblock *b = tt_exec_stash_keep(x->engine, ev);
    if (!b)
        return false;
    assert(!x->letters || !x->letters_last->later);
    b->pe = pe;
    if (x->letters)
        x->letters_last->later = b;
    else
        x->letters = b;
    x->letters_last = b;
    return true;
}

/* False: there is no memory now. Nothing that a retry would repeat has happened then, except
 * tt_exec_letter_match(), which may be repeated. */
static bool envelope_came(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_letter *before, *l = find_posted(pe->context, pe, &ev->tag, &before);
    bool whole = !(ev->tag.segment & LONG);
    if (whole ? ev->bytes != ev->tag.fingerprint || ev->bytes > TT_INLINE_MAX : ev->bytes != 0) {
        tt_exec_letter_protocol(pe);
        return true;
    }
    if (!l)
        return keep(pe, ev);
    if (!tt_exec_letter_match(l, pe, &ev->tag))
        return true;
    if (!whole && !tt_exec_letter_give_id(pe->context->engine, l))
        return false;
    tt_exec_letter_unpost(l, before);
    if (ev->bytes)
        memcpy(l->data, ev->data, ev->bytes);
    if (whole)
        tt_exec_letter_take_short(l);
    else
        tt_exec_letter_ask_long(l, ev->tag.request);
    return true;
}

/* The letter under way that the peer's id names. NULL: there is none in that role and state; ids
 * come from the peer and are not trusted. */
static struct tt_letter *named(const struct tt_xpeer *pe, const struct tt_event *ev, bool sends,
                               enum letter_state state)
{
    uint32_t id = ev->tag.request;
    struct tt_letter *l = id < pe->context->engine->nids ? pe->context->engine->by_id[id] : NULL;
    return l && l->pe == pe && l->sends == sends && l->state == state ? l : NULL;
}

static void go_came(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_letter *l = named(pe, ev, true, ASKED);
    if (!l || l->next != NOTHING) {
        tt_exec_letter_protocol(pe);
        return;
    }
    l->other = ev->tag.message;
    l->state = MOVING;
    tt_exec_letter_queue(l, BODY);
}

/* Where a piece belongs; NULL: it lies outside the letter, has another length than it should, or
 * cannot have come so early. */
static char *place_of(const struct tt_letter *l, const struct tt_event *ev)
{
    uint64_t from = (uint64_t)ev->tag.message * PIECE,
             left = l && from < l->got ? l->got - from : 0;
    if (left && ev->tag.message >= (uint64_t)l->first_missing + OVERTAKEN)
        return NULL;
    return left && ev->bytes == (left < PIECE ? left : PIECE) ? (char *)l->data + from : NULL;
}

/* Notes that piece `number` of the letter has come; false: it came before. Invariant: the first
 * missing piece is not marked as come. */
static bool note_piece(struct tt_letter *l, uint32_t number)
{
    assert(!(l->come & 1) && number < (uint64_t)l->first_missing + OVERTAKEN);
    if (number < l->first_missing || l->come >> (number - l->first_missing) & 1)
        return false;
    l->come |= UINT64_C(1) << (number - l->first_missing);
    for (; l->come & 1; l->come >>= 1)
        l->first_missing++;
    return true;
}

static void letter_repeated(struct tt_letter *l, uint32_t piece)
{
    tt_exec_fault(l->context->engine, &(struct tt_exec_engine_fault){.kind = TT_FAULT_PROTOCOL,
                                                                     .peer = l->pe->world,
                                                                     .seq = l->from_tag,
                                                                     .theirs = piece,
                                                                     .context = l->context,
                                                                     .letter = TT_LETTER_IN});
}

static void piece_done(struct tt_letter *l, uint32_t bytes)
{
    l->done += bytes;
    l->pe->stats.bytes_in += bytes;
    if (l->done == l->got)
        tt_exec_letter_finish(l->context->engine, l, DONE);
}

/* A piece in transport memory is copied; an announced one is accepted straight into its place. */
static void body_came(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_transport *t = pe->context->engine->transport;
    struct tt_letter *l = named(pe, ev, false, MOVING);
    char *at = place_of(l, ev);
    if (!at) {
        tt_exec_letter_protocol(pe);
    } else if (!note_piece(l, ev->tag.message)) {
        letter_repeated(l, ev->tag.message);
    } else if (ev->kind == TT_EV_DATA) {
        memcpy(at, ev->data, ev->bytes);
        piece_done(l, ev->bytes);
    } else {
        const struct iovec iov = {.iov_base = at, .iov_len = ev->bytes};
        pe->filling += !t->ops->accept(t, ev->peer, ev->stream, &iov, 1);
    }
}

/* The last branch is CREDIT: a peer that gives back too much is not trusted below 0. */
bool tt_exec_letter_arrived(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    bool taken = true;
    if (ev->tag.channel == TT_XCH_BODY)
        body_came(pe, ev);
    else if (ev->kind != TT_EV_DATA)
        tt_exec_letter_protocol(pe);
    else if (ev->tag.channel == TT_XCH_LETTER)
        taken = envelope_came(pe, ev);
    else if (ev->tag.channel == TT_XCH_GO)
        go_came(pe, ev);
    else
        pe->letters_out -= ev->tag.request < pe->letters_out ? ev->tag.request : pe->letters_out;
    if (taken && ev->kind == TT_EV_DATA)
        e->transport->ops->release(e->transport, ev);
    return taken;
}

/* An accepted piece is complete. */
void tt_exec_letter_received(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_letter *l = named(pe, ev, false, MOVING);
    assert(pe->filling > 0);
    pe->filling--;
    if (l)
        piece_done(l, ev->bytes);
    else
        tt_exec_letter_protocol(pe);
}
