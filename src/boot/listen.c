/* listen.c - the one listening socket of a process, on the chosen address only.
 *
 * A range of ports is searched from a place that depends on the rank, so that ranks of one host
 * seldom collide. The port of the rendezvous is left for rank 0, which may start later. With
 * SO_REUSEADDR another socket that is bound but does not listen yet is noticed only by listen(), so
 * a port is taken only when both bind and listen succeed. */
#include "boot/boot_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

/* Tries one port; 0 or errno. */
static int try_port(uint32_t addr_be, uint16_t port, int *ret_fd, uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof a;
    int fd = tt_fd_own(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), yes = 1,
        error;

    if (fd < 0)
        return errno;
    a.sin_addr.s_addr = addr_be;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &len) == 0) {
        *ret_fd = fd;
        *ret_port = ntohs(a.sin_port);
        return 0;
    }
    error = errno;
    tt_fd_close(fd);
    return error;
}

static tutti_status fail_not_ours(const struct tt_listen *l, struct tutti_error *err)
{
    struct tt_str have = {0};
    char ip[TT_NET_TEXT];

    tt_boot_iface_list(&have);
    tt_fail(err, TUTTI_ERR_ARG,
            "%s is not an address of this host, which has %s (rank 0 must run on the host of the "
            "rendezvous)",
            tt_boot_net_text(l->addr_be, 0, ip), have.s ? have.s : "none");
    tt_str_free(&have);
    return TUTTI_ERR_ARG;
}

/* Where the single port, which is the rendezvous, comes from. */
#define HOW " (TUTTI_RENDEZVOUS, or torchrun's --master-port)"

/* For a single port the message names its user, if that is another one. */
static tutti_status fail_in_use(const struct tt_listen *l, struct tutti_error *err)
{
    char at[TT_NET_TEXT], user[64];
    uid_t uid;

    if (l->lo == l->hi && tt_boot_listener_user(l->addr_be, l->lo, &uid) && uid != geteuid())
        return tt_fail(err, TUTTI_ERR_ARG,
                       "port %u on %s is in use by a process of %s: choose another port" HOW, l->lo,
                       tt_boot_net_text(l->addr_be, 0, at),
                       tt_boot_user_text(uid, user, sizeof user));
    if (l->lo == l->hi)
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "port %u on %s is in use by another process (another job?): choose another port" HOW,
            l->lo, tt_boot_net_text(l->addr_be, 0, at));
    return tt_fail(err, TUTTI_ERR_LIMIT,
                   "all ports %u-%u on %s are in use: widen the range (TUTTI_PORTS)", l->lo, l->hi,
                   tt_boot_net_text(l->addr_be, 0, at));
}

tutti_status tt_boot_listen_open(const struct tt_listen *l, int *ret_fd, uint16_t *ret_port,
                                 struct tutti_error *err)
{
    uint32_t ports = (uint32_t)(l->hi - l->lo) + 1;
    int error = EADDRINUSE;
    char at[TT_NET_TEXT];

    if (l->lo == 0)
        error = try_port(l->addr_be, 0, ret_fd, ret_port);
    for (uint32_t k = 0; l->lo && k < ports && error == EADDRINUSE; k++) {
        uint16_t port = (uint16_t)(l->lo + (l->start % ports + k) % ports);
        if (port != l->avoid)
            error = try_port(l->addr_be, port, ret_fd, ret_port);
    }
    if (error == 0)
        return TUTTI_OK;
    if (error == EADDRNOTAVAIL)
        return fail_not_ours(l, err);
    if (error == EADDRINUSE && l->lo)
        return fail_in_use(l, err);
    return tt_fail(err, TUTTI_ERR_IO, "cannot listen on %s: %s",
                   tt_boot_net_text(l->addr_be, l->lo, at), strerror(error));
}
