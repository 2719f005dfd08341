/* net.c - IPv4 stream sockets on which no call waits longer than told.
 *
 * Reads and writes transfer what is possible at once (MSG_DONTWAIT, whatever the mode of the
 * socket) and count it. A caller that needs the rest polls for it, together with everything else it
 * waits for, up to an absolute deadline of tt_now_ns. No call raises SIGPIPE, and no descriptor
 * survives exec. */
#include "boot/boot_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum tt_net tt_boot_net_fill(int fd, uint8_t *buf, size_t want, size_t *got)
{
    while (*got < want) {
        ssize_t n = recv(fd, buf + *got, want - *got, MSG_DONTWAIT);
        if (n > 0) {
            *got += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TT_NET_AGAIN;
        /* An orderly end; callers read errno. */
        if (n == 0)
            errno = 0;
        return TT_NET_END;
    }
    return TT_NET_OK;
}

enum tt_net tt_boot_net_drain(int fd, const uint8_t *buf, size_t want, size_t *sent)
{
    while (*sent < want) {
        ssize_t n = send(fd, buf + *sent, want - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            *sent += (size_t)n;
            continue;
        }
        if (errno == EINTR)
            continue;
        return errno == EAGAIN || errno == EWOULDBLOCK ? TT_NET_AGAIN : TT_NET_END;
    }
    return TT_NET_OK;
}

uint64_t tt_boot_net_deadline(uint64_t timeout_ns)
{
    uint64_t far = UINT64_MAX / 2;

    return timeout_ns < far ? tt_now_ns() + timeout_ns : far;
}

/* Milliseconds until the deadline, rounded up, so that the last fraction is not spent in a busy
 * loop. */
static int sleep_ms(uint64_t until_ns)
{
    uint64_t now = tt_now_ns();
    uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;

    return ms > 60000 ? 60000 : (int)ms;
}

void tt_boot_net_poll(struct pollfd *fds, size_t n, uint64_t until_ns)
{
    int ready = poll(fds, n, sleep_ms(until_ns));

    if (ready > 0)
        return;
    if (ready < 0 && errno != EINTR) /* poll has no memory: do not spin */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    for (size_t i = 0; i < n; i++)
        fds[i].revents = 0;
}

static struct sockaddr_in net_address(uint32_t addr_be, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    a.sin_addr.s_addr = addr_be;
    return a;
}

int tt_boot_net_connect(uint32_t addr_be, uint16_t port, uint32_t source_be, int *ret_fd)
{
    struct sockaddr_in to = net_address(addr_be, port), from = net_address(source_be, 0);
    int fd = tt_fd_own(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = 0, yes = 1;

    if (fd < 0)
        return errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (source_be) {
        /* The port is chosen at connect, per destination: many connections do not use up the
         * range. */
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0)
            error = errno;
    }
    if (!error && connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS &&
        errno != EINTR)
        error = errno;
    if (error) {
        tt_fd_close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

/* SO_ERROR holds the result of the connect. On loopback, a connect to a port on which no socket
 * listens can connect the socket to itself. */
int tt_boot_net_connected(int fd)
{
    struct sockaddr_in me = {0}, peer = {0};
    socklen_t len = sizeof(int);
    int error = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return errno;
    if (error)
        return error;
    len = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return errno;
    len = sizeof me;
    if (getsockname(fd, (struct sockaddr *)&me, &len) != 0)
        return errno;
    return me.sin_port == peer.sin_port && me.sin_addr.s_addr == peer.sin_addr.s_addr ? ECONNREFUSED
                                                                                      : 0;
}

int tt_boot_net_probe(uint32_t addr_be, uint16_t port, uint32_t source_be, uint64_t timeout_ns)
{
    uint64_t until = tt_boot_net_deadline(timeout_ns);
    struct pollfd fd = {.fd = -1, .events = POLLOUT};
    int error = tt_boot_net_connect(addr_be, port, source_be, &fd.fd);

    if (error)
        return error;
    do
        tt_boot_net_poll(&fd, 1, until);
    while (!fd.revents && tt_now_ns() < until);
    error = fd.revents ? tt_boot_net_connected(fd.fd) : ETIMEDOUT;
    tt_boot_net_close(&fd.fd);
    return error;
}

void tt_boot_net_hand_out(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0)
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

void tt_boot_net_close(int *fd)
{
    tt_fd_close(*fd);
    *fd = -1;
}

/* MOD first: most calls change the events of a known descriptor. */
void tt_boot_net_watch(int epoll, int fd, uint32_t events, void *watcher)
{
    struct epoll_event e = {.events = events, .data.ptr = watcher};

    if (epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &e) != 0 && errno == ENOENT)
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

void tt_boot_net_unwatch(int epoll, int fd)
{
    if (epoll >= 0 && fd >= 0)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

bool tt_boot_net_loopback(uint32_t addr_be)
{
    return ntohl(addr_be) >> 24 == 127;
}

char *tt_boot_net_text(uint32_t addr_be, uint16_t port, char buf[TT_NET_TEXT])
{
    struct in_addr a = {.s_addr = addr_be};
    char ip[INET_ADDRSTRLEN] = "";

    inet_ntop(AF_INET, &a, ip, sizeof ip);
    if (port)
        snprintf(buf, TT_NET_TEXT, "%s:%u", ip, port);
    else
        snprintf(buf, TT_NET_TEXT, "%s", ip);
    return buf;
}

char *tt_boot_net_span(uint64_t ns, char *buf, size_t cap)
{
    return tt_format_time(ns > UINT64_MAX / 1000 ? UINT64_MAX : ns * 1000, buf, cap);
}

/* in->got counts head and body together, so that the caller keeps one counter between calls. */
enum tt_net tt_boot_frame_fill(const struct tt_boot_line *l, struct tt_frame_in *in)
{
    size_t body;
    enum tt_net went;

    if (in->got < TT_FRAME) {
        went = tt_boot_line_read(l, in->head, TT_FRAME, &in->got);
        if (went != TT_NET_OK)
            return went;
        if (!tt_boot_frame_parse(in->head, &in->frame)) {
            errno = EBADMSG;
            return TT_NET_END;
        }
    }
    if (in->frame.length > in->cap) {
        errno = EMSGSIZE;
        return TT_NET_END;
    }
    body = in->got - TT_FRAME;
    went = tt_boot_line_read(l, in->body, (size_t)in->frame.length, &body);
    in->got = TT_FRAME + body;
    return went;
}
