/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of convolutions that halve the resolution, each followed by batch normalisation and ReLU. */
#include <stance/plugin.h>

struct config { int64_t width, depth; };

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, width, "16", 1, 4096, "channels", "filters of the first convolution"),
    STANCE_PARAM_I64(struct config, depth, "2", 1, 5, "convolutions", "the stride of the network is 2^depth"),
    STANCE_PARAM_END
};

/* Standard deviation of the weights at the start. */
static const struct stance_init start = { STANCE_INIT_NORMAL, 0, 0.05F };

static void build(struct stance_builder *b, const void *config, struct stance_value image, struct stance_value *out,
                  int *n_out)
{
    const struct config *c = config;
    struct stance_value  x = image;

    for (int i = 0; i < c->depth; i++) {
        stance_enter(b, "conv%d", i + 1); /* the weight is "backbone.conv1.weight" in checkpoints */
        x = stance_conv2d(b, x, c->width << i, 3, 2, false, start);
        stance_leave(b);
        stance_enter(b, "bn%d", i + 1);
        x = stance_relu(b, stance_batch_norm(b, x, 1));
        stance_leave(b);
    }
    out[0] = x;
    *n_out = 1;
}

static const struct stance_backbone_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(backbone, plainnet) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_BACKBONE,
    .name         = "plainnet",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "an example",
    .summary      = "convolutions one after the other",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.backbone = &ops,
};
