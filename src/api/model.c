/* model.c - the public functions of models (a profile's or a built-in one) over trainsim/. A model
 * lives until its handle is freed and no simulated step needs it any more. */
#include <stdlib.h>

#include "api/model.h"

bool tutti_model_get(size_t i, struct tutti_model_entry *ret)
{
    struct tt_model_info info;
    api_must("ret", ret);
    if (!tt_trainsim_model_get(i, &info))
        return false;
    *ret = (struct tutti_model_entry){info.name, info.desc, info.batch};
    return true;
}

void tt_api_model_release(struct api_model *model)
{
    if (!model || atomic_fetch_sub(&model->holders, 1) > 1)
        return;
    tt_trainsim_model_free(model->m);
    free(model);
}

tutti_status tutti_model_open(const char *name, uint32_t batch, double flops,
                              struct tutti_model **ret, struct tutti_error *err)
{
    tutti_status st = api_given(err, "name", name, "ret", ret);
    struct api_model *m = st ? NULL : tt_zalloc(1, sizeof *m);
    if (!m)
        return st ? st : tt_fail_memory(err, "model");
    m->holders = 1;
    st = tt_trainsim_model_open(name, batch, flops, &m->m, err);
    void *handle = st ? NULL : tt_api_make(API_MODEL, m, NULL, err);
    if (!handle) {
        tt_api_model_release(m);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_model_free(struct tutti_model *model)
{
    tt_api_model_release(api_end(MODEL, model));
}

/* The model behind a handle, for functions without a status: aborts on a bad one. */
static const struct tt_model *must_see_model(const struct tutti_model *model, const char *function)
{
    return ((const struct api_model *)tt_api_needed(API_MODEL, model, function))->m;
}

void tutti_model_info(const struct tutti_model *model, struct tutti_model_info *ret)
{
    const struct tt_model *m = must_see_model(model, __func__);
    api_must("ret", ret);
    uint64_t forward = 0, backward = 0;
    for (size_t i = 0; i < m->layers.len; i++) {
        const struct tt_model_layer *l = tt_vec_at(&m->layers, i);
        forward += l->forward_ps;
        backward += l->backward_ps;
    }
    *ret = (struct tutti_model_info){.name = m->name,
                                     .source = m->source,
                                     .measured = m->measured,
                                     .batch = m->batch,
                                     .layers = (uint32_t)m->layers.len,
                                     .tensors = (uint32_t)m->tensors.len,
                                     .parameters = tt_trainsim_model_count(m),
                                     .bytes = tt_trainsim_model_bytes(m),
                                     .forward_us = tt_api_us(forward),
                                     .backward_us = tt_api_us(backward)};
}

bool tutti_model_tensor(const struct tutti_model *model, size_t i, struct tutti_model_tensor *ret)
{
    const struct tt_model *m = must_see_model(model, __func__);
    api_must("ret", ret);
    if (i >= m->tensors.len)
        return false;
    const struct tt_model_tensor *t = tt_vec_at(&m->tensors, i);
    const struct tt_model_layer *l = tt_vec_at(&m->layers, t->layer);
    /* A layer's times belong to its last tensor: in the backward pass that one comes first. */
    bool last = i + 1 == (size_t)l->first + l->ntensors;
    *ret = (struct tutti_model_tensor){.name = t->name,
                                       .layer = l->name,
                                       .kind = tt_policy_kind_name(l->kind),
                                       .layer_number = t->layer,
                                       .count = t->count,
                                       .dtype = t->dtype,
                                       .forward_ps = last ? l->forward_ps : 0,
                                       .backward_ps = last ? l->backward_ps : 0};
    return true;
}

void tutti_model_write(const struct tutti_model *model, FILE *out)
{
    const struct tt_model *m = must_see_model(model, __func__);
    api_must("out", out);
    tt_trainsim_profile_write(m, out);
}
