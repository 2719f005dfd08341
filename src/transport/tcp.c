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
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* NEWS: events of one epoll call. DIRECT_MAX: up to so many sockets poll reads without asking
 * epoll. LOOK_EVERY: polls that serve the list before the kernel is asked anyway. DRAINS: reads
 * before a close. */
enum { QUEUE = 256, NEWS = 64, DIRECT_MAX = 1, LOOK_EVERY = 16, DRAINS = 64 };
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

static tutti_status add_socket(struct tt_tcp *t, const struct tt_tcp_link *l, uint32_t stripe,
                               struct tutti_error *err);

/* Takes over the sockets that are connected, and hears of those that will not be. A socket for a
 * peer that has one, or has ended, is closed. Keys are erased from the stack. */
static void take_links(struct tt_tcp *t)
{
    struct tt_tcp_link l;
    while (t->source.take(t->source.ctx, &l)) {
        assert(l.peer < t->base.size);
        const struct tt_tcp_peer *p = &t->peer[l.peer];
        bool fits = !p->sockets && !p->ending,
             stands = fits && l.fd >= 0 && !add_socket(t, &l, 0, NULL);
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

/* At most two rounds over the to-do list, and one question to the kernel in between. */
static size_t tcp_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
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

/* Sleeps until something is listed, a queue has room, or the deadline. Epoll may report only things
 * that are of no use now (mark): then it sleeps again. */
static void tcp_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    bool found = t->room || t->missed;
    while (!t->todo_len && !found) {
        uint64_t now = tt_now_ns();
        found = now >= deadline_ns || tcp_ask(t, deadline_ns - now);
    }
    t->room = false;
}

/* ---- opening and closing ---- */

/* With unread bytes in the receive queue close would send a reset, which throws away what the peer
 * has not read yet. The number of reads is bounded: a peer that goes on sending is not waited for.
 * */
static void close_socket(int fd)
{
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < DRAINS && recv(fd, NULL, 1 << 20, MSG_TRUNC | MSG_DONTWAIT) > 0; i++)
        ;
    tt_fd_close(fd);
}

static void free_socket(struct tt_tcp_sock *s)
{
    tt_tcp_tx_free(&s->tx);
    tt_tcp_rx_free(&s->rx);
    tt_tcp_seal_free(s->seal);
    free(s);
}

static void tcp_close(struct tt_transport *base)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    for (uint32_t i = 0; i < t->nsock; i++) {
        if (t->sock[i]->fd >= 0)
            close_socket(t->sock[i]->fd);
        free_socket(t->sock[i]);
    }
    if (t->epoll >= 0)
        tt_fd_close(t->epoll);
    if (t->source.close)
        t->source.close(t->source.ctx);
    free(t->peer);
    free(t->sock);
    free(t->at);
    free(t->todo);
    free(t);
}

static int tcp_fd(const struct tt_transport *base)
{
    return ((const struct tt_tcp *)base)->epoll;
}

static const struct tt_transport_ops tcp_ops = {
    .name = "tcp",
    .desc = "TCP sockets, striped",
    .send = tt_tcp_send,
    .accept = tt_tcp_accept,
    .release = tt_tcp_release,
    .poll = tcp_poll,
    .wait = tcp_wait,
    .close = tcp_close,
    .leave = tt_tcp_leave,
    .fd = tcp_fd,
    .link = tt_tcp_link,
};

/* Queue, buffer, keys and epoll of a socket. It begins as readable: bytes may have come already. */
static tutti_status tcp_furnish(struct tt_tcp_sock *s, const struct tt_tcp_guard *guard,
                                struct tutti_error *err)
{
    int one = 1, flags = fcntl(s->fd, F_GETFL);
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = s};
    tutti_status status = tt_tcp_tx_init(&s->tx, s->t->queue, err);

    if (!status)
        status = tt_tcp_rx_init(&s->rx, err);
    if (!status && guard->keys.cipher != TT_CIPHER_NONE)
        status = tt_tcp_seal_open(&guard->keys, &s->seal, err);
    if (status)
        return status;
    s->rx.checked = guard->checksum && !s->seal;
    if (flags < 0 || fcntl(s->fd, F_SETFL, flags | O_NONBLOCK) ||
        epoll_ctl(s->t->epoll, EPOLL_CTL_ADD, s->fd, &e))
        return tt_fail(err, TUTTI_ERR_IO, "socket %d to rank %u: %s", s->fd, (unsigned)s->peer,
                       strerror(errno));
    /* may fail on a socket that is not TCP, which has no such delay */
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->rx.readable = true;
    return TUTTI_OK;
}

/* On failure the descriptor stays the caller's. */
static tutti_status add_socket(struct tt_tcp *t, const struct tt_tcp_link *l, uint32_t stripe,
                               struct tutti_error *err)
{
    assert(stripe < t->stripes && l->peer < t->base.size);
    struct tt_tcp_sock *s = tt_zalloc(1, sizeof *s);
    if (!s)
        return tt_fail_memory(err, "socket");
    *s = (struct tt_tcp_sock){.t = t, .fd = l->fd, .peer = l->peer, .stripe = stripe};
    tutti_status status = tcp_furnish(s, &l->guard, err);
    if (status) {
        free_socket(s);
        return status;
    }
    assert(t->nsock < t->stripes * t->base.size && !t->at[(size_t)stripe * t->base.size + l->peer]);
    t->at[(size_t)stripe * t->base.size + l->peer] = s;
    t->sock[t->nsock++] = s;
    t->peer[l->peer].live++;
    t->peer[l->peer].sockets++;
    tt_tcp_todo(s);
    return TUTTI_OK;
}

static tutti_status add_sockets(struct tt_tcp *t, const struct tt_tcp_config *c,
                                struct tutti_error *err)
{
    size_t places = (size_t)c->stripes * c->size;
    tutti_status status = TUTTI_OK;
    for (size_t i = 0; c->fds && !status && i < places; i++) {
        struct tt_tcp_link l = {.peer = (uint32_t)(i % c->size), .fd = c->fds[i]};
        if (l.fd < 0)
            continue;
        if (c->guards)
            l.guard = c->guards[i];
        status = add_socket(t, &l, (uint32_t)(i / c->size), err);
        explicit_bzero(&l.guard.keys, sizeof l.guard.keys);
    }
    return status;
}

/* The bell is level-triggered, unlike the sockets: it is reported as long as something can be
 * taken. Its event has no pointer. */
static tutti_status add_source(struct tt_tcp *t, const struct tt_tcp_source *source,
                               struct tutti_error *err)
{
    struct epoll_event e = {.events = EPOLLIN};
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, source->bell, &e))
        return tt_fail(err, TUTTI_ERR_IO, "epoll: %s", strerror(errno));
    t->source = *source;
    return TUTTI_OK;
}

static tutti_status tcp_make(struct tt_tcp *t, const struct tt_tcp_config *c,
                             struct tutti_error *err)
{
    size_t places = (size_t)c->stripes * c->size;
    t->peer = tt_zalloc(c->size, sizeof *t->peer);
    t->sock = tt_zalloc(places, sizeof(struct tt_tcp_sock *));
    t->at = tt_zalloc(places, sizeof(struct tt_tcp_sock *));
    t->todo = tt_zalloc(places, sizeof(struct tt_tcp_sock *));
    if (!t->peer || !t->sock || !t->at || !t->todo)
        return tt_fail_memory(err, "tcp transport");
    t->epoll = tt_fd_own(epoll_create1(EPOLL_CLOEXEC));
    if (t->epoll < 0)
        return tt_fail(err, TUTTI_ERR_IO, "epoll: %s", strerror(errno));
    tutti_status status = add_sockets(t, c, err);
    return status || !c->source ? status : add_source(t, c->source, err);
}

tutti_status tt_tcp_open(const struct tt_tcp_config *c, struct tt_transport **ret,
                         struct tutti_error *err)
{
    if (!c->size || c->rank >= c->size || !c->stripes ||
        (uint64_t)c->stripes * c->size > UINT32_MAX || (c->source && c->stripes != 1))
        return tt_fail(err, TUTTI_ERR_ARG, "tcp: rank %u of %u with %u stripes", (unsigned)c->rank,
                       (unsigned)c->size, (unsigned)c->stripes);
    struct tt_tcp *t = tt_zalloc(1, sizeof *t);
    if (!t)
        return tt_fail_memory(err, "tcp transport");
    t->base = (struct tt_transport){&tcp_ops, c->rank, c->size};
    t->epoll = -1;
    t->stripes = c->stripes;
    t->queue = c->queue ? c->queue : QUEUE;
    tutti_status status = tcp_make(t, c, err);
    if (!status) {
        *ret = &t->base;
        return TUTTI_OK;
    }
    for (uint32_t i = 0; i < t->nsock; i++)
        t->sock[i]->fd = -1; /* they stay the caller's */
    tcp_close(&t->base);
    return status;
}
