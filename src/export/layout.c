/* layout.c - chunks as units of the buffers of other engines (layout.h). With weights 2, 4, 2 the
 * greatest common divisor is 2, and the chunks are 1, 2 and 1 units:
 *
 *     chunk     0 | 1   | 2          start[] = {0, 1, 3, 4}, units = 4
 *     unit      0 | 1 2 | 3 */
#include "export/layout.h"

#include <assert.h>
#include <stdlib.h>

/* Euclid; greatest_divisor(0, b) is b. */
static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Engines know four collectives, equal blocks only, and a broadcast from rank 0 only. */
static tutti_status refuse(const struct tt_shape *s, const char *format, struct tutti_error *err)
{
    switch (s->coll) {
    case TUTTI_ALLREDUCE:
        return TUTTI_OK;
    case TUTTI_BROADCAST:
        if (s->root == 0)
            return TUTTI_OK;
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "%s: has no root: ranks must be numbered so that the root is 0, not %u",
                       format, s->root);
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_ALL_GATHER:
        if (tt_sched_shape_equal_blocks(s))
            return TUTTI_OK;
        return tt_fail(
            err, TUTTI_ERR_REFUSED,
            "%s: the ranks' blocks are not equal and in rank order, as this format wants them",
            format);
    default:
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "%s: takes allreduce, reduce-scatter, all-gather and broadcast, not %s",
                       format, tt_sched_coll_name(s->coll));
    }
}

tutti_status tt_export_layout_open(const struct tt_shape *s, const char *format,
                                   struct tt_export_layout *ret, struct tutti_error *err)
{
    *ret = (struct tt_export_layout){.shape = s, .units = s->chunks};
    tutti_status st = refuse(s, format, err);
    if (st || !s->weights)
        return st;
    uint64_t shared = 0;
    for (uint32_t c = 0; c < s->chunks; c++)
        shared = greatest_divisor(shared, s->weights[c]);
    ret->start = tt_alloc((size_t)s->chunks + 1, sizeof *ret->start);
    if (!ret->start)
        return tt_fail_memory(err, "layout");
    ret->start[0] = 0;
    for (uint32_t c = 0; c < s->chunks; c++)
        ret->start[c + 1] = ret->start[c] + (shared ? s->weights[c] / shared : 0);
    ret->units = ret->start[s->chunks];
    return TUTTI_OK;
}

void tt_export_layout_close(struct tt_export_layout *l)
{
    free(l->start);
    *l = (struct tt_export_layout){0};
}

static uint64_t start_of(const struct tt_export_layout *l, uint32_t chunk)
{
    return l->start ? l->start[chunk] : chunk;
}

/* Does this buffer hold only the rank's own block, not the whole vector? */
static bool is_block(const struct tt_export_layout *l, uint32_t buf)
{
    return (l->shape->coll == TUTTI_REDUCE_SCATTER && buf == TT_BUF_OUT) ||
           (l->shape->coll == TUTTI_ALL_GATHER && buf == TT_BUF_IN);
}

/* The place of chunks [chunk, chunk + len) in the engine's buffers. A block buffer begins at the
 * rank's first unit. */
struct tt_export_place tt_export_place(const struct tt_export_layout *l, uint32_t rank,
                                       uint32_t buf, uint32_t chunk, uint32_t len)
{
    const uint64_t at = start_of(l, chunk), n = start_of(l, chunk + len) - at;
    if (buf >= TT_BUF_SCRATCH)
        return (struct tt_export_place){'s', (buf - TT_BUF_SCRATCH) * l->units + at, n};
    const uint64_t before = is_block(l, buf) ? l->units / l->shape->ranks * rank : 0;
    assert(at >= before);
    return (struct tt_export_place){buf == TT_BUF_IN ? 'i' : 'o', at - before, n};
}

uint64_t tt_export_input_units(const struct tt_export_layout *l)
{
    return is_block(l, TT_BUF_IN) ? l->units / l->shape->ranks : l->units;
}

uint64_t tt_export_output_units(const struct tt_export_layout *l)
{
    return is_block(l, TT_BUF_OUT) ? l->units / l->shape->ranks : l->units;
}

uint64_t tt_export_scratch_units(const struct tt_export_layout *l)
{
    return (l->shape->nbufs - TT_BUF_SCRATCH) * l->units;
}
