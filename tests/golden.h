/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden values for tests of evaluation: JSON by jansson, and tensors of a safetensors file, read
 * without stance so that the test does not judge itself. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "runner.h"

#include <jansson.h>
#include <stdint.h>

/** A whole file; size in *size. Freed with free(). */
static inline char *golden_bytes(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *bytes;

    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *size, f), *size);
    bytes[*size] = '\0';
    fclose(f);
    return bytes;
}

static inline json_t *golden_json(const char *path)
{
    json_error_t told;
    json_t      *root = json_load_file(path, 0, &told);

    ck_assert_msg(root != NULL, "%s: %s", path, told.text);
    return root;
}

/** Tensor @p name of a safetensors file in @p bytes, whose header is @p header. */
static inline const void *golden_tensor(const char *bytes, const json_t *header, const char *name)
{
    uint64_t      length;
    const json_t *t = json_object_get(header, name);

    ck_assert_msg(t != NULL, "no tensor %s", name);
    memcpy(&length, bytes, 8);
    return bytes + 8 + length + json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0));
}

static inline json_t *golden_header(const char *bytes)
{
    uint64_t     length;
    json_error_t told;
    json_t      *header;

    memcpy(&length, bytes, 8);
    header = json_loadb(bytes + 8, length, 0, &told);
    ck_assert_msg(header != NULL, "%s", told.text);
    return header;
}

#endif
