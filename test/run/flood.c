/* flood.c [--rate R] [--runs N] [--seconds S]: a job of two ranks opens and runs while strangers come to rank 0's
 * port, R connections a second. Fails when a job does not open or a sum is wrong; prints how long opening took, and
 * calls over TCP took, beside the same without strangers.
 *
 *     none        nobody comes
 *     elsewhere   as many connections, to a listener of their own: what the strangers' own work costs this machine
 *     silent      connect and say nothing
 *     garbage     connect and send random bytes
 *     half        half a greeting
 *     greeting    a greeting as of rank 1, and no proof
 *     proof       a greeting and a wrong proof
 *     busy        nobody comes, but a process takes as much of a core as the costliest of the rows above, in pieces of
 *                 a millisecond: what a call would take if the strangers cost their CPU time and nothing else
 *
 * "cpu %" is the strangers' share of a core, "helpers" that of the ranks' threads which serve them (of the busier rank).
 * The strangers keep up to 2,000 connections open and close the oldest. The job has a key. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/boot_int.h"
#include "tutti/tutti.h"

enum { RANKS = 2, HELD = 2000, CALLS = 1 << 20, RUNS_MAX = 64 };
enum kind { NONE, ELSEWHERE, SILENT, GARBAGE, HALF, GREETING, PROOF, BUSY, KINDS };
static const char *const names[KINDS] = {"none", "elsewhere", "silent", "garbage", "half", "greeting", "proof", "busy"};

struct result {
    double open_ms, p50_us, p99_us, max_us;
    double switches; /* times that the kernel gave the rank's core to somebody else, a second */
    double helpers;  /* share of a core that threads of the library took, beside the caller's */
    double cpu;      /* share of a core that the strangers took */
    bool ok;
    struct tutti_error err;
};
static struct shared {
    _Atomic uint64_t strangers; /* connections so far */
    _Atomic uint32_t opened;    /* ranks that are open, whatever came of it */
    struct result ranks[RANKS];
} * shared;

static double rate = 5000, seconds = 1;
static double costliest; /* share of a core: strangers and helpers */
static int runs = 5;
static char key_file[] = "/tmp/tutti-flood-XXXXXX";

/* ---- strangers ---- */

static void say(int fd, enum kind kind, uint64_t n)
{
    struct tt_greeting g = {.version = TT_BOOT_PROTOCOL, .keyed = true, .kind = TT_CONN_MEET, .from = 1};
    uint8_t bytes[TT_GREETING + TT_PROOF];
    size_t len = kind == GARBAGE    ? sizeof(bytes)
                 : kind == HALF     ? TT_GREETING / 2
                 : kind == GREETING ? TT_GREETING
                 : kind == PROOF    ? sizeof(bytes)
                                    : 0;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)tt_mix64(n * 200 + i);
    memcpy(g.challenge, bytes, sizeof(g.challenge));
    if (kind != GARBAGE)
        tt_boot_greeting_write(&g, bytes);
    if (len)
        (void)!send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static _Noreturn void flood(enum kind kind, uint16_t port)
{
    static int held[HELD];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint64_t from = tt_now_ns();

    memset(held, -1, sizeof(held));
    for (uint64_t n = 0;; n++) {
        uint64_t due = from + (uint64_t)((double)n / rate * 1e9), now = tt_now_ns();
        int *fd = &held[n % HELD];
        if (due > now + 1000000)
            usleep((useconds_t)((due - now) / 1000));
        tt_boot_net_close(fd);
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (*fd >= 0 && connect(*fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS)
            tt_boot_net_close(fd);
        if (*fd >= 0)
            say(*fd, kind, n);
        atomic_fetch_add(&shared->strangers, 1);
    }
}

/* Accepts and closes: the strangers' other place to go. A thousand times a second, not for every
 * stranger: a process that wakes up 5,000 times a second takes the cores of the ranks for whole
 * slices. */
static _Noreturn void accept_elsewhere(int listener)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0)
            usleep(1000);
        tt_boot_net_close(&fd);
    }
}

/* Takes a share of a core. */
static _Noreturn void be_busy(double share)
{
    const uint64_t period = 1000000;
    for (uint64_t due = tt_now_ns();; due += period) {
        uint64_t now = tt_now_ns();
        if (due > now)
            usleep((useconds_t)((due - now) / 1000));
        for (now = tt_now_ns(); tt_now_ns() - now < (uint64_t)(share * (double)period);)
            ;
        atomic_fetch_add(&shared->strangers, (uint64_t)(rate / 1000)); /* the job waits for some */
    }
}

/* ---- the job ---- */

static double cpu_s(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) + (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec) * 1e-6;
}

/* CPU time of all threads but this one. */
static double others_s(void)
{
    struct rusage all, mine;
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &mine);
    return cpu_s(&all) - cpu_s(&mine);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static bool call_for(struct tutti_comm *c, struct result *r)
{
    float *took = calloc(CALLS, sizeof(*took)), stop = 0, all = 0;
    uint64_t begun = tt_now_ns(), until = begun + (uint64_t)(seconds * 1e9);
    struct rusage before, after;
    size_t n = 0;
    double others = others_s();

    getrusage(RUSAGE_SELF, &before);

    while (took && n < CALLS && all == 0) {
        float in[2] = {1, (float)n}, out[2] = {0};
        uint64_t from = tt_now_ns();
        if (tutti_allreduce(c, in, out, 2, TUTTI_F32, TUTTI_SUM) || out[0] != RANKS || out[1] != (float)(RANKS * n))
            break;
        took[n++] = (float)(tt_now_ns() - from) / 1000;
        stop = tt_now_ns() >= until || n == CALLS;
        if (n % 64 == 0 && tutti_allreduce(c, &stop, &all, 1, TUTTI_F32, TUTTI_MAX))
            break;
    }
    getrusage(RUSAGE_SELF, &after);
    r->switches = (double)(after.ru_nivcsw - before.ru_nivcsw) / ((double)(tt_now_ns() - begun) / 1e9);
    r->helpers = (others_s() - others) / ((double)(tt_now_ns() - begun) / 1e9);
    if (all > 0) {
        qsort(took, n, sizeof(*took), by_size);
        r->p50_us = took[n / 2];
        r->p99_us = took[n * 99 / 100];
        r->max_us = took[n - 1];
    }
    free(took);
    return all > 0;
}

static _Noreturn void run_rank(uint32_t rank, uint16_t port)
{
    char place[32];
    struct result *r = &shared->ranks[rank];
    struct tutti_comm_options o = {.size = sizeof(o),
                                   .given = true,
                                   .rank = rank,
                                   .ranks = RANKS,
                                   .local_rank = -1,
                                   .rendezvous = place,
                                   .key_file = key_file,
                                   .transport = "tcp",
                                   .timeout_us = 10000000};
    struct tutti_comm *c = NULL;
    uint64_t from = tt_now_ns();

    snprintf(place, sizeof(place), "127.0.0.1:%u", port);
    tutti_status st = tutti_comm_open(&o, &c, &r->err);
    r->open_ms = (double)(tt_now_ns() - from) / 1e6;
    atomic_fetch_add(&shared->opened, 1);
    r->ok = !st && call_for(c, r);
    if (!st && !r->ok)
        snprintf(r->err.text, sizeof(r->err.text), "%.400s", tutti_comm_last_error(c)->text);
    tutti_comm_close(c);
    _exit(0);
}

static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        exit(2);
    close(fd);
    return ntohs(a.sin_port);
}

/* Returns the CPU time that the process took. */
static double end(pid_t pid)
{
    struct rusage use = {0};
    if (pid > 0) {
        kill(pid, SIGKILL);
        wait4(pid, NULL, 0, &use);
    }
    return cpu_s(&use);
}

/* One job among strangers; *ret is the worse of its ranks. */
static bool run_once(enum kind kind, struct result *ret)
{
    uint16_t port = free_port(), target = port;
    pid_t strangers = 0, elsewhere = 0, ranks[RANKS];
    struct tt_listen at = {.addr_be = htonl(INADDR_LOOPBACK)};
    int listener = -1;
    uint64_t from = tt_now_ns();

    memset(shared, 0, sizeof(*shared));
    if (kind == ELSEWHERE && tt_boot_listen_open(&at, &listener, &target, NULL) != TUTTI_OK)
        return false;
    if (listener >= 0 && (elsewhere = fork()) == 0)
        accept_elsewhere(listener);
    tt_boot_net_close(&listener);
    if (kind != NONE && (strangers = fork()) == 0)
        kind == BUSY ? be_busy(costliest) : flood(kind, target);
    for (int i = 0; kind != NONE && shared->strangers < rate / 5 && i < 5000; i++)
        usleep(1000);
    for (uint32_t r = 0; r < RANKS; r++)
        if ((ranks[r] = fork()) == 0)
            run_rank(r, port);
    bool ok = true;
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct result *one = &shared->ranks[r];
        waitpid(ranks[r], NULL, 0);
        if (!one->ok)
            fprintf(stderr, "flood: %s: rank %u: %s\n", names[kind], r, one->err.text[0] ? one->err.text : "wrong sums");
        ok = ok && one->ok;
        ret->open_ms = one->open_ms > ret->open_ms ? one->open_ms : ret->open_ms;
        ret->p50_us = one->p50_us > ret->p50_us ? one->p50_us : ret->p50_us;
        ret->p99_us = one->p99_us > ret->p99_us ? one->p99_us : ret->p99_us;
        ret->max_us = one->max_us > ret->max_us ? one->max_us : ret->max_us;
        ret->switches = one->switches > ret->switches ? one->switches : ret->switches;
        ret->helpers = one->helpers > ret->helpers ? one->helpers : ret->helpers;
    }
    ret->cpu = (end(strangers) + end(elsewhere)) / ((double)(tt_now_ns() - from) / 1e9);
    return ok;
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_double);
    return v[n / 2];
}

static bool run_kind(enum kind kind)
{
    double open_ms[RUNS_MAX], p50[RUNS_MAX], p99[RUNS_MAX], switches[RUNS_MAX], cpu[RUNS_MAX], helpers[RUNS_MAX];
    double worst = 0, made = 0;
    bool ok = true;

    for (int i = 0; i < runs; i++) {
        struct result r = {0};
        uint64_t from = tt_now_ns();
        ok = run_once(kind, &r) && ok;
        open_ms[i] = r.open_ms;
        p50[i] = r.p50_us;
        p99[i] = r.p99_us;
        switches[i] = r.switches;
        cpu[i] = r.cpu;
        helpers[i] = r.helpers;
        worst = r.open_ms > worst ? r.open_ms : worst;
        made += (double)shared->strangers / ((double)(tt_now_ns() - from) / 1e9) / runs;
    }
    double strangers = median(cpu, runs), helping = median(helpers, runs);
    costliest = kind != BUSY && strangers + helping > costliest ? strangers + helping : costliest;
    printf("%-10s %10.0f %12.1f %12.1f %12.1f %12.1f %14.0f %8.1f %8.1f\n", names[kind], kind == BUSY ? 0 : made, median(open_ms, runs),
           worst, median(p50, runs), median(p99, runs), median(switches, runs), 100 * strangers, 100 * helping);
    fflush(stdout);
    return ok;
}

int main(int argc, char **argv)
{
    uint8_t key[32];
    bool ok = true;

    for (int i = 1; i + 1 < argc; i += 2) {
        double v = atof(argv[i + 1]);
        if (!strcmp(argv[i], "--rate"))
            rate = v;
        else if (!strcmp(argv[i], "--runs"))
            runs = v >= 1 && v <= RUNS_MAX ? (int)v : runs;
        else if (!strcmp(argv[i], "--seconds"))
            seconds = v;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = mkstemp(key_file);
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)tt_entropy();
    if (shared == MAP_FAILED || fd < 0 || write(fd, key, sizeof(key)) != sizeof(key))
        return 2;
    close(fd);
    printf("%-10s %10s %12s %12s %12s %12s %14s %8s %8s\n", "strangers", "per s", "open ms", "worst", "call us p50", "p99",
           "switches per s", "cpu %", "helpers");
    for (int kind = 0; kind < KINDS; kind++)
        ok = run_kind((enum kind)kind) && ok;
    unlink(key_file);
    return ok ? 0 : 1;
}
