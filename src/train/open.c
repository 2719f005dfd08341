/* open.c - a trainer's life: opened on a twin of the communicator (so that the caller's collectives
 * and the trainer's never mix), filled with tensors, frozen, closed.
 *
 *     open -> add, set_group ... -> freeze (freeze.c) -> steps (step.c, thread.c) -> close
 *
 * Before freeze a trainer is a list of tensors. A trainer whose open or freeze failed half-way can
 * still be closed: every free accepts what was never made. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/train_int.h"

bool tt_train_sharded(const struct tt_trainer *t)
{
    return t->options.policy.kind == TT_POLICY_DEAR_SHARDED;
}

static tutti_status check_options(const struct tt_train_options *o, struct tutti_error *err)
{
    if ((unsigned)o->optimizer >= TT_OPT_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no optimizer %d", (int)o->optimizer);
    if (!(o->clip_norm >= 0 && o->clip_norm < 1e300))
        return tt_fail(err, TUTTI_ERR_RANGE, "gradients cannot be clipped to a norm of %g",
                       o->clip_norm);
    if (o->clip_norm > 0 && o->optimizer == TT_OPT_NONE)
        return tt_fail(err, TUTTI_ERR_ARG, "clipping is part of the update: it needs an optimizer");
    if (o->policy.kind == TT_POLICY_DEAR_SHARDED && o->optimizer == TT_OPT_NONE)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "policy dear-sharded updates parameters on shards: it needs an optimizer");
    if (o->elastic && o->optimizer == TT_OPT_NONE)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "an elastic trainer repeats and takes back updates: it needs an optimizer");
    if (o->elastic && o->policy.kind == TT_POLICY_DEAR_SHARDED && !o->redundancy)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "policy dear-sharded cannot be elastic without redundancy: with a rank that "
                       "dies its share of the optimizer's state is lost; redundancy 1 keeps a copy "
                       "on another rank, policy dear keeps all of it on every rank");
    if (o->redundancy > 1 ||
        (o->redundancy && (!o->elastic || o->policy.kind != TT_POLICY_DEAR_SHARDED)))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "redundancy %u: 1 is for elastic trainers with policy dear-sharded, else 0",
                       o->redundancy);
    if (o->window > TT_TRAIN_WINDOW_MAX)
        return tt_fail(err, TUTTI_ERR_RANGE, "a window of %u: at most %d", o->window,
                       (int)TT_TRAIN_WINDOW_MAX);
    return TUTTI_OK;
}

/* The condition uses the monotonic clock: deadlines must not move with the time of day. */
static bool make_locks(struct tt_trainer *t)
{
    pthread_condattr_t clock;
    if (pthread_condattr_init(&clock))
        return false;
    t->locks_made =
        !pthread_mutex_init(&t->lock, NULL) && !pthread_mutex_init(&t->begin_lock, NULL) &&
        !pthread_mutex_init(&t->settle_lock, NULL) &&
        !pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) && !pthread_cond_init(&t->news, &clock);
    pthread_condattr_destroy(&clock);
    return t->locks_made;
}

tutti_status tt_train_open(struct tt_comm *c, const struct tt_train_options *o,
                           struct tt_trainer **ret, struct tutti_error *err)
{
    tutti_status st = check_options(o, err);
    struct tt_trainer *t = st ? NULL : tt_zalloc(1, sizeof *t);
    if (st || !t)
        return st ? st : tt_fail_memory(err, "trainer");
    t->options = *o;
    t->options.window = o->window ? o->window : TT_TRAIN_WINDOW;
    t->bell = -1;
    t->clip = t->scale = t->next_scale = 1;
    t->gate = t->check = TT_NO_LAUNCH;
    atomic_store(&t->sync, true);
    /* The norm and the use of all gradients must be known before the first update, so all
     * reductions come before the first all-gather. dear always keeps that order: real layers do
     * not keep to a profile's times, and any other order stalls when a gradient arrives later than
     * the profile predicted. */
    if (o->clip_norm > 0 || o->allow_unused || tt_policy_is_dear(o->policy.kind))
        t->options.policy.order = TT_ORDER_TWO_PHASE;
    if (tt_policy_is_dear(o->policy.kind) && o->policy.partition_bytes == 0)
        t->options.policy.partition_bytes = TT_TRAIN_PART;
    /* From here on tt_train_close frees whatever was made. */
    st = make_locks(t) ? tt_train_join(t, c, err) : tt_fail_memory(err, "locks");
    if (!st)
        *ret = t;
    else
        tt_train_close(t);
    return st;
}

tutti_status tt_train_join(struct tt_trainer *t, struct tt_comm *c, struct tutti_error *err)
{
    tutti_status st = tt_comm_twin(c, &t->comm, err);
    if (st)
        return st;
    tt_comm_pump_begin(t->comm);
    t->rank = tt_comm_rank(t->comm);
    t->ranks = tt_comm_size(t->comm);
    return TUTTI_OK;
}

static tutti_status check_tensor(const struct tt_trainer *t, const struct tt_train_tensor *x,
                                 struct tutti_error *err)
{
    size_t bytes;
    if (t->policy)
        return tt_fail(err, TUTTI_ERR_ARG, "the trainer is frozen");
    if (!x->name || !*x->name || strlen(x->name) >= TT_TRAIN_NAME)
        return tt_fail(err, TUTTI_ERR_ARG, "tensor %u: a name of 1 to %d characters is needed",
                       t->ntensors, TT_TRAIN_NAME - 1);
    if ((unsigned)x->dtype >= TUTTI_DTYPE_COUNT || (unsigned)x->kind >= TT_KIND_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "tensor %s: there is no such type or kind", x->name);
    if (x->count == 0 || __builtin_mul_overflow(x->count, tt_sched_dtype_bytes(x->dtype), &bytes))
        return tt_fail(err, TUTTI_ERR_RANGE, "tensor %s: %zu elements", x->name, x->count);
    if (t->options.optimizer != TT_OPT_NONE && x->dtype != TUTTI_F32 && x->dtype != TUTTI_F64 &&
        !tt_train_half(x->dtype))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "tensor %s: optimizers are for f32, f64, f16 and bf16, not %s; without one "
                       "any type can be averaged",
                       x->name, tt_sched_dtype_name(x->dtype));
    if (x->wide && (!tt_train_half(x->dtype) || !x->param || t->options.optimizer == TT_OPT_NONE ||
                    tt_train_sharded(t)))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "tensor %s: a wide parameter needs gradients of f16 or bf16, the caller's "
                       "memory and an optimizer that is not sharded",
                       x->name);
    if (x->group >= TT_TRAIN_GROUPS)
        return tt_fail(err, TUTTI_ERR_RANGE, "tensor %s: group %u, at most %d", x->name, x->group,
                       TT_TRAIN_GROUPS - 1);
    return TUTTI_OK;
}

/* Takes a copy of the name; everything else that x points to stays the caller's. */
tutti_status tt_train_add(struct tt_trainer *t, const struct tt_train_tensor *x,
                          uint32_t *ret_index, struct tutti_error *err)
{
    tutti_status st = check_tensor(t, x, err);
    char *name = st ? NULL : tt_strdup(x->name);
    if (!st && t->ntensors == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 64;
        struct tt_tensor *grown = cap > t->cap ? tt_resize(t->tensors, cap, sizeof *grown) : NULL;
        t->tensors = grown ? grown : t->tensors;
        t->cap = grown ? cap : t->cap;
    }
    if (!st && (!name || t->ntensors == t->cap))
        st = tt_fail_memory(err, "tensors");
    if (st) {
        free(name);
        return st;
    }
    struct tt_tensor *n = &t->tensors[t->ntensors];
    memset(n, 0, sizeof *n);
    n->v = *x;
    n->v.name = name;
    n->v.uses = x->uses ? x->uses : 1;
    *ret_index = t->ntensors++;
    return TUTTI_OK;
}

/* Makes room for n groups; new ones start with the usual defaults. Both arrays may have grown when
 * one allocation fails: ngroups, which bounds their use, has not. */
tutti_status tt_train_grow_groups(struct tt_trainer *t, uint32_t n, struct tutti_error *err)
{
    static const struct tt_train_group unset = {
        .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    struct tt_train_group *a = tt_resize(t->groups, n, sizeof *a), *b;
    t->groups = a ? a : t->groups;
    b = a ? tt_resize(t->next_groups, n, sizeof *b) : NULL;
    t->next_groups = b ? b : t->next_groups;
    if (!a || !b)
        return tt_fail_memory(err, "parameter groups");
    for (; t->ngroups < n; t->ngroups++)
        a[t->ngroups] = b[t->ngroups] = unset;
    return TUTTI_OK;
}

tutti_status tt_train_set_group(struct tt_trainer *t, uint32_t g, const struct tt_train_group *v,
                                struct tutti_error *err)
{
    if (g >= TT_TRAIN_GROUPS || (t->policy && g >= t->ngroups))
        return tt_fail(err, TUTTI_ERR_RANGE, "there is no parameter group %u", g);
    bool ok = v->lr >= 0 && v->weight_decay >= 0 && v->momentum >= 0 && v->beta1 >= 0 &&
              v->beta1 < 1 && v->beta2 >= 0 && v->beta2 < 1 && v->eps >= 0;
    if (!ok || (v->nesterov && v->momentum == 0))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "parameter group %u: a rate is negative, a beta is not below 1, or nesterov "
                       "without momentum",
                       g);
    tutti_status st = g >= t->ngroups ? tt_train_grow_groups(t, g + 1, err) : TUTTI_OK;
    if (st)
        return st;
    /* take_groups (step.c) copies under the same lock: a step sees old or new values, no mix. */
    pthread_mutex_lock(&t->lock);
    t->next_groups[g] = *v;
    pthread_mutex_unlock(&t->lock);
    return TUTTI_OK;
}

/* ---- questions ---- */

void *tt_train_grad(struct tt_trainer *t, uint32_t i)
{
    return t->policy && i < t->ntensors ? t->tensors[i].grad : NULL;
}

void *tt_train_param(struct tt_trainer *t, uint32_t i)
{
    return t->policy && i < t->ntensors ? t->tensors[i].param : NULL;
}

double tt_train_norm(const struct tt_trainer *t)
{
    return t->norm;
}

bool tt_train_used(const struct tt_trainer *t, uint32_t i)
{
    return i < t->ntensors && t->tensors[i].used;
}

void tt_train_get_info(const struct tt_trainer *t, struct tt_train_info *ret)
{
    *ret = (struct tt_train_info){.ntensors = t->ntensors,
                                  .nbuckets = t->policy->nbuckets,
                                  .nlaunches = t->nlaunches,
                                  .hash = t->policy->hash,
                                  .policy = tt_policy_name(t->policy->options.kind),
                                  .used = t->policy->options,
                                  .times = t->times};
    for (uint32_t b = 0; b < t->policy->nbuckets; b++)
        ret->bytes += t->policy->buckets[b].bytes;
}

uint64_t tt_train_launch_bytes(const struct tt_trainer *t, const struct tt_launch *x)
{
    const struct tt_bucket *b = &t->buckets[x->l.bucket];
    if (x->check)
        return sizeof t->elastic.card * t->ranks;
    if (x->gate)
        return ((uint64_t)t->ntensors + 1) * sizeof *t->gate_data;
    return (x->copy ? b->held.own.count : b->elems) * b->elem_bytes;
}

bool tt_train_start_launch(const struct tt_trainer *t, uint32_t k, struct tt_train_launch *ret)
{
    if (k >= t->nlaunches)
        return false;
    const struct tt_launch *x = &t->launches[k];
    bool own = x->gate || x->check;
    const struct tt_policy_bucket *b = &t->policy->buckets[x->l.bucket];
    *ret = (struct tt_train_launch){.coll = x->l.coll,
                                    .gate = own,
                                    .bucket = x->l.bucket,
                                    .first = own ? "" : t->tensors[b->first].v.name,
                                    .last = own ? "" : t->tensors[b->last].v.name,
                                    .algo = tt_comm_request_algo(x->request),
                                    .bytes = tt_train_launch_bytes(t, x),
                                    .start_ns = atomic_load(&x->start_ns),
                                    .end_ns = atomic_load(&x->end_ns)};
    return true;
}

void tt_train_close(struct tt_trainer *t)
{
    if (!t)
        return;
    /* Updates that were deferred are due now; a step without step() is dropped. */
    if (t->thread_made && !atomic_load(&t->active))
        tt_train_settle_all(t);
    tt_train_thread_end(t);
    tt_train_launches_free(t);
    tt_train_layout_free(t);
    tt_policy_free(t->policy);
    if (t->comm)
        tt_comm_close(t->comm);
    for (uint32_t i = 0; i < t->ntensors; i++)
        free((char *)t->tensors[i].v.name);
    free(t->tensors);
    free(t->groups);
    free(t->next_groups);
    free(t->spans);
    if (t->locks_made) {
        pthread_mutex_destroy(&t->lock);
        pthread_mutex_destroy(&t->begin_lock);
        pthread_mutex_destroy(&t->settle_lock);
        pthread_cond_destroy(&t->news);
    }
    free(t);
}
