/* SPDX-License-Identifier: Apache-2.0 */
/* Momentum, of which only the sign is followed.
 * Source: Bernstein et al., "signSGD: Compressed Optimisation for Non-Convex Problems", ICML 2018. */
#include <stance/plugin.h>

struct config { double lr, momentum; };

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, lr, "1e-4", 0, 1000, "1", "learning rate before the schedule"),
    STANCE_PARAM_F64(struct config, momentum, "0.9", 0, 1, "1", "share of the average that a step keeps"),
    STANCE_PARAM_END
};

/* Operands: gradient [n], update block, master [n], average [n]; results: the last two. */
static stance_status shape(const void *attr, const struct stance_shape *in, int n_in, struct stance_shape *out,
                           enum stance_type *out_type, int n_out, struct stance_error *err)
{
    (void)attr;
    if (n_in != 4 || n_out != 2)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "signum: %d operands and %d results, not 4 and 2", n_in, n_out);
    for (int i = 0; i < 2; i++) {
        out[i]      = in[2 + i];
        out_type[i] = STANCE_TYPE_F32;
    }
    return STANCE_OK;
}

/* Masters are binary32, or binary64 under the policy fp64: one body for both. */
#define RULE(name, real)                                                                       \
    static void name(const struct stance_call *call, const struct stance_update *u)            \
    {                                                                                          \
        const struct config *c = call->attr;                                                   \
        const real          *g = call->in[0].data;                                             \
        real                *w = call->out[0].data, *m = call->out[1].data;                    \
        int64_t              n = stance_elements(&call->in[2].shape);                          \
                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                      \
            m[i] = (real)(c->momentum * m[i] + (1 - c->momentum) * (u->factor * (double)g[i])); \
            w[i] = (real)(w[i] - u->rate * ((m[i] > 0) - (m[i] < 0)));                         \
        }                                                                                      \
    }
RULE(step_f32, float)
RULE(step_f64, double)

static stance_status run(const struct stance_call *call)
{
    const struct stance_update *u = call->in[1].data;

    if (u->skip) /* the gradients are not finite: nothing may change */
        return STANCE_OK;
    if (call->in[2].stored == STANCE_TYPE_F64)
        step_f64(call, u);
    else
        step_f32(call, u);
    return STANCE_OK;
}

static double base_rate(const void *config)
{
    return ((const struct config *)config)->lr;
}

static const char *const slot_names[] = { "average" };

static const struct stance_op_ops rule = {
    .size = sizeof rule, .attr_size = sizeof(struct config), .attrs = params, .type_class = STANCE_CLASS_WIDE,
    .flags = STANCE_OP_STATE, .shape = shape, .reference = run,
};

static const struct stance_optimizer_ops ops = {
    .size = sizeof ops, .slots = 1, .slot_names = slot_names, .base_rate = base_rate, .update = &rule,
};

STANCE_PLUGIN(optimizer, signum) = {
    STANCE_PLUGIN_HEAD,
    .kind          = STANCE_KIND_OPTIMIZER,
    .name          = "signum",
    .version       = "1.0",
    .license       = "Apache-2.0",
    .source        = "Bernstein et al., ICML 2018",
    .summary       = "the sign of a running average of the gradient",
    .params        = params,
    .config_size   = sizeof(struct config),
    .ops.optimizer = &ops,
};
