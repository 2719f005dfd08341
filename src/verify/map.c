/* map.c - a hash map from 64-bit keys to 32-bit values that are not 0: rows of places, and
 * unions already computed.
 *
 * Open addressing with linear probing, at most 3/4 full, nothing is ever removed. Value 0 marks
 * a free slot. Invariant: from the home slot of a stored key to its own slot no slot is free. */
#include <assert.h>
#include <stdlib.h>

#include "verify/verify_int.h"

enum { FIRST_CAP = 64 };

static size_t map_home(const struct tt_vmap *m, uint64_t key)
{
    return (size_t)tt_mix64(key) & (m->cap - 1);
}

uint32_t tt_verify_map_get(const struct tt_vmap *m, uint64_t key)
{
    if (m->cap == 0)
        return 0;
    size_t i = map_home(m, key);
    while (m->values[i] != 0 && m->keys[i] != key)
        i = (i + 1) & (m->cap - 1);
    return m->values[i];
}

/* Sets the value of a key, new or known. Ends: there is always a free slot. */
static void map_place(struct tt_vmap *m, uint64_t key, uint32_t value)
{
    assert(value != 0 && m->len < m->cap && (m->cap & (m->cap - 1)) == 0);
    size_t i = map_home(m, key);
    while (m->values[i] != 0 && m->keys[i] != key)
        i = (i + 1) & (m->cap - 1);
    m->len += m->values[i] == 0;
    m->keys[i] = key;
    m->values[i] = value;
}

static bool map_grow(struct tt_vmap *m)
{
    struct tt_vmap bigger = {.cap = m->cap ? m->cap * 2 : FIRST_CAP};
    bigger.keys = tt_alloc(bigger.cap, sizeof *bigger.keys);
    bigger.values = tt_zalloc(bigger.cap, sizeof *bigger.values);
    if (!bigger.keys || !bigger.values) {
        tt_verify_map_free(&bigger);
        return false;
    }
    for (size_t i = 0; i < m->cap; i++)
        if (m->values[i] != 0)
            map_place(&bigger, m->keys[i], m->values[i]);
    tt_verify_map_free(m);
    *m = bigger;
    return true;
}

bool tt_verify_map_put(struct tt_vmap *m, uint64_t key, uint32_t value)
{
    if (m->len + 1 > m->cap / 4 * 3 && !map_grow(m))
        return false;
    map_place(m, key, value);
    return true;
}

void tt_verify_map_free(struct tt_vmap *m)
{
    free(m->keys);
    free(m->values);
    *m = (struct tt_vmap){0};
}
