/* SPDX-License-Identifier: Apache-2.0 */
/* Mean absolute error of heatmaps: the sum of w |p - t| over the number of elements. |d| = relu(d) + relu(-d),
 * and the built-in ops know their gradients. */
#include <stance/plugin.h>

struct config { double weight; };

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, weight, "1", 0, 1e6, "1", "factor of the loss"),
    STANCE_PARAM_END
};

static struct stance_value times(struct stance_builder *b, struct stance_value x, double factor)
{
    struct stance_scale a = { factor };

    return stance_node1(b, "scale", &a, sizeof a, &x, 1);
}

static struct stance_value build(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                                 const struct stance_value *outputs, int n)
{
    struct stance_shape     s = stance_shape_of(b, outputs[0]), each = { 3, { s.dim[0], s.dim[1], 1 } };
    struct stance_broadcast spread = { s, 1u << 2 | 1u << 3 }; /* over h and w */
    struct stance_reshape   square = { stance_shape4(s.dim[0], s.dim[1], 1, 1) };
    struct stance_reduce    all = { 0xf, 0 };
    struct stance_value     target, weight, d, in[2];

    (void)pose;
    (void)n;
    target = stance_input(b, "target", STANCE_TYPE_F32, s);
    weight = stance_input(b, "target_weight", STANCE_TYPE_F32, each); /* 0 for points that are not labelled */
    weight = stance_node1(b, "reshape", &square, sizeof square, &weight, 1);
    in[1]  = stance_node1(b, "broadcast", &spread, sizeof spread, &weight, 1);
    d      = stance_add(b, target, times(b, outputs[0], -1));
    in[0]  = stance_add(b, stance_relu(b, d), stance_relu(b, times(b, d, -1)));
    d      = stance_node1(b, "mul", NULL, 0, in, 2);
    d      = stance_node1(b, "reduce_sum", &all, sizeof all, &d, 1);
    d      = times(b, d, ((const struct config *)config)->weight / (double)stance_elements(&s));
    stance_output(b, "loss", d);
    return d;
}

static const struct stance_loss_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(loss, absmaps) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_LOSS,
    .name        = "absmaps",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "an example",
    .summary     = "mean absolute error of heatmaps, weighted by point",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.loss    = &ops,
};
