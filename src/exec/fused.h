/* fused.h - all-reduce, reduce-scatter and all-gather among the ranks of one host by direct access to each other's memory: the schedules
 * `oneshot` and `direct`, lowered.
 *
 * In `direct` rank r receives everybody's chunk r in scratch buffers, reduces them in rank order and sends the result to all. With direct
 * access the receives and the reduction become one fused n-way reduction that reads the operands where they lie and, where the outputs can
 * be reached, writes all of them at once; what is left of the messages are three counters (entered, reduced, left). In `oneshot` everybody
 * reduces everything in rank order: for short vectors, which travel in control lines or stages. Both sum in rank order, so that the bits do
 * not depend on the size. Reduce-scatter is the first half of that, with the caller's blocks as slices; all-gather the second.
 *
 * Operations queue: any number may be begun, they run in that order. Not thread-safe; nothing allocates after making. */
#ifndef TT_FUSED_H
#define TT_FUSED_H

#include "kernel/kernel.h"
#include "transport/direct.h"

struct tt_fused;
/* d is borrowed. */
tutti_status tt_fused_make(struct tt_direct *d, struct tt_fused **ret, struct tutti_error *err);
void tt_fused_free(struct tt_fused *f); /* accepts NULL */
/* May vectors go through windows in shared memory where memory cannot be read? The same answer on all ranks. */
bool tt_fused_can_stream(const struct tt_fused *f);
/* Time this rank has waited for a peer to enter operations it had entered itself; waits of less than a moment are not counted. */
uint64_t tt_fused_late_ns(const struct tt_fused *f, uint32_t peer);

struct tt_fused_op {
    tutti_coll coll; /* allreduce, reduce_scatter, all_gather */
    const void *in;
    void *out;            /* may be in, or as tt_fused_fits says */
    size_t count;         /* of the whole vector; with blocks: of each of them */
    const size_t *counts; /* with blocks: of each rank's; NULL: all are `count` */
    tutti_dtype dtype;
    tutti_redop redop;
    uint64_t fingerprint;
    bool background; /* its thread shares a core with the caller's computing: few and long steps are better than many short ones */
    /* the rest is the engine's */
    uint64_t number;
    size_t done;            /* bytes of the present step */
    uint64_t round, copied; /* streaming: rounds that are finished, rounds whose operands are copied */
    uint32_t state;
    bool push;    /* all outputs are written by the owners of the slices */
    bool reduced; /* streaming: the present round */
    struct tt_fused_op *next;
};
/* Elements that this rank reads from `in` and writes to `out`. */
void tt_fused_elems(const struct tt_fused *f, const struct tt_fused_op *op, size_t *ret_in, size_t *ret_out);
/* Are the buffers apart, the same, or, with blocks, the own block at its place in the whole vector? Nothing else will do. */
bool tt_fused_fits(const struct tt_fused *f, const struct tt_fused_op *op);
/* Queues op, which stays with the engine until it is done; says "entered" at once when it is the first. */
void tt_fused_begin(struct tt_fused *f, struct tt_fused_op *op);
/* Works on the queue until op is done: TUTTI_OK; TUTTI_IN_PROGRESS at deadline_ns (0: only what is possible without waiting),
 * TUTTI_ERR_DIFFERS, TUTTI_ERR_ABORTED, TUTTI_ERR_PEER. */
tutti_status tt_fused_step(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *ret_blame);
/* Does what is possible without waiting, whatever is queued, of an all-reduce not more than a millisecond or so at a time; true when
 * anything moved. Errors are left to the next step. */
bool tt_fused_progress(struct tt_fused *f);
bool tt_fused_done(const struct tt_fused_op *op);
uint64_t tt_fused_finished(const struct tt_fused *f); /* operations, since making */
#endif
