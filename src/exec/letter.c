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

#include "exec/exec_int.h"

/* LETTERS: blocks that one peer's short letters may use here; credit is returned by the quarter. */
enum { LETTERS = 64, CREDIT = LETTERS / 4, FIRST_IDS = 16, PIECE = TT_XPIECE };
/* ASKED: its envelope has been sent or is queued. MOVING: its bytes travel in pieces. */
enum state { NEW, POSTED, ASKED, MOVING, DONE, FAILED };
enum next { NOTHING, ENVELOPE, GO, BODY }; /* what it has to send */

/* A piece overtakes fewer than OVERTAKEN others: transports keep the order of a stream, and those
 * with several have at most eight. */
enum { OVERTAKEN = 64 };

/* Fields of tag.segment in an envelope: the kind, and whether the bytes follow in pieces. */
enum { LONG = 1 << 16, KIND = LONG - 1 };

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

/* Ends a letter in any state. It belongs to the caller again. */
static void letter_finish(struct tt_engine *e, struct tt_letter *l, enum state how)
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

/* Gives the letter the id by which the peer names it. The search goes on where the last one ended:
 * ids before that are mostly in use. */
static bool give_id(struct tt_engine *e, struct tt_letter *l)
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

static void letter_protocol(struct tt_xpeer *pe)
{
    tt_exec_protocol(pe->context->engine, pe, 0);
}

/* Posted lists and mail queues point to letters that have ended now: they are emptied with them. */
void tt_exec_letter_fail_all(struct tt_engine *e)
{
    while (e->letters) {
        e->letters->context->posted = e->letters->context->posted_last = NULL;
        letter_finish(e, e->letters, FAILED);
    }
    for (; e->mail; e->mail = e->mail->mail_next) {
        e->mail->mail = NULL;
        e->mail->mail_listed = false;
    }
}

/* ---- sending ---- */

/* Sends `bytes` bytes of the letter, from byte `from`. The status is the transport's. */
static tutti_status letter_put(struct tt_letter *l, const struct tt_tag *tag, uint64_t from,
                               size_t bytes, uint64_t cookie)
{
    struct tt_transport *t = l->context->engine->transport;
    const struct iovec iov = {.iov_base = (char *)l->data + from, .iov_len = bytes};
    return t->ops->send(t, l->pe->world, tag, &iov, bytes ? 1 : 0, cookie);
}

/* A short letter goes whole while the peer's memory allows it, and is done: the transport copies
 * payloads without a cookie. Otherwise only the envelope goes, with an id that GO will name. */
static tutti_status send_envelope(struct tt_letter *l)
{
    struct tt_xpeer *pe = l->pe;
    uint32_t cost = tt_xcost(l->bytes);
    assert(l->sends && l->state == ASKED);
    bool whole = l->bytes <= TT_INLINE_MAX && pe->letters_out + cost <= LETTERS;
    struct tt_tag tag = {.fingerprint = l->bytes,
                         .message = l->tag,
                         .segment = l->kind,
                         .comm = pe->comm,
                         .channel = TT_XCH_LETTER};
    if (!whole) {
        if (l->id == TT_XNO && !give_id(l->context->engine, l))
            return TUTTI_IN_PROGRESS;
        tag.segment |= LONG;
        tag.request = l->id;
    }
    tutti_status st = letter_put(l, &tag, 0, whole ? (size_t)l->bytes : 0, 0);
    if (st)
        return st;
    l->next = NOTHING;
    pe->stats.bytes_out += whole ? l->bytes : 0;
    if (whole) {
        pe->letters_out += cost;
        letter_finish(l->context->engine, l, DONE);
    }
    return TUTTI_OK;
}

/* GO carries both ids: the sender's, to find the letter there, and this rank's, which BODY will
 * carry. An empty letter needs no BODY and is done. */
static tutti_status send_go(struct tt_letter *l)
{
    assert(!l->sends && l->state == MOVING && l->id != TT_XNO);
    const struct tt_tag tag = {
        .request = l->other, .message = l->id, .comm = l->pe->comm, .channel = TT_XCH_GO};
    tutti_status st = tt_exec_send_control(l->pe, &tag, NULL, 0);
    if (st)
        return st;
    l->next = NOTHING;
    if (!l->got)
        letter_finish(l->context->engine, l, DONE);
    return TUTTI_OK;
}

/* A send is done when everything has been handed over and the transport has given back every piece.
 * */
static void settle_body(struct tt_letter *l)
{
    assert(l->sends && l->done <= l->bytes);
    if (l->next == NOTHING && !l->under_way && l->done == l->bytes)
        letter_finish(l->context->engine, l, DONE);
}

/* Hands over pieces until the transport is full; `done` says where to go on. Small pieces are
 * copied by the transport and get no SENT event. */
static tutti_status send_body(struct tt_letter *l)
{
    assert(l->sends && l->state == MOVING && l->id != TT_XNO);
    while (l->done < l->bytes) {
        uint64_t left = l->bytes - l->done, bytes = left < PIECE ? left : PIECE;
        const struct tt_tag tag = {.request = l->other,
                                   .message = (uint32_t)(l->done / PIECE),
                                   .comm = l->pe->comm,
                                   .channel = TT_XCH_BODY};
        uint64_t cookie = bytes <= TT_INLINE_MAX ? 0 : TT_XCOOKIE_LETTER | l->id;
        tutti_status st = letter_put(l, &tag, l->done, (size_t)bytes, cookie);
        if (st)
            return st;
        l->under_way += cookie != 0;
        l->done += bytes;
        l->pe->stats.bytes_out += bytes;
    }
    l->next = NOTHING;
    settle_body(l);
    return TUTTI_OK;
}

/* Sends what can be sent of a peer's mail; true: all of it. Order is kept: the first letter that
 * cannot go stops those behind it. After TUTTI_ERR_IO the letters stay queued until TT_EV_CLOSED
 * fails them. */
static bool letter_flush(struct tt_xpeer *pe)
{
    while (pe->mail && pe->met) {
        struct tt_letter *l = pe->mail, *behind = l->behind;
        assert(l->next != NOTHING && l->pe == pe);
        tutti_status st = l->next == ENVELOPE ? send_envelope(l)
                          : l->next == GO     ? send_go(l)
                                              : send_body(l);
        /* TUTTI_ERR_IO: the peer is ending, TT_EV_CLOSED follows */
        if (st && st != TUTTI_IN_PROGRESS && st != TUTTI_ERR_IO)
            letter_protocol(pe);
        if (st)
            return pe->context->engine->failed;
        pe->mail = behind;
    }
    return !pe->mail;
}

/* Appends the letter to its peer's mail. A peer that is listed has mail that could not go;
 * tt_exec_letter_deliver tries it at the next progress. */
static void letter_queue(struct tt_letter *l, enum next what)
{
    struct tt_xpeer *pe = l->pe;
    struct tt_engine *e = l->context->engine;
    assert(l->next == NOTHING && what != NOTHING);
    l->next = (uint8_t)what;
    l->behind = NULL;
    if (pe->mail)
        pe->mail_last->behind = l;
    else
        pe->mail = l;
    pe->mail_last = l;
    if (pe->mail_listed || letter_flush(pe))
        return;
    pe->mail_listed = true;
    pe->mail_next = e->mail;
    e->mail = pe;
}

/* Invariant: all peers before *at still have mail. letter_flush may fail the engine, which empties
 * the list. */
bool tt_exec_letter_deliver(struct tt_engine *e)
{
    bool any = false;
    for (struct tt_xpeer **at = &e->mail, *pe = *at; pe && !e->failed; pe = *at) {
        assert(pe->mail_listed);
        const struct tt_letter *first = pe->mail;
        bool all = letter_flush(pe);
        if (e->failed)
            return true;
        any = any || pe->mail != first;
        if (!all) {
            at = &pe->mail_next;
            continue;
        }
        pe->mail_listed = false;
        *at = pe->mail_next;
    }
    return any;
}

void tt_exec_letter_sent(struct tt_engine *e, uint32_t id)
{
    struct tt_letter *l = id < e->nids ? e->by_id[id] : NULL;
    assert(l && l->under_way);
    l->under_way--;
    l->context->moved++;
    l->context->mailed++;
    settle_body(l);
}

/* ---- receiving ---- */

/* Does the receive ask for the letter with this envelope? */
static bool letter_fits(const struct tt_letter *l, const struct tt_xpeer *pe,
                        const struct tt_tag *tag)
{
    return (l->peer == TT_ANY || l->peer == pe->rank) &&
           (l->tag == TT_ANY || l->tag == tag->message);
}

/* The receive gets this letter: notes what came and checks kind and length. False: they do not fit,
 * and the engine has failed. */
static bool match(struct tt_letter *l, struct tt_xpeer *pe, const struct tt_tag *tag)
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

/* The bytes of a short letter are in their place. */
static void take_short(struct tt_letter *l)
{
    assert(!l->sends && l->got <= l->bytes);
    l->pe->stats.bytes_in += l->got;
    note_taken(l->pe, l->got);
    letter_finish(l->context->engine, l, DONE);
}

/* Asks for a long letter. `l` has its id; `other` is the sender's. */
static void ask_long(struct tt_letter *l, uint32_t other)
{
    l->other = other;
    l->state = MOVING;
    letter_queue(l, GO);
}

/* The first posted receive that fits, and the one before it in the list. */
static struct tt_letter *find_posted(struct tt_context *x, const struct tt_xpeer *pe,
                                     const struct tt_tag *tag, struct tt_letter **ret_before)
{
    struct tt_letter *l = x->posted;
    for (*ret_before = NULL; l && !letter_fits(l, pe, tag); l = l->behind)
        *ret_before = l;
    return l;
}

static void unpost(struct tt_letter *l, struct tt_letter *before)
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
    b->pe = pe;
    if (x->letters)
        x->letters_last->later = b;
    else
        x->letters = b;
    x->letters_last = b;
    return true;
}

/* False: there is no memory now. Nothing that a retry would repeat has happened then, except
 * match(), which may be repeated. */
static bool envelope_came(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_letter *before, *l = find_posted(pe->context, pe, &ev->tag, &before);
    bool whole = !(ev->tag.segment & LONG);
    if (whole ? ev->bytes != ev->tag.fingerprint || ev->bytes > TT_INLINE_MAX : ev->bytes != 0) {
        letter_protocol(pe);
        return true;
    }
    if (!l)
        return keep(pe, ev);
    if (!match(l, pe, &ev->tag))
        return true;
    if (!whole && !give_id(pe->context->engine, l))
        return false;
    unpost(l, before);
    if (ev->bytes)
        memcpy(l->data, ev->data, ev->bytes);
    if (whole)
        take_short(l);
    else
        ask_long(l, ev->tag.request);
    return true;
}

/* The letter under way that the peer's id names. NULL: there is none in that role and state; ids
 * come from the peer and are not trusted. */
static struct tt_letter *named(const struct tt_xpeer *pe, const struct tt_event *ev, bool sends,
                               enum state state)
{
    uint32_t id = ev->tag.request;
    struct tt_letter *l = id < pe->context->engine->nids ? pe->context->engine->by_id[id] : NULL;
    return l && l->pe == pe && l->sends == sends && l->state == state ? l : NULL;
}

static void go_came(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_letter *l = named(pe, ev, true, ASKED);
    if (!l || l->next != NOTHING) {
        letter_protocol(pe);
        return;
    }
    l->other = ev->tag.message;
    l->state = MOVING;
    letter_queue(l, BODY);
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
        letter_finish(l->context->engine, l, DONE);
}

/* A piece in transport memory is copied; an announced one is accepted straight into its place. */
static void body_came(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_transport *t = pe->context->engine->transport;
    struct tt_letter *l = named(pe, ev, false, MOVING);
    char *at = place_of(l, ev);
    if (!at) {
        letter_protocol(pe);
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
        letter_protocol(pe);
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
    pe->filling--;
    if (l)
        piece_done(l, ev->bytes);
    else
        letter_protocol(pe);
}

/* ---- starting and asking ---- */

/* Takes the first kept letter that fits; otherwise posts the receive. */
static tutti_status start_receive(struct tt_letter *l, struct tutti_error *err)
{
    struct tt_context *x = l->context;
    struct tt_xblock *before = NULL, *b = x->letters;
    while (b && !letter_fits(l, b->pe, &b->tag)) {
        before = b;
        b = b->later;
    }
    if (!b) {
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
    if (!match(l, b->pe, &b->tag))
        return TUTTI_OK;
    if (!whole && !give_id(x->engine, l))
        return tt_fail_memory(err, "message");
    if (before)
        before->later = b->later;
    else
        x->letters = b->later;
    if (x->letters_last == b)
        x->letters_last = before;
    tt_exec_stash_copy(b, l->data);
    if (whole)
        take_short(l);
    else
        ask_long(l, b->tag.request);
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
        letter_queue(l, ENVELOPE);
    else
        st = start_receive(l, err);
    if (st)
        letter_finish(e, l, FAILED);
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
    unpost(l, before);
    letter_finish(l->context->engine, l, NEW);
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
