/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/torch.h"

#include "io/torch_file.h"

#include <stance/alloc.h>

#include <stdlib.h>
#include <string.h>

struct stance_torch {
    struct stance_map    map;
    struct stance_arena *arena; /* names */
    struct stance_entry *entry;
    size_t               count;
    void               **block; /* elements that do not lie in the map */
    size_t               blocks, block_capacity;
    uint64_t             bytes; /* of all tensors */
};

/* How much larger than the file its tensors may be: a stride of 0, or many names for one storage,
 * can ask for any size. Nothing that trains comes near. */
#define GROWTH_MAX 16

#define SHOWN(text) (int)((text).len < 200 ? (text).len : 200), (text).s

static bool keep_block(struct stance_torch *t, void *block)
{
    if (!stance_grow((void **)&t->block, &t->block_capacity, t->blocks + 1, sizeof *t->block))
        return false;
    t->block[t->blocks++] = block;
    return true;
}

/* One element of the tensor after another in C order, by an odometer over all dimensions but the
 * last. */
static void gather(const struct stance_pickle_tensor *p, const struct stance_entry *e,
                   const unsigned char *from, unsigned char *to)
{
    size_t  size = stance_dtype_size(e->dtype), left = e->bytes / size;
    int     last = p->rank - 1;
    int64_t at[STANCE_ENTRY_RANK] = { 0 };
    size_t  row = p->rank > 0 ? (size_t)p->size[last] : 1;
    size_t  jump = p->rank > 0 ? (size_t)p->stride[last] * size : 0;

    for (; left > 0; left -= row) {
        size_t offset = 0;

        for (int d = 0; d < last; d++)
            offset += (size_t)(at[d] * p->stride[d]);
        for (size_t i = 0; i < row; i++, to += size)
            memcpy(to, from + offset * size + i * jump, size);
        for (int d = last - 1; d >= 0 && ++at[d] == p->size[d]; d--)
            at[d] = 0;
    }
}

static bool is_contiguous(const struct stance_pickle_tensor *p)
{
    int64_t expected = 1;

    for (int d = p->rank - 1; d >= 0; d--) {
        if (p->size[d] != 1 && p->stride[d] != expected)
            return false;
        expected *= p->size[d];
    }
    return true;
}

/* Whether every element that the strides can reach lies within the storage. */
static bool in_bounds(const struct stance_pickle_tensor *p)
{
    int64_t end = p->offset, reach;

    for (int d = 0; d < p->rank; d++)
        if (__builtin_mul_overflow(p->size[d] - 1, p->stride[d], &reach)
            || __builtin_add_overflow(end, reach, &end))
            return false;
    return end < p->storage->count;
}

static stance_status make_entry(struct stance_torch *t, struct stance_torch_file *f,
                                struct stance_pickle_text name,
                                const struct stance_pickle_tensor *p, struct stance_entry *e,
                                struct stance_error *err)
{
    struct stance_torch_storage *s;
    char                        *copy;
    unsigned char               *plain;
    const unsigned char         *from;
    stance_status                status;

    if (memchr(name.s, '\0', name.len) != NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "the name of a tensor has a zero byte");
    copy = stance_arena_get(t->arena, name.len + 1, 1);
    if (copy == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "name of a tensor");
    memcpy(copy, name.s, name.len);
    *e = (struct stance_entry){ .name = copy, .dtype = p->storage->dtype, .rank = p->rank,
                                .data = t->map.data };
    memcpy(e->dim, p->size, sizeof e->dim);
    if (!stance_entry_size(e))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "tensor '%.*s': its shape overflows",
                           SHOWN(name));
    if (e->bytes == 0)
        return STANCE_OK;
    if (!in_bounds(p))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "tensor '%.*s': reaches beyond its storage of %lld elements",
                           SHOWN(name), (long long)p->storage->count);
    t->bytes += e->bytes;
    if (t->bytes > GROWTH_MAX * (uint64_t)t->map.size)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "tensor '%.*s': the tensors claim over %d times the bytes of the file",
                           SHOWN(name), GROWTH_MAX);
    s = stance_torch_file_find(f, p->storage->key);
    if (s == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "a storage is not in the list");
    status = stance_torch_file_load(f, s, err);
    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "tensor '%.*s'", SHOWN(name));
    from = s->data + (size_t)(p->storage->first + p->offset) * stance_dtype_size(e->dtype);
    if (is_contiguous(p)) {
        e->data = from;
        return STANCE_OK;
    }
    plain = stance_calloc(1, e->bytes);
    if (plain == NULL || !keep_block(t, plain)) {
        stance_free(plain);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "tensor '%.*s'", SHOWN(name));
    }
    gather(p, e, from, plain);
    e->data = plain;
    return STANCE_OK;
}

/* The mapping that holds the weights. */
static stance_status find_weights(const struct stance_torch_file *f,
                                  const struct stance_pickle_value **out, struct stance_error *err)
{
    const struct stance_pickle_value *root = f->pickle.root, *inner;

    if (root->kind != STANCE_PICKLE_DICT)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "is not a mapping of names to tensors");
    inner = stance_pickle_get(root, "state_dict");
    if (inner != NULL && inner->kind != STANCE_PICKLE_DICT)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "its 'state_dict' is not a mapping of names to tensors");
    *out = inner != NULL ? inner : root;
    return STANCE_OK;
}

static stance_status make_entries(struct stance_torch *t, struct stance_torch_file *f,
                                  struct stance_error *err)
{
    const struct stance_pickle_value *weights = NULL;
    stance_status                     status = find_weights(f, &weights, err);

    if (status != STANCE_OK)
        return status;
    t->arena = stance_arena_new(16384);
    t->entry = stance_calloc(weights->u.list.count / 2 + 1, sizeof *t->entry);
    if (t->arena == NULL || t->entry == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "list of tensors");
    for (size_t i = 0; i < weights->u.list.count && status == STANCE_OK; i += 2) {
        const struct stance_pickle_value *key   = weights->u.list.item[i];
        const struct stance_pickle_value *value = weights->u.list.item[i + 1];

        if (key->kind != STANCE_PICKLE_TEXT || value->kind != STANCE_PICKLE_TENSOR)
            continue;
        status = make_entry(t, f, key->u.text, value->u.tensor, &t->entry[t->count], err);
        t->count += status == STANCE_OK;
    }
    return status;
}

/* Storages that were read into the heap stay: entries point into them. */
static stance_status take_storages(struct stance_torch *t, struct stance_torch_file *f,
                                   struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < f->storages; i++) {
        if (f->storage[i].owned == NULL)
            continue;
        if (status == STANCE_OK && !keep_block(t, f->storage[i].owned))
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "list of storages");
        if (status != STANCE_OK)
            stance_free(f->storage[i].owned);
        f->storage[i].owned = NULL;
    }
    return status;
}

bool stance_torch_looks(const void *data, size_t size)
{
    const unsigned char *p = data;

    return stance_torch_is_zip(data, size) || (size >= 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5);
}

stance_status stance_torch_take(struct stance_map *map, const char *name,
                                struct stance_torch **out, struct stance_error *err)
{
    struct stance_torch     *t = stance_calloc(1, sizeof *t);
    struct stance_torch_file f;
    stance_status            status, taken;

    if (t == NULL) {
        stance_map_close(map);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: opening it", name);
    }
    t->map = *map;
    *map   = (struct stance_map){ 0 };
    if (!stance_torch_looks(t->map.data, t->map.size)) {
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT,
                             "neither a zip archive nor a pickle: not a file of torch.save()");
        goto close;
    }
    status = stance_torch_file_open(&t->map, &f, err);
    if (status != STANCE_OK)
        goto close;
    status = make_entries(t, &f, err);
    taken  = take_storages(t, &f, status == STANCE_OK ? err : NULL);
    stance_torch_file_close(&f);
    if (status == STANCE_OK)
        status = taken;
    if (status != STANCE_OK)
        goto close;
    *out = t;
    return STANCE_OK;

close:
    stance_torch_close(t);
    return stance_error_prefix(err, status, "%s", name);
}

stance_status stance_torch_open(const char *path, struct stance_torch **out,
                                struct stance_error *err)
{
    struct stance_map map;
    stance_status     status = stance_map_open(path, &map, err);

    return status == STANCE_OK ? stance_torch_take(&map, path, out, err) : status;
}

stance_status stance_torch_open_memory(const void *data, size_t size, const char *name,
                                       struct stance_torch **out, struct stance_error *err)
{
    struct stance_map map;
    stance_status     status = stance_map_copy(data, size, &map, err);

    return status == STANCE_OK ? stance_torch_take(&map, name, out, err) : status;
}

void stance_torch_close(struct stance_torch *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->blocks; i++)
        stance_free(t->block[i]);
    stance_free(t->block);
    stance_free(t->entry);
    stance_arena_free(t->arena);
    stance_map_close(&t->map);
    stance_free(t);
}

size_t stance_torch_count(const struct stance_torch *t)
{
    return t->count;
}

const struct stance_entry *stance_torch_at(const struct stance_torch *t, size_t index)
{
    return &t->entry[index];
}
