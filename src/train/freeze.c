/* freeze.c - a list of tensors becomes a trainer that can step: policy, memory, requests, thread.
 *
 *     freeze: number layers -> bind: agree -> policy -> layout -> parameters -> launches -> thread
 *
 * `policy` is non-NULL from then on and marks a frozen trainer. bind is collective. rebind.c calls
 * it again after the ranks of an elastic trainer have changed: then some ranks have policy and
 * parameters already (catchup.c, newcomers.c). */
#include <stdlib.h>

#include "train/train_int.h"

/* Replaces the caller's layer numbers by 0, 1, 2, ... A 0 always begins a layer of its own. */
static void number_layers(struct tt_trainer *t)
{
    uint32_t before = 0, layer = 0;
    for (uint32_t i = 0; i < t->ntensors && !t->numbered; i++) {
        uint32_t theirs = t->tensors[i].v.layer;
        layer += i > 0 && (theirs == 0 || theirs != before);
        before = theirs;
        t->tensors[i].v.layer = layer;
    }
    t->numbered = true;
}

/* Every rank uses rank 0's profile: measured times differ between ranks, and policies made from
 * different times would differ. */
static tutti_status share_times(struct tt_trainer *t, struct tutti_error *err)
{
    uint64_t *times = tt_alloc(t->ntensors, 2 * sizeof *times);
    if (!times)
        return tt_fail_memory(err, "times");
    for (uint32_t i = 0; i < t->ntensors; i++) {
        times[2 * i] = t->tensors[i].v.forward_ps;
        times[2 * i + 1] = t->tensors[i].v.backward_ps;
    }
    struct tt_call call = {.coll = TUTTI_BROADCAST,
                           .in = times,
                           .out = times,
                           .count = 2 * (size_t)t->ntensors * sizeof *times,
                           .dtype = TUTTI_U8};
    tutti_status st = tt_comm_run(t->comm, &call);
    if (st)
        *err = *tt_comm_last_error(t->comm);
    for (uint32_t i = 0; !st && i < t->ntensors; i++) {
        t->tensors[i].v.forward_ps = times[2 * i];
        t->tensors[i].v.backward_ps = times[2 * i + 1];
    }
    free(times);
    return st;
}

/* Makes the policy from the tensors and the predicted costs of this communicator. All inputs are
 * equal on all ranks, hence so is the policy; freeze compares its hash all the same. */
static tutti_status make_policy(struct tt_trainer *t, struct tutti_error *err)
{
    struct tt_policy_tensor *x = tt_zalloc(t->ntensors, sizeof *x);
    struct tt_train_costs *costs = tt_zalloc(1, sizeof *costs);
    tutti_status st = x && costs ? TUTTI_OK : tt_fail_memory(err, "policy");
    for (uint32_t i = 0; !st && i < t->ntensors; i++) {
        const struct tt_train_tensor *v = &t->tensors[i].v;
        uint32_t each = tt_sched_dtype_bytes(v->dtype);
        x[i] = (struct tt_policy_tensor){.bytes = v->count * each,
                                         .elem_bytes = each,
                                         .kind = v->kind,
                                         .layer = v->layer,
                                         .part = v->dtype,
                                         .forward_ps = v->forward_ps,
                                         .backward_ps = v->backward_ps};
    }
    if (!st) {
        costs->comm = t->comm;
        struct tt_policy_costs c = {.cost = tt_train_cost, .ctx = costs, .ranks = t->ranks};
        st = tt_policy_make(&t->options.policy, x, t->ntensors, &c, &t->policy, err);
        if (!st)
            st = tt_policy_time(t->policy, x, &c, &t->times,
                                tt_comm_traced(t->comm) ? &t->spans : NULL, &t->nspans, err);
    }
    if (st && tt_comm_verdict(t->comm)) /* the communicator failed: its reason explains more */
        st = tt_fail(err, tt_comm_verdict(t->comm), "%s", tt_comm_last_error(t->comm)->text);
    free(x);
    free(costs);
    return st;
}

/* Groups that were set or that a tensor names. */
static uint32_t most_groups(const struct tt_trainer *t)
{
    uint32_t n = t->ngroups;
    for (uint32_t i = 0; i < t->ntensors; i++)
        n = t->tensors[i].v.group >= n ? t->tensors[i].v.group + 1 : n;
    return n;
}

/* All ranks are new: they plan together, and start from rank 0's parameters. */
static tutti_status start_anew(struct tt_trainer *t, struct tutti_error *err)
{
    tutti_status st = share_times(t, err);
    if (!st)
        st = make_policy(t, err);
    if (!st)
        st = tt_train_agree_hash(t, t->policy->hash, err);
    if (!st)
        st = tt_train_layout(t, err);
    return st ? st : tt_train_spread(t, err);
}

/* Some ranks are members of a job that goes on: the others get from them what they need. */
static tutti_status start_among(struct tt_trainer *t, struct tt_train_standing *all,
                                struct tutti_error *err)
{
    tutti_status st = tt_train_sharded(t) ? tt_train_shares_take(t, all, err) : TUTTI_OK;
    if (!st)
        st = tt_train_share_policy(t, all, err);
    if (!st)
        st = tt_train_layout(t, err);
    return st ? st : tt_train_catch_up(t, all, err);
}

static tutti_status start_elastic(struct tt_trainer *t, struct tutti_error *err)
{
    struct tt_train_standing *all = NULL;
    tutti_status st = tt_train_stand(t, &all, err);
    bool members = false;
    for (uint32_t r = 0; !st && r < t->ranks; r++)
        members = members || all[r].member;
    if (!st)
        st = members ? start_among(t, all, err) : start_anew(t, err);
    t->elastic.member = t->elastic.member || !st;
    free(all);
    return st;
}

/* The order matters: nothing is built before all ranks agree on what to build, and the thread
 * starts last, when there is nothing left that it could see half-made. */
tutti_status tt_train_bind(struct tt_trainer *t, struct tutti_error *err)
{
    tutti_status st = tt_train_agree(t, err);
    if (!st)
        st = t->options.elastic ? start_elastic(t, err) : start_anew(t, err);
    if (!st)
        tt_train_masters(t);
    if (!st)
        st = tt_train_launches(t, err);
    /* Unless a step is repeated the thread must find nothing to start. */
    atomic_store(&t->head, st || tt_train_all_done(t) ? t->nlaunches : 0);
    if (!st)
        tt_train_trace_freeze(t);
    if (!st)
        st = tt_train_thread_start(t, err);
    return st ? tt_train_fail(t, err) : TUTTI_OK;
}

tutti_status tt_train_freeze(struct tt_trainer *t, struct tutti_error *err)
{
    struct tutti_error mine;
    err = err ? err : &mine;
    if (t->policy || t->ntensors == 0)
        return tt_fail(err, TUTTI_ERR_ARG,
                       t->policy ? "the trainer is frozen already" : "a trainer needs tensors");
    number_layers(t);
    tutti_status st = tt_train_grow_groups(t, most_groups(t), err);
    return st ? tt_train_fail(t, err) : tt_train_bind(t, err);
}
