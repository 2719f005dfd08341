/* names.c - the names of collectives, data types, reductions and operations, as the X-lists declare
 * them. */
#include "sched/sched.h"

static const char *const op_names[] = {
#define OP_NAME(id, name) name,
    TT_OP_LIST(OP_NAME)
#undef OP_NAME
};

static const char *const coll_names[] = {
#define COLL_NAME(id, name) name,
    TUTTI_COLL_LIST(COLL_NAME)
#undef COLL_NAME
};

static const char *const dtype_names[] = {
#define DTYPE_NAME(id, name, bytes) name,
    TUTTI_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
};

static const uint32_t dtype_bytes[] = {
#define DTYPE_BYTES(id, name, bytes) bytes,
    TUTTI_DTYPE_LIST(DTYPE_BYTES)
#undef DTYPE_BYTES
};

static const char *const redop_names[] = {
#define REDOP_NAME(id, name) name,
    TUTTI_REDOP_LIST(REDOP_NAME)
#undef REDOP_NAME
};

/* "?" instead of a crash: numbers of damaged schedules reach error messages. */
static const char *name_at(const char *const *names, size_t n, size_t i)
{
    return i < n ? names[i] : "?";
}

static int find_name(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (tt_streq(names[i], name))
            return (int)i;
    return -1;
}

const char *tt_sched_op_name(enum tt_op_kind kind)
{
    return name_at(op_names, countof(op_names), (size_t)kind);
}

const char *tt_sched_coll_name(tutti_coll c)
{
    return name_at(coll_names, countof(coll_names), (size_t)c);
}

const char *tt_sched_dtype_name(tutti_dtype d)
{
    return name_at(dtype_names, countof(dtype_names), (size_t)d);
}

const char *tt_sched_redop_name(tutti_redop r)
{
    return r == TT_REDOP_USER ? "user" : name_at(redop_names, countof(redop_names), (size_t)r);
}

/* 0 for numbers that are not a data type. */
TT_HOT uint32_t tt_sched_dtype_bytes(tutti_dtype d)
{
    return (size_t)d < countof(dtype_bytes) ? dtype_bytes[(size_t)d] : 0;
}

int tt_sched_coll_find(const char *name)
{
    return find_name(coll_names, countof(coll_names), name);
}

int tt_sched_dtype_find(const char *name)
{
    return find_name(dtype_names, countof(dtype_names), name);
}

int tt_sched_redop_find(const char *name)
{
    return find_name(redop_names, countof(redop_names), name);
}

int tt_sched_redop_read(const char *name)
{
    return tt_streq(name, tt_sched_redop_name(TT_REDOP_USER)) ? (int)TT_REDOP_USER
                                                              : tt_sched_redop_find(name);
}
