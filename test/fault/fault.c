/* fault.c - breaks one rank of a running job and checks what the others are told.
 *
 *     fault TRANSPORT ROUNDS [FIRST]        TRANSPORT is shm, ring (messages through shared memory) or tcp
 *
 * Every round starts a job of 2 to 4 real processes that all-reduce in a loop. When the operation to be broken begins, one rank is killed,
 * is stopped, calls something else, does not call at all, or aborts, at a moment that moves evenly through the operation's measured
 * duration from round to round (the line printed for the round says where it fell). Then every other rank must return, within the deadline
 * plus one second, an error that names that rank, its process, the request and the class; must answer the next call with the same error;
 * must have computed right sums until then; and must leave no thread, descriptor, shared-memory file or process behind. */
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"

enum { RANKS = 4, WARM = 6, BREAK = 9, LONG = 1 << 20, SHORT = 16 };
#define SECOND  UINT64_C(1000000000)
#define TIMEOUT (SECOND * 3 / 2)
#define LIMIT   (30 * SECOND) /* a round that takes longer hangs */

void __tsan_init(void) __attribute__((weak)); /* that sanitizer has a thread of its own */

enum fault { KILL, STOP, MISMATCH, LATE, ABORT, FAULTS };
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

/* What a rank leaves for the parent. */
struct report {
    _Atomic uint64_t started_ns; /* when the operation to be broken began here */
    _Atomic uint64_t usual_ns;   /* what one takes */
    uint64_t failed_ns;
    tutti_status opened, status, again;
    char text[504], text_again[504];
    bool wrong;
    int fds, threads; /* more than before */
    _Atomic bool done;
};
struct round {
    uint32_t n, victim;
    bool split; /* even and odd ranks reduce apart */
    size_t count;
    enum fault fault;
    uint32_t tenths_of_percent; /* of the operation's duration */
    const char *transport;
    uint16_t port;
    struct report *reports; /* shared */
};

/* ---- one rank ---- */

/* Files whose name contains `part`. */
static int entries(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int n = 0;
    if (!d)
        return -1;
    while ((e = readdir(d)))
        n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

/* Threads more than there should be. One that has been joined may stay in the list for a moment. */
static int threads_left(int expected)
{
    int left = 1;
    for (int i = 0; left > 0 && i < 1000; i++) {
        left = entries("/proc/self/task", "") - expected;
        if (left > 0)
            usleep(1000);
    }
    return left;
}

static tutti_status reduce(struct tt_comm *c, const float *in, float *out, size_t count)
{
    struct tt_call call = {.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = count, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
    return tt_comm_run(c, &call);
}

/* Rank i gives i + 1. */
static bool right(const float *out, const struct round *r, uint32_t rank)
{
    float sum = 0;
    for (uint32_t i = 0; i < r->n; i++)
        sum += !r->split || i % 2 == rank % 2 ? (float)(i + 1) : 0;
    for (size_t i = 0; i < r->count; i++)
        if (out[i] != sum)
            return false;
    return true;
}

static void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

/* When the fault shall happen: measured from the moment the last rank entered. 0: not known yet. */
static uint64_t moment(const struct round *r)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t t = atomic_load(&r->reports[i].started_ns);
        if (t == 0)
            return 0;
        last = t > last ? t : last;
    }
    return last + atomic_load(&r->reports[r->victim].usual_ns) * r->tenths_of_percent / 1000;
}

/* The faults a rank makes itself; the others are the parent's. */
static tutti_status misbehave(struct tt_comm *c, const struct round *r, const float *in, float *out)
{
    uint64_t at;
    if (r->fault < MISMATCH)
        return reduce(c, in, out, r->count);
    while ((at = moment(r)) == 0)
        usleep(100);
    sleep_until(r->fault == LATE ? at + TIMEOUT + SECOND / 2 : at);
    if (r->fault == ABORT)
        tt_comm_abort(c, "because the test says so");
    return reduce(c, in, out, r->fault == MISMATCH ? r->count / 2 : r->count);
}

/* Until something fails. */
static tutti_status work(struct tt_comm *c, uint32_t me, const struct round *r, const float *in, float *out)
{
    struct report *rep = &r->reports[me];
    tutti_status st = TUTTI_OK;
    uint64_t from = tt_now_ns(), until = from + LIMIT / 2;
    for (uint64_t i = 0; !st && tt_now_ns() < until; i++) {
        if (i == WARM)
            from = tt_now_ns();
        if (i == BREAK) {
            atomic_store(&rep->usual_ns, (tt_now_ns() - from) / (BREAK - WARM));
            atomic_store(&rep->started_ns, tt_now_ns());
        }
        memset(out, 0, r->count * sizeof *out);
        st = i == BREAK && me == r->victim ? misbehave(c, r, in, out) : reduce(c, in, out, r->count);
        rep->wrong = rep->wrong || (!st && !right(out, r, me));
    }
    return st;
}

static void fill_config(const struct round *r, uint32_t rank, struct tt_comm_config *c)
{
    *c = (struct tt_comm_config){.timeout_ns = TIMEOUT, .boot = {.rank = rank, .size = r->n, .local_rank = (int)rank}};
    c->boot.timeout_ns = 10 * SECOND;
    c->transport = tt_streq(r->transport, "tcp") ? "tcp" : NULL;
    c->algo = tt_streq(r->transport, "ring") ? "ring" : NULL;
    snprintf(c->boot.rendezvous, sizeof c->boot.rendezvous, "127.0.0.1:%u", r->port);
}

static void run_job(struct tt_comm *world, uint32_t rank, const struct round *r)
{
    struct report *rep = &r->reports[rank];
    struct tutti_error err = {0};
    float *in = malloc(LONG * sizeof *in), *out = malloc(LONG * sizeof *out);
    struct tt_comm *c = world;
    rep->opened = in && out ? TUTTI_OK : TUTTI_ERR_MEMORY;
    if (!rep->opened && r->split)
        rep->opened = tt_comm_split(world, (int)rank % 2, 0, &c, &err);
    for (size_t i = 0; in && i < LONG; i++)
        in[i] = (float)(rank + 1);
    if (!rep->opened) {
        rep->status = work(c, rank, r, in, out);
        rep->failed_ns = tt_now_ns();
        snprintf(rep->text, sizeof rep->text, "%s", tt_comm_last_error(c)->text);
        rep->again = reduce(world, in, out, 1);
        snprintf(rep->text_again, sizeof rep->text_again, "%s", tt_comm_last_error(world)->text);
        if (r->split)
            tt_comm_close(c);
    } else {
        snprintf(rep->text, sizeof rep->text, "%s", err.text);
    }
    free(in);
    free(out);
}

static void be_rank(uint32_t rank, const struct round *r)
{
    struct report *rep = &r->reports[rank];
    struct tt_comm_config config;
    struct tutti_error err = {0};
    struct tt_comm *c;
    int fds = entries("/proc/self/fd", ""), threads = entries("/proc/self/task", "");
    fill_config(r, rank, &config);
    rep->opened = tt_comm_open(&config, &c, &err);
    snprintf(rep->text, sizeof rep->text, "%s", err.text);
    if (!rep->opened) {
        run_job(c, rank, r);
        tt_comm_close(c);
    }
    rep->fds = entries("/proc/self/fd", "") - fds;
    rep->threads = threads_left(threads + (__tsan_init != NULL));
    atomic_store(&rep->done, true);
    exit(rep->opened != TUTTI_OK); /* with leak check */
}

/* ---- the parent ---- */

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
static bool await_ends(const struct round *r, const pid_t *pid, uint64_t limit, int *status)
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
        usleep(1000);
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (!ended[i]) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status[i], 0);
        }
    return left == 0;
}

static int complain(const struct round *r, uint32_t rank, const char *what)
{
    const struct report *rep = &r->reports[rank];
    printf("  FAILED rank %u: %s (opened %d, status %d, again %d): %s\n", rank, what, rep->opened, rep->status, rep->again, rep->text);
    return 1;
}

/* What rank was told about the fault that happened at `at`. */
static int check_rank(const struct round *r, uint32_t rank, pid_t victim, int status, uint64_t at)
{
    const struct report *rep = &r->reports[rank];
    char who[64], pid[32];
    snprintf(who, sizeof who, "rank %u (host ", r->victim);
    snprintf(pid, sizeof pid, "pid %d)", (int)victim);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !atomic_load(&rep->done))
        return complain(r, rank, "it did not end by itself");
    if (rep->wrong)
        return complain(r, rank, "WRONG NUMBERS");
    if (rep->status != faults[r->fault].status || !strstr(rep->text, faults[r->fault].says))
        return complain(r, rank, "another class");
    /* without a majority either of two ranks may be the one that differs */
    bool either = r->fault == MISMATCH && (r->n == 2 || r->split);
    if (!either && (!strstr(rep->text, who) || !strstr(rep->text, pid)))
        return complain(r, rank, "another culprit");
    if (r->fault != ABORT && !strstr(rep->text, "request "))
        return complain(r, rank, "no request");
    /* the deadline counts from the last sign of progress: what was under way when the fault happened may still arrive */
    if (rep->failed_ns > at + atomic_load(&rep->usual_ns) + TIMEOUT + SECOND)
        return complain(r, rank, "later than the deadline and a second");
    if (rep->again != rep->status || !tt_streq(rep->text, rep->text_again))
        return complain(r, rank, "the next call says something else");
    if (rep->fds)
        return complain(r, rank, "it left descriptors");
    if (rep->threads > 0)
        return complain(r, rank, "it left threads");
    return 0;
}

static int check_round(const struct round *r, const pid_t *pid, const int *status, uint64_t at)
{
    bool gone = r->fault == KILL || r->fault == STOP;
    const char *text = NULL;
    int bad = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        if (gone && i == r->victim)
            continue;
        bad += check_rank(r, i, pid[r->victim], status[i], at);
        if (text && !bad && !(gone && r->victim == 0) && !tt_streq(text, r->reports[i].text)) /* without rank 0 each judges alone */
            bad += complain(r, i, "not what the others were told");
        text = r->reports[i].text;
    }
    return bad;
}

/* Starts the job, makes the parent's faults; *ret_at is when the fault happened, *ret_took when the last one ended after it. */
static int play(const struct round *r, uint64_t *ret_at, double *ret_phase)
{
    pid_t pid[RANKS];
    int status[RANKS] = {0};
    uint64_t limit = tt_now_ns() + LIMIT, at;
    fflush(NULL);
    for (uint32_t i = 0; i < r->n; i++) {
        pid[i] = fork();
        if (pid[i] < 0)
            exit(2);
        if (pid[i] == 0)
            be_rank(i, r);
    }
    while ((at = moment(r)) == 0 && tt_now_ns() < limit && !any_ended())
        usleep(50);
    if (at && r->fault < MISMATCH) {
        sleep_until(at);
        kill(pid[r->victim], r->fault == KILL ? SIGKILL : SIGSTOP);
        at = tt_now_ns();
    }
    uint64_t usual = atomic_load(&r->reports[r->victim].usual_ns);
    *ret_at = at;
    *ret_phase = at && usual ? 100 * ((double)at - (double)moment(r)) / (double)usual + r->tenths_of_percent / 10.0 : -1;
    bool over = await_ends(r, pid, limit, status);
    if (!over)
        printf("  FAILED: a rank hangs\n");
    return !over + check_round(r, pid, status, at ? at : limit);
}

static int run_round(uint32_t number, uint32_t rounds, const char *transport)
{
    struct report *reports = mmap(NULL, RANKS * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct round r = {.n = 2 + number / FAULTS % 3,
                      .fault = (enum fault)(number % FAULTS),
                      .count = number % 3 == 2 ? SHORT : LONG,
                      .tenths_of_percent = (number * 1000 + 500) / rounds,
                      .transport = transport,
                      .port = free_port(),
                      .reports = reports};
    uint64_t at, last = 0;
    double phase;
    int shm = entries("/dev/shm", "tutti");
    if (reports == MAP_FAILED)
        exit(2);
    r.victim = (uint32_t)(tt_mix64(number) % r.n);
    r.split = r.n == 4 && number % 2;
    int bad = play(&r, &at, &phase);
    for (uint32_t i = 0; i < r.n; i++)
        last = reports[i].failed_ns > last ? reports[i].failed_ns : last;
    printf("round %u: %s, %u ranks%s, %zu f32, %s rank %u at %.1f %% of %.3f ms: all knew after %.3f s\n", number, transport, r.n,
           r.split ? " in two groups" : "", r.count, faults[r.fault].name, r.victim, phase, (double)reports[r.victim].usual_ns / 1e6,
           last > at ? (double)(last - at) / 1e9 : 0.0);
    if (entries("/dev/shm", "tutti") != shm || waitpid(-1, NULL, WNOHANG) != -1) {
        printf("  FAILED: something is left in /dev/shm, or a process\n");
        bad++;
    }
    if (!bad)
        printf("  %s\n", reports[r.victim ? 0 : 1].text);
    fflush(stdout);
    munmap(reports, RANKS * sizeof *reports);
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
    for (uint64_t i = first; i < rounds; i++)
        bad += run_round((uint32_t)i, (uint32_t)rounds, argv[1]) != 0;
    printf("%llu rounds, %d failed\n", (unsigned long long)(rounds - first), bad);
    return bad != 0;
}
