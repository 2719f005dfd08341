/* layout.c - where each chunk lies in the caller's buffers.
 *
 * The vector is cut in one of three ways: the schedule's own (tt_bind); exact blocks, rank r having
 * block r of block_counts[r] elements, which the chunks that rank r owns divide among themselves by
 * weight; or, for all-to-all, blocks of any length at any place (struct tt_blocks). With exact
 * blocks chunk source*p + destination of an all-to-all has block_counts[destination] elements.
 *
 *     reduce-scatter, 3 ranks, counts 4 1 2, two chunks per rank
 *         whole vector   |0 0 1 1|3|4 5|     chunk 2 is empty, chunk 3 has rank 1's one element
 *         part of rank 2 |4 5|               one run: whole 5, packed 0
 *
 * Blocks of any length: only the own row and column have lengths, and the caller says the places.
 *
 * A buffer that is a part holds the rank's own chunks one after the other. Chunks that touch in the
 * whole vector form a run. A start gives addresses to runs (engine.c), because a caller may also
 * pass the whole vector in place of the part.
 *
 * Invariant: places are elements and never overlap. Without struct tt_blocks they depend on shape,
 * count and block_counts only, so all ranks agree about lengths. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "exec/exec_int.h"

/* Exact blocks must fit the collective and fill the vector. */
static tutti_status check_blocks(const struct tt_program_config *c, struct tutti_error *err)
{
    const struct tt_shape *s = &c->sched->shape;
    uint64_t sum = 0;
    if (!tt_sched_coll_has_owners(s->coll) && s->coll != TUTTI_ALL_TO_ALL)
        return tt_fail(err, TUTTI_ERR_ARG, "%s has no blocks to count",
                       tt_sched_coll_name(s->coll));
    for (uint32_t r = 0; r < s->ranks; r++)
        if (__builtin_add_overflow(sum, c->block_counts[r], &sum))
            return tt_fail(err, TUTTI_ERR_LIMIT,
                           "the blocks have more elements than 64 bits can count");
    if (sum != c->count)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "the blocks have %" PRIu64 " elements, the vector has %" PRIu64, sum,
                       c->count);
    return TUTTI_OK;
}

/* The schedule's own layout: chunk order is vector order. */
static void cut_by_bind(const struct tt_bind *b, struct tt_xlayout *l, uint64_t *whole)
{
    for (uint32_t c = 0; c < l->chunks; c++)
        whole[c] = l->sum[c] = tt_sched_bind_offset(b, c);
    l->sum[l->chunks] = b->count;
}

/* Row by row; the sum only gives lengths here, places follow in place_all_to_all. */
static void cut_all_to_all(const struct tt_program_config *c, struct tt_xlayout *l)
{
    uint32_t p = c->sched->shape.ranks;
    l->sum[0] = 0;
    for (uint32_t i = 0; i < l->chunks; i++)
        l->sum[i + 1] = l->sum[i] + c->block_counts[i % p];
}

/* ---- blocks of any length ---- */

/* Chunk source*p + destination: a block that this rank neither sends nor receives has no length
 * here. */
static void cut_row_and_column(const struct tt_program_config *c, struct tt_xlayout *l)
{
    uint32_t p = c->sched->shape.ranks, me = c->rank;
    l->sum[0] = 0;
    for (uint32_t i = 0; i < l->chunks; i++) {
        uint64_t elems = i / p == me   ? c->blocks->send_counts[i % p]
                         : i % p == me ? c->blocks->recv_counts[i / p]
                                       : 0;
        l->sum[i + 1] = l->sum[i] + elems;
    }
}

struct block {
    uint64_t at, elems;
};

static int by_place(const void *x, const void *y)
{
    const struct block *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Finds the end of the last block; *total grows by all lengths. Refuses sums that overflow. */
static tutti_status measure(const size_t *counts, const size_t *at, uint32_t n, uint64_t *ret_end,
                            uint64_t *total, struct tutti_error *err)
{
    uint64_t end = 0, here;
    for (uint32_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(at[i], counts[i], &here) ||
            __builtin_add_overflow(*total, counts[i], total))
            return tt_fail(err, TUTTI_ERR_RANGE,
                           "block %" PRIu32 " of %zu elements at %zu: more than 64 bits can count",
                           i, counts[i], at[i]);
        end = counts[i] && here > end ? here : end;
    }
    *ret_end = end;
    return TUTTI_OK;
}

/* No two blocks may be received in the same place: sorted by place, neighbours must not overlap.
 * Blocks that are sent may. */
static tutti_status check_apart(const struct tt_blocks *b, uint32_t n, struct tutti_error *err)
{
    struct block *blocks = tt_alloc(n, sizeof *blocks);
    tutti_status st = blocks ? TUTTI_OK : tt_fail_memory(err, "blocks");
    uint32_t used = 0;
    for (uint32_t i = 0; !st && i < n; i++)
        if (b->recv_counts[i])
            blocks[used++] = (struct block){b->recv_at[i], b->recv_counts[i]};
    if (!st)
        qsort(blocks, used, sizeof *blocks, by_place);
    for (uint32_t i = 1; !st && i < used; i++)
        if (blocks[i].at - blocks[i - 1].at < blocks[i - 1].elems)
            st = tt_fail(err, TUTTI_ERR_ARG, "two blocks are received at element %" PRIu64,
                         blocks[i].at);
    free(blocks);
    return st;
}

/* Checks blocks of any length and sets the lengths of IN and OUT. */
static tutti_status check_any(const struct tt_program_config *c, struct tt_xlayout *l,
                              struct tutti_error *err)
{
    const struct tt_blocks *b = c->blocks;
    uint32_t p = c->sched->shape.ranks, me = c->rank;
    uint64_t total = 0;
    if (c->sched->shape.coll != TUTTI_ALL_TO_ALL)
        return tt_fail(err, TUTTI_ERR_ARG, "%s has no blocks to and from every rank",
                       tt_sched_coll_name(c->sched->shape.coll));
    if (b->send_counts[me] != b->recv_counts[me])
        return tt_fail(err, TUTTI_ERR_ARG,
                       "rank %" PRIu32 " sends %zu elements to itself and expects %zu", me,
                       b->send_counts[me], b->recv_counts[me]);
    tutti_status st = measure(b->send_counts, b->send_at, p, &l->in_elems, &total, err);
    if (!st)
        st = measure(b->recv_counts, b->recv_at, p, &l->out_elems, &total, err);
    return st ? st : check_apart(b, p, err);
}

/* Places of the own row in IN and of the own column in OUT, as the caller says. */
static void place_any(const struct tt_program_config *c, struct tt_xlayout *l)
{
    uint32_t p = c->sched->shape.ranks, me = c->rank;
    for (uint32_t i = 0; i < p; i++) {
        l->in[me * p + i] = c->blocks->send_at[i];
        l->out[i * p + me] = c->blocks->recv_at[i];
    }
}

static uint64_t weight_of(const struct tt_shape *s, uint32_t chunk)
{
    return s->weights ? s->weights[chunk] : 1;
}

/* elems * before / all, without overflow. */
static uint64_t layout_share(uint64_t elems, uint64_t before, uint64_t all)
{
    return (uint64_t)((unsigned __int128)elems * before / all);
}

/* Exact blocks. begin[r] is where block r begins, all[r] the weight of its chunks, before[r] the
 * weight of those already placed. */
static tutti_status cut_blocks(const struct tt_program_config *c, struct tt_xlayout *l,
                               uint64_t *whole, struct tutti_error *err)
{
    const struct tt_shape *s = &c->sched->shape;
    uint64_t *begin = tt_zalloc(3 * (size_t)s->ranks, sizeof *begin), *all = begin + s->ranks,
             *before = all + s->ranks;
    tutti_status st = TUTTI_OK;
    if (!begin)
        return tt_fail_memory(err, "blocks");
    for (uint32_t k = 0; k < l->chunks; k++)
        all[tt_sched_shape_owner(s, k)] += weight_of(s, k);
    for (uint32_t r = 0; r < s->ranks; r++) {
        if (r)
            begin[r] = begin[r - 1] + c->block_counts[r - 1];
        if (!all[r] && c->block_counts[r]) {
            st = tt_fail(err, TUTTI_ERR_MISMATCH,
                         "the schedule gives rank %" PRIu32 " no chunk for its block", r);
            goto out;
        }
    }
    l->sum[0] = 0;
    /* Invariant: block r is placed up to before[r] of its weight all[r]. */
    for (uint32_t k = 0; k < l->chunks; k++) {
        uint32_t r = tt_sched_shape_owner(s, k);
        uint64_t at = all[r] ? layout_share(c->block_counts[r], before[r], all[r]) : 0;
        before[r] += weight_of(s, k);
        uint64_t end = all[r] ? layout_share(c->block_counts[r], before[r], all[r]) : 0;
        assert(before[r] <= all[r] && at <= end && end <= c->block_counts[r]);
        whole[k] = begin[r] + at;
        l->sum[k + 1] = l->sum[k] + (end - at);
    }
out:
    free(begin);
    return st;
}

/* Lengths of all chunks (sum) and their places in the whole vector (whole). All-to-all does not use
 * `whole`. */
static tutti_status cut(const struct tt_program_config *c, struct tt_xlayout *l, uint64_t *whole,
                        struct tutti_error *err)
{
    struct tt_bind bind;
    if (c->blocks) {
        tutti_status bad = check_any(c, l, err);
        if (!bad)
            cut_row_and_column(c, l);
        return bad;
    }
    tutti_status st = tt_sched_bind_make(&c->sched->shape, c->count, c->dtype, &bind, err);
    if (st)
        return st;
    if (!c->block_counts)
        cut_by_bind(&bind, l, whole);
    else if (!(st = check_blocks(c, err)) && c->sched->shape.coll == TUTTI_ALL_TO_ALL)
        cut_all_to_all(c, l);
    else if (!st)
        st = cut_blocks(c, l, whole, err);
    tt_sched_bind_free(&bind);
    return st;
}

/* IN of rank s is its row, by destination; OUT of rank d is its column, by source. Even: both sides
 * have every block at the same place, so that the exchange can be done in place. */
static void place_all_to_all(const struct tt_program_config *c, struct tt_xlayout *l)
{
    uint32_t p = c->sched->shape.ranks, me = c->rank;
    assert(l->chunks == p * p);
    uint64_t in = 0, out = 0;
    l->even = true;
    for (uint32_t i = 0; i < p; i++) {
        l->in[me * p + i] = in;
        l->out[i * p + me] = out;
        l->even = l->even && in == out;
        in += tt_xlayout_elems(l, me * p + i);
        out += tt_xlayout_elems(l, i * p + me);
    }
    l->in_elems = in;
    l->out_elems = out;
    l->even = l->even && in == out;
}

/* Places the own chunks one after the other, and collects the runs. Invariant: `end` is where the
 * current run ends in the whole vector, `packed` where it ends in the part. */
static tutti_status place_part(const struct tt_program_config *c, struct tt_xlayout *l,
                               const uint64_t *whole, uint64_t *part, struct tutti_error *err)
{
    struct tt_xrun run = {0};
    uint64_t packed = 0, end = TT_XNOWHERE;
    for (uint32_t k = 0; k < l->chunks; k++) {
        if (tt_sched_shape_owner(&c->sched->shape, k) != c->rank)
            continue;
        if (whole[k] != end) {
            run = (struct tt_xrun){.whole = whole[k], .packed = packed};
            if (l->runs.len + TT_XBASE_RUNS >= TT_XBASE_MAX)
                return tt_fail(err, TUTTI_ERR_LIMIT, "a rank's part is in more than %d pieces",
                               TT_XBASE_MAX - TT_XBASE_RUNS - 1);
            if (!tt_vec_push(&l->runs, &run, 1))
                return tt_fail_memory(err, "own part");
        }
        l->run[k] = (uint32_t)l->runs.len - 1;
        assert(l->runs.len > 0 && whole[k] >= run.whole);
        part[k] = whole[k] - run.whole;
        packed += tt_xlayout_elems(l, k);
        end = whole[k] + tt_xlayout_elems(l, k);
    }
    *(l->part_in ? &l->in_elems : &l->out_elems) = packed;
    return TUTTI_OK;
}

/* Places in buffers that hold the whole vector. A buffer that this rank does not use has
 * length 0. */
static void place_whole(const struct tt_program_config *c, struct tt_xlayout *l,
                        const uint64_t *whole)
{
    const struct tt_shape *s = &c->sched->shape;
    for (uint32_t k = 0; k < l->chunks; k++) {
        if (!l->part_in && tt_sched_shape_has_input(s, c->rank, k)) {
            l->in[k] = whole[k];
            l->in_elems = l->sum[l->chunks];
        }
        if (!l->part_out && tt_sched_shape_has_output(s, c->rank, k)) {
            l->out[k] = whole[k];
            l->out_elems = l->sum[l->chunks];
        }
    }
}

/* Which buffers are parts follows from the collective. */
static tutti_status layout_place(const struct tt_program_config *c, struct tt_xlayout *l,
                                 const uint64_t *whole, struct tutti_error *err)
{
    tutti_coll coll = c->sched->shape.coll;
    l->part_in = coll == TUTTI_ALL_GATHER || coll == TUTTI_GATHER;
    l->part_out = coll == TUTTI_REDUCE_SCATTER || coll == TUTTI_SCATTER;
    for (uint32_t k = 0; k < l->chunks; k++)
        l->in[k] = l->out[k] = TT_XNOWHERE;
    if (c->blocks) {
        place_any(c, l);
        return TUTTI_OK;
    }
    if (coll == TUTTI_ALL_TO_ALL) {
        place_all_to_all(c, l);
        return TUTTI_OK;
    }
    place_whole(c, l, whole);
    return tt_sched_coll_has_owners(coll)
               ? place_part(c, l, whole, l->part_in ? l->in : l->out, err)
               : TUTTI_OK;
}

tutti_status tt_exec_layout_make(const struct tt_program_config *c, struct tt_xlayout *ret,
                                 struct tutti_error *err)
{
    uint32_t n = c->sched->shape.chunks;
    struct tt_xlayout l = {.chunks = n, .runs = {.elem = sizeof(struct tt_xrun)}};
    uint64_t *whole = tt_alloc(n, sizeof *whole);
    tutti_status st = TUTTI_OK;
    l.sum = tt_alloc((size_t)n + 1, sizeof *l.sum);
    l.in = tt_alloc(n, sizeof *l.in);
    l.out = tt_alloc(n, sizeof *l.out);
    l.run = tt_alloc(n, sizeof *l.run);
    if (!whole || !l.sum || !l.in || !l.out || !l.run)
        st = tt_fail_memory(err, "layout");
    if (!st)
        st = cut(c, &l, whole, err);
    if (!st)
        st = layout_place(c, &l, whole, err);
    free(whole);
    if (!st)
        *ret = l;
    else
        tt_exec_layout_free(&l);
    return st;
}

void tt_exec_layout_free(struct tt_xlayout *l)
{
    free(l->sum);
    free(l->in);
    free(l->out);
    free(l->run);
    tt_vec_free(&l->runs);
    *l = (struct tt_xlayout){0};
}
