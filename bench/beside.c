/* beside.c - how long short calls take on a communicator whose trainer works at the same time, and
 * how long the trainer's steps take beside them.
 *
 *     bench_beside LIBRARY TRANSPORT RANKS STEPS PAUSE_US PERIOD_US CACHE
 *
 * Every rank is a process with two threads of its own: one trains (8 tensors of 1 MB, a bucket
 * each, no computing, a step begins every PERIOD_US at most), the other sums 4 floats again and again,
 * with a pause of PAUSE_US between two calls:
 *
 *     alone     calls only            train     steps only            both     the two at once
 *
 * The library is loaded, so that two builds can be compared (bench/beside). All sums are checked.
 * Rank 0 prints one JSON object. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "library.h"

enum { TENSORS = 8, COUNT = 250000, WARM = 3, CALLS_MAX = 1 << 20, RANKS_MAX = 64 };

static struct {
    tutti_status (*open)(const struct tutti_comm_options *, struct tutti_comm **, struct tutti_error *);
    void (*close)(struct tutti_comm *);
    tutti_status (*allreduce)(struct tutti_comm *, const void *, void *, size_t, tutti_dtype, tutti_redop);
    tutti_status (*barrier)(struct tutti_comm *);
    tutti_status (*trainer_open)(struct tutti_comm *, const struct tutti_trainer_options *, struct tutti_trainer **, struct tutti_error *);
    tutti_status (*add)(struct tutti_trainer *, const struct tutti_tensor *, size_t *, struct tutti_error *);
    tutti_status (*freeze)(struct tutti_trainer *, struct tutti_error *);
    tutti_status (*ready)(struct tutti_trainer *, size_t);
    tutti_status (*step)(struct tutti_trainer *);
    tutti_status (*flush)(struct tutti_trainer *);
    void (*trainer_close)(struct tutti_trainer *);
} lib;

static struct tutti_comm *comm;
static struct tutti_trainer *trainer;
static uint32_t rank, ranks;
static unsigned pause_us, period_us, nsteps;
static float took[CALLS_MAX];
static size_t ncalls;
static atomic_bool trained;

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "bench_beside: rank %u: %s: %s\n", rank, what, why);
    exit(1);
}

static void must(tutti_status st, const char *what)
{
    if (st)
        give_up(what, "failed");
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        give_up(path, dlerror());
    find_symbol(library, "tutti_comm_open", &lib.open);
    find_symbol(library, "tutti_comm_close", &lib.close);
    find_symbol(library, "tutti_allreduce", &lib.allreduce);
    find_symbol(library, "tutti_barrier", &lib.barrier);
    find_symbol(library, "tutti_trainer_open", &lib.trainer_open);
    find_symbol(library, "tutti_trainer_add", &lib.add);
    find_symbol(library, "tutti_trainer_freeze", &lib.freeze);
    find_symbol(library, "tutti_trainer_grad_ready", &lib.ready);
    find_symbol(library, "tutti_trainer_step", &lib.step);
    find_symbol(library, "tutti_trainer_flush", &lib.flush);
    find_symbol(library, "tutti_trainer_close", &lib.trainer_close);
}

static void open_comm(const char *transport, uint16_t port)
{
    char place[32];
    struct tutti_comm_options o = {.size = sizeof o,
                                   .given = true,
                                   .rank = rank,
                                   .ranks = ranks,
                                   .local_rank = (int)rank,
                                   .rendezvous = place,
                                   .insecure = true,
                                   .transport = transport,
                                   .timeout_us = 60000000};
    struct tutti_error err = {0};
    snprintf(place, sizeof place, "127.0.0.1:%u", port);
    tutti_status st = lib.open(&o, &comm, &err);
    if (st == TUTTI_ERR_ARG) { /* a build from before plan, tuning, encrypt and checksum */
        o.size = offsetof(struct tutti_comm_options, plan);
        st = lib.open(&o, &comm, &err);
    }
    if (st)
        give_up("open", err.text);
}

static void open_trainer(void)
{
    struct tutti_trainer_options o = {.size = sizeof o, .policy = "bucket", .optimizer = TUTTI_OPTIMIZER_SGD, .threshold_bytes = 1000000};
    struct tutti_error err = {0};
    if (lib.trainer_open(comm, &o, &trainer, &err))
        give_up("trainer", err.text);
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        size_t index;
        struct tutti_tensor x = {.size = sizeof x, .name = name, .count = COUNT, .dtype = TUTTI_F32};
        snprintf(name, sizeof name, "t%d", i);
        if (lib.add(trainer, &x, &index, &err))
            give_up("tensor", err.text);
    }
    if (lib.freeze(trainer, &err))
        give_up("freeze", err.text);
}

static void step(void)
{
    for (size_t i = TENSORS; i-- > 0;)
        must(lib.ready(trainer, i), "ready");
    must(lib.step(trainer), "step");
    must(lib.flush(trainer), "flush");
}

/* Returns how long a step takes. */
static double train(void)
{
    double begun = now_us(), busy = 0;
    for (unsigned s = 0; s < nsteps; s++) {
        double from = now_us(), due = begun + (double)s * period_us;
        if (due > from) {
            usleep((unsigned)(due - from));
            from = now_us();
        }
        step();
        busy += now_us() - from;
    }
    atomic_store(&trained, true);
    return busy / nsteps;
}

/* Element 0 counts the ranks that have ended training (alone: have called often enough), so that
 * all make the same calls. */
static void call_until(bool alone)
{
    float in[4] = {0, 2, 3, 4}, out[4];
    for (ncalls = 0; ncalls < CALLS_MAX;) {
        in[0] = alone ? ncalls >= (pause_us ? 300 : 3000) : atomic_load(&trained);
        double from = now_us();
        must(lib.allreduce(comm, in, out, 4, TUTTI_F32, TUTTI_SUM), "all-reduce");
        took[ncalls++] = (float)(now_us() - from);
        if (out[1] != 2.0f * (float)ranks || out[3] != 4.0f * (float)ranks)
            give_up("all-reduce", "a wrong sum");
        if (out[0] >= (float)ranks)
            return;
        if (pause_us)
            usleep(pause_us);
    }
}

static void *call_beside(void *arg)
{
    (void)arg;
    call_until(false);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_calls(const char *name)
{
    qsort(took, ncalls, sizeof *took, by_size);
    if (rank == 0)
        printf("\"%s\": {\"calls\": %zu, \"p50_us\": %.2f, \"p90_us\": %.2f, \"p99_us\": %.2f}, ", name, ncalls, (double)took[ncalls / 2],
               (double)took[ncalls * 9 / 10], (double)took[ncalls * 99 / 100]);
}

static void run_rank(const char *transport, uint16_t port)
{
    pthread_t caller;
    open_comm(transport, port);
    if (rank == 0)
        printf("{");
    call_until(true);
    print_calls("alone");
    open_trainer();
    for (int i = 0; i < WARM; i++)
        step();
    must(lib.barrier(comm), "barrier");
    double train_us = train();
    atomic_store(&trained, false);
    must(lib.barrier(comm), "barrier");
    if (pthread_create(&caller, NULL, call_beside, NULL))
        give_up("thread", "cannot be started");
    double both_us = train();
    pthread_join(caller, NULL);
    print_calls("both");
    if (rank == 0)
        printf("\"step_us\": %.1f, \"step_beside_us\": %.1f}\n", train_us, both_us);
    must(lib.barrier(comm), "barrier");
    lib.trainer_close(trainer);
    lib.close(comm);
}

static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || getsockname(fd, (struct sockaddr *)&a, &len))
        give_up("port", "none is free");
    close(fd);
    return ntohs(a.sin_port);
}

int main(int argc, char **argv)
{
    bool failed = false;
    if (argc != 8 || (ranks = (uint32_t)atoi(argv[3])) < 1 || ranks > RANKS_MAX || (nsteps = (unsigned)atoi(argv[4])) < 1) {
        fprintf(stderr, "bench_beside LIBRARY TRANSPORT RANKS STEPS PAUSE_US PERIOD_US CACHE\n");
        return 2;
    }
    pause_us = (unsigned)atoi(argv[5]);
    period_us = (unsigned)atoi(argv[6]);
    setenv("XDG_CACHE_HOME", argv[7], 1);
    uint16_t port = free_port();
    for (uint32_t r = 0; r < ranks; r++) {
        rank = r;
        pid_t pid = fork();
        if (pid < 0)
            give_up("fork", "failed");
        if (pid == 0) {
            load(argv[1]);
            run_rank(argv[2], port);
            return 0;
        }
    }
    for (uint32_t r = 0; r < ranks; r++) {
        int status;
        wait(&status);
        failed = failed || status != 0;
    }
    return failed;
}
