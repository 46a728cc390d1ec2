/* SPDX-License-Identifier: Apache-2.0
 *
 * stance check: everything of a recipe that can be wrong before training starts. */
#include "config.h"

#include "cli/cli.h"
#include "cli/run.h"
#include "data/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static stance_status check_split(const struct stance_setup *s, const char *which, const struct stance_split *split,
                                 struct stance_error *err)
{
    struct stance_check_result r;
    long                       threads = sysconf(_SC_NPROCESSORS_ONLN);
    stance_status status = stance_check_dataset(s->recipe->dataset.plugin->ops.dataset, s->recipe->dataset.config, split,
                                                threads < 1 ? 1 : threads > 16 ? 16 : (int)threads, &r, err);

    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "data.%s", which);
    printf("data.%s: %" PRId64 " samples on %" PRId64 " images, %" PRId64 " of %" PRId64 " points labelled\n", which,
           r.samples, r.images, r.labelled, r.points);
    return STANCE_OK;
}

/* The graph of one sample: shapes and names fit together. */
static stance_status check_model(const struct stance_setup *s, struct stance_error *err)
{
    struct stance_graph *g;
    size_t               n = 0;
    stance_status        status = stance_model_graph(&s->model, 1, true, &g, err);

    if (status != STANCE_OK)
        return status;
    for (size_t i = 0; i < g->n_weights; i++)
        if (g->weights[i].role == STANCE_ROLE_PARAM)
            n += (size_t)stance_elements(&g->weights[i].shape);
    printf("model: %s + %s, %zu parameters, %d keypoints, input %dx%d, heatmap %dx%d\n", s->recipe->backbone.name,
           s->recipe->head.name, n, s->pose.keypoints, s->pose.input_size[0], s->pose.input_size[1],
           s->pose.heatmap_size[0], s->pose.heatmap_size[1]);
    stance_graph_free(g);
    return STANCE_OK;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct stance_registry *registry = NULL;
    struct stance_setup     s        = { 0 };
    stance_status           status   = stance_command_registry(c, &registry, err);

    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD, &s, NULL, err);
    if (status == STANCE_OK)
        printf("recipe: %s, device %s, precision %s, scaler %s\n", s.recipe->file, s.recipe->device.name,
               stance_policy_word(s.policy), stance_scaler_name(s.scaler));
    if (status == STANCE_OK)
        status = check_split(&s, "train", &s.recipe->train_split, err);
    if (status == STANCE_OK)
        status = check_split(&s, "val", &s.recipe->val_split, err);
    stance_setup_clear(&s);
    /* Now with the points of the data, which the model needs. */
    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, STANCE_SETUP_TRAIN | STANCE_SETUP_VAL, &s, NULL, err);
    if (status == STANCE_OK)
        status = check_model(&s, err);
    stance_setup_clear(&s);
    stance_registry_free(registry);
    return status == STANCE_OK ? 0 : STANCE_FAILED;
}

static const struct stance_option *const tables[] = { stance_run_options, NULL };

const struct stance_verb stance_verb_check = {
    .name = "check", .summary = "Check a recipe, its plugins and all its data", .arguments = "RECIPE",
    .min_args = 1, .max_args = 1, .options = tables, .run = run,
    .doc = "Decodes every image and names every bad annotation and file by id and reason. Writes nothing.",
};
