/* level.h - inside src/kernel: one table of kernels per instruction set, all compiled from the same
 * lines (table.h). */
#ifndef TT_KERNEL_LEVEL_H
#define TT_KERNEL_LEVEL_H

#include "kernel/kernel.h"

/* Runs *r as it is. `nontemporal` is no longer a wish here: kernel.c leaves it set only where
 * streaming is possible and pays. */
typedef void tt_kernel_fn(const struct tt_reduce *r);

struct tt_kernel_level {
    tt_kernel_fn *fn[TUTTI_DTYPE_COUNT][TUTTI_REDOP_COUNT];
};
/* user.c: r->user is set, nsrc > 1 */
void tt_kernel_user(const struct tt_reduce *r);
/* average.c: integers, divisor > 1 */
void tt_kernel_average(const struct tt_reduce *r);
/* 16-byte vectors of whatever the compiler's target has: SSE2, NEON, scalars */
extern const struct tt_kernel_level tt_kernel_generic;
#if defined(__x86_64__)
extern const struct tt_kernel_level tt_kernel_avx2;
extern const struct tt_kernel_level tt_kernel_avx512;
#endif
#endif
