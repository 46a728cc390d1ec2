/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

START_TEST(goes_up_and_down)
{
    void                             *config;
    const struct stance_plugin       *p   = open_plugin(STANCE_KIND_SCHEDULE, "triangle", &config);
    const struct stance_schedule_ops *ops = p->ops.schedule;
    struct stance_progress            at  = { .size = sizeof at, .base_rate = 0.5, .epochs = 1,
                                              .iterations_per_epoch = 100 };

    set(p, config, "period", "10");
    set(p, config, "low", "0.2");
    for (at.iteration = 0; at.iteration < 100; at.iteration++) {
        double rate = ops->rate(config, &at);

        ck_assert(rate >= 0.1 - 1e-12 && rate <= 0.5 + 1e-12);
        if (at.iteration % 10 == 0)
            ck_assert_double_eq_tol(rate, 0.1, 1e-12);
        if (at.iteration % 10 == 5)
            ck_assert_double_eq_tol(rate, 0.5, 1e-12);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("schedule");

    tcase_add_test(tests, goes_up_and_down);
    return run_tests(tests);
}
