/* ops.h - inside src/kernel: the kernels of one data type (TYPE, ELEM_BYTES), included once per type by table.h. AVG runs SUM's. */
#define OP SUM
#include "kernel/walk.h"
#undef OP
#define OP PROD
#include "kernel/walk.h"
#undef OP
#define OP MIN
#include "kernel/walk.h"
#undef OP
#define OP MAX
#include "kernel/walk.h"
#undef OP
#undef TYPE
#undef ELEM_BYTES
