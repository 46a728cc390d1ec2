/* SPDX-License-Identifier: Apache-2.0
 *
 * ema: one step of an exponential moving average over a flat array, average += (1 - d) (value - average),
 * d being the decay of this step; nothing when the window is skipped. The average is binary32 (or the wide
 * type), as it has to move by less than a thousandth of the difference each step.
 * Sources: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992; the
 * warm-ups are those of TensorFlow's ExponentialMovingAverage and of ultralytics' ModelEMA. */
#include "graph/ops/op.h"

#include <stance/device.h>

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("ema", n_in, 3, 3, n_out, 1, err);

    (void)attr;
    if (status == STANCE_OK)
        status = stance_op_same("ema", "average", &in[0], "value", &in[2], err);
    if (status == STANCE_OK)
        status = stance_op_operand("ema", "update", &in[1], 1, err);
    if (status != STANCE_OK)
        return status;
    out[0]      = in[0];
    out_type[0] = STANCE_TYPE_F32;
    return STANCE_OK;
}

static stance_status reference(const struct stance_call *c)
{
    const struct stance_update *u    = c->in[1].data;
    const double                take = 1 - stance_ema_decay(c->attr, u->applied);

    for (int64_t i = 0, n = stance_elements(&c->in[0].shape); i < n; i++) {
        double average = stance_tensor_get(&c->in[0], i);

        stance_tensor_put(&c->out[0], i, u->skip ? average : average + take * (stance_tensor_get(&c->in[2], i) - average));
    }
    return STANCE_OK;
}

const struct stance_op_ops stance_op_ema = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_ema),
    .type_class = STANCE_CLASS_WIDE,
    .flags      = STANCE_OP_NO_RECOMPUTE | STANCE_OP_IN_PLACE,
    .shape      = shape,
    .reference  = reference,
};
