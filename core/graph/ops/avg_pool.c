/* SPDX-License-Identifier: Apache-2.0
 *
 * avg_pool and its gradient. Padding counts as zeros: the divisor is always the kernel's area. */
#include "graph/ops/pool.h"

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("avg_pool", n_in, 1, 1, n_out, 1, err);

    (void)out_type;
    return status == STANCE_OK ? stance_pool_result("avg_pool", attr, &in[0], &out[0], err) : status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)n_in, (void)out, (void)n_out;
    d_in[0] = stance_pool_gradient(b, "avg_pool_grad", attr, in[0], d_out[0], (struct stance_value){ 0 });
}

static double area(const struct stance_pool *a)
{
    return (double)a->kernel[0] * a->kernel[1];
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_pool *a = c->attr;
    const int64_t *x = c->in[0].shape.dim, *y = c->out[0].shape.dim;

    for (int64_t plane = 0, at = 0; plane < y[0] * y[1]; plane++)
        for (int64_t p = 0; p < y[2]; p++)
            for (int64_t q = 0; q < y[3]; q++, at++) {
                struct pool_range rows = pool_window(a, 0, p, x[2]), columns = pool_window(a, 1, q, x[3]);
                double            sum  = 0;

                for (int64_t h = rows.begin; h < rows.end; h++)
                    for (int64_t w = columns.begin; w < columns.end; w++)
                        sum += get(&c->in[0], (plane * x[2] + h) * x[3] + w, mode);
                put(&c->out[0], at, sum / area(a), mode);
            }
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_avg_pool = {
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
    stance_status status = stance_op_count("avg_pool_grad", n_in, 1, 1, n_out, 1, err);

    (void)out_type;
    return status == STANCE_OK ? stance_pool_source("avg_pool_grad", attr, &in[0], &out[0], err) : status;
}

OP_INLINE void grad_body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_pool *a = c->attr;
    const int64_t *x = c->out[0].shape.dim, *y = c->in[0].shape.dim;

    for (int64_t plane = 0; plane < x[0] * x[1]; plane++)
        for (int64_t h = 0; h < x[2]; h++)
            for (int64_t w = 0; w < x[3]; w++) {
                struct pool_range rows = pool_covering(a, 0, h, y[2]), columns = pool_covering(a, 1, w, y[3]);
                double            sum  = 0;

                for (int64_t p = rows.begin; p < rows.end; p++)
                    for (int64_t q = columns.begin; q < columns.end; q++)
                        sum += get(&c->in[0], (plane * y[2] + p) * y[3] + q, mode);
                put(&c->out[0], (plane * x[2] + h) * x[3] + w, sum / area(a), mode);
            }
}
OP_REFERENCE(grad_reference, grad_body)

const struct stance_op_ops stance_op_avg_pool_grad = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_pool),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = grad_shape,
    .reference  = grad_reference,
};
