/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#define STANCE_LOG_MODULE "weights"

#include "io/tensors.h"

#include "io/torch.h"

#include <stance/alloc.h>
#include <stance/log.h>

#include <stdlib.h>
#include <string.h>

struct stance_tensors {
    char                       *path;
    struct stance_safetensors  *safetensors; /* one of the two */
    struct stance_torch        *torch;
    struct stance_entry        *entry; /* a copy, with the names that we show */
    const struct stance_entry **by_name;
    size_t                      count;
    bool                        stripped;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct stance_entry *const *)a)->name,
                  (*(const struct stance_entry *const *)b)->name);
}

static void strip(struct stance_tensors *t)
{
    static const char prefix[] = "module.";
    size_t            len      = sizeof prefix - 1;

    for (size_t i = 0; i < t->count; i++)
        if (strncmp(t->entry[i].name, prefix, len) != 0)
            return;
    for (size_t i = 0; i < t->count; i++)
        t->entry[i].name += len;
    t->stripped = true;
}

static stance_status make_list(struct stance_tensors *t, struct stance_error *err)
{
    t->count   = t->torch != NULL ? stance_torch_count(t->torch)
                                  : stance_safetensors_count(t->safetensors);
    t->entry   = stance_calloc(t->count + 1, sizeof *t->entry);
    t->by_name = stance_calloc(t->count + 1, sizeof *t->by_name);
    if (t->entry == NULL || t->by_name == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: list of tensors", t->path);
    if (t->count == 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: holds no tensors by name", t->path);
    for (size_t i = 0; i < t->count; i++) {
        t->entry[i]   = t->torch != NULL ? *stance_torch_at(t->torch, i)
                                         : *stance_safetensors_at(t->safetensors, i);
        t->by_name[i] = &t->entry[i];
    }
    strip(t);
    qsort(t->by_name, t->count, sizeof *t->by_name, compare_names);
    for (size_t i = 1; i < t->count; i++)
        if (compare_names(&t->by_name[i - 1], &t->by_name[i]) == 0)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: tensor '%s' stands twice in it",
                               t->path, t->by_name[i]->name);
    return STANCE_OK;
}

/* Takes the map in any case. */
static stance_status open_map(struct stance_map *map, const char *path, struct stance_tensors **out,
                              struct stance_error *err)
{
    struct stance_tensors *t = stance_calloc(1, sizeof *t);
    stance_status          status;

    if (t != NULL)
        t->path = stance_strdup(path);
    if (t == NULL || t->path == NULL) {
        stance_map_close(map);
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: opening it", path);
    } else if (map->size == 0) {
        stance_map_close(map);
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is empty", path);
    } else if (stance_torch_looks(map->data, map->size)
               && !stance_safetensors_looks(map->data, map->size)) {
        status = stance_torch_take(map, path, &t->torch, err);
    } else if (map->data[0] == '<') {
        stance_map_close(map);
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT,
                             "%s: is a text that begins with '<', perhaps the error page of a "
                             "failed download, not weights",
                             path);
    } else if (map->size > 8 && !stance_safetensors_looks(map->data, map->size)) {
        stance_map_close(map);
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT,
                             "%s: neither a safetensors file nor one of PyTorch's torch.save()",
                             path);
    } else {
        status = stance_safetensors_take(map, path, &t->safetensors, err);
    }
    if (status == STANCE_OK)
        status = make_list(t, err);
    if (status != STANCE_OK) {
        stance_tensors_close(t);
        return status;
    }
    if (t->stripped)
        STANCE_LOG(STANCE_LOG_INFO, "%s: took the prefix 'module.' off all of its names", path);
    *out = t;
    return STANCE_OK;
}

stance_status stance_tensors_open(const char *path, struct stance_tensors **out,
                                  struct stance_error *err)
{
    struct stance_map map;
    stance_status     status = stance_map_open(path, &map, err);

    return status == STANCE_OK ? open_map(&map, path, out, err) : status;
}

stance_status stance_tensors_open_memory(const void *data, size_t size, const char *name,
                                         struct stance_tensors **out, struct stance_error *err)
{
    struct stance_map map;
    stance_status     status = stance_map_copy(data, size, &map, err);

    return status == STANCE_OK ? open_map(&map, name, out, err) : status;
}

void stance_tensors_close(struct stance_tensors *t)
{
    if (t == NULL)
        return;
    stance_safetensors_close(t->safetensors);
    stance_torch_close(t->torch);
    stance_free(t->entry);
    stance_free(t->by_name);
    stance_free(t->path);
    stance_free(t);
}

const char *stance_tensors_path(const struct stance_tensors *t)
{
    return t->path;
}

size_t stance_tensors_count(const struct stance_tensors *t)
{
    return t->count;
}

const struct stance_entry *stance_tensors_at(const struct stance_tensors *t, size_t index)
{
    return &t->entry[index];
}

const struct stance_entry *stance_tensors_find(const struct stance_tensors *t, const char *name)
{
    const struct stance_entry  wanted = { .name = name }, *key = &wanted;
    const struct stance_entry **found = bsearch(&key, t->by_name, t->count, sizeof *t->by_name,
                                                compare_names);

    return found != NULL ? *found : NULL;
}

bool stance_tensors_stripped(const struct stance_tensors *t)
{
    return t->stripped;
}

const char *stance_tensors_meta(const struct stance_tensors *t, const char *key)
{
    return t->safetensors != NULL ? stance_safetensors_meta(t->safetensors, key) : NULL;
}

const struct stance_pair *stance_tensors_metas(const struct stance_tensors *t, size_t *count)
{
    *count = 0;
    return t->safetensors != NULL ? stance_safetensors_metas(t->safetensors, count) : NULL;
}

/* ---- converting ------------------------------------------------------------------------------ */

/* Wide types first, so that elements lie aligned; else the order of the file. */
static void sort_by_width(const struct stance_tensors *t, struct stance_entry *out)
{
    size_t n = 0;

    for (size_t size = 8; size > 0; size /= 2)
        for (size_t i = 0; i < t->count; i++)
            if (stance_dtype_size(t->entry[i].dtype) == size)
                out[n++] = t->entry[i];
}

static stance_status write_all(const struct stance_tensors *t, const char *path,
                               const struct stance_entry *entry, struct stance_error *err)
{
    /* The word by which other readers know whose layout it is. */
    static const struct stance_pair format = { "format", "pt" };
    struct stance_safetensors_out  *o;
    size_t                          metas;
    const struct stance_pair       *meta = stance_tensors_metas(t, &metas);
    stance_status                   status;

    if (metas == 0) {
        meta  = &format;
        metas = 1;
    }
    status = stance_safetensors_create(path, entry, t->count, meta, metas, &o, err);
    if (status != STANCE_OK)
        return status;
    for (size_t i = 0; i < t->count && status == STANCE_OK; i++)
        status = stance_safetensors_write(o, entry[i].data, entry[i].bytes, err);
    if (status == STANCE_OK)
        return stance_safetensors_commit(o, err);
    stance_safetensors_abort(o);
    return status;
}

stance_status stance_tensors_convert(const char *in, const char *out,
                                     struct stance_converted *report, struct stance_error *err)
{
    struct stance_tensors *t;
    struct stance_entry   *entry;
    stance_status          status = stance_tensors_open(in, &t, err);

    if (status != STANCE_OK)
        return status;
    entry = stance_calloc(t->count, sizeof *entry);
    if (entry == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: list of tensors", in);
    } else {
        sort_by_width(t, entry);
        status = write_all(t, out, entry, err);
    }
    if (status == STANCE_OK && report != NULL)
        *report = (struct stance_converted){ t->count, t->stripped };
    stance_free(entry);
    stance_tensors_close(t);
    return status;
}
