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
#include "boot/porter.h"

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
enum pair_state { NONE, DIALLING, READY, FAILED, TAKEN };

/* One attempt to make a link, or its result. It is in exactly one of its desk's lists: dials or
 * ready. */
struct visit {
    struct visit *next;
    struct tt_porter_link link;
    struct tt_dial dial;
    uint64_t deadline_ns, early_ns; /* see limit_of */
    uint32_t revents;
};

struct tt_desk {
    struct tt_desk *next;
    struct tt_boot *boot;
    uint64_t role, timeout_ns;
    int bell;        /* eventfd, readable while `ready` is not empty */
    uint8_t *states; /* enum pair_state by rank */
    struct visit *dials, *ready, **ready_end;
};

struct tt_porter {
    /* guards everything below except the descriptors' numbers, and all desks */
    pthread_mutex_t lock;
    int epoll; /* polls the gate's epoll, kick, and the sockets of the dials */
    int kick;  /* eventfd: wakes the serving thread when a dial was added */
    struct tt_gate gate;
    struct tt_desk *desks;
    uint64_t due_ns; /* when to serve at the latest */
};

static void ring(int eventfd)
{
    uint64_t one = 1;
    ssize_t n = write(eventfd, &one, sizeof one);
    (void)n; /* a full counter is readable, which is all that is needed */
}

static void hush(int eventfd)
{
    uint64_t count;
    ssize_t n = read(eventfd, &count, sizeof count);
    (void)n;
}

static void visit_free(struct visit *v)
{
    if (v)
        sodium_memzero(v, sizeof *v); /* it holds keys */
    free(v);
}

/* ---- the queue ---- */

/* Appends a link or a failure, and wakes the taker. */
static void porter_enqueue(struct tt_desk *d, struct visit *v, enum pair_state state)
{
    assert(!*d->ready_end && v->link.peer < d->boot->config.size);
    assert((state == READY) == (v->link.fd >= 0));
    v->next = NULL;
    *d->ready_end = v;
    d->ready_end = &v->next;
    d->states[v->link.peer] = (uint8_t)state;
    ring(d->bell);
}

static const struct visit *find_ready(const struct tt_desk *d, uint32_t peer)
{
    const struct visit *v = d->ready;

    while (v && v->link.peer != peer)
        v = v->next;
    return v;
}

/* Removes the entry of a peer that is known to be in the list. */
static struct visit *unlink_ready(struct tt_desk *d, uint32_t peer)
{
    struct visit **at = &d->ready;

    while (*at && (*at)->link.peer != peer)
        at = &(*at)->next;
    struct visit *v = *at;
    assert(v);
    *at = v->next;
    if (!*at)
        d->ready_end = at;
    return v;
}

static struct visit *unlink_dial(struct tt_desk *d, uint32_t peer)
{
    struct visit **at = &d->dials;

    while (*at && (*at)->link.peer != peer)
        at = &(*at)->next;
    struct visit *v = *at;
    assert(v);
    *at = v->next;
    return v;
}

/* The state is NONE after a failure, so that the link can be wanted again. */
bool tt_boot_desk_take(struct tt_desk *d, struct tt_porter_link *ret)
{
    struct tt_porter *p = d->boot->porter;
    struct visit *v;

    pthread_mutex_lock(&p->lock);
    v = d->ready;
    if (v) {
        unlink_ready(d, v->link.peer);
        d->states[v->link.peer] = v->link.fd >= 0 ? TAKEN : NONE;
        *ret = v->link;
    }
    /* Under the lock, so that the bell cannot be rung in between and lost. */
    if (!d->ready)
        hush(d->bell);
    pthread_mutex_unlock(&p->lock);
    visit_free(v);
    return v != NULL;
}

void tt_boot_desk_forget(struct tt_desk *d, uint32_t peer)
{
    struct tt_porter *p = d->boot->porter;

    pthread_mutex_lock(&p->lock);
    assert(peer < d->boot->config.size);
    if (d->states[peer] == TAKEN)
        d->states[peer] = NONE;
    pthread_mutex_unlock(&p->lock);
}

/* ---- dials ---- */

static void fail_visit(struct tt_desk *d, struct visit *v)
{
    assert(v->link.why.status);
    tt_boot_dial_abort(&v->dial);
    v->link.fd = -1;
    porter_enqueue(d, v, FAILED);
}

/* When to give up. A host that has accepted may be slow to answer; one that has not accepted by
 * early_ns is taken as unreachable. */
static uint64_t limit_of(const struct visit *v)
{
    return v->dial.state == TT_DIAL_SHAKING ? v->deadline_ns : v->early_ns;
}

/* True, with the reason, if trying again is useless. */
static bool porter_hopeless(const struct tt_desk *desk, const struct visit *v,
                            struct tutti_error *why)
{
    const struct tt_boot *b = desk->boot;
    const struct tt_dial *d = &v->dial;
    const struct tt_boot_peer *peer = &b->peers[d->rank];
    char at[TT_NET_TEXT], span[32];

    tt_boot_net_text(d->addr_be, d->port, at);
    if (d->error == EMFILE || d->error == ENFILE)
        tt_boot_fail_descriptors(b->config.rank, why);
    else if (d->error == ECONNREFUSED)
        tt_fail(why, TUTTI_ERR_PEER,
                "rank %u (host %s, pid %u) is gone: nobody listens at %s any more", d->rank,
                peer->host, peer->pid, at);
    else if (tt_now_ns() >= limit_of(v))
        tt_fail(why, TUTTI_ERR_TIMEOUT, "rank %u (host %s, %s) cannot be reached within %s: %s",
                d->rank, peer->host, at, tt_boot_net_span(desk->timeout_ns, span, sizeof span),
                tt_boot_dial_why(d));
    else
        return false;
    return true;
}

static void finish_dial(struct tt_desk *d, struct visit *v)
{
    assert(v->dial.state == TT_DIAL_DONE && v->dial.shake.fd >= 0);
    v->link.keys = v->dial.shake.keys;
    v->link.fd = v->dial.shake.fd;
    v->dial.shake.fd = -1;
    tt_boot_net_hand_out(v->link.fd);
    porter_enqueue(d, v, READY);
}

/* Advances every dial of a desk; those that are done or hopeless move to the ready list. */
static void serve_dials(struct tt_desk *d, const struct tt_trust *trust)
{
    struct visit **at = &d->dials;

    while (*at) {
        struct visit *v = *at;
        tt_boot_dial_serve(&v->dial, trust, (short)(v->revents != 0));
        v->revents = 0;
        bool done = v->dial.state == TT_DIAL_DONE;
        bool lost = !done && porter_hopeless(d, v, &v->link.why);
        if (!done && !lost) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        if (done)
            finish_dial(d, v);
        else
            fail_visit(d, v);
    }
}

/* A visit with its dial filled in, but not begun. NULL: no memory. */
static struct visit *visit_make(const struct tt_desk *d, uint32_t peer)
{
    const struct tt_boot *b = d->boot;
    assert(peer < b->config.size);
    struct visit *v = tt_zalloc(1, sizeof *v);

    if (!v)
        return NULL;
    v->link = (struct tt_porter_link){.peer = peer, .fd = -1};
    v->deadline_ns = tt_boot_net_deadline(d->timeout_ns);
    v->early_ns = tt_boot_net_deadline(d->timeout_ns - d->timeout_ns / 8);
    v->dial = (struct tt_dial){.rank = peer,
                               .role = d->role,
                               .addr_be = b->peers[peer].addr_be,
                               .port = b->peers[peer].port,
                               .source_be = b->source_be,
                               .shake = {.fd = -1},
                               .epoll = b->porter->epoll,
                               .watcher = v};
    return v;
}

tutti_status tt_boot_desk_want(struct tt_desk *d, uint32_t peer, struct tutti_error *err)
{
    const struct tt_boot_config *c = &d->boot->config;
    struct tt_porter *p = d->boot->porter;
    tutti_status st = TUTTI_OK;

    if (peer >= c->size || peer == c->rank)
        return tt_fail(err, TUTTI_ERR_ARG, "rank %u of %u cannot have a link to rank %u", c->rank,
                       c->size, peer);
    pthread_mutex_lock(&p->lock);
    if (d->states[peer] == NONE) {
        struct visit *v = visit_make(d, peer);
        if (v) {
            tt_boot_dial_begin(&v->dial, tt_now_ns());
            v->next = d->dials;
            d->dials = v;
            d->states[peer] = DIALLING;
            /* The serving thread may be asleep until a later time: wake it to start the dial. */
            ring(p->kick);
        } else {
            st = tt_fail_memory(err, "link");
        }
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- arrivals ---- */

/* May this dial of the peer become the link? If so, our own attempt is given up (see the head of
 * the file). */
static bool admissible(struct tt_desk *d, uint32_t peer)
{
    struct visit *v = NULL;

    if (d->states[peer] == TAKEN)
        return false;
    if (d->states[peer] == NONE)
        return true;
    if (d->states[peer] == DIALLING) {
        for (v = d->dials; v->link.peer != peer;)
            v = v->next;
        if (peer < d->boot->config.rank && v->dial.state == TT_DIAL_SHAKING)
            return false;
        unlink_dial(d, peer);
    } else {
        if (find_ready(d, peer)->dial.state == TT_DIAL_DONE)
            return false;
        v = unlink_ready(d, peer); /* a failure, or a link that its maker has given up */
    }
    tt_boot_dial_abort(&v->dial);
    tt_boot_net_close(&v->link.fd);
    visit_free(v);
    d->states[peer] = NONE;
    return true;
}

/* The connection becomes the link of its pair. */
static void stand(struct tt_desk *d, struct visit *v, int fd, const struct tt_seal_keys *keys)
{
    assert(fd >= 0 && v->dial.state != TT_DIAL_DONE);
    v->link.fd = fd;
    v->link.keys = *keys;
    tt_boot_net_hand_out(fd);
    porter_enqueue(d, v, READY);
}

/* An arrival for an open desk; closed if it is not admitted. */
static void place_link(struct tt_desk *d, struct tt_arrival *a)
{
    struct visit *v = visit_make(d, a->rank);

    if (!v || !admissible(d, a->rank) || !tt_boot_arrival_admit(a)) {
        tt_boot_net_close(&a->fd);
        free(v);
        return;
    }
    stand(d, v, a->fd, &a->keys);
}

static struct tt_desk *desk_of(const struct tt_porter *p, uint64_t role)
{
    struct tt_desk *d = p->desks;

    while (d && d->role != role)
        d = d->next;
    return d;
}

/* A wrong key (fd -1) needs no action here. */
static void porter_place(struct tt_boot *b, struct tt_arrival *a)
{
    struct tt_desk *d = desk_of(b->porter, a->role);

    if (a->fd < 0)
        return;
    if (a->kind == TT_CONN_JOIN)
        tt_boot_guest_seat(b, a, b->porter->epoll);
    else if (a->job != b->job)
        tt_boot_past_tell(b, a);
    else if (a->rank >= b->config.size || a->rank == b->config.rank)
        tt_boot_net_close(&a->fd);
    else if (d)
        place_link(d, a);
    else if (!tt_boot_early_keep(b, a))
        tt_boot_net_close(&a->fd);
}

/* This rank cannot accept connections. Its peers can only wait, so every desk reports the reason,
 * as a failed link to this rank itself. */
static void tell_limit(struct tt_boot *b, const struct tutti_error *why)
{
    uint32_t me = b->config.rank;

    for (struct tt_desk *d = b->porter->desks; d; d = d->next) {
        struct visit *v = d->states[me] == NONE ? visit_make(d, me) : NULL;
        if (!v)
            continue;
        v->link.why = *why;
        fail_visit(d, v);
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

/* ---- desks ---- */

/* Takes over the links that arrived before the desk was opened. One for which there is no memory
 * stays there. */
static void seat_early(struct tt_desk *d)
{
    struct tt_vec *early = &d->boot->early;
    struct tt_early **list = early->data;
    size_t kept = 0;

    for (size_t i = 0; i < early->len; i++) {
        struct tt_early *e = list[i];
        struct visit *v = e->role == d->role ? visit_make(d, e->rank) : NULL;
        if (!v) {
            list[kept++] = e;
            continue;
        }
        stand(d, v, e->fd, &e->keys);
        e->fd = -1;
        tt_boot_early_free(e);
    }
    early->len = kept;
}

tutti_status tt_boot_desk_open(struct tt_boot *b, uint64_t role, uint64_t timeout_ns,
                               struct tt_desk **ret, struct tutti_error *err)
{
    struct tt_porter *p = b->porter;
    struct tt_desk *d = tt_zalloc(1, sizeof *d);
    uint8_t *states = tt_zalloc(b->config.size, 1);
    int bell = tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

    if (!d || !states || bell < 0) {
        tutti_status st =
            bell < 0 ? tt_boot_fail_descriptors(b->config.rank, err) : tt_fail_memory(err, "links");
        tt_boot_net_close(&bell);
        free(d);
        free(states);
        return st;
    }
    /* The role is unique among open desks: it selects the desk of an arrival. */
    *d = (struct tt_desk){
        .boot = b, .role = role, .timeout_ns = timeout_ns, .bell = bell, .states = states};
    d->ready_end = &d->ready;
    pthread_mutex_lock(&p->lock);
    assert(!desk_of(p, d->role));
    d->next = p->desks;
    p->desks = d;
    seat_early(d);
    pthread_mutex_unlock(&p->lock);
    *ret = d;
    return TUTTI_OK;
}

/* Aborts dials and closes links that were not taken. */
static void visits_free(struct visit *v)
{
    while (v) {
        struct visit *next = v->next;
        tt_boot_dial_abort(&v->dial);
        tt_boot_net_close(&v->link.fd);
        visit_free(v);
        v = next;
    }
}

void tt_boot_desk_close(struct tt_desk *d)
{
    if (!d)
        return;
    struct tt_porter *p = d->boot->porter;
    struct tt_desk **at = &p->desks;

    pthread_mutex_lock(&p->lock);
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    visits_free(d->dials);
    visits_free(d->ready);
    pthread_mutex_unlock(&p->lock);
    tt_boot_net_close(&d->bell);
    free(d->states);
    free(d);
}

int tt_boot_desk_bell(const struct tt_desk *d)
{
    return d->bell;
}

/* ---- serving ---- */

/* The earliest time at which a dial or the gate needs attention without an event. */
static uint64_t due(const struct tt_boot *b)
{
    const struct tt_porter *p = b->porter;
    uint64_t due_ns = tt_boot_gate_wake(&p->gate), guests_ns = tt_boot_guests_due(b);

    for (const struct tt_desk *d = p->desks; d; d = d->next)
        for (const struct visit *v = d->dials; v; v = v->next) {
            uint64_t wake = tt_boot_dial_wake(&v->dial), limit = limit_of(v);
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
            hush(p->kick);
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
        serve_dials(d, &trust);
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
