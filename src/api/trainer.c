/* trainer.c - the public functions of trainers over train/. Functions of a training step return
 * only a status; the sentence is in tutti_trainer_last_error.
 *
 *     open -> add, add, .. -> freeze -> { grad_ready.. [average] step wait_param.. }* -> close
 *
 * A trainer is not tied to the handle of its communicator here: the caller keeps the communicator
 * open for longer (tutti.h). */
#include <string.h>

#include "api/api.h"

#include <stdlib.h>

#include "train/train.h"

/* `last` is the copy of the trainer's error that tutti_trainer_last_error returns. */
struct api_trainer {
    struct tt_trainer *t;
    struct tutti_error last;
};

/* Trainers offer a few algorithms by name, not the whole table. */
static tutti_status find_algo(const char *name, enum tt_policy_algo *ret, struct tutti_error *err)
{
    const char *names[TT_POLICY_ALGO_COUNT];
    char near[160];
    for (unsigned a = 0; a < TT_POLICY_ALGO_COUNT; a++) {
        names[a] = tt_policy_algo_name((enum tt_policy_algo)a);
        if (tt_streq(name, names[a])) {
            *ret = (enum tt_policy_algo)a;
            return TUTTI_OK;
        }
    }
    tt_near_matches(name, names, TT_POLICY_ALGO_COUNT, near, sizeof near);
    return tt_fail(err, TUTTI_ERR_ARG, "trainers do not offer algorithm '%.64s'%s%s", name,
                   *near ? "; " : "", near);
}

/* Public options to those of train/. Without a policy it is dear, or dear-sharded with an
 * optimizer. Times that overflow saturate. */
static tutti_status trainer_translate(const struct tutti_trainer_options *o,
                                      struct tt_train_options *ret, struct tutti_error *err)
{
    if ((unsigned)o->optimizer > TUTTI_OPTIMIZER_ADAMW)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no optimizer %d", (int)o->optimizer);
    const char *name = o->policy                              ? o->policy
                       : o->optimizer == TUTTI_OPTIMIZER_NONE ? "dear"
                                                              : "dear-sharded";
    int policy = tt_policy_find(name, err),
        fusion = o->fusion ? tt_policy_fusion_find(o->fusion, err) : TT_FUSION_DEFAULT;
    if (policy < 0 || fusion < 0)
        return TUTTI_ERR_ARG;
    *ret = (struct tt_train_options){.policy = {.kind = (enum tt_policy_kind)policy,
                                                .recursive_doubling = o->recursive_doubling,
                                                .fusion = (enum tt_fusion)fusion,
                                                .threshold_bytes = o->threshold_bytes,
                                                .first_bytes = o->first_bytes,
                                                .nearby = o->nearby,
                                                .cycle_ps = o->cycle_us < UINT64_MAX / 1000000
                                                                ? o->cycle_us * 1000000
                                                                : UINT64_MAX,
                                                .partition_bytes = o->partition_bytes},
                                     .optimizer = (enum tt_optimizer)o->optimizer,
                                     .clip_norm = o->clip_norm,
                                     .allow_unused = o->allow_unused,
                                     .keep_grads = o->keep_grads,
                                     .no_broadcast = o->no_broadcast,
                                     .window = o->window,
                                     .elastic = o->elastic,
                                     .redundancy = o->redundancy,
                                     .save = o->save,
                                     .load = o->load,
                                     .ctx = o->ctx};
    return o->algo ? find_algo(o->algo, &ret->policy.algo, err) : TUTTI_OK;
}

tutti_status tutti_trainer_open(struct tutti_comm *comm,
                                const struct tutti_trainer_options *options,
                                struct tutti_trainer **ret_trainer, struct tutti_error *err)
{
    struct tutti_trainer_options given = {0};
    struct tt_train_options o;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_trainer", ret_trainer) : TUTTI_ERR_ARG;
    if (!st && options)
        st = api_struct("tutti_trainer_options", options, &given, err);
    if (!st)
        st = trainer_translate(&given, &o, err);
    struct api_trainer *t = st ? NULL : tt_zalloc(1, sizeof *t);
    if (!t)
        return st ? st : tt_fail_memory(err, "trainer");
    st = tt_train_open(c, &o, &t->t, err);
    void *handle = st ? NULL : tt_api_make(API_TRAINER, t, NULL, err);
    if (!handle) {
        tt_train_close(t->t);
        free(t);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret_trainer = handle;
    return TUTTI_OK;
}

static enum tt_tensor_kind kind_of(tutti_tensor_kind k)
{
    switch (k) {
    case TUTTI_TENSOR_OTHER:
        return TT_KIND_OTHER;
    case TUTTI_TENSOR_CONV:
        return TT_KIND_CONV;
    case TUTTI_TENSOR_FC:
        return TT_KIND_FC;
    case TUTTI_TENSOR_NORM:
        return TT_KIND_NORM;
    case TUTTI_TENSOR_EMBEDDING:
        return TT_KIND_EMBEDDING;
    }
    return TT_KIND_COUNT; /* refused by train/ */
}

uint32_t tt_api_trainer_index(size_t index)
{
    return index < UINT32_MAX ? (uint32_t)index : UINT32_MAX;
}

struct tt_trainer *tt_api_trainer_find(struct tutti_trainer *trainer, const char *function,
                                       struct tutti_error *err)
{
    struct api_trainer *t = tt_api_found(API_TRAINER, trainer, function, err);
    return t ? t->t : NULL;
}

struct tt_trainer *tt_api_trainer_see(const struct tutti_trainer *trainer, const char *function)
{
    return ((const struct api_trainer *)tt_api_needed(API_TRAINER, trainer, function))->t;
}

tutti_status tutti_trainer_add(struct tutti_trainer *trainer, const struct tutti_tensor *caller,
                               size_t *ret_index, struct tutti_error *err)
{
    uint32_t index;
    struct tutti_tensor given;
    const struct tutti_tensor *tensor = &given;
    const struct api_trainer *t = api_find(TRAINER, trainer, err);
    tutti_status st = t ? api_struct("tutti_tensor", caller, &given, err) : TUTTI_ERR_ARG;
    if (!st)
        st = api_given(err, "the tensor's name", tensor->name);
    if (st)
        return st;
    /* Written so that NaN is refused, too. */
    if (!(tensor->forward_us >= 0 && tensor->forward_us < 1e12 && tensor->backward_us >= 0 &&
          tensor->backward_us < 1e12))
        return tt_fail(err, TUTTI_ERR_RANGE, "tensor: times of %g and %g us", tensor->forward_us,
                       tensor->backward_us);
    struct tt_train_tensor x = {.name = tensor->name,
                                .count = tensor->count,
                                .dtype = tensor->dtype,
                                .kind = kind_of(tensor->kind),
                                .layer = tensor->layer,
                                .group = tensor->group,
                                .uses = tensor->uses,
                                .param = tensor->param,
                                .grad = tensor->grad,
                                .forward_ps = (uint64_t)(tensor->forward_us * 1e6),
                                .backward_ps = (uint64_t)(tensor->backward_us * 1e6),
                                .wide = tensor->wide_param};
    st = tt_train_add(t->t, &x, &index, err);
    if (!st && ret_index)
        *ret_index = index;
    return st;
}

tutti_status tutti_trainer_set_group(struct tutti_trainer *trainer, size_t group,
                                     const struct tutti_group *values, struct tutti_error *err)
{
    struct tutti_group given, *v = &given;
    const struct api_trainer *t = api_find(TRAINER, trainer, err);
    tutti_status st = t ? api_struct("tutti_group", values, &given, err) : TUTTI_ERR_ARG;
    if (st)
        return st;
    /* 0 means the usual default of Adam's constants. */
    struct tt_train_group g = {.lr = v->lr,
                               .weight_decay = v->weight_decay,
                               .momentum = v->momentum,
                               .nesterov = v->nesterov,
                               .beta1 = v->beta1 != 0 ? v->beta1 : 0.9,
                               .beta2 = v->beta2 != 0 ? v->beta2 : 0.999,
                               .eps = v->eps != 0 ? v->eps : 1e-8};
    return tt_train_set_group(t->t, tt_api_trainer_index(group), &g, err);
}

tutti_status tutti_trainer_freeze(struct tutti_trainer *trainer, struct tutti_error *err)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, err);
    return t ? tt_train_freeze(t, err) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_rebind(struct tutti_trainer *trainer, struct tutti_comm *comm,
                                  struct tutti_error *err)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, err);
    struct tt_comm *c = t ? api_find(COMM, comm, err) : NULL;
    return c ? tt_train_rebind(t, c, err) : TUTTI_ERR_ARG;
}

uint64_t tutti_trainer_steps(struct tutti_trainer *trainer)
{
    return tt_train_steps(tt_api_trainer_see(trainer, __func__));
}

uint64_t tutti_trainer_bound(const struct tutti_trainer *trainer)
{
    return tt_train_bound(tt_api_trainer_see(trainer, __func__));
}

uint64_t tutti_trainer_fingerprint(struct tutti_trainer *trainer)
{
    return tt_train_fingerprint(tt_api_trainer_see(trainer, __func__));
}

void *tutti_trainer_grad(struct tutti_trainer *trainer, size_t index)
{
    return tt_train_grad(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index));
}

void *tutti_trainer_param(struct tutti_trainer *trainer, size_t index)
{
    return tt_train_param(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index));
}

tutti_status tutti_trainer_put_grad(struct tutti_trainer *trainer, size_t index, const float *grad)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    /* SIZE_MAX: the whole tensor. put_range below avoids it as a count. */
    return t ? tt_train_put(t, tt_api_trainer_index(index), 0, SIZE_MAX, grad) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_put_range(struct tutti_trainer *trainer, size_t index, size_t first,
                                     size_t count, const float *grad)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_put(t, tt_api_trainer_index(index), first,
                            count < SIZE_MAX ? count : SIZE_MAX - 1, grad)
             : TUTTI_ERR_ARG;
}

bool tutti_trainer_part(const struct tutti_trainer *trainer, size_t index, size_t part,
                        size_t *ret_first, size_t *ret_count)
{
    api_must("ret_first", ret_first, "ret_count", ret_count);
    return tt_train_part(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index),
                         tt_api_trainer_index(part), ret_first, ret_count);
}

tutti_status tutti_trainer_part_ready(struct tutti_trainer *trainer, size_t index, size_t part)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_part_ready(t, tt_api_trainer_index(index), tt_api_trainer_index(part))
             : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_wait_part(struct tutti_trainer *trainer, size_t index, size_t part)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_wait_part(t, tt_api_trainer_index(index), tt_api_trainer_index(part))
             : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_grad_ready(struct tutti_trainer *trainer, size_t index)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_ready(t, tt_api_trainer_index(index)) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_sync(struct tutti_trainer *trainer, bool on)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_sync(t, on) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_set_scale(struct tutti_trainer *trainer, double scale)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_scale(t, scale) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_average(struct tutti_trainer *trainer)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_average(t) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_step(struct tutti_trainer *trainer)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_step(t) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_wait_param(struct tutti_trainer *trainer, size_t index)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_wait(t, tt_api_trainer_index(index)) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_flush(struct tutti_trainer *trainer)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_flush(t) : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_reload(struct tutti_trainer *trainer)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_reload(t) : TUTTI_ERR_ARG;
}

double tutti_trainer_norm(const struct tutti_trainer *trainer)
{
    return tt_train_norm(tt_api_trainer_see(trainer, __func__));
}

bool tutti_trainer_used(const struct tutti_trainer *trainer, size_t index)
{
    return tt_train_used(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index));
}

tutti_status tutti_trainer_use(struct tutti_trainer *trainer, size_t index, bool use)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, NULL);
    return t ? tt_train_use(t, tt_api_trainer_index(index), use) : TUTTI_ERR_ARG;
}

const struct tutti_error *tutti_trainer_last_error(struct tutti_trainer *trainer)
{
    struct api_trainer *t = tt_api_peek(API_TRAINER, trainer);
    if (!t)
        return tt_api_refusal();
    t->last = tt_train_error(t->t);
    return &t->last;
}

void tutti_trainer_info(const struct tutti_trainer *trainer, struct tutti_trainer_info *ret)
{
    static const char *const orders[] = {"best", "next-use", "patient", "two-phase", "published"};
    struct tt_train_info i;
    const struct tt_trainer *t = tt_api_trainer_see(trainer, __func__);
    api_must("ret", ret);
    tt_train_get_info(t, &i);
    *ret = (struct tutti_trainer_info){.policy = i.policy,
                                       .fusion = tt_policy_fusion_name(i.used.fusion),
                                       .order = orders[i.used.order],
                                       .tensors = i.ntensors,
                                       .buckets = i.nbuckets,
                                       .launches = i.nlaunches,
                                       .bytes = i.bytes,
                                       .threshold_bytes = i.used.threshold_bytes,
                                       .hash = i.hash,
                                       .iteration_us = tt_api_us(i.times.iteration_ps),
                                       .forward_us = tt_api_us(i.times.forward_ps),
                                       .backward_us = tt_api_us(i.times.backward_ps),
                                       .comm_us = tt_api_us(i.times.comm_ps),
                                       .ideal_us = tt_api_us(i.times.ideal_ps),
                                       .limit_us = tt_api_us(i.times.limit_ps)};
}

bool tutti_trainer_launch(const struct tutti_trainer *trainer, size_t i,
                          struct tutti_trainer_launch *ret)
{
    struct tt_train_launch l;
    const struct tt_trainer *t = tt_api_trainer_see(trainer, __func__);
    api_must("ret", ret);
    if (!tt_train_start_launch(t, tt_api_trainer_index(i), &l))
        return false;
    /* An older caller's struct is shorter: only as much is filled as it has. A gate is no
     * bucket. */
    const struct tutti_trainer_launch all = {.size = ret->size,
                                             .coll = tutti_coll_name(l.coll),
                                             .bucket = l.gate ? UINT32_MAX : l.bucket,
                                             .first = l.first,
                                             .last = l.last,
                                             .algo = l.algo,
                                             .bytes = l.bytes,
                                             .start_ns = l.start_ns,
                                             .end_ns = l.end_ns};
    memcpy(ret, &all, ret->size < sizeof all ? ret->size : sizeof all);
    return true;
}

void tutti_trainer_close(struct tutti_trainer *trainer)
{
    struct api_trainer *t = api_end(TRAINER, trainer);
    if (t)
        tt_train_close(t->t);
    free(t);
}
