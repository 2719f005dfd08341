/* message.c - sending, receiving and waiting of the MPI transport (transport.c has the idea).
 *
 * Invariant per peer: `posted` holds the incoming slots whose receives are posted, oldest first;
 * front[r] is the oldest one's request, or null while its message waits to be taken. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "mpi/mpi_int.h"

/* Waiting: LOOKS polls with sched_yield between them, then sleeps that double from NAP_MIN_NS to
 * NAP_MAX_NS. */
enum { LOOKS = 64, NAP_MIN_NS = 10000, NAP_MAX_NS = 500000 };

/* ---- posting ---- */

/* front[r] must be a request that MPI has not completed yet, or null: Testsome deallocates what it
 * reports. */
static void look_at_front(struct mpi *t, uint32_t r)
{
    struct peer *p = &t->peer[r];
    assert(p->front < SLOTS_IN && p->nposted <= SLOTS_IN);
    t->front[r] = p->nposted && !p->arrived ? p->in_request[p->posted[p->front]] : MPI_REQUEST_NULL;
}

void tt_mpi_post(struct mpi *t, uint32_t r, uint8_t slot)
{
    struct peer *p = &t->peer[r];
    if (PMPI_Irecv(p->in + (size_t)slot * SLOT, SLOT, MPI_BYTE, t->rank[r], t->tag, t->comm,
                   &p->in_request[slot]) != MPI_SUCCESS) {
        t->failed = true;
        return;
    }
    assert(slot < SLOTS_IN && p->nposted < SLOTS_IN);
    p->posted[(p->front + p->nposted++) % SLOTS_IN] = slot;
    if (p->nposted == 1)
        look_at_front(t, r);
}

/* busy has room for every slot (two messages each) and every stream, see make_room. */
static void remember(struct mpi *t, MPI_Request request, struct under_way w)
{
    assert((size_t)t->nbusy < (size_t)t->base.size * (2 * SLOTS_OUT + STREAMS));
    t->busy[t->nbusy] = request;
    t->way[t->nbusy++] = w;
}

static tutti_status broken(struct mpi *t)
{
    t->failed = true;
    return TUTTI_ERR_IO;
}

/* ---- sending ---- */

static void copy_in(char *to, const struct iovec *iov, int niov)
{
    for (int i = 0; i < niov; i++) {
        if (iov[i].iov_len)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

tutti_status tt_mpi_send_slot(struct mpi *t, uint32_t r, uint8_t slot, const struct header *h,
                              size_t inline_bytes)
{
    struct peer *p = &t->peer[r];
    char *at = p->out + (size_t)slot * SLOT;
    MPI_Request request;
    memcpy(at, h, sizeof *h);
    if (PMPI_Isend(at, (int)(HEAD + inline_bytes), MPI_BYTE, t->rank[r], t->tag, t->comm,
                   &request) != MPI_SUCCESS)
        return broken(t);
    p->left[slot]++;
    remember(t, request, (struct under_way){.peer = r, .what = slot});
    return TUTTI_OK;
}

/* Header and payload share the outgoing slot; it is free again when both are sent (left[slot] is
 * 0). */
static tutti_status send_large(struct mpi *t, uint32_t r, uint8_t slot, struct header *h)
{
    struct peer *p = &t->peer[r];
    uint8_t stream = (uint8_t)(p->next_stream++ % STREAMS);
    MPI_Request request;
    h->kind = ANNOUNCE;
    h->stream = stream;
    tutti_status st = tt_mpi_send_slot(t, r, slot, h, 0);
    if (st)
        return st;
    if (PMPI_Isend(p->body + (size_t)slot * TT_PIECE_MAX, (int)h->bytes, MPI_BYTE, t->rank[r],
                   t->tag + 1 + stream, t->comm, &request) != MPI_SUCCESS)
        return broken(t);
    p->left[slot]++;
    remember(t, request, (struct under_way){.peer = r, .what = slot});
    return TUTTI_OK;
}

tutti_status tt_mpi_send(struct tt_transport *base, uint32_t r, const struct tt_tag *tag,
                         const struct iovec *iov, int niov, uint64_t cookie)
{
    struct mpi *t = (struct mpi *)base;
    size_t bytes;
    if (r >= base->size || r == base->rank ||
        !tt_iov_total(iov, niov, TT_IOV_MAX, cookie ? TT_PIECE_MAX : TT_INLINE_MAX, &bytes))
        return TUTTI_ERR_ARG;
    struct peer *p = &t->peer[r];
    if (p->closed || t->failed)
        return TUTTI_ERR_IO;
    if (p->nfree_out == 0)
        return TUTTI_IN_PROGRESS;
    uint8_t slot = p->free_out[--p->nfree_out];
    struct header h = {.tag = *tag, .bytes = (uint32_t)bytes, .kind = DATA};
    p->cookie[slot] = cookie;
    p->left[slot] = 0;
    if (bytes > TT_INLINE_MAX) {
        copy_in(p->body + (size_t)slot * TT_PIECE_MAX, iov, niov);
        return send_large(t, r, slot, &h);
    }
    copy_in(p->out + (size_t)slot * SLOT + HEAD, iov, niov);
    return tt_mpi_send_slot(t, r, slot, &h, bytes);
}

/* ---- receiving ---- */

tutti_status tt_mpi_accept(struct tt_transport *t, uint32_t peer, uint32_t stream,
                           const struct iovec *iov, int niov)
{
    (void)t, (void)peer, (void)stream, (void)iov, (void)niov;
    return TUTTI_ERR_ARG;
}

void tt_mpi_release(struct tt_transport *base, const struct tt_event *ev)
{
    struct mpi *t = (struct mpi *)base;
    struct peer *p = &t->peer[ev->peer];
    const char *data = ev->data;
    if (ev->kind != TT_EV_DATA)
        return;
    if (ev->bytes > TT_INLINE_MAX)
        p->stream[(data - p->stream[0].body) / TT_PIECE_MAX].busy = false;
    else
        tt_mpi_post(t, ev->peer, (uint8_t)((data - p->in) / SLOT));
}

/* The payload on a stream has arrived: reports it, or drops it if the peer or this transport is
 * closed. */
static void transport_deliver(struct mpi *t, uint32_t r, uint8_t stream)
{
    struct peer *p = &t->peer[r];
    struct stream *s = &p->stream[stream];
    s->busy = !p->closed && !t->closing;
    if (s->busy)
        t->news[t->nnews++] = (struct tt_event){.kind = TT_EV_DATA,
                                                .peer = r,
                                                .stream = stream,
                                                .bytes = s->head.bytes,
                                                .tag = s->head.tag,
                                                .data = s->body};
}

/* MPI has completed a message of `busy`: an incoming payload, or one of the messages of an outgoing
 * slot. */
static void finished(struct mpi *t, const struct under_way *w)
{
    struct peer *p = &t->peer[w->peer];
    if (w->incoming) {
        transport_deliver(t, w->peer, w->what);
        return;
    }
    assert(w->what < SLOTS_OUT && p->left[w->what] > 0);
    if (--p->left[w->what])
        return;
    assert(p->nfree_out < SLOTS_OUT);
    p->free_out[p->nfree_out++] = w->what;
    if (!p->closed && p->cookie[w->what])
        t->news[t->nnews++] =
            (struct tt_event){.kind = TT_EV_SENT, .peer = w->peer, .cookie = p->cookie[w->what]};
}

/* The header of a peer's oldest message. Call only when p->arrived. */
static struct header front_header(const struct peer *p)
{
    struct header h;
    assert(p->arrived && p->nposted > 0);
    memcpy(&h, p->in + (size_t)p->posted[p->front] * SLOT, sizeof h);
    return h;
}

/* Removes the oldest message from the queue and returns its slot, which the caller must post
 * again. */
static uint8_t transport_next(struct mpi *t, uint32_t r)
{
    struct peer *p = &t->peer[r];
    assert(p->nposted > 0 && p->arrived);
    uint8_t slot = p->posted[p->front];
    p->front = (p->front + 1) % SLOTS_IN;
    p->nposted--;
    p->arrived = false;
    look_at_front(t, r);
    return slot;
}

/* Also the check of what a peer sent: an announcement that is out of range is taken as a protocol
 * error. */
static bool is_announcement(const struct header *h)
{
    return h->kind == ANNOUNCE && h->stream < STREAMS && h->bytes > TT_INLINE_MAX &&
           h->bytes <= TT_PIECE_MAX;
}

/* If a peer's oldest message is an announcement whose stream is free, posts the receive of its
 * payload. */
static void expect(struct mpi *t, uint32_t r)
{
    struct peer *p = &t->peer[r];
    struct header h = front_header(p);
    MPI_Request request;
    if (!is_announcement(&h) || p->stream[h.stream].busy)
        return;
    struct stream *s = &p->stream[h.stream];
    s->busy = true;
    s->head = h;
    tt_mpi_post(t, r, transport_next(t, r));
    if (PMPI_Irecv(s->body, (int)h.bytes, MPI_BYTE, t->rank[r], t->tag + 1 + h.stream, t->comm,
                   &request) != MPI_SUCCESS)
        t->failed = true;
    else
        remember(t, request, (struct under_way){.peer = r, .what = h.stream, .incoming = true});
}

/* Asks MPI what has completed since the last call, and collects the resulting events in `news`.
 * Each completed request yields at most one event, and `news` has room for one round: it must be
 * empty before the next. */
static void transport_look(struct mpi *t)
{
    int n = 0;
    if (t->failed || t->nnews)
        return;
    if (PMPI_Testsome(t->nbusy, t->busy, &n, t->done, t->status) != MPI_SUCCESS) {
        t->failed = true;
        return;
    }
    for (int i = 0; n != MPI_UNDEFINED && i < n; i++)
        finished(t, &t->way[t->done[i]]);
    /* Compact: Testsome has set the completed requests to MPI_REQUEST_NULL. */
    int kept = 0;
    for (int i = 0; n != MPI_UNDEFINED && n > 0 && i < t->nbusy; i++)
        if (t->busy[i] != MPI_REQUEST_NULL) {
            t->busy[kept] = t->busy[i];
            t->way[kept++] = t->way[i];
        }
    t->nbusy = n != MPI_UNDEFINED && n > 0 ? kept : t->nbusy;
    n = 0;
    t->failed = PMPI_Testsome((int)t->base.size, t->front, &n, t->done, t->status) != MPI_SUCCESS;
    for (int i = 0; !t->failed && n != MPI_UNDEFINED && i < n; i++)
        t->peer[t->done[i]].arrived = true;
    for (uint32_t r = 0; !t->failed && r < t->base.size; r++)
        if (t->peer[r].arrived && !t->peer[r].closed)
            expect(t, r);
}

/* Takes a peer's oldest message, which is not an announcement. Anything but valid data closes the
 * peer: with error 0 for an orderly BYE, with EPROTO otherwise. */
static void transport_take(struct mpi *t, uint32_t r, struct tt_event *ev)
{
    struct peer *p = &t->peer[r];
    struct header h = front_header(p);
    const char *at = p->in + (size_t)transport_next(t, r) * SLOT;
    if (h.kind == DATA && h.bytes <= TT_INLINE_MAX) {
        *ev = (struct tt_event){
            .kind = TT_EV_DATA, .peer = r, .bytes = h.bytes, .tag = h.tag, .data = at + HEAD};
        return;
    }
    p->closed = true;
    *ev = (struct tt_event){.kind = TT_EV_CLOSED, .peer = r, .error = h.kind == BYE ? 0 : EPROTO};
}

/* Announcements are handled by expect(), not by the caller: they stay in the queue until their
 * stream is free. */
static bool has_message(const struct peer *p)
{
    if (!p->arrived || p->closed)
        return false;
    struct header h = front_header(p);
    return !is_announcement(&h);
}

static size_t tell_news(struct mpi *t, struct tt_event *ev, size_t max)
{
    size_t n = t->nnews < max ? t->nnews : max;
    memcpy(ev, t->news, n * sizeof *ev);
    memmove(t->news, t->news + n, (t->nnews - n) * sizeof *ev);
    t->nnews -= n;
    return n;
}

/* After an error of MPI itself no peer can be reached: reports every peer closed, over several
 * calls if `max` is too small for all. */
static size_t tell_failure(struct mpi *t, struct tt_event *ev, size_t max)
{
    size_t n = 0;
    t->told = true;
    for (uint32_t r = 0; r < t->base.size; r++) {
        if (t->peer[r].closed || r == t->base.rank)
            continue;
        if (n == max) {
            t->told = false;
            break;
        }
        t->peer[r].closed = true;
        ev[n++] = (struct tt_event){.kind = TT_EV_CLOSED, .peer = r, .error = EIO};
    }
    return n;
}

size_t tt_mpi_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
{
    struct mpi *t = (struct mpi *)base;
    transport_look(t);
    size_t n = tell_news(t, ev, max);
    if (t->failed)
        return n + (t->told ? 0 : tell_failure(t, ev + n, max - n));
    /* Start at another peer each time, so that no peer is starved when the caller's array is
     * short. */
    uint32_t first = t->turn;
    t->turn = t->turn + 1 < base->size ? t->turn + 1 : 0;
    for (uint32_t k = 0; k < base->size && n < max; k++) {
        uint32_t r = (first + k) % base->size;
        if (has_message(&t->peer[r]))
            transport_take(t, r, &ev[n++]);
    }
    return n;
}

static bool has_events(const struct mpi *t)
{
    if (t->nnews || (t->failed && !t->told))
        return true;
    for (uint32_t r = 0; r < t->base.size; r++)
        if (has_message(&t->peer[r]))
            return true;
    return false;
}

void tt_mpi_nap(unsigned looks)
{
    unsigned doublings = (looks - LOOKS) / 4;
    uint64_t ns = doublings < 6 ? (uint64_t)NAP_MIN_NS << doublings : NAP_MAX_NS;
    if (looks < LOOKS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

void tt_mpi_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct mpi *t = (struct mpi *)base;
    for (unsigned looks = 0; !has_events(t); looks++) {
        transport_look(t);
        if (has_events(t) || tt_now_ns() >= deadline_ns)
            return;
        tt_mpi_nap(looks);
    }
}
