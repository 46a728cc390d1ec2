/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/pool.h"

#include "graph/ops/conv.h"

stance_status stance_pool_result(const char *op, const struct stance_pool *a, const struct stance_shape *x,
                                 struct stance_shape *y, struct stance_error *err)
{
    stance_status status = stance_op_image(op, "x", x, err);
    int64_t       n[2]   = { 0 };

    for (int i = 0; i < 2 && status == STANCE_OK; i++) {
        status = stance_op_range(op, "kernel", a->kernel[i], 1, INT32_MAX, err);
        if (status == STANCE_OK)
            status = stance_op_range(op, "stride", a->stride[i], 1, INT32_MAX, err);
        if (status == STANCE_OK)
            status = stance_op_range(op, "padding", a->pad[i], 0, a->kernel[i] / 2, err);
        if (status != STANCE_OK)
            break;
        n[i] = conv_positions(x->dim[2 + i], a->kernel[i], a->stride[i], a->pad[i], 1);
        if (n[i] < 1)
            status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: a %dx%d kernel does not fit into x %s with padding %d,%d",
                                 op, a->kernel[0], a->kernel[1], OP_TEXT(x), a->pad[0], a->pad[1]);
    }
    if (status == STANCE_OK)
        *y = stance_shape4(x->dim[0], x->dim[1], n[0], n[1]);
    return status;
}

stance_status stance_pool_source(const char *op, const struct stance_pool *a, const struct stance_shape *dy,
                                 struct stance_shape *x, struct stance_error *err)
{
    struct stance_shape from, y;
    stance_status       status = stance_op_image(op, "dy", dy, err);

    if (status != STANCE_OK)
        return status;
    from   = stance_shape4(dy->dim[0], dy->dim[1], a->size[0], a->size[1]);
    status = stance_pool_result(op, a, &from, &y, err);
    if (status == STANCE_OK && !stance_shape_equal(&y, dy))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: dy is %s, but x %s gives %s", op, OP_TEXT(dy),
                             OP_TEXT(&from), OP_TEXT(&y));
    if (status == STANCE_OK)
        *x = from;
    return status;
}

struct stance_value stance_pool_gradient(struct stance_builder *b, const char *op, const void *attr,
                                         struct stance_value x, struct stance_value dy,
                                         struct stance_value index)
{
    struct stance_pool  a       = *(const struct stance_pool *)attr;
    struct stance_shape s       = stance_shape_of(b, x);
    struct stance_value from[2] = { dy, index };

    if (dy.id == 0 || !op_wants(b, x))
        return (struct stance_value){ 0 };
    a.size[0] = (int32_t)s.dim[2];
    a.size[1] = (int32_t)s.dim[3];
    return stance_node1(b, op, &a, sizeof a, from, index.id != 0 ? 2 : 1);
}
