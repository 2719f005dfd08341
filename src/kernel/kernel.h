/* kernel.h - reductions on arrays: every data type x reduction, with the widest vectors of this
 * CPU, chosen once.
 *
 * Order and rounding. Sources are combined left to right. f16 and bf16 are held in f32 across all
 * sources and rounded once (to nearest even). Integers wrap. min and max propagate NaN and hold -0
 * less than +0. A result that is NaN is always the positive quiet NaN (f32 0x7fc00000). The bits of
 * a result are therefore the same on every ISA level and whichever of two operands comes first: no
 * reassociation, no contraction. Rounding mode and denormal flushing are the caller's.
 *
 * Averages. AVG combines as SUM; the division is the caller's `divisor`, applied once when it is
 * not 1: x / divisor in the type (f32 for f16 and bf16). Integers that are divided do not wrap:
 * their sum is exact, and the quotient is truncated toward zero. A sum of an earlier call has
 * wrapped already, so that the division belongs to the call that has all contributions.
 *
 * No function allocates; all are thread-safe. */
#ifndef TT_KERNEL_H
#define TT_KERNEL_H

#include "base/base.h"

enum { TT_USEROP_NAME = 31 };
/* A reduction that is a function of the caller's. It is copied where it is kept, since its maker
 * may be gone. */
struct tt_userop {
    tutti_redop_fn *fn; /* NULL: none; a built-in one is meant */
    void *ctx;
    uint64_t hash; /* of name, element size and commutativity: ranks compare it */
    uint32_t elem_bytes;
    bool commutative;
    /* for errors: a long name is cut, and ends with digits of the hash to keep it distinct */
    char name[TT_USEROP_NAME];
};

/* One reduction: dst[j][i] = (src[0][i] op src[1][i] op ...) / divisor for i < count and every j
 * < ndst. A destination may be the same memory as any source (exactly, not shifted); otherwise
 * destinations are disjoint. nsrc >= 1 (1 without a divisor: a copy of the bits), ndst >= 1.
 * Pointers need no alignment, not even that of the element. */
struct tt_reduce {
    tutti_dtype dtype;
    tutti_redop redop;
    /* used in place of redop, without a divisor; NULL: none. dtype has its element size */
    const struct tt_userop *user;
    uint32_t nsrc, ndst;
    const void *const *src;
    void *const *dst;
    size_t count;
    uint32_t divisor; /* 0 and 1: none; for integers only with SUM and AVG */
    /* destinations will not be read soon: stores may bypass the cache (ignored when a
     * destination is a source) */
    bool nontemporal;
};
void tt_kernel_reduce_run(const struct tt_reduce *r);
/* The common case: dst = a op b. */
void tt_kernel_reduce_two(tutti_dtype dtype, tutti_redop redop, void *dst, const void *a,
                          const void *b, size_t count);

/* isa: the level that run uses: "generic", "avx2", "avx512" or "neon". force is for tests: false
 * when this CPU lacks the level. */
const char *tt_kernel_isa(void);
bool tt_kernel_force(const char *isa);
#endif
