/* fault.c - a transport that misbehaves on purpose, for tests. It stands between the caller and
 * another transport and harms pieces that are sent.
 *
 * What happens to piece number i follows from (seed, i) alone, so a run can be repeated, and a
 * piece that found a full queue meets the same fate when it is tried again. Per piece, in this
 * order: dropped (the sender is told that it was sent); corrupted (a bit of the fingerprint flips,
 * or the last byte is missing); delayed (held for delay_ns while later pieces overtake it). After
 * `close_after` pieces every connection breaks: the caller gets CLOSED for every peer, and the
 * peers see this rank end.
 *
 * Receiving is passed through. The inner transport of a broken one stays open while data events of
 * it are still held by the caller (`lent`). */
#include <assert.h>

#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* HELD: delayed pieces at a time. TOLD: events of our own (SENT of dropped pieces). */
enum { HELD = 64, TOLD = 256 };

/* A delayed piece. */
struct held {
    bool used;
    bool stuck; /* its time has come, but the queue below was full */
    uint32_t peer;
    int niov;
    struct tt_tag tag;
    uint64_t cookie, due_ns;
    struct iovec iov[TT_IOV_MAX];
    uint8_t *copy; /* cookie 0: TT_INLINE_MAX bytes */
};

struct fault {
    struct tt_transport base;
    struct tt_transport *inner; /* NULL once it is broken and the caller holds no data of it */
    struct tt_fault_config c;
    uint64_t pieces;
    bool broken;
    uint64_t lent; /* data events that were not released */
    bool *closed;  /* [peer]: its end was delivered */
    struct tt_event told[TOLD];
    uint32_t told_head, told_tail; /* free-running */
    uint8_t *store;
    struct held held[HELD];
};

/* What is to happen to one piece. */
struct fate {
    bool drop, flip, cut, delay;
    uint64_t bit; /* to flip */
};

/* All random numbers are drawn whatever the configuration, so that changing one rate does not
 * change the other decisions. */
static struct fate fate_of(const struct fault *f, uint64_t piece)
{
    struct tt_rng r;
    tt_rng_seed(&r, tt_mix64(f->c.seed) ^ piece);
    bool drop = tt_rng_below(&r, 1000) < f->c.drop_permille;
    bool corrupt = tt_rng_below(&r, 1000) < f->c.corrupt_permille;
    bool delay = tt_rng_below(&r, 1000) < f->c.delay_permille;
    uint64_t how = tt_rng_below(&r, 128);
    return (struct fate){.drop = drop,
                         .flip = corrupt && how < 64,
                         .cut = corrupt && how >= 64,
                         .delay = delay,
                         .bit = how & 63};
}

static void fault_say(struct fault *f, struct tt_event ev)
{
    assert(f->told_tail - f->told_head < TOLD);
    f->told[f->told_tail++ % TOLD] = ev;
}

/* ---- a piece on its way ---- */

static size_t fault_total(const struct iovec *iov, int niov)
{
    size_t sum = 0;
    for (int i = 0; i < niov; i++)
        sum += iov[i].iov_len;
    return sum;
}

/* Removes the last byte of the list; an empty list stays as it is. */
static void cut_last(struct iovec *iov, int niov)
{
    for (int i = niov - 1; i >= 0; i--)
        if (iov[i].iov_len) {
            iov[i].iov_len--;
            return;
        }
}

static struct held *free_place(struct fault *f)
{
    for (size_t i = 0; i < HELD; i++)
        if (!f->held[i].used)
            return &f->held[i];
    return NULL;
}

static void fault_gather(uint8_t *to, const struct iovec *iov, int niov)
{
    for (int i = 0; i < niov; i++) {
        if (iov[i].iov_len)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

/* Keeps *p for later; false: no room. With a cookie the caller's memory stays valid until SENT;
 * without one the payload is copied now. */
static bool fault_hold(struct fault *f, const struct held *p)
{
    struct held *h = free_place(f);
    if (!h)
        return false;
    uint8_t *copy = h->copy;
    *h = *p;
    h->used = true;
    h->copy = copy;
    h->due_ns = tt_now_ns() + f->c.delay_ns;
    if (p->cookie)
        return true;
    fault_gather(copy, p->iov, p->niov);
    h->iov[0] = (struct iovec){copy, fault_total(p->iov, p->niov)};
    h->niov = 1;
    return true;
}

static tutti_status forward(struct fault *f, const struct held *p)
{
    return f->inner->ops->send(f->inner, p->peer, &p->tag, p->iov, p->niov, p->cookie);
}

/* Drops the piece and says SENT if that was asked for. */
static tutti_status fault_drop(struct fault *f, const struct held *p)
{
    if (f->told_tail - f->told_head == TOLD)
        return TUTTI_IN_PROGRESS;
    if (p->cookie)
        fault_say(f, (struct tt_event){.kind = TT_EV_SENT, .peer = p->peer, .cookie = p->cookie});
    return TUTTI_OK;
}

/* All connections break. Closing the inner transport is what peers see; it waits for the release of
 * what the caller still holds. */
static void break_all(struct fault *f)
{
    assert(!f->broken && f->inner);
    f->broken = true;
    f->told_head = f->told_tail;
    for (size_t i = 0; i < HELD; i++)
        f->held[i].used = false;
    if (f->lent)
        return;
    f->inner->ops->close(f->inner);
    f->inner = NULL;
}

/* A piece counts only when it was taken: TUTTI_IN_PROGRESS leaves the number, and with it the fate,
 * for the next attempt. */
static tutti_status fault_send(struct tt_transport *base, uint32_t peer, const struct tt_tag *tag,
                               const struct iovec *iov, int niov, uint64_t cookie)
{
    struct fault *f = (struct fault *)base;
    struct held p = {.peer = peer, .niov = niov, .tag = *tag, .cookie = cookie};
    struct fate fate = fate_of(f, f->pieces);
    tutti_status status;

    if (peer >= base->size || niov < 0 || niov > TT_IOV_MAX ||
        fault_total(iov, niov) > (cookie ? TT_PIECE_MAX : TT_INLINE_MAX))
        return TUTTI_ERR_ARG;
    if (f->broken || f->closed[peer])
        return TUTTI_ERR_IO;
    if (niov)
        memcpy(p.iov, iov, (size_t)niov * sizeof *iov);
    if (fate.flip)
        p.tag.fingerprint ^= UINT64_C(1) << fate.bit;
    if (fate.cut)
        cut_last(p.iov, niov);
    if (fate.drop)
        status = fault_drop(f, &p);
    else if (fate.delay)
        status = fault_hold(f, &p) ? TUTTI_OK : TUTTI_IN_PROGRESS;
    else
        status = forward(f, &p);
    if (!status && ++f->pieces == f->c.close_after)
        break_all(f);
    return status;
}

/* ---- the way in ---- */

static tutti_status fault_accept(struct tt_transport *base, uint32_t peer, uint32_t stream,
                                 const struct iovec *iov, int niov)
{
    struct fault *f = (struct fault *)base;
    return f->broken ? TUTTI_ERR_IO : f->inner->ops->accept(f->inner, peer, stream, iov, niov);
}

/* The last release after a break closes the inner transport. */
static void fault_release(struct tt_transport *base, const struct tt_event *ev)
{
    struct fault *f = (struct fault *)base;
    if (ev->kind != TT_EV_DATA || !f->inner)
        return;
    f->inner->ops->release(f->inner, ev);
    if (--f->lent || !f->broken)
        return;
    f->inner->ops->close(f->inner);
    f->inner = NULL;
}

/* Sends the delayed pieces whose time has come; if the queue below is full they wait on. */
static void send_due(struct fault *f)
{
    uint64_t now = tt_now_ns();
    for (size_t i = 0; i < HELD; i++) {
        struct held *h = &f->held[i];
        if (!h->used || h->due_ns > now)
            continue;
        h->stuck = forward(f, h) == TUTTI_IN_PROGRESS;
        h->used = h->stuck;
    }
}

/* Events of our own: SENT of dropped pieces, and after a break CLOSED of every peer, once. */
static size_t tell_own(struct fault *f, struct tt_event *ev, size_t max)
{
    size_t n = 0;
    for (; n < max && f->told_head != f->told_tail; f->told_head++) {
        struct tt_event e = f->told[f->told_head % TOLD];
        if (!f->closed[e.peer])
            ev[n++] = e;
    }
    for (uint32_t r = 0; f->broken && r < f->base.size && n < max; r++) {
        if (f->closed[r] || r == f->base.rank)
            continue;
        f->closed[r] = true;
        ev[n++] = (struct tt_event){.kind = TT_EV_CLOSED, .peer = r, .error = ECONNRESET};
    }
    return n;
}

static size_t fault_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
{
    struct fault *f = (struct fault *)base;
    size_t n = tell_own(f, ev, max);
    if (f->broken)
        return n;
    send_due(f);
    size_t got = f->inner->ops->poll(f->inner, ev + n, max - n);
    for (size_t i = n; i < n + got; i++) {
        f->lent += ev[i].kind == TT_EV_DATA;
        if (ev[i].kind == TT_EV_CLOSED)
            f->closed[ev[i].peer] = true;
    }
    return n + got;
}

/* Would tell_own return something? */
static bool has_own(const struct fault *f)
{
    if (f->told_head != f->told_tail)
        return true;
    for (uint32_t r = 0; f->broken && r < f->base.size; r++)
        if (!f->closed[r] && r != f->base.rank)
            return true;
    return false;
}

static void sleep_until(uint64_t deadline_ns)
{
    struct timespec ts = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* Sleeps in the inner transport, but not longer than until the next delayed piece is due. Pieces
 * that are stuck wait for room below, which ends the inner wait. */
static void fault_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct fault *f = (struct fault *)base;
    if (has_own(f))
        return;
    if (f->broken) {
        sleep_until(deadline_ns);
        return;
    }
    for (size_t i = 0; i < HELD; i++) {
        const struct held *h = &f->held[i];
        if (h->used && !h->stuck && h->due_ns < deadline_ns)
            deadline_ns = h->due_ns;
    }
    f->inner->ops->wait(f->inner, deadline_ns);
}

/* ---- opening and closing ---- */

static void fault_free(struct fault *f)
{
    if (f) {
        free(f->closed);
        free(f->store);
    }
    free(f);
}

static void fault_close(struct tt_transport *base)
{
    struct fault *f = (struct fault *)base;
    if (f->inner)
        f->inner->ops->close(f->inner);
    fault_free(f);
}

static const struct tt_transport_ops fault_ops = {
    .name = "fault",
    .desc = "harms pieces on purpose, for tests",
    .send = fault_send,
    .accept = fault_accept,
    .release = fault_release,
    .poll = fault_poll,
    .wait = fault_wait,
    .close = fault_close,
};

tutti_status tt_fault_open(struct tt_transport *inner, const struct tt_fault_config *c,
                           struct tt_transport **ret, struct tutti_error *err)
{
    struct fault *f = tt_zalloc(1, sizeof *f);
    if (!f || !(f->store = tt_alloc(HELD, TT_INLINE_MAX)) ||
        !(f->closed = tt_zalloc(inner->size, sizeof *f->closed))) {
        fault_free(f);
        return tt_fail_memory(err, "fault transport");
    }
    f->base = (struct tt_transport){&fault_ops, inner->rank, inner->size};
    f->inner = inner;
    f->c = *c;
    for (size_t i = 0; i < HELD; i++)
        f->held[i].copy = f->store + i * TT_INLINE_MAX;
    *ret = &f->base;
    return TUTTI_OK;
}
