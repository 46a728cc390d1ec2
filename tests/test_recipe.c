/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "open_plugin.h"
#include "runner.h"

#include "config/recipe.h"
#include "data/pose_info.h"

#include <stance/device.h>
#include <stance/log.h>
#include <stance/registry.h>

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

/* ---- plugins that stand in for the registry: the names and settings of the recipe contract ----
 */

static const char *const on_off[] = { "auto", "off", NULL };

struct hrnet {
    int64_t                width, stage1_planes, stage1_blocks, blocks;
    struct stance_list_i64 modules;
};
static const struct stance_param hrnet_params[] = {
    STANCE_PARAM_I64(struct hrnet, width, "32", 1, 512, "channels", "width"),
    STANCE_PARAM_I64(struct hrnet, stage1_planes, "64", 1, 512, "channels", "planes"),
    STANCE_PARAM_I64(struct hrnet, stage1_blocks, "4", 1, 100, "blocks", "bottlenecks"),
    STANCE_PARAM_LIST_I64(struct hrnet, modules, "[1, 4, 3]", 1, 100, "modules", "of the stages"),
    STANCE_PARAM_I64(struct hrnet, blocks, "4", 1, 100, "blocks", "basic blocks"),
    STANCE_PARAM_END,
};
struct resnet {
    int64_t depth, stem_channels, base_channels;
};
static const struct stance_param resnet_params[] = {
    STANCE_PARAM_I64(struct resnet, depth, "50", 1, 1000, "layers", "depth"),
    STANCE_PARAM_I64(struct resnet, stem_channels, "64", 1, 512, "channels", "stem"),
    STANCE_PARAM_I64(struct resnet, base_channels, "64", 1, 512, "channels", "base"),
    STANCE_PARAM_END,
};
struct heatmap {
    struct stance_list_i64 deconv;
    int64_t                final_kernel;
};
static const struct stance_param heatmap_params[] = {
    STANCE_PARAM_LIST_I64(struct heatmap, deconv, "[256, 256, 256]", 1, 4096, "channels",
                          "filters"),
    STANCE_PARAM_I64(struct heatmap, final_kernel, "1", 0, 3, "px", "kernel"),
    STANCE_PARAM_END,
};
struct mse {
    bool use_target_weight;
};
static const struct stance_param mse_params[] = {
    STANCE_PARAM_BOOL(struct mse, use_target_weight, "false", "weights"),
    STANCE_PARAM_END,
};
struct adam {
    double                 lr, weight_decay;
    struct stance_list_f64 betas;
};
static const struct stance_param adam_params[] = {
    STANCE_PARAM_F64(struct adam, lr, "1e-3", 0, 1e3, "1", "rate"),
    STANCE_PARAM_F64(struct adam, weight_decay, "0", 0, 1, "1", "decay"),
    STANCE_PARAM_LIST_F64(struct adam, betas, "[0.9, 0.999]", 0, 1, "1", "decays"),
    STANCE_PARAM_END,
};
struct dynamic {
    double  init_scale, growth_factor, backoff_factor, min_scale, max_scale;
    int64_t growth_interval;
};
static const struct stance_param dynamic_params[] = {
    STANCE_PARAM_F64(struct dynamic, init_scale, "65536", 1e-30, 1.7e38, "1", "first"),
    STANCE_PARAM_F64(struct dynamic, growth_factor, "2", 1, 1e6, "1", "growth"),
    STANCE_PARAM_F64(struct dynamic, backoff_factor, "0.5", 0, 1, "1", "backoff"),
    STANCE_PARAM_I64(struct dynamic, growth_interval, "2000", 1, 1000000, "steps", "interval"),
    STANCE_PARAM_F64(struct dynamic, min_scale, "1", 0, 1e38, "1", "floor"),
    STANCE_PARAM_F64(struct dynamic, max_scale, "1.7e38", 0, 1.8e38, "1", "ceiling"),
    STANCE_PARAM_END,
};
struct fixed {
    double scale;
};
static const struct stance_param static_params[] = {
    STANCE_PARAM_F64(struct fixed, scale, "512", 1e-30, 1e38, "1", "scale"),
    STANCE_PARAM_END,
};
struct cpu {
    int winograd;
};
static const struct stance_param cpu_params[] = {
    STANCE_PARAM_ENUM(struct cpu, winograd, "auto", on_off, "kernels"),
    STANCE_PARAM_END,
};
struct cuda {
    int64_t index;
};
static const struct stance_param cuda_params[] = {
    STANCE_PARAM_I64(struct cuda, index, "0", 0, 63, "1", "which"),
    STANCE_PARAM_END,
};

#define STAND_IN(KIND, word, table, T)                                                             \
    {                                                                                              \
        STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_##KIND, .name = word, .params = table,             \
                            .config_size = sizeof(T)                                               \
    }
#define BARE(KIND, word)                                                                           \
    {                                                                                              \
        STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_##KIND, .name = word                               \
    }

static const struct stance_plugin plugins[] = {
    STAND_IN(BACKBONE, "hrnet", hrnet_params, struct hrnet),
    STAND_IN(BACKBONE, "resnet", resnet_params, struct resnet),
    STAND_IN(HEAD, "heatmap", heatmap_params, struct heatmap),
    STAND_IN(LOSS, "joints_mse", mse_params, struct mse),
    STAND_IN(OPTIMIZER, "adam", adam_params, struct adam),
    STAND_IN(OPTIMIZER, "adamw", adam_params, struct adam),
    STAND_IN(SCALER, "dynamic", dynamic_params, struct dynamic),
    STAND_IN(SCALER, "static", static_params, struct fixed),
    BARE(SCALER, "none"),
    BARE(TASK, "top_down"),
    BARE(DATASET, "coco"),
    BARE(DATASET, "synthetic"),
    STAND_IN(DEVICE, "cpu", cpu_params, struct cpu),
    STAND_IN(DEVICE, "cuda", cuda_params, struct cuda),
    BARE(DEVICE, "ref"),
    BARE(LOGGER, "text"),
    BARE(LOGGER, "jsonl"),
};

static stance_status find(void *ctx, enum stance_kind kind, const char *name,
                          const struct stance_plugin **out, struct stance_error *err)
{
    char known[300] = "";

    (void)ctx;
    if (kind == STANCE_KIND_SCHEDULE && (*out = open_plugin("schedule", name)) != NULL)
        return STANCE_OK;
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
        if (plugins[i].kind != kind)
            continue;
        if (strcmp(plugins[i].name, name) == 0) {
            *out = &plugins[i];
            return STANCE_OK;
        }
        strcat(strcat(known, known[0] != '\0' ? ", " : ""), plugins[i].name);
    }
    return STANCE_FAIL(err, STANCE_ERR_NOENT, "no plugin '%s'; known: %s", name, known);
}

static const struct stance_recipe_lookup lookup = { find, NULL };

/* ---- files ---- */

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/stance-recipe-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char path[400];

        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

static const char *file(const char *name, const char *text)
{
    static char paths[4][200];
    static int  next;
    char       *path = paths[next = (next + 1) % 4];
    FILE       *f;

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static struct stance_recipe *load(const char *path, const struct stance_recipe_options *o)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_recipe *r   = NULL;

    ck_assert_msg(stance_recipe_load(path, o, &lookup, &r, &err) == STANCE_OK, "%s", err.text);
    return r;
}

static struct stance_recipe *of_text(const char *text, const struct stance_recipe_options *o)
{
    return load(file("recipe.yaml", text), o);
}

static void refuse(const char *text, const struct stance_recipe_options *o, int exit_status,
                   const char *says)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_recipe *r   = NULL;
    stance_status status      = stance_recipe_load(file("recipe.yaml", text), o, &lookup, &r, &err);

    ck_assert_msg(r == NULL, "passes: %s", text);
    ck_assert_msg(stance_exit_status(status) == exit_status, "status %d: %s", (int)status,
                  err.text);
    ck_assert_msg(strstr(err.text, says) != NULL, "says: %s, not %s", err.text, says);
}

/* ---- tests ---- */

START_TEST(defaults_are_those_of_the_contract)
{
    struct stance_recipe *r = of_text("{train: {}}\n", NULL);
    const struct adam    *a;

    ck_assert_str_eq(r->name, "recipe");
    ck_assert_str_eq(r->task.name, "top_down");
    ck_assert(strcmp(r->backbone.name, "hrnet") == 0
              && ((struct hrnet *)r->backbone.config)->width == 32);
    ck_assert(strcmp(r->head.name, "heatmap") == 0
              && ((struct heatmap *)r->head.config)->deconv.n == 0);
    ck_assert(((struct mse *)r->loss.config)->use_target_weight);
    ck_assert_str_eq(r->dataset.name, "coco");
    ck_assert_ptr_null(r->dataset.config);
    a = r->optimizer.config;
    ck_assert(strcmp(r->optimizer.name, "adam") == 0 && a->lr == 5e-4 && a->betas.v[1] == 0.999);
    ck_assert_str_eq(r->schedule.name, "step");
    ck_assert_str_eq(r->device.name, STANCE_DEFAULT_DEVICE);
    ck_assert(r->precision == STANCE_PRECISION_FP32 && strcmp(r->scaler.name, "none") == 0);
    ck_assert(r->n_loggers == 2 && strcmp(r->logger[1].name, "jsonl") == 0);
    ck_assert(r->pretrained == NULL && r->pose.keypoints == 0);
    ck_assert(r->pose.input_size[0] == 192 && r->pose.input_size[1] == 256);
    ck_assert(r->pose.heatmap_size[0] == 48 && r->pose.heatmap_size[1] == 64);
    ck_assert(r->data.sigma == 2 && r->data.padding == 1.25 && !r->data.unbiased_encoding);
    ck_assert(r->augment.flip == 0.5 && r->augment.half_body == 0.3 && r->augment.rotation == 40);
    ck_assert(r->augment.rotation_prob == 0.6 && r->augment.scale == 0.5 && r->augment.shift == 0.16
              && r->augment.shift_prob == 0.3);
    ck_assert(r->test.flip && r->test.shift_heatmap && r->test.post_process == STANCE_POST_DEFAULT);
    ck_assert(r->test.modulate_kernel == 11 && r->test.oks_thr == 0.9 && r->test.vis_thr == 0.2
              && r->test.batch_size == 64);
    ck_assert(r->train.epochs == 210 && r->train.batch_size == 64 && r->train.accumulate == 1
              && !r->train.accumulate_flush);
    ck_assert(isnan(r->train.clip_grad_norm) && r->train.max_steps == INT64_MIN
              && r->train.seed == 0 && r->train.workers == 2);
    ck_assert(r->train.eval_interval == 10 && strcmp(r->train.best.s, "AP") == 0
              && r->train.on_skip == STANCE_ON_SKIP_ADVANCE);
    ck_assert(r->checkpoint.epochs == 10 && r->checkpoint.steps == INT64_MIN
              && r->checkpoint.keep == 3);
    ck_assert(r->memory.recompute == STANCE_RECOMPUTE_NONE && r->machine.threads == INT64_MIN);
    ck_assert(r->train_split.samples == 1024 && r->val_split.samples == 128
              && r->train_split.training && !r->val_split.training);
    ck_assert(r->train_split.annotations == NULL && strcmp(r->val_split.boxes, "truth") == 0);
    stance_recipe_free(r);
}
END_TEST

START_TEST(plugins_by_name_by_mapping_and_by_text)
{
    static const char *const     same[] = { "device: 'cpu:winograd=off'\n",
                                            "device: {name: cpu, winograd: off}\n",
                                            "device: {winograd: off}\n" };
    struct stance_recipe_options o      = { .device = "cuda:1" };
    struct stance_recipe        *r;

    /* The last is a setting of the default. */
    for (int i = 0; i < (strcmp(STANCE_DEFAULT_DEVICE, "cpu") == 0 ? 3 : 2); i++) {
        r = of_text(same[i], NULL);
        ck_assert(strcmp(r->device.name, "cpu") == 0
                  && ((struct cpu *)r->device.config)->winograd == 1);
        stance_recipe_free(r);
    }
    r = of_text("device: {name: cpu, winograd: off}\n", &o);
    ck_assert(strcmp(r->device.name, "cuda") == 0 && ((struct cuda *)r->device.config)->index == 1);
    stance_recipe_free(r);
    /* A named plugin starts from its own defaults, one without name from the recipe's. */
    r = of_text("train: {optimizer: {name: adam}, schedule: cosine}\n", NULL);
    ck_assert_double_eq(((struct adam *)r->optimizer.config)->lr, 1e-3);
    ck_assert_str_eq(r->schedule.name, "cosine");
    stance_recipe_free(r);
    r = of_text("train: {optimizer: {weight_decay: 0.1}, loggers: [text]}\n", NULL);
    ck_assert(((struct adam *)r->optimizer.config)->lr == 5e-4
              && ((struct adam *)r->optimizer.config)->weight_decay == 0.1);
    ck_assert_uint_eq(r->n_loggers, 1);
    stance_recipe_free(r);
}
END_TEST

/* ---- precision ---- */

static const struct {
    const char           *text;
    enum stance_precision precision;
    const char           *scaler;
    double                first, growth, backoff;
    int64_t               interval;
} precisions[] = {
    { "fp16: {loss_scale: dynamic}", STANCE_PRECISION_FP16, "dynamic", 65536, 2, 0.5, 2000 },
    { "fp16: {loss_scale: 512.}", STANCE_PRECISION_FP16, "static", 512, 0, 0, 0 },
    { "fp16: {loss_scale: 512}", STANCE_PRECISION_FP16, "static", 512, 0, 0, 0 },
    { "fp16: {}", STANCE_PRECISION_FP16, "static", 512, 0, 0, 0 },
    { "fp16: {loss_scale: {init_scale: 1024, growth_factor: 4, backoff_factor: 0.25, "
      "growth_interval: 5, enabled: true}}",
      STANCE_PRECISION_FP16, "dynamic", 1024, 4, 0.25, 5 },
    { "fp16: {loss_scale: {mode: dynamic, init_scale: 2., scale_factor: 4, scale_window: 7}}",
      STANCE_PRECISION_FP16, "dynamic", 2, 4, 0.25, 7 },
    { "fp16: {loss_scale: {mode: static, init_scale: 128, scale_window: 7}}", STANCE_PRECISION_FP16,
      "static", 128, 0, 0, 0 },
    { "fp16: {loss_scale: {enabled: False}}", STANCE_PRECISION_FP16, "none", 0, 0, 0, 0 },
    { "precision: fp16", STANCE_PRECISION_FP16, "dynamic", 65536, 2, 0.5, 2000 },
    { "precision: bf16", STANCE_PRECISION_BF16, "none", 0, 0, 0, 0 },
    { "precision: auto", STANCE_PRECISION_AUTO, NULL, 0, 0, 0, 0 },
    { "precision: {compute: fp16, scaler: {name: static, scale: 64}}", STANCE_PRECISION_FP16,
      "static", 64, 0, 0, 0 },
    { "precision: {compute: fp16, scaler: 'dynamic:growth_interval=500'}", STANCE_PRECISION_FP16,
      "dynamic", 65536, 2, 0.5, 500 },
    { "precision: {compute: fp16, scaler: 64}", STANCE_PRECISION_FP16, "static", 64, 0, 0, 0 },
    { "precision: {compute: fp16, loss_scale: {mode: dynamic}}", STANCE_PRECISION_FP16, "dynamic",
      65536, 2, 0.5, 2000 },
    { "fp16: {loss_scale: dynamic}\nprecision: fp16", STANCE_PRECISION_FP16, "dynamic", 65536, 2,
      0.5, 2000 },
    { "fp16: {loss_scale: dynamic}\nprecision: {compute: fp16, scaler: dynamic}",
      STANCE_PRECISION_FP16, "dynamic", 65536, 2, 0.5, 2000 },
    { "fp16: ~", STANCE_PRECISION_FP32, "none", 0, 0, 0, 0 },
    { "precision: fp64", STANCE_PRECISION_FP64, "none", 0, 0, 0, 0 },
};

static void check_scaler(const struct stance_recipe *r, const char *name, double first,
                         double growth, double backoff, int64_t interval)
{
    ck_assert_int_eq(name == NULL, r->scaler.name == NULL);
    if (name == NULL)
        return;
    ck_assert_str_eq(r->scaler.name, name);
    if (strcmp(name, "dynamic") == 0) {
        const struct dynamic *d = r->scaler.config;

        ck_assert(d->init_scale == first && d->growth_factor == growth
                  && d->backoff_factor == backoff && d->growth_interval == interval);
    }
    if (strcmp(name, "static") == 0)
        ck_assert_double_eq(((struct fixed *)r->scaler.config)->scale, first);
}

START_TEST(ways_to_ask_for_precision)
{
    struct stance_recipe *r = of_text(precisions[_i].text, NULL);

    ck_assert_int_eq(r->precision, precisions[_i].precision);
    check_scaler(r, precisions[_i].scaler, precisions[_i].first, precisions[_i].growth,
                 precisions[_i].backoff, precisions[_i].interval);
    stance_recipe_free(r);
}
END_TEST

START_TEST(auto_is_settled_later)
{
    struct stance_recipe *r   = of_text("precision: auto\n", NULL);
    struct stance_error   err = STANCE_ERROR_INIT;

    ck_assert_int_eq(stance_recipe_settle_precision(r, STANCE_PRECISION_AUTO, &lookup, &err),
                     STANCE_ERR_INVAL);
    ck_assert_int_eq(stance_recipe_settle_precision(r, STANCE_PRECISION_FP16, &lookup, &err),
                     STANCE_OK);
    ck_assert_int_eq(r->precision, STANCE_PRECISION_FP16);
    check_scaler(r, "dynamic", 65536, 2, 0.5, 2000);
    stance_recipe_free(r);
    r = of_text("precision: {compute: auto, scaler: 8}\n", NULL);
    ck_assert_int_eq(stance_recipe_settle_precision(r, STANCE_PRECISION_BF16, &lookup, &err),
                     STANCE_OK);
    check_scaler(r, "static", 8, 0, 0, 0);
    stance_recipe_free(r);
}
END_TEST

static int  warnings;
static void count_warning(void *ctx, enum stance_log_level level, const char *module,
                          const char *text)
{
    (void)ctx, (void)module, (void)text;
    warnings += level == STANCE_LOG_WARN;
}

static const struct {
    const char                  *text;
    struct stance_recipe_options o;
    enum stance_precision        precision;
    const char                  *scaler;
    double                       first;
    int64_t                      interval;
    int                          warns;
} overrides[] = {
    { "fp16: {loss_scale: 512}",
      { .precision = "fp16" },
      STANCE_PRECISION_FP16,
      "static",
      512,
      0,
      0 },
    { "fp16: {loss_scale: 512}", { .precision = "bf16" }, STANCE_PRECISION_BF16, "none", 0, 0, 0 },
    { "precision: {compute: bf16, scaler: 4}",
      { .precision = "fp16" },
      STANCE_PRECISION_FP16,
      "dynamic",
      65536,
      2000,
      0 },
    { "fp16: {loss_scale: 512}", { .amp = true }, STANCE_PRECISION_AUTO, NULL, 0, 0, 0 },
    { "train: {}", { .precision = "auto", .amp = true }, STANCE_PRECISION_AUTO, NULL, 0, 0, 0 },
    { "fp16: {loss_scale: 512}",
      { .scaler = "dynamic:growth_interval=500" },
      STANCE_PRECISION_FP16,
      "dynamic",
      65536,
      500,
      0 },
    { "fp16: {loss_scale: 512}",
      { .scaler = "dynamic", .precision = "bf16" },
      STANCE_PRECISION_BF16,
      "dynamic",
      65536,
      2000,
      0 },
    { "train: {}", { .scaler = "static" }, STANCE_PRECISION_FP32, "static", 512, 0, 0 },
    { "train: {}",
      { .scaler = "128", .precision = "fp16" },
      STANCE_PRECISION_FP16,
      "static",
      128,
      0,
      0 },
    { "fp16: {loss_scale: 16}", { .use_amp = true }, STANCE_PRECISION_FP16, "static", 16, 0, 0 },
    { "precision: bf16",
      { .use_amp = true, .device = "cuda" },
      STANCE_PRECISION_BF16,
      "none",
      0,
      0,
      0 },
    { "train: {}",
      { .use_amp = true, .device = "cuda:1" },
      STANCE_PRECISION_FP16,
      "dynamic",
      65536,
      2000,
      0 },
    { "device: {name: cuda}",
      { .use_amp = true },
      STANCE_PRECISION_FP16,
      "dynamic",
      65536,
      2000,
      0 },
    { "train: {}", { .use_amp = true }, STANCE_PRECISION_FP32, "none", 0, 0, 1 },
};

START_TEST(options_over_recipe)
{
    struct stance_recipe *r;

    warnings = 0;
    stance_log_set_sink(count_warning, NULL);
    r = of_text(overrides[_i].text, &overrides[_i].o);
    stance_log_set_sink(NULL, NULL);
    ck_assert_int_eq(r->precision, overrides[_i].precision);
    check_scaler(r, overrides[_i].scaler, overrides[_i].first, 2, 0.5, overrides[_i].interval);
    ck_assert_int_eq(warnings, overrides[_i].warns);
    stance_recipe_free(r);
}
END_TEST

START_TEST(numbers_by_option)
{
    const char *const            sets[] = { "train.epochs=5", "train.optimizer.lr=0.25",
                                            "model.backbone={_delete_: true, name: resnet, depth: 18}" };
    struct stance_recipe_options o      = { .sets           = sets,
                                            .n_sets         = 3,
                                            .batch_size     = "8",
                                            .accumulate     = "4",
                                            .clip_grad_norm = "1.5",
                                            .epochs         = "7",
                                            .max_steps      = "9",
                                            .workers        = "0",
                                            .seed           = "11",
                                            .threads        = "2" };
    struct stance_recipe        *r      = of_text(
                    "model: {backbone: {name: hrnet, width: 48}}\ntrain: {batch_size: 64, clip_grad_norm: 3}\n",
                    &o);

    ck_assert(r->train.batch_size == 8 && r->train.accumulate == 4 && r->train.clip_grad_norm == 1.5
              && r->train.epochs == 7);
    ck_assert(r->train.max_steps == 9 && r->train.workers == 0 && r->train.seed == 11
              && r->machine.threads == 2);
    ck_assert(((struct adam *)r->optimizer.config)->lr == 0.25
              && ((struct resnet *)r->backbone.config)->depth == 18);
    ck_assert_int_eq((int)r->train_split.seed, 11);
    stance_recipe_free(r);
    o = (struct stance_recipe_options){ .clip_grad_norm = "null" };
    r = of_text("train: {clip_grad_norm: 3}\n", &o);
    ck_assert(isnan(r->train.clip_grad_norm));
    stance_recipe_free(r);
}
END_TEST

/* ---- mistakes ---- */

static const struct {
    const char                  *text;
    struct stance_recipe_options o;
    int                          exit_status;
    const char                  *says;
} mistakes[] = {
    { "train: {batch_sise: 4}",
      { 0 },
      2,
      "recipe.yaml:1:9: train.batch_sise: unknown key; did you mean 'batch_size'? (line 1)" },
    { "train:\n  lr: 1",
      { 0 },
      2,
      "recipe.yaml:2:3: train.lr: unknown key here; did you mean 'train.optimizer.lr'? (line 2)" },
    { "epochs: 3", { 0 }, 2, "did you mean 'train.epochs'" },
    { "train: {device: cpu}", { 0 }, 2, "'device' belongs to the top level" },
    { "trian: {epochs: 3}", { 0 }, 2, "did you mean 'train'" },
    { "train: {epochs: 0}", { 0 }, 2, "train.epochs: 0 is outside [1, 1000000000] epochs" },
    { "train: 3", { 0 }, 2, "train: a value where a mapping is expected" },
    { "model:\n  backbone: {name: hrnet_w99}",
      { 0 },
      3,
      "recipe.yaml:2:20: model.backbone: no plugin 'hrnet_w99'; known: hrnet, resnet" },
    { "model: {backbone: [hrnet]}",
      { 0 },
      2,
      "model.backbone: a list where a name or a mapping is expected" },
    { "model: {backbone: {name: [a]}}", { 0 }, 2, "model.backbone: a 'name' is expected" },
    { "precision:\n  compute: fp16\n  scaler: {name: dynamic, growth_interval: 0}",
      { 0 },
      2,
      "recipe.yaml:3:44: scaler 'dynamic': growth_interval: 0 is outside [1, 1000000] steps" },
    { "fp16: {loss_scale: {growth_interval: 0}}",
      { 0 },
      2,
      "recipe.yaml:1:38: scaler 'dynamic': growth_interval: 0 is outside" },
    { "fp16: {loss_scale: fast}", { 0 }, 2, "loss_scale: 'fast' is neither a number, nor dynamic" },
    { "fp16: {loss_scale: [1]}", { 0 }, 2, "loss_scale: 'a list' is neither" },
    { "fp16: {loss_scale: {init_scael: 1}}",
      { 0 },
      2,
      "loss_scale.init_scael: unknown key; did you mean 'init_scale'" },
    { "fp16: {loss_scale: {growth_factor: 2, scale_factor: 2}}",
      { 0 },
      2,
      "growth_factor and scale_factor contradict" },
    { "fp16: {loss_scale: {growth_interval: 2, scale_window: 2}}",
      { 0 },
      2,
      "growth_interval and scale_window contradict" },
    { "fp16: {loss_scale: {scale_factor: 1}}",
      { 0 },
      2,
      "scale_factor: '1' is not a number above 1" },
    { "fp16: {loss_scale: {mode: fast}}", { 0 }, 2, "mode: 'fast' is not one of dynamic, static" },
    { "fp16: {loss_scale: {mode: static, growth_factor: 3}}",
      { 0 },
      2,
      "a static scale does not change" },
    { "fp16: {loss_scale: {enabled: maybe}}", { 0 }, 2, "'maybe' is neither true nor false" },
    { "fp16: {lose_scale: 1}",
      { 0 },
      2,
      "fp16.lose_scale: unknown key; did you mean 'loss_scale'" },
    { "fp16: true", { 0 }, 2, "fp16: a value where a mapping is expected" },
    { "fp16: {loss_scale: dynamic}\nprecision: bf16",
      { 0 },
      2,
      "recipe.yaml:1:7: fp16 and the precision of " },
    { "fp16: {loss_scale: dynamic}\nprecision: {compute: fp16, scaler: 512}",
      { 0 },
      2,
      "contradict each other" },
    { "precision: {scaler: dynamic}", { 0 }, 2, "`compute` is missing" },
    { "precision: {compute: fp16, scaler: 1, loss_scale: 1}",
      { 0 },
      2,
      "scaler and loss_scale contradict" },
    { "precision: half",
      { 0 },
      2,
      "precision.compute: 'half' is not one of fp32, bf16, fp16, fp64, auto" },
    { "train: {}",
      { .precision = "fp61" },
      2,
      "--precision: precision.compute: 'fp61' is not one of" },
    { "train: {}",
      { .precision = "fp16", .use_amp = true },
      2,
      "only one of --precision, --amp and --use-amp" },
    { "train: {}", { .precision = "fp16", .amp = true }, 2, "only one of" },
    { "train: {}", { .batch_size = "0" }, 2, "--batch-size: train.batch_size: 0 is outside" },
    { "train: {}", { .seed = "a'b" }, 2, "--seed: 'a'b' is not a number" },
    { "train: {}", { .epochs = "ten" }, 2, "--epochs: train.epochs: 'ten' is not an integer" },
    { "train: {}",
      { .device = "tpu" },
      3,
      "--device: device: no plugin 'tpu'; known: cpu, cuda, ref" },
    { "train: {}",
      { .device = "cpu:winograd=on" },
      2,
      "--device: device 'cpu': winograd: 'on' is not one of auto, off" },
    { "train: {}",
      { .scaler = "dynamic:growth_intervall=3" },
      2,
      "scaler 'dynamic': growth_intervall: unknown key; did you mean 'growth_interval'" },
    { "train:\n  clip_grad_norm: {max_nrom: 3}",
      { 0 },
      2,
      "recipe.yaml:2:30: train.clip_grad_norm.max_nrom: unknown key; known are max_norm and norm_type" },
    { "train: {clip_grad_norm: {norm_type: inf}}", { 0 }, 2, "train.clip_grad_norm: `max_norm` is missing" },
    { "train: {clip_grad_norm: {max_norm: 1, norm_type: 1}}",
      { 0 },
      2,
      "train.clip_grad_norm.norm_type: '1' is not one of 2, inf" },
    { "train: {clip_grad_norm: {max_norm: 1, norm_type: [2]}}", { 0 }, 2, "norm_type: 'a list' is not one of" },
    { "train: {clip_grad_norm: {max_norm: [1]}}", { 0 }, 2, "max_norm: a number is expected" },
    { "train: {clip_grad_norm: {max_norm: 0}}", { 0 }, 2, "train.clip_grad_norm: 0 is outside" },
    { "train: {clip_grad_norm: 1, clip_norm_type: 3}", { 0 }, 2, "clip_norm_type: '3' is not one of 2, inf" },
    { "train: {clip_grad_norm: 1, clip_grad_value: 1}",
      { 0 },
      2,
      "train.clip_grad_value and train.clip_grad_norm contradict each other" },
    { "train: {clip_grad_value: 1}", { .clip_grad_norm = "1" }, 2, "contradict each other" },
    { "train: {ema: {decay: 1}}", { 0 }, 2, "train.ema.decay: 1 is outside" },
    { "train: {ema: {dekay: 0.9}}", { 0 }, 2, "train.ema.dekay: unknown key; did you mean 'decay'" },
    { "train: {ema: {warmup: linear}}", { 0 }, 2, "'linear' is not one of none, ratio, exponential" },
    { "train: {ema: 0.9998}", { 0 }, 2, "train.ema: a value where a mapping is expected" },
    { "train: {loggers: text}", { 0 }, 2, "train.loggers: a list is expected" },
    { "train: {loggers: [nope]}", { 0 }, 3, "train.loggers: no plugin 'nope'" },
    { "train: {loggers: [~]}", { 0 }, 2, "train.loggers: a name is expected" },
    { "data: {input_size: [192]}",
      { 0 },
      2,
      "data.input_size: [width, height] is expected, not 1 numbers" },
    { "data: {heatmap_size: [1, 2, 3]}", { 0 }, 2, "data.heatmap_size: [width, height]" },
    { "test: {modulate_kernel: 12}", { 0 }, 2, "test.modulate_kernel: 12 is even" },
    { "test: {post_process: best}", { 0 }, 2, "'best' is not one of none, default, unbiased" },
    { "model: {pretrained: [a]}", { 0 }, 2, "model.pretrained: a file name is expected" },
    { "data: {info: absent.yaml}", { 0 }, 2, "data.info: " },
    { "data: {info: [1]}", { 0 }, 2, "data.info: a file name or a mapping is expected" },
};

/* Clipping as a number, in MMCV's words, by value; the last row is of the command line over a mapping. */
static const struct {
    const char                  *text;
    struct stance_recipe_options o;
    double                       norm, value; /* 0: none */
    int                          type;
} clips[] = {
    { "train: {}", { 0 }, 0, 0, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: 35}", { 0 }, 35, 0, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: ~}", { 0 }, 0, 0, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: {max_norm: 35, norm_type: 2}}", { 0 }, 35, 0, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: {max_norm: 35, norm_type: 2.0}}", { 0 }, 35, 0, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: {max_norm: 35}}", { 0 }, 35, 0, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: {max_norm: 0.5, norm_type: inf}}", { 0 }, 0.5, 0, STANCE_CLIP_NORM_INF },
    { "train: {clip_grad_norm: {max_norm: 0.5, norm_type: .inf}}", { 0 }, 0.5, 0, STANCE_CLIP_NORM_INF },
    { "train: {clip_grad_norm: 0.5, clip_norm_type: inf}", { 0 }, 0.5, 0, STANCE_CLIP_NORM_INF },
    { "train: {clip_grad_value: 0.25}", { 0 }, 0, 0.25, STANCE_CLIP_NORM_2 },
    { "train: {clip_grad_norm: {max_norm: 0.5, norm_type: inf}}", { .clip_grad_norm = "7" }, 7, 0, STANCE_CLIP_NORM_INF },
};

START_TEST(ways_to_ask_for_clipping)
{
    struct stance_recipe *r = of_text(clips[_i].text, &clips[_i].o), *again;
    struct stance_string  text = { 0 };

    for (int k = 0; k < 2; k++) {
        ck_assert(clips[_i].norm == 0 ? isnan(r->train.clip_grad_norm) : r->train.clip_grad_norm == clips[_i].norm);
        ck_assert(clips[_i].value == 0 ? isnan(r->train.clip_grad_value) : r->train.clip_grad_value == clips[_i].value);
        ck_assert_int_eq(r->train.clip_norm_type, clips[_i].type);
        if (k == 1)
            break;
        stance_recipe_text(r, false, &text); /* the resolved recipe says the same */
        ck_assert(!text.failed);
        again = of_text(text.s, NULL);
        stance_recipe_free(r);
        r = again;
    }
    stance_string_free(&text);
    stance_recipe_free(r);
}
END_TEST

START_TEST(averages_are_asked_for)
{
    struct stance_recipe *r = of_text("train: {epochs: 3}\n", NULL);

    ck_assert(isnan(r->ema.decay) && r->ema.evaluate && r->ema.tau == 2000);
    stance_recipe_free(r);
    r = of_text("train: {ema: {decay: 0.9998, warmup: exponential, tau: 500, statistics: copy, evaluate: false}}\n", NULL);
    ck_assert(r->ema.decay == 0.9998 && r->ema.warmup == STANCE_EMA_EXPONENTIAL && r->ema.tau == 500
              && r->ema.statistics == STANCE_EMA_STATISTICS_COPY && !r->ema.evaluate);
    stance_recipe_free(r);
    r = of_text("train: {ema: {decay: 0.9}}\n", NULL);
    ck_assert(r->ema.decay == 0.9 && r->ema.warmup == STANCE_EMA_RATIO && r->ema.statistics == STANCE_EMA_STATISTICS_AVERAGE);
    stance_recipe_free(r);
}
END_TEST

START_TEST(mistakes_are_placed)
{
    refuse(mistakes[_i].text, &mistakes[_i].o, mistakes[_i].exit_status, mistakes[_i].says);
}
END_TEST

START_TEST(inherited_settings_of_another_plugin)
{
    file("base.yaml", "model: {backbone: {name: hrnet, width: 48}}\n");
    refuse("_base_: base.yaml\nmodel: {backbone: {name: resnet}}\n", NULL, 2,
           "it was inherited: '_delete_: true' beside 'name: resnet'");
}
END_TEST

/* ---- points ---- */

static const char six[] =
    "keypoints: [a, no, left, right, null, '1.0']\nother: [ignored, {x: 1}]\n";

static const struct {
    const char *more, *says;
} infos[] = {
    { "flip_pairs: [[1, 2], [3, 18]]", "flip_pairs: point 18 of a set of 6 points" },
    { "flip_pairs: [[1, 2], [2, 3]]", "flip_pairs: point 2 stands in two pairs" },
    { "flip_pairs: [[1, 1]]", "flip_pairs: point 1 stands in two pairs or twice in one" },
    { "flip_pairs: [[1, 2, 3]]", "flip_pairs: item 0 is not a pair" },
    { "flip_pairs: 3", "flip_pairs: a list of pairs is expected" },
    { "flip_pairs: [[left, wright]]", "flip_pairs: 'wright' is not one of the keypoints" },
    { "flip_pairs: [[-1, 2]]", "flip_pairs: point -1 of a set" },
    { "sigmas: [1, 1]", "sigmas: 2 values for 6 keypoints" },
    { "sigmas: [1, 1, 1, 1, 1, x]", "sigmas: 'x' is not a number above 0" },
    { "sigmas: [1, 1, 1, 1, 1, 0]", "sigmas: '0' is not a number above 0" },
    { "skeleton: [[0, 6]]", "skeleton: point 6 of a set of 6 points" },
    { "upper_body: [7]", "upper_body: point 7 of a set" },
    { "upper_body: a", "upper_body: a list of points" },
    { "sigmas: ~", "data.augment.half_body: 0.3 needs to know the upper body" },
};

START_TEST(points_are_checked)
{
    char text[400];

    snprintf(text, sizeof text, "%s%s\n", six, infos[_i].more);
    file("info.yaml", text);
    refuse("data: {info: info.yaml}\n", NULL, 2, infos[_i].says);
}
END_TEST

START_TEST(points_are_read)
{
    static const char *const names[]   = { "a", "no", "left", "right", "null", "1.0" };
    static const int32_t     partner[] = { 0, 4, 3, 2, 1, 5 };
    struct stance_recipe    *r;
    char                     text[500];

    snprintf(text, sizeof text,
             "%sflip_pairs: [[1, 4], [left, right]]\nsigmas: [.1, .2, .3, .4, .5, .6]\nskeleton: "
             "[[0, 1], [left, 5]]\n"
             "upper_body: [a, 2]\n",
             six);
    file("info.yaml", text);
    r = of_text("data: {info: info.yaml, input_size: [128, 96]}\n", NULL);
    ck_assert_int_eq(r->pose.keypoints, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_str_eq(r->pose.names[i], names[i]);
        ck_assert_int_eq(r->pose.partner[i], partner[i]);
        ck_assert_float_eq(r->pose.sigmas[i], (float)((i + 1) / 10.0));
        ck_assert_int_eq(r->pose.upper[i], i == 0 || i == 2);
    }
    ck_assert(r->pose.bones == 2 && r->pose.skeleton[2] == 2 && r->pose.skeleton[3] == 5
              && r->pose.input_size[1] == 96);
    ck_assert_ptr_eq(r->train_split.info, &r->pose);
    stance_recipe_free(r);
}
END_TEST

START_TEST(shared_data_sets)
{
    static const char *const     sets[]      = { "coco-person",
                                                 "fly32",
                                                 "lspet",
                                                 "mirror-mouse",
                                                 "openfield-mouse",
                                                 "mmpose-samples/deepfashion2",
                                                 "mmpose-samples/coco_wholebody",
                                                 "mmpose-samples/wflw" };
    static const int32_t         points[]    = { 17, 32, 14, 17, 4, 294, 133, 98 };
    const char                  *sets_option = "data.augment.half_body=0";
    struct stance_recipe_options o           = { .sets = &sets_option, .n_sets = 1 };

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char                  name[100], text[4400];
        struct stance_recipe *r;

        snprintf(name, sizeof name, "data/%s/dataset.yaml", sets[i]);
        if (shared_file(name) == NULL) {
            SKIP("data/%s is not here", sets[i]);
            continue;
        }
        snprintf(text, sizeof text, "data: {info: %s}\n", shared_file(name));
        r = of_text(text, i == 0 ? NULL : &o);
        ck_assert_int_eq(r->pose.keypoints, points[i]);
        ck_assert_ptr_nonnull(r->pose.sigmas);
        ck_assert_int_eq(stance_pose_is_coco(&r->pose), i == 0);
        if (i == 0) { /* the table of ours against the file */
            const struct stance_pose *coco = stance_pose_coco();

            ck_assert_int_eq(memcmp(coco->sigmas, r->pose.sigmas, 17 * sizeof(float)), 0);
            ck_assert_int_eq(memcmp(coco->partner, r->pose.partner, 17 * sizeof(int32_t)), 0);
            ck_assert_int_eq(coco->bones, r->pose.bones);
            ck_assert_int_eq(
                memcmp(coco->skeleton, r->pose.skeleton, 2 * (size_t)coco->bones * sizeof(int32_t)),
                0);
            ck_assert_ptr_eq(coco->upper, r->pose.upper);
        }
        stance_recipe_free(r);
    }
}
END_TEST

/* ---- paths, dump, installed recipes ---- */

START_TEST(paths_are_relative_to_their_file)
{
    struct stance_recipe        *r;
    const char                  *set = "model.pretrained=here.pth";
    struct stance_recipe_options o   = { .sets = &set, .n_sets = 1 };
    char                         want[200], here[4200];

    file("base.yaml", "model: {pretrained: sub/w.pth}\ndata: {root: data/x/, train: {annotations: "
                      "a.json, images: /abs}, "
                      "val: {boxes: b.json, annotations: v.json}}\n");
    r = of_text("_base_: base.yaml\n", NULL);
    snprintf(want, sizeof want, "%s/sub/w.pth", folder);
    ck_assert_str_eq(r->pretrained, want);
    ck_assert_str_eq(r->train_split.annotations, "data/x/a.json");
    ck_assert_str_eq(r->train_split.images, "/abs");
    ck_assert_str_eq(r->train_split.boxes, "truth");
    ck_assert_str_eq(r->val_split.boxes, "data/x/b.json");
    stance_recipe_free(r);
    r = of_text("train: {}\n", &o);
    ck_assert_ptr_nonnull(getcwd(here, 4000));
    ck_assert_str_eq(r->pretrained, strcat(here, "/here.pth"));
    stance_recipe_free(r);
}
END_TEST

static char *dump(const struct stance_recipe *r, bool origins)
{
    struct stance_error err = STANCE_ERROR_INIT;
    char               *text;
    size_t              size;
    FILE               *f = open_memstream(&text, &size);

    ck_assert_msg(stance_recipe_dump(r, f, origins, &err) == STANCE_OK, "%s", err.text);
    fclose(f);
    return text;
}

START_TEST(resolved_recipe_reads_back)
{
    struct stance_recipe_options o = { .seed = "3", .device = "cpu:winograd=off" };
    struct stance_recipe        *r, *again;
    char                        *text, *origins, *text2;
    char                         info[500];
    uint64_t                     a = 0, b = 1, c = 2;

    snprintf(info, sizeof info, "%sflip_pairs: [[1, 4]]\nupper_body: [0]\n", six);
    file("info.yaml", info);
    r = of_text("model: {pretrained: w.pth}\ndata: {info: info.yaml, root: 'a b', train: {images: "
                "'null'}}\n"
                "fp16: {loss_scale: {scale_factor: 3}}\ntrain: {clip_grad_norm: 0.1, best: ~, "
                "eval_interval: ~}\n",
                &o);
    text    = dump(r, false);
    origins = dump(r, true);
    ck_assert(stance_recipe_hash(r, &a));
    ck_assert_ptr_nonnull(strstr(origins, "    growth_factor: 3  # "));
    ck_assert_ptr_nonnull(strstr(origins, "recipe.yaml:3:35\n"));
    ck_assert_ptr_nonnull(strstr(origins, "  winograd: off  # --device\n"));
    ck_assert_ptr_nonnull(strstr(origins, "  seed: 3  # --seed\n"));
    ck_assert_ptr_nonnull(strstr(origins, "  epochs: 210  # default\n"));
    for (int i = 0; i < 2; i++) {
        again = load(file("again.yaml", i == 0 ? text : origins), NULL);
        text2 = dump(again, false);
        ck_assert_str_eq(text, text2);
        ck_assert(stance_recipe_hash(again, &b));
        ck_assert(a == b);
        ck_assert(again->pose.keypoints == 6 && again->train.eval_interval == INT64_MIN);
        ck_assert_str_eq(again->train_split.images, "a b/null");
        free(text2);
        stance_recipe_free(again);
    }
    stance_recipe_free(r);
    r = of_text("train: {seed: 4}\n", NULL);
    ck_assert(stance_recipe_hash(r, &c) && c != a);
    stance_recipe_free(r);
    free(text);
    free(origins);
}
END_TEST

START_TEST(full_disk_is_told)
{
    struct stance_recipe *r   = of_text("train: {}\n", NULL);
    struct stance_error   err = STANCE_ERROR_INIT;
    FILE                 *f   = fopen("/dev/full", "w");

    if (f == NULL) {
        SKIP("no /dev/full");
    } else {
        ck_assert_int_eq(stance_recipe_dump(r, f, false, &err), STANCE_ERR_IO);
        fclose(f);
    }
    stance_recipe_free(r);
}
END_TEST

START_TEST(without_lookup_settings_stay)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_recipe *r   = NULL;
    char                 *text;

    ck_assert_msg(stance_recipe_load(
                      file("recipe.yaml", "model: {backbone: {name: mine, any: [1, {b: c}]}}\n"),
                      NULL, NULL, &r, &err)
                      == STANCE_OK,
                  "%s", err.text);
    ck_assert(r->backbone.plugin == NULL && r->backbone.config == NULL);
    ck_assert_str_eq(stance_config_get(r->backbone.settings, "any.1.b")->text, "c");
    text = dump(r, false);
    ck_assert_ptr_nonnull(strstr(text, "    name: mine\n    any: [1, {b: c}]\n"));
    free(text);
    stance_recipe_free(r);
}
END_TEST

/* Facts of MMPose 0.29's configurations. */
static const struct {
    const char *name, *backbone;
    int64_t     size; /* width or depth */
    int32_t     deconvs, width, height;
    double      sigma;
    int64_t     batch;
    const char *scaler;
} published[] = {
    { "hrnet_w32_coco_256x192", "hrnet", 32, 0, 192, 256, 2, 64, "none" },
    { "hrnet_w32_coco_256x192_fp16_dynamic", "hrnet", 32, 0, 192, 256, 2, 64, "dynamic" },
    { "hrnet_w32_coco_256x192_fp16_static512", "hrnet", 32, 0, 192, 256, 2, 64, "static" },
    { "hrnet_w32_coco_384x288", "hrnet", 32, 0, 288, 384, 3, 64, "none" },
    { "hrnet_w48_coco_256x192", "hrnet", 48, 0, 192, 256, 2, 32, "none" },
    { "hrnet_w48_coco_384x288", "hrnet", 48, 0, 288, 384, 3, 32, "none" },
    { "res50_coco_256x192", "resnet", 50, 3, 192, 256, 2, 64, "none" },
    { "res50_coco_256x192_fp16_dynamic", "resnet", 50, 3, 192, 256, 2, 64, "dynamic" },
    { "res50_coco_256x192_fp16_static512", "resnet", 50, 3, 192, 256, 2, 64, "static" },
    { "res50_coco_384x288", "resnet", 50, 3, 288, 384, 3, 64, "none" },
    { "res101_coco_256x192", "resnet", 101, 3, 192, 256, 2, 64, "none" },
    { "res101_coco_384x288", "resnet", 101, 3, 288, 384, 3, 32, "none" },
    { "res152_coco_256x192", "resnet", 152, 3, 192, 256, 2, 32, "none" },
    { "res152_coco_384x288", "resnet", 152, 3, 288, 384, 3, 32, "none" },
};

static void use_recipes_of_the_source(void)
{
    char path[4200];

    ck_assert_ptr_nonnull(getenv("STANCE_SRCDIR"));
    snprintf(path, sizeof path, "/nonexistent::%s/recipes", getenv("STANCE_SRCDIR"));
    setenv("STANCE_RECIPE_PATH", path, 1);
}

START_TEST(published_recipes)
{
    struct stance_recipe *r;
    const struct heatmap *head;

    use_recipes_of_the_source();
    r = load(published[_i].name, NULL);
    ck_assert_str_eq(r->name, published[_i].name);
    ck_assert_str_eq(r->backbone.name, published[_i].backbone);
    ck_assert_int_eq(strcmp(r->backbone.name, "hrnet") == 0
                         ? ((struct hrnet *)r->backbone.config)->width
                         : ((struct resnet *)r->backbone.config)->depth,
                     published[_i].size);
    head = r->head.config;
    ck_assert(head->deconv.n == published[_i].deconvs && head->final_kernel == 1);
    ck_assert(r->pose.input_size[0] == published[_i].width
              && r->pose.input_size[1] == published[_i].height);
    ck_assert(r->pose.heatmap_size[0] * 4 == published[_i].width
              && r->pose.heatmap_size[1] * 4 == published[_i].height);
    ck_assert(r->data.sigma == published[_i].sigma && r->train.batch_size == published[_i].batch
              && r->test.batch_size == 32);
    ck_assert_str_eq(r->scaler.name, published[_i].scaler);
    ck_assert_int_eq(r->precision, strcmp(published[_i].scaler, "none") == 0
                                       ? STANCE_PRECISION_FP32
                                       : STANCE_PRECISION_FP16);
    ck_assert(((struct adam *)r->optimizer.config)->lr == 5e-4 && r->train.epochs == 210
              && r->augment.half_body == 0.3);
    ck_assert_str_eq(r->train_split.annotations,
                     "data/coco/annotations/person_keypoints_train2017.json");
    ck_assert_str_eq(
        r->val_split.boxes,
        "data/coco/person_detection_results/COCO_val2017_detections_AP_H_56_person.json");
    stance_recipe_free(r);
}
END_TEST

START_TEST(every_recipe_of_the_folder_loads)
{
    DIR *d;
    int  count = 0;
    char path[4200];

    use_recipes_of_the_source();
    snprintf(path, sizeof path, "%s/recipes", getenv("STANCE_SRCDIR"));
    d = opendir(path);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strlen(e->d_name) > 5 && strcmp(e->d_name + strlen(e->d_name) - 5, ".yaml") == 0) {
            stance_recipe_free(load(e->d_name, NULL));
            count++;
        }
    closedir(d);
    ck_assert_int_ge(count, (int)(sizeof published / sizeof *published));
}
END_TEST

static stance_status find_in_registry(void *ctx, enum stance_kind kind, const char *name,
                                      const struct stance_plugin **out, struct stance_error *err)
{
    stance_status status = stance_registry_find(ctx, kind, name, out, err);

    /* A build may leave kinds out (--with-dnnl=no: the cpu device). */
    return status == STANCE_ERR_NOENT ? find(NULL, kind, name, out, err) : status;
}

/* Keys of the recipes against the tables of the plugins as they are. */
START_TEST(recipes_fit_the_real_plugins)
{
    struct stance_error          err  = STANCE_ERROR_INIT;
    struct stance_registry      *reg  = NULL;
    struct stance_recipe        *r    = NULL;
    const char                  *set  = "model.backbone=hrnet_w99";
    struct stance_recipe_lookup  real = { find_in_registry, NULL };
    struct stance_recipe_options o    = { .device = "ref", .sets = &set };

    use_recipes_of_the_source();
    ck_assert_msg(stance_registry_new(NULL, &reg, &err) == STANCE_OK, "%s", err.text);
    real.ctx = reg;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        ck_assert_msg(stance_recipe_load(published[i].name, &o, &real, &r, &err) == STANCE_OK, "%s",
                      err.text);
        ck_assert(r->backbone.config != NULL && r->optimizer.config != NULL);
        stance_recipe_free(r);
    }
    o.n_sets = 1;
    ck_assert_int_eq(stance_recipe_load(published[0].name, &o, &real, &r, &err), STANCE_ERR_NOENT);
    ck_assert_msg(strstr(err.text, "--set: model.backbone: ") && strstr(err.text, "hrnet_w99")
                      && strstr(err.text, "resnet"),
                  "%s", err.text);
    stance_registry_free(reg);
}
END_TEST

START_TEST(unknown_recipe_names_are_told)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_recipe *r;

    use_recipes_of_the_source();
    ck_assert_int_eq(stance_recipe_load("hrnet_w32_coco_256x129", NULL, &lookup, &r, &err),
                     STANCE_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "did you mean 'hrnet_w32_coco_256x192'") != NULL, "%s",
                  err.text);
    ck_assert_int_eq(stance_recipe_load("./absent.yaml", NULL, &lookup, &r, &err),
                     STANCE_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "./absent.yaml: cannot be opened") != NULL, "%s", err.text);
}
END_TEST

START_TEST(tasks_get_their_settings)
{
    struct stance_recipe *r = of_text(
        "data: {sigma: 3, padding: 1.5, augment: {shift: 0}}\ntest: {oks_thr: 0.8}\n", NULL);
    struct stance_task_setup s;

    stance_recipe_task_setup(r, stance_pose_coco(), &s);
    ck_assert(s.size == sizeof s && s.pose == stance_pose_coco() && s.sigma == 3 && s.padding == 1.5
              && s.shift == 0);
    ck_assert(s.oks_thr == 0.8 && s.vis_thr == 0.2 && s.rotation == 40);
    stance_recipe_free(r);
}
END_TEST

START_TEST(shortage_of_memory)
{
    const char *const            sets[] = { "train.optimizer.betas=[0.8, 0.9]", "data.root=x" };
    struct stance_recipe_options o      = {
             .sets = sets, .n_sets = 2, .device = "cpu:winograd=off", .seed = "3", .scaler = "dynamic"
    };
    const char   *path;
    char          info[400];
    stance_status status = STANCE_ERR_NOMEM;
    long          n;

    use_recipes_of_the_source();
    snprintf(
        info, sizeof info,
        "%sflip_pairs: [[1, 4]]\nupper_body: [0]\nsigmas: [1, 1, 1, 1, 1, 1]\nskeleton: [[0, 1]]\n",
        six);
    file("info.yaml", info);
    file("base.yaml", "train: {loggers: [text, {name: jsonl}]}\n");
    path = file("recipe.yaml", "_base_: base.yaml\ndata: {info: info.yaml, train: {annotations: "
                               "a.json}}\nmodel: {pretrained: w.pth}\n"
                               "fp16: {loss_scale: {scale_factor: 3}}\n");
    ck_assert_ptr_nonnull(open_plugin("schedule", "step")); /* what is opened first is not the recipe's */
    for (n = 0; status != STANCE_OK; n++) {
        struct stance_recipe *r    = NULL;
        struct stance_error   err  = STANCE_ERROR_INIT;
        struct stance_string  text = { 0 };

        fault_after(n);
        status = stance_recipe_load(path, &o, &lookup, &r, &err);
        if (status == STANCE_OK) {
            stance_recipe_text(r, true, &text);
            if (text.failed)
                status = STANCE_ERR_NOMEM;
        }
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "request %ld: %s", n,
                      err.text);
        stance_string_free(&text);
        stance_recipe_free(r);
        ck_assert_int_eq(fault_live, 0);
    }
    ck_assert_int_gt(n, 25);
    status = STANCE_ERR_NOMEM;
    for (n = 0; status != STANCE_OK; n++) {
        char *found = NULL;

        fault_after(n);
        status = stance_recipe_locate("res50_coco_256x192", &found, NULL);
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        stance_free(found);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void)
{
    Suite *suite = suite_create("recipe");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, defaults_are_those_of_the_contract);
    tcase_add_test(tc, plugins_by_name_by_mapping_and_by_text);
    tcase_add_loop_test(tc, ways_to_ask_for_precision, 0, COUNT(precisions));
    tcase_add_test(tc, auto_is_settled_later);
    tcase_add_loop_test(tc, options_over_recipe, 0, COUNT(overrides));
    tcase_add_test(tc, numbers_by_option);
    tcase_add_loop_test(tc, ways_to_ask_for_clipping, 0, sizeof clips / sizeof *clips);
    tcase_add_test(tc, averages_are_asked_for);
    tcase_add_loop_test(tc, mistakes_are_placed, 0, COUNT(mistakes));
    tcase_add_test(tc, inherited_settings_of_another_plugin);
    tcase_add_loop_test(tc, points_are_checked, 0, COUNT(infos));
    tcase_add_test(tc, points_are_read);
    tcase_add_test(tc, shared_data_sets);
    tcase_add_test(tc, paths_are_relative_to_their_file);
    tcase_add_test(tc, resolved_recipe_reads_back);
    tcase_add_test(tc, full_disk_is_told);
    tcase_add_test(tc, without_lookup_settings_stay);
    tcase_add_loop_test(tc, published_recipes, 0, COUNT(published));
    tcase_add_test(tc, every_recipe_of_the_folder_loads);
    tcase_add_test(tc, recipes_fit_the_real_plugins);
    tcase_add_test(tc, unknown_recipe_names_are_told);
    tcase_add_test(tc, tasks_get_their_settings);
    tcase_add_test(tc, shortage_of_memory);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
