/* net_port.c - what a port decides: which lane may send, and how many of its flits can be
 * promised at once.
 *
 * Flit by flit, a port would be examined once per flit. Instead the winner's next flits are
 * promised together, as far as the rules give a train of even spacing and everything that they
 * depend on is *firm*, which means that it cannot change any more:
 *
 *     - flits that have started into the lane (they are known one link latency before they may
 *       leave), and credits likewise;
 *     - no other lane that asks for the port may send before the promise ends.
 *
 * A promise may still be cut, when a lane not known before asks for the port (tt_sim_net_cut):
 * flits that have not left by then are taken back, here and from the next lane's queue, and
 * their credits too. Nothing can depend on them, since what has not started is not firm: cuts
 * never spread. A promise never extends beyond its packet's tail, and the head is its first
 * flit, which leaves now: what is known of packets is always firm. The outcome is therefore that
 * of flit by flit, to the tick (a test compares them), with one look per packet and hop instead
 * of one per flit; with long links and message mode, one per round trip. */
#include <assert.h>

#include "sim/packet.h"

/* Credits of an ejection port: always there. */
static const struct tt_train always = {0, 0, TT_NEVER};

static uint64_t net_port_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t fewer(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The directed link that a lane's first packet needs; TT_NET_NONE: ejection. */
static uint32_t wanted(const struct tt_packet_net *n, const struct tt_net_packet *p)
{
    const struct tt_work_conn *c = &n->in->w->conn[tt_sim_net_conn(n, p->msg)];
    return p->hop < c->nlinks ? n->in->w->path[c->path_at + p->hop] : TT_NET_NONE;
}

/* When a packet without a channel may get one of its class, and the lowest that it may get then. */
static uint64_t channel_time(const struct tt_packet_net *n, const struct tt_net_packet *p,
                             uint64_t time, uint32_t *ret_out)
{
    const struct tt_work_conn *c = &n->in->w->conn[tt_sim_net_conn(n, p->msg)];
    uint32_t link = n->in->w->path[c->path_at + p->hop], best = TT_NET_NONE;
    uint64_t at = TT_NEVER;
    for (uint32_t v = n->hop_class[c->path_at + p->hop]; v < n->set.vcs; v += n->classes) {
        const struct tt_net_lane *out = &n->lane[link * n->set.vcs + v];
        const struct tt_train *credits = tt_trains_front(&out->credits);
        if (out->owner != TT_NET_NONE || !credits || net_port_later(credits->first, time) >= at)
            continue;
        at = net_port_later(credits->first, time);
        best = link * n->set.vcs + v;
    }
    *ret_out = best;
    return at;
}

/* When the lane's next flit may leave, as far as is known, and by which channel (TT_NET_NONE:
 * ejection, or none yet). */
static uint64_t may_leave(const struct tt_packet_net *n, const struct tt_net_lane *l,
                          uint32_t *ret_out)
{
    const struct tt_train *flits = tt_trains_front(&l->flits);
    *ret_out = l->out;
    if (!flits)
        return TT_NEVER;
    const struct tt_net_packet *p = tt_sim_net_first(l);
    uint64_t time = net_port_later(flits->first, l->pace);
    if (l->out != TT_NET_NONE) {
        const struct tt_train *credits = tt_trains_front(&n->lane[l->out].credits);
        return credits ? net_port_later(time, credits->first) : TT_NEVER;
    }
    return wanted(n, p) == TT_NET_NONE ? time
                                       : channel_time(n, p, net_port_later(time, n->now), ret_out);
}

/* The outcome of a port's decision. */
struct choice {
    uint32_t lane, out;
    uint64_t step, turn; /* what the winner won by: smaller is better */
    uint64_t others;     /* before this time no other lane may send */
};

/* Finds the winner among the lanes that may send now. lane TT_NET_NONE: none may; `others` then
 * says when to look again. `turn` puts lanes after the last winner first: round robin. */
static struct choice net_port_choose(const struct tt_packet_net *n, const struct tt_net_port *o)
{
    struct choice c = {TT_NET_NONE, TT_NET_NONE, TT_NEVER, TT_NEVER, TT_NEVER};
    for (uint32_t i = o->head; i != TT_NET_NONE; i = n->lane[i].next) {
        uint32_t out;
        uint64_t time = may_leave(n, &n->lane[i], &out);
        uint64_t step =
            n->set.by_step
                ? n->in->w->msg[tt_sim_net_first(&n->lane[i])->msg / n->in->w->segments].step
                : 0;
        uint64_t turn = i > o->turn ? i : (uint64_t)i + n->nlanes;
        if (time > n->now || step > c.step || (step == c.step && turn > c.turn)) {
            c.others = fewer(c.others, time);
            continue;
        }
        if (c.lane != TT_NET_NONE)
            c.others = n->now;
        c.lane = i;
        c.out = out;
        c.step = step;
        c.turn = turn;
    }
    return c;
}

/* For how many k = 0, 1, ... in a row t.first + k*t.gap <= first + k*gap holds, given that it
 * holds for k = 0. */
static uint64_t keeps_up(const struct tt_train *t, uint64_t first, uint64_t gap)
{
    assert(t->first <= first);
    if (t->gap <= gap)
        return t->count;
    return fewer(t->count, (first - t->first) / (t->gap - gap) + 1);
}

/* How many of the train had been sent by now, if their way takes `delay`. All elements with gap
 * 0, or from memory, are there. */
static uint64_t firm(const struct tt_train *t, uint64_t now, uint64_t delay)
{
    if (t->gap == 0 || delay == TT_NEVER)
        return t->count;
    return fewer(t->count, (now + delay - t->first) / t->gap + 1);
}

/* Does every element of t leave at the moment when it is there? */
static bool binds(const struct tt_train *t, uint64_t first, uint64_t gap)
{
    return t->first == first && t->gap == gap;
}

/* Sets the length and spacing of a promise that begins now. Invariant: all n flits satisfy the
 * rules if no further lane asks. */
static void net_port_measure(const struct tt_packet_net *n, const struct tt_net_lane *l,
                             uint64_t pace, uint64_t others, struct tt_net_promise *p)
{
    uint64_t most =
        fewer(tt_sim_net_first(l)->left, n->set.max_promise ? n->set.max_promise : TT_NEVER);
    most = fewer(most, firm(&p->flits, n->now, l->delay));
    if (l->out != TT_NET_NONE)
        most = fewer(most, firm(&p->credits, n->now, n->lane[l->out].credit_delay));
    assert(most > 0);
    p->first = n->now;
    p->gap = pace;
    p->n = 1;
    if (most == 1)
        return;
    uint64_t second =
        net_port_later(p->flits.first + p->flits.gap, p->credits.first + p->credits.gap);
    p->gap = net_port_later(pace, second - fewer(second, n->now));
    /* The spacing is slower than the pace but neither train dictates it: only the first flit is
     * certain. */
    if (p->gap > pace && !binds(&p->flits, p->first, p->gap) &&
        !binds(&p->credits, p->first, p->gap))
        return;
    most = fewer(most, fewer(keeps_up(&p->flits, p->first, p->gap),
                             keeps_up(&p->credits, p->first, p->gap)));
    if (others != TT_NEVER)
        most = fewer(most, others <= p->first ? 1 : (others - p->first - 1) / p->gap + 1);
    assert(most > 0);
    p->n = most;
}

/* Flits among the first n of a promise that waited for nothing but a credit. */
static uint64_t stalled(const struct tt_net_promise *p, uint64_t pace, uint64_t n)
{
    uint64_t waited = p->first_stalled;
    if (n < 2 || p->gap == pace || !binds(&p->credits, p->first, p->gap) ||
        binds(&p->flits, p->first, p->gap))
        return waited;
    if (p->flits.gap <= p->gap)
        return waited + n - 1;
    /* flit k has slack - k*loss left before it would be late itself */
    uint64_t slack = p->first - p->flits.first, loss = p->flits.gap - p->gap;
    return waited + (slack ? fewer(n - 1, (slack - 1) / loss) : 0);
}

static uint64_t pace_of(const struct tt_net_port *o, const struct tt_net_lane *l)
{
    return net_port_later(o->flit, l->gap);
}

/* Schedules the port's next decision, or (settling) the end of its promise. Settling sorts first
 * among equal times: its id is lower. */
static void look_at(struct tt_packet_net *n, uint32_t port, uint64_t time, bool settling)
{
    struct tt_net_port *o = &n->port[port];
    o->when = time;
    o->settling = settling;
    if (time != TT_NEVER)
        n->nomem |=
            !tt_sim_agenda_push(&n->agenda, time, (settling ? 0 : UINT64_C(1) << 32) + port);
}

/* The head takes channel `out` (TT_NET_NONE: ejection). The first packet of a message is
 * reported. */
static void net_port_start(struct tt_packet_net *n, uint32_t lane, uint32_t out)
{
    struct tt_net_lane *l = &n->lane[lane];
    struct tt_net_packet *p = tt_sim_net_first(l);
    p->started = true;
    l->out = out;
    if (p->first && l->link == TT_NET_NONE)
        tt_sim_net_tell(n, p->msg, TT_NET_LEAVES, n->now);
    if (p->first && out == TT_NET_NONE)
        tt_sim_net_tell(n, p->msg, TT_NET_ENTERS, n->now);
    if (out == TT_NET_NONE)
        return;
    assert(n->lane[out].owner == TT_NET_NONE);
    n->lane[out].owner = lane;
    uint32_t link = n->lane[out].link;
    if (++n->held[link] > n->peak[link])
        n->peak[link] = n->held[link];
}

/* Queues the promised flits at the next lane, which may be waiting for them. */
static void pass_on(struct tt_packet_net *n, const struct tt_net_lane *l,
                    const struct tt_net_promise *p, bool head)
{
    assert(l->out < n->nlanes && p->n > 0);
    struct tt_net_lane *next = &n->lane[l->out];
    bool was_empty = next->flits.len == 0;
    struct tt_train flits = {p->first + next->delay, p->gap, p->n};
    n->nomem |= !tt_sim_trains_push(&next->flits, &flits);
    n->link_flits[next->link] += p->n;
    if (head) {
        struct tt_net_packet packet = *tt_sim_net_first(l);
        packet.hop++;
        packet.started = false;
        packet.left = packet.flits;
        n->nomem |= !tt_sim_net_append(n, l->out, &packet);
    }
    if (was_empty && next->port != TT_NET_NONE)
        tt_sim_net_wake(n, next->port, l->out, flits.first);
}

/* Returns the credits of the flits' places to the sender into this lane. */
static void give_back(struct tt_packet_net *n, struct tt_net_lane *l,
                      const struct tt_net_promise *p)
{
    bool was_empty = l->credits.len == 0;
    struct tt_train credits = {p->first + l->credit_delay, p->gap, p->n};
    n->nomem |= !tt_sim_trains_push(&l->credits, &credits);
    if (was_empty)
        tt_sim_net_wake(n, n->link_port[l->link], l->owner, credits.first);
}

/* Applies what a promise changes at the moment when it is made. tt_sim_net_cut undoes the end of
 * it. */
static void net_port_take(struct tt_packet_net *n, uint32_t port, bool head)
{
    struct tt_net_port *o = &n->port[port];
    struct tt_net_promise *p = &o->p;
    struct tt_net_lane *l = &n->lane[p->lane];
    uint64_t last = p->first + (p->n - 1) * p->gap;
    o->free = last + o->flit;
    o->turn = p->lane;
    l->pace = last + l->gap;
    tt_sim_trains_take(&l->flits, p->n);
    tt_sim_net_first(l)->left -= p->n;
    p->tail = tt_sim_net_first(l)->left == 0;
    n->stalls += stalled(p, pace_of(o, l), p->n);
    if (l->out != TT_NET_NONE) {
        tt_sim_trains_take(&n->lane[l->out].credits, p->n);
        pass_on(n, l, p, head);
    }
    if (l->link != TT_NET_NONE)
        give_back(n, l, p);
}

/* Decides for a port that is free: wait, or promise. A promise that ends with the tail is
 * settled when the tail leaves. */
void tt_sim_net_decide(struct tt_packet_net *n, uint32_t port)
{
    struct tt_net_port *o = &n->port[port];
    o->p.lane = TT_NET_NONE;
    struct choice c = net_port_choose(n, o);
    if (c.lane == TT_NET_NONE) {
        look_at(n, port, c.others, false);
        return;
    }
    struct tt_net_lane *l = &n->lane[c.lane];
    bool head = !tt_sim_net_first(l)->started;
    if (head)
        net_port_start(n, c.lane, c.out);
    struct tt_net_promise *p = &o->p;
    p->lane = c.lane;
    p->flits = *tt_trains_front(&l->flits);
    p->credits = l->out != TT_NET_NONE ? *tt_trains_front(&n->lane[l->out].credits) : always;
    p->first_stalled =
        p->credits.first > net_port_later(net_port_later(p->flits.first, l->pace), o->free);
    net_port_measure(n, l, pace_of(o, l), c.others, p);
    uint64_t last = p->first + (p->n - 1) * p->gap;
    net_port_take(n, port, head);
    if (!p->tail)
        look_at(n, port, o->free, false);
    else if (p->n > 1)
        look_at(n, port, last, true);
    else
        tt_sim_net_settle(n, port);
}

/* Puts the next packet of the message on its interface, or reports that the message has left. */
static void refill(struct tt_packet_net *n, uint32_t lane, const struct tt_net_packet *done)
{
    struct tt_net_lane *l = &n->lane[lane];
    if (done->last) {
        tt_sim_net_tell(n, done->msg, TT_NET_LEFT, l->pace);
        return;
    }
    uint64_t bytes = fewer(l->bytes, n->set.payload_bytes);
    l->bytes -= bytes;
    struct tt_train flits = {n->now, 0,
                             1 + bytes / n->set.flit_bytes + (bytes % n->set.flit_bytes != 0)};
    struct tt_net_packet p = {
        .msg = done->msg, .flits = flits.count, .left = flits.count, .last = l->bytes == 0};
    n->nomem |= !tt_sim_trains_push(&l->flits, &flits) || !tt_sim_net_append(n, lane, &p);
}

/* The tail leaves: the channel is free, and the lane's next packet gets its turn. */
void tt_sim_net_settle(struct tt_packet_net *n, uint32_t port)
{
    struct tt_net_port *o = &n->port[port];
    uint32_t lane = o->p.lane;
    struct tt_net_lane *l = &n->lane[lane];
    struct tt_net_packet done = *tt_sim_net_first(l);
    assert(o->p.tail && done.left == 0);
    o->p.lane = TT_NET_NONE;
    if (l->out != TT_NET_NONE) {
        n->lane[l->out].owner = TT_NET_NONE;
        n->held[n->lane[l->out].link]--;
    } else if (--n->packets[done.msg] == 0) {
        tt_sim_net_tell(n, done.msg, TT_NET_ARRIVED, o->free);
    }
    look_at(n, port, o->free, false);
    tt_sim_net_drop_first(n, lane);
    if (l->link == TT_NET_NONE)
        refill(n, lane, &done);
}

/* `kept` flits leave before `time`; the others return to where they were taken from. */
void tt_sim_net_cut(struct tt_packet_net *n, uint32_t port, uint64_t time)
{
    struct tt_net_port *o = &n->port[port];
    struct tt_net_promise *p = &o->p;
    struct tt_net_lane *l = &n->lane[p->lane];
    assert(time > p->first && p->n > 1);
    uint64_t kept = (time - p->first - 1) / p->gap + 1, back = p->n - kept,
             last = p->first + (kept - 1) * p->gap;
    n->stalls -= stalled(p, pace_of(o, l), p->n) - stalled(p, pace_of(o, l), kept);
    if (l->link != TT_NET_NONE)
        tt_sim_trains_unpush(&l->credits, back);
    if (l->out != TT_NET_NONE) {
        tt_sim_trains_unpush(&n->lane[l->out].flits, back);
        n->link_flits[n->lane[l->out].link] -= back;
        struct tt_train credits = {p->credits.first + kept * p->credits.gap, p->credits.gap, back};
        n->nomem |= !tt_sim_trains_untake(&n->lane[l->out].credits, &credits);
    }
    struct tt_train flits = {p->flits.first + kept * p->flits.gap, p->flits.gap, back};
    n->nomem |= !tt_sim_trains_untake(&l->flits, &flits);
    tt_sim_net_first(l)->left += back;
    p->n = kept;
    p->tail = false;
    o->free = last + o->flit;
    l->pace = last + l->gap;
    look_at(n, port, o->free, false);
}
