/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

enum { N = 4 };

static struct stance_tensor tensor(void *data, enum stance_type type, size_t n)
{
    struct stance_tensor t = { data, type, type, 0, { 1, { (int64_t)n } }, n * stance_type_size(type) };

    return t;
}

START_TEST(follows_the_sign)
{
    void                              *config;
    const struct stance_plugin        *p   = open_plugin(STANCE_KIND_OPTIMIZER, "signum", &config);
    const struct stance_optimizer_ops *ops = p->ops.optimizer;
    float                gradient[N] = { 2, -3, 0, 1 }, master[N] = { 1, 1, 1, 1 }, average[N] = { 0 };
    struct stance_update u     = { .size = sizeof u, .rate = 0.125, .factor = 1 };
    struct stance_tensor in[4] = { tensor(gradient, STANCE_TYPE_F32, N), tensor(&u, STANCE_TYPE_U8, sizeof u),
                                   tensor(master, STANCE_TYPE_F32, N), tensor(average, STANCE_TYPE_F32, N) };
    struct stance_call   call  = { .size = sizeof call, .attr = config, .in = in, .out = in + 2, .n_in = 4, .n_out = 2 };
    const float          want[N] = { 0.875F, 1.125F, 1, 0.875F };

    ck_assert_int_eq(ops->update->reference(&call), STANCE_OK);
    ck_assert_mem_eq(master, want, sizeof want);
    u.skip = 1;
    ck_assert_int_eq(ops->update->reference(&call), STANCE_OK);
    ck_assert_mem_eq(master, want, sizeof want);
    ck_assert(ops->base_rate(config) > 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("optimizer");

    tcase_add_test(tests, follows_the_sign);
    return run_tests(tests);
}
