/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugins that a recipe chooses. A choice is written as a name, as "NAME:k=v,k=v", or as a
 * mapping with `name` among its settings. */
#include "config.h"

#include "config/recipe_priv.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_words[] = {
#define KIND_WORD(id, word) #word,
    STANCE_KIND_MAP(KIND_WORD)
#undef KIND_WORD
};

static stance_status out_of_memory(const struct stance_recipe *r, struct stance_error *err)
{
    return stance_recipe_nomem(r->tree, err);
}

static void mark_default(struct stance_config_node *n)
{
    n->file = "default";
    n->line = n->column = n->key_line = n->key_column = 0;
    for (size_t i = 0; i < n->count; i++)
        mark_default(n->child[i]);
}

static stance_status parse_default(struct stance_recipe *r, const char *text,
                                   struct stance_config_node **out, struct stance_error *err)
{
    stance_status status = stance_config_parse(r->tree, text, strlen(text), "default", out, err);

    if (status == STANCE_OK)
        mark_default(*out);
    return status;
}

/* The choice as a mapping of its own. */
static stance_status as_mapping(struct stance_recipe *r, const struct stance_recipe_plugin *p,
                                const struct stance_config_node *node, const char *fallback,
                                struct stance_config_node **out, struct stance_error *err)
{
    stance_status status;

    if (stance_config_is_null(node))
        return parse_default(r, fallback, out, err);
    if (node->kind == STANCE_CONFIG_SCALAR)
        return stance_config_spec(r->tree, node->text, node, out, err);
    if (node->kind != STANCE_CONFIG_MAP)
        return stance_config_fail(err, STANCE_ERR_INVAL, node,
                                  "%s: %s where a name or a mapping is expected", p->path,
                                  stance_config_kind_word(node));
    if (stance_config_is_null(stance_config_find(node, "name")) && fallback != NULL) {
        /* Settings without a name are those of the default plugin, over its default settings. */
        status = parse_default(r, fallback, out, err);
        return status != STANCE_OK ? status
                                   : stance_config_merge(r->tree, *out, node, p->path, false, err);
    }
    *out = stance_config_node_copy(r->tree, node);
    return *out != NULL ? STANCE_OK : out_of_memory(r, err);
}

/* A child that changes `name` inherits the settings of the base's plugin; say how to be rid of
 * them. */
static void explain_inheritance(const struct stance_recipe_plugin *p,
                                const struct stance_config_node *name, struct stance_error *err)
{
    for (size_t i = 0; err != NULL && i < p->settings->count; i++) {
        const struct stance_config_node *n   = p->settings->child[i];
        size_t                           len = strlen(err->text);

        if (stance_param_find(p->plugin->params, n->key) != NULL || n->removed)
            continue;
        if (strcmp(n->file, name->file) != 0 && name->line > 0)
            snprintf(
                err->text + len, sizeof err->text - len,
                "; it was inherited: '_delete_: true' beside 'name: %s' drops what the base set",
                p->name);
        return;
    }
}

static stance_status look_up(struct stance_recipe *r, struct stance_recipe_plugin *p,
                             const struct stance_config_node   *name,
                             const struct stance_recipe_lookup *lookup, struct stance_error *err)
{
    char          text[STANCE_CONFIG_PLACE_MAX];
    stance_status status = lookup->find(lookup->ctx, p->kind, p->name, &p->plugin, err);

    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "%s: %s", stance_config_place(name, text), p->path);
    if (p->plugin->config_size > 0) {
        p->config = stance_calloc(1, p->plugin->config_size);
        if (p->config == NULL)
            return out_of_memory(r, err);
    }
    snprintf(text, sizeof text, "%s '%.64s'", kind_words[p->kind], p->name);
    status = stance_param_defaults(p->plugin->params, p->config, err);
    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "%s", text);
    status = stance_config_fill_plugin(p->settings, p->plugin->params, p->config, text, err);
    if (status == STANCE_ERR_INVAL)
        explain_inheritance(p, name, err);
    return status;
}

stance_status stance_recipe_choose(struct stance_recipe *r, struct stance_recipe_plugin *p,
                                   const struct stance_config_node *node, const char *fallback,
                                   const struct stance_recipe_lookup *lookup,
                                   struct stance_error               *err)
{
    struct stance_config_node       *map = NULL;
    const struct stance_config_node *name;
    stance_status                    status = as_mapping(r, p, node, fallback, &map, err);

    if (status != STANCE_OK)
        return status;
    name = stance_config_find(map, "name");
    if (name == NULL || name->kind != STANCE_CONFIG_SCALAR)
        return stance_config_fail(err, STANCE_ERR_INVAL, name != NULL ? name : map,
                                  "%s: a 'name' is expected", p->path);
    p->name     = name->text;
    p->settings = map;
    stance_config_node_drop(map, "name");
    return lookup != NULL ? look_up(r, p, name, lookup, err) : STANCE_OK;
}

static stance_status read_loggers(struct stance_recipe              *r,
                                  const struct stance_recipe_lookup *lookup,
                                  struct stance_error               *err)
{
    const struct stance_config_node *node = stance_config_get(r->tree->root, "train.loggers");
    struct stance_config_node       *list;
    stance_status                    status;

    if (stance_config_is_null(node)) {
        status = parse_default(r, "[text, jsonl]", &list, err);
        if (status != STANCE_OK)
            return status;
        node = list;
    }
    if (node->kind != STANCE_CONFIG_LIST)
        return stance_config_fail(err, STANCE_ERR_INVAL, node, "train.loggers: a list is expected");
    if (node->count > 0) {
        r->logger = stance_calloc(node->count, sizeof *r->logger);
        if (r->logger == NULL)
            return out_of_memory(r, err);
    }
    r->n_loggers = node->count;
    for (size_t i = 0; i < node->count; i++) {
        r->logger[i].kind = STANCE_KIND_LOGGER;
        r->logger[i].path = "train.loggers";
        if (stance_config_is_null(node->child[i]))
            return stance_config_fail(err, STANCE_ERR_INVAL, node->child[i],
                                      "train.loggers: a name is expected");
        status = stance_recipe_choose(r, &r->logger[i], node->child[i], NULL, lookup, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

stance_status stance_recipe_read_plugins(struct stance_recipe              *r,
                                         const struct stance_recipe_lookup *lookup,
                                         struct stance_error               *err)
{
    const struct {
        struct stance_recipe_plugin *p;
        enum stance_kind             kind;
        const char                  *path, *fallback;
    } choices[] = {
        { &r->task, STANCE_KIND_TASK, "model.task", "{name: top_down}" },
        { &r->backbone, STANCE_KIND_BACKBONE, "model.backbone", "{name: hrnet, width: 32}" },
        { &r->head, STANCE_KIND_HEAD, "model.head", "{name: heatmap, deconv: []}" },
        { &r->loss, STANCE_KIND_LOSS, "model.loss", "{name: joints_mse, use_target_weight: true}" },
        { &r->dataset, STANCE_KIND_DATASET, "data.dataset", "{name: coco}" },
        { &r->optimizer, STANCE_KIND_OPTIMIZER, "train.optimizer", "{name: adam, lr: 5.0e-4}" },
        { &r->schedule, STANCE_KIND_SCHEDULE, "train.schedule",
          "{name: step, steps: [170, 200], gamma: 0.1, warmup: linear, warmup_iters: 500, "
          "warmup_ratio: 0.001}" },
        { &r->device, STANCE_KIND_DEVICE, "device", "{name: " STANCE_DEFAULT_DEVICE "}" },
        { &r->scaler, STANCE_KIND_SCALER, "precision.scaler", NULL },
    };
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < sizeof choices / sizeof *choices && status == STANCE_OK; i++) {
        const struct stance_config_node *node = stance_config_get(r->tree->root, choices[i].path);
        const char                      *fallback = choices[i].fallback, *scaler;
        char                             text[64];

        choices[i].p->kind = choices[i].kind;
        choices[i].p->path = choices[i].path;
        if (choices[i].kind == STANCE_KIND_SCALER && stance_config_is_null(node)) {
            scaler = stance_recipe_scaler_of(r->precision);
            if (scaler == NULL)
                continue;
            snprintf(text, sizeof text, "{name: %s}", scaler);
            fallback = text;
        }
        status = stance_recipe_choose(r, choices[i].p, node, fallback, lookup, err);
    }
    return status == STANCE_OK ? read_loggers(r, lookup, err) : status;
}
