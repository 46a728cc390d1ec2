/* SPDX-License-Identifier: Apache-2.0
 *
 * relu and its gradient, which needs the result only. Comparisons are written so that a NaN passes. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    (void)attr, (void)out_type;
    return stance_op_unary("relu", in, n_in, out, n_out, err);
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_value from[2] = { d_out[0], out[0] };

    (void)attr, (void)n_in, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "relu_grad", NULL, 0, from, 2);
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++) {
        double v = get(&c->in[0], i, mode);

        put(&c->out[0], i, v <= 0 ? 0 : v, mode);
    }
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_relu = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};

static stance_status grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    stance_status status = stance_op_count("relu_grad", n_in, 2, 2, n_out, 1, err);

    (void)attr, (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_same("relu_grad", "dy", &in[0], "y", &in[1], err);
    if (status == STANCE_OK)
        out[0] = in[0];
    return status;
}

OP_INLINE void grad_body(const struct stance_call *c, enum op_mode mode)
{
    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++)
        put(&c->out[0], i, get(&c->in[1], i, mode) <= 0 ? 0 : get(&c->in[0], i, mode), mode);
}
OP_REFERENCE(grad_reference, grad_body)

const struct stance_op_ops stance_op_relu_grad = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = grad_shape,
    .reference  = grad_reference,
};
