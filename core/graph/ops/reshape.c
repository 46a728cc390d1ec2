/* SPDX-License-Identifier: Apache-2.0
 *
 * reshape: the same elements in the same order under another shape. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_reshape *a      = attr;
    stance_status                status = stance_op_count("reshape", n_in, 1, 1, n_out, 1, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("reshape", "x", &in[0], -1, err);
    if (status == STANCE_OK)
        status = stance_op_operand("reshape", "the result", &a->shape, -1, err);
    if (status == STANCE_OK && stance_elements(&a->shape) != stance_elements(&in[0]))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "reshape: x %s has not as many elements as %s",
                             OP_TEXT(&in[0]), OP_TEXT(&a->shape));
    if (status == STANCE_OK)
        out[0] = a->shape;
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_reshape back = { stance_shape_of(b, in[0]) };

    (void)attr, (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "reshape", &back, sizeof back, d_out, 1);
}

static stance_status reference(const struct stance_call *c)
{
    stance_tensor_copy(&c->out[0], 0, &c->in[0], 0, stance_elements(&c->out[0].shape));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_reshape = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_reshape),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
