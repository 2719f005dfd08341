/* generic.c - the kernels for any CPU: 16-byte vectors, which the compiler maps to SSE2, NEON, VSX
 * or plain registers. */
#include "kernel/level.h"

#define TT_LEVEL     tt_kernel_generic
#define TT_VEC_BYTES 16

#include "kernel/vec.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#define TT_OWN_STREAM
INLINE void vec_stream(char *to, vec v)
{
    _mm_stream_si128((__m128i *)to, (__m128i)v);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#define TT_OWN_F16
/* The lower half of the elements in lo, the upper half in hi. */
INLINE struct acc f16_widen(vec v)
{
    const float16x8_t h = (float16x8_t)v;
    return (struct acc){(vec)vcvt_f32_f16(vget_low_f16(h)), (vec)vcvt_high_f32_f16(h)};
}

INLINE vec f16_narrow(struct acc a)
{
    return (vec)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)a.lo), (float32x4_t)a.hi);
}
#endif
#include "kernel/table.h"
