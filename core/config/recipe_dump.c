/* SPDX-License-Identifier: Apache-2.0
 *
 * The resolved recipe: every setting with its default, in one fixed order, as a tree and as text.
 */
#include "config.h"

#include "config/recipe_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct stance_config_node of_default = { .file = "default" };

/* Collects with a sticky failure, so that building the tree reads as the recipe does. */
struct maker {
    struct stance_config       *c;
    const struct stance_recipe *r;
    bool                        failed;
};

static struct stance_config_node *add_map(struct maker *m, struct stance_config_node *parent,
                                          const char *key)
{
    struct stance_config_node *map = m->failed
                                         ? NULL
                                         : stance_config_node_new(m->c, STANCE_CONFIG_MAP, NULL);

    if (map == NULL || (parent != NULL && !stance_config_node_add(m->c, parent, key, map)))
        m->failed = true;
    return m->failed ? NULL : map;
}

static void add_node(struct maker *m, struct stance_config_node *map, const char *key,
                     struct stance_config_node *n)
{
    if (m->failed || n == NULL || !stance_config_node_add(m->c, map, key, n))
        m->failed = true;
}

static void add_text(struct maker *m, struct stance_config_node *map, const char *key,
                     const char *text, const struct stance_config_node *place)
{
    struct stance_config_node *n = m->failed ? NULL
                                             : stance_config_node_text(
                                                 m->c, text, place != NULL ? place : &of_default);

    add_node(m, map, key, n);
}

static void add_null(struct maker *m, struct stance_config_node *map, const char *key,
                     const struct stance_config_node *place)
{
    add_node(m, map, key,
             m->failed ? NULL
                       : stance_config_node_new(m->c, STANCE_CONFIG_NULL,
                                                place != NULL ? place : &of_default));
}

static void add_list(struct maker *m, struct stance_config_node *map, const char *key, char *text,
                     const struct stance_config_node *place)
{
    struct stance_config_node *list = m->failed
                                          ? NULL
                                          : stance_config_node_new(m->c, STANCE_CONFIG_LIST, place);

    if (list == NULL) {
        m->failed = true;
        return;
    }
    for (char *at = text + 1; *at != ']' && !m->failed;) {
        size_t                     len = strcspn(at, ",]");
        char                       end = at[len];
        struct stance_config_node *n;

        at[len] = '\0';
        n       = stance_config_node_text(m->c, at, place);
        if (n == NULL || !stance_config_node_add(m->c, list, NULL, n))
            m->failed = true;
        at[len] = end;
        at += len + (end == ',' ? 2 : 0); /* ", " */
    }
    add_node(m, map, key, list);
}

static void add_params(struct maker *m, struct stance_config_node *map,
                       const struct stance_param *table, const void *config,
                       const struct stance_config_node *from)
{
    for (const struct stance_param *p = table; p != NULL && p->name != NULL && !m->failed; p++) {
        const struct stance_config_node *place = stance_config_find(from, p->name);
        char text[4096]; /* a list of 64 numbers of 24 characters at most */

        if (place == NULL)
            place = &of_default;
        if (!stance_param_text(p, config, text, sizeof text))
            m->failed = true;
        else if (p->type == STANCE_PARAM_TYPE_LIST_I64 || p->type == STANCE_PARAM_TYPE_LIST_F64)
            add_list(m, map, p->name, text, place);
        else if ((p->type != STANCE_PARAM_TYPE_TEXT && strcmp(text, "null") == 0)
                 || text[0] == '\0')
            add_null(m, map, p->name, place);
        else
            add_text(m, map, p->name, text, place);
    }
}

static const struct stance_config_node *place_of(const struct maker *m, const char *path)
{
    return stance_config_get(m->r->tree->root, path);
}

static void add_plugin(struct maker *m, struct stance_config_node *map, const char *key,
                       const struct stance_recipe_plugin *p)
{
    struct stance_config_node       *own  = add_map(m, map, key);
    const struct stance_config_node *node = place_of(m, p->path),
                                    *name = stance_config_find(node, "name");

    add_text(m, own, "name", p->name, name != NULL ? name : p->settings);
    if (p->plugin != NULL) {
        add_params(m, own, p->plugin->params, p->config, p->settings);
        return;
    }
    for (size_t i = 0; i < p->settings->count && !m->failed; i++)
        add_node(m, own, p->settings->child[i]->key,
                 stance_config_node_copy(m->c, p->settings->child[i]));
}

static void add_section(struct maker *m, struct stance_config_node *map, const char *path)
{
    for (const struct stance_recipe_section *s = stance_recipe_sections; s->path != NULL; s++)
        if (strcmp(s->path, path) == 0 && !m->failed)
            add_params(m, map, s->table, (const char *)m->r + s->offset, place_of(m, path));
}

static void add_points(struct maker *m, struct stance_config_node *map, const struct stance_pose *p)
{
    static const char *const keys[] = { "keypoints", "flip_pairs", "sigmas",
                                        "skeleton",  "upper_body", NULL };
    /* Written out in place of the file's name: the recipe then stands for itself. */
    const struct stance_config_node *info = p->keypoints > 0 ? place_of(m, "data.info") : NULL;
    struct stance_config_node       *own;

    if (info == NULL) {
        add_null(m, map, "info", NULL);
        return;
    }
    own = add_map(m, map, "info");
    for (int i = 0; keys[i] != NULL && !m->failed; i++) {
        const struct stance_config_node *n = stance_config_find(info, keys[i]);

        if (!stance_config_is_null(n))
            add_node(m, own, keys[i], stance_config_node_copy(m->c, n));
    }
}

static void add_loggers(struct maker *m, struct stance_config_node *train)
{
    struct stance_config_node *list = m->failed
                                          ? NULL
                                          : stance_config_node_new(m->c, STANCE_CONFIG_LIST, NULL);

    if (list != NULL) {
        const struct stance_config_node *place = place_of(m, "train.loggers");

        list->file   = place != NULL ? place->file : of_default.file;
        list->line   = place != NULL ? place->line : 0;
        list->column = place != NULL ? place->column : 0;
    }
    for (size_t i = 0; i < m->r->n_loggers && !m->failed; i++)
        add_plugin(m, list, NULL, &m->r->logger[i]);
    add_node(m, train, "loggers", list);
}

static void add_model(struct maker *m, struct stance_config_node *root)
{
    const struct stance_recipe *r     = m->r;
    struct stance_config_node  *model = add_map(m, root, "model");

    add_plugin(m, model, "task", &r->task);
    add_plugin(m, model, "backbone", &r->backbone);
    add_plugin(m, model, "head", &r->head);
    add_plugin(m, model, "loss", &r->loss);
    if (r->pretrained != NULL)
        add_text(m, model, "pretrained", r->pretrained, place_of(m, "model.pretrained"));
    else
        add_null(m, model, "pretrained", NULL);
}

static void add_data(struct maker *m, struct stance_config_node *root)
{
    struct stance_config_node *data = add_map(m, root, "data");

    add_plugin(m, data, "dataset", &m->r->dataset);
    add_points(m, data, &m->r->pose);
    add_section(m, data, "data");
    add_section(m, add_map(m, data, "train"), "data.train");
    add_section(m, add_map(m, data, "val"), "data.val");
    add_section(m, add_map(m, data, "augment"), "data.augment");
}

static void add_train(struct maker *m, struct stance_config_node *root)
{
    struct stance_config_node *train = add_map(m, root, "train");

    add_section(m, train, "train");
    add_plugin(m, train, "optimizer", &m->r->optimizer);
    add_plugin(m, train, "schedule", &m->r->schedule);
    add_section(m, add_map(m, train, "checkpoint"), "train.checkpoint");
    add_loggers(m, train);
}

static void add_precision(struct maker *m, struct stance_config_node *root)
{
    struct stance_config_node *map = add_map(m, root, "precision");

    add_text(m, map, "compute", stance_precision_word(m->r->precision),
             place_of(m, "precision.compute"));
    if (m->r->scaler.name != NULL)
        add_plugin(m, map, "scaler", &m->r->scaler);
}

stance_status stance_recipe_resolve(struct stance_recipe *r, struct stance_error *err)
{
    struct maker               m    = { .c = r->tree, .r = r };
    struct stance_config_node *root = add_map(&m, NULL, NULL);

    add_model(&m, root);
    add_data(&m, root);
    add_section(&m, add_map(&m, root, "test"), "test");
    add_train(&m, root);
    add_precision(&m, root);
    add_plugin(&m, root, "device", &r->device);
    add_section(&m, add_map(&m, root, "memory"), "memory");
    add_section(&m, add_map(&m, root, "comm"), "comm");
    add_section(&m, root, "");
    if (m.failed)
        return stance_recipe_nomem(r->tree, err);
    r->resolved = root;
    return STANCE_OK;
}

void stance_recipe_text(const struct stance_recipe *r, bool origins, struct stance_string *out)
{
    stance_config_dump(r->resolved, origins, out);
}

stance_status stance_recipe_dump(const struct stance_recipe *r, FILE *f, bool origins,
                                 struct stance_error *err)
{
    struct stance_string text   = { 0 };
    stance_status        status = STANCE_OK;

    stance_recipe_text(r, origins, &text);
    if (text.failed)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe '%s': out of memory", r->name);
    else if (fwrite(text.s, 1, text.len, f) != text.len || fflush(f) != 0)
        status = STANCE_FAIL(err, STANCE_ERR_IO, "recipe '%s': cannot be written: %s", r->name,
                             strerror(errno));
    stance_string_free(&text);
    return status;
}

bool stance_recipe_hash(const struct stance_recipe *r, uint64_t *hash)
{
    struct stance_string text = { 0 };
    uint64_t             h    = 0xcbf29ce484222325u; /* FNV-1a: offset basis and prime of 64 bits */
    bool                 done;

    stance_recipe_text(r, false, &text);
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.s[i]) * 0x100000001b3u;
    done = !text.failed;
    stance_string_free(&text);
    if (done)
        *hash = h;
    return done;
}
