/* tcp.c - the tcp transport: opening, polling, sleeping, closing (tcp.h shows the whole).
 *
 * CPU time spent here is taken from training, so the aim is few system calls. A send goes to the
 * kernel at once. A poll first serves what is known to be ready and asks the kernel only when that
 * gave nothing: with one socket it simply tries to read (an empty read costs about as much as
 * asking epoll, and a successful one saves the question), with more it asks epoll. Epoll is
 * edge-triggered: a socket whose stream waits for the caller (accept, release) wakes nobody, and
 * the epoll set hardly ever changes.
 *
 *     poll:  serve the to-do list -> events?  yes: return
 *                                             no:  look (read or epoll), serve the list, return
 *
 * Sockets may be made on demand: the first send to a peer asks for one and answers
 * TUTTI_IN_PROGRESS. When it is connected, also if the peer asked for it, a descriptor in the epoll
 * set (the bell) becomes readable.
 *
 * Ends. A peer is closed when all its sockets are: data that one stripe still holds must not be
 * lost because another saw the end first. An error on one stripe shuts the others down, which still
 * lets them read what has arrived.
 *
 * Invariant: a socket stands in the to-do list at most once, so the list never overflows. */
#include <assert.h>

#include "transport/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* NEWS: events of one epoll call. DIRECT_MAX: up to so many sockets poll reads without asking
 * epoll. LOOK_EVERY: polls that serve the list before the kernel is asked anyway. */
enum { NEWS = 64, DIRECT_MAX = 1, LOOK_EVERY = 16 };
#define HOUR_NS UINT64_C(3600000000000)

/* ---- the to-do list ---- */

void tt_tcp_todo(struct tt_tcp_sock *s)
{
    struct tt_tcp *t = s->t;
    if (s->listed)
        return;
    assert(t->todo_len < t->stripes * t->base.size);
    uint32_t at = t->todo_head + t->todo_len++, places = t->stripes * t->base.size;
    t->todo[at < places ? at : at - places] = s;
    s->listed = true;
}

/* Takes the first socket out of the list, a ring of stripes * size places. */
static struct tt_tcp_sock *tcp_take(struct tt_tcp *t)
{
    struct tt_tcp_sock *s = t->todo[t->todo_head];
    assert(t->todo_len > 0 && s->listed);
    t->todo_head = t->todo_head + 1 < t->stripes * t->base.size ? t->todo_head + 1 : 0;
    t->todo_len--;
    s->listed = false;
    return s;
}

/* ---- ends ---- */

/* Shuts every socket of the peer down. What has arrived can still be read; then reading finds the
 * end. */
static void shut_peer(struct tt_tcp *t, uint32_t peer)
{
    for (uint32_t k = 0; k < t->stripes; k++) {
        struct tt_tcp_sock *s = t->at[(size_t)k * t->base.size + peer];
        if (!s || s->fd < 0)
            continue;
        shutdown(s->fd, SHUT_RDWR);
        s->rx.readable = s->rx.hup = true;
        tt_tcp_todo(s);
    }
}

/* The first error of a peer's sockets is the one that CLOSED reports. */
static void note_end(struct tt_tcp_sock *s, int error)
{
    struct tt_tcp_peer *p = &s->t->peer[s->peer];
    p->ending = true;
    if (error && !p->error)
        p->error = error;
}

/* Held data events stay valid: the buffer is freed with the transport. */
void tt_tcp_end(struct tt_tcp_sock *s, int error)
{
    assert(s->fd >= 0 && s->t->peer[s->peer].live > 0);
    tt_tcp_tx_drop(s);
    tt_fd_close(s->fd);
    s->fd = -1;
    s->rx.state = TT_RX_END;
    s->rx.head = s->rx.tail;
    s->t->peer[s->peer].live--;
    note_end(s, error);
    if (error)
        shut_peer(s->t, s->peer);
    tt_tcp_todo(s);
}

/* In state HEADER the frame is that of the piece before: the altered piece is not known. */
void tt_tcp_altered(struct tt_tcp_sock *s)
{
    struct tt_tcp_peer *p = &s->t->peer[s->peer];
    if (!p->error && s->rx.state != TT_RX_HEADER) {
        p->known = true;
        p->bad = s->rx.frame.tag;
    }
    tt_tcp_end(s, EBADMSG);
}

void tt_tcp_break(struct tt_tcp_sock *s, int error)
{
    tt_tcp_tx_drop(s);
    note_end(s, error);
    shut_peer(s->t, s->peer);
}

/* CLOSED, once all sockets of the peer have ended. No SENT can follow: a socket's SENT events are
 * told before it is read, and an end is found by reading. */
static size_t tell_closed(struct tt_tcp_peer *p, uint32_t peer, struct tt_event *ev)
{
    if (p->live || p->told)
        return 0;
    p->told = true;
    *ev = (struct tt_event){
        .kind = TT_EV_CLOSED, .peer = peer, .error = p->error, .known = p->known, .tag = p->bad};
    return 1;
}

/* ---- sockets on demand ---- */

/* There will be no socket for this peer: CLOSED is due. Ignored if it has had one. */
static void miss(struct tt_tcp *t, uint32_t peer, int error)
{
    struct tt_tcp_peer *p = &t->peer[peer];
    if (p->ending || p->sockets)
        return;
    assert(!p->told);
    p->ending = p->missed = true;
    p->error = error;
    t->missed++;
    t->source.peers--;
}

tutti_status tt_tcp_want(struct tt_tcp *t, uint32_t peer)
{
    struct tt_tcp_peer *p = &t->peer[peer];
    if (!t->source.want || peer == t->base.rank)
        return TUTTI_ERR_ARG;
    if (!p->wanted && !t->source.want(t->source.ctx, peer)) {
        miss(t, peer, ENOMEM);
        return TUTTI_ERR_IO;
    }
    p->wanted = true;
    return TUTTI_IN_PROGRESS;
}

/* Takes over the sockets that are connected, and hears of those that will not be. A socket for a
 * peer that has one, or has ended, is closed. Keys are erased from the stack. */
static void take_links(struct tt_tcp *t)
{
    struct tt_tcp_link l;
    while (t->source.take(t->source.ctx, &l)) {
        assert(l.peer < t->base.size);
        const struct tt_tcp_peer *p = &t->peer[l.peer];
        bool fits = !p->sockets && !p->ending,
             stands = fits && l.fd >= 0 && !tt_tcp_add_socket(t, &l, 0, NULL);
        if (!stands && l.fd >= 0)
            tt_fd_close(l.fd);
        if (stands)
            t->source.peers--;
        else
            miss(t, l.peer, l.fd < 0 ? l.error : ENOMEM);
        explicit_bzero(&l.guard.keys, sizeof l.guard.keys);
    }
    t->room = true;
}

/* CLOSED of the peers that will never have a socket. */
static size_t tell_missed(struct tt_tcp *t, struct tt_event *ev, size_t max)
{
    size_t n = 0;
    for (uint32_t peer = 0; t->missed && n < max && peer < t->base.size; peer++)
        if (t->peer[peer].missed) {
            t->peer[peer].missed = false;
            t->missed--;
            n += tell_closed(&t->peer[peer], peer, ev + n);
        }
    return n;
}

/* ---- polling ---- */

/* SENT events first, then what has come, then the end of the peer, if this was its last socket. */
static size_t tcp_serve(struct tt_tcp_sock *s, struct tt_event *ev, size_t max)
{
    size_t n = tt_tcp_tx_tell(s, ev, max);
    n += tt_tcp_rx_serve(s, ev + n, max - n);
    if (s->fd >= 0)
        return n;
    if (n < max)
        n += tell_closed(&s->t->peer[s->peer], s->peer, ev + n);
    else
        tt_tcp_todo(s);
    return n;
}

/* Serves each socket once that is listed now: a socket that lists itself again waits for the next
 * poll. */
static size_t serve_todo(struct tt_tcp *t, struct tt_event *ev, size_t max)
{
    size_t n = 0;
    for (uint32_t turns = t->todo_len; turns > 0 && t->todo_len > 0 && n < max; turns--)
        n += tcp_serve(tcp_take(t), ev + n, max - n);
    return n;
}

/* Notes what epoll said about s. True: poll, or a sender that found the queue full, has something
 * to do. */
static bool mark(struct tt_tcp_sock *s, uint32_t events)
{
    bool useful = false;
    if (s->fd < 0)
        return false;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->rx.hup = true;
    if (events & ~(uint32_t)EPOLLOUT) {
        s->rx.readable = true;
        useful = tt_rx_wants(&s->rx);
    }
    if (useful)
        tt_tcp_todo(s);
    if (!(events & EPOLLOUT))
        return useful;
    if (s->tx.blocked) {
        tt_tcp_tx_flush(s);
        s->t->room = s->t->room || !s->listed;
        return true;
    }
    if (events == EPOLLOUT)
        tt_tcp_tx_disarm(s);
    return useful;
}

/* Asks epoll once, sleeping up to timeout_ns. True: there is something to do, or an error, after
 * which the caller must not sleep on. Kernels without epoll_pwait2 sleep in milliseconds, rounded
 * up. */
static bool tcp_ask(struct tt_tcp *t, uint64_t timeout_ns)
{
    struct epoll_event e[NEWS];
    uint64_t ns = timeout_ns < HOUR_NS ? timeout_ns : HOUR_NS;
    struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    bool useful = false, rung = false;
    int n = ns ? epoll_pwait2(t->epoll, e, NEWS, &ts, NULL) : epoll_wait(t->epoll, e, NEWS, 0);
    if (n < 0 && errno == ENOSYS)
        n = epoll_wait(t->epoll, e, NEWS, (int)((ns + 999999) / 1000000));
    for (int i = 0; i < n; i++)
        if (e[i].data.ptr)
            useful |= mark(e[i].data.ptr, e[i].events);
        else
            rung = true;
    if (rung)
        take_links(t); /* after the loop: it changes the list of sockets */
    return useful || rung || n < 0;
}

/* Asks the kernel which sockets have something. With one socket that has room to send and no
 * sockets to come, the attempt to read is itself the question. */
static void tcp_look(struct tt_tcp *t)
{
    if (t->nsock > DIRECT_MAX || t->blocked || t->source.peers) {
        tcp_ask(t, 0);
        return;
    }
    for (uint32_t i = 0; i < t->nsock; i++) {
        struct tt_tcp_sock *s = t->sock[i];
        if (s->fd < 0 || !tt_rx_wants(&s->rx))
            continue;
        s->rx.readable = true;
        tt_tcp_todo(s);
    }
}

size_t tt_tcp_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    if (t->todo_len && ++t->turn % LOOK_EVERY == 0)
        tcp_look(t); /* a busy socket must not hide the others */
    size_t n = tell_missed(t, ev, max);
    n += serve_todo(t, ev + n, max - n);
    if (n)
        return n;
    if (!t->todo_len)
        tcp_look(t);
    return serve_todo(t, ev, max);
}

void tt_tcp_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    bool found = t->room || t->missed;
    while (!t->todo_len && !found) {
        uint64_t now = tt_now_ns();
        found = now >= deadline_ns || tcp_ask(t, deadline_ns - now);
    }
    t->room = false;
}
