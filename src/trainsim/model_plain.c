/* model_plain.c - networks that are one chain: AlexNet (torchvision's, and the ungrouped original
 * in one tower), VGG-16, ResNet-50.
 *
 * AlexNet: the parameter shares in the KIPS paper (60.52, 26.90, 6.57 %) are those of the single
 * tower with 96-256-384-384-256 filters, not of torchvision's model, so both are here.
 * Convolutions are {in, out, kernel height, width, stride, pad height, width, bias}. */
#include "trainsim/model.h"

/* fc1 sees 256 channels of 6 x 6 values, in both variants. */
void tt_trainsim_build_alexnet(struct tt_model_builder *b)
{
    b->height = b->width = 224;
    tt_trainsim_build_conv(b, "conv1", &(struct tt_conv){3, 64, 11, 11, 4, 2, 2, true});
    tt_trainsim_build_pool(b, 3, 2, 0);
    tt_trainsim_build_conv(b, "conv2", &(struct tt_conv){64, 192, 5, 5, 1, 2, 2, true});
    tt_trainsim_build_pool(b, 3, 2, 0);
    tt_trainsim_build_conv(b, "conv3", &(struct tt_conv){192, 384, 3, 3, 1, 1, 1, true});
    tt_trainsim_build_conv(b, "conv4", &(struct tt_conv){384, 256, 3, 3, 1, 1, 1, true});
    tt_trainsim_build_conv(b, "conv5", &(struct tt_conv){256, 256, 3, 3, 1, 1, 1, true});
    tt_trainsim_build_fc(b, "fc1", 9216, 4096, 1);
    tt_trainsim_build_fc(b, "fc2", 4096, 4096, 1);
    tt_trainsim_build_fc(b, "fc3", 4096, 1000, 1);
}

void tt_trainsim_build_alexnet_onetower(struct tt_model_builder *b)
{
    b->height = b->width = 227;
    tt_trainsim_build_conv(b, "conv1", &(struct tt_conv){3, 96, 11, 11, 4, 0, 0, true});
    tt_trainsim_build_pool(b, 3, 2, 0);
    tt_trainsim_build_conv(b, "conv2", &(struct tt_conv){96, 256, 5, 5, 1, 2, 2, true});
    tt_trainsim_build_pool(b, 3, 2, 0);
    tt_trainsim_build_conv(b, "conv3", &(struct tt_conv){256, 384, 3, 3, 1, 1, 1, true});
    tt_trainsim_build_conv(b, "conv4", &(struct tt_conv){384, 384, 3, 3, 1, 1, 1, true});
    tt_trainsim_build_conv(b, "conv5", &(struct tt_conv){384, 256, 3, 3, 1, 1, 1, true});
    tt_trainsim_build_fc(b, "fc1", 9216, 4096, 1);
    tt_trainsim_build_fc(b, "fc2", 4096, 4096, 1);
    tt_trainsim_build_fc(b, "fc3", 4096, 1000, 1);
}

/* All convolutions are 3 x 3 and keep the size, pools halve it; fc1 sees 512 channels of 7 x 7. */
void tt_trainsim_build_vgg16(struct tt_model_builder *b)
{
    /* channels of the convolutions; 0: a pool */
    static const uint32_t widths[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                      0,  512, 512, 512, 0,   512, 512, 512, 0};
    uint32_t in = 3, number = 1;
    b->height = b->width = 224;
    for (size_t i = 0; i < countof(widths); i++) {
        char name[16];
        if (widths[i] == 0) {
            tt_trainsim_build_pool(b, 2, 2, 0);
            continue;
        }
        snprintf(name, sizeof name, "conv%u", number++);
        tt_trainsim_build_conv(b, name, &(struct tt_conv){in, widths[i], 3, 3, 1, 1, 1, true});
        in = widths[i];
    }
    tt_trainsim_build_fc(b, "fc1", 25088, 4096, 1);
    tt_trainsim_build_fc(b, "fc2", 4096, 4096, 1);
    tt_trainsim_build_fc(b, "fc3", 4096, 1000, 1);
}

/* 1x1, 3x3 (with the stride), 1x1; the first block of a stage also projects its input. */
static void bottleneck(struct tt_model_builder *b, uint32_t in, uint32_t mid, uint32_t stride,
                       bool project)
{
    uint32_t height = b->height, width = b->width;
    tt_trainsim_build_conv(b, "conv1", &(struct tt_conv){in, mid, 1, 1, 1, 0, 0, false});
    tt_trainsim_build_norm(b, "bn1", mid);
    tt_trainsim_build_conv(b, "conv2", &(struct tt_conv){mid, mid, 3, 3, stride, 1, 1, false});
    tt_trainsim_build_norm(b, "bn2", mid);
    tt_trainsim_build_conv(b, "conv3", &(struct tt_conv){mid, 4 * mid, 1, 1, 1, 0, 0, false});
    tt_trainsim_build_norm(b, "bn3", 4 * mid);
    if (!project)
        return;
    /* The projection sees the block's input, before the stride. */
    b->height = height;
    b->width = width;
    tt_trainsim_build_conv(b, "downsample.0",
                           &(struct tt_conv){in, 4 * mid, 1, 1, stride, 0, 0, false});
    tt_trainsim_build_norm(b, "downsample.1", 4 * mid);
}

/* Four stages of bottlenecks; each stage doubles the channels and, but for the first, halves the
 * size in its first block. */
void tt_trainsim_build_resnet50(struct tt_model_builder *b)
{
    static const uint32_t blocks[] = {3, 4, 6, 3};
    uint32_t in = 64;
    b->height = b->width = 224;
    tt_trainsim_build_conv(b, "conv1", &(struct tt_conv){3, 64, 7, 7, 2, 3, 3, false});
    tt_trainsim_build_norm(b, "bn1", 64);
    tt_trainsim_build_pool(b, 3, 2, 1);
    for (uint32_t s = 0; s < countof(blocks); s++) {
        uint32_t mid = 64u << s;
        for (uint32_t k = 0; k < blocks[s]; k++) {
            snprintf(b->prefix, sizeof b->prefix, "layer%u.%u.", s + 1, k);
            bottleneck(b, in, mid, s > 0 && k == 0 ? 2 : 1, k == 0);
            in = 4 * mid;
        }
    }
    b->prefix[0] = '\0';
    tt_trainsim_build_fc(b, "fc", 2048, 1000, 1);
}
