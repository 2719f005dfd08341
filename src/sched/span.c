/* span.c - sets of chunks: making, joining and comparing spans.
 *
 * A span is a plain range or a range repeated at a stride. The overlap test is exact and does not
 * enumerate chunks: a halving step of 65,536 ranks names a set of 32,768 chunks, and visiting each
 * of them would cost more than planning.
 *
 *     first 1, len 2, stride 4, reps 3:    . # # . . # # . . # # .      end 11 */
#include <assert.h>

#include "sched/sched_int.h"

struct tt_span tt_sched_span_range(uint32_t buf, uint32_t first, uint32_t len)
{
    return tt_sched_span_from(buf, buf, first, len);
}

struct tt_span tt_sched_span_from(uint32_t buf, uint32_t src, uint32_t first, uint32_t len)
{
    return (struct tt_span){
        .first = first, .len = len, .stride = 0, .reps = 1, .buf = buf, .src = src};
}

size_t tt_sched_span_cyclic(uint32_t buf, uint32_t src, uint64_t first, uint32_t len,
                            uint32_t chunks, struct tt_span out[2])
{
    assert(chunks > 0 && len <= chunks);
    uint32_t start = (uint32_t)(first % chunks);
    if (len <= chunks - start) {
        out[0] = tt_sched_span_from(buf, src, start, len);
        return 1;
    }
    out[0] = tt_sched_span_from(buf, src, start, chunks - start);
    out[1] = tt_sched_span_from(buf, src, 0, len - (chunks - start));
    return 2;
}

uint64_t tt_sched_span_chunks(const struct tt_span *s)
{
    return (uint64_t)s->len * s->reps;
}

uint64_t tt_sched_span_end(const struct tt_span *s)
{
    return (uint64_t)s->first + (uint64_t)s->stride * (s->reps - 1) + s->len;
}

/* A set of chunks gets one spelling, so that equal operations are equal bytes. */
struct tt_span tt_sched_span_canonical(struct tt_span s)
{
    assert(s.len > 0 && s.reps > 0);
    if (s.reps > 1 && s.stride == s.len && tt_sched_span_chunks(&s) <= UINT32_MAX) {
        s.len *= s.reps;
        s.reps = 1;
    }
    if (s.reps == 1)
        s.stride = 0;
    return s;
}

bool tt_sched_span_extend(struct tt_span *a, const struct tt_span *b)
{
    uint64_t len = (uint64_t)a->len + b->len;
    if (a->reps != 1 || b->reps != 1 || a->buf != b->buf || a->src != b->src ||
        tt_sched_span_end(a) != b->first || len > UINT32_MAX)
        return false;
    a->len = (uint32_t)len;
    return true;
}

/* Does [lo, hi) meet a repetition of s? Only the first repetition that ends after lo can. */
static bool meets_range(const struct tt_span *s, uint64_t lo, uint64_t hi)
{
    uint64_t i = 0;
    uint64_t first_end = (uint64_t)s->first + s->len;
    if (s->reps > 1 && lo >= first_end)
        i = (lo - first_end) / s->stride + 1;
    if (i >= s->reps)
        return false;
    uint64_t start = s->first + i * s->stride;
    return start < hi && start + s->len > lo;
}

/* Equal strides: only the distance matters, and only the two repetitions of `a` around the start of
 * `b` can meet its first one. */
static bool meets_same_stride(const struct tt_span *a, const struct tt_span *b)
{
    if (b->first < a->first)
        return meets_same_stride(b, a);
    assert(a->stride == b->stride && a->stride > 0);
    uint64_t distance = b->first - a->first;
    uint64_t k = distance / a->stride;
    /* b starts this far after repetition k of a, and stride - past before k + 1 */
    uint64_t past = distance % a->stride;
    return (k < a->reps && past < a->len) || (k + 1 < a->reps && a->stride - past < b->len);
}

static uint32_t span_gcd(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Different strides: the position of repetition i of `a` in the pattern of `b` repeats after
 * b.stride / gcd repetitions, so checking that many, from the first that reaches into `b`, is
 * enough. */
static bool meets_within_period(const struct tt_span *a, const struct tt_span *b, uint64_t period,
                                uint64_t *work)
{
    uint64_t first_end = (uint64_t)a->first + a->len;
    assert(a->stride > 0 && period > 0);
    uint64_t begin = b->first < first_end ? 0 : (b->first - first_end) / a->stride + 1;
    for (uint64_t i = begin; i < a->reps && i - begin < period; i++) {
        uint64_t lo = a->first + i * a->stride;
        *work += 1;
        if (meets_range(b, lo, lo + a->len))
            return true;
    }
    return false;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The cheap cases first: most spans are disjoint, plain or equally strided. */
bool tt_sched_span_overlap(const struct tt_span *a, const struct tt_span *b, uint64_t *work)
{
    *work += 1;
    if (tt_sched_span_end(a) <= b->first || tt_sched_span_end(b) <= a->first)
        return false;
    if (a->reps == 1)
        return meets_range(b, a->first, tt_sched_span_end(a));
    if (b->reps == 1)
        return meets_range(a, b->first, tt_sched_span_end(b));
    if (a->stride == b->stride)
        return meets_same_stride(a, b);
    uint32_t common = span_gcd(a->stride, b->stride);
    uint64_t a_period = b->stride / common, b_period = a->stride / common;
    if (smaller(a->reps, a_period) <= smaller(b->reps, b_period))
        return meets_within_period(a, b, a_period, work);
    return meets_within_period(b, a, b_period, work);
}
