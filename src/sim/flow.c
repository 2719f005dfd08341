/* flow.c - the flow level: operations start when they may, messages are fluids.
 *
 * The path of one message (one segment of it):
 *
 *     its send waits for no operation -> it is next on its free connection -> host overhead
 *       -> ports -> transfer (fluid.c)
 *       -> last byte has left: the send is done, the connection is free
 *       -> + latency of the route: arrived, ports free
 *       -> the receiver takes it in (one overhead apart) -> the receive waits for nothing else
 *       -> reduction -> the receive is done
 *
 * Messages are eager: they travel whether or not the receiver is ready, and wait there. An empty
 * message takes its latency only. The latency follows the transfer, so a message alone takes
 * overhead + bytes/bandwidth + latency. All events of one moment are handled before any rate is
 * computed anew. Cost: O(hops) per message while links are not shared. Invariant: left[node]
 * counts the unfinished operations (and the message) that a node waits for; it starts exactly
 * when that becomes 0. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "sim/engine.h"

/* The kind of an event is in the upper half of `what`; the lower half is a flow, a connection or
 * an operation; `extra` is the version or the segment. Ends of transfers have kind 0: fluid.c
 * puts them into the queue. */
enum { EV_END, EV_ISSUE, EV_ARRIVE, EV_TAKE, EV_DONE, PROGRESS_EVERY = 1 << 16 };

static void flow_put(struct tt_sim_engine *e, uint64_t time_ps, uint64_t kind, uint32_t what,
                     uint32_t segment)
{
    tt_sim_queue_push(&e->q, time_ps, kind << 32 | what, segment);
}

/* ---- operations ---- */

/* The node is done now; flow_tell informs its successors. A list, not recursion: chains of local
 * operations can be long. */
static void flow_finish(struct tt_sim_engine *e, uint32_t op, uint32_t segment, uint32_t rank)
{
    struct tt_done *d = tt_vec_room(&e->done);
    if (d)
        *d = (struct tt_done){op, segment, rank};
    else
        e->failed = true;
}

/* The host will do this at the end of the moment, in listed order (serve_all). */
static void flow_ask(struct tt_sim_engine *e, uint32_t kind, uint32_t op, uint32_t segment)
{
    const struct tt_sim_request x = {op, segment, kind, e->cause};
    e->failed = e->failed || !tt_vec_push(&e->requests, &x, 1);
}

/* Starts the message at once where ports are not limited. */
static void issue(struct tt_sim_engine *e, uint32_t conn)
{
    if (tt_sim_port_ask(e, conn))
        tt_sim_engine_inject(e, conn);
}

/* Starts the connection's next message if it is ready and nothing else is being sent there. */
static void stream_try(struct tt_sim_engine *e, uint32_t conn)
{
    assert(conn < e->w->nconns);
    struct tt_stream *s = &e->stream[conn];
    if (s->busy || s->next == TT_WORK_NONE ||
        e->left[(size_t)s->next * e->w->segments + s->segment] > 0)
        return;
    s->busy = true;
    s->ready_ps = e->now;
    if (e->in->t->overhead_ps)
        flow_ask(e, EV_ISSUE, s->next, s->segment);
    else
        issue(e, conn);
}

/* A reduction occupies the host; without gamma or bytes it is done at once. */
static void flow_reduce(struct tt_sim_engine *e, uint32_t op, uint32_t segment, uint32_t rank)
{
    if (e->gamma_ps > 0 && tt_sim_work_reduce_bytes(e->w, op, segment) > 0)
        flow_ask(e, EV_DONE, op, segment);
    else
        flow_finish(e, op, segment, rank);
}

/* The operation waits for nothing else. */
static void flow_start(struct tt_sim_engine *e, uint32_t op, uint32_t segment, uint32_t rank)
{
    const struct tt_work_op *o = &e->w->op[op];
    if (o->kind == TT_OP_SEND)
        stream_try(e, o->conn);
    else if (o->kind == TT_OP_RECV_REDUCE || o->kind == TT_OP_REDUCE)
        flow_reduce(e, op, segment, rank);
    else
        flow_finish(e, op, segment, rank);
}

/* One thing that the node waited for is done. */
static void count_down(struct tt_sim_engine *e, uint32_t op, uint32_t segment, uint32_t rank)
{
    uint32_t *left = &e->left[(size_t)op * e->w->segments + segment];
    assert(*left > 0);
    if (--*left == 0)
        flow_start(e, op, segment, rank);
}

/* Tells the successors of all that is done; those that become done by it are appended and told
 * too. */
static void flow_tell(struct tt_sim_engine *e)
{
    const struct tt_work *w = e->w;
    for (size_t i = 0; i < e->done.len && !e->failed; i++) {
        struct tt_done d = ((const struct tt_done *)e->done.data)[i];
        struct tt_sim_rank *r = &e->r->rank[d.rank];
        assert(w->op[d.op].after <= w->op[d.op + 1].after);
        e->finished++;
        r->end_ps = e->now > r->end_ps ? e->now : r->end_ps;
        for (uint32_t k = w->op[d.op].after; k < w->op[d.op + 1].after; k++)
            count_down(e, w->succ[k], d.segment, d.rank);
    }
    e->done.len = 0;
}

/* ---- messages ---- */

/* The copy in the operation avoids reading the message; it is valid for one segment. */
static uint64_t op_bytes(const struct tt_work *w, const struct tt_work_op *send, uint32_t segment)
{
    if (w->segments == 1 && send->elems != TT_WORK_NONE)
        return (uint64_t)send->elems * w->elem_bytes;
    return tt_sim_work_msg_bytes(w, send->ref, segment);
}

static void flow_record(struct tt_sim_engine *e, const struct tt_flow *x, uint64_t arrived_ps)
{
    const struct tt_work_op *send = &e->w->op[x->op];
    const struct tt_work_conn *c = &e->w->conn[x->conn];
    tt_sim_record(e->r, &(struct tt_sim_event){.src = c->src,
                                               .dst = c->dst,
                                               .step = tt_sim_work_step(e->w, x->op),
                                               .channel = (uint16_t)c->channel,
                                               .segment = (uint16_t)x->segment,
                                               .bytes = op_bytes(e->w, send, x->segment),
                                               .ready_ps = x->ready_ps,
                                               .start_ps = x->start_ps,
                                               .end_ps = arrived_ps});
}

/* The last byte has left: the message arrives a latency later, never before an earlier one of
 * its connection, and the connection turns to the next message or segment. */
static void left_sender(struct tt_sim_engine *e, const struct tt_flow *x)
{
    const struct tt_work *w = e->w;
    const struct tt_work_op *send = &w->op[x->op];
    struct tt_stream *s = &e->stream[x->conn];
    uint64_t latency = tt_sim_latency(&e->in->o->whatif, w->conn[x->conn].latency_ps,
                                      (uint64_t)send->ref * w->segments + x->segment);
    uint64_t at = tt_sim_engine_later(e, e->now, (double)latency);
    assert(s->busy && s->next == x->op && at >= e->now);
    s->arrived_ps = at = at > s->arrived_ps ? at : s->arrived_ps;
    flow_put(e, at, EV_ARRIVE, send->peer, x->segment);
    if (e->r->timeline)
        flow_record(e, x, at);
    s->busy = false;
    if (++s->segment == w->segments) {
        s->segment = 0;
        s->next = send->next;
    }
    flow_finish(e, x->op, x->segment, send->rank);
    stream_try(e, x->conn);
}

/* An empty message has no transfer; it only takes its latency. */
void tt_sim_engine_inject(struct tt_sim_engine *e, uint32_t conn)
{
    const struct tt_stream *s = &e->stream[conn];
    assert(s->busy && s->next != TT_WORK_NONE);
    const struct tt_work_op *send = &e->w->op[s->next];
    uint64_t bytes = op_bytes(e->w, send, s->segment);
    if (bytes == 0) {
        left_sender(e, &(struct tt_flow){.op = s->next,
                                         .segment = s->segment,
                                         .conn = conn,
                                         .ready_ps = s->ready_ps,
                                         .start_ps = e->now});
        return;
    }
    struct tt_flow *x = tt_sim_fluid_begin(&e->fluid, conn, bytes, e->now);
    if (!x)
        return;
    x->op = s->next;
    x->segment = s->segment;
    x->ready_ps = s->ready_ps;
    tt_sim_host_busy(e, send->rank, TT_BUSY_SEND);
    tt_sim_host_busy(e, e->w->conn[conn].dst, TT_BUSY_RECV);
}

/* Ends of a transfer that got another rate since are void (version). */
static void transferred(struct tt_sim_engine *e, uint32_t flow, uint32_t version)
{
    if (!tt_sim_fluid_due(&e->fluid, flow, version))
        return;
    struct tt_flow x = tt_sim_fluid_end(&e->fluid, flow, e->now);
    tt_sim_host_idle(e, e->w->conn[x.conn].src, TT_BUSY_SEND);
    tt_sim_host_idle(e, e->w->conn[x.conn].dst, TT_BUSY_RECV);
    left_sender(e, &x);
}

/* What becomes ready by it stands in the line of the connection. */
static void flow_take(struct tt_sim_engine *e, uint32_t recv, uint32_t segment)
{
    e->cause = e->w->op[recv].conn;
    count_down(e, recv, segment, e->w->op[recv].rank);
    flow_tell(e);
    e->cause = TT_WORK_NONE;
}

/* Arrival frees the ports before the receiver takes the message in. */
static void flow_arrive(struct tt_sim_engine *e, uint32_t recv, uint32_t segment)
{
    const struct tt_work_op *o = &e->w->op[recv];
    assert(o->kind == TT_OP_RECV || o->kind == TT_OP_RECV_REDUCE);
    e->arrived++;
    tt_sim_port_free(e, o->conn);
    if (e->in->t->overhead_ps)
        flow_ask(e, EV_TAKE, recv, segment);
    else
        flow_take(e, recv, segment);
}

static void flow_reduced(struct tt_sim_engine *e, uint32_t op, uint32_t segment)
{
    const uint32_t rank = e->w->op[op].rank;
    tt_sim_host_idle(e, rank, TT_BUSY_REDUCE);
    e->host[rank].adding = false;
    tt_sim_host_free(e, rank);
    flow_finish(e, op, segment, rank);
}

void tt_sim_engine_added(struct tt_sim_engine *e, uint64_t time_ps, uint32_t op, uint32_t segment)
{
    flow_put(e, time_ps, EV_DONE, op, segment);
}

/* ---- the run ---- */

static void flow_handle(struct tt_sim_engine *e, struct tt_queue_item x)
{
    uint32_t what = (uint32_t)x.what;
    switch (x.what >> 32) {
    case EV_END:
        transferred(e, what, x.extra);
        break;
    case EV_ISSUE:
        issue(e, what);
        break;
    case EV_ARRIVE:
        flow_arrive(e, what, x.extra);
        break;
    case EV_TAKE:
        flow_take(e, what, x.extra);
        break;
    default:
        flow_reduced(e, what, x.extra);
    }
    flow_tell(e);
}

/* ---- what hosts do one at a time ---- */

static void flow_serve(struct tt_sim_engine *e, const struct tt_sim_request *x)
{
    const struct tt_work_op *o = &e->w->op[x->op];
    if (x->kind == EV_ISSUE)
        flow_put(e, tt_sim_host_issue(e, o->rank), EV_ISSUE, o->conn, 0);
    else if (x->kind == EV_TAKE)
        flow_put(e, tt_sim_host_take(e, o->rank), EV_TAKE, x->op, x->segment);
    else
        tt_sim_host_add(e, x, o->rank);
}

static int as_listed(const void *x, const void *y)
{
    const struct tt_sim_request *a = x, *b = y;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return a->segment < b->segment ? -1 : a->segment > b->segment;
}

/* Of what became ready at one moment, a host does first what is listed first, whatever the order
 * of events. `serving` holds these requests; `requests` is empty again for later ones. */
static void serve_all(struct tt_sim_engine *e)
{
    struct tt_vec swap = e->serving;
    e->serving = e->requests;
    e->requests = swap;
    e->requests.len = 0;
    if (e->serving.len > 1)
        qsort(e->serving.data, e->serving.len, sizeof(struct tt_sim_request), as_listed);
    for (size_t i = 0; i < e->serving.len && !e->failed; i++)
        flow_serve(e, (const struct tt_sim_request *)e->serving.data + i);
}

/* Errors are flags during a moment and reported at its end. */
static tutti_status trouble(const struct tt_sim_engine *e, struct tutti_error *err)
{
    if (e->failed || e->fluid.failed || e->q.failed)
        return tt_fail_memory(err, "simulation");
    if (e->beyond || e->fluid.beyond)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "the simulated time exceeds 2^62 picoseconds (53 days)");
    return TUTTI_OK;
}

/* What has been done so far; the counters of all segments were set at the start. */
static uint64_t flow_work(const struct tt_sim_engine *e)
{
    return e->r->events + e->fluid.examined + (uint64_t)e->w->nops * e->w->segments / 8;
}

static tutti_status check_work(const struct tt_sim_engine *e, struct tutti_error *err)
{
    uint64_t most = e->in->o->max_work;
    if (!most || flow_work(e) <= most)
        return TUTTI_OK;
    return tt_fail(err, TUTTI_ERR_BUDGET, "simulating it takes more than %llu events",
                   (unsigned long long)most);
}

/* Ends a moment: requests, ports and rates. What starts by that at the same time is a further
 * moment. */
static void flow_settle(struct tt_sim_engine *e)
{
    do {
        tt_sim_port_settle(e);
        flow_tell(e);
    } while (e->asking.len && !e->failed);
    if (e->requests.len)
        serve_all(e);
    tt_sim_sums_settle(e);
    tt_sim_fluid_settle(&e->fluid, e->now, &e->q);
}

/* Invariant: before each moment, all rates are up to date and every end of a transfer is queued. */
static tutti_status flow_run(struct tt_sim_engine *e, struct tutti_error *err)
{
    uint64_t all = (uint64_t)e->w->nmsgs * e->w->segments, next = PROGRESS_EVERY;
    tutti_status st = trouble(e, err);
    while (!st && tt_sim_queue_time(&e->q) != UINT64_MAX) {
        e->now = tt_sim_queue_time(&e->q);
        for (; tt_sim_queue_time(&e->q) == e->now; e->r->events++)
            flow_handle(e, tt_sim_queue_pop(&e->q));
        flow_settle(e);
        st = trouble(e, err);
        if (!st)
            st = check_work(e, err);
        if (e->r->events < next)
            continue;
        next = e->r->events + PROGRESS_EVERY;
        if (!st && !tt_sim_progress(e->in->o, e->arrived, all))
            st = tt_fail(err, TUTTI_ERR_ABORTED, "the simulation was stopped");
    }
    return st;
}

/* Sets all counters and starts what waits for nothing. Counters first: a start may count others
 * down. */
static void start_all(struct tt_sim_engine *e)
{
    const struct tt_work *w = e->w;
    for (uint32_t op = 0; op < w->nops && !e->failed; op++)
        for (uint32_t k = 0; k < w->segments; k++)
            e->left[(size_t)op * w->segments + k] = w->op[op].need;
    for (uint32_t op = 0; op < w->nops && !e->failed; op++)
        for (uint32_t k = 0; k < w->segments && !w->op[op].need; k++)
            flow_start(e, op, k, w->op[op].rank);
    flow_tell(e);
    flow_settle(e);
}

/* Idle time is measured against the end of all ranks. */
static void fill_report(const struct tt_sim_engine *e)
{
    struct tt_sim_report *r = e->r;
    r->effort = flow_work(e);
    for (uint32_t i = 0; i < r->ranks; i++)
        r->time_ps = r->rank[i].end_ps > r->time_ps ? r->rank[i].end_ps : r->time_ps;
    for (uint32_t i = 0; i < r->ranks; i++) {
        const uint64_t *spent = e->host[i].spent;
        r->rank[i].send_ps = spent[TT_BUSY_SEND];
        r->rank[i].recv_ps = spent[TT_BUSY_RECV];
        r->rank[i].reduce_ps = spent[TT_BUSY_REDUCE];
        r->rank[i].idle_ps = r->time_ps - spent[TT_BUSY_ANY];
    }
}

static tutti_status engine_open(struct tt_sim_engine *e, struct tutti_error *err)
{
    size_t nodes, ranks = e->in->t->ranks;
    tt_sim_queue_open(&e->q);
    e->done.elem = sizeof(struct tt_done);
    e->requests.elem = e->serving.elem = sizeof(struct tt_sim_request);
    e->gamma_ps = e->in->t->gamma * 1e12;
    if (__builtin_mul_overflow((size_t)e->w->nops, (size_t)e->w->segments, &nodes))
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "%u operations of %u segments are too many to simulate", e->w->nops,
                       e->w->segments);
    e->left = tt_alloc(nodes + 1, sizeof *e->left);
    e->host = tt_zalloc(ranks, sizeof *e->host);
    e->stream = tt_zalloc((size_t)e->w->nconns + 1, sizeof *e->stream);
    if (!e->left || !e->host || !e->stream)
        return tt_fail_memory(err, "simulation");
    for (uint32_t i = 0; i < e->w->nconns; i++)
        e->stream[i].next = e->w->msg[e->w->conn[i].first].send;
    tutti_status st = tt_sim_ports_open(e, err);
    if (!st)
        st = tt_sim_sums_open(e, err);
    return st ? st : tt_sim_fluid_open(&e->fluid, e->in, e->r, err);
}

static void engine_close(struct tt_sim_engine *e)
{
    free(e->left);
    free(e->host);
    free(e->stream);
    tt_vec_free(&e->done);
    tt_vec_free(&e->requests);
    tt_vec_free(&e->serving);
    tt_sim_ports_close(e);
    tt_sim_sums_close(e);
    tt_sim_queue_close(&e->q);
    tt_sim_fluid_close(&e->fluid);
}

tutti_status tt_sim_flow_run(const struct tt_sim_input *in, struct tt_sim_report *r,
                             struct tutti_error *err)
{
    struct tt_sim_engine e = {.in = in, .w = in->w, .r = r, .cause = TT_WORK_NONE};
    tutti_status st = engine_open(&e, err);
    if (!st) {
        start_all(&e);
        st = flow_run(&e, err);
    }
    /* An empty queue with operations left means that they wait for each other. */
    if (!st && e.finished != (uint64_t)in->w->nops * in->w->segments)
        st = tt_fail(err, TUTTI_ERR_MISMATCH,
                     "the schedule comes to a halt: %llu of %llu operations are never done",
                     (unsigned long long)((uint64_t)in->w->nops * in->w->segments - e.finished),
                     (unsigned long long)in->w->nops * in->w->segments);
    if (!st)
        fill_report(&e);
    engine_close(&e);
    return st;
}
