/* test_kernel.c - every data type x reduction x ISA level against one scalar reference, to the bit.
 *
 * The reference shares nothing with the kernels: it decodes elements to double, rounds f16 and bf16 with frexp, ldexp and nearbyint,
 * and treats one element at a time. Numbers written by hand guard the reference itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"

enum { MAX_BUFFERS = 32, MAX_COUNT = 6000, PAD = 128, ROOM = MAX_COUNT * 8 + 2 * PAD };

static const char *const levels[] = {"generic", "avx2", "avx512", "neon"};
static const char *first_choice;

#define BYTES(id, name, bytes) bytes,
static const size_t elem_bytes[] = {TUTTI_DTYPE_LIST(BYTES)};
#undef BYTES

/* ---- the reference ---- */

/* A small float format: mantissa bits, exponent of the smallest and of the largest normal number, infinity's and the NaN's bits. */
struct format {
    int mantissa, lowest, highest;
    uint16_t infinity, nan;
};
static const struct format f16_format = {10, -14, 15, 0x7c00, 0x7e00};
static const struct format bf16_format = {7, -126, 127, 0x7f80, 0x7fc0};

static double decode(const struct format *f, uint16_t h)
{
    const unsigned magnitude = h & 0x7fffu, fraction = magnitude & ((1u << f->mantissa) - 1), exponent = magnitude >> f->mantissa;
    double x;
    if (magnitude >= f->infinity)
        x = magnitude == f->infinity ? INFINITY : NAN;
    else if (exponent == 0)
        x = ldexp(fraction, f->lowest - f->mantissa);
    else
        x = ldexp(fraction + (1u << f->mantissa), (int)exponent - 1 + f->lowest - f->mantissa);
    return h & 0x8000u ? -x : x;
}

static uint16_t encode(const struct format *f, double x)
{
    if (isnan(x))
        return f->nan;
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent = 0;
    if (isinf(x) || x == 0)
        return sign | (x == 0 ? 0 : f->infinity);
    frexp(x, &exponent);
    exponent = exponent - 1 < f->lowest ? f->lowest : exponent - 1;
    const double units = nearbyint(ldexp(fabs(x), f->mantissa - exponent)); /* of the last place; the default mode is to nearest even */
    const double bits = units + ldexp(exponent - f->lowest, f->mantissa);   /* a carry into the exponent is an addition too */
    return sign | (bits >= f->infinity ? f->infinity : (uint16_t)bits);
}

static double min_of(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double float_op(tutti_redop op, double a, double b, bool single)
{
    if (op == TUTTI_MIN)
        return min_of(a, b);
    if (op == TUTTI_MAX)
        return -min_of(-a, -b);
    if (single) {
        const volatile float x = (float)a, y = (float)b;
        const volatile float z = op == TUTTI_PROD ? x * y : x + y;
        return z;
    }
    const volatile double z = op == TUTTI_PROD ? a * b : a + b;
    return z;
}

static double get_float(tutti_dtype t, const char *p)
{
    uint16_t h;
    float f;
    double d;
    memcpy(&h, p, 2);
    switch (t) {
    case TUTTI_F16:
        return decode(&f16_format, h);
    case TUTTI_BF16:
        return decode(&bf16_format, h);
    case TUTTI_F32:
        memcpy(&f, p, 4);
        return f;
    default:
        memcpy(&d, p, 8);
        return d;
    }
}

static void put_float(tutti_dtype t, char *p, double x)
{
    const uint32_t nan32 = 0x7fc00000;
    const uint64_t nan64 = 0x7ff8000000000000;
    const uint16_t h = encode(t == TUTTI_F16 ? &f16_format : &bf16_format, x);
    const float f = (float)x;
    if (t == TUTTI_F32)
        memcpy(p, isnan(x) ? (const void *)&nan32 : &f, 4);
    else if (t == TUTTI_F64)
        memcpy(p, isnan(x) ? (const void *)&nan64 : &x, 8);
    else
        memcpy(p, &h, 2);
}

__extension__ typedef __int128 wide; /* holds every integer of every type, and sums of them */

static wide get_int(tutti_dtype t, const char *p)
{
    uint64_t bits = 0;
    memcpy(&bits, p, elem_bytes[t]); /* this machine and every CI machine is little-endian */
    switch (t) {
    case TUTTI_I8:
        return (int8_t)bits;
    case TUTTI_I16:
        return (int16_t)bits;
    case TUTTI_I32:
        return (int32_t)bits;
    case TUTTI_I64:
        return (int64_t)bits;
    default:
        return bits;
    }
}

/* The value that wraps into the type: its low bytes. */
static wide wrap(tutti_dtype t, uint64_t x)
{
    return get_int(t, (const char *)&x);
}

static wide int_op(tutti_dtype t, tutti_redop op, wide a, wide b)
{
    switch (op) {
    case TUTTI_PROD:
        return wrap(t, (uint64_t)a * (uint64_t)b);
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
        return wrap(t, (uint64_t)a + (uint64_t)b);
    }
}

static bool is_float(tutti_dtype t)
{
    return t <= TUTTI_BF16;
}

/* Element i of the result, at `out`. */
static void reference(const struct tt_reduce *r, size_t i, char *out)
{
    const size_t elem = elem_bytes[r->dtype];
    const bool single = r->dtype != TUTTI_F64;
    const char *first = (const char *)r->src[0] + i * elem;
    if (r->nsrc == 1 && r->divisor <= 1) {
        memcpy(out, first, elem);
        return;
    }
    if (is_float(r->dtype)) {
        double x = get_float(r->dtype, first);
        for (uint32_t s = 1; s < r->nsrc; s++)
            x = float_op(r->redop, x, get_float(r->dtype, (const char *)r->src[s] + i * elem), single);
        if (r->divisor > 1)
            x = single ? (double)((float)x / (float)r->divisor) : x / (double)r->divisor;
        put_float(r->dtype, out, x);
        return;
    }
    wide x = get_int(r->dtype, first);
    for (uint32_t s = 1; s < r->nsrc; s++) {
        const wide y = get_int(r->dtype, (const char *)r->src[s] + i * elem);
        x = r->divisor > 1 ? x + y : int_op(r->dtype, r->redop, x, y);
    }
    x = r->divisor > 1 ? x / (wide)r->divisor : x;
    memcpy(out, &x, elem);
}

/* ---- inputs ---- */

/* Half the elements ordinary, a quarter any bits, a quarter special: zeros, infinities, NaNs, limits, subnormals. */
static void fill_float(tutti_dtype t, struct tt_rng *rng, char *p)
{
    static const double special[] = {0.0,    -0.0,    INFINITY, -INFINITY, NAN,         1.0,     -1.0,    65504.0,
                                     65520,  1e-7,    5.96e-8,  0x1p-149,  -0x1.8p-149, 0x1p-14, 0x1p-15, 0x1.fffffep127,
                                     3.4e38, -3.4e38, 2048.0,   0x1.004p0, 0x1.00cp0,   257.0,   259.0,   0x1p-126};
    const uint64_t bits = tt_rng_next(rng);
    switch (tt_rng_below(rng, 4)) {
    case 0:
        memcpy(p, &bits, elem_bytes[t]);
        break;
    case 1:
        put_float(t, p, special[bits % countof(special)]);
        break;
    default:
        put_float(t, p, (double)(int64_t)(bits % 2001) / 64.0 - 15.0);
    }
}

static void fill(tutti_dtype t, struct tt_rng *rng, char *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = tt_rng_next(rng);
        if (is_float(t))
            fill_float(t, rng, p + i * elem_bytes[t]);
        else
            memcpy(p + i * elem_bytes[t], &bits, elem_bytes[t]);
    }
}

/* ---- one reduction on every level ---- */

struct scene {
    char *source[MAX_BUFFERS];   /* pristine */
    char *work[2 * MAX_BUFFERS]; /* what the kernel sees: sources, then destinations */
    char *expect;
    const void *src[MAX_BUFFERS];
    void *dst[MAX_BUFFERS];
};
static struct scene scene;

static int open_scene(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAX_BUFFERS; i++)
        scene.source[i] = tt_alloc(ROOM, 1);
    for (size_t i = 0; i < 2 * MAX_BUFFERS; i++)
        scene.work[i] = aligned_alloc(64, ROOM - ROOM % 64);
    scene.expect = tt_alloc(ROOM, 1);
    first_choice = tt_kernel_isa();
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAX_BUFFERS; i++)
        free(scene.source[i]);
    for (size_t i = 0; i < 2 * MAX_BUFFERS; i++)
        free(scene.work[i]);
    free(scene.expect);
    return 0;
}

/* How the buffers lie: shift[b] bytes past a 64-byte boundary; the first `shared` destinations are the last sources. */
struct placing {
    uint32_t shared;
    uint8_t shift[2 * MAX_BUFFERS];
};

static void place(struct tt_reduce *r, const struct placing *p)
{
    for (uint32_t s = 0; s < r->nsrc; s++)
        scene.src[s] = scene.work[s] + PAD / 2 + p->shift[s];
    for (uint32_t d = 0; d < r->ndst; d++) {
        if (d < p->shared)
            scene.dst[d] = scene.work[r->nsrc - 1 - d] + PAD / 2 + p->shift[r->nsrc - 1 - d];
        else
            scene.dst[d] = scene.work[MAX_BUFFERS + d] + PAD / 2 + p->shift[MAX_BUFFERS + d];
    }
    r->src = scene.src;
    r->dst = scene.dst;
}

static void check_level(struct tt_reduce *r, const struct placing *p, const char *level)
{
    const size_t bytes = r->count * elem_bytes[r->dtype];
    place(r, p);
    for (uint32_t d = 0; d < r->ndst; d++)
        memset((char *)r->dst[d] - PAD / 2, 0xa5, bytes + PAD);
    for (uint32_t s = 0; s < r->nsrc; s++)
        memcpy(scene.work[s] + PAD / 2 + p->shift[s], scene.source[s], bytes);
    tt_kernel_reduce_run(r);
    for (uint32_t d = 0; d < r->ndst; d++) {
        const char *got = r->dst[d];
        for (size_t i = 0; i < PAD / 2; i++)
            assert_true((unsigned char)got[-1 - (ptrdiff_t)i] == 0xa5 && (unsigned char)got[bytes + i] == 0xa5);
        if (memcmp(got, scene.expect, bytes) == 0)
            continue;
        size_t at = 0;
        while (got[at] == scene.expect[at])
            at++;
        fail_msg("%s dtype %d op %d nsrc %u ndst %u count %zu divisor %u: element %zu differs", level, (int)r->dtype, (int)r->redop,
                 r->nsrc, r->ndst, r->count, r->divisor, at / elem_bytes[r->dtype]);
    }
}

/* The pristine sources are filled; runs *r on every level this CPU has. */
static void check(struct tt_reduce *r, const struct placing *p)
{
    const size_t elem = elem_bytes[r->dtype];
    r->src = (const void *const *)scene.source;
    for (size_t i = 0; i < r->count; i++)
        reference(r, i, scene.expect + i * elem);
    for (size_t l = 0; l < countof(levels); l++) {
        if (tt_kernel_force(levels[l]))
            check_level(r, p, levels[l]);
    }
}

static struct placing any_placing(struct tt_rng *rng, const struct tt_reduce *r)
{
    struct placing p = {.shared = (uint32_t)tt_rng_below(rng, 3)};
    const uint32_t most = r->nsrc < r->ndst ? r->nsrc : r->ndst;
    p.shared = p.shared == 2 || p.shared > most ? most : p.shared;
    const bool aligned = tt_rng_below(rng, 4) == 0;
    for (size_t b = 0; b < countof(p.shift); b++)
        p.shift[b] = aligned ? 0 : (uint8_t)tt_rng_below(rng, 33);
    return p;
}

static void check_count(tutti_dtype t, tutti_redop op, size_t count, struct tt_rng *rng)
{
    static const uint32_t nsrcs[] = {1, 2, 3, 4, 5, 7, 8, 9, 16}, divisors[] = {0, 1, 2, 3, 7, 1000, 16777217, 4294967295u};
    for (size_t n = 0; n < countof(nsrcs); n++) {
        struct tt_reduce r = {.dtype = t, .redop = op, .nsrc = nsrcs[n], .count = count};
        r.ndst = (uint32_t[]){1, 1, 2, 4, nsrcs[n]}[tt_rng_below(rng, 5)];
        r.divisor = op == TUTTI_AVG ? nsrcs[n] : divisors[tt_rng_below(rng, 2 * countof(divisors)) % countof(divisors)];
        if (!is_float(t) && op != TUTTI_AVG && op != TUTTI_SUM)
            r.divisor = 0;
        r.nontemporal = tt_rng_below(rng, 2);
        for (uint32_t s = 0; s < r.nsrc; s++)
            fill(t, rng, scene.source[s], count);
        const struct placing p = any_placing(rng, &r);
        check(&r, &p);
    }
}

static void test_every_kernel(void **state)
{
    (void)state;
    static const size_t longer[] = {127, 128, 129, 255, 256, 257, 300, 515, 1024};
    struct tt_rng rng;
    tt_rng_seed(&rng, 3);
    for (tutti_dtype t = 0; t < TUTTI_DTYPE_COUNT; t++) {
        for (tutti_redop op = 0; op < TUTTI_REDOP_COUNT; op++) {
            if (!tt_redop_fits(op, t))
                continue;
            for (size_t count = 0; count <= 67; count++)
                check_count(t, op, count, &rng);
            for (size_t i = 0; i < countof(longer); i++)
                check_count(t, op, longer[i], &rng);
        }
    }
}

/* Long enough to stream; every element shift of the destination within a cache line. */
static void test_streaming(void **state)
{
    (void)state;
    struct tt_rng rng;
    tt_rng_seed(&rng, 4);
    for (tutti_dtype t = 0; t < TUTTI_OPAQUE16; t++) {
        const size_t elem = elem_bytes[t];
        for (uint32_t s = 0; s < 3; s++)
            fill(t, &rng, scene.source[s], MAX_COUNT);
        for (size_t shift = 0; shift < 64; shift += elem == 8 ? 4 : elem) {
            for (uint32_t nsrc = 1; nsrc <= 3; nsrc++) {
                struct placing p = {.shared = 0};
                memset(p.shift + MAX_BUFFERS, (int)shift, MAX_BUFFERS);
                struct tt_reduce r = {.dtype = t, .redop = TUTTI_SUM, .nsrc = nsrc, .ndst = 1 + (uint32_t)shift % 3, .nontemporal = true};
                r.count = 4200 / elem + shift;
                check(&r, &p);
            }
        }
    }
}

/* ---- f16 and bf16 over all 65,536 values ---- */

/* Every value of the type with `other`, 4096 values at a time. */
static void check_all_values(tutti_dtype t, tutti_redop op, uint16_t other, uint32_t divisor)
{
    static const struct placing plain;
    enum { STEP = 4096 };
    for (uint32_t base = 0; base < 65536; base += STEP) {
        for (uint32_t i = 0; i < STEP; i++) {
            const uint16_t h = (uint16_t)(base + i);
            memcpy(scene.source[0] + 2 * i, &h, 2);
            memcpy(scene.source[1] + 2 * i, &other, 2);
        }
        struct tt_reduce r = {.dtype = t, .redop = op, .nsrc = 2, .ndst = 1, .count = STEP, .divisor = divisor};
        check(&r, &plain);
    }
}

/* Nothing but NaNs changes when every value meets itself in max or the neutral element in sum and product. */
static void test_half_identity(void **state)
{
    (void)state;
    static uint16_t in[65536], other[65536], out[65536];
    for (size_t half = 0; half < 6; half++) {
        const bool f16 = half % 2;
        const struct format *f = f16 ? &f16_format : &bf16_format;
        const tutti_redop op = (tutti_redop[]){TUTTI_SUM, TUTTI_PROD, TUTTI_MAX}[half / 2];
        for (uint32_t i = 0; i < 65536; i++) {
            in[i] = (uint16_t)i;
            other[i] = op == TUTTI_SUM ? 0x8000 : op == TUTTI_MAX ? in[i] : f16 ? 0x3c00 : 0x3f80;
        }
        for (size_t l = 0; l < countof(levels); l++) {
            if (!tt_kernel_force(levels[l]))
                continue;
            tt_kernel_reduce_two(f16 ? TUTTI_F16 : TUTTI_BF16, op, out, in, other, 65536);
            for (uint32_t i = 0; i < 65536; i++)
                assert_int_equal(out[i], (i & 0x7fff) > f->infinity ? f->nan : i);
        }
    }
}

static void test_half_rounding(void **state)
{
    (void)state;
    static const double factors[] = {0.5,          0.25,      0x1p-3,    0x1p-9, 0x1p-10, 0x1p-13, 1.5,   1.25,    0.75,
                                     1.0009765625, 1.0078125, 1.9921875, 3.0,    0x1p10,  0x1p14,  -1.75, 0x1p-24, 0.3333};
    static const double addends[] = {0x1p-24, 0x1.8p-24, 0x1p-14, 0x1p-11, 1.0, 16.0, 15.9921875, 2049.0, -65504.0, 0x1p-133, 256.0, 3e38};
    for (int half = 0; half < 2; half++) {
        const tutti_dtype t = half ? TUTTI_F16 : TUTTI_BF16;
        const struct format *f = half ? &f16_format : &bf16_format;
        for (size_t i = 0; i < countof(factors); i++)
            check_all_values(t, TUTTI_PROD, encode(f, factors[i]), 0);
        for (size_t i = 0; i < countof(addends); i++)
            check_all_values(t, TUTTI_SUM, encode(f, addends[i]), i % 3 ? 0 : (uint32_t)i + 2);
    }
}

/* ---- numbers written by hand ---- */

static uint16_t half_of(tutti_dtype t, uint32_t nsrc, const uint16_t *x, uint32_t divisor)
{
    const void *src[3];
    for (uint32_t s = 0; s < nsrc; s++)
        src[s] = x + s;
    uint16_t out = 0x1234;
    void *dst[] = {&out};
    tt_kernel_reduce_run(&(struct tt_reduce){.dtype = t, .nsrc = nsrc, .ndst = 1, .src = src, .dst = dst, .count = 1, .divisor = divisor});
    return out;
}

static void hand_halves(void)
{
    const uint16_t two_k_and_ones[] = {0x6800, 0x3c00, 0x3c00}, top[] = {0x7bff, 0x4c00}, below_top[] = {0x7bff, 0x4bff};
    assert_int_equal(half_of(TUTTI_F16, 3, two_k_and_ones, 0), 0x6801); /* 2048 + 1 + 1, rounded once */
    assert_int_equal(half_of(TUTTI_F16, 2, two_k_and_ones, 0), 0x6800); /* 2049: tie, to even */
    assert_int_equal(half_of(TUTTI_F16, 2, top, 0), 0x7c00);            /* 65520: tie, to infinity */
    assert_int_equal(half_of(TUTTI_F16, 2, below_top, 0), 0x7bff);
    assert_int_equal(half_of(TUTTI_F16, 1, (uint16_t[]){0x0001}, 2), 0x0000); /* half of the smallest: tie, to even */
    assert_int_equal(half_of(TUTTI_F16, 1, (uint16_t[]){0x8003}, 2), 0x8002);
    assert_int_equal(half_of(TUTTI_F16, 1, (uint16_t[]){0x0401}, 2), 0x0200);
    assert_int_equal(half_of(TUTTI_F16, 2, (uint16_t[]){0x7c00, 0xfc00}, 0), 0x7e00);
    assert_int_equal(half_of(TUTTI_F16, 1, (uint16_t[]){0xfc01}, 0), 0xfc01); /* a copy */
    assert_int_equal(half_of(TUTTI_F16, 1, (uint16_t[]){0xfc01}, 2), 0x7e00);
    const uint16_t b256_and_ones[] = {0x4380, 0x3f80, 0x3f80}, b258_1[] = {0x4381, 0x3f80};
    assert_int_equal(half_of(TUTTI_BF16, 3, b256_and_ones, 0), 0x4381);
    assert_int_equal(half_of(TUTTI_BF16, 2, b256_and_ones, 0), 0x4380);
    assert_int_equal(half_of(TUTTI_BF16, 2, b258_1, 0), 0x4382);
    assert_int_equal(half_of(TUTTI_BF16, 2, (uint16_t[]){0x7f7f, 0x7f7f}, 0), 0x7f80);
    assert_int_equal(half_of(TUTTI_BF16, 2, (uint16_t[]){0xffff, 0x3f80}, 0), 0x7fc0);
}

static int64_t int_of(tutti_dtype t, tutti_redop op, int64_t a, int64_t b, uint32_t divisor) /* U64: as if signed */
{
    int64_t out = 0;
    const void *src[] = {&a, &b};
    void *dst[] = {&out};
    tt_kernel_reduce_run(
        &(struct tt_reduce){.dtype = t, .redop = op, .nsrc = 2, .ndst = 1, .src = src, .dst = dst, .count = 1, .divisor = divisor});
    return (int64_t)get_int(t, (const char *)&out);
}

static void hand_integers(void)
{
    assert_int_equal(int_of(TUTTI_I8, TUTTI_SUM, 127, 1, 0), -128);
    assert_int_equal(int_of(TUTTI_U8, TUTTI_SUM, 255, 2, 0), 1);
    assert_int_equal(int_of(TUTTI_U8, TUTTI_MAX, 255, 1, 0), 255);
    assert_int_equal(int_of(TUTTI_I8, TUTTI_MAX, -1, 1, 0), 1);
    assert_int_equal(int_of(TUTTI_I8, TUTTI_PROD, 100, 3, 0), 44);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_SUM, INT32_MAX, 1, 0), INT32_MIN);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_PROD, 65536, 65537, 0), 65536);
    assert_int_equal(int_of(TUTTI_I64, TUTTI_SUM, INT64_MAX, 1, 0), INT64_MIN);
    assert_int_equal(int_of(TUTTI_I64, TUTTI_MIN, INT64_MIN, 1, 0), INT64_MIN);
    assert_int_equal(int_of(TUTTI_I64, TUTTI_AVG, -4, -3, 2), -3);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_AVG, -4, -3, 2), -3);
    assert_int_equal(int_of(TUTTI_I8, TUTTI_AVG, -4, -3, 2), -3);
    assert_int_equal(int_of(TUTTI_U8, TUTTI_AVG, 200, 55, 2), 127);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_AVG, INT32_MIN, 0, 2147483648u), -1);
    assert_int_equal(int_of(TUTTI_I8, TUTTI_AVG, -128, 0, 4294967295u), 0);
    assert_int_equal(int_of(TUTTI_U8, TUTTI_AVG, 200, 200, 2), 200); /* none of these sums wraps */
    assert_int_equal(int_of(TUTTI_I8, TUTTI_AVG, 127, 126, 2), 126);
    assert_int_equal(int_of(TUTTI_I8, TUTTI_AVG, -127, -126, 2), -126);
    assert_int_equal(int_of(TUTTI_U16, TUTTI_AVG, 65535, 65535, 2), 65535);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_AVG, INT32_MAX, INT32_MAX, 2), INT32_MAX);
    assert_int_equal(int_of(TUTTI_U32, TUTTI_AVG, 4294967295, 4294967295, 2), 4294967295);
    assert_int_equal(int_of(TUTTI_I64, TUTTI_AVG, INT64_MIN, INT64_MIN, 2), INT64_MIN);
    assert_int_equal(int_of(TUTTI_U64, TUTTI_AVG, -1, -1, 2), -1);
    assert_int_equal(int_of(TUTTI_I16, TUTTI_SUM, 32767, 1, 0), -32768);
    assert_int_equal(int_of(TUTTI_U16, TUTTI_MAX, 65535, 1, 0), 65535);
    assert_int_equal(int_of(TUTTI_I16, TUTTI_MAX, -1, 1, 0), 1);
    assert_int_equal(int_of(TUTTI_U32, TUTTI_MIN, 4294967295, 1, 0), 1);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_MIN, -1, 1, 0), -1);
    assert_int_equal(int_of(TUTTI_U64, TUTTI_MIN, -1, 1, 0), 1);
    assert_int_equal(int_of(TUTTI_I64, TUTTI_MAX, -1, 1, 0), 1);
    assert_int_equal(int_of(TUTTI_I32, TUTTI_BAND, 12, 10, 0), 8);
    assert_int_equal(int_of(TUTTI_U16, TUTTI_BOR, 12, 10, 0), 14);
    assert_int_equal(int_of(TUTTI_I64, TUTTI_BXOR, 12, 10, 0), 6);
    assert_int_equal(int_of(TUTTI_U8, TUTTI_LAND, 12, 3, 0), 1); /* no bit in common */
    assert_int_equal(int_of(TUTTI_I32, TUTTI_LAND, 256, 0, 0), 0);
    assert_int_equal(int_of(TUTTI_U64, TUTTI_LOR, INT64_MIN, 0, 0), 1);
    assert_int_equal(int_of(TUTTI_I16, TUTTI_LXOR, 256, 2, 0), 0);
    assert_int_equal(int_of(TUTTI_I16, TUTTI_LXOR, 256, 0, 0), 1);
}

static void hand_floats(void)
{
    const float zero[] = {0.0f, -0.0f, 0.0f}, ones[] = {1.0f, 16777216.0f, -16777216.0f};
    float out[2];
    tt_kernel_reduce_two(TUTTI_F32, TUTTI_MIN, out, zero, zero + 1, 2);
    assert_true(signbit(out[0]) && signbit(out[1]));
    tt_kernel_reduce_two(TUTTI_F32, TUTTI_MAX, out, zero, zero + 1, 2);
    assert_true(!signbit(out[0]) && !signbit(out[1]));
    const void *src[] = {ones, ones + 1, ones + 2};
    void *dst[] = {out};
    tt_kernel_reduce_run(&(struct tt_reduce){.dtype = TUTTI_F32, .nsrc = 3, .ndst = 1, .src = src, .dst = dst, .count = 1});
    assert_true(out[0] == 0.0f); /* left to right: the 1 is lost first */
    uint32_t bits = 0, inf = 0x7f800000, minus = 0xff800000;
    tt_kernel_reduce_two(TUTTI_F32, TUTTI_SUM, &bits, &inf, &minus, 1);
    assert_int_equal(bits, 0x7fc00000);
}

static void test_by_hand(void **state)
{
    (void)state;
    for (size_t l = 0; l < countof(levels); l++) {
        if (!tt_kernel_force(levels[l]))
            continue;
        hand_halves();
        hand_integers();
        hand_floats();
    }
}

/* Ranks that combine the same two operands in mirrored order must hold the same bits. */
static void test_commutes(void **state)
{
    (void)state;
    struct tt_rng rng;
    tt_rng_seed(&rng, 5);
    for (tutti_dtype t = 0; t < TUTTI_OPAQUE16; t++) {
        fill(t, &rng, scene.source[0], MAX_COUNT);
        fill(t, &rng, scene.source[1], MAX_COUNT);
        for (tutti_redop op = 0; op < TUTTI_REDOP_COUNT; op++) {
            for (size_t l = 0; l < countof(levels); l++) {
                if (!tt_redop_fits(op, t) || !tt_kernel_force(levels[l]))
                    continue;
                tt_kernel_reduce_two(t, op, scene.work[0], scene.source[0], scene.source[1], MAX_COUNT);
                tt_kernel_reduce_two(t, op, scene.work[1], scene.source[1], scene.source[0], MAX_COUNT);
                assert_memory_equal(scene.work[0], scene.work[1], MAX_COUNT * elem_bytes[t]);
            }
        }
    }
}

static void test_levels(void **state)
{
    (void)state;
    assert_false(tt_kernel_force("sse9"));
    assert_false(tt_kernel_force(""));
    assert_true(tt_kernel_force("generic"));
    assert_string_equal(tt_kernel_isa(), "generic");
    assert_true(tt_kernel_force(first_choice));
    assert_string_equal(tt_kernel_isa(), first_choice);
    assert_false(tt_kernel_force("sse9"));
    assert_string_equal(tt_kernel_isa(), first_choice);
#if defined(__x86_64__)
    assert_false(tt_kernel_force("neon"));
    const bool avx512 = tt_kernel_force("avx512"), avx2 = tt_kernel_force("avx2");
    assert_string_equal(first_choice, avx512 ? "avx512" : avx2 ? "avx2" : "generic");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),    cmocka_unit_test(test_by_hand),       cmocka_unit_test(test_every_kernel),
        cmocka_unit_test(test_streaming), cmocka_unit_test(test_half_identity), cmocka_unit_test(test_half_rounding),
        cmocka_unit_test(test_commutes),
    };
    return cmocka_run_group_tests(tests, open_scene, close_scene);
}
