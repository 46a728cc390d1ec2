/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/environment.h"
#include "config/recipe_keys.h"
#include "config/recipe_priv.h"

#include <dirent.h>
#include <string.h>

/* The defaults are those of recipe_plugins.c and recipe_precision.c; tests/docs/pages holds them against
 * `stance config`. */
const struct stance_recipe_key stance_recipe_keys[] = {
    { "_base_", STANCE_KIND_COUNT, "[]",
      "recipes that are merged first: a file or a list of files, relative to this one, or names of installed ones" },
    { "model.task", STANCE_KIND_TASK, "top_down", "joins the others: targets, predictions, scores" },
    { "model.backbone", STANCE_KIND_BACKBONE, "{name: hrnet, width: 32}", "from the image to features" },
    { "model.head", STANCE_KIND_HEAD, "{name: heatmap, deconv: []}", "from features to outputs, and from those to points" },
    { "model.loss", STANCE_KIND_LOSS, "{name: joints_mse, use_target_weight: true}", "what training makes small" },
    { "model.pretrained", STANCE_KIND_COUNT, "null",
      "a .pth or .safetensors file with weights of the backbone, relative to the recipe" },
    { "data.dataset", STANCE_KIND_DATASET, "coco", "reads annotations and images, or draws them" },
    { "data.info", STANCE_KIND_COUNT, "null",
      "a file with keypoints, flip_pairs, sigmas, skeleton and upper_body, relative to the recipe, or a mapping of "
      "these; null: COCO's 17 points, or the names of the annotation file's category" },
    { "train.optimizer", STANCE_KIND_OPTIMIZER, "{name: adam, lr: 5.0e-4}", "the update rule" },
    { "train.schedule", STANCE_KIND_SCHEDULE,
      "{name: step, steps: [170, 200], gamma: 0.1, warmup: linear, warmup_iters: 500, warmup_ratio: 0.001}",
      "the learning rate over time" },
    { "train.loggers", STANCE_KIND_LOGGER, "[text, jsonl]", "a list of them: who receives the numbers of the run" },
    { "precision", STANCE_KIND_COUNT, "fp32",
      "fp32, bf16, fp16, fp64 or auto: type of activations and weight copies; or {compute: P, scaler: S}" },
    { "precision.scaler", STANCE_KIND_SCALER, "dynamic for fp16, else none", "the loss-scaling strategy" },
    { "fp16", STANCE_KIND_COUNT, "null",
      "MMPose's form: {loss_scale: dynamic}, a number, or a mapping with the names of PyTorch's GradScaler or of MMCV; "
      "the same as precision fp16 with that scaler" },
    { "device", STANCE_KIND_DEVICE, "cpu", "what computes; ref by default where stance is built without oneDNN" },
    { NULL, STANCE_KIND_COUNT, NULL, NULL },
};

const char *stance_recipe_section(size_t i, const struct stance_param **table)
{
    *table = stance_recipe_sections[i].table;
    return stance_recipe_sections[i].path;
}

const char *const *stance_recipe_section_extra(size_t i)
{
    return stance_recipe_sections[i].extra;
}

static void each_in(const char *folder, size_t len, void (*found)(void *ctx, const char *name), void *ctx)
{
    char           path[4096], name[256];
    DIR           *d;
    struct dirent *e;

    if (len == 0 || len >= sizeof path)
        return;
    memcpy(path, folder, len);
    path[len] = '\0';
    d         = opendir(path);
    while (d != NULL && (e = readdir(d)) != NULL) {
        size_t n = strlen(e->d_name);

        if (n < 6 || n >= sizeof name || strcmp(e->d_name + n - 5, ".yaml") != 0)
            continue;
        memcpy(name, e->d_name, n - 5);
        name[n - 5] = '\0';
        found(ctx, name);
    }
    if (d != NULL)
        closedir(d);
}

void stance_recipe_each(void (*found)(void *ctx, const char *name), void *ctx)
{
    const char *list = stance_env(STANCE_ENV_RECIPE_PATH);

    while (list != NULL && *list != '\0') {
        size_t len = strcspn(list, ":");

        each_in(list, len, found, ctx);
        list += len + (list[len] == ':');
    }
    each_in(STANCE_RECIPE_DIR, strlen(STANCE_RECIPE_DIR), found, ctx);
}
