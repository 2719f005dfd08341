/* crc32c.c - the checksum of payloads: CRC-32C (Castagnoli). It detects every burst of up to 32
 * bits, every three flipped bits in a piece, and all but one in 2^32 of other errors.
 *
 * With SSE4.2 the CPU processes 8 bytes per instruction, with a latency of three cycles. Three
 * blocks are therefore processed side by side, and their checksums are combined:
 *
 *     crc(A B C) = shift(crc(A), 2 |B|) ^ shift(crc(B), |C|) ^ crc(C)
 *
 * Shifting a CRC over n zero bytes is a multiplication by x^(8n) modulo the polynomial: one
 * carry-less multiplication by a constant, and the crc32 instruction reduces the product. The
 * instruction adds 32 to the exponent and the bit-reversed product is one short, hence x^(8n - 33).
 * Other CPUs use eight tables that process 8 bytes at a time. The choice is made once per
 * process. */
#include "seal/seal.h"

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define POLY UINT32_C(0x82f63b78) /* bit-reversed: bit 31 is x^0 */
enum { BLOCK = 1024, SLICES = 8 };

/* memcpy, because p need not be aligned. */
static uint64_t crc32c_load(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- tables ---- */

/* table[s][i] is the checksum of byte i followed by s zero bytes, so that eight bytes can be looked
 * up independently of each other. */
static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? POLY : 0);
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int s = 1; s < SLICES; s++)
            table[s][i] = table[s - 1][i] >> 8 ^ table[0][table[s - 1][i] & 255];
}

uint32_t tt_seal_crc32c_tables(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~crc;
    pthread_once(&table_once, fill_table);
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v = le64toh(crc32c_load(p)) ^ c;
        c = 0;
        for (int s = 0; s < SLICES; s++)
            c ^= table[SLICES - 1 - s][v >> (8 * s) & 255];
    }
    while (n--)
        c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return ~c;
}

/* ---- SSE4.2 ---- */

#ifdef __x86_64__
#include <immintrin.h>
#define SSE42 __attribute__((target("sse4.2,pclmul")))

/* x^e modulo the polynomial, bit-reversed. */
static uint32_t power(unsigned e)
{
    uint32_t v = UINT32_C(1) << 31;
    while (e--)
        v = v >> 1 ^ (v & 1 ? POLY : 0);
    return v;
}

/* Both constants are written once under shift_once, before `way` is published. */
static uint32_t over_one, over_two; /* multipliers for one block and for two */
static pthread_once_t shift_once = PTHREAD_ONCE_INIT;

static void fill_shifts(void)
{
    over_one = power(8 * BLOCK - 33);
    over_two = power(16 * BLOCK - 33);
}

/* Advances a checksum over zero bytes; `by` says how many. */
SSE42 static uint32_t shift(uint64_t crc, uint32_t by)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi32_si128((int)by), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

SSE42 static uint32_t with_sse42(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t a = ~crc;
    /* Invariant: a is the checksum of everything before p. */
    for (; n >= 3 * BLOCK; n -= 3 * BLOCK, p += 3 * BLOCK) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < BLOCK; i += 8) {
            a = _mm_crc32_u64(a, crc32c_load(p + i));
            b = _mm_crc32_u64(b, crc32c_load(p + BLOCK + i));
            c = _mm_crc32_u64(c, crc32c_load(p + 2 * BLOCK + i));
        }
        a = shift(a, over_two) ^ shift(b, over_one) ^ (uint32_t)c;
    }
    for (; n >= 8; n -= 8, p += 8)
        a = _mm_crc32_u64(a, crc32c_load(p));
    while (n--)
        a = _mm_crc32_u8((uint32_t)a, *p++);
    return ~(uint32_t)a;
}
#endif

/* ---- the choice ---- */

/* Two threads may choose at the same time: both store the same pointer. The release store pairs
 * with the acquire load in chosen(), which makes the shift constants visible to every thread that
 * sees the pointer. */
typedef uint32_t way_fn(uint32_t crc, const void *p, size_t n);
static _Atomic(way_fn *) way;

static way_fn *crc32c_choose(void)
{
    way_fn *f = tt_seal_crc32c_tables;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        pthread_once(&shift_once, fill_shifts);
        f = with_sse42;
    }
#endif
    atomic_store_explicit(&way, f, memory_order_release);
    return f;
}

static way_fn *chosen(void)
{
    way_fn *f = atomic_load_explicit(&way, memory_order_acquire);
    return f ? f : crc32c_choose();
}

uint32_t tt_seal_crc32c(uint32_t crc, const void *p, size_t n)
{
    return chosen()(crc, p, n);
}

const char *tt_seal_crc32c_way(void)
{
    return chosen() == tt_seal_crc32c_tables ? "tables" : "sse4.2";
}
