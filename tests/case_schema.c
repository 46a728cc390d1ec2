/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "case_schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const models[]   = { "hrnet_w32", "hrnet_w48", "resnet_50", "resnet_101", NULL };
static const char *const policies[] = { "fp32", "bf16", "fp16", NULL };
static const char *const modes[]    = { "dynamic", "static", NULL };
static const char *const top_extra[]       = { "model", "data", "train", "precision", NULL };
static const char *const data_extra[]      = { "keypoints", NULL };
static const char *const train_extra[]     = { "clip", NULL };
static const char *const precision_extra[] = { "loss_scale", NULL };

struct values {
    struct {
        int name;
    } model;
    struct {
        double                 lr, min_lr, weight_decay, momentum, warmup_factor;
        int64_t                epochs, batch_size;
        struct stance_list_i64 lr_steps;
    } train;
    struct {
        double max_norm;
    } clip;
    struct {
        int compute;
    } precision;
    struct {
        int     mode;
        double  init_scale, growth_factor, backoff_factor;
        int64_t growth_interval;
    } loss_scale;
};

/* Tables over one part of the struct each. */
typedef __typeof__(((struct values *)0)->model)      model_part;
typedef __typeof__(((struct values *)0)->train)      train_part;
typedef __typeof__(((struct values *)0)->clip)       clip_part;
typedef __typeof__(((struct values *)0)->precision)  precision_part;
typedef __typeof__(((struct values *)0)->loss_scale) loss_scale_part;

static const struct stance_param model_table[] = {
    STANCE_PARAM_ENUM(model_part, name, "hrnet_w32", models, "network"),
    STANCE_PARAM_END,
};
static const struct stance_param train_table[] = {
    STANCE_PARAM_F64(train_part, lr, "5e-4", 0, 1e3, "1", "learning rate"),
    STANCE_PARAM_F64(train_part, min_lr, "0", 0, 1e3, "1", "floor of it"),
    STANCE_PARAM_F64(train_part, weight_decay, "0", 0, 1, "1", "decay"),
    STANCE_PARAM_F64(train_part, momentum, "0.9", 0, 1, "1", "momentum"),
    STANCE_PARAM_F64(train_part, warmup_factor, "0.001", 0, 1, "1", "first factor"),
    STANCE_PARAM_I64(train_part, epochs, "210", 1, 1e9, "epochs", "length"),
    STANCE_PARAM_I64(train_part, batch_size, "64", 1, 1e6, "samples", "batch"),
    STANCE_PARAM_LIST_I64(train_part, lr_steps, "[170, 200]", 0, 1e9, "epochs", "decays"),
    STANCE_PARAM_END,
};
static const struct stance_param clip_table[] = {
    STANCE_PARAM_F64(clip_part, max_norm, "35", 0, 1e9, "1", "norm"),
    STANCE_PARAM_END,
};
static const struct stance_param precision_table[] = {
    STANCE_PARAM_ENUM(precision_part, compute, "fp32", policies, "policy"),
    STANCE_PARAM_END,
};
static const struct stance_param loss_scale_table[] = {
    STANCE_PARAM_ENUM(loss_scale_part, mode, "dynamic", modes, "strategy"),
    STANCE_PARAM_F64(loss_scale_part, init_scale, "65536", 0, 1e30, "1", "first scale"),
    STANCE_PARAM_F64(loss_scale_part, growth_factor, "2", 1, 1e6, "1", "growth"),
    STANCE_PARAM_F64(loss_scale_part, backoff_factor, "0.5", 0, 1, "1", "back-off"),
    STANCE_PARAM_I64(loss_scale_part, growth_interval, "2000", 1, 1e9, "steps", "interval"),
    STANCE_PARAM_END,
};

static const struct stance_config_section schema[] = {
    { "", NULL, top_extra },
    { "model", model_table, NULL },
    { "data", NULL, data_extra },
    { "train", train_table, train_extra },
    { "train.clip", clip_table, NULL },
    { "precision", precision_table, precision_extra },
    { "precision.loss_scale", loss_scale_table, NULL },
    { NULL, NULL, NULL }
};

static const size_t part[] = { 0,
                               offsetof(struct values, model),
                               0,
                               offsetof(struct values, train),
                               offsetof(struct values, clip),
                               offsetof(struct values, precision),
                               offsetof(struct values, loss_scale) };

static stance_status check(struct case_config *c, struct stance_error *err)
{
    for (size_t i = 0; schema[i].path != NULL; i++) {
        void         *at     = (char *)c->values + part[i];
        stance_status status = stance_param_defaults(schema[i].table, at, err);

        if (status == STANCE_OK)
            status = stance_config_fill_section(stance_config_get(c->tree->root, schema[i].path),
                                                &schema[i], schema, at, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

stance_status case_config_load(const char *file, bool schema_check, struct case_config *out,
                               struct stance_error *err)
{
    struct case_config c      = { 0 };
    stance_status      status = stance_config_load(file, "base", &c.tree, err);

    if (status == STANCE_OK && schema_check) {
        c.values = stance_calloc(1, sizeof(struct values));
        status   = c.values != NULL ? check(&c, err)
                                    : STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: out of memory", file);
    }
    if (status != STANCE_OK) {
        case_config_free(&c);
        return status;
    }
    *out = c;
    return STANCE_OK;
}

void case_config_free(struct case_config *c)
{
    stance_config_free(c->tree);
    stance_free(c->values);
    *c = (struct case_config){ 0 };
}

static bool node_text(const struct stance_config_node *n, char *text, size_t size)
{
    struct stance_string s = { 0 };
    bool                 fits;

    if (n == NULL || n->kind == STANCE_CONFIG_MAP)
        return false;
    if (n->kind == STANCE_CONFIG_LIST) {
        for (size_t i = 0; i < n->count; i++)
            stance_string_add(&s, "%s%s", i > 0 ? ", " : "[", n->child[i]->text);
        stance_string_add(&s, n->count > 0 ? "]" : "[]");
    } else {
        stance_string_add(&s, "%s", n->text);
    }
    fits = !s.failed && s.len < size;
    if (fits)
        memcpy(text, s.s, s.len + 1);
    stance_string_free(&s);
    return fits;
}

bool case_config_value(const struct case_config *c, const char *dotted, char *text, size_t size)
{
    const char                      *dot  = strrchr(dotted, '.');
    const struct stance_config_node *node = stance_config_get(c->tree->root, dotted);

    for (size_t i = 0; c->values != NULL && dot != NULL && schema[i].path != NULL; i++) {
        const struct stance_param *p;

        if (strlen(schema[i].path) != (size_t)(dot - dotted)
            || strncmp(schema[i].path, dotted, (size_t)(dot - dotted)) != 0)
            continue;
        p = stance_param_find(schema[i].table, dot + 1);
        if (p != NULL)
            return stance_param_text(p, (const char *)c->values + part[i], text, size);
    }
    return node_text(node, text, size);
}

/* One word, or the elements of a list. */
static bool same(const char *have, const struct stance_config_node *want)
{
    double a, b;

    if (!want->quoted && stance_text_f64(want->text, &b) && stance_text_f64(have, &a))
        return a == b;
    return strcmp(have, want->text) == 0;
}

bool case_config_matches(const struct case_config *c, const char *dotted,
                         const struct stance_config_node *expected)
{
    char text[4096], *at = text + 1;
    bool equal = true;

    if (!case_config_value(c, dotted, text, sizeof text))
        return false;
    if (expected->kind != STANCE_CONFIG_LIST)
        return same(text, expected);
    if (text[0] != '[' || text[strlen(text) - 1] != ']')
        return false;
    text[strlen(text) - 1] = '\0';
    for (size_t i = 0; i < expected->count && equal; i++) {
        char *comma = strstr(at, ", ");

        equal = (comma != NULL) == (i + 1 < expected->count);
        if (comma != NULL)
            *comma = '\0';
        equal = equal && same(at, expected->child[i]);
        at    = comma != NULL ? comma + 2 : at + strlen(at);
    }
    return equal && *at == '\0';
}

static bool judge(const struct stance_config_node *expect, stance_status status,
                  const struct case_config *c, const struct stance_error *err, char *why,
                  size_t size)
{
    const struct stance_config_node *word   = stance_config_find(expect, "status");
    const struct stance_config_node *says   = stance_config_find(expect, "message_has");
    const struct stance_config_node *values = stance_config_find(expect, "values");
    const struct stance_config_node *absent = stance_config_find(expect, "absent");
    char                             text[4096];

    if (word == NULL || (strcmp(word->text, "error") == 0) != (status != STANCE_OK)) {
        snprintf(why, size, "status %d, '%.500s'", (int)status, err->text);
        return false;
    }
    if (status != STANCE_OK && stance_exit_status(status) != 2 && stance_exit_status(status) != 3) {
        snprintf(why, size, "exit status %d: '%.500s'", stance_exit_status(status), err->text);
        return false;
    }
    for (size_t i = 0; says != NULL && i < says->count; i++)
        if (strcasestr(err->text, says->child[i]->text) == NULL) {
            snprintf(why, size, "'%.500s' does not say '%.100s'", err->text, says->child[i]->text);
            return false;
        }
    for (size_t i = 0; values != NULL && i < values->count; i++)
        if (!case_config_matches(c, values->child[i]->key, values->child[i])) {
            snprintf(why, size, "%s: other than expected", values->child[i]->key);
            return false;
        }
    for (size_t i = 0; absent != NULL && i < absent->count; i++)
        if (!stance_config_is_null(stance_config_get(c->tree->root, absent->child[i]->text))
            || case_config_value(c, absent->child[i]->text, text, sizeof text)) {
            snprintf(why, size, "%s is there", absent->child[i]->text);
            return false;
        }
    return true;
}

bool case_load_config(const char *folder, char *why, size_t size)
{
    struct stance_config            *spec = NULL;
    struct stance_error              err  = STANCE_ERROR_INIT;
    struct case_config               c    = { 0 };
    const struct stance_config_node *file, *check_schema;
    char                             path[4200];
    stance_status                    status;
    bool                             good = false;

    snprintf(path, sizeof path, "%s/case.yaml", folder);
    if (stance_config_load(path, NULL, &spec, &err) != STANCE_OK) {
        snprintf(why, size, "%s", err.text);
        return false;
    }
    file         = stance_config_get(spec->root, "input.config");
    check_schema = stance_config_get(spec->root, "input.schema_check");
    if (file == NULL) {
        snprintf(why, size, "%s: no input.config", path);
    } else {
        snprintf(path, sizeof path, "%s/%s", folder, file->text);
        status = case_config_load(
            path, check_schema == NULL || strcmp(check_schema->text, "false") != 0, &c, &err);
        good = judge(stance_config_find(spec->root, "expect"), status, &c, &err, why, size);
    }
    case_config_free(&c);
    stance_config_free(spec);
    return good;
}
