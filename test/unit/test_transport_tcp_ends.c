/* The tcp transport when things go wrong: the wire format bit by bit, garbage, ends and deaths at every moment, bad arguments. The peer is
 * mostly a plain socket that sends whatever the test wants. */
#include "transport_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "transport/tcp.h"

/* ---- frames ---- */

static const struct tt_tcp_frame sample = {
    .tag =
        {.fingerprint = UINT64_C(0x1122334455667788), .request = 7, .message = 0x01020304, .segment = 5, .comm = 0x0a0b, .channel = 0xff01},
    .bytes = 1000,
    .number = 3,
};

static void frame_layout(void **state)
{
    static const uint8_t want[40] = {'T', 't', 'P', '1', 0xe8, 3, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 7, 0, 0, 0,
                                     4,   3,   2,   1,   5,    0, 0, 0, 0x0b, 0x0a, 0x01, 0xff, 3,    0,    0,    0,    0, 0, 0, 0};
    uint8_t b[TT_FRAME_HEADER];
    struct tt_tcp_frame f;
    (void)state;
    tt_tcp_frame_encode(&sample, b);
    assert_memory_equal(b, want, sizeof want);
    assert_true(tt_tcp_frame_decode(b, 3, &f));
    assert_memory_equal(&f.tag, &sample.tag, sizeof f.tag);
    assert_int_equal(f.bytes, 1000);
    assert_false(tt_tcp_frame_decode(b, 2, &f));
    for (size_t bit = 0; bit < 8 * sizeof b; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(tt_tcp_frame_decode(b, 3, &f));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    struct tt_tcp_frame large = sample;
    large.bytes = TT_PIECE_MAX;
    tt_tcp_frame_encode(&large, b);
    assert_true(tt_tcp_frame_decode(b, 3, &f));
    large.bytes++;
    tt_tcp_frame_encode(&large, b);
    assert_false(tt_tcp_frame_decode(b, 3, &f));
}

/* ---- a plain socket against a transport ---- */

/* Rank 0 of `size` with one socket per stripe to rank 1; raw[] are the other ends. */
static struct tt_transport *open_raw(uint32_t stripes, int *raw)
{
    int fds[2 * STRIPES_MAX];
    for (uint32_t k = 0; k < stripes; k++) {
        int fd[2];
        connect_pair(fd, 0);
        fds[2 * k] = -1;
        fds[2 * k + 1] = fd[0];
        raw[k] = fd[1];
    }
    return open_end((struct setup){.stripes = stripes}, 0, fds);
}

static void put(int fd, const void *p, size_t n)
{
    assert_int_equal(send(fd, p, n, MSG_NOSIGNAL), n);
}

/* The whole frame of piece `number` with n bytes, in out; returns its length. */
static size_t make_frame(uint8_t *out, uint32_t number, uint32_t n)
{
    struct tt_tcp_frame f = {.tag = tag_of(number), .bytes = n, .number = number};
    tt_tcp_frame_encode(&f, out);
    fill(out + TT_FRAME_HEADER, n, number);
    memset(out + TT_FRAME_HEADER + n, 0, tt_frame_padding(n));
    return TT_FRAME_HEADER + n + tt_frame_padding(n);
}

/* Receives one piece of either kind and checks it. */
static void expect_piece(struct tt_transport *t, uint32_t number, uint32_t n)
{
    static uint8_t place[TT_PIECE_MAX];
    struct iovec v = {place, n};
    struct tt_event ev = next_event(t);
    assert_int_equal(ev.kind, n > TT_INLINE_MAX ? TT_EV_HEADER : TT_EV_DATA);
    assert_int_equal(ev.bytes, n);
    if (ev.kind == TT_EV_HEADER) {
        assert_int_equal(t->ops->accept(t, ev.peer, ev.stream, &v, 1), TUTTI_OK);
        ev = next_event(t);
        assert_int_equal(ev.kind, TT_EV_RECEIVED);
    }
    assert_int_equal(ev.tag.request, number);
    check_tag(&ev.tag);
    check_content(ev.data ? ev.data : place, n, number);
    t->ops->release(t, &ev);
}

/* Bytes that trickle in, cut everywhere: nothing is said before the last byte that is needed. */
static void trickle(void **state)
{
    static const uint32_t size[] = {0, 1, 8, 13, 47, 48, 49, 200, TT_INLINE_MAX + 3, 5, 17000, 0, 3};
    static uint8_t wire[64 << 10];
    struct tt_event ev;
    struct tt_rng rng;
    int raw;
    (void)state;
    struct tt_transport *t = open_raw(1, &raw);
    tt_rng_seed(&rng, 4);
    for (uint32_t i = 0; i < countof(size); i++) {
        size_t n = make_frame(wire, i, size[i]), done = 0;
        size_t silent = TT_FRAME_HEADER + (size[i] <= TT_INLINE_MAX ? size[i] : 0) - 1;
        while (done < silent) {
            size_t k = 1 + (size_t)tt_rng_below(&rng, 9);
            k = k < silent - done ? k : silent - done;
            put(raw, wire + done, k);
            done += k;
            assert_int_equal(t->ops->poll(t, &ev, 1), 0);
        }
        put(raw, wire + done, n - done);
        expect_piece(t, i, size[i]);
    }
    close(raw);
    expect_closed(t, 1, 0);
    t->ops->close(t);
}

/* What we send, as a plain socket sees it. */
static void wire_of_a_piece(void **state)
{
    uint8_t payload[21], wire[256], want[256];
    int raw;
    (void)state;
    struct tt_transport *t = open_raw(1, &raw);
    for (uint32_t i = 0; i < 3; i++) {
        fill(payload, sizeof payload, i);
        assert_int_equal(send_one(t, 1, i, payload, sizeof payload, i), TUTTI_OK);
        size_t n = make_frame(want, i, sizeof payload);
        assert_int_equal(recv(raw, wire, n, MSG_WAITALL), n);
        assert_memory_equal(wire, want, n);
    }
    assert_int_equal(next_event(t).cookie, 1);
    assert_int_equal(next_event(t).cookie, 2);
    close(raw);
    expect_closed(t, 1, 0);
    t->ops->close(t);
}

/* ---- garbage ---- */

/* After `good` right pieces these bytes come, and the connection ends with EPROTO, once, whatever follows. */
static void expect_refused(const void *bytes, size_t n, uint32_t good)
{
    uint8_t wire[1024];
    int raw[2];
    struct tt_transport *t = open_raw(2, raw);
    for (uint32_t i = 0; i < good; i++)
        put(raw[0], wire, make_frame(wire, i, 100));
    put(raw[0], bytes, n);
    for (uint32_t i = 0; i < good; i++)
        expect_piece(t, i, 100);
    expect_closed(t, 1, EPROTO);
    expect_silence(t);
    assert_int_equal(send_one(t, 1, 0, wire, 10, 0), TUTTI_ERR_IO);
    assert_int_equal(recv(raw[1], wire, sizeof wire, 0), 0);
    t->ops->close(t);
    close(raw[0]);
    close(raw[1]);
}

static void garbage(void **state)
{
    uint8_t b[4096];
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 8);
    for (uint32_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof b; i++)
            b[i] = (uint8_t)tt_rng_next(&rng);
        expect_refused(b, TT_FRAME_HEADER + round * 150, round % 4);
    }
    expect_refused("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\nUser-Agent: curl/8\r\n\r\n", 55, 0);
    size_t n = make_frame(b, 0, 100); /* the same piece again */
    expect_refused(b, n, 1);
    make_frame(b, 2, 100); /* one is missing */
    expect_refused(b, n, 1);
    struct tt_tcp_frame f = {.bytes = TT_PIECE_MAX + 1};
    tt_tcp_frame_encode(&f, b);
    expect_refused(b, TT_FRAME_HEADER, 0);
}

/* Rank 1 talks nonsense, rank 2 is not disturbed. */
static void garbage_from_one(void **state)
{
    uint8_t wire[4096];
    int fd[2][2], fds[3] = {-1};
    struct tt_transport *t;
    (void)state;
    for (int i = 0; i < 2; i++) {
        connect_pair(fd[i], 0);
        fds[i + 1] = fd[i][0];
    }
    struct tt_tcp_config c = {.rank = 0, .size = 3, .stripes = 1, .fds = fds};
    assert_int_equal(tt_tcp_open(&c, &t, NULL), TUTTI_OK);
    put(fd[0][1], "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 48);
    expect_closed(t, 1, EPROTO);
    for (uint32_t i = 0; i < 10; i++) {
        put(fd[1][1], wire, make_frame(wire, i, 300));
        expect_piece(t, i, 300);
        assert_int_equal(send_one(t, 2, i, wire, 8, 0), TUTTI_OK);
    }
    t->ops->close(t);
    close(fd[0][1]);
    close(fd[1][1]);
}

/* One peer with much to say does not hide another, also when events are fetched one by one. */
static void busy_neighbour(void **state)
{
    static uint8_t wire[600 * TT_FRAME_HEADER];
    int fd[2][2], fds[3] = {-1}, polls = 0;
    struct tt_transport *t;
    struct tt_event ev = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        connect_pair(fd[i], 0);
        fds[i + 1] = fd[i][0];
    }
    struct tt_tcp_config c = {.rank = 0, .size = 3, .stripes = 1, .fds = fds};
    assert_int_equal(tt_tcp_open(&c, &t, NULL), TUTTI_OK);
    expect_silence(t);
    for (uint32_t i = 0; i < 600; i++)
        make_frame(wire + i * TT_FRAME_HEADER, i, 0);
    put(fd[0][1], wire, sizeof wire);
    ev = next_event(t);
    assert_int_equal(ev.peer, 1);
    put(fd[1][1], wire, TT_FRAME_HEADER);
    for (; ev.peer != 2; polls++) {
        t->ops->release(t, &ev);
        assert_int_equal(t->ops->poll(t, &ev, 1), 1);
    }
    assert_true(polls < 100);
    t->ops->close(t);
    close(fd[0][1]);
    close(fd[1][1]);
}

/* ---- ends ---- */

/* The peer vanishes after `keep` bytes of a large piece, politely (FIN) or not (RST). */
static void end_after(size_t keep, bool reset)
{
    static uint8_t wire[64 << 10], place[40000];
    struct linger hard = {1, 0};
    struct iovec v = {place, sizeof place};
    int raw;
    struct tt_transport *t = open_raw(1, &raw);
    size_t n = make_frame(wire, 0, sizeof place);
    bool whole = keep == 0 || keep >= TT_FRAME_HEADER + sizeof place;
    assert_true(keep <= n);
    put(raw, wire, keep);
    if (keep >= TT_FRAME_HEADER) {
        struct tt_event ev = next_event(t);
        assert_int_equal(ev.kind, TT_EV_HEADER);
        assert_int_equal(t->ops->accept(t, 1, 0, &v, 1), TUTTI_OK);
    }
    if (whole && keep)
        assert_int_equal(next_event(t).kind, TT_EV_RECEIVED);
    if (reset)
        setsockopt(raw, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(raw);
    expect_closed(t, 1, whole && !reset ? 0 : ECONNRESET);
    expect_silence(t);
    assert_int_equal(t->ops->accept(t, 1, 0, &v, 1), TUTTI_ERR_IO);
    t->ops->close(t);
}

static void end_at_every_place(void **state)
{
    static const size_t keep[] = {0, 1, 47, 48, 49, 30000, 40047, 40048};
    (void)state;
    for (size_t i = 0; i < countof(keep); i++) {
        end_after(keep[i], false);
        end_after(keep[i], true);
    }
}

/* A rank that is done closes while its last pieces are still under way on several stripes: they arrive before the end. */
static void last_pieces_arrive(void **state)
{
    static uint8_t p[50000];
    struct tt_transport *t[2];
    uint32_t got = 0;
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        open_pair((struct setup){.stripes = 3}, t);
        send_one(t[1], 0, 0, p, 100, 0); /* unread by the one that closes */
        for (uint32_t i = 0; i < 6; i++) {
            fill(p, sizeof p, 5);
            assert_int_equal(send_one(t[0], 1, 5, p, i % 2 ? 100 : sizeof p, 1), TUTTI_OK);
        }
        t[0]->ops->close(t[0]);
        for (got = 0;;) {
            static uint8_t place[STRIPES_MAX][sizeof p];
            struct tt_event ev = next_event(t[1]);
            struct iovec v = {place[ev.stream], ev.bytes};
            if (ev.kind == TT_EV_CLOSED)
                break;
            if (ev.kind == TT_EV_HEADER)
                assert_int_equal(t[1]->ops->accept(t[1], 0, ev.stream, &v, 1), TUTTI_OK);
            if (ev.kind != TT_EV_HEADER)
                check_content(ev.data ? ev.data : v.iov_base, ev.bytes, 5);
            got += ev.kind == TT_EV_DATA || ev.kind == TT_EV_RECEIVED;
            t[1]->ops->release(t[1], &ev);
        }
        assert_int_equal(got, 6);
        expect_silence(t[1]);
        t[1]->ops->close(t[1]);
    }
}

/* Everything that was reported sent arrives, although the sender closes with most of it still in its kernel's buffer, and with bytes from
 * us that it never read. */
static void sent_means_delivered(void **state)
{
    static uint8_t p[60000];
    struct tt_transport *t[2];
    struct tt_event ev[16];
    uint32_t sent = 0, got = 0;
    (void)state;
    open_pair((struct setup){.stripes = 1}, t);
    fill(p, sizeof p, 6);
    for (int i = 0; i < 200; i++)
        assert_int_equal(send_one(t[0], 1, 6, p, sizeof p, 1), TUTTI_OK);
    for (size_t n; (n = t[0]->ops->poll(t[0], ev, 16)); sent += (uint32_t)n)
        assert_int_equal(ev[n - 1].kind, TT_EV_SENT);
    assert_int_equal(send_one(t[1], 0, 0, "unread", 6, 0), TUTTI_OK);
    assert_true(sent > 3);
    t[0]->ops->close(t[0]);
    for (got = 0;;) {
        struct tt_event e = next_event(t[1]);
        struct iovec v = {p, sizeof p};
        if (e.kind == TT_EV_CLOSED)
            break;
        if (e.kind == TT_EV_HEADER)
            assert_int_equal(t[1]->ops->accept(t[1], 0, 0, &v, 1), TUTTI_OK);
        if (e.kind == TT_EV_RECEIVED)
            check_content(p, sizeof p, 6);
        got += e.kind == TT_EV_RECEIVED;
    }
    assert_true(got >= sent);
    t[1]->ops->close(t[1]);
}

/* Data and the end arrive together at sockets that were known to be empty. */
static void end_behind_data(void **state)
{
    uint8_t wire[1024];
    int raw[2];
    (void)state;
    struct tt_transport *t = open_raw(2, raw);
    expect_silence(t);
    put(raw[0], wire, make_frame(wire, 0, 100));
    close(raw[0]);
    close(raw[1]);
    expect_piece(t, 0, 100);
    expect_closed(t, 1, 0);
    t->ops->close(t);
}

/* Sending to one who has gone: an error and an end, not SIGPIPE. */
static void send_to_the_gone(void **state)
{
    int raw;
    (void)state;
    struct tt_transport *t = open_raw(1, &raw);
    close(raw);
    assert_int_equal(send_one(t, 1, 0, "abc", 3, 0), TUTTI_OK); /* answered by a reset */
    assert_int_equal(send_one(t, 1, 0, "abc", 3, 0), TUTTI_ERR_IO);
    assert_int_equal(send_one(t, 1, 0, "abc", 3, 0), TUTTI_ERR_IO);
    expect_closed(t, 1, EPIPE);
    expect_silence(t);
    t->ops->close(t);
}

/* The reader goes while much is queued: one end, no more "sent" after it, and nothing can be sent. */
static void reader_goes(void **state)
{
    static uint8_t p[256 << 10];
    int raw[2], closed = 0;
    uint64_t queued = 0;
    (void)state;
    struct tt_transport *t = open_raw(2, raw);
    while (send_one(t, 1, 0, p, sizeof p, 1) == TUTTI_OK)
        queued++;
    assert_true(queued >= 256);
    close(raw[1]);
    close(raw[0]);
    for (int i = 0; i < 5000 && !closed; i++) {
        struct tt_event ev = next_event(t);
        closed = ev.kind == TT_EV_CLOSED;
        if (closed)
            assert_true(ev.error == ECONNRESET || ev.error == EPIPE);
    }
    assert_int_equal(closed, 1);
    expect_silence(t);
    assert_int_equal(send_one(t, 1, 0, p, sizeof p, 1), TUTTI_ERR_IO);
    t->ops->close(t);
}

/* Data that was delivered outlives the peer. */
static void data_outlives_peer(void **state)
{
    uint8_t wire[1024];
    int raw;
    (void)state;
    struct tt_transport *t = open_raw(1, &raw);
    put(raw, wire, make_frame(wire, 0, 777));
    struct tt_event ev = next_event(t);
    close(raw);
    expect_closed(t, 1, 0);
    check_content(ev.data, 777, 0);
    t->ops->release(t, &ev);
    expect_silence(t);
    t->ops->close(t);
}

static void send_forever(struct tt_transport *t)
{
    static uint8_t p[100000];
    struct tt_event ev[8];
    for (;;) {
        while (send_one(t, 0, 1, p, tt_now_ns() % sizeof p, 1) == TUTTI_OK)
            ;
        t->ops->poll(t, ev, 8);
        t->ops->wait(t, tt_now_ns() + 1000000);
    }
}

/* kill -9 in the middle of a stream. */
static void killed(void **state)
{
    static uint8_t place[STRIPES_MAX][TT_PIECE_MAX];
    (void)state;
    for (int round = 0; round < 5; round++) {
        pid_t pid;
        struct tt_transport *t = fork_pair((struct setup){.stripes = 2}, send_forever, &pid);
        for (int got = 0;;) {
            struct tt_event ev = next_event(t);
            struct iovec v = {place[ev.stream], ev.bytes};
            if (ev.kind == TT_EV_CLOSED)
                break;
            if (ev.kind == TT_EV_HEADER)
                assert_int_equal(t->ops->accept(t, 1, ev.stream, &v, 1), TUTTI_OK);
            t->ops->release(t, &ev);
            if (++got == 100 + 37 * round)
                kill(pid, SIGKILL);
        }
        expect_silence(t);
        t->ops->close(t);
        waitpid(pid, NULL, 0);
    }
}

/* ---- misuse ---- */

static void bad_arguments(void **state)
{
    static uint8_t p[TT_PIECE_MAX + 1];
    struct iovec many[TT_IOV_MAX + 1];
    struct tt_tag tag = {0};
    struct tt_event ev = {.kind = TT_EV_SENT};
    int raw;
    (void)state;
    struct tt_transport *t = open_raw(1, &raw);
    assert_string_equal(tt_transport_name(t), "tcp");
    assert_int_equal(send_one(t, 0, 0, p, 1, 0), TUTTI_ERR_ARG);
    assert_int_equal(send_one(t, 2, 0, p, 1, 0), TUTTI_ERR_ARG);
    assert_int_equal(send_one(t, 1, 0, p, TT_PIECE_MAX + 1, 1), TUTTI_ERR_ARG);
    assert_int_equal(send_one(t, 1, 0, p, SIZE_MAX, 1), TUTTI_ERR_ARG);
    assert_int_equal(send_one(t, 1, 0, p, TT_INLINE_MAX + 1, 0), TUTTI_ERR_ARG);
    for (int i = 0; i <= TT_IOV_MAX; i++)
        many[i] = (struct iovec){p, 1};
    assert_int_equal(t->ops->send(t, 1, &tag, many, TT_IOV_MAX + 1, 1), TUTTI_ERR_ARG);
    assert_int_equal(t->ops->send(t, 1, &tag, many, -1, 1), TUTTI_ERR_ARG);
    assert_int_equal(t->ops->send(t, 1, &tag, many, TT_IOV_MAX, 1), TUTTI_OK);
    assert_int_equal(t->ops->accept(t, 1, 0, many, 1), TUTTI_ERR_ARG);
    assert_int_equal(t->ops->accept(t, 1, 1, many, 1), TUTTI_ERR_ARG);
    assert_int_equal(t->ops->accept(t, 2, 0, many, 1), TUTTI_ERR_ARG);
    t->ops->release(t, &ev); /* nothing to release */
    t->ops->close(t);
    close(raw);
}

static void bad_open(void **state)
{
    struct tutti_error err = {0};
    struct tt_transport *t = NULL;
    int fd[2];
    (void)state;
    connect_pair(fd, 0);
    int good[2] = {-1, fd[0]}, wrong[2] = {-1, 1000};
    const struct tt_tcp_config bad[] = {
        {.rank = 0, .size = 0, .stripes = 1, .fds = good},  {.rank = 2, .size = 2, .stripes = 1, .fds = good},
        {.rank = 0, .size = 2, .stripes = 0, .fds = good},  {.rank = 0, .size = 2, .stripes = 1, .fds = good, .queue = 1 << 20},
        {.rank = 0, .size = 2, .stripes = 1, .fds = wrong},
    };
    for (size_t i = 0; i < countof(bad); i++) {
        err.text[0] = '\0';
        assert_true(tt_tcp_open(&bad[i], &t, &err) < 0);
        assert_true(err.text[0]);
        assert_null(t);
    }
    assert_true(fcntl(fd[0], F_GETFD) >= 0); /* still ours */
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_layout),         cmocka_unit_test(trickle),
        cmocka_unit_test(wire_of_a_piece),      cmocka_unit_test(garbage),
        cmocka_unit_test(garbage_from_one),     cmocka_unit_test(busy_neighbour),
        cmocka_unit_test(end_at_every_place),   cmocka_unit_test(last_pieces_arrive),
        cmocka_unit_test(sent_means_delivered), cmocka_unit_test(end_behind_data),
        cmocka_unit_test(send_to_the_gone),     cmocka_unit_test(reader_goes),
        cmocka_unit_test(data_outlives_peer),   cmocka_unit_test(killed),
        cmocka_unit_test(bad_arguments),        cmocka_unit_test(bad_open),
    };
    return cmocka_run_group_tests_name("transport tcp ends", tests, NULL, NULL);
}
