/* rows.c - what a row of exchanges (exec/row.c) must not disturb, with all buffers in shared memory:
 *   odd      elements of one byte at odd addresses
 *   slow     a rank whose reductions take longer than the deadline is not stuck while it works
 *   beside   a message that has come is taken while a long row is under way
 * The deadline of the last two is 1 s (TUTTI_TIMEOUT). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tutti/tutti.h>

static struct tutti_comm *comm;
static uint32_t rank, ranks;

static void check(tutti_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "rank %u: %s: %s\n", rank, what, tutti_comm_last_error(comm)->text);
    exit(1);
}

static void equal(unsigned got, unsigned want, const char *what, size_t at)
{
    if (got == want)
        return;
    fprintf(stderr, "rank %u: %s: element %zu is %u, not %u\n", rank, what, at, got, want);
    exit(1);
}

static void *memory(size_t bytes)
{
    struct tutti_error err;
    void *p;
    if (tutti_mem_alloc(comm, bytes, &p, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return p;
}

/* Element i of rank r. */
static uint8_t given(uint32_t r, size_t i)
{
    return (uint8_t)(r * 7 + i % 11);
}

static uint8_t total(size_t i)
{
    unsigned sum = 0;
    for (uint32_t r = 0; r < ranks; r++)
        sum += given(r, i);
    return (uint8_t)sum;
}

static void fill(uint8_t *x, uint32_t r, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = given(r, first + i);
}

static void test_odd(size_t n)
{
    uint8_t *in = (uint8_t *)memory(n * ranks + 1) + 1, *out = (uint8_t *)memory(n * ranks + 1) + 1;
    fill(in, rank, 0, n);
    check(tutti_allreduce(comm, in, out, n, TUTTI_U8, TUTTI_SUM), "allreduce");
    for (size_t i = 0; i < n; i++)
        equal(out[i], total(i), "allreduce", i);
    fill(in, rank, 0, n * ranks);
    check(tutti_reduce_scatter(comm, in, out, n, TUTTI_U8, TUTTI_SUM), "reduce-scatter");
    for (size_t i = 0; i < n; i++)
        equal(out[i], total(rank * n + i), "reduce-scatter", i);
    fill(out + rank * n, rank, 0, n); /* in place: this rank's block is where it will be */
    check(tutti_all_gather(comm, out + rank * n, out, n, TUTTI_U8), "all-gather");
    for (size_t i = 0; i < n * ranks; i++)
        equal(out[i], given((uint32_t)(i / n), i % n), "all-gather", i);
    fill(in, rank, 0, n * ranks);
    check(tutti_all_to_all(comm, in, out, n, TUTTI_U8), "all-to-all");
    for (size_t i = 0; i < n * ranks; i++)
        equal(out[i], given((uint32_t)(i / n), rank * n + i % n), "all-to-all", i);
}

/* A sum that takes rank 0 some 0.1 s per MiB: longer for all than the deadline, shorter between two
 * signs of life. */
static void slow_sum(void *ctx, const void *left, const void *right, void *out, size_t count)
{
    const float *a = left, *b = right;
    float *c = out;
    (void)ctx;
    for (size_t i = 0; i < count; i++)
        c[i] = a[i] + b[i];
    const double s = rank == 0 ? (double)count * 4 / (1 << 20) * 0.1 : 0;
    const struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

static void start_slow(size_t n, float **ret_out, struct tutti_request **ret)
{
    struct tutti_error err;
    tutti_redop op;
    const struct tutti_redop_options o = {.size = sizeof o, .name = "slow sum", .fn = slow_sum, .elem_bytes = 4, .commutative = true};
    if (tutti_redop_create(&o, &op, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    float *in = memory(n * 4);
    *ret_out = memory(n * 4);
    for (size_t i = 0; i < n; i++)
        in[i] = (float)rank + 1;
    check(tutti_allreduce_init(comm, in, *ret_out, n, TUTTI_F32, op, ret), "init");
    check(tutti_request_start(*ret), "start");
}

static void finish_slow(size_t n, const float *out, struct tutti_request *request)
{
    check(tutti_request_wait(request), "wait");
    for (size_t i = 0; i < n; i++)
        equal((unsigned)out[i], ranks * (ranks + 1) / 2, "slow allreduce", i);
    tutti_request_free(request);
}

static void test_slow(bool beside)
{
    const size_t n = ranks * (size_t)4 << 20; /* 16 MiB for each rank */
    struct tutti_request *request;
    float *out, one = (float)rank;
    start_slow(n, &out, &request);
    if (beside && rank == 1)
        check(tutti_send(comm, &one, 1, TUTTI_F32, 0), "send");
    if (beside && rank == 0) {
        check(tutti_recv(comm, &one, 1, TUTTI_F32, 1), "receive");
        equal((unsigned)one, 1, "message", 0);
    }
    finish_slow(n, out, request);
}

int main(int argc, char **argv)
{
    struct tutti_error err;
    const char *mode = argc > 1 ? argv[1] : "";
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    if (!strcmp(mode, "odd")) {
        const size_t counts[] = {1, 11, 4097, 200001};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            test_odd(counts[i]);
    } else {
        test_slow(!strcmp(mode, "beside"));
    }
    tutti_comm_close(comm);
    return 0;
}
