/* Sockets of tcp that are made when they are first needed: asked for once, taken when they stand whoever asked, missed with an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/transport.h"

enum { RANKS = 4 };
#define SOON (tt_now_ns() + UINT64_C(10000000000))

/* A source by hand: what was wanted, and what it gives next. */
static struct {
    uint32_t wanted[RANKS];
    struct tt_tcp_link give[8];
    size_t n, closed;
    bool refuses;
    int bell;
} source;

static bool want(void *ctx, uint32_t peer)
{
    (void)ctx;
    source.wanted[peer]++;
    return !source.refuses;
}

static bool take(void *ctx, struct tt_tcp_link *ret)
{
    uint64_t count;
    (void)ctx;
    if (!source.n) {
        assert_true(read(source.bell, &count, sizeof count) == sizeof count || errno == EAGAIN);
        return false;
    }
    *ret = source.give[--source.n];
    return true;
}

static void close_source(void *ctx)
{
    (void)ctx;
    source.closed++;
    close(source.bell);
}

static void give(uint32_t peer, int fd, int error)
{
    uint64_t one = 1;
    source.give[source.n++] = (struct tt_tcp_link){.peer = peer, .fd = fd, .error = error};
    assert_int_equal(write(source.bell, &one, sizeof one), sizeof one);
}

static struct tt_transport *open_on_demand(void)
{
    struct tt_tcp_source s = {.peers = RANKS - 1, .want = want, .take = take, .close = close_source};
    struct tt_transport *t = NULL;
    memset(&source, 0, sizeof source);
    s.bell = source.bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(tt_tcp_open(&(struct tt_tcp_config){.rank = 0, .size = RANKS, .stripes = 1, .source = &s}, &t, NULL), TUTTI_OK);
    return t;
}

/* The other end, as rank 1 of two. */
static struct tt_transport *open_other(int fd)
{
    struct tt_transport *t = NULL;
    assert_int_equal(tt_tcp_open(&(struct tt_tcp_config){.rank = 1, .size = 2, .stripes = 1, .fds = (int[]){fd, -1}}, &t, NULL), TUTTI_OK);
    return t;
}

static tutti_status send_word(struct tt_transport *t, uint32_t peer, uint32_t word)
{
    struct iovec v = {&word, sizeof word};
    return t->ops->send(t, peer, &(struct tt_tag){.message = word}, &v, 1, 0);
}

/* Waits for one event; sleeps, as a call would. */
static struct tt_event next_event(struct tt_transport *t)
{
    struct tt_event e = {0};
    uint64_t limit = SOON;
    while (!t->ops->poll(t, &e, 1)) {
        assert_true(tt_now_ns() < limit);
        t->ops->wait(t, limit);
    }
    return e;
}

static void expect_word(struct tt_transport *t, uint32_t peer, uint32_t word)
{
    struct tt_event e = next_event(t);
    assert_int_equal(e.kind, TT_EV_DATA);
    assert_int_equal(e.peer, peer);
    assert_int_equal(e.tag.message, word);
    t->ops->release(t, &e);
}

static void a_send_asks_once_and_goes_when_the_socket_stands(void **state)
{
    (void)state;
    struct tt_transport *t = open_on_demand(), *other;
    struct pollfd p = {.fd = tt_transport_fd(t), .events = POLLIN};
    struct tt_event e;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    other = open_other(fds[1]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(send_word(t, 2, 5), TUTTI_IN_PROGRESS);
        assert_int_equal(t->ops->poll(t, &e, 1), 0);
    }
    assert_int_equal(source.wanted[2], 1);
    assert_int_equal(poll(&p, 1, 0), 0);
    give(2, fds[0], 0);
    assert_int_equal(poll(&p, 1, 0), 1); /* a thread that sleeps on the descriptor wakes */
    t->ops->wait(t, SOON);               /* and so does one in the transport */
    assert_int_equal(send_word(t, 2, 5), TUTTI_OK);
    expect_word(other, 0, 5);
    assert_int_equal(send_word(other, 0, 6), TUTTI_OK);
    expect_word(t, 2, 6);
    assert_int_equal(send_word(t, 0, 1), TUTTI_ERR_ARG);
    assert_int_equal(source.wanted[1] + source.wanted[3], 0);
    other->ops->close(other);
    e = next_event(t);
    assert_int_equal(e.kind, TT_EV_CLOSED);
    assert_int_equal(e.peer, 2);
    t->ops->close(t);
    assert_int_equal(source.closed, 1);
}

static void a_peer_that_asked_first_is_heard(void **state)
{
    (void)state;
    struct tt_transport *t = open_on_demand(), *other[2];
    int fds[2][2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]), 0);
        other[i] = open_other(fds[i][1]);
        assert_int_equal(send_word(other[i], 0, 7), TUTTI_OK);
        give(i ? 3 : 1, fds[i][0], 0);
        expect_word(t, i ? 3 : 1, 7);
    }
    assert_int_equal(source.wanted[1] + source.wanted[3], 0);
    assert_int_equal(send_word(t, 1, 8), TUTTI_OK);
    expect_word(other[0], 0, 8);
    for (int i = 0; i < 2; i++)
        other[i]->ops->close(other[i]);
    t->ops->close(t);
}

static void a_socket_that_will_not_be_ends_its_peer_once(void **state)
{
    (void)state;
    struct tt_transport *t = open_on_demand();
    struct tt_event e;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(send_word(t, 1, 5), TUTTI_IN_PROGRESS);
    give(1, -1, ECONNREFUSED);
    e = next_event(t);
    assert_int_equal(e.kind, TT_EV_CLOSED);
    assert_int_equal(e.peer, 1);
    assert_int_equal(e.error, ECONNREFUSED);
    assert_int_equal(send_word(t, 1, 5), TUTTI_ERR_IO);
    give(1, fds[0], 0); /* too late: closed, and nothing more is told */
    assert_int_equal(t->ops->poll(t, &e, 1), 0);
    assert_int_equal(recv(fds[1], &e, 1, MSG_DONTWAIT), 0);
    source.refuses = true;
    assert_int_equal(send_word(t, 3, 5), TUTTI_ERR_IO);
    e = next_event(t);
    assert_int_equal(e.kind, TT_EV_CLOSED);
    assert_int_equal(e.peer, 3);
    assert_int_equal(e.error, ENOMEM);
    assert_int_equal(t->ops->poll(t, &e, 1), 0);
    close(fds[1]);
    t->ops->close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_asks_once_and_goes_when_the_socket_stands),
        cmocka_unit_test(a_peer_that_asked_first_is_heard),
        cmocka_unit_test(a_socket_that_will_not_be_ends_its_peer_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
