/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "config/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stance_config *stance_config_new(void)
{
    struct stance_config *c = stance_calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    c->arena = stance_arena_new(16384);
    if (c->arena != NULL)
        c->root = stance_config_node_new(c, STANCE_CONFIG_MAP, NULL);
    if (c->root == NULL) {
        stance_config_free(c);
        return NULL;
    }
    return c;
}

void stance_config_free(struct stance_config *c)
{
    if (c == NULL)
        return;
    stance_arena_free(c->arena);
    stance_free(c);
}

struct stance_config_node *stance_config_node_new(struct stance_config            *c,
                                                  enum stance_config_kind          kind,
                                                  const struct stance_config_node *place)
{
    struct stance_config_node *n;

    if (c->nodes >= STANCE_CONFIG_NODES_MAX)
        return NULL;
    n = stance_arena_get(c->arena, sizeof *n, _Alignof(struct stance_config_node));
    if (n == NULL)
        return NULL;
    c->nodes++;
    n->kind = kind;
    n->text = kind == STANCE_CONFIG_NULL ? "null" : "";
    n->file = "";
    if (place != NULL) {
        n->file       = place->file;
        n->line       = place->line;
        n->column     = place->column;
        n->key_line   = place->key_line;
        n->key_column = place->key_column;
    }
    return n;
}

struct stance_config_node *stance_config_node_text(struct stance_config *c, const char *text,
                                                   const struct stance_config_node *place)
{
    struct stance_config_node *n = stance_config_node_new(c, STANCE_CONFIG_SCALAR, place);

    if (n != NULL)
        n->text = stance_arena_strdup(c->arena, text);
    return n != NULL && n->text != NULL ? n : NULL;
}

struct stance_config_node *stance_config_node_copy(struct stance_config            *c,
                                                   const struct stance_config_node *node)
{
    struct stance_config_node *n = stance_config_node_new(c, node->kind, node);

    if (n == NULL)
        return NULL;
    n->quoted  = node->quoted;
    n->removed = node->removed;
    n->text    = node->text; /* copies stay within one document, whose arena holds the text */
    n->key     = node->key;
    for (size_t i = 0; i < node->count; i++) {
        struct stance_config_node *child = stance_config_node_copy(c, node->child[i]);

        if (child == NULL || !stance_config_node_add(c, n, child->key, child))
            return NULL;
    }
    return n;
}

bool stance_config_node_add(struct stance_config *c, struct stance_config_node *parent,
                            const char *key, struct stance_config_node *child)
{
    if (parent->count == parent->capacity) {
        size_t                      room  = parent->capacity < 4 ? 4 : 2 * parent->capacity;
        struct stance_config_node **array = stance_arena_get(c->arena, room * sizeof(void *),
                                                             _Alignof(void *));

        if (array == NULL)
            return false;
        if (parent->count > 0)
            memcpy(array, parent->child, parent->count * sizeof *array);
        parent->child    = array;
        parent->capacity = room;
    }
    if (key == NULL) {
        child->key = NULL;
    } else if (child->key != key) {
        child->key = stance_arena_strdup(c->arena, key);
        if (child->key == NULL)
            return false;
    }
    parent->child[parent->count++] = child;
    return true;
}

static size_t index_of(const struct stance_config_node *map, const char *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->child[i]->key, key) == 0)
            return i;
    return map->count;
}

bool stance_config_node_put(struct stance_config *c, struct stance_config_node *map,
                            const char *key, struct stance_config_node *child)
{
    size_t i = index_of(map, key);

    if (i == map->count)
        return stance_config_node_add(c, map, key, child);
    child->key    = map->child[i]->key;
    map->child[i] = child;
    return true;
}

bool stance_config_node_drop(struct stance_config_node *map, const char *key)
{
    size_t i = index_of(map, key);

    if (i == map->count)
        return false;
    memmove(map->child + i, map->child + i + 1, (map->count - i - 1) * sizeof *map->child);
    map->count--;
    return true;
}

struct stance_config_node *stance_config_find(const struct stance_config_node *map, const char *key)
{
    size_t i;

    if (map == NULL || map->kind != STANCE_CONFIG_MAP)
        return NULL;
    i = index_of(map, key);
    return i < map->count ? map->child[i] : NULL;
}

struct stance_config_node *stance_config_get(const struct stance_config_node *root,
                                             const char                      *dotted)
{
    const struct stance_config_node *at = root;

    while (at != NULL && *dotted != '\0') {
        size_t                           len  = strcspn(dotted, ".");
        const struct stance_config_node *next = NULL;

        if (at->kind == STANCE_CONFIG_LIST) {
            char         *end;
            unsigned long i = strtoul(dotted, &end, 10);

            if (end == dotted + len && len > 0 && dotted[0] != '-' && i < at->count)
                next = at->child[i];
        } else if (at->kind == STANCE_CONFIG_MAP) {
            for (size_t i = 0; i < at->count && next == NULL; i++)
                if (strncmp(at->child[i]->key, dotted, len) == 0 && at->child[i]->key[len] == '\0')
                    next = at->child[i];
        }
        at = next;
        dotted += len + (dotted[len] == '.');
    }
    return (struct stance_config_node *)at;
}

bool stance_config_is_null(const struct stance_config_node *node)
{
    return node == NULL || node->kind == STANCE_CONFIG_NULL;
}

bool stance_config_equal(const struct stance_config_node *a, const struct stance_config_node *b)
{
    if (a->kind != b->kind || a->count != b->count)
        return false;
    if ((a->kind == STANCE_CONFIG_SCALAR || a->kind == STANCE_CONFIG_NULL)
        && strcmp(a->text, b->text) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct stance_config_node *x = a->child[i], *y = b->child[i];

        if ((x->key == NULL) != (y->key == NULL) || (x->key != NULL && strcmp(x->key, y->key) != 0)
            || !stance_config_equal(x, y))
            return false;
    }
    return true;
}

int stance_config_depth(const struct stance_config_node *node)
{
    int deepest = 0;

    for (size_t i = 0; i < node->count; i++) {
        int d = stance_config_depth(node->child[i]);

        deepest = d > deepest ? d : deepest;
    }
    return deepest + (node->kind == STANCE_CONFIG_LIST || node->kind == STANCE_CONFIG_MAP);
}

const char *stance_config_kind_word(const struct stance_config_node *node)
{
    switch (node->kind) {
    case STANCE_CONFIG_NULL: return "null";
    case STANCE_CONFIG_SCALAR: return "a value";
    case STANCE_CONFIG_LIST: return "a list";
    case STANCE_CONFIG_MAP: return "a mapping";
    }
    return "nothing";
}

const char *stance_config_place(const struct stance_config_node *node,
                                char                             text[STANCE_CONFIG_PLACE_MAX])
{
    if (node->line > 0)
        snprintf(text, STANCE_CONFIG_PLACE_MAX, "%.550s:%d:%d", node->file, node->line,
                 node->column);
    else
        snprintf(text, STANCE_CONFIG_PLACE_MAX, "%.550s", node->file);
    return text;
}

stance_status stance_config_fail(struct stance_error *err, stance_status status,
                                 const struct stance_config_node *node, const char *fmt, ...)
{
    char    place[STANCE_CONFIG_PLACE_MAX], text[sizeof err->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return STANCE_FAIL(err, status, "%s: %s", stance_config_place(node, place), text);
}
