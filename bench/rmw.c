/* The yardstick for large all-reduces in shared memory: how fast all cores together read, change and write memory in place. One pinned
 * thread per core adds a constant to every float of its own buffer of 4 x the last-level cache (so that nothing stays in it), pass after
 * pass. Every byte is read once and written once, hence 2 x bytes per pass; an in-place all-reduce of S bytes on p ranks likewise must read
 * and write p x S, so 2pS/T compares with it. Plain stores (the line is in the cache already), ordinary pages (what malloc gives by
 * default). Prints JSON: the best of the rounds, 10^9 bytes/s.
 *
 * Usage: bench_rmw [BYTES_PER_CORE] */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CORES = 1024, ROUNDS = 5 };

typedef float vec __attribute__((vector_size(64), aligned(64)));

struct core {
    pthread_t thread;
    int cpu;
    size_t bytes;
    pthread_barrier_t *together;
    double seconds[ROUNDS]; /* from the common start to this core's end */
    int failed;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline __attribute__((always_inline)) void add_body(vec *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] += 1;
}

static void add_plain(vec *v, size_t n)
{
    add_body(v, n);
}

#ifdef __x86_64__
static __attribute__((target("avx512f"))) void add_wide(vec *v, size_t n)
{
    add_body(v, n);
}

static __attribute__((target("avx2"))) void add_half_wide(vec *v, size_t n)
{
    add_body(v, n);
}
#endif

/* With the widest vectors of this processor: they reach a little more, and a yardstick must not be short. */
static void add(vec *v, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        add_wide(v, n);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        add_half_wide(v, n);
        return;
    }
#endif
    add_plain(v, n);
}

static void *work(void *ctx)
{
    struct core *c = ctx;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)c->cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    vec *v = aligned_alloc(sizeof *v, c->bytes);
    c->failed = !v;
    if (v) /* warms up, and places the pages near this core */
        memset(v, 0, c->bytes);
    for (int r = 0; r < ROUNDS; r++) {
        pthread_barrier_wait(c->together);
        double t0 = now();
        if (v)
            add(v, c->bytes / sizeof *v);
        c->seconds[r] = now() - t0;
    }
    free(v);
    return NULL;
}

/* The largest cache that the first core knows of. */
static size_t last_level_cache(void)
{
    size_t most = 0;
    for (int i = 0; i < 8; i++) {
        char path[96], unit = 0;
        size_t n = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *f = fopen(path, "r");
        if (!f)
            break;
        if (fscanf(f, "%zu%c", &n, &unit) == 2)
            n <<= unit == 'M' ? 20 : unit == 'K' ? 10 : 0;
        fclose(f);
        most = n > most ? n : most;
    }
    return most ? most : (size_t)32 << 20;
}

static double best_rate(const struct core *cores, int n)
{
    double best = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double slowest = 0;
        for (int i = 0; i < n; i++)
            slowest = cores[i].seconds[r] > slowest ? cores[i].seconds[r] : slowest;
        double rate = 2e-9 * (double)cores[0].bytes * n / slowest;
        best = rate > best ? rate : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    static struct core cores[MAX_CORES];
    cpu_set_t allowed;
    pthread_barrier_t together;
    size_t llc = last_level_cache(), bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 4 * llc) & ~(sizeof(vec) - 1);
    int n = 0, failed = bytes == 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0;
    for (int cpu = 0; !failed && cpu < MAX_CORES && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &allowed))
            cores[n++] = (struct core){.cpu = cpu, .bytes = bytes, .together = &together};
    if (failed || pthread_barrier_init(&together, NULL, (unsigned)n) != 0) {
        fprintf(stderr, "bench_rmw: cannot start\n");
        return 2;
    }
    for (int i = 0; i < n; i++)
        if (pthread_create(&cores[i].thread, NULL, work, &cores[i]) != 0) {
            fprintf(stderr, "bench_rmw: cannot start a thread\n");
            return 2; /* ends the threads that wait for it */
        }
    for (int i = 0; i < n; i++) {
        pthread_join(cores[i].thread, NULL);
        failed |= cores[i].failed;
    }
    if (failed) {
        fprintf(stderr, "bench_rmw: out of memory\n");
        return 2;
    }
    printf("{\"cores\": %d, \"llc_bytes\": %zu, \"bytes_per_core\": %zu, \"rmw_GBs\": %.3f}\n", n, llc, bytes, best_rate(cores, n));
    return 0;
}
