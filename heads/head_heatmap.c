/* SPDX-License-Identifier: Apache-2.0
 *
 * Heatmap head (Xiao, Wu, Wei, "Simple Baselines for Human Pose Estimation and Tracking", ECCV
 * 2018, arXiv:1804.06208): transposed convolutions that double the resolution, then one convolution
 * with a channel a point. Without the former it is HRNet's head. Names as in MMPose's
 * TopdownHeatmapSimpleHead. */
#include <stance/plugin.h>

struct config {
    struct stance_list_i64 deconv, deconv_kernels;
    int                    final_kernel;
};

typedef struct stance_value value;

static const char *const final_kernels[] = { "0", "1", "3", NULL };
static const int         final_sizes[]   = { 0, 1, 3 };

static const struct stance_param params[] = {
    STANCE_PARAM_LIST_I64(struct config, deconv, "[]", 1, 65536, "channels",
                          "filters of the transposed convolutions, each doubling the resolution; "
                          "[256, 256, 256] after ResNet, [] after HRNet"),
    STANCE_PARAM_LIST_I64(struct config, deconv_kernels, "[]", 2, 4, "px",
                          "kernel of each transposed convolution: 4, 3 or 2; []: 4 for all"),
    STANCE_PARAM_ENUM(struct config, final_kernel, "1", final_kernels,
                      "kernel of the last convolution; 0: the features are the heatmaps"),
    STANCE_PARAM_END
};

static const struct stance_init start = { STANCE_INIT_NORMAL, 0, 0.001F };

/* Padding that makes the output twice the input: MMPose's rule for kernels 4, 3 and 2. */
static value deconv(struct stance_builder *b, value x, int64_t out, int k)
{
    int                            pad = k == 2 ? 0 : 1, more = k == 3 ? 1 : 0;
    struct stance_conv_transpose2d a   = { { 2, 2 }, { pad, pad }, { more, more }, 1, { k, k } };
    value                          in[2] = { x, { 0 } };

    in[1] = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32,
                          stance_shape4(stance_shape_of(b, x).dim[1], out, k, k), start);
    return stance_node1(b, "conv_transpose2d", &a, sizeof a, in, 2);
}

static void check_size(struct stance_builder *b, const struct stance_pose *pose, value heatmap)
{
    struct stance_shape s = stance_shape_of(b, heatmap);

    if (s.rank != 4)
        return;
    if (s.dim[1] != pose->keypoints)
        stance_refuse(b, STANCE_ERR_SHAPE,
                      "heatmap: final_kernel 0: %lld feature channels, but %d keypoints",
                      (long long)s.dim[1], pose->keypoints);
    else if (pose->heatmap_size[0] > 0
             && (s.dim[3] != pose->heatmap_size[0] || s.dim[2] != pose->heatmap_size[1]))
        stance_refuse(b, STANCE_ERR_SHAPE,
                      "heatmap: this network makes heatmaps of %lldx%lld px, heatmap_size is %dx%d",
                      (long long)s.dim[3], (long long)s.dim[2], pose->heatmap_size[0],
                      pose->heatmap_size[1]);
}

static void build(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                  const value *features, int n, value *out, int *n_out)
{
    const struct config *c = (const struct config *)config;
    value                x = features[0];

    (void)n;
    if (c->deconv_kernels.n != 0 && c->deconv_kernels.n != c->deconv.n) {
        stance_refuse(b, STANCE_ERR_INVAL,
                      "heatmap: deconv_kernels: %d numbers for %d transposed convolutions",
                      c->deconv_kernels.n, c->deconv.n);
        return;
    }
    for (int i = 0; i < c->deconv.n; i++) {
        stance_enter(b, "deconv_layers.%d", 3 * i);
        x = deconv(b, x, c->deconv.v[i], c->deconv_kernels.n > 0 ? (int)c->deconv_kernels.v[i] : 4);
        stance_leave(b);
        stance_enter(b, "deconv_layers.%d", 3 * i + 1);
        x = stance_relu(b, stance_batch_norm(b, x, 1));
        stance_leave(b);
    }
    if (final_sizes[c->final_kernel] > 0) {
        stance_enter(b, "final_layer");
        x = stance_conv2d(b, x, pose->keypoints, final_sizes[c->final_kernel], 1, true, start);
        stance_leave(b);
    }
    check_size(b, pose, x);
    stance_output(b, "heatmap", x);
    out[0] = x;
    *n_out = 1;
}

static void unflip(const void *config, const struct stance_pose *pose, float *out, int batch,
                   bool shift)
{
    (void)config;
    stance_unflip_heatmap(pose->partner, out, batch, pose->keypoints, pose->heatmap_size[1],
                          pose->heatmap_size[0], shift);
}

static stance_status decode(const void *config, const struct stance_decode *d,
                            struct stance_error *err)
{
    (void)config;
    return stance_decode_heatmap(d, err);
}

static const struct stance_head_ops ops = {
    .size = sizeof ops, .build = build, .unflip = unflip, .decode = decode
};

STANCE_PLUGIN(head, heatmap) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_HEAD,
    .name        = "heatmap",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "Xiao et al., ECCV 2018 (arXiv:1804.06208); MMPose's TopdownHeatmapSimpleHead",
    .summary     = "one heatmap a keypoint, after any number of transposed convolutions",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.head    = &ops,
};
