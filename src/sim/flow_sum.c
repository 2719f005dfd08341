/* flow_sum.c - the reductions of a rank's host, one after the other, in the executor's order.
 *
 * The executor does at once what a finished operation made possible, and then takes the next piece
 * of the stream whose turn it is (exec/progress.c, transport/tcp.c): streams that have something
 * take turns, each in its own order. What waits therefore stands in lines, one per connection:
 *
 *     from rank 1   a0 a1 a2 a3 ...     turns: a0 a1 b0 a2 c0 b1 a3 c1 ...
 *     from rank 2      b0    b1 ...     a message from far away waits for one addition of every
 *     from rank 3         c0 c1 ...     other stream, not for all that came before it
 *
 * and one line per rank, which is always served first, for reductions that waited for an operation
 * of their own rank. Invariant: a line is in its host's turns exactly while something waits in
 * it and it is not the first line; a host with something to add is adding. */
#include <math.h>
#include <stdlib.h>

#include "sim/engine.h"

/* A reduction that waits for its host. Entries that are not used form a list of their own. */
struct entry {
    uint32_t op, segment, next;
};
/* What waits: pool entries. `next` is the line that has its turn after this one. */
struct tt_line {
    uint32_t first, last, next;
};

tutti_status tt_sim_sums_open(struct tt_sim_engine *e, struct tutti_error *err)
{
    size_t lines = (size_t)e->w->nconns + e->in->t->ranks;
    e->waiting.elem = sizeof(struct entry);
    e->free_hosts.elem = sizeof(uint32_t);
    e->spare = TT_WORK_NONE;
    if (e->gamma_ps <= 0)
        return TUTTI_OK;
    e->line = tt_alloc(lines, sizeof *e->line);
    if (!e->line)
        return tt_fail_memory(err, "simulation");
    for (size_t i = 0; i < lines; i++)
        e->line[i] = (struct tt_line){TT_WORK_NONE, TT_WORK_NONE, TT_WORK_NONE};
    for (uint32_t r = 0; r < e->in->t->ranks; r++)
        e->host[r].turn = e->host[r].last_turn = TT_WORK_NONE;
    return TUTTI_OK;
}

void tt_sim_sums_close(struct tt_sim_engine *e)
{
    free(e->line);
    tt_vec_free(&e->waiting);
    tt_vec_free(&e->free_hosts);
}

static uint32_t first_line(const struct tt_sim_engine *e, uint32_t rank)
{
    return e->w->nconns + rank;
}

/* The line gets its turn after all that wait now. */
static void queue_line(struct tt_sim_engine *e, struct tt_sim_host *h, uint32_t line)
{
    if (h->last_turn == TT_WORK_NONE)
        h->turn = line;
    else
        e->line[h->last_turn].next = line;
    h->last_turn = line;
    e->line[line].next = TT_WORK_NONE;
}

/* UINT32_MAX: out of memory. */
static uint32_t entry_make(struct tt_sim_engine *e, uint32_t op, uint32_t segment)
{
    uint32_t i = e->spare;
    if (i == TT_WORK_NONE) {
        i = (uint32_t)e->waiting.len;
        if (i == TT_WORK_NONE || !tt_vec_room(&e->waiting)) {
            e->failed = true;
            return TT_WORK_NONE;
        }
    } else {
        e->spare = ((const struct entry *)e->waiting.data)[i].next;
    }
    ((struct entry *)e->waiting.data)[i] = (struct entry){op, segment, TT_WORK_NONE};
    return i;
}

void tt_sim_host_add(struct tt_sim_engine *e, const struct tt_sim_request *x, uint32_t rank)
{
    const uint32_t line = x->conn == TT_WORK_NONE ? first_line(e, rank) : x->conn,
                   i = entry_make(e, x->op, x->segment);
    struct tt_line *l = &e->line[line];
    if (i == TT_WORK_NONE)
        return;
    if (l->first != TT_WORK_NONE)
        ((struct entry *)e->waiting.data)[l->last].next = i;
    else
        l->first = i;
    if (l->first == i && line != first_line(e, rank))
        queue_line(e, &e->host[rank], line);
    l->last = i;
    tt_sim_host_free(e, rank);
}

void tt_sim_host_free(struct tt_sim_engine *e, uint32_t rank)
{
    e->failed = e->failed || !tt_vec_push(&e->free_hosts, &rank, 1);
}

/* Takes the first of a line; the entry is spare again. */
static struct entry entry_take(struct tt_sim_engine *e, uint32_t line)
{
    const uint32_t i = e->line[line].first;
    struct entry *x = (struct entry *)e->waiting.data + i, taken = *x;
    e->line[line].first = x->next;
    x->next = e->spare;
    e->spare = i;
    return taken;
}

/* What the host adds next; false: nothing waits. */
static bool sum_next(struct tt_sim_engine *e, uint32_t rank, struct entry *ret)
{
    struct tt_sim_host *h = &e->host[rank];
    uint32_t line = first_line(e, rank);
    if (e->line[line].first != TT_WORK_NONE) {
        *ret = entry_take(e, line);
        return true;
    }
    line = h->turn;
    if (line == TT_WORK_NONE)
        return false;
    h->turn = e->line[line].next;
    h->last_turn = h->turn == TT_WORK_NONE ? TT_WORK_NONE : h->last_turn;
    *ret = entry_take(e, line);
    if (e->line[line].first != TT_WORK_NONE)
        queue_line(e, h, line);
    return true;
}

/* The correction removes what only the arithmetic added, as in end_of (fluid.c). */
static uint64_t sum_end(struct tt_sim_engine *e, uint32_t rank, uint64_t bytes)
{
    double ps = e->gamma_ps * e->in->slow[rank] * (double)bytes;
    return tt_sim_engine_later(e, e->now, ceil(ps - 1e-3 - ps * 1e-15));
}

void tt_sim_sums_settle(struct tt_sim_engine *e)
{
    struct entry x;
    for (size_t i = 0; i < e->free_hosts.len && !e->failed; i++) {
        uint32_t rank = ((const uint32_t *)e->free_hosts.data)[i];
        if (e->host[rank].adding || !sum_next(e, rank, &x))
            continue;
        uint64_t end = sum_end(e, rank, tt_sim_work_reduce_bytes(e->w, x.op, x.segment));
        e->host[rank].adding = true;
        tt_sim_host_busy(e, rank, TT_BUSY_REDUCE);
        tt_sim_timeline_work(e->r, e->w, (uint64_t)x.op * e->w->segments + x.segment, e->now, end);
        tt_sim_engine_added(e, end, x.op, x.segment);
    }
    e->free_hosts.len = 0;
}
