/* oneshot.c - one step: every rank sends everything to every other. For vectors so short that only
 * the number of steps matters.
 *
 *     p = 4 allreduce   0 -> 1,2,3   1 -> 2,3,0   2 -> 3,0,1   3 -> 0,1,2   each the whole vector;
 *                       then every rank adds x0 + x1 + x2 + x3 in this order
 *     reduce to 2       0,1,3 -> 2, which adds in the same order;      broadcast from 2: 2 -> 3,0,1
 *
 * Cost: one step, p-1 messages and p-1 whole vectors sent per rank (rooted collectives: by or to
 * the root), p-1 vectors reduced; a rank waits for all others. Every rank adds the same numbers in
 * the same order: equal bits everywhere, and equal to those of direct. All-gather, gather and
 * scatter have a chunk per rank; the others one chunk, the barrier one without elements. */
#include "algo/algos.h"
#include "algo/flat.h"
#include "algo/phases.h"

static bool has_chunk_per_rank(tutti_coll c)
{
    return c == TUTTI_ALL_GATHER || c == TUTTI_GATHER || c == TUTTI_SCATTER;
}

static tutti_status oneshot_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    return tt_sched_coll_reduces(a->problem.coll)
               ? tt_algo_refuse_bufs(TT_BUF_SCRATCH + (uint64_t)a->problem.ranks, why)
               : TUTTI_OK;
}

static tutti_status oneshot_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                  struct tutti_error *err)
{
    (void)err;
    s->chunks = has_chunk_per_rank(s->coll) ? a->problem.ranks : 1;
    s->nbufs = tt_sched_coll_reduces(s->coll) ? TT_BUF_SCRATCH + a->problem.ranks : TT_BUF_SCRATCH;
    s->symmetric = s->coll == TUTTI_ALL_GATHER;
    return TUTTI_OK;
}

static void send_vector(struct tt_builder *b, uint32_t peer)
{
    struct tt_span whole = tt_sched_span_range(TT_BUF_IN, 0, 1);
    tt_sched_emit_send(b, 0, peer, 0, &whole, 1);
}

static void oneshot_allreduce(struct tt_builder *b)
{
    for (uint32_t d = 1; d < b->shape.ranks; d++)
        send_vector(b, tt_algo_flat_peer(b, d));
    tt_algo_flat_sum(b, 0, 0);
}

static void oneshot_reduce(struct tt_builder *b)
{
    if (b->rank == b->shape.root)
        tt_algo_flat_sum(b, 0, 0);
    else
        send_vector(b, b->shape.root);
}

static void oneshot_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    (void)rank;
    if (a->problem.ranks == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    switch (a->problem.coll) {
    case TUTTI_ALL_GATHER:
        tt_algo_flat_all_gather(b, 0, TT_BUF_IN);
        break;
    case TUTTI_BROADCAST:
        tt_algo_flat_broadcast(b, 0);
        break;
    case TUTTI_REDUCE:
        oneshot_reduce(b);
        break;
    case TUTTI_GATHER:
        tt_algo_flat_gather(b, 0);
        break;
    case TUTTI_SCATTER:
        tt_algo_flat_scatter(b, 0);
        break;
    default:
        oneshot_allreduce(b);
    }
}

static uint64_t oneshot_ops(const struct tt_algo_args *a)
{
    tutti_coll c = a->problem.coll;
    bool to_all = c == TUTTI_ALLREDUCE || c == TUTTI_ALL_GATHER || c == TUTTI_BARRIER;
    return to_all ? 2 * (uint64_t)a->problem.ranks : 2;
}

const struct tt_algo tt_algo_oneshot = {
    .name = "oneshot",
    .desc = "one step: every rank sends its whole vector to all and sums in rank order: for tiny "
            "vectors, reproducible",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(ALL_GATHER) | TT_COLLS(BROADCAST) | TT_COLLS(REDUCE) |
             TT_COLLS(GATHER) | TT_COLLS(SCATTER) | TT_COLLS(BARRIER),
    .rank_order = true,
    .probe = oneshot_probe,
    .shape = oneshot_shape,
    .slice = oneshot_slice,
    .estimate_ops = oneshot_ops,
};
