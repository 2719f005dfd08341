/* user.c - reductions that are functions of the caller's: pair by pair, from left to right.
 *
 * A destination may be any of the sources, and the function must not write what it still has to
 * read: a block of results is formed in our own memory and stored when all sources have been read.
 *
 *     block = src[0] op src[1];  block = block op src[2];  ...;  dst[0..] = block
 *
 * The caller's code may rely on aligned elements, but places of the engine are not always aligned:
 * an unaligned source is copied first. */
#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "kernel/level.h"

enum { BLOCK_BYTES = 4096, PARTS = 3 };

/* n bytes that the function may read: at `from`, or a copy in `own` when that is not aligned. */
static const void *aligned(const char *from, size_t n, size_t elem, char *own)
{
    if ((uintptr_t)from % elem == 0)
        return from;
    memcpy(own, from, n);
    return own;
}

void tt_kernel_user(const struct tt_reduce *r)
{
    alignas(64) char own[PARTS][BLOCK_BYTES]; /* the result; copies of a left and a right operand */
    const size_t elem = r->user->elem_bytes, most = BLOCK_BYTES / elem;
    assert(r->nsrc > 1 && r->divisor <= 1 && most > 0);
    for (size_t at = 0; at < r->count; at += most) {
        const size_t n = r->count - at < most ? r->count - at : most, offset = at * elem;
        const void *left = aligned((const char *)r->src[0] + offset, n * elem, elem, own[1]);
        for (uint32_t s = 1; s < r->nsrc; s++) {
            const void *right = aligned((const char *)r->src[s] + offset, n * elem, elem, own[2]);
            r->user->fn(r->user->ctx, left, right, own[0], n);
            left = own[0];
        }
        for (uint32_t d = 0; d < r->ndst; d++)
            memcpy((char *)r->dst[d] + offset, own[0], n * elem);
    }
}
