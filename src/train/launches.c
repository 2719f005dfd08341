/* launches.c - the policy's launches as persistent requests, and for every tensor the launches that
 * wait for it.
 *
 * Where the update needs something of all gradients (their norm, or which of them any rank used),
 * one more launch, the gate, follows the last one that reduces: a sum over all ranks of one number
 * for the norm and one per tensor. It starts when everything before it is complete, and no update
 * happens before the gate is complete.
 *
 *     reduce-scatter 2, 1, 0 | gate | all-gather 0, 1, 2      (dear-sharded with clipping)
 *
 * With redundancy each reduce-scatter is followed by a copy: every rank hands the mean of its block
 * to the next rank, which updates its copy of the state with it. A copy comes behind the next
 * reduce-scatter, so that the wire is not idle while its own one ends. The gate then decides that
 * the step counts: whoever has passed it knows that two ranks have every mean.
 *
 *     check | reduce-scatter 2, 1, copy 2, reduce-scatter 0, copy 1, 0 | gate | all-gather 0, 1, 2
 *
 * Elastic trainers begin with the check: every rank's fingerprint of the parameters before this
 * step, compared before anything else of the step is communicated. It starts with the first
 * gradient, so that it is usually over when a bucket is full. */
#include <assert.h>
#include <stdlib.h>

#include "train/train_int.h"

static bool wants_gate(const struct tt_trainer *t)
{
    return t->options.clip_norm > 0 || t->options.allow_unused || t->options.redundancy;
}

/* The place after the last launch that reduces gradients; all later ones only gather. */
static uint32_t gate_place(const struct tt_policy *p)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < p->nlaunches; k++)
        at = p->launches[k].coll != TUTTI_ALL_GATHER ? k + 1 : at;
    return at;
}

/* Adds a launch that is none of the policy's; its index. */
static uint32_t add_own(struct tt_trainer *t, uint32_t n, tutti_coll coll, bool check)
{
    t->launches[n] = (struct tt_launch){
        .gate = !check, .check = check, .l = {.coll = coll, .needs_launch = TT_NO_LAUNCH}};
    return n;
}

/* Adds the copy of what launch k of the policy reduces, if there is to be one; the next index. */
static uint32_t add_copy(struct tt_trainer *t, uint32_t n, uint32_t k, const uint32_t *places)
{
    const struct tt_policy *p = t->policy;
    if (!t->options.redundancy || k >= p->nlaunches || p->launches[k].coll != TUTTI_REDUCE_SCATTER)
        return n;
    t->launches[n] = (struct tt_launch){.copy = true,
                                        .l = {.coll = TUTTI_ALL_TO_ALL,
                                              .bucket = p->launches[k].bucket,
                                              .needs_launch = places[k]}};
    return n + 1;
}

/* Launch k of the policy becomes launch n. */
static void add_planned(struct tt_trainer *t, uint32_t n, uint32_t k, uint32_t *places)
{
    struct tt_launch *x = &t->launches[n];
    x->l = t->policy->launches[k];
    if (x->l.needs_launch != TT_NO_LAUNCH)
        x->l.needs_launch = places[x->l.needs_launch];
    assert(t->gate != TT_NO_LAUNCH || !wants_gate(t) || x->l.needs_launch == TT_NO_LAUNCH);
    x->needs = x->l.coll == TUTTI_ALL_GATHER ? 0 : x->l.needs_last - x->l.needs_first + 1;
    if (x->l.coll != TUTTI_ALL_GATHER)
        t->buckets[x->l.bucket].reduce = n;
    t->buckets[x->l.bucket].last = places[k] = n;
}

/* The policy's launches behind the check, with copies and the gate among them. `places`: where each
 * of the policy's launches is. */
static void launches_list(struct tt_trainer *t, uint32_t *places)
{
    const struct tt_policy *p = t->policy;
    uint32_t n = 0, gate = wants_gate(t) ? gate_place(p) : TT_NO_LAUNCH;
    if (t->options.elastic) {
        t->check = add_own(t, n++, TUTTI_ALL_GATHER, true);
        t->launches[t->check].needs = 1; /* the first gradient that is handed over */
    }
    for (uint32_t k = 0; k <= p->nlaunches; k++) {
        if (k == gate) {
            n = k ? add_copy(t, n, k - 1, places) : n;
            t->gate = add_own(t, n, TUTTI_ALLREDUCE, false);
            n++;
        }
        if (k == p->nlaunches)
            break;
        add_planned(t, n++, k, places);
        n = k && k < gate ? add_copy(t, n, k - 1, places) : n;
    }
    t->nlaunches = n;
}

/* Fills users[first_user..first_user + nusers) of each tensor, in two rounds over the launches:
 * count, then fill. */
static tutti_status invert(struct tt_trainer *t, struct tutti_error *err)
{
    size_t all = 0;
    uint32_t first = t->check == TT_NO_LAUNCH ? 0 : t->check + 1;
    for (uint32_t k = first; k < t->nlaunches; k++)
        for (uint32_t i = 0; i < t->launches[k].needs; i++, all++)
            t->tensors[t->launches[k].l.needs_first + i].nusers++;
    t->users = tt_alloc(all ? all : 1, sizeof *t->users);
    if (!t->users || all > UINT32_MAX)
        return tt_fail_memory(err, "launches of tensors");
    for (uint32_t i = 0, at = 0; i < t->ntensors; i++) {
        t->tensors[i].first_user = at;
        at += t->tensors[i].nusers;
        t->tensors[i].nusers = 0;
    }
    for (uint32_t k = first; k < t->nlaunches; k++)
        for (uint32_t i = 0; i < t->launches[k].needs; i++) {
            struct tt_tensor *x = &t->tensors[t->launches[k].l.needs_first + i];
            t->users[x->first_user + x->nusers++] = k;
        }
    return TUTTI_OK;
}

/* Blocks to and from every rank, of which two have a length. */
static tutti_status make_copy(struct tt_trainer *t, struct tt_launch *x, struct tutti_error *err)
{
    const struct tt_bucket *b = &t->buckets[x->l.bucket];
    const struct tt_held *h = &b->held;
    size_t n = t->ranks, *all = tt_zalloc(3 * n, sizeof *all);
    if (!all)
        return tt_fail_memory(err, "blocks");
    struct tt_blocks blocks = {all, all + n, all + 2 * n, all + n};
    all[(t->rank + 1) % n] = n > 1 ? h->own.count : 0;
    all[2 * n + (t->rank + n - 1) % n] = n > 1 ? h->ward.count : 0;
    struct tt_call c = {.coll = TUTTI_ALL_TO_ALL,
                        .in = t->means + b->at + h->own.first * b->elem_bytes,
                        .out = t->means + b->at + h->ward.first * b->elem_bytes,
                        .blocks = &blocks,
                        .dtype = b->dtype};
    tutti_status st = tt_comm_request_make(t->comm, &c, &x->request);
    if (st)
        *err = *tt_comm_last_error(t->comm);
    free(all);
    return st;
}

/* In place, unless elastic: a bucket's send and receive memory are the same. Shards gather
 * parameters; other all-gathers (dear) gather averaged gradients. An elastic trainer's gradients
 * are only read, and the own block of their mean is written to its place in `means`. */
static struct tt_call call_of(struct tt_trainer *t, const struct tt_launch *x)
{
    if (x->check)
        return (struct tt_call){.coll = TUTTI_ALL_GATHER,
                                .in = t->elastic.card,
                                .out = t->elastic.cards,
                                .count = countof(t->elastic.card),
                                .dtype = TUTTI_I64};
    if (x->gate)
        return (struct tt_call){.coll = TUTTI_ALLREDUCE,
                                .in = t->gate_data,
                                .out = t->gate_data,
                                .count = (size_t)t->ntensors + 1,
                                .dtype = TUTTI_F64,
                                .redop = TUTTI_SUM};
    const struct tt_bucket *b = &t->buckets[x->l.bucket];
    enum tt_policy_algo algo = t->policy->buckets[x->l.bucket].algo;
    bool gathers = x->l.coll == TUTTI_ALL_GATHER;
    char *at = (gathers && tt_train_sharded(t) ? t->params : t->means) + b->at;
    struct tt_call c = {
        .coll = x->l.coll, .in = at, .out = at, .dtype = b->dtype, .redop = TUTTI_AVG};
    if (t->options.elastic && !gathers)
        c.in = t->grads + b->at;
    if (t->options.elastic && x->l.coll == TUTTI_REDUCE_SCATTER)
        c.out = at + b->held.own.first * b->elem_bytes;
    c.algo = algo == TT_POLICY_AUTO ? NULL : tt_policy_algo_name(algo);
    c.count = b->elems; /* with counts it serves error messages only */
    if (c.coll != TUTTI_ALLREDUCE)
        c.counts = b->counts;
    return c;
}

static tutti_status make_request(struct tt_trainer *t, struct tt_launch *x, struct tutti_error *err)
{
    struct tt_call c = call_of(t, x);
    tutti_status st = tt_comm_request_make(t->comm, &c, &x->request);
    if (st)
        *err = *tt_comm_last_error(t->comm);
    return st;
}

/* The list itself; it stays as it is when an elastic trainer gets other ranks. */
static tutti_status make_list(struct tt_trainer *t, struct tutti_error *err)
{
    size_t most = 2 * (size_t)t->policy->nlaunches + 2;
    uint32_t *places = tt_zalloc(most, sizeof *places);
    t->launches = tt_zalloc(most, sizeof *t->launches);
    t->gate_data = tt_zalloc((size_t)t->ntensors + 1, sizeof *t->gate_data);
    if (t->launches && t->gate_data && places)
        launches_list(t, places);
    free(places);
    if (!t->launches || !t->gate_data || !t->nlaunches)
        return tt_fail_memory(err, "launches");
    /* Before the first step nothing is awaited. */
    for (uint32_t k = 0; k < t->nlaunches; k++)
        atomic_store(&t->launches[k].done, true);
    return invert(t, err);
}

tutti_status tt_train_launches(struct tt_trainer *t, struct tutti_error *err)
{
    tutti_status st = t->launches ? TUTTI_OK : make_list(t, err);
    if (!st && t->options.elastic) {
        free(t->elastic.cards);
        t->elastic.cards = tt_zalloc(t->ranks, sizeof t->elastic.card);
        st = t->elastic.cards ? TUTTI_OK : tt_fail_memory(err, "fingerprints");
    }
    for (uint32_t k = 0; !st && k < t->nlaunches; k++) {
        struct tt_launch *x = &t->launches[k];
        st = x->copy ? make_copy(t, x, err) : make_request(t, x, err);
    }
    return st;
}

void tt_train_launches_unbind(struct tt_trainer *t)
{
    for (uint32_t k = 0; t->launches && k < t->nlaunches; k++) {
        tt_comm_request_free(t->launches[k].request);
        t->launches[k].request = NULL;
    }
}

void tt_train_launches_free(struct tt_trainer *t)
{
    tt_train_launches_unbind(t);
    for (uint32_t i = 0; i < t->ntensors; i++)
        t->tensors[i].nusers = 0;
    free(t->launches);
    free(t->gate_data);
    free(t->users);
    free(t->elastic.cards);
    t->launches = NULL;
    t->gate_data = NULL;
    t->users = NULL;
    t->elastic.cards = NULL;
    t->nlaunches = 0;
}
