/* fake_transport.h - all ranks of a job in one thread: a transport without a network, for tests of the executor.
 *
 * Pieces wait in streams (several per ordered pair) and are delivered in random order between streams after random delays. Payloads above
 * header_min are announced by a header. What the vtable forbids is made to hurt: a payload is read from the sender's memory only when
 * it is delivered (until then it must not change), accepted memory is written only just before TT_EV_RECEIVED, a released payload is freed.
 */
#ifndef FAKE_TRANSPORT_H
#define FAKE_TRANSPORT_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

enum { FAKE_RANKS = 20, FAKE_STREAMS = 3, FAKE_DEPTH = 32, FAKE_SENT = 4096 };

struct fake_piece {
    struct tt_tag tag;
    uint32_t bytes, due;
    uint64_t cookie;
    int niov;
    struct iovec *iov;
    char *copy; /* cookie 0 */
};

struct fake_stream {
    struct fake_piece piece[FAKE_DEPTH];
    uint32_t head, tail;
    bool announced, accepted, ended;
    uint32_t due;
    int niov;
    struct iovec into[TT_IOV_MAX];
};

struct fake_world;
struct fake {
    struct tt_transport base;
    struct fake_world *world;
    uint64_t sent[FAKE_SENT]; /* cookies */
    uint32_t sent_peer[FAKE_SENT], sent_head, sent_tail;
    bool closed, told[FAKE_RANKS];
};

struct fake_world {
    uint32_t size, now, depth, max_delay, fill_delay, header_min, nstreams, held;
    struct tt_rng rng;
    uint64_t pieces, headers, bytes, control;
    struct fake rank[FAKE_RANKS];
    struct fake_stream *streams; /* from, to, number */
};

static inline struct fake_stream *fake_stream(struct fake_world *w, uint32_t from, uint32_t to, uint32_t k)
{
    return &w->streams[((size_t)from * w->size + to) * w->nstreams + k];
}

static inline size_t fake_bytes(const struct iovec *iov, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += iov[i].iov_len;
    return sum;
}

static inline void fake_gather(char *to, const struct iovec *iov, int n)
{
    for (int i = 0; i < n; i++) {
        if (iov[i].iov_len)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

static inline tutti_status fake_send(struct tt_transport *t, uint32_t peer, const struct tt_tag *tag, const struct iovec *iov, int niov,
                                     uint64_t cookie)
{
    struct fake *f = (struct fake *)(void *)t;
    struct fake_world *w = f->world;
    size_t bytes = fake_bytes(iov, niov);
    if (peer >= w->size || peer == t->rank || niov > TT_IOV_MAX || bytes > (cookie ? (size_t)TT_PIECE_MAX : (size_t)TT_INLINE_MAX))
        return TUTTI_ERR_ARG;
    if (w->rank[peer].closed)
        return TUTTI_ERR_IO;
    struct fake_stream *s = fake_stream(w, t->rank, peer, (uint32_t)tt_rng_below(&w->rng, w->nstreams));
    if (s->tail - s->head == w->depth)
        return TUTTI_IN_PROGRESS;
    struct fake_piece *p = &s->piece[s->tail++ % FAKE_DEPTH];
    *p = (struct fake_piece){.tag = *tag, .bytes = (uint32_t)bytes, .cookie = cookie, .niov = niov};
    p->due = w->now + (uint32_t)tt_rng_below(&w->rng, w->max_delay + 1);
    if (cookie == 0) {
        p->copy = malloc(bytes + 1);
        fake_gather(p->copy, iov, niov);
    } else {
        p->iov = malloc((size_t)niov * sizeof *iov);
        memcpy(p->iov, iov, (size_t)niov * sizeof *iov);
    }
    w->pieces++;
    w->bytes += bytes;
    w->control += tag->channel >= TT_CH_CONTROL;
    return TUTTI_OK;
}

static inline tutti_status fake_accept(struct tt_transport *t, uint32_t peer, uint32_t stream, const struct iovec *iov, int niov)
{
    struct fake_world *w = ((struct fake *)(void *)t)->world;
    struct fake_stream *s = fake_stream(w, peer, t->rank, stream);
    if (!s->announced || s->accepted || niov < 1 || niov > TT_IOV_MAX || fake_bytes(iov, niov) != s->piece[s->head % FAKE_DEPTH].bytes)
        return TUTTI_ERR_ARG;
    s->accepted = true;
    s->niov = niov;
    s->due = w->now + w->fill_delay + (uint32_t)tt_rng_below(&w->rng, w->max_delay + 1);
    memcpy(s->into, iov, (size_t)niov * sizeof *iov);
    return TUTTI_OK;
}

static inline void fake_release(struct tt_transport *t, const struct tt_event *ev)
{
    ((struct fake *)(void *)t)->world->held--;
    free((void *)(uintptr_t)ev->data);
}

/* The payload leaves its sender. */
static inline char *fake_take(struct fake_world *w, uint32_t from, uint32_t to, struct fake_piece *p)
{
    char *data = p->copy;
    struct fake *f = &w->rank[from];
    if (!p->cookie)
        return data;
    data = malloc(p->bytes + (size_t)1);
    fake_gather(data, p->iov, p->niov);
    free(p->iov);
    assert(f->sent_tail - f->sent_head < FAKE_SENT);
    f->sent_peer[f->sent_tail % FAKE_SENT] = to;
    f->sent[f->sent_tail++ % FAKE_SENT] = p->cookie;
    return data;
}

static inline void fake_scatter(const struct iovec *iov, int n, const char *from)
{
    for (int i = 0; i < n; i++) {
        memcpy(iov[i].iov_base, from, iov[i].iov_len);
        from += iov[i].iov_len;
    }
}

/* At most one event of a stream. */
static inline size_t fake_look(struct fake_world *w, uint32_t from, uint32_t to, uint32_t k, struct tt_event *ev)
{
    struct fake_stream *s = fake_stream(w, from, to, k);
    struct fake_piece *p = &s->piece[s->head % FAKE_DEPTH];
    if (s->head == s->tail || (s->announced ? !s->accepted || w->now < s->due : w->now < p->due))
        return 0;
    *ev = (struct tt_event){.kind = TT_EV_DATA, .peer = from, .stream = k, .bytes = p->bytes, .tag = p->tag};
    if (p->bytes > w->header_min && !s->announced) {
        s->announced = true;
        w->headers++;
        ev->kind = TT_EV_HEADER;
        return 1;
    }
    char *data = fake_take(w, from, to, p);
    ev->data = data;
    if (s->announced) {
        fake_scatter(s->into, s->niov, data);
        free(data);
        ev->data = NULL;
        ev->kind = TT_EV_RECEIVED;
    } else {
        w->held++;
    }
    s->announced = s->accepted = false;
    s->head++;
    return 1;
}

static inline bool fake_drained(struct fake_world *w, uint32_t from, uint32_t to)
{
    for (uint32_t k = 0; k < w->nstreams; k++)
        if (fake_stream(w, from, to, k)->head != fake_stream(w, from, to, k)->tail)
            return false;
    return true;
}

static inline size_t fake_poll(struct tt_transport *t, struct tt_event *ev, size_t max)
{
    struct fake *f = (struct fake *)(void *)t;
    struct fake_world *w = f->world;
    size_t n = 0;
    uint32_t lanes = w->size * w->nstreams, first = (uint32_t)tt_rng_below(&w->rng, lanes);
    w->now++;
    while (n < max && f->sent_head != f->sent_tail && tt_rng_below(&w->rng, 4)) {
        ev[n] = (struct tt_event){.kind = TT_EV_SENT, .peer = f->sent_peer[f->sent_head % FAKE_SENT]};
        ev[n++].cookie = f->sent[f->sent_head++ % FAKE_SENT];
    }
    for (uint32_t i = 0; i < lanes && n < max; i++) {
        uint32_t lane = (first + i) % lanes;
        n += fake_look(w, lane / w->nstreams, t->rank, lane % w->nstreams, &ev[n]);
    }
    for (uint32_t peer = 0; peer < w->size && n < max; peer++)
        if (w->rank[peer].closed && !f->told[peer] && peer != t->rank && fake_drained(w, peer, t->rank)) {
            f->told[peer] = true;
            ev[n++] = (struct tt_event){.kind = TT_EV_CLOSED, .peer = peer};
        }
    return n;
}

static inline void fake_wait(struct tt_transport *t, uint64_t deadline_ns)
{
    (void)t, (void)deadline_ns;
}

static inline void fake_close(struct tt_transport *t)
{
    ((struct fake *)(void *)t)->closed = true;
}

static const struct tt_transport_ops fake_ops = {.name = "fake",
                                                 .desc = "all ranks in one thread",
                                                 .send = fake_send,
                                                 .accept = fake_accept,
                                                 .release = fake_release,
                                                 .poll = fake_poll,
                                                 .wait = fake_wait,
                                                 .close = fake_close};

static inline struct fake_world *fake_world_make(uint32_t size, uint64_t seed)
{
    struct fake_world *w = calloc(1, sizeof *w);
    assert(size <= FAKE_RANKS);
    tt_rng_seed(&w->rng, seed);
    w->size = size;
    w->nstreams = 1 + (uint32_t)tt_rng_below(&w->rng, FAKE_STREAMS);
    w->depth = 1 + (uint32_t)tt_rng_below(&w->rng, FAKE_DEPTH);
    w->max_delay = (uint32_t)tt_rng_below(&w->rng, 4) * 8;
    w->header_min = tt_rng_below(&w->rng, 2) ? 64 : 16 << 10;
    w->streams = calloc((size_t)size * size * w->nstreams, sizeof *w->streams);
    for (uint32_t r = 0; r < size; r++)
        w->rank[r] = (struct fake){.base = {.ops = &fake_ops, .rank = r, .size = size}, .world = w};
    return w;
}

static inline void fake_world_free(struct fake_world *w)
{
    for (uint32_t i = 0; i < w->size * w->size * w->nstreams; i++) {
        struct fake_stream *s = &w->streams[i];
        for (; s->head != s->tail; s->head++)
            free(s->piece[s->head % FAKE_DEPTH].copy), free(s->piece[s->head % FAKE_DEPTH].iov);
    }
    free(w->streams);
    free(w);
}
#endif
