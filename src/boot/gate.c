/* gate.c - the listener and the handshakes behind it: strangers come in here, ranks come out.
 *
 * All unproved connections are served together, so that one that says nothing delays nobody; each
 * lives two seconds at most. There are 1024 places. When all are taken and more connections are
 * waiting, the oldest of the address that holds the most places go, but none before it had a
 * twentieth of a second: honest ranks are through the handshake by then, a flood from one address
 * cannot push out those of another, and 20,000 silent connections a second do not close the gate.
 * The rest waits in the kernel's queue. Places are given up too when descriptors run out, by the
 * same rule: the last descriptor serves one connection after the other (accept(2) fails for want of
 * a descriptor also when nobody waits, so the one that has just come in must not go). Once the
 * ranks have met, connections from addresses where no rank lives are closed as soon as they are
 * accepted. */
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
#define FULL_NS  UINT64_C(5000000)   /* look again for a place to free */
#define LIMIT_NS UINT64_C(100000000) /* look again for descriptors */

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

static void gate_drop(struct tt_gate *g, struct tt_shake *s)
{
    tt_boot_net_unwatch(g->epoll, s->fd);
    tt_boot_net_close(&s->fd);
}

/* Removes the pending that were dropped. */
static void compact(struct tt_gate *g)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->n; i++)
        if (g->pending[i]->fd >= 0) {
            g->pending[kept++] = g->pending[i];
        } else {
            sodium_memzero(g->pending[i], sizeof(*g->pending[i]));
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
    qsort(ret_be, n, sizeof(*ret_be), by_number);
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
}

uint64_t tt_boot_gate_wake(const struct tt_gate *g)
{
    uint64_t late = g->n ? g->pending[0]->since_ns + TT_HANDSHAKE_NS : UINT64_MAX;

    return g->full && g->retry_ns < late ? g->retry_ns : late;
}

/* ---- handshakes ---- */

/* One step of one handshake; when it is over, an arrival if somebody is to know. */
static void serve_one(struct tt_gate *g, struct tt_shake *s, struct tt_arrival *ret, size_t *n)
{
    enum tt_shake_end end = tt_boot_shake_step(s, &g->trust);

    if (end == TT_SHAKE_MORE)
        return;
    if (end == TT_SHAKE_DONE || end == TT_SHAKE_KEY) {
        struct tt_arrival *a = &ret[(*n)++];
        *a = (struct tt_arrival){
            .fd = -1, .rank = s->peer.from, .role = s->peer.role, .from_be = s->from_be};
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

    return tt_boot_net_drain(a->fd, a->answer, sizeof(a->answer), &sent) == TT_NET_OK;
}

/* After those that are ready were served, or a proof that came while nobody looked would be
 * lost. */
static void drop_late(struct tt_gate *g)
{
    uint64_t now = tt_now_ns();

    for (size_t i = 0; i < g->n && now >= g->pending[i]->since_ns + TT_HANDSHAKE_NS; i++)
        gate_drop(g, g->pending[i]);
}

/* ---- places ---- */

/* The address with the most pending connections. */
static uint32_t crowd(const struct tt_gate *g)
{
    struct {
        uint32_t addr, n;
    } count[COUNTS] = {{0}};
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

/* Frees some places, those of the oldest of the largest crowd that have had their time; false:
 * none. */
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

/* The listener is not looked at before then. */
static void gate_rest(struct tt_gate *g, uint64_t ns)
{
    g->full = true;
    g->retry_ns = tt_now_ns() + ns;
    tt_boot_net_watch(g->epoll, g->listener, 0, g);
}

static void go_on(struct tt_gate *g)
{
    if (!g->full || tt_now_ns() < g->retry_ns)
        return;
    g->full = false;
    tt_boot_net_watch(g->epoll, g->listener, POLLIN, g);
}

/* ---- accepting ---- */

/* Errors of the connection that was waiting, not of the listener (accept(2)): the next one may be
 * better. */
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

/* Loopback comes from this host only. */
static bool is_known(const struct tt_gate *g, uint32_t from_be)
{
    return !g->known_be || tt_boot_net_loopback(from_be) ||
           bsearch(&from_be, g->known_be, g->nknown, sizeof(from_be), by_number);
}

static void gate_enter(struct tt_gate *g, int fd, uint32_t from_be)
{
    struct tt_shake *s = tt_zalloc(1, sizeof(*s));
    int yes = 1;

    if (!s || !is_known(g, from_be)) {
        free(s);
        tt_fd_close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    tt_boot_shake_accept(s, fd);
    s->from_be = from_be;
    tt_boot_net_watch(g->epoll, fd, POLLIN, s);
    g->pending[g->n++] = s;
}

/* accept(2) failed: goes on, rests or gives up. */
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

static tutti_status accept_new(struct tt_gate *g, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;

    for (int k = 0; k < TT_GATE_TURN && !g->full && st == TUTTI_OK; k++) {
        struct sockaddr_in from = {0};
        socklen_t len = sizeof(from);
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
