/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_sum over a set of axes, and broadcast along one: each is the other's gradient. */
#include "graph/ops/op.h"

static bool has_axis(uint32_t axes, int i) { return (axes >> i & 1) != 0; }

static stance_status check_axes(const char *op, uint32_t axes, const struct stance_shape *s,
                                struct stance_error *err)
{
    if (axes >> s->rank != 0)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: axes 0x%x are not all among those of %s", op, axes,
                           OP_TEXT(s));
    return STANCE_OK;
}

/* The shape that is left of s when the axes are summed. */
static struct stance_shape without(const struct stance_shape *s, uint32_t axes, bool keep)
{
    struct stance_shape r = { 0 };

    for (int i = 0; i < s->rank; i++)
        if (!has_axis(axes, i) || keep)
            r.dim[r.rank++] = has_axis(axes, i) ? 1 : s->dim[i];
    return r;
}

/* A walk over the elements of s that follows the elements of without(s, axes, ...). */
static struct op_walk walk_of(const struct stance_shape *s, uint32_t axes)
{
    struct op_walk w      = { .n = s->rank };
    int64_t        stride = 1;

    for (int i = s->rank - 1; i >= 0; i--) {
        w.dim[i]    = s->dim[i];
        w.stride[i] = has_axis(axes, i) ? 0 : stride;
        stride *= has_axis(axes, i) ? 1 : s->dim[i];
    }
    return w;
}

/* ---- reduce_sum -------------------------------------------------------------------------------- */

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_reduce *a      = attr;
    stance_status               status = stance_op_count("reduce_sum", n_in, 1, 1, n_out, 1, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("reduce_sum", "x", &in[0], -1, err);
    if (status == STANCE_OK)
        status = check_axes("reduce_sum", a->axes, &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_range("reduce_sum", "keep", a->keep, 0, 1, err);
    if (status == STANCE_OK)
        out[0] = without(&in[0], a->axes, a->keep != 0);
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_broadcast back = { stance_shape_of(b, in[0]), ((const struct stance_reduce *)attr)->axes };

    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "broadcast", &back, sizeof back, d_out, 1);
}

/* One binary64 sum for each element of the result. */
static size_t workspace(const struct stance_call *c)
{
    return (size_t)stance_elements(&c->out[0].shape) * sizeof(double);
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    struct op_walk w   = walk_of(&c->in[0].shape, ((const struct stance_reduce *)c->attr)->axes);
    const int64_t  n   = stance_elements(&c->in[0].shape), m = stance_elements(&c->out[0].shape);
    double        *sum = c->workspace;

    memset(sum, 0, (size_t)m * sizeof *sum);
    for (int64_t i = 0; i < n; i++, op_walk_next(&w))
        sum[w.index] += get(&c->in[0], i, mode);
    for (int64_t i = 0; i < m; i++)
        put(&c->out[0], i, sum[i], mode);
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_reduce_sum = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_reduce),
    .type_class = STANCE_CLASS_WIDE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
    .workspace  = workspace,
};

/* ---- broadcast --------------------------------------------------------------------------------- */

static stance_status broadcast_shape(const void *attr, const struct stance_shape *in, int n_in,
                                     struct stance_shape *out, enum stance_type *out_type, int n_out,
                                     struct stance_error *err)
{
    const struct stance_broadcast *a      = attr;
    stance_status                  status = stance_op_count("broadcast", n_in, 1, 1, n_out, 1, err);
    struct stance_shape            kept, dropped;

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("broadcast", "the result", &a->shape, -1, err);
    if (status == STANCE_OK)
        status = check_axes("broadcast", a->axes, &a->shape, err);
    if (status == STANCE_OK)
        status = stance_op_operand("broadcast", "x", &in[0], -1, err);
    if (status != STANCE_OK)
        return status;
    kept    = without(&a->shape, a->axes, true);
    dropped = without(&a->shape, a->axes, false);
    if (!stance_shape_equal(&in[0], &kept) && !stance_shape_equal(&in[0], &dropped))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "broadcast: x is %s, repeated along axes 0x%x to %s it must be %s or %s",
                           OP_TEXT(&in[0]), a->axes, OP_TEXT(&a->shape), OP_TEXT(&kept), OP_TEXT(&dropped));
    out[0] = a->shape;
    return STANCE_OK;
}

static void broadcast_gradient(struct stance_builder *b, const void *attr, const struct stance_value *in,
                               int n_in, const struct stance_value *out, const struct stance_value *d_out,
                               int n_out, struct stance_value *d_in)
{
    const struct stance_broadcast *a    = attr;
    struct stance_reduce           back = { a->axes, stance_shape_of(b, in[0]).rank == a->shape.rank };

    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "reduce_sum", &back, sizeof back, d_out, 1);
}

static stance_status broadcast_reference(const struct stance_call *c)
{
    struct op_walk w = walk_of(&c->out[0].shape, ((const struct stance_broadcast *)c->attr)->axes);

    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++, op_walk_next(&w))
        stance_tensor_copy(&c->out[0], i, &c->in[0], w.index, 1);
    return STANCE_OK;
}

const struct stance_op_ops stance_op_broadcast = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_broadcast),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = broadcast_shape,
    .gradient   = broadcast_gradient,
    .reference  = broadcast_reference,
};
