/* transport.c - pieces as MPI messages. A small piece travels behind its header in one message. A
 * large piece is announced by its header and follows in a message of its own.
 *
 *     tag 0        header [payload up to TT_INLINE_MAX]     SLOTS_IN receives posted per peer
 *     tag 1 + s    payload of the piece announced on stream s; streams 0 .. STREAMS-1 take turns
 *
 * All groups of ranks use one MPI communicator, and each has TT_MPI_TAGS tags of its own (join.c).
 *
 * MPI is only given memory of the transport: slots and stream bodies. MPI may use memory that it
 * was given until it reports completion, which can be long after an error, when the caller's memory
 * must no longer be touched. (MPI_Cancel does not help: a message that has been matched or sent is
 * not cancelled.) Outgoing data is therefore copied first, in pieces of at most 128 KiB that stay
 * in the cache; incoming data is used where it arrives.
 *
 * MPI keeps the order of messages with the same tag between two ranks, so the k-th payload on a
 * stream belongs to the k-th announcement on it. A stream is busy from its announcement until its
 * payload is released. An announcement on a busy stream waits, and so does everything behind it
 * from that peer. Receives are matched in the order in which they were posted: `posted` is that
 * queue, and only its front is tested.
 *
 * MPI does not report which rank died; the watch (watch/watch.h) does. An orderly end has a header
 * of its own (BYE), so that every rank knows when nothing more will arrive and can close without
 * losing a message.
 *
 * A transport is used by one thread at a time, like every transport; it has no lock. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "mpi/mpi_int.h"

/* STREAMS (8) is twice the number of pieces that the executor may hold for a reduction (TT_XHOLD),
 * so that a peer can always make progress. */
enum { SLOTS_IN = 8, SLOTS_OUT = 16, HEAD = 64, SLOT = HEAD + TT_INLINE_MAX };
enum { STREAMS = TT_MPI_TAGS - 1 };
/* Waiting: LOOKS polls with sched_yield between them, then sleeps that double from NAP_MIN_NS to
 * NAP_MAX_NS. */
enum { LOOKS = 64, NAP_MIN_NS = 10000, NAP_MAX_NS = 500000 };
/* How long closing waits for the farewells (BYE) of the other ranks. */
static const uint64_t farewell_ns = 1000000000, farewell_after_fault_ns = 100000000;

enum kind { DATA = 1, ANNOUNCE, BYE };
struct header { /* sent as raw memory: all ranks run one build with one byte order */
    struct tt_tag tag;
    uint32_t bytes;
    uint8_t kind, stream, pad[2];
};
static_assert(sizeof(struct header) <= HEAD, "the header has its place before the payload");

struct stream { /* incoming */
    bool busy;
    struct header head;
    char *body;
};

struct peer {
    char *in, *out; /* SLOTS_IN, SLOTS_OUT slots */
    MPI_Request in_request[SLOTS_IN];
    /* slots in the order in which their receives were posted, starting at `front` */
    uint8_t posted[SLOTS_IN];
    uint32_t front, nposted;
    bool arrived; /* the message of the front slot has arrived */
    struct stream stream[STREAMS];
    char *body; /* SLOTS_OUT outgoing payloads */
    uint32_t next_stream;
    uint8_t free_out[SLOTS_OUT], nfree_out;
    uint8_t left[SLOTS_OUT]; /* messages of each slot that MPI has not completed */
    uint64_t cookie[SLOTS_OUT];
    bool closed;
};

/* A message that MPI has not completed and that is not in `front`: the one of outgoing slot `what`,
 * or the incoming payload on stream `what`. */
struct under_way {
    uint32_t peer;
    uint8_t what;
    bool incoming;
};

struct mpi {
    struct tt_transport base;
    MPI_Comm comm;
    int tag;   /* the first of the group's tags */
    int *rank; /* [size]: each peer's rank in comm */
    struct peer *peer;
    MPI_Request *front; /* [size]: each peer's oldest receive */
    MPI_Request *busy;  /* [nbusy]; way[i] says what busy[i] is */
    struct under_way *way;
    int nbusy;
    int *done; /* scratch for Testsome */
    MPI_Status *status;
    struct tt_event *news;
    size_t nnews;
    uint32_t turn;
    bool failed, told; /* MPI itself returned an error; every peer was reported closed */
    bool closing;      /* payloads are dropped on arrival */
    char *store;
    char *bodies; /* PEER_BODIES for each peer; pages are backed on first use */
};

static const size_t PEER_BODIES = (size_t)(SLOTS_OUT + STREAMS) * TT_PIECE_MAX;

/* Sum of the lengths. False: too many fragments, or more bytes than `limit`. */
static bool transport_total(const struct iovec *iov, int niov, size_t limit, size_t *ret)
{
    size_t sum = 0;
    if (niov < 0 || niov > TT_IOV_MAX)
        return false;
    for (int i = 0; i < niov; i++) {
        if (iov[i].iov_len > limit - sum)
            return false;
        sum += iov[i].iov_len;
    }
    *ret = sum;
    return true;
}

/* ---- posting ---- */

/* front[r] must be a request that MPI has not completed yet, or null: Testsome deallocates what it
 * reports. */
static void look_at_front(struct mpi *t, uint32_t r)
{
    struct peer *p = &t->peer[r];
    t->front[r] = p->nposted && !p->arrived ? p->in_request[p->posted[p->front]] : MPI_REQUEST_NULL;
}

/* Posts the receive of a slot at the end of the peer's queue. */
static void post(struct mpi *t, uint32_t r, uint8_t slot)
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

static tutti_status send_slot(struct mpi *t, uint32_t r, uint8_t slot, const struct header *h,
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
    tutti_status st = send_slot(t, r, slot, h, 0);
    if (st)
        return st;
    if (PMPI_Isend(p->body + (size_t)slot * TT_PIECE_MAX, (int)h->bytes, MPI_BYTE, t->rank[r],
                   t->tag + 1 + stream, t->comm, &request) != MPI_SUCCESS)
        return broken(t);
    p->left[slot]++;
    remember(t, request, (struct under_way){.peer = r, .what = slot});
    return TUTTI_OK;
}

static tutti_status mpi_send(struct tt_transport *base, uint32_t r, const struct tt_tag *tag,
                             const struct iovec *iov, int niov, uint64_t cookie)
{
    struct mpi *t = (struct mpi *)base;
    size_t bytes;
    if (r >= base->size || r == base->rank ||
        !transport_total(iov, niov, cookie ? TT_PIECE_MAX : TT_INLINE_MAX, &bytes))
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
    return send_slot(t, r, slot, &h, bytes);
}

/* ---- receiving ---- */

/* Payloads always arrive together with their data, so this transport never asks where to put
 * one. */
static tutti_status mpi_accept(struct tt_transport *t, uint32_t peer, uint32_t stream,
                               const struct iovec *iov, int niov)
{
    (void)t, (void)peer, (void)stream, (void)iov, (void)niov;
    return TUTTI_ERR_ARG;
}

/* A large payload frees its stream; a small one gives its slot back to MPI. ev->data says which one
 * it was. */
static void mpi_release(struct tt_transport *base, const struct tt_event *ev)
{
    struct mpi *t = (struct mpi *)base;
    struct peer *p = &t->peer[ev->peer];
    const char *data = ev->data;
    if (ev->kind != TT_EV_DATA)
        return;
    if (ev->bytes > TT_INLINE_MAX)
        p->stream[(data - p->stream[0].body) / TT_PIECE_MAX].busy = false;
    else
        post(t, ev->peer, (uint8_t)((data - p->in) / SLOT));
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
    post(t, r, transport_next(t, r));
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

static size_t mpi_poll(struct tt_transport *base, struct tt_event *ev, size_t max)
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

static void nap(unsigned looks)
{
    unsigned doublings = (looks - LOOKS) / 4;
    uint64_t ns = doublings < 6 ? (uint64_t)NAP_MIN_NS << doublings : NAP_MAX_NS;
    if (looks < LOOKS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* MPI offers nothing to sleep on. It is polled at growing intervals until an event or the
 * deadline. */
static void mpi_wait(struct tt_transport *base, uint64_t deadline_ns)
{
    struct mpi *t = (struct mpi *)base;
    for (unsigned looks = 0; !has_events(t); looks++) {
        transport_look(t);
        if (has_events(t) || tt_now_ns() >= deadline_ns)
            return;
        nap(looks);
    }
}

/* ---- opening and closing ---- */

/* Every peer has said BYE, and MPI has completed everything that was given to it except posted
 * receives. */
static bool all_parted(const struct mpi *t)
{
    for (uint32_t r = 0; r < t->base.size; r++)
        if (r != t->base.rank && !t->peer[r].closed)
            return false;
    return t->nbusy == 0;
}

/* Says BYE to all peers and polls until all of them have done so, for patience_ns at most. False:
 * messages are still under way. */
static bool part(struct mpi *t, uint64_t patience_ns)
{
    uint64_t until = tt_now_ns() + patience_ns;
    struct header bye = {.kind = BYE};
    struct tt_event ev[16];
    t->closing = true;
    for (uint32_t r = 0; r < t->base.size && !t->failed; r++) {
        struct peer *p = &t->peer[r];
        if (r == t->base.rank || p->nfree_out == 0)
            continue;
        uint8_t slot = p->free_out[--p->nfree_out];
        p->cookie[slot] = 0;
        p->left[slot] = 0;
        send_slot(t, r, slot, &bye, 0);
    }
    for (unsigned looks = 0; !t->failed && !all_parted(t) && tt_now_ns() < until; looks++) {
        size_t n = mpi_poll(&t->base, ev, countof(ev));
        for (size_t i = 0; i < n; i++)
            mpi_release(&t->base, &ev[i]);
        if (n == 0)
            nap(looks);
    }
    return !t->failed && all_parted(t);
}

/* The receives that are left can never match: every peer has said BYE. */
static void cancel_receives(struct mpi *t)
{
    for (uint32_t r = 0; r < t->base.size; r++) {
        struct peer *p = &t->peer[r];
        for (; p->nposted; p->nposted--, p->front = (p->front + 1) % SLOTS_IN) {
            MPI_Request *request = &p->in_request[p->posted[p->front]];
            PMPI_Cancel(request);
            PMPI_Wait(request, MPI_STATUS_IGNORE);
        }
    }
}

static void free_parts(struct mpi *t)
{
    if (t->bodies)
        munmap(t->bodies, t->base.size * PEER_BODIES);
    free(t->rank);
    free(t->peer);
    free(t->front);
    free(t->busy);
    free(t->way);
    free(t->done);
    free(t->status);
    free(t->news);
    free(t->store);
    free(t);
}

/* If messages are still under way, their memory and tags are never used again, because MPI may
 * still write to them. */
static void transport_end(struct mpi *t, uint64_t patience_ns)
{
    if (!part(t, patience_ns)) {
        tt_mpi_unfinished = true;
        return;
    }
    cancel_receives(t);
    tt_mpi_tags_release(t->tag);
    free_parts(t);
}

static void mpi_close(struct tt_transport *base)
{
    transport_end((struct mpi *)base, farewell_ns);
}

/* After an error ranks end each in its own way, and some without MPI_Finalize, which waits for all
 * ranks: this one must not call it either, even if every peer has said BYE to it. */
static void mpi_abandon(struct tt_transport *base)
{
    tt_mpi_unfinished = true;
    transport_end((struct mpi *)base, farewell_after_fault_ns);
}

static const struct tt_transport_ops mpi_ops = {
    .name = "mpi",
    .desc = "messages of an MPI library",
    .send = mpi_send,
    .accept = mpi_accept,
    .release = mpi_release,
    .poll = mpi_poll,
    .wait = mpi_wait,
    .close = mpi_close,
    .abandon = mpi_abandon,
};

static bool make_room(struct mpi *t, uint32_t size)
{
    size_t slots = (size_t)size * (SLOTS_IN + SLOTS_OUT),
           busy = (size_t)size * (2 * SLOTS_OUT + STREAMS);
    t->rank = tt_alloc(size, sizeof *t->rank);
    t->peer = tt_zalloc(size, sizeof *t->peer);
    t->front = tt_alloc(size, sizeof *t->front);
    t->busy = tt_alloc(busy, sizeof *t->busy);
    t->way = tt_alloc(busy, sizeof *t->way);
    t->done = tt_alloc(busy, sizeof *t->done);
    t->status = tt_alloc(busy, sizeof *t->status);
    t->news = tt_alloc(busy, sizeof *t->news);
    t->store = tt_zalloc(slots, SLOT);
    /* Most peers exchange only small pieces, so bodies are reserved and not backed until they are
     * used. */
    void *bodies = mmap(NULL, size * PEER_BODIES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    t->bodies = bodies == MAP_FAILED ? NULL : bodies;
    return t->bodies && t->rank && t->peer && t->front && t->busy && t->way && t->done &&
           t->status && t->news && t->store;
}

/* Carves the peer's slots and bodies out of the common blocks and posts its receives; this rank
 * itself gets none. */
static void prepare_peer(struct mpi *t, uint32_t r)
{
    struct peer *p = &t->peer[r];
    p->in = t->store + (size_t)r * (SLOTS_IN + SLOTS_OUT) * SLOT;
    p->out = p->in + (size_t)SLOTS_IN * SLOT;
    t->front[r] = MPI_REQUEST_NULL;
    p->body = t->bodies + r * PEER_BODIES;
    for (size_t i = 0; i < STREAMS; i++)
        p->stream[i].body = p->body + (SLOTS_OUT + i) * TT_PIECE_MAX;
    if (r == t->base.rank)
        return;
    for (uint8_t i = 0; i < SLOTS_OUT; i++)
        p->free_out[p->nfree_out++] = i;
    for (uint8_t i = 0; i < SLOTS_IN; i++)
        post(t, r, i);
}

tutti_status tt_mpi_transport(MPI_Comm comm, int tag, const struct tt_mpi_group *g,
                              struct tt_transport **ret, struct tutti_error *err)
{
    struct mpi *t = tt_zalloc(1, sizeof *t);
    if (t)
        t->base = (struct tt_transport){&mpi_ops, g->me, g->n};
    if (!t || !make_room(t, g->n)) {
        if (t)
            free_parts(t);
        return tt_fail_memory(err, "mpi transport");
    }
    t->comm = comm;
    t->tag = tag;
    for (uint32_t r = 0; r < g->n; r++) {
        t->rank[r] = (int)g->members[r];
        prepare_peer(t, r);
    }
    *ret = &t->base;
    return TUTTI_OK;
}
