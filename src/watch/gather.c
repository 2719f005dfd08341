/* gather.c - an all-gather of a few bytes through rank 0, on the control connections, while
 * the watch watches.
 *
 *     rank 1 --parcel--> rank 0 <--parcel-- rank 2    each rank: its bytes up, ...
 *     rank 1 <--parcel-- rank 0 --parcel--> rank 2    ... those of all down
 *
 * It is for opening things, not for speed. It is a request of all ranks like any other: it is
 * entered and left, and what goes wrong with it gets the verdict that a call would get, so that a
 * rank that dies, stops or stays away during an opening is named as everywhere else. There is one
 * at a time: a rank sends its next parcel only after it has got the last answer, so each line has
 * at most one parcel in each direction. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watch/watch_int.h"

enum { PARCEL_MAX = 1 << 30 };
#define VERDICT_NS UINT64_C(900000000)

struct gathering {
    struct tt_watch *w;
    const struct tt_op_desc *op;
    size_t bytes;
    uint8_t *all;
    uint64_t deadline_ns;
};

/* A piece of a parcel from rank r, called by the watch's thread. Pieces must arrive in order; the
 * first one allocates the whole, within PARCEL_MAX. */
bool tt_watch_gather_take(struct tt_watch *w, uint32_t r, const struct tt_piece *p)
{
    struct tt_seat *s = &w->seats[r];
    assert(r < w->nseats);
    uint64_t n = p->total - p->at < TT_PIECE ? p->total - p->at : TT_PIECE;
    if (p->at == 0 &&
        (p->total > PARCEL_MAX || s->parcel.data || !(s->parcel.data = tt_alloc(p->total + 1, 1))))
        return false;
    if (p->at == 0) {
        s->parcel.total = p->total;
        s->parcel.seq = p->seq;
        s->parcel.got = 0;
        s->parcel.whole = false;
    }
    if (!s->parcel.data || s->parcel.whole || p->at != s->parcel.got ||
        p->total != s->parcel.total || p->seq != s->parcel.seq)
        return false;
    memcpy(s->parcel.data + p->at, p->data, n);
    s->parcel.got += n;
    assert(s->parcel.got <= s->parcel.total);
    s->parcel.whole = s->parcel.got == s->parcel.total;
    if (s->parcel.whole)
        pthread_cond_broadcast(&w->changed);
    return true;
}

static void parcel_drop(struct tt_seat *s)
{
    assert(s->parcel.whole && s->parcel.got == s->parcel.total);
    free(s->parcel.data);
    s->parcel.data = NULL;
    s->parcel.whole = false;
}

static bool watch_gather_judged(const struct tt_watch *w)
{
    return atomic_load_explicit(&w->judged, memory_order_acquire);
}

/* Reports trouble and waits for the verdict. The lock is held, but released while waiting. */
static void gather_complain(const struct gathering *g, enum tt_trouble_kind kind, uint32_t peer)
{
    struct tt_trouble t = {.kind = (uint32_t)kind, .peer = peer, .op = *g->op};
    struct tt_verdict v;
    if (kind == TT_TROUBLE_UNABLE)
        snprintf(t.text, sizeof t.text, "out of memory");
    assert(tt_watch_locked(g->w));
    pthread_mutex_unlock(&g->w->lock);
    tt_watch_report(g->w, &t);
    tt_watch_await(g->w, tt_now_ns() + VERDICT_NS, &v);
    pthread_mutex_lock(&g->w->lock);
}

/* Sleeps until something has changed; false: the deadline has passed. The lock is released
 * meanwhile. */
static bool gather_doze(const struct gathering *g)
{
    struct timespec t = {.tv_sec = (time_t)(g->deadline_ns / 1000000000),
                         .tv_nsec = (long)(g->deadline_ns % 1000000000)};
    if (tt_now_ns() >= g->deadline_ns)
        return false;
    assert(tt_watch_locked(g->w));
    pthread_cond_timedwait(&g->w->changed, &g->w->lock, &t);
    return true;
}

/* Waits until rank r's parcel is complete; false: there is a verdict instead. A verdict that comes
 * after the parcel is for the next call. */
static bool await_parcel(const struct gathering *g, uint32_t r, uint64_t bytes)
{
    struct tt_watch *w = g->w;
    const struct tt_seat *s = &w->seats[r];
    while (!watch_gather_judged(w) && !s->parcel.whole) {
        if (s->left) /* nothing more will arrive from it */
            gather_complain(g, TT_TROUBLE_CLOSED, r);
        else if (!gather_doze(g))
            gather_complain(g, TT_TROUBLE_DEADLINE, r);
    }
    bool fits = s->parcel.whole && s->parcel.seq == g->op->seq && s->parcel.total == bytes;
    if (!fits && !watch_gather_judged(w))
        gather_complain(g, TT_TROUBLE_MISMATCH, r);
    return fits;
}

/* Waits until everything is handed to the kernel; false: there is a verdict instead. The data must
 * stay until then. */
static bool await_gone(const struct gathering *g)
{
    struct tt_watch *w = g->w;
    for (uint32_t r = 0; r < w->nseats; r++)
        while (w->seats[r].line.fd >= 0 && w->seats[r].line.parcel.here) {
            if (watch_gather_judged(w))
                return false;
            if (!gather_doze(g))
                gather_complain(g, TT_TROUBLE_DEADLINE, r);
        }
    return true;
}

/* Starts sending a parcel. The thread sends what the socket does not take at once. */
static void parcel_send(const struct gathering *g, uint32_t r, const uint8_t *data, uint64_t bytes)
{
    tt_watch_line_send(&g->w->seats[r].line, g->op->seq, data, bytes);
    if (tt_watch_line_busy(&g->w->seats[r].line))
        tt_watch_wake(g->w);
}

/* Rank 0: collects in rank order, then sends everything to all at once. */
static bool watch_gather_serve(const struct gathering *g)
{
    struct tt_watch *w = g->w;
    for (uint32_t r = 1; r < w->size; r++) {
        if (!await_parcel(g, r, g->bytes))
            return false;
        if (g->bytes)
            memcpy(g->all + r * g->bytes, w->seats[r].parcel.data, g->bytes);
        parcel_drop(&w->seats[r]);
    }
    for (uint32_t r = 1; r < w->size; r++)
        parcel_send(g, r, g->all, g->bytes * w->size);
    return await_gone(g);
}

static bool watch_gather_give(const struct gathering *g)
{
    struct tt_watch *w = g->w;
    parcel_send(g, 0, g->all + w->rank * g->bytes, g->bytes);
    if (!await_parcel(g, 0, g->bytes * w->size))
        return false;
    memcpy(g->all, w->seats[0].parcel.data, g->bytes * w->size);
    parcel_drop(&w->seats[0]);
    return true;
}

bool tt_watch_gather(struct tt_watch *w, const struct tt_op_desc *op, const void *mine,
                     size_t bytes, void *ret_all)
{
    struct gathering g = {.w = w, .op = op, .bytes = bytes, .deadline_ns = UINT64_MAX};
    uint64_t now = tt_now_ns();
    bool well = true;
    if (w->timeout_ns < UINT64_MAX - now)
        g.deadline_ns = now + w->timeout_ns;
    tt_watch_enter(w, op);
    pthread_mutex_lock(&w->lock);
    g.all = tt_alloc(w->size, bytes + 1);
    if (!g.all)
        gather_complain(&g, TT_TROUBLE_UNABLE, w->rank);
    else if (bytes)
        memcpy(g.all + w->rank * bytes, mine, bytes);
    if (watch_gather_judged(w))
        well = false;
    else if (w->size > 1)
        well = w->rank == 0 ? watch_gather_serve(&g) : watch_gather_give(&g);
    for (uint32_t r = 0; r < w->nseats; r++)
        w->seats[r].line.parcel.here = false; /* a parcel not sent yet is dropped */
    pthread_mutex_unlock(&w->lock);
    if (well && bytes)
        memcpy(ret_all, g.all, bytes * w->size);
    free(g.all);
    tt_watch_leave(w, op->comm);
    return well;
}
