/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation over dimension 1, by batch statistics (batch_norm) or by running ones
 * (batch_norm_inference), with both gradients.
 * Source: Ioffe, Szegedy, "Batch Normalization", ICML 2015; running statistics as PyTorch keeps them,
 * except that non-finite batch statistics are not folded: one overflow would stay in them for ever. */
#include "graph/ops/op.h"

#include <math.h>

/* x as [outer, channels, inner]. */
struct view { int64_t outer, channels, inner; };

static struct view view_of(const struct stance_shape *x)
{
    struct view v = { x->dim[0], x->dim[1], 1 };

    for (int i = 2; i < x->rank; i++)
        v.inner *= x->dim[i];
    return v;
}

/* Checks x at in[at] and the per-channel operands after it. */
static stance_status operands(const char *op, const struct stance_batch_norm *a,
                              const struct stance_shape *in, int at, const char *const *names, int n,
                              struct stance_error *err)
{
    stance_status status = stance_op_operand(op, "x", &in[at], -1, err);

    if (!(a->eps > 0 && a->eps <= 1)) /* also refuses NaN */
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: eps %g is outside (0, 1]", op, a->eps);
    if (!(a->momentum >= 0 && a->momentum <= 1))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: momentum %g is outside [0, 1]", op, a->momentum);
    if (status == STANCE_OK && in[at].rank < 2)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: x is %s, it must have 2 dimensions or more", op,
                           OP_TEXT(&in[at]));
    for (int i = 0; i < n && status == STANCE_OK; i++)
        status = stance_op_vector(op, names[i], &in[at + 1 + i], in[at].dim[1], err);
    return status;
}

static const char *const parameters[] = { "weight", "bias", "running_mean", "running_var" };

/* ---- training ---------------------------------------------------------------------------------- */

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("batch_norm", n_in, 5, 5, n_out, 5, err);

    if (status == STANCE_OK)
        status = operands("batch_norm", attr, in, 0, parameters, 4, err);
    if (status != STANCE_OK)
        return status;
    out[0] = in[0];
    for (int i = 1; i < 5; i++) {
        out[i]      = in[1];
        out_type[i] = STANCE_TYPE_F32;
    }
    return STANCE_OK;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_value from[5] = { d_out[0], in[0], in[1], out[3], out[4] }, d[3];

    (void)n_in;
    for (int i = 1; i < n_out; i++)
        if (d_out[i].id != 0) {
            stance_refuse(b, STANCE_ERR_UNSUPPORTED, "batch_norm: no gradient flows through its statistics");
            return;
        }
    if (d_out[0].id == 0 || (!op_wants(b, in[0]) && !op_wants(b, in[1]) && !op_wants(b, in[2])))
        return;
    stance_node(b, "batch_norm_grad", attr, sizeof(struct stance_batch_norm), from, 5, d, 3);
    for (int i = 0; i < 3; i++)
        if (op_wants(b, in[i]))
            d_in[i] = d[i];
}

/* Whether the tensor can hold v as a finite number. */
static bool holds(const struct stance_tensor *t, double v)
{
    return isfinite(t->stored == STANCE_TYPE_F64 ? v : (double)(float)v);
}

/* Sums over all processes: channels of one kind, channels of another, the number of elements. */
static size_t sync_workspace(const struct stance_call *c, int x)
{
    const struct stance_batch_norm *a = c->attr;

    return a->sync != NULL ? (size_t)(2 * c->in[x].shape.dim[1] + 1) * sizeof(double) : 0;
}

static size_t workspace(const struct stance_call *c)
{
    return sync_workspace(c, 0);
}

/* Mean of a channel here and the sum of squares about it. */
OP_INLINE void moments(const struct stance_tensor *x, const struct view *v, int64_t k, double *mean, double *squares,
                       enum op_mode mode)
{
    double sum = 0, q = 0, m;

    for (int64_t o = 0; o < v->outer; o++)
        for (int64_t i = 0; i < v->inner; i++)
            sum += get(x, (o * v->channels + k) * v->inner + i, mode);
    m = sum / (double)(v->outer * v->inner);
    for (int64_t o = 0; o < v->outer; o++)
        for (int64_t i = 0; i < v->inner; i++) {
            double d = get(x, (o * v->channels + k) * v->inner + i, mode) - m;

            q += d * d;
        }
    *mean    = m;
    *squares = q;
}

OP_INLINE stance_status body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_batch_norm *a = c->attr;
    const struct stance_tensor     *x = &c->in[0], *y = &c->out[0];
    const struct view               v = view_of(&x->shape);
    double                         *shared = c->workspace, n = (double)(v.outer * v.inner);

    if (a->sync != NULL) {
        stance_status status;

        for (int64_t k = 0; k < v.channels; k++) {
            moments(x, &v, k, &shared[k], &shared[v.channels + k], mode);
            shared[v.channels + k] += n * shared[k] * shared[k];
            shared[k] *= n;
        }
        shared[2 * v.channels] = n;
        status = a->sync->sum(a->sync, shared, (size_t)(2 * v.channels + 1));
        if (status != STANCE_OK)
            return status;
        n = shared[2 * v.channels];
    }
    for (int64_t k = 0; k < v.channels; k++) {
        double squares, mean, inv_std, unbiased;

        if (a->sync == NULL) {
            moments(x, &v, k, &mean, &squares, mode);
        } else {
            mean    = shared[k] / n;
            squares = shared[v.channels + k] - n * mean * mean;
            if (squares < 0)
                squares = 0;
        }
        inv_std = 1 / sqrt(squares / n + a->eps);
        for (int64_t o = 0; o < v.outer; o++)
            for (int64_t i = 0; i < v.inner; i++) {
                int64_t at = (o * v.channels + k) * v.inner + i;

                put(y, at, (get(x, at, mode) - mean) * inv_std * get(&c->in[1], k, mode) + get(&c->in[2], k, mode), mode);
            }
        put(&c->out[3], k, mean, mode);
        put(&c->out[4], k, inv_std, mode);

        /* A single value has no unbiased variance; it is taken as 0, like the biased one. */
        unbiased = n > 1 ? squares / (n - 1) : 0;
        if (!holds(&c->out[1], mean) || !holds(&c->out[2], unbiased)) {
            put(&c->out[1], k, get(&c->in[3], k, mode), mode);
            put(&c->out[2], k, get(&c->in[4], k, mode), mode);
        } else {
            put(&c->out[1], k, (1 - a->momentum) * get(&c->in[3], k, mode) + a->momentum * mean, mode);
            put(&c->out[2], k, (1 - a->momentum) * get(&c->in[4], k, mode) + a->momentum * unbiased, mode);
        }
    }
    return STANCE_OK;
}
OP_REFERENCE_STATUS(reference, body)

const struct stance_op_ops stance_op_batch_norm = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_batch_norm),
    .type_class = STANCE_CLASS_WIDE,
    .flags      = STANCE_OP_STATE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
    .workspace  = workspace,
};

/* ---- its gradient ------------------------------------------------------------------------------ */

static stance_status grads(const char *op, const struct stance_batch_norm *a, const struct stance_shape *in,
                           const char *const *names, int n, struct stance_shape *out,
                           enum stance_type *out_type, struct stance_error *err)
{
    stance_status status = operands(op, a, in, 1, names, n, err);

    if (status == STANCE_OK)
        status = stance_op_same(op, "dy", &in[0], "x", &in[1], err);
    if (status != STANCE_OK)
        return status;
    out[0] = in[1];
    out[1] = out[2] = in[2];
    out_type[1] = out_type[2] = STANCE_TYPE_F32;
    return STANCE_OK;
}

static stance_status grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                struct stance_shape *out, enum stance_type *out_type, int n_out,
                                struct stance_error *err)
{
    static const char *const names[] = { "weight", "mean", "inv_std" };
    stance_status status = stance_op_count("batch_norm_grad", n_in, 5, 5, n_out, 3, err);

    return status == STANCE_OK ? grads("batch_norm_grad", attr, in, names, 3, out, out_type, err) : status;
}

static size_t grad_workspace(const struct stance_call *c)
{
    return sync_workspace(c, 1);
}

OP_INLINE void grad_sums(const struct stance_call *c, const struct view *v, int64_t k, double *dbias, double *dweight,
                         enum op_mode mode)
{
    const struct stance_tensor *dy = &c->in[0], *x = &c->in[1];
    const double                mean = get(&c->in[3], k, mode), inv_std = get(&c->in[4], k, mode);
    double                      b = 0, w = 0;

    for (int64_t o = 0; o < v->outer; o++)
        for (int64_t i = 0; i < v->inner; i++) {
            int64_t at = (o * v->channels + k) * v->inner + i;

            b += get(dy, at, mode);
            w += get(dy, at, mode) * (get(x, at, mode) - mean) * inv_std;
        }
    *dbias   = b;
    *dweight = w;
}

OP_INLINE stance_status grad_body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_batch_norm *a  = c->attr;
    const struct stance_tensor     *dy = &c->in[0], *x = &c->in[1];
    const struct view               v  = view_of(&x->shape);
    double                         *shared = c->workspace, n = (double)(v.outer * v.inner);

    if (a->sync != NULL) {
        stance_status status;

        for (int64_t k = 0; k < v.channels; k++) {
            grad_sums(c, &v, k, &shared[k], &shared[v.channels + k], mode);
            put(&c->out[1], k, shared[v.channels + k], mode);
            put(&c->out[2], k, shared[k], mode);
        }
        shared[2 * v.channels] = n;
        status = a->sync->sum(a->sync, shared, (size_t)(2 * v.channels + 1));
        if (status != STANCE_OK)
            return status;
        n = shared[2 * v.channels];
    }
    for (int64_t k = 0; k < v.channels; k++) {
        const double weight = get(&c->in[2], k, mode), mean = get(&c->in[3], k, mode);
        const double inv_std = get(&c->in[4], k, mode);
        double       dbias, dweight;

        if (a->sync == NULL) {
            grad_sums(c, &v, k, &dbias, &dweight, mode);
        } else {
            dbias   = shared[k];
            dweight = shared[v.channels + k];
        }
        for (int64_t o = 0; o < v.outer; o++)
            for (int64_t i = 0; i < v.inner; i++) {
                int64_t at  = (o * v.channels + k) * v.inner + i;
                double  hat = (get(x, at, mode) - mean) * inv_std;

                put(&c->out[0], at, weight * inv_std * (get(dy, at, mode) - dbias / n - hat * dweight / n), mode);
            }
        if (a->sync == NULL) {
            put(&c->out[1], k, dweight, mode);
            put(&c->out[2], k, dbias, mode);
        }
    }
    return STANCE_OK;
}
OP_REFERENCE_STATUS(grad_reference, grad_body)

const struct stance_op_ops stance_op_batch_norm_grad = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_batch_norm),
    .type_class = STANCE_CLASS_WIDE,
    .shape      = grad_shape,
    .reference  = grad_reference,
    .workspace  = grad_workspace,
};

/* ---- by running statistics --------------------------------------------------------------------- */

static stance_status inference_shape(const void *attr, const struct stance_shape *in, int n_in,
                                     struct stance_shape *out, enum stance_type *out_type, int n_out,
                                     struct stance_error *err)
{
    stance_status status = stance_op_count("batch_norm_inference", n_in, 5, 5, n_out, 1, err);

    (void)out_type;
    if (status == STANCE_OK)
        status = operands("batch_norm_inference", attr, in, 0, parameters, 4, err);
    if (status == STANCE_OK)
        out[0] = in[0];
    return status;
}

static void inference_gradient(struct stance_builder *b, const void *attr, const struct stance_value *in,
                               int n_in, const struct stance_value *out, const struct stance_value *d_out,
                               int n_out, struct stance_value *d_in)
{
    struct stance_value from[5] = { d_out[0], in[0], in[1], in[3], in[4] }, d[3];

    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id == 0 || (!op_wants(b, in[0]) && !op_wants(b, in[1]) && !op_wants(b, in[2])))
        return;
    stance_node(b, "batch_norm_inference_grad", attr, sizeof(struct stance_batch_norm), from, 5, d, 3);
    for (int i = 0; i < 3; i++)
        if (op_wants(b, in[i]))
            d_in[i] = d[i];
}

OP_INLINE void inference_body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_batch_norm *a = c->attr;
    const struct view               v = view_of(&c->in[0].shape);

    for (int64_t o = 0; o < v.outer; o++)
        for (int64_t k = 0; k < v.channels; k++) {
            const double weight = get(&c->in[1], k, mode), bias = get(&c->in[2], k, mode);
            const double mean = get(&c->in[3], k, mode), inv_std = 1 / sqrt(get(&c->in[4], k, mode) + a->eps);

            for (int64_t i = 0; i < v.inner; i++) {
                int64_t at = (o * v.channels + k) * v.inner + i;

                put(&c->out[0], at, (get(&c->in[0], at, mode) - mean) * inv_std * weight + bias, mode);
            }
        }
}
OP_REFERENCE(inference_reference, inference_body)

const struct stance_op_ops stance_op_batch_norm_inference = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_batch_norm),
    .type_class = STANCE_CLASS_WIDE,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = inference_shape,
    .gradient   = inference_gradient,
    .reference  = inference_reference,
};

static stance_status inference_grad_shape(const void *attr, const struct stance_shape *in, int n_in,
                                          struct stance_shape *out, enum stance_type *out_type, int n_out,
                                          struct stance_error *err)
{
    static const char *const names[] = { "weight", "running_mean", "running_var" };
    const char   *op     = "batch_norm_inference_grad";
    stance_status status = stance_op_count(op, n_in, 5, 5, n_out, 3, err);

    return status == STANCE_OK ? grads(op, attr, in, names, 3, out, out_type, err) : status;
}

OP_INLINE void inference_grad_body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_batch_norm *a = c->attr;
    const struct view               v = view_of(&c->in[1].shape);

    for (int64_t k = 0; k < v.channels; k++) {
        const double weight = get(&c->in[2], k, mode), mean = get(&c->in[3], k, mode);
        const double inv_std = 1 / sqrt(get(&c->in[4], k, mode) + a->eps);
        double       dbias = 0, dweight = 0;

        for (int64_t o = 0; o < v.outer; o++)
            for (int64_t i = 0; i < v.inner; i++) {
                int64_t at = (o * v.channels + k) * v.inner + i;
                double  dy = get(&c->in[0], at, mode);

                dbias += dy;
                dweight += dy * (get(&c->in[1], at, mode) - mean) * inv_std;
                put(&c->out[0], at, dy * weight * inv_std, mode);
            }
        put(&c->out[1], k, dweight, mode);
        put(&c->out[2], k, dbias, mode);
    }
}
OP_REFERENCE(inference_grad_reference, inference_grad_body)

const struct stance_op_ops stance_op_batch_norm_inference_grad = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_batch_norm),
    .type_class = STANCE_CLASS_WIDE,
    .shape      = inference_grad_shape,
    .reference  = inference_grad_reference,
};
