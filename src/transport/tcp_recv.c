/* tcp_recv.c - receives for the tcp transport: bytes become events.
 *
 * Headers and small payloads are read into a buffer, many at a time, and delivered where they lie;
 * a large payload is announced, and after accept its bytes go by readv straight to the caller's
 * places, with a little room for what follows (the peek), so that a stream of large pieces needs
 * one system call per kernel buffer and no copy. How much is read ahead depends on the last piece:
 * after a small one READ_MAX, after a large one only PEEK, because payload that lands in the buffer
 * must be copied out of it.
 *
 *     buf:  | held data events | head .. read, not parsed .. tail | free |
 *     Nothing before head moves while `held` > 0.
 *
 *     small piece   HEADER -> BODY -> HEADER                                   event DATA
 *     large piece   HEADER -> BODY -> ANNOUNCED -> FILL -> FILLED -> HEADER    HEADER, RECEIVED
 *
 * When the free end is too short for the frame at head, [head, tail) moves to the front. That has
 * to wait until all held events are released: meanwhile the socket is stalled, and TCP's own flow
 * control stops the sender.
 *
 * Readiness: `readable` is set by epoll (edge-triggered) or by poll's direct attempt, and cleared
 * when a read comes back short or empty. An end that epoll has announced (hup) is found by reading
 * on until the kernel reports it.
 *
 * The mark: at 1 Gbit/s a large payload comes packet by packet, and a wake-up for each packet costs
 * more than its bytes do. So the kernel is told to wake us for more at a time (SO_RCVLOWAT). The
 * sender has queued the payload as a whole, so this invariant makes sure that every wait ends:
 * whenever the socket is waited for (not readable), the mark is at most what is left of the
 * payload, and 1 before a header. An end or a full kernel buffer wakes in any case, and lowering
 * the mark takes effect at once. */
#include "transport/tcp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* READS_PER_TURN: reads before other sockets get their turn. MARK_FRAME: payloads up to this
     * length come at once and need no mark. */
    READ_MAX = 32 << 10,
    PEEK = 4 << 10,
    READS_PER_TURN = 4,
    MARK_FRAME = 64 << 10,
    MARK_MIN = 32 << 10,
    MARK_MAX = 128 << 10
};

tutti_status tt_tcp_rx_init(struct tt_rx *r, struct tutti_error *err)
{
    r->mark = 1;
    r->buf = tt_alloc(TT_RX_BUFFER + TT_FRAME_ALIGN, 1);
    return r->buf ? TUTTI_OK : tt_fail_memory(err, "tcp receive buffer");
}

void tt_tcp_rx_free(struct tt_rx *r)
{
    free(r->buf);
}

/* ---- parsing ---- */

/* An event about the current frame. */
static void tcp_recv_event(const struct tt_tcp_sock *s, enum tt_event_kind kind, const void *data,
                           struct tt_event *ret)
{
    *ret = (struct tt_event){.kind = kind,
                             .peer = s->peer,
                             .stream = s->stripe,
                             .bytes = s->rx.frame.bytes,
                             .tag = s->rx.frame.tag,
                             .data = data};
}

/* The payload is complete: padding follows, then a header. */
static void next_frame(struct tt_rx *r)
{
    assert(r->state == TT_RX_BODY || r->state == TT_RX_FILLED);
    r->skip = tt_frame_padding(r->frame.bytes);
    r->large = r->frame.bytes > TT_INLINE_MAX;
    r->state = TT_RX_HEADER;
}

/* Takes padding from the buffer; false: it was altered (known only where payloads are checked). */
static bool skip_padding(struct tt_rx *r)
{
    uint32_t have = r->tail - r->head, drop = have < r->skip ? have : r->skip;
    uint8_t sum = 0;

    for (uint32_t i = 0; i < drop; i++)
        sum |= r->buf[r->head + i];
    r->head += drop;
    r->skip -= drop;
    return !r->checked || !sum;
}

/* Takes padding and header from the buffer; true: the state has changed. A bad header ends the
 * socket: nothing behind it can be trusted. */
static bool parse_header(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;

    assert(r->state == TT_RX_HEADER && r->head <= r->tail);
    if (!skip_padding(r)) {
        tt_tcp_end(s, EBADMSG);
        return false;
    }
    if (r->tail - r->head < TT_FRAME_HEADER)
        return false;
    if (!tt_tcp_frame_decode(r->buf + r->head, r->number, &r->frame)) {
        tt_tcp_end(s, EPROTO);
        return false;
    }
    r->number++;
    r->head += TT_FRAME_HEADER;
    r->state = TT_RX_BODY;
    return true;
}

/* Is a small payload in the buffer, as it was sent? False: bytes are missing, or the socket has
 * ended. */
static bool has_body(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    if (s->seal)
        tt_tcp_seal_parse(s);
    if (r->state != TT_RX_BODY || r->tail - r->head < r->frame.bytes)
        return false;
    if (!r->checked || tt_seal_crc32c(0, r->buf + r->head, r->frame.bytes) == r->frame.check)
        return true;
    tt_tcp_altered(s);
    return false;
}

/* The next event that the buffer holds; false: bytes are missing, or the caller must act first. */
static bool parse(struct tt_tcp_sock *s, struct tt_event *ret)
{
    struct tt_rx *r = &s->rx;

    if (s->seal)
        tt_tcp_seal_parse(s);
    if (r->state == TT_RX_FILLED) {
        tcp_recv_event(s, TT_EV_RECEIVED, NULL, ret);
        next_frame(r);
        return true;
    }
    if (r->state == TT_RX_HEADER && !parse_header(s))
        return false;
    if (r->state != TT_RX_BODY)
        return false;
    if (r->frame.bytes > TT_INLINE_MAX) {
        tcp_recv_event(s, TT_EV_HEADER, NULL, ret);
        r->state = TT_RX_ANNOUNCED;
        return true;
    }
    if (!has_body(s))
        return false;
    assert((uintptr_t)(r->buf + r->head) % TT_FRAME_ALIGN == 0); /* transport.h promises it */
    tcp_recv_event(s, TT_EV_DATA, r->buf + r->head, ret);
    r->head += r->frame.bytes;
    r->held++;
    next_frame(r);
    return true;
}

/* ---- reading ---- */

/* Frees the front of the buffer. Offsets keep their remainder modulo 8, so that payloads stay
 * aligned. */
static void move_to_front(struct tt_rx *r)
{
    uint32_t front = r->head % TT_FRAME_ALIGN, n = r->tail - r->head;
    assert(!r->held);
    if (n && r->head != front)
        memmove(r->buf + front, r->buf + r->head, n);
    r->head = front;
    r->tail = front + n;
}

static uint32_t free_end(const struct tt_rx *r)
{
    return r->tail < TT_RX_BUFFER ? TT_RX_BUFFER - r->tail : 0;
}

/* An empty buffer starts at the front again, which costs nothing. */
bool tt_tcp_rx_make_room(struct tt_rx *r)
{
    uint32_t need = r->state == TT_RX_BODY ? r->frame.bytes : r->skip + TT_FRAME_HEADER;
    bool crowded = r->head + need > TT_RX_BUFFER;
    if (!r->held && (crowded || r->head == r->tail))
        move_to_front(r);
    r->stalled = crowded && r->held;
    return !r->stalled;
}

/* Judges what a read returned; true: bytes have come. Fewer bytes than asked for mean that the
 * kernel has no more. An end in the middle of a frame, or with unsent bytes here, is an error. */
static bool tcp_recv_judge(struct tt_tcp_sock *s, ssize_t got, size_t asked)
{
    struct tt_rx *r = &s->rx;
    if (got > 0) {
        r->readable = (size_t)got == asked || r->hup;
        return true;
    }
    if (got < 0 && errno == EINTR)
        return false;
    if (got < 0 && errno == EAGAIN) {
        r->readable = false;
        return false;
    }
    bool whole = r->state == TT_RX_HEADER && r->head == r->tail && !s->tx.bytes &&
                 !(s->seal && tt_tcp_seal_partial(s->seal));
    if (got < 0)
        tt_tcp_end(s, errno);
    else
        tt_tcp_end(s, whole ? 0 : ECONNRESET);
    return false;
}

/* Reads headers and small payloads into the buffer, as much as the last piece suggests. */
static void read_ahead(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    if (!tt_tcp_rx_make_room(r))
        return;
    size_t room = free_end(r), want = r->large && r->state == TT_RX_HEADER ? PEEK : READ_MAX;
    want = want < room ? want : room;
    ssize_t got = recv(s->fd, r->buf + r->tail, want, MSG_DONTWAIT);
    if (tcp_recv_judge(s, got, want))
        r->tail += (uint32_t)got;
}

/* Advances over the places by n bytes; the checksum follows the bytes while they are in cache. */
void tt_tcp_rx_filled(struct tt_rx *r, size_t n)
{
    assert(n <= r->left);
    r->left -= (uint32_t)n;
    while (n > 0) {
        assert(r->first < r->count);
        struct iovec *v = &r->into[r->first];
        if (r->checked)
            r->crc = tt_seal_crc32c(r->crc, v->iov_base, n < v->iov_len ? n : v->iov_len);
        if (n < v->iov_len) {
            v->iov_base = (uint8_t *)v->iov_base + n;
            v->iov_len -= n;
            return;
        }
        n -= v->iov_len;
        r->first++;
    }
}

void tt_tcp_rx_complete(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    assert(r->state == TT_RX_FILL && r->left == 0);
    if (r->checked && r->crc != r->frame.check) {
        tt_tcp_altered(s);
        return;
    }
    r->state = TT_RX_FILLED;
    tt_tcp_complete(s);
}

/* Reads payload straight into the caller's places, and a little of what follows into the buffer.
 * Invariant: into[first .. count) are the places that are not full. */
static void read_payload(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    size_t room = free_end(r), peek = room < PEEK ? room : PEEK;
    assert(r->state == TT_RX_FILL && r->first < r->count && r->count <= TT_IOV_MAX);
    r->into[r->count] = (struct iovec){r->buf + r->tail, peek};
    ssize_t got = readv(s->fd, r->into + r->first, r->count - r->first + (peek > 0));
    bool any = tcp_recv_judge(s, got, r->left + peek);
    size_t mine = !any ? 0 : (size_t)got < r->left ? (size_t)got : r->left;
    tt_tcp_rx_filled(r, mine);
    r->tail += any ? (uint32_t)((size_t)got - mine) : 0;
    if (r->left)
        tt_tcp_starved(s);
    else
        tt_tcp_rx_complete(s);
}

static void read_more(struct tt_tcp_sock *s)
{
    if (s->seal) {
        size_t want;
        ssize_t got = tt_tcp_seal_read(s, &want);
        tcp_recv_judge(s, got, want);
    } else if (s->rx.state == TT_RX_FILL)
        read_payload(s);
    else
        read_ahead(s);
}

/* Called before the socket is waited for. A short payload comes at once, and a mark that is near
 * enough stays, because changing it is a system call. */
static void set_mark(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    uint32_t left = s->seal ? tt_tcp_seal_left(s) : r->left;
    uint32_t sure = r->state == TT_RX_FILL && r->frame.bytes > MARK_FRAME ? left : 1,
             want = sure < MARK_MAX ? sure : MARK_MAX;
    bool fits = r->mark <= want && (want < MARK_MIN || r->mark >= want / 2);
    if (r->readable || !tt_rx_wants(r) || fits)
        return;
    int mark = (int)want;
    if (!setsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark))
        r->mark = want;
}

/* Alternates parsing and reading, for a bounded number of reads. A socket that could go on puts
 * itself back in the to-do list, behind the others. */
size_t tt_tcp_rx_serve(struct tt_tcp_sock *s, struct tt_event *ev, size_t max)
{
    struct tt_rx *r = &s->rx;
    size_t n = 0;
    for (int reads = 0; reads <= READS_PER_TURN; reads++) {
        while (n < max && parse(s, ev + n))
            n++;
        if (n == max || !tt_rx_wants(r) || !r->readable || reads == READS_PER_TURN)
            break;
        read_more(s);
    }
    set_mark(s);
    if (tt_rx_wants(r) && (r->readable || n == max))
        tt_tcp_todo(s);
    return n;
}

/* ---- accept and release ---- */

/* Takes over the places; false: they do not sum up to the announced length. Empty ones are left
 * out: the loops that fill places rely on that. */
static bool take_places(struct tt_rx *r, const struct iovec *iov, int niov)
{
    size_t sum = 0;
    if (niov < 0 || niov > TT_IOV_MAX)
        return false;
    r->first = r->count = 0;
    for (int i = 0; i < niov; i++) {
        if (iov[i].iov_len > r->frame.bytes - sum)
            return false;
        sum += iov[i].iov_len;
        if (iov[i].iov_len)
            r->into[r->count++] = iov[i];
    }
    return sum == r->frame.bytes;
}

/* Copies the payload that was read along with its header. */
static void copy_out(struct tt_rx *r)
{
    while (r->left && r->head < r->tail) {
        struct iovec *v = &r->into[r->first];
        size_t have = r->tail - r->head, n = have < v->iov_len ? have : v->iov_len;
        memcpy(v->iov_base, r->buf + r->head, n);
        r->head += (uint32_t)n;
        tt_tcp_rx_filled(r, n);
    }
}

/* The rest of the payload bypasses the buffer, so what follows it must get an offset that is
 * congruent to its stream position. */
static void realign(struct tt_rx *r)
{
    assert(r->head == r->tail && r->left > 0);
    uint32_t base = r->held ? (r->tail + TT_FRAME_ALIGN - 1) / TT_FRAME_ALIGN * TT_FRAME_ALIGN : 0;
    r->head = r->tail = base + r->frame.bytes % TT_FRAME_ALIGN;
}

/* What was read ahead is copied; the rest goes straight to the places with the next reads. */
tutti_status tt_tcp_accept(struct tt_transport *base, uint32_t peer, uint32_t stream,
                           const struct iovec *iov, int niov)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    struct tt_tcp_sock *s =
        peer < base->size && stream < t->stripes ? t->at[(size_t)stream * base->size + peer] : NULL;

    if (!s)
        return TUTTI_ERR_ARG;
    struct tt_rx *r = &s->rx;
    if (r->state == TT_RX_END)
        return TUTTI_ERR_IO;
    if (r->state != TT_RX_ANNOUNCED || !take_places(r, iov, niov))
        return TUTTI_ERR_ARG;
    r->left = r->frame.bytes;
    r->crc = 0;
    r->state = TT_RX_FILL;
    copy_out(r);
    if (!r->left)
        tt_tcp_rx_complete(s);
    else
        realign(r);
    if (s->seal)
        tt_tcp_seal_parse(s);
    if (r->left && !r->readable)
        tt_tcp_starved(s);
    set_mark(s);
    if (r->readable || !r->left)
        tt_tcp_todo(s);
    return TUTTI_OK;
}

/* Held events are only counted: the buffer moves when the last of them is released. */
void tt_tcp_release(struct tt_transport *base, const struct tt_event *ev)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    if (ev->kind != TT_EV_DATA)
        return;
    struct tt_tcp_sock *s = t->at[(size_t)ev->stream * base->size + ev->peer];
    struct tt_rx *r = &s->rx;
    assert(r->held);
    if (--r->held || !r->stalled)
        return;
    r->stalled = false;
    tt_tcp_todo(s);
}
