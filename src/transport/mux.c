/* mux.c - several transports as one: every peer has one part that carries it (shared memory inside
 * a host, TCP between hosts).
 *
 *     peer 0, 1 (this host)  ->  part 0: shm
 *     peer 2, 3              ->  part 1: tcp      route[] = 0 0 1 1
 *
 * Everything but waiting is a table lookup. A wait on one part does not notice another, so with two
 * or more parts that reach other ranks each is waited for in turn, in slices that double from
 * SLICE_MIN to SLICE_MAX: short while an answer is likely soon, then about a thousand wake-ups a
 * second, which cost far less than a hundredth of a core. With only one such part its own wait is
 * used. A part that carries only this rank itself (self) can have news only after a call from here.
 *
 * Invariant: after a peer's CLOSED no event of that peer is delivered. */
#include <assert.h>

#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds. */
#define SLICE_MIN UINT64_C(50000)
#define SLICE_MAX UINT64_C(1000000)

struct part {
    struct tt_transport *t;
    bool remote;  /* carries another rank */
    bool pending; /* not remote: was used, and has not been polled empty since */
};

struct mux {
    struct tt_transport base;
    uint32_t nparts, turn, remotes;
    struct part *part;
    uint8_t *route;
    bool *closed; /* [peer]: its end was delivered; nothing may follow */
};

/* The part that carries a peer. */
static struct part *part_of(struct mux *m, uint32_t peer)
{
    assert(peer < m->base.size && m->route[peer] < m->nparts);
    return &m->part[m->route[peer]];
}

static tutti_status mux_send(struct tt_transport *base, uint32_t peer, const struct tt_tag *tag,
                             const struct iovec *iov, int niov, uint64_t cookie)
{
    struct mux *m = (struct mux *)base;
    if (peer >= base->size)
        return TUTTI_ERR_ARG;
    if (m->closed[peer])
        return TUTTI_ERR_IO;
    struct part *p = part_of(m, peer);
    p->pending = true;
    return p->t->ops->send(p->t, peer, tag, iov, niov, cookie);
}

static tutti_status mux_accept(struct tt_transport *base, uint32_t peer, uint32_t stream,
                               const struct iovec *iov, int niov)
{
    if (peer >= base->size)
        return TUTTI_ERR_ARG;
    struct part *p = part_of((struct mux *)base, peer);
    p->pending = true;
    return p->t->ops->accept(p->t, peer, stream, iov, niov);
}

static void mux_release(struct tt_transport *base, const struct tt_event *ev)
{
    struct part *p = part_of((struct mux *)base, ev->peer);
    p->pending = true;
    p->t->ops->release(p->t, ev);
}

/* Keeps the events of peers that p carries. Data of another peer comes from a rank that sees the
 * routes differently. It becomes that rank's CLOSED event: no answer could take the same way. */
static size_t keep_routed(struct mux *m, struct part *p, struct tt_event *ev, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct tt_event e = ev[i];
        bool routed = part_of(m, e.peer) == p;
        if (m->closed[e.peer] || !routed)
            p->t->ops->release(p->t, &e);
        if (m->closed[e.peer] || (!routed && e.kind != TT_EV_DATA && e.kind != TT_EV_HEADER))
            continue;
        if (!routed)
            e = (struct tt_event){.kind = TT_EV_CLOSED, .peer = e.peer, .error = EPROTO};
        m->closed[e.peer] = e.kind == TT_EV_CLOSED;
        ev[kept++] = e;
    }
    return kept;
}

/* Each poll begins with the next part, so that a busy part cannot starve the others. */
static size_t mux_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
{
    struct mux *m = (struct mux *)base;
    size_t n = 0;
    uint32_t first = m->turn;
    assert(first < m->nparts);
    m->turn = m->turn + 1 < m->nparts ? m->turn + 1 : 0;
    for (uint32_t k = 0; k < m->nparts && n < max; k++) {
        struct part *p = &m->part[first + k < m->nparts ? first + k : first + k - m->nparts];
        size_t got = p->t->ops->poll(p->t, ev + n, max - n);
        assert(got <= max - n);
        p->pending = got > 0;
        n += keep_routed(m, p, ev + n, got);
    }
    return n;
}

/* May a part that carries only this rank have events? */
static bool has_pending(const struct mux *m)
{
    for (uint32_t i = 0; i < m->nparts; i++)
        if (!m->part[i].remote && m->part[i].pending)
            return true;
    return false;
}

/* Waits for each remote part for one slice; true: a wait ended early, something happened there. */
static bool wait_slices(struct mux *m, uint64_t slice, uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < m->nparts; i++) {
        struct tt_transport *t = m->part[i].t;
        uint64_t until = tt_now_ns() + slice;
        if (!m->part[i].remote)
            continue;
        if (until > deadline_ns)
            until = deadline_ns;
        t->ops->wait(t, until);
        if (tt_now_ns() < until)
            return true;
    }
    return false;
}

/* With fewer than two remote parts one part's own wait is enough: the remote one's, or the first's
 * if there is none. */
static void mux_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct mux *m = (struct mux *)base;
    if (has_pending(m))
        return;
    if (m->remotes < 2) {
        struct part *only = m->part;
        while (m->remotes && !only->remote)
            only++;
        assert(only < m->part + m->nparts);
        only->t->ops->wait(only->t, deadline_ns);
        return;
    }
    for (uint64_t slice = SLICE_MIN; tt_now_ns() < deadline_ns;
         slice = slice < SLICE_MAX / 2 ? 2 * slice : SLICE_MAX)
        if (wait_slices(m, slice, deadline_ns))
            return;
}

static bool mux_link(struct tt_transport *base, uint32_t peer, struct tt_link_stats *ret)
{
    return peer < base->size && tt_transport_link(part_of((struct mux *)base, peer)->t, peer, ret);
}

/* One descriptor cannot stand for two parts. */
static int mux_fd(const struct tt_transport *base)
{
    const struct mux *m = (const struct mux *)base;
    int fd = -1;
    for (uint32_t i = 0; m->remotes == 1 && i < m->nparts; i++)
        fd = m->part[i].remote ? tt_transport_fd(m->part[i].t) : fd;
    return fd;
}

static void mux_free(struct mux *m)
{
    free(m->part);
    free(m->route);
    free(m->closed);
    free(m);
}

static void mux_close(struct tt_transport *base)
{
    struct mux *m = (struct mux *)base;
    for (uint32_t i = 0; i < m->nparts; i++)
        m->part[i].t->ops->close(m->part[i].t);
    mux_free(m);
}

static void mux_leave(struct tt_transport *base)
{
    struct mux *m = (struct mux *)base;
    for (uint32_t i = 0; i < m->nparts; i++)
        tt_transport_leave(m->part[i].t);
    mux_free(m);
}

static void mux_abandon(struct tt_transport *base)
{
    struct mux *m = (struct mux *)base;
    for (uint32_t i = 0; i < m->nparts; i++)
        tt_transport_abandon(m->part[i].t);
    mux_free(m);
}

static const struct tt_transport_ops mux_ops = {
    .name = "mux",
    .desc = "several transports as one",
    .send = mux_send,
    .accept = mux_accept,
    .release = mux_release,
    .poll = mux_poll,
    .wait = mux_wait,
    .close = mux_close,
    .leave = mux_leave,
    .abandon = mux_abandon,
    .fd = mux_fd,
    .link = mux_link,
};

/* Checks before anything is taken over: after a failure the parts stay the caller's. */
static tutti_status mux_check(const struct mux *m, const uint8_t *route, struct tutti_error *err)
{
    if (!m->nparts || m->base.rank >= m->base.size)
        return tt_fail(err, TUTTI_ERR_ARG, "rank %u of %u on %u transports", (unsigned)m->base.rank,
                       (unsigned)m->base.size, (unsigned)m->nparts);
    for (uint32_t r = 0; r < m->base.size; r++)
        if (route[r] >= m->nparts)
            return tt_fail(err, TUTTI_ERR_ARG, "rank %u is routed to transport %u of %u",
                           (unsigned)r, (unsigned)route[r], (unsigned)m->nparts);
    return TUTTI_OK;
}

tutti_status tt_mux_open(uint32_t rank, uint32_t size, struct tt_transport *const *part,
                         uint32_t nparts, const uint8_t *route, struct tt_transport **ret,
                         struct tutti_error *err)
{
    struct mux tmp = {.base = {&mux_ops, rank, size}, .nparts = nparts},
               *m = tt_alloc(1, sizeof *m);
    tutti_status status = mux_check(&tmp, route, err);

    if (status || !m) {
        free(m);
        return status ? status : tt_fail_memory(err, "mux transport");
    }
    *m = tmp;
    m->part = tt_zalloc(nparts, sizeof *m->part);
    m->route = tt_alloc(size, 1);
    m->closed = tt_zalloc(size, sizeof *m->closed);
    if (!m->part || !m->route || !m->closed) {
        mux_free(m);
        return tt_fail_memory(err, "mux transport");
    }
    memcpy(m->route, route, size);
    for (uint32_t i = 0; i < nparts; i++)
        m->part[i].t = part[i];
    for (uint32_t r = 0; r < size; r++)
        part_of(m, r)->remote |= r != rank;
    for (uint32_t i = 0; i < nparts; i++)
        m->remotes += m->part[i].remote;
    *ret = &m->base;
    return TUTTI_OK;
}
