/* table.h - inside src/kernel: all kernels of one instruction set, and the table of them.
 *
 * Included last by each instruction set's .c file, which names the table in TT_LEVEL and may
 * provide vec_stream and stream_fence (TT_OWN_STREAM), load_part and store_part (TT_OWN_PART)
 * and f16 conversions (TT_OWN_F16). A new data type is three lines and a row here.
 *
 * Integers of one width share what does not depend on the sign: sums and products (compiled for the
 * signed type), truth values (for the unsigned one). Operations on bits do not even depend on the
 * width: kernel.c runs those of u8 on bytes, and the table has no others. */
#ifndef TT_KERNEL_TABLE_H
#define TT_KERNEL_TABLE_H

#include "kernel/half.h"
#include "kernel/quad.h"

#define ARITH_OPS  1
#define ORDER_OPS  1
#define BIT_OPS    0
#define TRUTH_OPS  0
#define TYPE       F32
#define ELEM_BYTES 4
#include "kernel/ops.h"
#define TYPE       F64
#define ELEM_BYTES 8
#include "kernel/ops.h"
#define TYPE       F16
#define ELEM_BYTES 2
#include "kernel/ops.h"
#define TYPE       BF16
#define ELEM_BYTES 2
#include "kernel/ops.h"
#define TYPE       I8
#define ELEM_BYTES 1
#include "kernel/ops.h"
#define TYPE       I16
#define ELEM_BYTES 2
#include "kernel/ops.h"
#define TYPE       I32
#define ELEM_BYTES 4
#include "kernel/ops.h"
#define TYPE       I64
#define ELEM_BYTES 8
#include "kernel/ops.h"
#undef ARITH_OPS
#undef TRUTH_OPS
#undef BIT_OPS
#define ARITH_OPS  0
#define TRUTH_OPS  1
#define BIT_OPS    1
#define TYPE       U8
#define ELEM_BYTES 1
#include "kernel/ops.h"
#undef BIT_OPS
#define BIT_OPS    0
#define TYPE       U16
#define ELEM_BYTES 2
#include "kernel/ops.h"
#define TYPE       U32
#define ELEM_BYTES 4
#include "kernel/ops.h"
#define TYPE       U64
#define ELEM_BYTES 8
#include "kernel/ops.h"
#undef ARITH_OPS
#undef ORDER_OPS
#undef BIT_OPS
#undef TRUTH_OPS

/* The row of `id`; its sums and products are those of `arith`. */
#define FOUR(id, arith)                                                 \
    [TUTTI_SUM] = run_##arith##_SUM, [TUTTI_PROD] = run_##arith##_PROD, \
    [TUTTI_MIN] = run_##id##_MIN, [TUTTI_MAX] = run_##id##_MAX, [TUTTI_AVG] = run_##arith##_SUM
#define TRUTHS(unsigned_id)                                                         \
    [TUTTI_LAND] = run_##unsigned_id##_LAND, [TUTTI_LOR] = run_##unsigned_id##_LOR, \
    [TUTTI_LXOR] = run_##unsigned_id##_LXOR
const struct tt_kernel_level TT_LEVEL = {{
    [TUTTI_F32] = {FOUR(F32, F32)},
    [TUTTI_F64] = {FOUR(F64, F64)},
    [TUTTI_F16] = {FOUR(F16, F16)},
    [TUTTI_BF16] = {FOUR(BF16, BF16)},
    [TUTTI_I8] = {FOUR(I8, I8), TRUTHS(U8)},
    [TUTTI_I16] = {FOUR(I16, I16), TRUTHS(U16)},
    [TUTTI_I32] = {FOUR(I32, I32), TRUTHS(U32)},
    [TUTTI_I64] = {FOUR(I64, I64), TRUTHS(U64)},
    [TUTTI_U8] = {FOUR(U8, I8), TRUTHS(U8), [TUTTI_BAND] = run_U8_BAND, [TUTTI_BOR] = run_U8_BOR,
                  [TUTTI_BXOR] = run_U8_BXOR},
    [TUTTI_U16] = {FOUR(U16, I16), TRUTHS(U16)},
    [TUTTI_U32] = {FOUR(U32, I32), TRUTHS(U32)},
    [TUTTI_U64] = {FOUR(U64, I64), TRUTHS(U64)},
}};
#undef FOUR
#undef TRUTHS

#endif
