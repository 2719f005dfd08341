/* model.c - the table of built-in models, and times from multiply-accumulates.
 *
 * Times are derived, never measured layer by layer. Where the throughput of a whole model on one
 * device is known (samples_per_s: figures of the HKBU-HPML ddl-benchmarks, 2020, on one GPU; the
 * type of GPU is not confirmed), a step takes batch / throughput, divided among the layers by
 * multiply-accumulates; otherwise the stated rate is used. A third of the time is forward, two
 * thirds backward. */
#include "trainsim/model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A built-in model: how to build it and how fast one device runs it. */
struct entry {
    struct tt_model_info info;
    void (*build)(struct tt_model_builder *b);
    double samples_per_s; /* measured for the whole model; 0: not known */
    double flops;         /* used otherwise */
};

#define CPU_RATE 300e9  /* a fast CPU socket: an assumption */
#define GPU_RATE 6.2e12 /* the rate that ResNet-50's measured throughput amounts to */

static const struct entry entries[] = {
    {{"alexnet", "AlexNet as in torchvision, 61.1 M parameters", 128},
     tt_trainsim_build_alexnet,
     0,
     CPU_RATE},
    {{"alexnet-onetower", "the original AlexNet ungrouped, in one tower, 62.4 M", 128},
     tt_trainsim_build_alexnet_onetower,
     0,
     CPU_RATE},
    {{"vgg16", "VGG-16, 138.4 M", 64}, tt_trainsim_build_vgg16, 0, GPU_RATE},
    {{"resnet50", "ResNet-50, 25.6 M", 64}, tt_trainsim_build_resnet50, 253.1, 0},
    {{"densenet201", "DenseNet-201, 20.0 M", 32}, tt_trainsim_build_densenet201, 0, GPU_RATE},
    {{"inceptionv4", "Inception-v4, 42.7 M", 64}, tt_trainsim_build_inceptionv4, 0, GPU_RATE},
    {{"bert-base", "BERT-Base for pre-training, 64 tokens, 110.1 M", 64},
     tt_trainsim_build_bert_base,
     212.8,
     0},
    {{"bert-large", "BERT-Large for pre-training, 64 tokens, 336.2 M", 32},
     tt_trainsim_build_bert_large,
     49,
     0},
};

bool tt_trainsim_model_get(size_t i, struct tt_model_info *ret)
{
    if (i >= countof(entries))
        return false;
    *ret = entries[i].info;
    return true;
}

void tt_trainsim_model_free(struct tt_model *m)
{
    if (!m)
        return;
    tt_vec_free(&m->layers);
    tt_vec_free(&m->tensors);
    free(m);
}

uint64_t tt_trainsim_model_count(const struct tt_model *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->tensors.len; i++)
        sum += ((const struct tt_model_tensor *)tt_vec_at(&m->tensors, i))->count;
    return sum;
}

/* From the list of types itself: this module may not use sched, which has the same function. */
static uint32_t elem_bytes(tutti_dtype d)
{
    static const uint32_t bytes[] = {
#define BYTES(id, name, n) n,
        TUTTI_DTYPE_LIST(BYTES)
#undef BYTES
    };
    return bytes[d];
}

uint64_t tt_trainsim_model_bytes(const struct tt_model *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->tensors.len; i++) {
        const struct tt_model_tensor *t = tt_vec_at(&m->tensors, i);
        sum += t->count * elem_bytes(t->dtype);
    }
    return sum;
}

/* Layers have the times, policies want them by tensor: the last tensor of a layer carries them, so
 * that the sum over a layer is right. */
tutti_status tt_trainsim_model_tensors(const struct tt_model *m, struct tt_policy_tensor **ret,
                                       struct tutti_error *err)
{
    struct tt_policy_tensor *out = tt_zalloc(m->tensors.len, sizeof *out);
    if (!out)
        return tt_fail_memory(err, "tensors");
    for (size_t i = 0; i < m->tensors.len; i++) {
        const struct tt_model_tensor *t = tt_vec_at(&m->tensors, i);
        const struct tt_model_layer *l = tt_vec_at(&m->layers, t->layer);
        bool last = i + 1 == (size_t)l->first + l->ntensors;
        out[i] = (struct tt_policy_tensor){.bytes = t->count * elem_bytes(t->dtype),
                                           .elem_bytes = elem_bytes(t->dtype),
                                           .kind = l->kind,
                                           .layer = t->layer,
                                           .part = (uint32_t)t->dtype,
                                           .forward_ps = last ? l->forward_ps : 0,
                                           .backward_ps = last ? l->backward_ps : 0};
    }
    *ret = out;
    return TUTTI_OK;
}

/* ---- built-in ---- */

static const struct entry *model_find(const char *name)
{
    for (size_t i = 0; i < countof(entries); i++)
        if (tt_streq(name, entries[i].info.name))
            return &entries[i];
    return NULL;
}

/* Suggests models with a similar name. */
static tutti_status model_unknown(const char *name, struct tutti_error *err)
{
    const char *names[countof(entries)];
    char near[200];
    for (size_t i = 0; i < countof(entries); i++)
        names[i] = entries[i].info.name;
    tt_near_matches(name, names, countof(names), near, sizeof near);
    return tt_fail(err, TUTTI_ERR_ARG,
                   "no model '%.64s'%s%s (a profile is named by a path that ends in .json)", name,
                   *near ? "; " : "", near);
}

/* Two FLOP per multiply-accumulate; forward is one share of three, backward two. `source` tells the
 * reader where the times come from. */
static void set_times(struct tt_model *m, const struct entry *e, double flops)
{
    double macs = 0, ps_per_mac;
    for (size_t i = 0; i < m->layers.len; i++)
        macs += ((struct tt_model_layer *)tt_vec_at(&m->layers, i))->macs;
    if (flops == 0 && e->samples_per_s > 0) {
        ps_per_mac = 1e12 / (3 * macs * e->samples_per_s);
        snprintf(m->source, sizeof m->source,
                 "derived: %.4g samples/s measured elsewhere for the whole model, shared out by "
                 "multiply-accumulates, backward = 2 forward",
                 e->samples_per_s);
    } else {
        double rate = flops > 0 ? flops : e->flops;
        ps_per_mac = 2e12 / rate;
        snprintf(m->source, sizeof m->source,
                 "derived: %.4g GMAC forward a sample at %.4g GFLOP/s, backward = 2 forward",
                 macs * 1e-9, rate * 1e-9);
    }
    for (size_t i = 0; i < m->layers.len; i++) {
        struct tt_model_layer *l = tt_vec_at(&m->layers, i);
        l->forward_ps = (uint64_t)llround(l->macs * m->batch * ps_per_mac);
        l->backward_ps = 2 * l->forward_ps;
    }
}

/* The builder appends layers and tensors; their times follow from the counted work. */
static tutti_status model_build(const struct entry *e, uint32_t batch, double flops,
                                struct tt_model **ret, struct tutti_error *err)
{
    struct tt_model *m = tt_zalloc(1, sizeof *m);
    if (!m)
        return tt_fail_memory(err, "model");
    m->layers.elem = sizeof(struct tt_model_layer);
    m->tensors.elem = sizeof(struct tt_model_tensor);
    m->batch = batch ? batch : e->info.batch;
    snprintf(m->name, sizeof m->name, "%s", e->info.name);
    struct tt_model_builder b = {.m = m};
    e->build(&b);
    if (b.failed) {
        tt_trainsim_model_free(m);
        return tt_fail_memory(err, "model");
    }
    set_times(m, e, flops);
    *ret = m;
    return TUTTI_OK;
}

static tutti_status open_profile(const char *path, struct tt_model **ret, struct tutti_error *err)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return tt_fail(err, TUTTI_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    tutti_status st = tt_trainsim_profile_read(in, path, ret, err);
    fclose(in);
    return st;
}

/* A built-in name wins over a file of the same name; a path is recognised by '/' or ".json". */
tutti_status tt_trainsim_model_open(const char *name, uint32_t batch, double flops,
                                    struct tt_model **ret, struct tutti_error *err)
{
    const struct entry *e = model_find(name);
    size_t len = strlen(name);
    if (batch > 1u << 20)
        return tt_fail(err, TUTTI_ERR_RANGE, "batch %u: at most %u", batch, 1u << 20);
    if (flops < 0 || (flops > 0 && (flops < 1e6 || flops > 1e18)))
        return tt_fail(err, TUTTI_ERR_RANGE, "compute rate %.4g FLOP/s: 1e6 to 1e18 are meaningful",
                       flops);
    if (e)
        return model_build(e, batch, flops, ret, err);
    if (!strchr(name, '/') && !(len > 5 && tt_streq(name + len - 5, ".json")))
        return model_unknown(name, err);
    if (batch || flops > 0)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "%.200s is a profile: its times are for its own batch and machine", name);
    return open_profile(name, ret, err);
}
