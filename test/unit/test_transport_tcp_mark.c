/* The tcp transport while a large payload trickles in: the kernel keeps quiet until much of it is there, yet whatever needs an answer is
 * heard: the last bytes, a short piece behind a long one, an end in the middle, a full buffer. The peer is a plain socket. */
#include "transport_pair.h"

#include <errno.h>
#include <poll.h>

#include "transport/tcp.h"

enum { LARGE = 128 << 10, STEP_MAX = 30000 };
static uint8_t wire[TT_PIECE_MAX + TT_FRAME_HEADER + TT_FRAME_ALIGN], place[TT_PIECE_MAX];

/* Rank 0 with two sockets to rank 1, so that it listens by epoll alone; raw[] are the other ends. */
static struct tt_transport *open_raw(int buffer, int raw[2])
{
    int fds[4];
    for (uint32_t k = 0; k < 2; k++) {
        int fd[2];
        connect_pair(fd, buffer);
        fds[2 * k] = -1;
        fds[2 * k + 1] = fd[0];
        raw[k] = fd[1];
    }
    return open_end((struct setup){.stripes = 2}, 0, fds);
}

static void close_raw(struct tt_transport *t, const int raw[2])
{
    t->ops->close(t);
    close(raw[0]);
    close(raw[1]);
}

static size_t make_frame(uint32_t number, uint32_t n)
{
    struct tt_tcp_frame f = {.tag = tag_of(number), .bytes = n, .number = number};
    tt_tcp_frame_encode(&f, wire);
    fill(wire + TT_FRAME_HEADER, n, number);
    memset(wire + TT_FRAME_HEADER + n, 0, tt_frame_padding(n));
    return TT_FRAME_HEADER + n + tt_frame_padding(n);
}

static void put(int fd, size_t from, size_t n)
{
    assert_int_equal(send(fd, wire + from, n, MSG_NOSIGNAL), n);
}

/* Sends a large piece up to `n` bytes of its payload; they are read, and nothing more is there. */
static void begin_large(struct tt_transport *t, int fd, uint32_t number, size_t n)
{
    struct iovec v = {place, LARGE};
    struct tt_event ev;
    make_frame(number, LARGE);
    put(fd, 0, TT_FRAME_HEADER + n);
    ev = next_event(t);
    assert_int_equal(ev.kind, TT_EV_HEADER);
    assert_int_equal(t->ops->accept(t, ev.peer, ev.stream, &v, 1), TUTTI_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(t->ops->poll(t, &ev, 1), 0);
}

static bool has_news(const struct tt_transport *t, int ms)
{
    struct pollfd p = {.fd = tt_transport_fd(t), .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

/* Little does not wake, the rest does, and after it a short piece as ever. */
static void woken_for_much(void **state)
{
    int raw[2];
    (void)state;
    struct tt_transport *t = open_raw(0, raw);
    for (uint32_t i = 0; i < 6; i += 2) {
        begin_large(t, raw[0], i, 1000);
        put(raw[0], TT_FRAME_HEADER + 1000, 5000);
        assert_false(has_news(t, 0));
        put(raw[0], TT_FRAME_HEADER + 6000, LARGE - 6000);
        assert_true(has_news(t, -1));
        assert_int_equal(next_event(t).kind, TT_EV_RECEIVED);
        check_content(place, LARGE, i);
        put(raw[0], 0, make_frame(i + 1, 3));
        assert_true(has_news(t, -1));
        struct tt_event ev = next_event(t);
        assert_int_equal(ev.kind, TT_EV_DATA);
        check_content(ev.data, 3, i + 1);
        t->ops->release(t, &ev);
    }
    close_raw(t, raw);
}

/* Takes what one poll gives; true when that was the end of the piece. */
static bool take(struct tt_transport *t, uint32_t number, uint32_t bytes)
{
    struct tt_event ev;
    if (!t->ops->poll(t, &ev, 1))
        return false;
    struct iovec v = {place, bytes};
    assert_int_equal(ev.tag.request, number);
    assert_int_equal(ev.bytes, bytes);
    if (ev.kind == TT_EV_HEADER) {
        assert_int_equal(t->ops->accept(t, ev.peer, ev.stream, &v, 1), TUTTI_OK);
        return false;
    }
    check_content(ev.data ? ev.data : place, bytes, number);
    t->ops->release(t, &ev);
    return true;
}

/* Pieces of all sizes in steps of all sizes; whoever cannot send on sleeps until the receiver has news, however small the buffers. */
static void any_steps(void **state)
{
    static const uint32_t size[] = {100000, 20, LARGE, 1, 70000, TT_PIECE_MAX, 13, 65537, TT_PIECE_MAX, TT_INLINE_MAX + 1, LARGE - 1, 0};
    static const int buffer[] = {0, 32768, 200000};
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 9);
    for (uint32_t b = 0; b < countof(buffer); b++) {
        int raw[2];
        struct tt_transport *t = open_raw(buffer[b], raw);
        for (uint32_t i = 0; i < countof(size); i++) {
            size_t n = make_frame(i, size[i]), done = 0;
            bool ended = false;
            while (!ended) {
                size_t step = 1 + (size_t)tt_rng_below(&rng, STEP_MAX);
                ssize_t sent = send(raw[0], wire + done, step < n - done ? step : n - done, MSG_NOSIGNAL | MSG_DONTWAIT);
                done += sent > 0 ? (size_t)sent : 0;
                if (sent <= 0)
                    t->ops->wait(t, tt_now_ns() + 1000000000);
                ended = take(t, i, size[i]);
            }
            assert_true(done + tt_frame_padding(size[i]) >= n);
            put(raw[0], done, n - done);
        }
        close_raw(t, raw);
    }
}

static void end_in_the_middle(void **state)
{
    int raw[2];
    (void)state;
    struct tt_transport *t = open_raw(0, raw);
    begin_large(t, raw[0], 0, 1000);
    put(raw[0], TT_FRAME_HEADER + 1000, 5000);
    close(raw[0]);
    raw[0] = -1;
    assert_true(has_news(t, -1));
    expect_closed(t, 1, ECONNRESET);
    close_raw(t, raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(woken_for_much),
        cmocka_unit_test(any_steps),
        cmocka_unit_test(end_in_the_middle),
    };
    return cmocka_run_group_tests_name("transport/tcp mark", tests, NULL, NULL);
}
