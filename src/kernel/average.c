/* average.c - averages of integers: the sum of all sources is exact, then divided, rounded toward
 * zero.
 *
 * Types of up to 32 bits are summed in 64 (2^31 sources cannot overflow), 64-bit types in 128.
 * Blocks of BLOCK elements are summed source by source, so that the compiler sees plain loops. All
 * sources of a block are read before it is stored, which lets a destination be a source. No
 * instruction set divides integer vectors: the scalar division sets the speed. */
#include <assert.h>
#include <string.h>

#include "kernel/level.h"

enum { BLOCK = 256 };

__extension__ typedef __int128 wide;

/* Most sums fit in 64 bits, where the division is much faster. */
static wide wide_divide(wide sum, uint32_t divisor)
{
    return sum >= INT64_MIN && sum <= INT64_MAX ? (int64_t)sum / (int64_t)divisor
                                                : sum / (wide)divisor;
}

static int64_t narrow_divide(int64_t sum, uint32_t divisor)
{
    return sum / (int64_t)divisor;
}

/* Averages n elements from element `first` on. memcpy, because sources and destinations need no
 * alignment. */
#define DEFINE_BLOCK(name, type, sum_type, divide)                                          \
    static void name(const struct tt_reduce *r, size_t first, size_t n)                     \
    {                                                                                       \
        sum_type sum[BLOCK] = {0};                                                          \
        type part[BLOCK];                                                                   \
        for (uint32_t s = 0; s < r->nsrc; s++) {                                            \
            memcpy(part, (const char *)r->src[s] + first * sizeof(type), n * sizeof(type)); \
            for (size_t i = 0; i < n; i++)                                                  \
                sum[i] += part[i];                                                          \
        }                                                                                   \
        for (size_t i = 0; i < n; i++)                                                      \
            part[i] = (type)divide(sum[i], r->divisor);                                     \
        for (uint32_t d = 0; d < r->ndst; d++)                                              \
            memcpy((char *)r->dst[d] + first * sizeof(type), part, n * sizeof(type));       \
    }
DEFINE_BLOCK(block_i8, int8_t, int64_t, narrow_divide)
DEFINE_BLOCK(block_u8, uint8_t, int64_t, narrow_divide)
DEFINE_BLOCK(block_i16, int16_t, int64_t, narrow_divide)
DEFINE_BLOCK(block_u16, uint16_t, int64_t, narrow_divide)
DEFINE_BLOCK(block_i32, int32_t, int64_t, narrow_divide)
DEFINE_BLOCK(block_u32, uint32_t, int64_t, narrow_divide)
DEFINE_BLOCK(block_i64, int64_t, wide, wide_divide)
DEFINE_BLOCK(block_u64, uint64_t, wide, wide_divide)

void tt_kernel_average(const struct tt_reduce *r)
{
    static void (*const blocks[TUTTI_DTYPE_COUNT])(const struct tt_reduce *r, size_t first,
                                                   size_t n) = {
        [TUTTI_I8] = block_i8,   [TUTTI_U8] = block_u8,   [TUTTI_I16] = block_i16,
        [TUTTI_U16] = block_u16, [TUTTI_I32] = block_i32, [TUTTI_U32] = block_u32,
        [TUTTI_I64] = block_i64, [TUTTI_U64] = block_u64};
    assert(blocks[r->dtype] && (r->redop == TUTTI_SUM || r->redop == TUTTI_AVG));
    for (size_t at = 0; at < r->count; at += BLOCK)
        blocks[r->dtype](r, at, r->count - at < BLOCK ? r->count - at : BLOCK);
}
