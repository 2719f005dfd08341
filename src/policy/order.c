/* order.c - the launches of a policy and their order.
 *
 * Policies that wait at the end of the step launch buckets as they become ready: from the last to
 * the first. The others may choose:
 *
 *   next use   whenever the stream is free, the ready launch whose bucket the next forward pass
 *              needs first. Buckets have deadlines in their own order, and serving the earliest
 *              deadline first minimises the largest lateness (exactly so if launches could be
 *              interrupted). There is no barrier: an all-gather may run before the last
 *              reduce-scatter.
 *   patient    the same, but no all-gather starts that would still run when the gradients of
 *              bucket 0 become ready: everything waits for that bucket.
 *   two phase  all reduce-scatters as they become ready, then all all-gathers by next use: DeAR.
 *
 * The order is found once, from predicted times, and then fixed. Gradients become ready from the
 * last bucket to the first, so the most urgent ready bucket is always the latest one: waiting
 * reduce-scatters are a stack. So are waiting all-gathers, except those whose update is not done
 * yet; these are inserted in order.
 *
 * Invariant of the search: `waiting` holds ready first-phase launches and `gathers` pending
 * all-gathers, both with the most urgent on top. */
#include "policy/policy_int.h"

#include <assert.h>
#include <stdlib.h>

struct gather {
    uint32_t bucket;
    uint64_t from_ps; /* may not start earlier */
};

struct search {
    struct tt_policy *p;
    const struct tt_policy_input *in;
    uint64_t *ready;   /* by bucket: when all its gradients are */
    uint32_t *waiting; /* stack */
    struct gather *gathers;
    uint32_t nwaiting, ngathers;
    uint32_t next;     /* buckets below this one are not ready yet */
    uint32_t *scatter; /* by bucket: its reduce-scatter's launch */
    uint64_t now;
};

static uint64_t cost_of(const struct tt_policy_input *in, const struct tt_policy_bucket *b,
                        tutti_coll coll)
{
    return in->costs->cost(in->costs->ctx, coll, b->algo, b->bytes);
}

/* The time between a bucket's reduce-scatter and its all-gather. */
static uint64_t shard_update(const struct search *s, uint32_t bucket)
{
    uint64_t all = tt_policy_update_ps(s->in->costs, s->p->buckets[bucket].bytes);
    return s->p->update == TT_UPDATE_SHARD ? all / s->in->costs->ranks : 0;
}

/* Appends the launch of a bucket's all-reduce or reduce-scatter; returns its cost. */
static uint64_t put_first(struct search *s, uint32_t bucket)
{
    struct tt_policy *p = s->p;
    const struct tt_policy_bucket *b = &p->buckets[bucket];
    bool sync = p->options.kind == TT_POLICY_SYNC;
    struct tt_policy_launch l = {.bucket = bucket,
                                 .coll = b->decoupled ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE,
                                 .needs_first = sync ? 0 : b->first,
                                 .needs_last = sync ? p->ntensors - 1 : b->last,
                                 .needs_launch = TT_NO_LAUNCH,
                                 .needs_forward = TT_NO_LAUNCH,
                                 .before_forward = p->wait_at_step ? 0 : b->first};
    l.cost_ps = cost_of(s->in, b, l.coll);
    assert(bucket < p->nbuckets && p->nlaunches < 2 * p->nbuckets);
    s->scatter[bucket] = p->nlaunches;
    p->launches[p->nlaunches++] = l;
    return l.cost_ps;
}

/* Appends the launch of a bucket's all-gather; returns its cost. */
static uint64_t put_gather(struct search *s, uint32_t bucket)
{
    struct tt_policy *p = s->p;
    const struct tt_policy_bucket *b = &p->buckets[bucket];
    uint32_t ahead = p->options.lookahead;
    bool bound = p->options.order == TT_ORDER_PUBLISHED && bucket > 0;
    struct tt_policy_launch l = {.bucket = bucket,
                                 .coll = TUTTI_ALL_GATHER,
                                 .needs_first = b->first,
                                 .needs_last = b->last,
                                 .needs_launch = s->scatter[bucket],
                                 .needs_forward =
                                     bound ? p->buckets[bucket > ahead ? bucket - ahead : 0].first
                                           : TT_NO_LAUNCH,
                                 .before_forward = b->first};
    l.cost_ps = cost_of(s->in, b, l.coll);
    p->launches[p->nlaunches++] = l;
    return l.cost_ps;
}

/* Keeps the most urgent (lowest) bucket on top. */
static void insert_gather(struct search *s, uint32_t bucket, uint64_t from_ps)
{
    assert(s->ngathers < s->p->nbuckets);
    uint32_t i = s->ngathers++;
    for (; i > 0 && s->gathers[i - 1].bucket < bucket; i--)
        s->gathers[i] = s->gathers[i - 1];
    s->gathers[i] = (struct gather){bucket, from_ps};
}

/* Moves buckets whose gradients are ready by now to the stack. */
static void take_ready(struct search *s)
{
    while (s->next > 0 && s->ready[s->next - 1] <= s->now)
        s->waiting[s->nwaiting++] = --s->next;
    assert(s->nwaiting + s->next <= s->p->nbuckets);
}

static void do_first(struct search *s)
{
    assert(s->nwaiting > 0);
    uint32_t b = s->waiting[--s->nwaiting];
    s->now += put_first(s, b);
    if (s->p->buckets[b].decoupled)
        insert_gather(s, b, s->now + shard_update(s, b));
}

static void do_gather(struct search *s)
{
    assert(s->ngathers > 0 && s->gathers[s->ngathers - 1].from_ps <= s->now);
    s->now += put_gather(s, s->gathers[--s->ngathers].bucket);
}

/* Nothing can start: move to the time when something can. */
static void pass_time(struct search *s)
{
    uint64_t then = UINT64_MAX;
    if (s->next > 0)
        then = s->ready[s->next - 1];
    for (uint32_t i = 0; i < s->ngathers; i++)
        if (s->gathers[i].from_ps > s->now && s->gathers[i].from_ps < then)
            then = s->gathers[i].from_ps;
    assert(then != UINT64_MAX && then > s->now);
    s->now = then;
}

/* Is the update done, and, with order patient, would it end before bucket 0 is ready? */
static bool may_gather(const struct search *s, const struct gather *g)
{
    if (g->from_ps > s->now)
        return false;
    bool patient = s->p->options.order == TT_ORDER_PATIENT && s->next > 0;
    return !patient ||
           s->now + cost_of(s->in, &s->p->buckets[g->bucket], TUTTI_ALL_GATHER) <= s->ready[0];
}

/* Each round launches something or moves the clock to an event, so the loop ends. */
static void by_next_use(struct search *s)
{
    while (s->next > 0 || s->nwaiting > 0 || s->ngathers > 0) {
        take_ready(s);
        const struct gather *g = s->ngathers > 0 ? &s->gathers[s->ngathers - 1] : NULL;
        bool can_gather = g && may_gather(s, g);
        if (s->nwaiting > 0 && !(can_gather && g->bucket < s->waiting[s->nwaiting - 1]))
            do_first(s);
        else if (can_gather)
            do_gather(s);
        else
            pass_time(s);
    }
}

/* Needs no times: backward order first, forward order then. */
static void by_phase(struct search *s)
{
    for (uint32_t b = s->p->nbuckets; b-- > 0;)
        put_first(s, b);
    for (uint32_t b = 0; b < s->p->nbuckets; b++)
        if (s->p->buckets[b].decoupled)
            put_gather(s, b);
}

/* Every cost must exist and the sum stay below TT_POLICY_MOST before the search adds them up.
 * Asking for each once also makes later questions cheap. */
static tutti_status probe_costs(const struct tt_policy *p, const struct tt_policy_input *in,
                                struct tutti_error *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->nbuckets; i++) {
        const struct tt_policy_bucket *b = &p->buckets[i];
        uint64_t first = cost_of(in, b, b->decoupled ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE);
        uint64_t second = b->decoupled ? cost_of(in, b, TUTTI_ALL_GATHER) : 0;
        if (first >= TT_POLICY_MOST - sum || second >= TT_POLICY_MOST - sum - first)
            return tt_fail(err, TUTTI_ERR_REFUSED,
                           "bucket %u (%llu bytes): the cost model gives no time for %s by %s", i,
                           (unsigned long long)b->bytes,
                           b->decoupled ? "reduce-scatter and all-gather" : "allreduce",
                           tt_policy_algo_name(b->algo));
        sum += first + second;
    }
    return TUTTI_OK;
}

tutti_status tt_policy_launches(struct tt_policy *p, const struct tt_policy_input *in,
                                struct tutti_error *err)
{
    uint32_t n = p->nbuckets;
    struct search s = {.p = p, .in = in, .next = n};
    uint64_t *ready = tt_alloc(in->n, sizeof *ready);
    tutti_status st = probe_costs(p, in, err);
    s.ready = tt_alloc(n, sizeof *s.ready);
    s.waiting = tt_alloc(n, sizeof *s.waiting);
    s.gathers = tt_alloc(n, sizeof *s.gathers);
    s.scatter = tt_alloc(n, sizeof *s.scatter);
    if (!st && (!ready || !s.ready || !s.waiting || !s.gathers || !s.scatter))
        st = tt_fail_memory(err, "launches");
    if (!st) {
        p->nlaunches = 0;
        tt_policy_ready(in->t, in->n, ready);
        for (uint32_t b = 0; b < n; b++)
            s.ready[b] = ready[p->buckets[b].first];
        if (p->wait_at_step || p->options.order == TT_ORDER_TWO_PHASE ||
            p->options.order == TT_ORDER_PUBLISHED)
            by_phase(&s);
        else
            by_next_use(&s);
    }
    free(ready);
    free(s.ready);
    free(s.waiting);
    free(s.gathers);
    free(s.scatter);
    return st;
}
