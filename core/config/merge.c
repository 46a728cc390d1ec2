/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes on top of recipes. The rules are those of MMCV's _base_ (mappings key by key, everything
 * else whole, _delete_), but for two: ~ removes, and two bases may share mappings as long as they
 * do not set the same key. */
#include "config.h"

#include "config/recipe.h"
#include "config/tree.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DELETE_KEY "_delete_"

static stance_status short_of_memory(const struct stance_config *c, struct stance_error *err)
{
    if (c->nodes >= STANCE_CONFIG_NODES_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "recipe: more than %d values",
                           STANCE_CONFIG_NODES_MAX);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe: out of memory");
}

static bool is_map(const struct stance_config_node *n)
{
    return n->kind == STANCE_CONFIG_MAP;
}

static bool deletes(const struct stance_config_node *map)
{
    const struct stance_config_node *n = stance_config_find(map, DELETE_KEY);

    return n != NULL && n->kind == STANCE_CONFIG_SCALAR
           && (strcmp(n->text, "true") == 0 || strcmp(n->text, "True") == 0);
}

/* In copies only: the word has done its work, or had nothing to do. */
static void strip(struct stance_config_node *n)
{
    if (is_map(n))
        stance_config_node_drop(n, DELETE_KEY);
    for (size_t i = 0; i < n->count; i++)
        strip(n->child[i]);
}

static bool put_copy(struct stance_config *c, struct stance_config_node *into,
                     const struct stance_config_node *over)
{
    struct stance_config_node *copy = stance_config_node_copy(c, over);

    if (copy == NULL)
        return false;
    strip(copy);
    return stance_config_node_put(c, into, over->key, copy);
}

/* "a.b" of "a" and "b", in the arena. */
static const char *join(struct stance_config *c, const char *path, const char *key)
{
    size_t size = strlen(path) + strlen(key) + 2;
    char  *text = stance_arena_get(c->arena, size, 1);

    if (text != NULL)
        snprintf(text, size, "%s%s%s", path, *path != '\0' ? "." : "", key);
    return text;
}

static bool take_away(struct stance_config *c, struct stance_config_node *into,
                      const struct stance_config_node *had, const struct stance_config_node *null)
{
    struct stance_config_node *copy;

    if (had != NULL && (is_map(had) || had->kind == STANCE_CONFIG_LIST))
        return stance_config_node_drop(into, null->key);
    /* A single value leaves its null behind, which says "none" to a setting that may be null. */
    copy = stance_config_node_copy(c, null);
    if (copy == NULL)
        return false;
    copy->removed = had != NULL;
    return stance_config_node_put(c, into, null->key, copy);
}

stance_status stance_config_merge(struct stance_config *c, struct stance_config_node *into,
                                  const struct stance_config_node *over, const char *path,
                                  bool kinds, struct stance_error *err)
{
    for (size_t i = 0; i < over->count; i++) {
        const struct stance_config_node *o    = over->child[i];
        struct stance_config_node       *have = stance_config_find(into, o->key);
        char                             place[STANCE_CONFIG_PLACE_MAX];

        if (strcmp(o->key, DELETE_KEY) == 0)
            continue;
        if (o->kind == STANCE_CONFIG_NULL) {
            if (!take_away(c, into, have, o))
                return short_of_memory(c, err);
        } else if (have != NULL && is_map(have) && is_map(o) && !deletes(o)) {
            const char   *name   = join(c, path, o->key);
            stance_status status = name == NULL ? short_of_memory(c, err)
                                                : stance_config_merge(c, have, o, name, kinds, err);

            if (status != STANCE_OK)
                return status;
        } else if (kinds && !stance_config_is_null(have) && is_map(have) != is_map(o)
                   && !deletes(o)) {
            return stance_config_fail(
                err, STANCE_ERR_INVAL, o, "%s%s%s: %s cannot take the place of %s of %s%s", path,
                *path != '\0' ? "." : "", o->key, stance_config_kind_word(o),
                stance_config_kind_word(have), stance_config_place(have, place),
                is_map(o) ? "; add '_delete_: true' if it shall" : "");
        } else if (!put_copy(c, into, o)) {
            return short_of_memory(c, err);
        }
    }
    return STANCE_OK;
}

static bool same_place(const struct stance_config_node *a, const struct stance_config_node *b)
{
    return strcmp(a->file, b->file) == 0 && a->line == b->line && a->column == b->column;
}

stance_status stance_config_merge_bases(struct stance_config *c, struct stance_config_node *into,
                                        const struct stance_config_node *other,
                                        const struct stance_config_node *child, const char *path,
                                        struct stance_error *err)
{
    for (size_t i = 0; i < other->count; i++) {
        const struct stance_config_node *o       = other->child[i];
        struct stance_config_node       *have    = stance_config_find(into, o->key);
        const struct stance_config_node *mine    = stance_config_find(child, o->key);
        bool                             settled = mine != NULL && (!is_map(mine) || deletes(mine));
        char                             one[STANCE_CONFIG_PLACE_MAX], two[STANCE_CONFIG_PLACE_MAX];

        if (have == NULL || settled) {
            if (!put_copy(c, into, o))
                return short_of_memory(c, err);
        } else if (is_map(have) && is_map(o)) {
            const char   *name   = join(c, path, o->key);
            stance_status status = name == NULL
                                       ? short_of_memory(c, err)
                                       : stance_config_merge_bases(c, have, o, mine, name, err);

            if (status != STANCE_OK)
                return status;
        } else if (!same_place(have, o)) {
            return STANCE_FAIL(err, STANCE_ERR_INVAL,
                               "%s%s%s: set by two bases, %s and %s, and not here", path,
                               *path != '\0' ? "." : "", o->key, stance_config_place(have, one),
                               stance_config_place(o, two));
        }
    }
    return STANCE_OK;
}

struct source {
    dev_t       dev;
    ino_t       ino;
    const char *name;
};

struct loader {
    struct stance_config *c;
    const char           *base_key;
    struct source         seen[STANCE_CONFIG_BASES_MAX];
    size_t                n_seen; /* files read, a file read twice counts twice */
};

/* The files being read, innermost first. */
struct chain {
    const struct chain *up;
    size_t              at;
    const char         *name;
};

static stance_status load_file(struct loader *l, const char *path, const struct chain *up,
                               struct stance_config_node **out, struct stance_error *err);

/* A file reached over two ways keeps its first name, so that places compare. */
static stance_status enter(struct loader *l, const char *path, struct chain *link,
                           struct stance_error *err)
{
    struct stat st    = { 0 };
    struct source new = { .name = path };

    if (l->n_seen == STANCE_CONFIG_BASES_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: more than %d files in one recipe", path,
                           STANCE_CONFIG_BASES_MAX);
    if (stat(path, &st) == 0) {
        new.dev = st.st_dev;
        new.ino = st.st_ino;
        for (size_t i = 0; i < l->n_seen; i++)
            if (l->seen[i].dev == new.dev && l->seen[i].ino == new.ino) {
                new.name = l->seen[i].name;
                break;
            }
        for (const struct chain *k = link->up; k != NULL; k = k->up)
            if (l->seen[k->at].dev == new.dev && l->seen[k->at].ino == new.ino)
                return STANCE_FAIL(err, STANCE_ERR_INVAL,
                                   "%s: the file is its own base, by way of %s", new.name,
                                   link->up->name);
    }
    link->at             = l->n_seen;
    link->name           = new.name;
    l->seen[l->n_seen++] = new;
    return STANCE_OK;
}

/* A bare name that is no file beside the recipe may be that of an installed one; otherwise *path stays.
 * @return false: no memory */
static bool installed_recipe(struct stance_config *c, const char *name, char **path)
{
    char         *found, *copy;
    stance_status status = stance_recipe_locate(name, &found, NULL);

    if (status != STANCE_OK)
        return status != STANCE_ERR_NOMEM;
    copy = stance_arena_strdup(c->arena, found);
    if (copy != NULL && strchr(found, '/') != NULL) /* else a file of the current folder */
        *path = copy;
    stance_free(found);
    return copy != NULL;
}

static stance_status load_base(struct loader *l, const struct chain *link,
                               const struct stance_config_node *name,
                               struct stance_config_node **out, struct stance_error *err)
{
    const char *slash = strrchr(link->name, '/');
    size_t      dir  = name->text[0] == '/' || slash == NULL ? 0 : (size_t)(slash - link->name) + 1;
    size_t      size = dir + strlen(name->text) + 1;
    char       *path;
    char        place[STANCE_CONFIG_PLACE_MAX];
    stance_status status;

    if (name->kind != STANCE_CONFIG_SCALAR)
        return stance_config_fail(err, STANCE_ERR_INVAL, name,
                                  "%s: %s where a file name is expected", l->base_key,
                                  stance_config_kind_word(name));
    path = stance_arena_get(l->c->arena, size, 1);
    if (path == NULL)
        return short_of_memory(l->c, err);
    memcpy(path, link->name, dir);
    strcpy(path + dir, name->text);
    if (strchr(name->text, '/') == NULL && access(path, F_OK) != 0
        && !installed_recipe(l->c, name->text, &path))
        return short_of_memory(l->c, err);
    status = load_file(l, path, link, out, err);
    if (status == STANCE_ERR_INPUT)
        return stance_error_prefix(err, status, "%s: %s", stance_config_place(name, place),
                                   l->base_key);
    return status;
}

static stance_status load_bases(struct loader *l, const struct chain *link,
                                const struct stance_config_node *bases,
                                const struct stance_config_node *child,
                                struct stance_config_node *merged, struct stance_error *err)
{
    size_t n = bases->kind == STANCE_CONFIG_LIST ? bases->count : 1;

    for (size_t i = 0; i < n; i++) {
        const struct stance_config_node *name = bases->kind == STANCE_CONFIG_LIST ? bases->child[i]
                                                                                  : bases;
        struct stance_config_node       *base;
        stance_status                    status = load_base(l, link, name, &base, err);
        char                             place[STANCE_CONFIG_PLACE_MAX];

        if (status != STANCE_OK)
            return status;
        status = stance_config_merge_bases(l->c, merged, base, child, "", err);
        if (status != STANCE_OK)
            return stance_error_prefix(err, status, "%s", stance_config_place(bases, place));
    }
    return STANCE_OK;
}

static stance_status load_file(struct loader *l, const char *path, const struct chain *up,
                               struct stance_config_node **out, struct stance_error *err)
{
    struct chain                     link = { .up = up };
    struct stance_config_node       *own, *merged;
    const struct stance_config_node *bases;
    stance_status                    status = enter(l, path, &link, err);

    if (status == STANCE_OK)
        status = stance_config_read(l->c, link.name, &own, err);
    if (status != STANCE_OK)
        return status;
    merged = stance_config_node_new(l->c, STANCE_CONFIG_MAP, own);
    if (merged == NULL)
        return short_of_memory(l->c, err);
    bases = stance_config_find(own, l->base_key);
    stance_config_node_drop(own, l->base_key);
    if (!stance_config_is_null(bases)) {
        status = load_bases(l, &link, bases, own, merged, err);
        if (status != STANCE_OK)
            return status;
    }
    status = stance_config_merge(l->c, merged, own, "", true, err);
    if (status == STANCE_OK)
        *out = merged;
    return status;
}

stance_status stance_config_load(const char *path, const char *base_key, struct stance_config **out,
                                 struct stance_error *err)
{
    struct stance_config *c = stance_config_new();
    struct loader         l = { .c = c, .base_key = base_key != NULL ? base_key : "_base_" };
    stance_status         status;

    if (c == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe: out of memory");
    status = load_file(&l, path, NULL, &c->root, err);
    if (status != STANCE_OK) {
        stance_config_free(c);
        return status;
    }
    *out = c;
    return STANCE_OK;
}
