/* SPDX-License-Identifier: Apache-2.0 */
/* y = x / (1 + s |x|), element by element: an op with a shape rule, a gradient rule, a reference, and a kernel
 * for the device "cpu" that also takes bfloat16 as it lies in memory.
 * dy/dx = 1 / (1 + s |x|)^2. */
#include <stance/plugin.h>

#include <math.h>
#include <string.h>

struct attr { double slope; };

static const struct stance_param attrs[] = {
    STANCE_PARAM_F64(struct attr, slope, "1", 0, 1e6, "1", "how soon it bends"),
    STANCE_PARAM_END
};

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in, struct stance_shape *out,
                           enum stance_type *out_type, int n_out, struct stance_error *err)
{
    (void)attr;
    (void)out_type; /* stays ANY: as the class says, that of the first operand */
    if (n_in != 1 || n_out != 1)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "softclip: %d operands and %d results, not 1 and 1", n_in, n_out);
    out[0] = in[0];
    return STANCE_OK;
}

static stance_status grad_shape(const void *attr, const struct stance_shape *in, int n_in, struct stance_shape *out,
                                enum stance_type *out_type, int n_out, struct stance_error *err)
{
    (void)attr;
    (void)out_type;
    if (n_in != 2 || n_out != 1)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "softclip_grad: %d operands and %d results, not 2 and 1", n_in, n_out);
    out[0] = in[1];
    return STANCE_OK;
}

/* Builds the node of the backward pass. It mentions x, which is kept for it; y is not. */
static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    struct stance_value pair[2] = { d_out[0], in[0] };

    (void)n_in;
    (void)out;
    (void)n_out;
    d_in[0] = stance_node1(b, "softclip_grad", attr, sizeof(struct attr), pair, 2);
}

/* An element of any type that a kernel below is given. */
static double get(const struct stance_tensor *t, int64_t i)
{
    uint32_t bits;
    float    v;

    if (t->stored == STANCE_TYPE_F64)
        return ((const double *)t->data)[i];
    if (t->stored == STANCE_TYPE_F32)
        return (double)((const float *)t->data)[i];
    bits = (uint32_t)((const uint16_t *)t->data)[i] << 16; /* bfloat16: the upper half of a binary32 */
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

static void put(const struct stance_tensor *t, int64_t i, double value)
{
    float    v = (float)value;
    uint32_t bits;

    if (t->stored == STANCE_TYPE_F64) {
        ((double *)t->data)[i] = value;
    } else if (t->stored == STANCE_TYPE_F32) {
        ((float *)t->data)[i] = v;
    } else {
        memcpy(&bits, &v, sizeof bits); /* to nearest, ties to even; a NaN stays one */
        bits = isnan(v) ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
        ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
    }
}

static stance_status run(const struct stance_call *call)
{
    double  s = ((const struct attr *)call->attr)->slope;
    int64_t n = stance_elements(&call->in[0].shape);

    for (int64_t i = 0; i < n; i++) {
        double x = get(&call->in[0], i);

        put(&call->out[0], i, x / (1 + s * fabs(x)));
    }
    return STANCE_OK;
}

static stance_status grad_run(const struct stance_call *call)
{
    double  s = ((const struct attr *)call->attr)->slope;
    int64_t n = stance_elements(&call->in[1].shape);

    for (int64_t i = 0; i < n; i++) {
        double d = 1 + s * fabs(get(&call->in[1], i));

        put(&call->out[0], i, get(&call->in[0], i) / (d * d));
    }
    return STANCE_OK;
}

/* A kernel for "cuda" would be one more line, its run() launching on call->queue. */
static const struct stance_kernel kernels[] = {
    { .device = "cpu", .run = run, .types = 1u << STANCE_TYPE_F32 | 1u << STANCE_TYPE_BF16 }
};
static const struct stance_kernel grad_kernels[] = {
    { .device = "cpu", .run = grad_run, .types = 1u << STANCE_TYPE_F32 | 1u << STANCE_TYPE_BF16 }
};

static const struct stance_op_ops grad_ops = {
    .size = sizeof grad_ops, .attr_size = sizeof(struct attr), .attrs = attrs, .type_class = STANCE_CLASS_FOLLOW,
    .shape = grad_shape, .reference = grad_run, .kernels = grad_kernels, .n_kernels = 1,
};

static const struct stance_op_ops ops = {
    .size = sizeof ops, .attr_size = sizeof(struct attr), .attrs = attrs, .type_class = STANCE_CLASS_FOLLOW,
    .shape = shape, .gradient = gradient, .reference = run, .kernels = kernels, .n_kernels = 1, .backward = &grad_ops,
};

STANCE_PLUGIN(op, softclip) = {
    STANCE_PLUGIN_HEAD,
    .kind    = STANCE_KIND_OP,
    .name    = "softclip",
    .version = "1.0",
    .license = "Apache-2.0",
    .source  = "an example",
    .summary = "x / (1 + slope |x|), element by element",
    .ops.op  = &ops,
};
