/* flow_host.c - what a rank itself adds to the network's time: overhead per message, reductions,
 * ports.
 *
 * Overhead o: a host issues messages o apart, each o after it could be, and takes messages in at
 * least o apart. One message costs o, and m messages from (or to) one rank cost m*o, as in cost.
 * Reductions of a rank run one after the other (flow_sum.c).
 *
 * Ports (only if declared): a rank has at most that many messages in flight in each direction,
 * from their first byte to their arrival. A message waits for a port of its sender, keeps it,
 * and waits for a port of its receiver.
 *
 *     asking -> sender's queue -> granted -> receiver's queue -> going -> injected
 *
 * Both queues are first come, first served; of those that come at one moment, the earliest step
 * is first. A rank thus sends in the order of its program, as an interface does (packet level),
 * and rounds in which every rank sends to another one (all-to-all, direct) stay rounds, whatever
 * the order of events. If a later message could pass one that waits for its receiver, messages
 * of the next round but one would start and block that receiver's own round. Decisions are made
 * at the end of a moment, when every port that is free by then is known.
 *
 * No deadlock: ports of receivers are held by messages in flight only, and those arrive.
 * Invariant: a connection is in at most one queue, and once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine.h"

static void flow_host_begin(struct tt_sim_host *h, enum tt_sim_busy kind, uint64_t now)
{
    if (h->busy[kind]++ == 0)
        h->since[kind] = now;
}

static void end(struct tt_sim_host *h, enum tt_sim_busy kind, uint64_t now)
{
    if (--h->busy[kind] == 0)
        h->spent[kind] += now - h->since[kind];
}

void tt_sim_host_busy(struct tt_sim_engine *e, uint32_t rank, enum tt_sim_busy kind)
{
    flow_host_begin(&e->host[rank], kind, e->now);
    flow_host_begin(&e->host[rank], TT_BUSY_ANY, e->now);
}

void tt_sim_host_idle(struct tt_sim_engine *e, uint32_t rank, enum tt_sim_busy kind)
{
    end(&e->host[rank], kind, e->now);
    end(&e->host[rank], TT_BUSY_ANY, e->now);
}

/* 2^62 leaves room for sums of two such times. */
uint64_t tt_sim_engine_later(struct tt_sim_engine *e, uint64_t time_ps, double ps)
{
    if (ps < 0x1p62 && time_ps < UINT64_C(1) << 62)
        return time_ps + (uint64_t)ps;
    e->beyond = true;
    return time_ps;
}

static double flow_host_overhead(const struct tt_sim_engine *e, uint32_t rank)
{
    return ceil((double)e->in->t->overhead_ps * e->in->slow[rank]);
}

/* The message is issued one overhead after it is ready and after the previous one. */
uint64_t tt_sim_host_issue(struct tt_sim_engine *e, uint32_t rank)
{
    struct tt_sim_host *h = &e->host[rank];
    uint64_t from = h->issue_ps > e->now ? h->issue_ps : e->now;
    return h->issue_ps = tt_sim_engine_later(e, from, flow_host_overhead(e, rank));
}

/* A message is taken in as it arrives, unless the host is still busy with the one before. */
uint64_t tt_sim_host_take(struct tt_sim_engine *e, uint32_t rank)
{
    struct tt_sim_host *h = &e->host[rank];
    uint64_t at = h->take_ps > e->now ? h->take_ps : e->now;
    h->take_ps = tt_sim_engine_later(e, at, flow_host_overhead(e, rank));
    return at;
}

/* ---- ports ---- */

/* Connections waiting for one port: conn[first ..]; those before `first` are gone. */
struct tt_port_queue {
    struct tt_vec conn; /* uint32_t */
    size_t first;
};

tutti_status tt_sim_ports_open(struct tt_sim_engine *e, struct tutti_error *err)
{
    size_t ports = 2 * (size_t)e->in->t->ranks;
    e->asking.elem = e->granted.elem = sizeof(struct tt_sim_request);
    e->going.elem = e->freed.elem = sizeof(uint32_t);
    if (!e->in->t->ports)
        return TUTTI_OK;
    e->wait = tt_zalloc(ports, sizeof *e->wait);
    if (!e->wait)
        return tt_fail_memory(err, "simulation");
    for (size_t i = 0; i < ports; i++)
        e->wait[i].conn.elem = sizeof(uint32_t);
    return TUTTI_OK;
}

void tt_sim_ports_close(struct tt_sim_engine *e)
{
    for (size_t i = 0; e->wait && i < 2 * (size_t)e->in->t->ranks; i++)
        tt_vec_free(&e->wait[i].conn);
    free(e->wait);
    tt_vec_free(&e->asking);
    tt_vec_free(&e->granted);
    tt_vec_free(&e->going);
    tt_vec_free(&e->freed);
}

/* Adds the connection's next message to a list, with its step for sorting. */
static void note(struct tt_sim_engine *e, struct tt_vec *list, uint32_t conn)
{
    const struct tt_stream *s = &e->stream[conn];
    const struct tt_sim_request x = {s->next, s->segment, tt_sim_work_step(e->w, s->next), conn};
    e->failed = e->failed || !tt_vec_push(list, &x, 1);
}

/* Total order: step, operation, segment. It makes the simulation deterministic. */
static int by_step(const void *x, const void *y)
{
    const struct tt_sim_request *a = x, *b = y;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return a->segment < b->segment ? -1 : a->segment > b->segment;
}

bool tt_sim_port_ask(struct tt_sim_engine *e, uint32_t conn)
{
    if (!e->in->t->ports)
        return true;
    note(e, &e->asking, conn);
    return false;
}

void tt_sim_port_free(struct tt_sim_engine *e, uint32_t conn)
{
    const struct tt_work_conn *c = &e->w->conn[conn];
    const uint32_t ports[2] = {c->src, e->in->t->ranks + c->dst};
    if (!e->in->t->ports)
        return;
    e->host[c->src].out--;
    e->host[c->dst].in--;
    e->failed = e->failed || !tt_vec_push(&e->freed, ports, 2);
}

/* Appends those on the list to the queues of their sender's (receiver's) ports, the earliest
 * step first, and marks these ports for grant. */
static void join(struct tt_sim_engine *e, struct tt_vec *list, bool receivers)
{
    const struct tt_sim_request *x = list->data;
    if (list->len > 1)
        qsort(list->data, list->len, sizeof *x, by_step);
    for (size_t i = 0; i < list->len && !e->failed; i++) {
        uint32_t conn = e->w->op[x[i].op].conn;
        const struct tt_work_conn *c = &e->w->conn[conn];
        uint32_t port = receivers ? e->in->t->ranks + c->dst : c->src;
        e->failed =
            !tt_vec_push(&e->wait[port].conn, &conn, 1) || !tt_vec_push(&e->freed, &port, 1);
    }
    list->len = 0;
}

/* Removes and returns the first of the queue, or TT_WORK_NONE. The part already removed is cut
 * off once it is the larger one, so the cost per message is constant. */
static uint32_t take(struct tt_port_queue *q)
{
    uint32_t *conn = q->conn.data;
    if (q->first == q->conn.len)
        return TT_WORK_NONE;
    uint32_t first = conn[q->first++];
    if (2 * q->first >= q->conn.len) {
        q->conn.len -= q->first;
        memmove(conn, conn + q->first, q->conn.len * sizeof *conn);
        q->first = 0;
    }
    return first;
}

/* Gives free ports of one side to the first in their queues. `freed` may name a port several
 * times; the later times find nothing to do. */
static void grant(struct tt_sim_engine *e, bool receivers)
{
    uint32_t ranks = e->in->t->ranks, conn;
    for (size_t i = 0; i < e->freed.len && !e->failed; i++) {
        uint32_t port = ((const uint32_t *)e->freed.data)[i];
        if ((port >= ranks) != receivers)
            continue;
        uint32_t *held = receivers ? &e->host[port - ranks].in : &e->host[port].out;
        while (*held < e->in->t->ports && (conn = take(&e->wait[port])) != TT_WORK_NONE) {
            ++*held;
            if (receivers)
                e->failed = e->failed || !tt_vec_push(&e->going, &conn, 1);
            else
                note(e, &e->granted, conn);
        }
    }
}

void tt_sim_port_settle(struct tt_sim_engine *e)
{
    join(e, &e->asking, false);
    grant(e, false);
    join(e, &e->granted, true);
    grant(e, true);
    e->freed.len = 0;
    /* an empty message may let the next one of its connection ask */
    for (size_t i = 0; i < e->going.len && !e->failed; i++)
        tt_sim_engine_inject(e, ((const uint32_t *)e->going.data)[i]);
    e->going.len = 0;
}
