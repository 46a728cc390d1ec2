/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: the same values in another type, rounded to nearest even; towards zero and clamped where that is
 * an integer type. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_cast *a = attr;
    stance_status             status =
        stance_op_range("cast", "type number", a->type, STANCE_TYPE_ANY, STANCE_TYPE_COUNT - 1, err);

    if (status == STANCE_OK)
        status = stance_op_unary("cast", in, n_in, out, n_out, err);
    if (status == STANCE_OK)
        out_type[0] = (enum stance_type)a->type;
    return status;
}

static bool is_real(enum stance_type t)
{
    return t != STANCE_TYPE_I32 && t != STANCE_TYPE_I64 && t != STANCE_TYPE_U8;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_cast back = { (int32_t)stance_type_of(b, in[0]) };

    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]) && is_real(stance_type_of(b, in[0]))
        && is_real((enum stance_type)((const struct stance_cast *)attr)->type))
        d_in[0] = stance_node1(b, "cast", &back, sizeof back, d_out, 1);
}

static stance_status reference(const struct stance_call *c)
{
    stance_tensor_copy(&c->out[0], 0, &c->in[0], 0, stance_elements(&c->out[0].shape));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_cast = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_cast),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
