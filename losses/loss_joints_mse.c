/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean squared error of heatmaps, weighted by point: sum of w (p - t)^2 over all B K h w elements,
 * those of weight 0 included in the count. MMPose 0.29's JointsMSELoss, without the factor 1/2 of
 * the HRNet authors' code, and with a weight that enters once (before October 2022: squared). */
#include <stance/plugin.h>

struct config {
    bool   use_target_weight;
    double loss_weight;
};

static const struct stance_param params[] = {
    STANCE_PARAM_BOOL(struct config, use_target_weight, "true",
                      "multiply a point's error by its weight: 0 where it is not labelled"),
    STANCE_PARAM_F64(struct config, loss_weight, "1", 0, 1e6, "1", "factor of the loss"),
    STANCE_PARAM_END
};

static struct stance_value build(struct stance_builder *b, const void *config,
                                 const struct stance_pose *pose, const struct stance_value *outputs,
                                 int n)
{
    const struct config *c     = (const struct config *)config;
    struct stance_shape  s     = stance_shape_of(b, outputs[0]);
    struct stance_shape  each  = { 3, { s.dim[0], s.dim[1], 1 } };
    struct stance_value  in[3] = { outputs[0], { 0 }, { 0 } }, loss;

    (void)pose;
    (void)n;
    in[1] = stance_input(b, "target", STANCE_TYPE_F32, s);
    if (c->use_target_weight)
        in[2] = stance_input(b, "target_weight", STANCE_TYPE_F32, each);
    loss = stance_node1(b, "mse", NULL, 0, in, c->use_target_weight ? 3 : 2);
    if (c->loss_weight != 1) {
        struct stance_scale a = { c->loss_weight };

        loss = stance_node1(b, "scale", &a, sizeof a, &loss, 1);
    }
    stance_output(b, "loss", loss);
    return loss;
}

static const struct stance_loss_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(loss, joints_mse) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_LOSS,
    .name        = "joints_mse",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "MMPose 0.29, JointsMSELoss",
    .summary     = "mean squared error of heatmaps, weighted by point",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.loss    = &ops,
};
