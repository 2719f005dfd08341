/* userops.c - reductions of the caller's own on real ranks: products of matrices, which do not commute (in rank order or
 * refused), the least value with its rank, elements of 64 bytes, unaligned buffers; and ranks that mean different ones. */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tool.h"

enum { LONG = 30000, PRIME = 65521 };
struct matrix {
    uint32_t a[4]; /* 2 x 2, modulo PRIME */
};
struct least {
    double value;
    int64_t rank;
};
struct line {
    uint64_t word[8];
};

static struct tutti_comm *comm;
static uint32_t rank, ranks;
static alignas(64) char in[64 * LONG + 64], out[64 * LONG + 64];
static int unaligned; /* calls with elements that were not aligned */

static void check(int line, bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "userops.c:%d: rank %u: %s (%s)\n", line, rank, what, tutti_comm_last_error(comm)->text);
    tutti_comm_abort(comm, "a test failed");
    exit(1);
}
#define CHECK(ok) check(__LINE__, (ok), #ok)

/* ---- the reductions ---- */

static struct matrix product(struct matrix x, struct matrix y)
{
    struct matrix z;
    for (int i = 0; i < 4; i++)
        z.a[i] = (uint32_t)(((uint64_t)x.a[i / 2 * 2] * y.a[i % 2] + (uint64_t)x.a[i / 2 * 2 + 1] * y.a[2 + i % 2]) % PRIME);
    return z;
}

static void multiply(void *ctx, const void *left, const void *right, void *to, size_t n)
{
    const struct matrix *x = left, *y = right;
    struct matrix *z = to;
    unaligned += (uintptr_t)left % 16 || (uintptr_t)right % 16 || (uintptr_t)to % 16 || *(const int *)ctx != 17;
    for (size_t i = 0; i < n; i++)
        z[i] = product(x[i], y[i]);
}

static void find_least(void *ctx, const void *left, const void *right, void *to, size_t n)
{
    const struct least *x = left, *y = right;
    struct least *z = to;
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        z[i] = x[i].value < y[i].value || (x[i].value == y[i].value && x[i].rank < y[i].rank) ? x[i] : y[i];
}

static void add_lines(void *ctx, const void *left, const void *right, void *to, size_t n)
{
    const uint64_t *x = left, *y = right;
    uint64_t *z = to;
    (void)ctx;
    for (size_t i = 0; i < 8 * n; i++)
        z[i] = x[i] + y[i];
}

static tutti_redop make(const char *name, tutti_redop_fn *fn, size_t bytes, bool commutative)
{
    static int seventeen = 17;
    struct tutti_error err;
    tutti_redop op = TUTTI_SUM;
    const struct tutti_redop_options o = {
        .size = sizeof o, .name = name, .fn = fn, .ctx = &seventeen, .elem_bytes = bytes, .commutative = commutative};
    CHECK(!tutti_redop_create(&o, &op, &err));
    CHECK(op >= TUTTI_REDOP_COUNT);
    return op;
}

/* ---- products ---- */

static struct matrix matrix_of(uint32_t r, size_t i)
{
    struct matrix m;
    for (uint32_t k = 0; k < 4; k++)
        m.a[k] = (uint32_t)((i * 7919 + r * 104729 + k * 31 + 1) % PRIME);
    return m;
}

static struct matrix product_of_all(size_t i)
{
    struct matrix m = matrix_of(0, i);
    for (uint32_t r = 1; r < ranks; r++)
        m = product(m, matrix_of(r, i));
    return m;
}

static bool are_products(const void *at, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct matrix got, want = product_of_all(first + i);
        memcpy(&got, (const char *)at + i * sizeof got, sizeof got);
        if (memcmp(&got, &want, sizeof got))
            return false;
    }
    return true;
}

static void test_products(bool refused, size_t n, size_t shift)
{
    tutti_redop op = make("matrix product", multiply, sizeof(struct matrix), false);
    struct tutti_request *r = NULL;
    size_t block = n / ranks;
    for (size_t i = 0; i < n; i++) {
        struct matrix m = matrix_of(rank, i);
        memcpy(in + shift + i * sizeof m, &m, sizeof m);
    }
    tutti_status st = tutti_allreduce(comm, in + shift, out + shift, n, TUTTI_OPAQUE16, op);
    if (refused) {
        CHECK(st == TUTTI_ERR_REFUSED && strstr(tutti_comm_last_error(comm)->text, "does not commute"));
    } else {
        CHECK(!st && are_products(out + shift, 0, n));
        CHECK(!tutti_allreduce_init(comm, in + shift, out, n, TUTTI_OPAQUE16, op, &r));
        for (int k = 0; k < 3; k++)
            CHECK(!tutti_request_start(r) && !tutti_request_wait(r) && are_products(out, 0, n));
        tutti_request_free(r);
    }
    CHECK(!tutti_reduce_scatter(comm, in + shift, out + shift, block, TUTTI_OPAQUE16, op));
    CHECK(are_products(out + shift, block * rank, block));
    CHECK(!tutti_reduce(comm, in + shift, out, n, TUTTI_OPAQUE16, op, 0));
    CHECK(rank || are_products(out, 0, n));
    if (!refused)
        CHECK(!tutti_allreduce(comm, in + shift, in + shift, n, TUTTI_OPAQUE16, op) && are_products(in + shift, 0, n));
    CHECK(unaligned == 0);
    tutti_redop_free(op);
    CHECK(tutti_allreduce(comm, in, out, n, TUTTI_OPAQUE16, op) == TUTTI_ERR_ARG);
}

/* ---- reductions that commute, by every algorithm ---- */

static void test_least(size_t n)
{
    tutti_redop op = make("least", find_least, sizeof(struct least), true);
    struct least *x = (struct least *)(void *)in, *y = (struct least *)(void *)out;
    for (size_t i = 0; i < n; i++)
        x[i] = (struct least){.value = (double)((i * 31 + rank * 17) % 5), .rank = rank};
    CHECK(!tutti_allreduce(comm, x, y, n, TUTTI_OPAQUE16, op));
    for (size_t i = 0; i < n; i++) {
        uint32_t best = 0;
        for (uint32_t r = 1; r < ranks; r++)
            if ((i * 31 + r * 17) % 5 < (i * 31 + best * 17) % 5)
                best = r;
        CHECK(y[i].rank == best && y[i].value == (double)((i * 31 + best * 17) % 5));
    }
    CHECK(tutti_allreduce(comm, x, y, n, TUTTI_F64, op) == TUTTI_ERR_ARG);
    CHECK(strstr(tutti_comm_last_error(comm)->text, "elements of 16 bytes, f64 has 8"));
    tutti_redop_free(op);
}

static void test_lines(size_t n)
{
    tutti_redop op = make("lines", add_lines, sizeof(struct line), true), other = make("u64", add_lines, 64, true);
    struct line *x = (struct line *)(void *)in, *y = (struct line *)(void *)out;
    for (size_t i = 0; i < 8 * n; i++)
        x[i / 8].word[i % 8] = i * (rank + 1);
    CHECK(!tutti_allreduce(comm, x, y, n, TUTTI_OPAQUE64, op));
    for (size_t i = 0; i < 8 * n; i++)
        CHECK(y[i / 8].word[i % 8] == i * (ranks * (ranks + 1) / 2));
    CHECK(op != other);
    tutti_redop_free(op);
    tutti_redop_free(other);
    tutti_redop_free(TUTTI_SUM);
}

static void test_arguments(void)
{
    struct tutti_error err;
    tutti_redop op;
    struct tutti_redop_options o = {.size = sizeof o, .name = "x", .fn = add_lines, .elem_bytes = 24};
    CHECK(tutti_redop_create(&o, &op, &err) == TUTTI_ERR_RANGE && strstr(err.text, "pad"));
    o.elem_bytes = 8;
    o.name = "";
    CHECK(tutti_redop_create(&o, &op, &err) == TUTTI_ERR_ARG);
    o.name = "x";
    o.fn = NULL;
    CHECK(tutti_redop_create(&o, &op, &err) == TUTTI_ERR_ARG);
    CHECK(tutti_allreduce(comm, in, out, 4, TUTTI_U64, (tutti_redop)0x40000401) == TUTTI_ERR_ARG);
}

/* The last test: nothing works afterwards. */
static void test_different(void)
{
    tutti_redop op = make(rank ? "theirs, with a name that is far too long" : "mine", add_lines, sizeof(struct line), true);
    tutti_status st = tutti_allreduce(comm, in, out, 100, TUTTI_OPAQUE64, op);
    CHECK(ranks == 1 ? !st : st == TUTTI_ERR_DIFFERS);
    const char *why = tutti_comm_last_error(comm)->text;
    CHECK(ranks == 1 || (strstr(why, "allreduce of 100 opaque64 ('mine')") && strstr(why, "allreduce of 100 opaque64 ('theirs")));
}

int main(void)
{
    struct tutti_error err;
    const char *algo = getenv("TUTTI_ALGO");
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    bool refused = ranks > 1 && algo && strcmp(algo, "auto") != 0;
    static const size_t counts[] = {1, 7, 1000, LONG};
    for (size_t i = 0; i < 4; i++) {
        test_products(refused, counts[i], 0);
        test_products(refused, counts[i], 4);
        test_least(counts[i]);
        test_lines(counts[i]);
    }
    test_arguments();
    test_different();
    tutti_comm_close(comm);
    return 0;
}
