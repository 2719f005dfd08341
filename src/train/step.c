/* step.c - a step as the training loop sees it: gradients become ready, step, wait for parameters,
 * flush.
 *
 *     grad_ready (first)   begin: settles what the last step left, takes values set since
 *     grad_ready           counts; wakes the thread when a launch has all it needs
 *     step                 unused tensors get a zero gradient; wait_at_step settles everything
 *     wait_param           settles one tensor
 *
 * Tensors that are cut into parts (a bucket each) may be handed over part by part, and waited for
 * part by part too (settle.c). Invariant: between two steps every tensor is either pending or as a
 * synchronous step would have left it. */
#include <assert.h>
#include <string.h>

#include "train/train_int.h"

/* ---- beginning ---- */

/* The values that set_group left for the next step become those of this one. */
static void take_groups(struct tt_trainer *t)
{
    pthread_mutex_lock(&t->lock);
    for (uint32_t g = 0; g < t->ngroups; g++)
        t->groups[g] = t->next_groups[g];
    pthread_mutex_unlock(&t->lock);
}

/* Averages that no step() followed: nothing was updated, so the updates are not counted. */
static void drop_averages(struct tt_trainer *t)
{
    for (uint32_t i = 0; t->averaged && i < t->ntensors; i++)
        t->tensors[i].updates -= t->tensors[i].used;
    t->averaged = false;
}

/* Called under begin_lock while no launch is under way: the thread reads none of this until `head`
 * is 0, so that the stores before it may be relaxed. */
static void step_reset(struct tt_trainer *t)
{
    drop_averages(t);
    tt_train_hash_step(t);
    t->steps++;
    tt_train_trace_begin(t);
    t->repeated = false;
    t->clip = 1;
    t->scale = t->next_scale;
    take_groups(t);
    /* Assume that every tensor is used; step_complete and the gate correct that. */
    for (uint32_t i = 0; i < t->ntensors; i++) {
        t->tensors[i].used = true;
        t->tensors[i].updates++;
        atomic_store_explicit(&t->tensors[i].left, t->tensors[i].v.uses, memory_order_relaxed);
        atomic_store_explicit(&t->tensors[i].parts_left, tt_train_parts(&t->tensors[i]),
                              memory_order_relaxed);
    }
    for (uint32_t b = 0; b < t->policy->nbuckets; b++)
        t->buckets[b].updated = false;
    for (uint32_t k = 0; k < t->nlaunches; k++) {
        atomic_store_explicit(&t->launches[k].missing, t->launches[k].needs, memory_order_relaxed);
        atomic_store_explicit(&t->launches[k].done, false, memory_order_relaxed);
        atomic_store_explicit(&t->launches[k].start_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&t->launches[k].end_ns, 0, memory_order_relaxed);
    }
    atomic_store(&t->stepped, false);
    atomic_store(&t->head, 0); /* the thread may start launches from here on */
}

/* Gradients become ready on any thread: the first one begins the step, the others find `active`
 * (acquire, paired with the release below) and may rely on the counters. */
tutti_status tt_train_begin(struct tt_trainer *t)
{
    if (atomic_load_explicit(&t->active, memory_order_acquire))
        return TUTTI_OK;
    pthread_mutex_lock(&t->begin_lock);
    tutti_status st = TUTTI_OK;
    if (!atomic_load(&t->active)) {
        st = tt_train_settle_all(t);
        if (!st) {
            step_reset(t);
            atomic_store_explicit(&t->active, true, memory_order_release);
        }
    }
    pthread_mutex_unlock(&t->begin_lock);
    return st;
}

/* The decrement releases the gradient that the caller wrote; may_start (thread.c) acquires it. Only
 * the call that completes a launch rings: one system call per launch, not per tensor. */
void tt_train_count(struct tt_trainer *t, uint32_t i)
{
    const struct tt_tensor *x = &t->tensors[i];
    bool full = false;
    for (uint32_t u = 0; u < x->nusers; u++)
        full |= atomic_fetch_sub_explicit(&t->launches[t->users[x->first_user + u]].missing, 1,
                                          memory_order_acq_rel) == 1;
    if (full)
        tt_train_ring(t);
}

/* Elastic: the first gradient of a step lets the check start. */
static void announce(struct tt_trainer *t)
{
    if (t->check != TT_NO_LAUNCH && atomic_load(&t->launches[t->check].missing) &&
        atomic_exchange(&t->launches[t->check].missing, 0))
        tt_train_ring(t);
}

/* ---- what the training loop calls ---- */

/* Does not fail the trainer: it may still be frozen. */
static tutti_status fail_early(struct tt_trainer *t, const char *what)
{
    pthread_mutex_lock(&t->lock);
    tt_fail(&t->error, TUTTI_ERR_ARG, "%s: the trainer is not frozen (tutti_trainer_freeze)", what);
    pthread_mutex_unlock(&t->lock);
    return TUTTI_ERR_ARG;
}

/* What every call of the loop checks first: frozen, not failed, and an index that exists. `what`
 * names the call in the message. */
static tutti_status check_index(struct tt_trainer *t, uint32_t i, const char *what)
{
    if (!t->policy)
        return atomic_load(&t->failed) ? tt_train_failed(t) : fail_early(t, what);
    return i < t->ntensors
               ? tt_train_failed(t)
               : tt_train_blame(t, "%s of tensor %u: there are %u", what, i, t->ntensors);
}

/* begin comes before the gradient is written: it may still have to settle the last step, which
 * reads and zeroes that memory. */
tutti_status tt_train_put(struct tt_trainer *t, uint32_t i, size_t first, size_t n,
                          const float *grad)
{
    tutti_status st = check_index(t, i, "put_grad");
    if (st)
        return st;
    struct tt_tensor *x = &t->tensors[i];
    if (!x->lost)
        return tt_train_blame(t, "put_grad of tensor %s, which has no wide parameter", x->v.name);
    if (n == SIZE_MAX && first <= x->v.count)
        n = x->v.count - first;
    if (first > x->v.count || n > x->v.count - first)
        return tt_train_blame(t, "put_grad of %zu elements from %zu of tensor %s, which has %zu", n,
                              first, x->v.name, x->v.count);
    st = tt_train_begin(t);
    if (!st)
        tt_train_half_narrow_keep(x->v.dtype, grad, x->lost + first,
                                  (char *)x->grad + first * tt_sched_dtype_bytes(x->v.dtype), n);
    return st;
}

tutti_status tt_train_ready(struct tt_trainer *t, uint32_t i)
{
    tutti_status st = check_index(t, i, "grad_ready");
    if (st)
        return st;
    struct tt_tensor *x = &t->tensors[i];
    /* Accumulating: nothing is handed over, but step() must know that the tensor was used. */
    if (!atomic_load_explicit(&t->sync, memory_order_relaxed)) {
        st = tt_train_begin(t);
        atomic_store(&x->touched, true);
        return st;
    }
    st = tt_train_begin(t);
    if (st)
        return st;
    uint32_t left = atomic_fetch_sub_explicit(&x->left, 1, memory_order_acq_rel);
    if (left == 0 || left > x->v.uses || atomic_load(&x->parts_left) != tt_train_parts(x))
        return tt_train_blame(t,
                              "tensor %s is ready once more than its %u uses in step %llu: "
                              "backward ran twice before step() "
                              "(accumulate with sync off, in Python under opt.no_sync())",
                              x->v.name, x->v.uses, (unsigned long long)t->steps);
    announce(t);
    /* A tied weight: its gradient is complete only with the last use. */
    if (left > 1)
        return TUTTI_OK;
    if (x->v.grad)
        memcpy(x->grad, x->v.grad, tt_train_bytes(x));
    tt_train_count(t, i);
    return TUTTI_OK;
}

/* A bucket that holds a part of one tensor only is launched as soon as that part is ready. */
tutti_status tt_train_part_ready(struct tt_trainer *t, uint32_t i, uint32_t part)
{
    tutti_status st = check_index(t, i, "part_ready");
    if (st)
        return st;
    struct tt_tensor *x = &t->tensors[i];
    if (tt_train_parts(x) == 1 && part == 0)
        return tt_train_ready(t, i);
    if (part >= tt_train_parts(x) || x->v.uses > 1 || x->v.grad || !atomic_load(&t->sync))
        return tt_train_blame(t, "part %u of tensor %s: it has %u, used %u times%s%s", part,
                              x->v.name, tt_train_parts(x), x->v.uses,
                              x->v.grad ? ", with a gradient of the caller's" : "",
                              atomic_load(&t->sync) ? "" : ", and nothing is synchronised");
    st = tt_train_begin(t);
    if (st)
        return st;
    struct tt_launch *l = &t->launches[t->buckets[x->first_bucket + part].reduce];
    assert(l->needs == 1);
    /* The exchange both marks the part and detects that it was marked before. */
    if (atomic_load(&x->left) == 0 || atomic_exchange(&l->missing, 0) == 0)
        return tt_train_blame(t, "part %u of tensor %s is ready twice in step %llu", part,
                              x->v.name, (unsigned long long)t->steps);
    if (atomic_fetch_sub_explicit(&x->parts_left, 1, memory_order_acq_rel) == 1)
        atomic_store(&x->left, 0);
    announce(t);
    tt_train_ring(t);
    return TUTTI_OK;
}

/* Completes a tensor that was ready less often than expected: used fewer times, in earlier
 * micro-batches only, or not at all. */
static void step_complete(struct tt_trainer *t, uint32_t i)
{
    struct tt_tensor *x = &t->tensors[i];
    uint32_t left = atomic_exchange(&x->left, 0);
    if (left == 0)
        return;
    announce(t);
    x->used = left < x->v.uses || atomic_load(&x->touched);
    if (!x->used)
        memset(x->grad, 0, tt_train_bytes(x));
    else if (x->v.grad)
        memcpy(x->grad, x->v.grad, tt_train_bytes(x));
    tt_train_count(t, i);
}

static uint32_t first_missing(struct tt_trainer *t)
{
    uint32_t i = 0;
    while (i < t->ntensors && atomic_load(&t->tensors[i].left) == 0)
        i++;
    return i;
}

/* The first tensor of which some parts were ready and others not. */
static uint32_t first_torn(struct tt_trainer *t)
{
    uint32_t i = 0;
    for (; i < t->ntensors; i++) {
        uint32_t left = atomic_load(&t->tensors[i].parts_left);
        if (left > 0 && left < tt_train_parts(&t->tensors[i]))
            break;
    }
    return i;
}

/* The backward pass is over: completes what is missing; from here on every launch of the step can
 * run. */
static tutti_status end_backward(struct tt_trainer *t)
{
    if (!atomic_load(&t->sync))
        return tt_train_blame(t, "step while synchronisation is off");
    tutti_status st = tt_train_begin(t);
    if (st)
        return st;
    uint32_t missing = first_missing(t), torn = first_torn(t);
    if (torn < t->ntensors)
        return tt_train_blame(t, "tensor %s: %u of its %u parts were not ready in step %llu",
                              t->tensors[torn].v.name, atomic_load(&t->tensors[torn].parts_left),
                              tt_train_parts(&t->tensors[torn]), (unsigned long long)t->steps);
    if (missing < t->ntensors && !t->options.allow_unused)
        return tt_train_blame(t,
                              "tensor %s was not ready in step %llu: it got no gradient "
                              "(allow_unused, in Python find_unused_parameters, permits that)",
                              t->tensors[missing].v.name, (unsigned long long)t->steps);
    tt_train_trace_gradients(t);
    for (uint32_t i = 0; i < t->ntensors; i++) {
        step_complete(t, i);
        atomic_store(&t->tensors[i].touched, false);
    }
    atomic_store(&t->stepped, true);
    atomic_store(&t->active, false);
    /* The gate waits for `stepped`, which no gradient announces. */
    if (t->gate != TT_NO_LAUNCH)
        tt_train_ring(t);
    return TUTTI_OK;
}

/* Waits for every launch, so that the caller may read and change the averages before step(). */
tutti_status tt_train_average(struct tt_trainer *t)
{
    tutti_status st = check_index(t, 0, "average");
    if (!st && tt_train_sharded(t))
        return tt_train_blame(t,
                              "average: with dear-sharded no rank ever has all averaged gradients");
    if (!st && t->options.elastic)
        return tt_train_blame(t, "average: an elastic step may be averaged anew by fewer ranks");
    if (!st && !t->averaged)
        st = end_backward(t);
    for (uint32_t k = 0; !st && k < t->nlaunches; k++)
        st = tt_train_await(t, k);
    t->averaged = !st;
    return st;
}

tutti_status tt_train_use(struct tt_trainer *t, uint32_t i, bool use)
{
    tutti_status st = check_index(t, i, "use");
    if (st)
        return st;
    struct tt_tensor *x = &t->tensors[i];
    if (!t->averaged)
        return tt_train_blame(t, "use of tensor %s: it comes between average and step", x->v.name);
    x->updates += (uint64_t)use - (uint64_t)x->used;
    x->used = use;
    return TUTTI_OK;
}

/* Results to come: released to the caller that settles the tensor. */
static void pend(struct tt_trainer *t)
{
    for (uint32_t i = 0; i < t->ntensors; i++) {
        t->tensors[i].next_bucket = t->tensors[i].first_bucket;
        atomic_store_explicit(&t->tensors[i].pending, true, memory_order_release);
    }
}

tutti_status tt_train_step(struct tt_trainer *t)
{
    tutti_status st = check_index(t, 0, "step");
    if (st)
        return st;
    if (!t->repeated) {
        if (!t->averaged)
            st = end_backward(t);
        else if (t->options.clip_norm > 0) /* the caller may have changed the averages */
            tt_train_clip(t, tt_train_squares_whole(t));
        if (!st && !tt_train_sharded(t)) /* no update has begun: later values still count */
            take_groups(t);
        if (!st)
            pend(t);
        t->averaged = false;
    }
    if (!st && t->policy->wait_at_step) {
        st = tt_train_settle_all(t);
        t->repeated = st != TUTTI_OK && t->options.elastic;
    }
    if (!st)
        tt_train_trace_step(t);
    return st;
}

tutti_status tt_train_wait(struct tt_trainer *t, uint32_t i)
{
    tutti_status st = check_index(t, i, "wait_param");
    return st ? st : tt_train_settle(t, i, tt_train_parts(&t->tensors[i]) - 1);
}

tutti_status tt_train_wait_part(struct tt_trainer *t, uint32_t i, uint32_t part)
{
    tutti_status st = check_index(t, i, "wait_part");
    if (!st && part >= tt_train_parts(&t->tensors[i]))
        return tt_train_blame(t, "wait for part %u of tensor %s, which has %u", part,
                              t->tensors[i].v.name, tt_train_parts(&t->tensors[i]));
    return st ? st : tt_train_settle(t, i, part);
}

bool tt_train_part(const struct tt_trainer *t, uint32_t i, uint32_t part, size_t *ret_first,
                   size_t *ret_count)
{
    if (!t->policy || i >= t->ntensors || part >= tt_train_parts(&t->tensors[i]))
        return false;
    struct tt_stretch s =
        tt_train_stretch(&t->tensors[i], &t->buckets[t->tensors[i].first_bucket + part]);
    *ret_first = s.first;
    *ret_count = s.count;
    return true;
}

/* Has any gradient of this step been handed over? Micro-batches that are not synchronised hand over
 * none. */
static bool handed_over(struct tt_trainer *t)
{
    bool some = false;
    for (uint32_t i = 0; i < t->ntensors && atomic_load(&t->active); i++)
        some |= atomic_load(&t->tensors[i].left) != t->tensors[i].v.uses ||
                atomic_load(&t->tensors[i].parts_left) != tt_train_parts(&t->tensors[i]);
    return some;
}

/* Settles everything; between the first gradient and step() there is nothing that could be settled,
 * so that this is refused. */
tutti_status tt_train_flush(struct tt_trainer *t)
{
    tutti_status st = check_index(t, 0, "flush");
    if (!st && handed_over(t))
        st = tt_train_blame(t, "flush in step %llu, between its gradients and step()",
                            (unsigned long long)t->steps);
    return st ? st : tt_train_settle_all(t);
}

tutti_status tt_train_sync(struct tt_trainer *t, bool on)
{
    tutti_status st = check_index(t, 0, "sync");
    if (!st)
        atomic_store(&t->sync, on);
    return st;
}

tutti_status tt_train_scale(struct tt_trainer *t, double scale)
{
    tutti_status st = check_index(t, 0, "scale");
    if (!st && !(scale > 0 && scale < 1e300))
        return tt_train_blame(t, "gradients cannot be scaled by %g", scale);
    t->next_scale = scale;
    return st;
}

/* The caller changed its parameters (a checkpoint was loaded): copies are taken anew. */
tutti_status tt_train_reload(struct tt_trainer *t)
{
    tutti_status st = tt_train_flush(t);
    for (uint32_t i = 0; !st && i < t->ntensors; i++) {
        struct tt_tensor *x = &t->tensors[i];
        if (x->v.param && x->param != x->v.param)
            memcpy(x->param, x->v.param, tt_train_bytes(x));
    }
    if (!st)
        tt_train_masters(t);
    return st;
}
