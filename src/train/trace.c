/* trace.c - what a trainer adds to TUTTI_TRACE: its steps, launches and waits while it runs, and
 * once, at freezing, what it launches and how the policy's timeline has planned a step.
 *
 *     | step 1 ............................... | step 2 ............
 *       forward     |first gradient ... step()|
 *       exposed  ..                        ...   waits of the training loop
 *       launches ......    ........................
 *
 * A step ends where step() returns; compute is what is left of it without the waits. */
#include "train/train_int.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the plan ---- */

static enum tt_record_span_kind span_kind(enum tt_span_kind k)
{
    switch (k) {
    case TT_SPAN_BACKWARD:
        return TT_RECORD_SPAN_BACKWARD;
    case TT_SPAN_FORWARD:
        return TT_RECORD_SPAN_FORWARD;
    case TT_SPAN_UPDATE:
        return TT_RECORD_SPAN_UPDATE;
    case TT_SPAN_LAUNCH:
        break;
    }
    return TT_RECORD_SPAN_LAUNCH;
}

/* Spans of compute that follow each other without a gap become one. Launches are sorted among them
 * by their start, so that the last span of each kind is looked for. */
static bool join_span(struct tt_record_trainer *r, const struct tt_record_span *s)
{
    for (uint32_t i = r->nspans; s->kind != TT_RECORD_SPAN_LAUNCH && i-- > 0;)
        if (r->span[i].kind == s->kind) {
            const bool joined = r->span[i].end_ps == s->start_ps;
            r->span[i].end_ps = joined ? s->end_ps : r->span[i].end_ps;
            return joined;
        }
    return false;
}

static void take_spans(const struct tt_trainer *t, struct tt_record_trainer *r)
{
    const struct tt_policy_span *spans = t->spans;
    const size_t n = t->nspans;
    const uint32_t check = t->check != TT_NO_LAUNCH;
    r->stepped_ps = t->times.backward_ps;
    for (size_t i = n; t->policy->wait_at_step && i-- > 0;)
        r->stepped_ps = spans[i].kind == TT_SPAN_FORWARD ? spans[i].start_ps : r->stepped_ps;
    for (size_t i = 0; i < n && r->nspans < TT_RECORD_MOST_SPANS; i++) {
        const uint32_t k = spans[i].index;
        struct tt_record_span s = {.kind = (uint8_t)span_kind(spans[i].kind),
                                   .start_ps = spans[i].start_ps,
                                   .end_ps = spans[i].end_ps};
        if (s.kind == TT_RECORD_SPAN_LAUNCH) /* check and gate are not of the policy */
            s.index = k + check + (t->gate != TT_NO_LAUNCH && k + check >= t->gate);
        if (!join_span(r, &s))
            r->span[r->nspans++] = s;
    }
}

static void take_launches(const struct tt_trainer *t, struct tt_record_trainer *r)
{
    struct tt_train_launch l;
    for (uint32_t k = 0; k < TT_RECORD_LAUNCHES && tt_train_start_launch(t, k, &l); k++) {
        struct tt_record_launch *x = &r->launch[r->nlaunches++];
        x->bytes = l.bytes;
        x->coll = (uint8_t)l.coll;
        snprintf(x->first, sizeof x->first, "%s", l.first);
        snprintf(x->last, sizeof x->last, "%s", l.last);
        snprintf(x->algo, sizeof x->algo, "%s", l.algo);
    }
}

/* Where memory is short the trace has no plan; training goes on. */
void tt_train_trace_freeze(struct tt_trainer *t)
{
    if (!tt_comm_traced(t->comm))
        return;
    struct tt_record_trainer r = {.launch = tt_zalloc(t->nlaunches + 1, sizeof *r.launch),
                                  .span = tt_zalloc(t->nspans + 1, sizeof *r.span)};
    snprintf(r.policy, sizeof r.policy, "%s", tt_policy_name(t->policy->options.kind));
    const bool known = t->times.forward_ps || t->times.backward_ps; /* by a profile */
    if (known) {
        r.iteration_ps = t->times.iteration_ps;
        r.forward_ps = t->times.forward_ps;
        r.backward_ps = t->times.backward_ps;
        r.exposed_ps = t->times.exposed_ps;
    }
    if (r.launch)
        take_launches(t, &r);
    if (known && r.span)
        take_spans(t, &r);
    tt_comm_trace_trainer(t->comm, &r);
    free(t->spans);
    t->spans = NULL;
    t->nspans = 0;
    t->step_ns = tt_now_ns();
}

/* ---- steps ---- */

static void trace_note(struct tt_trainer *t, enum tt_record_kind kind, uint64_t from_ns,
                       uint64_t to_ns)
{
    assert(from_ns <= to_ns);
    tt_comm_trace_note(t->comm, (struct tt_record_event){.start_ns = from_ns,
                                                         .end_ns = to_ns,
                                                         .seq = (uint32_t)t->steps,
                                                         .kind = (uint8_t)kind});
}

/* A step begins with its first gradient, after what the step before has left was settled. */
void tt_train_trace_begin(struct tt_trainer *t)
{
    t->first_ns = tt_comm_traced(t->comm) ? tt_now_ns() : 0;
}

/* step() was called. */
void tt_train_trace_gradients(struct tt_trainer *t)
{
    if (t->first_ns)
        trace_note(t, TT_RECORD_GRADIENTS, t->first_ns, tt_now_ns());
    t->first_ns = 0;
}

void tt_train_trace_step(struct tt_trainer *t)
{
    if (!t->step_ns)
        return;
    const uint64_t now = tt_now_ns();
    trace_note(t, TT_RECORD_STEP, t->step_ns, now);
    t->step_ns = now;
}

/* A launch, or a wait for it, that began at from_ns and ends now. */
static void trace_launch(struct tt_trainer *t, enum tt_record_kind kind, uint32_t k,
                         uint64_t from_ns)
{
    const struct tt_launch *x = &t->launches[k];
    tt_comm_trace_note(t->comm, (struct tt_record_event){.start_ns = from_ns,
                                                         .end_ns = tt_now_ns(),
                                                         .bytes = tt_train_launch_bytes(t, x),
                                                         .seq = (uint32_t)t->steps,
                                                         .message = k,
                                                         .kind = (uint8_t)kind,
                                                         .coll = (uint8_t)x->l.coll});
}

void tt_train_trace_launch(struct tt_trainer *t, uint32_t k)
{
    if (tt_comm_traced(t->comm))
        trace_launch(t, TT_RECORD_LAUNCH, k, atomic_load(&t->launches[k].start_ns));
}

void tt_train_trace_wait(struct tt_trainer *t, uint32_t k, uint64_t since_ns)
{
    if (tt_comm_traced(t->comm))
        trace_launch(t, TT_RECORD_EXPOSED, k, since_ns);
}
