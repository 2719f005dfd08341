/* avx512.c - the kernels for AVX-512 (F, BW, DQ, VL): 64-byte vectors. Only this file is compiled
 * for it; kernel.c asks the CPU before it calls anything here. */
#include "kernel/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c")
#endif

#define TT_LEVEL     tt_kernel_avx512
#define TT_VEC_BYTES 64
#define TT_OWN_STREAM
#define TT_OWN_F16
#define TT_OWN_PART

#include "kernel/vec.h"

INLINE void vec_stream(char *to, vec v)
{
    _mm512_stream_si512((__m512i *)to, (__m512i)v);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}

/* Loads the first n < 64 bytes of a vector; the others are zero. The mask keeps memory beyond
 * them untouched. */
INLINE vec load_part(const char *from, size_t n)
{
    return (vec)_mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, from);
}

INLINE void store_part(char *to, vec v, size_t n)
{
    _mm512_mask_storeu_epi8(to, ((__mmask64)1 << n) - 1, (__m512i)v);
}

/* The lower half of the elements goes to lo, the upper half to hi. */
INLINE struct acc f16_widen(vec v)
{
    const __m256i lo = _mm512_castsi512_si256((__m512i)v),
                  hi = _mm512_extracti64x4_epi64((__m512i)v, 1);
    return (struct acc){(vec)_mm512_cvtph_ps(lo), (vec)_mm512_cvtph_ps(hi)};
}

#pragma GCC diagnostic push
/* gcc's own macro warns in builds without optimisation */
#pragma GCC diagnostic ignored "-Wsign-conversion"
INLINE vec f16_narrow(struct acc a)
{
    const __m256i lo = _mm512_cvtps_ph((__m512)a.lo, _MM_FROUND_TO_NEAREST_INT);
    const __m256i hi = _mm512_cvtps_ph((__m512)a.hi, _MM_FROUND_TO_NEAREST_INT);
    return (vec)_mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
}
#pragma GCC diagnostic pop

#include "kernel/table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
