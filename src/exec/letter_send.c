/* letter_send.c - what leaves: envelopes, GO and bodies, one queue per peer (letter.c draws it).
 *
 * The queue keeps the order of envelopes. Its first letter is sent until the transport has no room;
 * only then does anything wait. A letter is in at most one queue, with one thing to send. */
#include <assert.h>

#include "exec/letter.h"

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
    assert(l->sends && l->state == ASKED && pe->letters_out <= LETTERS);
    bool whole = l->bytes <= TT_INLINE_MAX && pe->letters_out + cost <= LETTERS;
    struct tt_tag tag = {.fingerprint = l->bytes,
                         .message = l->tag,
                         .segment = l->kind,
                         .comm = pe->comm,
                         .channel = TT_XCH_LETTER};
    if (!whole) {
        if (l->id == TT_XNO && !tt_exec_letter_give_id(l->context->engine, l))
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
        tt_exec_letter_finish(l->context->engine, l, DONE);
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
        tt_exec_letter_finish(l->context->engine, l, DONE);
    return TUTTI_OK;
}

/* A send is done when everything has been handed over and the transport has given back every
 * piece. */
static void settle_body(struct tt_letter *l)
{
    assert(l->sends && l->done <= l->bytes);
    if (l->next == NOTHING && !l->under_way && l->done == l->bytes)
        tt_exec_letter_finish(l->context->engine, l, DONE);
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
        assert(l->done <= l->bytes && (l->done % PIECE == 0 || l->done == l->bytes));
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
            tt_exec_letter_protocol(pe);
        if (st)
            return pe->context->engine->failed;
        pe->mail = behind;
    }
    return !pe->mail;
}

void tt_exec_letter_queue(struct tt_letter *l, enum letter_next what)
{
    struct tt_xpeer *pe = l->pe;
    struct tt_engine *e = l->context->engine;
    assert(l->next == NOTHING && what != NOTHING);
    assert(!pe->mail || !pe->mail_last->behind);
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
