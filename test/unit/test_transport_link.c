/* The rate of a way: counted only for the part of a payload that had to be waited for, and only then. A hand-made sender holds bytes
 * back. */
#include "transport/tcp.h"
#include "transport_pair.h"

enum { BYTES = 256 << 10, FIRST = 100 << 10, WAIT_NS = 20000000 };

static uint8_t wire[TT_FRAME_HEADER + BYTES];
static char place[BYTES];

static void make_frame(uint64_t number)
{
    struct tt_tcp_frame f = {.bytes = BYTES, .number = number};
    tt_tcp_frame_encode(&f, wire);
    for (size_t i = 0; i < BYTES; i++)
        wire[TT_FRAME_HEADER + i] = (uint8_t)(i * 7 + number);
}

static void push(int fd, size_t from, size_t end)
{
    while (from < end) {
        ssize_t n = write(fd, wire + from, end - from);
        assert_true(n > 0);
        from += (size_t)n;
    }
}

/* Polls for up to a moment; accepts what is announced. Returns true when a payload is complete. */
static bool serve(struct tt_transport *t, uint64_t ns)
{
    struct tt_event ev[4];
    bool done = false;
    for (uint64_t until = tt_now_ns() + ns; !done && tt_now_ns() < until;) {
        size_t n = t->ops->poll(t, ev, 4);
        for (size_t i = 0; i < n; i++) {
            struct iovec v = {place, BYTES};
            if (ev[i].kind == TT_EV_HEADER)
                assert_int_equal(t->ops->accept(t, 1, ev[i].stream, &v, 1), TUTTI_OK);
            done = done || ev[i].kind == TT_EV_RECEIVED;
        }
    }
    return done;
}

static void waited_for(void **state)
{
    (void)state;
    int fd[2], fds[2];
    struct tt_link_stats s;
    struct tt_transport *t = NULL;
    connect_pair(fd, 0);
    fds[0] = -1;
    fds[1] = fd[0];
    assert_int_equal(tt_tcp_open(&(struct tt_tcp_config){.rank = 0, .size = 2, .stripes = 1, .fds = fds}, &t, NULL), TUTTI_OK);
    assert_false(tt_transport_link(t, 1, &s));
    assert_false(tt_transport_link(t, 0, &s));
    assert_false(tt_transport_link(t, 2, &s));

    make_frame(0);
    uint64_t before = tt_now_ns();
    push(fd[1], 0, TT_FRAME_HEADER + FIRST);
    assert_false(serve(t, WAIT_NS));
    push(fd[1], TT_FRAME_HEADER + FIRST, TT_FRAME_HEADER + BYTES);
    while (!serve(t, WAIT_NS))
        ;
    assert_memory_equal(place, wire + TT_FRAME_HEADER, BYTES);
    assert_true(tt_transport_link(t, 1, &s));
    assert_true(s.bytes >= BYTES - FIRST && s.bytes <= BYTES); /* what the kernel had at the first look was not waited for */
    assert_true(s.busy_ns > 0 && s.busy_ns <= tt_now_ns() - before);
    assert_true((double)s.rate > (double)s.bytes * 1e9 / (double)s.busy_ns * 0.9); /* a step of the histogram is an eighth */
    assert_true((double)s.rate < (double)s.bytes * 1e9 / (double)s.busy_ns * 1.1);
    t->ops->close(t);
    close(fd[1]);
}

/* The median by bytes: one stalled payload among many does not count. */
static void median(void **state)
{
    (void)state;
    struct tt_tcp_sock sock = {.peer = 1}, *at[2] = {NULL, &sock};
    struct tt_tcp t = {.base = {NULL, 0, 2}, .stripes = 1, .at = at};
    struct tt_link_stats s;
    for (int i = 0; i < 5; i++) {
        sock.rx.left = 1 << 20;
        tt_tcp_starved(&sock);
        sock.rx.left = 1000;
        tt_tcp_starved(&sock); /* still the same payload */
        sock.starved_ns = tt_now_ns() - (i == 2 ? 5000000000 : 10000000);
        tt_tcp_complete(&sock);
        tt_tcp_complete(&sock); /* nothing was waited for */
    }
    assert_true(tt_tcp_link(&t.base, 1, &s));
    assert_int_equal(s.bytes, 5 << 20);
    assert_true(s.rate > 85000000 && s.rate < 120000000);
    assert_true(s.busy_ns > 5000000000);
    sock = (struct tt_tcp_sock){.peer = 1, .rx = {.left = 1}}; /* rates beyond both ends of the histogram */
    tt_tcp_starved(&sock);
    sock.starved_ns = 1;
    tt_tcp_complete(&sock);
    assert_true(tt_tcp_link(&t.base, 1, &s) && s.rate > 0 && s.rate < 2048);
    sock = (struct tt_tcp_sock){.peer = 1};
    sock.rates.bytes[TT_LINK_STEPS - 1] = 1;
    assert_true(tt_tcp_link(&t.base, 1, &s) && s.rate > UINT64_C(1) << 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waited_for), cmocka_unit_test(median)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
