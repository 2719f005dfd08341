/* types.c - which reductions exist for which data types: all of them for integers; for floats those
 * that are not logical; none for opaque elements, which only functions of the caller can reduce. */
#include "base/base.h"

bool tt_dtype_is_opaque(tutti_dtype d)
{
    return d == TUTTI_OPAQUE16 || d == TUTTI_OPAQUE32 || d == TUTTI_OPAQUE64;
}

bool tt_dtype_is_integer(tutti_dtype d)
{
    bool real = d == TUTTI_F32 || d == TUTTI_F64 || d == TUTTI_F16 || d == TUTTI_BF16;
    return !real && !tt_dtype_is_opaque(d) && (unsigned)d < TUTTI_DTYPE_COUNT;
}

bool tt_redop_is_logical(tutti_redop op)
{
    return op >= TUTTI_BAND && op <= TUTTI_LXOR;
}

bool tt_redop_fits(tutti_redop op, tutti_dtype d)
{
    return !tt_dtype_is_opaque(d) && (tt_dtype_is_integer(d) || !tt_redop_is_logical(op));
}
