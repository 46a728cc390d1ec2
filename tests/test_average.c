/* SPDX-License-Identifier: Apache-2.0
 *
 * Moving averages of the weights: the rule, what a skipped window leaves alone, evaluation over them, and
 * what runs and other verbs make of them. */
#include "config.h"

#include "step_models.h"

#include "program.h"

#include <jansson.h>

#include <math.h>

/* ---- the rule --------------------------------------------------------------------------------------------- */

/* The decays of TensorFlow's ExponentialMovingAverage(num_updates) and of ultralytics' ModelEMA, worked out
 * by hand for the first three applied steps. */
static const struct { struct stance_ema ema; double decay[3]; } decays[] = {
    { { 0.9998, 2000, STANCE_EMA_CONSTANT }, { 0.9998, 0.9998, 0.9998 } },
    { { 0.9998, 2000, STANCE_EMA_RATIO }, { 2 / 11.0, 3 / 12.0, 4 / 13.0 } },
    { { 0.2, 2000, STANCE_EMA_RATIO }, { 2 / 11.0, 0.2, 0.2 } },
    { { 0.9999, 2000, STANCE_EMA_EXPONENTIAL }, { 4.9982504e-4, 9.9940022e-4, 1.4987257e-3 } },
    { { 0.5, 1, STANCE_EMA_EXPONENTIAL }, { 0.31606028, 0.43233236, 0.47510647 } },
};

START_TEST(decays_of_the_field)
{
    for (uint64_t t = 0; t < 3; t++)
        ck_assert_msg(fabs(stance_ema_decay(&decays[_i].ema, t) / decays[_i].decay[t] - 1) <= 1e-7, "step %d: %.9g",
                      (int)t + 1, stance_ema_decay(&decays[_i].ema, t));
    ck_assert(stance_ema_decay(&decays[_i].ema, 100000000) == decays[_i].ema.decay);
}
END_TEST

static const struct { const char *device, *precision; enum stance_ema_warmup warmup; bool states; } rules[] = {
    { "ref", "fp32", STANCE_EMA_RATIO, true },        { "ref", "fp64", STANCE_EMA_EXPONENTIAL, true },
    { "cpu", "fp32", STANCE_EMA_RATIO, true },        { "cpu", "bf16", STANCE_EMA_CONSTANT, false },
    { "cpu", "fp16", STANCE_EMA_EXPONENTIAL, true },  { "ref", "fp32", STANCE_EMA_CONSTANT, false },
};

static void open_average(struct step_run *r, const struct stance_ema *ema, int i)
{
    char text[1024];

    snprintf(text, sizeof text, resnet_recipe, 1);
    step_setup(r, text, rules[i].device, rules[i].precision);
    use_scaler(r, "scripted");
    r->options.average        = ema;
    r->options.average_states = rules[i].states;
    r->options.eval_batch     = 2;
    step_make(r);
    ck_assert_int_eq(stance_store_begin_average(stance_step_store(r->step), NULL), STANCE_OK);
}

/* The averages of 6 steps, window 2 of which overflows, against the rule over the masters as they were. */
START_TEST(average_follows_the_masters)
{
    const struct stance_ema    ema = { 0.75, 3, rules[_i].warmup };
    struct step_run            r;
    struct stance_step_result  result;
    const struct stance_store *s;
    struct snapshot            before, after;
    double                   **want;
    int64_t                    n;
    uint64_t                   applied = 0;
    float                      overflow;

    if (!step_has_device(rules[_i].device, "moving averages"))
        return;
    for (int i = 0; i < 16; i++)
        script[i] = 1024;
    open_average(&r, &ema, _i);
    s        = stance_step_store(r.step);
    want     = calloc(s->n_segments, sizeof *want);
    overflow = strcmp(rules[_i].precision, "fp16") == 0 ? 0x1p60F : 1024;
    ck_assert_ptr_nonnull(want);
    ck_assert(s->average[STANCE_BANK_PARAM] != NULL && (s->average[STANCE_BANK_STATE] != NULL) == rules[_i].states);
    for (size_t i = 0; i < s->n_segments; i++)
        if (s->average[s->segments[i].bank] != NULL)
            want[i] = step_values(&r, i, STANCE_ARRAY_MASTER, &n);
    for (int window = 0; window < 6; window++) {
        double take = 1 - stance_ema_decay(&ema, applied);

        script[window] = window == 2 ? overflow : 1024;
        step_fill_inputs(&r, STANCE_STEP_BATCH, 2 * window);
        if (window == 2 && overflow <= 1024)
            step_fill_infinity(&r);
        before = step_snapshot(&r);
        micro(&r, STANCE_STEP_BATCH, 1);
        result = apply(&r, 1e-2);
        after  = step_snapshot(&r);
        ck_assert(result.skipped == (window == 2));
        ck_assert_msg(step_equal(&before, &after) == result.skipped, "window %d", window); /* averages are part of it */
        free(before.bytes);
        free(after.bytes);
        if (result.skipped)
            continue;
        applied++;
        for (size_t i = 0; i < s->n_segments; i++) {
            double *now, *have, unit = r.setup.policy.wide == STANCE_TYPE_F64 ? 0x1p-52 : 0x1p-23, size = 0;

            if (want[i] == NULL)
                continue;
            now  = step_values(&r, i, s->segments[i].bank == STANCE_BANK_STATE ? STANCE_ARRAY_COMMITTED : STANCE_ARRAY_MASTER, &n);
            have = step_values(&r, i, STANCE_ARRAY_AVERAGE, &n);
            for (int64_t k = 0; k < n; k++)
                size = fmax(size, fmax(fabs(now[k]), fabs(want[i][k])));
            for (int64_t k = 0; k < n; k++) {
                want[i][k] += take * (now[k] - want[i][k]);
                /* Rounded once or twice a step, to half a unit of the tensor's largest; older errors shrink by
                 * the decay. */
                ck_assert_msg(fabs(have[k] - want[i][k]) <= 3 * unit * size, "%s[%lld]: %.17g, not %.17g",
                              s->segments[i].name, (long long)k, have[k], want[i][k]);
            }
            free(now);
            free(have);
        }
    }
    ck_assert_uint_eq(stance_step_applied(r.step), 5);
    for (size_t i = 0; i < s->n_segments; i++)
        free(want[i]);
    free(want);
    step_close(&r);
}
END_TEST

/* The heatmap of a step whose masters are what the averages of another are. */
static void evaluate_loaded(const struct step_run *from, const struct stance_ema *ema, int rule, float *heat)
{
    struct step_run            r;
    const struct stance_store *s = stance_step_store(from->step);
    struct stance_error        err = STANCE_ERROR_INIT;
    int64_t                    n;

    open_average(&r, ema, rule);
    for (size_t i = 0; i < s->n_segments; i++) {
        enum stance_bank b = s->segments[i].bank;
        double          *v;

        if (b == STANCE_BANK_COUNTER)
            continue;
        v = step_values(from, i, s->average[b] != NULL ? STANCE_ARRAY_AVERAGE : STANCE_ARRAY_MASTER, &n);
        ck_assert_int_eq(stance_store_write(stance_step_store(r.step), i, STANCE_ARRAY_MASTER, STANCE_TYPE_F64, v, &err),
                         STANCE_OK);
        if (b == STANCE_BANK_STATE)
            ck_assert_int_eq(stance_store_write(stance_step_store(r.step), i, STANCE_ARRAY_COMMITTED, STANCE_TYPE_F64, v, &err),
                             STANCE_OK);
        free(v);
    }
    ck_assert_int_eq(stance_step_refresh(r.step, &err), STANCE_OK);
    step_fill_inputs(&r, STANCE_STEP_EVAL, 0);
    ck_assert_int_eq(stance_step_evaluate(r.step, STANCE_STEP_EVAL, &err), STANCE_OK);
    ck_assert_int_eq(stance_step_read(r.step, STANCE_STEP_EVAL, "heatmap", STANCE_TYPE_F32, heat, &err), STANCE_OK);
    step_close(&r);
}

/* A heatmap over the averages, and that all is as before when they are back. */
START_TEST(averages_are_evaluated)
{
    const struct stance_ema ema = { 0.9, 3, STANCE_EMA_CONSTANT };
    struct step_run         r;
    struct snapshot         before, after;
    struct stance_error     err = STANCE_ERROR_INIT;
    float                   heat[3][2 * 17 * 16 * 16], loaded[2 * 17 * 16 * 16];

    if (!step_has_device(rules[_i].device, "evaluating averages"))
        return;
    for (int i = 0; i < 16; i++)
        script[i] = 1024;
    open_average(&r, &ema, _i);
    for (int window = 0; window < 3; window++) {
        step_fill_inputs(&r, STANCE_STEP_BATCH, 2 * window);
        micro(&r, STANCE_STEP_BATCH, 1);
        ck_assert(!apply(&r, 1e-2).skipped);
    }
    before = step_snapshot(&r);
    step_fill_inputs(&r, STANCE_STEP_EVAL, 0);
    for (int k = 0; k < 3; k++) {
        if (k > 0)
            ck_assert_int_eq(stance_step_exchange_average(r.step, &err), STANCE_OK);
        ck_assert_msg(stance_step_evaluate(r.step, STANCE_STEP_EVAL, &err) == STANCE_OK, "%s", err.text);
        ck_assert_msg(stance_step_read(r.step, STANCE_STEP_EVAL, "heatmap", STANCE_TYPE_F32, heat[k], &err) == STANCE_OK,
                      "%s", err.text);
    }
    ck_assert(memcmp(heat[0], heat[1], sizeof heat[0]) != 0);
    evaluate_loaded(&r, &ema, _i, loaded);
    ck_assert(memcmp(heat[1], loaded, sizeof loaded) == 0);
    ck_assert(memcmp(heat[0], heat[2], sizeof heat[0]) == 0);
    after = step_snapshot(&r);
    ck_assert(step_equal(&before, &after));
    free(before.bytes);
    free(after.bytes);
    step_close(&r);
}
END_TEST

/* Without averages nothing is taken, and the calls do nothing. */
START_TEST(no_average_is_no_memory)
{
    struct step_run r;
    char            text[1024];

    snprintf(text, sizeof text, resnet_recipe, 1);
    step_setup(&r, text, "ref", "fp32");
    step_make(&r);
    ck_assert_ptr_null(stance_step_store(r.step)->average[STANCE_BANK_PARAM]);
    ck_assert_int_eq(stance_store_begin_average(stance_step_store(r.step), NULL), STANCE_OK);
    ck_assert_int_eq(stance_step_exchange_average(r.step, NULL), STANCE_OK);
    step_close(&r);
}
END_TEST

/* ---- runs ------------------------------------------------------------------------------------------------- */

static const char recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 16, base_channels: 16}\n"
    "  head: {name: heatmap, deconv: [32, 32, 32]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data:\n  dataset: synthetic\n  input_size: [64, 64]\n  heatmap_size: [16, 16]\n"
    "  augment: {rotation_prob: 0, shift_prob: 0, half_body: 0, scale: 0}\n"
    "  train: {samples: 384}\n  val: {samples: 12}\n"
    "train:\n  epochs: 6\n  batch_size: 8\n  workers: 1\n  eval_interval: 6\n  log_interval: 1\n  best: AP50\n"
    "  checkpoint: {epochs: 1, keep: null}\n  optimizer: {name: adam, lr: 5.0e-3}\n"
    "  ema: {decay: 0.97, warmup: ratio}\n  schedule: {name: step}\n"
    "device: ref\nthreads: 1\n";

static char device[8];

static void start(void)
{
    program_start();
    program_write("r.yaml", recipe);
    strcpy(device, program_run("inspect --exists device/cpu") == 0 ? "cpu" : "ref");
}

static double result_of(const char *arguments, const char *name)
{
    json_t *o;
    double  v;

    ck_assert_msg(program_run("%s", arguments) == 0, "%s", program_err);
    o = json_loads(program_out, 0, NULL);
    ck_assert_msg(json_is_number(json_object_get(o, name)), "%s", program_out);
    v = json_number_value(json_object_get(o, name));
    json_decref(o);
    return v;
}

/* The last number that the log gives to a key. */
static double last_logged(const char *folder, const char *key)
{
    char   find[64], *at, *p;
    double v = NAN;

    ck_assert_int_eq(program_shell("cat %s/%s/20*/scalars.jsonl > %s", program_folder, folder, program_path("lines")), 0);
    program_read(program_path("lines"), program_out, sizeof program_out);
    snprintf(find, sizeof find, "\"%s\": ", key);
    for (p = program_out; (at = strstr(p, find)) != NULL; p = at + 1)
        v = strtod(at + strlen(find), NULL);
    return v;
}

START_TEST(test_and_predict_take_the_average)
{
    char   line[300];
    double logged, plain, average;

    ck_assert_msg(program_run("train r.yaml --quiet --device %s --work-dir w", device) == 0, "%s", program_err);
    logged = last_logged("w", "AP");
    snprintf(line, sizeof line, "test r.yaml w/step_288.safetensors --device %s --json", device);
    plain = result_of(line, "AP");
    snprintf(line, sizeof line, "test r.yaml w/step_288.safetensors --device %s --json --ema", device);
    average = result_of(line, "AP");
    /* The log has as many digits as mmengine's. */
    ck_assert_msg(fabs(average - logged) <= 1e-6, "%.9g logged, %.9g with --ema, %.9g without", logged, average, plain);
    ck_assert(average != plain);
    /* A checkpoint of a run that evaluates its own weights is the same but for what is best. */
    ck_assert_int_eq(program_run("train r.yaml --quiet --device %s --work-dir own --set train.ema.evaluate=false", device), 0);
    ck_assert(fabs(last_logged("own", "AP") - plain) <= 1e-6);
    /* None: refused, also by predict. */
    ck_assert_int_eq(program_run("train r.yaml --quiet --device %s --max-steps 1 --work-dir none --set train.ema.decay=null", device), 0);
    ck_assert_int_eq(program_run("test r.yaml none/step_1.safetensors --device %s --ema", device), 2);
    ck_assert_msg(strstr(program_err, "no averaged weights") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run("test r.yaml w/step_288.safetensors --device %s --sheet sheet.png", device), 0);
    ck_assert_int_eq(program_run("predict r.yaml none/step_1.safetensors --device %s --ema sheet.png", device), 2);
    for (int k = 0; k < 2; k++)
        ck_assert_msg(program_run("predict r.yaml w/step_288.safetensors --device %s %s --out p%d.json sheet.png", device,
                                  k == 0 ? "" : "--ema", k) == 0, "%s", program_err);
    ck_assert_int_eq(program_shell("cmp -s %s/p0.json %s/p1.json", program_folder, program_folder), 1);
}
END_TEST

/* A run that begins to average on resume starts from the weights; one that ends it tells so. */
START_TEST(averaging_begins_and_ends_on_resume)
{
    ck_assert_int_eq(program_run("train r.yaml --quiet --device %s --max-steps 2 --work-dir w --set train.ema.decay=null", device), 0);
    ck_assert_int_eq(program_run("train r.yaml --quiet --device %s --max-steps 4 --work-dir w --resume", device), 0);
    ck_assert_msg(strstr(program_err, "the average starts from its weights") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run("test r.yaml w/step_4.safetensors --device %s --ema", device), 0);
    ck_assert_int_eq(program_run("train r.yaml --quiet --device %s --max-steps 5 --work-dir w --resume --set train.ema.decay=null", device), 0);
    ck_assert_msg(strstr(program_err, "left behind") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run("test r.yaml w/step_5.safetensors --device %s --ema", device), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("average");
    TCase *rule = tcase_create("rule"), *runs = tcase_create("runs");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_set_timeout(rule, 120);
    tcase_add_loop_test(rule, decays_of_the_field, 0, sizeof decays / sizeof *decays);
    tcase_add_loop_test(rule, average_follows_the_masters, 0, sizeof rules / sizeof *rules);
    tcase_add_loop_test(rule, averages_are_evaluated, 0, sizeof rules / sizeof *rules);
    tcase_add_test(rule, no_average_is_no_memory);
    suite_add_tcase(suite, rule);
    tcase_set_timeout(runs, strcmp(STANCE_DEFAULT_DEVICE, "ref") == 0 ? 900 : 300);
    tcase_add_checked_fixture(runs, start, program_stop);
    tcase_add_test(runs, test_and_predict_take_the_average);
    tcase_add_test(runs, averaging_begins_and_ends_on_resume);
    suite_add_tcase(suite, runs);
    return run_suite(suite);
}
