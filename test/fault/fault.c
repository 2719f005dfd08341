/* fault.c - breaks one rank of a running job and checks what the others are told.
 *
 *     fault TRANSPORT ROUNDS [FIRST]        TRANSPORT is shm, ring (messages through shared memory) or tcp
 *
 * Every round starts a job of 2 to 4 real processes that all-reduce in a loop. When the operation to be broken begins, one rank is killed,
 * is stopped, calls something else, does not call at all, or aborts, at a moment that moves evenly through the operation's measured
 * duration from round to round (the line printed for the round says where it fell). Then every other rank must return, within the deadline
 * plus one second, an error that names that rank, its process, the request and the class; must answer the next call with the same error;
 * must have computed right sums until then; must have its output for itself from then on; and must leave no thread, descriptor,
 * shared-memory file or process behind. */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "round.h"

enum { FAULTS = ABORT + 1 };
static const struct {
    const char *name, *says;
    tutti_status status;
} faults[FAULTS] = {
    [KILL] = {"kill", "is dead", TUTTI_ERR_PEER},
    [STOP] = {"stop", "is stuck", TUTTI_ERR_PEER},
    [MISMATCH] = {"mismatch", "calls are mismatched", TUTTI_ERR_DIFFERS},
    [LATE] = {"late", "has not entered", TUTTI_ERR_PEER},
    [ABORT] = {"abort", "aborted: because", TUTTI_ERR_ABORTED},
};

static const char *transport;

static void be_rank(uint32_t rank, struct round *r, uint16_t port)
{
    struct tt_comm_config c = {.timeout_ns = TIMEOUT, .boot = {.rank = rank, .size = r->n, .local_rank = (int)rank}};
    c.boot.timeout_ns = 10 * SECOND;
    c.transport = tt_streq(transport, "tcp") ? "tcp" : NULL;
    c.algo = tt_streq(transport, "ring") ? "ring" : NULL;
    snprintf(c.boot.rendezvous, sizeof c.boot.rendezvous, "127.0.0.1:%u", port);
    round_be_rank(rank, r, &c);
}

static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) != 0 || getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        exit(2);
    close(fd);
    return ntohs(a.sin_port);
}

/* A rank that ends this early could not open. */
static bool any_ended(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Every rank but the victim has ended (victims that live return, too); false: time is up. */
static bool await_ends(const struct round *r, const pid_t *pid, uint64_t limit, int *status, uint64_t *stalled)
{
    bool killed = r->fault == KILL || r->fault == STOP;
    uint32_t left = r->n - killed;
    bool ended[RANKS] = {0};
    while (left > 0 && tt_now_ns() < limit) {
        for (uint32_t i = 0; i < r->n; i++)
            if (!ended[i] && !(killed && i == r->victim) && waitpid(pid[i], &status[i], WNOHANG) == pid[i]) {
                ended[i] = true;
                left--;
            }
        nap(1000, stalled);
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (!ended[i]) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status[i], 0);
        }
    return left == 0;
}

/* What rank was told about the fault; `latest` is when it must have been told. */
static int check_rank(const struct round *r, uint32_t rank, int status, uint64_t latest)
{
    /* without a majority either of two ranks may be the one that differs */
    struct told want = {.culprit = r->fault == MISMATCH && (r->n == 2 || r->split) ? RANKS : r->victim,
                        .says = faults[r->fault].says,
                        .status = faults[r->fault].status,
                        .latest_ns = latest};
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return round_complain(r, rank, "it did not end by itself");
    return round_check(r, rank, &want);
}

static int check_round(const struct round *r, const int *status, uint64_t latest)
{
    bool gone = r->fault == KILL || r->fault == STOP;
    const char *text = NULL;
    int bad = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        if (gone && i == r->victim)
            continue;
        bad += check_rank(r, i, status[i], latest);
        if (text && !bad && !(gone && r->victim == 0) && !tt_streq(text, r->reports[i].text)) /* without rank 0 each judges alone */
            bad += round_complain(r, i, "not what the others were told");
        text = r->reports[i].text;
    }
    return bad;
}

/* Starts the job, makes the parent's faults; *ret_at is when the fault happened, *ret_phase where in the operation. */
static int play(struct round *r, uint64_t *ret_at, double *ret_phase, uint64_t *stalled)
{
    pid_t pid[RANKS];
    int status[RANKS] = {0};
    uint64_t limit = tt_now_ns() + LIMIT, at;
    uint16_t port = free_port();
    fflush(NULL);
    for (uint32_t i = 0; i < r->n; i++) {
        pid[i] = fork();
        if (pid[i] < 0)
            exit(2);
        if (pid[i] == 0)
            be_rank(i, r, port);
    }
    while ((at = round_moment(r)) == 0 && tt_now_ns() < limit && !any_ended())
        nap(50, stalled);
    if (at && r->fault < MISMATCH) {
        sleep_until(at);
        kill(pid[r->victim], r->fault == KILL ? SIGKILL : SIGSTOP);
        at = tt_now_ns();
    }
    *ret_at = at;
    *ret_phase = round_phase(r, at);
    bool over = await_ends(r, pid, limit, status, stalled);
    if (!over)
        printf("  FAILED: a rank hangs\n");
    return !over + check_round(r, status, (at ? at : limit) + TIMEOUT + SECOND);
}

static void plan_round(struct round *r, uint32_t number, uint32_t rounds)
{
    r->n = 2 + number / FAULTS % 3;
    r->fault = (enum fault)(number % FAULTS);
    r->count = number % 3 == 2 ? SHORT : LONG;
    r->tenths_of_percent = (number * 1000 + 500) / rounds;
    r->victim = (uint32_t)(tt_mix64(number) % r->n);
    r->split = r->n == 4 && number % 2;
    r->shared = number / 2 % 2;
}

static int try_round(uint32_t number, uint32_t rounds, uint64_t *stalled)
{
    struct round *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t at, last = 0;
    double phase;
    int shm = count_entries("/dev/shm", "tutti");
    if (r == MAP_FAILED)
        exit(2);
    plan_round(r, number, rounds);
    int bad = play(r, &at, &phase, stalled);
    for (uint32_t i = 0; i < r->n; i++)
        last = r->reports[i].failed_ns > last ? r->reports[i].failed_ns : last;
    printf("round %u: %s, %u ranks%s, %zu f32%s, %s rank %u at %.1f %% of %.3f ms: all knew after %.3f s\n", number, transport, r->n,
           r->split ? " in two groups" : "", r->count, r->shared ? " of ours" : "", faults[r->fault].name, r->victim, phase,
           (double)r->reports[r->victim].usual_ns / 1e6, last > at ? (double)(last - at) / 1e9 : 0.0);
    if (count_entries("/dev/shm", "tutti") != shm || waitpid(-1, NULL, WNOHANG) != -1) {
        printf("  FAILED: something is left in /dev/shm, or a process\n");
        bad++;
    }
    if (!bad)
        printf("  %s\n", r->reports[r->victim ? 0 : 1].text);
    fflush(stdout);
    munmap(r, sizeof *r);
    return bad;
}

static int run_round(uint32_t number, uint32_t rounds)
{
    uint64_t stalled = 0;
    int bad = try_round(number, rounds, &stalled);
    for (int i = 1; bad && stalled > STALLED && i < TRIES; i++) {
        printf("void: the machine stood still for %.3f s; again\n", (double)stalled / 1e9);
        stalled = 0;
        bad = try_round(number, rounds, &stalled);
    }
    return bad;
}

int main(int argc, char **argv)
{
    struct tutti_error err = {0};
    uint64_t rounds = 0, first = 0;
    int bad = 0;
    if (argc < 3 || argc > 4 || tt_parse_u64(argv[2], 1, 100000, &rounds, &err) ||
        (argc == 4 && tt_parse_u64(argv[3], 0, rounds - 1, &first, &err))) {
        fprintf(stderr, "usage: fault shm|ring|tcp ROUNDS [FIRST]\n%s\n", err.text);
        return 2;
    }
    transport = argv[1];
    for (uint64_t i = first; i < rounds; i++)
        bad += run_round((uint32_t)i, (uint32_t)rounds) != 0;
    printf("%llu rounds, %d failed\n", (unsigned long long)(rounds - first), bad);
    return bad != 0;
}
