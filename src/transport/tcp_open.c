/* tcp_open.c - opening and closing the tcp transport, and its table of functions. Sockets are
 * connected and authenticated before they come here (boot); closing one reads what has arrived
 * first, so that the kernel does not answer the peer's last bytes with a reset. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp.h"

/* QUEUE: pieces that a socket may have queued. DRAINS: reads before a close. */
enum { QUEUE = 256, DRAINS = 64 };

tutti_status tt_tcp_add_socket(struct tt_tcp *t, const struct tt_tcp_link *l, uint32_t stripe,
                               struct tutti_error *err);

/* With unread bytes in the receive queue close() would send a reset, and the peer would lose what
 * it has not read yet. The reads are bounded: a peer that goes on sending is not waited for. */
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
    .poll = tt_tcp_poll,
    .wait = tt_tcp_wait,
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

tutti_status tt_tcp_add_socket(struct tt_tcp *t, const struct tt_tcp_link *l, uint32_t stripe,
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
        status = tt_tcp_add_socket(t, &l, (uint32_t)(i / c->size), err);
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
