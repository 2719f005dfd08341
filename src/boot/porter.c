/* porter.c - the owner of the listener and of all dialling after the meeting (see porter.h).
 *
 * A pair of ranks is in one of these states, as seen from one of them:
 *
 *     NONE --want--> DIALLING --done, or admitted--> READY --take--> TAKEN
 *      |                 '-------refused, late-----> FAILED --take--> NONE
 *      '---------------admitted--------------------> READY
 *
 * Two dials at once: the higher rank's counts from the moment its greeting is sent. Until then it may
 * still admit the lower rank's dial and drop its own, since nobody can have accepted that; from then
 * on it turns the lower rank's dial away. The lower rank always admits, and drops its own dial: the
 * higher rank cannot have admitted that one, because it was dialling itself. So at most one of the two
 * is admitted. A dial that is turned away tries again, and finds the state READY or its peer's dial.
 *
 * Everything is under one lock; nothing that is done under it waits. */
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

#include "boot/parts.h"

enum { EVENTS = 64 };
enum pair_state { NONE, DIALLING, READY, FAILED, TAKEN };

/* One attempt, or what came of it. In exactly one of the lists `dials` and `ready`. */
struct visit {
    struct visit *next;
    struct tt_porter_link link;
    struct tt_dial dial;
    uint64_t deadline_ns;
    uint32_t revents;
};

struct tt_porter {
    pthread_mutex_t lock; /* everything below but the descriptors' numbers */
    int epoll;            /* the gate's, kick, sockets of the dials */
    int kick, bell;       /* eventfds */
    struct tt_gate gate;
    uint8_t *states;    /* enum pair_state by rank */
    uint32_t *known_be; /* the gate's */
    struct visit *dials, *ready, **ready_end;
    uint64_t due_ns;
};

static void ring(int eventfd)
{
    uint64_t one = 1;
    ssize_t n = write(eventfd, &one, sizeof one);
    (void)n; /* full means that it is readable */
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
        sodium_memzero(v, sizeof(*v)); /* keys */
    free(v);
}

/* ---- the queue ---- */

static void enqueue(struct tt_porter *p, struct visit *v, enum pair_state state)
{
    v->next = NULL;
    *p->ready_end = v;
    p->ready_end = &v->next;
    p->states[v->link.peer] = (uint8_t)state;
    ring(p->bell);
}

static struct visit *unlink_ready(struct tt_porter *p, uint32_t peer)
{
    struct visit **at = &p->ready;

    while (*at && (*at)->link.peer != peer)
        at = &(*at)->next;
    struct visit *v = *at;
    assert(v);
    *at = v->next;
    if (!*at)
        p->ready_end = at;
    return v;
}

static struct visit *unlink_dial(struct tt_porter *p, uint32_t peer)
{
    struct visit **at = &p->dials;

    while (*at && (*at)->link.peer != peer)
        at = &(*at)->next;
    struct visit *v = *at;
    assert(v);
    *at = v->next;
    return v;
}

bool tt_porter_take(struct tt_boot *b, struct tt_porter_link *ret)
{
    struct tt_porter *p = b->porter;
    struct visit *v;

    if (!p)
        return false;
    pthread_mutex_lock(&p->lock);
    v = p->ready;
    if (v) {
        unlink_ready(p, v->link.peer);
        p->states[v->link.peer] = v->link.fd >= 0 ? TAKEN : NONE;
        *ret = v->link;
    }
    if (!p->ready)
        hush(p->bell);
    pthread_mutex_unlock(&p->lock);
    visit_free(v);
    return v != NULL;
}

/* ---- dials ---- */

static void fail_visit(struct tt_porter *p, struct visit *v)
{
    assert(v->link.why.status != TUTTI_OK);
    tt_dial_abort(&v->dial);
    v->link.fd = -1;
    enqueue(p, v, FAILED);
}

/* True, with the reason, when the dial will not get better. */
static bool hopeless(const struct tt_boot *b, const struct visit *v, struct tutti_error *why)
{
    const struct tt_dial *d = &v->dial;
    const struct tt_boot_peer *peer = &b->peers[d->rank];
    char at[TT_NET_TEXT], span[32];

    tt_net_text(d->addr_be, d->port, at);
    if (d->error == EMFILE || d->error == ENFILE)
        tt_fail_descriptors(b->config.rank, why);
    else if (d->error == ECONNREFUSED)
        tt_fail(why, TUTTI_ERR_PEER, "rank %u (host %s, pid %u) is gone: nobody listens at %s any more",
                d->rank, peer->host, peer->pid, at);
    else if (tt_now_ns() >= v->deadline_ns)
        tt_fail(why, TUTTI_ERR_TIMEOUT, "rank %u (host %s, %s) cannot be reached within %s: %s", d->rank,
                peer->host, at, tt_net_span(b->config.timeout_ns, span, sizeof(span)), tt_dial_why(d));
    else
        return false;
    return true;
}

static void finish_dial(struct tt_boot *b, struct visit *v)
{
    v->link.keys = v->dial.shake.keys;
    v->link.fd = v->dial.shake.fd;
    v->dial.shake.fd = -1;
    tt_net_hand_out(v->link.fd);
    enqueue(b->porter, v, READY);
}

static void serve_dials(struct tt_boot *b)
{
    struct tt_trust trust = tt_boot_trust(b, TT_CONN_DATA);
    struct visit **at = &b->porter->dials;

    while (*at) {
        struct visit *v = *at;
        tt_dial_serve(&v->dial, &trust, (short)(v->revents != 0));
        v->revents = 0;
        bool done = v->dial.state == TT_DIAL_DONE, lost = !done && hopeless(b, v, &v->link.why);
        if (!done && !lost) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        if (done)
            finish_dial(b, v);
        else
            fail_visit(b->porter, v);
    }
}

static struct visit *visit_make(const struct tt_boot *b, uint32_t peer)
{
    struct visit *v = tt_zalloc(1, sizeof(*v));

    if (!v)
        return NULL;
    v->link = (struct tt_porter_link){.peer = peer, .fd = -1};
    v->deadline_ns = tt_net_deadline(b->config.timeout_ns);
    v->dial = (struct tt_dial){.rank = peer,
                               .role = TT_ROLE_LINK,
                               .addr_be = b->peers[peer].addr_be,
                               .port = b->peers[peer].port,
                               .source_be = b->source_be,
                               .shake = {.fd = -1},
                               .epoll = b->porter->epoll,
                               .watcher = v};
    return v;
}

tutti_status tt_porter_want(struct tt_boot *b, uint32_t peer, struct tutti_error *err)
{
    struct tt_porter *p = b->porter;
    tutti_status st = TUTTI_OK;

    if (!p || peer >= b->config.size || peer == b->config.rank)
        return tt_fail(err, TUTTI_ERR_ARG, "rank %u of %u cannot have a link to rank %u", b->config.rank,
                       b->config.size, peer);
    pthread_mutex_lock(&p->lock);
    if (p->states[peer] == NONE) {
        struct visit *v = visit_make(b, peer);
        if (v) {
            tt_dial_begin(&v->dial, tt_now_ns());
            v->next = p->dials;
            p->dials = v;
            p->states[peer] = DIALLING;
            ring(p->kick);
        } else {
            st = tt_fail_memory(err, "link");
        }
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- arrivals ---- */

/* May this dial of the peer become the link? Our own attempt goes if it does. */
static bool admissible(struct tt_boot *b, uint32_t peer)
{
    struct tt_porter *p = b->porter;
    struct visit *v = NULL;

    if (p->states[peer] == TAKEN)
        return false;
    if (p->states[peer] == NONE)
        return true;
    if (p->states[peer] == DIALLING) {
        for (v = p->dials; v->link.peer != peer;)
            v = v->next;
        if (peer < b->config.rank && v->dial.state == TT_DIAL_SHAKING)
            return false;
        unlink_dial(p, peer);
    } else {
        v = unlink_ready(p, peer); /* a failure, or a link that its maker has given up */
    }
    tt_dial_abort(&v->dial);
    tt_net_close(&v->link.fd);
    visit_free(v);
    p->states[peer] = NONE;
    return true;
}

static void place_link(struct tt_boot *b, struct tt_arrival *a)
{
    struct visit *v = visit_make(b, a->rank);

    if (!v || !admissible(b, a->rank) || !tt_arrival_admit(a)) {
        tt_net_close(&a->fd);
        free(v);
        return;
    }
    v->link.fd = a->fd;
    v->link.keys = a->keys;
    tt_net_hand_out(a->fd);
    enqueue(b->porter, v, READY);
}

static void place(struct tt_boot *b, struct tt_arrival *a)
{
    if (a->fd < 0)
        return;
    if (a->rank >= b->config.size || a->rank == b->config.rank)
        tt_net_close(&a->fd);
    else if (a->role == TT_ROLE_LINK)
        place_link(b, a);
    else if (a->rank < b->config.rank || !tt_arrival_admit(a) || !tt_early_keep(b, a))
        tt_net_close(&a->fd);
}

/* This rank cannot accept: its peers can only wait, so it has to say so itself. */
static void tell_limit(struct tt_boot *b, const struct tutti_error *why)
{
    uint32_t me = b->config.rank;
    struct visit *v = b->porter->states[me] == NONE ? visit_make(b, me) : NULL;

    if (!v)
        return;
    v->link.why = *why;
    fail_visit(b->porter, v);
}

static void serve_gate(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;
    struct tt_arrival come[TT_GATE_TURN];
    struct tutti_error err = {0};
    size_t n = 0;

    if (tt_gate_serve(&p->gate, come, &n, &err) != TUTTI_OK)
        tell_limit(b, &err);
    for (size_t i = 0; i < n; i++)
        place(b, &come[i]);
    sodium_memzero(come, sizeof(come));
}

/* ---- serving ---- */

static uint64_t due(const struct tt_porter *p)
{
    uint64_t due_ns = tt_gate_wake(&p->gate);

    for (const struct visit *v = p->dials; v; v = v->next) {
        uint64_t wake = tt_dial_wake(&v->dial);
        wake = wake < v->deadline_ns ? wake : v->deadline_ns;
        due_ns = wake < due_ns ? wake : due_ns;
    }
    return due_ns;
}

static void note_events(struct tt_porter *p)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(p->epoll, ev, EVENTS, 0);

    for (int i = 0; i < n; i++)
        if (ev[i].data.ptr == &p->kick)
            hush(p->kick);
        else if (ev[i].data.ptr != &p->gate)
            ((struct visit *)ev[i].data.ptr)->revents = ev[i].events;
}

void tt_porter_serve(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    note_events(p);
    serve_gate(b);
    serve_dials(b);
    p->due_ns = due(p);
    pthread_mutex_unlock(&p->lock);
}

int tt_porter_bell(const struct tt_boot *b)
{
    return b->porter ? b->porter->bell : -1;
}

int tt_porter_fd(const struct tt_boot *b)
{
    return b->porter ? b->porter->epoll : -1;
}

uint64_t tt_porter_due(struct tt_boot *b)
{
    uint64_t due_ns;

    if (!b->porter)
        return UINT64_MAX;
    pthread_mutex_lock(&b->porter->lock);
    due_ns = b->porter->due_ns;
    pthread_mutex_unlock(&b->porter->lock);
    return due_ns;
}

void tt_porter_lock(struct tt_boot *b)
{
    pthread_mutex_lock(&b->porter->lock);
}

void tt_porter_unlock(struct tt_boot *b)
{
    pthread_mutex_unlock(&b->porter->lock);
}

/* ---- opening and closing ---- */

tutti_status tt_porter_open(struct tt_boot *b, struct tutti_error *err)
{
    struct tt_porter *p = tt_zalloc(1, sizeof(*p));
    struct tt_trust trust = tt_boot_trust(b, TT_CONN_DATA);
    tutti_status st;

    if (!p)
        return tt_fail_memory(err, "links");
    pthread_mutex_init(&p->lock, NULL);
    b->porter = p;
    p->due_ns = UINT64_MAX;
    p->ready_end = &p->ready;
    p->gate.epoll = -1;
    p->epoll = tt_fd_own(epoll_create1(EPOLL_CLOEXEC));
    p->kick = tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    p->bell = tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    p->states = tt_zalloc(b->config.size, 1);
    if (p->epoll < 0 || p->kick < 0 || p->bell < 0)
        return tt_fail(err, TUTTI_ERR_IO, "descriptors for links: %s", strerror(errno));
    p->known_be = tt_alloc((size_t)b->config.size * (1 + TT_BOOT_SOURCES), sizeof(*p->known_be));
    if (!p->states || !p->known_be)
        return tt_fail_memory(err, "links");
    st = tt_gate_open(&p->gate, b->listener, &trust, err);
    if (st != TUTTI_OK)
        return st;
    p->gate.nknown = tt_known_addresses(b->peers, b->config.size, p->known_be);
    p->gate.known_be = p->known_be;
    tt_net_watch(p->epoll, p->gate.epoll, POLLIN, &p->gate);
    tt_net_watch(p->epoll, p->kick, POLLIN, &p->kick);
    return TUTTI_OK;
}

static void visits_free(struct visit *v)
{
    while (v) {
        struct visit *next = v->next;
        tt_dial_abort(&v->dial);
        tt_net_close(&v->link.fd);
        visit_free(v);
        v = next;
    }
}

void tt_porter_close(struct tt_boot *b)
{
    struct tt_porter *p = b->porter;

    if (!p)
        return;
    visits_free(p->dials);
    visits_free(p->ready);
    tt_gate_close(&p->gate);
    tt_net_close(&p->epoll);
    tt_net_close(&p->kick);
    tt_net_close(&p->bell);
    pthread_mutex_destroy(&p->lock);
    free(p->states);
    free(p->known_be);
    free(p);
    b->porter = NULL;
}
