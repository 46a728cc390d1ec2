/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that the manual is made from: complete, and words that a reader can use. */
#include "config.h"

#include "runner.h"

#include "base/environment.h"
#include "config/recipe_keys.h"

static const struct stance_recipe_key *key_of(const char *path)
{
    for (const struct stance_recipe_key *k = stance_recipe_keys; k->path != NULL; k++)
        if (strcmp(k->path, path) == 0)
            return k;
    return NULL;
}

static bool is_section(const char *path)
{
    const struct stance_param *table;
    const char                *section;

    for (size_t i = 0; (section = stance_recipe_section(i, &table)) != NULL; i++)
        if (strcmp(section, path) == 0)
            return true;
    return false;
}

/* What a section takes beside its table is a section of its own or a key with a description. */
START_TEST(every_key_is_described)
{
    const struct stance_param *table;
    const char                *section;
    int                        n = 0;

    for (size_t i = 0; (section = stance_recipe_section(i, &table)) != NULL; i++)
        for (const char *const *name = stance_recipe_section_extra(i); name != NULL && *name != NULL; name++) {
            char path[128];

            snprintf(path, sizeof path, "%s%s%s", section, *section != '\0' ? "." : "", *name);
            ck_assert_msg(is_section(path) || key_of(path) != NULL, "%s: core/config/recipe_keys.c lacks it", path);
            n++;
        }
    ck_assert_int_ge(n, 15);
}
END_TEST

/* No key stands in two tables. */
START_TEST(keys_are_choices)
{
    const struct stance_param *table;
    const char                *section;

    for (size_t i = 0; (section = stance_recipe_section(i, &table)) != NULL; i++)
        for (const struct stance_param *p = table; p != NULL && p->name != NULL; p++) {
            char path[128];

            snprintf(path, sizeof path, "%s%s%s", section, *section != '\0' ? "." : "", p->name);
            ck_assert_msg(key_of(path) == NULL, "%s", path);
            ck_assert_msg(strlen(p->doc) >= 5, "%s has no description", path);
        }
    for (const struct stance_recipe_key *k = stance_recipe_keys; k->path != NULL; k++) {
        ck_assert_msg(*k->doc != '\0' && *k->dflt != '\0', "%s", k->path);
        ck_assert_ptr_eq(key_of(k->path), k);
    }
}
END_TEST

START_TEST(variables_are_described)
{
    for (int i = 0; i < STANCE_ENV_COUNT; i++) {
        const struct stance_env_variable *v = stance_env_variable((enum stance_env)i);

        ck_assert_uint_eq(strspn(v->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(v->name));
        ck_assert_msg(strlen(v->doc) > 5 && v->dflt != NULL, "%s", v->name);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(v->name, stance_env_variable((enum stance_env)j)->name);
        unsetenv(v->name);
        ck_assert_ptr_null(stance_env((enum stance_env)i));
        setenv(v->name, "x", 1);
        ck_assert_str_eq(stance_env((enum stance_env)i), "x");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("manual");
    TCase *tc    = tcase_create("all");

    tcase_add_test(tc, every_key_is_described);
    tcase_add_test(tc, keys_are_choices);
    tcase_add_test(tc, variables_are_described);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
