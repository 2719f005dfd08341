/* fused_parts.h - inside src/exec: the state that the ways of fused operations share. */
#ifndef TT_FUSED_PARTS_H
#define TT_FUSED_PARTS_H

#include "exec/fused.h"

/* Lanes of direct access: steps of operations; rounds of streams. */
enum { TT_LANE_STEPS = 0, TT_LANE_COPIED = 1, TT_LANE_REDUCED = 2 };
enum { TT_FUSED_READ_BYTES = 128 << 10 }; /* read through the kernel at a time */
enum { TT_FUSED_BACKGROUND = 1 };         /* flags of descriptors */
/* Values of the lane of steps, three per operation: entered, reduced, left. */
enum { TT_STEP_ENTERED = 1, TT_STEP_REDUCED = 2, TT_STEP_LEFT = 3, TT_STEPS = 3 };

struct tt_fused {
    struct tt_direct *d;
    uint32_t n, me;
    struct tt_fused_op *first, **last;
    uint64_t finished; /* operations */
    uint64_t number;   /* of the newest operation on the lane; 3 counter values each */
    uint64_t rounds;   /* of all streams that are finished */
    size_t near, far;  /* vectors of up to `near` and from `far` bytes on are streamed */
    char *block;       /* a block of each peer: n * TT_FUSED_READ_BYTES */
    const void **src;  /* n */
    void **dst;        /* n */
    const char **in;   /* peers' buffers as seen from here; NULL: only through the kernel */
    char **out;
    bool reach;        /* all inputs of the present operation lie in heaps; the same on all ranks */
    bool background;   /* somebody works on it in the background; the same on all ranks */
    uint64_t *late_ns; /* by peer: waits for it to enter */
    uint64_t *waited;  /* by peer: all waits before the present one */
};

size_t tt_fused_elem_bytes(tutti_dtype t);
/* Reduces f->src[0 .. n-1] into f->dst[0 .. ndst-1], `count` elements of op's type. */
void tt_fused_reduce(const struct tt_fused *f, const struct tt_fused_op *op, uint32_t ndst, size_t count);

/* A way for op: describes the buffers to all and says "entered"; the rest of the descriptor is filled here. */
void tt_fused_enter(struct tt_fused *f, struct tt_fused_op *op, struct tt_direct_desc *desc);
/* Waits for all to enter; then f->in and f->out are everybody's buffers as they are seen from here, and *ret_push tells whether all outputs
 * can be written from here, which all ranks find alike (they look at the same descriptions). */
tutti_status tt_fused_meet(struct tt_fused *f, const struct tt_fused_op *op, uint64_t deadline_ns, bool *ret_push,
                           struct tt_direct_blame *blame);
/* Reduces bytes [at, end) of everybody's input to `out`, and to the same place of all outputs when push. */
struct tt_fused_span {
    size_t at, end;
    char *out;
    bool push;
};
tutti_status tt_fused_reduce_span(struct tt_fused *f, const struct tt_fused_op *op, const struct tt_fused_span *s);
void tt_fused_say(struct tt_fused *f, const struct tt_fused_op *op, unsigned step);

/* fused_blocks.c: reduce-scatter and all-gather. enter: true when the payload went into the boxes, from which boxed takes the result. */
bool tt_fused_blocks_enter(struct tt_fused *f, struct tt_fused_op *op);
void tt_fused_blocks_boxed(struct tt_fused *f, const struct tt_fused_op *op, const void *const *all);
tutti_status tt_fused_blocks(struct tt_fused *f, const struct tt_fused_op *op);
size_t tt_fused_block(const struct tt_fused_op *op, uint32_t r); /* elements */
size_t tt_fused_start(const struct tt_fused_op *op,
                      uint32_t r); /* first element of rank r's block in the whole vector; r = n: its length */
char *tt_fused_own(const struct tt_fused *f, const struct tt_fused_op *op); /* the own block: by itself, or in place */
tutti_status tt_fused_blocks_stream(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame);

/* fused_stream.c: for which vectors streaming is the better way here; the same on all ranks. */
void tt_fused_stream_limits(struct tt_fused *f);
/* A slot of a rank's stream area in a round, numbered through all operations. */
size_t tt_fused_slot_bytes(const struct tt_fused *f);
char *tt_fused_slot(const struct tt_fused *f, uint32_t rank, uint64_t round, uint32_t which);
/* The whole of one operation, as far as it goes without waiting beyond deadline_ns. */
tutti_status tt_fused_stream(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame);
#endif
