/* SPDX-License-Identifier: Apache-2.0
 *
 * commit: at the end of a window what is pending is committed; or, when the window is skipped, what was
 * committed is restored. Both results lie over the memory of their operands. */
#include "graph/ops/op.h"

#include <stance/plugin.h>

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("commit", n_in, 3, 3, n_out, 2, err);

    (void)attr, (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_same("commit", "pending", &in[0], "committed", &in[2], err);
    if (status == STANCE_OK)
        status = stance_op_operand("commit", "update", &in[1], 1, err);
    if (status == STANCE_OK)
        out[0] = out[1] = in[0];
    return status;
}

static stance_status reference(const struct stance_call *c)
{
    const struct stance_update *update = c->in[1].data;
    const struct stance_tensor *from   = update->skip ? &c->in[2] : &c->in[0];
    const int64_t               n      = stance_elements(&from->shape);

    /* The other's memory first: copying onto itself changes nothing. */
    stance_tensor_copy(update->skip ? &c->out[0] : &c->out[1], 0, from, 0, n);
    stance_tensor_copy(update->skip ? &c->out[1] : &c->out[0], 0, from, 0, n);
    return STANCE_OK;
}

const struct stance_op_ops stance_op_commit = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_NO_RECOMPUTE,
    .shape      = shape,
    .reference  = reference,
};
