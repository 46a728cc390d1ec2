/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#include "runner.h"

#include "base/random.h"
#include "base/text.h"

#include <stance/error.h>
#include <stance/param.h>

#include <math.h>

static const char *const colours[] = { "red", "green", NULL };

struct config {
    bool                   on;
    int64_t                count, maybe;
    double                 rate, limit;
    int                    colour;
    struct stance_text     path;
    struct stance_list_i64 steps;
    struct stance_list_f64 betas;
};

static const struct stance_param table[] = {
    STANCE_PARAM_BOOL(struct config, on, "true", "a switch"),
    STANCE_PARAM_I64(struct config, count, "3", 1, 10, "steps", "a count"),
    STANCE_PARAM_I64_OR_NULL(struct config, maybe, "null", 0, 10, "steps", "a count or nothing"),
    STANCE_PARAM_F64(struct config, rate, "5e-4", 0, 1, "1", "a rate"),
    STANCE_PARAM_F64_OR_NULL(struct config, limit, "null", 0, 100, "1", "a limit or nothing"),
    STANCE_PARAM_ENUM(struct config, colour, "green", colours, "a colour"),
    STANCE_PARAM_TEXT(struct config, path, "", "a path"),
    STANCE_PARAM_LIST_I64(struct config, steps, "[170, 200]", 0, 1000, "epochs", "steps"),
    STANCE_PARAM_LIST_F64(struct config, betas, "0.9,0.999", 0, 1, "1", "decay rates"),
    STANCE_PARAM_END
};

START_TEST(defaults_and_text_forms)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct config       c, d;
    char                text[600];

    ck_assert_msg(stance_param_defaults(table, &c, &err) == STANCE_OK, "%s", err.text);
    ck_assert(c.on && c.count == 3 && c.maybe == INT64_MIN && isnan(c.limit) && c.colour == 1);
    ck_assert(c.steps.n == 2 && c.steps.v[1] == 200 && c.betas.v[1] == 0.999 && c.rate == 5e-4);
    memset(&d, 0, sizeof d);
    for (const struct stance_param *p = table; p->name != NULL; p++) {
        ck_assert(stance_param_text(p, &c, text, sizeof text));
        ck_assert_msg(stance_param_set(table, &d, p->name, text, &err) == STANCE_OK, "%s", err.text);
    }
    ck_assert(d.count == 3 && d.betas.v[1] == 0.999 && d.steps.v[0] == 170 && isnan(d.limit));
    ck_assert(!stance_param_text(stance_param_find(table, "steps"), &c, text, 5));
}
END_TEST

static const struct {
    const char   *name, *text;
    stance_status want;
    const char   *says;
} refusals[] = {
    { "cuont", "3", STANCE_ERR_INVAL, "did you mean 'count'" },
    { "count", "0", STANCE_ERR_RANGE, "0 is outside [1, 10] steps" },
    { "count", "3x", STANCE_ERR_INVAL, "'3x' is not an integer" },
    { "count", "2.5", STANCE_ERR_INVAL, "not an integer" },
    { "rate", "fast", STANCE_ERR_INVAL, "'fast' is not a number" },
    { "rate", ".nan", STANCE_ERR_RANGE, "outside" },
    { "rate", "nan", STANCE_ERR_INVAL, "not a number" },
    { "rate", "0x1p-3", STANCE_ERR_INVAL, "not a number" },
    { "on", "yes", STANCE_ERR_INVAL, "neither true nor false" },
    { "colour", "blue", STANCE_ERR_INVAL, "not one of red, green" },
    { "steps", "[1, 2", STANCE_ERR_INVAL, "brackets" },
    { "steps", "[1, two]", STANCE_ERR_INVAL, "'two' is not an integer" },
};

START_TEST(refuses_and_leaves_alone)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct config       c, before;

    ck_assert_int_eq(stance_param_defaults(table, &c, &err), STANCE_OK);
    before = c;
    ck_assert_int_eq(stance_param_set(table, &c, refusals[_i].name, refusals[_i].text, &err), refusals[_i].want);
    ck_assert_msg(strstr(err.text, refusals[_i].says) != NULL, "says: %s", err.text);
    ck_assert_int_eq(memcmp(&c, &before, sizeof c), 0);
}
END_TEST

START_TEST(messages_stay_one_line)
{
    struct stance_error err = STANCE_ERROR_INIT;

    STANCE_FAIL(&err, STANCE_ERR_INVAL, "a\nb\033c");
    ck_assert_str_eq(err.text, "a b c");
    stance_error_prefix(&err, err.status, "recipe %d", 7);
    ck_assert_str_eq(err.text, "recipe 7: a b c");
    ck_assert_int_eq(stance_exit_status(STANCE_ERR_NOENT), 3);
    ck_assert_int_eq(stance_exit_status(STANCE_ERR_DIVERGED), 4);
    ck_assert_int_eq(stance_exit_status(STANCE_OK), 0);
}
END_TEST

START_TEST(philox_known_answers)
{
    /* Random123's kat_vectors for philox4x32-10: zeros, ones. */
    philox4x32_ctr_t zero = { { 0, 0, 0, 0 } };
    philox4x32_key_t key  = { { 0, 0 } };
    philox4x32_ctr_t r    = philox4x32(zero, key);
    philox4x32_ctr_t ones = { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff } };
    philox4x32_key_t kone = { { 0xffffffff, 0xffffffff } };

    ck_assert(r.v[0] == 0x6627e8d5 && r.v[1] == 0xe169c58d && r.v[2] == 0xbc57ac4c && r.v[3] == 0x9b00dbd8);
    r = philox4x32(ones, kone);
    ck_assert(r.v[0] == 0x408f276d && r.v[1] == 0x41c83b0e && r.v[2] == 0xa20bc7c6 && r.v[3] == 0x6d5451fd);
}
END_TEST

START_TEST(streams_are_named)
{
    struct stance_rng a = stance_rng(1, STANCE_USE_AUGMENT, 2, 3), b = stance_rng(1, STANCE_USE_AUGMENT, 3, 2);
    struct stance_rng c = stance_rng(1, STANCE_USE_AUGMENT, 2, 3);
    double            sum = 0, squares = 0;

    ck_assert(stance_rng_u32(&a) != stance_rng_u32(&b));
    (void)stance_rng_u32(&c);
    for (int i = 0; i < 100; i++)
        ck_assert(stance_rng_u32(&a) == stance_rng_u32(&c));
    for (int i = 0; i < 100000; i++) {
        double g = stance_rng_normal(&a);

        sum += g;
        squares += g * g;
        ck_assert_uint_lt(stance_rng_below(&b, 7), 7);
    }
    /* Five standard errors: 5/sqrt(n) of the mean, 5 sqrt(2/n) of the variance. */
    ck_assert_double_lt(fabs(sum / 1e5), 5 / sqrt(1e5));
    ck_assert_double_lt(fabs(squares / 1e5 - 1), 5 * sqrt(2 / 1e5));
}
END_TEST

START_TEST(numbers_and_words)
{
    char   text[64];
    double v;

    for (int i = 0; i < 1000; i++) {
        struct stance_rng r = stance_rng(5, STANCE_USE_INIT, (uint64_t)i, 0);
        double            x = stance_rng_normal(&r) * pow(10, i % 60 - 30);

        stance_text_of_f64(x, text, sizeof text);
        ck_assert(stance_text_f64(text, &v) && v == x);
    }
    stance_text_of_f64(0.0005, text, sizeof text);
    ck_assert_str_eq(text, "0.0005");
    ck_assert_int_eq(stance_text_distance("batch_sise", "batch_size"), 1);
}
END_TEST

START_TEST(growing_survives_failure)
{
    for (long n = 0; n < 6; n++) {
        struct stance_string t = { 0 };

        fault_after(n);
        for (int i = 0; i < 40; i++)
            stance_string_add(&t, "%d,", i);
        ck_assert(t.failed == (n < 5));
        stance_string_free(&t);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
}
END_TEST

START_TEST(arena_aligns_and_frees)
{
    struct stance_arena *a = stance_arena_new(256);

    for (size_t i = 1; i < 200; i++) {
        char *p = stance_arena_get(a, i * 3, 64);

        ck_assert_uint_eq((uintptr_t)p % 64, 0);
        for (size_t j = 0; j < i * 3; j++)
            ck_assert_int_eq(p[j], 0);
        memset(p, 1, i * 3);
    }
    ck_assert_ptr_null(stance_arena_get(a, SIZE_MAX - 10, 8));
    stance_arena_free(a);
    ck_assert_ptr_null(stance_calloc(SIZE_MAX / 2, 4));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tc    = tcase_create("all");

    tcase_add_test(tc, defaults_and_text_forms);
    tcase_add_loop_test(tc, refuses_and_leaves_alone, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tc, messages_stay_one_line);
    tcase_add_test(tc, philox_known_answers);
    tcase_add_test(tc, streams_are_named);
    tcase_add_test(tc, numbers_and_words);
    tcase_add_test(tc, growing_survives_failure);
    tcase_add_test(tc, arena_aligns_and_frees);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
