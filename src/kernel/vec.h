/* vec.h - inside src/kernel: vectors of TT_VEC_BYTES bytes, and what the data types need of them.
 *
 * Included once by each instruction set's .c file, which defines TT_VEC_BYTES first. A `vec` is
 * bits; arithmetic casts it to lanes.
 *
 * The bits of a result must not depend on the instruction set, nor on which operand came first
 * (ranks that combine in mirrored order must agree). IEEE arithmetic gives both, except for the
 * payload of NaNs and the sign of min(-0, +0). Therefore:
 *   every NaN result is the one quiet NaN (f32 0x7fc00000, f64 0x7ff8..., f16 0x7e00, bf16 0x7fc0);
 *   -0 is less than +0.
 */
#ifndef TT_KERNEL_VEC_H
#define TT_KERNEL_VEC_H

#include <string.h>

#include "base/base.h"

#define INLINE      static inline __attribute__((always_inline))
#define VECTOR_OF   __attribute__((vector_size(TT_VEC_BYTES)))
#define LANES(type) (TT_VEC_BYTES / sizeof(type))

typedef uint64_t vec VECTOR_OF;
typedef float f32s VECTOR_OF;
typedef double f64s VECTOR_OF;
typedef int8_t i8s VECTOR_OF;
typedef uint8_t u8s VECTOR_OF;
typedef int16_t i16s VECTOR_OF;
typedef uint16_t u16s VECTOR_OF;
typedef int32_t i32s VECTOR_OF;
typedef uint32_t u32s VECTOR_OF;
typedef int64_t i64s VECTOR_OF;

/* Per data type: the lanes to add and multiply (unsigned: integers wrap), and the lanes to
 * compare. */
#define ARITH_F32    f32s
#define ARITH_F64    f64s
#define ARITH_F16    f32s
#define ARITH_BF16   f32s
#define ARITH_I8     u8s
#define ARITH_U8     u8s
#define ARITH_I16    u16s
#define ARITH_U16    u16s
#define ARITH_I32    u32s
#define ARITH_U32    u32s
#define ARITH_I64    vec
#define ARITH_U64    vec
#define ORDER_F32    f32s
#define ORDER_F64    f64s
#define ORDER_F16    f32s
#define ORDER_BF16   f32s
#define ORDER_I8     i8s
#define ORDER_U8     u8s
#define ORDER_I16    i16s
#define ORDER_U16    u16s
#define ORDER_I32    i32s
#define ORDER_U32    u32s
#define ORDER_I64    i64s
#define ORDER_U64    vec
#define IS_HALF(t)   ((t) == TUTTI_F16 || (t) == TUTTI_BF16)
#define IS_FLOAT(t)  ((t) == TUTTI_F32 || (t) == TUTTI_F64 || IS_HALF(t))
#define SIGN_BITS(t) ((vec){0} + ((t) == TUTTI_F64 ? 0x8000000000000000u : 0x8000000080000000u))

/* A vector of elements while it is being combined. f16 and bf16 take two vectors of f32; the
 * others use only lo. */
struct acc {
    vec lo, hi;
};

/* The bits of v where mask is set, else those of otherwise. */
INLINE vec pick(vec mask, vec v, vec otherwise)
{
    return (v & mask) | (otherwise & ~mask);
}

/* The last step for floats: divides when divisor > 1, and makes every NaN the quiet NaN. */
INLINE vec f32_finish(vec v, uint32_t divisor)
{
    if (divisor > 1)
        v = (vec)((f32s)v / (float)divisor);
    return pick((vec)((f32s)v == (f32s)v), v, (vec)((u32s){0} + 0x7fc00000u));
}

INLINE vec f64_finish(vec v, uint32_t divisor)
{
    if (divisor > 1)
        v = (vec)((f64s)v / (double)divisor);
    return pick((vec)((f64s)v == (f64s)v), v, (vec){0} + 0x7ff8000000000000u);
}

#endif
