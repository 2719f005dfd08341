/* update.c - which elements are updated when: whole tensors when they are settled, or this rank's
 * block of a bucket between reduce-scatter and all-gather. A block crosses tensors; each stretch of
 * one tensor is updated with its own group's values.
 *
 *     tensors    | a       | b    | c            |
 *     own block        [=================)            three stretches: end of a, b, start of c
 *
 * Blocks are updated by the thread that also communicates: it polls the network between two pieces
 * of work, so that a long update does not stall other launches. */
#include <assert.h>
#include <string.h>

#include "train/train_int.h"

/* elements; NOTED: what is updated and fingerprinted at a time, so that it stays in the cache */
enum { PIECE = 1 << 16, NOTED = 1 << 13, WIDE = 1024 };

static double coefficient(const struct tt_trainer *t)
{
    return t->scale * t->clip;
}

/* The caller's parameter is the authoritative one: it may have changed since the last step. */
static void refresh(struct tt_trainer *t, uint32_t i, size_t from, size_t n, size_t state_at)
{
    const struct tt_tensor *x = &t->tensors[i];
    size_t each = tt_sched_dtype_bytes(x->v.dtype);
    char *param = (char *)x->param + from * each;
    if (x->v.wide)
        return;
    if (x->v.param && x->v.param != x->param)
        memcpy(param, (char *)x->v.param + from * each, n * each);
    if (tt_train_half(x->v.dtype))
        tt_train_widen(x->v.dtype, (const uint16_t *)(void *)param,
                       (float *)(void *)(t->state[TT_STATE_MASTER] + state_at), n);
}

/* Updates elements from..from+n of tensor i; state_at: bytes into the state of the first of them.
 * The copies are refreshed even if no rank used the tensor, since the result is still gathered. */
static void update_update(struct tt_trainer *t, uint32_t i, size_t from, size_t n, size_t state_at)
{
    const struct tt_tensor *x = &t->tensors[i];
    size_t each = tt_sched_dtype_bytes(x->v.dtype);
    assert(from + n <= x->v.count && x->v.group < t->ngroups);
    struct tt_optim o = {.kind = t->options.optimizer,
                         .g = &t->groups[x->v.group],
                         .scale = coefficient(t),
                         .step = x->updates};
    struct tt_optim_data d = {.dtype = x->v.dtype,
                              .param = (char *)x->param + from * each,
                              .grad = (char *)x->mean + from * each,
                              .n = n};
    for (uint32_t s = 0; s < TT_STATES; s++)
        d.state[s] = t->state[s] ? t->state[s] + state_at : NULL;
    /* Wide: the caller's f32 parameter takes the place of the f32 copy; there is no f16 one. */
    if (x->v.wide) {
        d.state[TT_STATE_MASTER] = (float *)x->param + from;
        d.param = NULL;
    }
    refresh(t, i, from, n, state_at);
    if (x->used)
        tt_train_optim_run(&o, &d);
}

void tt_train_update_in(struct tt_trainer *t, uint32_t i, const struct tt_bucket *b)
{
    struct tt_stretch s = tt_train_stretch(&t->tensors[i], b);
    size_t most = t->options.elastic ? NOTED : s.count, state = tt_train_state_each(b->dtype);
    for (size_t from = s.first, end = s.first + s.count, n; from < end; from += n) {
        n = end - from < most ? end - from : most;
        update_update(t, i, from, n, t->tensors[i].state_at + from * state);
        tt_train_note(t, i, from, n);
    }
}

/* The tensor that byte `at` of the flat buffers belongs to; it is not before tensor i. */
static uint32_t update_find(const struct tt_trainer *t, uint32_t i, size_t at)
{
    while (t->tensors[i].at + t->tensors[i].v.count * tt_sched_dtype_bytes(t->tensors[i].v.dtype) <=
           at)
        i++;
    assert(i < t->ntensors && t->tensors[i].at <= at);
    return i;
}

/* `state`: bytes into the state of the block's first element. */
static void update_block(struct tt_trainer *t, const struct tt_bucket *b, struct tt_stretch block,
                         size_t state)
{
    size_t each = b->elem_bytes, at = b->at + block.first * each, end = at + block.count * each;
    uint32_t i = t->policy->buckets[b - t->buckets].first;
    /* Invariant: bytes before `at` are updated; `state` is where the state of `at` lies. */
    while (at < end) {
        i = update_find(t, i, at);
        const struct tt_tensor *x = &t->tensors[i];
        size_t stop = x->at + x->v.count * each, n = ((stop < end ? stop : end) - at) / each;
        n = n < PIECE ? n : PIECE;
        assert(n > 0 && at >= x->at);
        update_update(t, i, (at - x->at) / each, n, state);
        at += n * each;
        state += n * tt_train_state_each(b->dtype);
        tt_comm_pump(t->comm);
    }
}

/* The ward's parameters become what its own rank makes of them, bit by bit, and will send. */
void tt_train_update_held(struct tt_trainer *t, struct tt_bucket *b, const struct tt_held *h)
{
    update_block(t, b, h->own, h->own_at);
    update_block(t, b, h->ward, h->ward_at);
    b->updated = true;
}

/* Sums in f64: the norm of many small gradients must not lose them to rounding. */
static double half_squares(tutti_dtype dtype, const char *data, size_t n)
{
    float f[WIDE];
    double sum = 0;
    for (size_t at = 0; at < n; at += WIDE) {
        size_t m = n - at < WIDE ? n - at : WIDE;
        tt_train_half_widen(dtype, data + at * 2, f, m);
        for (size_t i = 0; i < m; i++)
            sum += (double)f[i] * f[i];
    }
    return sum;
}

static double squares(tutti_dtype dtype, const char *data, size_t n)
{
    const float *f = (const void *)data;
    const double *d = (const void *)data;
    assert(tt_train_half(dtype) || dtype == TUTTI_F32 || dtype == TUTTI_F64);
    double sum = tt_train_half(dtype) ? half_squares(dtype, data, n) : 0;
    if (dtype == TUTTI_F32)
        for (size_t i = 0; i < n; i++)
            sum += (double)f[i] * f[i];
    else if (dtype == TUTTI_F64)
        for (size_t i = 0; i < n; i++)
            sum += d[i] * d[i];
    return sum;
}

/* The sum over all ranks is the squared norm: the blocks of a bucket cover it exactly once. */
double tt_train_squares(struct tt_trainer *t)
{
    double sum = 0;
    for (uint32_t k = 0; k < t->policy->nbuckets; k++) {
        const struct tt_bucket *b = &t->buckets[k];
        sum += squares(b->dtype, t->means + b->at + b->held.own.first * b->elem_bytes,
                       b->held.own.count);
    }
    return sum;
}

double tt_train_squares_whole(const struct tt_trainer *t)
{
    double sum = 0;
    for (uint32_t i = 0; i < t->ntensors; i++)
        if (t->tensors[i].used)
            sum += squares(t->tensors[i].v.dtype, t->tensors[i].mean, t->tensors[i].v.count);
    return sum;
}
