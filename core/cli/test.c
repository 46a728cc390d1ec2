/* SPDX-License-Identifier: Apache-2.0
 *
 * stance test: the scores of a checkpoint on data.val. */
#include "config.h"

#include "cli/cli.h"
#include "cli/run.h"
#include "cli/sheet.h"
#include "eval/results.h"
#include "eval/summary.h"
#include "train/evaluate.h"
#include "train/weights.h"

#include <stdio.h>
#include <string.h>

static void print_metrics(const struct stance_metric *m, int n, bool json)
{
    double stats[STANCE_COCO_STATS];
    bool   coco = n == STANCE_COCO_STATS;

    for (int i = 0; i < n && i < STANCE_COCO_STATS; i++) {
        stats[i] = m[i].value;
        coco     = coco && strcmp(m[i].name, stance_summary_name(i)) == 0;
    }
    if (coco && json)
        stance_summary_json(stdout, stats);
    else if (coco)
        stance_summary_print(stdout, stats);
    else
        for (int i = 0; i < n; i++)
            printf(json ? "%s\"%s\": %.17g%s" : "%s%s: %.6f%s", json && i == 0 ? "{" : "", m[i].name, m[i].value,
                   json ? i + 1 < n ? ", " : "}\n" : "\n");
}

static stance_status test(const struct stance_command *c, struct stance_setup *s, struct stance_error *err)
{
    struct stance_step_options o = {
        .model = &s->model, .device = s->device, .policy = s->policy, .eval_batch = (int32_t)s->recipe->test.batch_size,
        .eval_last_batch = stance_evaluation_last_batch(s),
    };
    struct stance_step             *step = NULL;
    struct stance_evaluation       *e    = NULL;
    struct stance_metric            m[STANCE_METRICS_MAX] = { 0 };
    const struct stance_prediction *p;
    const char                     *out = stance_command_text(c, "out"), *sheet = stance_command_text(c, "sheet");
    int64_t                         count;
    int                             n = 0;
    stance_status                   status = stance_step_new(&o, &step, err);

    if (status == STANCE_OK)
        status = stance_command_has(c, "ema") ? stance_weights_load_average(stance_step_store(step), c->args[1], err)
                                              : stance_weights_load(stance_step_store(step), c->args[1], NULL, err);
    if (status == STANCE_OK)
        status = stance_evaluation_new(s, step, (int)s->recipe->train.workers, 0, &e, err);
    if (status == STANCE_OK)
        status = stance_evaluation_run(e, &p, &count, NULL, err);
    if (status == STANCE_OK)
        status = stance_evaluation_score(e, m, &n, err);
    if (status == STANCE_OK && out != NULL) {
        struct stance_results r = { .pose = &s->pose, .p = p, .count = count };

        status = stance_results_write(out, STANCE_RESULTS_COCO, &r, err);
    }
    if (status == STANCE_OK && sheet != NULL)
        status = stance_sheet_write(sheet, s, p, count, &m[0], err);
    if (status == STANCE_OK)
        print_metrics(m, n, stance_command_has(c, "json"));
    stance_evaluation_free(e);
    stance_step_free(step);
    return status;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct stance_registry *registry = NULL;
    struct stance_setup     setup    = { 0 };
    stance_status           status   = stance_command_registry(c, &registry, err);

    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, STANCE_SETUP_VAL | STANCE_SETUP_DEVICE, &setup, NULL, err);
    if (status == STANCE_OK)
        status = test(c, &setup, err);
    stance_setup_clear(&setup);
    stance_registry_free(registry);
    return status == STANCE_OK ? 0 : STANCE_FAILED;
}

static const struct stance_option options[] = {
    { .name = "out", .kind = STANCE_OPTION_TEXT, .argument = "FILE", .doc = "write the results as a COCO result file" },
    { .name = "sheet", .kind = STANCE_OPTION_TEXT, .argument = "FILE", .doc = "draw twelve of the results into one PNG file" },
    { .name = "ema", .kind = STANCE_OPTION_FLAG, .doc = "the averaged weights of the checkpoint (train.ema) instead of its weights" },
    { .name = "json", .kind = STANCE_OPTION_FLAG, .doc = "print one JSON object" },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, stance_run_options, NULL };

const struct stance_verb stance_verb_test = {
    .name = "test", .summary = "Score a checkpoint on the validation data", .arguments = "RECIPE CKPT",
    .min_args = 2, .max_args = 2, .options = tables, .run = run,
    .doc = "CKPT is a checkpoint of stance, or a state dict (.safetensors, .pth) with the published names.",
};
