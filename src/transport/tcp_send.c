/* tcp_send.c - sends for the tcp transport: a bounded queue per socket.
 *
 * A piece becomes entries of an iovec ring (header, payload, padding) in wire order, so that one
 * sendmsg takes as much of as many pieces as the kernel will have, straight from the ring. A send
 * on an empty queue goes to the kernel at once: the usual case costs one system call and touches
 * neither epoll nor the copy ring. Only when the kernel's buffer is full do bytes stay here, and
 * EPOLLOUT is asked for. It is withdrawn only when it comes without need, so that a long stream
 * changes the epoll set once.
 *
 *     pieces   told .. sent .. tail        SENT events delivered | due | bytes left to send
 *     iovecs   iov_head .. iov_tail        header, payload, padding, header, ...
 *     copies   copy_head .. copy_tail      payloads without a cookie that the kernel did not take
 *
 * Invariants: iov[iov_head .. iov_tail) are exactly the unsent bytes of pieces sent..tail; a piece
 * is sent when iov_head passes its iov_end. On a sealed socket bytes leave the ring when they are
 * sealed (tcp_seal.c), and pieces are sent when the sealed bytes are. */
#include <assert.h>

#include "transport/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { COPY_BYTES = 64 << 10, IOV_PER_CALL = 64, IOV_PER_SLOT = 4, SLOTS_MAX = 1 << 16 };

static const uint8_t zeros[TT_FRAME_ALIGN];

/* Sizes are powers of two. The largest piece (TT_IOV_MAX entries, header, padding) must fit in an
 * empty iovec ring. */
tutti_status tt_tcp_tx_init(struct tt_tx *q, uint32_t slots, struct tutti_error *err)
{
    if (slots > SLOTS_MAX)
        return tt_fail(err, TUTTI_ERR_ARG, "a send queue of %u pieces (at most %d)",
                       (unsigned)slots, SLOTS_MAX);
    q->slots = UINT32_C(1) << tt_ceil_log2(slots);
    q->iovs = q->slots * IOV_PER_SLOT;
    while (q->iovs < TT_IOV_MAX + 2)
        q->iovs *= 2;
    q->slot = tt_alloc(q->slots, sizeof *q->slot);
    q->iov = tt_alloc(q->iovs, sizeof *q->iov);
    q->copy = tt_alloc(COPY_BYTES, 1);
    return q->slot && q->iov && q->copy ? TUTTI_OK : tt_fail_memory(err, "tcp send queue");
}

void tt_tcp_tx_free(struct tt_tx *q)
{
    free(q->slot);
    free(q->iov);
    free(q->copy);
}

/* ---- the rings ---- */

/* Appends an entry; the caller has checked that there is room. */
static void tcp_send_push(struct tt_tx *q, const void *base, size_t len)
{
    if (!len)
        return;
    assert(q->iov_tail - q->iov_head < q->iovs);
    q->iov[q->iov_tail++ & (q->iovs - 1)] = (struct iovec){(void *)(uintptr_t)base, len};
}

/* Where n contiguous bytes begin in the copy ring: at the counter, or at the next round if the end
 * is too near. */
static uint32_t copy_place(const struct tt_tx *q, size_t n)
{
    uint32_t at = q->copy_tail, rest = COPY_BYTES - (at & (COPY_BYTES - 1));
    return n > rest ? at + rest : at;
}

/* Room in all three rings for a piece of niov entries, of which `copied` bytes may have to be kept.
 * A slot is in use until its SENT event has been delivered. */
static bool has_room(const struct tt_tx *q, int niov, size_t copied)
{
    return q->tail - q->told < q->slots &&
           q->iovs - (q->iov_tail - q->iov_head) >= (uint32_t)niov + 2 &&
           copy_place(q, copied) + (uint32_t)copied - q->copy_head <= COPY_BYTES;
}

/* Cookie 0: the caller's memory may change after the call. The unsent payload of the newest piece,
 * iovecs [first, iov_tail), is copied into the copy ring, where it needs one entry, not many. */
static void keep_copy(struct tt_tx *q, uint32_t first)
{
    size_t n = 0, done = 0;
    for (uint32_t i = first; i != q->iov_tail; i++)
        n += q->iov[i & (q->iovs - 1)].iov_len;
    uint32_t at = copy_place(q, n);
    assert(q->sent != q->tail && at + (uint32_t)n - q->copy_head <= COPY_BYTES);
    uint8_t *to = q->copy + (at & (COPY_BYTES - 1));
    for (uint32_t i = first; i != q->iov_tail; i++) {
        const struct iovec *v = &q->iov[i & (q->iovs - 1)];
        memcpy(to + done, v->iov_base, v->iov_len);
        done += v->iov_len;
    }
    q->iov_tail = first;
    tcp_send_push(q, to, n);
    q->copy_tail = at + (uint32_t)n;
    struct tt_tcp_slot *slot = &q->slot[(q->tail - 1) & (q->slots - 1)];
    slot->copy_end = q->copy_tail;
    slot->iov_end = q->iov_tail;
}

/* Advances iov_head by n bytes; an entry that is taken in part is shortened. */
void tt_tcp_tx_consume(struct tt_tx *q, size_t n)
{
    while (n > 0) {
        assert(q->iov_head != q->iov_tail);
        struct iovec *v = &q->iov[q->iov_head & (q->iovs - 1)];
        if (n < v->iov_len) {
            v->iov_base = (uint8_t *)v->iov_base + n;
            v->iov_len -= n;
            break;
        }
        n -= v->iov_len;
        q->iov_head++;
    }
}

/* The counters run freely, so they are compared by their difference. */
void tt_tcp_tx_settle(struct tt_tx *q)
{
    assert(q->tail - q->told <= q->slots && q->sent - q->told <= q->tail - q->told);
    while (q->sent != q->tail) {
        const struct tt_tcp_slot *s = &q->slot[q->sent & (q->slots - 1)];
        if ((int32_t)(q->iov_head - s->iov_end) < 0)
            break;
        q->copy_head = s->copy_end;
        q->sent++;
    }
}

/* Pieces without a cookie get no event and leave the ring silently. */
static void skip_silent(struct tt_tx *q)
{
    while (q->told != q->sent && !q->slot[q->told & (q->slots - 1)].cookie)
        q->told++;
}

/* ---- the kernel ---- */

/* blocked: the kernel's buffer is full. The transport counts such sockets: while there are any,
 * poll must ask epoll. EPOLLOUT stays armed (see above). */
static void set_blocked(struct tt_tcp_sock *s, bool blocked)
{
    struct tt_tx *q = &s->tx;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT | EPOLLET, .data.ptr = s};
    if (blocked && !q->blocked)
        s->t->blocked++;
    if (!blocked && q->blocked)
        s->t->blocked--;
    q->blocked = blocked;
    if (blocked && !q->armed)
        q->armed = !epoll_ctl(s->t->epoll, EPOLL_CTL_MOD, s->fd, &e);
}

/* EPOLLOUT came without a need for it: stops asking. */
void tt_tcp_tx_disarm(struct tt_tcp_sock *s)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = s};
    if (s->tx.armed && !s->tx.blocked && s->fd >= 0 &&
        !epoll_ctl(s->t->epoll, EPOLL_CTL_MOD, s->fd, &e))
        s->tx.armed = false;
}

/* One sendmsg for up to IOV_PER_CALL entries that lie side by side in the ring. */
static ssize_t send_plain(struct tt_tcp_sock *s, size_t *ret_want)
{
    struct tt_tx *q = &s->tx;
    uint32_t at = q->iov_head & (q->iovs - 1), n = q->iov_tail - q->iov_head;

    n = n < q->iovs - at ? n : q->iovs - at;
    n = n < IOV_PER_CALL ? n : IOV_PER_CALL;
    *ret_want = 0;
    for (uint32_t i = 0; i < n; i++)
        *ret_want += q->iov[at + i].iov_len;
    struct msghdr m = {.msg_iov = q->iov + at, .msg_iovlen = n};
    ssize_t got = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got > 0) {
        assert(q->bytes >= (size_t)got && (size_t)got <= *ret_want);
        q->bytes -= (size_t)got;
        tt_tcp_tx_consume(q, (size_t)got);
        tt_tcp_tx_settle(q);
    }
    return got;
}

/* One system call; false: blocked or broken. After a short write the kernel's buffer is full. */
static bool flush_once(struct tt_tcp_sock *s)
{
    size_t want;
    ssize_t got = s->seal ? tt_tcp_seal_send(s, &want) : send_plain(s, &want);
    if (got < 0 && errno == EINTR)
        return true;
    if (got < 0 && errno != EAGAIN) {
        tt_tcp_break(s, errno);
        return false;
    }
    if (got >= 0 && (size_t)got == want)
        return true;
    set_blocked(s, true);
    return false;
}

/* Sends until the queue is empty or the kernel's buffer is full. SENT events that are due put the
 * socket in the to-do list. */
void tt_tcp_tx_flush(struct tt_tcp_sock *s)
{
    struct tt_tx *q = &s->tx;
    bool ok = s->fd >= 0;
    while (ok && q->bytes)
        ok = flush_once(s);
    if (ok)
        set_blocked(s, false);
    skip_silent(q);
    if (q->told != q->sent)
        tt_tcp_todo(s);
}

/* Pieces that were sent keep their SENT event; the others get none. */
void tt_tcp_tx_drop(struct tt_tcp_sock *s)
{
    struct tt_tx *q = &s->tx;
    assert(!q->blocked || s->t->blocked > 0);
    q->tail = q->sent;
    q->iov_head = q->iov_tail;
    q->copy_head = q->copy_tail;
    q->bytes = 0;
    if (s->seal)
        tt_tcp_seal_drop(s->seal);
    if (q->blocked)
        s->t->blocked--;
    q->blocked = false;
}

size_t tt_tcp_tx_tell(struct tt_tcp_sock *s, struct tt_event *ev, size_t max)
{
    struct tt_tx *q = &s->tx;
    size_t n = 0;
    skip_silent(q);
    for (; n < max && q->told != q->sent; n++) {
        ev[n] = (struct tt_event){.kind = TT_EV_SENT,
                                  .peer = s->peer,
                                  .stream = s->stripe,
                                  .cookie = q->slot[q->told & (q->slots - 1)].cookie};
        q->told++;
        skip_silent(q);
    }
    if (q->told != q->sent)
        tt_tcp_todo(s);
    return n;
}

/* ---- send ---- */

/* The stripe with the fewest unsent bytes among those with room, beginning after the one used last;
 * NULL: all are full. */
static struct tt_tcp_sock *shortest(struct tt_tcp *t, uint32_t peer, int niov, size_t copied)
{
    struct tt_tcp_peer *p = &t->peer[peer];
    struct tt_tcp_sock *best = NULL;
    assert(p->next < t->stripes);
    for (uint32_t k = 0; k < t->stripes; k++) {
        uint32_t stripe = p->next + k < t->stripes ? p->next + k : p->next + k - t->stripes;
        struct tt_tcp_sock *s = t->at[(size_t)stripe * t->base.size + peer];
        if (s && s->fd >= 0 && has_room(&s->tx, niov, copied) &&
            (!best || s->tx.bytes < best->tx.bytes))
            best = s;
    }
    if (best)
        p->next = best->stripe + 1 < t->stripes ? best->stripe + 1 : 0;
    return best;
}

/* Appends the piece to the rings; returns where its payload begins in the iovec ring. A sealed
 * socket carries no padding: its receiver restores the alignment. */
static uint32_t tcp_send_enqueue(struct tt_tcp_sock *s, const struct tt_tag *tag,
                                 const struct iovec *iov, int niov, uint32_t bytes)
{
    struct tt_tx *q = &s->tx;
    assert(q->tail - q->told < q->slots && bytes <= TT_PIECE_MAX);
    struct tt_tcp_slot *slot = &q->slot[q->tail++ & (q->slots - 1)];
    struct tt_tcp_frame f = {.tag = *tag, .bytes = bytes, .number = q->number++};
    uint32_t padding = s->seal ? 0 : tt_frame_padding(bytes);
    for (int i = 0; s->rx.checked && i < niov; i++)
        f.check = tt_seal_crc32c(f.check, iov[i].iov_base, iov[i].iov_len);
    tt_tcp_frame_encode(&f, slot->header);
    tcp_send_push(q, slot->header, TT_FRAME_HEADER);
    uint32_t payload = q->iov_tail;
    for (int i = 0; i < niov; i++)
        tcp_send_push(q, iov[i].iov_base, iov[i].iov_len);
    tcp_send_push(q, zeros, padding);
    slot->iov_end = q->iov_tail;
    slot->copy_end = q->copy_tail;
    q->bytes += TT_FRAME_HEADER + (size_t)bytes + padding;
    return payload;
}

tutti_status tt_tcp_send(struct tt_transport *base, uint32_t peer, const struct tt_tag *tag,
                         const struct iovec *iov, int niov, uint64_t cookie)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    size_t bytes, limit = cookie ? TT_PIECE_MAX : TT_INLINE_MAX;

    if (peer >= base->size || !tt_iov_total(iov, niov, TT_IOV_MAX, limit, &bytes))
        return TUTTI_ERR_ARG;
    if (t->peer[peer].ending)
        return TUTTI_ERR_IO;
    if (!t->peer[peer].sockets)
        return tt_tcp_want(t, peer);
    size_t copied = cookie ? 0 : bytes + tt_frame_padding((uint32_t)bytes);
    struct tt_tcp_sock *s = shortest(t, peer, niov, copied);
    if (!s)
        return TUTTI_IN_PROGRESS;
    struct tt_tx *q = &s->tx;
    bool at_once = !q->bytes;
    uint32_t payload = tcp_send_enqueue(s, tag, iov, niov, (uint32_t)bytes);
    q->slot[(q->tail - 1) & (q->slots - 1)].cookie = cookie;
    if (at_once)
        tt_tcp_tx_flush(s);
    if (t->peer[peer].ending)
        return TUTTI_ERR_IO;
    /* A flush may have taken part of the payload: only what is left is kept. */
    if (!cookie && q->sent != q->tail)
        keep_copy(q, (int32_t)(q->iov_head - payload) > 0 ? q->iov_head : payload);
    return TUTTI_OK;
}
