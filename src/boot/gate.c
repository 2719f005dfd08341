/* gate.c - the listener and the handshakes behind it: unknown connections come in, proved ranks
 * come out.
 *
 * All unproved connections are served together, so a silent one delays no other; each lives two
 * seconds at most. There are TT_UNPROVED_MAX places. When all are taken and more connections wait,
 * the oldest connections of the address that holds the most places are dropped, but none before it
 * has had TT_HANDSHAKE_FAIR_NS. Honest ranks complete the handshake within that time, a flood from
 * one address cannot push out connections from another, and 20,000 silent connections per second do
 * not close the gate. The rest waits in the kernel's queue.
 *
 * Places are freed by the same rule when descriptors run out, so that the last descriptor serves
 * one connection after the other. (accept(2) fails for lack of a descriptor even if no connection
 * waits, so the one just accepted must not be dropped.) Once the ranks have met, connections from
 * addresses of no rank are closed as soon as they are accepted.
 *
 * `pending` is ordered by age, oldest first: deadlines are checked from its front. */
#include <assert.h>

#include "boot/boot_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64, COUNTS = 2 * TT_UNPROVED_MAX };
#define FULL_NS  UINT64_C(5000000)   /* interval between attempts to free a place */
#define LIMIT_NS UINT64_C(100000000) /* interval between attempts to get a descriptor */

tutti_status tt_boot_gate_open(struct tt_gate *g, int listener, const struct tt_trust *trust,
                               struct tutti_error *err)
{
    *g = (struct tt_gate){
        .listener = listener, .trust = *trust, .epoll = tt_fd_own(epoll_create1(EPOLL_CLOEXEC))};
    if (g->epoll < 0)
        return tt_fail(err, TUTTI_ERR_IO, "descriptors for the handshakes: %s", strerror(errno));
    tt_boot_net_watch(g->epoll, listener, POLLIN, g);
    return TUTTI_OK;
}

/* The entry stays in `pending`, with fd -1, until compact. */
static void gate_drop(struct tt_gate *g, struct tt_shake *s)
{
    tt_boot_net_unwatch(g->epoll, s->fd);
    tt_boot_net_close(&s->fd);
}

/* Removes the dropped entries, keeping the order. Handshakes hold keys, so they are erased. */
static void compact(struct tt_gate *g)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->n; i++)
        if (g->pending[i]->fd >= 0) {
            g->pending[kept++] = g->pending[i];
        } else {
            sodium_memzero(g->pending[i], sizeof *g->pending[i]);
            free(g->pending[i]);
        }
    g->n = kept;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

size_t tt_boot_known_addresses(const struct tt_boot_peer *peers, uint32_t size, uint32_t *ret_be)
{
    size_t n = 0, kept = 0;

    for (uint32_t r = 0; r < size; r++) {
        ret_be[n++] = peers[r].addr_be;
        for (size_t i = 0; i < TT_BOOT_SOURCES; i++)
            ret_be[n++] = peers[r].sources_be[i];
    }
    qsort(ret_be, n, sizeof *ret_be, by_number);
    for (size_t i = 0; i < n; i++)
        if (ret_be[i] && (kept == 0 || ret_be[i] != ret_be[kept - 1]))
            ret_be[kept++] = ret_be[i];
    return kept;
}

void tt_boot_gate_close(struct tt_gate *g)
{
    for (size_t i = 0; i < g->n; i++)
        gate_drop(g, g->pending[i]);
    compact(g);
    tt_boot_net_close(&g->epoll);
    g->full = false;
}

uint64_t tt_boot_gate_wake(const struct tt_gate *g)
{
    uint64_t late = g->n ? g->pending[0]->since_ns + TT_HANDSHAKE_NS : UINT64_MAX;

    return g->full && g->retry_ns < late ? g->retry_ns : late;
}

/* ---- handshakes ---- */

/* Advances one handshake. If it has ended, an arrival is appended when the gate's owner must know:
 * a proved rank, or a rank that used a wrong key. */
static void serve_one(struct tt_gate *g, struct tt_shake *s, struct tt_arrival *ret, size_t *n)
{
    enum tt_shake_end end = tt_boot_shake_step(s, &g->trust);

    if (end == TT_SHAKE_MORE)
        return;
    if (end == TT_SHAKE_DONE || end == TT_SHAKE_KEY) {
        assert(*n < TT_GATE_TURN);
        struct tt_arrival *a = &ret[(*n)++];
        *a = (struct tt_arrival){.fd = -1,
                                 .rank = s->peer.from,
                                 .kind = s->peer.kind,
                                 .role = s->peer.role,
                                 .job = s->peer.job,
                                 .from_be = s->from_be};
        if (end == TT_SHAKE_DONE) {
            tt_boot_shake_answer(s, &g->trust, a->answer);
            a->keys = s->keys;
            tt_boot_net_unwatch(g->epoll, s->fd);
            a->fd = s->fd;
            s->fd = -1;
        }
    }
    gate_drop(g, s);
}

bool tt_boot_arrival_admit(const struct tt_arrival *a)
{
    size_t sent = 0;

    return tt_boot_net_drain(a->fd, a->answer, sizeof a->answer, &sent) == TT_NET_OK;
}

/* Call after the ready connections were served; otherwise a proof that arrived in the meantime
 * would be lost. */
static void drop_late(struct tt_gate *g)
{
    uint64_t now = tt_now_ns();

    for (size_t i = 0; i < g->n && now >= g->pending[i]->since_ns + TT_HANDSHAKE_NS; i++)
        gate_drop(g, g->pending[i]);
}

/* ---- places ---- */

/* The address with the most pending connections. An open-addressing hash table with twice as many
 * slots as there can be connections counts them, so a free slot is always found. */
static uint32_t crowd(const struct tt_gate *g)
{
    struct {
        uint32_t addr, n;
    } count[COUNTS] = {{0}};
    assert(g->n <= TT_UNPROVED_MAX);
    uint32_t most = 0, ret = 0;

    for (size_t i = 0; i < g->n; i++) {
        uint32_t addr = g->pending[i]->from_be, at = (uint32_t)(tt_mix64(addr) % COUNTS);
        while (count[at].n && count[at].addr != addr)
            at = (at + 1) % COUNTS;
        count[at].addr = addr;
        if (++count[at].n > most) {
            most = count[at].n;
            ret = addr;
        }
    }
    return ret;
}

/* Drops up to BATCH of the oldest connections of the most frequent address, if they have had their
 * time. False: none could be dropped. */
static bool make_room(struct tt_gate *g, uint64_t fair_ns)
{
    uint32_t addr = crowd(g), dropped = 0;
    uint64_t now = tt_now_ns();

    for (size_t i = 0; i < g->n && dropped < BATCH && now >= g->pending[i]->since_ns + fair_ns; i++)
        if (g->pending[i]->from_be == addr) {
            gate_drop(g, g->pending[i]);
            dropped++;
        }
    compact(g);
    return dropped > 0;
}

/* Stops polling the listener for that long. */
static void gate_rest(struct tt_gate *g, uint64_t ns)
{
    g->full = true;
    g->retry_ns = tt_now_ns() + ns;
    tt_boot_net_watch(g->epoll, g->listener, 0, g);
}

/* Polls the listener again once the pause is over. */
static void go_on(struct tt_gate *g)
{
    if (!g->full || tt_now_ns() < g->retry_ns)
        return;
    g->full = false;
    tt_boot_net_watch(g->epoll, g->listener, POLLIN, g);
}

/* ---- accepting ---- */

/* Errors of the waiting connection, not of the listener (accept(2)): the next accept may
 * succeed. */
static bool passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN ||
           error == EHOSTUNREACH || error == ENETUNREACH || error == ENOPROTOOPT ||
           error == EHOSTDOWN || error == ENONET || error == EOPNOTSUPP || error == EPERM;
}

tutti_status tt_boot_fail_descriptors(uint32_t rank, struct tutti_error *err)
{
    struct rlimit l = {0};

    getrlimit(RLIMIT_NOFILE, &l);
    return tt_fail(
        err, TUTTI_ERR_LIMIT,
        "rank %u (pid %d) has used up the %llu file descriptors it may have: raise ulimit -n", rank,
        (int)getpid(), (unsigned long long)l.rlim_cur);
}

/* Loopback connections can only come from this host. */
static bool is_known(const struct tt_gate *g, uint32_t from_be)
{
    return !g->known_be || tt_boot_net_loopback(from_be) ||
           bsearch(&from_be, g->known_be, g->nknown, sizeof from_be, by_number);
}

/* A new connection gets a place. The caller has made sure that there is one. */
static void gate_enter(struct tt_gate *g, int fd, uint32_t from_be)
{
    struct tt_shake *s = tt_zalloc(1, sizeof *s);
    int yes = 1;

    if (!s || !is_known(g, from_be)) {
        free(s);
        tt_fd_close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    tt_boot_shake_accept(s, fd);
    s->from_be = from_be;
    tt_boot_net_watch(g->epoll, fd, POLLIN, s);
    assert(g->n < TT_UNPROVED_MAX && (!g->n || g->pending[g->n - 1]->since_ns <= s->since_ns));
    g->pending[g->n++] = s;
}

/* accept(2) failed: continue, pause or give up. A shortage of descriptors is an error only if it
 * lasts longer than patience_ns and no handshake holds any. */
static tutti_status refused(struct tt_gate *g, int error, struct tutti_error *err)
{
    if (passing(error))
        return TUTTI_OK;
    if (error == EMFILE || error == ENFILE) {
        if (make_room(g, TT_HANDSHAKE_FAIR_NS))
            return TUTTI_OK;
        uint64_t now = tt_now_ns();
        gate_rest(g, g->n ? FULL_NS : LIMIT_NS);
        g->short_ns = g->short_ns ? g->short_ns : now;
        return g->n || now - g->short_ns < g->patience_ns
                   ? TUTTI_OK
                   : tt_boot_fail_descriptors(g->trust.rank, err);
    }
    gate_rest(g, LIMIT_NS);
    return tt_fail(err, TUTTI_ERR_IO, "cannot accept connections: %s", strerror(error));
}

/* Accepts until the queue is empty, the turn is over, or there is no place. */
static tutti_status accept_new(struct tt_gate *g, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;

    for (int k = 0; k < TT_GATE_TURN && !g->full && !st; k++) {
        struct sockaddr_in from = {0};
        socklen_t len = sizeof from;
        if (g->n == TT_UNPROVED_MAX && !make_room(g, TT_HANDSHAKE_FAIR_NS)) {
            gate_rest(g, FULL_NS);
            break;
        }
        int fd = tt_fd_own(
            accept4(g->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC));
        int error = fd >= 0 ? 0 : errno;
        if (!error || error == EAGAIN || error == EWOULDBLOCK)
            g->short_ns = 0;
        if (!error)
            gate_enter(g, fd, from.sin_addr.s_addr);
        else if (error == EAGAIN || error == EWOULDBLOCK)
            break;
        else
            st = refused(g, error, err);
    }
    return st;
}

tutti_status tt_boot_gate_serve(struct tt_gate *g, struct tt_arrival ret[TT_GATE_TURN],
                                size_t *ret_n, struct tutti_error *err)
{
    struct epoll_event ev[TT_GATE_TURN];
    int n = epoll_wait(g->epoll, ev, TT_GATE_TURN, 0);
    bool more = false;

    *ret_n = 0;
    for (int i = 0; i < n; i++)
        if (ev[i].data.ptr == g)
            more = true;
        else
            serve_one(g, ev[i].data.ptr, ret, ret_n);
    drop_late(g);
    compact(g);
    go_on(g);
    return more ? accept_new(g, err) : TUTTI_OK;
}
