/* direct.c - the owner of a chunk receives every rank's contribution and adds them in rank order:
 * the reproducible algorithm.
 *
 *     p = 4    step 0   rank r sends its part of chunk c to rank c, for all c;
 *                       rank c then adds x0 + x1 + x2 + x3
 *              step 1   rank c sends chunk c to all others
 *
 *       rank 0 receives chunk 0 of ranks 1, 2, 3 into three scratch buffers; its own part stays
 *       in the input; one n-ary reduction over the four, left to right, writes chunk 0 of the
 *       output.
 *
 * Cost: 2 steps (reduce-scatter, all-gather: 1 each) with p-1 messages each, 2(p-1)/p of the vector
 * sent per rank, (p-1)/p reduced; a rank waits for all others. Every element is summed in the order
 * 0, 1, .., p-1, independent of its place, the size of the vector and the transport: with
 * `reproducible` only such algorithms qualify.
 * All-to-all, gather and scatter are the same idea without sums, in one step. */
#include "algo/algos.h"
#include "algo/flat.h"
#include "algo/phases.h"

static tutti_status direct_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    uint64_t p = a->problem.ranks;
    if (a->problem.coll == TUTTI_ALL_TO_ALL && p * p > UINT32_MAX)
        return tt_fail(why, TUTTI_ERR_REFUSED,
                       "all-to-all needs ranks^2 chunks: at most 65535 ranks, not %u",
                       a->problem.ranks);
    return tt_sched_coll_reduces(a->problem.coll) ? tt_algo_refuse_bufs(TT_BUF_SCRATCH + p, why)
                                                  : TUTTI_OK;
}

static tutti_status direct_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                 struct tutti_error *err)
{
    (void)err;
    uint32_t p = a->problem.ranks;
    bool all_to_all = s->coll == TUTTI_ALL_TO_ALL;
    s->chunks = all_to_all ? p * p : p;
    s->nbufs = tt_sched_coll_reduces(s->coll) ? TT_BUF_SCRATCH + p : TT_BUF_SCRATCH;
    /* A chunk that arrives from a rank would overwrite the one still being sent to it. */
    s->inplace = !all_to_all;
    s->symmetric = tt_sched_coll_reduces(s->coll) || tt_algo_coll_gathers(s->coll);
    return TUTTI_OK;
}

static void direct_reduce_scatter(struct tt_builder *b)
{
    for (uint32_t d = 1; d < b->shape.ranks; d++) {
        struct tt_span theirs = tt_sched_span_range(TT_BUF_IN, tt_algo_flat_peer(b, d), 1);
        tt_sched_emit_send(b, 0, tt_algo_flat_peer(b, d), 0, &theirs, 1);
    }
    tt_algo_flat_sum(b, 0, b->rank);
}

static void direct_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    (void)rank;
    if (a->problem.ranks == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    switch (a->problem.coll) {
    case TUTTI_ALLREDUCE:
        direct_reduce_scatter(b);
        tt_algo_flat_all_gather(b, 1, TT_BUF_OUT);
        break;
    case TUTTI_REDUCE_SCATTER:
        direct_reduce_scatter(b);
        break;
    case TUTTI_ALL_GATHER:
        tt_algo_flat_all_gather(b, 0, TT_BUF_IN);
        break;
    case TUTTI_ALL_TO_ALL:
        tt_algo_flat_all_to_all(b, 0);
        break;
    case TUTTI_GATHER:
        tt_algo_flat_gather(b, 0);
        break;
    default:
        tt_algo_flat_scatter(b, 0);
    }
}

static uint64_t direct_ops(const struct tt_algo_args *a)
{
    bool rooted = a->problem.coll == TUTTI_GATHER || a->problem.coll == TUTTI_SCATTER;
    return rooted ? 2 : 4 * (uint64_t)a->problem.ranks;
}

const struct tt_algo tt_algo_direct = {
    .name = "direct",
    .desc = "every owner sums its chunk in rank order, two steps of p-1 messages: reproducible",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER) |
             TT_COLLS(ALL_TO_ALL) | TT_COLLS(GATHER) | TT_COLLS(SCATTER),
    .rank_order = true,
    .probe = direct_probe,
    .shape = direct_shape,
    .slice = direct_slice,
    .estimate_ops = direct_ops,
};
