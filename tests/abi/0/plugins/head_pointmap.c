/* SPDX-License-Identifier: Apache-2.0 */
/* A heatmap a keypoint: a convolution that mixes, and one with a channel for each point. */
#include <stance/plugin.h>

struct config { int64_t width; };

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, width, "16", 1, 4096, "channels", "filters of the first convolution"),
    STANCE_PARAM_END
};

static void build(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                  const struct stance_value *features, int n, struct stance_value *out, int *n_out)
{
    struct stance_init  small = { STANCE_INIT_NORMAL, 0, 0.01F };
    struct stance_value x;
    struct stance_shape s;

    (void)n;
    stance_enter(b, "mix");
    x = stance_relu(b, stance_conv2d(b, features[0], ((const struct config *)config)->width, 3, 1, true, small));
    stance_leave(b);
    stance_enter(b, "points");
    x = stance_conv2d(b, x, pose->keypoints, 1, 1, true, small);
    stance_leave(b);
    s = stance_shape_of(b, x); /* rank -1 after a failure, which is kept: no need to look at it here */
    if (s.rank == 4 && (s.dim[3] != pose->heatmap_size[0] || s.dim[2] != pose->heatmap_size[1]))
        stance_refuse(b, STANCE_ERR_SHAPE, "these features make heatmaps of %dx%d px, heatmap_size is %dx%d",
                      (int)s.dim[3], (int)s.dim[2], pose->heatmap_size[0], pose->heatmap_size[1]);
    stance_output(b, "heatmap", x);
    out[0] = x;
    *n_out = 1;
}

static void unflip(const void *config, const struct stance_pose *pose, float *out, int batch, bool shift)
{
    (void)config;
    stance_unflip_heatmap(pose->partner, out, batch, pose->keypoints, pose->heatmap_size[1], pose->heatmap_size[0],
                          shift);
}

static stance_status decode(const void *config, const struct stance_decode *d, struct stance_error *err)
{
    (void)config;
    return stance_decode_heatmap(d, err);
}

static const struct stance_head_ops ops = {
    .size = sizeof ops, .build = build, .unflip = unflip, .decode = decode
};

STANCE_PLUGIN(head, pointmap) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_HEAD,
    .name        = "pointmap",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "an example",
    .summary     = "two convolutions, one heatmap a keypoint",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.head    = &ops,
};
