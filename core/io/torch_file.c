/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/torch_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_text(struct stance_pickle_text a, struct stance_pickle_text b)
{
    int order = memcmp(a.s, b.s, a.len < b.len ? a.len : b.len);

    return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_storages(const void *a, const void *b)
{
    return compare_text(((const struct stance_torch_storage *)a)->key,
                        ((const struct stance_torch_storage *)b)->key);
}

struct stance_torch_storage *stance_torch_file_find(struct stance_torch_file *f,
                                                    struct stance_pickle_text key)
{
    struct stance_torch_storage wanted = { .key = key };

    return bsearch(&wanted, f->storage, f->storages, sizeof *f->storage, compare_storages);
}

/* Each storage once; those that mention the same key must agree about it. */
static stance_status list_storages(struct stance_torch_file *f, struct stance_error *err)
{
    size_t kept = 0;

    f->storage = stance_calloc(f->pickle.storages + 1, sizeof *f->storage);
    if (f->storage == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "list of storages");
    for (size_t i = 0; i < f->pickle.storages; i++) {
        const struct stance_pickle_storage *s = f->pickle.storage[i];

        f->storage[i] = (struct stance_torch_storage){ .key = s->key, .dtype = s->dtype,
                                                       .elements = s->elements };
    }
    qsort(f->storage, f->pickle.storages, sizeof *f->storage, compare_storages);
    for (size_t i = 0; i < f->pickle.storages; i++) {
        struct stance_torch_storage *s = &f->storage[i], *last = &f->storage[kept - (kept > 0)];

        if (kept > 0 && compare_storages(s, last) == 0) {
            if (s->dtype != last->dtype || s->elements != last->elements)
                return STANCE_FAIL(err, STANCE_ERR_FORMAT, "storage '%.*s' has two descriptions",
                                   (int)(s->key.len < 100 ? s->key.len : 100), s->key.s);
            continue;
        }
        if (s->elements > INT64_MAX / 8)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "a storage claims %" PRId64 " elements",
                               s->elements);
        f->storage[kept++] = *s;
    }
    f->storages = kept;
    return STANCE_OK;
}

bool stance_torch_is_zip(const void *data, size_t size)
{
    return size >= 4 && memcmp(data, "PK\3\4", 4) == 0;
}

stance_status stance_torch_file_open(const struct stance_map *map,
                                     struct stance_torch_file *out, struct stance_error *err)
{
    bool          zip = stance_torch_is_zip(map->data, map->size);
    stance_status status;

    *out       = (struct stance_torch_file){ .map = map };
    out->arena = stance_arena_new(65536);
    if (out->arena == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading it");
    status = zip ? stance_torch_zip_open(out, err) : stance_torch_legacy_open(out, err);
    if (status == STANCE_OK && zip)
        status = list_storages(out, err);
    if (status != STANCE_OK)
        stance_torch_file_close(out);
    return status;
}

void stance_torch_file_close(struct stance_torch_file *f)
{
    stance_torch_zip_close(f);
    stance_pickle_free(&f->pickle);
    stance_arena_free(f->arena);
    stance_free(f->storage);
    stance_free(f->prefix);
    stance_free(f->text);
    *f = (struct stance_torch_file){ 0 };
}

stance_status stance_torch_file_load(struct stance_torch_file *f, struct stance_torch_storage *s,
                                     struct stance_error *err)
{
    if (s->data != NULL)
        return STANCE_OK;
    if (f->zip != NULL)
        return stance_torch_zip_load(f, s, err);
    return STANCE_FAIL(err, STANCE_ERR_FORMAT, "storage '%.*s' is not in the file",
                       (int)(s->key.len < 100 ? s->key.len : 100), s->key.s);
}

/* ---- the older container --------------------------------------------------------------------- */

/* Five things in a row: a number, the protocol 1001, a dict about the machine, the object, the list
 * of storage keys; each a pickle. Then, key by key, a count and the elements. */
static const unsigned char magic[] = { 0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a,
                                       0xa8, 0x50, 0x19, '.' };

static stance_status next_pickle(struct stance_torch_file *f, size_t *at, struct stance_pickle *out,
                                 struct stance_error *err)
{
    stance_status status = stance_pickle_load(f->map->data + *at, f->map->size - *at,
                                              f->arena, out, err);

    if (status == STANCE_OK)
        *at += out->used;
    return status;
}

static stance_status read_storages(struct stance_torch_file *f, size_t at,
                                   const struct stance_pickle_value *keys, struct stance_error *err)
{
    for (size_t i = 0; i < keys->u.list.count; i++) {
        const struct stance_pickle_value *key = keys->u.list.item[i];
        struct stance_torch_storage      *s;
        size_t                            left, bytes;
        int64_t                           count;

        s = key->kind == STANCE_PICKLE_TEXT ? stance_torch_file_find(f, key->u.text) : NULL;
        if (s == NULL)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "storage %zu is mentioned nowhere", i);
        left = f->map->size - at;
        if (left < 8)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                               "cut short: it ends before storage %zu of %zu", i + 1,
                               keys->u.list.count);
        memcpy(&count, f->map->data + at, 8);
        if (count != s->elements)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                               "storage %zu has %" PRId64 " elements, its tensors say %" PRId64, i,
                               count, s->elements);
        bytes = (size_t)count * stance_dtype_size(s->dtype);
        if (bytes > left - 8)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                               "cut short: storage %zu of %zu needs %zu bytes, %zu are left", i + 1,
                               keys->u.list.count, bytes, left - 8);
        s->data = f->map->data + at + 8;
        at += 8 + bytes;
    }
    return STANCE_OK;
}

stance_status stance_torch_legacy_open(struct stance_torch_file *f, struct stance_error *err)
{
    const struct stance_pickle_value *little;
    struct stance_pickle              p;
    size_t                            at = 0;
    stance_status                     status;
    bool                              known;

    /* The first pickle is read even if it is not the magic number: what a bare pickle asks for is
     * worth telling. */
    status = next_pickle(f, &at, &p, err);
    if (status != STANCE_OK)
        return status;
    stance_pickle_free(&p);
    if (at != sizeof magic || memcmp(f->map->data, magic, at) != 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "a pickle, but not one of torch.save()");
    status = next_pickle(f, &at, &p, err);
    if (status != STANCE_OK)
        return status;
    known = p.root->kind == STANCE_PICKLE_INT && p.root->u.i == 1001;
    stance_pickle_free(&p);
    if (!known)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "not of protocol 1001 of torch.save()");
    status = next_pickle(f, &at, &p, err);
    if (status != STANCE_OK)
        return status;
    little = p.root->kind == STANCE_PICKLE_DICT ? stance_pickle_get(p.root, "little_endian") : NULL;
    stance_pickle_free(&p);
    if (little != NULL && little->kind == STANCE_PICKLE_BOOL && !little->u.i)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "written on a big-endian machine");
    status = next_pickle(f, &at, &f->pickle, err);
    if (status != STANCE_OK)
        return status;
    status = list_storages(f, err);
    if (status != STANCE_OK)
        return status;
    status = next_pickle(f, &at, &p, err);
    if (status != STANCE_OK)
        return status;
    if (p.root->kind == STANCE_PICKLE_LIST)
        status = read_storages(f, at, p.root, err);
    else
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "has no list of storages");
    stance_pickle_free(&p);
    return status;
}
