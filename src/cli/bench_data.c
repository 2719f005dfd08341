/* bench_data.c - the data of tutti bench, and the check of its results.
 *
 * Element i of rank r is (i + r) mod 4; for prod it is 2 where i mod ranks = r, else 1. With 4
 * ranks:
 *
 *     element   0 1 2 3 4 5            sum      6 6 6 6 6 6
 *     rank 0    0 1 2 3 0 1            min, max 0 and 3
 *     rank 1    1 2 3 0 1 2            prod     2 (exactly one rank holds the 2)
 *     rank 2    2 3 0 1 2 3
 *     rank 3    3 0 1 2 3 0
 *
 * The expected value of an element is computed from these formulas, without any communication. All
 * values are small whole numbers, which every data type holds exactly, so that results can be
 * compared bit by bit whatever the order of summation. f16 and bf16 are written bit by bit: whole
 * numbers up to 2048 (f16) and 256 (bf16) are exact in them. */
#include "cli/bench_data.h"

#include <string.h>

/* The bits of v >= 0 in a half-precision format with so many mantissa bits and this exponent
 * bias. Normalises v to [1, 2) and counts the exponent; further mantissa bits are cut off. */
static uint16_t half_bits(unsigned mantissa, int bias, double v)
{
    if (v == 0)
        return 0;
    int e = 0;
    while (v >= 2) {
        v /= 2;
        e++;
    }
    while (v < 1) {
        v *= 2;
        e--;
    }
    return (uint16_t)((unsigned)(e + bias) << mantissa |
                      (unsigned)((v - 1) * (double)(1u << mantissa)));
}

/* Writes an integer modulo 2^bits. Opaque elements are 8 bytes or longer: the first eight hold
 * v, the others are 0. */
static void put_whole(size_t bytes, void *base, size_t i, uint64_t v)
{
    switch (bytes) {
    case 1:
        ((uint8_t *)base)[i] = (uint8_t)v;
        break;
    case 2:
        ((uint16_t *)base)[i] = (uint16_t)v;
        break;
    case 4:
        ((uint32_t *)base)[i] = (uint32_t)v;
        break;
    default:
        memset((char *)base + i * bytes, 0, bytes);
        memcpy((char *)base + i * bytes, &v, sizeof v);
        break;
    }
}

/* Writes v as element i in the bits of type t. */
static void bench_data_put(tutti_dtype t, void *base, size_t i, double v)
{
    switch (t) {
    case TUTTI_F32:
        ((float *)base)[i] = (float)v;
        break;
    case TUTTI_F64:
        ((double *)base)[i] = v;
        break;
    case TUTTI_F16:
        ((uint16_t *)base)[i] = half_bits(10, 15, v);
        break;
    case TUTTI_BF16:
        ((uint16_t *)base)[i] = half_bits(7, 127, v);
        break;
    default:
        put_whole(tutti_dtype_bytes(t), base, i, (uint64_t)(int64_t)v);
        break;
    }
}

/* Element i of the input of `rank`. */
static double input(const struct bench_problem *p, uint32_t rank, size_t i)
{
    if (p->op == TUTTI_PROD)
        return i % p->ranks == rank ? 2 : 1;
    return (double)((i + rank) % 4);
}

/* A logical reduction of two elements; the default is LXOR. */
static unsigned logic(tutti_redop op, unsigned a, unsigned b)
{
    switch (op) {
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
    default:
        return !a != !b;
    }
}

/* The reduction of element i over all ranks, in rank order. avg is a sum here; divided() divides
 * once at the end. */
static double bench_data_reduced(const struct bench_problem *p, size_t i)
{
    double v = input(p, 0, i);
    for (uint32_t r = 1; r < p->ranks; r++) {
        double x = input(p, r, i);
        switch (p->op) {
        case TUTTI_PROD:
            v *= x;
            break;
        case TUTTI_MIN:
            v = x < v ? x : v;
            break;
        case TUTTI_MAX:
            v = x > v ? x : v;
            break;
        case TUTTI_SUM:
        case TUTTI_AVG:
            v += x;
            break;
        default:
            v = logic(p->op, (unsigned)v, (unsigned)x);
            break;
        }
    }
    return v;
}

/* Collectives that cut the vector into one block per rank; `count` is then that of a block. */
static bool has_blocks(tutti_coll c)
{
    return c == TUTTI_REDUCE_SCATTER || c == TUTTI_ALL_GATHER || c == TUTTI_GATHER ||
           c == TUTTI_SCATTER || c == TUTTI_ALL_TO_ALL;
}

/* Elements of the input: the whole vector for collectives that distribute it, else `count`. */
size_t cli_bench_in_elems(const struct bench_problem *p)
{
    bool whole =
        p->coll == TUTTI_REDUCE_SCATTER || p->coll == TUTTI_SCATTER || p->coll == TUTTI_ALL_TO_ALL;
    return whole ? p->count * p->ranks : p->count;
}

/* Elements of the output: one block, or the whole vector for collectives that collect it. */
size_t cli_bench_out_elems(const struct bench_problem *p)
{
    bool block =
        p->coll == TUTTI_REDUCE_SCATTER || p->coll == TUTTI_SCATTER || !has_blocks(p->coll);
    return block ? p->count : p->count * p->ranks;
}

/* The input of this rank; every rank has the same length. */
void cli_bench_fill(const struct bench_problem *p, void *in)
{
    size_t n = cli_bench_in_elems(p);
    for (size_t i = 0; i < n; i++)
        bench_data_put(p->dtype, in, i, input(p, p->rank, i));
}

/* The value that element i of this rank's output must have, before the division of avg. Rooted
 * collectives have root 0 in bench. */
static double bench_data_expected(const struct bench_problem *p, size_t i)
{
    switch (p->coll) {
    case TUTTI_REDUCE_SCATTER:
        return bench_data_reduced(p, p->rank * p->count + i);
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
        return input(p, (uint32_t)(i / p->count), i % p->count);
    case TUTTI_BROADCAST:
        return input(p, 0, i);
    case TUTTI_SCATTER:
        return input(p, 0, p->rank * p->count + i);
    case TUTTI_ALL_TO_ALL:
        return input(p, (uint32_t)(i / p->count), p->rank * p->count + i % p->count);
    default:
        return bench_data_reduced(p, i);
    }
}

/* avg divides the sum once; bench_data_put truncates it for integers. */
static double divided(const struct bench_problem *p, double v)
{
    bool reduces =
        p->coll == TUTTI_ALLREDUCE || p->coll == TUTTI_REDUCE_SCATTER || p->coll == TUTTI_REDUCE;
    return reduces && p->op == TUTTI_AVG ? v / p->ranks : v;
}

/* Compares element i of the output with v in the type's own bits. avg by a rank count that is
 * not a power of two is not exact: f16 and bf16 may differ by one unit of the last place,
 * because half_bits cuts off where the library rounds. */
static bool equal(tutti_dtype t, const void *out, size_t i, double v)
{
    uint64_t want[8];
    size_t size = tutti_dtype_bytes(t);
    bench_data_put(t, want, 0, v);
    if (!memcmp(want, (const char *)out + i * size, size))
        return true;
    if (t == TUTTI_F16 || t == TUTTI_BF16) {
        uint16_t bits;
        memcpy(&bits, want, sizeof bits);
        int a = bits, b = ((const uint16_t *)out)[i];
        return a - b <= 1 && b - a <= 1;
    }
    return false;
}

uint64_t cli_bench_wrong(const struct bench_problem *p, const void *out)
{
    /* The other ranks of reduce and gather have no output. */
    bool here = (p->coll != TUTTI_REDUCE && p->coll != TUTTI_GATHER) || p->rank == 0;
    uint64_t wrong = 0;
    size_t n = here ? cli_bench_out_elems(p) : 0;
    for (size_t i = 0; i < n; i++)
        wrong += !equal(p->dtype, out, i, divided(p, bench_data_expected(p, i)));
    return wrong;
}
