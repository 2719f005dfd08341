/* avx2.c - the kernels for AVX2 with F16C: 32-byte vectors. Only this file is compiled for it;
 * kernel.c asks the CPU before it calls anything here. */
#include "kernel/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define TT_LEVEL     tt_kernel_avx2
#define TT_VEC_BYTES 32
#define TT_OWN_STREAM
#define TT_OWN_F16

#include "kernel/vec.h"

INLINE void vec_stream(char *to, vec v)
{
    _mm256_stream_si256((__m256i *)to, (__m256i)v);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}

/* The lower half of the elements goes to lo, the upper half to hi. */
INLINE struct acc f16_widen(vec v)
{
    const __m128i lo = _mm256_castsi256_si128((__m256i)v),
                  hi = _mm256_extracti128_si256((__m256i)v, 1);
    return (struct acc){(vec)_mm256_cvtph_ps(lo), (vec)_mm256_cvtph_ps(hi)};
}

INLINE vec f16_narrow(struct acc a)
{
    const __m128i lo = _mm256_cvtps_ph((__m256)a.lo, _MM_FROUND_TO_NEAREST_INT);
    const __m128i hi = _mm256_cvtps_ph((__m256)a.hi, _MM_FROUND_TO_NEAREST_INT);
    return (vec)_mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1);
}

#include "kernel/table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
