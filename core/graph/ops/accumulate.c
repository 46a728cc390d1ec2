/* SPDX-License-Identifier: Apache-2.0
 *
 * accumulate: adds the gradient of a micro-batch to the wide sum of its window, in the sum's memory. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("accumulate", n_in, 2, 2, n_out, 1, err);

    (void)attr, (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("accumulate", "sum", &in[0], -1, err);
    if (status == STANCE_OK)
        status = stance_op_operand("accumulate", "gradient", &in[1], -1, err);
    /* The sum may be a stretch of the flat gradients. */
    if (status == STANCE_OK && stance_elements(&in[0]) != stance_elements(&in[1]))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "accumulate: sum %s has not as many elements as gradient %s",
                             OP_TEXT(&in[0]), OP_TEXT(&in[1]));
    if (status == STANCE_OK)
        out[0] = in[0];
    return status;
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++)
        put(&c->out[0], i, get(&c->in[0], i, mode) + get(&c->in[1], i, mode), mode);
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_accumulate = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE | STANCE_OP_NO_RECOMPUTE,
    .shape      = shape,
    .reference  = reference,
};
