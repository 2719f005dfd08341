/* self.c - a rank talking to itself: a queue of pieces in memory, so that callers need no special
 * case.
 *
 * The same rules as for sockets: small pieces are copied and delivered as data; large ones are
 * announced and copied once, by accept, from the sender's memory to the receiver's places. Pieces
 * are delivered in order.
 *
 *     told .. given .. tail     three counters over a ring of SLOTS
 *     [told, given)             delivered; waiting for release, accept or its SENT event
 *     [given, tail)             queued
 *
 * Invariant: at most one piece is announced and not yet accepted, and it is the last one given. */
#include <assert.h>

#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 64 };

/* WITH_RECEIVER: delivered as data or announced. ACCEPTED: copied, RECEIVED is due. DONE: the slot
 * may leave when those before it have. */
enum slot_state { QUEUED, WITH_RECEIVER, ACCEPTED, DONE };
struct slot {
    enum slot_state state;
    struct tt_tag tag;
    uint64_t cookie;
    uint32_t bytes;
    int niov;
    struct iovec iov[TT_IOV_MAX]; /* large: the sender's memory */
    uint8_t *data;                /* small: TT_INLINE_MAX bytes of our own */
};

struct self {
    struct tt_transport base;
    uint32_t told, given, tail; /* free-running */
    uint8_t *store;
    struct slot slot[SLOTS];
};

static struct slot *self_at(struct self *t, uint32_t i)
{
    return &t->slot[i % SLOTS];
}

/* Copies `bytes` bytes from one list to another; both hold at least that many. Invariant: a and b
 * are the offsets in the current entries. */
static void copy_list(const struct iovec *to, const struct iovec *from, size_t bytes)
{
    size_t a = 0, b = 0;
    while (bytes > 0) {
        size_t n = to->iov_len - a < from->iov_len - b ? to->iov_len - a : from->iov_len - b;
        if (n)
            memcpy((uint8_t *)to->iov_base + a, (const uint8_t *)from->iov_base + b, n);
        bytes -= n;
        a += n;
        b += n;
        if (a == to->iov_len)
            to++, a = 0;
        if (b == from->iov_len)
            from++, b = 0;
    }
}

static tutti_status self_send(struct tt_transport *base, uint32_t peer, const struct tt_tag *tag,
                              const struct iovec *iov, int niov, uint64_t cookie)
{
    struct self *t = (struct self *)base;
    size_t bytes;

    if (peer != base->rank ||
        !tt_iov_total(iov, niov, TT_IOV_MAX, cookie ? TT_PIECE_MAX : TT_INLINE_MAX, &bytes))
        return TUTTI_ERR_ARG;
    if (t->tail - t->told == SLOTS)
        return TUTTI_IN_PROGRESS;
    assert(t->given - t->told <= t->tail - t->told && t->tail - t->told < SLOTS);
    struct slot *s = self_at(t, t->tail++);
    s->state = QUEUED;
    s->tag = *tag;
    s->cookie = cookie;
    s->bytes = (uint32_t)bytes;
    s->niov = niov;
    struct iovec own = {s->data, TT_INLINE_MAX};
    if (bytes <= TT_INLINE_MAX)
        copy_list(&own, iov, bytes);
    else
        memcpy(s->iov, iov, (size_t)niov * sizeof *iov);
    return TUTTI_OK;
}

/* The announced piece that waits for accept; NULL: there is none. */
static struct slot *announced(struct self *t)
{
    struct slot *s = t->given != t->told ? self_at(t, t->given - 1) : NULL;
    return s && s->bytes > TT_INLINE_MAX && s->state == WITH_RECEIVER ? s : NULL;
}

static tutti_status self_accept(struct tt_transport *base, uint32_t peer, uint32_t stream,
                                const struct iovec *iov, int niov)
{
    struct self *t = (struct self *)base;
    struct slot *s = announced(t);
    size_t bytes;

    if (peer != base->rank || stream || !s ||
        !tt_iov_total(iov, niov, TT_IOV_MAX, s->bytes, &bytes) || bytes != s->bytes)
        return TUTTI_ERR_ARG;
    assert(t->given != t->told && s->state == WITH_RECEIVER);
    copy_list(iov, s->iov, bytes);
    s->state = ACCEPTED;
    return TUTTI_OK;
}

/* The address tells the slot: small payloads lie in the slot's part of `store`. */
static void self_release(struct tt_transport *base, const struct tt_event *ev)
{
    struct self *t = (struct self *)base;
    if (ev->kind != TT_EV_DATA)
        return;
    size_t at = (size_t)((const uint8_t *)ev->data - t->store);
    assert(at < (size_t)SLOTS * TT_INLINE_MAX && at % TT_INLINE_MAX == 0);
    struct slot *s = self_at(t, (uint32_t)(at / TT_INLINE_MAX));
    assert(s->state == WITH_RECEIVER);
    s->state = DONE;
}

static struct tt_event self_event(const struct self *t, const struct slot *s,
                                  enum tt_event_kind kind)
{
    return (struct tt_event){.kind = kind,
                             .peer = t->base.rank,
                             .bytes = s->bytes,
                             .tag = s->tag,
                             .data = kind == TT_EV_DATA ? s->data : NULL,
                             .cookie = kind == TT_EV_SENT ? s->cookie : 0};
}

/* Pieces that are done leave in order, with a SENT event if the sender wants one. */
static size_t tell_sent(struct self *t, struct tt_event *ev, size_t max)
{
    size_t n = 0;
    while (t->told != t->given && self_at(t, t->told)->state == DONE && n < max) {
        const struct slot *s = self_at(t, t->told++);
        if (s->cookie)
            ev[n++] = self_event(t, s, TT_EV_SENT);
    }
    return n;
}

/* RECEIVED comes before new pieces; behind an announced piece nothing is delivered. */
static size_t self_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
{
    struct self *t = (struct self *)base;
    size_t n = 0;
    struct slot *last = t->given != t->told ? self_at(t, t->given - 1) : NULL;

    if (last && last->state == ACCEPTED && n < max) {
        ev[n++] = self_event(t, last, TT_EV_RECEIVED);
        last->state = DONE;
    }
    n += tell_sent(t, ev + n, max - n);
    while (n < max && t->given != t->tail && !announced(t)) {
        struct slot *s = self_at(t, t->given++);
        assert(s->state == QUEUED);
        s->state = WITH_RECEIVER;
        ev[n++] = self_event(t, s, s->bytes > TT_INLINE_MAX ? TT_EV_HEADER : TT_EV_DATA);
    }
    return n;
}

/* Would poll return something? */
static bool has_events(struct self *t)
{
    const struct slot *last = t->given != t->told ? self_at(t, t->given - 1) : NULL;
    return (t->told != t->given && self_at(t, t->told)->state == DONE) ||
           (last && last->state == ACCEPTED) || (t->given != t->tail && !announced(t));
}

/* Only this thread can make anything happen here: without events it sleeps until the deadline. */
static void self_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct timespec ts = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    if (!has_events((struct self *)base))
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void self_close(struct tt_transport *base)
{
    struct self *t = (struct self *)base;
    free(t->store);
    free(t);
}

static const struct tt_transport_ops self_ops = {
    .name = "self",
    .desc = "a rank and itself",
    .send = self_send,
    .accept = self_accept,
    .release = self_release,
    .poll = self_poll,
    .wait = self_wait,
    .close = self_close,
};

tutti_status tt_self_open(uint32_t rank, uint32_t size, struct tt_transport **ret,
                          struct tutti_error *err)
{
    if (rank >= size)
        return tt_fail(err, TUTTI_ERR_ARG, "rank %u of %u", (unsigned)rank, (unsigned)size);
    struct self *t = tt_zalloc(1, sizeof *t);
    if (!t || !(t->store = tt_alloc(SLOTS, TT_INLINE_MAX))) {
        free(t);
        return tt_fail_memory(err, "self transport");
    }
    t->base = (struct tt_transport){&self_ops, rank, size};
    for (uint32_t i = 0; i < SLOTS; i++)
        t->slot[i].data = t->store + (size_t)i * TT_INLINE_MAX;
    *ret = &t->base;
    return TUTTI_OK;
}
