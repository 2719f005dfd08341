/* speeds.c - the speeds that a communicator plans with, and the key under which they are kept
 * (meter/speeds.c): rank by rank the host and its address, the transport, the protection, the
 * cores, the network namespace. */
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/comm_int.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* An id of the network namespace. Namespaces come and go (containers, the lab) and their inode
 * numbers are reused; this number never is. 0: an older kernel. */
static uint64_t network(void)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len))
        cookie = 0;
    close(fd);
    return cookie;
}

uint64_t tt_comm_speeds_key(const struct tt_comm *c)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    bool apart = tt_comm_apart(&c->config);
    cpu_set_t cores;
    uint64_t head[5] = {c->size, (uint64_t)apart + (c->world->mpi ? 1 : 0), network(),
                        peers[c->members[0]].host_id};
    head[4] = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint64_t)CPU_COUNT(&cores) : 0;
    uint64_t h = tt_hash_bytes(1, head, sizeof head);
    char guard[TT_GUARD_WORDS];
    tt_comm_guard(c, guard, sizeof guard);
    h = tt_hash_bytes(h, guard, strlen(guard));
    h = tt_hash_bytes(h, tt_kernel_isa(), strlen(tt_kernel_isa()));
    for (uint32_t r = 0; r < c->size; r++) {
        const struct tt_boot_peer *p = &peers[c->members[r]];
        h = tt_hash_bytes(h, p->host, strlen(p->host) + 1);
        h = tt_hash_bytes(h, &p->addr_be, sizeof p->addr_be);
    }
    return h;
}

tutti_status tt_comm_speeds(struct tt_comm *c, bool again, struct tt_speeds *ret,
                            struct tutti_error *err)
{
    struct tt_setup setup = {.through = c, .why = TT_WHY_MEASURE};
    struct tt_measure how = {
        .exchange = tt_comm_exchange, .ctx = &setup, .again = true, .why = TT_WHY_MEASURE};
    tutti_status st = again ? tt_comm_measure(c, &how, err) : TUTTI_OK;
    if (!st)
        *ret = c->speeds;
    return st;
}
