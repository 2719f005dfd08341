/* packet.c - the packet level: operations start when they may (the live rule of sched.h),
 * messages go through interfaces (ni.c) and the network of flits (net.c).
 *
 *     send waits for nothing, its connection is free -> host overhead -> an interface -> flits
 *       -> the last flit has left: the send is done, connection and interface are free
 *       -> the last flit has arrived (in order on a connection) -> the receiver takes it in
 *       -> reduction -> the receive is done
 *
 * The host side is as at the flow level (flow_host.c): a host issues and takes in messages
 * `overhead` apart, and its reductions run one after the other. At each moment hosts act before
 * the network, so that a message offered now takes part in what ports decide now. All times are
 * ticks; the report rounds up to picoseconds once. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "sim/packet.h"

/* Events of hosts: the kind is in the upper bits of an agenda id, so it also orders equal times. */
enum {
    EV_ISSUE,
    EV_LEFT,
    EV_ARRIVED,
    EV_TAKE,
    EV_DONE,
    EV_NOOP,
    EV_SHIFT = 56,
    PROGRESS_EVERY = 1 << 16
};
enum { BUSY_SEND, BUSY_RECV, BUSY_REDUCE, BUSY_ANY, BUSY_KINDS };

struct host {
    uint64_t issue, take, sum; /* as in tt_host of the flow level, in ticks */
    uint32_t busy[BUSY_KINDS];
    uint64_t since[BUSY_KINDS], spent[BUSY_KINDS];
    uint64_t end;
};
struct stream {
    uint32_t next;    /* message * K + segment within the connection: next to go, or going */
    uint32_t arrived; /* the next to be taken in */
    bool busy;
};
struct times {
    uint64_t ready, start;
};
struct run {
    const struct tt_sim_input *in;
    const struct tt_work *w;
    struct tt_sim_report *r;
    struct tt_packet_net net;
    struct tt_ni ni;
    struct tt_agenda agenda;
    struct host *host;
    struct stream *stream;
    uint32_t *left;      /* per node: operations and messages that it still waits for */
    bool *there;         /* per message and segment: arrived, perhaps before its turn */
    struct times *times; /* per message and segment */
    struct tt_vec done;  /* uint32_t: nodes done, successors not yet told */
    double gamma;        /* ticks per byte */
    uint64_t now, arrived, end, events;
    bool nomem;
};

static void packet_put(struct run *p, uint64_t time, uint64_t kind, uint64_t what)
{
    p->nomem |= !tt_sim_agenda_push(&p->agenda, time, kind << EV_SHIFT | what);
}

/* An activity of the rank begins or ends; BUSY_ANY counts along. */
static void busy(struct run *p, uint32_t rank, int kind, bool begins, uint64_t now)
{
    struct host *h = &p->host[rank];
    const int kinds[2] = {kind, BUSY_ANY};
    for (int i = 0; i < 2; i++) {
        int k = kinds[i];
        if (begins && h->busy[k]++ == 0)
            h->since[k] = now;
        if (!begins && --h->busy[k] == 0)
            h->spent[k] += now - h->since[k];
    }
}

/* Bounded far below the limit that `loop` checks. */
static uint64_t packet_overhead(const struct run *p, uint32_t rank)
{
    double ticks = (double)p->in->t->overhead_ps * TT_TICKS * p->in->slow[rank];
    return ticks < 0x1p55 ? (uint64_t)ticks : UINT64_C(1) << 55;
}

/* ---- operations ---- */

static void packet_finish(struct run *p, uint32_t node)
{
    p->nomem |= !tt_vec_push(&p->done, &node, 1);
}

/* Offers the connection's next message if it is ready and nothing else is being sent there. */
static void stream_try(struct run *p, uint32_t conn)
{
    const struct tt_work_conn *c = &p->w->conn[conn];
    struct stream *s = &p->stream[conn];
    uint32_t k = p->w->segments;
    if (s->busy || s->next == c->count * k)
        return;
    uint32_t number = c->first * k + s->next;
    if (p->left[p->w->msg[number / k].send * k + number % k] > 0)
        return;
    s->busy = true;
    p->times[number].ready = p->now;
    struct host *h = &p->host[c->src];
    h->issue = (h->issue > p->now ? h->issue : p->now) + packet_overhead(p, c->src);
    if (h->issue > p->now)
        packet_put(p, h->issue, EV_ISSUE, number);
    else
        tt_sim_ni_offer(&p->ni, number, p->now);
}

/* Rounds up. */
static uint64_t to_ps(uint64_t ticks)
{
    return ticks / TT_TICKS + (ticks % TT_TICKS != 0);
}

/* A reduction waits for the host's earlier ones; one that takes no time is done at once. */
static void packet_reduce(struct run *p, uint32_t node, uint32_t rank)
{
    double ticks =
        p->gamma * p->in->slow[rank] *
        (double)tt_sim_work_reduce_bytes(p->w, node / p->w->segments, node % p->w->segments);
    if (!(ticks > 0)) {
        packet_finish(p, node);
        return;
    }
    struct host *h = &p->host[rank];
    uint64_t from = h->sum > p->now ? h->sum : p->now;
    h->sum = from + (ticks < 0x1p58 ? (uint64_t)llround(ticks) : UINT64_C(1) << 58);
    tt_sim_timeline_work(p->r, p->w, node, to_ps(from), to_ps(h->sum));
    busy(p, rank, BUSY_REDUCE, true, p->now);
    packet_put(p, h->sum, EV_DONE, node);
}

/* The operation waits for nothing else. */
static void packet_start(struct run *p, uint32_t node)
{
    uint32_t op = node / p->w->segments;
    const struct tt_work_op *o = &p->w->op[op];
    if (o->kind == TT_OP_SEND)
        stream_try(p, p->w->msg[o->ref].conn);
    else if (o->kind == TT_OP_RECV_REDUCE || o->kind == TT_OP_REDUCE)
        packet_reduce(p, node, tt_sim_work_rank(p->w, op));
    else
        packet_finish(p, node);
}

/* One thing that the node waited for is done. */
static void count_down(struct run *p, uint32_t node)
{
    assert(p->left[node] > 0);
    if (--p->left[node] == 0)
        packet_start(p, node);
}

/* Tells the successors of all that is done; those that become done by it are appended and told
 * too. */
static void packet_tell(struct run *p)
{
    const struct tt_work *w = p->w;
    for (size_t i = 0; i < p->done.len && !p->nomem; i++) {
        uint32_t node = ((const uint32_t *)p->done.data)[i], op = node / w->segments,
                 segment = node % w->segments;
        p->host[tt_sim_work_rank(w, op)].end = p->now;
        p->end = p->now > p->end ? p->now : p->end;
        for (uint32_t k = w->op[op].after; k < w->op[op + 1].after; k++)
            count_down(p, w->succ[k] * w->segments + segment);
    }
    p->done.len = 0;
}

/* ---- messages ---- */

static void packet_record(struct run *p, uint32_t number)
{
    const struct tt_work_conn *c = &p->w->conn[tt_sim_net_conn(&p->net, number)];
    uint32_t msg = number / p->w->segments, segment = number % p->w->segments;
    if (!p->r->timeline)
        return;
    tt_sim_record(p->r, &(struct tt_sim_event){.src = c->src,
                                               .dst = c->dst,
                                               .step = p->w->msg[msg].step,
                                               .channel = (uint16_t)c->channel,
                                               .segment = (uint16_t)segment,
                                               .bytes = tt_sim_work_msg_bytes(p->w, msg, segment),
                                               .ready_ps = to_ps(p->times[number].ready),
                                               .start_ps = to_ps(p->times[number].start),
                                               .end_ps = to_ps(p->now)});
}

/* The last flit is there. Messages of a connection are taken in in their order, so this one may
 * have to wait for earlier ones, and may release later ones. */
static void packet_arrived(struct run *p, uint32_t number)
{
    const struct tt_work_conn *c = &p->w->conn[tt_sim_net_conn(&p->net, number)];
    struct stream *s = &p->stream[tt_sim_net_conn(&p->net, number)];
    struct host *h = &p->host[c->dst];
    busy(p, c->dst, BUSY_RECV, false, p->now);
    p->there[number] = true;
    p->arrived++;
    packet_record(p, number);
    for (;
         s->arrived < c->count * p->w->segments && p->there[c->first * p->w->segments + s->arrived];
         s->arrived++) {
        uint64_t at = h->take > p->now ? h->take : p->now;
        h->take = at + packet_overhead(p, c->dst);
        packet_put(p, at, EV_TAKE, c->first * p->w->segments + s->arrived);
    }
}

/* Frees interface and connection; the send is done. */
static void left_sender(struct run *p, uint32_t number)
{
    const struct tt_work *w = p->w;
    uint32_t conn = tt_sim_net_conn(&p->net, number);
    busy(p, w->conn[conn].src, BUSY_SEND, false, p->now);
    uint64_t until = tt_sim_ni_left(&p->ni, number, p->now);
    if (until)
        packet_put(p, until, EV_NOOP, w->conn[conn].src);
    p->stream[conn].busy = false;
    p->stream[conn].next++;
    packet_finish(p, w->msg[number / w->segments].send * w->segments + number % w->segments);
    stream_try(p, conn);
}

/* ---- events ---- */

/* The first event of the agenda: something that hosts do. */
static void host_event(struct run *p)
{
    struct tt_due due = p->agenda.at[0];
    const struct tt_work *w = p->w;
    uint32_t what = (uint32_t)due.id;
    tt_sim_agenda_pop(&p->agenda);
    p->now = due.time;
    p->events++;
    uint64_t kind = due.id >> EV_SHIFT;
    if (kind == EV_ISSUE) {
        tt_sim_ni_offer(&p->ni, what, p->now);
    } else if (kind == EV_LEFT) {
        left_sender(p, what);
    } else if (kind == EV_ARRIVED) {
        packet_arrived(p, what);
    } else if (kind == EV_TAKE) {
        count_down(p, w->msg[what / w->segments].recv * w->segments + what % w->segments);
    } else if (kind == EV_DONE) {
        busy(p, tt_sim_work_rank(w, what / w->segments), BUSY_REDUCE, false, p->now);
        packet_finish(p, what);
    } else {
        uint64_t until = tt_sim_ni_advance(&p->ni, what, p->now);
        if (until)
            packet_put(p, until, EV_NOOP, what);
    }
    packet_tell(p);
}

/* Turns what the network reported into events and busy times; reports may be about the future. */
static void read_news(struct run *p)
{
    const struct tt_net_news *news = p->net.news.data;
    for (size_t i = 0; i < p->net.news.len; i++) {
        const struct tt_work_conn *c = &p->w->conn[tt_sim_net_conn(&p->net, news[i].msg)];
        if (news[i].kind == TT_NET_LEAVES) {
            p->times[news[i].msg].start = news[i].time;
            busy(p, c->src, BUSY_SEND, true, news[i].time);
        } else if (news[i].kind == TT_NET_ENTERS) {
            busy(p, c->dst, BUSY_RECV, true, news[i].time);
        } else {
            packet_put(p, news[i].time, news[i].kind == TT_NET_LEFT ? EV_LEFT : EV_ARRIVED,
                       news[i].msg);
        }
    }
    p->net.news.len = 0;
}

/* Starts every operation that waits for nothing; every interface reads its table. */
static void packet_begin(struct run *p)
{
    const struct tt_work *w = p->w;
    for (uint32_t r = 0; r < w->t->ranks; r++) {
        uint64_t until = tt_sim_ni_advance(&p->ni, r, 0);
        if (until)
            packet_put(p, until, EV_NOOP, r);
    }
    for (uint32_t node = 0; node < w->nops * w->segments; node++)
        if (w->op[node / w->segments].need == 0)
            packet_start(p, node);
    packet_tell(p);
}

/* The number of flits that links will have moved at the end, heads included; an estimate for
 * progress. */
static uint64_t all_flits(const struct run *p)
{
    const struct tt_net_setup *set = &p->net.set;
    double bytes = 0;
    for (uint32_t i = 0; i < p->net.nlinks2; i++)
        bytes += (double)p->r->links[i].bytes;
    double data = bytes / set->flit_bytes;
    return (uint64_t)(set->message_mode ? data : data + bytes / set->payload_bytes);
}

/* Long messages arrive all at once at the end, so progress is measured by what links have moved. */
static bool tell_progress(const struct run *p, uint64_t all)
{
    uint64_t moved = 0;
    for (uint32_t i = 0; i < p->net.nlinks2; i++)
        moved += p->net.link_flits[i];
    return tt_sim_progress(p->in->o, moved < all ? moved : all, all);
}

static tutti_status loop(struct run *p, struct tutti_error *err)
{
    const uint64_t all = all_flits(p), limit = UINT64_C(1) << 62;
    packet_begin(p);
    for (uint64_t i = 0; !p->nomem && !p->net.nomem && !p->ni.nomem; i++) {
        uint64_t net = tt_sim_net_next(&p->net),
                 host = p->agenda.len ? p->agenda.at[0].time : TT_NEVER;
        if (net == TT_NEVER && host == TT_NEVER)
            return TUTTI_OK;
        if ((host < net ? host : net) > limit)
            return tt_fail(
                err, TUTTI_ERR_LIMIT,
                "the simulated time exceeds what the packet level can tell (75 minutes)");
        if (i % PROGRESS_EVERY == PROGRESS_EVERY - 1 && !tell_progress(p, all))
            return tt_fail(err, TUTTI_ERR_ABORTED, "the simulation was interrupted");
        /* Hosts first among equal times (see the top). */
        if (host <= net) {
            host_event(p);
            continue;
        }
        tt_sim_net_step(&p->net);
        if (p->net.news.len)
            read_news(p);
    }
    return tt_fail_memory(err, "packet level");
}

/* ---- the whole ---- */

/* On failure the caller closes p, which accepts a state opened in part. */
static tutti_status open_run(struct run *p, const struct tt_sim_input *in, uint64_t max_promise,
                             struct tutti_error *err)
{
    const struct tt_work *w = p->w = in->w;
    p->in = in;
    p->done.elem = sizeof(uint32_t);
    struct tt_net_setup set;
    tutti_status st = tt_sim_net_settings(in, &set, err);
    if (st)
        return st;
    set.max_promise = max_promise;
    const double nodes = (double)w->nops * w->segments, gamma_s = in->t->gamma,
                 rate = in->o->packet.aggregate_bytes_per_s;
    if (nodes >= 0x1p31)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "%.0f operations (segments counted) are too many for the packet level",
                       nodes);
    p->gamma = (rate > 0 ? 1 / rate : gamma_s) * 1e12 * TT_TICKS;
    st = tt_sim_net_open(&p->net, in, &set, err);
    if (!st)
        st = tt_sim_ni_open(&p->ni, &p->net, in->o->packet.lockstep, err);
    if (st)
        return st;
    size_t k = w->segments, nmsgs = w->nmsgs * k;
    p->host = tt_zalloc(in->t->ranks, sizeof *p->host);
    p->stream = tt_zalloc(w->nconns + 1u, sizeof *p->stream);
    p->left = tt_alloc(w->nops * k + 1, sizeof *p->left);
    p->there = tt_zalloc(nmsgs + 1, sizeof *p->there);
    p->times = tt_zalloc(nmsgs + 1, sizeof *p->times);
    if (!p->host || !p->stream || !p->left || !p->there || !p->times)
        return tt_fail_memory(err, "packet level");
    for (size_t i = 0; i < w->nops * k; i++)
        p->left[i] = w->op[i / k].need;
    return TUTTI_OK;
}

static void close_run(struct run *p)
{
    tt_sim_ni_close(&p->ni);
    tt_sim_net_free(&p->net);
    free(p->agenda.at);
    free(p->host);
    free(p->stream);
    free(p->left);
    free(p->there);
    free(p->times);
    tt_vec_free(&p->done);
}

static void fill_report(const struct run *p, struct tt_sim_report *r)
{
    const struct tt_packet_net *n = &p->net;
    r->time_ps = to_ps(p->end);
    r->cycles = p->end / n->clock + (p->end % n->clock != 0);
    r->events = n->events + p->events;
    r->flits = n->flits;
    r->head_flits = n->head_flits;
    r->credit_stalls = n->stalls;
    r->lockstep_waits_ps = to_ps(p->ni.waits);
    for (uint32_t link = 0; link < n->nlinks2; link++) {
        r->links[link].busy_ps = to_ps(n->link_flits[link] * n->port[n->link_port[link]].flit);
        r->links[link].peak = n->peak[link];
    }
    for (uint32_t i = 0; i < r->ranks; i++) {
        const struct host *h = &p->host[i];
        r->rank[i] = (struct tt_sim_rank){.end_ps = to_ps(h->end),
                                          .send_ps = to_ps(h->spent[BUSY_SEND]),
                                          .recv_ps = to_ps(h->spent[BUSY_RECV]),
                                          .reduce_ps = to_ps(h->spent[BUSY_REDUCE]),
                                          .idle_ps = to_ps(p->end - h->spent[BUSY_ANY])};
    }
}

/* After the last event: has everything happened? A stuck network explains more than messages
 * never sent. */
static tutti_status packet_complete(const struct run *p, struct tutti_error *err)
{
    tutti_status st = tt_sim_net_stuck(&p->net, err);
    if (!st && p->arrived != p->r->messages)
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "the schedule stands still: %llu of %llu messages were never sent; their "
                       "operations wait for each other",
                       (unsigned long long)(p->r->messages - p->arrived),
                       (unsigned long long)p->r->messages);
    return st;
}

tutti_status tt_sim_packet_run_promised(const struct tt_sim_input *in, uint64_t max_promise,
                                        struct tt_sim_report *r, struct tutti_error *err)
{
    struct run p = {.r = r};
    tutti_status st = open_run(&p, in, max_promise, err);
    if (!st)
        st = loop(&p, err);
    if (!st)
        st = packet_complete(&p, err);
    if (!st)
        fill_report(&p, r);
    close_run(&p);
    return st;
}

tutti_status tt_sim_packet_run(const struct tt_sim_input *in, struct tt_sim_report *r,
                               struct tutti_error *err)
{
    return tt_sim_packet_run_promised(in, 0, r, err);
}
