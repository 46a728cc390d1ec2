/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam (Kingma and Ba, ICLR 2015) as PyTorch computes it: weight decay is part of the gradient, eps
 * is added after the bias correction of the second moment. */
#include "adam.h"

ADAM_PARAMS("0", "L2 penalty, added to the gradient");

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    return adam_shape("optimizer 'adam'", attr, in, n_in, out, out_type, n_out, err);
}

static stance_status reference(const struct stance_call *call)
{
    return adam_reference(call, false);
}

ADAM_OPS;

STANCE_PLUGIN(optimizer, adam) = {
    STANCE_PLUGIN_HEAD,
    .kind          = STANCE_KIND_OPTIMIZER,
    .name          = "adam",
    .version       = "1.1",
    .license       = "Apache-2.0",
    .source        = "Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015",
    .summary       = "Adam with bias correction; weight decay as an L2 penalty",
    .params        = params,
    .config_size   = sizeof(struct stance_adam),
    .ops.optimizer = &ops,
};
