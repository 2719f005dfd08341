/* intern.c - hash consing: every different tuple of words is stored once and known by a number,
 * its name.
 *
 * Contribution sets and fingerprints are both tuples of words, so both kinds of proof compare
 * and store 32-bit names. Names count from 1 in order of first appearance: the same run gives
 * the same names on every machine. Open addressing with linear probing, at most 3/4 full,
 * nothing is ever removed. Invariant: slots hold every name once. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_int.h"

enum { FIRST_CAP = 1024 };

static size_t intern_home(const struct tt_vintern *t, const uint64_t *words)
{
    uint64_t h = t->width;
    for (size_t i = 0; i < t->width; i++)
        h = tt_mix64(h ^ words[i]) + UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h ^ h >> 32) & (t->cap - 1);
}

const uint64_t *tt_verify_intern_words(const struct tt_vintern *t, uint32_t name)
{
    assert(name > 0 && name <= t->len);
    return (const uint64_t *)t->words.data + (size_t)(name - 1) * t->width;
}

/* The slot that holds the tuple, or the free one where it belongs. */
static uint32_t *intern_find(const struct tt_vintern *t, const uint64_t *words)
{
    size_t i = intern_home(t, words);
    while (t->slots[i] != 0 &&
           memcmp(tt_verify_intern_words(t, t->slots[i]), words, t->width * sizeof *words) != 0)
        i = (i + 1) & (t->cap - 1);
    return &t->slots[i];
}

/* Doubles the table and enters all names again; the tuples themselves do not move. */
static bool intern_grow(struct tt_vintern *t)
{
    size_t cap = t->cap ? t->cap * 2 : FIRST_CAP;
    uint32_t *slots = tt_zalloc(cap, sizeof *slots);
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    for (size_t name = 1; name <= t->len; name++)
        *intern_find(t, tt_verify_intern_words(t, (uint32_t)name)) = (uint32_t)name;
    return true;
}

uint32_t tt_verify_intern_add(struct tt_vintern *t, const uint64_t *words)
{
    if (t->len + 1 > t->cap / 4 * 3 && !intern_grow(t)) /* grow at 3/4 */
        return 0;
    assert(t->len < t->cap && (t->cap & (t->cap - 1)) == 0);
    uint32_t *slot = intern_find(t, words);
    if (*slot != 0)
        return *slot;
    /* Fails also when names run out; slot stays free then. */
    if (t->len >= UINT32_MAX - 1 || !tt_vec_push(&t->words, words, t->width))
        return 0;
    *slot = (uint32_t)++t->len;
    return *slot;
}

void tt_verify_intern_free(struct tt_vintern *t)
{
    tt_vec_free(&t->words);
    free(t->slots);
    t->slots = NULL;
    t->cap = t->len = 0;
}
