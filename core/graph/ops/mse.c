/* SPDX-License-Identifier: Apache-2.0
 *
 * mse, the weighted mean squared error of maps, and its gradient:
 *
 *     L = sum over b, k and pixels of weight[b,k] (prediction - target)^2, over the number of elements
 *
 * MMPose's JointsMSELoss (0.29.0): the weight enters once, points of weight 0 count in the divisor. */
#include "graph/ops/op.h"

/* Checks prediction and target at in[at], and the weight that may follow. */
static stance_status operands(const char *op, const struct stance_shape *in, int at, int n_in,
                              struct stance_error *err)
{
    const struct stance_shape *p = &in[at], *w = n_in > at + 2 ? &in[at + 2] : NULL;
    stance_status              status = stance_op_same(op, "prediction", p, "target", &in[at + 1], err);
    bool                       fits;

    if (status != STANCE_OK || w == NULL || w->rank < 0)
        return status;
    fits = w->rank >= 2 && w->rank <= STANCE_RANK_MAX && p->rank >= 2;
    for (int i = 0; fits && i < w->rank; i++)
        fits = w->dim[i] == (i < 2 ? p->dim[i] : 1);
    if (!fits)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                           "%s: weight is %s, but prediction %s wants one value for each of its first two dimensions",
                           op, OP_TEXT(w), OP_TEXT(p));
    return STANCE_OK;
}

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("mse", n_in, 2, 3, n_out, 1, err);

    (void)attr;
    if (status == STANCE_OK)
        status = operands("mse", in, 0, n_in, err);
    if (status != STANCE_OK)
        return status;
    out[0]      = (struct stance_shape){ 0 };
    out_type[0] = STANCE_TYPE_F32;
    return STANCE_OK;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    const struct stance_scale minus   = { -1 };
    struct stance_value       from[4] = { d_out[0], in[0], in[1] }, d;

    (void)attr, (void)out, (void)n_out;
    if (d_out[0].id == 0)
        return;
    if (n_in == 3) {
        from[3] = in[2];
        if (op_wants(b, in[2])) {
            stance_refuse(b, STANCE_ERR_UNSUPPORTED, "mse: no gradient flows to the weight");
            return;
        }
    }
    if (!op_wants(b, in[0]) && !op_wants(b, in[1]))
        return;
    d = stance_node1(b, "mse_grad", NULL, 0, from, n_in + 1);
    if (op_wants(b, in[0]))
        d_in[0] = d;
    if (op_wants(b, in[1]))
        d_in[1] = stance_node1(b, "scale", &minus, sizeof minus, &d, 1);
}

/* Elements of the prediction to one weight. */
static int64_t map_size(const struct stance_shape *p)
{
    int64_t n = 1;

    for (int i = 2; i < p->rank; i++)
        n *= p->dim[i];
    return n;
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const int64_t n = stance_elements(&c->in[0].shape), map = map_size(&c->in[0].shape);
    const bool    weighted = c->n_in == 3 && c->in[2].shape.rank >= 0;
    double        sum      = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = get(&c->in[0], i, mode) - get(&c->in[1], i, mode);

        sum += (weighted ? get(&c->in[2], i / map, mode) : 1) * d * d;
    }
    put(&c->out[0], 0, sum / (double)n, mode);
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_mse = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_WIDE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};

static stance_status grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    stance_status status = stance_op_count("mse_grad", n_in, 3, 4, n_out, 1, err);

    (void)attr, (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_operand("mse_grad", "d_loss", &in[0], 0, err);
    if (status == STANCE_OK)
        status = operands("mse_grad", in, 1, n_in, err);
    if (status == STANCE_OK)
        out[0] = in[1];
    return status;
}

OP_INLINE void grad_body(const struct stance_call *c, enum op_mode mode)
{
    const int64_t n = stance_elements(&c->in[1].shape), map = map_size(&c->in[1].shape);
    const bool    weighted = c->n_in == 4 && c->in[3].shape.rank >= 0;
    const double  factor   = 2 * get(&c->in[0], 0, mode) / (double)n;

    for (int64_t i = 0; i < n; i++)
        put(&c->out[0], i,
            factor * (weighted ? get(&c->in[3], i / map, mode) : 1)
                * (get(&c->in[1], i, mode) - get(&c->in[2], i, mode)), mode);
}
OP_REFERENCE(grad_reference, grad_body)

const struct stance_op_ops stance_op_mse_grad = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_WIDE,
    .shape      = grad_shape,
    .reference  = grad_reference,
};
