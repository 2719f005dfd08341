/* check.c - does what boot needs work on this host? Everything is tried; nothing is guessed from
 * settings.
 *
 *     loopback     listen, connect, accept, one byte through: within PATIENCE_NS
 *     interfaces   the filter is well-formed and admits something */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/boot_int.h"

static const uint64_t PATIENCE_NS = 2000000000;

/* Connects to a listening socket of our own and sends a byte through it. 0 or errno. */
static int send_byte(int listener, uint32_t addr_be, uint16_t port)
{
    struct pollfd fd = {.fd = -1, .events = POLLOUT};
    uint64_t until = tt_boot_net_deadline(PATIENCE_NS);
    char sent = 't', got = 0;
    int error = tt_boot_net_connect(addr_be, port, 0, &fd.fd), other = -1;
    if (!error) {
        tt_boot_net_poll(&fd, 1, until);
        error = fd.revents ? tt_boot_net_connected(fd.fd) : ETIMEDOUT;
    }
    struct pollfd in = {.fd = listener, .events = POLLIN};
    if (!error) {
        tt_boot_net_poll(&in, 1, until);
        other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        error = other < 0 ? errno : 0;
    }
    if (!error && send(fd.fd, &sent, 1, MSG_NOSIGNAL) != 1)
        error = errno;
    in.fd = other;
    if (!error) {
        tt_boot_net_poll(&in, 1, until);
        error = recv(other, &got, 1, MSG_DONTWAIT) == 1 && got == sent ? 0 : ETIMEDOUT;
    }
    tt_boot_net_close(&fd.fd);
    tt_boot_net_close(&other);
    return error;
}

static void check_loopback(const struct tt_boot_config *c, struct tt_check *ret)
{
    struct tt_listen l = {.addr_be = htonl(INADDR_LOOPBACK), .lo = c->port_lo, .hi = c->port_hi};
    struct tutti_error err;
    uint16_t port = 0;
    int fd = -1;
    tutti_status st = tt_boot_listen_open(&l, &fd, &port, &err);
    int error = st ? 0 : send_byte(fd, l.addr_be, port);
    tt_boot_net_close(&fd);
    ret->ok = !st && !error;
    if (st)
        snprintf(ret->text, sizeof ret->text, "%s", err.text);
    else if (error)
        snprintf(ret->text, sizeof ret->text, "a byte through 127.0.0.1:%u: %s", port,
                 strerror(error));
    else
        snprintf(ret->text, sizeof ret->text, "a byte went through 127.0.0.1:%u", port);
}

/* The destination is loopback, so that a host without a network passes; only the filter is
 * judged. */
static void check_interfaces(const struct tt_boot_config *c, struct tt_check *ret)
{
    struct tutti_error err;
    struct tt_str have = {0};
    uint32_t addr_be;
    ret->ok = !tt_boot_iface_choose(c->iface, htonl(INADDR_LOOPBACK), &addr_be, &err);
    tt_boot_iface_list(&have);
    if (ret->ok)
        snprintf(ret->text, sizeof ret->text, "%s%s%s", have.s ? have.s : "none",
                 c->iface[0] ? "; the filter leaves some: " : "", c->iface);
    else
        snprintf(ret->text, sizeof ret->text, "%s", err.text);
    tt_str_free(&have);
}

bool tt_boot_check(const struct tt_boot_config *c, size_t i, struct tt_check *ret)
{
    static const struct {
        const char *name;
        void (*run)(const struct tt_boot_config *c, struct tt_check *ret);
    } checks[] = {{"tcp loopback", check_loopback}, {"interfaces", check_interfaces}};
    if (i >= countof(checks))
        return false;
    *ret = (struct tt_check){.name = checks[i].name, .needed = true};
    checks[i].run(c, ret);
    return true;
}
