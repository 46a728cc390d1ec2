/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the step share: two small models, a scaler that follows a script, the state as bytes. */
#ifndef TESTS_STEP_MODELS_H
#define TESTS_STEP_MODELS_H

#include "small_graph.h"
#include "snapshot.h"

#include "registry/instance.h"

#include <stance/ops.h>

/* Two convolutions to a quarter of the size, without normalisation: samples do not meet in it. */
static inline void build_convs(struct stance_builder *b, const void *config, struct stance_value image,
                               struct stance_value *out, int *n_out)
{
    static const struct stance_init spread = { STANCE_INIT_NORMAL, 0, 0.15F };

    (void)config;
    for (int i = 1; i <= 2; i++) {
        stance_enter(b, "conv%d", i);
        image = stance_relu(b, stance_conv2d(b, image, 16, 3, 2, true, spread));
        stance_leave(b);
    }
    out[0] = image;
    *n_out = 1;
}

static const struct stance_backbone_ops convs_ops = { .size = sizeof convs_ops, .build = build_convs };
static const struct stance_plugin       convs     = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_BACKBONE, .name = "convs", .ops.backbone = &convs_ops,
};

static const char convs_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18}\n  head: {name: heatmap, deconv: []}\n"
    "  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [32, 32], heatmap_size: [8, 8]}\n"
    "train: {batch_size: 4, optimizer: {name: sgd, lr: 0.5}}\n";

static const char resnet_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [8, 8, 8]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [16, 16]}\n"
    "train: {batch_size: 2, optimizer: {name: adam, lr: 5.0e-4}}\nthreads: %d\n";

/* The scale of window i is script[i]; counts how often it is asked. */
static float script[16];
static int   asked;

struct script_state { int64_t windows; };
static const struct stance_param script_table[] = {
    STANCE_PARAM_I64(struct script_state, windows, "0", 0, 1000000, "windows", "so far"), STANCE_PARAM_END
};

static inline float script_scale(const void *state, const void *config)
{
    (void)config;
    asked++;
    return script[((const struct script_state *)state)->windows];
}

static inline void script_update(void *state, const void *config, const struct stance_outcome *outcome)
{
    (void)config, (void)outcome;
    ((struct script_state *)state)->windows++;
}

static const struct stance_scaler_ops script_ops = {
    .size = sizeof script_ops, .state_size = sizeof(struct script_state), .state = script_table,
    .scale = script_scale, .update = script_update,
};
static const struct stance_plugin scripted = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_SCALER, .name = "scripted", .ops.scaler = &script_ops,
};

static inline void use_scaler(struct step_run *r, const char *spec)
{
    struct stance_error err = STANCE_ERROR_INIT;
    void               *config;

    stance_scaler_free(r->setup.scaler);
    r->setup.scaler = NULL;
    if (strcmp(spec, "scripted") != 0) {
        ck_assert_msg(stance_scaler_from(r->registry, spec, &r->setup.scaler, &err) == STANCE_OK, "%s", err.text);
    } else {
        ck_assert_int_eq(stance_plugin_config_new(&scripted, &config, &err), STANCE_OK);
        ck_assert_int_eq(stance_scaler_new(&scripted, config, &r->setup.scaler, &err), STANCE_OK);
        stance_plugin_config_free(config);
        asked = 0;
    }
    r->options.scaler = r->setup.scaler;
}

static inline void open_convs(struct step_run *r, const char *device, const char *precision)
{
    step_setup(r, convs_recipe, device, precision);
    r->setup.model.backbone = (struct stance_instance){ &convs, NULL };
}

static inline void micro(struct step_run *r, enum stance_step_program which, double weight)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_step_micro(r->step, which, weight, &err) == STANCE_OK, "%s", err.text);
}

static inline struct stance_step_result apply(struct step_run *r, double rate)
{
    struct stance_error       err = STANCE_ERROR_INIT;
    struct stance_step_result result;

    ck_assert_msg(stance_step_apply(r->step, rate, &result, &err) == STANCE_OK, "%s", err.text);
    return result;
}

#endif
