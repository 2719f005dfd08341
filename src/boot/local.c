/* local.c - the key of a job on one host that was given none: only processes of one user get it.
 *
 * Loopback can be reached by every user of the host, so a rendezvous there proves nothing. Rank 0
 * therefore creates a key and hands it out over a Unix socket, where the kernel tells which user's
 * process is at the other end (SO_PEERCRED); both ends check. From then on all connections
 * authenticate with that key, as if it had come from a file.
 *
 *     rank 0                                              rank r
 *     listens as @tutti/<uid>/<rendezvous>  <-- connects, compares the user ids
 *     compares the user ids  -- offer: the key, or why there is none -->
 *
 * The name is abstract: it lives in the network namespace, as loopback does, and disappears with
 * its process. Another user can take the name first. That stops the job, with a message that names
 * the user, and gains nothing else. The socket exists while the ranks meet, even if the job has a
 * key of its own or wants none, so that a rank with other settings learns what is different. */
#include "boot/boot_int.h"

#include <errno.h>
#include <pwd.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, TURN = 64, RETRY_MS = 10, RETRY_MAX_MS = 100 };
/* no offer for so long: check which user listens at the rendezvous */
#define STRANGER_NS UINT64_C(1000000000)

static const char MAGIC[8] = "ttlocal";

/* ---- pure: offers ---- */

/* 0 magic[8] | 8 version u16 | 10 mode u8 | 11 zeros[5] | 16 key[32] */
void tt_boot_offer_write(const struct tt_offer *o, uint8_t out[TT_OFFER])
{
    memset(out, 0, TT_OFFER);
    memcpy(out, MAGIC, sizeof MAGIC);
    out[8] = TT_BOOT_PROTOCOL & 0xff;
    out[9] = TT_BOOT_PROTOCOL >> 8;
    out[10] = (uint8_t)o->mode;
    if (o->mode == TT_OFFER_KEY)
        memcpy(out + 16, o->key, TT_BOOT_KEY);
}

/* Valid offers have one encoding only: what parses must be written back to the same bytes. */
bool tt_boot_offer_parse(const uint8_t *in, size_t n, struct tt_offer *ret)
{
    struct tt_offer o = {0};
    uint8_t again[TT_OFFER];

    if (n != TT_OFFER || in[10] >= TT_OFFERS)
        return false;
    o.mode = in[10];
    memcpy(o.key, in + 16, TT_BOOT_KEY);
    tt_boot_offer_write(&o, again);
    bool ok = sodium_memcmp(again, in, TT_OFFER) == 0 &&
              (o.mode != TT_OFFER_KEY || !sodium_is_zero(o.key, sizeof o.key));
    if (ok)
        *ret = o;
    sodium_memzero(again, sizeof again);
    sodium_memzero(&o, sizeof o);
    return ok;
}

/* ---- users ---- */

char *tt_boot_user_text(uid_t uid, char *buf, size_t cap)
{
    char space[1024];
    struct passwd entry, *found = NULL;

    if (getpwuid_r(uid, &entry, space, sizeof space, &found) == 0 && found)
        snprintf(buf, cap, "user %.32s (uid %u)", found->pw_name, (unsigned)uid);
    else
        snprintf(buf, cap, "uid %u", (unsigned)uid);
    return buf;
}

/* The user of the process at the other end, as it was when the socket connected or began to
 * listen. */
static bool user_at(int fd, uid_t *ret)
{
    struct ucred c;
    socklen_t len = sizeof c;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) != 0)
        return false;
    *ret = c.uid;
    return true;
}

/* Which user's socket listens at the address? The kernel lists all sockets in /proc; state 10 is
 * LISTEN. */
bool tt_boot_listener_user(uint32_t addr_be, uint16_t port, uid_t *ret)
{
    FILE *f = fopen("/proc/self/net/tcp", "re");
    char line[256];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned addr, at, state, uid;
        if (sscanf(line, " %*u: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %u", &addr, &at, &state,
                   &uid) != 4 ||
            state != 10)
            continue;
        found = at == port && (addr == addr_be || addr == 0);
        if (found)
            *ret = uid;
    }
    if (f)
        fclose(f);
    return found;
}

/* ---- the socket ---- */

/* Abstract names begin with a zero byte, and their length counts. */
static socklen_t name_of(const struct tt_place *at, struct sockaddr_un *ret)
{
    char place[TT_NET_TEXT];

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "tutti/%u/%s",
                     (unsigned)geteuid(), tt_boot_net_text(at->addr_be, at->port, place));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int local_socket(void)
{
    return tt_fd_own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/* The name is taken: finds out by which user. */
static tutti_status fail_taken(const struct tt_place *at, struct tutti_error *err)
{
    struct sockaddr_un a;
    socklen_t len = name_of(at, &a);
    char user[64], where[TT_NET_TEXT];
    int fd = local_socket();
    uid_t uid = geteuid();

    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, len) == 0)
        user_at(fd, &uid);
    tt_boot_net_close(&fd);
    tt_boot_net_text(at->addr_be, at->port, where);
    if (uid != geteuid())
        return tt_fail(err, TUTTI_ERR_AUTH,
                       "a process of %s, not of yours, pretends to be rank 0 at %s: choose another "
                       "port, or set TUTTI_KEY_FILE",
                       tt_boot_user_text(uid, user, sizeof user), where);
    return tt_fail(err, TUTTI_ERR_ARG, "another job of yours meets at %s: choose another port",
                   where);
}

tutti_status tt_boot_local_listen(const struct tt_place *at, int *ret_fd, struct tutti_error *err)
{
    struct sockaddr_un a;
    socklen_t len = name_of(at, &a);
    int fd = local_socket();

    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, BACKLOG) == 0) {
        *ret_fd = fd;
        return TUTTI_OK;
    }
    int error = errno;
    tt_boot_net_close(&fd);
    if (error == EADDRINUSE)
        return fail_taken(at, err);
    return tt_fail(err, TUTTI_ERR_IO, "a local socket cannot be made: %s", strerror(error));
}

/* Bounded, so that a flood of local connections cannot keep rank 0 here. */
void tt_boot_local_serve(int listener, const struct tt_offer *o)
{
    uint8_t offer[TT_OFFER];

    tt_boot_offer_write(o, offer);
    for (int k = 0; k < TURN; k++) {
        int fd = tt_fd_own(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        uid_t uid;
        if (fd < 0)
            break;
        if (user_at(fd, &uid) && uid == geteuid())
            (void)!send(fd, offer, sizeof offer, MSG_DONTWAIT | MSG_NOSIGNAL);
        tt_boot_net_close(&fd);
    }
    sodium_memzero(offer, sizeof offer);
}

/* ---- the other ranks ---- */

enum attempt { AGAIN, GOT_IT, FOREIGN };

/* Connects, checks the user at the other end, and waits for the offer. */
static enum attempt attempt(const struct tt_place *at, struct tt_offer *ret, uid_t *ret_uid)
{
    struct sockaddr_un a;
    socklen_t len = name_of(at, &a);
    struct pollfd p = {.fd = local_socket(), .events = POLLIN};
    uint8_t offer[TT_OFFER + 1];
    enum attempt end = AGAIN;

    if (p.fd >= 0 && connect(p.fd, (struct sockaddr *)&a, len) == 0 && user_at(p.fd, ret_uid)) {
        ssize_t n = -1;
        end = *ret_uid == geteuid() ? AGAIN : FOREIGN;
        if (end == AGAIN) {
            tt_boot_net_poll(&p, 1, at->deadline_ns);
            n = recv(p.fd, offer, sizeof offer, MSG_DONTWAIT);
        }
        if (n > 0 && tt_boot_offer_parse(offer, (size_t)n, ret))
            end = GOT_IT;
    }
    tt_boot_net_close(&p.fd);
    sodium_memzero(offer, sizeof offer);
    return end;
}

static tutti_status fail_foreign(const char *rendezvous, uid_t uid, struct tutti_error *err)
{
    char theirs[64], mine[64];

    return tt_fail(err, TUTTI_ERR_AUTH,
                   "what is at %s belongs to %s, and this rank to %s: without a job key only "
                   "processes of one user trust each "
                   "other; choose another port, or set TUTTI_KEY_FILE on all ranks",
                   rendezvous, tt_boot_user_text(uid, theirs, sizeof theirs),
                   tt_boot_user_text(geteuid(), mine, sizeof mine));
}

static tutti_status use_offer(struct tt_boot *b, const struct tt_offer *o, struct tutti_error *err)
{
    if (o->mode == TT_OFFER_FILE)
        return TUTTI_OK; /* rank 0 will refuse us, and can then name this rank */
    if (o->mode == TT_OFFER_NONE)
        return tt_fail(err, TUTTI_ERR_AUTH,
                       "rank 0 (%s) runs with TUTTI_INSECURE=1 and this rank without: set it on "
                       "all ranks or on none",
                       b->config.rendezvous);
    memcpy(b->config.key, o->key, TT_BOOT_KEY);
    b->config.has_key = true;
    return TUTTI_OK;
}

tutti_status tt_boot_local_fetch(struct tt_boot *b, const struct tt_place *at,
                                 struct tutti_error *err)
{
    uint64_t from = tt_now_ns(), wait_ms = RETRY_MS;
    struct tt_offer o = {0};
    enum attempt end;
    uid_t uid = geteuid();
    char span[32];
    tutti_status st;

    /* Rank 0 may start later: retry until the deadline, at growing intervals. */
    while ((end = attempt(at, &o, &uid)) == AGAIN && tt_now_ns() < at->deadline_ns) {
        uint64_t until = tt_now_ns() + wait_ms * 1000000;
        tt_boot_net_poll(NULL, 0, until < at->deadline_ns ? until : at->deadline_ns);
        wait_ms = 2 * wait_ms < RETRY_MAX_MS ? 2 * wait_ms : RETRY_MAX_MS;
        if (tt_now_ns() > from + STRANGER_NS &&
            tt_boot_listener_user(at->addr_be, at->port, &uid) && uid != geteuid())
            return fail_foreign(b->config.rendezvous, uid, err);
    }
    if (end == FOREIGN)
        return fail_foreign(b->config.rendezvous, uid, err);
    if (end == AGAIN)
        return tt_fail(
            err, TUTTI_ERR_TIMEOUT,
            "rank 0 could not be reached at %s within %s: no process of yours meets others there",
            b->config.rendezvous, tt_boot_net_span(b->config.timeout_ns, span, sizeof span));
    st = use_offer(b, &o, err);
    sodium_memzero(&o, sizeof o);
    return st;
}
