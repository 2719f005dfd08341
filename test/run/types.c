/* types.c - every integer type with every reduction, on real ranks: values that wrap, that have all bits, that are 0.
 * With an algorithm that forms sums on the way (TUTTI_ALGO) averages are refused, with the reason, and nothing breaks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tool.h"

enum { LONG = 40000 };
__extension__ typedef __int128 wide;

static struct tutti_comm *comm;
static uint32_t rank, ranks;
static uint64_t in[LONG], out[LONG];
static bool refuses; /* averages of integers by all-reduce */

static void fail(const char *what, tutti_dtype t, tutti_redop op)
{
    fprintf(stderr, "rank %u: %s of %s: %s (%s)\n", rank, tutti_redop_name(op), tutti_dtype_name(t), what,
            tutti_comm_last_error(comm)->text);
    tutti_comm_abort(comm, "a test failed");
    exit(1);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

/* Element i of rank r as bits; a quarter of them 0, a quarter all ones. */
static uint64_t bits_of(tutti_dtype t, uint32_t r, size_t i)
{
    uint64_t x = mix(mix(mix((uint64_t)t) + r) + i);
    return x % 4 == 0 ? 0 : x % 4 == 1 ? UINT64_MAX : x >> 3;
}

static wide value(tutti_dtype t, uint64_t bits)
{
    switch (t) {
    case TUTTI_I8:
        return (int8_t)bits;
    case TUTTI_I16:
        return (int16_t)bits;
    case TUTTI_I32:
        return (int32_t)bits;
    case TUTTI_I64:
        return (int64_t)bits;
    case TUTTI_U8:
        return (uint8_t)bits;
    case TUTTI_U16:
        return (uint16_t)bits;
    case TUTTI_U32:
        return (uint32_t)bits;
    default:
        return bits;
    }
}

static wide both(tutti_redop op, wide a, wide b)
{
    switch (op) {
    case TUTTI_PROD:
        return (wide)((uint64_t)a * (uint64_t)b);
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    case TUTTI_BXOR:
        return a ^ b;
    case TUTTI_LAND:
        return a && b;
    case TUTTI_LOR:
        return a || b;
    case TUTTI_LXOR:
        return !a != !b;
    default:
        return a + b;
    }
}

static wide expected(tutti_dtype t, tutti_redop op, size_t i)
{
    wide x = value(t, bits_of(t, 0, i));
    for (uint32_t r = 1; r < ranks; r++)
        x = both(op, x, value(t, bits_of(t, r, i)));
    return op == TUTTI_AVG ? x / (wide)ranks : x;
}

static void compare(tutti_dtype t, tutti_redop op, size_t first, size_t n)
{
    size_t bytes = tutti_dtype_bytes(t);
    for (size_t i = 0; i < n; i++) {
        uint64_t got = 0;
        memcpy(&got, (const char *)out + i * bytes, bytes);
        if (value(t, got) != value(t, (uint64_t)expected(t, op, first + i)))
            fail("another value", t, op);
    }
}

static void fill(tutti_dtype t, size_t n)
{
    size_t bytes = tutti_dtype_bytes(t);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = bits_of(t, rank, i);
        memcpy((char *)in + i * bytes, &x, bytes);
    }
}

static void try_one(tutti_dtype t, tutti_redop op, size_t n)
{
    memset(out, 0x5a, sizeof out);
    tutti_status st = tutti_allreduce(comm, in, out, n, t, op);
    if (op == TUTTI_AVG && refuses) {
        const char *why = tutti_comm_last_error(comm)->text;
        if (st != TUTTI_ERR_REFUSED || !strstr(why, "would wrap") || !strstr(why, "direct, oneshot"))
            fail("not refused", t, op);
    } else {
        if (st)
            fail("all-reduce", t, op);
        compare(t, op, 0, n);
    }
    if (tutti_reduce_scatter(comm, in, out, n / ranks, t, op))
        fail("reduce-scatter", t, op);
    compare(t, op, n / ranks * rank, n / ranks);
    if (tutti_reduce(comm, in, out, n, t, op, ranks - 1))
        fail("reduce", t, op);
    if (rank == ranks - 1)
        compare(t, op, 0, n);
}

/* What was 72 before sums were exact. */
static void try_known(void)
{
    uint8_t x = 200, y = 0;
    if (tutti_reduce(comm, &x, &y, 1, TUTTI_U8, TUTTI_AVG, 0) || (rank == 0 && y != 200))
        fail("200 and 200", TUTTI_U8, TUTTI_AVG);
    if (tutti_allreduce(comm, in, out, 4, TUTTI_F32, TUTTI_BAND) != TUTTI_ERR_ARG)
        fail("not refused", TUTTI_F32, TUTTI_BAND);
    if (tutti_allreduce(comm, in, out, 4, TUTTI_OPAQUE16, TUTTI_SUM) != TUTTI_ERR_ARG)
        fail("not refused", TUTTI_OPAQUE16, TUTTI_SUM);
}

int main(void)
{
    static const size_t counts[] = {8, 301, LONG};
    struct tutti_error err;
    const char *algo = getenv("TUTTI_ALGO");
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    refuses = ranks > 1 && algo && strcmp(algo, "auto") != 0;
    for (tutti_dtype t = TUTTI_I8; t < TUTTI_OPAQUE16; t++)
        for (size_t k = 0; k < 3; k++) {
            fill(t, counts[k]);
            for (tutti_redop op = 0; op < TUTTI_REDOP_COUNT; op++)
                if (ranks > 1 || op < TUTTI_LAND)
                    try_one(t, op, counts[k]);
        }
    try_known();
    tutti_comm_close(comm);
    return 0;
}
