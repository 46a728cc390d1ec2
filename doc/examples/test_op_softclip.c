/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>

enum { N = 41 };

static const double attr[1] = { 0.75 };

static struct stance_tensor tensor(void *data, enum stance_type type)
{
    struct stance_tensor t = { data, type, type, 0, { 1, { N } }, N * stance_type_size(type) };

    return t;
}

static void run(stance_kernel_fn *kernel, struct stance_tensor *in, int n_in, struct stance_tensor *out)
{
    struct stance_call call = { .size = sizeof call, .attr = attr, .in = in, .out = out, .n_in = n_in, .n_out = 1 };

    ck_assert_int_eq(kernel(&call), STANCE_OK);
}

/* Central differences in binary64 with a step of 1e-6: the rule's error is of the order 1e-12, that of the
 * subtraction 1e-10. */
START_TEST(gradient_is_the_difference)
{
    const struct stance_op_ops *ops = open_plugin(STANCE_KIND_OP, "softclip", NULL)->ops.op;
    double                      x[N], dy[N], dx[N], up[N], down[N];
    struct stance_tensor        in[2] = { tensor(dy, STANCE_TYPE_F64), tensor(x, STANCE_TYPE_F64) };
    struct stance_tensor        out   = tensor(dx, STANCE_TYPE_F64), above = tensor(up, STANCE_TYPE_F64);
    struct stance_tensor        below = tensor(down, STANCE_TYPE_F64);

    for (int i = 0; i < N; i++) {
        x[i]  = 0.25 * (i - N / 2) + 0.0625; /* not 0, where |x| has no derivative */
        dy[i] = 1 + i;
    }
    run(ops->backward->reference, in, 2, &out);
    for (int i = 0; i < N; i++)
        x[i] += 1e-6;
    run(ops->reference, &in[1], 1, &above);
    for (int i = 0; i < N; i++)
        x[i] -= 2e-6;
    run(ops->reference, &in[1], 1, &below);
    for (int i = 0; i < N; i++)
        ck_assert_double_eq_tol(dx[i], dy[i] * (up[i] - down[i]) / 2e-6, 1e-8 * dy[i]);
}
END_TEST

/* The kernel for "cpu" over bfloat16 gives the reference's values, rounded once: to 8 bits. */
START_TEST(kernel_agrees_with_the_reference)
{
    const struct stance_op_ops *ops = open_plugin(STANCE_KIND_OP, "softclip", NULL)->ops.op;
    float                       x[N], y[N];
    uint16_t                    low_x[N], low_y[N];
    struct stance_tensor        in = tensor(x, STANCE_TYPE_F32), out = tensor(y, STANCE_TYPE_F32);
    struct stance_tensor        low_in = tensor(low_x, STANCE_TYPE_BF16), low_out = tensor(low_y, STANCE_TYPE_BF16);

    ck_assert_int_eq(ops->n_kernels, 1);
    ck_assert_str_eq(ops->kernels[0].device, "cpu");
    for (int i = 0; i < N; i++) {
        uint32_t bits;

        x[i] = 0.25F * (float)(i - N / 2); /* exact in bfloat16 */
        memcpy(&bits, &x[i], sizeof bits);
        low_x[i] = (uint16_t)(bits >> 16);
    }
    run(ops->reference, &in, 1, &out);
    run(ops->kernels[0].run, &low_in, 1, &low_out);
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)low_y[i] << 16;
        float    got;

        memcpy(&got, &bits, sizeof got);
        ck_assert_float_le(fabsf(got - y[i]), fabsf(y[i]) * 0x1p-8F);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("op");

    tcase_add_test(tests, gradient_is_the_difference);
    tcase_add_test(tests, kernel_agrees_with_the_reference);
    return run_tests(tests);
}
