/* pieces.h - building blocks that several algorithms share: reduce-scatters and all-gathers inside a group of ranks, placed on a
 * step, a channel and buffers, so that an algorithm is a short list of pieces. Internal to src/algo.
 *
 * A group has n members; member i keeps block i. Ring and circulant pieces work on the blocks of the group only: chunks outside
 * are not touched. tt_pieces_emit lists the pieces of one rank in the order the schedule demands (step by step; sends, receives,
 * local operations), so that pieces may run after each other (rising `step`) or at the same time (other channel, other chunks).
 *
 *     allreduce on a ring:   {RING_RS, in IN,  work OUT, out OUT, step 0}      {RING_AG, in OUT, out OUT, step n-1}
 *     reduce-scatter alone:  {RING_RS, in IN,  work S0,  out OUT, step 0}
 *     all-gather alone:      {RING_AG, in IN,  out OUT, step 0}
 *     2nd level of an RS:    {RING_RS, in S0,  work S0,  out OUT, step n1-1} */
#ifndef TT_PIECES_H
#define TT_PIECES_H

#include "algo/algo.h"

/* Block i: chunks first + i*step + j*stride .. + len - 1 for j in 0..reps-1 (one span; reps 0 counts as 1). */
struct tt_blocks {
    uint32_t first, step, len, stride, reps;
};

enum { TT_GROUP_SPANS = 64 };

struct tt_group {
    uint32_t n;              /* members; a group of 1 emits nothing: its data stay in `in` */
    uint32_t me;             /* index of the rank being listed */
    uint32_t first, stride;  /* member i is rank first + i*stride, ... */
    const uint32_t *list;    /* ... or list[i] when not NULL */
    struct tt_blocks blocks; /* used when `block` is NULL */
    /* Irregular blocks (ring pieces only): writes first, len, stride, reps of the spans of block i (at most TT_GROUP_SPANS), returns how
     * many. A block may be empty: then its messages vanish at both ends. */
    size_t (*block)(const void *ctx, uint32_t i, struct tt_span *ret);
    const void *ctx;
};
uint32_t tt_group_rank(const struct tt_group *g, uint32_t i); /* rank of member i (i < n) */
/* Spans of blocks i .. i+n-1 taken cyclically, each in buffer `buf` read from `src`. n = 1: any group; n > 1: needs tt_blocks that are
 * adjacent (step = len) or plain ranges (reps = 1); then at most 2 spans. */
size_t tt_group_spans(const struct tt_group *g, uint32_t i, uint32_t n, uint32_t buf, uint32_t src, struct tt_span *ret);

enum tt_piece_kind {
    TT_RING_RS,      /* n-1 steps, neighbours only; member i sends to i+1 (reverse: i-1) */
    TT_RING_AG,      /* n-1 steps, the same direction */
    TT_CIRCULANT_RS, /* ceil(log2 n) steps to i + ceil(n/2), ceil(n/4), .. 1 (Traeff 2024); not reversible */
    TT_CIRCULANT_AG, /* ceil(log2 n) steps, the same jumps back, shortest first */
};

/* Buffers. RS: contributions are read from `in`, partial sums of foreign blocks live in `work`, the finished own block in `out`. `in` may
 * equal `work` (a later stage). AG: the own block is read from `in` and copied to `out` (nothing when equal); all blocks end in `out`. */
struct tt_piece {
    enum tt_piece_kind kind;
    struct tt_group group;
    uint32_t in, work, out;
    uint32_t step; /* of its first message */
    uint16_t channel;
    bool reverse; /* rings: run in the other direction */
};
uint32_t tt_piece_steps(const struct tt_piece *p); /* n-1 or ceil(log2 n); 0 for n = 1 */
/* Lists all pieces of b->rank, interleaved by step. Pieces on the same channel that overlap in time must not share a
 * (sender, receiver) pair; overlapping pieces must not share chunks. */
void tt_pieces_emit(struct tt_builder *b, const struct tt_piece *pieces, size_t n);

/* The whole of an algorithm that is one group of all ranks with a chunk each: its shape, and a rank's list for the collectives that reduce
 * (by pieces of kind `rs`), gather (`ag`) or do both in this order. */
void tt_pieces_shape(struct tt_shape *s);
void tt_pieces_slice(struct tt_builder *b, enum tt_piece_kind rs, enum tt_piece_kind ag);

/* One rank alone: COPY IN -> OUT of all chunks, the whole schedule of p = 1 for every collective. */
void tt_emit_alone(struct tt_builder *b);
/* Refusals of what no schedule of this build can hold, for probes of algorithms whose steps or scratch buffers grow with the ranks. */
tutti_status tt_refuse_steps(uint64_t steps, struct tutti_error *why);
tutti_status tt_refuse_bufs(uint64_t bufs, struct tutti_error *why);
/* Does the collective end with a gathering phase, so that all ranks have everything? tt_coll_reduces asks for the phase before. */
bool tt_coll_gathers(tutti_coll c);
#endif
