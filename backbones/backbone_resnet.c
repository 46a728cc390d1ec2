/* SPDX-License-Identifier: Apache-2.0
 *
 * ResNet (He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016,
 * arXiv:1512.03385), without pooling and classifier. Names are those of torchvision. */
#include <stance/plugin.h>

#include <math.h>

struct config {
    int     depth, style;
    int64_t stem_channels, base_channels;
    bool    zero_init_residual;
};

typedef struct stance_value value;

enum style { STYLE_PYTORCH, STYLE_CAFFE };

static const char *const depths[] = { "18", "34", "50", "101", "152", NULL };
static const char *const styles[] = { "pytorch", "caffe", NULL };

/* Table 1 of the paper, in the order of depths. */
static const struct {
    int blocks[4];
    int expansion; /* channels of a block over its inner ones: 1 basic, 4 bottleneck */
} nets[] = {
    { { 2, 2, 2, 2 }, 1 },  { { 3, 4, 6, 3 }, 1 },  { { 3, 4, 6, 3 }, 4 },
    { { 3, 4, 23, 3 }, 4 }, { { 3, 8, 36, 3 }, 4 },
};

static const struct stance_param params[] = {
    STANCE_PARAM_ENUM(struct config, depth, "50", depths,
                      "layers with weights, as the paper counts them"),
    STANCE_PARAM_I64(struct config, stem_channels, "64", 1, 4096, "channels",
                     "channels of the first convolution"),
    STANCE_PARAM_I64(struct config, base_channels, "64", 1, 4096, "channels",
                     "inner channels of the first layer; each later one has twice as many"),
    STANCE_PARAM_ENUM(
        struct config, style, "pytorch", styles,
        "where a bottleneck strides: its 3x3 convolution (pytorch) or its first 1x1 (caffe)"),
    STANCE_PARAM_BOOL(struct config, zero_init_residual, "true",
                      "start each residual branch at zero (Goyal et al., arXiv:1706.02677)"),
    STANCE_PARAM_END
};

/* Normal of variance 2 / fan-out (He et al., "Delving Deep into Rectifiers", ICCV 2015). */
static value conv(struct stance_builder *b, const char *name, value x, int64_t out, int k,
                  int stride)
{
    struct stance_init start = { STANCE_INIT_NORMAL, 0,
                                 (float)sqrt(2.0 / ((double)(k * k) * (double)out)) };

    stance_enter(b, "%s", name);
    x = stance_conv2d(b, x, out, k, stride, false, start);
    stance_leave(b);
    return x;
}

static value norm(struct stance_builder *b, const char *name, value x, float weight)
{
    stance_enter(b, "%s", name);
    x = stance_batch_norm(b, x, weight);
    stance_leave(b);
    return x;
}

static value block(struct stance_builder *b, const struct config *c, value x, int64_t planes,
                   int expansion, int stride)
{
    float   last = c->zero_init_residual ? 0 : 1;
    int64_t out  = planes * expansion;
    value   y;

    if (expansion == 1) {
        y = stance_relu(b, norm(b, "bn1", conv(b, "conv1", x, planes, 3, stride), 1));
        y = norm(b, "bn2", conv(b, "conv2", y, planes, 3, 1), last);
    } else {
        int first = c->style == STYLE_CAFFE ? stride : 1;

        y = stance_relu(b, norm(b, "bn1", conv(b, "conv1", x, planes, 1, first), 1));
        y = stance_relu(b, norm(b, "bn2", conv(b, "conv2", y, planes, 3, stride / first), 1));
        y = norm(b, "bn3", conv(b, "conv3", y, out, 1, 1), last);
    }
    if (stride != 1 || stance_shape_of(b, x).dim[1] != out) {
        stance_enter(b, "downsample");
        x = norm(b, "1", conv(b, "0", x, out, 1, stride), 1);
        stance_leave(b);
    }
    return stance_relu(b, stance_add(b, y, x));
}

static value max_pool(struct stance_builder *b, value x)
{
    struct stance_pool a = { .kernel = { 3, 3 }, .stride = { 2, 2 }, .pad = { 1, 1 } };
    value              out[2];

    stance_node(b, "max_pool", &a, sizeof a, &x, 1, out, 2);
    return out[0];
}

static void build(struct stance_builder *b, const void *config, value image, value *out, int *n_out)
{
    const struct config *c = (const struct config *)config;
    value x = stance_relu(b, norm(b, "bn1", conv(b, "conv1", image, c->stem_channels, 7, 2), 1));

    x = max_pool(b, x);
    for (int layer = 0; layer < 4; layer++)
        for (int n = 0; n < nets[c->depth].blocks[layer]; n++) {
            stance_enter(b, "layer%d.%d", layer + 1, n);
            x = block(b, c, x, c->base_channels << layer, nets[c->depth].expansion,
                      layer > 0 && n == 0 ? 2 : 1);
            stance_leave(b);
        }
    out[0] = x;
    *n_out = 1;
}

static const struct stance_backbone_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(backbone, resnet) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_BACKBONE,
    .name         = "resnet",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "He et al., CVPR 2016 (arXiv:1512.03385)",
    .summary      = "ResNet-18 to -152: the last feature map; stride 32",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.backbone = &ops,
};
