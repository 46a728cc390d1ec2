/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "eval/sigmas.h"

#include <stance/alloc.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

/* .26/10 and so on in the published table; these are the same decimals. */
const double stance_coco_sigmas[17] = { .026, .025, .025, .035, .035, .079, .079, .072, .072,
                                        .062, .062, .107, .107, .087, .087, .089, .089 };

struct list { double *v; size_t n, room; };

static stance_status add(struct list *l, const char *text, struct stance_error *err)
{
    double v;

    if (!stance_text_f64(text, &v))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "sigmas: '%.60s' is not a number", text);
    if (!(v > 0 && isfinite(v)))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "sigmas: %s, number %zu of the list, is not above 0",
                           text, l->n + 1);
    if (!stance_grow((void **)&l->v, &l->room, l->n + 1, sizeof v))
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "sigmas");
    l->v[l->n++] = v;
    return STANCE_OK;
}

static stance_status read_text(const char *text, struct list *l, struct stance_error *err)
{
    static const char blanks[] = " \t\n[]";

    while (*(text += strspn(text, blanks)) != '\0') {
        size_t        n = strcspn(text, " \t\n[],");
        char          word[64];
        stance_status status;

        if (n >= sizeof word)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "sigmas: '%.60s...' is not a number", text);
        memcpy(word, text, n);
        word[n] = '\0';
        status  = add(l, word, err);
        if (status != STANCE_OK)
            return status;
        text += n;
        text += strspn(text, blanks);
        text += *text == ',';
    }
    return STANCE_OK;
}

/* The node of the list: the document's root, or the value of its key `sigmas`. */
static yaml_node_t *find_list(yaml_document_t *doc)
{
    yaml_node_t *root = yaml_document_get_root_node(doc);

    if (root == NULL || root->type != YAML_MAPPING_NODE)
        return root;
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(doc, p->key);

        if (key->type == YAML_SCALAR_NODE && strcmp((const char *)key->data.scalar.value, "sigmas") == 0)
            return yaml_document_get_node(doc, p->value);
    }
    return NULL;
}

static stance_status read_document(yaml_document_t *doc, const char *path, struct list *l,
                                   struct stance_error *err)
{
    yaml_node_t  *node   = find_list(doc);
    stance_status status = STANCE_OK;

    if (node == NULL || node->type != YAML_SEQUENCE_NODE)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: there is no list of sigmas in it", path);
    for (yaml_node_item_t *i = node->data.sequence.items.start;
         i < node->data.sequence.items.top && status == STANCE_OK; i++) {
        yaml_node_t *item = yaml_document_get_node(doc, *i);

        if (item->type != YAML_SCALAR_NODE)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s:%zu:%zu: an entry of sigmas is not a number",
                               path, item->start_mark.line + 1, item->start_mark.column + 1);
        status = add(l, (const char *)item->data.scalar.value, err);
        if (status != STANCE_OK)
            stance_error_prefix(err, status, "%s:%zu:%zu", path, item->start_mark.line + 1,
                                item->start_mark.column + 1);
    }
    return status;
}

static stance_status read_file(const char *path, struct list *l, struct stance_error *err)
{
    yaml_parser_t   parser;
    yaml_document_t doc;
    stance_status   status;
    FILE           *file = fopen(path, "rb");

    if (file == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT,
                           "sigmas: '%s' is no list of numbers and no file (%s)", path, strerror(errno));
    if (!yaml_parser_initialize(&parser)) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading %s", path);
        goto close_file;
    }
    yaml_parser_set_input_file(&parser, file);
    if (!yaml_parser_load(&parser, &doc)) {
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s:%zu:%zu: %s", path,
                             parser.problem_mark.line + 1, parser.problem_mark.column + 1,
                             parser.problem != NULL ? parser.problem : "it cannot be read");
        goto delete_parser;
    }
    status = read_document(&doc, path, l, err);
    yaml_document_delete(&doc);
delete_parser:
    yaml_parser_delete(&parser);
close_file:
    fclose(file);
    return status;
}

stance_status stance_sigmas_read(const char *text, double **out, int64_t *n, struct stance_error *err)
{
    bool          is_list = strspn(text, "0123456789.eE+-,[] \t\n") == strlen(text);
    struct list   l       = { NULL, 0, 0 };
    stance_status status  = is_list ? read_text(text, &l, err) : read_file(text, &l, err);

    if (status == STANCE_OK && l.n == 0)
        status = STANCE_FAIL(err, STANCE_ERR_INVAL, "sigmas: the list is empty");
    if (status != STANCE_OK) {
        stance_free(l.v);
        return status;
    }
    *out = l.v;
    *n   = (int64_t)l.n;
    return STANCE_OK;
}
