/* Every public collective between real processes, checked element by element: data types, reductions, odd counts, in place, persistent
 * requests in flight together, split communicators, point to point, memory of our own. Run it with `tutti run -n N` (or any launcher);
 * TUTTI_TRANSPORT chooses the transport. Exit 1 on the first difference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "api/tool.h"

static struct tutti_comm *comm;
static uint32_t rank, ranks;
static unsigned long checks;

static void die(const char *what)
{
    fprintf(stderr, "rank %u: FAILED: %s (%s)\n", rank, what, tutti_comm_last_error(comm)->text);
    exit(1);
}

static void ok(tutti_status st, const char *what)
{
    if (st != TUTTI_OK)
        die(what);
    checks++;
}

static void expect(int good, const char *what)
{
    if (!good)
        die(what);
    checks++;
}

/* Element i of rank r. */
static int64_t value(uint32_t r, size_t i)
{
    return (int64_t)((i * 7 + r * 3) % 11) - 5;
}

static int64_t reduced(tutti_redop op, size_t i, uint32_t n)
{
    int64_t v = value(0, i);
    for (uint32_t r = 1; r < n; r++) {
        int64_t x = value(r, i);
        v = op == TUTTI_MIN ? (x < v ? x : v) : op == TUTTI_MAX ? (x > v ? x : v) : v + x;
    }
    return v;
}

static void fill(int64_t *a, size_t n, uint32_t r, size_t from)
{
    for (size_t i = 0; i < n; i++)
        a[i] = value(r, from + i);
}

static void test_allreduce(size_t n)
{
    int64_t *a = calloc(n + 1, sizeof *a), *b = calloc(n + 1, sizeof *b);
    static const tutti_redop ops[] = {TUTTI_SUM, TUTTI_MIN, TUTTI_MAX};
    for (size_t k = 0; k < 3; k++)
        for (int inplace = 0; inplace < 2; inplace++) {
            fill(a, n, rank, 0);
            int64_t *out = inplace ? a : b;
            ok(tutti_allreduce(comm, a, out, n, TUTTI_I64, ops[k]), "allreduce");
            for (size_t i = 0; i < n; i++)
                expect(out[i] == reduced(ops[k], i, ranks), "allreduce result");
        }
    free(a);
    free(b);
}

/* f32: small whole numbers are exact; avg divides once. */
static void test_float(size_t n)
{
    float *a = calloc(n + 1, sizeof *a), *b = calloc(n + 1, sizeof *b);
    for (size_t i = 0; i < n; i++)
        a[i] = (float)value(rank, i);
    ok(tutti_allreduce(comm, a, b, n, TUTTI_F32, TUTTI_AVG), "allreduce avg");
    for (size_t i = 0; i < n; i++)
        expect(b[i] == (float)reduced(TUTTI_SUM, i, ranks) / (float)ranks, "avg result");
    a[0] = rank == ranks - 1 ? NAN : 1;
    if (n) {
        ok(tutti_allreduce(comm, a, b, 1, TUTTI_F32, TUTTI_MAX), "allreduce max with NaN");
        expect(isnan(b[0]), "NaN propagates");
    }
    free(a);
    free(b);
}

static void test_blocks(size_t n)
{
    int64_t *whole = calloc(n * ranks + 1, sizeof *whole), *block = calloc(n + 1, sizeof *block), *all = calloc(n * ranks + 1, sizeof *all);
    fill(whole, n * ranks, rank, 0);
    ok(tutti_reduce_scatter(comm, whole, block, n, TUTTI_I64, TUTTI_SUM), "reduce_scatter");
    for (size_t i = 0; i < n; i++)
        expect(block[i] == reduced(TUTTI_SUM, rank * n + i, ranks), "reduce_scatter result");
    fill(block, n, rank, 0);
    ok(tutti_all_gather(comm, block, all, n, TUTTI_I64), "all_gather");
    for (size_t i = 0; i < n * ranks; i++)
        expect(all[i] == value((uint32_t)(i / n), i % n), "all_gather result");
    ok(tutti_all_to_all(comm, whole, all, n, TUTTI_I64), "all_to_all");
    for (size_t i = 0; i < n * ranks; i++)
        expect(all[i] == value((uint32_t)(i / n), rank * n + i % n), "all_to_all result");
    free(whole);
    free(block);
    free(all);
}

/* Blocks of any length, some empty, apart and in place: the whole vector as both buffers, or the own block where it lies. */
static void uneven(int64_t *whole, int64_t *block, size_t scale)
{
    size_t counts[64], total = 0, before = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        counts[r] = (r * 5 + 1) % 7 * scale + r % 2 * (scale > 1);
        before += r < rank ? counts[r] : 0;
        total += counts[r];
    }
    for (int how = 0; how < 3; how++) {
        int64_t *out = how == 0 ? block : how == 1 ? whole : whole + before, *mine = how == 1 ? whole + before : out;
        fill(whole, total, rank, 0);
        ok(tutti_reduce_scatter_v(comm, whole, out, counts, TUTTI_I64, how == 1 ? TUTTI_MAX : TUTTI_SUM), "reduce_scatter_v");
        for (size_t i = 0; i < counts[rank]; i++)
            expect(mine[i] == reduced(how == 1 ? TUTTI_MAX : TUTTI_SUM, before + i, ranks), "reduce_scatter_v result");
        memset(whole, 0, total * 8);
        fill(mine, counts[rank], rank, before);
        ok(tutti_all_gather_v(comm, out, whole, counts, TUTTI_I64), "all_gather_v");
        for (size_t r = 0, at = 0; r < ranks; r++)
            for (size_t i = 0; i < counts[r]; i++, at++)
                expect(whole[at] == value((uint32_t)r, at), "all_gather_v result");
    }
}

static void test_uneven(size_t scale)
{
    size_t most = 7 * scale * ranks + ranks;
    struct tutti_error err;
    void *p, *q;
    int64_t *whole = calloc(most, sizeof *whole), *block = calloc(most, sizeof *block);
    ok(tutti_mem_alloc(comm, most * 8, &p, &err), "mem_alloc");
    ok(tutti_mem_alloc(comm, most * 8, &q, &err), "mem_alloc");
    uneven(whole, block, scale);
    uneven(p, q, scale);
    uneven(rank % 2 ? p : whole, rank ? q : block, scale);
    ok(tutti_barrier(comm), "barrier");
    tutti_mem_free(comm, p);
    tutti_mem_free(comm, q);
    free(whole);
    free(block);
}

/* Averages of every floating type by blocks: whole numbers are exact, and the upper bits of f32 are bf16. */
static void test_half_blocks(size_t n)
{
    uint16_t *whole = calloc(n * ranks, sizeof *whole), *block = calloc(n, sizeof *block);
    for (size_t i = 0; i < n * ranks; i++) {
        float x = (float)(value(rank, i) * ranks);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        whole[i] = (uint16_t)(bits >> 16);
    }
    ok(tutti_reduce_scatter(comm, whole, block, n, TUTTI_BF16, TUTTI_AVG), "reduce_scatter of bf16");
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)block[i] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        expect(x == (float)reduced(TUTTI_SUM, rank * n + i, ranks), "average of bf16");
    }
    free(whole);
    free(block);
}

/* The plan's `fused` says that all ranks share the host, whatever the collective and its size. */
static void test_one_host(void)
{
    const char *transport = getenv("TUTTI_TRANSPORT");
    struct tutti_comm_plan_info info;
    struct tutti_error err;
    if (!transport || strcmp(transport, "shm") || ranks == 1)
        return;
    ok(tutti_comm_plan(comm, TUTTI_REDUCE_SCATTER, 16, TUTTI_F32, TUTTI_SUM, &info, &err), "plan");
    expect(info.fused, "reduce-scatter is inside the host");
    ok(tutti_comm_plan(comm, TUTTI_ALL_GATHER, 16, TUTTI_F32, TUTTI_SUM, &info, &err), "plan");
    expect(info.fused, "all-gather is inside the host");
    ok(tutti_comm_plan(comm, TUTTI_ALL_GATHER, 1000000, TUTTI_F32, TUTTI_SUM, &info, &err), "plan");
    expect(info.fused, "a long all-gather is inside the host");
}

static void test_rooted(size_t n, uint32_t root)
{
    int64_t *a = calloc(n + 1, sizeof *a), *b = calloc(n + 1, sizeof *b), *all = calloc(n * ranks + 1, sizeof *all);
    fill(a, n, rank, 0);
    ok(tutti_reduce(comm, a, rank == root ? b : NULL, n, TUTTI_I64, TUTTI_SUM, root), "reduce");
    for (size_t i = 0; rank == root && i < n; i++)
        expect(b[i] == reduced(TUTTI_SUM, i, ranks), "reduce result");
    ok(tutti_broadcast(comm, a, a, n, TUTTI_I64, root), "broadcast");
    for (size_t i = 0; i < n; i++)
        expect(a[i] == value(root, i), "broadcast result");
    fill(a, n, rank, 0);
    ok(tutti_gather(comm, a, rank == root ? all : NULL, n, TUTTI_I64, root), "gather");
    for (size_t i = 0; rank == root && i < n * ranks; i++)
        expect(all[i] == value((uint32_t)(i / n), i % n), "gather result");
    fill(all, n * ranks, root, 0);
    ok(tutti_scatter(comm, rank == root ? all : NULL, b, n, TUTTI_I64, root), "scatter");
    for (size_t i = 0; i < n; i++)
        expect(b[i] == value(root, rank * n + i), "scatter result");
    free(a);
    free(b);
    free(all);
}

/* Several persistent requests in flight, started in one order, waited for in another, many times. */
static void test_requests(void)
{
    enum { N = 6, COUNT = 3001 };
    static int64_t in[N][COUNT], out[N][COUNT];
    struct tutti_request *r[N];
    for (int k = 0; k < N; k++) {
        tutti_status st = k % 2 ? tutti_broadcast_init(comm, in[k], out[k], COUNT, TUTTI_I64, 0, &r[k])
                                : tutti_allreduce_init(comm, in[k], out[k], COUNT - (size_t)k, TUTTI_I64, TUTTI_SUM, &r[k]);
        ok(st, "init");
    }
    for (int round = 0; round < 20; round++) {
        for (int k = 0; k < N; k++) {
            fill(in[k], COUNT, rank, (size_t)round);
            ok(tutti_request_start(r[k]), "start");
        }
        for (int k = N; k-- > 0;) {
            tutti_status st = TUTTI_IN_PROGRESS;
            for (int i = 0; i < 3 && st == TUTTI_IN_PROGRESS; i++)
                st = tutti_request_test(r[k]);
            ok(st == TUTTI_IN_PROGRESS ? tutti_request_wait(r[k]) : st, "wait");
            int64_t want = k % 2 ? value(0, (size_t)round) : reduced(TUTTI_SUM, (size_t)round, ranks);
            expect(out[k][0] == want, "request result");
        }
    }
    for (int k = 0; k < N; k++)
        tutti_request_free(r[k]);
}

static void test_split(void)
{
    struct tutti_comm *half = NULL;
    struct tutti_error err;
    int64_t x = 1, members = 0;
    ok(tutti_comm_split(comm, (int)(rank % 2), -(int)rank, &half, &err), "split");
    for (uint32_t r = rank % 2; r < ranks; r += 2)
        members++;
    expect(tutti_comm_size(half) == members, "size of a part");
    expect(tutti_comm_rank(half) == (uint32_t)(members - 1 - rank / 2), "order by key");
    ok(tutti_allreduce(half, &x, &x, 1, TUTTI_I64, TUTTI_SUM), "allreduce in a part");
    expect(x == members, "sum in a part");
    tutti_comm_close(half);
    ok(tutti_comm_split(comm, rank == 0 ? 0 : -1, 0, &half, &err), "split without a color");
    expect((half != NULL) == (rank == 0), "no color, no communicator");
    tutti_comm_close(half);
}

static void test_pairs(void)
{
    int64_t x = rank, y = -1;
    uint32_t right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    if (ranks == 1)
        return;
    if (rank % 2 == 0) {
        ok(tutti_send(comm, &x, 1, TUTTI_I64, right), "send");
        ok(tutti_recv(comm, &y, 1, TUTTI_I64, left), "recv");
    } else {
        ok(tutti_recv(comm, &y, 1, TUTTI_I64, left), "recv");
        ok(tutti_send(comm, &x, 1, TUTTI_I64, right), "send");
    }
    expect(y == (int64_t)left, "what the left neighbour sent");
}

/* The same sums in memory the others can reach, and mixed with ordinary memory on one rank. */
static void test_memory(size_t n)
{
    struct tutti_error err;
    void *p, *q;
    ok(tutti_mem_alloc(comm, n * 8, &p, &err), "mem_alloc");
    ok(tutti_mem_alloc(comm, n * 8, &q, &err), "mem_alloc");
    int64_t *a = p, *b = q, *own = calloc(n, sizeof *own);
    for (int mixed = 0; mixed < 2; mixed++) {
        int64_t *out = mixed && rank == 0 ? own : b;
        fill(a, n, rank, 0);
        ok(tutti_allreduce(comm, a, out, n, TUTTI_I64, TUTTI_SUM), "allreduce in shared memory");
        for (size_t i = 0; i < n; i++)
            expect(out[i] == reduced(TUTTI_SUM, i, ranks), "result in shared memory");
    }
    fill(a, n, rank, 0);
    ok(tutti_allreduce(comm, a, a, n, TUTTI_I64, TUTTI_SUM), "in place in shared memory");
    for (size_t i = 0; i < n; i++)
        expect(a[i] == reduced(TUTTI_SUM, i, ranks), "result in place in shared memory");
    fill(own, n, rank, 0); /* the same program, whose last run needed no copies */
    ok(tutti_allreduce(comm, own, own, n, TUTTI_I64, TUTTI_SUM), "in ordinary memory after shared memory");
    for (size_t i = 0; i < n; i++)
        expect(own[i] == reduced(TUTTI_SUM, i, ranks), "result in ordinary memory after shared memory");
    free(own);
    tutti_barrier(comm);
    tutti_mem_free(comm, p);
    tutti_mem_free(comm, q);
}

/* Many requests under way at once, waited for from the last to the first, twice. */
static void test_many_requests(void)
{
    enum { MANY = 200 };
    static int64_t in[MANY][MANY], out[MANY][MANY];
    struct tutti_request *r[MANY];
    for (size_t k = 0; k < MANY; k++) {
        fill(in[k], k + 1, rank, 0);
        ok(tutti_allreduce_init(comm, in[k], out[k], k + 1, TUTTI_I64, TUTTI_SUM, &r[k]), "one of many requests");
    }
    for (int round = 0; round < 2; round++) {
        memset(out, 0, sizeof out);
        for (size_t k = 0; k < MANY; k++)
            ok(tutti_request_start(r[k]), "start of one of many");
        for (size_t k = MANY; k-- > 0;)
            ok(tutti_request_wait(r[k]), "wait for one of many");
        for (size_t k = 0; k < MANY; k++)
            for (size_t i = 0; i <= k; i++)
                expect(out[k][i] == reduced(TUTTI_SUM, i, ranks), "result of one of many");
    }
    for (size_t k = 0; k < MANY; k++)
        tutti_request_free(r[k]);
}

/* Misuse is this rank's own error and disturbs nobody. */
static void test_misuse(void)
{
    int64_t x[4] = {0};
    static int64_t whole[64 * 4];
    expect(tutti_allreduce(comm, NULL, x, 4, TUTTI_I64, TUTTI_SUM) < 0, "NULL input");
    expect(tutti_allreduce(comm, x, x + 1, 3, TUTTI_I64, TUTTI_SUM) < 0, "overlapping buffers");
    expect(tutti_allreduce(comm, x, x, SIZE_MAX / 2, TUTTI_I64, TUTTI_SUM) < 0, "a count that overflows");
    expect(tutti_allreduce(comm, x, x, 1, (tutti_dtype)99, TUTTI_SUM) < 0, "unknown type");
    expect(tutti_broadcast(comm, x, x, 1, TUTTI_I64, ranks) < 0, "root out of range");
    expect(ranks == 1 || tutti_all_gather(comm, (char *)whole + 4, whole, 4, TUTTI_I64) < 0, "overlapping blocks");
    expect(tutti_reduce_scatter(comm, whole, NULL, 4, TUTTI_I64, TUTTI_SUM) < 0, "NULL output");
    expect(strlen(tutti_comm_last_error(comm)->text) > 10, "an explanation");
    ok(tutti_barrier(comm), "the job goes on");
}

int main(void)
{
    struct tutti_error err;
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "FAILED to open: %s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    const size_t counts[] = {0, 1, ranks - 1, ranks, ranks + 1, 1009, 20011, 300007};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        test_allreduce(counts[i]);
        test_float(counts[i]);
        if (counts[i] <= 20011)
            test_blocks(counts[i]);
        if (counts[i] <= 20011)
            test_rooted(counts[i], (uint32_t)(i % ranks));
    }
    ok(tutti_barrier(comm), "barrier");
    test_uneven(1);
    test_uneven(4001);
    test_half_blocks(17);
    test_half_blocks(50001);
    test_one_host();
    test_requests();
    test_split();
    test_pairs();
    test_memory(100003);
    test_many_requests();
    test_misuse();
    tutti_comm_close(comm);
    if (rank == 0)
        printf("%u ranks: %lu checks\n", ranks, checks);
    return 0;
}
