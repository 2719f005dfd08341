/* timeline.c - the predicted times of one step: backward from 0, launches on their stream, then the
 * next forward.
 *
 * Invariants: launches start in their order, one at a time, never before their gradients, the
 * launch or the forward they need; a tensor's forward begins when all launches of the buckets that
 * hold it have ended. A launch that needs the forward of some tensor is only run when a later
 * tensor waits for it, so one pass over the tensors that runs launches as they are waited for is
 * enough. */
#include "policy/policy_int.h"

#include <assert.h>
#include <stdlib.h>

struct run {
    const struct tt_policy *p;
    const struct tt_policy_tensor *t;
    const struct tt_policy_costs *costs;
    uint64_t *ready;    /* by tensor: its gradient */
    uint64_t *begun;    /* by tensor: its forward */
    uint64_t *ended;    /* by launch */
    uint32_t *last;     /* by bucket: the launch that completes it */
    uint32_t head;      /* next launch */
    uint64_t stream_ps; /* free from then on */
    uint64_t now_ps, update_ps;
    struct tt_vec *spans; /* NULL: not wanted */
    bool failed;          /* out of memory */
};

static void timeline_note(struct run *r, enum tt_span_kind kind, uint32_t index, uint64_t start_ps,
                          uint64_t end_ps)
{
    struct tt_policy_span s = {kind, index, start_ps, end_ps};
    if (r->spans && end_ps > start_ps && !tt_vec_push(r->spans, &s, 1))
        r->failed = true;
}

static uint64_t timeline_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void run_backward(struct run *r)
{
    for (uint32_t i = r->p->ntensors; i-- > 0;) {
        uint64_t start = r->now_ps;
        r->now_ps += r->t[i].backward_ps;
        r->ready[i] = r->now_ps;
        timeline_note(r, TT_SPAN_BACKWARD, i, start, r->now_ps);
    }
}

/* When the launch that l needs is over, with the update of the shard that follows it. */
static uint64_t needed_launch_end(struct run *r, const struct tt_policy_launch *l)
{
    if (l->needs_launch == TT_NO_LAUNCH)
        return 0;
    assert(l->needs_launch < r->head);
    uint64_t end = r->ended[l->needs_launch];
    if (r->p->update != TT_UPDATE_SHARD)
        return end;
    uint64_t update =
        tt_policy_update_ps(r->costs, r->p->buckets[l->bucket].bytes) / r->costs->ranks;
    timeline_note(r, TT_SPAN_UPDATE, l->bucket, end, end + update);
    return end + update;
}

/* Runs the launch at the head of the stream. */
static void run_launch(struct run *r)
{
    assert(r->head < r->p->nlaunches);
    const struct tt_policy_launch *l = &r->p->launches[r->head];
    /* Gradients become ready from the last to the first. */
    uint64_t start = timeline_later(r->stream_ps, r->ready[l->needs_first]);
    start = timeline_later(start, needed_launch_end(r, l));
    if (l->needs_forward != TT_NO_LAUNCH)
        start = timeline_later(start, r->begun[l->needs_forward]);
    assert(start >= r->stream_ps);
    r->ended[r->head] = r->stream_ps = start + l->cost_ps;
    timeline_note(r, TT_SPAN_LAUNCH, r->head, start, r->stream_ps);
    r->head++;
}

/* Runs the stream up to `launch` and moves the clock to its end. */
static void wait_launch(struct run *r, uint32_t launch)
{
    while (r->head <= launch)
        run_launch(r);
    r->now_ps = timeline_later(r->now_ps, r->ended[launch]);
}

/* An update that the forward pass or the step waits for. */
static void timeline_update(struct run *r, uint32_t bucket, uint64_t bytes)
{
    uint64_t start = r->now_ps, took = tt_policy_update_ps(r->costs, bytes);
    r->now_ps += took;
    r->update_ps += took;
    timeline_note(r, TT_SPAN_UPDATE, bucket, start, r->now_ps);
}

/* b counts the buckets that have been waited for: those that begin at or before tensor i. */
static void run_forward(struct run *r)
{
    const struct tt_policy *p = r->p;
    for (uint32_t i = 0, b = 0; i < p->ntensors; i++) {
        uint32_t from = b;
        for (; b < p->nbuckets && p->buckets[b].first <= i; b++)
            wait_launch(r, r->last[b]);
        r->begun[i] = r->now_ps;
        for (uint32_t k = from; p->update == TT_UPDATE_FORWARD && k < b; k++)
            timeline_update(r, k, p->buckets[k].bytes);
        uint64_t start = r->now_ps;
        r->now_ps += r->t[i].forward_ps;
        timeline_note(r, TT_SPAN_FORWARD, i, start, r->now_ps);
    }
    assert(r->head == p->nlaunches);
}

/* The formulas of ideal_ps in policy.h. */
static uint64_t ideal(enum tt_policy_kind k, const struct tt_policy_times *x)
{
    uint64_t ff = x->forward_ps, bp = x->backward_ps, c = x->comm_ps;
    if (k == TT_POLICY_SYNC)
        return ff + bp + c;
    if (tt_policy_is_dear(k))
        return timeline_later(ff, c / 2) + timeline_later(bp, c - c / 2);
    return k == TT_POLICY_BYTESCHEDULER ? timeline_later(c, ff + bp) : ff + timeline_later(bp, c);
}

static void sum_up(const struct run *r, struct tt_policy_times *ret)
{
    uint64_t bytes = 0;
    *ret = (struct tt_policy_times){.iteration_ps = r->now_ps, .update_ps = r->update_ps};
    for (uint32_t i = 0; i < r->p->ntensors; i++) {
        bytes += r->t[i].bytes;
        ret->forward_ps += r->t[i].forward_ps;
        ret->backward_ps += r->t[i].backward_ps;
    }
    for (uint32_t i = 0; i < r->p->nlaunches; i++)
        ret->stream_ps += r->p->launches[i].cost_ps;
    ret->comm_ps = tt_policy_comm(&r->p->options, r->costs, bytes);
    assert(ret->iteration_ps >= ret->forward_ps + ret->backward_ps + ret->update_ps);
    ret->exposed_ps = ret->iteration_ps - ret->forward_ps - ret->backward_ps - ret->update_ps;
    ret->ideal_ps = ideal(r->p->options.kind, ret);
    ret->limit_ps = timeline_later(ret->comm_ps, ret->forward_ps + ret->backward_ps);
}

/* The last launch of a bucket in launch order completes it. */
static tutti_status open_run(struct run *r, struct tutti_error *err)
{
    r->ready = tt_zalloc(r->p->ntensors, sizeof *r->ready);
    r->begun = tt_zalloc(r->p->ntensors, sizeof *r->begun);
    r->ended = tt_zalloc(r->p->nlaunches, sizeof *r->ended);
    r->last = tt_zalloc(r->p->nbuckets, sizeof *r->last);
    if (!r->ready || !r->begun || !r->ended || !r->last)
        return tt_fail_memory(err, "timeline");
    for (uint32_t i = 0; i < r->p->nlaunches; i++)
        r->last[r->p->launches[i].bucket] = i;
    return TUTTI_OK;
}

/* Ties by kind and index: the order is the same on every machine. */
static int by_start(const void *x, const void *y)
{
    const struct tt_policy_span *a = x, *b = y;
    if (a->start_ps != b->start_ps)
        return a->start_ps < b->start_ps ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void run_step(struct run *r)
{
    run_backward(r);
    if (r->p->wait_at_step) {
        wait_launch(r, r->p->nlaunches - 1);
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < r->p->ntensors; i++)
            bytes += r->t[i].bytes;
        timeline_update(r, TT_NO_LAUNCH, bytes);
    }
    run_forward(r);
}

/* Without ret_spans nothing is recorded: the search calls this for every candidate. */
tutti_status tt_policy_time(const struct tt_policy *p, const struct tt_policy_tensor *tensors,
                            const struct tt_policy_costs *costs, struct tt_policy_times *ret,
                            struct tt_policy_span **ret_spans, size_t *ret_nspans,
                            struct tutti_error *err)
{
    struct tt_vec spans = {.elem = sizeof(struct tt_policy_span)};
    struct run r = {.p = p, .t = tensors, .costs = costs, .spans = ret_spans ? &spans : NULL};
    tutti_status st = open_run(&r, err);
    if (!st) {
        run_step(&r);
        sum_up(&r, ret);
        st = r.failed ? tt_fail_memory(err, "timeline") : TUTTI_OK;
    }
    if (!st && ret_spans) {
        if (spans.len > 0)
            qsort(spans.data, spans.len, sizeof(struct tt_policy_span), by_start);
        *ret_spans = spans.data;
        *ret_nspans = spans.len;
        spans.data = NULL;
    }
    tt_vec_free(&spans);
    free(r.ready);
    free(r.begun);
    free(r.ended);
    free(r.last);
    return st;
}
