/* SPDX-License-Identifier: Apache-2.0
 *
 * increment: an integer counter plus one. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_unary("increment", in, n_in, out, n_out, err);

    (void)attr;
    if (status == STANCE_OK)
        out_type[0] = STANCE_TYPE_I64;
    return status;
}

static stance_status reference(const struct stance_call *c)
{
    if (c->in[0].stored != STANCE_TYPE_I64 || c->out[0].stored != STANCE_TYPE_I64)
        return STANCE_ERR_UNSUPPORTED;
    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++)
        ((int64_t *)c->out[0].data)[i] = ((const int64_t *)c->in[0].data)[i] + 1;
    return STANCE_OK;
}

const struct stance_op_ops stance_op_increment = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE | STANCE_OP_STATE,
    .shape      = shape,
    .reference  = reference,
};
