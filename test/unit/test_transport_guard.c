/* Somebody sits between two ranks and alters what they send: checksums find what a faulty wire
 * does, encryption also what an enemy does. Whatever happens, the receiver delivers the first
 * pieces as they were sent, then the end of the peer with an error; no altered piece is ever
 * delivered and nobody waits for bytes that will not come. */
#include "transport_pair.h"

#include <errno.h>

#include "transport/tcp.h"

/* Small and large pieces, with padding and without, one of several records, an empty one. */
static const size_t sizes[] = {100, 0, 40001, 3, 70000, TT_INLINE_MAX, 8};
enum { PIECES = countof(sizes), WIRE = 1 << 18 };
static uint8_t payload[PIECES][70000], place[70000], caught[WIRE], wire[2 * WIRE];
static size_t caught_bytes, starts[PIECES + 1]; /* of each piece on the wire */

/* What the sender puts on the wire. */
static void listen_in(void)
{
    int fds[2][2 * STRIPES_MAX];
    struct setup s = {.stripes = 1};
    caught_bytes = 0;
    make_sockets(s, fds);
    struct tt_transport *t = open_end(s, 0, fds[0]);
    for (uint32_t i = 0; i < PIECES; i++) {
        struct tt_event ev;
        fill(payload[i], sizes[i], i);
        assert_int_equal(send_one(t, 1, i, payload[i], sizes[i], 1 + i), TUTTI_OK);
        for (size_t told = 0; !told;) {
            ssize_t n = recv(fds[1][0], caught + caught_bytes, WIRE - caught_bytes, MSG_DONTWAIT);
            caught_bytes += n > 0 ? (size_t)n : 0;
            told = t->ops->poll(t, &ev, 1);
        }
        assert_int_equal(ev.kind, TT_EV_SENT);
        for (ssize_t n = 1; n > 0; caught_bytes += n > 0 ? (size_t)n : 0)
            n = recv(fds[1][0], caught + caught_bytes, WIRE - caught_bytes, MSG_DONTWAIT);
        starts[i + 1] = caught_bytes;
    }
    t->ops->close(t);
    close(fds[1][0]);
}

struct outcome {
    uint32_t pieces; /* delivered, all of them right */
    struct tt_event end;
};

/* Answers an event; checks what is delivered. True: the end. */
static bool answer(struct tt_transport *t, const struct tt_event *ev, struct outcome *o)
{
    struct iovec v[2] = {{place, ev->bytes / 3}, {place + ev->bytes / 3, ev->bytes - ev->bytes / 3}};
    if (ev->kind == TT_EV_CLOSED) {
        o->end = *ev;
        return true;
    }
    assert_true(o->pieces < PIECES);
    assert_int_equal(ev->tag.request, o->pieces);
    check_tag(&ev->tag);
    assert_int_equal(ev->bytes, sizes[o->pieces]);
    if (ev->kind == TT_EV_HEADER) {
        memset(place, 0, sizeof place);
        assert_int_equal(t->ops->accept(t, 0, ev->stream, v, 2), TUTTI_OK);
        return false;
    }
    check_content(ev->kind == TT_EV_DATA ? ev->data : place, ev->bytes, o->pieces++);
    t->ops->release(t, ev);
    return false;
}

/* The receiver gets n bytes of `wire`; then the connection ends, if it is still there. */
static struct outcome deliver(size_t n)
{
    int fds[2][2 * STRIPES_MAX];
    struct setup s = {.stripes = 1};
    struct outcome o = {0};
    size_t done = 0;
    bool over = false;
    make_sockets(s, fds);
    struct tt_transport *t = open_end(s, 1, fds[1]);
    for (bool open = true; !over;) {
        struct tt_event ev;
        ssize_t put = open ? send(fds[0][1], wire + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        done += put > 0 ? (size_t)put : 0;
        if (open && (done == n || (put < 0 && errno != EAGAIN)))
            open = close(fds[0][1]) != 0;
        if (t->ops->poll(t, &ev, 1))
            over = answer(t, &ev, &o);
    }
    t->ops->close(t);
    return o;
}

/* Altered bytes were found at piece `at`, or before. */
static void expect_found(struct outcome o, uint32_t at, const char *what, size_t where)
{
    if (o.pieces > at || (o.end.error != EBADMSG && o.end.error != EPROTO))
        fail_msg("%s: %s at byte %zu (piece %u): %u pieces delivered, error %d", guard_names[guard], what, where, (unsigned)at,
                 (unsigned)o.pieces, o.end.error);
    if (o.end.known)
        assert_true(o.end.tag.request == o.pieces);
}

static uint32_t piece_at(size_t byte)
{
    uint32_t i = 0;
    while (starts[i + 1] <= byte)
        i++;
    return i;
}

/* Every byte of the headers, of short payloads, tags and padding; of long payloads one in many. */
static size_t next_byte(size_t i)
{
    uint32_t p = piece_at(i);
    bool inside = i > starts[p] + 130 && i + 130 < starts[p + 1] && i % TT_TCP_RECORD > 300;
    return inside ? i + 257 : i + 1;
}

static void untouched_bytes_arrive(void **state)
{
    (void)state;
    listen_in();
    memcpy(wire, caught, caught_bytes);
    struct outcome o = deliver(caught_bytes);
    assert_int_equal(o.pieces, PIECES);
    assert_int_equal(o.end.error, 0);
}

static void flipped_bytes_are_found(void **state)
{
    (void)state;
    listen_in();
    memcpy(wire, caught, caught_bytes);
    for (size_t i = 0; i < caught_bytes; i = next_byte(i)) {
        /* Padding counts to the next piece, and after the last one nobody looks at it. */
        wire[i] ^= (uint8_t)(1 << i % 8);
        expect_found(deliver(caught_bytes), piece_at(i) + (guard == GUARD_CHECKSUM && i % 8), "flipped", i);
        wire[i] = caught[i];
    }
}

/* A payload that did not arrive as it was sent is named. */
static void the_piece_is_named(void **state)
{
    (void)state;
    listen_in();
    memcpy(wire, caught, caught_bytes);
    for (uint32_t p = 0; p < PIECES; p++) {
        size_t header = guard == GUARD_CHECKSUM ? TT_FRAME_HEADER : TT_FRAME_HEADER + TT_SEAL_TAG;
        if (!sizes[p])
            continue;
        wire[starts[p] + header + sizes[p] / 2] ^= 0x40;
        struct outcome o = deliver(caught_bytes);
        wire[starts[p] + header + sizes[p] / 2] ^= 0x40;
        assert_int_equal(o.end.error, EBADMSG);
        assert_int_equal(o.pieces, p);
        assert_true(o.end.known);
        check_tag(&o.end.tag);
        assert_int_equal(o.end.tag.request, p);
    }
}

static void missing_and_repeated_bytes_are_found(void **state)
{
    (void)state;
    listen_in();
    for (size_t i = 0; i < starts[PIECES - 1]; i = next_byte(i)) {
        memcpy(wire, caught, i);
        memcpy(wire + i, caught + i + 1, caught_bytes - i - 1);
        expect_found(deliver(caught_bytes - 1), piece_at(i) + 1, "missing", i);
        memcpy(wire, caught, i + 1);
        memcpy(wire + i + 1, caught + i, caught_bytes - i);
        expect_found(deliver(caught_bytes + 1), piece_at(i) + 1, "repeated", i);
    }
}

/* Whole pieces, so that every byte that comes is one that the sender has sealed or summed. */
static void missing_repeated_and_moved_pieces_are_found(void **state)
{
    (void)state;
    listen_in();
    for (uint32_t p = 0; p + 1 < PIECES; p++) {
        size_t from = starts[p], to = starts[p + 1], next = starts[p + 2], rest = caught_bytes - to;
        memcpy(wire, caught, from);
        memcpy(wire + from, caught + to, rest);
        expect_found(deliver(from + rest), p, "missing piece", from);
        memcpy(wire, caught, to);
        memcpy(wire + to, caught + from, caught_bytes - from);
        expect_found(deliver(to + caught_bytes - from), p + 1, "repeated piece", from);
        memcpy(wire + from, caught + to, next - to);
        memcpy(wire + from + next - to, caught + from, to - from);
        memcpy(wire + next, caught + next, caught_bytes - next);
        expect_found(deliver(caught_bytes), p, "moved piece", from);
    }
}

/* The rest never comes: an error, unless the cut is between two pieces, where it looks like an
 * orderly end. */
static void cut_streams_end(void **state)
{
    (void)state;
    listen_in();
    memcpy(wire, caught, caught_bytes);
    for (size_t i = 0; i < caught_bytes; i = next_byte(i)) {
        struct outcome o = deliver(i);
        uint32_t p = piece_at(i);
        bool padding = guard == GUARD_CHECKSUM && o.pieces == p + 1;
        assert_true(o.pieces == p || padding);
        assert_int_equal(o.end.error, i == starts[p] || padding ? o.end.error : ECONNRESET);
        assert_true(o.end.error == 0 || o.end.error == ECONNRESET);
    }
}

/* Records of another connection, or of the other direction, are sealed with other keys. */
static void recorded_traffic_is_of_no_use(void **state)
{
    (void)state;
    if (guard == GUARD_CHECKSUM)
        return; /* a checksum knows no connections */
    listen_in();
    memcpy(wire, caught, caught_bytes);
    enum guard mine = guard;
    guard = mine == GUARD_AES ? GUARD_CHACHA : tt_seal_has_aes() ? GUARD_AES : GUARD_CHACHA;
    if (guard != mine) {
        struct outcome o = deliver(caught_bytes);
        assert_int_equal(o.pieces, 0);
        assert_int_equal(o.end.error, EBADMSG);
    }
    guard = mine;
    /* what rank 1 gets back from its own sending */
    int fds[2][2 * STRIPES_MAX];
    struct setup s = {.stripes = 1};
    struct tt_event ev;
    make_sockets(s, fds);
    struct tt_transport *t = open_end(s, 0, fds[0]);
    assert_int_equal(send(fds[1][0], caught, caught_bytes, MSG_NOSIGNAL), caught_bytes);
    while (!t->ops->poll(t, &ev, 1))
        ;
    assert_int_equal(ev.kind, TT_EV_CLOSED);
    assert_int_equal(ev.error, EBADMSG);
    t->ops->close(t);
    close(fds[1][0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untouched_bytes_arrive),
        cmocka_unit_test(flipped_bytes_are_found),
        cmocka_unit_test(the_piece_is_named),
        cmocka_unit_test(missing_and_repeated_bytes_are_found),
        cmocka_unit_test(missing_repeated_and_moved_pieces_are_found),
        cmocka_unit_test(cut_streams_end),
        cmocka_unit_test(recorded_traffic_is_of_no_use),
    };
    return run_guarded("altered bytes", tests, countof(tests), GUARD_CHECKSUM);
}
