/* direct_parts.h - the shared layout and the private state of direct access (inside the transport module). */
#ifndef TT_DIRECT_PARTS_H
#define TT_DIRECT_PARTS_H

#include "transport/direct.h"
#include "transport/shm_region.h"
#include "transport/shm_wait.h"

/* ---- in shared memory: every line has one writer, but doors and the abort word ---- */

struct tt_direct_box {
    _Alignas(TT_LINE) _Atomic uint64_t seq; /* of the put it holds */
    uint64_t fingerprint;
    unsigned char data[TT_DIRECT_TINY];
};
/* What a rank tells the others while opening. */
enum { TT_DIRECT_READS = 1, TT_DIRECT_MAPS = 2 };
struct tt_direct_card {
    _Alignas(TT_LINE) _Atomic uint64_t phase; /* 1: the card is filled, 2: can is known too */
    uint64_t probe, probe_value;              /* address and content of a private word */
    uint64_t heap_base;                       /* address of its heap; 0: none */
    struct tt_region_key heap;
    uint32_t pid;
    uint32_t can; /* TT_DIRECT_ bits: what this rank can do with all others */
};
struct tt_direct_rank {
    struct tt_door door;
    struct tt_direct_box box[2];
    struct tt_direct_card card;
    _Alignas(TT_LINE) _Atomic uint32_t lease; /* writes into others' heaps (direct_quit.c); makes the number of lines odd, too: ranks do
                                                 not meet in one cache set */
};
struct tt_direct_shared {
    _Alignas(TT_LINE) _Atomic uint32_t aborted;
    struct tt_direct_rank rank[]; /* stages follow */
};

_Static_assert(sizeof(struct tt_direct_rank) / TT_LINE % 2 == 1, "see lease");

/* ---- private ---- */

/* A live buffer of the heap: whole grains. */
struct tt_direct_span {
    size_t at, bytes;
};

struct tt_direct {
    struct tt_direct_shared *shared;
    char *stages;
    size_t stage_bytes, stage_stride;
    char *streams;
    size_t stream_bytes, stream_stride;
    struct tt_door *doors; /* of all ranks, door_stride bytes apart */
    size_t door_stride;
    uint32_t n, me;
    bool oversubscribed;
    uint32_t can; /* TT_DIRECT_ bits: what all ranks can do */
    uint64_t probe;
    uint32_t *pid;

    uint64_t seq; /* of the last put */
    uint64_t fingerprint;
    bool staged;              /* it was larger than a tiny one */
    const void **all[2][2];   /* [staged][seq & 1]: the payloads of all ranks */
    struct tt_region *heap;   /* of all ranks, as mapped here */
    uint64_t *heap_base;      /* and as they see it */
    struct tt_vec heap_spans; /* of struct tt_direct_span, rising */
    bool detached;            /* this rank's buffers are no longer in the shared heap */
};

static inline struct tt_door *tt_direct_door(const struct tt_direct *d, uint32_t rank)
{
    return (struct tt_door *)(void *)((char *)d->doors + rank * d->door_stride);
}
/* Where payloads of boxes lie that are larger than tiny ones: two stages per rank. */
static inline void *tt_direct_stage(const struct tt_direct *d, uint32_t rank, unsigned which)
{
    return d->stages + (2 * (size_t)rank + which) * d->stage_stride;
}
void tt_direct_ring_all(struct tt_direct *d); /* after publishing something */
/* Copies from another process, whether or not all ranks can. */
tutti_status tt_direct_copy_from(uint32_t pid, uint64_t remote, void *local, size_t bytes);
/* Makes this rank's heap; without one (not wanted, no memory) base stays NULL. */
void tt_direct_heap_make(struct tt_direct *d, size_t heap_bytes);
#endif
