/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the golden files: a safetensors file as it lies in memory. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <check.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct golden { uint8_t *bytes; const uint8_t *data; json_t *header; };

static inline struct golden golden_open(const char *path)
{
    struct golden g;
    FILE         *f = fopen(path, "rb");
    uint64_t      head;
    long          size;

    ck_assert_msg(f != NULL, "%s", path);
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    g.bytes = malloc((size_t)size);
    ck_assert_uint_eq(fread(g.bytes, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    memcpy(&head, g.bytes, 8);
    g.header = json_loadb((char *)g.bytes + 8, (size_t)head, 0, NULL);
    ck_assert_ptr_nonnull(g.header);
    g.data = g.bytes + 8 + head;
    return g;
}

/** The bytes of a tensor, or NULL; unaligned. */
static inline const uint8_t *golden_get(const struct golden *g, const char *name, size_t *size)
{
    json_t *t = json_object_get(g->header, name), *at = json_object_get(t, "data_offsets");

    if (t == NULL)
        return NULL;
    *size = (size_t)(json_integer_value(json_array_get(at, 1)) - json_integer_value(json_array_get(at, 0)));
    return g->data + json_integer_value(json_array_get(at, 0));
}

static inline void golden_close(struct golden *g)
{
    json_decref(g->header);
    free(g->bytes);
}

#endif
