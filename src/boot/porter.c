/* porter.c - owns the listener and all dialling after the ranks have met (see porter.h).
 *
 * At each desk a pair of ranks is in one of these states, as seen by one of them:
 *
 *     NONE --want--> DIALLING --done, or admitted--> READY --take--> TAKEN
 *      |                 '-------refused, late-----> FAILED --take--> NONE
 *      '---------------admitted--------------------> READY
 *
 * If both ranks dial at once, the higher rank's dial counts from the moment its greeting is sent.
 * Until then it may still admit the lower rank's dial and drop its own, since no peer can have
 * accepted that one yet; from then on it rejects the lower rank's dial. The lower rank always
 * admits, and drops its own dial: the higher rank cannot have admitted that one, because it was
 * dialling itself. So at most one of the two is admitted. A rejected dial tries again, and then
 * finds the state READY or the peer's dial. A dial that the lower rank has dropped may still be at
 * the higher rank's gate when the higher rank's own dial was admitted: a link that was made by the
 * own dial is kept.
 *
 * Communicators are opened and closed at different times by different ranks. A link that arrives
 * before its desk is opened is admitted and kept (early.c). One that arrives after its desk was
 * closed is kept too, since the two cases look the same, until its other end hangs up and the space
 * is needed.
 *
 * One lock guards everything; nothing that runs under it waits. */
#include "boot/desk.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "boot/boot_int.h"

enum { EVENTS = 64 };

void tt_boot_eventfd_ring(int eventfd)
{
    uint64_t one = 1;
    ssize_t n = write(eventfd, &one, sizeof one);
    (void)n; /* a full counter is readable, which is all that is needed */
}

void tt_boot_eventfd_hush(int eventfd)
{
    uint64_t count;
    ssize_t n = read(eventfd, &count, sizeof count);
    (void)n;
}

struct tt_desk *tt_boot_desk_find(const struct tt_porter *p, uint64_t role)
{
    struct tt_desk *d = p->desks;

    while (d && d->role != role)
        d = d->next;
    return d;
}

/* A wrong key (fd -1) needs no action here. */
static void porter_place(struct tt_boot *b, struct tt_arrival *a)
{
    struct tt_desk *d = tt_boot_desk_find(b->porter, a->role);

    assert(!d || d->boot == b);
    if (a->fd < 0)
        return;
    if (a->kind == TT_CONN_JOIN)
        tt_boot_guest_seat(b, a, b->porter->epoll);
    else if (a->job != b->job)
        tt_boot_past_tell(b, a);
    else if (a->rank >= b->config.size || a->rank == b->config.rank)
        tt_boot_net_close(&a->fd);
    else if (d)
        tt_boot_desk_place(d, a);
    else if (!tt_boot_early_keep(b, a))
        tt_boot_net_close(&a->fd);
}

/* This rank cannot accept connections. Its peers can only wait, so every desk reports the reason,
 * as a failed link to this rank itself. */
static void tell_limit(struct tt_boot *b, const struct tutti_error *why)
{
    uint32_t me = b->config.rank;

    for (struct tt_desk *d = b->porter->desks; d; d = d->next) {
        struct visit *v = d->states[me] == NONE ? tt_boot_desk_visit(d, me) : NULL;
        if (!v)
            continue;
        v->link.why = *why;
        tt_boot_desk_fail(d, v);
    }
}

static void serve_gate(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;
    struct tt_arrival come[TT_GATE_TURN];
    struct tutti_error err = {0};
    size_t n = 0;

    if (p->gate.epoll < 0) /* the listener was given up */
        return;
    if (tt_boot_gate_serve(&p->gate, come, &n, &err))
        tell_limit(b, &err);
    for (size_t i = 0; i < n; i++)
        porter_place(b, &come[i]);
    sodium_memzero(come, sizeof come);
}

/* ---- serving ---- */

/* The earliest time at which a dial or the gate needs attention without an event. */
static uint64_t due(const struct tt_boot *b)
{
    const struct tt_porter *p = b->porter;
    uint64_t due_ns = tt_boot_gate_wake(&p->gate), guests_ns = tt_boot_guests_due(b);

    for (const struct tt_desk *d = p->desks; d; d = d->next)
        for (const struct visit *v = d->dials; v; v = v->next) {
            uint64_t wake = tt_boot_dial_wake(&v->dial), limit = tt_boot_desk_limit(v);
            wake = wake < limit ? wake : limit;
            due_ns = wake < due_ns ? wake : due_ns;
        }
    return guests_ns < due_ns ? guests_ns : due_ns;
}

/* Stores events with their visits. They cannot be stale: visits are unwatched before they are
 * freed, under the same lock. */
static void note_events(const struct tt_boot *b)
{
    struct tt_porter *p = b->porter;
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(p->epoll, ev, EVENTS, 0);

    for (int i = 0; i < n; i++)
        if (ev[i].data.ptr == &p->kick)
            tt_boot_eventfd_hush(p->kick);
        else if (ev[i].data.ptr != &p->gate && ev[i].data.ptr != &b->guests)
            ((struct visit *)ev[i].data.ptr)->revents = ev[i].events;
}

void tt_boot_porter_serve(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    struct tt_trust trust = tt_boot_trust(b, TT_CONN_DATA); /* newcomers may be let in meanwhile */
    note_events(b);
    serve_gate(b);
    tt_boot_guests_serve(b, p->epoll);
    for (struct tt_desk *d = p->desks; d; d = d->next)
        tt_boot_desk_dial(d, &trust);
    p->due_ns = due(b);
    pthread_mutex_unlock(&p->lock);
}

int tt_boot_porter_fd(const struct tt_boot *b)
{
    return b->porter ? b->porter->epoll : -1;
}

uint64_t tt_boot_porter_due(struct tt_boot *b)
{
    uint64_t due_ns;

    if (!b->porter)
        return UINT64_MAX;
    pthread_mutex_lock(&b->porter->lock);
    due_ns = b->porter->due_ns;
    pthread_mutex_unlock(&b->porter->lock);
    return due_ns;
}

void tt_boot_porter_welcome(struct tt_boot *b)
{
    struct tt_gate *g = &b->porter->gate;

    pthread_mutex_lock(&b->porter->lock);
    b->welcome = g->trust.welcome = true;
    g->known_be = NULL;
    g->nknown = 0;
    pthread_mutex_unlock(&b->porter->lock);
}

void tt_boot_porter_lock(struct tt_boot *b)
{
    pthread_mutex_lock(&b->porter->lock);
}

void tt_boot_porter_unlock(struct tt_boot *b)
{
    pthread_mutex_unlock(&b->porter->lock);
}

/* ---- opening and closing ---- */

tutti_status tt_boot_porter_open(struct tt_boot *b, struct tutti_error *err)
{
    struct tt_porter *p = tt_zalloc(1, sizeof *p);
    struct tt_trust trust = tt_boot_trust(b, TT_CONN_DATA);
    tutti_status st;

    if (!p)
        return tt_fail_memory(err, "links");
    pthread_mutex_init(&p->lock, NULL);
    b->porter = p;
    p->due_ns = UINT64_MAX;
    p->gate.epoll = -1;
    p->epoll = tt_fd_own(epoll_create1(EPOLL_CLOEXEC));
    p->kick = tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (p->epoll < 0 || p->kick < 0)
        return tt_fail(err, TUTTI_ERR_IO, "descriptors for links: %s", strerror(errno));
    if (!b->known_be) {
        b->known_be = tt_alloc((size_t)b->config.size * (1 + TT_BOOT_SOURCES), sizeof *b->known_be);
        if (!b->known_be)
            return tt_fail_memory(err, "links");
        b->nknown = tt_boot_known_addresses(b->peers, b->config.size, b->known_be);
    }
    st = tt_boot_gate_open(&p->gate, b->listener, &trust, err);
    if (st)
        return st;
    if (!b->welcome) {
        p->gate.nknown = b->nknown;
        p->gate.known_be = b->known_be;
    }
    p->gate.patience_ns = b->config.timeout_ns / 2;
    tt_boot_net_watch(p->epoll, p->gate.epoll, POLLIN, &p->gate);
    tt_boot_net_watch(p->epoll, p->kick, POLLIN, &p->kick);
    return TUTTI_OK;
}

/* A handshake that is under way ends; its dial tries again, and finds the new owner. */
int tt_boot_porter_yield(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;
    int listener = b->listener;

    pthread_mutex_lock(&p->lock);
    assert(listener >= 0);
    tt_boot_net_unwatch(p->epoll, p->gate.epoll);
    tt_boot_net_unwatch(p->gate.epoll, listener);
    tt_boot_gate_close(&p->gate);
    for (size_t i = 0; i < b->early.len; i++)
        tt_boot_early_free(*(struct tt_early **)tt_vec_at(&b->early, i));
    b->early.len = 0;
    b->listener = -1;
    /* Newcomers stay until they are told that they are in (tt_boot_guests_tell). */
    pthread_mutex_unlock(&p->lock);
    return listener;
}

/* All desks must be closed before. */
void tt_boot_porter_close(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;

    if (!p)
        return;
    assert(!p->desks);
    tt_boot_guests_dismiss(b, p->epoll);
    tt_boot_gate_close(&p->gate);
    tt_boot_net_close(&p->epoll);
    tt_boot_net_close(&p->kick);
    pthread_mutex_destroy(&p->lock);
    free(p);
    b->porter = NULL;
}
