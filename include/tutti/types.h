/* types.h - the vocabulary of every part of Tutti: status codes, data types, reductions,
 * collectives.
 *
 * All lists are X-macros: the names that the tool prints, that the parsers check and that the
 * documents list come from here. */
#ifndef TUTTI_TYPES_H
#define TUTTI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0 is success, +1 "in progress"; negative values are grouped by what must be made anew: -1..
 * the argument, -20.. the plan, -40.. the connection, -60.. the job. */
#define TUTTI_STATUS_LIST(X)                                  \
    X(OK, 0, "success")                                       \
    X(IN_PROGRESS, 1, "in progress")                          \
    X(ERR_ARG, -1, "bad argument")                            \
    X(ERR_PARSE, -2, "text cannot be parsed")                 \
    X(ERR_RANGE, -3, "value out of range")                    \
    X(ERR_MEMORY, -4, "out of memory")                        \
    X(ERR_IO, -5, "input or output failed")                   \
    X(ERR_VERSION, -6, "file format version not supported")   \
    X(ERR_LIMIT, -7, "larger than this build accepts")        \
    X(ERR_REFUSED, -20, "algorithm does not apply")           \
    X(ERR_INCORRECT, -21, "schedule is not correct")          \
    X(ERR_MISMATCH, -22, "schedule does not fit the problem") \
    X(ERR_BUDGET, -23, "planning budget exhausted")           \
    X(ERR_CONNECT, -40, "connection cannot be made")          \
    X(ERR_AUTH, -41, "peer did not prove itself")             \
    X(ERR_TIMEOUT, -42, "deadline passed")                    \
    X(ERR_PEER, -60, "a rank failed")                         \
    X(ERR_DIFFERS, -61, "ranks do not agree")                 \
    X(ERR_ABORTED, -62, "communicator was aborted")

typedef int tutti_status;
#define TUTTI_STATUS_ENUM(name, value, text) TUTTI_##name = (value),
enum { TUTTI_STATUS_LIST(TUTTI_STATUS_ENUM) };
#undef TUTTI_STATUS_ENUM

/* A failure, in words for people. Callers pass the address of one; it is written only on
 * failure. */
struct tutti_error {
    tutti_status status;
    char text[504];
};

/* Data types: name, bytes per element. Opaque elements can be moved, and reduced by functions of
 * the caller (tutti_redop_create); their contents mean nothing to the library. */
#define TUTTI_DTYPE_LIST(X)     \
    X(F32, "f32", 4)            \
    X(F64, "f64", 8)            \
    X(F16, "f16", 2)            \
    X(BF16, "bf16", 2)          \
    X(I8, "i8", 1)              \
    X(U8, "u8", 1)              \
    X(I32, "i32", 4)            \
    X(I64, "i64", 8)            \
    X(I16, "i16", 2)            \
    X(U16, "u16", 2)            \
    X(U32, "u32", 4)            \
    X(U64, "u64", 8)            \
    X(OPAQUE16, "opaque16", 16) \
    X(OPAQUE32, "opaque32", 32) \
    X(OPAQUE64, "opaque64", 64)
typedef enum {
#define TUTTI_DTYPE_ENUM(id, name, bytes) TUTTI_##id,
    TUTTI_DTYPE_LIST(TUTTI_DTYPE_ENUM)
#undef TUTTI_DTYPE_ENUM
        TUTTI_DTYPE_COUNT
} tutti_dtype;

/* Reductions of the contributions of all ranks.
 *   sum, prod   floating point as in IEEE 754, f16 and bf16 held in f32; integers wrap modulo
 *               2^bits
 *   min, max    NaN if any contribution is NaN; -0 is less than +0
 *   avg         the sum divided by the number of ranks. Integers: the exact sum, which does not
 *               wrap, is divided and rounded toward zero (as C divides); only algorithms that form
 *               the whole sum in one place do that (direct, oneshot), others are refused
 *   band, bor, bxor   bit by bit; integers only
 *   land, lor, lxor   1 where all, some, or an odd number of contributions are not 0, else 0 (with
 *                     one rank: its own contribution); integers only */
#define TUTTI_REDOP_LIST(X) \
    X(SUM, "sum")           \
    X(PROD, "prod")         \
    X(MIN, "min")           \
    X(MAX, "max")           \
    X(AVG, "avg")           \
    X(BAND, "band")         \
    X(BOR, "bor")           \
    X(BXOR, "bxor")         \
    X(LAND, "land")         \
    X(LOR, "lor")           \
    X(LXOR, "lxor")
typedef enum {
#define TUTTI_REDOP_ENUM(id, name) TUTTI_##id,
    TUTTI_REDOP_LIST(TUTTI_REDOP_ENUM)
#undef TUTTI_REDOP_ENUM
        TUTTI_REDOP_COUNT,
    TUTTI_REDOP_LARGEST = 0x7fffffff /* values of tutti_redop_create lie between these two */
} tutti_redop;

/* A reduction of the caller's own: out[i] = left[i] op right[i] for i < count. out is the same
 * memory as left or right, or separate from both. */
typedef void tutti_redop_fn(void *ctx, const void *left, const void *right, void *out,
                            size_t count);

/* Collectives: name as the tool and the files spell it. */
#define TUTTI_COLL_LIST(X)              \
    X(ALLREDUCE, "allreduce")           \
    X(REDUCE_SCATTER, "reduce-scatter") \
    X(ALL_GATHER, "all-gather")         \
    X(BROADCAST, "broadcast")           \
    X(REDUCE, "reduce")                 \
    X(GATHER, "gather")                 \
    X(SCATTER, "scatter")               \
    X(ALL_TO_ALL, "all-to-all")         \
    X(BARRIER, "barrier")
typedef enum {
#define TUTTI_COLL_ENUM(id, name) TUTTI_##id,
    TUTTI_COLL_LIST(TUTTI_COLL_ENUM)
#undef TUTTI_COLL_ENUM
        TUTTI_COLL_COUNT
} tutti_coll;

#ifdef __cplusplus
}
#endif
#endif
