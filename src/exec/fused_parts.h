/* fused_parts.h - inside src/exec: the state that the ways of a fused all-reduce share. */
#ifndef TT_FUSED_PARTS_H
#define TT_FUSED_PARTS_H

#include "exec/fused.h"

/* Lanes of direct access: steps of operations; rounds of streams. */
enum { TT_LANE_STEPS = 0, TT_LANE_COPIED = 1, TT_LANE_REDUCED = 2 };

struct tt_fused {
    struct tt_direct *d;
    uint32_t n, me;
    struct tt_fused_op *first, **last;
    uint64_t number;  /* of the newest operation on the lane; 3 counter values each */
    uint64_t rounds;  /* of all streams that are finished */
    size_t near, far; /* vectors of up to `near` and from `far` bytes on are streamed */
    char *block;      /* a block of each peer: n * READ_BYTES */
    const void **src; /* n */
    void **dst;       /* n */
    const char **in;  /* peers' buffers as seen from here; NULL: only through the kernel */
    char **out;
    uint64_t *late_ns; /* by peer: waits for it to enter */
    uint64_t *waited;  /* by peer: all waits before the present one */
};

size_t tt_fused_elem_bytes(tutti_dtype t);
/* Reduces f->src[0 .. n-1] into f->dst[0 .. ndst-1], `count` elements of op's type. */
void tt_fused_reduce(const struct tt_fused *f, const struct tt_fused_op *op, uint32_t ndst, size_t count);

/* fused_stream.c: for which vectors streaming is the better way here; the same on all ranks. */
void tt_fused_stream_limits(struct tt_fused *f);
/* The whole of one operation, as far as it goes without waiting beyond deadline_ns. */
tutti_status tt_fused_stream(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame);
#endif
