/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the case.yaml files of the shared cases. */
#ifndef TESTS_CASE_YAML_H
#define TESTS_CASE_YAML_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static inline void case_load(const char *path, yaml_document_t *d)
{
    FILE         *f = fopen(path, "r");
    yaml_parser_t p;

    ck_assert_msg(f != NULL, "%s", path);
    ck_assert(yaml_parser_initialize(&p));
    yaml_parser_set_input_file(&p, f);
    ck_assert_msg(yaml_parser_load(&p, d), "%s", path);
    yaml_parser_delete(&p);
    fclose(f);
}

static inline yaml_node_t *case_root(yaml_document_t *d)
{
    return yaml_document_get_root_node(d);
}

/** The value of a key of a mapping, or NULL. */
static inline yaml_node_t *case_get(yaml_document_t *d, yaml_node_t *map, const char *key)
{
    if (map == NULL || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
        if (strcmp((char *)yaml_document_get_node(d, p->key)->data.scalar.value, key) == 0)
            return yaml_document_get_node(d, p->value);
    return NULL;
}

static inline int case_length(yaml_node_t *list)
{
    return list == NULL ? 0 : (int)(list->data.sequence.items.top - list->data.sequence.items.start);
}

static inline yaml_node_t *case_item(yaml_document_t *d, yaml_node_t *list, int i)
{
    ck_assert_int_lt(i, case_length(list));
    return yaml_document_get_node(d, list->data.sequence.items.start[i]);
}

static inline const char *case_text(yaml_node_t *n)
{
    ck_assert(n != NULL && n->type == YAML_SCALAR_NODE);
    return (char *)n->data.scalar.value;
}

static inline double case_number(yaml_node_t *n)
{
    return atof(case_text(n));
}

#endif
