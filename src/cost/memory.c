/* memory.c - schedules inside one memory (struct tt_memory of topo.h), priced by what was
 * measured there.
 *
 * The loads are those of the network of ranks around the memory; only the times of a byte and of
 * a step differ:
 *
 *     F(S) = T(S) - T(least point)      time for moving 2(n-1)/n S per rank,
 *                                       T is the measured all-reduce in two steps
 *     time = steps * T(least) / 2 + F(S) * (largest load of the steps, summed) / (2(n-1)/n S)
 *
 * Reductions are part of T as far as T's all-reduce has them ((n-1)/n S at each rank), since
 * they read their operands in place; what a schedule reduces beyond that costs gamma. The work
 * of messages is part of T too. Segments change nothing here: T was measured with the segments
 * that are chosen.
 *
 * An exchange (sched/exchange.c) that fits is a box. Boxes were measured by an all-reduce of S,
 * in which a rank writes S and reads n S; another collective takes the time of the all-reduce
 * that touches as many bytes:
 *
 *     collective       writes  reads    as an all-reduce of
 *     all-reduce       S       n S      S
 *     reduce-scatter   S       S        2 S / (n+1)
 *     all-gather       S/n     S        S/n */
#include <assert.h>

#include "cost/cost.h"

#include "cost/load.h"

/* ps * num / den, rounded up; saturates at INT64_MAX, so that sums of a few still fit. */
static uint64_t memory_scale(uint64_t ps, uint64_t num, uint64_t den)
{
    assert(den > 0);
    unsigned __int128 v = ((unsigned __int128)ps * num + den - 1) / den;
    return v > (unsigned __int128)INT64_MAX ? (uint64_t)INT64_MAX : (uint64_t)v;
}

/* F(S) of this kind of memory; at least 1, since it is a divisor too. */
static uint64_t moving(const struct tt_memory *m, enum tt_topo_memory_time which, uint64_t bytes)
{
    uint64_t least = m->point[0].move_ps, t = tt_topo_memory_time(m, which, bytes);
    return t > least ? t - least : 1;
}

/* Bytes that a rank writes into a box. */
static uint64_t box_input(const struct tt_shape *s, const struct tt_bind *b)
{
    uint64_t all = b->count * b->elem_bytes;
    return s->coll == TUTTI_ALL_GATHER || s->coll == TUTTI_ALL_TO_ALL
               ? (all + s->ranks - 1) / s->ranks
               : all;
}

/* The size of the all-reduce that touches as many bytes (table above). */
static uint64_t box_as_allreduce(const struct tt_shape *s, const struct tt_bind *b)
{
    uint64_t put = box_input(s, b), n = s->ranks;
    return s->coll == TUTTI_REDUCE_SCATTER ? (2 * put + n) / (n + 1) : put;
}

bool tt_cost_is_box(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b)
{
    const struct tt_memory *m = &t->memory;
    return m->npoints && m->point[0].box_ps && box_input(&s->shape, b) <= m->box_bytes &&
           tt_sched_is_exchange(s);
}

void tt_cost_in_memory(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b,
                       struct tt_cost *c)
{
    const struct tt_memory *m = &t->memory;
    uint64_t n = t->ranks, bytes = b->count * b->elem_bytes;
    assert(m->npoints > 0 && n > 1);
    /* the reductions that T includes */
    uint64_t reduced = (uint64_t)((double)(n - 1) * (double)(bytes / n) * t->gamma * 1e12);
    c->reduce_ps = c->reduce_ps > reduced ? c->reduce_ps - reduced : 0;
    c->overhead_ps = 0;
    if (tt_cost_is_box(s, t, b)) {
        c->latency_ps = tt_topo_memory_time(m, TT_MEMORY_BOX, box_as_allreduce(&s->shape, b));
        c->transfer_ps = c->reduce_ps = 0;
    } else {
        uint64_t at_link = tt_cost_transfer_floor(2 * (n - 1) * (bytes / n + 1), t->links[0].bw[0]);
        c->latency_ps = m->point[0].move_ps / 2 * c->steps;
        c->transfer_ps = bytes ? memory_scale(c->transfer_ps, moving(m, TT_MEMORY_MOVE, bytes),
                                              at_link ? at_link : 1)
                               : 0;
    }
    c->time_ps = c->latency_ps + c->transfer_ps + c->reduce_ps;
}

uint32_t tt_cost_memory_segments(const struct tt_sched *s, const struct tt_topo *t,
                                 const struct tt_bind *b, uint64_t largest_elems)
{
    return tt_cost_is_box(s, t, b)
               ? 1
               : tt_cost_segments_of(s, &t->memory, largest_elems * b->elem_bytes);
}

/* In a row of exchanges, all that a rank shows in a round together is as long as two segments. */
uint32_t tt_cost_segments_of(const struct tt_sched *s, const struct tt_memory *m,
                             uint64_t largest_bytes)
{
    uint32_t places = m->box_bytes ? tt_sched_row(s) : 0;
    uint64_t each = places ? 2 * m->segment_bytes / places : m->segment_bytes,
             k = each ? (largest_bytes + each - 1) / each : 1;
    return k < 1 ? 1 : k < TT_MAX_SEGMENTS ? (uint32_t)k : TT_MAX_SEGMENTS;
}

uint64_t tt_cost_own_memory(const struct tt_cost *c, const struct tt_topo *t, uint64_t bytes)
{
    if (!t->memory.npoints || !c->transfer_ps)
        return c->time_ps;
    return c->latency_ps + c->reduce_ps +
           memory_scale(c->transfer_ps, moving(&t->memory, TT_MEMORY_OWN, bytes),
                        moving(&t->memory, TT_MEMORY_MOVE, bytes));
}
