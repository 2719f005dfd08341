/* state.c - what the optimizer keeps of a tensor, whole, for checkpoints: gathered from where it
 * lies, and put back there.
 *
 * Sharded, a tensor's state is spread over the ranks: it is the intersection of the tensor with
 * every rank's block of every bucket it lies in. Blocks follow each other in rank order, so that
 * per bucket one all-gather with counts makes it whole:
 *
 *     bucket     |r0        |r1        |r2        |
 *     tensor          [=================)            counts 5, 10, 3
 *
 * The result is complete and the same on all ranks, and does not depend on ranks or policy: a job
 * with another number of ranks or another policy can continue from it. f16 and bf16 tensors have
 * one more array, the f32 copy to which the updates are added. */
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

enum { WIDE = 1024 }; /* elements */

static size_t state_each(const struct tt_tensor *x)
{
    return tt_train_state_each(x->v.dtype);
}

/* Elements [from, from + n) of a tensor are in rank r's block of bucket b; the first of them is
 * element `skip` of the block. */
struct piece {
    size_t from, n, skip;
};

/* The intersection of tensor, bucket and rank r's block; n = 0: empty. */
static struct piece piece_of(const struct tt_tensor *x, const struct tt_bucket *b, uint32_t r)
{
    size_t each = b->elem_bytes, low = b->at, end = x->at + x->v.count * each;
    for (uint32_t q = 0; q < r; q++)
        low += b->counts[q] * each;
    size_t high = low + b->counts[r] * each, from = x->at > low ? x->at : low,
           to = end < high ? end : high;
    if (from >= to)
        return (struct piece){0};
    return (struct piece){
        .from = (from - x->at) / each, .n = (to - from) / each, .skip = (from - low) / each};
}

/* The two pieces of a tensor that this rank holds of a bucket, and where their state begins. */
struct two {
    struct piece p[2];
    char *at[2];
};

static struct two pieces_held(struct tt_trainer *t, uint32_t slot, const struct tt_tensor *x,
                              const struct tt_bucket *b)
{
    struct two two = {.p = {piece_of(x, b, t->rank)}};
    size_t each = tt_train_state_each(b->dtype);
    if (b->held.ward.count)
        two.p[1] = piece_of(x, b, (t->rank + t->ranks - 1) % t->ranks);
    two.at[0] = t->state[slot] + b->held.own_at + two.p[0].skip * each;
    two.at[1] = t->state[slot] + b->held.ward_at + two.p[1].skip * each;
    return two;
}

/* ---- the copy in f32 ---- */

/* Where the copy still rounds to the parameter it is the more precise of the two, and stays. */
void tt_train_widen(tutti_dtype dtype, const uint16_t *param, float *copy, size_t n)
{
    uint16_t rounded[WIDE];
    float wide[WIDE];
    for (size_t at = 0; at < n; at += WIDE) {
        size_t m = n - at < WIDE ? n - at : WIDE;
        tt_train_half_narrow(dtype, copy + at, rounded, m);
        tt_train_half_widen(dtype, param + at, wide, m);
        for (size_t k = 0; k < m; k++)
            copy[at + k] = rounded[k] == param[at + k] ? copy[at + k] : wide[k];
    }
}

static void widen(struct tt_trainer *t, uint32_t i)
{
    const struct tt_tensor *x = &t->tensors[i];
    if (!tt_train_sharded(t)) {
        tt_train_widen(x->v.dtype, x->param,
                       (float *)(void *)(t->state[TT_STATE_MASTER] + x->state_at), x->v.count);
        return;
    }
    for (uint32_t k = x->first_bucket; k <= x->last_bucket; k++) {
        struct two two = pieces_held(t, TT_STATE_MASTER, x, &t->buckets[k]);
        for (int j = 0; j < 2; j++)
            if (two.p[j].n)
                tt_train_widen(x->v.dtype, (const uint16_t *)x->param + two.p[j].from,
                               (float *)(void *)two.at[j], two.p[j].n);
    }
}

void tt_train_masters(struct tt_trainer *t)
{
    for (uint32_t i = 0; t->state[TT_STATE_MASTER] && i < t->ntensors; i++)
        if (tt_train_half(t->tensors[i].v.dtype) && !t->tensors[i].v.wide)
            widen(t, i);
}

/* ---- names ---- */

/* The trainer's array that holds array k of the tensor; TT_STATES: there is none. */
static uint32_t slot_of(const struct tt_trainer *t, uint32_t i, uint32_t k)
{
    uint32_t own = tt_train_optim_states(t->options.optimizer);
    if (!t->policy || i >= t->ntensors || t->options.optimizer == TT_OPT_NONE)
        return TT_STATES;
    if (k < own)
        return k;
    return k == own && tt_train_half(t->tensors[i].v.dtype) && !t->tensors[i].v.wide
               ? TT_STATE_MASTER
               : TT_STATES;
}

const char *tt_train_state_name(const struct tt_trainer *t, uint32_t i, uint32_t k)
{
    static const char *const adam[] = {"exp_avg", "exp_avg_sq", "master_param", NULL};
    static const char *const sgd[] = {"momentum_buffer", NULL, "master_param", NULL};
    return (t->options.optimizer == TT_OPT_SGD ? sgd : adam)[slot_of(t, i, k)];
}

size_t tt_train_state_bytes(const struct tt_trainer *t, uint32_t i)
{
    return slot_of(t, i, 0) == TT_STATES ? 0 : t->tensors[i].v.count * state_each(&t->tensors[i]);
}

/* State is read and written between updates only, so that deferred ones are settled first. */
static tutti_status state_check(struct tt_trainer *t, uint32_t i, uint32_t k,
                                struct tutti_error *err)
{
    if (slot_of(t, i, k) == TT_STATES)
        return tt_fail(err, TUTTI_ERR_RANGE, "%s",
                       !t->policy ? "the trainer is not frozen"
                                  : "there is no such state of such a tensor");
    tutti_status st = tt_train_flush(t);
    if (st)
        *err = tt_train_error(t);
    return st;
}

/* ---- reading ---- */

/* Makes bucket b's part of the state whole in `out`, on every rank. Pieces follow each other in
 * rank order, so that the lowest `from` is where the gathered elements begin. */
static tutti_status state_gather(struct tt_trainer *t, uint32_t i, const struct tt_bucket *b,
                                 const void *in, char *out)
{
    const struct tt_tensor *x = &t->tensors[i];
    size_t *counts = tt_alloc(t->ranks, sizeof *counts), from = SIZE_MAX, all = 0;
    struct tutti_error err;
    if (!counts) {
        tt_fail_memory(&err, "state");
        return tt_train_fail(t, &err);
    }
    for (uint32_t r = 0; r < t->ranks; r++) {
        struct piece p = piece_of(x, b, r);
        counts[r] = p.n;
        all += p.n;
        from = p.n && p.from < from ? p.from : from;
    }
    struct tt_call call = {.coll = TUTTI_ALL_GATHER,
                           .in = in,
                           .out = out + from * state_each(x),
                           .count = all,
                           .counts = counts};
    call.dtype = b->dtype == TUTTI_F64 ? TUTTI_F64 : TUTTI_F32;
    tutti_status st = tt_comm_run(t->comm, &call);
    if (st)
        st = tt_train_fail(t, tt_comm_last_error(t->comm));
    free(counts);
    return st;
}

/* Every rank takes part in every bucket's all-gather, also with an empty piece. */
static tutti_status read_shards(struct tt_trainer *t, uint32_t i, uint32_t slot, char *out)
{
    const struct tt_tensor *x = &t->tensors[i];
    tutti_status st = TUTTI_OK;
    for (uint32_t k = x->first_bucket; !st && k <= x->last_bucket; k++) {
        const struct tt_bucket *b = &t->buckets[k];
        st = state_gather(t, i, b, pieces_held(t, slot, x, b).at[0], out);
    }
    return st;
}

tutti_status tt_train_state_get(struct tt_trainer *t, uint32_t i, uint32_t k, void *data,
                                struct tutti_error *err)
{
    struct tutti_error unread;
    err = err ? err : &unread;
    tutti_status st = state_check(t, i, k, err);
    if (st)
        return st;
    size_t bytes = tt_train_state_bytes(t, i);
    uint32_t slot = slot_of(t, i, k);
    if (!tt_train_sharded(t)) {
        if (data)
            memcpy(data, t->state[slot] + t->tensors[i].state_at, bytes);
        return TUTTI_OK;
    }
    /* The caller wants no data, but the other ranks need this one to take part. */
    void *own = data ? NULL : malloc(bytes);
    if (!data && !own)
        return tt_fail_memory(err, "state");
    st = read_shards(t, i, slot, data ? data : own);
    if (st)
        *err = tt_train_error(t);
    free(own);
    return st;
}

/* ---- writing ---- */

/* Keeps the parameter equal to what its f32 copy rounds to. */
static void state_narrow(struct tt_trainer *t, uint32_t i, const float *data)
{
    struct tt_tensor *x = &t->tensors[i];
    tt_train_half_narrow(x->v.dtype, data, x->param, x->v.count);
    if (x->v.param && x->param != x->v.param)
        memcpy(x->v.param, x->param, x->v.count * tt_sched_dtype_bytes(x->v.dtype));
}

tutti_status tt_train_state_set(struct tt_trainer *t, uint32_t i, uint32_t k, const void *data,
                                struct tutti_error *err)
{
    struct tutti_error unread;
    err = err ? err : &unread;
    tutti_status st = state_check(t, i, k, err);
    if (st)
        return st;
    const struct tt_tensor *x = &t->tensors[i];
    uint32_t slot = slot_of(t, i, k);
    if (!tt_train_sharded(t))
        memcpy(t->state[slot] + x->state_at, data, tt_train_state_bytes(t, i));
    for (uint32_t b = x->first_bucket; tt_train_sharded(t) && b <= x->last_bucket; b++) {
        struct two two = pieces_held(t, slot, x, &t->buckets[b]);
        for (int j = 0; j < 2; j++)
            if (two.p[j].n)
                memcpy(two.at[j], (const char *)data + two.p[j].from * state_each(x),
                       two.p[j].n * state_each(x));
    }
    if (slot == TT_STATE_MASTER)
        state_narrow(t, i, data);
    return TUTTI_OK;
}

/* Is an update counted that has not happened? True in an open step, and for averages that no step
 * has used yet. */
static bool counted(struct tt_trainer *t, uint32_t i)
{
    return atomic_load(&t->active) || (t->averaged && t->tensors[i].used);
}

uint64_t tt_train_updates(struct tt_trainer *t, uint32_t i)
{
    if (slot_of(t, i, 0) == TT_STATES || tt_train_flush(t))
        return 0;
    return t->tensors[i].updates - (counted(t, i) ? 1 : 0);
}

tutti_status tt_train_set_updates(struct tt_trainer *t, uint32_t i, uint64_t n,
                                  struct tutti_error *err)
{
    struct tutti_error unread;
    tutti_status st = state_check(t, i, 0, err ? err : &unread);
    if (!st)
        t->tensors[i].updates = n + (counted(t, i) ? 1 : 0);
    return st;
}
