/* layout.c - where gradients, parameters and the optimizer's state lie.
 *
 * Tensors lie in forward order in one flat buffer; buckets are ranges of it, so that a gradient is
 * a view and no byte is copied. Inside a bucket tensors touch; a bucket that begins with a tensor
 * begins at a cache line.
 *
 *     tensors    | conv1.w |b| conv2.w      |b|..| fc1.w                |b|
 *     buckets    | 0                          |  | 1         | 2          |  (1 and 2 cut a tensor)
 *     blocks     |r0    |r1    |r2    |r3     |
 *
 * Block r of a bucket is rank r's in reduce-scatter and all-gather: the rank updates it when
 * updates are sharded, and sums its squares for the norm. Blocks are equal, in whole cache lines;
 * the last ones may be shorter or empty. Parameters lie as gradients do. The optimizer's state
 * lies likewise (in elements of its own size); when it is sharded it holds only what the rank holds
 * of all buckets (shares.c), one after the other. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

enum { LINE = 64 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Places the buckets, and the tensors that begin in them. */
static tutti_status layout_place(struct tt_trainer *t, struct tutti_error *err)
{
    size_t at = 0, state = 0, shard = 0;
    for (uint32_t k = 0; k < t->policy->nbuckets; k++) {
        const struct tt_policy_bucket *p = &t->policy->buckets[k];
        struct tt_bucket *b = &t->buckets[k];
        b->dtype = t->tensors[p->first].v.dtype;
        b->elem_bytes = tt_sched_dtype_bytes(b->dtype);
        size_t state_each = tt_train_state_each(b->dtype);
        assert(p->bytes % b->elem_bytes == 0 && (p->offset_bytes == 0 || p->first == p->last));
        b->elems = p->bytes / b->elem_bytes;
        b->counts = t->counts + (size_t)k * t->ranks;
        /* Only a bucket that begins with a tensor may be aligned: one that begins inside a tensor
         * continues it without a gap. */
        if (p->offset_bytes == 0)
            at = round_up(at, LINE);
        b->at = at;
        for (uint32_t i = p->first; i <= p->last; i++) {
            struct tt_tensor *x = &t->tensors[i];
            if (p->offset_bytes == 0) {
                x->at = at;
                x->first_bucket = k;
                at += x->v.count * b->elem_bytes;
                x->state_at = state;
                state += round_up(x->v.count * state_each, LINE);
            }
            x->last_bucket = k;
        }
        for (uint32_t r = 0; r < t->ranks; r++)
            b->counts[r] = tt_train_block(b, r, t->ranks).count;
        b->held = tt_train_hold(t, b, t->rank, t->ranks, &shard);
        at = b->at + p->bytes;
        if (at > PTRDIFF_MAX / 4)
            return tt_fail(err, TUTTI_ERR_LIMIT, "gradients of more than %td bytes",
                           (ptrdiff_t)PTRDIFF_MAX / 4);
    }
    t->bytes = round_up(at, LINE);
    t->state_bytes = tt_train_sharded(t) ? shard : state;
    return TUTTI_OK;
}

/* Zeroed memory: shared with the ranks of the host if the communicator has enough, else private. */
static char *layout_take(struct tt_trainer *t, size_t bytes, bool *ret_shared)
{
    struct tutti_error err;
    void *p = NULL;
    *ret_shared = t->ranks > 1 && !tt_comm_mem_alloc(t->comm, bytes, &p, &err);
    if (!*ret_shared && posix_memalign(&p, LINE, bytes ? bytes : LINE))
        return NULL;
    memset(p, 0, bytes);
    return p;
}

/* Returns memory to where layout_take got it; accepts NULL. */
static void give_back(struct tt_trainer *t, char *p, bool shared)
{
    if (p && shared)
        tt_comm_mem_free(t->comm, p);
    else
        free(p);
}

/* Are there parameters that live in the trainer's memory? */
static bool wants_params(const struct tt_trainer *t)
{
    bool some = false;
    for (uint32_t i = 0; i < t->ntensors; i++)
        some |= !t->tensors[i].v.param;
    return tt_train_sharded(t) || (some && t->options.optimizer != TT_OPT_NONE);
}

/* Does any tensor need an f32 copy? Wide ones are f32 already. */
static bool wants_masters(const struct tt_trainer *t)
{
    bool some = false;
    for (uint32_t i = 0; i < t->ntensors; i++)
        some |= tt_train_half(t->tensors[i].v.dtype) && !t->tensors[i].v.wide;
    return some && t->options.optimizer != TT_OPT_NONE;
}

/* Memory of the communicator, or memory that must outlive it? What callers have pointers to stays
 * where it is when an elastic trainer gets other ranks; what ranks of the old communicator may
 * write into does not. */
static char *layout_any(struct tt_trainer *t, bool lasting, bool *ret_shared)
{
    void *p = NULL;
    if (!lasting)
        return layout_take(t, t->bytes, ret_shared);
    *ret_shared = false;
    return posix_memalign(&p, LINE, t->bytes ? t->bytes : LINE) ? NULL : memset(p, 0, t->bytes);
}

/* What belongs to the communicator, taken anew for each; means stay what they are. */
static bool take_bound(struct tt_trainer *t)
{
    if (!t->options.elastic) {
        t->means = t->grads;
        return true;
    }
    t->means = layout_take(t, t->bytes, &t->means_shared);
    if (t->means && t->elastic.spare)
        memcpy(t->means, t->elastic.spare, t->bytes);
    free(t->elastic.spare);
    t->elastic.spare = NULL;
    return t->means;
}

static bool take_own(struct tt_trainer *t)
{
    bool ok, lasting = t->options.elastic;
    t->grads = layout_any(t, lasting, &t->grads_shared);
    ok = t->grads;
    if (ok && wants_params(t))
        ok = (t->params = layout_any(t, lasting, &t->params_shared)) != NULL;
    for (uint32_t s = 0; ok && s < tt_train_optim_states(t->options.optimizer); s++)
        ok = posix_memalign((void **)&t->state[s], LINE, t->state_bytes ? t->state_bytes : LINE) ==
                 0 &&
             (memset(t->state[s], 0, t->state_bytes), true);
    if (ok && wants_masters(t)) /* calloc: pages that only f32 tensors would use stay untouched */
        ok =
            (t->state[TT_STATE_MASTER] = calloc(t->state_bytes ? t->state_bytes : LINE, 1)) != NULL;
    for (uint32_t i = 0; ok && i < t->ntensors; i++)
        ok = !t->tensors[i].v.wide ||
             (t->tensors[i].lost = tt_zalloc(t->tensors[i].v.count, sizeof(float))) != NULL;
    return ok;
}

/* Sets every tensor's authoritative copies, and fills the parameters that are not the caller's,
 * once: a step that was interrupted may have changed them. */
static void point(struct tt_trainer *t)
{
    for (uint32_t i = 0; i < t->ntensors; i++) {
        struct tt_tensor *x = &t->tensors[i];
        x->grad = t->grads + x->at;
        x->mean = t->means + x->at;
        x->param =
            t->params && (tt_train_sharded(t) || !x->v.param) ? t->params + x->at : x->v.param;
        if (x->v.param && x->param != x->v.param && !t->elastic.member)
            memcpy(x->param, x->v.param, x->v.count * tt_sched_dtype_bytes(x->v.dtype));
    }
}

tutti_status tt_train_spread(struct tt_trainer *t, struct tutti_error *err)
{
    for (uint32_t i = 0;
         i < t->ntensors && !t->options.no_broadcast && t->options.optimizer != TT_OPT_NONE; i++) {
        struct tt_tensor *x = &t->tensors[i];
        struct tt_call call = {.coll = TUTTI_BROADCAST,
                               .in = x->param,
                               .out = x->param,
                               .count = x->v.count,
                               .dtype = x->v.dtype};
        call.dtype = x->v.wide ? TUTTI_F32 : call.dtype;
        tutti_status st = tt_comm_run(t->comm, &call);
        if (st) {
            *err = *tt_comm_last_error(t->comm);
            return st;
        }
        if (x->v.param && x->param != x->v.param)
            memcpy(x->v.param, x->param, x->v.count * tt_sched_dtype_bytes(x->v.dtype));
    }
    return TUTTI_OK;
}

tutti_status tt_train_layout(struct tt_trainer *t, struct tutti_error *err)
{
    free(t->counts);
    t->counts = tt_zalloc((size_t)t->policy->nbuckets * t->ranks, sizeof *t->counts);
    t->buckets = t->buckets ? t->buckets : tt_zalloc(t->policy->nbuckets, sizeof *t->buckets);
    tutti_status st =
        t->buckets && t->counts ? layout_place(t, err) : tt_fail_memory(err, "buckets");
    if (!st && ((!t->grads && !take_own(t)) || !take_bound(t)))
        st = tt_fail(err, TUTTI_ERR_MEMORY, "out of memory (%zu bytes of gradients)", t->bytes);
    if (!st)
        point(t);
    if (!st && !t->elastic.member)
        t->elastic.now = (struct tt_shares){.rank = t->rank, .ranks = t->ranks};
    return st;
}

bool tt_train_layout_unbind(struct tt_trainer *t)
{
    bool ok = true;
    if (!t->options.elastic)
        return true;
    if (t->means) {
        ok = (t->elastic.spare = malloc(t->bytes)) != NULL;
        if (ok)
            memcpy(t->elastic.spare, t->means, t->bytes);
        give_back(t, t->means, t->means_shared);
        t->means = NULL;
    }
    return ok;
}

void tt_train_layout_free(struct tt_trainer *t)
{
    tt_train_layout_unbind(t);
    give_back(t, t->grads, t->grads_shared);
    give_back(t, t->params, t->params_shared);
    free(t->elastic.spare);
    t->grads = t->params = t->elastic.spare = NULL;
    for (uint32_t s = 0; s < TT_STATES; s++) {
        free(t->state[s]);
        t->state[s] = NULL;
    }
    tt_train_shares_forget(&t->elastic.past);
    t->elastic.now = (struct tt_shares){0};
    for (uint32_t i = 0; i < t->ntensors; i++) {
        free(t->tensors[i].lost);
        t->tensors[i].lost = NULL;
    }
    free(t->buckets);
    free(t->counts);
    t->buckets = NULL;
    t->counts = NULL;
}
