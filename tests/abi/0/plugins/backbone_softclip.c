/* SPDX-License-Identifier: Apache-2.0 */
/* A network that uses the op "softclip" between its convolutions: an op is used by its name. */
#include <stance/plugin.h>

static void build(struct stance_builder *b, const void *config, struct stance_value image, struct stance_value *out,
                  int *n_out)
{
    static const struct stance_init start = { STANCE_INIT_NORMAL, 0, 0.05F };
    struct { double slope; } a = { 0.5 };
    struct stance_value      x = image;

    (void)config;
    for (int i = 0; i < 2; i++) {
        stance_enter(b, "conv%d", i + 1);
        x = stance_conv2d(b, x, 16, 3, 2, true, start);
        stance_leave(b);
        x = stance_node1(b, "softclip", &a, sizeof a, &x, 1);
    }
    out[0] = x;
    *n_out = 1;
}

static const struct stance_backbone_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(backbone, softclip) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_BACKBONE,
    .name         = "softclip",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "an example",
    .summary      = "two convolutions with the op of the same name",
    .ops.backbone = &ops,
};
