/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

/* What it builds is tested by training; what it says of itself is tested here. */
START_TEST(takes_its_settings)
{
    void                       *config;
    const struct stance_plugin *p = open_plugin(STANCE_KIND_LOSS, "absmaps", &config);

    set(p, config, "weight", "0.5");
    ck_assert_int_eq(stance_param_set(p->params, config, "weight", "-1", NULL), STANCE_ERR_RANGE);
    ck_assert_int_eq(stance_param_set(p->params, config, "weight", "heavy", NULL), STANCE_ERR_INVAL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("loss");

    tcase_add_test(tests, takes_its_settings);
    return run_tests(tests);
}
