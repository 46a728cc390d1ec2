/* SPDX-License-Identifier: Apache-2.0
 *
 * From mappings to structs, by parameter tables. */
#include "config.h"

#include "config/tree.h"

#include <stdio.h>
#include <string.h>

/* What a mapping is filled from, and how its mistakes are told. */
struct target {
    const struct stance_param          *table;
    const char *const                  *extra;  /* keys that somebody else reads; may be NULL */
    const struct stance_config_section *schema; /* where else a key may belong; may be NULL */
    const char *who; /* in front of a key: "train." or "scaler 'dynamic': " */
};

/* Puts the place and the name of the mapping around a message that begins with the key. */
static stance_status tell(struct stance_error *err, stance_status status,
                          const struct stance_config_node *n, const char *who, bool at_key)
{
    struct stance_config_node at = *n;
    char                      place[STANCE_CONFIG_PLACE_MAX], text[sizeof err->text], line[32] = "";

    if (err == NULL)
        return status;
    memcpy(text, err->text, sizeof text);
    if (at_key && n->key_line > 0) {
        at.line   = n->key_line;
        at.column = n->key_column;
    }
    if (at.line > 0)
        snprintf(line, sizeof line, " (line %d)", at.line);
    snprintf(err->text, sizeof err->text, "%s: %s%.*s%s", stance_config_place(&at, place), who,
             (int)(sizeof text - STANCE_CONFIG_PLACE_MAX / 2 - 64), text, line);
    return status;
}

static bool in_list(const char *const *list, const char *word)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static void nearest(const char *key, const char *candidate, int *best, const char **near)
{
    int d = stance_text_distance(key, candidate);

    if (d < *best) {
        *best = d;
        *near = candidate;
    }
}

static stance_status unknown(const struct target *t, const struct stance_config_node *n,
                             struct stance_error *err)
{
    const char *near = NULL;
    int         best = 3; /* further away is another word, not a slip */

    for (const struct stance_config_section *s = t->schema; s != NULL && s->path != NULL; s++)
        if (s->path[0] != '\0'
            && (stance_param_find(s->table, n->key) != NULL || in_list(s->extra, n->key))) {
            STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown key here; did you mean '%s.%s'?",
                        n->key, s->path, n->key);
            return tell(err, STANCE_ERR_INVAL, n, t->who, true);
        }
    for (const struct stance_config_section *s = t->schema; s != NULL && s->path != NULL; s++)
        if (s->path[0] == '\0'
            && (stance_param_find(s->table, n->key) != NULL || in_list(s->extra, n->key))) {
            STANCE_FAIL(err, STANCE_ERR_INVAL,
                        "%s: unknown key here; '%s' belongs to the top level", n->key, n->key);
            return tell(err, STANCE_ERR_INVAL, n, t->who, true);
        }
    for (const struct stance_param *p = t->table; p != NULL && p->name != NULL; p++)
        nearest(n->key, p->name, &best, &near);
    for (const char *const *e = t->extra; e != NULL && *e != NULL; e++)
        nearest(n->key, *e, &best, &near);
    if (near != NULL)
        STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown key; did you mean '%s'?", n->key, near);
    else
        STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown key", n->key);
    return tell(err, STANCE_ERR_INVAL, n, t->who, true);
}

static bool is_list(const struct stance_param *p)
{
    return p->type == STANCE_PARAM_TYPE_LIST_I64 || p->type == STANCE_PARAM_TYPE_LIST_F64;
}

static bool takes_null(const struct stance_param *p)
{
    if (p->flags & STANCE_PARAM_NULLABLE)
        return true;
    return p->type == STANCE_PARAM_TYPE_ENUM && in_list(p->choices, "null");
}

/* One element alone, so that a mistake is told where it stands. */
static stance_status check_item(const struct target *t, const struct stance_config_node *list,
                                const struct stance_config_node *item, struct stance_error *err)
{
    union {
        struct stance_list_i64 i;
        struct stance_list_f64 f;
    } scratch;
    struct stance_param one[2] = {
        *stance_param_find(t->table, list->key),
        STANCE_PARAM_END,
    };
    stance_status status;

    one[0].offset = 0;
    if (item->kind != STANCE_CONFIG_SCALAR || item->text[strcspn(item->text, ",[] ")] != '\0'
        || item->text[0] == '\0')
        status = STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not a number", list->key,
                             item->kind == STANCE_CONFIG_LIST || item->kind == STANCE_CONFIG_MAP
                                 ? stance_config_kind_word(item)
                                 : item->text);
    else
        status = stance_param_set(one, &scratch, list->key, item->text, err);
    return status == STANCE_OK ? STANCE_OK : tell(err, status, item, t->who, false);
}

static stance_status fill_list(const struct target *t, const struct stance_config_node *n,
                               void *config, struct stance_error *err)
{
    struct stance_string text   = { 0 };
    stance_status        status = STANCE_OK;

    stance_string_add(&text, "[");
    for (size_t i = 0; i < n->count && status == STANCE_OK; i++) {
        status = check_item(t, n, n->child[i], err);
        stance_string_add(&text, "%s%s", i > 0 ? "," : "", n->child[i]->text);
    }
    stance_string_add(&text, "]");
    if (status == STANCE_OK) {
        if (text.failed)
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: out of memory", n->key);
        else
            status = stance_param_set(t->table, config, n->key, text.s, err);
        if (status != STANCE_OK)
            tell(err, status, n, t->who, false);
    }
    stance_string_free(&text);
    return status;
}

static stance_status fill_one(const struct target *t, const struct stance_config_node *n,
                              const struct stance_param *p, void *config, struct stance_error *err)
{
    stance_status status;

    switch (n->kind) {
    case STANCE_CONFIG_NULL:
        if (!takes_null(p))
            return STANCE_OK; /* the default stays */
        status = stance_param_set(t->table, config, n->key, "null", err);
        break;
    case STANCE_CONFIG_SCALAR:
        status = stance_param_set(t->table, config, n->key, n->text, err);
        break;
    case STANCE_CONFIG_LIST:
        if (is_list(p))
            return fill_list(t, n, config, err);
        /* fallthrough */
    default:
        status = STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: %s where %s is expected", n->key,
                             stance_config_kind_word(n), is_list(p) ? "a list" : "a value");
        break;
    }
    return status == STANCE_OK ? STANCE_OK : tell(err, status, n, t->who, false);
}

static stance_status fill(const struct stance_config_node *map, const struct target *t,
                          void *config, struct stance_error *err)
{
    if (stance_config_is_null(map))
        return STANCE_OK;
    if (map->kind != STANCE_CONFIG_MAP) {
        size_t len = strlen(t->who);

        while (len > 0 && strchr(".: ", t->who[len - 1]) != NULL)
            len--;
        STANCE_FAIL(err, STANCE_ERR_INVAL, "%.*s: %s where a mapping is expected", (int)len, t->who,
                    stance_config_kind_word(map));
        return tell(err, STANCE_ERR_INVAL, map, "", false);
    }
    for (size_t i = 0; i < map->count; i++) {
        const struct stance_config_node *n = map->child[i];
        const struct stance_param       *p = stance_param_find(t->table, n->key);
        stance_status                    status;

        if (p == NULL && (in_list(t->extra, n->key) || n->removed))
            continue;
        status = p == NULL ? unknown(t, n, err) : fill_one(t, n, p, config, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

static void dotted(const char *path, char *text, size_t size)
{
    snprintf(text, size, "%s%s", path, *path != '\0' ? "." : "");
}

stance_status stance_config_fill(const struct stance_config_node *map,
                                 const struct stance_param *table, void *config, const char *path,
                                 struct stance_error *err)
{
    struct stance_config_section section = { path, table, NULL };

    return stance_config_fill_section(map, &section, NULL, config, err);
}

stance_status stance_config_fill_section(const struct stance_config_node    *map,
                                         const struct stance_config_section *section,
                                         const struct stance_config_section *schema, void *config,
                                         struct stance_error *err)
{
    char          who[256];
    struct target t = { section->table, section->extra, schema, who };

    dotted(section->path, who, sizeof who);
    return fill(map, &t, config, err);
}

stance_status stance_config_fill_plugin(const struct stance_config_node *map,
                                        const struct stance_param *table, void *config,
                                        const char *who, struct stance_error *err)
{
    char          text[256];
    struct target t = { table, NULL, NULL, text };

    snprintf(text, sizeof text, "%.250s: ", who);
    return fill(map, &t, config, err);
}
