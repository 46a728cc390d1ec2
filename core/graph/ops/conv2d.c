/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d and its gradients. PyTorch's Conv2d: a cross-correlation with zero padding. */
#include "graph/ops/conv.h"

#include <inttypes.h>

static int64_t or_one(int32_t v) { return v == 0 ? 1 : v; }

static stance_status attributes(const char *op, const struct stance_conv2d *a, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (int i = 0; i < 2 && status == STANCE_OK; i++) {
        status = stance_op_range(op, "stride", a->stride[i], 1, INT32_MAX, err);
        if (status == STANCE_OK)
            status = stance_op_range(op, "padding", a->pad[i], 0, INT32_MAX, err);
        if (status == STANCE_OK)
            status = stance_op_range(op, "dilation", a->dilation[i], 0, INT32_MAX, err);
    }
    return status == STANCE_OK ? stance_op_range(op, "groups", a->groups, 0, INT32_MAX, err) : status;
}

/* Everything that has to agree between x, w [O,C/groups,kh,kw] and y (absent where it is not known yet). */
static stance_status agree(const char *op, const struct stance_conv2d *a, const struct stance_shape *x,
                           const struct stance_shape *w, const struct stance_shape *y,
                           struct stance_error *err)
{
    const int64_t groups = or_one(a->groups);

    if (x->dim[1] % groups != 0 || x->dim[1] / groups != w->dim[1]) {
        if (groups == 1)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: weight %s wants %" PRId64 " channels, x is %s",
                               op, OP_TEXT(w), w->dim[1], OP_TEXT(x));
        return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                           "%s: weight %s wants %" PRId64 " channels in each of %" PRId64 " groups, x is %s",
                           op, OP_TEXT(w), w->dim[1], groups, OP_TEXT(x));
    }
    if (w->dim[0] % groups != 0)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                           "%s: the %" PRId64 " filters of weight %s do not divide into %" PRId64 " groups",
                           op, w->dim[0], OP_TEXT(w), groups);
    for (int i = 0; i < 2; i++) {
        int64_t n = conv_positions(x->dim[2 + i], w->dim[2 + i], a->stride[i], a->pad[i], or_one(a->dilation[i]));

        if (n < 1)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                               "%s: weight %s with dilation %d,%d does not fit into x %s with padding %d,%d",
                               op, OP_TEXT(w), (int)or_one(a->dilation[0]), (int)or_one(a->dilation[1]),
                               OP_TEXT(x), a->pad[0], a->pad[1]);
        if (y != NULL && n != y->dim[2 + i])
            return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                               "%s: dy is %s, but x %s and weight %s give %" PRId64 " positions in dimension %d",
                               op, OP_TEXT(y), OP_TEXT(x), OP_TEXT(w), n, 2 + i);
    }
    if (y != NULL && (y->dim[0] != x->dim[0] || y->dim[1] != w->dim[0]))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: dy is %s, but x is %s and weight %s", op, OP_TEXT(y),
                           OP_TEXT(x), OP_TEXT(w));
    return STANCE_OK;
}

static struct conv_plan plan(const struct stance_conv2d *a, const struct stance_tensor *x,
                             const struct stance_tensor *w, const struct stance_tensor *y)
{
    const int64_t *xd = x->shape.dim, *wd = w->shape.dim, *yd = y->shape.dim;

    return (struct conv_plan){ xd[0], xd[1], xd[2], xd[3], yd[1], yd[2], yd[3], wd[2], wd[3],
                               { a->stride[0], a->stride[1] }, { a->pad[0], a->pad[1] },
                               { or_one(a->dilation[0]), or_one(a->dilation[1]) }, or_one(a->groups) };
}

/* ---- forward ----------------------------------------------------------------------------------- */

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_conv2d *a      = attr;
    stance_status               status = stance_op_count("conv2d", n_in, 2, 3, n_out, 1, err);
    struct stance_shape         y;

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes("conv2d", a, err);
    if (status == STANCE_OK)
        status = stance_op_image("conv2d", "x", &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_image("conv2d", "weight", &in[1], err);
    if (status == STANCE_OK)
        status = agree("conv2d", a, &in[0], &in[1], NULL, err);
    if (status == STANCE_OK && n_in == 3 && in[2].rank >= 0)
        status = stance_op_vector("conv2d", "bias", &in[2], in[1].dim[0], err);
    if (status != STANCE_OK)
        return status;
    /* The kernel's size is also an attribute, for the gradients: 0, or the weight's. */
    if ((a->kernel[0] != 0 || a->kernel[1] != 0)
        && (a->kernel[0] != in[1].dim[2] || a->kernel[1] != in[1].dim[3]))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "conv2d: weight is %s, the attribute says a %dx%d kernel",
                           OP_TEXT(&in[1]), a->kernel[0], a->kernel[1]);
    y = stance_shape4(in[0].dim[0], in[1].dim[0],
                      conv_positions(in[0].dim[2], in[1].dim[2], a->stride[0], a->pad[0], or_one(a->dilation[0])),
                      conv_positions(in[0].dim[3], in[1].dim[3], a->stride[1], a->pad[1], or_one(a->dilation[1])));
    status = stance_op_result("conv2d", &y, err);
    if (status == STANCE_OK)
        out[0] = y;
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_conv2d a = *(const struct stance_conv2d *)attr;
    struct stance_shape  x = stance_shape_of(b, in[0]), w = stance_shape_of(b, in[1]);

    (void)out, (void)n_out;
    if (d_out[0].id == 0 || stance_failed(b))
        return;
    for (int i = 0; i < 2; i++) {
        a.size[i]   = (int32_t)x.dim[2 + i];
        a.kernel[i] = (int32_t)w.dim[2 + i];
    }
    if (op_wants(b, in[0])) {
        struct stance_value from[2] = { d_out[0], in[1] };

        d_in[0] = stance_node1(b, "conv2d_grad_data", &a, sizeof a, from, 2);
    }
    if (op_wants(b, in[1])) {
        struct stance_value from[2] = { d_out[0], in[0] };

        d_in[1] = stance_node1(b, "conv2d_grad_weight", &a, sizeof a, from, 2);
    }
    if (n_in == 3 && op_wants(b, in[2]))
        d_in[2] = stance_conv_bias_gradient(b, d_out[0]);
}

static stance_status reference(const struct stance_call *c)
{
    struct conv_plan            g    = plan(c->attr, &c->in[0], &c->in[1], &c->out[0]);
    const struct stance_tensor *bias = c->n_in == 3 && c->in[2].shape.rank >= 0 ? &c->in[2] : NULL;

    stance_conv_sum(&g, &c->in[0], &c->in[1], bias, &c->out[0], stance_op_mode(c, c->n_in, 1));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_conv2d = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_conv2d),
    .type_class = STANCE_CLASS_LOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};

/* ---- gradient towards x ------------------------------------------------------------------------ */

static stance_status data_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    const char                 *op     = "conv2d_grad_data";
    const struct stance_conv2d *a      = attr;
    stance_status               status = stance_op_count(op, n_in, 2, 2, n_out, 1, err);
    struct stance_shape         x;

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes(op, a, err);
    for (int i = 0; i < 2 && status == STANCE_OK; i++)
        status = stance_op_range(op, i == 0 ? "height of x" : "width of x", a->size[i], 1, INT32_MAX, err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "dy", &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "weight", &in[1], err);
    if (status != STANCE_OK)
        return status;
    x = stance_shape4(in[0].dim[0], 0, a->size[0], a->size[1]);
    if (__builtin_mul_overflow(in[1].dim[1], or_one(a->groups), &x.dim[1]))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: weight %s in %d groups is too large", op,
                           OP_TEXT(&in[1]), a->groups);
    status = agree(op, a, &x, &in[1], &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_result(op, &x, err);
    if (status == STANCE_OK)
        out[0] = x;
    return status;
}

static stance_status data_reference(const struct stance_call *c)
{
    struct conv_plan g = plan(c->attr, &c->out[0], &c->in[1], &c->in[0]);

    stance_conv_adjoint_data(&g, &c->in[0], &c->in[1], NULL, &c->out[0], stance_op_mode(c, 2, 1));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_conv2d_grad_data = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_conv2d),
    .type_class = STANCE_CLASS_LOW,
    .shape      = data_shape,
    .reference  = data_reference,
};

/* ---- gradient towards the weight --------------------------------------------------------------- */

static stance_status weight_shape(const void *attr, const struct stance_shape *in, int n_in,
                                  struct stance_shape *out, enum stance_type *out_type, int n_out,
                                  struct stance_error *err)
{
    const char                 *op     = "conv2d_grad_weight";
    const struct stance_conv2d *a      = attr;
    stance_status               status = stance_op_count(op, n_in, 2, 2, n_out, 1, err);
    struct stance_shape         w;

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes(op, a, err);
    for (int i = 0; i < 2 && status == STANCE_OK; i++)
        status = stance_op_range(op, i == 0 ? "height of the kernel" : "width of the kernel", a->kernel[i],
                                 1, INT32_MAX, err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "dy", &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "x", &in[1], err);
    if (status != STANCE_OK)
        return status;
    if (in[1].dim[1] % or_one(a->groups) != 0)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: the channels of x %s do not divide into %d groups",
                           op, OP_TEXT(&in[1]), a->groups);
    w = stance_shape4(in[0].dim[1], in[1].dim[1] / or_one(a->groups), a->kernel[0], a->kernel[1]);
    status = agree(op, a, &in[1], &w, &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_result(op, &w, err);
    if (status == STANCE_OK)
        out[0] = w;
    return status;
}

static stance_status weight_reference(const struct stance_call *c)
{
    struct conv_plan g = plan(c->attr, &c->in[1], &c->out[0], &c->in[0]);

    stance_conv_adjoint_weight(&g, &c->in[0], &c->in[1], &c->out[0], stance_op_mode(c, 2, 1));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_conv2d_grad_weight = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_conv2d),
    .type_class = STANCE_CLASS_LOW,
    .shape      = weight_shape,
    .reference  = weight_reference,
};
