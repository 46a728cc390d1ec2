/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose: dimension i of y is dimension axis[i] of x. */
#include "graph/ops/op.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_transpose *a      = attr;
    stance_status                  status = stance_op_count("transpose", n_in, 1, 1, n_out, 1, err);
    uint32_t                       seen   = 0;

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("transpose", "x", &in[0], -1, err);
    for (int i = 0; i < in[0].rank && status == STANCE_OK; i++) {
        status = stance_op_range("transpose", "axis", a->axis[i], 0, in[0].rank - 1, err);
        if (status == STANCE_OK && (seen >> a->axis[i] & 1) != 0)
            status = STANCE_FAIL(err, STANCE_ERR_RANGE, "transpose: axis %d of x %s is named twice", a->axis[i],
                                 OP_TEXT(&in[0]));
        if (status == STANCE_OK)
            seen |= 1u << a->axis[i];
    }
    if (status != STANCE_OK)
        return status;
    out[0] = in[0];
    for (int i = 0; i < in[0].rank; i++)
        out[0].dim[i] = in[0].dim[a->axis[i]];
    return STANCE_OK;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    const struct stance_transpose *a    = attr;
    struct stance_transpose        back = { { 0 } };

    (void)n_in, (void)out, (void)n_out;
    for (int i = 0, rank = stance_shape_of(b, in[0]).rank; i < rank; i++)
        back.axis[a->axis[i]] = i;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "transpose", &back, sizeof back, d_out, 1);
}

static stance_status reference(const struct stance_call *c)
{
    const struct stance_transpose *a = c->attr;
    const struct stance_shape     *x = &c->in[0].shape, *y = &c->out[0].shape;
    struct op_walk                 w = { .n = y->rank };
    int64_t                        stride[STANCE_RANK_MAX], step = 1;

    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
    for (int i = 0; i < y->rank; i++) {
        w.dim[i]    = y->dim[i];
        w.stride[i] = stride[a->axis[i]];
    }
    for (int64_t i = 0; i < step; i++, op_walk_next(&w))
        stance_tensor_copy(&c->out[0], i, &c->in[0], w.index, 1);
    return STANCE_OK;
}

const struct stance_op_ops stance_op_transpose = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_transpose),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
