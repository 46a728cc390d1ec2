/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW (Loshchilov and Hutter, ICLR 2019) as PyTorch computes it: the weights shrink by rate times
 * weight_decay before the step of Adam, and the decay never enters the moments. */
#include "optimizers.h"

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct stance_adam, lr, "1e-3", 0, 1000, "1",
                     "learning rate before the schedule"),
    STANCE_PARAM_LIST_F64(struct stance_adam, betas, "[0.9, 0.999]", 0, 0.9999999, "1",
                          "decay rates of the first and the second moment"),
    STANCE_PARAM_F64(struct stance_adam, eps, "1e-8", 1e-30, 1, "1", "added to the denominator"),
    STANCE_PARAM_F64(struct stance_adam, weight_decay, "0.01", 0, 1000, "1",
                     "share of a weight that it loses at rate 1"),
    STANCE_PARAM_END
};

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_adam *c = (const struct stance_adam *)attr;

    if (c->betas.n != 2)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "optimizer 'adamw': betas: %d numbers instead of 2", c->betas.n);
    return optimizer_shape("optimizer 'adamw'", 2, in, n_in, out, out_type, n_out, err);
}

static stance_status reference(const struct stance_call *call)
{
    const struct stance_adam   *c  = (const struct stance_adam *)call->attr;
    const struct stance_update *u  = (const struct stance_update *)call->in[1].data;
    double                      b1 = c->betas.v[0], b2 = c->betas.v[1], t = (double)u->applied + 1;
    double                      step = u->rate / (1 - pow(b1, t)), root = sqrt(1 - pow(b2, t));
    double                      keep = 1 - u->rate * c->weight_decay;
    int64_t                     n    = stance_elements(&call->in[2].shape);

    if (!optimizer_wide(call, 2))
        return STANCE_ERR_UNSUPPORTED;
    if (u->skip)
        return STANCE_OK;
    for (int64_t i = 0; i < n; i++) {
        double p = optimizer_get(&call->in[2], i) * keep;
        double g = optimizer_get(&call->in[0], i) * u->factor;
        double m = optimizer_get(&call->in[3], i), v = optimizer_get(&call->in[4], i);

        m += (1 - b1) * (g - m);
        v = b2 * v + (1 - b2) * g * g;
        optimizer_put(&call->out[0], i, p - step * (m / (sqrt(v) / root + c->eps)));
        optimizer_put(&call->out[1], i, m);
        optimizer_put(&call->out[2], i, v);
    }
    return STANCE_OK;
}

static double base_rate(const void *config)
{
    return ((const struct stance_adam *)config)->lr;
}

static const char *const slot_names[] = { "exp_avg", "exp_avg_sq" };

static const struct stance_op_ops update = {
    .size       = sizeof update,
    .attr_size  = sizeof(struct stance_adam),
    .attrs      = params,
    .type_class = STANCE_CLASS_WIDE,
    .flags      = STANCE_OP_STATE,
    .shape      = shape,
    .reference  = reference,
};

static const struct stance_optimizer_ops ops = {
    .size       = sizeof ops,
    .slots      = 2,
    .slot_names = slot_names,
    .base_rate  = base_rate,
    .update     = &update,
};

STANCE_PLUGIN(optimizer, adamw) = {
    STANCE_PLUGIN_HEAD,
    .kind          = STANCE_KIND_OPTIMIZER,
    .name          = "adamw",
    .version       = "1.0",
    .license       = "Apache-2.0",
    .source        = "Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019",
    .summary       = "Adam with decoupled weight decay",
    .params        = params,
    .config_size   = sizeof(struct stance_adam),
    .ops.optimizer = &ops,
};
