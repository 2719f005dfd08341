/* flat.c - one-step collectives: every message goes from its source straight to its destination.
 *
 *     p = 4, all-gather: 0 -> 1,2,3   1 -> 2,3,0   2 -> 3,0,1   3 -> 0,1,2   (in this order, so
 *                        that no two ranks send to one target first)
 *     gather to 0:       1,2,3 -> 0                 scatter from 0: 0 -> 1,2,3
 *
 * Cost: one step; a rank has p-1 messages in flight (rooted ones: the root). A rank waits only for
 * the messages addressed to it. Sums are formed by one operation over all contributions in rank
 * order 0, 1, .., p-1: the same bits on every rank and transport. */
#include "algo/flat.h"

#include <stdlib.h>

uint32_t tt_algo_flat_peer(const struct tt_builder *b, uint32_t d)
{
    return (uint32_t)(((uint64_t)b->rank + d) % b->shape.ranks);
}

static void send_chunk(struct tt_builder *b, uint32_t step, uint32_t peer, uint32_t buf,
                       uint32_t chunk)
{
    struct tt_span s = tt_sched_span_range(buf, chunk, 1);
    tt_sched_emit_send(b, step, peer, 0, &s, 1);
}

static void recv_chunk(struct tt_builder *b, uint32_t step, uint32_t peer, uint32_t buf,
                       uint32_t chunk)
{
    struct tt_span s = tt_sched_span_range(buf, chunk, 1);
    tt_sched_emit_recv(b, step, peer, 0, &s, 1);
}

static void copy_chunk(struct tt_builder *b, uint32_t step, uint32_t src, uint32_t chunk)
{
    struct tt_span s = tt_sched_span_from(TT_BUF_OUT, src, chunk, 1);
    tt_sched_emit_copy(b, step, &s, 1);
}

/* Receives are listed in the order in which the messages arrive: rank-1 sends here first. */
void tt_algo_flat_all_gather(struct tt_builder *b, uint32_t step, uint32_t in)
{
    uint32_t p = b->shape.ranks;
    for (uint32_t d = 1; d < p; d++)
        send_chunk(b, step, tt_algo_flat_peer(b, d), in, b->rank);
    for (uint32_t d = 1; d < p; d++)
        recv_chunk(b, step, tt_algo_flat_peer(b, p - d), TT_BUF_OUT, tt_algo_flat_peer(b, p - d));
    if (in != TT_BUF_OUT)
        copy_chunk(b, step, in, b->rank);
}

/* The root copies its own chunk last: the sends of others do not wait for it. */
void tt_algo_flat_gather(struct tt_builder *b, uint32_t step)
{
    uint32_t p = b->shape.ranks;
    if (b->rank != b->shape.root) {
        send_chunk(b, step, b->shape.root, TT_BUF_IN, b->rank);
        return;
    }
    for (uint32_t d = 1; d < p; d++)
        recv_chunk(b, step, tt_algo_flat_peer(b, d), TT_BUF_OUT, tt_algo_flat_peer(b, d));
    copy_chunk(b, step, TT_BUF_IN, b->rank);
}

void tt_algo_flat_scatter(struct tt_builder *b, uint32_t step)
{
    uint32_t p = b->shape.ranks;
    if (b->rank != b->shape.root) {
        recv_chunk(b, step, b->shape.root, TT_BUF_OUT, b->rank);
        return;
    }
    for (uint32_t d = 1; d < p; d++)
        send_chunk(b, step, tt_algo_flat_peer(b, d), TT_BUF_IN, tt_algo_flat_peer(b, d));
    copy_chunk(b, step, TT_BUF_IN, b->rank);
}

void tt_algo_flat_broadcast(struct tt_builder *b, uint32_t step)
{
    uint32_t p = b->shape.ranks;
    struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, b->shape.chunks),
                   out = tt_sched_span_range(TT_BUF_OUT, 0, b->shape.chunks);
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, b->shape.chunks);
    if (b->rank != b->shape.root) {
        tt_sched_emit_recv(b, step, b->shape.root, 0, &out, 1);
        return;
    }
    for (uint32_t d = 1; d < p; d++)
        tt_sched_emit_send(b, step, tt_algo_flat_peer(b, d), 0, &in, 1);
    tt_sched_emit_copy(b, step, &own, 1);
}

/* Chunk me*p + d goes to rank d; chunk s*p + me comes from rank s. */
void tt_algo_flat_all_to_all(struct tt_builder *b, uint32_t step)
{
    uint32_t p = b->shape.ranks, me = b->rank;
    for (uint32_t d = 1; d < p; d++)
        send_chunk(b, step, tt_algo_flat_peer(b, d), TT_BUF_IN, me * p + tt_algo_flat_peer(b, d));
    for (uint32_t d = 1; d < p; d++)
        recv_chunk(b, step, tt_algo_flat_peer(b, p - d), TT_BUF_OUT,
                   tt_algo_flat_peer(b, p - d) * p + me);
    copy_chunk(b, step, TT_BUF_IN, me * p + me);
}

/* The operands are in rank order whatever the order of arrival: one n-ary operation adds them. */
void tt_algo_flat_sum(struct tt_builder *b, uint32_t step, uint32_t chunk)
{
    uint32_t p = b->shape.ranks;
    for (uint32_t d = 1; d < p; d++)
        recv_chunk(b, step, tt_algo_flat_peer(b, p - d),
                   TT_BUF_SCRATCH + tt_algo_flat_peer(b, p - d), chunk);
    struct tt_span *spans = tt_alloc((size_t)p + 1, sizeof *spans);
    if (!spans) {
        if (!b->status)
            b->status = tt_fail_memory(&b->err, "operands of a sum");
        return;
    }
    spans[0] = tt_sched_span_range(TT_BUF_OUT, chunk, 1);
    for (uint32_t j = 0; j < p; j++)
        spans[j + 1] =
            tt_sched_span_from(TT_BUF_OUT, j == b->rank ? TT_BUF_IN : TT_BUF_SCRATCH + j, chunk, 1);
    tt_sched_emit_reduce(b, step, spans, (size_t)p + 1);
    free(spans);
}
