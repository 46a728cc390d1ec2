/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration files, learning rates, and the place in a job. */
#include "config.h"

#include "../case_schema.h"
#include "walk.h"

#include "registry/instance.h"
#include "train/launch.h"
#include "train/schedule.h"

#include <stance/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANCE_LOG_MODULE "walk"

/* ---- load-config ----------------------------------------------------------------------------- */

static void load_config(struct walk *w)
{
    const char                      *file = walk_path(w, walk_need(w, "config"));
    struct case_config               c    = { 0 };
    const struct stance_config_node *values, *absent;
    char                             text[4096];
    bool                             schema = walk_bool(w, "schema_check", true);

    if (walk_failed(w))
        return;
    w->status = case_config_load(file, schema, &c, &w->err);
    if (w->status != STANCE_OK)
        return;
    values = walk_expects(w, "values");
    absent = walk_expects(w, "absent");
    for (size_t i = 0; values != NULL && i < values->count; i++)
        if (!case_config_matches(&c, values->child[i]->key, values->child[i]))
            walk_fail(w, "%s is %.200s", values->child[i]->key,
                      case_config_value(&c, values->child[i]->key, text, sizeof text) ? text
                                                                                      : "absent");
    for (size_t i = 0; absent != NULL && i < absent->count; i++)
        if (!stance_config_is_null(stance_config_get(c.tree->root, absent->child[i]->text)))
            walk_fail(w, "%s is there", absent->child[i]->text);
    case_config_free(&c);
}

/* ---- lr-trace -------------------------------------------------------------------------------- */

/* The formulas that the cases give in words; the plugin `step` with a linear warm-up is this one.
 */
#define RULE                                                                                       \
    "step < warmup_steps: lr * (factor + (1 - factor) * step / warmup_steps); lr * gamma per "     \
    "milestone epoch "                                                                             \
    "reached"

static void rates(struct walk *w, const struct stance_plugin *p, void *config)
{
    size_t                 n;
    double                *step = walk_numbers(w, walk_get(w, "at_step"), "at_step", &n);
    struct stance_progress at   = { .size                 = sizeof at,
                                    .base_rate            = walk_f64(w, "base_lr", 0),
                                    .epochs               = walk_i64(w, "epochs", 0),
                                    .iterations_per_epoch = walk_i64(w, "steps_per_epoch", 0) };
    int64_t                from = walk_i64(w, "resume_at_step", 0);
    char                   text[300];

    if (at.iterations_per_epoch < 1 || !walk_has(w, "base_lr") || n == 0)
        walk_fail(w, "base_lr, steps_per_epoch and at_step are wanted");
    if (walk_has(w, "epochs")
        && stance_schedule_warning(p, config, at.epochs * at.iterations_per_epoch, text,
                                   sizeof text))
        STANCE_LOG(STANCE_LOG_WARN, "%s", text);
    for (size_t i = 0; i < n && !walk_failed(w); i++) {
        /* A run that goes on knows nothing but its counters. */
        at.iteration = (int64_t)step[i];
        at.epoch     = at.iteration / at.iterations_per_epoch;
        if (at.iteration < from)
            walk_fail(w, "at_step: %g is before the step that the run goes on from", step[i]);
        step[i] = p->ops.schedule->rate(config, &at);
    }
    if (!walk_failed(w))
        walk_is_list(w, "lr", step, n);
    stance_free(step);
}

static void lr_trace(struct walk *w)
{
    const struct stance_plugin *p;
    const char                 *rule = walk_text(w, "rule", RULE);
    void                       *config;

    if (strcmp(rule, RULE) != 0)
        walk_fail(w, "rule: '%.200s' is not known", rule);
    p = walk_plugin(w, STANCE_KIND_SCHEDULE, "step", &config);
    if (p == NULL)
        return;
    if (walk_i64(w, "warmup_steps", 0) != 0) {
        walk_param(w, p, config, "warmup_iters", "warmup_steps");
        walk_param(w, p, config, "warmup_ratio", "warmup_factor");
        if (w->status == STANCE_OK)
            w->status = stance_param_set(p->params, config, "warmup", "linear", &w->err);
    }
    if (!walk_has(w, "milestones_epoch"))
        w->status = stance_param_set(p->params, config, "steps", "[]", &w->err);
    walk_param(w, p, config, "steps", "milestones_epoch");
    walk_param(w, p, config, "gamma", "gamma");
    walk_param(w, p, config, "min_lr", "min_lr");
    if (w->status == STANCE_OK && !walk_failed(w))
        rates(w, p, config);
    stance_plugin_config_free(config);
}

/* ---- detect-launch --------------------------------------------------------------------------- */

static void detect_launch(struct walk *w)
{
    const struct stance_config_node *vars = walk_get(w, "environment");
    size_t                n     = vars != NULL && vars->kind == STANCE_CONFIG_MAP ? vars->count : 0;
    const char          **list  = stance_calloc(n + 1, sizeof *list);
    struct stance_string *text  = stance_calloc(n + 1, sizeof *text);
    struct stance_place   place = { 0 };

    if (list == NULL || text == NULL)
        abort();
    if (vars == NULL || (n == 0 && vars->kind == STANCE_CONFIG_LIST))
        walk_fail(w, "environment is not a mapping");
    for (size_t i = 0; i < n; i++) {
        stance_string_add(&text[i], "%s=%s", vars->child[i]->key,
                          vars->child[i]->text != NULL ? vars->child[i]->text : "");
        list[i] = text[i].s;
    }
    w->status = stance_place_detect(list, &place, &w->err);
    if (w->status == STANCE_OK) {
        walk_is_f64(w, "rank", place.rank);
        walk_is_f64(w, "world", place.world);
        walk_is_f64(w, "local_rank", place.local_rank);
        walk_is_bool(w, "writes_files", place.writes);
    }
    for (size_t i = 0; i < n; i++)
        stance_string_free(&text[i]);
    stance_free(text);
    stance_free(list);
}

const struct walk_do walk_settings[] = {
    { "load-config", load_config, "config schema_check", "values absent" },
    { "lr-trace", lr_trace,
      "base_lr warmup_steps warmup_factor milestones_epoch gamma min_lr steps_per_epoch epochs "
      "rule resume_at_step at_step",
      "lr" },
    { "detect-launch", detect_launch, "environment", "rank world local_rank writes_files" },
    { NULL, NULL, NULL, NULL },
};
