/* flow_host.c - what a rank itself adds to the network's time: overhead per message, reductions, ports.
 *
 * Overhead o: a host issues messages o apart, each o after it could be, and takes messages in at least o apart. So one message costs o, m
 * messages from (or to) one rank m*o: the same as in cost. Reductions of a rank run one after the other. Ports (declared only): a rank has
 * at most that many messages in flight each way, from its first byte to its arrival. A message goes when both ends have a free port; those
 * that cannot go wait in both queues, and the first that can go does. Nothing is held while waiting, so there is no deadlock. Invariant: a
 * stream that waits has exactly one valid entry in each of its two queues. */
#include <math.h>
#include <stdlib.h>

#include "sim/engine.h"

static void begin(struct tt_host *h, enum tt_busy kind, uint64_t now)
{
    if (h->busy[kind]++ == 0)
        h->since[kind] = now;
}

static void end(struct tt_host *h, enum tt_busy kind, uint64_t now)
{
    if (--h->busy[kind] == 0)
        h->spent[kind] += now - h->since[kind];
}

void tt_host_busy(struct tt_engine *e, uint32_t rank, enum tt_busy kind)
{
    begin(&e->host[rank], kind, e->now);
    begin(&e->host[rank], TT_BUSY_ANY, e->now);
}

void tt_host_idle(struct tt_engine *e, uint32_t rank, enum tt_busy kind)
{
    end(&e->host[rank], kind, e->now);
    end(&e->host[rank], TT_BUSY_ANY, e->now);
}

uint64_t tt_engine_later(struct tt_engine *e, uint64_t time_ps, double ps)
{
    if (ps < 0x1p62 && time_ps < UINT64_C(1) << 62)
        return time_ps + (uint64_t)ps;
    e->beyond = true;
    return time_ps;
}

static double overhead(const struct tt_engine *e, uint32_t rank)
{
    return ceil((double)e->in->t->overhead_ps * e->in->slow[rank]);
}

uint64_t tt_host_issue(struct tt_engine *e, uint32_t rank)
{
    struct tt_host *h = &e->host[rank];
    uint64_t from = h->issue_ps > e->now ? h->issue_ps : e->now;
    return h->issue_ps = tt_engine_later(e, from, overhead(e, rank));
}

uint64_t tt_host_take(struct tt_engine *e, uint32_t rank)
{
    struct tt_host *h = &e->host[rank];
    uint64_t at = h->take_ps > e->now ? h->take_ps : e->now;
    h->take_ps = tt_engine_later(e, at, overhead(e, rank));
    return at;
}

uint64_t tt_host_reduce(struct tt_engine *e, uint32_t rank, uint64_t bytes)
{
    struct tt_host *h = &e->host[rank];
    double ps = e->gamma_ps * e->in->slow[rank] * (double)bytes;
    uint64_t from = h->sum_ps > e->now ? h->sum_ps : e->now;
    return h->sum_ps = tt_engine_later(e, from, ceil(ps - 1e-3 - ps * 1e-15));
}

/* ---- ports ---- */

static bool has_ports(const struct tt_engine *e, const struct tt_work_conn *c)
{
    return e->host[c->src].out < e->in->t->ports && e->host[c->dst].in < e->in->t->ports;
}

static void hold(struct tt_engine *e, const struct tt_work_conn *c)
{
    e->host[c->src].out++;
    e->host[c->dst].in++;
}

bool tt_port_take(struct tt_engine *e, uint32_t conn)
{
    const struct tt_work_conn *c = &e->w->conn[conn];
    struct tt_stream *s = &e->stream[conn];
    if (!e->in->t->ports)
        return true;
    if (has_ports(e, c)) {
        hold(e, c);
        return true;
    }
    const struct tt_waiter x = {conn, ++s->ticket};
    s->waiting = true;
    e->failed = e->failed || !tt_vec_push(&e->wait[c->src], &x, 1) || !tt_vec_push(&e->wait[(size_t)e->in->t->ranks + c->dst], &x, 1);
    return false;
}

void tt_port_free(struct tt_engine *e, uint32_t conn)
{
    const struct tt_work_conn *c = &e->w->conn[conn];
    const uint32_t ports[2] = {c->src, e->in->t->ranks + c->dst};
    if (!e->in->t->ports)
        return;
    e->host[c->src].out--;
    e->host[c->dst].in--;
    e->failed = e->failed || !tt_vec_push(&e->freed, ports, 2);
}

/* Goes through a queue in order: who can go gets its ports, entries that are void are dropped. */
static void settle_queue(struct tt_engine *e, struct tt_vec *queue)
{
    struct tt_waiter *x = queue->data;
    size_t kept = 0;
    for (size_t i = 0; i < queue->len; i++) {
        struct tt_stream *s = &e->stream[x[i].conn];
        const struct tt_work_conn *c = &e->w->conn[x[i].conn];
        if (!s->waiting || s->ticket != x[i].ticket)
            continue;
        if (!has_ports(e, c)) {
            x[kept++] = x[i];
            continue;
        }
        s->waiting = false;
        hold(e, c);
        e->failed = e->failed || !tt_vec_push(&e->going, &x[i].conn, 1);
    }
    queue->len = kept;
}

void tt_port_settle(struct tt_engine *e)
{
    for (size_t i = 0; i < e->freed.len && !e->failed; i++)
        settle_queue(e, &e->wait[((const uint32_t *)e->freed.data)[i]]);
    e->freed.len = 0;
    for (size_t i = 0; i < e->going.len && !e->failed; i++) /* an empty message may let the next one wait in these queues */
        tt_engine_inject(e, ((const uint32_t *)e->going.data)[i]);
    e->going.len = 0;
}
