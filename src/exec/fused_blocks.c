/* fused_blocks.c - reduce-scatter and all-gather on one host, lowered: one pass each, in which every rank only reads what is others'.
 *
 *     reduce-scatter, 3 ranks, rank 1     out[1] = in[0][1] + in[1][1] + in[2][1]     block 1 of everybody's vector, in rank order
 *     all-gather                          out[0] = in[0], out[2] = in[2]              everybody's block, from where it lies
 *
 * A peer's buffer in the heap is an ordinary pointer; other memory is read through the kernel, or goes through windows
 * (fused_blocks_stream.c). Short payloads go through the boxes: the
 * whole vector of a reduce-scatter, or one block of an all-gather (as long as the longest on every rank; what is behind a shorter one is
 * never looked at). Blocks may have any length and need not begin at a line: nobody writes another rank's memory.
 *
 * Invariant: between "entered" and "left" of all ranks nobody changes its input (the caller's promise), and in place a rank writes only
 * where no other rank reads: its own block in a reduce-scatter, the others' blocks in an all-gather. Cost per rank of p for blocks of S/p
 * bytes: reduce-scatter reads S, writes S/p; all-gather reads and writes S(p-1)/p. */
#include <string.h>

#include "exec/fused_parts.h"

size_t tt_fused_block(const struct tt_fused_op *op, uint32_t r)
{
    return op->counts ? op->counts[r] : op->count;
}

size_t tt_fused_start(const struct tt_fused_op *op, uint32_t r)
{
    size_t at = op->counts ? 0 : op->count * r;
    for (uint32_t q = 0; op->counts && q < r; q++)
        at += op->counts[q];
    return at;
}

static size_t longest(const struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t most = 0;
    for (uint32_t r = 0; r < f->n; r++)
        most = tt_fused_block(op, r) > most ? tt_fused_block(op, r) : most;
    return most;
}

char *tt_fused_own(const struct tt_fused *f, const struct tt_fused_op *op)
{
    const char *part = op->coll == TUTTI_REDUCE_SCATTER ? op->out : op->in;
    return (char *)(uintptr_t)part + (op->in == op->out ? tt_fused_start(op, f->me) * tt_fused_elem_bytes(op->dtype) : 0);
}

/* ---- buffers ---- */

void tt_fused_elems(const struct tt_fused *f, const struct tt_fused_op *op, size_t *ret_in, size_t *ret_out)
{
    size_t whole = op->coll == TUTTI_ALLREDUCE ? op->count : tt_fused_start(op, f->n), part = tt_fused_block(op, f->me);
    *ret_in = op->coll == TUTTI_ALL_GATHER ? part : whole;
    *ret_out = op->coll == TUTTI_REDUCE_SCATTER ? part : whole;
}

bool tt_fused_fits(const struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t in, out, each = tt_fused_elem_bytes(op->dtype);
    uintptr_t a = (uintptr_t)op->in, b = (uintptr_t)op->out;
    tt_fused_elems(f, op, &in, &out);
    if (a == b || !in || !out || a >= b + out * each || b >= a + in * each)
        return true;
    if (op->coll == TUTTI_ALLREDUCE)
        return false;
    return (uintptr_t)tt_fused_own(f, op) == (op->coll == TUTTI_REDUCE_SCATTER ? a : b) + tt_fused_start(op, f->me) * each;
}

/* ---- short ones ---- */

/* The bytes that every rank puts in its box; 0: too many. The same on all ranks. */
static size_t box_bytes(const struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t most = tt_direct_box_max(f->d), elems = op->coll == TUTTI_REDUCE_SCATTER ? tt_fused_start(op, f->n) : longest(f, op);
    most = most < TT_FUSED_READ_BYTES ? most : TT_FUSED_READ_BYTES;
    return elems * tt_fused_elem_bytes(op->dtype) <= most ? elems * tt_fused_elem_bytes(op->dtype) : 0;
}

void tt_fused_blocks_boxed(struct tt_fused *f, const struct tt_fused_op *op, const void *const *all)
{
    size_t each = tt_fused_elem_bytes(op->dtype), at = tt_fused_start(op, f->me) * each;
    if (op->coll == TUTTI_REDUCE_SCATTER) {
        for (uint32_t q = 0; q < f->n; q++)
            f->src[q] = (const char *)all[q] + at;
        f->dst[0] = tt_fused_own(f, op);
        if (tt_fused_block(op, f->me))
            tt_fused_reduce(f, op, 1, tt_fused_block(op, f->me));
        return;
    }
    char *to = op->out;
    for (uint32_t q = 0; q < f->n; q++) {
        if (tt_fused_block(op, q))
            memcpy(to, all[q], tt_fused_block(op, q) * each);
        to += tt_fused_block(op, q) * each;
    }
}

bool tt_fused_blocks_enter(struct tt_fused *f, struct tt_fused_op *op)
{
    size_t each = tt_fused_elem_bytes(op->dtype), boxed = box_bytes(f, op), mine = tt_fused_block(op, f->me) * each;
    bool gather = op->coll == TUTTI_ALL_GATHER;
    if (!boxed) {
        struct tt_direct_desc desc = {.in = (uintptr_t)(gather ? tt_fused_own(f, op) : op->in),
                                      .in_bytes = gather ? mine : tt_fused_start(op, f->n) * each};
        tt_fused_enter(f, op, &desc);
        return false;
    }
    const void *from = gather ? tt_fused_own(f, op) : op->in;
    if (gather && mine < boxed) { /* the box is longer than what may be read */
        memset(f->block + mine, 0, boxed - mine);
        from = mine ? memcpy(f->block, from, mine) : f->block;
    }
    tt_direct_put(f->d, from, boxed, op->fingerprint);
    return true;
}

/* ---- long ones ---- */

/* Everybody's block, each rank beginning behind itself so that they do not all read from one. */
static tutti_status fetch_blocks(struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t each = tt_fused_elem_bytes(op->dtype);
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t q = (f->me + i) % f->n;
        size_t bytes = tt_fused_block(op, q) * each;
        char *to = (char *)op->out + tt_fused_start(op, q) * each;
        const char *from = q == f->me ? tt_fused_own(f, op) : f->in[q];
        if (!bytes || from == to)
            continue;
        if (from) {
            memcpy(to, from, bytes);
            continue;
        }
        tutti_status st = tt_direct_read(f->d, q, tt_direct_described(f->d, TT_LANE_STEPS, op->number & 1, q)->in, to, bytes);
        if (st)
            return st;
    }
    return tt_direct_aborted(f->d) ? TUTTI_ERR_ABORTED : TUTTI_OK;
}

tutti_status tt_fused_blocks(struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t each = tt_fused_elem_bytes(op->dtype);
    if (op->coll == TUTTI_ALL_GATHER)
        return fetch_blocks(f, op);
    struct tt_fused_span s = {
        .at = tt_fused_start(op, f->me) * each, .end = tt_fused_start(op, f->me + 1) * each, .out = tt_fused_own(f, op)};
    return tt_fused_reduce_span(f, op, &s);
}
