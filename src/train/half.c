/* half.c - f16 and bf16 to f32 and back, rounding to nearest even, in plain integer and f32
 * arithmetic: every machine gets the same bits.
 *
 *     bf16   the upper half of f32
 *     f16    sign 1, exponent 5 (bias 15), fraction 10: the fields move by 13, the exponent by 112
 *
 * The adder rounds subnormal f16: 0.5 has its last bit at 2^-24, exactly the last bit of a
 * subnormal f16. A NaN stays a NaN and becomes quiet. */
#include <assert.h>
#include <string.h>

#include "train/train_int.h"

static float as_float(uint32_t w)
{
    float f;
    memcpy(&f, &w, sizeof f);
    return f;
}

static uint32_t as_bits(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    return w;
}

static float f16_widen(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, w = (uint32_t)(h & 0x7fffu) << 13;
    if (w >= 0x0f800000u) /* infinity, NaN */
        w += 0x70000000u;
    /* Subnormal: read as a normal number with exponent -14, then take the added 2^-14 away. */
    else if (w < 0x00800000u)
        w = as_bits(as_float(w + 0x38800000u) - as_float(0x38800000u));
    else
        w += 0x38000000u;
    return as_float(sign | w);
}

static uint16_t f16_narrow(float f)
{
    uint32_t w = as_bits(f), sign = w >> 16 & 0x8000u;
    w &= 0x7fffffffu;
    if (w > 0x7f800000u) /* NaN */
        w = 0x7e00u;
    else if (w >= 0x47800000u) /* 65536 and more: infinity */
        w = 0x7c00u;
    else if (w < 0x38800000u) /* below 2^-14: subnormal or zero */
        w = as_bits(as_float(w) + 0.5f) - 0x3f000000u;
    else /* half of the last bit less one, plus the bit itself: ties go to even */
        w = (w + 0xfffu + (w >> 13 & 1u) - 0x38000000u) >> 13;
    return (uint16_t)(sign | w);
}

static uint16_t bf16_narrow(float f)
{
    uint32_t w = as_bits(f);
    bool nan = (w & 0x7fffffffu) > 0x7f800000u;
    return (uint16_t)(nan ? w >> 16 | 0x40u : (w + 0x7fffu + (w >> 16 & 1u)) >> 16);
}

bool tt_train_half(tutti_dtype dtype)
{
    return dtype == TUTTI_F16 || dtype == TUTTI_BF16;
}

void tt_train_half_widen(tutti_dtype dtype, const void *from, float *to, size_t n)
{
    const uint16_t *h = from;
    assert(tt_train_half(dtype));
    if (dtype == TUTTI_F16)
        for (size_t i = 0; i < n; i++)
            to[i] = f16_widen(h[i]);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = as_float((uint32_t)h[i] << 16);
}

void tt_train_half_narrow(tutti_dtype dtype, const float *from, void *to, size_t n)
{
    uint16_t *h = to;
    assert(tt_train_half(dtype));
    if (dtype == TUTTI_F16)
        for (size_t i = 0; i < n; i++)
            h[i] = f16_narrow(from[i]);
    else
        for (size_t i = 0; i < n; i++)
            h[i] = bf16_narrow(from[i]);
}

bool tt_train_half_round(tutti_dtype dtype, const float *from, float *lost, void *to, size_t n)
{
    if (!tt_train_half(dtype))
        return false;
    if (lost)
        tt_train_half_narrow_keep(dtype, from, lost, to, n);
    else
        tt_train_half_narrow(dtype, from, to, n);
    return true;
}

/* An overflow leaves infinity or NaN as the difference; carried over, it would poison every later
 * gradient, so it becomes zero. */
static float half_difference(float exact, float rounded)
{
    float d = exact - rounded;
    return d - d == 0 ? d : 0;
}

void tt_train_half_narrow_keep(tutti_dtype dtype, const float *restrict from, float *restrict lost,
                               void *restrict to, size_t n)
{
    uint16_t *restrict h = to;
    assert(tt_train_half(dtype));
    if (dtype == TUTTI_F16)
        for (size_t i = 0; i < n; i++) {
            float x = from[i] + lost[i];
            h[i] = f16_narrow(x);
            lost[i] = half_difference(x, f16_widen(h[i]));
        }
    else
        for (size_t i = 0; i < n; i++) {
            float x = from[i] + lost[i];
            h[i] = bf16_narrow(x);
            lost[i] = half_difference(x, as_float((uint32_t)h[i] << 16));
        }
}
