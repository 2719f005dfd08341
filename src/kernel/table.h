/* table.h - inside src/kernel: all kernels of one instruction set and the table of them.
 *
 * Included last by each instruction set's .c file, which names the table in TT_LEVEL and may bring vec_stream and stream_fence
 * (TT_OWN_STREAM), load_part and store_part (TT_OWN_PART) and f16 conversions (TT_OWN_F16). A new data type is three lines here; its row
 * appears by itself. */
#ifndef TT_KERNEL_TABLE_H
#define TT_KERNEL_TABLE_H

#include "kernel/half.h"
#include "kernel/quad.h"

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
#define TYPE       U8
#define ELEM_BYTES 1
#include "kernel/ops.h"
#define TYPE       I32
#define ELEM_BYTES 4
#include "kernel/ops.h"
#define TYPE       I64
#define ELEM_BYTES 8
#include "kernel/ops.h"

#define TABLE_ROW(id, name, bytes)                  \
    [TUTTI_##id] = {[TUTTI_SUM] = run_##id##_SUM,   \
                    [TUTTI_PROD] = run_##id##_PROD, \
                    [TUTTI_MIN] = run_##id##_MIN,   \
                    [TUTTI_MAX] = run_##id##_MAX,   \
                    [TUTTI_AVG] = run_##id##_SUM},
const struct tt_kernel_level TT_LEVEL = {{TUTTI_DTYPE_LIST(TABLE_ROW)}};
#undef TABLE_ROW

#endif
