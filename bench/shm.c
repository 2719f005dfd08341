/* Shared memory between processes of this host, without the layers above: what the transport and direct access cost by themselves.
 * Usage: bench_shm [RANKS [REPEATS]]      (default 2 ranks, 200 repeats; the best repeat is printed)
 * Prints the time of an all-reduce of doubles through boxes (tiny and staged), of a step (an empty box, a barrier), of a ring's half round
 * trip, and the rates of reading a peer's memory through the kernel and of reading its heap in place. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/direct.h"
#include "transport/transport.h"

enum { STAGE = 64 << 10, RING = 1 << 20, BIG = 4 << 20 };
static const uint64_t MINUTE = 60000000000;

struct rank {
    uint32_t me, n, repeats;
    struct tt_direct *direct;
    struct tt_boxes *boxes;
    struct tt_transport *shm;
    bool oversubscribed;
    uint64_t peer_heap; /* an address in the next rank */
};

static void die(const char *what)
{
    fprintf(stderr, "bench_shm: %s\n", what);
    _exit(1);
}

static void *region(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!bytes || p == MAP_FAILED)
        die("no memory");
    return p;
}

static void sum(double *to, const void *const *from, uint32_t n, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *to; i++) {
        double x = ((const double *)from[0])[i];
        for (uint32_t r = 1; r < n; r++)
            x += ((const double *)from[r])[i];
        to[i] = x;
    }
}

/* Reads it all: memory that nobody looks at has no cost worth printing. */
static void use(const uint64_t *p, size_t bytes)
{
    uint64_t x = 0;

    for (size_t i = 0; i < bytes / sizeof *p; i++)
        x += p[i];
    __asm__ volatile("" : : "r"(x));
}

static const void *const *exchange(struct rank *k, const void *in, size_t bytes)
{
    const void *const *all;
    struct tt_boxes_blame blame;
    tutti_status status;

    tt_direct_boxes_put(k->boxes, in, bytes, bytes);
    while ((status = tt_direct_boxes_get(k->boxes, &all, &blame)) == TUTTI_IN_PROGRESS)
        if (k->oversubscribed)
            sched_yield();
    if (status)
        die("an exchange failed");
    return all;
}

static void step(struct rank *k)
{
    exchange(k, NULL, 0);
}

static void run_reduce(struct rank *k, size_t bytes)
{
    static double in[STAGE / 8], out[STAGE / 8];

    in[0] += 1;
    sum(out, exchange(k, in, bytes), k->n, bytes);
    if (out[0] != in[0] * k->n)
        die("a reduction is wrong");
}

static void run_step(struct rank *k, size_t bytes)
{
    (void)bytes;
    step(k);
}

/* Ranks 0 and 1 exchange; the others are idle. */
static void run_ping_pong(struct rank *k, size_t bytes)
{
    static char buf[RING / 2];
    struct tt_tag tag = {.request = 1};
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};
    struct tt_event ev;

    for (uint32_t turn = 0; turn < 2 && k->me < 2; turn++)
        if (turn == k->me) {
            if (k->shm->ops->send(k->shm, 1 - k->me, &tag, &iov, 1, 0))
                die("a send failed");
        } else {
            while (k->shm->ops->poll(k->shm, &ev, 1) == 0)
                k->shm->ops->wait(k->shm, UINT64_MAX);
            use(ev.data, ev.bytes);
            k->shm->ops->release(k->shm, &ev);
        }
}

static char *heap;

static void run_heap(struct rank *k, size_t bytes)
{
    uint32_t peer = (k->me + 1) % k->n;

    use(tt_direct_resolve(k->direct, peer, k->peer_heap, bytes), bytes);
}

typedef void body_fn(struct rank *k, size_t bytes);

/* The best of the repeats, per round, in nanoseconds. */
static double measure(struct rank *k, body_fn *body, size_t bytes, uint32_t rounds)
{
    double best = 1e30;

    for (uint32_t rep = 0; rep < k->repeats; rep++) {
        step(k);
        uint64_t start = tt_now_ns();
        for (uint32_t i = 0; i < rounds; i++)
            body(k, bytes);
        double ns = (double)(tt_now_ns() - start) / rounds;
        best = ns < best ? ns : best;
    }
    step(k);
    return best;
}

static void report(struct rank *k, const char *what, body_fn *body, size_t bytes, uint32_t rounds)
{
    double ns = measure(k, body, bytes, rounds);

    if (body == run_ping_pong)
        ns /= 2;
    if (k->me == 0)
        printf("%-34s %9zu B %12.3f us %9.2f GB/s\n", what, bytes, ns / 1e3, (double)bytes / ns);
}

static void bench(struct rank *k)
{
    uint32_t rounds = k->n > 2 ? 200 : 1000; /* short repeats: on a busy machine one of them is left alone */
    uint64_t mine[1] = {(uintptr_t)heap};
    const uint64_t *theirs = exchange(k, mine, sizeof mine)[(k->me + 1) % k->n];

    k->peer_heap = theirs[0];
    for (size_t bytes = 8; bytes <= STAGE; bytes = bytes == 8          ? 48
                                                   : bytes == 48       ? 112
                                                   : bytes == 112      ? 512
                                                   : bytes * 8 > STAGE ? bytes * 2
                                                                       : bytes * 8)
        report(k, bytes <= TT_DIRECT_TINY ? "all-reduce, tiny" : "all-reduce, staged", run_reduce, bytes,
               bytes > 4096 ? rounds / 10 : rounds);
    report(k, "step (barrier)", run_step, 0, rounds);
    for (size_t bytes = 8; bytes <= RING / 4; bytes *= 32)
        report(k, "ring, half round trip", run_ping_pong, bytes, bytes > 8192 ? rounds / 50 : rounds);
    if (tt_direct_has_heap(k->direct))
        report(k, "read a peer's heap, all at once", run_heap, BIG, 1);
}

/* One rank per core, as launchers bind them: two ranks that share a core of a busy machine would measure its scheduler. */
static void bind_to_core(uint32_t core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void run_rank(struct rank *k, void *direct_region, void *shm_region)
{
    uint32_t local[64];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct tutti_error err;

    k->oversubscribed = k->n > (uint32_t)cores;
    if (!k->oversubscribed)
        bind_to_core(k->me);
    for (uint32_t i = 0; i < k->n; i++)
        local[i] = i;
    struct tt_direct_config dc = {.nlocal = k->n,
                                  .me = k->me,
                                  .region = direct_region,
                                  .stage_bytes = STAGE,
                                  .oversubscribed = k->oversubscribed,
                                  .deadline_ns = tt_now_ns() + MINUTE};
    struct tt_shm_config sc = {.rank = k->me,
                               .size = k->n,
                               .nlocal = k->n,
                               .me = k->me,
                               .local = local,
                               .region = shm_region,
                               .ring_bytes = RING,
                               .oversubscribed = k->oversubscribed};
    struct tt_boxes_config bc = {.n = k->n, .me = k->me, .places = local, .key = 1};
    if (tt_direct_open(&dc, &k->direct, &err) || tt_shm_open(&sc, &k->shm, &err) || tt_direct_boxes_open(k->direct, &bc, &k->boxes, &err))
        die(err.text);
    heap = tt_direct_heap_alloc(k->direct, BIG);
    if (heap)
        memset(heap, 1, BIG);
    bench(k);
    step(k);
    k->shm->ops->close(k->shm);
    tt_direct_close(k->direct);
}

int main(int argc, char **argv)
{
    struct rank k = {.n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2,
                     .repeats = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 200};
    int bad = 0, status;

    if (k.n < 2 || k.n > 64 || !k.repeats) {
        fprintf(stderr, "usage: bench_shm [RANKS [REPEATS]]   2 to 64 ranks\n");
        return 2;
    }
    void *direct_region = region(tt_direct_bytes(k.n, STAGE, 0)), *shm_region = region(tt_shm_bytes(k.n, RING));
    printf("# %u ranks on %ld cores (bound when there is one for each), best of %u\n", k.n, sysconf(_SC_NPROCESSORS_ONLN), k.repeats);
    fflush(stdout);
    for (k.me = 1; k.me < k.n; k.me++)
        if (fork() == 0) {
            run_rank(&k, direct_region, shm_region);
            _exit(0);
        }
    k.me = 0;
    run_rank(&k, direct_region, shm_region);
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
