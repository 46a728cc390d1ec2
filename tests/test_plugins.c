/* SPDX-License-Identifier: Apache-2.0
 *
 * What every plugin of the Makefile must keep to: a new one is tested here without another line. */
#include "config.h"

#include "fault.h"
#include "runner.h"

#include "base/random.h"
#include "registry/instance.h"
#include "registry/registry.h"
#include "step/scaler.h"

#include <math.h>

enum { MAX_PLUGINS = 256 };
static struct { enum stance_kind kind; char name[100]; } plugins[MAX_PLUGINS];
static int n_plugins;

/* "scalers/scaler_none.la scalers/..." of $STANCE_TEST_PLUGINS. */
static void read_plugins(void)
{
    const char *env = getenv("STANCE_TEST_PLUGINS");
    char       *text = strdup(env != NULL ? env : ""), *word, *rest;

    for (word = strtok_r(text, " \t\n", &rest); word != NULL;
         word = strtok_r(NULL, " \t\n", &rest)) {
        char *base = strrchr(word, '/') != NULL ? strrchr(word, '/') + 1 : word,
             *bar  = strchr(base, '_');

        base[strcspn(base, ".")] = '\0';
        if (bar == NULL || n_plugins == MAX_PLUGINS)
            continue;
        *bar = '\0';
        plugins[n_plugins].kind = stance_kind_of(base);
        snprintf(plugins[n_plugins].name, sizeof plugins->name, "%s", bar + 1);
        n_plugins++;
    }
    free(text);
}

static const struct stance_plugin *plugin(struct stance_registry **reg, int i)
{
    struct stance_error         err = STANCE_ERROR_INIT;
    const struct stance_plugin *p;

    ck_assert_msg(stance_registry_new(NULL, reg, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_registry_find(*reg, plugins[i].kind, plugins[i].name, &p, &err)
                      == STANCE_OK,
                  "%s", err.text);
    return p;
}

static bool is_sentence_part(const char *text)
{
    return text != NULL && strlen(text) >= 3 && strchr(text, '\n') == NULL && strlen(text) < 160;
}

static void check_table(const struct stance_param *table, const char *plugin_name)
{
    for (const struct stance_param *p = table; p != NULL && p->name != NULL; p++) {
        ck_assert_msg(p->name[strspn(p->name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0',
                      "%s: %s is not lower_snake", plugin_name, p->name);
        ck_assert_msg(is_sentence_part(p->doc), "%s: %s has no one-line doc", plugin_name, p->name);
        ck_assert_msg(p->min <= p->max, "%s: range of %s", plugin_name, p->name);
        if (p->type == STANCE_PARAM_TYPE_I64 || p->type == STANCE_PARAM_TYPE_F64)
            ck_assert_msg(p->unit[0] != '\0', "%s: %s has no unit", plugin_name, p->name);
        ck_assert_msg(stance_param_find(table, p->name) == p, "%s: %s is there twice", plugin_name,
                      p->name);
    }
}

START_TEST(describes_itself)
{
    struct stance_registry     *reg;
    const struct stance_plugin *p = plugin(&reg, _i);

    ck_assert_msg(is_sentence_part(p->summary) && p->summary[strlen(p->summary) - 1] != '.',
                  "summary of %s", p->name);
    ck_assert_msg(is_sentence_part(p->source), "source of %s", p->name);
    ck_assert_msg(is_sentence_part(p->license) && strchr(p->license, ' ') == NULL, "licence of %s",
                  p->name);
    ck_assert_msg(p->version[0] >= '0' && p->version[0] <= '9', "version of %s", p->name);
    check_table(p->params, p->name);
    if (p->kind == STANCE_KIND_SCALER)
        check_table(p->ops.scaler->state, p->name);
    stance_registry_free(reg);
}
END_TEST

START_TEST(defaults_are_legal_and_read_back)
{
    struct stance_registry     *reg;
    const struct stance_plugin *p   = plugin(&reg, _i);
    struct stance_error         err = STANCE_ERROR_INIT;
    void                       *a, *b;
    char                        text[2048], again[2048];

    ck_assert_msg(stance_plugin_config_new(p, &a, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_plugin_config_new(p, &b, &err) == STANCE_OK, "%s", err.text);
    for (const struct stance_param *q = p->params; q != NULL && q->name != NULL; q++) {
        ck_assert(stance_param_text(q, a, text, sizeof text));
        ck_assert_msg(stance_param_set(p->params, b, q->name, text, &err) == STANCE_OK, "%s: %s",
                      p->name, err.text);
        ck_assert(stance_param_text(q, b, again, sizeof again));
        ck_assert_str_eq(text, again);
    }
    stance_plugin_config_free(a);
    stance_plugin_config_free(b);
    stance_registry_free(reg);
}
END_TEST

START_TEST(exports_one_symbol)
{
    struct stance_registry     *reg;
    const struct stance_plugin *p    = plugin(&reg, _i);
    const char                 *file = stance_registry_file(reg, p);
    char                        command[4200], line[512], want[160];
    FILE                       *f;
    int                         lines = 0;

    if (strcmp(file, STANCE_BUILT_IN) == 0 || system("nm --version > /dev/null 2>&1") != 0) {
        SKIP("exports of %s: %s", p->name, *file == '/' ? "no nm" : "built in");
        stance_registry_free(reg);
        return;
    }
    snprintf(want, sizeof want, "%s_%s_LTX_stance_plugin", stance_kind_word(p->kind), p->name);
    snprintf(command, sizeof command, "nm -D --defined-only '%s'", file);
    f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f) != NULL) {
        ck_assert_msg(strstr(line, want) != NULL, "%s exports %s", p->name, line);
        lines++;
    }
    ck_assert_int_eq(pclose(f), 0);
    ck_assert_int_eq(lines, 1);
    stance_registry_free(reg);
}
END_TEST

/* Laws of a scaler: whatever comes, its factor is finite and > 0, an overflow does not raise it,
 * its saved state goes on as it would have gone on itself. */
START_TEST(scaler_laws)
{
    struct stance_registry     *reg;
    const struct stance_plugin *p   = plugin(&reg, _i);
    struct stance_error         err = STANCE_ERROR_INIT;
    struct stance_scaler       *s, *t;
    char                       *text, *other;

    if (p->kind != STANCE_KIND_SCALER)
        goto free_registry;
    for (int part = 0; part < 4; part++) { /* overflow in 0, 1/20, 1/2, every window */
        static const uint32_t odds[] = { 0, 1, 10, 20 };
        struct stance_rng     rng = stance_rng(7, STANCE_USE_AUGMENT, (uint64_t)part, 0);

        ck_assert_msg(stance_scaler_from(reg, p->name, &s, &err) == STANCE_OK, "%s", err.text);
        ck_assert_msg(stance_scaler_from(reg, p->name, &t, &err) == STANCE_OK, "%s", err.text);
        for (uint64_t step = 0; step < 20000; step++) {
            bool  overflow = stance_rng_below(&rng, 20) < odds[part];
            float before, after;
            struct stance_outcome o = { .step      = step,
                                        .overflow  = overflow,
                                        .grad_norm = overflow ? INFINITY
                                                              : stance_rng_uniform(&rng) * 10,
                                        .max_abs = overflow ? INFINITY : stance_rng_uniform(&rng) };

            ck_assert_msg(stance_scaler_scale(s, &before, &err) == STANCE_OK, "%s", err.text);
            stance_scaler_update(s, &o);
            ck_assert_msg(stance_scaler_scale(s, &after, &err) == STANCE_OK, "%s", err.text);
            ck_assert(isfinite(after) && after > 0 && (!overflow || after <= before));
            stance_scaler_update(t, &o);
            if (step % 1000 != 999)
                continue;
            /* t has gone on from the state saved last; the next one starts from this. */
            ck_assert_msg(stance_scaler_save(s, &text, &err) == STANCE_OK, "%s", err.text);
            ck_assert_int_eq(stance_scaler_save(t, &other, &err), STANCE_OK);
            ck_assert_str_eq(text, other);
            stance_scaler_free(t);
            ck_assert_int_eq(stance_scaler_from(reg, p->name, &t, &err), STANCE_OK);
            ck_assert_msg(stance_scaler_restore(t, text, &err) == STANCE_OK, "%s", err.text);
            stance_free(text);
            stance_free(other);
        }
        ck_assert_int_ge(stance_scaler_skip_limit(s), 25);
        stance_scaler_free(s);
        stance_scaler_free(t);
    }
free_registry:
    stance_registry_free(reg);
}
END_TEST

START_TEST(there_are_plugins)
{
    ck_assert_msg(n_plugins >= 3, "STANCE_TEST_PLUGINS is empty: run by make check");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    read_plugins();
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, there_are_plugins);
    tcase_add_loop_test(tc, describes_itself, 0, n_plugins);
    tcase_add_loop_test(tc, defaults_are_legal_and_read_back, 0, n_plugins);
    tcase_add_loop_test(tc, exports_one_symbol, 0, n_plugins);
    tcase_add_loop_test(tc, scaler_laws, 0, n_plugins);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
