/* half.h - inside src/kernel: f16 and bf16 to f32 and back, a whole vector at a time, rounding to
 * nearest even.
 *
 * The even elements go to the low accumulator and the odd ones to the high one, as the two
 * halves of each 32-bit lane: shifts and masks instead of shuffles. (An instruction set with its
 * own f16 conversion may split differently, as long as narrowing undoes it.)
 *
 *      memory lane   | odd | even |      lo lane  f32(even)      hi lane  f32(odd)
 *
 * Narrowing expects that NaNs are the quiet NaN already (f32_finish). TT_OWN_F16: the including
 * file provides f16_widen and f16_narrow. */
#ifndef TT_KERNEL_HALF_H
#define TT_KERNEL_HALF_H

#include "kernel/vec.h"

/* bf16 is the upper half of f32. */
INLINE struct acc bf16_widen(vec v)
{
    u32s w = (u32s)v;
    return (struct acc){(vec)(w << 16), (vec)(w & 0xffff0000u)};
}

/* Adds half a unit of the last place, less one bit when the last bit is even: this carries
 * exactly when rounding goes up, also to infinity. */
INLINE u32s bf16_round(u32s w)
{
    return w + ((w >> 16) & 1u) + 0x7fffu;
}

INLINE vec bf16_narrow(struct acc a)
{
    return (vec)((bf16_round((u32s)a.lo) >> 16) | (bf16_round((u32s)a.hi) & 0xffff0000u));
}

#ifdef TT_OWN_F16
#define HAS_F16 1
#else
#define HAS_F16 0
/* Converts the f16 in the low 16 bits of each lane. The fields move to their f32 places; the
 * exponent is re-biased by 112, once more for infinity and NaN. A subnormal borrows the exponent
 * of 2^-14 as a hidden one, which subtracting 2^-14 removes again. */
INLINE u32s f16_to_f32(u32s h)
{
    u32s w = (h & 0x7fffu) << 13;
    u32s exponent = w & (0x7c00u << 13);
    u32s tiny = (u32s)(exponent == 0u);
    u32s huge = (u32s)(exponent == (0x7c00u << 13));
    u32s normal = w + (112u << 23) + (huge & (112u << 23));
    u32s subnormal = (u32s)((f32s)(w + (113u << 23)) - (f32s)((u32s){0} + (113u << 23)));
    return (u32s)pick((vec)tiny, (vec)subnormal, (vec)normal) | ((h & 0x8000u) << 16);
}

/* The inverse, in the low 16 bits of each lane. Below 2^-14: adding 0.5 leaves the f16 subnormal,
 * rounded by the adder, in the last bits (0.5's own last bit is 2^-24). From 65536 on: infinity.
 * Between: re-bias and round as in bf16_round; 65520 carries to infinity. */
INLINE u32s f32_to_f16(u32s w)
{
    u32s sign = w & 0x80000000u;
    u32s size = w ^ sign;
    u32s half = (u32s){0} + (126u << 23);
    u32s subnormal = (u32s)((f32s)size + (f32s)half) - half;
    u32s normal = (size - (112u << 23) + ((size >> 13) & 1u) + 0xfffu) >> 13;
    vec h = pick((vec)((i32s)size < (113 << 23)), (vec)subnormal, (vec)normal);
    h = pick((vec)((i32s)size >= (143 << 23)), (vec)((u32s){0} + 0x7c00u), h);
    h = pick((vec)((i32s)size > 0x7f800000), (vec)((u32s){0} + 0x7e00u), h);
    return (u32s)h | (sign >> 16);
}

INLINE struct acc f16_widen(vec v)
{
    u32s w = (u32s)v;
    return (struct acc){(vec)f16_to_f32(w & 0xffffu), (vec)f16_to_f32(w >> 16)};
}

INLINE vec f16_narrow(struct acc a)
{
    return (vec)(f32_to_f16((u32s)a.lo) | (f32_to_f16((u32s)a.hi) << 16));
}
#endif

#endif
