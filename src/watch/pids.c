/* pids.c - ends of processes of this host, as reported by the kernel (pidfd_open(2)).
 *
 * A connection does not end while any process holds its socket: a child that was created without
 * our fork handlers, or a process that was sent the descriptor. The rank's own process has ended
 * all the same. Each rank watches the next one in a ring of its host's ranks, and tells rank 0;
 * when that one has ended, it watches the one after it. On rank 0's host all ranks watch rank 0
 * too:
 *
 *     host of rank 0:  0 --> 1 --> 2 --> 0, 1 --> 0          other host:  4 --> 5 --> 6 --> 4
 *
 * So every end is seen as long as one rank of the host lives, with two descriptors at most. What an
 * end means is not decided here: a rank that said farewell may end. */
#include <assert.h>

#include "watch/watch_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tt_pids {
    int epoll; /* polls the pidfds; data: the rank */
    const struct tt_boot_peer *peers;
    uint32_t me, size;
    int *fds;       /* by rank; NONE: not watched, ENDED: it had already ended */
    uint32_t ended; /* how many ranks are ENDED */
};
enum { NONE = -1, ENDED = -2 };

static bool is_local(const struct tt_pids *p, uint32_t rank)
{
    return p->peers[rank].host_id == p->peers[p->me].host_id;
}

/* Begins to watch a rank. Without pidfds (before Linux 5.3, or forbidden) nothing is watched. */
static void attend(struct tt_pids *p, uint32_t rank)
{
    assert(rank < p->size && rank != p->me && p->fds[rank] == NONE);
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = rank};
    int fd = tt_fd_own((int)syscall(SYS_pidfd_open, p->peers[rank].pid, 0));

    if (fd < 0 && errno == ESRCH) {
        p->fds[rank] = ENDED;
        p->ended++;
    } else if (fd >= 0 && epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
        tt_fd_close(fd);
    } else {
        p->fds[rank] = fd;
    }
}

/* The next rank of this host after `from`; me: there is no other. */
static uint32_t next_of(const struct tt_pids *p, uint32_t from)
{
    uint32_t r = (from + 1) % p->size;

    while (!is_local(p, r))
        r = (r + 1) % p->size;
    return r;
}

static void attend_next(struct tt_pids *p, uint32_t from)
{
    uint32_t r = next_of(p, from);

    if (r != p->me && p->fds[r] == NONE)
        attend(p, r);
}

struct tt_pids *tt_watch_pids_open(const struct tt_boot_peer *peers, uint32_t me, uint32_t size)
{
    struct tt_pids *p = tt_zalloc(1, sizeof *p);
    int *fds = tt_alloc(size, sizeof *fds);

    if (!p || !fds) {
        free(p);
        free(fds);
        return NULL;
    }
    *p = (struct tt_pids){.peers = peers, .me = me, .size = size, .fds = fds};
    p->epoll = tt_fd_own(epoll_create1(EPOLL_CLOEXEC));
    for (uint32_t r = 0; r < size; r++)
        fds[r] = NONE;
    if (me != 0 && is_local(p, 0))
        attend(p, 0);
    attend_next(p, me);
    return p;
}

void tt_watch_pids_close(struct tt_pids *p)
{
    if (!p)
        return;
    for (uint32_t r = 0; r < p->size; r++)
        tt_fd_close(p->fds[r]);
    tt_fd_close(p->epoll);
    free(p->fds);
    free(p);
}

int tt_watch_pids_fd(const struct tt_pids *p)
{
    return p ? p->epoll : -1;
}

/* Reports one end and watches the next rank of the ring instead. */
bool tt_watch_pids_take(struct tt_pids *p, uint32_t *ret_rank)
{
    struct epoll_event e;
    uint32_t rank = 0;

    if (!p)
        return false;
    if (p->ended) {
        while (p->fds[rank] != ENDED)
            rank++;
        p->ended--;
    } else if (epoll_wait(p->epoll, &e, 1, 0) == 1) {
        rank = e.data.u32;
        epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->fds[rank], NULL);
        tt_fd_close(p->fds[rank]);
    } else {
        return false;
    }
    assert(rank < p->size && p->fds[rank] != NONE);
    p->fds[rank] = NONE;
    if (rank != 0)
        attend_next(p, rank);
    *ret_rank = rank;
    return true;
}
