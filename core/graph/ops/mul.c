/* SPDX-License-Identifier: Apache-2.0
 *
 * mul: the product of two operands of one shape, element by element. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("mul", n_in, 2, 2, n_out, 1, err);

    (void)attr, (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_same("mul", "a", &in[0], "b", &in[1], err);
    if (status == STANCE_OK)
        out[0] = in[0];
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)attr, (void)n_in, (void)out, (void)n_out;
    for (int i = 0; i < 2 && d_out[0].id != 0; i++) {
        struct stance_value from[2] = { d_out[0], in[1 - i] };

        if (op_wants(b, in[i]))
            d_in[i] = stance_node1(b, "mul", NULL, 0, from, 2);
    }
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++)
        put(&c->out[0], i, get(&c->in[0], i, mode) * get(&c->in[1], i, mode), mode);
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_mul = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
