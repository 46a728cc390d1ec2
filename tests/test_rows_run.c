/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table in doc/mixed-precision.md that show in whole runs: checkpoints, resuming, schedules. */
#include "config.h"

#include "golden.h"
#include "program.h"

#include <math.h>
#include <stdint.h>

/* 22 samples: five batches of 4 and one of 2 an epoch; windows of 4 batches straddle epochs. */
static const char recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [16]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data:\n  dataset: synthetic\n  input_size: [64, 64]\n  heatmap_size: [4, 4]\n  sigma: 1\n"
    "  train: {samples: 22}\n  val: {samples: 6}\n"
    "train:\n  epochs: 3\n  batch_size: 4\n  workers: 1\n  eval_interval: null\n  log_interval: 1\n"
    "  checkpoint: {epochs: 1, keep: null}\n  optimizer: {name: adam, lr: 5.0e-4}\n"
    "  schedule: {name: step, steps: [2], warmup: linear, warmup_iters: 12, warmup_ratio: 0.1}\n"
    "device: cpu\nthreads: 1\nfp16: {loss_scale: {init_scale: 4096, growth_interval: 2}}\n";

static bool there;

static void start(void)
{
    program_start();
    program_write("r.yaml", recipe);
    there = program_run("inspect --exists device/cpu") == 0;
    if (!there)
        SKIP("rows of runs: device 'cpu' is absent");
}

#define OK(...) ck_assert_msg(program_run(__VA_ARGS__) == 0, "%s", program_err)

/* A checkpoint in memory: header as JSON, and the bytes behind it. */
struct file { json_t *header; char *bytes; size_t size, data; };

static struct file file_read(const char *name)
{
    struct file f;
    uint64_t    n;

    f.bytes  = golden_bytes(program_path(name), &f.size);
    f.header = golden_header(f.bytes);
    memcpy(&n, f.bytes, sizeof n);
    f.data = 8 + (size_t)n;
    return f;
}

static void file_free(struct file *f)
{
    json_decref(f->header);
    free(f->bytes);
}

static const char *meta(const struct file *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

static void same_file(const char *a, const char *b)
{
    struct file x = file_read(a), y = file_read(b);

    ck_assert_msg(x.size == y.size && memcmp(x.bytes, y.bytes, x.size) == 0, "%s and %s differ", a, b);
    file_free(&x);
    file_free(&y);
}

/* Values of a key of the training lines of the log. */
static int logged(const char *folder, const char *key, double *v, int room)
{
    char  find[64], *line, *next;
    int   n = 0;

    ck_assert_int_eq(program_shell("cat %s/%s/20*/scalars.jsonl > %s", program_folder, folder, program_path("lines")), 0);
    program_read(program_path("lines"), program_out, sizeof program_out);
    snprintf(find, sizeof find, "\"%s\": ", key);
    for (line = program_out; *line != '\0'; line = next) {
        const char *at;

        next = strchr(line, '\n');
        ck_assert_ptr_nonnull(next);
        *next++ = '\0';
        at      = strstr(line, find);
        if (at == NULL || strstr(line, "\"lr\"") == NULL)
            continue;
        ck_assert_int_lt(n, room);
        v[n++] = strncmp(at + strlen(find), "null", 4) == 0 ? NAN : strtod(at + strlen(find), NULL);
    }
    return n;
}

/* Row 35 (design.md 9 replaces it) and row 40: a run in fp16, taken up inside a window after 6 of 18 batches, where
 * scale and count are not the first ones, ends in the bytes of the undisturbed run. */
START_TEST(row_35_40_resume_inside_a_window)
{
    struct file f;

    if (!there)
        return;
    OK("train r.yaml --quiet --accumulate 4 --work-dir whole");
    f = file_read("whole/step_1.safetensors");
    ck_assert_str_eq(meta(&f, "stance.micro"), "2");
    ck_assert_ptr_nonnull(strstr(meta(&f, "stance.scaler"), "growth_tracker=1"));
    ck_assert_ptr_nonnull(json_object_get(f.header, "stance.gradient.backbone.conv1.weight"));
    file_free(&f);
    OK("train r.yaml --quiet --accumulate 4 --work-dir again --resume=whole/step_1.safetensors");
    same_file("whole/step_5.safetensors", "again/step_5.safetensors");
}
END_TEST

/* Row 41: a checkpoint without the state of a scaler begins with the configured one, and says so. */
START_TEST(row_41_checkpoint_without_a_scaler)
{
    struct file f, g;
    char       *text;
    FILE       *out;
    uint64_t    n;

    if (!there)
        return;
    OK("train r.yaml --quiet --max-steps 5 --work-dir w");
    f = file_read("w/step_5.safetensors");
    ck_assert_ptr_nonnull(strstr(meta(&f, "stance.scaler"), "scale=16384,"));
    json_object_del(json_object_get(f.header, "__metadata__"), "stance.scaler");
    text = json_dumps(f.header, JSON_COMPACT);
    ck_assert_ptr_nonnull(text);
    n   = (strlen(text) + 7) / 8 * 8;
    out = fopen(program_path("bare.safetensors"), "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(&n, sizeof n, 1, out), 1);
    ck_assert_int_eq(fprintf(out, "%-*s", (int)n, text), (int)n);
    ck_assert_uint_eq(fwrite(f.bytes + f.data, f.size - f.data, 1, out), 1);
    ck_assert_int_eq(fclose(out), 0);
    free(text);
    file_free(&f);
    OK("train r.yaml --quiet --max-steps 6 --work-dir v --resume=bare.safetensors");
    ck_assert_msg(strstr(program_err, "no state of a scaler: 'dynamic' starts afresh") != NULL, "%s", program_err);
    g = file_read("v/step_6.safetensors");
    ck_assert_msg(strstr(meta(&g, "stance.scaler"), "dynamic:scale=4096,growth_tracker=1,") != NULL, "%s", meta(&g, "stance.scaler"));
    file_free(&g);
}
END_TEST

/* Row 44: --load takes weights alone. Row 45: which are binary32, not their copies in binary16. */
START_TEST(row_44_45_weights_alone)
{
    struct file   f, g;
    const json_t *entry;
    size_t        at, n = 0, finer = 0;
    double        scale[1];

    if (!there)
        return;
    OK("train r.yaml --quiet --max-steps 5 --work-dir w");
    f     = file_read("w/step_5.safetensors");
    entry = json_object_get(f.header, "backbone.layer4.1.conv2.weight");
    ck_assert_str_eq(json_string_value(json_object_get(entry, "dtype")), "F32");
    at = f.data + (size_t)json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    for (; n < 1000; n++) {
        uint32_t bits;

        memcpy(&bits, f.bytes + at + 4 * n, sizeof bits);
        finer += (bits & 0x1fff) != 0; /* below the last of binary16's ten bits */
    }
    ck_assert_uint_gt(finer, 900);
    file_free(&f);
    OK("train r.yaml --quiet --max-steps 1 --work-dir v --load w/step_5.safetensors");
    g = file_read("v/step_1.safetensors");
    ck_assert_str_eq(meta(&g, "stance.applied"), "1");
    ck_assert_ptr_nonnull(strstr(meta(&g, "stance.scaler"), "dynamic:scale=4096,growth_tracker=1,"));
    ck_assert_int_eq(logged("v", "loss_scale", scale, 1), 1);
    ck_assert(scale[0] == 4096);
    file_free(&g);
}
END_TEST

/* Row 49: the schedule goes on over skipped steps, as MMCV's does, unless told to hold. Row 51: skips at the begin are
 * told in the log, with the scale. Row 30: and their norms are no numbers of a mean. */
START_TEST(row_30_49_51_schedule_over_skips)
{
    enum { N = 18 };
    double lr[2][N], skipped[2][N], scale[N], norm[N], loss[N];
    int    first = 0;

    if (!there)
        return;
    for (int k = 0; k < 2; k++) {
        const char *folder = k == 0 ? "advance" : "hold";

        OK("train r.yaml --quiet --work-dir %s --scaler dynamic:init_scale=4294967296 --set train.on_skip=%s", folder, folder);
        ck_assert_int_eq(logged(folder, "lr", lr[k], N), N);
        ck_assert_int_eq(logged(folder, "skipped", skipped[k], N), N);
    }
    ck_assert_int_eq(logged("advance", "loss_scale", scale, N), N);
    ck_assert_int_eq(logged("advance", "grad_norm", norm, N), N);
    ck_assert_int_eq(logged("advance", "loss", loss, N), N);
    ck_assert(skipped[0][0] == 1 && skipped[1][0] == 1);
    for (int i = 0; i < N; i++) {
        bool skip = skipped[0][i] > (i > 0 ? skipped[0][i - 1] : 0);

        /* Linear warm-up over 12 iterations from a tenth. */
        ck_assert_msg(i >= 12 || fabs(lr[0][i] / (5e-4 * (1 - (1 - i / 12.0) * 0.9)) - 1) < 1e-9, "step %d: %g", i, lr[0][i]);
        first = skip ? i + 1 : first;
        ck_assert(scale[i] == ldexp(1, 32 - (int)(skip ? skipped[0][i] - 1 : skipped[0][i])));
        ck_assert(skip == isnan(norm[i]) && (skip || isfinite(loss[i])));
    }
    ck_assert_msg(first > 3 && first < N, "%d skipped", first);
    for (int i = 0; i < N && (i == 0 || skipped[1][i] > skipped[1][i - 1]); i++)
        ck_assert(lr[1][i] == lr[1][0]);
}
END_TEST

/* Every test that doc/mixed-precision.md names exists, and every row test is named there. */
START_TEST(table_names_the_tests)
{
    const char *root = getenv("STANCE_SRCDIR");

    ck_assert_ptr_nonnull(root);
    ck_assert_msg(program_shell("cd '%s' && for t in $(grep -o '`[a-z0-9_]*`' doc/mixed-precision.md | tr -d '`' | grep -E "
                                "'^row_|_[a-z]+_[a-z]+_[a-z]+'); do grep -q \"START_TEST($t)\" tests/*.c || echo $t is nowhere; done"
                                " > %s", root, program_path("out")) == 0, "grep failed");
    program_read(program_path("out"), program_out, sizeof program_out);
    ck_assert_str_eq(program_out, "");
    ck_assert_int_eq(program_shell("cd '%s' && for t in $(grep -oh 'START_TEST(row_[a-z0-9_]*' tests/*.c | cut -d'(' -f2); do"
                                   " grep -q $t doc/mixed-precision.md || echo $t is not in the table; done > %s", root,
                                   program_path("out")), 0);
    program_read(program_path("out"), program_out, sizeof program_out);
    ck_assert_str_eq(program_out, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows of runs");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, start, program_stop);
    tcase_add_test(tc, row_35_40_resume_inside_a_window);
    tcase_add_test(tc, row_41_checkpoint_without_a_scaler);
    tcase_add_test(tc, row_44_45_weights_alone);
    tcase_add_test(tc, row_30_49_51_schedule_over_skips);
    tcase_add_test(tc, table_names_the_tests);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
