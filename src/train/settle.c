/* settle.c - to settle a tensor means: wait for the last launch of each of its buckets, update what
 * arrived (unless shards were updated), copy it to where the caller wants it, zero its gradient.
 *
 *     parts   | 0 updated | 1 updated | 2 arrives | 3        |   next_bucket = 2, still pending
 *
 * Buckets are settled one after the other, so that the next arrives while one is updated; and only
 * as far as asked, so that a layer may begin with the first rows of its parameter before the last
 * have arrived. Callers settle on their own threads, one at a time, under settle_lock. */
#include <assert.h>
#include <string.h>

#include "train/train_int.h"

size_t tt_train_bytes(const struct tt_tensor *x)
{
    return x->v.count * tt_sched_dtype_bytes(x->v.dtype);
}

size_t tt_train_param_each(const struct tt_tensor *x)
{
    return x->v.wide ? sizeof(float) : tt_sched_dtype_bytes(x->v.dtype);
}

uint32_t tt_train_parts(const struct tt_tensor *x)
{
    assert(x->first_bucket <= x->last_bucket);
    return x->last_bucket - x->first_bucket + 1;
}

/* The intersection of tensor and bucket, as elements of the tensor. They must overlap. */
struct tt_stretch tt_train_stretch(const struct tt_tensor *x, const struct tt_bucket *b)
{
    size_t each = b->elem_bytes, end = b->at + b->elems * each, own_end = x->at + x->v.count * each;
    size_t from = b->at > x->at ? b->at - x->at : 0, to = (end < own_end ? end : own_end) - x->at;
    assert(x->at <= end && from <= to && to <= x->v.count * each);
    return (struct tt_stretch){from / each, (to - from) / each};
}

/* Tensor i's part of bucket b has arrived. */
static void settle_in(struct tt_trainer *t, uint32_t i, const struct tt_bucket *b)
{
    const struct tt_tensor *x = &t->tensors[i];
    struct tt_stretch s = tt_train_stretch(x, b);
    size_t at = s.first * b->elem_bytes;
    if (t->options.optimizer == TT_OPT_NONE)
        return;
    if (!tt_train_sharded(t)) {
        tt_train_update_in(t, i, b);
        return;
    }
    tt_train_note(t, i, s.first, s.count);
    if (x->v.param)
        memcpy((char *)x->v.param + at, (char *)x->param + at, s.count * b->elem_bytes);
}

/* The whole tensor is settled: without an optimizer the caller gets its averaged gradient, with one
 * the gradient is zeroed for the next step. */
static void settle_deliver(struct tt_trainer *t, uint32_t i)
{
    struct tt_tensor *x = &t->tensors[i];
    if (t->options.optimizer == TT_OPT_NONE && x->v.grad)
        memcpy(x->v.grad, x->grad, tt_train_bytes(x));
    if (t->options.optimizer != TT_OPT_NONE && !t->options.keep_grads)
        memset(x->v.grad ? x->v.grad : x->grad, 0, tt_train_bytes(x));
}

static tutti_status settle_to(struct tt_trainer *t, uint32_t i, uint32_t bucket)
{
    struct tt_tensor *x = &t->tensors[i];
    assert(bucket <= x->last_bucket && x->next_bucket >= x->first_bucket);
    tutti_status st = t->gate == TT_NO_LAUNCH ? TUTTI_OK : tt_train_await(t, t->gate);
    /* Invariant: buckets before next_bucket are settled. After an error it
     * stays, so that nothing is updated twice. */
    while (!st && x->next_bucket <= bucket) {
        const struct tt_bucket *b = &t->buckets[x->next_bucket];
        st = tt_train_await(t, b->last);
        if (st)
            break;
        settle_in(t, i, b);
        x->next_bucket++;
    }
    if (!st && x->next_bucket > x->last_bucket) {
        settle_deliver(t, i);
        /* Pairs with the acquire in tt_train_settle: a caller that finds the tensor settled sees
         * it. */
        atomic_store_explicit(&x->pending, false, memory_order_release);
    }
    return st;
}

tutti_status tt_train_settle(struct tt_trainer *t, uint32_t i, uint32_t part)
{
    const struct tt_tensor *x = &t->tensors[i];
    /* The common case takes no lock; `pending` is checked again under it. */
    if (!atomic_load_explicit(&x->pending, memory_order_acquire))
        return TUTTI_OK;
    pthread_mutex_lock(&t->settle_lock);
    tutti_status st = atomic_load(&x->pending) ? settle_to(t, i, x->first_bucket + part) : TUTTI_OK;
    pthread_mutex_unlock(&t->settle_lock);
    return st;
}

tutti_status tt_train_settle_all(struct tt_trainer *t)
{
    tutti_status st = tt_train_failed(t);
    for (uint32_t i = 0; !st && i < t->ntensors; i++)
        st = tt_train_settle(t, i, tt_train_parts(&t->tensors[i]) - 1);
    return st;
}
