/* SPDX-License-Identifier: Apache-2.0
 *
 * upsample by whole factors, nearest or bilinear, and its gradient. Bilinear places pixel centres at
 * half-integers and repeats the border (PyTorch's align_corners=False). */
#include "graph/ops/op.h"

static stance_status attributes(const char *op, const struct stance_upsample *a, struct stance_error *err)
{
    stance_status status = stance_op_range(op, "vertical factor", a->factor[0], 1, 1024, err);

    if (status == STANCE_OK)
        status = stance_op_range(op, "horizontal factor", a->factor[1], 1, 1024, err);
    return status == STANCE_OK ? stance_op_range(op, "bilinear", a->bilinear, 0, 1, err) : status;
}

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_upsample *a      = attr;
    stance_status                 status = stance_op_count("upsample", n_in, 1, 1, n_out, 1, err);
    struct stance_shape           y;

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes("upsample", a, err);
    if (status == STANCE_OK)
        status = stance_op_image("upsample", "x", &in[0], err);
    if (status != STANCE_OK)
        return status;
    y = stance_shape4(in[0].dim[0], in[0].dim[1], in[0].dim[2] * a->factor[0], in[0].dim[3] * a->factor[1]);
    status = stance_op_result("upsample", &y, err);
    if (status == STANCE_OK)
        out[0] = y;
    return status;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "upsample_grad", attr, sizeof(struct stance_upsample), d_out, 1);
}

/* Where position v of the result looks in the source of `size`: rows lo and hi, and the weight of hi. */
struct taps { int64_t lo, hi; double part; };

static inline struct taps taps_of(int64_t v, int64_t size, int32_t factor, bool bilinear)
{
    double at = ((double)v + 0.5) / factor - 0.5;
    struct taps t;

    if (!bilinear)
        return (struct taps){ v / factor, v / factor, 0 };
    t.lo   = at < 0 ? 0 : (int64_t)at;
    t.hi   = t.lo + 1 < size ? t.lo + 1 : t.lo;
    t.part = at < 0 ? 0 : at - (double)t.lo;
    return t;
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_upsample *a = c->attr;
    const int64_t *x = c->in[0].shape.dim, *y = c->out[0].shape.dim;

    for (int64_t plane = 0; plane < y[0] * y[1]; plane++)
        for (int64_t h = 0; h < y[2]; h++)
            for (int64_t w = 0; w < y[3]; w++) {
                struct taps i = taps_of(h, x[2], a->factor[0], a->bilinear != 0);
                struct taps j = taps_of(w, x[3], a->factor[1], a->bilinear != 0);
                int64_t     lo = (plane * x[2] + i.lo) * x[3], hi = (plane * x[2] + i.hi) * x[3];
                double      v  = get(&c->in[0], lo + j.lo, mode);

                if (a->bilinear)
                    v = (1 - i.part) * ((1 - j.part) * v + j.part * get(&c->in[0], lo + j.hi, mode))
                        + i.part * ((1 - j.part) * get(&c->in[0], hi + j.lo, mode)
                                    + j.part * get(&c->in[0], hi + j.hi, mode));
                put(&c->out[0], (plane * y[2] + h) * y[3] + w, v, mode);
            }
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_upsample = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_upsample),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};

static stance_status grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    const struct stance_upsample *a      = attr;
    stance_status                 status = stance_op_count("upsample_grad", n_in, 1, 1, n_out, 1, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = attributes("upsample_grad", a, err);
    if (status == STANCE_OK)
        status = stance_op_image("upsample_grad", "dy", &in[0], err);
    if (status != STANCE_OK)
        return status;
    if (in[0].dim[2] % a->factor[0] != 0 || in[0].dim[3] % a->factor[1] != 0)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "upsample_grad: dy %s is no multiple of the factors %d,%d",
                           OP_TEXT(&in[0]), a->factor[0], a->factor[1]);
    out[0] = stance_shape4(in[0].dim[0], in[0].dim[1], in[0].dim[2] / a->factor[0], in[0].dim[3] / a->factor[1]);
    return STANCE_OK;
}

/* Weight of source row i in position v of the result. */
static inline double share(int64_t i, int64_t v, int64_t size, int32_t factor, bool bilinear)
{
    struct taps t = taps_of(v, size, factor, bilinear);

    return (t.lo == i ? 1 - t.part : 0) + (t.hi == i ? t.part : 0);
}

OP_INLINE void grad_body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_upsample *a = c->attr;
    const int64_t *x = c->out[0].shape.dim, *y = c->in[0].shape.dim;
    const bool     bilinear = a->bilinear != 0;

    for (int64_t plane = 0; plane < x[0] * x[1]; plane++)
        for (int64_t h = 0; h < x[2]; h++)
            for (int64_t w = 0; w < x[3]; w++) {
                /* Bilinear weights reach one source pixel further to both sides. */
                int64_t i0 = (h - bilinear) * a->factor[0], i1 = (h + 1 + bilinear) * a->factor[0];
                int64_t j0 = (w - bilinear) * a->factor[1], j1 = (w + 1 + bilinear) * a->factor[1];
                double  sum = 0;

                for (int64_t i = i0 < 0 ? 0 : i0; i < i1 && i < y[2]; i++) {
                    double of_row = share(h, i, x[2], a->factor[0], bilinear);

                    for (int64_t j = j0 < 0 ? 0 : j0; j < j1 && j < y[3]; j++)
                        sum += of_row * share(w, j, x[3], a->factor[1], bilinear)
                               * get(&c->in[0], (plane * y[2] + i) * y[3] + j, mode);
                }
                put(&c->out[0], (plane * x[2] + h) * x[3] + w, sum, mode);
            }
}
OP_REFERENCE(grad_reference, grad_body)

const struct stance_op_ops stance_op_upsample_grad = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_upsample),
    .type_class = STANCE_CLASS_FOLLOW,
    .shape      = grad_shape,
    .reference  = grad_reference,
};
