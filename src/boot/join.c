/* join.c - every rank except 0 at the rendezvous.
 *
 *     reach --> open_listener --> join_say --> take_table
 *
 * The rank connects to rank 0 (repeatedly until the deadline, because ranks start in any order),
 * proves itself, opens its own listener, sends who it is, and waits for the table or for the reason
 * why there is none. The listener is opened after the connection, because a port chosen by the
 * kernel could otherwise be the very port that rank 0 is about to bind. The wait for the answer
 * ends a little after the deadline: rank 0 knows our deadline and uses that moment to tell who is
 * missing. */
#include "boot/boot_int.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { REJECTIONS = 3 }; /* one or two may come from an overloaded gate */
/* How long to probe rank 0's host for an error message. */
#define PROBE_NS UINT64_C(150000000)

/* A process that enters a job that runs has no rank yet: it is the only one of its object. */
static bool enters(const struct tt_boot *b)
{
    return b->config.size == 1;
}

/* Whom it talks to, for messages. */
static const char *root(const struct tt_boot *b)
{
    return enters(b) ? "the member" : "rank 0";
}

/* Errors that trying again cannot cure; TUTTI_OK: go on. */
static tutti_status join_hopeless(const struct tt_boot *b, const struct tt_dial *d,
                                  struct tutti_error *err)
{
    const char *at = b->config.rendezvous, *hint = "";

    if (d->last == TT_SHAKE_VERSION)
        return tt_fail(err, TUTTI_ERR_DIFFERS,
                       "%s (%s) speaks version %u of the protocol, we speak %d: install the "
                       "same tutti everywhere",
                       root(b), at, d->shake.peer.version, TT_BOOT_PROTOCOL);
    if (d->last == TT_SHAKE_KEY)
        return tt_fail(err, TUTTI_ERR_AUTH, "%s (%s) proved itself with another key", root(b), at);
    if (enters(b) && d->error == ECONNREFUSED)
        return tt_fail(err, TUTTI_ERR_PEER, "nobody listens at %s: the member has ended", at);
    if (d->rejections < REJECTIONS)
        return TUTTI_OK;
    if (d->shake.peer.keyed && !b->config.has_key)
        hint =
            b->config.insecure
                ? ": it has a key and we have none, set TUTTI_KEY_FILE in place of TUTTI_INSECURE"
                : ": it has a key and we have none, set TUTTI_KEY_FILE";
    else if (!d->shake.peer.keyed && b->config.has_key)
        hint = ": we have one and it has none, set TUTTI_KEY_FILE there";
    return tt_fail(err, TUTTI_ERR_AUTH, "%s (%s) did not accept our key%s", root(b), at, hint);
}

/* The load of this host is mentioned only if rank 0 never answered: it cannot explain a
 * rejection. */
static tutti_status fail_unreached(const struct tt_boot *b, const struct tt_place *at,
                                   const struct tt_dial *d, struct tutti_error *err)
{
    bool answered = d->last == TT_SHAKE_KEY || d->last == TT_SHAKE_REJECTED ||
                    d->last == TT_SHAKE_VERSION || d->last == TT_SHAKE_STRANGER;
    char span[32], where[TT_NET_TEXT], busy[TT_BUSY_TEXT];

    tt_boot_net_span(b->config.timeout_ns, span, sizeof span);
    if (tt_boot_link_down(b))
        return tt_boot_fail_own_link(b, span, err);
    return tt_fail(err, TUTTI_ERR_TIMEOUT, "%s could not be reached at %s (%s) within %s: %s%s",
                   root(b), b->config.rendezvous, tt_boot_net_text(at->addr_be, at->port, where),
                   span, tt_boot_dial_why(d), answered ? "" : tt_boot_busy_text(busy));
}

/* Connects to rank 0 and makes the control line. On success the line owns the socket. */
tutti_status tt_boot_join_reach(struct tt_boot *b, const struct tt_place *at, uint64_t *ret_job,
                                struct tutti_error *err)
{
    struct tt_trust trust = tt_boot_trust(b, enters(b) ? TT_CONN_JOIN : TT_CONN_MEET);
    struct tt_dial d = {.rank = enters(b) ? TT_RANK_MEMBER : 0,
                        .addr_be = at->addr_be,
                        .port = at->port,
                        .epoll = -1};
    tutti_status st = TUTTI_OK;

    if (enters(b))
        trust.rank = TT_RANK_NEWCOMER;
    tt_boot_dial_begin(&d, tt_now_ns());
    while (!st && d.state != TT_DIAL_DONE) {
        struct pollfd p = tt_boot_dial_fd(&d);
        uint64_t wake = tt_boot_dial_wake(&d);
        if (tt_now_ns() >= at->deadline_ns) {
            st = fail_unreached(b, at, &d, err);
            break;
        }
        tt_boot_net_poll(&p, 1, wake < at->deadline_ns ? wake : at->deadline_ns);
        tt_boot_dial_serve(&d, &trust, p.revents);
        st = join_hopeless(b, &d, err);
    }
    if (st) {
        tt_boot_dial_abort(&d);
        return st;
    }
    *ret_job = d.shake.peer.job;
    if (!tt_boot_line_open(&b->control[0], d.shake.fd, &d.shake.keys))
        st = tt_fail_memory(err, "control line");
    sodium_memzero(&d.shake, sizeof d.shake);
    return st;
}

/* The port range is searched from a place that depends on the rank (listen.c). */
tutti_status tt_boot_join_listen(struct tt_boot *b, const struct tt_place *at,
                                 struct tutti_error *err)
{
    struct tt_boot_peer *me = &b->peers[b->config.rank];
    struct tt_listen l = {.addr_be = me->addr_be,
                          .lo = b->config.port_lo,
                          .hi = b->config.port_hi,
                          .avoid = at->port,
                          .start = b->config.rank};

    if (b->config.iface[0] && !tt_boot_net_loopback(me->addr_be))
        b->source_be = me->addr_be;
    return tt_boot_listen_open(&l, &b->listener, &me->port, err);
}

static tutti_status fail_gone(const struct tt_boot *b, int error, struct tutti_error *err)
{
    bool ended = error == 0 || error == ECONNRESET || error == EPIPE || error == EBADMSG;

    return tt_fail(err, TUTTI_ERR_PEER,
                   "%s (%s) is %s: its connection ended while the ranks met%s%s", root(b),
                   b->config.rendezvous, ended ? "gone" : "unreachable", error ? ": " : "",
                   error ? strerror(error) : "");
}

/* Nothing arrived. The host of a stopped process still accepts connections, which tells it from a
 * dead host. */
static tutti_status fail_silent(const struct tt_boot *b, const struct tt_place *at,
                                struct tutti_error *err)
{
    char span[32], busy[TT_BUSY_TEXT];

    tt_boot_net_span(b->config.timeout_ns, span, sizeof span);
    if (tt_boot_link_down(b))
        return tt_boot_fail_own_link(b, span, err);
    int error = tt_boot_net_probe(at->addr_be, at->port, b->source_be, PROBE_NS);
    if (error == 0 || error == ECONNREFUSED)
        return tt_fail(err, TUTTI_ERR_TIMEOUT,
                       "rank 0 (%s) took us in but sent nothing within %s: %s%s",
                       b->config.rendezvous, span,
                       error ? "nobody listens there any more" : "its host answers, it is stopped",
                       error ? "" : tt_boot_busy_text(busy));
    return tt_fail(err, TUTTI_ERR_TIMEOUT,
                   "rank 0 (%s) is unreachable: it took us in but sent nothing within %s, and its "
                   "host does not answer",
                   b->config.rendezvous, span);
}

/* Sends this rank's entry for the table and the time that it will wait. */
tutti_status tt_boot_join_say(const struct tt_boot *b, uint64_t deadline_ns,
                              struct tutti_error *err)
{
    uint8_t text[TT_FRAME + TT_JOIN_MAX];
    uint64_t now = tt_now_ns(), left_ms = deadline_ns > now ? (deadline_ns - now) / 1000000 : 0;
    struct tt_boot_join j;
    tutti_status st = tt_boot_self_join(b, &j, err);
    size_t n;
    int error;

    if (st)
        return st;
    n = tt_boot_join_write(&j, text + TT_FRAME);
    tt_boot_frame_write(
        &(struct tt_frame){.kind = TT_FRAME_JOIN,
                           .remaining_ms = left_ms < UINT32_MAX ? (uint32_t)left_ms : UINT32_MAX,
                           .length = n},
        text);
    error = tt_boot_line_send(&b->control[0], text, TT_FRAME + n, deadline_ns);
    return error ? fail_gone(b, error, err) : TUTTI_OK;
}

/* Reads rank 0's answer into `in`, until a little after the deadline. */
tutti_status tt_boot_join_await(const struct tt_boot *b, struct tt_frame_in *in,
                                const struct tt_place *at, struct tutti_error *err)
{
    uint64_t until = at->deadline_ns + TT_GRACE_NS;
    enum tt_net went;

    while ((went = tt_boot_frame_fill(&b->control[0], in)) == TT_NET_AGAIN) {
        struct pollfd p = {.fd = b->control[0].fd, .events = POLLIN};
        if (tt_now_ns() >= until)
            return fail_silent(b, at, err);
        tt_boot_net_poll(&p, 1, until);
    }
    return went == TT_NET_OK ? TUTTI_OK : fail_gone(b, errno, err);
}

static tutti_status take_table(struct tt_boot *b, const struct tt_place *at,
                               struct tutti_error *err)
{
    size_t table = (size_t)b->config.size * TT_PEER_BYTES,
           cap = table > TT_REFUSAL_MAX ? table : TT_REFUSAL_MAX;
    struct tt_frame_in in = {.body = tt_alloc(cap, 1), .cap = cap};
    tutti_status st;

    if (!in.body)
        return tt_fail_memory(err, "rendezvous");
    st = tt_boot_join_await(b, &in, at, err);
    if (!st && in.frame.kind == TT_FRAME_REFUSAL) {
        tt_boot_refusal_parse(in.body, (size_t)in.frame.length, err);
        st = err->status;
    } else if (!st &&
               (in.frame.kind != TT_FRAME_TABLE ||
                !tt_boot_table_parse(in.body, (size_t)in.frame.length, b->config.size, b->peers))) {
        st = tt_fail(err, TUTTI_ERR_CONNECT, "rank 0 (%s) sent a table that makes no sense",
                     b->config.rendezvous);
    }
    free(in.body);
    return st;
}

tutti_status tt_boot_join(struct tt_boot *b, const struct tt_place *at, struct tutti_error *err)
{
    uint64_t job = 0;
    tutti_status st =
        tt_boot_iface_choose(b->config.iface, at->addr_be, &b->peers[b->config.rank].addr_be, err);

    if (!st)
        st = tt_boot_join_reach(b, at, &job, err);
    if (!st)
        st = tt_boot_join_listen(b, at, err);
    if (!st)
        st = tt_boot_join_say(b, at->deadline_ns, err);
    if (!st)
        st = take_table(b, at, err);
    if (!st)
        b->job = job;
    return st;
}
