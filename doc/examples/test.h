/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test here begins with: the plugin, found by kind and name in the folder of the build. */
#ifndef TEST_H
#define TEST_H

#include <stance/registry.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

/** The plugin, and its settings filled with their defaults in *config (static; NULL: not wanted). */
static const struct stance_plugin *open_plugin(enum stance_kind kind, const char *name, void **config)
{
    static struct stance_registry *registry; /* lives as long as the test does */
    static double                  settings[512];
    const struct stance_plugin    *p   = NULL;
    struct stance_error            err = STANCE_ERROR_INIT;

    if (registry == NULL)
        ck_assert_msg(stance_registry_new(NULL, &registry, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_registry_find(registry, kind, name, &p, &err) == STANCE_OK, "%s", err.text);
    ck_assert_uint_le(p->config_size, sizeof settings);
    ck_assert_msg(stance_param_defaults(p->params, settings, &err) == STANCE_OK, "%s", err.text);
    if (config != NULL)
        *config = settings;
    return p;
}

/** Sets a parameter from text, as a recipe does. */
static inline void set(const struct stance_plugin *p, void *config, const char *name, const char *text)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_param_set(p->params, config, name, text, &err) == STANCE_OK, "%s", err.text);
}

/** Runs the tests and gives main()'s exit status. */
static inline int run_tests(TCase *tests)
{
    Suite   *suite = suite_create("plugin");
    SRunner *runner;
    int      failed;

    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
