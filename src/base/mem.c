/* mem.c - allocation whose size cannot overflow, and a growable array. A request for 0 bytes
 * still yields a block, so that NULL means failure and nothing else. The vector doubles, so that
 * n pushes cost O(n). */
#include "base/base.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { VEC_FIRST = 8 };

/* n * size, at least 1; false when it does not fit in a block. */
static bool block_size(size_t n, size_t size, size_t *ret)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return false;
    *ret = bytes ? bytes : 1;
    return true;
}

void *tt_alloc(size_t n, size_t size)
{
    size_t bytes;

    return block_size(n, size, &bytes) ? malloc(bytes) : NULL;
}

void *tt_zalloc(size_t n, size_t size)
{
    size_t bytes;

    return block_size(n, size, &bytes) ? calloc(bytes, 1) : NULL;
}

void *tt_resize(void *old, size_t n, size_t size)
{
    size_t bytes;

    return block_size(n, size, &bytes) ? realloc(old, bytes) : NULL;
}

char *tt_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = tt_alloc(n, 1);

    if (copy)
        memcpy(copy, s, n);
    return copy;
}

/* Doubles the capacity, or takes what is needed when that is more. */
static bool vec_grow(struct tt_vec *v, size_t need)
{
    size_t cap = v->cap > SIZE_MAX / 2 ? need : v->cap * 2;

    if (cap < VEC_FIRST)
        cap = VEC_FIRST;
    if (cap < need)
        cap = need;
    void *data = tt_resize(v->data, cap, v->elem);
    if (!data)
        return false;
    assert(cap >= need && cap >= v->len);
    v->data = data;
    v->cap = cap;
    return true;
}

void *tt_vec_push(struct tt_vec *v, const void *items, size_t n)
{
    size_t need;

    assert(v->elem > 0);
    if (__builtin_add_overflow(v->len, n, &need))
        return NULL;
    if ((need > v->cap || !v->data) && !vec_grow(v, need))
        return NULL;
    char *first = (char *)v->data + v->len * v->elem;
    if (items && n)
        memcpy(first, items, n * v->elem);
    else
        memset(first, 0, n * v->elem);
    v->len = need;
    return first;
}

void *tt_vec_at(const struct tt_vec *v, size_t i)
{
    assert(i < v->len);
    return (char *)v->data + i * v->elem;
}

/* Leaves an empty vector with its element size. */
void tt_vec_free(struct tt_vec *v)
{
    free(v->data);
    v->data = NULL;
    v->len = v->cap = 0;
}
