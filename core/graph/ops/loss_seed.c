/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_seed: the gradient of the loss itself, from which the backward pass starts: loss scale times the
 * micro-batch's weight in its window. */
#include "graph/ops/op.h"

#include <stance/device.h>

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("loss_seed", n_in, 1, 1, n_out, 1, err);

    (void)attr;
    if (status == STANCE_OK)
        status = stance_op_operand("loss_seed", "control", &in[0], 1, err);
    if (status != STANCE_OK)
        return status;
    out[0]      = (struct stance_shape){ 0 };
    out_type[0] = STANCE_TYPE_F32;
    return STANCE_OK;
}

static stance_status reference(const struct stance_call *c)
{
    const struct stance_control *control = c->in[0].data;

    stance_tensor_put(&c->out[0], 0, (double)control->scale * control->micro_weight);
    return STANCE_OK;
}

const struct stance_op_ops stance_op_loss_seed = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_WIDE,
    .shape      = shape,
    .reference  = reference,
};
