/* queue.h - the events of a simulation in order of time. Events of equal time are kept together
 * and come out in the order in which they went in: symmetric schedules have thousands of them,
 * which then cost a list entry each instead of a place in the heap. */
#ifndef TT_SIM_QUEUE_H
#define TT_SIM_QUEUE_H

#include "base/base.h"

/* An event: `what` and `extra` are the caller's; `next` links the items of a bucket. */
struct tt_queue_item {
    uint64_t what;
    uint32_t extra;
    uint32_t next;
};
struct tt_queue_bucket {
    uint64_t time_ps;
    uint32_t head, tail; /* items; UINT32_MAX: none */
};
/* An entry of the heap; `serial` orders buckets of equal time by age. */
struct tt_queue_entry {
    uint64_t time_ps;
    uint32_t serial, bucket;
};
enum { TT_QUEUE_RECENT = 256 };
struct tt_queue {
    struct tt_vec items;   /* struct tt_queue_item */
    struct tt_vec buckets; /* struct tt_queue_bucket */
    struct tt_vec heap;    /* struct tt_queue_entry, 4-ary, least (time, serial) first */
    uint32_t free_item, free_bucket, serial;
    /* buckets by a hash of their time: where a bucket of an equal time may be */
    uint32_t recent[TT_QUEUE_RECENT];
    bool failed; /* out of memory; stays set */
};
void tt_sim_queue_open(struct tt_queue *q);
void tt_sim_queue_close(struct tt_queue *q);
/* Appends an event; out of memory sets q->failed. */
void tt_sim_queue_push(struct tt_queue *q, uint64_t time_ps, uint64_t what, uint32_t extra);
/* The least time, UINT64_MAX when empty. */
uint64_t tt_sim_queue_time(const struct tt_queue *q);
/* Takes the first event; the queue is not empty. */
struct tt_queue_item tt_sim_queue_pop(struct tt_queue *q);
#endif
