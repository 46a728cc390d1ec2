/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

START_TEST(doubles_and_halves)
{
    void                           *config;
    const struct stance_plugin     *p   = open_plugin(STANCE_KIND_SCALER, "patient", &config);
    const struct stance_scaler_ops *ops = p->ops.scaler;
    struct stance_outcome           o   = { .size = sizeof o };
    double                          state[64];

    ck_assert_uint_le(ops->state_size, sizeof state);
    ck_assert_int_eq(stance_param_defaults(ops->state, state, NULL), STANCE_OK);
    set(p, config, "patience", "2");
    ck_assert_float_eq(ops->scale(state, config), 1024);
    for (int i = 0; i < 2; i++)
        ops->update(state, config, &o);
    ck_assert_float_eq(ops->scale(state, config), 2048);
    o.overflow = 1;
    ops->update(state, config, &o);
    ck_assert_float_eq(ops->scale(state, config), 1024);
}
END_TEST

START_TEST(stays_a_positive_number)
{
    void                           *config;
    const struct stance_scaler_ops *ops = open_plugin(STANCE_KIND_SCALER, "patient", &config)->ops.scaler;
    double                          state[64];

    for (int overflow = 0; overflow < 2; overflow++) {
        struct stance_outcome o = { .size = sizeof o, .overflow = overflow };

        ck_assert_int_eq(stance_param_defaults(ops->state, state, NULL), STANCE_OK);
        for (int i = 0; i < 10000; i++) {
            ops->update(state, config, &o);
            ck_assert(ops->scale(state, config) >= 1 && ops->scale(state, config) <= 16777216);
        }
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("scaler");

    tcase_add_test(tests, doubles_and_halves);
    tcase_add_test(tests, stays_a_positive_number);
    return run_tests(tests);
}
