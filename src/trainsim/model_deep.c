/* model_deep.c - networks with branches: DenseNet-201 (torchvision's) and Inception-v4 (the DeAR
 * repository's model file). Layers are listed in registration order, which is the order they run
 * in. Images are 224 x 224 for both, as in that repository's benchmark. */
#include "trainsim/model.h"

/* ---- DenseNet-201: growth 32, blocks of 6, 12, 48, 32 ---- */

/* A layer sees all channels made before it in its block and adds 32. */
static void dense_layer(struct tt_model_builder *b, uint32_t in)
{
    tt_trainsim_build_norm(b, "norm1", in);
    tt_trainsim_build_conv(b, "conv1", &(struct tt_conv){in, 128, 1, 1, 1, 0, 0, false});
    tt_trainsim_build_norm(b, "norm2", 128);
    tt_trainsim_build_conv(b, "conv2", &(struct tt_conv){128, 32, 3, 3, 1, 1, 1, false});
}

/* Between two blocks a transition halves channels and size. */
void tt_trainsim_build_densenet201(struct tt_model_builder *b)
{
    static const uint32_t blocks[] = {6, 12, 48, 32};
    uint32_t channels = 64;
    b->height = b->width = 224;
    tt_trainsim_build_conv(b, "conv0", &(struct tt_conv){3, 64, 7, 7, 2, 3, 3, false});
    tt_trainsim_build_norm(b, "norm0", 64);
    tt_trainsim_build_pool(b, 3, 2, 1);
    for (uint32_t s = 0; s < countof(blocks); s++) {
        for (uint32_t k = 0; k < blocks[s]; k++, channels += 32) {
            snprintf(b->prefix, sizeof b->prefix, "block%u.%u.", s + 1, k + 1);
            dense_layer(b, channels);
        }
        if (s + 1 == countof(blocks))
            break;
        snprintf(b->prefix, sizeof b->prefix, "transition%u.", s + 1);
        tt_trainsim_build_norm(b, "norm", channels);
        tt_trainsim_build_conv(b, "conv",
                               &(struct tt_conv){channels, channels / 2, 1, 1, 1, 0, 0, false});
        tt_trainsim_build_pool(b, 2, 2, 0);
        channels /= 2;
    }
    b->prefix[0] = '\0';
    tt_trainsim_build_norm(b, "norm5", channels);
    tt_trainsim_build_fc(b, "classifier", channels, 1000, 1);
}

/* ---- Inception-v4 ---- */

/* A convolution without bias and its normalisation. */
struct unit {
    const char *name;
    uint32_t in, out, kh, kw, stride;
    bool same; /* padded to keep the size */
    bool back; /* starts a branch: its input is the module's, not the unit before */
};

/* Runs the units of one module. Branches return to the module's input size; the size after the last
 * unit is the module's output, so the last branch must have it. */
static void run_units(struct tt_model_builder *b, const char *module, const struct unit *u,
                      size_t n)
{
    uint32_t height = b->height, width = b->width;
    for (size_t i = 0; i < n; i++) {
        if (u[i].back) {
            b->height = height;
            b->width = width;
        }
        snprintf(b->prefix, sizeof b->prefix, "%s.%s.", module, u[i].name);
        tt_trainsim_build_conv(b, "conv",
                               &(struct tt_conv){u[i].in, u[i].out, u[i].kh, u[i].kw, u[i].stride,
                                                 u[i].same ? u[i].kh / 2 : 0,
                                                 u[i].same ? u[i].kw / 2 : 0, false});
        tt_trainsim_build_norm(b, "bn", u[i].out);
    }
    b->prefix[0] = '\0';
}

/* Tables: name, channels in, channels out, kernel height, kernel width, stride, same, back. */
static const struct unit stem[] = {{"0", 3, 32, 3, 3, 2, false, false},
                                   {"1", 32, 32, 3, 3, 1, false, false},
                                   {"2", 32, 64, 3, 3, 1, true, false},
                                   {"3a", 64, 96, 3, 3, 2, false, false}};
/* A branch that only pools has no parameters and the size of the convolution beside it, so it is
 * not listed; its channels show in the next module: 64 + 96 = 160, 192 + 192 = 384. */
static const struct unit mixed_4a[] = {
    {"0.0", 160, 64, 1, 1, 1, false, true}, {"0.1", 64, 96, 3, 3, 1, false, false},
    {"1.0", 160, 64, 1, 1, 1, false, true}, {"1.1", 64, 64, 1, 7, 1, true, false},
    {"1.2", 64, 64, 7, 1, 1, true, false},  {"1.3", 64, 96, 3, 3, 1, false, false}};
static const struct unit mixed_5a[] = {{"conv", 192, 192, 3, 3, 2, false, false}};
static const struct unit inception_a[] = {
    {"0", 384, 96, 1, 1, 1, false, true},  {"1.0", 384, 64, 1, 1, 1, false, true},
    {"1.1", 64, 96, 3, 3, 1, true, false}, {"2.0", 384, 64, 1, 1, 1, false, true},
    {"2.1", 64, 96, 3, 3, 1, true, false}, {"2.2", 96, 96, 3, 3, 1, true, false},
    {"3.1", 384, 96, 1, 1, 1, false, true}};
static const struct unit reduction_a[] = {{"0", 384, 384, 3, 3, 2, false, true},
                                          {"1.0", 384, 192, 1, 1, 1, false, true},
                                          {"1.1", 192, 224, 3, 3, 1, true, false},
                                          {"1.2", 224, 256, 3, 3, 2, false, false}};
static const struct unit inception_b[] = {
    {"0", 1024, 384, 1, 1, 1, false, true},   {"1.0", 1024, 192, 1, 1, 1, false, true},
    {"1.1", 192, 224, 1, 7, 1, true, false},  {"1.2", 224, 256, 7, 1, 1, true, false},
    {"2.0", 1024, 192, 1, 1, 1, false, true}, {"2.1", 192, 192, 7, 1, 1, true, false},
    {"2.2", 192, 224, 1, 7, 1, true, false},  {"2.3", 224, 224, 7, 1, 1, true, false},
    {"2.4", 224, 256, 1, 7, 1, true, false},  {"3.1", 1024, 128, 1, 1, 1, false, true}};
static const struct unit reduction_b[] = {
    {"0.0", 1024, 192, 1, 1, 1, false, true}, {"0.1", 192, 192, 3, 3, 2, false, false},
    {"1.0", 1024, 256, 1, 1, 1, false, true}, {"1.1", 256, 256, 1, 7, 1, true, false},
    {"1.2", 256, 320, 7, 1, 1, true, false},  {"1.3", 320, 320, 3, 3, 2, false, false}};
static const struct unit inception_c[] = {
    {"0", 1536, 256, 1, 1, 1, false, true},   {"1.0", 1536, 384, 1, 1, 1, false, true},
    {"1.1a", 384, 256, 1, 3, 1, true, false}, {"1.1b", 384, 256, 3, 1, 1, true, false},
    {"2.0", 1536, 384, 1, 1, 1, false, true}, {"2.1", 384, 448, 3, 1, 1, true, false},
    {"2.2", 448, 512, 1, 3, 1, true, false},  {"2.3a", 512, 256, 1, 3, 1, true, false},
    {"2.3b", 512, 256, 3, 1, 1, true, false}, {"3.1", 1536, 256, 1, 1, 1, false, true}};

/* The same module several times, numbered. */
static void repeat_units(struct tt_model_builder *b, const char *module, const struct unit *u,
                         size_t n, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%u", module, i);
        run_units(b, name, u, n);
    }
}

/* Stem, then modules A, B and C with a reduction between two kinds. */
void tt_trainsim_build_inceptionv4(struct tt_model_builder *b)
{
    b->height = b->width = 224;
    run_units(b, "stem", stem, countof(stem));
    run_units(b, "mixed4a", mixed_4a, countof(mixed_4a));
    run_units(b, "mixed5a", mixed_5a, countof(mixed_5a));
    repeat_units(b, "a", inception_a, countof(inception_a), 4);
    run_units(b, "reduction_a", reduction_a, countof(reduction_a));
    repeat_units(b, "b", inception_b, countof(inception_b), 7);
    run_units(b, "reduction_b", reduction_b, countof(reduction_b));
    repeat_units(b, "c", inception_c, countof(inception_c), 3);
    tt_trainsim_build_fc(b, "last_linear", 1536, 1000, 1);
}
