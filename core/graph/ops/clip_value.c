/* SPDX-License-Identifier: Apache-2.0
 *
 * clip_value: after grad_check, every gradient that is larger than control.clip_value once it is
 * unscaled is cut to it, as torch.nn.utils.clip_grad_value_ does. Gradients stay scaled: the limit is
 * divided by the factor instead, which is exact for the scales in use, powers of two. */
#include "graph/ops/op.h"

#include <stance/device.h>

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("clip_value", n_in, 2, 2, n_out, 1, err);

    (void)attr;
    if (status == STANCE_OK)
        status = stance_op_operand("clip_value", "gradients", &in[0], 1, err);
    if (status == STANCE_OK)
        status = stance_op_operand("clip_value", "control", &in[1], 1, err);
    if (status != STANCE_OK)
        return status;
    out[0]      = in[0];
    out_type[0] = STANCE_TYPE_F32;
    return STANCE_OK;
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_control *control = c->in[1].data;
    const double                 limit   = control->clip_value / control->update.factor;

    for (int64_t i = 0, n = stance_elements(&c->in[0].shape); i < n; i++) {
        double g = get(&c->in[0], i, mode);

        put(&c->out[0], i, control->update.skip || control->clip_value <= 0 ? g
                           : g > limit ? limit : g < -limit ? -limit : g, mode);
    }
}
OP_REFERENCE_OF(reference, body, 1, 1)

const struct stance_op_ops stance_op_clip_value = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_WIDE,
    .flags      = STANCE_OP_NO_RECOMPUTE | STANCE_OP_IN_PLACE,
    .shape      = shape,
    .reference  = reference,
};
