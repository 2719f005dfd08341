/* build.c - the layers that models are built from: each call appends a layer, counts its parameters
 * and its multiply-accumulates.
 *
 * The builder carries the height and width of the data from layer to layer, so that a model file
 * names only channels, kernels and strides. Convolutions and pools shrink them:
 * (size + 2 pad - kernel) / stride + 1. Errors are sticky: the caller checks `failed` once. */
#include "trainsim/model.h"

#include <assert.h>

/* Begins a layer; the tensors that follow belong to it. */
void tt_trainsim_build_layer(struct tt_model_builder *b, const char *name, enum tt_tensor_kind kind,
                             double macs)
{
    struct tt_model_layer l = {.kind = kind, .first = (uint32_t)b->m->tensors.len, .macs = macs};
    int len = snprintf(l.name, sizeof l.name, "%s%s", b->prefix, name);
    assert(len < TT_MODEL_NAME);
    if (len >= TT_MODEL_NAME || !tt_vec_push(&b->m->layers, &l, 1))
        b->failed = true;
}

/* After a failure the last layer may not be the caller's: nothing more is appended. */
void tt_trainsim_build_tensor(struct tt_model_builder *b, const char *name, uint64_t count)
{
    if (b->failed)
        return;
    uint32_t layer = (uint32_t)b->m->layers.len - 1;
    struct tt_model_layer *l = tt_vec_at(&b->m->layers, layer);
    struct tt_model_tensor t = {.count = count, .dtype = TUTTI_F32, .layer = layer};
    int len = snprintf(t.name, sizeof t.name, "%s.%s", l->name, name);
    if (len >= TT_MODEL_NAME || !tt_vec_push(&b->m->tensors, &t, 1))
        b->failed = true;
    else
        l->ntensors++;
}

/* Pools have no parameters and next to no work: they only change the size. */
void tt_trainsim_build_pool(struct tt_model_builder *b, uint32_t kernel, uint32_t stride,
                            uint32_t pad)
{
    b->height = (b->height + 2 * pad - kernel) / stride + 1;
    b->width = (b->width + 2 * pad - kernel) / stride + 1;
}

/* Each output position costs one multiply-accumulate per weight. */
void tt_trainsim_build_conv(struct tt_model_builder *b, const char *name, const struct tt_conv *c)
{
    b->height = (b->height + 2 * c->pad_h - c->kh) / c->stride + 1;
    b->width = (b->width + 2 * c->pad_w - c->kw) / c->stride + 1;
    uint64_t weight = (uint64_t)c->out * c->in * c->kh * c->kw;
    tt_trainsim_build_layer(b, name, TT_KIND_CONV, (double)weight * b->height * b->width);
    tt_trainsim_build_tensor(b, "weight", weight);
    if (c->bias)
        tt_trainsim_build_tensor(b, "bias", c->out);
}

/* One multiply-accumulate per value is an estimate; norms are small beside convolutions. */
void tt_trainsim_build_norm(struct tt_model_builder *b, const char *name, uint32_t channels)
{
    tt_trainsim_build_layer(b, name, TT_KIND_NORM, (double)channels * b->height * b->width);
    tt_trainsim_build_tensor(b, "weight", channels);
    tt_trainsim_build_tensor(b, "bias", channels);
}

/* Work grows with `times`; the parameters are counted once. */
void tt_trainsim_build_fc(struct tt_model_builder *b, const char *name, uint32_t in, uint32_t out,
                          uint32_t times)
{
    tt_trainsim_build_layer(b, name, TT_KIND_FC, (double)in * out * times);
    tt_trainsim_build_tensor(b, "weight", (uint64_t)in * out);
    tt_trainsim_build_tensor(b, "bias", out);
}
