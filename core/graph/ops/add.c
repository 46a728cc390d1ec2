/* SPDX-License-Identifier: Apache-2.0
 *
 * add: the sum of up to 16 operands of one shape, taken in their order. */
#include "graph/ops/op.h"

#include <stdio.h>

#define ADD_MAX 16

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("add", n_in, 1, ADD_MAX, n_out, 1, err);

    (void)attr, (void)out_type;
    for (int i = 0; i < n_in && status == STANCE_OK; i++) {
        char name[24];

        snprintf(name, sizeof name, "operand %d", i);
        status = stance_op_same("add", "operand 0", &in[0], name, &in[i], err);
    }
    if (status == STANCE_OK)
        out[0] = in[0];
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)attr, (void)out, (void)n_out;
    for (int i = 0; i < n_in; i++)
        if (op_wants(b, in[i]))
            d_in[i] = d_out[0];
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++) {
        double sum = get(&c->in[0], i, mode);

        for (int k = 1; k < c->n_in; k++)
            sum += get(&c->in[k], i, mode);
        put(&c->out[0], i, sum, mode);
    }
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_add = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
