/* queue.c - events in buckets of equal time, the buckets in a 4-ary heap.
 *
 *     heap:  (5, serial 0) (7, 2) (7, 3) ...     bucket of time 5: item -> item -> item
 *
 * An event looks for a bucket of its time in a small table of recent buckets; if there is none,
 * it opens a new one. Several buckets may therefore have the same time: the older one comes
 * first, which keeps the order of arrival. A bucket leaves the heap when its last event is
 * taken. Cost: O(1) per event when times repeat, O(log buckets) otherwise. Invariant: the heap
 * holds exactly the buckets that have events. */
#include "sim/queue.h"

#include <assert.h>
#include <string.h>

enum { NONE = UINT32_MAX };

void tt_sim_queue_open(struct tt_queue *q)
{
    memset(q, 0, sizeof *q);
    q->items.elem = sizeof(struct tt_queue_item);
    q->buckets.elem = sizeof(struct tt_queue_bucket);
    q->heap.elem = sizeof(struct tt_queue_entry);
    q->free_item = q->free_bucket = NONE;
    memset(q->recent, 0xff, sizeof q->recent);
}

void tt_sim_queue_close(struct tt_queue *q)
{
    tt_vec_free(&q->items);
    tt_vec_free(&q->buckets);
    tt_vec_free(&q->heap);
}

/* By time, then age. Serial numbers are compared by difference, so the order survives a wrap. */
static bool queue_before(const struct tt_queue_entry *a, const struct tt_queue_entry *b)
{
    return a->time_ps != b->time_ps ? a->time_ps < b->time_ps
                                    : (int32_t)(a->serial - b->serial) < 0;
}

static void heap_up(struct tt_queue *q, size_t i)
{
    assert(i < q->heap.len);
    struct tt_queue_entry *h = q->heap.data, e = h[i];
    for (; i > 0 && queue_before(&e, &h[(i - 1) / 4]); i = (i - 1) / 4)
        h[i] = h[(i - 1) / 4];
    h[i] = e;
}

static void heap_pop(struct tt_queue *q)
{
    assert(q->heap.len > 0);
    struct tt_queue_entry *h = q->heap.data, e = h[--q->heap.len];
    size_t n = q->heap.len, i = 0;
    for (size_t child = 1; child < n; child = 4 * i + 1) {
        size_t least = child;
        for (size_t k = child + 1; k < child + 4 && k < n; k++)
            least = queue_before(&h[k], &h[least]) ? k : least;
        if (!queue_before(&h[least], &e))
            break;
        h[i] = h[least];
        i = least;
    }
    if (n)
        h[i] = e;
}

/* Free items and free buckets are lists through `next` and `tail`. */
static uint32_t item_take(struct tt_queue *q)
{
    uint32_t i = q->free_item;
    if (i != NONE) {
        assert(i < q->items.len);
        q->free_item = ((struct tt_queue_item *)q->items.data)[i].next;
        return i;
    }
    i = (uint32_t)q->items.len;
    return i < NONE && tt_vec_push(&q->items, NULL, 1) ? i : NONE;
}

/* Opens a bucket of this time in the heap; NONE: out of memory. */
static uint32_t bucket_open(struct tt_queue *q, uint64_t time_ps)
{
    struct tt_queue_bucket *all, fresh = {time_ps, NONE, NONE};
    uint32_t b = q->free_bucket;
    struct tt_queue_entry e = {time_ps, q->serial++, b};
    if (b == NONE) {
        e.bucket = b = (uint32_t)q->buckets.len;
        if (!tt_vec_push(&q->buckets, &fresh, 1))
            return NONE;
    } else {
        all = q->buckets.data;
        assert(b < q->buckets.len && all[b].head == NONE);
        q->free_bucket = all[b].tail;
        all[b] = fresh;
    }
    if (!tt_vec_push(&q->heap, &e, 1))
        return NONE;
    heap_up(q, q->heap.len - 1);
    return b;
}

/* The table is only a hint: an entry may be of another time, or empty and thus closed. */
static uint32_t bucket_find(struct tt_queue *q, uint64_t time_ps)
{
    uint32_t *recent = &q->recent[(time_ps * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    const struct tt_queue_bucket *all = q->buckets.data;
    if (*recent == NONE || all[*recent].time_ps != time_ps || all[*recent].head == NONE)
        *recent = bucket_open(q, time_ps);
    return *recent;
}

void tt_sim_queue_push(struct tt_queue *q, uint64_t time_ps, uint64_t what, uint32_t extra)
{
    uint32_t i = item_take(q), b = i == NONE ? NONE : bucket_find(q, time_ps);
    if (b == NONE) {
        q->failed = true;
        return;
    }
    struct tt_queue_item *items = q->items.data;
    struct tt_queue_bucket *bucket = (struct tt_queue_bucket *)q->buckets.data + b;
    assert(bucket->time_ps == time_ps);
    items[i] = (struct tt_queue_item){what, extra, NONE};
    if (bucket->head == NONE)
        bucket->head = i;
    else
        items[bucket->tail].next = i;
    bucket->tail = i;
}

uint64_t tt_sim_queue_time(const struct tt_queue *q)
{
    return q->heap.len ? ((const struct tt_queue_entry *)q->heap.data)[0].time_ps : UINT64_MAX;
}

struct tt_queue_item tt_sim_queue_pop(struct tt_queue *q)
{
    assert(q->heap.len > 0);
    uint32_t b = ((const struct tt_queue_entry *)q->heap.data)[0].bucket;
    struct tt_queue_bucket *bucket = (struct tt_queue_bucket *)q->buckets.data + b;
    assert(bucket->head != NONE); /* a bucket leaves the heap with its last item */
    struct tt_queue_item *first = (struct tt_queue_item *)q->items.data + bucket->head,
                         taken = *first;
    first->next = q->free_item;
    q->free_item = bucket->head;
    bucket->head = taken.next;
    if (taken.next == NONE) {
        bucket->tail = q->free_bucket;
        q->free_bucket = b;
        heap_pop(q);
    }
    return taken;
}
