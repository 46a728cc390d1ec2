/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of the command line: "a.b.c=value", and plugins with their settings, "NAME:k=v,k=v". */
#include "config.h"

#include "config/tree.h"

#include <stdlib.h>
#include <string.h>

static void from_option(struct stance_config_node *n, const char *origin)
{
    n->file = origin;
    n->line = n->column = n->key_line = n->key_column = 0;
    for (size_t i = 0; i < n->count; i++)
        from_option(n->child[i], origin);
}

/* Arguments are bytes; what goes into a tree must be text that YAML can carry. */
static bool is_utf8(const char *text)
{
    static const uint32_t least[4] = { 0, 0x80, 0x800, 0x10000 };
    const unsigned char  *s        = (const unsigned char *)text;

    while (*s != '\0') {
        int      more = *s < 0x80   ? 0
                        : *s < 0xc0 ? -1
                        : *s < 0xe0 ? 1
                        : *s < 0xf0 ? 2
                        : *s < 0xf8 ? 3
                                    : -1;
        uint32_t code = more > 0 ? *s & (0x3fu >> more) : *s;

        if (more < 0)
            return false;
        s++;
        for (int i = 0; i < more; i++, s++) {
            if ((*s & 0xc0) != 0x80)
                return false;
            code = code << 6 | (*s & 0x3fu);
        }
        if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
    }
    return true;
}

static stance_status short_of_memory(const char *origin, struct stance_error *err)
{
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: out of memory", origin);
}

/* Goes from @p at to the node called @p key, making a mapping where nothing is. */
static stance_status step_into(struct stance_config *c, struct stance_config_node *at,
                               const char *key, const char *assignment, const char *origin,
                               struct stance_config_node **out, struct stance_error *err)
{
    struct stance_config_node *next;

    if (at->kind == STANCE_CONFIG_LIST) {
        next = stance_config_get(at, key);
        if (next == NULL)
            return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s %s: '%s' is no item of a list of %zu",
                               origin, assignment, key, at->count);
    } else {
        next = stance_config_find(at, key);
    }
    if (next != NULL && next->kind == STANCE_CONFIG_SCALAR)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s %s: '%s' is a value and has no keys", origin,
                           assignment, key);
    if (next == NULL) {
        next = stance_config_node_new(c, STANCE_CONFIG_MAP, NULL);
        if (next == NULL || !stance_config_node_put(c, at, key, next))
            return short_of_memory(origin, err);
        next->file = origin;
    } else if (next->kind == STANCE_CONFIG_NULL) {
        next->kind    = STANCE_CONFIG_MAP;
        next->removed = false;
    }
    *out = next;
    return STANCE_OK;
}

static stance_status assign(struct stance_config *c, struct stance_config_node *at, const char *key,
                            struct stance_config_node *value, const char *assignment,
                            const char *origin, struct stance_error *err)
{
    struct stance_config_node *over;

    if (at->kind == STANCE_CONFIG_LIST) {
        struct stance_config_node *item = stance_config_get(at, key);

        for (size_t i = 0; i < at->count && item != NULL; i++)
            if (at->child[i] == item) {
                value->key   = NULL;
                at->child[i] = value;
                return STANCE_OK;
            }
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s %s: '%s' is no item of a list of %zu", origin,
                           assignment, key, at->count);
    }
    over = stance_config_node_new(c, STANCE_CONFIG_MAP, NULL);
    if (over == NULL || !stance_config_node_add(c, over, key, value))
        return short_of_memory(origin, err);
    return stance_config_merge(c, at, over, "", false, err);
}

static stance_status apply(struct stance_config *c, char *keys, const char *text,
                           const char *assignment, const char *origin, struct stance_error *err)
{
    struct stance_config_node *value = NULL, *at = c->root;
    stance_status status = stance_config_parse(c, text, strlen(text), origin, &value, err);
    int           levels;

    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "'%s'", assignment);
    if (value == NULL)
        value = stance_config_node_new(c, STANCE_CONFIG_NULL, NULL);
    if (value == NULL)
        return short_of_memory(origin, err);
    from_option(value, origin);
    levels = stance_config_depth(value);
    for (;;) {
        size_t len  = strcspn(keys, ".");
        bool   last = keys[len] == '\0';

        if (len == 0 || len > STANCE_CONFIG_KEY_MAX)
            return STANCE_FAIL(err, STANCE_ERR_INVAL,
                               "%s %s: a name like a.b.c is expected before '='", origin,
                               assignment);
        if (++levels > STANCE_CONFIG_DEPTH_MAX)
            return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s %s: nested too deeply", origin,
                               assignment);
        keys[len] = '\0';
        if (last)
            return assign(c, at, keys, value, assignment, origin, err);
        status = step_into(c, at, keys, assignment, origin, &at, err);
        if (status != STANCE_OK)
            return status;
        keys += len + 1;
    }
}

stance_status stance_config_set(struct stance_config *c, const char *assignment, const char *origin,
                                struct stance_error *err)
{
    const char   *equal = strchr(assignment, '=');
    char         *keys, *own;
    stance_status status;

    if (equal == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s %s: 'name=value' is expected", origin,
                           assignment);
    if (!is_utf8(assignment))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: the setting is not UTF-8 text", origin);
    own  = stance_arena_strdup(c->arena, origin);
    keys = stance_strdup(assignment);
    if (keys == NULL || own == NULL) {
        status = short_of_memory(origin, err);
        goto free_keys;
    }
    keys[equal - assignment] = '\0';
    status                   = apply(c, keys, equal + 1, assignment, own, err);
free_keys:
    stance_free(keys);
    return status;
}

/* Length of the piece up to the next comma or colon that is not inside brackets. */
static size_t piece(const char *text)
{
    int    depth = 0;
    size_t n     = 0;

    for (; text[n] != '\0' && (depth > 0 || (text[n] != ',' && text[n] != ':')); n++)
        depth += (text[n] == '[') - (text[n] == ']');
    return n;
}

static stance_status one_setting(struct stance_config *c, const char *spec, char *text,
                                 struct stance_config_node       *map,
                                 const struct stance_config_node *place, struct stance_error *err)
{
    char                      *equal = strchr(text, '=');
    const char                *key = text, *value = text;
    struct stance_config_node *n;

    if (equal != NULL) {
        *equal = '\0';
        value  = equal + 1;
    } else if (strspn(text, "0123456789") == strlen(text) && *text != '\0') {
        key = "index";
    }
    if (key[0] == '\0' || (equal == NULL && key == text) || strlen(key) > STANCE_CONFIG_KEY_MAX)
        return stance_config_fail(err, STANCE_ERR_INVAL, place,
                                  "'%s': NAME:key=value,key=value is expected", spec);
    if (stance_config_find(map, key) != NULL)
        return stance_config_fail(err, STANCE_ERR_INVAL, place, "'%s': '%s' stands twice", spec,
                                  key);
    n = stance_config_node_text(c, value, place);
    if (n == NULL || !stance_config_node_add(c, map, key, n))
        return stance_config_fail(err, STANCE_ERR_NOMEM, place, "out of memory");
    if (strcmp(value, "null") == 0 || strcmp(value, "~") == 0)
        n->kind = STANCE_CONFIG_NULL;
    return STANCE_OK;
}

stance_status stance_config_spec(struct stance_config *c, const char *spec,
                                 const struct stance_config_node *place,
                                 struct stance_config_node **out, struct stance_error *err)
{
    size_t                     len  = strcspn(spec, ":");
    struct stance_config_node *map  = stance_config_node_new(c, STANCE_CONFIG_MAP, place), *name;
    char                      *copy = stance_arena_strdup(c->arena, spec), *at;

    if (map == NULL || copy == NULL)
        return stance_config_fail(err, STANCE_ERR_NOMEM, place, "out of memory");
    if (!is_utf8(spec))
        return stance_config_fail(err, STANCE_ERR_INVAL, place,
                                  "the name of a plugin or its settings are not UTF-8 text");
    at        = copy + len + (copy[len] == ':');
    copy[len] = '\0';
    if (len == 0)
        return stance_config_fail(err, STANCE_ERR_INVAL, place, "'%s': a name is expected", spec);
    name = stance_config_node_text(c, copy, place);
    if (name == NULL || !stance_config_node_add(c, map, "name", name))
        return stance_config_fail(err, STANCE_ERR_NOMEM, place, "out of memory");
    if (spec[len] == ':' && *at == '\0')
        return stance_config_fail(err, STANCE_ERR_INVAL, place,
                                  "'%s': NAME:key=value,key=value is expected", spec);
    while (*at != '\0') {
        size_t        n    = piece(at);
        bool          more = at[n] != '\0';
        stance_status status;

        at[n]  = '\0';
        status = one_setting(c, spec, at, map, place, err);
        if (status != STANCE_OK)
            return status;
        at += n + more;
    }
    *out = map;
    return STANCE_OK;
}
