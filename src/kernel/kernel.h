/* kernel.h - reductions on arrays: every data type x reduction, the widest vectors of this CPU,
 * chosen once.
 *
 * Combining is left to right in the order of the sources. f16 and bf16 are held in f32 across all
 * sources and rounded once (to nearest even). Integers wrap. AVG combines as SUM; the division is
 * the caller's `divisor`, applied once when it is not 1: x / divisor in the type (f32 for f16 and
 * bf16). Integers that are divided do not wrap: their sum is exact, and the quotient truncated
 * toward zero; what was summed by an earlier call has wrapped already, so the division belongs to
 * the call that has all contributions. min and max propagate NaN and hold -0 less than +0. A result
 * that is NaN is always the positive quiet NaN (f32 0x7fc00000). The bits of a result are therefore
 * the same on every ISA level and whichever of two operands comes first: no reassociation, no
 * contraction. Rounding mode and denormal flushing are the caller's, left alone. No function
 * allocates; all are thread-safe. */
#ifndef TT_KERNEL_H
#define TT_KERNEL_H

#include "base/base.h"

enum { TT_USEROP_NAME = 31 };
/* A reduction that is a function of the caller's. Copied where it is kept: what made it may be
 * gone. */
struct tt_userop {
    tutti_redop_fn *fn; /* NULL: none, a built-in one is meant */
    void *ctx;
    uint64_t hash; /* of name, element size and whether it commutes: what ranks compare */
    uint32_t elem_bytes;
    bool commutative;
    /* for errors: a long one is cut, and the last digits of the hash tell it from its like */
    char name[TT_USEROP_NAME];
};

/* One reduction: dst[j][i] = (src[0][i] op src[1][i] op ...) / divisor for i < count and every j <
 * ndst. A destination may be the same memory as any source (exactly, not shifted), destinations are
 * otherwise disjoint. nsrc >= 1 (1 without a divisor: a copy of the bits), ndst >= 1. Pointers need
 * no alignment, not even the element's. */
struct tt_reduce {
    tutti_dtype dtype;
    tutti_redop redop;
    /* in place of redop, without a divisor; NULL: none. dtype has its element size */
    const struct tt_userop *user;
    uint32_t nsrc, ndst;
    const void *const *src;
    void *const *dst;
    size_t count;
    uint32_t divisor; /* 0 and 1: none; of integers with SUM and AVG only */
    /* destinations will not be read soon: stores may bypass the cache (not where a destination is a
     * source) */
    bool nontemporal;
};
void tt_kernel_reduce_run(const struct tt_reduce *r);
/* The common case: dst = a op b. */
void tt_kernel_reduce_two(tutti_dtype dtype, tutti_redop redop, void *dst, const void *a,
                          const void *b, size_t count);

/* "generic", "avx2", "avx512", "neon": what run uses. For tests: force a level (false when this CPU
 * lacks it). */
const char *tt_kernel_isa(void);
bool tt_kernel_force(const char *isa);
#endif
