/* ni.c - the network interfaces of all ranks: which ready message takes which interface, and
 * when.
 *
 * A rank has `interfaces` of them. Each sends one message at a time; the lowest idle one takes
 * the message of the earliest step (then of the lowest number). With lockstep a rank works
 * through its schedule table (ni_table.c): only messages of the head step may go, the next step
 * becomes the head when all of them have left, and a step without a send is a no-op that lasts
 * as long as the step is *estimated* to take: the longest message of the step, its flits at the
 * pace of the slowest link of its route. Ranks thus stay in step without a barrier while the
 * estimate is right; nothing else depends on it. Interfaces that become idle at one time do so
 * in the order of their messages' numbers.
 *
 * The published interface waits one or two step times less what its queues absorb. Ours has no
 * such queue (the message leaves at the link's pace), so one step time is all of it. */
#include <assert.h>
#include <stdlib.h>

#include "sim/packet.h"

static uint32_t step_of(const struct tt_ni *ni, uint32_t number)
{
    const struct tt_work *w = ni->net->in->w;
    return w->msg[number / w->segments].step;
}

static uint32_t sender_of(const struct tt_ni *ni, uint32_t number)
{
    return ni->net->in->w->conn[tt_sim_net_conn(ni->net, number)].src;
}

/* Puts ready messages on idle interfaces. A message's jitter is paid before its first flit. */
static void dispatch(struct tt_ni *ni, uint32_t rank, uint64_t now)
{
    struct tt_ni_rank *r = &ni->rank[rank];
    const struct tt_work *w = ni->net->in->w;
    while (r->queue.len && r->idle.len) {
        struct tt_due due = r->queue.at[0];
        if (ni->lockstep && (r->waiting || due.time != r->head_step))
            return;
        tt_sim_agenda_pop(&r->queue);
        uint32_t k = (uint32_t)r->idle.at[0].time, number = (uint32_t)due.id;
        tt_sim_agenda_pop(&r->idle);
        assert(k < ni->net->set.interfaces);
        ni->held[number] = k;
        uint64_t latency = w->conn[tt_sim_net_conn(ni->net, number)].latency_ps;
        uint64_t jitter = tt_sim_latency(&ni->net->in->o->whatif, latency, number) - latency;
        tt_sim_net_send(ni->net, number, k, now + jitter * TT_TICKS);
    }
}

void tt_sim_ni_offer(struct tt_ni *ni, uint32_t number, uint64_t now)
{
    uint32_t rank = sender_of(ni, number);
    ni->nomem |= !tt_sim_agenda_push(&ni->rank[rank].queue, step_of(ni, number), number);
    dispatch(ni, rank, now);
}

/* Makes the next step of the table the head; returns when its no-op ends, or 0 if it has
 * messages. */
static uint64_t next_step(struct tt_ni *ni, uint32_t rank, uint64_t now)
{
    struct tt_ni_rank *r = &ni->rank[rank];
    if (r->entry == r->table.entries.len)
        return 0;
    const struct tt_ni_entry *e = tt_vec_at(&r->table.entries, r->entry);
    assert(e->step < ni->net->in->w->s->nsteps);
    r->head_step = e->step;
    r->unsent = 0;
    for (; r->entry < r->table.entries.len; r->entry++) {
        e = tt_vec_at(&r->table.entries, r->entry);
        if (e->step != r->head_step)
            break;
        r->unsent += e->messages * ni->net->in->w->segments;
    }
    r->waiting = r->unsent == 0;
    if (!r->waiting)
        return 0;
    ni->waits += ni->step_ticks[r->head_step];
    return now + ni->step_ticks[r->head_step];
}

uint64_t tt_sim_ni_advance(struct tt_ni *ni, uint32_t rank, uint64_t now)
{
    if (!ni->lockstep)
        return 0;
    ni->rank[rank].waiting = false;
    uint64_t until = next_step(ni, rank, now);
    if (!until)
        dispatch(ni, rank, now);
    return until;
}

uint64_t tt_sim_ni_left(struct tt_ni *ni, uint32_t number, uint64_t now)
{
    uint32_t rank = sender_of(ni, number);
    struct tt_ni_rank *r = &ni->rank[rank];
    ni->nomem |= !tt_sim_agenda_push(&r->idle, ni->held[number], 0);
    assert(!ni->lockstep || r->unsent > 0);
    if (ni->lockstep && --r->unsent == 0)
        return tt_sim_ni_advance(ni, rank, now);
    dispatch(ni, rank, now);
    return 0;
}

/* Estimates each step: its longest message, all segments, at the pace of its slowest link. */
static void estimate(struct tt_ni *ni)
{
    const struct tt_work *w = ni->net->in->w;
    for (uint32_t m = 0; m < w->nmsgs; m++) {
        const struct tt_work_conn *c = &w->conn[w->msg[m].conn];
        uint64_t slowest = 0, flits = 0;
        for (uint32_t h = 0; h < c->nlinks; h++) {
            uint64_t flit = ni->net->port[ni->net->link_port[w->path[c->path_at + h]]].flit;
            slowest = flit > slowest ? flit : slowest;
        }
        for (uint32_t k = 0; k < w->segments; k++)
            flits += tt_sim_net_flits(&ni->net->set, tt_sim_work_msg_bytes(w, m, k), NULL);
        uint64_t *ticks = &ni->step_ticks[w->msg[m].step];
        *ticks = flits * slowest > *ticks ? flits * slowest : *ticks;
    }
}

static tutti_status open_tables(struct tt_ni *ni, struct tutti_error *err)
{
    const struct tt_work *w = ni->net->in->w;
    struct tt_ni_facts facts = {0};
    ni->step_ticks = tt_zalloc((size_t)w->s->nsteps + 1, sizeof *ni->step_ticks);
    tutti_status st = ni->step_ticks ? tt_sim_ni_facts_make(w, &facts, err)
                                     : tt_fail_memory(err, "schedule tables");
    if (!st)
        estimate(ni);
    for (uint32_t r = 0; !st && r < w->t->ranks; r++)
        st = tt_sim_ni_table_make(w, r, &facts, &ni->rank[r].table, err);
    tt_sim_ni_facts_free(&facts);
    return st;
}

tutti_status tt_sim_ni_open(struct tt_ni *ni, struct tt_packet_net *net, bool lockstep,
                            struct tutti_error *err)
{
    const struct tt_work *w = net->in->w;
    *ni = (struct tt_ni){.net = net, .lockstep = lockstep};
    ni->rank = tt_zalloc(w->t->ranks, sizeof *ni->rank);
    ni->held = tt_zalloc((size_t)w->nmsgs * w->segments + 1, sizeof *ni->held);
    if (!ni->rank || !ni->held)
        return tt_fail_memory(err, "network interfaces");
    for (uint32_t r = 0; r < w->t->ranks; r++)
        for (uint32_t k = 0; k < tt_sim_net_ends(net, r); k++)
            if (!tt_sim_agenda_push(&ni->rank[r].idle, k, 0))
                return tt_fail_memory(err, "network interfaces");
    return lockstep ? open_tables(ni, err) : TUTTI_OK;
}

void tt_sim_ni_close(struct tt_ni *ni)
{
    for (uint32_t r = 0; ni->rank && r < ni->net->in->t->ranks; r++) {
        free(ni->rank[r].queue.at);
        free(ni->rank[r].idle.at);
        tt_sim_ni_table_free(&ni->rank[r].table);
    }
    free(ni->rank);
    free(ni->held);
    free(ni->step_ticks);
}
