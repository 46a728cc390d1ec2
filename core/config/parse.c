/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "config/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static const char nested[] = "lists and mappings are nested too deeply";

struct anchor {
    char                            *name;
    const struct stance_config_node *node;
    bool                             open; /* still being read: an alias to it would never end */
};

struct reader {
    yaml_parser_t         parser;
    struct stance_config *c;
    const char           *file; /* in the arena */
    struct stance_error  *err;
    struct anchor        *anchor;
    size_t                n_anchors, anchor_room;
    size_t                expanded; /* nodes that aliases stood for */
};

static stance_status out_of_nodes(struct reader *r)
{
    if (r->c->nodes >= STANCE_CONFIG_NODES_MAX)
        return STANCE_FAIL(r->err, STANCE_ERR_RANGE, "%s: more than %d values", r->file,
                           STANCE_CONFIG_NODES_MAX);
    return STANCE_FAIL(r->err, STANCE_ERR_NOMEM, "%s: out of memory", r->file);
}

static stance_status yaml_failed(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;

    if (p->error == YAML_MEMORY_ERROR)
        return STANCE_FAIL(r->err, STANCE_ERR_NOMEM, "%s: out of memory", r->file);
    if (p->error == YAML_READER_ERROR)
        return STANCE_FAIL(r->err, STANCE_ERR_FORMAT, "%s: not UTF-8 text: %s at byte %zu", r->file,
                           p->problem, p->problem_offset);
    return STANCE_FAIL(r->err, STANCE_ERR_FORMAT, "%s:%zu:%zu: %s%s%s", r->file,
                       p->problem_mark.line + 1, p->problem_mark.column + 1,
                       p->context != NULL ? p->context : "", p->context != NULL ? ": " : "",
                       p->problem);
}

static stance_status fail_at(struct reader *r, stance_status status, const yaml_mark_t *m,
                             const char *text)
{
    return STANCE_FAIL(r->err, status, "%s:%zu:%zu: %s", r->file, m->line + 1, m->column + 1, text);
}

static stance_status remember(struct reader *r, const yaml_char_t *name,
                              const struct stance_config_node *node)
{
    if (name == NULL)
        return STANCE_OK;
    if (!stance_grow((void **)&r->anchor, &r->anchor_room, r->n_anchors + 1, sizeof *r->anchor))
        return out_of_nodes(r);
    r->anchor[r->n_anchors].name = stance_strdup((const char *)name);
    if (r->anchor[r->n_anchors].name == NULL)
        return out_of_nodes(r);
    r->anchor[r->n_anchors].node = node;
    r->anchor[r->n_anchors].open = node->kind == STANCE_CONFIG_LIST
                                   || node->kind == STANCE_CONFIG_MAP;
    r->n_anchors++;
    return STANCE_OK;
}

static void close_anchor(struct reader *r, const struct stance_config_node *node)
{
    for (size_t i = r->n_anchors; i-- > 0;)
        if (r->anchor[i].node == node)
            r->anchor[i].open = false;
}

static size_t size_of(const struct stance_config_node *n, size_t limit)
{
    size_t total = 1;

    for (size_t i = 0; i < n->count && total <= limit; i++)
        total += size_of(n->child[i], limit - total);
    return total;
}

static stance_status expand(struct reader *r, const yaml_event_t *e, int depth,
                            struct stance_config_node **out)
{
    const char *name = (const char *)e->data.alias.anchor;

    /* The last one of a name holds: YAML lets an anchor be given again. */
    for (size_t i = r->n_anchors; i-- > 0;) {
        if (strcmp(r->anchor[i].name, name) != 0)
            continue;
        if (r->anchor[i].open)
            return fail_at(r, STANCE_ERR_FORMAT, &e->start_mark,
                           "an alias inside its own anchor never ends");
        r->expanded += size_of(r->anchor[i].node, STANCE_CONFIG_ALIAS_MAX);
        if (r->expanded > STANCE_CONFIG_ALIAS_MAX)
            return fail_at(r, STANCE_ERR_RANGE, &e->start_mark,
                           "the aliases of this file expand to too many values");
        if (depth + stance_config_depth(r->anchor[i].node) > STANCE_CONFIG_DEPTH_MAX)
            return fail_at(r, STANCE_ERR_RANGE, &e->start_mark, nested);
        *out = stance_config_node_copy(r->c, r->anchor[i].node);
        if (*out == NULL)
            return out_of_nodes(r);
        (*out)->line   = (int)e->start_mark.line + 1;
        (*out)->column = (int)e->start_mark.column + 1;
        return STANCE_OK;
    }
    return fail_at(r, STANCE_ERR_FORMAT, &e->start_mark, "an alias without an anchor before it");
}

static struct stance_config_node *node_at(struct reader *r, enum stance_config_kind kind,
                                          const yaml_mark_t *m)
{
    struct stance_config_node *n = stance_config_node_new(r->c, kind, NULL);

    if (n != NULL) {
        n->file   = r->file;
        n->line   = (int)m->line + 1;
        n->column = (int)m->column + 1;
    }
    return n;
}

static stance_status scalar(struct reader *r, const yaml_event_t *e,
                            struct stance_config_node **out)
{
    const char                *text   = (const char *)e->data.scalar.value;
    bool                       quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    struct stance_config_node *n;

    if (strlen(text) != e->data.scalar.length)
        return fail_at(r, STANCE_ERR_FORMAT, &e->start_mark, "a zero byte inside a text");
    n = node_at(r, STANCE_CONFIG_SCALAR, &e->start_mark);
    if (n == NULL)
        return out_of_nodes(r);
    /* YAML 1.2 core schema. */
    if (!quoted
        && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0
            || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0))
        n->kind = STANCE_CONFIG_NULL;
    n->quoted = quoted;
    n->text   = stance_arena_strdup(r->c->arena, text);
    if (n->text == NULL)
        return out_of_nodes(r);
    *out = n;
    return remember(r, e->data.scalar.anchor, n);
}

static int by_key(const void *a, const void *b)
{
    const struct stance_config_node *x = *(const struct stance_config_node *const *)a;
    const struct stance_config_node *y = *(const struct stance_config_node *const *)b;
    int                              d = strcmp(x->key, y->key);

    return d != 0                       ? d
           : x->key_line != y->key_line ? x->key_line - y->key_line
                                        : x->key_column - y->key_column;
}

static stance_status check_keys(struct reader *r, const struct stance_config_node *map)
{
    struct stance_config_node **sorted;
    stance_status               status = STANCE_OK;

    if (map->count < 2)
        return STANCE_OK;
    sorted = stance_calloc(map->count, sizeof *sorted);
    if (sorted == NULL)
        return out_of_nodes(r);
    memcpy(sorted, map->child, map->count * sizeof *sorted);
    qsort(sorted, map->count, sizeof *sorted, by_key);
    for (size_t i = 1; i < map->count && status == STANCE_OK; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            status = STANCE_FAIL(r->err, STANCE_ERR_FORMAT,
                                 "%s:%d:%d: key '%s' stands twice: in line %d and in line %d",
                                 r->file, sorted[i]->key_line, sorted[i]->key_column,
                                 sorted[i]->key, sorted[i - 1]->key_line, sorted[i]->key_line);
    stance_free(sorted);
    return status;
}

/* Reads events up to the end of the value that @p e begins; depth bounds the recursion. */
static stance_status value(struct reader *r, const yaml_event_t *e, int depth,
                           struct stance_config_node **out);

static stance_status next_value(struct reader *r, yaml_event_type_t end, int depth, bool *ended,
                                yaml_mark_t *mark, struct stance_config_node **out)
{
    yaml_event_t  e;
    stance_status status = STANCE_OK;

    if (!yaml_parser_parse(&r->parser, &e))
        return yaml_failed(r);
    *mark  = e.start_mark;
    *ended = e.type == end;
    if (!*ended)
        status = value(r, &e, depth, out);
    yaml_event_delete(&e);
    return status;
}

static stance_status list(struct reader *r, struct stance_config_node *n, int depth)
{
    for (;;) {
        struct stance_config_node *item = NULL;
        yaml_mark_t                mark;
        bool                       ended;
        stance_status status = next_value(r, YAML_SEQUENCE_END_EVENT, depth, &ended, &mark, &item);

        if (status != STANCE_OK || ended)
            return status;
        if (!stance_config_node_add(r->c, n, NULL, item))
            return out_of_nodes(r);
    }
}

static stance_status mapping(struct reader *r, struct stance_config_node *n, int depth)
{
    for (;;) {
        struct stance_config_node *key = NULL, *item = NULL;
        yaml_mark_t                at, mark;
        bool                       ended;
        stance_status status = next_value(r, YAML_MAPPING_END_EVENT, depth, &ended, &at, &key);

        if (status != STANCE_OK)
            return status;
        if (ended)
            return check_keys(r, n);
        if (key->kind != STANCE_CONFIG_SCALAR
            && (key->kind != STANCE_CONFIG_NULL || key->text[0] == '\0'))
            return fail_at(r, STANCE_ERR_FORMAT, &at, "a key must be a word");
        if (strlen(key->text) > STANCE_CONFIG_KEY_MAX)
            return fail_at(r, STANCE_ERR_RANGE, &at, "a key that is too long");
        if (n->count == STANCE_CONFIG_KEYS_MAX)
            return fail_at(r, STANCE_ERR_RANGE, &at, "a mapping with too many keys");
        status = next_value(r, YAML_NO_EVENT, depth, &ended, &mark, &item);
        if (status != STANCE_OK)
            return status;
        item->key        = key->text;
        item->key_line   = (int)at.line + 1;
        item->key_column = (int)at.column + 1;
        if (!stance_config_node_add(r->c, n, key->text, item))
            return out_of_nodes(r);
    }
}

static stance_status value(struct reader *r, const yaml_event_t *e, int depth,
                           struct stance_config_node **out)
{
    bool               is_map = e->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *anchor;
    stance_status      status;

    if (e->type == YAML_SCALAR_EVENT)
        return scalar(r, e, out);
    if (e->type == YAML_ALIAS_EVENT)
        return expand(r, e, depth, out);
    if (e->type != YAML_SEQUENCE_START_EVENT && !is_map)
        return fail_at(r, STANCE_ERR_FORMAT, &e->start_mark, "a value is missing");
    if (depth == STANCE_CONFIG_DEPTH_MAX)
        return fail_at(r, STANCE_ERR_RANGE, &e->start_mark, nested);
    *out = node_at(r, is_map ? STANCE_CONFIG_MAP : STANCE_CONFIG_LIST, &e->start_mark);
    if (*out == NULL)
        return out_of_nodes(r);
    anchor = is_map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
    status = remember(r, anchor, *out);
    if (status == STANCE_OK)
        status = is_map ? mapping(r, *out, depth + 1) : list(r, *out, depth + 1);
    if (status == STANCE_OK && anchor != NULL)
        close_anchor(r, *out);
    return status;
}

static stance_status document(struct reader *r, struct stance_config_node **out)
{
    struct stance_config_node *root = NULL;

    for (;;) {
        yaml_event_t  e;
        stance_status status = STANCE_OK;
        bool          done;

        if (!yaml_parser_parse(&r->parser, &e))
            return yaml_failed(r);
        done = e.type == YAML_STREAM_END_EVENT;
        if (e.type == YAML_DOCUMENT_START_EVENT && root != NULL)
            status = fail_at(r, STANCE_ERR_FORMAT, &e.start_mark, "a second document in one file");
        else if (e.type != YAML_STREAM_START_EVENT && e.type != YAML_DOCUMENT_START_EVENT
                 && e.type != YAML_DOCUMENT_END_EVENT && !done)
            status = value(r, &e, 0, &root);
        yaml_event_delete(&e);
        if (status != STANCE_OK)
            return status;
        if (done)
            break;
    }
    *out = root;
    return STANCE_OK;
}

stance_status stance_config_parse(struct stance_config *c, const char *text, size_t size,
                                  const char *name, struct stance_config_node **out,
                                  struct stance_error *err)
{
    struct reader              r    = { .c = c, .err = err };
    struct stance_config_node *root = NULL;
    stance_status              status;

    r.file = stance_arena_strdup(c->arena, name);
    if (r.file == NULL || !yaml_parser_initialize(&r.parser))
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: out of memory", name);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    status = document(&r, &root);
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < r.n_anchors; i++)
        stance_free(r.anchor[i].name);
    stance_free(r.anchor);
    if (status == STANCE_OK)
        *out = root;
    return status;
}

/* The whole file in memory from stance_calloc(), zero-terminated. */
static stance_status slurp(const char *path, char **text, size_t *size, struct stance_error *err)
{
    FILE         *f    = fopen(path, "rb");
    char         *data = NULL;
    size_t        used = 0, room = 0;
    stance_status status = STANCE_OK;

    if (f == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: cannot be opened: %s", path,
                           strerror(errno));
    for (;;) {
        size_t got;

        if (!stance_grow((void **)&data, &room, used + 4096, 1)) {
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: out of memory", path);
            break;
        }
        got = fread(data + used, 1, room - used - 1, f);
        used += got;
        if (used > STANCE_CONFIG_FILE_MAX) {
            status = STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: larger than %d MiB", path,
                                 STANCE_CONFIG_FILE_MAX >> 20);
            break;
        }
        if (got == 0) {
            if (ferror(f))
                status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: cannot be read: %s", path,
                                     strerror(errno));
            break;
        }
    }
    fclose(f);
    if (status != STANCE_OK) {
        stance_free(data);
        return status;
    }
    data[used] = '\0';
    *text      = data;
    *size      = used;
    return STANCE_OK;
}

stance_status stance_config_read(struct stance_config *c, const char *path,
                                 struct stance_config_node **out, struct stance_error *err)
{
    struct stance_config_node *root   = NULL;
    char                      *text   = NULL;
    size_t                     size   = 0;
    stance_status              status = slurp(path, &text, &size, err);

    if (status != STANCE_OK)
        return status;
    status = stance_config_parse(c, text, size, path, &root, err);
    stance_free(text);
    if (status != STANCE_OK)
        return status;
    if (stance_config_is_null(root))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: the file is empty", path);
    if (root->kind != STANCE_CONFIG_MAP)
        return stance_config_fail(err, STANCE_ERR_FORMAT, root, "%s where a mapping is expected",
                                  stance_config_kind_word(root));
    *out = root;
    return STANCE_OK;
}
