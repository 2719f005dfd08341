/* direct_int.h - the shared layout and the private state of direct access (inside the transport
 * module). */
#ifndef TT_DIRECT_INT_H
#define TT_DIRECT_INT_H

#include <assert.h>

#include "transport/direct.h"
#include "transport/shm_region.h"
#include "transport/shm_wait.h"

/* ---- in shared memory: every line has one writer, except doors and the abort word ---- */

/* One box: the put number is stored last (seq_cst), which publishes the rest of the line. */
struct tt_direct_box {
    _Alignas(TT_LINE) _Atomic uint64_t seq; /* number of the put that it holds; 0: none */
    uint64_t fingerprint;
    unsigned char data[TT_DIRECT_TINY];
};
/* What a rank tells the others while opening; `phase` publishes the rest. */
struct tt_direct_card {
    _Alignas(TT_LINE) _Atomic uint64_t phase; /* 1: the card is filled, 2: maps is known too */
    uint64_t probe;                           /* the first word of its heap */
    uint64_t heap_base;                       /* address of its heap; 0: none */
    struct tt_region_key heap;
    uint32_t pid;
    uint32_t maps; /* 1: it maps all others' heaps */
};
/* A rank's part of one set of boxes. */
struct tt_direct_lane {
    struct tt_direct_box box[2];
    /* the key of the tt_boxes that the rank has open here; 0: none */
    _Alignas(TT_LINE) _Atomic uint64_t key;
};
struct tt_direct_rank {
    struct tt_door door;
    struct tt_direct_card card;
    /* 1 while it writes into another rank's heap (direct_quit.c). This line also makes the number
     * of lines odd, so that equal lines of different ranks fall in different cache sets. */
    _Alignas(TT_LINE) _Atomic uint32_t lease;
};
struct tt_direct_shared {
    _Alignas(TT_LINE) _Atomic uint32_t aborted;
    struct tt_direct_rank rank[]; /* lanes and stages follow, set by set */
};

static_assert(sizeof(struct tt_direct_rank) / TT_LINE % 2 == 1, "see lease");
static_assert(sizeof(struct tt_direct_lane) / TT_LINE % 2 == 1,
              "ranks do not meet in one cache set");

/* ---- private ---- */

/* An allocated buffer of the heap: whole grains. */
struct tt_direct_span {
    size_t at, bytes;
};

struct tt_direct {
    struct tt_direct_shared *shared;
    struct tt_direct_lane *lanes; /* [set][rank] */
    char *stages;
    size_t stage_bytes, stage_stride;
    size_t stage_room; /* bytes of a stage that payloads use in turn */
    char *streams;
    size_t stream_bytes, stream_stride;
    struct tt_door *doors; /* of all ranks, door_stride bytes apart */
    size_t door_stride;
    uint32_t n, me;
    bool oversubscribed;
    bool has_heap; /* all ranks map all heaps */
    uint64_t probe;
    uint32_t *pid;

    struct tt_boxes *boxes[TT_BOX_SETS]; /* this rank's, by set; NULL: none */
    struct tt_region *heap;              /* of all ranks, as mapped here */
    uint64_t *heap_base;                 /* the addresses of the same heaps at their owners */
    struct tt_vec heap_spans;            /* of struct tt_direct_span, rising */
    bool detached;                       /* this rank's buffers are no longer in the shared heap */
};

static inline struct tt_door *tt_direct_door(const struct tt_direct *d, uint32_t rank)
{
    assert(rank < d->n);
    return (struct tt_door *)(void *)((char *)d->doors + rank * d->door_stride);
}
void tt_direct_ring_all(struct tt_direct *d); /* after publishing something */
/* Makes this rank's heap; without one (not wanted, no memory) base stays NULL. */
void tt_direct_heap_make(struct tt_direct *d, size_t heap_bytes);
#endif
