/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool, which also tells where the maximum was, and its gradient. Padding is minus infinity. */
#include "graph/ops/pool.h"

#include <math.h>

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status       status = stance_op_count("max_pool", n_in, 1, 1, n_out, 2, err);
    struct stance_shape y;

    if (status == STANCE_OK)
        status = stance_pool_result("max_pool", attr, &in[0], &y, err);
    if (status == STANCE_OK && in[0].dim[2] * in[0].dim[3] > INT32_MAX)
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "max_pool: x %s has more pixels than the index can count",
                             OP_TEXT(&in[0]));
    if (status != STANCE_OK)
        return status;
    out[0] = out[1] = y;
    out_type[1] = STANCE_TYPE_I32;
    return STANCE_OK;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)n_in, (void)n_out;
    d_in[0] = stance_pool_gradient(b, "max_pool_grad", attr, in[0], d_out[0], out[1]);
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_pool *a = c->attr;
    const int64_t *x = c->in[0].shape.dim, *y = c->out[0].shape.dim;
    int32_t       *index = c->out[1].data;

    for (int64_t plane = 0, at = 0; plane < y[0] * y[1]; plane++)
        for (int64_t p = 0; p < y[2]; p++)
            for (int64_t q = 0; q < y[3]; q++, at++) {
                struct pool_range rows = pool_window(a, 0, p, x[2]), columns = pool_window(a, 1, q, x[3]);
                int64_t           best = rows.begin * x[3] + columns.begin;
                double            max  = get(&c->in[0], plane * x[2] * x[3] + best, mode);

                for (int64_t h = rows.begin; h < rows.end; h++)
                    for (int64_t w = columns.begin; w < columns.end; w++) {
                        double v = get(&c->in[0], (plane * x[2] + h) * x[3] + w, mode);

                        /* The first NaN wins over everything. */
                        if (v > max || (isnan(v) && !isnan(max))) {
                            max  = v;
                            best = h * x[3] + w;
                        }
                    }
                put(&c->out[0], at, max, mode);
                index[at] = (int32_t)best;
            }
}
OP_REFERENCE_OF(reference, body, 1, 1)

const struct stance_op_ops stance_op_max_pool = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_pool),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};

static stance_status grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    stance_status status = stance_op_count("max_pool_grad", n_in, 2, 2, n_out, 1, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_same("max_pool_grad", "dy", &in[0], "index", &in[1], err);
    return status == STANCE_OK ? stance_pool_source("max_pool_grad", attr, &in[0], &out[0], err) : status;
}

OP_INLINE void grad_body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_pool *a = c->attr;
    const int64_t *x = c->out[0].shape.dim, *y = c->in[0].shape.dim;
    const int32_t *index = c->in[1].data;

    for (int64_t plane = 0; plane < x[0] * x[1]; plane++)
        for (int64_t h = 0; h < x[2]; h++)
            for (int64_t w = 0; w < x[3]; w++) {
                struct pool_range rows = pool_covering(a, 0, h, y[2]), columns = pool_covering(a, 1, w, y[3]);
                double            sum  = 0;

                for (int64_t p = rows.begin; p < rows.end; p++)
                    for (int64_t q = columns.begin; q < columns.end; q++) {
                        int64_t at = (plane * y[2] + p) * y[3] + q;

                        if (index[at] == h * x[3] + w)
                            sum += get(&c->in[0], at, mode);
                    }
                put(&c->out[0], (plane * x[2] + h) * x[3] + w, sum, mode);
            }
}
OP_REFERENCE_OF(grad_reference, grad_body, 1, 1)

const struct stance_op_ops stance_op_max_pool_grad = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_pool),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = grad_shape,
    .reference  = grad_reference,
};
