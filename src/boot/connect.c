/* connect.c - sockets between pairs of ranks: the higher rank connects, the lower accepts.
 *
 * One loop serves all of a rank's outgoing connections and everything that comes in, so no order of the ranks can lock up. Ranks are not in
 * step: a connection may arrive for a later call (another role, or a peer this call does not want). It is proved at once and kept; per peer
 * and role connections are made in the order of the calls, so first come is first served. The keep is bounded; beyond that new ones wait in
 * the kernel's queue.
 *
 * A listener that refuses us is gone for good (it lives as long as its process), so that is told at once; anything else is tried again
 * until the deadline. */
#include "boot/porter.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "boot/parts.h"

enum { EARLY_PER_RANK = 16, EARLY_MORE = 64, PORTER = 1 };
#define LOOK_NS UINT64_C(5000000) /* another thread may have served the porter, and kept what we wait for */

struct matching {
    struct tt_boot *b;
    uint64_t role;
    uint64_t timeout_ns, deadline_ns;
    struct tt_boot_link *links; /* by rank, fd -1 until it stands */
    bool *awaited;              /* by rank: will connect to us */
    struct tt_dial *dial;       /* ndial of them */
    uint32_t ndial;
    uint32_t left;
    struct pollfd *poll; /* porter, dials; rank 0: control connections of those awaited */
    uint32_t ncontrol;
};

static void matching_free(struct matching *m, bool keep_sockets)
{
    for (uint32_t r = 0; m->links && !keep_sockets && r < m->b->config.size; r++)
        tt_net_close(&m->links[r].fd);
    for (uint32_t k = 0; m->dial && k < m->ndial; k++)
        if (m->dial[k].state != TT_DIAL_DONE)
            tt_dial_abort(&m->dial[k]);
    if (m->links)
        sodium_memzero(m->links, m->b->config.size * sizeof(*m->links));
    free(m->links);
    if (m->dial)
        sodium_memzero(m->dial, m->ndial * sizeof(*m->dial));
    free(m->awaited);
    free(m->dial);
    free(m->poll);
}

static tutti_status matching_open(struct matching *m, const bool *want, struct tutti_error *err)
{
    const struct tt_boot *b = m->b;
    uint32_t size = b->config.size, me = b->config.rank;
    uint64_t now = tt_now_ns();

    m->links = tt_zalloc(size, sizeof(*m->links));
    m->awaited = tt_zalloc(size, sizeof(*m->awaited));
    m->dial = tt_zalloc(me, sizeof(*m->dial));
    m->ncontrol = me == 0 ? size : 0;
    m->poll = tt_alloc(PORTER + (size_t)me + m->ncontrol, sizeof(*m->poll));
    if (!m->links || !m->awaited || !m->dial || !m->poll) {
        free(m->links);
        m->links = NULL;
        return tt_fail_memory(err, "connections");
    }
    for (uint32_t r = 0; r < size; r++) {
        m->links[r].fd = -1;
        m->awaited[r] = want[r] && r > me;
        m->left += want[r];
        if (!want[r] || r >= me)
            continue;
        struct tt_dial *d = &m->dial[m->ndial++];
        *d = (struct tt_dial){
            .rank = r, .role = m->role, .addr_be = b->peers[r].addr_be, .port = b->peers[r].port, .source_be = b->source_be, .epoll = -1};
        tt_dial_begin(d, now);
    }
    return TUTTI_OK;
}

static void stand(struct matching *m, uint32_t rank, int fd, const struct tt_seal_keys *keys)
{
    tt_net_hand_out(fd);
    m->links[rank] = (struct tt_boot_link){.fd = fd, .keys = *keys};
    m->awaited[rank] = false;
    m->left--;
}

/* Takes the first kept connection for each awaited rank. */
static void take_early(struct matching *m)
{
    size_t kept = 0;

    tt_porter_lock(m->b);
    struct tt_early *list = m->b->early.data;
    for (size_t i = 0; i < m->b->early.len; i++)
        if (list[i].role == m->role && m->awaited[list[i].rank])
            stand(m, list[i].rank, list[i].fd, &list[i].keys);
        else
            list[kept++] = list[i];
    m->b->early.len = kept;
    tt_porter_unlock(m->b);
}

/* A link of porter.h that comes again was given up by its maker before; of others the first come are served first. */
static bool outlived(const struct tt_early *e, const struct tt_arrival *a, bool full)
{
    struct pollfd p = {.fd = e->fd, .events = POLLRDHUP};

    return (e->role & TT_ROLE_DESK) && ((e->role == a->role && e->rank == a->rank) || (full && poll(&p, 1, 0) > 0));
}

static bool make_room(struct tt_boot *b, const struct tt_arrival *a)
{
    size_t max = (size_t)b->config.size * EARLY_PER_RANK + EARLY_MORE, kept = 0;
    struct tt_early *list = b->early.data;
    bool full = b->early.len >= max;

    for (size_t i = 0; i < b->early.len; i++)
        if (outlived(&list[i], a, full))
            tt_net_close(&list[i].fd);
        else
            list[kept++] = list[i];
    b->early.len = kept;
    return kept < max;
}

bool tt_early_keep(struct tt_boot *b, const struct tt_arrival *a)
{
    struct tt_early e = {.fd = a->fd, .rank = a->rank, .role = a->role, .keys = a->keys};

    if (!make_room(b, a) || !tt_vec_push(&b->early, &e, 1))
        return false;
    if (tt_arrival_admit(a))
        return true;
    b->early.len--;
    return false;
}

static tutti_status fail_gone(const struct matching *m, uint32_t r, struct tutti_error *err)
{
    const struct tt_boot_peer *p = &m->b->peers[r];
    char at[TT_NET_TEXT];

    return tt_fail(err, TUTTI_ERR_PEER, "rank %u (host %s, pid %u) is gone: nobody listens at %s any more", r, p->host, p->pid,
                   tt_net_text(p->addr_be, p->port, at));
}

static tutti_status serve_dials(struct matching *m, const struct pollfd *fds, struct tutti_error *err)
{
    struct tt_trust trust = tt_boot_trust(m->b, TT_CONN_DATA);

    for (uint32_t k = 0; k < m->ndial; k++) {
        struct tt_dial *d = &m->dial[k];
        if (d->state == TT_DIAL_DONE)
            continue;
        tt_dial_serve(d, &trust, fds[k].revents);
        if (d->error == ECONNREFUSED)
            return fail_gone(m, d->rank, err);
        if (d->error == EMFILE || d->error == ENFILE)
            return tt_fail_descriptors(m->b->config.rank, err);
        if (d->state == TT_DIAL_DONE)
            stand(m, d->rank, d->shake.fd, &d->shake.keys);
    }
    return TUTTI_OK;
}

/* Rank 0 hears at once when a rank that it waits for hangs up. */
static tutti_status check_control(const struct matching *m, const struct pollfd *fds, struct tutti_error *err)
{
    for (uint32_t r = 0; r < m->ncontrol; r++)
        if (fds[r].revents && m->awaited[r])
            return tt_fail(err, TUTTI_ERR_PEER, "rank %u (host %s, pid %u) left before it connected to us", r, m->b->peers[r].host,
                           m->b->peers[r].pid);
    return TUTTI_OK;
}

static tutti_status fail_missing(const struct matching *m, struct tutti_error *err)
{
    char ranks[128], span[32], at[TT_NET_TEXT];
    struct tt_str text = {0};
    bool waiting = false;

    tt_net_span(m->timeout_ns, span, sizeof(span));
    for (uint32_t r = 0; r < m->b->config.size; r++)
        waiting = waiting || m->awaited[r];
    if (waiting)
        tt_str_printf(&text, "%s did not connect to us", tt_ranks_text(m->awaited, m->b->config.size, ranks, sizeof(ranks)));
    for (uint32_t k = 0; k < m->ndial && text.len < 300; k++) {
        const struct tt_dial *d = &m->dial[k];
        if (d->state != TT_DIAL_DONE)
            tt_str_printf(&text, "%srank %u (host %s, %s) cannot be reached: %s", text.len ? "; " : "", d->rank, m->b->peers[d->rank].host,
                          tt_net_text(d->addr_be, d->port, at), tt_dial_why(d));
    }
    tt_fail(err, TUTTI_ERR_TIMEOUT, "within %s, %s", span, text.s ? text.s : "not all ranks were connected");
    tt_str_free(&text);
    return TUTTI_ERR_TIMEOUT;
}

/* Fills the poll array and says when to wake up at the latest. */
static uint64_t prepare(const struct matching *m)
{
    struct pollfd *dials = m->poll + PORTER, *control = dials + m->ndial;
    uint64_t due = tt_porter_due(m->b), wake = tt_now_ns() + LOOK_NS;

    wake = due < wake ? due : wake;
    m->poll[0] = (struct pollfd){.fd = tt_porter_fd(m->b), .events = POLLIN};
    for (uint32_t k = 0; k < m->ndial; k++) {
        uint64_t w = tt_dial_wake(&m->dial[k]);
        dials[k] = tt_dial_fd(&m->dial[k]);
        wake = w < wake ? w : wake;
    }
    for (uint32_t r = 0; r < m->ncontrol; r++)
        control[r] = (struct pollfd){.fd = m->awaited[r] ? m->b->control[r].fd : -1, .events = POLLRDHUP};
    return wake < m->deadline_ns ? wake : m->deadline_ns;
}

static tutti_status match_all(struct matching *m, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;

    take_early(m);
    while (st == TUTTI_OK && m->left > 0) {
        struct pollfd *dials = m->poll + PORTER, *control = dials + m->ndial;
        uint64_t wake = prepare(m);
        if (tt_now_ns() >= m->deadline_ns)
            return fail_missing(m, err);
        if (m->b->stop && m->b->stop(m->b->stop_arg))
            return tt_fail(err, TUTTI_ERR_ABORTED, "the connections are not needed any more");
        tt_net_poll(m->poll, PORTER + (size_t)m->ndial + m->ncontrol, wake);
        tt_porter_serve(m->b);
        take_early(m);
        st = serve_dials(m, dials, err);
        if (st == TUTTI_OK)
            st = check_control(m, control, err);
    }
    return st;
}

tutti_status tt_boot_connect(struct tt_boot *b, const bool *want, uint64_t role, struct tt_boot_link *links, uint64_t timeout_ns,
                             struct tutti_error *err)
{
    struct matching m = {.b = b, .role = role & ~TT_ROLE_DESK, .timeout_ns = timeout_ns ? timeout_ns : b->config.timeout_ns};
    tutti_status st;

    if (want[b->config.rank])
        return tt_fail(err, TUTTI_ERR_ARG, "rank %u wants a connection to itself", b->config.rank);
    if (!b->porter) {
        links[0].fd = -1;
        return TUTTI_OK;
    }
    m.deadline_ns = tt_net_deadline(m.timeout_ns);
    st = matching_open(&m, want, err);
    if (st == TUTTI_OK)
        st = match_all(&m, err);
    if (st == TUTTI_OK)
        memcpy(links, m.links, b->config.size * sizeof(*links));
    matching_free(&m, st == TUTTI_OK);
    return st;
}

int tt_boot_probe(const struct tt_boot *b, uint32_t rank, uint64_t timeout_ns)
{
    const struct tt_boot_peer *p = &b->peers[rank];

    return rank == b->config.rank ? 0 : tt_net_probe(p->addr_be, p->port, b->source_be, timeout_ns);
}

bool tt_boot_link_down(const struct tt_boot *b)
{
    return tt_iface_down(b->peers[b->config.rank].addr_be);
}
