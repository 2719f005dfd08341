/* cut.c - cuts the link of one host of a running job and checks what every host is told. Needs root.
 *
 *     cut TUTTI ROUNDS [FIRST]          the parent; TUTTI is the tool, whose lab makes the hosts
 *     cut --rank FILE                   a rank, started by the lab; FILE is the round in shared memory
 *
 * Every round is a job of 2 to 4 emulated hosts that all-reduce in a loop. In the midst of one operation, at a moment that moves evenly
 * through its measured duration from round to round, the victim's port of the switch goes down (its own interface loses the carrier), or is
 * silently taken off the switch (everything looks well, and no packet arrives; in every other such round the kernels give up before the
 * deadline and break the connections). Within the deadline plus one second every rank must return
 * an error that says that the victim is unreachable, the victim itself that it is its own link. With two hosts and no sign from the
 * interface nobody can know whose link it is: each names the other. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "round.h"

static _Noreturn void die(const char *what)
{
    printf("FAILED: %s: %s\n", what, strerror(errno));
    exit(2);
}

static struct round *map_round(int fd)
{
    struct round *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || r == MAP_FAILED)
        die("shared memory");
    return r;
}

/* ---- a rank ---- */

/* This host's kernel gives a connection up after the second retransmission. */
static void be_impatient(void)
{
    int fd = open("/proc/sys/net/ipv4/tcp_retries2", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        die("tcp_retries2");
    close(fd);
}

static int be_rank(const char *file)
{
    struct tt_comm_config config;
    struct tutti_error err = {0};
    int fd = open(file, O_RDWR | O_CLOEXEC);
    struct round *r = map_round(fd);
    close(fd);
    if (tt_comm_from_env(&config, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if (r->impatient)
        be_impatient();
    config.boot.timeout_ns = 10 * SECOND; /* only the job itself is in a hurry */
    round_be_rank(config.boot.rank, r, &config);
}

/* ---- the parent ---- */

static pid_t start_lab(const char *tutti, uint32_t nodes, int fd)
{
    char file[64], count[16], self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        die("/proc/self/exe");
    self[n] = 0;
    snprintf(file, sizeof file, "/proc/%d/fd/%d", (int)getpid(), fd);
    snprintf(count, sizeof count, "%u", nodes);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        execl(tutti, tutti, "lab", "--nodes", count, "--rate", "1gbit", "--timeout", "1500ms", "--", self, "--rank", file, (char *)NULL);
        die(tutti);
    }
    return pid;
}

/* A socket whose ioctls speak to the switch's name space. */
static int enter_switch(pid_t lab)
{
    char path[64];
    snprintf(path, sizeof path, "/var/run/netns/tutti-lab-%d-net", (int)lab);
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open(path, O_RDONLY | O_CLOEXEC);
    if (here < 0 || there < 0 || setns(there, CLONE_NEWNET))
        die(path);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (setns(here, CLONE_NEWNET))
        die("the way back");
    close(here);
    close(there);
    return fd;
}

static void cut(int net, const struct round *r)
{
    struct ifreq port = {0};
    int failed;
    snprintf(port.ifr_name, sizeof port.ifr_name, "p%u", r->victim);
    failed = ioctl(net, r->silent ? SIOCGIFINDEX : SIOCGIFFLAGS, &port);
    if (!failed && r->silent) {
        struct ifreq bridge = {.ifr_name = "bridge", .ifr_ifindex = port.ifr_ifindex};
        failed = ioctl(net, SIOCBRDELIF, &bridge);
    } else if (!failed) {
        port.ifr_flags = (short)(port.ifr_flags & ~IFF_UP);
        failed = ioctl(net, SIOCSIFFLAGS, &port);
    }
    if (failed)
        die("cutting the link");
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Ends the lab when time is up. */
static int await_lab(pid_t lab, uint64_t limit, uint64_t *stalled)
{
    int status = -1;
    while (!has_ended(lab) && tt_now_ns() < limit)
        nap(1000, stalled);
    bool hangs = !has_ended(lab);
    if (hangs) {
        printf("  FAILED: a rank hangs\n");
        kill(lab, SIGTERM);
    }
    waitpid(lab, &status, 0);
    return hangs || status != 0;
}

static int check_ranks(const struct round *r, uint64_t latest)
{
    const char *text = NULL;
    int bad = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        bool guess = r->n == 2 && r->silent && i == r->victim;
        struct told want = {.culprit = guess ? 1 - i : r->victim,
                            .says = i == r->victim && !guess ? "is unreachable: its own link is cut" : "is unreachable",
                            .status = TUTTI_ERR_PEER,
                            .latest_ns = latest};
        int wrong = round_check(r, i, &want);
        if (!wrong && i != r->victim && r->victim != 0) { /* without rank 0 each judges alone */
            if (text && !tt_streq(text, r->reports[i].text))
                wrong = round_complain(r, i, "not what the others were told");
            text = r->reports[i].text;
        }
        bad += wrong;
    }
    return bad;
}

static int play(struct round *r, int fd, const char *tutti, uint64_t *ret_at, uint64_t *stalled)
{
    uint64_t limit = tt_now_ns() + LIMIT, at;
    pid_t lab = start_lab(tutti, r->n, fd);
    while ((at = round_moment(r)) == 0 && tt_now_ns() < limit && !has_ended(lab))
        nap(50, stalled);
    if (at) {
        int net = enter_switch(lab);
        sleep_until(at);
        cut(net, r);
        at = tt_now_ns();
        close(net);
    }
    *ret_at = at;
    int bad = await_lab(lab, limit, stalled);
    return bad + check_ranks(r, (at ? at : limit) + TIMEOUT + SECOND);
}

static int try_round(uint32_t number, uint32_t rounds, const char *tutti, uint64_t *stalled)
{
    int fd = memfd_create("round", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct round)))
        die("shared memory");
    struct round *r = map_round(fd);
    uint64_t at, last = 0;
    r->silent = number % 3 > 0;
    r->impatient = number % 3 > 1;
    r->n = 2 + (number + number / 3 + 2) % 3;
    r->fault = CUT;
    r->count = number % 5 == 4 ? SHORT : LONG;
    r->tenths_of_percent = (number * 1000 + 500) / rounds;
    r->victim = (uint32_t)(tt_mix64(number) % r->n);
    int bad = play(r, fd, tutti, &at, stalled);
    for (uint32_t i = 0; i < r->n; i++)
        last = r->reports[i].failed_ns > last ? r->reports[i].failed_ns : last;
    printf("round %u: %u hosts, %zu f32, link of rank %u %s at %.1f %% of %.3f ms: all knew after %.3f s\n", number, r->n, r->count,
           r->victim,
           r->impatient ? "cut, kernels give up"
           : r->silent  ? "cut silently"
                        : "down",
           round_phase(r, at), (double)r->reports[r->victim].usual_ns / 1e6, last > at ? (double)(last - at) / 1e9 : 0.0);
    for (uint32_t i = 0; !bad && i < r->n; i++)
        if (i == r->victim || i == (r->victim ? 0 : 1))
            printf("  rank %u: %s\n", i, r->reports[i].text);
    fflush(stdout);
    munmap(r, sizeof *r);
    close(fd);
    return bad;
}

static int run_round(uint32_t number, uint32_t rounds, const char *tutti)
{
    uint64_t stalled = 0;
    int bad = try_round(number, rounds, tutti, &stalled);
    for (int i = 1; bad && stalled > STALLED && i < TRIES; i++) {
        printf("void: the machine stood still for %.3f s; again\n", (double)stalled / 1e9);
        stalled = 0;
        bad = try_round(number, rounds, tutti, &stalled);
    }
    return bad;
}

int main(int argc, char **argv)
{
    struct tutti_error err = {0};
    uint64_t rounds = 0, first = 0;
    int bad = 0;
    if (argc == 3 && tt_streq(argv[1], "--rank"))
        return be_rank(argv[2]);
    if (argc < 3 || argc > 4 || tt_parse_u64(argv[2], 1, 100000, &rounds, &err) ||
        (argc == 4 && tt_parse_u64(argv[3], 0, rounds - 1, &first, &err))) {
        fprintf(stderr, "usage: cut TUTTI ROUNDS [FIRST]\n%s\n", err.text);
        return 2;
    }
    if (geteuid() != 0) {
        printf("skipped: not root, hosts cannot be emulated\n");
        return 0;
    }
    setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    for (uint64_t i = first; i < rounds; i++)
        bad += run_round((uint32_t)i, (uint32_t)rounds, argv[1]) != 0;
    printf("%llu rounds, %d failed\n", (unsigned long long)(rounds - first), bad);
    return bad != 0;
}
