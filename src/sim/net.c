/* net.c - the network of flits as a machine: its lanes and ports, and the packets that stand in
 * lanes and ask for ports. net_port.c decides what a port does with those that ask; packet.h has
 * the rules.
 *
 *     rank 0                       rank 1                        rank 2
 *     interface -> [port 0>1] ~~> lane 0>1 -> [port 1>2] ~~> lane 1>2 -> [ejection port] -> memory
 *                     ^              |  one clock + latency        |
 *                     +-- credits ---+<---------- credits ---------+
 *
 * The simulation is driven by ports: a port is examined when something may leave by it or a
 * credit that it waits for is there; in between nothing is touched. Invariants: a lane asks for
 * exactly one port while it holds a packet; credits under way + credits at the sender + flits
 * promised into a lane and not out of it = the lane's buffer. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "sim/packet.h"

uint32_t tt_sim_net_conn(const struct tt_packet_net *n, uint32_t msg)
{
    assert(msg / n->in->w->segments < n->in->w->nmsgs);
    return n->in->w->msg[msg / n->in->w->segments].conn;
}

uint64_t tt_sim_net_flits(const struct tt_net_setup *set, uint64_t bytes, uint32_t *ret_packets)
{
    uint64_t packets = set->message_mode || !bytes ? 1 : (bytes - 1) / set->payload_bytes + 1;
    if (ret_packets)
        *ret_packets = (uint32_t)packets;
    /* payloads are whole flits: only the last packet may end with a partial one */
    return packets + bytes / set->flit_bytes + (bytes % set->flit_bytes != 0);
}

/* ---- packets in lanes ---- */

struct tt_net_packet *tt_sim_net_first(const struct tt_net_lane *l)
{
    assert(l->len);
    return &l->packet[l->head];
}

/* The lane's first packet asks for its port: it joins the port's list and takes part in its
 * decisions from now on. Ejection ports follow the ports of the links, `interfaces` per rank. */
static void net_ask(struct tt_packet_net *n, uint32_t lane)
{
    struct tt_net_lane *l = &n->lane[lane];
    const struct tt_net_packet *p = tt_sim_net_first(l);
    const struct tt_work_conn *c = &n->in->w->conn[tt_sim_net_conn(n, p->msg)];
    if (p->hop < c->nlinks)
        l->port = n->link_port[n->in->w->path[c->path_at + p->hop]];
    else
        l->port = n->nports - n->in->t->ranks * n->set.interfaces + c->dst * n->set.interfaces +
                  n->eject[p->msg / n->in->w->segments];
    assert(l->port < n->nports);
    struct tt_net_port *port = &n->port[l->port];
    l->prev = TT_NET_NONE;
    l->next = port->head;
    if (l->next != TT_NET_NONE)
        n->lane[l->next].prev = lane;
    port->head = lane;
    const struct tt_train *f = tt_trains_front(&l->flits);
    if (f)
        tt_sim_net_wake(n, l->port, lane, f->first > l->pace ? f->first : l->pace);
}

/* Packets of a lane are a ring whose capacity is a power of two. */
bool tt_sim_net_append(struct tt_packet_net *n, uint32_t lane, const struct tt_net_packet *p)
{
    struct tt_net_lane *l = &n->lane[lane];
    if (l->len == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        struct tt_net_packet *packet = tt_alloc(cap, sizeof *packet);
        if (!packet)
            return false;
        for (uint32_t i = 0; i < l->len; i++)
            packet[i] = l->packet[(l->head + i) & (l->cap - 1)];
        free(l->packet);
        l->packet = packet;
        l->head = 0;
        l->cap = cap;
    }
    assert(l->len < l->cap && (l->cap & (l->cap - 1)) == 0);
    l->packet[(l->head + l->len++) & (l->cap - 1)] = *p;
    if (l->len == 1)
        net_ask(n, lane);
    return true;
}

/* Leaves the port's list; the next packet, if any, asks for a port of its own. */
void tt_sim_net_drop_first(struct tt_packet_net *n, uint32_t lane)
{
    struct tt_net_lane *l = &n->lane[lane];
    if (l->prev != TT_NET_NONE)
        n->lane[l->prev].next = l->next;
    else
        n->port[l->port].head = l->next;
    if (l->next != TT_NET_NONE)
        n->lane[l->next].prev = l->prev;
    assert(l->len > 0 && l->port < n->nports);
    l->port = l->out = TT_NET_NONE;
    l->head = (l->head + 1) & (l->cap - 1);
    if (--l->len)
        net_ask(n, lane);
}

/* A port without a promise is examined at `time`, or when it is free. A promise to another lane
 * is cut, if it extends that far; a promise to the same lane is not affected. */
void tt_sim_net_wake(struct tt_packet_net *n, uint32_t port, uint32_t lane, uint64_t time)
{
    assert(port < n->nports);
    struct tt_net_port *o = &n->port[port];
    if (o->p.lane != TT_NET_NONE) { /* the next look is not later than the end of the promise */
        if (o->p.lane != lane && o->p.first + o->p.gap * (o->p.n - 1) >= time)
            tt_sim_net_cut(n, port, time);
        return;
    }
    if (time < o->free)
        time = o->free;
    if (time >= o->when)
        return;
    o->when = time;
    o->settling = false;
    n->nomem |= !tt_sim_agenda_push(&n->agenda, time, (UINT64_C(1) << 32) + port);
}

void tt_sim_net_tell(struct tt_packet_net *n, uint32_t msg, enum tt_net_kind kind, uint64_t time)
{
    struct tt_net_news news = {time, msg, kind};
    n->nomem |= !tt_vec_push(&n->news, &news, 1);
}

/* The first packet of the message enters the interface's lane; refill (net_port.c) adds the
 * others. */
void tt_sim_net_send(struct tt_packet_net *n, uint32_t msg, uint32_t k, uint64_t time)
{
    const struct tt_work *w = n->in->w;
    uint32_t src = w->conn[tt_sim_net_conn(n, msg)].src;
    uint32_t lane = n->nlinks2 * n->set.vcs + src * n->set.interfaces + k;
    struct tt_net_lane *l = &n->lane[lane];
    assert(l->len == 0 && k < n->set.interfaces);
    uint64_t bytes = tt_sim_work_msg_bytes(w, msg / w->segments, msg % w->segments);
    n->flits += tt_sim_net_flits(&n->set, bytes, &n->packets[msg]);
    n->head_flits += n->packets[msg];
    uint64_t now =
        n->set.message_mode || bytes < n->set.payload_bytes ? bytes : n->set.payload_bytes;
    l->bytes = bytes - now;
    struct tt_train flits = {time, 0, 1 + now / n->set.flit_bytes + (now % n->set.flit_bytes != 0)};
    struct tt_net_packet p = {.msg = msg,
                              .flits = flits.count,
                              .left = flits.count,
                              .first = true,
                              .last = l->bytes == 0};
    n->nomem |= !tt_sim_trains_push(&l->flits, &flits) || !tt_sim_net_append(n, lane, &p);
}

/* ---- events ---- */

/* Entries whose port has another time or purpose now are dropped here, not when they become
 * void. */
uint64_t tt_sim_net_next(struct tt_packet_net *n)
{
    while (n->agenda.len) {
        const struct tt_due *due = &n->agenda.at[0];
        const struct tt_net_port *o = &n->port[due->id & UINT32_MAX];
        if (o->when == due->time && o->settling == !(due->id >> 32))
            return due->time;
        tt_sim_agenda_pop(&n->agenda); /* the time was changed since */
    }
    return TT_NEVER;
}

void tt_sim_net_step(struct tt_packet_net *n)
{
    assert(n->agenda.len > 0);
    uint32_t port = (uint32_t)n->agenda.at[0].id;
    n->now = n->agenda.at[0].time;
    n->events++;
    tt_sim_agenda_pop(&n->agenda);
    struct tt_net_port *o = &n->port[port];
    o->when = TT_NEVER;
    if (o->settling)
        tt_sim_net_settle(n, port);
    else
        tt_sim_net_decide(n, port);
}
