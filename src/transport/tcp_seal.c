/* tcp_seal.c - encrypted sockets of the tcp transport: records between the queues and the kernel.
 *
 *     out:  caller's memory --seal--> out buffer --send--> kernel
 *     in:   kernel --recv--> in buffer --open--> caller's places, or the receive buffer
 *                                                for headers and small payloads
 *
 * Sealing and opening read one place and write another, so they replace a copy; only a record whose
 * bytes lie in several fragments is gathered first, or scattered afterwards. A batch is as many
 * records as fit the out buffer (two of full length and a header); the next one is sealed when it
 * has been sent. The kernel's buffer has room for several batches, so sending does not pause
 * meanwhile.
 *
 * A header is opened before its length is used. A payload is opened record by record as it comes,
 * into memory that its reader does not look at before TT_EV_RECEIVED. So nothing that was altered
 * is ever delivered: the first record that does not open ends the socket.
 *
 * Invariant: records are sealed and opened in stream order, which is what the counters inside
 * struct tt_seal expect. */
#include "transport/tcp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SEALED_HEADER = TT_FRAME_HEADER + TT_SEAL_TAG,
    SEALED_RECORD = TT_TCP_RECORD + TT_SEAL_TAG,
    OUT_BYTES = 2 * SEALED_RECORD + SEALED_HEADER,
    IN_BYTES = 4 * SEALED_RECORD,
};
static_assert((int)TT_INLINE_MAX <= (int)TT_TCP_RECORD, "a small payload is one record");

struct tt_tcp_seal {
    struct tt_seal tx, rx;
    uint32_t out_head, out_tail; /* [head, tail): sealed, not sent */
    uint32_t out_plain;          /* bytes of the queue in this lot */
    uint32_t out_left;           /* of the payload whose header has been sealed */
    uint32_t in_head, in_tail;   /* [head, tail): read, not opened */
    uint8_t out[OUT_BYTES], in[IN_BYTES];
    uint8_t bounce[TT_TCP_RECORD]; /* for a record that goes to several places */
};

tutti_status tt_tcp_seal_open(const struct tt_seal_keys *k, struct tt_tcp_seal **ret,
                              struct tutti_error *err)
{
    struct tt_tcp_seal *e = tt_alloc(1, sizeof *e);
    if (!e)
        return tt_fail_memory(err, "encryption");
    memset(e, 0, offsetof(struct tt_tcp_seal, out)); /* the rest stays untouched until it is used */
    tt_seal_begin(&e->tx, k->cipher, k->send);
    tt_seal_begin(&e->rx, k->cipher, k->recv);
    *ret = e;
    return TUTTI_OK;
}

void tt_tcp_seal_free(struct tt_tcp_seal *e)
{
    if (!e)
        return;
    tt_seal_end(&e->tx);
    tt_seal_end(&e->rx);
    free(e);
}

/* ---- out ---- */

/* Seals the first n bytes of the queue as one record at `out`. Bytes of several fragments are
 * gathered at `out` and sealed there. */
static void seal_bytes(struct tt_tcp_seal *e, struct tt_tx *q, uint32_t n, uint8_t *out)
{
    const struct iovec *v = &q->iov[q->iov_head & (q->iovs - 1)];
    const uint8_t *from = v->iov_base;
    if (v->iov_len < n) {
        uint32_t at = q->iov_head, done = 0;
        for (; done < n; at++) {
            v = &q->iov[at & (q->iovs - 1)];
            size_t part = v->iov_len < n - done ? v->iov_len : n - done;
            memcpy(out + done, v->iov_base, part);
            done += (uint32_t)part;
        }
        from = out;
    }
    assert(n <= TT_TCP_RECORD && out + n + TT_SEAL_TAG <= e->out + OUT_BYTES);
    tt_seal_put(&e->tx, from, n, out);
    tt_tcp_tx_consume(q, n);
}

/* Fills the out buffer. Invariant: out_left bytes of the payload whose header was sealed last are
 * still to be sealed; at 0 a header is next. */
static void seal_more(struct tt_tcp_seal *e, struct tt_tx *q)
{
    e->out_head = e->out_tail = e->out_plain = 0;
    while (q->iov_head != q->iov_tail) {
        bool header = !e->out_left;
        uint32_t n = header                        ? TT_FRAME_HEADER
                     : e->out_left < TT_TCP_RECORD ? e->out_left
                                                   : TT_TCP_RECORD;
        if (n + TT_SEAL_TAG > OUT_BYTES - e->out_tail)
            return;
        assert(header || n <= e->out_left);
        if (header)
            e->out_left = tt_tcp_frame_bytes(q->iov[q->iov_head & (q->iovs - 1)].iov_base);
        else
            e->out_left -= n;
        seal_bytes(e, q, n, e->out + e->out_tail);
        e->out_tail += n + TT_SEAL_TAG;
        e->out_plain += n;
    }
}

/* Pieces count as sent when the whole batch is gone: until then close would lose them. */
ssize_t tt_tcp_seal_send(struct tt_tcp_sock *s, size_t *ret_want)
{
    struct tt_tcp_seal *e = s->seal;
    if (e->out_head == e->out_tail)
        seal_more(e, &s->tx);
    *ret_want = e->out_tail - e->out_head;
    ssize_t got = send(s->fd, e->out + e->out_head, *ret_want, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got <= 0)
        return got;
    assert((size_t)got <= *ret_want && s->tx.bytes >= e->out_plain);
    e->out_head += (uint32_t)got;
    if (e->out_head == e->out_tail) {
        s->tx.bytes -= e->out_plain;
        tt_tcp_tx_settle(&s->tx);
    }
    return got;
}

/* The socket is ending: what was sealed is not sent. */
void tt_tcp_seal_drop(struct tt_tcp_seal *e)
{
    e->out_head = e->out_tail = 0;
}

/* ---- in ---- */

bool tt_tcp_seal_partial(const struct tt_tcp_seal *e)
{
    return e->in_head != e->in_tail;
}

/* Sealed bytes that are still to come: payload, tags of its records, less what is in the in buffer.
 * At least 1, so that it can be a mark. */
uint32_t tt_tcp_seal_left(const struct tt_tcp_sock *s)
{
    const struct tt_tcp_seal *e = s->seal;
    uint32_t records = (s->rx.left + TT_TCP_RECORD - 1) / TT_TCP_RECORD;
    uint32_t all = s->rx.left + records * TT_SEAL_TAG, have = e->in_tail - e->in_head;
    return all > have ? all - have : 1;
}

/* Opens the next record, of n bytes, into `to`. False: it has not come yet, or it was altered, and
 * the socket has ended. */
static bool open_record(struct tt_tcp_sock *s, uint32_t n, uint8_t *to)
{
    struct tt_tcp_seal *e = s->seal;
    if (e->in_tail - e->in_head < n + TT_SEAL_TAG)
        return false;
    if (!tt_seal_take(&e->rx, e->in + e->in_head, n, to)) {
        tt_tcp_altered(s);
        return false;
    }
    e->in_head += n + TT_SEAL_TAG;
    return true;
}

/* A header or a small payload goes to the receive buffer, where the rest of the transport expects
 * it: behind the padding that a plain socket would carry, so that payloads are aligned. */
static void open_to_buffer(struct tt_tcp_sock *s, uint32_t n)
{
    struct tt_rx *r = &s->rx;
    uint32_t padding = r->state == TT_RX_HEADER ? r->skip : 0;
    if (!n || r->tail - r->head >= padding + n || !tt_tcp_rx_make_room(r))
        return;
    assert(r->tail + padding + n <= TT_RX_BUFFER + TT_FRAME_ALIGN);
    if (open_record(s, n, r->buf + r->tail + padding))
        r->tail += padding + n;
}

/* Copies a record to the places; tt_tcp_rx_filled advances over them afterwards. */
static void tcp_seal_scatter(struct tt_rx *r, const uint8_t *from, uint32_t n)
{
    for (int i = r->first; n > 0; i++) {
        assert(i < r->count);
        size_t part = r->into[i].iov_len < n ? r->into[i].iov_len : n;
        memcpy(r->into[i].iov_base, from, part);
        from += part;
        n -= (uint32_t)part;
    }
}

/* Opens records of the accepted payload as far as they have come. */
static void open_to_places(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    while (r->left) {
        uint32_t n = r->left < TT_TCP_RECORD ? r->left : TT_TCP_RECORD;
        bool whole = r->into[r->first].iov_len >= n;
        if (!open_record(s, n, whole ? r->into[r->first].iov_base : s->seal->bounce)) {
            if (r->state == TT_RX_FILL && !r->readable)
                tt_tcp_starved(s);
            return;
        }
        if (!whole)
            tcp_seal_scatter(r, s->seal->bounce, n);
        tt_tcp_rx_filled(r, n);
    }
    tt_tcp_rx_complete(s);
}

/* In every other state nothing may be opened: the caller has to act first. */
void tt_tcp_seal_parse(struct tt_tcp_sock *s)
{
    struct tt_rx *r = &s->rx;
    if (r->state == TT_RX_HEADER)
        open_to_buffer(s, TT_FRAME_HEADER);
    else if (r->state == TT_RX_BODY && r->frame.bytes <= TT_INLINE_MAX)
        open_to_buffer(s, r->frame.bytes);
    else if (r->state == TT_RX_FILL)
        open_to_places(s);
}

/* Reads into the in buffer. What has come moves to the front when a whole record that begins there
 * would not fit before the end. */
ssize_t tt_tcp_seal_read(struct tt_tcp_sock *s, size_t *ret_want)
{
    struct tt_tcp_seal *e = s->seal;
    uint32_t have = e->in_tail - e->in_head;
    if (IN_BYTES - e->in_head < SEALED_RECORD || !have) {
        memmove(e->in, e->in + e->in_head, have);
        e->in_head = 0;
        e->in_tail = have;
    }
    *ret_want = IN_BYTES - e->in_tail;
    assert(*ret_want > 0); /* less than a record is here, or parse would have opened it */
    ssize_t got = recv(s->fd, e->in + e->in_tail, *ret_want, MSG_DONTWAIT);
    if (got > 0)
        e->in_tail += (uint32_t)got;
    return got;
}
