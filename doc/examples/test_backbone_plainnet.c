/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

/* What it builds is tested by training; what it says of itself is tested here. */
START_TEST(takes_its_settings)
{
    void                       *config;
    const struct stance_plugin *p = open_plugin(STANCE_KIND_BACKBONE, "plainnet", &config);

    set(p, config, "width", "64");
    set(p, config, "depth", "3");
    ck_assert_int_eq(stance_param_set(p->params, config, "width", "0", NULL), STANCE_ERR_RANGE);
    ck_assert_int_eq(stance_param_set(p->params, config, "depth", "6", NULL), STANCE_ERR_RANGE);
    ck_assert_int_eq(stance_param_set(p->params, config, "length", "6", NULL), STANCE_ERR_INVAL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("backbone");

    tcase_add_test(tests, takes_its_settings);
    return run_tests(tests);
}
