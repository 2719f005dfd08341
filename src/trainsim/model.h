/* model.h - the model that is trained: layers in forward order with their compute times, tensors
 * with their sizes.
 *
 * Built-in models: parameters and multiply-accumulates are counted from the published layer tables;
 * forward time is 2 MACs x batch / rate, backward twice that, both marked derived. The rate is
 * stated in the table (model.c) or given. A profile file (profile.c) brings measured times. */
#ifndef TT_MODEL_H
#define TT_MODEL_H

#include "base/base.h"
#include "policy/policy.h"

enum { TT_MODEL_NAME = 64 };

/* Tensors first .. first + ntensors - 1 belong to the layer. */
struct tt_model_layer {
    char name[TT_MODEL_NAME];
    enum tt_tensor_kind kind;
    uint32_t first, ntensors;
    double macs;                      /* per sample, forward; 0 in a profile */
    uint64_t forward_ps, backward_ps; /* of the whole batch */
};
struct tt_model_tensor {
    char name[TT_MODEL_NAME];
    uint64_t count;
    tutti_dtype dtype;
    uint32_t layer;
};
/* Layers and tensors in forward order: struct tt_model_layer, struct tt_model_tensor. */
struct tt_model {
    char name[TT_MODEL_NAME];
    uint32_t batch;
    bool measured;    /* times of a profile that says so; otherwise derived */
    char source[240]; /* where the times come from, for readers */
    struct tt_vec layers, tensors;
};

struct tt_model_info {
    const char *name, *desc;
    uint32_t batch; /* default */
};
/* The i-th built-in model; false past the last. */
bool tt_trainsim_model_get(size_t i, struct tt_model_info *ret);
/* A built-in model, or a profile when the name has a '/' or ends in ".json". batch 0: the default.
 * flops > 0: compute rate in FLOP/s in place of the model's own. Profiles have their own batch and
 * times: giving either is refused. */
tutti_status tt_trainsim_model_open(const char *name, uint32_t batch, double flops,
                                    struct tt_model **ret, struct tutti_error *err);
void tt_trainsim_model_free(struct tt_model *m); /* accepts NULL */
uint64_t tt_trainsim_model_bytes(const struct tt_model *m);
uint64_t tt_trainsim_model_count(const struct tt_model *m); /* parameters */
/* As policies want them: tensors.len of them, free(3). */
tutti_status tt_trainsim_model_tensors(const struct tt_model *m, struct tt_policy_tensor **ret,
                                       struct tutti_error *err);

/* profile.c: reads and writes tutti-profile(5). `name` is used in messages and as the source of the
 * times. read leaves the file open and gives the caller a model to free; an error names the line.
 * write reports nothing: the caller checks ferror. */
tutti_status tt_trainsim_profile_read(FILE *in, const char *name, struct tt_model **ret,
                                      struct tutti_error *err);
tutti_status tt_trainsim_profile_read_memory(const char *data, size_t len, const char *name,
                                             struct tt_model **ret, struct tutti_error *err);
void tt_trainsim_profile_write(const struct tt_model *m, FILE *out);

/* ---- building (model_*.c) ---- */

/* Layers are appended; `height` and `width` are those of the data that the next layer sees. Errors
 * (out of memory) are sticky. */
struct tt_model_builder {
    struct tt_model *m;
    uint32_t height, width;
    char prefix[TT_MODEL_NAME]; /* put before layer names */
    bool failed;
};
/* Channels in and out, kernel height and width, stride (both ways), padding. */
struct tt_conv {
    uint32_t in, out, kh, kw, stride, pad_h, pad_w;
    bool bias;
};
/* Counts weights and work from the output size; changes height and width. */
void tt_trainsim_build_conv(struct tt_model_builder *b, const char *name, const struct tt_conv *c);
/* weight and bias, over height x width */
void tt_trainsim_build_norm(struct tt_model_builder *b, const char *name, uint32_t channels);
/* weight and bias, applied `times` per sample (once per token, for instance) */
void tt_trainsim_build_fc(struct tt_model_builder *b, const char *name, uint32_t in, uint32_t out,
                          uint32_t times);
void tt_trainsim_build_pool(struct tt_model_builder *b, uint32_t kernel, uint32_t stride,
                            uint32_t pad);
/* A layer with any tensors: begin, then tensors. */
void tt_trainsim_build_layer(struct tt_model_builder *b, const char *name, enum tt_tensor_kind kind,
                             double macs);
void tt_trainsim_build_tensor(struct tt_model_builder *b, const char *name, uint64_t count);

void tt_trainsim_build_alexnet(struct tt_model_builder *b);
void tt_trainsim_build_alexnet_onetower(struct tt_model_builder *b);
void tt_trainsim_build_vgg16(struct tt_model_builder *b);
void tt_trainsim_build_resnet50(struct tt_model_builder *b);
void tt_trainsim_build_densenet201(struct tt_model_builder *b);
void tt_trainsim_build_inceptionv4(struct tt_model_builder *b);
void tt_trainsim_build_bert_base(struct tt_model_builder *b);
void tt_trainsim_build_bert_large(struct tt_model_builder *b);
#endif
