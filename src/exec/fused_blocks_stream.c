/* fused_blocks_stream.c - reduce-scatter and all-gather of ordinary memory through the windows of fused_stream.c, for the same reasons.
 *
 *     reduce-scatter   copy(k)   part k of every other rank's block into slot q of this round's set; "copied k+1"
 *                      take(k)   waits for all "copied k+1"; my part k from my input and everybody's slot for me; "reduced k+1"
 *     all-gather       copy(k)   part k of my block, which may fill the whole set; take(k)  everybody's part k
 *
 * Parts are as long as a slot (a set), blocks may have any length: who has no part k left still keeps step. The sets are those of all
 * streams, so the rule is that of all streams too: copy(k) comes after all "reduced k-1", and an operation ends when all have reduced its
 * last round. Nobody touches a peer's own buffers; a block of the output is written after its operands were copied or read. */
#include <string.h>

#include "exec/fused_parts.h"

/* Bytes of a part, and how many there are; the same on all ranks. */
static size_t part_bytes(const struct tt_fused *f, const struct tt_fused_op *op)
{
    return tt_fused_slot_bytes(f) * (op->coll == TUTTI_ALL_GATHER ? f->n : 1);
}

static uint64_t round_count(const struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t most = 0, each = tt_fused_elem_bytes(op->dtype), part = part_bytes(f, op);
    for (uint32_t r = 0; r < f->n; r++)
        most = tt_fused_block(op, r) > most ? tt_fused_block(op, r) : most;
    return (most * each + part - 1) / part;
}

/* Length of part k of rank q's block. */
static size_t part(const struct tt_fused *f, const struct tt_fused_op *op, uint32_t q, uint64_t k)
{
    size_t all = tt_fused_block(op, q) * tt_fused_elem_bytes(op->dtype), most = part_bytes(f, op), at = (size_t)k * most;
    return at >= all ? 0 : all - at < most ? all - at : most;
}

static void copy_part(struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    size_t each = tt_fused_elem_bytes(op->dtype), at = (size_t)k * part_bytes(f, op), bytes;
    if (op->coll == TUTTI_ALL_GATHER) {
        if ((bytes = part(f, op, f->me, k)))
            memcpy(tt_fused_slot(f, f->me, f->rounds + k, 0), tt_fused_own(f, op) + at, bytes);
    } else {
        for (uint32_t i = 1; i < f->n; i++) {
            uint32_t q = (f->me + i) % f->n;
            if ((bytes = part(f, op, q, k)))
                memcpy(tt_fused_slot(f, f->me, f->rounds + k, q), (const char *)op->in + tt_fused_start(op, q) * each + at, bytes);
        }
    }
    tt_direct_post(f->d, TT_LANE_COPIED, f->rounds + k + 1);
}

static void reduce_part(struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    size_t each = tt_fused_elem_bytes(op->dtype), at = (size_t)k * part_bytes(f, op), bytes = part(f, op, f->me, k);
    for (uint32_t q = 0; q < f->n; q++)
        f->src[q] = q == f->me ? (const char *)op->in + tt_fused_start(op, q) * each + at : tt_fused_slot(f, q, f->rounds + k, f->me);
    f->dst[0] = tt_fused_own(f, op) + at;
    if (bytes)
        tt_fused_reduce(f, op, 1, bytes / each);
}

static void fetch_parts(struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    size_t each = tt_fused_elem_bytes(op->dtype), at = (size_t)k * part_bytes(f, op);
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t q = (f->me + i) % f->n;
        size_t bytes = part(f, op, q, k);
        char *to = (char *)op->out + tt_fused_start(op, q) * each + at;
        const char *from = q == f->me ? tt_fused_own(f, op) + at : tt_fused_slot(f, q, f->rounds + k, 0);
        if (bytes && from != to)
            memcpy(to, from, bytes);
    }
}

tutti_status tt_fused_blocks_stream(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    uint64_t rounds = round_count(f, op);
    tutti_status st = TUTTI_OK;
    while (op->round < rounds) {
        while (op->copied < rounds && op->copied < op->round + 2) {
            if (op->copied >= 2)
                st = tt_direct_await_all(f->d, TT_LANE_REDUCED, f->rounds + op->copied - 1, deadline_ns, &blame->peer);
            if (st)
                return st;
            copy_part(f, op, op->copied++);
        }
        st = tt_direct_await_all(f->d, TT_LANE_COPIED, f->rounds + op->round + 1, deadline_ns, &blame->peer);
        if (st)
            return st;
        if (op->coll == TUTTI_ALL_GATHER)
            fetch_parts(f, op, op->round++);
        else
            reduce_part(f, op, op->round++);
        tt_direct_post(f->d, TT_LANE_REDUCED, f->rounds + op->round);
    }
    st = tt_direct_await_all(f->d, TT_LANE_REDUCED, f->rounds + rounds, deadline_ns, &blame->peer);
    if (!st)
        f->rounds += rounds;
    return st;
}
