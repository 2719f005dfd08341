/* bind.c - where chunks lie in a vector of `count` elements.
 *
 * With weights w, their running sums W and U whole alignment units (64 bytes each, or single
 * elements when there are less than 64 bytes per chunk), chunk c begins at unit floor(U * W(c) /
 * W(chunks)). That is monotone, needs no table when the weights are equal, and any rank can compute
 * any chunk alone. What is left of the vector after the last whole unit belongs to the last chunk.
 *
 *   10 f32 elements, 4 equal chunks (40 bytes < 4 * 64: units are elements): |0 1|2 3 4|5 6|7 8 9|
 *   70 f32 elements, 4 equal chunks (4 units of 16, 6 elements left):  |0..15|16..31|32..47|48..69|
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sched/sched.h"

/* The elements that all chunks hold together. */
static tutti_status total_elems(const struct tt_shape *s, uint64_t count, uint32_t elem_bytes,
                                uint64_t *ret, struct tutti_error *err)
{
    uint64_t all = count, bytes;
    if (s->coll == TUTTI_BARRIER)
        all = 0;
    bool over =
        s->coll == TUTTI_ALL_TO_ALL && __builtin_mul_overflow(count, (uint64_t)s->ranks, &all);
    if (over || __builtin_mul_overflow(all, (uint64_t)elem_bytes, &bytes))
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "%" PRIu64 " elements are more bytes than 64 bits can count", count);
    *ret = all;
    return TUTTI_OK;
}

static tutti_status sum_weights(const struct tt_shape *s, struct tt_bind *b,
                                struct tutti_error *err)
{
    b->total = s->chunks;
    if (!s->weights)
        return TUTTI_OK;
    b->prefix = tt_alloc((size_t)s->chunks + 1, sizeof *b->prefix);
    if (!b->prefix)
        return tt_fail_memory(err, "chunk offsets");
    uint64_t sum = 0;
    for (uint32_t c = 0; c < s->chunks; c++) {
        b->prefix[c] = sum;
        sum += s->weights[c];
    }
    b->prefix[s->chunks] = sum;
    b->total = sum;
    return TUTTI_OK;
}

tutti_status tt_sched_bind_make(const struct tt_shape *s, uint64_t count, tutti_dtype dtype,
                                struct tt_bind *ret, struct tutti_error *err)
{
    struct tt_bind b = {
        .chunks = s->chunks, .elem_bytes = tt_sched_dtype_bytes(dtype), .quantum = 1};
    if (b.elem_bytes == 0)
        return tt_fail(err, TUTTI_ERR_ARG, "unknown data type %d", (int)dtype);
    if (s->chunks == 0)
        return tt_fail(err, TUTTI_ERR_ARG, "a schedule without chunks");
    tutti_status st = total_elems(s, count, b.elem_bytes, &b.count, err);
    if (!st)
        st = sum_weights(s, &b, err);
    if (st)
        return st;
    if (b.total == 0) {
        tt_sched_bind_free(&b);
        return tt_fail(err, TUTTI_ERR_ARG, "all chunk weights are zero");
    }
    uint64_t aligned = 64 / b.elem_bytes;
    if (s->coll != TUTTI_ALL_TO_ALL && b.count / aligned >= s->chunks)
        b.quantum = aligned;
    b.units = b.count / b.quantum;
    b.each = !b.prefix && b.units % b.chunks == 0 ? b.quantum * (b.units / b.chunks) : 0;
    assert(b.quantum * b.units <= b.count && b.total > 0);
    *ret = b;
    return TUTTI_OK;
}

void tt_sched_bind_free(struct tt_bind *b)
{
    if (!b)
        return;
    free(b->prefix);
    b->prefix = NULL;
}

/* a * b / d, rounded down (up if `up`); the result fits because b <= d, or because the caller caps
 * it. 128 bits only where 64 overflow: division by them is slow. */
static uint64_t bind_scale(uint64_t a, uint64_t b, uint64_t d, bool up)
{
    assert(d > 0);
    uint64_t product, extra = up ? d - 1 : 0;
    if (!__builtin_mul_overflow(a, b, &product) &&
        !__builtin_add_overflow(product, extra, &product))
        return product / d;
    return (uint64_t)(((unsigned __int128)a * b + extra) / d);
}

uint64_t tt_sched_bind_offset(const struct tt_bind *b, uint32_t chunk)
{
    assert(chunk <= b->chunks);
    if (chunk == b->chunks)
        return b->count;
    if (b->each) /* the common case without a division */
        return b->each * chunk;
    return b->quantum * bind_scale(b->units, b->prefix ? b->prefix[chunk] : chunk, b->total, false);
}

/* Sum of floor((a*i + b) / m) for i in 0..n-1, modulo 2^64, in O(log m) steps: whole multiples of m
 * are taken out; the rest counts the lattice points under a line, and that count is the same when
 * the axes are swapped. n and m are below 2^32. */
static uint64_t floor_sum(uint64_t n, uint64_t m, uint64_t a, uint64_t b)
{
    assert(m > 0);
    uint64_t sum = 0;
    for (;;) {
        sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        a %= m;
        uint64_t top = a * n + b % m;
        if (top < m)
            return sum;
        n = top / m;
        b = top % m;
        uint64_t swap = m;
        m = a;
        a = swap;
    }
}

/* Equal weights: the sum, modulo 2^64, of the units before chunks first, first+stride, ... (reps of
 * them). */
static uint64_t units_before(const struct tt_bind *b, uint64_t first, const struct tt_span *s)
{
    uint64_t n = s->reps, each = b->units / b->chunks, rest = b->units % b->chunks;
    return each * (n * first + s->stride * (n * (n - 1) / 2)) +
           floor_sum(n, b->chunks, rest * s->stride, rest * first);
}

/* Differences of sums modulo 2^64 are exact, because the result itself fits. */
uint64_t tt_sched_bind_span_elems(const struct tt_bind *b, const struct tt_span *s)
{
    uint64_t sum = 0;
    if (s->reps > 1 && !b->prefix) { /* one line of a file may have 2^31 repetitions */
        uint64_t end = (uint64_t)s->first + (uint64_t)s->stride * (s->reps - 1) + s->len;
        uint64_t rest = end == b->chunks ? b->count - b->quantum * b->units : 0;
        return b->quantum * (units_before(b, (uint64_t)s->first + s->len, s) -
                             units_before(b, s->first, s)) +
               rest;
    }
    for (uint32_t i = 0; i < s->reps; i++) {
        uint32_t first = s->first + i * s->stride;
        sum += tt_sched_bind_offset(b, first + s->len) - tt_sched_bind_offset(b, first);
    }
    return sum;
}

uint64_t tt_sched_bind_op_bytes(const struct tt_bind *b, const struct tt_slice *sl,
                                const struct tt_op *op)
{
    const struct tt_span *spans = sl->spans + op->span;
    assert(op->span + op->nspans <= sl->nspans && op->nspans > 0);
    /* operands lie on the destination's chunks */
    uint32_t n = op->kind == TT_OP_REDUCE ? 1 : op->nspans;
    uint64_t elems = 0;
    for (uint32_t i = 0; i < n; i++)
        elems += tt_sched_bind_span_elems(b, &spans[i]);
    return elems * b->elem_bytes;
}

/* A window of n chunks holds at most ceil(units * n / chunks) whole units, wherever it starts and
 * also around the end, because chunk starts are rounded down from one straight line; the window
 * that has the last chunk has the rest, too. */
uint64_t tt_sched_bind_window_max(const struct tt_bind *b, uint64_t n)
{
    assert(!b->prefix);
    if (n == 0)
        return 0;
    if (n >= b->chunks)
        return b->count;
    uint64_t rest = b->count - b->quantum * b->units;
    uint64_t most = b->quantum * bind_scale(b->units, n, b->chunks, true) + rest;
    return most < b->count ? most : b->count;
}
