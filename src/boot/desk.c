/* desk.c - desks: what one communicator wants of the porter, and what it gets (porter.h).
 *
 * A desk knows for each peer the state of the pair (porter.c draws the states), its own dials, and
 * the links and failures that nobody has taken yet. Which of two dials counts is decided here:
 * `admissible` for those that arrive, `finish_dial` for the own ones. Functions of porter.h take
 * the porter's lock themselves, those of desk.h run under it; none waits. */
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "boot/desk.h"

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
    tt_boot_eventfd_ring(d->bell);
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
        tt_boot_eventfd_hush(d->bell);
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

void tt_boot_desk_fail(struct tt_desk *d, struct visit *v)
{
    assert(v->link.why.status);
    tt_boot_dial_abort(&v->dial);
    v->link.fd = -1;
    porter_enqueue(d, v, FAILED);
}

uint64_t tt_boot_desk_limit(const struct visit *v)
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
    else if (tt_now_ns() >= tt_boot_desk_limit(v))
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

void tt_boot_desk_dial(struct tt_desk *d, const struct tt_trust *trust)
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
            tt_boot_desk_fail(d, v);
    }
}

struct visit *tt_boot_desk_visit(const struct tt_desk *d, uint32_t peer)
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
        struct visit *v = tt_boot_desk_visit(d, peer);
        if (v) {
            tt_boot_dial_begin(&v->dial, tt_now_ns());
            v->next = d->dials;
            d->dials = v;
            d->states[peer] = DIALLING;
            /* The serving thread may be asleep until a later time: wake it to start the dial. */
            tt_boot_eventfd_ring(p->kick);
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

void tt_boot_desk_place(struct tt_desk *d, struct tt_arrival *a)
{
    struct visit *v = tt_boot_desk_visit(d, a->rank);

    if (!v || !admissible(d, a->rank) || !tt_boot_arrival_admit(a)) {
        tt_boot_net_close(&a->fd);
        free(v);
        return;
    }
    stand(d, v, a->fd, &a->keys);
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
        struct visit *v = e->role == d->role ? tt_boot_desk_visit(d, e->rank) : NULL;
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
    assert(!tt_boot_desk_find(p, d->role));
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
