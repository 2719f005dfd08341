/* packet_queue.c - the two queues of the packet level.
 *
 * Trains: flits and credits are evenly spaced most of the time, so a queue of thousands is a
 * handful of (first, gap, count). What was taken from the front may have to be put back (a
 * promise that was cut), and what was appended may have to be taken back.
 *
 *     | first 0 gap 4 count 100 | first 900 gap 8 count 3 |      103 flits in two entries
 *
 * An agenda: a binary heap of (time, id); the id decides among equal times, so every machine
 * runs the same order. Both grow by doubling and are never emptied by freeing: after the first
 * moments of a run nothing is allocated. */
#include <assert.h>
#include <stdlib.h>

#include "sim/packet.h"

/* Element i of the ring; cap is a power of two. */
static struct tt_train *slot(const struct tt_trains *q, uint32_t i)
{
    assert(q->cap && i <= q->len);
    return &q->at[(q->head + i) & (q->cap - 1)];
}

static bool packet_queue_grow(struct tt_trains *q)
{
    if (q->len < q->cap)
        return true;
    uint32_t cap = q->cap ? q->cap * 2 : 8;
    struct tt_train *at = tt_alloc(cap, sizeof *at);
    if (!at)
        return false;
    for (uint32_t i = 0; i < q->len; i++)
        at[i] = *slot(q, i);
    free(q->at);
    q->at = at;
    q->head = 0;
    q->cap = cap;
    return true;
}

/* Makes a and b one train if b continues a. The gap is a's, b's or, of two single elements,
 * their distance. */
static bool packet_queue_join(struct tt_train *a, const struct tt_train *b)
{
    uint64_t gap = a->count > 1 ? a->gap : b->count > 1 ? b->gap : b->first - a->first;
    if ((b->count > 1 && b->gap != gap) || b->first < a->first ||
        b->first - a->first != gap * a->count)
        return false;
    a->gap = gap;
    a->count += b->count;
    return true;
}

bool tt_sim_trains_push(struct tt_trains *q, const struct tt_train *t)
{
    if (q->len && packet_queue_join(slot(q, q->len - 1), t))
        return true;
    if (!packet_queue_grow(q))
        return false;
    *slot(q, q->len++) = *t;
    return true;
}

void tt_sim_trains_unpush(struct tt_trains *q, uint64_t n)
{
    assert(q->len && slot(q, q->len - 1)->count >= n);
    slot(q, q->len - 1)->count -= n;
    if (!slot(q, q->len - 1)->count)
        q->len--;
}

void tt_sim_trains_take(struct tt_trains *q, uint64_t n)
{
    assert(q->len && q->at[q->head].count >= n);
    struct tt_train *t = &q->at[q->head];
    t->first += n * t->gap;
    t->count -= n;
    if (t->count)
        return;
    q->head = (q->head + 1) & (q->cap - 1);
    q->len--;
}

bool tt_sim_trains_untake(struct tt_trains *q, const struct tt_train *t)
{
    struct tt_train joined = *t;
    if (q->len && packet_queue_join(&joined, &q->at[q->head])) {
        q->at[q->head] = joined;
        return true;
    }
    if (!packet_queue_grow(q))
        return false;
    q->head = (q->head - 1) & (q->cap - 1);
    q->len++;
    q->at[q->head] = *t;
    return true;
}

static bool packet_queue_before(const struct tt_due *a, const struct tt_due *b)
{
    return a->time != b->time ? a->time < b->time : a->id < b->id;
}

bool tt_sim_agenda_push(struct tt_agenda *a, uint64_t time, uint64_t id)
{
    if (a->len == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 64;
        struct tt_due *at = tt_resize(a->at, cap, sizeof *at);
        if (!at)
            return false;
        a->at = at;
        a->cap = cap;
    }
    struct tt_due due = {time, id};
    assert(a->len < a->cap);
    size_t i = a->len++;
    for (; i > 0 && packet_queue_before(&due, &a->at[(i - 1) / 2]); i = (i - 1) / 2)
        a->at[i] = a->at[(i - 1) / 2];
    a->at[i] = due;
    return true;
}

void tt_sim_agenda_pop(struct tt_agenda *a)
{
    assert(a->len);
    struct tt_due due = a->at[--a->len];
    size_t i = 0;
    for (size_t child = 1; child < a->len; child = 2 * i + 1) {
        if (child + 1 < a->len && packet_queue_before(&a->at[child + 1], &a->at[child]))
            child++;
        if (!packet_queue_before(&a->at[child], &due))
            break;
        a->at[i] = a->at[child];
        i = child;
    }
    if (a->len)
        a->at[i] = due;
}
