/* boot_ranks.h - ranks as forked processes for the tests of boot/.
 *
 * A child runs one function and leaves what happened in memory shared with the parent, which alone asserts: an assertion that fails in a
 * child would jump into the parent's test. Children that do not end in time are killed and counted as hung. */
#ifndef TEST_BOOT_RANKS_H
#define TEST_BOOT_RANKS_H

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/boot_int.h"

enum { RANKS_MAX = 16, RANK_LIMIT_S = 25 };

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

struct outcome {
    tutti_status status;
    struct tutti_error err;
    uint64_t took_ns;
    int value;     /* the test's own */
    uint64_t hash; /* the test's own */
    int fds_left;  /* descriptors more than before */
    bool hung, crashed, leaked;
    int stage; /* for the parent to wait on */
};

static struct outcome *outcomes; /* RANKS_MAX, shared */

static inline void ranks_setup(void)
{
    if (!outcomes)
        outcomes = mmap(NULL, RANKS_MAX * sizeof(*outcomes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(outcomes != MAP_FAILED);
    memset(outcomes, 0, RANKS_MAX * sizeof(*outcomes));
}

static inline int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    if (!d)
        return -1;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

typedef void rank_body(uint32_t rank, void *arg);

static inline pid_t rank_start(uint32_t rank, rank_body *body, void *arg)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    int before = count_fds();
    uint64_t from = tt_now_ns();
    body(rank, arg);
    outcomes[rank].took_ns = tt_now_ns() - from;
    outcomes[rank].fds_left = count_fds() - before;
    if (__lsan_do_recoverable_leak_check)
        outcomes[rank].leaked = __lsan_do_recoverable_leak_check() != 0;
    _exit(0);
}

/* Waits for the child; killed by us counts as neither hung nor crashed when `expected` is SIGKILL. */
static inline void rank_end(uint32_t rank, pid_t pid, int expected)
{
    uint64_t limit = tt_now_ns() + (uint64_t)RANK_LIMIT_S * 1000000000;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (tt_now_ns() > limit) {
            kill(pid, SIGKILL);
            outcomes[rank].hung = true;
        }
        usleep(1000);
    }
    if (WIFSIGNALED(status) ? WTERMSIG(status) != expected : WEXITSTATUS(status) != 0)
        outcomes[rank].crashed = true;
}

static inline void check_clean(uint32_t rank)
{
    const struct outcome *o = &outcomes[rank];

    if (o->hung || o->crashed || o->leaked || o->fds_left)
        fail_msg("rank %u: hung %d, crashed %d, leaked %d, descriptors left %d (%s)", rank, o->hung, o->crashed, o->leaked, o->fds_left,
                 o->err.text);
}

static inline void run_ranks(uint32_t n, rank_body *body, void *arg)
{
    pid_t pid[RANKS_MAX];

    ranks_setup();
    for (uint32_t r = 0; r < n; r++)
        pid[r] = rank_start(r, body, arg);
    for (uint32_t r = 0; r < n; r++)
        rank_end(r, pid[r], 0);
    for (uint32_t r = 0; r < n; r++)
        check_clean(r);
}

/* A port nobody uses just now. */
static inline uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    close(fd);
    return ntohs(a.sin_port);
}

static inline struct tt_boot_config loopback_config(uint32_t size, uint16_t port, uint64_t timeout_ms)
{
    struct tt_boot_config c = {.size = size, .local_rank = -1, .timeout_ns = timeout_ms * 1000000};

    snprintf(c.rendezvous, sizeof(c.rendezvous), "127.0.0.1:%u", port);
    return c;
}

/* Waits until rank's stage is reached, for parents and children alike. */
static inline bool await_stage(uint32_t rank, int stage)
{
    uint64_t limit = tt_now_ns() + UINT64_C(20000000000);

    while (__atomic_load_n(&outcomes[rank].stage, __ATOMIC_ACQUIRE) < stage) {
        if (tt_now_ns() > limit)
            return false;
        usleep(500);
    }
    return true;
}

static inline void reach_stage(uint32_t rank, int stage)
{
    __atomic_store_n(&outcomes[rank].stage, stage, __ATOMIC_RELEASE);
}
#endif
