/* SPDX-License-Identifier: Apache-2.0
 *
 * pack (of a weight, into the form that a kernel asked for) and reorder (of any value): the same values
 * in another form. Between plain forms, which is all that plain C meets, only types are converted. */
#include "graph/ops/op.h"

static stance_status pack_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    (void)attr, (void)out_type;
    return stance_op_unary("pack", in, n_in, out, n_out, err);
}

static stance_status reorder_shape(const void *attr, const struct stance_shape *in, int n_in,
                                   struct stance_shape *out, enum stance_type *out_type, int n_out,
                                   struct stance_error *err)
{
    (void)attr, (void)out_type;
    return stance_op_unary("reorder", in, n_in, out, n_out, err);
}

static stance_status reference(const struct stance_call *c)
{
    if (c->in[0].layout != 0 || c->out[0].layout != 0)
        return STANCE_ERR_UNSUPPORTED;
    stance_tensor_copy(&c->out[0], 0, &c->in[0], 0, stance_elements(&c->out[0].shape));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_pack = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = pack_shape,
    .reference  = reference,
};

const struct stance_op_ops stance_op_reorder = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = reorder_shape,
    .reference  = reference,
};
