/* shm.c - the shared-memory transport: one ring per ordered pair of local ranks.
 *
 *     region   door of local rank 0, 1, ...             one line each
 *              ring 0 -> 1, 0 -> 2, ..., 1 -> 0, ...    tt_shm_ring_bytes each
 *     number of a ring = sender * (n - 1) + place of the receiver among the others
 *
 * A send copies into the ring and is done: the memory of the caller is free at once, and its SENT
 * event comes with the next poll. A receive is read in place. A peer that closes leaves an end mark
 * in each of its rings (CLOSED, error 0); memory that makes no sense closes the stream with EPROTO.
 * A killed peer is silent here: the caller's deadline and its watch notice that. The region belongs
 * to the caller, who unmaps it after closing.
 *
 * Threads: one thread at a time uses a transport. Between processes each ring has one writer and
 * one reader (shm_ring.h).
 *
 * Invariant: a rank that changes a ring (puts a frame, moves a tail) rings the other end's door
 * afterwards; that is what makes sleeping safe (shm_wait.h). */
#include "transport/transport.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "transport/shm_ring.h"

/* SENT_MAX: SENT events not yet delivered; beyond that a send is refused for now. */
enum { SENT_MAX = 512, LOCAL_MAX = 4096, RING_MIN = 4096 };
static const uint32_t RING_MAX = 1u << 30, NOT_LOCAL = UINT32_MAX;

/* A SENT event that is due. */
struct sent {
    uint64_t cookie;
    uint32_t peer;
};
/* One other local rank. */
struct link {
    struct tt_ring_out out;
    struct tt_ring_in in;
    struct tt_door *door; /* the peer's */
    uint32_t peer;
};
struct shm {
    struct tt_transport base;
    struct tt_door *door;  /* mine */
    struct link *links;    /* the other local ranks, rising */
    uint32_t nlinks, next; /* next: where polling begins, so that no peer starves */
    uint32_t *place;       /* of a rank in links */
    uint32_t payload_max;
    bool oversubscribed;
    uint64_t idle_since_ns;
    bool (*ready)(void *arg); /* what else ends a wait (ops->watch); NULL: nothing */
    void *ready_arg;
    struct sent sent[SENT_MAX]; /* a queue: [sent_head, sent_tail) modulo SENT_MAX */
    uint32_t sent_head, sent_tail;
};

static struct shm *shm_of(struct tt_transport *t)
{
    return (struct shm *)(void *)t;
}

/* The link to a rank; NULL: it is not on this host. */
static struct link *link_of(struct shm *s, uint32_t peer)
{
    uint32_t place = peer < s->base.size ? s->place[peer] : NOT_LOCAL;

    return place == NOT_LOCAL ? NULL : &s->links[place];
}

/* The SENT queue is checked before the put: a piece in the ring can no longer be refused. */
static tutti_status shm_send(struct tt_transport *t, uint32_t peer, const struct tt_tag *tag,
                             const struct iovec *iov, int niov, uint64_t cookie)
{
    struct shm *s = shm_of(t);
    struct link *l = link_of(s, peer);
    size_t bytes = 0;

    if (!l || !tt_iov_total(iov, niov, TT_IOV_MAX, s->payload_max, &bytes))
        return TUTTI_ERR_ARG;
    if (l->in.ended)
        return TUTTI_ERR_IO;
    assert(l->peer == peer && s->sent_tail - s->sent_head <= SENT_MAX);
    if (cookie && s->sent_tail - s->sent_head == SENT_MAX)
        return TUTTI_IN_PROGRESS;
    if (!tt_shm_ring_put(&l->out, tag, iov, niov, (uint32_t)bytes))
        return TUTTI_IN_PROGRESS;
    tt_door_ring(l->door, TT_WAKE_DATA);
    if (cookie)
        s->sent[s->sent_tail++ % SENT_MAX] = (struct sent){.cookie = cookie, .peer = peer};
    return TUTTI_OK;
}

/* Payloads always come with their data: there is never a header to answer. */
static tutti_status shm_accept(struct tt_transport *t, uint32_t peer, uint32_t stream,
                               const struct iovec *iov, int niov)
{
    (void)t, (void)peer, (void)stream, (void)iov, (void)niov;
    return TUTTI_ERR_ARG;
}

/* The writer is woken only if the tail has moved: otherwise it has no more room than before. */
static void shm_release(struct tt_transport *t, const struct tt_event *ev)
{
    struct link *l = link_of(shm_of(t), ev->peer);

    assert(l && ev->kind == TT_EV_DATA);
    if (tt_shm_ring_release(&l->in, ev->data, ev->bytes))
        tt_door_ring(l->door, TT_WAKE_SPACE);
}

static size_t poll_sent(struct shm *s, struct tt_event *ev, size_t max)
{
    size_t n = 0;

    for (; n < max && s->sent_head != s->sent_tail; n++) {
        const struct sent *done = &s->sent[s->sent_head++ % SENT_MAX];
        ev[n] = (struct tt_event){.kind = TT_EV_SENT, .peer = done->peer, .cookie = done->cookie};
    }
    return n;
}

/* Takes frames until the ring is empty or the array is full. END and BROKEN come once. */
static size_t poll_link(struct link *l, struct tt_event *ev, size_t max)
{
    size_t n = 0;

    while (n < max) {
        enum tt_ring_look look = tt_shm_ring_take(&l->in, &ev[n]);
        if (look == TT_RING_EMPTY)
            break;
        ev[n].kind = look == TT_RING_FRAME ? TT_EV_DATA : TT_EV_CLOSED;
        ev[n].peer = l->peer;
        ev[n].stream = 0;
        ev[n].cookie = 0;
        ev[n].error = look == TT_RING_BROKEN ? EPROTO : 0;
        n++;
    }
    return n;
}

/* Each poll begins with the next link, so that a busy peer cannot starve the others. */
static size_t shm_poll(struct tt_transport *t, struct tt_event *ev, size_t max)
{
    struct shm *s = shm_of(t);
    size_t n = poll_sent(s, ev, max);

    for (uint32_t i = 0; i < s->nlinks && n < max; i++) {
        uint32_t place = s->next + i;
        n += poll_link(&s->links[place < s->nlinks ? place : place - s->nlinks], ev + n, max - n);
    }
    assert(n <= max && s->next <= s->nlinks);
    if (s->nlinks)
        s->next = (s->next + 1) % s->nlinks;
    if (n)
        s->idle_since_ns = 0;
    return n;
}

/* What ends a wait: events, room that a send lacked, or what the engine watches. Called any number
 * of times while waiting; loads are seq_cst, as shm_wait.h demands. */
static bool something_happened(void *arg)
{
    const struct shm *s = arg;
    bool ready = s->sent_head != s->sent_tail || (s->ready && s->ready(s->ready_arg));

    for (uint32_t i = 0; i < s->nlinks && !ready; i++) {
        const struct link *l = &s->links[i];
        ready = tt_ring_ready(&l->in) || (l->out.want && tt_shm_ring_has_room(&l->out));
    }
    return ready;
}

/* Asks to be woken for room only if a send lacked some. */
static void shm_wait(struct tt_transport *t, uint64_t deadline_ns)
{
    struct shm *s = shm_of(t);
    struct tt_wait w = {.door = s->door,
                        .why = TT_WAKE_DATA,
                        .oversubscribed = s->oversubscribed,
                        .idle_since_ns = &s->idle_since_ns,
                        .ready = something_happened,
                        .arg = s};

    for (uint32_t i = 0; i < s->nlinks; i++)
        if (s->links[i].out.want)
            w.why |= TT_WAKE_SPACE;
    tt_shm_wait_until(&w, deadline_ns);
    /* Room ends a wait once: a caller that does not try again must not be woken for it for ever. */
    for (uint32_t i = 0; i < s->nlinks; i++)
        if (s->links[i].out.want && tt_shm_ring_has_room(&s->links[i].out))
            s->links[i].out.want = 0;
}

static void shm_watch(struct tt_transport *t, bool (*ready)(void *arg), void *arg)
{
    shm_of(t)->ready = ready;
    shm_of(t)->ready_arg = arg;
}

static void shm_free(struct shm *s)
{
    for (uint32_t i = 0; s->links && i < s->nlinks; i++)
        tt_shm_ring_in_close(&s->links[i].in);
    free(s->links);
    free(s->place);
    free(s);
}

/* The end marks need no room in the rings: closing never waits. */
static void shm_close(struct tt_transport *t)
{
    struct shm *s = shm_of(t);

    for (uint32_t i = 0; i < s->nlinks; i++) {
        tt_shm_ring_end(&s->links[i].out);
        tt_door_ring(s->links[i].door, TT_WAKE_DATA);
    }
    shm_free(s);
}

static const struct tt_transport_ops shm_ops = {
    .name = "shm",
    .desc = "rings in memory shared by the ranks of one host",
    .send = shm_send,
    .accept = shm_accept,
    .release = shm_release,
    .poll = shm_poll,
    .wait = shm_wait,
    .close = shm_close,
    .watch = shm_watch,
};

/* The ring from local rank `from` to local rank `to`: both ends compute the same place. */
static void *ring_memory(const struct tt_shm_config *c, uint32_t from, uint32_t to)
{
    assert(from != to && from < c->nlocal && to < c->nlocal);
    size_t number = (size_t)from * (c->nlocal - 1) + (to < from ? to : to - 1);

    return (char *)c->region + (size_t)c->nlocal * sizeof(struct tt_door) +
           number * tt_shm_ring_bytes(c->ring_bytes);
}

static bool ring_bytes_ok(uint32_t bytes)
{
    return bytes >= RING_MIN && bytes <= RING_MAX && (bytes & (bytes - 1)) == 0;
}

size_t tt_shm_bytes(uint32_t nlocal, uint32_t ring_bytes)
{
    size_t rings = (size_t)nlocal * (nlocal - 1), bytes;

    if (!nlocal || nlocal > LOCAL_MAX || !ring_bytes_ok(ring_bytes))
        return 0;
    if (__builtin_mul_overflow(rings, tt_shm_ring_bytes(ring_bytes), &bytes))
        return 0;
    return bytes + (size_t)nlocal * sizeof(struct tt_door);
}

static tutti_status shm_check(const struct tt_shm_config *c, struct tutti_error *err)
{
    if (!tt_shm_bytes(c->nlocal, c->ring_bytes))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "shm: %u local ranks with rings of %u bytes: not 1..%d ranks and a power of "
                       "two from %d bytes up",
                       c->nlocal, c->ring_bytes, LOCAL_MAX, RING_MIN);
    if (!c->region || (uintptr_t)c->region % TT_LINE)
        return tt_fail(err, TUTTI_ERR_ARG, "shm: the region is not aligned to %d bytes", TT_LINE);
    if (c->me >= c->nlocal || c->local[c->me] != c->rank)
        return tt_fail(err, TUTTI_ERR_ARG, "shm: rank %u is not number %u of the local ranks",
                       c->rank, c->me);
    for (uint32_t i = 0; i < c->nlocal; i++)
        if (c->local[i] >= c->size || (i && c->local[i] <= c->local[i - 1]))
            return tt_fail(err, TUTTI_ERR_ARG,
                           "shm: the local ranks are not rising or not below %u", c->size);
    return TUTTI_OK;
}

/* Zeroed memory is a valid ring, so no rank has to wait for another one here. */
static tutti_status open_links(struct shm *s, const struct tt_shm_config *c)
{
    struct tt_door *doors = c->region;

    for (uint32_t i = 0; i < c->nlocal; i++) {
        if (i == c->me)
            continue;
        uint32_t place = i < c->me ? i : i - 1;
        struct link *l = &s->links[place];
        l->peer = c->local[i];
        l->door = &doors[i];
        s->place[l->peer] = place;
        tt_shm_ring_out_open(&l->out, ring_memory(c, c->me, i), c->ring_bytes);
        tutti_status status = tt_shm_ring_in_open(&l->in, ring_memory(c, i, c->me), c->ring_bytes);
        if (status)
            return status;
    }
    return TUTTI_OK;
}

tutti_status tt_shm_open(const struct tt_shm_config *c, struct tt_transport **ret,
                         struct tutti_error *err)
{
    tutti_status status = shm_check(c, err);
    struct shm *s;

    if (status)
        return status;
    s = tt_zalloc(1, sizeof *s);
    if (!s)
        return tt_fail_memory(err, "shm transport");
    s->base = (struct tt_transport){.ops = &shm_ops, .rank = c->rank, .size = c->size};
    s->door = (struct tt_door *)c->region + c->me;
    s->nlinks = c->nlocal - 1;
    s->payload_max = tt_shm_ring_payload_max(c->ring_bytes);
    s->oversubscribed = c->oversubscribed;
    s->links = tt_zalloc(s->nlinks, sizeof *s->links);
    s->place = tt_alloc(c->size, sizeof *s->place);
    for (uint32_t r = 0; s->place && r < c->size; r++)
        s->place[r] = NOT_LOCAL;
    if (!s->links || !s->place || open_links(s, c)) {
        shm_free(s);
        return tt_fail_memory(err, "shm transport");
    }
    *ret = &s->base;
    return TUTTI_OK;
}
