/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a recipe: their keys, defaults and ranges. Defaults are those of MMPose's
 * hrnet_w32_coco_256x192. */
#include "config.h"

#include "config/recipe_priv.h"

#include <string.h>

static const char *const bad_image_words[]    = { "error", "skip", NULL };
static const char *const post_process_words[] = { "none", "default", "unbiased", NULL };
static const char *const on_skip_words[]      = { "advance", "hold", NULL };
static const char *const clip_norm_words[]    = { "2", "inf", NULL };
static const char *const ema_warmup_words[]   = { "none", "ratio", "exponential", NULL };
static const char *const ema_statistics_words[] = { "average", "copy", NULL };
static const char *const recompute_words[]    = { "none", "norm", "block", NULL };

static const struct stance_param machine_table[] = {
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_machine, threads, "null", 1, 4096, "threads",
                             "threads that compute; null: as many as the device finds"),
    STANCE_PARAM_END,
};

static const struct stance_param data_table[] = {
    STANCE_PARAM_TEXT(struct stance_recipe_data, root, "",
                      "folder that the data paths are relative to"),
    STANCE_PARAM_LIST_I64(struct stance_recipe_data, input_size, "[192, 256]", 1, 8192, "px",
                          "width, height of the network's input"),
    STANCE_PARAM_LIST_I64(struct stance_recipe_data, heatmap_size, "[48, 64]", 1, 8192, "px",
                          "width, height of a heatmap"),
    STANCE_PARAM_F64(struct stance_recipe_data, sigma, "2", 0.01, 1000, "px",
                     "of the target's Gaussian, in pixels of the heatmap"),
    STANCE_PARAM_BOOL(struct stance_recipe_data, unbiased_encoding, "false",
                      "targets around the unrounded point (DARK)"),
    STANCE_PARAM_F64(struct stance_recipe_data, padding, "1.25", 0.1, 100, "1",
                     "the box is made larger by this factor"),
    STANCE_PARAM_ENUM(struct stance_recipe_data, on_bad_image, "error", bad_image_words,
                      "what an unreadable image does"),
    STANCE_PARAM_END,
};

#define PART_TABLE(name, count)                                                                    \
    static const struct stance_param name[] = {                                                    \
        STANCE_PARAM_TEXT(struct stance_recipe_part, annotations, "", "COCO keypoint file"),       \
        STANCE_PARAM_TEXT(struct stance_recipe_part, images, "", "folder of the images"),          \
        STANCE_PARAM_TEXT(struct stance_recipe_part, boxes, "truth",                               \
                          "truth: those of the annotations; else a COCO detection file"),          \
        STANCE_PARAM_I64(struct stance_recipe_part, samples, count, 1, 1e12, "samples",            \
                         "samples to draw (synthetic)"),                                           \
        STANCE_PARAM_END,                                                                          \
    }
PART_TABLE(train_part_table, "1024");
PART_TABLE(val_part_table, "128");

static const struct stance_param augment_table[] = {
    STANCE_PARAM_F64(struct stance_recipe_augment, flip, "0.5", 0, 1, "1",
                     "probability of mirroring"),
    STANCE_PARAM_F64(struct stance_recipe_augment, half_body, "0.3", 0, 1, "1",
                     "probability of showing one half of the body"),
    STANCE_PARAM_F64(struct stance_recipe_augment, rotation, "40", 0, 180, "degrees",
                     "standard deviation; at most twice that"),
    STANCE_PARAM_F64(struct stance_recipe_augment, rotation_prob, "0.6", 0, 1, "1",
                     "probability of rotating"),
    STANCE_PARAM_F64(struct stance_recipe_augment, scale, "0.5", 0, 0.99, "1",
                     "standard deviation of the scale, and its limit"),
    STANCE_PARAM_F64(struct stance_recipe_augment, shift, "0.16", 0, 10, "1",
                     "largest shift, in parts of the box"),
    STANCE_PARAM_F64(struct stance_recipe_augment, shift_prob, "0.3", 0, 1, "1",
                     "probability of shifting"),
    STANCE_PARAM_END,
};

static const struct stance_param test_table[] = {
    STANCE_PARAM_BOOL(struct stance_recipe_test, flip, "true", "average with the mirrored image"),
    STANCE_PARAM_BOOL(struct stance_recipe_test, shift_heatmap, "true",
                      "move the mirrored heatmap by one column"),
    STANCE_PARAM_ENUM(struct stance_recipe_test, post_process, "default", post_process_words,
                      "refinement of the maximum"),
    STANCE_PARAM_I64(struct stance_recipe_test, modulate_kernel, "11", 1, 999, "px",
                     "width of the Gaussian of `unbiased`, odd"),
    STANCE_PARAM_F64(struct stance_recipe_test, oks_thr, "0.9", 0, 1, "1",
                     "OKS above which the weaker pose is dropped"),
    STANCE_PARAM_F64(struct stance_recipe_test, vis_thr, "0.2", 0, 1, "1",
                     "score above which a point counts in rescoring"),
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_test, batch_size, "null", 1, 1e6, "samples",
                             "null: train.batch_size"),
    STANCE_PARAM_END,
};

static const struct stance_param train_table[] = {
    STANCE_PARAM_I64(struct stance_recipe_train, epochs, "210", 1, 1e9, "epochs",
                     "length of the run"),
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_train, max_steps, "null", 1, 1e15, "steps",
                             "end the run after so many"),
    STANCE_PARAM_I64(struct stance_recipe_train, batch_size, "64", 1, 1e6, "samples",
                     "per process"),
    STANCE_PARAM_I64(struct stance_recipe_train, accumulate, "1", 1, 1e6, "batches",
                     "whose gradients make one step"),
    STANCE_PARAM_BOOL(struct stance_recipe_train, accumulate_flush, "false",
                      "a step at the end of each epoch, with what there is"),
    STANCE_PARAM_BOOL(struct stance_recipe_train, accumulate_drop, "false",
                      "no step for the batches left over at the end of the run (accumulate_flush: of "
                      "each epoch)"),
    STANCE_PARAM_F64_OR_NULL(struct stance_recipe_train, clip_grad_norm, "null", 1e-30, 1e30, "1",
                             "largest norm of the gradient, or {max_norm: X, norm_type: 2|inf}"),
    STANCE_PARAM_ENUM(struct stance_recipe_train, clip_norm_type, "2", clip_norm_words,
                      "norm that clip_grad_norm is of: L2, or the largest magnitude"),
    STANCE_PARAM_F64_OR_NULL(struct stance_recipe_train, clip_grad_value, "null", 1e-30, 1e30, "1",
                             "largest magnitude of each number of the gradient, instead of a norm"),
    STANCE_PARAM_ENUM(struct stance_recipe_train, on_skip, "advance", on_skip_words,
                      "what a skipped step does to the schedule"),
    STANCE_PARAM_I64_OR_NULL(
        struct stance_recipe_train, max_consecutive_skips, "null", 1, 1e9, "steps",
        "end the run after so many skipped steps in a row; null: by the scaler's range"),
    STANCE_PARAM_I64(struct stance_recipe_train, seed, "0", 0, 9e15, "1", "of every random number"),
    STANCE_PARAM_I64(struct stance_recipe_train, workers, "2", 0, 1024, "threads",
                     "that load data"),
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_train, eval_interval, "10", 1, 1e9, "epochs",
                             "between evaluations; null: never"),
    STANCE_PARAM_TEXT(struct stance_recipe_train, best, "AP",
                      "metric whose best checkpoint is kept"),
    STANCE_PARAM_I64(struct stance_recipe_train, log_interval, "50", 1, 1e9, "iterations",
                     "between lines of the log"),
    STANCE_PARAM_BOOL(struct stance_recipe_train, debug_overflow, "false",
                      "name the first tensor that is not finite at every overflow"),
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_train, histogram_interval, "null", 1, 1e15, "steps",
                             "between histograms of gradient exponents; null: none"),
    STANCE_PARAM_END,
};

static const struct stance_param checkpoint_table[] = {
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_checkpoint, epochs, "10", 1, 1e9, "epochs",
                             "between checkpoints; null: never"),
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_checkpoint, steps, "null", 1, 1e15, "steps",
                             "between checkpoints; null: never"),
    STANCE_PARAM_I64_OR_NULL(struct stance_recipe_checkpoint, keep, "3", 1, 1e9, "files",
                             "newest checkpoints kept; null: all"),
    STANCE_PARAM_END,
};

static const struct stance_param ema_table[] = {
    STANCE_PARAM_F64_OR_NULL(struct stance_recipe_ema, decay, "null", 0, 0.9999999, "1",
                             "keep a moving average of the weights that keeps this share of itself "
                             "each step (0.9998); null: none"),
    STANCE_PARAM_ENUM(struct stance_recipe_ema, warmup, "ratio", ema_warmup_words,
                      "of the decay over steps t: min(decay, (1+t)/(10+t)), or decay (1-exp(-t/tau))"),
    STANCE_PARAM_F64(struct stance_recipe_ema, tau, "2000", 1e-3, 1e12, "steps",
                     "time constant of the exponential warm-up"),
    STANCE_PARAM_ENUM(struct stance_recipe_ema, statistics, "average", ema_statistics_words,
                      "running statistics: averaged like the weights, or those of the run"),
    STANCE_PARAM_BOOL(struct stance_recipe_ema, evaluate, "true",
                      "evaluations of the run score the average"),
    STANCE_PARAM_END,
};

static const struct stance_param memory_table[] = {
    STANCE_PARAM_ENUM(struct stance_recipe_memory, recompute, "none", recompute_words,
                      "what the backward pass computes again instead of keeping it, with the same bytes: norm: "
                      "normalisation and activation; block: everything between a few values that it chooses"),
    STANCE_PARAM_END,
};

static const struct stance_param comm_table[] = {
    STANCE_PARAM_TEXT(struct stance_recipe_comm, name, "auto",
                      "how several processes exchange numbers: mpi, nccl; auto: by the device"),
    STANCE_PARAM_F64(struct stance_recipe_comm, bucket, "25", 0.001, 4096, "MB",
                     "of gradients, summed over the processes while the backward pass goes on"),
    STANCE_PARAM_BOOL(struct stance_recipe_comm, sync_bn, "false",
                      "batch norms by the statistics of the batches of all processes"),
    STANCE_PARAM_F64(struct stance_recipe_comm, timeout, "1800", 0, 1e9, "s",
                     "of waiting for the other processes; 0: no limit"),
    STANCE_PARAM_END,
};

static const char *const top_extra[]   = { "model",  "data",   "test", "train", "precision", "fp16",
                                           "device", "memory", "comm", NULL };
static const char *const model_extra[] = { "task", "backbone", "head", "loss", "pretrained", NULL };
static const char *const data_extra[]  = { "dataset", "info", "train", "val", "augment", NULL };
static const char *const train_extra[] = { "optimizer", "schedule", "checkpoint", "ema", "loggers", NULL };

const struct stance_recipe_section stance_recipe_sections[] = {
    { "", machine_table, top_extra, offsetof(struct stance_recipe, machine) },
    { "model", NULL, model_extra, 0 },
    { "data", data_table, data_extra, offsetof(struct stance_recipe, data) },
    { "data.train", train_part_table, NULL, offsetof(struct stance_recipe, train_part) },
    { "data.val", val_part_table, NULL, offsetof(struct stance_recipe, val_part) },
    { "data.augment", augment_table, NULL, offsetof(struct stance_recipe, augment) },
    { "test", test_table, NULL, offsetof(struct stance_recipe, test) },
    { "train", train_table, train_extra, offsetof(struct stance_recipe, train) },
    { "train.checkpoint", checkpoint_table, NULL, offsetof(struct stance_recipe, checkpoint) },
    { "train.ema", ema_table, NULL, offsetof(struct stance_recipe, ema) },
    { "memory", memory_table, NULL, offsetof(struct stance_recipe, memory) },
    { "comm", comm_table, NULL, offsetof(struct stance_recipe, comm) },
    { NULL, NULL, NULL, 0 }
};

enum { SECTIONS = sizeof stance_recipe_sections / sizeof *stance_recipe_sections - 1, PLUGINS = 8 };

/* The schema of this recipe: the sections, and the tables of the plugins it chooses, so that `lr`
 * under `train` is told to belong to `train.optimizer`. */
static void make_schema(const struct stance_recipe  *r,
                        struct stance_config_section out[SECTIONS + PLUGINS + 1])
{
    const struct stance_recipe_plugin *plugins[PLUGINS] = { &r->optimizer, &r->schedule,
                                                            &r->backbone,  &r->head,
                                                            &r->loss,      &r->dataset,
                                                            &r->scaler,    &r->device };
    size_t                             n                = 0;

    for (size_t i = 0; i < SECTIONS; i++)
        out[n++] = (struct stance_config_section){ stance_recipe_sections[i].path,
                                                   stance_recipe_sections[i].table,
                                                   stance_recipe_sections[i].extra };
    for (size_t i = 0; i < PLUGINS; i++)
        if (plugins[i]->plugin != NULL)
            out[n++] = (struct stance_config_section){ plugins[i]->path, plugins[i]->plugin->params,
                                                       NULL };
    out[n] = (struct stance_config_section){ NULL, NULL, NULL };
}

static stance_status check_pair(const struct stance_recipe *r, const char *name,
                                const struct stance_list_i64 *list, struct stance_error *err)
{
    char                             dotted[64];
    const struct stance_config_node *n;

    if (list->n == 2)
        return STANCE_OK;
    strcpy(dotted, "data.");
    strncat(dotted, name, sizeof dotted - 6);
    n = stance_config_get(r->tree->root, dotted);
    return stance_config_fail(err, STANCE_ERR_INVAL, n != NULL ? n : r->tree->root,
                              "%s: [width, height] is expected, not %d numbers", dotted,
                              (int)list->n);
}

stance_status stance_recipe_read_sections(struct stance_recipe *r, struct stance_error *err)
{
    struct stance_config_section     schema[SECTIONS + PLUGINS + 1];
    const struct stance_config_node *n;
    stance_status                    status = STANCE_OK;

    make_schema(r, schema);
    for (size_t i = 0; i < SECTIONS && status == STANCE_OK; i++) {
        void *at = (char *)r + stance_recipe_sections[i].offset;

        n      = stance_config_get(r->tree->root, stance_recipe_sections[i].path);
        status = stance_param_defaults(stance_recipe_sections[i].table, at, err);
        if (status == STANCE_OK)
            status = stance_config_fill_section(n, &schema[i], schema, at, err);
    }
    if (status == STANCE_OK)
        status = check_pair(r, "input_size", &r->data.input_size, err);
    if (status == STANCE_OK)
        status = check_pair(r, "heatmap_size", &r->data.heatmap_size, err);
    if (status == STANCE_OK && r->test.modulate_kernel % 2 == 0) {
        n      = stance_config_get(r->tree->root, "test.modulate_kernel");
        status = stance_config_fail(err, STANCE_ERR_RANGE, n, "test.modulate_kernel: %d is even",
                                    (int)r->test.modulate_kernel);
    }
    if (status == STANCE_OK && r->train.clip_grad_norm > 0 && r->train.clip_grad_value > 0) {
        n      = stance_config_get(r->tree->root, "train.clip_grad_value");
        status = stance_config_fail(err, STANCE_ERR_INVAL, n,
                                    "train.clip_grad_value and train.clip_grad_norm contradict each other");
    }
    if (status == STANCE_OK && r->test.batch_size == INT64_MIN)
        r->test.batch_size = r->train.batch_size;
    return status;
}
