/* gate.c - the listener and the handshakes behind it: strangers come in here, ranks come out.
 *
 * All unproved connections are served together, so that one that says nothing delays nobody; each lives two seconds at most. There are 64
 * places. When all are taken and more are waiting, the oldest goes, but not before it had a tenth of a second: a thousand honest ranks that
 * come at once then pass through without being thrown out, and strangers who fill the places hold up the line for a moment only. Waiting
 * connections stay in the kernel's queue. */
#include "boot/parts.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void tt_gate_open(struct tt_gate *g, int listener, const struct tt_trust *trust)
{
    g->listener = listener;
    g->shut = false;
    g->trust = *trust;
    g->n = 0;
}

void tt_gate_close(struct tt_gate *g)
{
    for (size_t i = 0; i < g->n; i++)
        tt_net_close(&g->pending[i].fd);
    g->n = 0;
}

/* May a new connection come in: is there a place, or one that has been held long enough? */
static bool may_enter(const struct tt_gate *g, uint64_t now)
{
    return !g->shut && (g->n < TT_UNPROVED_MAX || now >= g->pending[0].since_ns + TT_HANDSHAKE_FAIR_NS);
}

void tt_gate_fds(const struct tt_gate *g, struct pollfd fds[TT_GATE_FDS])
{
    fds[0] = (struct pollfd){.fd = may_enter(g, tt_now_ns()) ? g->listener : -1, .events = POLLIN};
    for (size_t i = 0; i < TT_UNPROVED_MAX; i++)
        fds[1 + i] = (struct pollfd){.fd = i < g->n ? g->pending[i].fd : -1, .events = POLLIN};
}

uint64_t tt_gate_wake(const struct tt_gate *g)
{
    if (g->n == 0)
        return UINT64_MAX;
    if (g->n == TT_UNPROVED_MAX && !may_enter(g, tt_now_ns()))
        return g->pending[0].since_ns + TT_HANDSHAKE_FAIR_NS;
    return g->pending[0].since_ns + TT_HANDSHAKE_NS;
}

static uint32_t address_of(int fd)
{
    struct sockaddr_in a = {0};
    socklen_t len = sizeof(a);

    return getpeername(fd, (struct sockaddr *)&a, &len) == 0 ? a.sin_addr.s_addr : 0;
}

/* One step of one handshake; true when it is over, with an arrival if somebody is to know. */
static bool serve_one(struct tt_shake *s, const struct tt_trust *t, struct tt_arrival *ret, size_t *n)
{
    enum tt_shake_end end = tt_shake_step(s, t);

    if (end == TT_SHAKE_MORE)
        return false;
    if (end == TT_SHAKE_DONE || end == TT_SHAKE_KEY) {
        ret[*n] = (struct tt_arrival){.fd = -1, .rank = s->peer.from, .role = s->peer.role, .from_be = address_of(s->fd)};
        if (end == TT_SHAKE_DONE) {
            ret[*n].fd = s->fd;
            s->fd = -1;
        }
        ++*n;
    }
    tt_net_close(&s->fd);
    return true;
}

/* Serves those that are ready, then drops the late: in this order, or a proof that came while nobody looked would be lost. */
static void serve_pending(struct tt_gate *g, const struct pollfd *fds, struct tt_arrival *ret, size_t *n)
{
    uint64_t now = tt_now_ns();
    size_t kept = 0;

    for (size_t i = 0; i < g->n; i++) {
        struct tt_shake *s = &g->pending[i];
        if (fds[i].revents && serve_one(s, &g->trust, ret, n))
            continue;
        if (now >= s->since_ns + TT_HANDSHAKE_NS) {
            tt_net_close(&s->fd);
            continue;
        }
        if (kept != i)
            g->pending[kept] = *s;
        kept++;
    }
    g->n = kept;
}

static void drop_oldest(struct tt_gate *g)
{
    tt_net_close(&g->pending[0].fd);
    g->n--;
    memmove(&g->pending[0], &g->pending[1], g->n * sizeof(g->pending[0]));
}

/* Errors of the connection that was waiting, not of the listener (accept(2)): the next one may be better. */
static bool passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN || error == EHOSTUNREACH ||
           error == ENETUNREACH || error == ENOPROTOOPT || error == EHOSTDOWN || error == ENONET || error == EOPNOTSUPP || error == EPERM;
}

static tutti_status accept_new(struct tt_gate *g, struct tutti_error *err)
{
    int yes = 1;

    while (may_enter(g, tt_now_ns())) {
        int fd = accept4(g->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TUTTI_OK;
        if (fd < 0 && passing(errno))
            continue;
        if (fd < 0)
            return tt_fail(err, TUTTI_ERR_IO, "cannot accept connections: %s%s", strerror(errno),
                           errno == EMFILE || errno == ENFILE ? " (raise ulimit -n: a rank needs some for each peer)" : "");
        if (g->n == TT_UNPROVED_MAX)
            drop_oldest(g);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        tt_shake_accept(&g->pending[g->n++], fd);
    }
    return TUTTI_OK;
}

tutti_status tt_gate_serve(struct tt_gate *g, const struct pollfd fds[TT_GATE_FDS], struct tt_arrival ret[TT_UNPROVED_MAX], size_t *ret_n,
                           struct tutti_error *err)
{
    *ret_n = 0;
    serve_pending(g, fds + 1, ret, ret_n);
    return fds[0].revents ? accept_new(g, err) : TUTTI_OK;
}
