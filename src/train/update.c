/* update.c - who is updated when: whole tensors, when they are settled, or the own block of a bucket, between reduce-scatter and
 * all-gather. A block crosses tensors; each stretch of one tensor is updated with its group's values.
 *
 * The thread that updates blocks is the one that communicates: it looks at the network between two pieces of work. */
#include "train/parts.h"

enum { PIECE = 1 << 16 }; /* elements */

static double coefficient(const struct tt_trainer *t)
{
    return t->scale * t->clip;
}

/* Elements from..from+n of tensor i. */
static void update(struct tt_trainer *t, uint32_t i, size_t from, size_t n, size_t state_at)
{
    const struct tt_tensor *x = &t->tensors[i];
    size_t each = tt_dtype_bytes(x->v.dtype);
    struct tt_optim o = {.kind = t->options.optimizer, .g = &t->groups[x->v.group], .scale = coefficient(t), .step = t->steps - x->skipped};
    struct tt_optim_data d = {.dtype = x->v.dtype, .param = (char *)x->param + from * each, .grad = (char *)x->grad + from * each, .n = n};
    for (uint32_t s = 0; s < tt_optim_states(o.kind); s++)
        d.state[s] = t->state[s] + state_at;
    if (x->used)
        tt_optim_run(&o, &d);
}

void tt_train_update_tensor(struct tt_trainer *t, uint32_t i)
{
    if (t->options.optimizer != TT_OPT_NONE)
        update(t, i, 0, t->tensors[i].v.count, t->tensors[i].at);
}

/* The tensor that byte `at` of the flat buffers belongs to, from tensor i on. */
static uint32_t find(const struct tt_trainer *t, uint32_t i, size_t at)
{
    while (t->tensors[i].at + t->tensors[i].v.count * tt_dtype_bytes(t->tensors[i].v.dtype) <= at)
        i++;
    return i;
}

void tt_train_update_shard(struct tt_trainer *t, struct tt_bucket *b)
{
    size_t each = b->elem_bytes, at = b->at + b->mine * each, end = at + b->counts[t->rank] * each, state = b->shard;
    uint32_t i = t->policy->buckets[b - t->buckets].first;
    bool moved;
    b->updated = true;
    while (at < end) {
        i = find(t, i, at);
        const struct tt_tensor *x = &t->tensors[i];
        size_t stop = x->at + x->v.count * each, n = ((stop < end ? stop : end) - at) / each;
        n = n < PIECE ? n : PIECE;
        update(t, i, (at - x->at) / each, n, state);
        at += n * each;
        state += n * each;
        tt_comm_pump(t->comm, &moved);
    }
}

static double squares(const struct tt_bucket *b, const char *data, size_t n)
{
    const float *f = (const void *)data;
    const double *d = (const void *)data;
    double sum = 0;
    if (b->dtype == TUTTI_F32)
        for (size_t i = 0; i < n; i++)
            sum += (double)f[i] * f[i];
    else
        for (size_t i = 0; i < n; i++)
            sum += d[i] * d[i];
    return sum;
}

double tt_train_squares(struct tt_trainer *t)
{
    double sum = 0;
    for (uint32_t k = 0; k < t->policy->nbuckets; k++) {
        const struct tt_bucket *b = &t->buckets[k];
        sum += squares(b, t->grads + b->at + b->mine * b->elem_bytes, b->counts[t->rank]);
    }
    return sum;
}
