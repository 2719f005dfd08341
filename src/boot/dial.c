/* dial.c - one outgoing connection with its handshake, retried when it fails.
 *
 *     WAITING --retry_ns--> CONNECTING --writable--> SHAKING --proved--> DONE
 *        ^---------------------'---------- failed -------'
 *
 * Ranks start in any order, and an overloaded acceptor may drop a connection before its handshake
 * is done. Trying again cures both, after 10 ms at first and every quarter of a second later. Once
 * connected there is no limit but the caller's deadline: the acceptor may be busy. The caller
 * recognises errors that retrying cannot cure (another protocol version, a wrong key) by `last` and
 * `rejections`. */
#include "boot/boot_int.h"

#include <string.h>

enum { RETRY_MS = 10, RETRY_MAX_MS = 250 };

void tt_boot_dial_begin(struct tt_dial *d, uint64_t now_ns)
{
    d->state = TT_DIAL_WAITING;
    d->shake.fd = -1;
    d->retry_ns = now_ns;
    d->tries = d->rejections = 0;
    d->last = TT_SHAKE_MORE;
    d->error = 0;
}

void tt_boot_dial_abort(struct tt_dial *d)
{
    tt_boot_net_unwatch(d->epoll, d->shake.fd);
    tt_boot_net_close(&d->shake.fd);
}

struct pollfd tt_boot_dial_fd(const struct tt_dial *d)
{
    if (d->state == TT_DIAL_CONNECTING)
        return (struct pollfd){.fd = d->shake.fd, .events = POLLOUT};
    if (d->state == TT_DIAL_SHAKING)
        return (struct pollfd){.fd = d->shake.fd, .events = POLLIN};
    return (struct pollfd){.fd = -1};
}

/* In the other states progress comes with an event on the socket. */
uint64_t tt_boot_dial_wake(const struct tt_dial *d)
{
    return d->state == TT_DIAL_WAITING ? d->retry_ns : UINT64_MAX;
}

/* Closes the socket and schedules the next attempt. `why` and `error` are kept for messages. */
static void try_again(struct tt_dial *d, enum tt_shake_end why, int error)
{
    uint64_t ms = (uint64_t)RETRY_MS << (d->tries < 6 ? d->tries : 6);

    tt_boot_dial_abort(d);
    d->tries++;
    d->rejections += why == TT_SHAKE_REJECTED;
    d->last = why;
    d->error = error;
    d->state = TT_DIAL_WAITING;
    d->retry_ns = tt_now_ns() + (ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS) * 1000000;
}

/* The connect has ended: on success the greeting is sent. */
static void connected(struct tt_dial *d, const struct tt_trust *t)
{
    int error = tt_boot_net_connected(d->shake.fd);

    if (error)
        try_again(d, TT_SHAKE_MORE, error);
    else if (tt_boot_shake_connect(&d->shake, d->shake.fd, t, d->rank, d->role) != TT_SHAKE_MORE)
        try_again(d, TT_SHAKE_GONE, 0);
    else {
        tt_boot_net_watch(d->epoll, d->shake.fd, POLLIN, d->watcher);
        d->state = TT_DIAL_SHAKING;
        d->last = TT_SHAKE_MORE;
        d->error = 0;
    }
}

/* Call when the socket has events or tt_boot_dial_wake has passed. It never waits. */
void tt_boot_dial_serve(struct tt_dial *d, const struct tt_trust *t, short revents)
{
    enum tt_shake_end end;

    if (d->state == TT_DIAL_WAITING && tt_now_ns() >= d->retry_ns) {
        int error = tt_boot_net_connect(d->addr_be, d->port, d->source_be, &d->shake.fd);
        if (error) {
            try_again(d, TT_SHAKE_MORE, error);
        } else {
            tt_boot_net_watch(d->epoll, d->shake.fd, POLLOUT, d->watcher);
            d->state = TT_DIAL_CONNECTING;
        }
    } else if (d->state == TT_DIAL_CONNECTING && revents) {
        connected(d, t);
    } else if (d->state == TT_DIAL_SHAKING && revents) {
        end = tt_boot_shake_step(&d->shake, t);
        if (end == TT_SHAKE_DONE) {
            tt_boot_net_unwatch(d->epoll, d->shake.fd);
            d->state = TT_DIAL_DONE;
        } else if (end != TT_SHAKE_MORE) {
            try_again(d, end, 0);
        }
    }
}

const char *tt_boot_dial_why(const struct tt_dial *d)
{
    if (d->error)
        return strerror(d->error);
    switch (d->last) {
    case TT_SHAKE_GONE:
        return "it closes our connections: another job or program uses this port";
    case TT_SHAKE_STRANGER:
        return "what listens there is not a rank of this job";
    case TT_SHAKE_VERSION:
        return "it speaks another protocol version";
    case TT_SHAKE_KEY:
        return "it has another job key";
    case TT_SHAKE_REJECTED:
        return "it did not accept our key";
    default:
        return d->state == TT_DIAL_SHAKING ? "connected, but it does not answer"
                                           : "no answer to our connection";
    }
}
