/* ops.h - inside src/kernel: the kernels of one data type (TYPE, ELEM_BYTES), included once per
 * type by table.h. ARITH_OPS, ORDER_OPS, BIT_OPS and TRUTH_OPS (0 or 1) select them. AVG uses
 * SUM's. */
#if ARITH_OPS
#define OP SUM
#include "kernel/walk.h"
#undef OP
#define OP PROD
#include "kernel/walk.h"
#undef OP
#endif
#if ORDER_OPS
#define OP MIN
#include "kernel/walk.h"
#undef OP
#define OP MAX
#include "kernel/walk.h"
#undef OP
#endif
#if BIT_OPS
#define OP BAND
#include "kernel/walk.h"
#undef OP
#define OP BOR
#include "kernel/walk.h"
#undef OP
#define OP BXOR
#include "kernel/walk.h"
#undef OP
#endif
#if TRUTH_OPS
#define OP LAND
#include "kernel/walk.h"
#undef OP
#define OP LOR
#include "kernel/walk.h"
#undef OP
#define OP LXOR
#include "kernel/walk.h"
#undef OP
#endif
#undef TYPE
#undef ELEM_BYTES
