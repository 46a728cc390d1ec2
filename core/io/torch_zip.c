/* SPDX-License-Identifier: Apache-2.0
 *
 * The zip container: TOP/data.pkl, TOP/data/KEY for each storage, TOP/byteorder in newer files. */
#include "config.h"

#include "io/torch_file.h"

#include <string.h>
#include <zip.h>

/* Reads a whole member and, by reading past its end, has its check sum compared. */
static stance_status read_member(struct stance_torch_file *f, zip_uint64_t index, size_t size,
                                 unsigned char *out, struct stance_error *err)
{
    const char    *member = zip_get_name(f->zip, index, 0);
    zip_file_t    *file   = zip_fopen_index(f->zip, index, 0);
    size_t         at     = 0;
    zip_int64_t    n      = 0;
    unsigned char  more;
    stance_status  status = STANCE_OK;

    if (file == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "member '%s': %s", member,
                           zip_strerror(f->zip));
    while (at < size && (n = zip_fread(file, out + at, size - at)) > 0)
        at += (size_t)n;
    if (n >= 0 && at == size)
        n = zip_fread(file, &more, 1);
    if (n < 0)
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "member '%s': %s", member,
                             zip_file_strerror(file));
    else if (at < size || n > 0)
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "member '%s' has not the size it claims",
                             member);
    zip_fclose(file);
    return status;
}

/* Size of a member that is stored as it is, as torch.save() does. What is not compressed cannot be
 * larger than the file, and all of them together cannot either: that bounds what a file may ask
 * for. */
static stance_status member_size(struct stance_torch_file *f, zip_uint64_t index, size_t *size,
                                 struct stance_error *err)
{
    struct zip_stat st;

    zip_stat_init(&st);
    if (zip_stat_index(f->zip, index, 0, &st) != 0
        || (st.valid & (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD))
               != (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "a member is damaged");
    if (st.comp_method != ZIP_CM_STORE || st.size != st.comp_size)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "member '%s' is compressed; torch.save() stores members as they are",
                           st.name);
    if (st.size > f->map->size - f->loaded)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "its members claim more bytes than the file has");
    f->loaded += st.size;
    *size = (size_t)st.size;
    return STANCE_OK;
}

static stance_status open_archive(struct stance_torch_file *f, struct stance_error *err)
{
    zip_error_t   reason;
    zip_source_t *source;
    stance_status status = STANCE_OK;

    zip_error_init(&reason);
    source = zip_source_buffer_create(f->map->data, f->map->size, 0, &reason);
    if (source != NULL)
        f->zip = zip_open_from_source(source, ZIP_RDONLY, &reason);
    if (f->zip == NULL) {
        status = zip_error_code_zip(&reason) == ZIP_ER_MEMORY
                     ? STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading the archive")
                     : STANCE_FAIL(err, STANCE_ERR_FORMAT,
                                   "a zip archive that is cut short or damaged: %s",
                                   zip_error_strerror(&reason));
        if (source != NULL)
            zip_source_free(source);
    }
    zip_error_fini(&reason);
    return status;
}

/* Finds TOP/data.pkl and keeps TOP/. */
static stance_status find_pickle(struct stance_torch_file *f, zip_uint64_t *index,
                                 struct stance_error *err)
{
    static const char leaf[]  = "data.pkl";
    zip_int64_t       entries = zip_get_num_entries(f->zip, 0);

    for (zip_int64_t i = 0; i < entries; i++) {
        const char *name = zip_get_name(f->zip, (zip_uint64_t)i, 0);
        size_t      len  = name != NULL ? strlen(name) : 0, top;

        if (len < sizeof leaf - 1)
            continue;
        top = len - (sizeof leaf - 1);
        if (strcmp(name + top, leaf) != 0 || (top > 0 && name[top - 1] != '/'))
            continue;
        f->prefix = stance_calloc(1, top + 1);
        if (f->prefix == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading the archive");
        memcpy(f->prefix, name, top);
        *index = (zip_uint64_t)i;
        return STANCE_OK;
    }
    return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                       "a zip archive, but not one of torch.save(): it has no data.pkl");
}

/* A member under the top folder. @return its index; -1 absent; -2 out of memory */
static zip_int64_t locate(struct stance_torch_file *f, const char *folder,
                          struct stance_pickle_text leaf)
{
    size_t      top = strlen(f->prefix), mid = strlen(folder);
    char       *name = stance_calloc(1, top + mid + leaf.len + 1);
    zip_int64_t at;

    if (name == NULL)
        return -2;
    memcpy(name, f->prefix, top);
    memcpy(name + top, folder, mid);
    memcpy(name + top + mid, leaf.s, leaf.len);
    at = zip_name_locate(f->zip, name, 0);
    stance_free(name);
    return at;
}

static stance_status check_byte_order(struct stance_torch_file *f, struct stance_error *err)
{
    const struct stance_pickle_text leaf = { "byteorder", 9 };
    zip_int64_t                     at   = locate(f, "", leaf);
    unsigned char                   order[16];
    size_t                          size;
    stance_status                   status;

    if (at == -2)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading the archive");
    if (at < 0)
        return STANCE_OK;
    status = member_size(f, (zip_uint64_t)at, &size, err);
    if (status != STANCE_OK)
        return status;
    if (size > sizeof order)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "a byte order of %zu letters", size);
    status = read_member(f, (zip_uint64_t)at, size, order, err);
    if (status == STANCE_OK && (size != 6 || memcmp(order, "little", 6) != 0))
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "its byte order is not little-endian");
    return status;
}

stance_status stance_torch_zip_open(struct stance_torch_file *f, struct stance_error *err)
{
    zip_uint64_t  index = 0;
    size_t        size;
    stance_status status = open_archive(f, err);

    if (status == STANCE_OK)
        status = find_pickle(f, &index, err);
    if (status == STANCE_OK)
        status = check_byte_order(f, err);
    if (status == STANCE_OK)
        status = member_size(f, index, &size, err);
    if (status != STANCE_OK)
        return status;
    f->text = stance_calloc(1, size + 1);
    if (f->text == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "pickle of %zu bytes", size);
    status = read_member(f, index, size, f->text, err);
    if (status == STANCE_OK)
        status = stance_pickle_load(f->text, size, f->arena, &f->pickle, err);
    return status;
}

stance_status stance_torch_zip_load(struct stance_torch_file *f, struct stance_torch_storage *s,
                                    struct stance_error *err)
{
    zip_int64_t   at = memchr(s->key.s, '\0', s->key.len) == NULL ? locate(f, "data/", s->key) : -1;
    int           shown = (int)(s->key.len < 100 ? s->key.len : 100);
    size_t        size, need = (size_t)s->elements * stance_dtype_size(s->dtype);
    stance_status status;

    if (at == -2)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading the archive");
    if (at < 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "storage '%.*s' is not in the archive",
                           shown, s->key.s);
    status = member_size(f, (zip_uint64_t)at, &size, err);
    if (status != STANCE_OK)
        return status;
    if (size != need)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "storage '%.*s' has %zu bytes, its tensors need %zu", shown,
                           s->key.s, size, need);
    s->owned = stance_calloc(1, size + 1);
    if (s->owned == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "storage of %zu bytes", size);
    status = read_member(f, (zip_uint64_t)at, size, s->owned, err);
    if (status == STANCE_OK)
        s->data = s->owned;
    return status;
}

void stance_torch_zip_close(struct stance_torch_file *f)
{
    if (f->zip != NULL)
        zip_discard(f->zip);
    f->zip = NULL;
}
