/* direct_heap.c - memory of this rank that all local ranks can reach.
 *
 * One rank's heap is one anonymous file, as large as the host's memory but backed only where
 * touched, which every local rank maps when direct access is opened. A peer's buffer is then base
 * plus offset: no registry, no mapping on first use, no descriptor per buffer. Spans are whole
 * grains, found first-fit among the allocated ones (they are few, and allocation is not on a hot
 * path); freed pages go back to the system at once, in all mappings.
 *
 *     grain 0    probe word         rank r's buffer = span + r * (1 page + 9 lines)
 *     grain 1..  spans
 *
 * Programs tend to allocate alike on all ranks; the shift keeps equal offsets of different ranks
 * out of the same cache sets. Invariant: spans are sorted, disjoint and inside the heap. */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "transport/direct_int.h"

enum { GRAIN = 1 << 16, SHIFT = 4096 + 9 * 64 };     /* a grain is whole pages of any size in use */
static const size_t ALL_HEAPS_MAX = (size_t)1 << 44; /* address space; processors have 2^47 */

/* The default size: the host's memory, but not more address space than all ranks' heaps together
 * may use. Every rank maps all of them, hence the division by n. */
static size_t direct_heap_reserve(const struct tt_direct *d)
{
    struct sysinfo info;
    struct rlimit limit;
    size_t bytes = ALL_HEAPS_MAX / d->n;

    if (sysinfo(&info) == 0 && (uint64_t)info.totalram * info.mem_unit < bytes)
        bytes = (size_t)info.totalram * info.mem_unit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur / 4 / d->n < bytes)
        bytes = limit.rlim_cur / 4 / d->n;
    return bytes;
}

void tt_direct_heap_make(struct tt_direct *d, size_t heap_bytes)
{
    struct tt_region *mine = &d->heap[d->me];

    if (heap_bytes == SIZE_MAX ||
        tt_shm_region_make(heap_bytes ? heap_bytes : direct_heap_reserve(d), mine, NULL))
        return;
    /* may be ignored: most kernels have huge pages off for shared memory */
    madvise(mine->base, mine->bytes, MADV_HUGEPAGE);
}

/* The same for all buffers of a rank. */
static size_t shift(const struct tt_direct *d)
{
    return (size_t)d->me * SHIFT;
}

/* The first gap of `bytes`: where it begins, and the number of spans before it. Invariant: `at` is
 * the end of the span before i, and no gap before it is large enough. */
static bool find_gap(const struct tt_direct *d, size_t bytes, struct tt_direct_span *ret,
                     size_t *ret_index)
{
    const struct tt_direct_span *spans = d->heap_spans.data;
    size_t at = GRAIN, n = d->heap_spans.len, i = 0;

    while (i < n && spans[i].at - at < bytes) {
        assert(spans[i].at >= at && spans[i].at % GRAIN == 0);
        at = spans[i].at + spans[i].bytes;
        i++;
    }
    size_t size = d->heap[d->me].bytes;
    if (i == n && (at > size || size - at < bytes))
        return false;
    *ret = (struct tt_direct_span){.at = at, .bytes = bytes};
    assert(at % GRAIN == 0 && bytes % GRAIN == 0);
    *ret_index = i;
    return true;
}

/* Zeroed, because freed pages are given back or cleared (below). */
void *tt_direct_heap_alloc(struct tt_direct *d, size_t bytes)
{
    struct tt_direct_span new;
    size_t i, need;

    if (!tt_direct_has_heap(d) || bytes > d->heap[d->me].bytes)
        return NULL;
    need = (shift(d) + (bytes ? bytes : 1) + GRAIN - 1) / GRAIN * GRAIN;
    if (!find_gap(d, need, &new, &i) || !tt_vec_push(&d->heap_spans, NULL, 1))
        return NULL;
    struct tt_direct_span *spans = d->heap_spans.data;
    memmove(spans + i + 1, spans + i, (d->heap_spans.len - 1 - i) * sizeof *spans);
    spans[i] = new;
    return (char *)d->heap[d->me].base + new.at + shift(d);
}

void tt_direct_heap_free(struct tt_direct *d, void *p)
{
    struct tt_direct_span *spans = d->heap_spans.data;
    char *base = d->heap[d->me].base;
    size_t i = 0;

    if (!p)
        return;
    while (i < d->heap_spans.len && base + spans[i].at + shift(d) != (char *)p)
        i++;
    assert(i < d->heap_spans.len);
    /* If the kernel cannot take the pages back, the old bytes are cleared for the next owner. */
    if (madvise(base + spans[i].at, spans[i].bytes, MADV_REMOVE))
        memset(base + spans[i].at, 0, spans[i].bytes);
    d->heap_spans.len--;
    memmove(spans + i, spans + i + 1, (d->heap_spans.len - i) * sizeof *spans);
}
