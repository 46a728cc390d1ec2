/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "open_plugin.h"
#include "runner.h"

#include "config/tree.h"
#include "train/schedule.h"

#include <jansson.h>
#include <math.h>

static const struct stance_plugin *plugin(const char *name)
{
    const struct stance_plugin *p = open_plugin("schedule", name);

    ck_assert_msg(p != NULL, "no schedule_%s.so on STANCE_PLUGIN_PATH", name);
    return p;
}

/* A config block of the plugin with its defaults. */
static void *config_of(const struct stance_plugin *p)
{
    struct stance_error err    = STANCE_ERROR_INIT;
    void               *config = stance_calloc(1, p->config_size);

    ck_assert_ptr_nonnull(config);
    ck_assert_msg(stance_param_defaults(p->params, config, &err) == STANCE_OK, "%s", err.text);
    return config;
}

static void set(const struct stance_plugin *p, void *config, const char *name, const char *text)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_param_set(p->params, config, name, text, &err) == STANCE_OK, "%s",
                  err.text);
}

static const char *name_of_hook(const char *hook)
{
    return strcmp(hook, "StepLrUpdaterHook") == 0   ? "step"
           : strcmp(hook, "PolyLrUpdaterHook") == 0 ? "poly"
                                                    : "cosine";
}

static void set_option(const struct stance_plugin *p, void *config, const char *key, json_t *v)
{
    char *text = json_is_string(v) ? strdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY);

    if (strcmp(key, "step") == 0)
        key = json_is_array(v) ? "steps" : "every";
    set(p, config, key, text);
    free(text);
}

static void walk(json_t *setting)
{
    const struct stance_plugin *p = plugin(
        name_of_hook(json_string_value(json_object_get(setting, "hook"))));
    void                  *config = config_of(p);
    json_t                *lr     = json_object_get(setting, "lr"), *v;
    struct stance_progress at     = { .size = sizeof at };
    const char            *key;
    size_t                 i;

    json_object_foreach(json_object_get(setting, "options"), key, v) set_option(p, config, key, v);
    at.base_rate            = json_number_value(json_object_get(setting, "base_lr"));
    at.epochs               = json_integer_value(json_object_get(setting, "epochs"));
    at.iterations_per_epoch = json_integer_value(json_object_get(setting, "iters_per_epoch"));
    json_array_foreach(lr, i, v)
    {
        double want = json_number_value(v), have;

        at.iteration = (int64_t)i;
        at.epoch     = (int64_t)i / at.iterations_per_epoch;
        have         = p->ops.schedule->rate(config, &at);
        /* Both sides are a handful of binary64 operations: some 10 units in the last place, 2e-15;
         * the subtraction 1 - (1 - f)(1 - ratio) near f = 0 loses a factor of up to 1/ratio = 1000.
         */
        ck_assert_msg(fabs(have - want) <= 1e-12 * want, "%s, iteration %zu: %.17g, wanted %.17g",
                      p->name, i, have, want);
    }
    ck_assert_uint_eq(json_array_size(lr), (size_t)(at.epochs * at.iterations_per_epoch));
    stance_free(config);
}

START_TEST(golden_rates)
{
    const char  *path = shared_file("golden/schedule/lr.json");
    json_error_t e;
    json_t      *all, *setting;
    size_t       i;

    if (path == NULL) {
        SKIP("golden/schedule is not here");
        return;
    }
    all = json_load_file(path, 0, &e);
    ck_assert_msg(all != NULL, "%s", e.text);
    ck_assert_uint_eq(json_array_size(all), 7);
    json_array_foreach(all, i, setting) walk(setting);
    json_decref(all);
}
END_TEST

/* MMPose 0.29's recipe, 293 iterations an epoch: measured there. */
static const struct {
    int64_t iteration;
    double  lr;
} published[] = {
    { 0, 5.0e-7 },       { 1, 1.499e-6 },         { 49, 4.9451e-5 },   { 499, 4.99001e-4 },
    { 500, 5e-4 },       { 293 * 170 - 1, 5e-4 }, { 293 * 170, 5e-5 }, { 293 * 200 - 1, 5e-5 },
    { 293 * 200, 5e-6 }, { 61529, 5e-6 },
};

START_TEST(published_recipe)
{
    const struct stance_plugin *p      = plugin("step");
    void                       *config = config_of(p);
    struct stance_progress      at     = {
                 .size = sizeof at, .base_rate = 5e-4, .iterations_per_epoch = 293, .epochs = 210
    };

    set(p, config, "warmup", "linear");
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        at.iteration = published[i].iteration;
        at.epoch     = at.iteration / 293;
        ck_assert_double_eq_tol(p->ops.schedule->rate(config, &at) / published[i].lr, 1, 1e-12);
    }
    stance_free(config);
}
END_TEST

static double number(const struct stance_config_node *n, const char *dotted)
{
    double v = NAN;

    n = stance_config_get(n, dotted);
    ck_assert(n != NULL && stance_text_f64(n->text, &v));
    return v;
}

START_TEST(shared_cases)
{
    static const char *const cases[] = { "resume-continues-the-curve", "warmup-longer-than-the-run",
                                         "warmup-then-steps" };
    const struct stance_plugin      *p      = plugin("step");
    void                            *config = config_of(p);
    struct stance_progress           at     = { .size = sizeof at, .epochs = 210 };
    struct stance_error              err    = STANCE_ERROR_INIT;
    struct stance_config            *c;
    const struct stance_config_node *in, *out, *steps;
    char                             name[100], word[300], text[200];

    snprintf(name, sizeof name, "cases/schedule/%s/case.yaml", cases[_i]);
    if (shared_file(name) == NULL) {
        SKIP("the shared cases are not here");
        stance_free(config);
        return;
    }
    ck_assert_msg(stance_config_load(shared_file(name), NULL, &c, &err) == STANCE_OK, "%s",
                  err.text);
    in    = stance_config_find(c->root, "input");
    out   = stance_config_find(c->root, "expect");
    steps = stance_config_find(in, "at_step");
    set(p, config, "warmup", "linear");
    set(p, config, "warmup_iters", stance_config_find(in, "warmup_steps")->text);
    set(p, config, "warmup_ratio", stance_config_find(in, "warmup_factor")->text);
    set(p, config, "gamma", stance_config_find(in, "gamma")->text);
    snprintf(text, sizeof text, "%s,%s", stance_config_get(in, "milestones_epoch.0")->text,
             stance_config_get(in, "milestones_epoch.1")->text);
    set(p, config, "steps", text);
    at.base_rate            = number(in, "base_lr");
    at.iterations_per_epoch = (int64_t)number(in, "steps_per_epoch");
    if (stance_config_find(in, "epochs") != NULL)
        at.epochs = (int64_t)number(in, "epochs");
    for (size_t i = 0; i < steps->count; i++) {
        char   which[32];
        double want;

        snprintf(which, sizeof which, "lr.%zu", i);
        want         = number(out, which);
        at.iteration = (int64_t)strtoll(steps->child[i]->text, NULL, 10);
        at.epoch     = at.iteration / at.iterations_per_epoch;
        ck_assert_double_eq_tol(p->ops.schedule->rate(config, &at) / want, 1,
                                number(out, "tolerance_relative"));
    }
    ck_assert_int_eq(
        stance_schedule_warning(p, config, at.epochs * at.iterations_per_epoch, word, sizeof word),
        strcmp(stance_config_find(out, "status")->text, "warn") == 0);
    if (strcmp(stance_config_find(out, "status")->text, "warn") == 0)
        ck_assert_msg(strstr(word, "warmup") && strstr(word, "500") && strstr(word, "40"), "%s",
                      word);
    stance_config_free(c);
    stance_free(config);
}
END_TEST

START_TEST(schedules_stay_within_bounds)
{
    static const char *const names[] = { "step", "cosine", "poly" };
    struct stance_progress   at      = {
               .size = sizeof at, .base_rate = 1, .iterations_per_epoch = 7, .epochs = 3
    };

    for (int i = 0; i < 3; i++) {
        const struct stance_plugin *p      = plugin(names[i]);
        void                       *config = config_of(p);

        /* Past the end (a longer run by --max-steps), and a run without a length. */
        for (at.iteration = 0; at.iteration < 100; at.iteration++) {
            at.epoch  = at.iteration / 7;
            at.epochs = at.iteration < 60 ? 3 : 0;
            for (int by = 0; by < 2; by++) {
                double r;

                set(p, config, "by_epoch", by ? "true" : "false");
                r = p->ops.schedule->rate(config, &at);
                ck_assert_msg(r >= 0 && r <= 1, "%s: %g", names[i], r);
            }
        }
        stance_free(config);
    }
    ck_assert_double_eq(stance_warmup(STANCE_WARMUP_LINEAR, 2, 5, 5, 0.1), 2);
    ck_assert_double_eq(stance_warmup(STANCE_WARMUP_NONE, 2, 0, 5, 0.1), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_test(tc, golden_rates);
    tcase_add_test(tc, published_recipe);
    tcase_add_loop_test(tc, shared_cases, 0, 3);
    tcase_add_test(tc, schedules_stay_within_bounds);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
