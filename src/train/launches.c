/* launches.c - the policy's launches as persistent requests, and for every tensor the launches that
 * wait for it.
 *
 * Where the update needs something of all gradients (their norm, or which of them any rank used),
 * one more launch, the gate, follows the last one that reduces: a sum over all ranks of one number
 * for the norm and one per tensor. It starts when everything before it is complete, and no update
 * happens before the gate is complete.
 *
 *     reduce-scatter 2, 1, 0 | gate | all-gather 0, 1, 2      (dear-sharded with clipping) */
#include <assert.h>
#include <stdlib.h>

#include "train/train_int.h"

static bool wants_gate(const struct tt_trainer *t)
{
    return t->options.clip_norm > 0 || t->options.allow_unused;
}

/* The place after the last launch that reduces gradients; all later ones only gather. */
static uint32_t gate_place(const struct tt_policy *p)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < p->nlaunches; k++)
        at = p->launches[k].coll != TUTTI_ALL_GATHER ? k + 1 : at;
    return at;
}

/* The policy's launches with the gate among them. Indices at and behind the gate move by one. */
static void launches_list(struct tt_trainer *t)
{
    const struct tt_policy *p = t->policy;
    uint32_t n = 0, gate = wants_gate(t) ? gate_place(p) : TT_NO_LAUNCH;
    t->gate = gate;
    for (uint32_t k = 0; k <= p->nlaunches; k++) {
        if (k == gate)
            t->launches[n++] = (struct tt_launch){
                .gate = true, .l = {.coll = TUTTI_ALLREDUCE, .needs_launch = TT_NO_LAUNCH}};
        if (k == p->nlaunches)
            break;
        struct tt_launch *x = &t->launches[n];
        x->l = p->launches[k];
        if (x->l.needs_launch != TT_NO_LAUNCH && x->l.needs_launch >= gate)
            x->l.needs_launch++;
        assert(gate == TT_NO_LAUNCH || x->l.needs_launch == TT_NO_LAUNCH || n > gate);
        x->needs = x->l.coll == TUTTI_ALL_GATHER ? 0 : x->l.needs_last - x->l.needs_first + 1;
        if (x->l.coll != TUTTI_ALL_GATHER)
            t->buckets[x->l.bucket].reduce = n;
        t->buckets[x->l.bucket].last = n++;
    }
    assert(n == p->nlaunches + (gate != TT_NO_LAUNCH));
    t->nlaunches = n;
}

/* Fills users[first_user..first_user + nusers) of each tensor, in two rounds over the launches:
 * count, then fill. */
static tutti_status invert(struct tt_trainer *t, struct tutti_error *err)
{
    size_t all = 0;
    for (uint32_t k = 0; k < t->nlaunches; k++)
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
    for (uint32_t k = 0; k < t->nlaunches; k++)
        for (uint32_t i = 0; i < t->launches[k].needs; i++) {
            struct tt_tensor *x = &t->tensors[t->launches[k].l.needs_first + i];
            t->users[x->first_user + x->nusers++] = k;
        }
    return TUTTI_OK;
}

/* In place: a bucket's send and receive memory are the same. Shards gather parameters; other
 * all-gathers (dear) gather averaged gradients. */
static struct tt_call call_of(struct tt_trainer *t, const struct tt_launch *x)
{
    if (x->gate)
        return (struct tt_call){.coll = TUTTI_ALLREDUCE,
                                .in = t->gate_data,
                                .out = t->gate_data,
                                .count = (size_t)t->ntensors + 1,
                                .dtype = TUTTI_F64,
                                .redop = TUTTI_SUM};
    const struct tt_bucket *b = &t->buckets[x->l.bucket];
    enum tt_policy_algo algo = t->policy->buckets[x->l.bucket].algo;
    char *at =
        (x->l.coll == TUTTI_ALL_GATHER && tt_train_sharded(t) ? t->params : t->grads) + b->at;
    struct tt_call c = {
        .coll = x->l.coll, .in = at, .out = at, .dtype = b->dtype, .redop = TUTTI_AVG};
    c.algo = algo == TT_POLICY_AUTO ? NULL : tt_policy_algo_name(algo);
    c.count = b->elems; /* with counts it serves error messages only */
    if (c.coll != TUTTI_ALLREDUCE)
        c.counts = b->counts;
    return c;
}

tutti_status tt_train_launches(struct tt_trainer *t, struct tutti_error *err)
{
    t->launches = tt_zalloc((size_t)t->policy->nlaunches + 1, sizeof *t->launches);
    t->gate_data = tt_zalloc((size_t)t->ntensors + 1, sizeof *t->gate_data);
    if (!t->launches || !t->gate_data)
        return tt_fail_memory(err, "launches");
    launches_list(t);
    tutti_status st = invert(t, err);
    for (uint32_t k = 0; !st && k < t->nlaunches; k++) {
        struct tt_call c = call_of(t, &t->launches[k]);
        st = tt_comm_request_make(t->comm, &c, &t->launches[k].request);
        if (st)
            *err = *tt_comm_last_error(t->comm);
        /* Before the first step nothing is awaited. */
        atomic_store(&t->launches[k].done, true);
    }
    return st;
}

void tt_train_launches_free(struct tt_trainer *t)
{
    for (uint32_t k = 0; t->launches && k < t->nlaunches; k++)
        tt_comm_request_free(t->launches[k].request);
    free(t->launches);
    free(t->gate_data);
    free(t->users);
}
