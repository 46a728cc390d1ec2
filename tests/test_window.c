/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runner.h"

#include "step/window.h"
#include "train/best.h"
#include "train/run.h"

#include <math.h>

/* Seven micro-batches an epoch, the last with 3 samples of 8; three epochs. */
static struct stance_windows windows(int64_t accumulate, bool flush, bool drop)
{
    return (struct stance_windows){ .accumulate = accumulate,
                                    .batches    = 7,
                                    .end        = 21,
                                    .batch_size = 8,
                                    .samples    = 51,
                                    .flush      = flush,
                                    .drop       = drop };
}

static const struct {
    int64_t accumulate;
    bool    flush, drop;
    int64_t n, size[21]; /* micro-batches of each window */
} layouts[] = {
    { 1, false, false, 21, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
    { 4, false, false, 6, { 4, 4, 4, 4, 4, 1 } },
    { 4, false, true, 5, { 4, 4, 4, 4, 4 } },
    { 4, true, false, 6, { 4, 3, 4, 3, 4, 3 } },
    { 4, true, true, 3, { 4, 4, 4 } },
    { 7, true, true, 3, { 7, 7, 7 } },
    { 30, false, false, 1, { 21 } },
    { 30, false, true, 0, { 0 } },
    { 8, true, true, 0, { 0 } },
};

START_TEST(windows_follow_each_other)
{
    struct stance_windows w = windows(layouts[_i].accumulate, layouts[_i].flush, layouts[_i].drop);
    int64_t               n = 0, samples = 0, done = 0;
    double                weight = 0;

    ck_assert_int_eq(stance_windows_count(&w), layouts[_i].n);
    for (int64_t i = 0; i < w.end; i++) {
        if (done == 0 && stance_windows_dropped(&w, i))
            continue;
        weight += stance_windows_weight(&w, i, done);
        samples += stance_windows_samples(&w, i);
        done++;
        if (i + 1 < stance_windows_end(&w, i, done - 1))
            continue;
        ck_assert_int_lt(n, layouts[_i].n);
        ck_assert_int_eq(done, layouts[_i].size[n]);
        /* A few binary64 quotients: their sum is 1 within as many roundings of 2^-53. */
        ck_assert_double_le(fabs(weight - 1), 21 * 0x1p-53);
        n++;
        done   = 0;
        weight = 0;
    }
    ck_assert_int_eq(n, layouts[_i].n);
    ck_assert(done == 0 && (layouts[_i].drop || samples == 3 * 51));
}
END_TEST

START_TEST(weights_are_by_samples)
{
    static const int64_t  each[] = { 1, 2, 5, 8 };
    struct stance_windows w      = windows(4, false, false),
                          own    = { .accumulate = 4, .batches = 4, .end = 4, .each = each };

    ck_assert_int_eq(stance_windows_samples(&w, 5), 8);
    ck_assert_int_eq(stance_windows_samples(&w, 13), 3);
    /* The window of micro-batches 4 to 7 holds 8, 8, 3, 8. */
    ck_assert_double_eq(stance_windows_weight(&w, 6, 2), 3.0 / 27);
    ck_assert_double_eq(stance_windows_weight(&w, 7, 3), 8.0 / 27);
    /* A window that a resumed run has begun elsewhere counts from where it began. */
    ck_assert_int_eq(stance_windows_end(&w, 2, 1), 5);
    for (int64_t i = 0; i < 4; i++)
        ck_assert_double_eq(stance_windows_weight(&own, i, i), (double)each[i] / 16);
}
END_TEST

static const struct {
    double value, best;
    bool   lower, wins;
} scores[] = {
    { 0.3, NAN, false, true }, { NAN, NAN, false, false },      { NAN, 0.3, false, false },
    { 0.5, 0.3, false, true }, { 0.3, 0.3, false, false },      { -1, NAN, false, false },
    { -1, 0.3, true, false },  { 0, NAN, false, true },         { 0.2, 0.3, true, true },
    { 0.4, 0.3, true, false }, { 0.4, NAN, true, true },        { INFINITY, 0.3, false, false },
    { NAN, 0.3, true, false }, { -INFINITY, NAN, true, false },
};

START_TEST(best_score)
{
    ck_assert(stance_best_improves(scores[_i].value, scores[_i].best, scores[_i].lower)
              == scores[_i].wins);
}
END_TEST

START_TEST(metrics_that_fall)
{
    static const char *const lower[] = { "NME", "EPE", "loss", "MPJPE", "nme" }, *const higher[] = {
        "AP", "AR", "PCK", "AUC", "AP50"
    };

    for (size_t i = 0; i < 5; i++)
        ck_assert(stance_best_is_lower(lower[i]) && !stance_best_is_lower(higher[i]));
}
END_TEST

/* ---- in a run -------------------------------------------------------------------------------- */

/* 8 samples in 4 micro-batches, 2 epochs. */
static const char recipe[] =
    "model:\n  task: top_down\n"
    "  backbone: {name: resnet, depth: 18, stem_channels: 4, base_channels: 4}\n"
    "  head: {name: heatmap}\n  loss: {name: joints_mse}\n"
    "data:\n  dataset: synthetic\n  input_size: [32, 32]\n  heatmap_size: [1, 1]\n"
    "  train: {samples: 8}\n  val: {samples: 2}\n"
    "train: {epochs: 2, batch_size: 2, accumulate: 3, workers: 0, eval_interval: null, loggers: "
    "[],\n"
    "  schedule: {name: step}}\n"
    "device: ref\nprecision: fp32\n";

static const struct {
    const char *set[2];
    int64_t     steps;
} runs[] = {
    { { "train.accumulate_flush=false", "train.accumulate_drop=false" }, 3 },
    { { "train.accumulate_flush=false", "train.accumulate_drop=true" }, 2 },
    { { "train.accumulate_flush=true", "train.accumulate_drop=false" }, 4 },
    { { "train.accumulate_flush=true", "train.accumulate_drop=true" }, 2 },
    { { "train.accumulate=5", "train.accumulate_drop=true" }, 1 },
    { { "train.accumulate=9", "train.accumulate_drop=true" }, -1 }, /* no window at all: an error */
};

START_TEST(a_run_has_these_windows)
{
    const unsigned parts =
        STANCE_SETUP_TRAIN | STANCE_SETUP_VAL | STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD;
    char                         folder[] = "/tmp/stance-test-XXXXXX", path[64], command[128];
    struct stance_recipe_options options  = { .sets = runs[_i].set, .n_sets = 2 };
    struct stance_train_result   result;
    struct stance_registry      *reg;
    struct stance_setup          setup = { 0 };
    struct stance_error          err   = STANCE_ERROR_INIT;
    stance_status                status;
    FILE                        *f;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/r.yaml", folder);
    f = fopen(path, "w");
    ck_assert(f != NULL && fputs(recipe, f) >= 0 && fclose(f) == 0);
    ck_assert_int_eq(stance_registry_new(NULL, &reg, &err), STANCE_OK);
    ck_assert_msg(stance_setup_make(reg, path, &options, parts, &setup, &err) == STANCE_OK, "%s",
                  err.text);
    status = stance_train(
        &setup, &(struct stance_train_options){ .work_dir = folder, .quiet = true }, &result, &err);
    if (runs[_i].steps < 0) {
        ck_assert_int_eq(status, STANCE_ERR_INVAL);
        ck_assert_ptr_nonnull(strstr(err.text, "accumulate_drop"));
    } else {
        ck_assert_msg(status == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(result.iterations, runs[_i].steps);
        ck_assert_int_eq(result.epochs, 2);
    }
    stance_setup_clear(&setup);
    stance_registry_free(reg);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("window");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_loop_test(tc, windows_follow_each_other, 0, sizeof layouts / sizeof *layouts);
    tcase_add_test(tc, weights_are_by_samples);
    tcase_add_loop_test(tc, best_score, 0, sizeof scores / sizeof *scores);
    tcase_add_test(tc, metrics_that_fall);
    tcase_add_loop_test(tc, a_run_has_these_windows, 0, sizeof runs / sizeof *runs);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
