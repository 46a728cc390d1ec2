/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss scaler alone, told what came of each step. */
#include "config.h"

#include "tiny.h"

#include "registry/instance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace {
    double *used, *after, *clean, *stepped, *applied, *lr, *lr_applied;
    size_t  n, n_applied;
};

/* The schedule of `lr`: a linear warm-up, and the counter that it follows. */
struct warmup {
    const struct stance_plugin *plugin;
    void                       *config;
    double                      base;
    bool                        hold;
};

#define WARMUP_RULE "base * (step + 1) / warmup_steps"

static struct warmup warmup_of(struct walk *w)
{
    const struct stance_config_node *lr    = walk_get(w, "lr"),
                                    *rule  = stance_config_find(lr, "warmup_rule");
    const struct stance_config_node *skip  = stance_config_find(lr, "on_skip"),
                                    *steps = stance_config_find(lr, "warmup_steps");
    struct warmup u                        = { 0 };
    char          text[40], ratio[40];
    int64_t       n = steps != NULL ? walk_node_i64(w, steps, "lr.warmup_steps") : 0;

    if (lr == NULL)
        return u;
    walk_known(w, lr, "lr", "on_skip base warmup_steps warmup_rule");
    u.plugin = walk_plugin(w, STANCE_KIND_SCHEDULE, "step", &u.config);
    u.base   = walk_node_f64(w, stance_config_find(lr, "base"), "lr.base");
    u.hold   = skip != NULL && strcmp(skip->text, "hold") == 0;
    if (skip != NULL && !u.hold && strcmp(skip->text, "advance") != 0)
        walk_fail(w, "lr.on_skip: '%s' is not known", skip->text);
    if (rule != NULL && strcmp(rule->text, WARMUP_RULE) != 0)
        walk_fail(w, "lr.warmup_rule: '%.200s' is not known", rule->text);
    if (u.plugin == NULL
        || stance_param_set(u.plugin->params, u.config, "steps", "[]", &w->err) != STANCE_OK)
        walk_fail(w, "schedule 'step': %s", w->err.text);
    if (walk_failed(w) || n <= 1)
        return u;
    /* (step + 1) / n is a linear warm-up of n - 1 steps from 1/n. */
    snprintf(text, sizeof text, "%lld", (long long)n - 1);
    stance_text_of_f64(1 / (double)n, ratio, sizeof ratio);
    if (stance_param_set(u.plugin->params, u.config, "warmup", "linear", &w->err) != STANCE_OK
        || stance_param_set(u.plugin->params, u.config, "warmup_iters", text, &w->err) != STANCE_OK
        || stance_param_set(u.plugin->params, u.config, "warmup_ratio", ratio, &w->err)
               != STANCE_OK)
        walk_fail(w, "lr: %s", w->err.text);
    return u;
}

/* A field of the saved state, "growth_tracker=3". */
static double state_of(const struct stance_scaler *s, const char *field)
{
    char  *text, *at, key[64];
    double v = 0;

    if (stance_scaler_save(s, &text, NULL) != STANCE_OK)
        abort();
    snprintf(key, sizeof key, "%s=", field);
    at = strstr(text, key);
    if (at != NULL) {
        at[strcspn(at, ",")] = '\0';
        if (!stance_text_f64(at + strlen(key), &v))
            v = 0;
    }
    stance_free(text);
    return v;
}

/* As a resumed run takes it up: the saved text of this scaler with another count. */
static void set_clean_steps(struct walk *w, struct stance_scaler *s)
{
    char                *text, *at;
    struct stance_string t = { 0 };

    if (stance_scaler_save(s, &text, NULL) != STANCE_OK)
        abort();
    at = strstr(text, "growth_tracker=");
    if (at == NULL)
        walk_fail(w, "clean_steps: this scaler counts none");
    else {
        stance_string_add(&t, "%.*sgrowth_tracker=%lld%s", (int)(at - text), text,
                          (long long)walk_i64(w, "clean_steps", 0), at + strcspn(at, ","));
        w->status = stance_scaler_restore(s, t.s, &w->err);
    }
    stance_string_free(&t);
    stance_free(text);
}

static void trace_step(struct walk *w, struct trace *t, struct stance_scaler *s, bool overflow,
                       const struct warmup *u, struct stance_skips *skips)
{
    struct stance_outcome  o  = { .size      = sizeof o,
                                  .step      = t->n,
                                  .overflow  = overflow,
                                  .grad_norm = overflow ? (double)NAN : 1 };
    struct stance_progress at = { .size                 = sizeof at,
                                  .base_rate            = u->base,
                                  .iterations_per_epoch = INT64_MAX,
                                  .epochs               = 1,
                                  .iteration = u->hold ? (int64_t)t->n_applied : (int64_t)t->n };
    float                  scale;

    w->status = stance_scaler_scale(s, &scale, &w->err);
    if (w->status != STANCE_OK)
        return;
    t->used[t->n] = (double)scale;
    if (u->plugin != NULL)
        t->lr[t->n] = u->plugin->ops.schedule->rate(u->config, &at);
    if (!overflow)
        t->lr_applied[t->n_applied++] = t->lr[t->n];
    stance_scaler_update(s, &o);
    t->stepped[t->n] = !overflow;
    t->applied[t->n] = (double)t->n_applied;
    t->clean[t->n]   = state_of(s, "growth_tracker");
    w->status        = stance_skips_count(skips, overflow, NULL, scale, &w->err);
    if (stance_scaler_scale(s, &scale, w->status == STANCE_OK ? &w->err : NULL) != STANCE_OK)
        scale = 0; /* and the next window tells it */
    t->after[t->n++] = (double)scale;
}

static void scale_trace(struct walk *w)
{
    struct trace t;
    size_t       n, n_ends;
    double      *found = walk_numbers(w, walk_get(w, "found_inf"), "found_inf", &n), *memory;
    double *ends = walk_numbers(w, walk_get(w, "epoch_ends_after"), "epoch_ends_after", &n_ends);
    struct stance_scaler *s     = NULL;
    struct warmup         u     = warmup_of(w);
    struct stance_skips   skips = { 0 };
    char                  spec[300];

    memory = stance_calloc(7 * n + 1, sizeof *memory);
    if (memory == NULL)
        abort();
    t = (struct trace){ memory,
                        memory + n,
                        memory + 2 * n,
                        memory + 3 * n,
                        memory + 4 * n,
                        memory + 5 * n,
                        memory + 6 * n,
                        0,
                        0 };
    tiny_scaler(w, spec, sizeof spec);
    /* Nothing of stance's scaler is tied to epochs: their ends leave it alone, wherever they are.
     */
    for (size_t i = 0; i < n_ends; i++)
        if (!(ends[i] >= 1 && ends[i] <= (double)n))
            walk_fail(w, "epoch_ends_after: %g is not a step of the trace", ends[i]);
    if (!walk_failed(w))
        w->status = stance_scaler_from(w->registry, spec, &s, &w->err);
    if (!walk_failed(w) && w->status == STANCE_OK && walk_has(w, "clean_steps"))
        set_clean_steps(w, s);
    if (s != NULL)
        skips.limit = walk_i64(w, "max_consecutive_skips", stance_scaler_skip_limit(s));
    for (size_t i = 0; i < n && !walk_failed(w) && w->status == STANCE_OK; i++)
        trace_step(w, &t, s, found[i] != 0, &u, &skips);
    walk_is_list(w, "scale_used", t.used, t.n);
    walk_is_list(w, "scale_after", t.after, t.n);
    walk_is_list(w, "clean_after", t.clean, t.n);
    walk_is_list(w, "stepped", t.stepped, t.n);
    walk_is_list(w, "optimizer_steps", t.applied, t.n);
    if (u.plugin != NULL) {
        walk_is_list(w, "lr", t.lr, t.n);
        walk_is_list(w, "lr_of_applied_steps", t.lr_applied, t.n_applied);
    }
    stance_scaler_free(s);
    stance_plugin_config_free(u.config);
    stance_free(found);
    stance_free(ends);
    stance_free(memory);
}

const struct walk_do walk_trace[] = {
    { "scale-trace", scale_trace,
      TINY_SCALER_KEYS "max_consecutive_skips clean_steps found_inf epoch_ends_after lr",
      "scale_used scale_after clean_after stepped optimizer_steps lr lr_of_applied_steps" },
    { NULL, NULL, NULL, NULL },
};
