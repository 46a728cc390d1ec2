/* SPDX-License-Identifier: Apache-2.0
 *
 * Stochastic gradient descent with momentum as PyTorch computes it: the rate multiplies the
 * momentum buffer when it is applied, not when it is filled, and the first step fills the buffer
 * undampened (Sutskever et al., "On the importance of initialization and momentum in deep
 * learning", ICML 2013, multiply the rate in earlier). */
#include "optimizers.h"

static const char *const masters[] = STANCE_MASTER_WORDS;

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct stance_sgd, lr, "1e-3", 0, 1000, "1",
                     "learning rate before the schedule"),
    STANCE_PARAM_F64(struct stance_sgd, momentum, "0", 0, 1, "1",
                     "share of the buffer that a step keeps"),
    STANCE_PARAM_F64(struct stance_sgd, dampening, "0", 0, 1, "1",
                     "share of the gradient that the buffer leaves out after the first step"),
    STANCE_PARAM_F64(struct stance_sgd, weight_decay, "0", 0, 1000, "1",
                     "L2 penalty, added to the gradient"),
    STANCE_PARAM_BOOL(struct stance_sgd, nesterov, "false",
                      "look ahead along the buffer; needs momentum, no dampening"),
    STANCE_PARAM_ENUM(struct stance_sgd, master, "fp32", masters, OPTIMIZER_MASTER_DOC),
    STANCE_PARAM_END
};

static int32_t slots_used(const void *config)
{
    return optimizer_slots(1, ((const struct stance_sgd *)config)->master);
}

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_sgd *c = (const struct stance_sgd *)attr;

    if (c->nesterov && (c->momentum == 0 || c->dampening != 0))
        return STANCE_FAIL(
            err, STANCE_ERR_INVAL,
            "optimizer 'sgd': nesterov: needs a momentum above 0 and a dampening of 0");
    return optimizer_shape("optimizer 'sgd'", slots_used(c), in, n_in, out, out_type, n_out, err);
}

static stance_status reference(const struct stance_call *call)
{
    const struct stance_sgd    *c    = (const struct stance_sgd *)call->attr;
    const struct stance_update *u    = (const struct stance_update *)call->in[1].data;
    double                      take = u->applied == 0 ? 1 : 1 - c->dampening;
    int64_t                     n    = stance_elements(&call->in[2].shape);

    if (!optimizer_wide(call, slots_used(c)))
        return STANCE_ERR_UNSUPPORTED;
    if (u->skip)
        return STANCE_OK;
    for (int64_t i = 0; i < n; i++) {
        double p = optimizer_get(&call->in[2], i);
        double d = optimizer_get(&call->in[0], i) * u->factor + c->weight_decay * p;

        if (c->momentum != 0) {
            double m = c->momentum * optimizer_get(&call->in[3], i) + take * d;

            optimizer_put(&call->out[1], i, m);
            d = c->nesterov ? d + c->momentum * m : m;
        }
        optimizer_put_master(call, c->master, 1, i, p - u->rate * d);
    }
    return STANCE_OK;
}

static double base_rate(const void *config)
{
    return ((const struct stance_sgd *)config)->lr;
}

static const char *const slot_names[] = { "momentum_buffer", "compensation" };

static const struct stance_op_ops update = {
    .size       = sizeof update,
    .attr_size  = sizeof(struct stance_sgd),
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
    .slots_used = slots_used,
};

STANCE_PLUGIN(optimizer, sgd) = {
    STANCE_PLUGIN_HEAD,
    .kind          = STANCE_KIND_OPTIMIZER,
    .name          = "sgd",
    .version       = "1.1",
    .license       = "Apache-2.0",
    .source        = "Polyak 1964; Nesterov 1983; as in PyTorch's torch.optim.SGD",
    .summary       = "stochastic gradient descent, with momentum on request",
    .params        = params,
    .config_size   = sizeof(struct stance_sgd),
    .ops.optimizer = &ops,
};
