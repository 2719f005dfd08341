/* turns.c - two builds of the library in the same processes, which take turns (bench/builds).
 *
 * Every rank loads both libraries and opens a communicator of each. A turn is a block of calls of
 * one build; a pair is a turn of each, in the other order than the pair before:
 *
 *     old new | new old | old new | ...     a block: barrier, one call that does not count, calls
 *
 * So both builds see the same machine a few milliseconds apart, the same processes and, where
 * memory is ordinary, the same buffers: what differs is the library. Before the turns of a size
 * each build's result is compared with the right one, element by element.
 *
 *     bench_turns OLD.so NEW.so COLL RANKS MEM ALGO TOPO BLOCK_US PAIRS CACHE SIZE...
 *
 *     bench_turns copy RANKS BYTES
 *
 * The second form prints how many microseconds RANKS processes need that copy BYTES bytes each at
 * the same time. MEM is malloc or tutti, with +fresh if the input is written anew before each call;
 * ALGO and TOPO may be "-"; CACHE is a folder in which each build keeps what it measured. Ranks are
 * processes of this program; with BENCH_TRACE the second communicator has TUTTI_TRACE of that value
 * (bench/tracing); with TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK and TUTTI_RENDEZVOUS set
 * it is one of them itself. Rank 0 prints one JSON object per size. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "library.h"

enum { BUILDS = 2, PAIRS_MAX = 1000, PAIRS_MIN = 6, RANKS_MAX = 64, TIMEOUT_US = 60000000 };

struct build {
    tutti_status (*open)(const struct tutti_comm_options *, struct tutti_comm **, struct tutti_error *);
    void (*close)(struct tutti_comm *);
    const struct tutti_error *(*last_error)(const struct tutti_comm *);
    tutti_status (*mem_alloc)(struct tutti_comm *, size_t, void **, struct tutti_error *);
    void (*mem_free)(struct tutti_comm *, void *);
    tutti_status (*barrier)(struct tutti_comm *);
    tutti_status (*allreduce)(struct tutti_comm *, const void *, void *, size_t, tutti_dtype, tutti_redop);
    tutti_status (*reduce_scatter)(struct tutti_comm *, const void *, void *, size_t, tutti_dtype, tutti_redop);
    tutti_status (*all_gather)(struct tutti_comm *, const void *, void *, size_t, tutti_dtype);
    struct tutti_comm *comm;
    float *in, *out;
    double us[PAIRS_MAX]; /* time of a call, by pair; of the slowest rank once all have met */
};

struct run {
    struct build build[BUILDS];
    const char *coll, *cache, *algo, *topo;
    bool own;   /* buffers of tutti_mem_alloc */
    bool fresh; /* the input is written anew before each call, as programs do, outside its time */
    uint32_t rank, ranks, local_rank;
    char host[64];
    int port; /* of the first build; the second has the next one */
    double block_us;
    uint32_t pairs;
    size_t count; /* elements of the whole vector */
};

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "bench_turns: %s: %s\n", what, why);
    exit(1);
}

/* ---- the two libraries ---- */

static void load(struct build *b, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        give_up(path, dlerror());
    find_symbol(library, "tutti_comm_open", &b->open);
    find_symbol(library, "tutti_comm_close", &b->close);
    find_symbol(library, "tutti_comm_last_error", &b->last_error);
    find_symbol(library, "tutti_mem_alloc", &b->mem_alloc);
    find_symbol(library, "tutti_mem_free", &b->mem_free);
    find_symbol(library, "tutti_barrier", &b->barrier);
    find_symbol(library, "tutti_allreduce", &b->allreduce);
    find_symbol(library, "tutti_reduce_scatter", &b->reduce_scatter);
    find_symbol(library, "tutti_all_gather", &b->all_gather);
}

/* Each build keeps its figures in a folder of its own. */
static void open_build(struct run *r, int which)
{
    struct build *b = &r->build[which];
    char cache[4096], rendezvous[96];
    snprintf(cache, sizeof cache, "%s/%d", r->cache, which);
    snprintf(rendezvous, sizeof rendezvous, "%s:%d", r->host, r->port + which);
    mkdir(cache, 0700);
    setenv("XDG_CACHE_HOME", cache, 1);
    const char *trace = getenv("BENCH_TRACE");
    if (which == 1 && trace)
        setenv("TUTTI_TRACE", trace, 1);
    struct tutti_comm_options o = {.size = sizeof o,
                                   .given = true,
                                   .rank = r->rank,
                                   .ranks = r->ranks,
                                   .local_rank = (int)r->local_rank,
                                   .rendezvous = rendezvous,
                                   .insecure = true,
                                   .topo = r->topo,
                                   .algo = r->algo,
                                   .timeout_us = TIMEOUT_US};
    struct tutti_error err = {0};
    tutti_status st = b->open(&o, &b->comm, &err);
    if (st == TUTTI_ERR_ARG) { /* a build from before plan, tuning, encrypt and checksum */
        o.size = offsetof(struct tutti_comm_options, plan);
        st = b->open(&o, &b->comm, &err);
    }
    if (st)
        give_up("open", err.text);
}

static void must(const struct build *b, tutti_status st)
{
    if (st)
        give_up("call", b->last_error(b->comm)->text);
}

static size_t block(const struct run *r)
{
    return r->count / r->ranks;
}

static tutti_status call(const struct run *r, const struct build *b)
{
    if (!strcmp(r->coll, "allreduce"))
        return b->allreduce(b->comm, b->in, b->out, r->count, TUTTI_F32, TUTTI_SUM);
    if (!strcmp(r->coll, "reduce-scatter"))
        return b->reduce_scatter(b->comm, b->in, b->out, block(r), TUTTI_F32, TUTTI_SUM);
    return b->all_gather(b->comm, b->in, b->out, block(r), TUTTI_F32);
}

/* ---- data ---- */

static float *get_memory(const struct run *r, const struct build *b, size_t elems)
{
    struct tutti_error err = {0};
    void *p = r->own ? NULL : malloc(elems * sizeof(float));
    if (r->own && b->mem_alloc(b->comm, elems * sizeof(float), &p, &err))
        give_up("memory", err.text);
    if (!p)
        give_up("memory", "none left");
    return p;
}

/* Ordinary memory is the same for both builds. */
static void get_buffers(struct run *r)
{
    bool in_part = !strcmp(r->coll, "all-gather"), out_part = !strcmp(r->coll, "reduce-scatter");
    for (int i = 0; i < BUILDS; i++) {
        struct build *b = &r->build[i];
        b->in = i && !r->own ? r->build[0].in : get_memory(r, b, in_part ? block(r) : r->count);
        b->out = i && !r->own ? r->build[0].out : get_memory(r, b, out_part ? block(r) : r->count);
    }
}

static void free_buffers(struct run *r)
{
    for (int i = 0; i < BUILDS; i++) {
        struct build *b = &r->build[i];
        if (r->own) {
            b->mem_free(b->comm, b->in);
            b->mem_free(b->comm, b->out);
        } else if (i == 0) {
            free(b->in);
            free(b->out);
        }
    }
}

/* Small integers: every order of summing gives the same float. */
static float value(uint32_t rank, size_t i)
{
    return (float)((i * 7 + rank * 13) % 61);
}

static float right(const struct run *r, size_t i)
{
    float sum = 0;
    if (!strcmp(r->coll, "all-gather"))
        return value((uint32_t)(i / block(r)), i % block(r));
    if (!strcmp(r->coll, "reduce-scatter"))
        i += r->rank * block(r);
    for (uint32_t q = 0; q < r->ranks; q++)
        sum += value(q, i);
    return sum;
}

static void compare(const struct run *r, int which)
{
    const struct build *b = &r->build[which];
    size_t in = strcmp(r->coll, "all-gather") ? r->count : block(r), out = strcmp(r->coll, "reduce-scatter") ? r->count : block(r);
    for (size_t i = 0; i < in; i++)
        b->in[i] = value(r->rank, i);
    memset(b->out, 0x5a, out * sizeof(float));
    must(b, call(r, b));
    for (size_t i = 0; i < out; i++)
        if (b->out[i] != right(r, i))
            give_up(which ? "new" : "old", "WRONG RESULTS");
}

/* ---- turns ---- */

/* One call on new input: what peers have of the old one in their caches is of no use to them. */
static double fresh_call(const struct run *r, const struct build *b)
{
    size_t n = strcmp(r->coll, "all-gather") ? r->count : block(r);
    for (size_t i = 0; i < n; i++)
        b->in[i] += 1;
    must(b, b->barrier(b->comm));
    double t0 = now_us();
    must(b, call(r, b));
    return now_us() - t0;
}

static double turn(const struct run *r, const struct build *b, uint64_t calls)
{
    if (r->fresh) {
        double sum = 0;
        for (uint64_t i = 0; i < calls; i++)
            sum += fresh_call(r, b);
        return sum / (double)calls;
    }
    must(b, b->barrier(b->comm));
    must(b, call(r, b));
    double t0 = now_us();
    for (uint64_t i = 0; i < calls; i++)
        must(b, call(r, b));
    return (now_us() - t0) / (double)calls;
}

/* The slowest rank's time counts, on all ranks. */
static void slowest(const struct build *through, double *us, size_t n)
{
    must(through, through->allreduce(through->comm, us, us, n, TUTTI_F64, TUTTI_MAX));
}

/* The slower build's time of a call, the same on all ranks. The better of two turns: a rank may have
 * waited for a core, or touched memory for the first time. */
static double estimate(const struct run *r, uint64_t calls)
{
    double us[BUILDS] = {1e300, 1e300};
    for (int k = 0; k < 2 * BUILDS; k++) {
        double t = turn(r, &r->build[k % BUILDS], calls);
        us[k % BUILDS] = t < us[k % BUILDS] ? t : us[k % BUILDS];
    }
    slowest(&r->build[1], us, BUILDS);
    return us[0] > us[1] ? us[0] : us[1];
}

/* Of a block. Where one call is longer than a block there are fewer pairs, but not fewer than
 * PAIRS_MIN. */
static uint64_t choose_calls(const struct run *r, uint32_t *ret_pairs)
{
    uint64_t n = 1;
    double us = estimate(r, n);
    for (; n < 1 << 16 && us * (double)n < r->block_us / 4; us = estimate(r, n))
        n *= 4;
    double calls = r->block_us / us, pairs = r->pairs * (calls < 1 ? calls : 1);
    *ret_pairs = pairs < PAIRS_MIN && r->pairs > PAIRS_MIN ? PAIRS_MIN : pairs < 1 ? 1 : (uint32_t)pairs;
    return calls < 1 ? 1 : (uint64_t)calls;
}

static void print_times(const char *name, const double *us, uint32_t n)
{
    printf(", \"%s\": [", name);
    for (uint32_t i = 0; i < n; i++)
        printf("%s%.4f", i ? ", " : "", us[i]);
    printf("]");
}

static void measure(struct run *r, size_t bytes)
{
    r->count = bytes / sizeof(float);
    get_buffers(r);
    for (int i = 0; i < BUILDS; i++)
        compare(r, i);
    uint32_t pairs;
    uint64_t calls = choose_calls(r, &pairs);
    for (uint32_t p = 0; p < pairs; p++)
        for (int i = 0; i < BUILDS; i++) {
            struct build *b = &r->build[p % 2 ? 1 - i : i];
            b->us[p] = turn(r, b, calls);
        }
    for (int i = 0; i < BUILDS; i++)
        slowest(&r->build[1], r->build[i].us, pairs);
    if (r->rank == 0) {
        printf("{\"bytes\": %zu, \"calls\": %llu", bytes, (unsigned long long)calls);
        print_times("old", r->build[0].us, pairs);
        print_times("new", r->build[1].us, pairs);
        printf("}\n");
        fflush(stdout);
    }
    free_buffers(r);
}

static int run_rank(struct run *r, char *const *libraries, char *const *sizes)
{
    for (int i = 0; i < BUILDS; i++) {
        load(&r->build[i], libraries[i]);
        open_build(r, i);
    }
    for (; *sizes; sizes++)
        measure(r, (size_t)strtoull(*sizes, NULL, 10));
    for (int i = 0; i < BUILDS; i++)
        r->build[i].close(r->build[i].comm);
    return 0;
}

/* ---- ranks ---- */

/* A port that is free now, and the next one too. */
static int free_ports(void)
{
    for (int tries = 0; tries < 100; tries++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof a;
        int first = socket(AF_INET, SOCK_STREAM, 0), second = socket(AF_INET, SOCK_STREAM, 0), port = 0;
        if (!bind(first, (struct sockaddr *)&a, len) && !getsockname(first, (struct sockaddr *)&a, &len)) {
            port = ntohs(a.sin_port);
            a.sin_port = htons((uint16_t)(port + 1));
            port = port < 65535 && !bind(second, (struct sockaddr *)&a, len) ? port : 0;
        }
        close(first);
        close(second);
        if (port)
            return port;
    }
    give_up("ports", "none free");
    return 0;
}

static int start_ranks(struct run *r, char *const *libraries, char *const *sizes)
{
    pid_t pids[RANKS_MAX];
    int worst = 0, status;
    strcpy(r->host, "127.0.0.1");
    r->port = free_ports();
    for (uint32_t k = 0; k < r->ranks; k++) {
        pids[k] = fork();
        if (pids[k] < 0)
            give_up("fork", "failed");
        if (pids[k] == 0) {
            r->rank = r->local_rank = k;
            exit(run_rank(r, libraries, sizes));
        }
    }
    for (uint32_t k = 0; k < r->ranks; k++)
        worst |= waitpid(pids[k], &status, 0) < 0 || status;
    return worst ? 1 : 0;
}

static uint32_t number(const char *name)
{
    const char *text = getenv(name);
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static int be_rank(struct run *r, char *const *libraries, char *const *sizes)
{
    const char *at = getenv("TUTTI_RENDEZVOUS");
    r->rank = number("TUTTI_RANK");
    r->local_rank = number("TUTTI_LOCAL_RANK");
    if (!at || sscanf(at, "%63[^:]:%d", r->host, &r->port) != 2)
        give_up("TUTTI_RENDEZVOUS", "not host:port");
    return run_rank(r, libraries, sizes);
}

/* ---- copying ---- */

/* The mean time of a copy while all processes copy: each copies until 0.2 s are over. */
static double time_copies(size_t bytes)
{
    char *from = malloc(bytes), *to = malloc(bytes);
    uint64_t n = 0;
    if (!from || !to)
        give_up("memory", "none left");
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    double t0 = now_us(), t = 0;
    for (; t < 200000; t = now_us() - t0, n++) {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    free(from);
    free(to);
    return t / (double)n;
}

static int copy(uint32_t ranks, size_t bytes)
{
    double us = 0, sum = 0;
    int ends[2];
    if (ranks < 1 || ranks > RANKS_MAX || bytes < 1 || pipe(ends))
        give_up("copy", "at most 64 ranks");
    for (uint32_t k = 0; k < ranks; k++)
        if (fork() == 0) {
            us = time_copies(bytes);
            _exit(write(ends[1], &us, sizeof us) != sizeof us);
        }
    for (uint32_t k = 0; k < ranks; k++) {
        if (read(ends[0], &us, sizeof us) != sizeof us)
            give_up("copy", "a process failed");
        sum += us;
        wait(NULL);
    }
    printf("%.3f\n", sum / ranks);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "copy"))
        return copy((uint32_t)strtoul(argv[2], NULL, 10), (size_t)strtoull(argv[3], NULL, 10));
    if (argc < 12) {
        fprintf(stderr, "bench_turns OLD.so NEW.so COLL RANKS MEM ALGO TOPO BLOCK_US PAIRS CACHE SIZE...\n");
        return 2;
    }
    static struct run r;
    r.coll = argv[3];
    r.ranks = (uint32_t)strtoul(argv[4], NULL, 10);
    r.own = !strncmp(argv[5], "tutti", 5);
    r.fresh = strstr(argv[5], "+fresh");
    r.algo = strcmp(argv[6], "-") ? argv[6] : NULL;
    r.topo = strcmp(argv[7], "-") ? argv[7] : NULL;
    r.block_us = strtod(argv[8], NULL);
    r.pairs = (uint32_t)strtoul(argv[9], NULL, 10);
    r.cache = argv[10];
    if (r.ranks < 1 || r.ranks > RANKS_MAX || r.pairs < 1 || r.pairs > PAIRS_MAX)
        give_up("arguments", "at most 64 ranks and 1000 pairs");
    return getenv("TUTTI_RANK") ? be_rank(&r, argv + 1, argv + 11) : start_ranks(&r, argv + 1, argv + 11);
}
