/* SPDX-License-Identifier: Apache-2.0
 *
 * concat along an axis, slice of one, and slice_grad, which puts a slice back among zeros. */
#include "graph/ops/op.h"

#include <inttypes.h>
#include <stdio.h>

static int64_t inner_of(const struct stance_shape *s, int axis)
{
    int64_t n = 1;

    for (int i = axis + 1; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

/* Copies `length` positions along the axis, for all outer indices. */
static void copy_part(const struct stance_tensor *to, int64_t to_start, const struct stance_tensor *from,
                      int64_t from_start, int64_t length, int axis)
{
    const int64_t inner = inner_of(&to->shape, axis);
    const int64_t size_to = to->shape.dim[axis] * inner, size_from = from->shape.dim[axis] * inner;
    const int64_t outer = stance_elements(&to->shape) / size_to;

    for (int64_t o = 0; o < outer; o++)
        stance_tensor_copy(to, o * size_to + to_start * inner, from, o * size_from + from_start * inner,
                           length * inner);
}

/* ---- concat ------------------------------------------------------------------------------------ */

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_concat *a      = attr;
    stance_status               status = stance_op_count("concat", n_in, 1, INT32_MAX, n_out, 1, err);
    struct stance_shape         y;

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("concat", "operand 0", &in[0], -1, err);
    if (status == STANCE_OK)
        status = stance_op_range("concat", "axis", a->axis, 0, in[0].rank - 1, err);
    if (status != STANCE_OK)
        return status;
    y = in[0];
    for (int k = 1; k < n_in; k++) {
        struct stance_shape like = in[k];
        char                name[24];

        snprintf(name, sizeof name, "operand %d", k);
        status = stance_op_operand("concat", name, &in[k], in[0].rank, err);
        if (status != STANCE_OK)
            return status;
        like.dim[a->axis] = in[0].dim[a->axis];
        if (!stance_shape_equal(&like, &in[0]))
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "concat: operand 0 is %s, %s is %s: they may differ in dimension %d only",
                               OP_TEXT(&in[0]), name, OP_TEXT(&in[k]), a->axis);
        if (__builtin_add_overflow(y.dim[a->axis], in[k].dim[a->axis], &y.dim[a->axis]))
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "concat: the result is too large");
    }
    status = stance_op_result("concat", &y, err);
    if (status == STANCE_OK)
        out[0] = y;
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_slice part = { ((const struct stance_concat *)attr)->axis, 0, 0 };

    (void)out, (void)n_out;
    if (d_out[0].id == 0 || stance_failed(b))
        return;
    for (int k = 0; k < n_in; k++) {
        part.length = stance_shape_of(b, in[k]).dim[part.axis];
        if (op_wants(b, in[k]))
            d_in[k] = stance_node1(b, "slice", &part, sizeof part, d_out, 1);
        part.start += part.length;
    }
}

static stance_status reference(const struct stance_call *c)
{
    const int axis  = ((const struct stance_concat *)c->attr)->axis;
    int64_t   start = 0;

    for (int k = 0; k < c->n_in; k++) {
        copy_part(&c->out[0], start, &c->in[k], 0, c->in[k].shape.dim[axis], axis);
        start += c->in[k].shape.dim[axis];
    }
    return STANCE_OK;
}

const struct stance_op_ops stance_op_concat = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_concat),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};

/* ---- slice ------------------------------------------------------------------------------------- */

static stance_status slice_shape(const void *attr, const struct stance_shape *in, int n_in,
                                 struct stance_shape *out, enum stance_type *out_type, int n_out,
                                 struct stance_error *err)
{
    const struct stance_slice *a = attr;
    struct stance_shape        y;
    stance_status              status = stance_op_unary("slice", in, n_in, &y, n_out, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_range("slice", "axis", a->axis, 0, in[0].rank - 1, err);
    if (status != STANCE_OK)
        return status;
    if (a->start < 0 || a->length < 1 || a->start >= in[0].dim[a->axis]
        || a->length > in[0].dim[a->axis] - a->start)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "slice: %" PRId64 " positions from %" PRId64 " on leave dimension %d of x %s",
                           a->length, a->start, a->axis, OP_TEXT(&in[0]));
    y.dim[a->axis] = a->length;
    out[0]         = y;
    return STANCE_OK;
}

static void slice_gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                           const struct stance_value *out, const struct stance_value *d_out, int n_out,
                           struct stance_value *d_in)
{
    struct stance_slice back = *(const struct stance_slice *)attr;

    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id == 0 || !op_wants(b, in[0]))
        return;
    back.length = stance_shape_of(b, in[0]).dim[back.axis];
    d_in[0]     = stance_node1(b, "slice_grad", &back, sizeof back, d_out, 1);
}

static stance_status slice_reference(const struct stance_call *c)
{
    const struct stance_slice *a = c->attr;

    copy_part(&c->out[0], 0, &c->in[0], a->start, a->length, a->axis);
    return STANCE_OK;
}

const struct stance_op_ops stance_op_slice = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_slice),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = slice_shape,
    .gradient   = slice_gradient,
    .reference  = slice_reference,
};

/* ---- slice_grad: attr.length is that of x ------------------------------------------------------ */

static stance_status slice_grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                      struct stance_shape *out, enum stance_type *out_type, int n_out,
                                      struct stance_error *err)
{
    const struct stance_slice *a = attr;
    struct stance_shape        y;
    stance_status              status = stance_op_unary("slice_grad", in, n_in, &y, n_out, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_range("slice_grad", "axis", a->axis, 0, in[0].rank - 1, err);
    if (status != STANCE_OK)
        return status;
    if (a->start < 0 || a->length < in[0].dim[a->axis] || a->start > a->length - in[0].dim[a->axis])
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "slice_grad: dimension %d of dy %s does not fit at %" PRId64 " of %" PRId64,
                           a->axis, OP_TEXT(&in[0]), a->start, a->length);
    y.dim[a->axis] = a->length;
    status         = stance_op_result("slice_grad", &y, err);
    if (status == STANCE_OK)
        out[0] = y;
    return status;
}

static stance_status slice_grad_reference(const struct stance_call *c)
{
    const struct stance_slice *a = c->attr;

    /* All bits zero is 0 in every type. */
    memset(c->out[0].data, 0, (size_t)stance_elements(&c->out[0].shape) * stance_type_size(c->out[0].stored));
    copy_part(&c->out[0], a->start, &c->in[0], 0, c->in[0].shape.dim[a->axis], a->axis);
    return STANCE_OK;
}

const struct stance_op_ops stance_op_slice_grad = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_slice),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = slice_grad_shape,
    .reference  = slice_grad_reference,
};
