/* recursive_doubling.c - the butterfly on whole vectors: few steps, many bytes; for short vectors
 * and barriers.
 *
 * In each step a rank exchanges everything it has with the rank whose number differs in one bit,
 * and both add. The distances are p/2, .., 2, 1: with this order every element has the summation
 * tree of halving-doubling, so that short and long vectors give the same bits. Both partners add in
 * rank order (lower rank first), hence they hold the same bits afterwards, NaN payloads included.
 *
 *     p = 4        step 0: 0 <-> 2, 1 <-> 3      step 1: 0 <-> 1, 2 <-> 3
 *       rank 0:    x0+x2                         (x0+x2) + (x1+x3)
 *       rank 1:    x1+x3                         (x0+x2) + (x1+x3)      and so on: equal everywhere
 *
 *     p = 5 = 4+1  step 0: rank 0 gives x0 to rank 1;  steps 1, 2: ranks 1, 2, 3, 4 as above;
 *                  step 3: rank 1 gives rank 0 the result
 *
 * Cost: log2 p steps (others: floor(log2 p) + 2) of one whole vector each; every rank waits for its
 * partner of the step. Invariant: before the exchange at distance m (in core ranks) rank v holds
 * the sum over the core ranks equal to v modulo 2m. The message goes to scratch, so that nothing is
 * overwritten while it is being sent. */
#include "algo/algos.h"
#include "algo/fold.h"
#include "algo/phases.h"

static tutti_status doubling_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                   struct tutti_error *err)
{
    (void)a;
    (void)err;
    s->chunks = 1;
    s->nbufs = TT_BUF_SCRATCH + 1;
    return TUTTI_OK;
}

static struct tt_span recursive_doubling_whole(uint32_t buf, uint32_t src)
{
    return tt_sched_span_from(buf, src, 0, 1);
}

/* OUT = own + theirs, lower rank first. */
static void add_in_rank_order(struct tt_builder *b, uint32_t step, uint32_t own_buf, bool own_first)
{
    struct tt_span own = recursive_doubling_whole(TT_BUF_OUT, own_buf),
                   theirs = recursive_doubling_whole(TT_BUF_OUT, TT_BUF_SCRATCH);
    struct tt_span spans[3] = {recursive_doubling_whole(TT_BUF_OUT, TT_BUF_OUT),
                               own_first ? own : theirs, own_first ? theirs : own};
    tt_sched_emit_reduce(b, step, spans, 3);
}

static void recursive_doubling_exchange(struct tt_builder *b, uint32_t step, uint32_t peer,
                                        uint32_t own_buf)
{
    struct tt_span own = recursive_doubling_whole(own_buf, own_buf),
                   theirs = recursive_doubling_whole(TT_BUF_SCRATCH, TT_BUF_SCRATCH);
    tt_sched_emit_send(b, step, peer, 0, &own, 1);
    tt_sched_emit_recv(b, step, peer, 0, &theirs, 1);
    add_in_rank_order(b, step, own_buf, b->rank < peer);
}

/* The rank that hands its vector to the next one and receives the result in the last step. */
static void idle_slice(uint32_t rank, uint32_t last, struct tt_builder *b)
{
    struct tt_span in = recursive_doubling_whole(TT_BUF_IN, TT_BUF_IN),
                   out = recursive_doubling_whole(TT_BUF_OUT, TT_BUF_OUT);
    tt_sched_emit_send(b, 0, rank + 1, 0, &in, 1);
    tt_sched_emit_recv(b, last, rank + 1, 0, &out, 1);
}

static void doubling_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    struct tt_fold f = tt_algo_fold_make(a->problem.ranks, rank);
    uint32_t step = f.extra ? 1 : 0, last = step + tt_ceil_log2(f.core), own_buf = TT_BUF_IN;
    struct tt_span sum = recursive_doubling_whole(TT_BUF_OUT, TT_BUF_IN),
                   out = recursive_doubling_whole(TT_BUF_OUT, TT_BUF_OUT);
    if (a->problem.ranks == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    if (f.idle) {
        idle_slice(rank, last, b);
        return;
    }
    if (f.doubled) {
        tt_sched_emit_recv_reduce(b, 0, rank - 1, 0, &sum, 1);
        own_buf = TT_BUF_OUT;
    }
    for (uint32_t m = f.core / 2; m > 0; m /= 2) {
        recursive_doubling_exchange(b, step++, tt_algo_fold_rank(&f, f.me ^ m), own_buf);
        own_buf = TT_BUF_OUT;
    }
    if (f.doubled)
        tt_sched_emit_send(b, last, rank - 1, 0, &out, 1);
}

const struct tt_algo tt_algo_recursive_doubling = {
    .name = "recursive-doubling",
    .desc = "butterfly on whole vectors, log2 p steps: for short vectors and barriers",
    .needs = "any number of ranks (two more steps when not a power of two)",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(BARRIER),
    .shape = doubling_shape,
    .slice = doubling_slice,
};
