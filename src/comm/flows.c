/* flows.c - messages between chosen ranks at the same time, each timed at one end: what probe
 * measures networks with.
 *
 *     flows 0 -> 1 and 2 -> 3, one round:
 *     rank 0  data ------------->            ... answer: stop the clock
 *     rank 1             data --> answer ->
 *     rank 2  data ----->                    ... answer: stop the clock
 *     rank 3       data --> answer --------->
 *
 * A flow is a schedule of two messages: the vector there, its last part back (a short vector as a
 * whole), which the receiver cannot send before it has everything. A pulled flow is the reverse:
 * the last part goes there as a request, the vector comes back. All flows are requests of the
 * communicator's own engine, over the links that its collectives use. Every rank starts all of them
 * in the same order, empty ones where it takes no part, since all ranks must number their requests
 * alike. After that each makes progress independently, so that a flow's time does not depend on
 * when its rank got to the others. */
#include <assert.h>
#include <stdlib.h>

#include "comm/comm_int.h"

enum { ANSWER_PART = 4096 };

struct run {
    const struct tt_flow_set *set;
    struct tt_sched **scheds;
    struct tt_program **programs;
    uint64_t *since; /* start time by flow; 0: not running */
};

/* The rank that begins, and has the clock. */
static uint32_t starter(const struct tt_comm_flow *f)
{
    return f->pulled ? f->to : f->from;
}

/* The vector has two chunks: all but the last 1/4096, and the rest, which is the answer. */
static tutti_status flow_sched(const struct tt_comm *c, const struct tt_comm_flow *f,
                               struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_builder b;
    bool whole = f->bytes <= ANSWER_PART;
    uint32_t *weights = whole ? NULL : tt_alloc(2, sizeof *weights); /* the builder takes it over */
    if (!whole && !weights)
        return tt_fail_memory(err, "flow");
    if (weights) {
        weights[0] = ANSWER_PART - 1;
        weights[1] = 1;
    }
    struct tt_shape shape = {.coll = TUTTI_BROADCAST,
                             .ranks = c->size,
                             .root = starter(f),
                             .chunks = whole ? 1 : 2,
                             .nbufs = TT_BUF_SCRATCH,
                             .segments = 1,
                             .weights = weights,
                             .inplace = true};
    struct tt_span last_in = tt_sched_span_range(TT_BUF_IN, shape.chunks - 1, 1),
                   all_in = tt_sched_span_range(TT_BUF_IN, 0, shape.chunks);
    struct tt_span last = tt_sched_span_range(TT_BUF_OUT, shape.chunks - 1, 1),
                   all = tt_sched_span_range(TT_BUF_OUT, 0, shape.chunks);
    uint32_t other = shape.root == f->from ? f->to : f->from;
    tt_sched_build_begin(&b, &shape, c->rank);
    tt_sched_build_rank(&b, c->rank);
    if (c->rank == shape.root) {
        tt_sched_emit_send(&b, 0, other, 0, f->pulled ? &last_in : &all_in, 1);
        tt_sched_emit_recv(&b, 1, other, 0, f->pulled ? &all : &last, 1);
    } else if (c->rank == other) {
        tt_sched_emit_recv(&b, 0, shape.root, 0, f->pulled ? &last : &all, 1);
        tt_sched_emit_send(&b, 1, shape.root, 0, f->pulled ? &all : &last, 1);
    }
    return tt_sched_build_freeze(&b, ret, err);
}

static tutti_status flows_prepare(const struct tt_comm *c, struct run *r, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint32_t n = r->set->n;
    r->scheds = tt_zalloc(n, sizeof(struct tt_sched *));
    r->programs = tt_zalloc(n, sizeof(struct tt_program *));
    r->since = tt_zalloc(n, sizeof *r->since);
    if (!r->scheds || !r->programs || !r->since)
        return tt_fail_memory(err, "flows");
    for (uint32_t i = 0; !st && i < n; i++) {
        const struct tt_comm_flow *f = &r->set->flows[i];
        assert(f->from != f->to && f->from < c->size && f->to < c->size);
        st = flow_sched(c, f, &r->scheds[i], err);
        if (!st)
            st = tt_exec_program_make(&(struct tt_program_config){.sched = r->scheds[i],
                                                                  .rank = c->rank,
                                                                  .count = f->bytes,
                                                                  .dtype = TUTTI_U8,
                                                                  .redop = TUTTI_SUM},
                                      &r->programs[i], err);
    }
    return st;
}

static void flows_release(struct run *r)
{
    for (uint32_t i = 0; i < r->set->n; i++) {
        if (r->programs)
            tt_exec_program_free(r->programs[i]);
        if (r->scheds)
            tt_sched_free(r->scheds[i]);
    }
    free(r->programs);
    free(r->scheds);
    free(r->since);
}

static struct tt_op_desc flows_describe(const struct tt_comm *c, const struct tt_comm_flow *f)
{
    return (struct tt_op_desc){.comm = c->tag,
                               .seq = c->seq,
                               .coll = TUTTI_BROADCAST,
                               .count = f->bytes,
                               .root = starter(f),
                               .busy = TT_OP_COLL};
}

/* One start time for all: starting a flow already sends and may take a while. */
static tutti_status start_all(struct tt_comm *c, struct run *r, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint64_t now = tt_now_ns();
    for (uint32_t i = 0; !st && i < r->set->n; i++) {
        const struct tt_comm_flow *f = &r->set->flows[i];
        struct tt_op_desc op = flows_describe(c, f);
        struct tt_start s = {.program = r->programs[i],
                             .in = r->set->data,
                             .out = r->set->data,
                             .fingerprint = tt_mix64(f->bytes ^ ((uint64_t)f->from << 32 | f->to))};
        r->since[i] = now;
        st = tt_comm_start(c, &s, &op);
    }
    return st ? tt_fail(err, st, "%s", c->last.text) : TUTTI_OK;
}

/* Records the flows that have ended; returns how many are still running. *ret_bad becomes one that
 * failed, if any; the caller sets it to the set's n before. */
static uint32_t sweep(struct tt_comm *c, struct run *r, uint64_t *best, uint32_t *ret_bad)
{
    struct tutti_error err;
    uint32_t left = 0;
    for (uint32_t i = 0; i < r->set->n; i++) {
        if (!r->since[i])
            continue;
        tutti_status st = tt_exec_engine_test(c->engine, r->programs[i], &err);
        if (st) {
            left++;
            *ret_bad = st == TUTTI_IN_PROGRESS ? *ret_bad : i;
            continue;
        }
        uint64_t ns = tt_now_ns() - r->since[i];
        r->since[i] = 0;
        if (starter(&r->set->flows[i]) == c->rank && (!best[i] || ns < best[i]))
            best[i] = ns + !ns;
    }
    return left;
}

static uint32_t first_running(const struct run *r)
{
    uint32_t i = 0;
    while (i + 1 < r->set->n && !r->since[i])
        i++;
    return i;
}

/* Polls until all have ended. For a flow that fails or takes too long, the ordinary wait finds out
 * which rank is to blame. */
static tutti_status finish_all(struct tt_comm *c, struct run *r, uint64_t *best,
                               struct tutti_error *err)
{
    struct tt_waiting w;
    uint32_t bad = r->set->n;
    tt_comm_waiting_call(c, 0, &w);
    while (sweep(c, r, best, &bad)) {
        tutti_status st = bad < r->set->n ? TUTTI_ERR_TIMEOUT : tt_comm_round(c, &w);
        if (st == TUTTI_ERR_TIMEOUT) {
            uint32_t i = bad < r->set->n ? bad : first_running(r);
            struct tt_op_desc op = flows_describe(c, &r->set->flows[i]);
            st = tt_comm_finish(c, r->programs[i], &op);
            w.since_ns = w.idle = 0;
        }
        if (st)
            return tt_fail(err, st, "%s", c->last.text);
    }
    return TUTTI_OK;
}

tutti_status tt_comm_flows(struct tt_comm *c, const struct tt_flow_set *set, uint64_t *ret_ns,
                           struct tutti_error *err)
{
    struct run r = {.set = set};
    tt_comm_lock(c);
    tutti_status st = tt_comm_verdict(c);
    for (uint32_t i = 0; i < set->n; i++)
        ret_ns[i] = 0;
    if (st)
        tt_fail(err, st, "%s", c->last.text);
    if (!st)
        st = flows_prepare(c, &r, err);
    for (uint32_t k = 0; !st && k < set->rounds; k++) {
        st = start_all(c, &r, err);
        if (!st)
            st = finish_all(c, &r, ret_ns, err);
    }
    flows_release(&r);
    tt_comm_unlock(c);
    return st;
}

void tt_comm_place(const struct tt_comm *c, uint32_t rank, struct tt_comm_place *ret)
{
    assert(rank < c->size);
    const struct tt_boot_peer *peer = &tt_boot_peers(c->world->boot)[c->members[rank]];
    *ret = (struct tt_comm_place){.host_id = tt_comm_apart(&c->config) ? rank : peer->host_id,
                                  .host = peer->host};
}
