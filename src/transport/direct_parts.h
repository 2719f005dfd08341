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
struct tt_direct_lane {
    _Alignas(TT_LINE) _Atomic uint64_t value;
    struct tt_direct_desc slot[2];
};
/* What a rank tells the others while opening. */
enum { TT_DIRECT_READS = 1, TT_DIRECT_MAPS = 2 };
struct tt_direct_card {
    _Alignas(TT_LINE) _Atomic uint64_t phase; /* 1: the card is filled, 2: can is known too */
    uint64_t probe, probe_value;              /* address and content of a private word */
    uint64_t landing;                         /* address of a word that anybody may overwrite */
    uint64_t heap_base;                       /* address of its heap; 0: none */
    struct tt_region_key heap;
    uint32_t pid;
    uint32_t can; /* TT_DIRECT_ bits: what this rank can do with all others */
};
struct tt_direct_rank {
    struct tt_door door;
    struct tt_direct_box box[2];
    struct tt_direct_lane lane[TT_DIRECT_LANES];
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
    uint64_t *waited_ns;
    uint64_t idle_since_ns;
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
/* Waits until *counter >= value, attributing the time to the peer (direct_step.c). As tt_direct_await. */
tutti_status tt_direct_wait(struct tt_direct *d, uint32_t peer, const _Atomic uint64_t *counter, uint64_t value, uint64_t deadline_ns);
/* Copies between processes, whether or not all ranks can. */
tutti_status tt_direct_copy_from(uint32_t pid, uint64_t remote, void *local, size_t bytes);
tutti_status tt_direct_copy_to(uint32_t pid, uint64_t remote, const void *local, size_t bytes);
/* Makes this rank's heap; without one (not wanted, no memory) base stays NULL. */
void tt_direct_heap_make(struct tt_direct *d, size_t heap_bytes);
#endif
