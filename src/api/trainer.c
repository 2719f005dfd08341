/* Public trainer functions over train/. */
#include "api/api.h"

#include <stdlib.h>

#include "train/train.h"

struct tutti_trainer {
    struct tt_trainer *t;
    struct tutti_error last;
};

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
    return tt_fail(err, TUTTI_ERR_ARG, "trainers do not offer algorithm '%.64s'%s%s", name, *near ? "; " : "", near);
}

static tutti_status translate(const struct tutti_trainer_options *o, struct tt_train_options *ret, struct tutti_error *err)
{
    struct tutti_trainer_options none = {.size = sizeof none};
    o = o ? o : &none;
    if (o->size != sizeof *o)
        return tt_fail(err, TUTTI_ERR_ARG, "options: size field is not sizeof(struct tutti_trainer_options)");
    const char *name = o->policy ? o->policy : o->optimizer == TUTTI_OPTIMIZER_NONE ? "dear" : "dear-sharded";
    int policy = tt_policy_find(name, err), fusion = o->fusion ? tt_fusion_find(o->fusion, err) : TT_FUSION_DEFAULT;
    if (policy < 0 || fusion < 0)
        return TUTTI_ERR_ARG;
    *ret = (struct tt_train_options){.policy = {.kind = (enum tt_policy_kind)policy,
                                                .recursive_doubling = o->recursive_doubling,
                                                .fusion = (enum tt_fusion)fusion,
                                                .threshold_bytes = o->threshold_bytes,
                                                .first_bytes = o->first_bytes,
                                                .nearby = o->nearby,
                                                .cycle_ps = o->cycle_us < UINT64_MAX / 1000000 ? o->cycle_us * 1000000 : UINT64_MAX,
                                                .partition_bytes = o->partition_bytes},
                                     .optimizer = (enum tt_optimizer)o->optimizer,
                                     .clip_norm = o->clip_norm,
                                     .allow_unused = o->allow_unused,
                                     .keep_grads = o->keep_grads,
                                     .no_broadcast = o->no_broadcast,
                                     .window = o->window};
    return o->algo ? find_algo(o->algo, &ret->policy.algo, err) : TUTTI_OK;
}

tutti_status tutti_trainer_open(struct tutti_comm *comm, const struct tutti_trainer_options *options, struct tutti_trainer **ret_trainer,
                                struct tutti_error *err)
{
    struct tt_train_options o;
    tutti_status st = translate(options, &o, err);
    struct tutti_trainer *t = st ? NULL : tt_zalloc(1, sizeof *t);
    if (st || !t)
        return st ? st : tt_fail_memory(err, "trainer");
    st = tt_trainer_open((struct tt_comm *)comm, &o, &t->t, err);
    if (st)
        free(t);
    else
        *ret_trainer = t;
    return st;
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
    return TT_KIND_COUNT; /* refused */
}

tutti_status tutti_trainer_add(struct tutti_trainer *trainer, const struct tutti_tensor *tensor, size_t *ret_index, struct tutti_error *err)
{
    uint32_t index;
    if (tensor->size != sizeof *tensor)
        return tt_fail(err, TUTTI_ERR_ARG, "tensor: size field is not sizeof(struct tutti_tensor)");
    if (!(tensor->forward_us >= 0 && tensor->forward_us < 1e12 && tensor->backward_us >= 0 && tensor->backward_us < 1e12))
        return tt_fail(err, TUTTI_ERR_RANGE, "tensor: times of %g and %g us", tensor->forward_us, tensor->backward_us);
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
    tutti_status st = tt_trainer_add(trainer->t, &x, &index, err);
    if (!st && ret_index)
        *ret_index = index;
    return st;
}

tutti_status tutti_trainer_set_group(struct tutti_trainer *trainer, size_t group, const struct tutti_group *v, struct tutti_error *err)
{
    if (v->size != sizeof *v || group > UINT32_MAX)
        return tt_fail(err, TUTTI_ERR_ARG, "group: size field is not sizeof(struct tutti_group), or the number is too large");
    struct tt_train_group g = {.lr = v->lr,
                               .weight_decay = v->weight_decay,
                               .momentum = v->momentum,
                               .nesterov = v->nesterov,
                               .beta1 = v->beta1 != 0 ? v->beta1 : 0.9,
                               .beta2 = v->beta2 != 0 ? v->beta2 : 0.999,
                               .eps = v->eps != 0 ? v->eps : 1e-8};
    return tt_trainer_group(trainer->t, (uint32_t)group, &g, err);
}

tutti_status tutti_trainer_freeze(struct tutti_trainer *trainer, struct tutti_error *err)
{
    return tt_trainer_freeze(trainer->t, err);
}

/* An index that does not fit is one that does not exist. */
static uint32_t narrow(size_t index)
{
    return index < UINT32_MAX ? (uint32_t)index : UINT32_MAX;
}

void *tutti_trainer_grad(struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_grad(trainer->t, narrow(index));
}

void *tutti_trainer_param(struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_param(trainer->t, narrow(index));
}

tutti_status tutti_trainer_put_grad(struct tutti_trainer *trainer, size_t index, const float *grad)
{
    return tt_trainer_put(trainer->t, narrow(index), 0, SIZE_MAX, grad);
}

tutti_status tutti_trainer_put_range(struct tutti_trainer *trainer, size_t index, size_t first, size_t count, const float *grad)
{
    return tt_trainer_put(trainer->t, narrow(index), first, count < SIZE_MAX ? count : SIZE_MAX - 1, grad);
}

bool tutti_trainer_part(const struct tutti_trainer *trainer, size_t index, size_t part, size_t *ret_first, size_t *ret_count)
{
    return tt_trainer_part(trainer->t, narrow(index), narrow(part), ret_first, ret_count);
}

tutti_status tutti_trainer_part_ready(struct tutti_trainer *trainer, size_t index, size_t part)
{
    return tt_trainer_part_ready(trainer->t, narrow(index), narrow(part));
}

tutti_status tutti_trainer_wait_part(struct tutti_trainer *trainer, size_t index, size_t part)
{
    return tt_trainer_wait_part(trainer->t, narrow(index), narrow(part));
}

tutti_status tutti_trainer_grad_ready(struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_ready(trainer->t, narrow(index));
}

tutti_status tutti_trainer_sync(struct tutti_trainer *trainer, bool on)
{
    return tt_trainer_sync(trainer->t, on);
}

tutti_status tutti_trainer_set_scale(struct tutti_trainer *trainer, double scale)
{
    return tt_trainer_scale(trainer->t, scale);
}

tutti_status tutti_trainer_average(struct tutti_trainer *trainer)
{
    return tt_trainer_average(trainer->t);
}

tutti_status tutti_trainer_step(struct tutti_trainer *trainer)
{
    return tt_trainer_step(trainer->t);
}

tutti_status tutti_trainer_wait_param(struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_wait(trainer->t, narrow(index));
}

tutti_status tutti_trainer_flush(struct tutti_trainer *trainer)
{
    return tt_trainer_flush(trainer->t);
}

tutti_status tutti_trainer_reload(struct tutti_trainer *trainer)
{
    return tt_trainer_reload(trainer->t);
}

const char *tutti_trainer_state_name(const struct tutti_trainer *trainer, size_t index, size_t k)
{
    return tt_trainer_state_name(trainer->t, narrow(index), narrow(k));
}

size_t tutti_trainer_state_bytes(const struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_state_bytes(trainer->t, narrow(index));
}

tutti_status tutti_trainer_state_get(struct tutti_trainer *trainer, size_t index, size_t k, void *data, struct tutti_error *err)
{
    return tt_trainer_state_get(trainer->t, narrow(index), narrow(k), data, err);
}

tutti_status tutti_trainer_state_set(struct tutti_trainer *trainer, size_t index, size_t k, const void *data, struct tutti_error *err)
{
    return tt_trainer_state_set(trainer->t, narrow(index), narrow(k), data, err);
}

uint64_t tutti_trainer_updates(struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_updates(trainer->t, narrow(index));
}

tutti_status tutti_trainer_set_updates(struct tutti_trainer *trainer, size_t index, uint64_t updates, struct tutti_error *err)
{
    return tt_trainer_set_updates(trainer->t, narrow(index), updates, err);
}

double tutti_trainer_norm(const struct tutti_trainer *trainer)
{
    return tt_trainer_norm(trainer->t);
}

bool tutti_trainer_used(const struct tutti_trainer *trainer, size_t index)
{
    return tt_trainer_used(trainer->t, narrow(index));
}

const struct tutti_error *tutti_trainer_last_error(struct tutti_trainer *trainer)
{
    trainer->last = tt_trainer_error(trainer->t);
    return &trainer->last;
}

void tutti_trainer_info(const struct tutti_trainer *trainer, struct tutti_trainer_info *ret)
{
    static const char *const orders[] = {"best", "next-use", "patient", "two-phase", "published"};
    struct tt_train_info i;
    tt_trainer_info(trainer->t, &i);
    *ret = (struct tutti_trainer_info){.policy = i.policy,
                                       .fusion = tt_fusion_name(i.used.fusion),
                                       .order = orders[i.used.order],
                                       .tensors = i.ntensors,
                                       .buckets = i.nbuckets,
                                       .launches = i.nlaunches,
                                       .bytes = i.bytes,
                                       .threshold_bytes = i.used.threshold_bytes,
                                       .hash = i.hash,
                                       .iteration_us = api_us(i.times.iteration_ps),
                                       .forward_us = api_us(i.times.forward_ps),
                                       .backward_us = api_us(i.times.backward_ps),
                                       .comm_us = api_us(i.times.comm_ps),
                                       .ideal_us = api_us(i.times.ideal_ps),
                                       .limit_us = api_us(i.times.limit_ps)};
}

bool tutti_trainer_launch(const struct tutti_trainer *trainer, size_t i, struct tutti_trainer_launch *ret)
{
    struct tt_train_launch l;
    if (!tt_trainer_launch(trainer->t, narrow(i), &l))
        return false;
    *ret = (struct tutti_trainer_launch){.coll = tutti_coll_name(l.coll),
                                         .bucket = l.gate ? UINT32_MAX : l.bucket,
                                         .first = l.first,
                                         .last = l.last,
                                         .algo = l.algo,
                                         .bytes = l.bytes,
                                         .start_ns = l.start_ns,
                                         .end_ns = l.end_ns};
    return true;
}

void tutti_trainer_close(struct tutti_trainer *trainer)
{
    if (!trainer)
        return;
    tt_trainer_close(trainer->t);
    free(trainer);
}
