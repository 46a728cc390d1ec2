/* SPDX-License-Identifier: Apache-2.0
 *
 * Every gradient op against central differences of its forward op, in binary64. */
#include "ops.h"
#include "runner.h"

#include <math.h>

#define CONV(s0, s1, p0, p1, d0, d1, g, kh, kw, h, w) \
    &(const struct stance_conv2d){ { s0, s1 }, { p0, p1 }, { d0, d1 }, g, { kh, kw }, { h, w } }
#define DECONV(s0, s1, p0, p1, o0, o1, g, kh, kw) \
    &(const struct stance_conv_transpose2d){ { s0, s1 }, { p0, p1 }, { o0, o1 }, g, { kh, kw } }
#define POOL(kh, kw, s0, s1, p0, p1, h, w) \
    &(const struct stance_pool){ { kh, kw }, { s0, s1 }, { p0, p1 }, { h, w } }
#define NORM    &(const struct stance_batch_norm){ 1e-3, 0.1 }
#define UP(a, b, bilinear) &(const struct stance_upsample){ { a, b }, bilinear }
#define S(...)  { .rank = (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { __VA_ARGS__ } }

/* With L = sum of dy times result 0, result `result` of `grad` is dL by operand `wrt`. Operands of `grad`:
 * d is dy, 0..4 an operand of the forward op, a..e a result of it. */
static const struct pair {
    const char         *op;
    const void         *attr;
    int                 n_in, n_out;
    struct stance_shape in[5];
    const char         *grad, *from;
    int                 n_results, result, wrt;
} pairs[] = {
#define CONV_PAIRS(attr, x, w)                                                             \
    { "conv2d", attr, 2, 1, { x, w }, "conv2d_grad_data", "d1", 1, 0, 0 },                 \
    { "conv2d", attr, 2, 1, { x, w }, "conv2d_grad_weight", "d0", 1, 0, 1 }
#define X4(...) S(__VA_ARGS__)
    CONV_PAIRS(CONV(1, 1, 1, 1, 0, 0, 0, 3, 3, 5, 4), X4(2, 3, 5, 4), X4(4, 3, 3, 3)),
    CONV_PAIRS(CONV(2, 2, 1, 1, 1, 1, 1, 3, 3, 6, 7), X4(1, 2, 6, 7), X4(3, 2, 3, 3)),
    CONV_PAIRS(CONV(3, 2, 0, 2, 2, 3, 1, 2, 3, 9, 8), X4(1, 2, 9, 8), X4(2, 2, 2, 3)),
    CONV_PAIRS(CONV(3, 3, 0, 0, 1, 1, 1, 1, 1, 5, 4), X4(2, 2, 5, 4), X4(3, 2, 1, 1)),  /* stride > kernel */
    CONV_PAIRS(CONV(1, 1, 1, 1, 1, 1, 4, 3, 3, 4, 4), X4(1, 4, 4, 4), X4(4, 1, 3, 3)),  /* groups = C */
    CONV_PAIRS(CONV(2, 1, 1, 0, 1, 2, 2, 3, 2, 5, 6), X4(2, 4, 5, 6), X4(6, 2, 3, 2)),
    CONV_PAIRS(CONV(1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1), X4(2, 3, 1, 1), X4(2, 3, 1, 1)),
    CONV_PAIRS(CONV(1, 1, 2, 2, 1, 1, 1, 3, 3, 1, 70), X4(1, 1, 1, 70), X4(1, 1, 3, 3)), /* two tiles */
    CONV_PAIRS(CONV(2, 3, 4, 1, 1, 1, 1, 3, 3, 3, 140), X4(1, 1, 3, 140), X4(2, 1, 3, 3)),
#define DECONV_PAIRS(attr, x, w)                                                           \
    { "conv_transpose2d", attr, 2, 1, { x, w }, "conv_transpose2d_grad_data", "d1", 1, 0, 0 }, \
    { "conv_transpose2d", attr, 2, 1, { x, w }, "conv_transpose2d_grad_weight", "d0", 1, 0, 1 }
    DECONV_PAIRS(DECONV(2, 2, 1, 1, 0, 0, 0, 4, 4), X4(2, 3, 3, 4), X4(3, 2, 4, 4)),
    DECONV_PAIRS(DECONV(2, 2, 1, 1, 1, 1, 1, 3, 3), X4(1, 2, 3, 3), X4(2, 4, 3, 3)),
    DECONV_PAIRS(DECONV(3, 2, 0, 1, 2, 0, 2, 2, 3), X4(1, 4, 2, 3), X4(4, 2, 2, 3)),
    DECONV_PAIRS(DECONV(1, 1, 0, 0, 0, 0, 3, 1, 1), X4(1, 3, 1, 1), X4(3, 1, 1, 1)),
#define NORM_PAIRS(x, c)                                                                    \
    { "batch_norm", NORM, 5, 5, { x, c, c, c, c }, "batch_norm_grad", "d01de", 3, 0, 0 },   \
    { "batch_norm", NORM, 5, 5, { x, c, c, c, c }, "batch_norm_grad", "d01de", 3, 1, 1 },   \
    { "batch_norm", NORM, 5, 5, { x, c, c, c, c }, "batch_norm_grad", "d01de", 3, 2, 2 },   \
    { "batch_norm_inference", NORM, 5, 1, { x, c, c, c, c }, "batch_norm_inference_grad", "d0134", 3, 0, 0 }, \
    { "batch_norm_inference", NORM, 5, 1, { x, c, c, c, c }, "batch_norm_inference_grad", "d0134", 3, 1, 1 }, \
    { "batch_norm_inference", NORM, 5, 1, { x, c, c, c, c }, "batch_norm_inference_grad", "d0134", 3, 2, 2 }
    NORM_PAIRS(X4(3, 2, 2, 3), S(2)),
    NORM_PAIRS(X4(4, 3), S(3)),
    NORM_PAIRS(X4(1, 2, 1, 2), S(2)),
    { "relu", NULL, 1, 1, { X4(2, 3, 2, 2) }, "relu_grad", "da", 1, 0, 0 },
    { "upsample", UP(2, 3, 0), 1, 1, { X4(2, 2, 3, 2) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(1, 1, 0), 1, 1, { X4(1, 1, 1, 1) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(2, 3, 1), 1, 1, { X4(2, 2, 3, 2) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(4, 1, 1), 1, 1, { X4(1, 1, 1, 3) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(5, 2, 1), 1, 1, { X4(1, 1, 4, 1) }, "upsample_grad", "d", 1, 0, 0 },
#define POOL_PAIRS(attr, x)                                                              \
    { "max_pool", attr, 1, 2, { x }, "max_pool_grad", "db", 1, 0, 0 },                   \
    { "avg_pool", attr, 1, 1, { x }, "avg_pool_grad", "d", 1, 0, 0 }
    POOL_PAIRS(POOL(3, 3, 2, 2, 1, 1, 7, 6), X4(2, 2, 7, 6)),
    POOL_PAIRS(POOL(2, 2, 2, 2, 0, 0, 4, 5), X4(1, 2, 4, 5)),
    POOL_PAIRS(POOL(3, 2, 1, 3, 1, 0, 5, 8), X4(1, 1, 5, 8)),
    POOL_PAIRS(POOL(1, 1, 3, 2, 0, 0, 5, 4), X4(1, 1, 5, 4)),
    { "mse", NULL, 2, 1, { X4(2, 3, 2, 2), X4(2, 3, 2, 2) }, "mse_grad", "d01", 1, 0, 0 },
    { "mse", NULL, 3, 1, { X4(2, 3, 2, 2), X4(2, 3, 2, 2), S(2, 3, 1) }, "mse_grad", "d012", 1, 0, 0 },
};

static struct stance_tensor copy_of(const struct stance_tensor *t)
{
    struct stance_tensor c = ops_tensor(t->type, t->shape);

    memcpy(c.data, t->data, t->bytes);
    return c;
}

static double loss_of(const struct pair *p, const struct stance_tensor *in, const struct stance_tensor *dy,
                      struct ops *keep)
{
    struct ops f   = { .op = p->op, .attr = p->attr, .wide = STANCE_TYPE_F64 };
    double     sum = 0;

    for (f.n_in = 0; f.n_in < p->n_in; f.n_in++)
        f.in[f.n_in] = copy_of(&in[f.n_in]);
    ops_run(&f, p->n_out);
    for (int64_t i = 0; dy != NULL && i < stance_elements(&f.out[0].shape); i++)
        sum += ((const double *)dy->data)[i] * ((const double *)f.out[0].data)[i];
    if (keep != NULL)
        *keep = f;
    else
        ops_free(&f);
    return sum;
}

START_TEST(kernel_equals_central_difference)
{
    const struct pair   *p = &pairs[_i];
    struct ops           f, g = { .op = p->grad, .attr = p->attr, .wide = STANCE_TYPE_F64 };
    struct stance_tensor in[5], dy;
    /* Truncation h^2 and cancellation 1e-16 L / h are both near 1e-10 for operands of size 1. */
    const double h = 1e-5;

    for (int i = 0; i < p->n_in; i++) {
        in[i] = ops_tensor(STANCE_TYPE_F64, p->in[i]);
        ops_random(&in[i], (uint64_t)(_i * 10 + i));
    }
    if (strncmp(p->op, "batch_norm", 10) == 0)
        for (int64_t i = 0; i < stance_elements(&in[4].shape); i++) /* a variance */
            ((double *)in[4].data)[i] = fabs(((double *)in[4].data)[i]);
    loss_of(p, in, NULL, &f);
    dy = ops_tensor(STANCE_TYPE_F64, f.out[0].shape);
    ops_random(&dy, (uint64_t)_i + 1000);
    for (const char *c = p->from; *c != '\0'; c++)
        g.in[g.n_in++] = copy_of(*c == 'd' && c == p->from ? &dy : *c >= 'a' ? &f.out[*c - 'a'] : &in[*c - '0']);
    ops_run(&g, p->n_results);
    ck_assert(stance_shape_equal(&g.out[p->result].shape, &in[p->wrt].shape));
    for (int64_t i = 0; i < stance_elements(&in[p->wrt].shape); i++) {
        double *x = (double *)in[p->wrt].data + i, was = *x, difference, exact;

        *x         = was + h;
        difference = loss_of(p, in, &dy, NULL);
        *x         = was - h;
        difference = (difference - loss_of(p, in, &dy, NULL)) / (2 * h);
        *x         = was;
        exact      = ((const double *)g.out[p->result].data)[i];
        ck_assert_msg(fabs(difference - exact) <= 1e-7 * (1 + fabs(exact)),
                      "%s, operand %d, element %d: %.12g, by differences %.12g", p->grad, p->wrt, (int)i, exact,
                      difference);
    }
    for (int i = 0; i < p->n_in; i++)
        stance_free(in[i].data);
    stance_free(dy.data);
    ops_free(&f);
    ops_free(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradients");
    TCase *tc    = tcase_create("kernels");

    tcase_add_loop_test(tc, kernel_equals_central_difference, 0, sizeof pairs / sizeof *pairs);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
