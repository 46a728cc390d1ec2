/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/safetensors.h"

#include "io/json.h"

#include <stance/alloc.h>

#include <inttypes.h>
#include <stdlib.h>

struct stance_safetensors {
    struct stance_map           map;
    struct stance_arena        *arena; /* names and metadata */
    struct stance_entry        *entry;
    size_t                      count, capacity;
    const struct stance_entry **by_name; /* sorted */
    struct stance_pair         *meta;
    size_t                      meta_count, meta_capacity;
};

/* Byte range of an entry, while the header is checked. */
struct range { size_t begin, end; const char *name; };

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct stance_entry *const *)a)->name,
                  (*(const struct stance_entry *const *)b)->name);
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* A string of the header as a C string in the arena, or NULL after recording why not. */
static const char *keep(struct stance_safetensors *s, struct stance_json *r,
                        struct stance_json_text text)
{
    char *copy;

    if (memchr(text.s, '\0', text.len) != NULL) {
        stance_json_refuse(r, STANCE_ERR_FORMAT, "a name with a zero byte");
        return NULL;
    }
    copy = stance_arena_get(s->arena, text.len + 1, 1);
    if (copy == NULL)
        stance_json_refuse(r, STANCE_ERR_NOMEM, "a name");
    else
        memcpy(copy, text.s, text.len);
    return copy;
}

static void read_meta(struct stance_safetensors *s, struct stance_json *r)
{
    struct stance_json_text key;

    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        struct stance_pair pair;

        pair.key = keep(s, r, key);
        if (pair.key == NULL)
            return;
        if (stance_json_peek(r) != STANCE_JSON_STRING)
            stance_json_refuse(r, STANCE_ERR_FORMAT, "metadata '%s' is not a string", pair.key);
        pair.value = keep(s, r, stance_json_string(r));
        if (pair.value == NULL)
            return;
        if (!stance_grow((void **)&s->meta, &s->meta_capacity, s->meta_count + 1,
                         sizeof *s->meta)) {
            stance_json_refuse(r, STANCE_ERR_NOMEM, "metadata");
            return;
        }
        s->meta[s->meta_count++] = pair;
    }
}

/* A length or an offset: a whole number, 0 or more. */
static int64_t read_length(struct stance_json *r, const char *what)
{
    struct stance_json_number n;

    if (!stance_json_number(r, &n))
        return 0;
    if (!n.integer || n.i64 < 0) {
        stance_json_refuse(r, STANCE_ERR_FORMAT, "%s: a whole number within 63 bits expected",
                           what);
        return 0;
    }
    return n.i64;
}

static void read_entry(struct stance_json *r, struct stance_entry *e, struct range *range)
{
    struct stance_json_text key;
    bool                    have_type = false, have_shape = false, have_range = false;

    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        if (stance_json_is(key, "dtype")) {
            struct stance_json_text word = stance_json_string(r);

            e->dtype  = stance_dtype_of(word.s, word.len);
            have_type = true;
            if (e->dtype == STANCE_DTYPE_COUNT)
                stance_json_refuse(r, STANCE_ERR_FORMAT, "tensor '%s': unknown type '%.*s'",
                                   e->name, (int)(word.len < 40 ? word.len : 40), word.s);
        } else if (stance_json_is(key, "shape")) {
            have_shape = true;
            e->rank    = 0;
            for (stance_json_array(r); stance_json_next_item(r);) {
                if (e->rank == STANCE_ENTRY_RANK) {
                    stance_json_refuse(r, STANCE_ERR_FORMAT, "tensor '%s': more than %d dimensions",
                                       e->name, STANCE_ENTRY_RANK);
                    return;
                }
                e->dim[e->rank++] = read_length(r, "dimension");
            }
        } else if (stance_json_is(key, "data_offsets")) {
            int64_t at[2] = { 0, 0 };
            int     n     = 0;

            for (stance_json_array(r); stance_json_next_item(r); n++) {
                if (n < 2)
                    at[n] = read_length(r, "offset");
                else
                    stance_json_skip(r);
            }
            have_range = true;
            if (n != 2 || at[1] < at[0])
                stance_json_refuse(r, STANCE_ERR_FORMAT,
                                   "tensor '%s': data_offsets are not [begin, end]", e->name);
            *range = (struct range){ (size_t)at[0], (size_t)at[1], e->name };
        } else {
            stance_json_skip(r);
        }
    }
    if (stance_json_status(r, NULL) != STANCE_OK)
        return;
    if (!have_type || !have_shape || !have_range)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "tensor '%s': has no %s", e->name,
                           !have_type ? "dtype" : !have_shape ? "shape" : "data_offsets");
    else if (!stance_entry_size(e))
        stance_json_refuse(r, STANCE_ERR_FORMAT, "tensor '%s': its shape overflows", e->name);
    else if (e->bytes != range->end - range->begin)
        stance_json_refuse(r, STANCE_ERR_FORMAT,
                           "tensor '%s': its shape needs %zu bytes, data_offsets give %zu", e->name,
                           e->bytes, range->end - range->begin);
}

static stance_status read_header(struct stance_safetensors *s, struct stance_json *r,
                                 struct range **ranges, struct stance_error *err)
{
    struct stance_json_text key;
    size_t                  capacity = 0;

    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        if (stance_json_is(key, "__metadata__")) {
            read_meta(s, r);
            continue;
        }
        if (!stance_grow((void **)&s->entry, &s->capacity, s->count + 1, sizeof *s->entry)
            || !stance_grow((void **)ranges, &capacity, s->count + 1, sizeof **ranges)) {
            stance_json_refuse(r, STANCE_ERR_NOMEM, "list of tensors");
            break;
        }
        s->entry[s->count].name = keep(s, r, key);
        if (s->entry[s->count].name == NULL)
            break;
        read_entry(r, &s->entry[s->count], &(*ranges)[s->count]);
        s->count++;
    }
    return stance_json_finish(r, err);
}

/* The ranges must tile the data: [0, a), [a, b), ... to the end of the file. */
static stance_status check_ranges(struct range *range, size_t count, size_t header, size_t size,
                                  const char *name, struct stance_error *err)
{
    size_t at = 0, needed = 0;

    for (size_t i = 0; i < count; i++)
        needed = range[i].end > needed ? range[i].end : needed;
    if (needed > size - header)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "%s: cut short: the file has %zu bytes, its header needs %" PRIu64, name,
                           size, (uint64_t)header + needed);
    if (count > 0)
        qsort(range, count, sizeof *range, compare_ranges);
    for (size_t i = 0; i < count; i++) {
        if (range[i].begin < at)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: tensors '%s' and '%s' overlap", name,
                               range[i - 1].name, range[i].name);
        if (range[i].begin > at)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                               "%s: %zu bytes before tensor '%s' belong to no tensor", name,
                               range[i].begin - at, range[i].name);
        at = range[i].end;
    }
    if (needed != size - header)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "%s: too long: the file has %zu bytes, its header accounts for %zu",
                           name, size, header + needed);
    return STANCE_OK;
}

static stance_status index_names(struct stance_safetensors *s, const char *name,
                                 struct stance_error *err)
{
    s->by_name = stance_calloc(s->count + 1, sizeof *s->by_name);
    if (s->by_name == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: index of names", name);
    for (size_t i = 0; i < s->count; i++)
        s->by_name[i] = &s->entry[i];
    qsort(s->by_name, s->count, sizeof *s->by_name, compare_names);
    for (size_t i = 1; i < s->count; i++)
        if (compare_names(&s->by_name[i - 1], &s->by_name[i]) == 0)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: tensor '%s' stands twice in the header",
                               name, s->by_name[i]->name);
    return STANCE_OK;
}

static stance_status parse(struct stance_safetensors *s, const char *name, struct stance_error *err)
{
    struct range       *ranges = NULL;
    struct stance_json *r;
    uint64_t            length;
    char                label[512];
    stance_status       status;

    if (s->map.size < 8)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "%s: %zu bytes are too few for the header length of a safetensors file",
                           name, s->map.size);
    memcpy(&length, s->map.data, 8);
    if (length > s->map.size - 8)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "%s: the header claims %" PRIu64 " bytes, the file has %zu", name,
                           length, s->map.size);
    if (length > STANCE_SAFETENSORS_HEADER_MAX)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: a header of %" PRIu64 " bytes is beyond %d",
                           name, length, STANCE_SAFETENSORS_HEADER_MAX);
    s->arena = stance_arena_new(16384);
    if (s->arena == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: header", name);
    snprintf(label, sizeof label, "%s: header", name);
    status = stance_json_open_memory(s->map.data + 8, length, label, &r, err);
    if (status != STANCE_OK)
        return status;
    status = read_header(s, r, &ranges, err);
    stance_json_close(r);
    if (status == STANCE_OK)
        status = index_names(s, name, err);
    if (status == STANCE_OK) {
        for (size_t i = 0; i < s->count; i++)
            s->entry[i].data = s->map.data + 8 + length + ranges[i].begin;
        status = check_ranges(ranges, s->count, 8 + (size_t)length, s->map.size, name, err);
    }
    stance_free(ranges);
    return status;
}

bool stance_safetensors_looks(const void *data, size_t size)
{
    return size > 8 && ((const unsigned char *)data)[8] == '{';
}

stance_status stance_safetensors_take(struct stance_map *map, const char *name,
                                      struct stance_safetensors **out, struct stance_error *err)
{
    struct stance_safetensors *s = stance_calloc(1, sizeof *s);
    stance_status              status;

    if (s == NULL) {
        stance_map_close(map);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: opening it", name);
    }
    s->map = *map;
    *map   = (struct stance_map){ 0 };
    status = parse(s, name, err);
    if (status == STANCE_OK)
        *out = s;
    else
        stance_safetensors_close(s);
    return status;
}

stance_status stance_safetensors_open(const char *path, struct stance_safetensors **out,
                                      struct stance_error *err)
{
    struct stance_map map;
    stance_status     status = stance_map_open(path, &map, err);

    return status == STANCE_OK ? stance_safetensors_take(&map, path, out, err) : status;
}

stance_status stance_safetensors_open_memory(const void *data, size_t size, const char *name,
                                             struct stance_safetensors **out,
                                             struct stance_error *err)
{
    struct stance_map map;
    stance_status     status = stance_map_copy(data, size, &map, err);

    return status == STANCE_OK ? stance_safetensors_take(&map, name, out, err) : status;
}

void stance_safetensors_close(struct stance_safetensors *s)
{
    if (s == NULL)
        return;
    stance_map_close(&s->map);
    stance_arena_free(s->arena);
    stance_free(s->entry);
    stance_free(s->by_name);
    stance_free(s->meta);
    stance_free(s);
}

size_t stance_safetensors_count(const struct stance_safetensors *s)
{
    return s->count;
}

const struct stance_entry *stance_safetensors_at(const struct stance_safetensors *s, size_t index)
{
    return &s->entry[index];
}

const struct stance_entry *stance_safetensors_find(const struct stance_safetensors *s,
                                                   const char *name)
{
    const struct stance_entry  wanted = { .name = name }, *key = &wanted;
    const struct stance_entry **found = bsearch(&key, s->by_name, s->count, sizeof *s->by_name,
                                                compare_names);

    return found != NULL ? *found : NULL;
}

const char *stance_safetensors_meta(const struct stance_safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->meta_count; i++)
        if (strcmp(s->meta[i].key, key) == 0)
            return s->meta[i].value;
    return NULL;
}

const struct stance_pair *stance_safetensors_metas(const struct stance_safetensors *s,
                                                   size_t *count)
{
    *count = s->meta_count;
    return s->meta;
}
