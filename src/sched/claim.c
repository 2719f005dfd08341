/* claim.c - a set of spans that finds those which share a chunk with a given span.
 *
 * Claims are sorted by (buffer, first chunk) and each stores how far the claims up to it reach
 * (`cover`). A search starts after the last claim that begins before the span ends and walks back
 * while an earlier claim may still reach into the span. For disjoint ranges, the case in a correct
 * schedule, that is one comparison; only hostile lists of interleaved strides walk far, which
 * `work` counts.
 *
 *     claims   [0..3]  [4..5]  [6..9]        cover 4, 6, 10
 *     span             [4..6]                starts at [6..9], walks back to [4..5], stops there */
#include <stdlib.h>

#include "sched/sched_int.h"

bool tt_sched_claims_add(struct tt_claims *c, uint32_t buf, const struct tt_span *span,
                         uint64_t order)
{
    struct tt_claim claim = {.buf = buf, .span = *span, .order = order};
    return tt_vec_push(&c->items, &claim, 1) != NULL;
}

static int compare_claims(const void *pa, const void *pb)
{
    const struct tt_claim *a = pa, *b = pb;
    if (a->buf != b->buf)
        return a->buf < b->buf ? -1 : 1;
    if (a->span.first != b->span.first)
        return a->span.first < b->span.first ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void tt_sched_claims_sort(struct tt_claims *c)
{
    struct tt_claim *items = c->items.data;
    size_t n = c->items.len;
    if (n > 1)
        qsort(items, n, sizeof *items, compare_claims);
    for (size_t i = 0; i < n; i++) {
        items[i].cover = tt_sched_span_end(&items[i].span);
        if (i > 0 && items[i - 1].buf == items[i].buf && items[i - 1].cover > items[i].cover)
            items[i].cover = items[i - 1].cover;
    }
}

/* How many claims come before (buf, first chunk `end`): binary search. */
static size_t count_before(const struct tt_claim *items, size_t n, uint32_t buf, uint64_t end)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (items[mid].buf < buf || (items[mid].buf == buf && items[mid].span.first < end))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct tt_claim *tt_sched_claims_earlier(struct tt_claims *c, uint32_t buf,
                                               const struct tt_span *span, uint64_t order)
{
    const struct tt_claim *items = c->items.data;
    size_t i = count_before(items, c->items.len, buf, tt_sched_span_end(span));
    while (i-- > 0 && items[i].buf == buf && items[i].cover > span->first) {
        c->work++;
        if (items[i].order < order && tt_sched_span_overlap(&items[i].span, span, &c->work))
            return &items[i];
    }
    return NULL;
}
