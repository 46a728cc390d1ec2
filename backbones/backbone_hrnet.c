/* SPDX-License-Identifier: Apache-2.0
 *
 * HRNet (Sun, Xiao, Liu, Wang, "Deep High-Resolution Representation Learning for Human Pose
 * Estimation", CVPR 2019, arXiv:1902.09212). Names are those of the published checkpoints. */
#include <stance/plugin.h>

#define STAGES   4 /* branches of the last stage; branch i has half the resolution of branch i-1 */
#define MULTIPLE (4 << (STAGES - 1)) /* px: what the lowest branch needs to come out whole */

struct config {
    int64_t                width, stage1_planes, stage1_blocks, blocks;
    struct stance_list_i64 modules;
};

typedef struct stance_value value;

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, width, "32", 1, 4096, "channels",
                     "C of HRNet-W<C>: channels of the finest branch; branch i has C * 2^i"),
    STANCE_PARAM_I64(
        struct config, stage1_planes, "64", 1, 4096, "channels",
        "inner channels of the bottlenecks of stage 1, which end in four times as many"),
    STANCE_PARAM_I64(struct config, stage1_blocks, "4", 1, 100, "blocks", "bottlenecks of stage 1"),
    STANCE_PARAM_LIST_I64(struct config, modules, "[1, 4, 3]", 1, 100, "modules",
                          "exchange modules of stages 2, 3 and 4"),
    STANCE_PARAM_I64(struct config, blocks, "4", 1, 100, "blocks",
                     "basic blocks of a branch in one module"),
    STANCE_PARAM_END
};

/* Normal of standard deviation 0.001, as the authors start without a pretrained file. */
static const struct stance_init start = { STANCE_INIT_NORMAL, 0, 0.001F };

static value conv(struct stance_builder *b, const char *name, value x, int64_t out, int k,
                  int stride)
{
    stance_enter(b, "%s", name);
    x = stance_conv2d(b, x, out, k, stride, false, start);
    stance_leave(b);
    return x;
}

static value norm(struct stance_builder *b, const char *name, value x)
{
    stance_enter(b, "%s", name);
    x = stance_batch_norm(b, x, 1);
    stance_leave(b);
    return x;
}

/* A sequence in the scope at hand: "0" the convolution, "1" its normalisation. */
static value conv_norm(struct stance_builder *b, value x, int64_t out, int k, int stride)
{
    return norm(b, "1", conv(b, "0", x, out, k, stride));
}

static value basic_block(struct stance_builder *b, value x, int64_t channels)
{
    value y = stance_relu(b, norm(b, "bn1", conv(b, "conv1", x, channels, 3, 1)));

    y = norm(b, "bn2", conv(b, "conv2", y, channels, 3, 1));
    return stance_relu(b, stance_add(b, y, x));
}

static value bottleneck(struct stance_builder *b, value x, int64_t planes)
{
    value y = stance_relu(b, norm(b, "bn1", conv(b, "conv1", x, planes, 1, 1)));

    y = stance_relu(b, norm(b, "bn2", conv(b, "conv2", y, planes, 3, 1)));
    y = norm(b, "bn3", conv(b, "conv3", y, 4 * planes, 1, 1));
    if (stance_shape_of(b, x).dim[1] != 4 * planes) {
        stance_enter(b, "downsample");
        x = conv_norm(b, x, 4 * planes, 1, 1);
        stance_leave(b);
    }
    return stance_relu(b, stance_add(b, y, x));
}

/* From the branches of one stage to those of the next, one more, with width * 2^i channels. A
 * branch whose channels agree is passed through; every other slot reads the last branch, as in the
 * authors' code. */
static void transition(struct stance_builder *b, value *x, int before, int64_t width)
{
    value last = x[before - 1];

    for (int i = 0; i < before; i++)
        if (stance_shape_of(b, x[i]).dim[1] != width << i) {
            stance_enter(b, "transition%d.%d", before, i);
            x[i] = stance_relu(b, conv_norm(b, last, width << i, 3, 1));
            stance_leave(b);
        }
    /* One new branch a stage; for more the rule is a chain of such convolutions, hence ".0". */
    stance_enter(b, "transition%d.%d.0", before, before);
    x[before] = stance_relu(b, conv_norm(b, last, width << before, 3, 2));
    stance_leave(b);
}

/* What branch j adds to output i. */
static value fuse_term(struct stance_builder *b, value x, int i, int j, int64_t width)
{
    if (i == j)
        return x;
    stance_enter(b, "fuse_layers.%d.%d", i, j);
    if (j > i)
        x = stance_upsample(b, conv_norm(b, x, width << i, 1, 1), 1 << (j - i));
    for (int k = 0; k < i - j; k++) {
        bool last = k == i - j - 1;

        stance_enter(b, "%d", k);
        x = conv_norm(b, x, last ? width << i : width << j, 3, 2);
        x = last ? x : stance_relu(b, x);
        stance_leave(b);
    }
    stance_leave(b);
    return x;
}

static void exchange_module(struct stance_builder *b, const struct config *c, value *x,
                            int branches, int outputs)
{
    value y[STAGES], term[STAGES];

    for (int j = 0; j < branches; j++)
        for (int n = 0; n < c->blocks; n++) {
            stance_enter(b, "branches.%d.%d", j, n);
            x[j] = basic_block(b, x[j], c->width << j);
            stance_leave(b);
        }
    for (int i = 0; i < outputs; i++) {
        for (int j = 0; j < branches; j++)
            term[j] = fuse_term(b, x[j], i, j, c->width);
        y[i] = stance_relu(b, stance_node1(b, "add", NULL, 0, term, branches));
    }
    for (int i = 0; i < outputs; i++)
        x[i] = y[i];
}

static void build(struct stance_builder *b, const void *config, value image, value *out, int *n_out)
{
    const struct config *c = (const struct config *)config;
    struct stance_shape  s = stance_shape_of(b, image);
    value                x[STAGES] = { image };

    if (c->modules.n != STAGES - 1)
        stance_refuse(b, STANCE_ERR_INVAL,
                      "hrnet: modules: %d numbers instead of %d, one for each of stages 2 to 4",
                      c->modules.n, STAGES - 1);
    else if (s.rank == 4 && (s.dim[2] % MULTIPLE != 0 || s.dim[3] % MULTIPLE != 0))
        stance_refuse(b, STANCE_ERR_SHAPE,
                      "hrnet: input of %lldx%lld px: width and height must be multiples of %d",
                      (long long)s.dim[3], (long long)s.dim[2], MULTIPLE);
    if (stance_failed(b))
        return;

    x[0] = stance_relu(b, norm(b, "bn1", conv(b, "conv1", x[0], 64, 3, 2)));
    x[0] = stance_relu(b, norm(b, "bn2", conv(b, "conv2", x[0], 64, 3, 2)));
    for (int n = 0; n < c->stage1_blocks; n++) {
        stance_enter(b, "layer1.%d", n);
        x[0] = bottleneck(b, x[0], c->stage1_planes);
        stance_leave(b);
    }
    for (int stage = 2; stage <= STAGES; stage++) {
        int64_t modules = c->modules.v[stage - 2];

        transition(b, x, stage - 1, c->width);
        for (int m = 0; m < modules; m++) {
            /* Only the finest branch leaves the network. */
            bool end = stage == STAGES && m == modules - 1;

            stance_enter(b, "stage%d.%d", stage, m);
            exchange_module(b, c, x, stage, end ? 1 : stage);
            stance_leave(b);
        }
    }
    out[0] = x[0];
    *n_out = 1;
}

static const struct stance_backbone_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(backbone, hrnet) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_BACKBONE,
    .name         = "hrnet",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "Sun et al., CVPR 2019 (arXiv:1902.09212)",
    .summary      = "HRNet: parallel branches that keep the high resolution; stride 4",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.backbone = &ops,
};
