/* phases.h - building blocks that several algorithms share. A phase is a reduce-scatter or an
 * all-gather inside a group of ranks, placed on a step, a channel and buffers, so that an algorithm
 * is a short list of phases. Internal to src/algo.
 *
 * A group has n members; member i keeps block i. A phase works on the blocks of its group only and
 * does not touch other chunks. tt_algo_phases_emit lists the phases of one rank in the order that a
 * schedule requires (step by step; sends, receives, local operations), so phases may follow each
 * other (rising `step`) or overlap (other channel, other chunks).
 *
 *     allreduce on a ring:      {ring_rs, in IN,  work OUT, out OUT, step 0}
 *                               {ring_ag, in OUT,           out OUT, step n-1}
 *     reduce-scatter alone:     {ring_rs, in IN,  work S0,  out OUT, step 0}
 *     all-gather alone:         {ring_ag, in IN,            out OUT, step 0}
 *     second level of an RS:    {ring_rs, in S0,  work S0,  out OUT, step n1-1} */
#ifndef TT_ALGO_PHASES_H
#define TT_ALGO_PHASES_H

#include "algo/algo.h"

/* Block i: chunks first + i*step + j*stride .. + len - 1 for j in 0..reps-1 (one span; reps 0
 * counts as 1). */
struct tt_group_blocks {
    uint32_t first, step, len, stride, reps;
};

enum { TT_GROUP_SPANS = 64 };

struct tt_group {
    uint32_t n;                    /* members; a group of 1 emits nothing: its data stay in `in` */
    uint32_t me;                   /* index of the rank being listed */
    uint32_t first, stride;        /* member i is rank first + i*stride, ... */
    const uint32_t *list;          /* ... or list[i] when not NULL */
    struct tt_group_blocks blocks; /* used when `block` is NULL */
    /* Irregular blocks (ring phases only): writes first, len, stride, reps of the spans of block i
     * (at most TT_GROUP_SPANS) and returns how many. A block may be empty: then its messages vanish
     * at both ends. */
    size_t (*block)(const void *ctx, uint32_t i, struct tt_span *ret);
    const void *ctx;
};
/* The rank of member i (i < n). */
uint32_t tt_algo_group_rank(const struct tt_group *g, uint32_t i);
/* The members d places after and before `i`, cyclically; any d. */
uint32_t tt_algo_group_after(const struct tt_group *g, uint32_t i, uint32_t d);
uint32_t tt_algo_group_before(const struct tt_group *g, uint32_t i, uint32_t d);
/* Spans of blocks i .. i+n-1 taken cyclically, each in buffer `buf` read from `src`. n = 1: any
 * group; n > 1: needs tt_blocks that are adjacent (step = len) or plain ranges (reps = 1); then at
 * most 2 spans. */
size_t tt_algo_group_spans(const struct tt_group *g, uint32_t i, uint32_t n, uint32_t buf,
                           uint32_t src, struct tt_span *ret);

/* One message of a phase: the peer, and the blocks it carries: `block` .. `block`+n-1,
 * cyclically. */
struct tt_hop {
    uint32_t peer, block, n;
};

struct tt_phase;

/* How a phase moves its blocks; one constant for each in the algorithm's own file. */
struct tt_phase_kind {
    bool reduces;    /* a reduce-scatter; otherwise an all-gather */
    bool reversible; /* `reverse` is understood */
    /* Each block is received once, so its own contribution is still in `in` when it arrives. */
    bool receives_once;
    uint32_t (*steps)(uint32_t n);
    /* What a member sends, or receives, in step t. */
    struct tt_hop (*hop)(const struct tt_phase *p, uint32_t t, bool send);
    /* The block that must move from `in` to `work` in the first step although no message brings it;
     * false when there is none. May be NULL: never. */
    bool (*carried)(const struct tt_group *g, uint32_t *ret_block);
};

/* ring.c: n-1 steps, neighbours only; member i sends to i+1 (reverse: i-1). */
extern const struct tt_phase_kind tt_algo_ring_rs, tt_algo_ring_ag;
/* circulant.c: ceil(log2 n) steps, to i + ceil(n/2), ceil(n/4), .. 1; the all-gather jumps back,
 * shortest first. */
extern const struct tt_phase_kind tt_algo_circulant_rs, tt_algo_circulant_ag;

/* Buffers. Reduce-scatter: contributions are read from `in`, partial sums of the other members'
 * blocks live in `work`, the finished own block in `out`. `in` may equal `work` (a later stage).
 * All-gather: the own block is read from `in` and copied to `out` (not copied when they are equal);
 * all blocks end in `out`. */
struct tt_phase {
    const struct tt_phase_kind *kind;
    struct tt_group group;
    uint32_t in, work, out;
    uint32_t step; /* of its first message */
    uint16_t channel;
    bool reverse; /* rings: run in the other direction */
};
/* Steps of the phase; 0 for n = 1. */
uint32_t tt_algo_phase_steps(const struct tt_phase *p);
/* Lists all phases of b->rank, interleaved by step. Phases on the same channel that overlap in time
 * must not share a (sender, receiver) pair; overlapping phases must not share chunks. */
void tt_algo_phases_emit(struct tt_builder *b, const struct tt_phase *phases, size_t n);

/* A whole algorithm that is one group of all ranks with a chunk each: its shape, and a rank's list
 * for collectives that reduce (by a phase of kind `rs`), gather (`ag`) or do both in this order. */
void tt_algo_phases_shape(struct tt_shape *s);
void tt_algo_phases_slice(struct tt_builder *b, const struct tt_phase_kind *rs,
                          const struct tt_phase_kind *ag);

/* One rank alone: COPY IN -> OUT of all chunks, the whole schedule of p = 1 for every
 * collective. */
void tt_algo_emit_alone(struct tt_builder *b);
/* Refusals of what no schedule can hold, for probes of algorithms whose steps or scratch buffers
 * grow with the ranks. */
tutti_status tt_algo_refuse_steps(uint64_t steps, struct tutti_error *why);
tutti_status tt_algo_refuse_bufs(uint64_t bufs, struct tutti_error *why);
/* Does the collective end with a gathering phase, so that all ranks have everything?
 * tt_sched_coll_reduces asks for the phase before. */
bool tt_algo_coll_gathers(tutti_coll c);
#endif
