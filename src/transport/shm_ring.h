/* shm_ring.h - one ring of frames between two processes, one writer and one reader (inside the
 * transport module).
 *
 *     line 0   tail                     written by the reader: bytes it has released so far
 *     then     frames                   written by the writer
 *
 *     frame    state  bytes  tag  payload (to a multiple of 64 bytes)
 *
 *     area     released | taken, not released | published | free (its first state is EMPTY)
 *                       ^ tail, `oldest`      ^ reader's `at`
 *                                                         ^ writer's `at`
 *
 * There is no shared head: the state word of a frame says whether it is there, so that the reader
 * fetches one line for a small message. Before a frame is published the writer clears the state of
 * the place that follows, which is therefore always free. Frames are contiguous: one that does not
 * fit before the end is preceded by a skip frame that covers the rest. A skip frame is also used
 * when the writer finds the ring empty some way in: short messages then use the same few lines
 * again and again, which stay in the caches. Payloads of up to 32 bytes share the line of the
 * header, longer ones start on the next (vector loads do not straddle lines).
 *
 * Memory order: the writer publishes a frame with a seq_cst store of its state, and the reader's
 * acquire load of the state makes the frame visible. The reader releases with a seq_cst store of
 * the tail, and the writer's acquire load of the tail comes before it overwrites anything. The
 * stores are seq_cst rather than release because a door is checked after them (shm_wait.h).
 *
 * The reader reads payloads in place and may release frames in any order; the tail moves over the
 * released prefix. Zeroed memory is an empty ring, so no rank has to initialise it. Each end is
 * used by one thread at a time. */
#ifndef TT_SHM_RING_H
#define TT_SHM_RING_H

#include <sys/uio.h>

#include "transport/shm_wait.h"
#include "transport/transport.h"

/* Bytes of shared memory for a ring that takes payloads of up to capacity/2; a multiple of TT_LINE.
 * capacity: multiple of TT_LINE. */
size_t tt_shm_ring_bytes(uint32_t capacity);
uint32_t tt_shm_ring_payload_max(uint32_t capacity);

struct tt_ring_out {
    char *frames;
    _Atomic uint64_t *tail;
    uint64_t head, tail_seen; /* bytes written, bytes known to be released, since the beginning */
    uint32_t at, area;        /* place of the next frame; bytes of the frames' area */
    /* from this place on, an empty ring is used from its beginning again */
    uint32_t rewind;
    uint32_t want; /* bytes that the last put needed and did not find; 0: it succeeded */
    bool closed;
};
void tt_shm_ring_out_open(struct tt_ring_out *r, void *memory, uint32_t capacity);
/* Copies the payload in and publishes it. False when there is no room. bytes: sum of iov, at most
 * tt_shm_ring_payload_max. */
bool tt_shm_ring_put(struct tt_ring_out *r, const struct tt_tag *tag, const struct iovec *iov,
                     int niov, uint32_t bytes);
/* Would the put that failed last succeed now? */
bool tt_shm_ring_has_room(const struct tt_ring_out *r);
/* Writes the end mark, the last thing that the reader will see. Needs no room. */
void tt_shm_ring_end(struct tt_ring_out *r);

enum tt_ring_look { TT_RING_EMPTY, TT_RING_FRAME, TT_RING_END, TT_RING_BROKEN };
struct tt_ring_in {
    const char *frames;
    _Atomic uint64_t *tail;
    uint64_t released; /* what tail says */
    /* per 64 bytes of the area: lines of the frame that was taken there and is not yet passed by
     * the tail */
    uint32_t *length;
    uint32_t at, oldest; /* places of the next frame and of the tail */
    uint32_t area;
    bool ended; /* nothing more will come */
};
tutti_status tt_shm_ring_in_open(struct tt_ring_in *r, void *memory, uint32_t capacity);
void tt_shm_ring_in_close(struct tt_ring_in *r);
/* Is there anything to take? seq_cst, for use in waits. */
static inline bool tt_ring_ready(const struct tt_ring_in *r)
{
    return !r->ended &&
           atomic_load((const _Atomic uint32_t *)(const void *)(r->frames + r->at)) != 0;
}
/* Takes the next frame: tag, bytes and data of *ev. END and BROKEN (the memory makes no sense) are
 * reported once. */
enum tt_ring_look tt_shm_ring_take(struct tt_ring_in *r, struct tt_event *ev);
/* Gives a frame back. True when the tail has moved: the writer may have room. */
bool tt_shm_ring_release(struct tt_ring_in *r, const void *data, uint32_t bytes);
#endif
