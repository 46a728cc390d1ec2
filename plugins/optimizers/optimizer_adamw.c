/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW (Loshchilov and Hutter, ICLR 2019) as PyTorch computes it: the weights shrink by rate times
 * weight_decay before the step of Adam, and the decay never enters the moments. */
#include "adam.h"

ADAM_PARAMS("0.01", "share of a weight that it loses at rate 1");

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    return adam_shape("optimizer 'adamw'", attr, in, n_in, out, out_type, n_out, err);
}

static stance_status reference(const struct stance_call *call)
{
    return adam_reference(call, true);
}

ADAM_OPS;

STANCE_PLUGIN(optimizer, adamw) = {
    STANCE_PLUGIN_HEAD,
    .kind          = STANCE_KIND_OPTIMIZER,
    .name          = "adamw",
    .version       = "1.1",
    .license       = "Apache-2.0",
    .source        = "Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019",
    .summary       = "Adam with decoupled weight decay",
    .params        = params,
    .config_size   = sizeof(struct stance_adam),
    .ops.optimizer = &ops,
};
