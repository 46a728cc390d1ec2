/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_transpose2d ("deconvolution") and its gradients. PyTorch's ConvTranspose2d without dilation: the
 * adjoint of a convolution whose x is our y, so that the plan has our x in the place of y. */
#include "graph/ops/conv.h"

#include <inttypes.h>

static int64_t groups_of(const struct stance_conv_transpose2d *a) { return a->groups == 0 ? 1 : a->groups; }

static stance_status attributes(const char *op, const struct stance_conv_transpose2d *a,
                                struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (int i = 0; i < 2 && status == STANCE_OK; i++) {
        status = stance_op_range(op, "stride", a->stride[i], 1, INT32_MAX, err);
        if (status == STANCE_OK)
            status = stance_op_range(op, "padding", a->pad[i], 0, INT32_MAX, err);
        /* A whole stride more would be another input row. */
        if (status == STANCE_OK)
            status = stance_op_range(op, "output padding", a->output_pad[i], 0, a->stride[i] - 1, err);
    }
    return status == STANCE_OK ? stance_op_range(op, "groups", a->groups, 0, INT32_MAX, err) : status;
}

/* Shape of y from x [N,C,h,w] and w [C,O/groups,kh,kw]. */
static stance_status result(const char *op, const struct stance_conv_transpose2d *a,
                            const struct stance_shape *x, const struct stance_shape *w,
                            struct stance_shape *y, struct stance_error *err)
{
    int64_t size[2], channels;

    if (__builtin_mul_overflow(w->dim[1], groups_of(a), &channels))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: weight %s in %d groups is too large", op, OP_TEXT(w),
                           a->groups);
    if (w->dim[0] != x->dim[1])
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: weight %s wants %" PRId64 " channels, x is %s", op,
                           OP_TEXT(w), w->dim[0], OP_TEXT(x));
    if (w->dim[0] % groups_of(a) != 0)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: the channels of x %s do not divide into %" PRId64 " groups",
                           op, OP_TEXT(x), groups_of(a));
    for (int i = 0; i < 2; i++) {
        if (__builtin_mul_overflow(x->dim[2 + i] - 1, (int64_t)a->stride[i], &size[i])
            || __builtin_add_overflow(size[i], w->dim[2 + i] + a->output_pad[i], &size[i]))
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: the result of x %s with stride %d,%d is too large", op,
                               OP_TEXT(x), a->stride[0], a->stride[1]);
        size[i] -= 2 * (int64_t)a->pad[i];
        if (size[i] < 1)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: padding %d,%d leaves nothing of x %s and weight %s", op,
                               a->pad[0], a->pad[1], OP_TEXT(x), OP_TEXT(w));
    }
    *y = stance_shape4(x->dim[0], channels, size[0], size[1]);
    return stance_op_result(op, y, err);
}

/* Rows that y [.,.,H,W] came from. */
static int64_t source(const struct stance_conv_transpose2d *a, int64_t size, int64_t kernel, int i)
{
    return conv_positions(size, kernel, a->stride[i], a->pad[i], 1);
}

static struct conv_plan plan(const struct stance_conv_transpose2d *a, const struct stance_tensor *x,
                             const struct stance_tensor *w, const struct stance_tensor *y)
{
    const int64_t *xd = x->shape.dim, *wd = w->shape.dim, *yd = y->shape.dim;

    return (struct conv_plan){ yd[0], yd[1], yd[2], yd[3], xd[1], xd[2], xd[3], wd[2], wd[3],
                               { a->stride[0], a->stride[1] }, { a->pad[0], a->pad[1] }, { 1, 1 },
                               groups_of(a) };
}

/* ---- forward ----------------------------------------------------------------------------------- */

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const char                           *op     = "conv_transpose2d";
    const struct stance_conv_transpose2d *a      = attr;
    stance_status                         status = stance_op_count(op, n_in, 2, 3, n_out, 1, err);
    struct stance_shape                   y      = { 0 };

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes(op, a, err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "x", &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "weight", &in[1], err);
    if (status == STANCE_OK)
        status = result(op, a, &in[0], &in[1], &y, err);
    if (status == STANCE_OK && n_in == 3 && in[2].rank >= 0)
        status = stance_op_vector(op, "bias", &in[2], y.dim[1], err);
    if (status != STANCE_OK)
        return status;
    if ((a->kernel[0] != 0 || a->kernel[1] != 0)
        && (a->kernel[0] != in[1].dim[2] || a->kernel[1] != in[1].dim[3]))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: weight is %s, the attribute says a %dx%d kernel", op,
                           OP_TEXT(&in[1]), a->kernel[0], a->kernel[1]);
    out[0] = y;
    return STANCE_OK;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_conv_transpose2d a = *(const struct stance_conv_transpose2d *)attr;
    struct stance_shape            w = stance_shape_of(b, in[1]);

    (void)out, (void)n_out;
    if (d_out[0].id == 0 || stance_failed(b))
        return;
    a.kernel[0] = (int32_t)w.dim[2];
    a.kernel[1] = (int32_t)w.dim[3];
    if (op_wants(b, in[0])) {
        struct stance_value from[2] = { d_out[0], in[1] };

        d_in[0] = stance_node1(b, "conv_transpose2d_grad_data", &a, sizeof a, from, 2);
    }
    if (op_wants(b, in[1])) {
        struct stance_value from[2] = { d_out[0], in[0] };

        d_in[1] = stance_node1(b, "conv_transpose2d_grad_weight", &a, sizeof a, from, 2);
    }
    if (n_in == 3 && op_wants(b, in[2]))
        d_in[2] = stance_conv_bias_gradient(b, d_out[0]);
}

static stance_status reference(const struct stance_call *c)
{
    struct conv_plan            g    = plan(c->attr, &c->in[0], &c->in[1], &c->out[0]);
    const struct stance_tensor *bias = c->n_in == 3 && c->in[2].shape.rank >= 0 ? &c->in[2] : NULL;

    stance_conv_adjoint_data(&g, &c->in[0], &c->in[1], bias, &c->out[0], stance_op_mode(c, c->n_in, 1));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_conv_transpose2d = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_conv_transpose2d),
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
    const char                           *op     = "conv_transpose2d_grad_data";
    const struct stance_conv_transpose2d *a      = attr;
    stance_status                         status = stance_op_count(op, n_in, 2, 2, n_out, 1, err);
    struct stance_shape                   x, y;

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes(op, a, err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "dy", &in[0], err);
    if (status == STANCE_OK)
        status = stance_op_image(op, "weight", &in[1], err);
    if (status != STANCE_OK)
        return status;
    x = stance_shape4(in[0].dim[0], in[1].dim[0], source(a, in[0].dim[2], in[1].dim[2], 0),
                      source(a, in[0].dim[3], in[1].dim[3], 1));
    status = stance_op_operand(op, "dx", &x, 4, err);
    if (status == STANCE_OK)
        status = result(op, a, &x, &in[1], &y, err);
    if (status == STANCE_OK && !stance_shape_equal(&y, &in[0]))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: dy is %s, but weight %s gives %s", op,
                             OP_TEXT(&in[0]), OP_TEXT(&in[1]), OP_TEXT(&y));
    if (status == STANCE_OK)
        out[0] = x;
    return status;
}

static stance_status data_reference(const struct stance_call *c)
{
    struct conv_plan g = plan(c->attr, &c->out[0], &c->in[1], &c->in[0]);

    stance_conv_sum(&g, &c->in[0], &c->in[1], NULL, &c->out[0], stance_op_mode(c, 2, 1));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_conv_transpose2d_grad_data = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_conv_transpose2d),
    .type_class = STANCE_CLASS_LOW,
    .shape      = data_shape,
    .reference  = data_reference,
};

/* ---- gradient towards the weight --------------------------------------------------------------- */

static stance_status weight_shape(const void *attr, const struct stance_shape *in, int n_in,
                                  struct stance_shape *out, enum stance_type *out_type, int n_out,
                                  struct stance_error *err)
{
    const char                           *op     = "conv_transpose2d_grad_weight";
    const struct stance_conv_transpose2d *a      = attr;
    stance_status                         status = stance_op_count(op, n_in, 2, 2, n_out, 1, err);
    struct stance_shape                   w, y;

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
    if (in[0].dim[1] % groups_of(a) != 0)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: the channels of dy %s do not divide into %d groups", op,
                           OP_TEXT(&in[0]), a->groups);
    w      = stance_shape4(in[1].dim[1], in[0].dim[1] / groups_of(a), a->kernel[0], a->kernel[1]);
    status = stance_op_result(op, &w, err);
    if (status == STANCE_OK)
        status = result(op, a, &in[1], &w, &y, err);
    if (status == STANCE_OK && !stance_shape_equal(&y, &in[0]))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: dy is %s, but x %s and a %dx%d kernel give %s", op,
                             OP_TEXT(&in[0]), OP_TEXT(&in[1]), a->kernel[0], a->kernel[1], OP_TEXT(&y));
    if (status == STANCE_OK)
        out[0] = w;
    return status;
}

static stance_status weight_reference(const struct stance_call *c)
{
    struct conv_plan g = plan(c->attr, &c->in[1], &c->out[0], &c->in[0]);

    stance_conv_adjoint_weight(&g, &c->in[1], &c->in[0], &c->out[0], stance_op_mode(c, 2, 1));
    return STANCE_OK;
}

const struct stance_op_ops stance_op_conv_transpose2d_grad_weight = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_conv_transpose2d),
    .type_class = STANCE_CLASS_LOW,
    .shape      = weight_shape,
    .reference  = weight_reference,
};
