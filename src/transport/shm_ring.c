/* shm_ring.c - the two ends of a ring (layout, rules and memory order in shm_ring.h).
 *
 *     put        fill the frame -> clear the state behind it -> publish its state
 *     take       load the state -> check the sizes -> hand out a pointer
 *     release    mark the frame -> move the tail over all marked frames at its front
 *
 * Invariants. Writer: the place `at` is free and its state is zero; head - tail_seen + 64 <= area.
 * Reader: length[] is non-zero exactly at the places of frames between the tail and `at`; a frame
 * is overwritten only after the tail has passed it. What the reader remembers is private: sizes
 * found in shared memory are checked once, when the frame is taken, and not read again. */
#include "transport/shm_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT = 64, SHORT_MAX = 32, SLACK = 4 * UNIT };
/* Where in the area the writer first checks for an empty ring, and the distance of further checks:
 * each costs a load of a line that the reader writes. */
enum { REWIND = 8 << 10, REWIND_STEP = 2 << 10 };
enum { EMPTY = 0, DATA = 0x44, SKIP = 0x53, END = 0x45 };
/* In length[]: the frame was released, but one before it was not. */
static const uint32_t RELEASED = 1u << 31;

/* The header of a frame, in shared memory. */
struct frame {
    _Atomic uint32_t state;
    uint32_t bytes;
    struct tt_tag tag;
};
static_assert(sizeof(struct frame) == SHORT_MAX, "header and a short payload fill one unit");

/* Room for two frames of the largest size: one that is skipped to wrap, and the one after it. */
static uint32_t area_bytes(uint32_t capacity)
{
    return capacity + SLACK;
}

size_t tt_shm_ring_bytes(uint32_t capacity)
{
    /* An odd number of lines: rings that follow each other do not start in the same cache set. */
    size_t lines = TT_LINE + (size_t)area_bytes(capacity);

    assert(capacity % TT_LINE == 0 && capacity >= 2 * TT_LINE);
    return (lines / TT_LINE | 1) * TT_LINE;
}

uint32_t tt_shm_ring_payload_max(uint32_t capacity)
{
    return capacity / 2;
}

/* Where the payload begins in its frame. */
static uint32_t payload_at(uint32_t bytes)
{
    return bytes <= SHORT_MAX ? SHORT_MAX : UNIT;
}

/* Whole units, so that every frame begins on a cache line. */
static uint32_t frame_bytes(uint32_t payload)
{
    return payload <= SHORT_MAX ? UNIT : UNIT + (payload + UNIT - 1) / UNIT * UNIT;
}

static uint32_t wrapped(uint32_t at, uint32_t area)
{
    return at == area ? 0 : at;
}

void tt_shm_ring_out_open(struct tt_ring_out *r, void *memory, uint32_t capacity)
{
    assert(area_bytes(capacity) % UNIT == 0);
    *r = (struct tt_ring_out){.frames = (char *)memory + TT_LINE,
                              .tail = memory,
                              .area = area_bytes(capacity),
                              .rewind = REWIND};
}

static struct frame *frame_at(const struct tt_ring_out *r, uint32_t at)
{
    return (struct frame *)(void *)(r->frames + at);
}

/* Is there room? The shared tail is loaded only if the copy of it does not suffice; acquire: the
 * reader is done with what it released before this rank overwrites it. */
static bool shm_ring_fits(struct tt_ring_out *r, uint32_t need)
{
    if (r->area - (r->head - r->tail_seen) >= need)
        return true;
    r->tail_seen = atomic_load_explicit(r->tail, memory_order_acquire);
    return r->area - (r->head - r->tail_seen) >= need;
}

static void shm_ring_fill(struct frame *f, const struct tt_tag *tag, const struct iovec *iov,
                          int niov, uint32_t bytes)
{
    char *to = (char *)f + payload_at(bytes);

    f->bytes = bytes;
    f->tag = *tag;
    for (int i = 0; i < niov; i++) {
        if (iov[i].iov_len)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

/* Shall a frame of `size` bytes go to the beginning although it fits at `at`? Yes, if the ring is
 * empty and `at` is far enough in. */
static bool rewinds(struct tt_ring_out *r, uint32_t size)
{
    if (r->at < r->rewind || size + UNIT > r->at)
        return false;
    r->tail_seen = atomic_load_explicit(r->tail, memory_order_acquire);
    r->rewind = r->head == r->tail_seen ? REWIND : r->at + REWIND_STEP;
    return r->head == r->tail_seen;
}

/* The order of the stores matters: the frame is filled and the place behind it emptied before its
 * state, or that of the skip frame before it, is published. */
bool tt_shm_ring_put(struct tt_ring_out *r, const struct tt_tag *tag, const struct iovec *iov,
                     int niov, uint32_t bytes)
{
    uint32_t size = frame_bytes(bytes);
    uint32_t skip = size > r->area - r->at || rewinds(r, size) ? r->area - r->at : 0;
    struct frame *first = frame_at(r, r->at), *f = skip ? frame_at(r, 0) : first;

    assert(r->at % UNIT == 0 && r->at < r->area);
    assert(2 * size <= r->area && !r->closed);
    if (!shm_ring_fits(r, skip + size + UNIT)) {
        r->want = skip + size + UNIT;
        return false;
    }
    r->want = 0;
    shm_ring_fill(f, tag, iov, niov, bytes);
    r->at = wrapped((uint32_t)((char *)f - r->frames) + size, r->area);
    r->head += skip + size;
    r->rewind = skip ? REWIND : r->rewind;
    atomic_store_explicit(&frame_at(r, r->at)->state, EMPTY, memory_order_relaxed);
    if (skip) /* relaxed: the reader gets here only through the skip frame's state */
        atomic_store_explicit(&f->state, DATA, memory_order_relaxed);
    atomic_store(&first->state, skip ? SKIP : DATA);
    return true;
}

/* seq_cst, for use in waits. */
bool tt_shm_ring_has_room(const struct tt_ring_out *r)
{
    return r->area - (r->head - atomic_load(r->tail)) >= r->want;
}

/* The place `at` is always free, so the mark needs no room. */
void tt_shm_ring_end(struct tt_ring_out *r)
{
    if (!r->closed)
        atomic_store(&frame_at(r, r->at)->state, END);
    r->closed = true;
}

tutti_status tt_shm_ring_in_open(struct tt_ring_in *r, void *memory, uint32_t capacity)
{
    *r = (struct tt_ring_in){
        .frames = (char *)memory + TT_LINE, .tail = memory, .area = area_bytes(capacity)};
    r->length = tt_zalloc(r->area / UNIT, sizeof *r->length);
    return r->length ? TUTTI_OK : TUTTI_ERR_MEMORY;
}

void tt_shm_ring_in_close(struct tt_ring_in *r)
{
    free(r->length);
    r->length = NULL;
}

/* Nothing more will be taken from this ring. */
static enum tt_ring_look ended(struct tt_ring_in *r, enum tt_ring_look how)
{
    r->ended = true;
    return how;
}

/* A skip frame is released as soon as it is seen; the tail passes it with the frames before it. At
 * place 0 a skip frame makes no sense: it would lead to itself. */
enum tt_ring_look tt_shm_ring_take(struct tt_ring_in *r, struct tt_event *ev)
{
    if (r->ended)
        return TT_RING_EMPTY;
    const struct frame *f = (const void *)(r->frames + r->at);
    uint32_t state = atomic_load_explicit(&f->state, memory_order_acquire);
    if (state == EMPTY)
        return TT_RING_EMPTY;
    if (state == SKIP && r->at) {
        r->length[r->at / UNIT] = (r->area - r->at) / UNIT | RELEASED;
        r->at = 0;
        f = (const void *)r->frames;
        state = atomic_load_explicit(&f->state, memory_order_acquire);
    }
    if (state == END)
        return ended(r, TT_RING_END);
    uint32_t bytes = f->bytes, room = r->area - r->at;
    if (state != DATA || bytes > r->area / 2 || frame_bytes(bytes) > room)
        return ended(r, TT_RING_BROKEN);
    ev->tag = f->tag;
    ev->bytes = bytes;
    ev->data = (const char *)f + payload_at(bytes);
    r->length[r->at / UNIT] = frame_bytes(bytes) / UNIT;
    r->at = wrapped(r->at + frame_bytes(bytes), r->area);
    return TT_RING_FRAME;
}

/* Frames may be released in any order; the tail moves over the released prefix. Invariant: `oldest`
 * is the place of the first frame that the tail has not passed. */
bool tt_shm_ring_release(struct tt_ring_in *r, const void *data, uint32_t bytes)
{
    uint32_t place = (uint32_t)((const char *)data - r->frames) - payload_at(bytes);
    uint32_t *length = &r->length[place / UNIT];
    uint64_t before = r->released;

    assert(place % UNIT == 0 && place < r->area && *length && !(*length & RELEASED));
    *length |= RELEASED;
    for (length = &r->length[r->oldest / UNIT]; *length & RELEASED;
         length = &r->length[r->oldest / UNIT]) {
        uint32_t size = (*length & ~RELEASED) * UNIT;
        *length = 0;
        r->released += size;
        r->oldest = wrapped(r->oldest + size, r->area);
    }
    if (r->released == before)
        return false;
    atomic_store(r->tail, r->released);
    return true;
}
