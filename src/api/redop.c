/* redop.c - reductions of the caller's own. Their tutti_redop is a number above the built-in ones;
 * like a handle it names a slot and a generation, so that a freed one is not taken for the next one
 * of the same slot:
 *
 *     30   29        10 9     0
 *     | 1 | generation | slot |
 *
 * Programs keep copies of what a slot holds. A reduction may be freed when no call that uses it is
 * under way.
 *
 * Memory order: redop_place fills the slot and then stores `value` with release; tt_api_userop
 * loads it with acquire and takes no lock. `lock` orders making and freeing. */
#include "api/api.h"

#include <pthread.h>
#include <string.h>

enum { SLOT_BITS = 10, SLOTS = 1 << SLOT_BITS, MARK = 1 << 30, GENERATIONS = 1 << 20 };
enum { NAME_MOST = 63, ELEM_MOST = 64 };

static struct {
    _Atomic uint32_t value; /* as given out; 0: the slot is free */
    uint32_t generation;
    struct tt_userop op;
} slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for making and freeing */

const struct tt_userop *tt_api_userop(tutti_redop op)
{
    uint32_t value = (uint32_t)op;
    uint32_t held = atomic_load_explicit(&slots[value % SLOTS].value, memory_order_acquire);
    return value & MARK && held == value ? &slots[value % SLOTS].op : NULL;
}

/* Element sizes are powers of two, so that elements can be aligned to their size. */
static tutti_status redop_check(const char *function, const struct tutti_redop_options *o,
                                struct tutti_error *err)
{
    size_t len = o->name ? strnlen(o->name, NAME_MOST + 1) : 0;
    if (!o->fn)
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "the function is NULL");
    if (!len || len > NAME_MOST)
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "a name of 1 to %d characters is needed",
                          NAME_MOST);
    if (o->elem_bytes == 0 || o->elem_bytes > ELEM_MOST || (o->elem_bytes & (o->elem_bytes - 1)))
        return tt_api_bad(function, err, TUTTI_ERR_RANGE,
                          "elements of %zu bytes: 1, 2, 4, 8, 16, 32 or 64 are possible, pad them",
                          o->elem_bytes);
    return TUTTI_OK;
}

/* The hash of name, size and commutativity lets ranks compare what they were given. A name that
 * is too long for the field is cut, with part of the hash to keep it distinct. */
static struct tt_userop redop_describe(const struct tutti_redop_options *o)
{
    const uint64_t facts[] = {o->elem_bytes, o->commutative};
    struct tt_userop op = {
        .fn = o->fn,
        .ctx = o->ctx,
        .elem_bytes = (uint32_t)o->elem_bytes,
        .commutative = o->commutative,
        .hash = tt_hash_bytes(tt_hash_bytes(0, facts, sizeof facts), o->name, strlen(o->name))};
    if (strlen(o->name) < sizeof op.name)
        snprintf(op.name, sizeof op.name, "%s", o->name);
    else
        snprintf(op.name, sizeof op.name, "%.22s~%07x", o->name, (unsigned)(op.hash & 0xfffffff));
    return op;
}

/* Takes a free slot and returns the reduction's number; 0 when none is free. */
static uint32_t redop_place(const struct tt_userop *op)
{
    uint32_t value = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < SLOTS && !value; i++) {
        if (atomic_load(&slots[i].value))
            continue;
        slots[i].generation = (slots[i].generation + 1) % GENERATIONS;
        slots[i].op = *op;
        value = MARK | slots[i].generation << SLOT_BITS | i;
        atomic_store_explicit(&slots[i].value, value, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return value;
}

tutti_status tutti_redop_create(const struct tutti_redop_options *options, tutti_redop *ret_op,
                                struct tutti_error *err)
{
    struct tutti_redop_options o;
    tutti_status st = api_given(err, "ret_op", ret_op);
    if (!st)
        st = api_struct("tutti_redop_options", options, &o, err);
    if (!st)
        st = redop_check(__func__, &o, err);
    if (st)
        return st;
    struct tt_userop op = redop_describe(&o);
    uint32_t value = redop_place(&op);
    if (!value)
        return tt_api_bad(__func__, err, TUTTI_ERR_LIMIT,
                          "more than %d reductions at the same time", SLOTS);
    *ret_op = (tutti_redop)value;
    return TUTTI_OK;
}

void tutti_redop_free(tutti_redop op)
{
    uint32_t value = (uint32_t)op;
    if (value < TUTTI_REDOP_COUNT)
        return;
    pthread_mutex_lock(&lock);
    /* Under the lock, so that of two threads only one frees. */
    bool there = tt_api_userop(op);
    if (there)
        atomic_store(&slots[value % SLOTS].value, 0);
    pthread_mutex_unlock(&lock);
    if (!there)
        tt_api_stop(__func__, "there is no reduction %u, or it was freed already", value);
}
