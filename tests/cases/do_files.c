/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight files, checkpoints and the best score. */
#include "config.h"

#include "walk.h"

#include "graph/graph.h"
#include "train/best.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every weight holds before loading: a failed load leaves it. */
#define BEFORE 7.0f

/* ---- a model of named shapes ----------------------------------------------------------------- */

struct named {
    struct stance_device *device;
    struct stance_graph  *g;
    struct stance_store  *store;
    struct stance_wanted *wanted; /* [store->n_segments] */
};

static bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);

    return a >= b && strcmp(s + a - b, end) == 0;
}

static void add_weight(struct walk *w, struct stance_builder *b, const struct stance_config_node *n)
{
    bool counter = ends_with(n->key, "num_batches_tracked");
    bool state   = ends_with(n->key, "running_mean") || ends_with(n->key, "running_var");
    struct stance_shape shape = { .rank = (int32_t)n->count };
    struct stance_init  init  = { STANCE_INIT_CONSTANT, BEFORE, 0 };

    if (n->kind != STANCE_CONFIG_LIST || n->count > STANCE_RANK_MAX) {
        walk_fail(w, "model: the shape of %s is no list of at most %d numbers", n->key,
                  STANCE_RANK_MAX);
        return;
    }
    for (size_t i = 0; i < n->count; i++)
        shape.dim[i] = walk_node_i64(w, n->child[i], n->key);
    stance_weight(b, n->key, counter || state ? STANCE_ROLE_STATE : STANCE_ROLE_PARAM,
                  counter ? STANCE_TYPE_I64 : STANCE_TYPE_F32, shape, init);
}

/* @return false: the case has failed */
static bool make_model(struct walk *w, struct named *m)
{
    const struct stance_config_node *model  = walk_get(w, "model");
    struct stance_policy             policy = { STANCE_TYPE_F32, STANCE_TYPE_F32 };
    struct stance_error              err    = STANCE_ERROR_INIT;
    stance_status                    status = stance_graph_new(w->registry, false, &m->g, &err);

    if (model == NULL || model->kind != STANCE_CONFIG_MAP)
        walk_fail(w, "model is not a mapping");
    for (size_t i = 0; status == STANCE_OK && !walk_failed(w) && i < model->count; i++)
        add_weight(w, stance_graph_builder(m->g), model->child[i]);
    if (status == STANCE_OK)
        status = stance_graph_status(m->g, &err);
    if (status == STANCE_OK)
        status = stance_device_open(w->registry, "ref", NULL, 1, &m->device, &err);
    if (status == STANCE_OK)
        status = stance_store_new(m->device, policy, &m->store, &err);
    if (status == STANCE_OK)
        status = stance_store_adopt(m->store, m->g, &err);
    if (status == STANCE_OK)
        status = stance_store_lay_out(m->store, -1, &err);
    if (status == STANCE_OK)
        status = stance_store_initialise(m->store, 0, &err);
    if (status != STANCE_OK) {
        walk_fail(w, "model: %s", err.text);
        return false;
    }
    m->wanted = stance_calloc(m->store->n_segments + 1, sizeof *m->wanted);
    if (m->wanted == NULL)
        abort();
    for (size_t i = 0; i < m->store->n_segments; i++)
        m->wanted[i] =
            (struct stance_wanted){ m->store->segments[i].name, m->store->segments[i].shape };
    return !walk_failed(w);
}

static void free_model(struct named *m)
{
    stance_free(m->wanted);
    stance_store_free(m->store);
    stance_device_close(m->device);
    stance_graph_free(m->g);
}

/* One tensor as binary64. */
static double *values_of(struct walk *w, const struct named *m, size_t segment, size_t *n)
{
    bool     counter = m->store->segments[segment].type == STANCE_TYPE_I64;
    double  *v;
    int64_t *integers;

    *n = (size_t)stance_elements(&m->store->segments[segment].shape);
    v  = stance_calloc(*n + 1, sizeof *v);
    if (v == NULL)
        abort();
    if (stance_store_read(m->store, segment, STANCE_ARRAY_MASTER,
                          counter ? STANCE_TYPE_I64 : STANCE_TYPE_F64, v, NULL)
        != STANCE_OK)
        walk_fail(w, "%s cannot be read", m->store->segments[segment].name);
    integers = (int64_t *)(void *)v;
    for (size_t i = 0; counter && i < *n; i++) {
        int64_t x;

        memcpy(&x, &integers[i], sizeof x);
        v[i] = (double)x;
    }
    return v;
}

static void untouched(struct walk *w, const struct named *m)
{
    for (size_t s = 0; s < m->store->n_segments; s++) {
        size_t  n;
        double *v = values_of(w, m, s, &n);

        for (size_t i = 0; i < n; i++)
            if (v[i] != (double)BEFORE)
                walk_fail(w, "the load failed, but %s was changed", m->store->segments[s].name);
        stance_free(v);
    }
}

/* ---- load-checkpoint ------------------------------------------------------------------------- */

static void compare_value(struct walk *w, const struct named *m)
{
    const struct stance_config_node *value = walk_expects(w, "value"),
                                    *name  = stance_config_find(value, "name");
    long    at;
    size_t  n, index;
    double *v;

    if (value == NULL)
        return;
    walk_known(w, value, "value", "name index equals");
    at = name != NULL ? stance_store_find(m->store, name->text) : -1;
    if (at < 0) {
        walk_fail(w, "value: the model has no such tensor");
        return;
    }
    v     = values_of(w, m, (size_t)at, &n);
    index = stance_config_find(value, "index") != NULL
                ? (size_t)walk_node_i64(w, stance_config_find(value, "index"), "value.index")
                : 0;
    if (index >= n)
        walk_fail(w, "value: %s has %zu numbers", name->text, n);
    else
        walk_same(w, name->text, v[index], stance_config_find(value, "equals"));
    stance_free(v);
}

static void compare_match(struct walk *w, const struct named *m, const struct stance_match *match)
{
    size_t       n    = m->store->n_segments + match->n_ignored + 1;
    const char **name = stance_calloc(n, sizeof *name);

    if (name == NULL)
        abort();
    walk_is_f64(w, "loaded", (double)match->loaded);
    for (size_t i = 0; i < match->n_not_loaded; i++)
        name[i] = m->wanted[match->not_loaded[i]].name;
    walk_is_names(w, "not_loaded", name, match->n_not_loaded);
    walk_is_names(w, "missing", name, match->n_not_loaded);
    for (size_t i = 0; i < match->n_ignored; i++)
        name[i] = match->ignored[i]->name;
    walk_is_names(w, "unexpected", name, match->n_ignored);
    walk_is_names(w, "ignored", name, match->n_ignored);
    stance_free(name);
}

static void load_checkpoint(struct walk *w)
{
    const char  *path = walk_path(w, walk_need(w, "file")), *only = walk_text(w, "only", NULL);
    struct named m               = { NULL, NULL, NULL, NULL };
    struct stance_tensors *t     = NULL;
    struct stance_match    match = { 0 };

    if (!walk_failed(w) && make_model(w, &m)) {
        w->status = stance_tensors_open(path, &t, &w->err);
        if (w->status == STANCE_OK)
            w->status = stance_weights_take(m.store, t, only, &w->err);
        if (w->status != STANCE_OK)
            untouched(w, &m);
        else if (stance_tensors_match(t, m.wanted, m.store->n_segments, only, &match, NULL)
                 != STANCE_OK)
            walk_fail(w, "what was loaded does not match");
        else {
            compare_match(w, &m, &match);
            compare_value(w, &m);
        }
    }
    stance_match_free(&match);
    stance_tensors_close(t);
    free_model(&m);
}

/* ---- resume-latest --------------------------------------------------------------------------- */

static void resume_latest(struct walk *w)
{
    const char  *folder = walk_path(w, walk_need(w, "directory"));
    struct named m      = { NULL, NULL, NULL, NULL };
    char        *found  = NULL;

    if (walk_failed(w))
        return;
    w->status = stance_checkpoint_newest(folder, &found, &w->err);
    if (w->status == STANCE_OK && found != NULL && walk_has(w, "model") && make_model(w, &m))
        w->status = stance_weights_load(m.store, found, NULL, &w->err);
    if (w->status == STANCE_OK)
        walk_is_text(w, "resumed_from", found != NULL ? strrchr(found, '/') + 1 : NULL);
    stance_free(found);
    free_model(&m);
}

/* ---- best-trace ------------------------------------------------------------------------------ */

static void best_trace(struct walk *w)
{
    const char *mode = walk_text(w, "mode", "max");
    size_t      n, saved = 0;
    double     *metric = walk_numbers(w, walk_get(w, "metric"), "metric", &n), best = NAN;
    double     *list = stance_calloc(n + 1, sizeof *list);

    if (list == NULL)
        abort();
    if (strcmp(mode, "max") != 0 && strcmp(mode, "min") != 0)
        walk_fail(w, "mode: '%s' is not known", mode);
    for (size_t i = 0; i < n; i++)
        if (stance_best_improves(metric[i], best, strcmp(mode, "min") == 0)) {
            best          = metric[i];
            list[saved++] = (double)i;
        }
    walk_is_list(w, "saved_best_after", list, saved);
    walk_is_f64(w, "best", best);
    if (saved > 0)
        walk_is_f64(w, "best_index", list[saved - 1]);
    else
        walk_is_text(w, "best_index", NULL);
    stance_free(metric);
    stance_free(list);
}

const struct walk_do walk_files[] = {
    { "load-checkpoint", load_checkpoint, "file model only",
      "loaded not_loaded missing unexpected ignored value" },
    { "resume-latest", resume_latest, "directory model", "resumed_from" },
    { "best-trace", best_trace, "metric mode", "saved_best_after best_index best" },
    { NULL, NULL, NULL, NULL },
};
