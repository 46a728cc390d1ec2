/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/safetensors.h"

#include "base/text.h"
#include "io/utf8.h"

#include <stance/alloc.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stance_safetensors_out {
    int            fd;
    char          *path, *temporary;
    uint64_t       left;   /* bytes declared and not yet written */
    stance_status  status; /* of the first failure */
    size_t         used;
    unsigned char  buffer[65536]; /* norms have tens of bytes, and there are hundreds */
};

static bool is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    size_t               len = 1;

    for (; p < end && len > 0; p += len)
        len = stance_utf8_length(p, end);
    return len > 0;
}

static void add_quoted(struct stance_string *t, const char *text)
{
    const char *piece = text, *p = text;

    stance_string_add(t, "\"");
    for (; *p != '\0'; p++) {
        if (*p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
            continue;
        stance_string_add(t, "%.*s", (int)(p - piece), piece);
        stance_string_add(t, (unsigned char)*p < ' ' ? "\\u%04x" : "\\%c", *p);
        piece = p + 1;
    }
    stance_string_add(t, "%s\"", piece);
}

static stance_status add_meta(struct stance_string *t, const struct stance_pair *meta, size_t count,
                              struct stance_error *err)
{
    stance_string_add(t, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (!is_utf8(meta[i].key) || !is_utf8(meta[i].value))
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "metadata '%s': is not UTF-8", meta[i].key);
        for (size_t j = 0; j < i; j++)
            if (strcmp(meta[i].key, meta[j].key) == 0)
                return STANCE_FAIL(err, STANCE_ERR_INVAL, "metadata '%s': stands twice",
                                   meta[i].key);
        if (i > 0)
            stance_string_add(t, ",");
        add_quoted(t, meta[i].key);
        stance_string_add(t, ":");
        add_quoted(t, meta[i].value);
    }
    stance_string_add(t, "}");
    return STANCE_OK;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static stance_status check_names(const struct stance_entry *entries, size_t count,
                                 struct stance_error *err)
{
    const char  **names = stance_calloc(count + 1, sizeof *names);
    stance_status status = STANCE_OK;

    if (names == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "names of %zu tensors", count);
    for (size_t i = 0; i < count && status == STANCE_OK; i++) {
        names[i] = entries[i].name;
        if (strcmp(names[i], "__metadata__") == 0)
            status = STANCE_FAIL(err, STANCE_ERR_INVAL, "tensor '%s': the name is reserved",
                                 names[i]);
        else if (!is_utf8(names[i]))
            status = STANCE_FAIL(err, STANCE_ERR_INVAL, "tensor '%s': the name is not UTF-8",
                                 names[i]);
    }
    if (status == STANCE_OK)
        qsort(names, count, sizeof *names, compare_words);
    for (size_t i = 1; i < count && status == STANCE_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = STANCE_FAIL(err, STANCE_ERR_INVAL, "tensor '%s' is declared twice", names[i]);
    stance_free(names);
    return status;
}

/* The header's JSON, padded with blanks so that the elements start at a multiple of 8. */
static stance_status make_header(struct stance_string *t, const struct stance_entry *entries,
                                 size_t count, const struct stance_pair *meta, size_t meta_count,
                                 uint64_t *total, struct stance_error *err)
{
    stance_status status = check_names(entries, count, err);
    uint64_t      at     = 0;

    stance_string_add(t, "{");
    if (status == STANCE_OK && meta_count > 0)
        status = add_meta(t, meta, meta_count, err);
    for (size_t i = 0; i < count && status == STANCE_OK; i++) {
        struct stance_entry e = entries[i];

        if ((unsigned)e.dtype >= STANCE_DTYPE_COUNT || e.rank < 0 || e.rank > STANCE_ENTRY_RANK
            || !stance_entry_size(&e) || e.bytes > INT64_MAX - at)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "tensor '%s': no such type or shape", e.name);
        if (i > 0 || meta_count > 0)
            stance_string_add(t, ",");
        add_quoted(t, e.name);
        stance_string_add(t, ":{\"dtype\":\"%s\",\"shape\":[", stance_dtype_word(e.dtype));
        for (int d = 0; d < e.rank; d++)
            stance_string_add(t, "%s%" PRId64, d > 0 ? "," : "", e.dim[d]);
        stance_string_add(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + e.bytes);
        at += e.bytes;
    }
    if (status != STANCE_OK)
        return status;
    stance_string_add(t, "}");
    stance_string_add(t, "%*s", (int)(-t->len & 7), "");
    if (t->failed)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "header of %zu tensors", count);
    if (t->len > STANCE_SAFETENSORS_HEADER_MAX)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "a header of %zu bytes is beyond %d", t->len,
                           STANCE_SAFETENSORS_HEADER_MAX);
    *total = at;
    return STANCE_OK;
}

static stance_status put(struct stance_safetensors_out *o, const unsigned char *p, size_t n,
                         struct stance_error *err)
{
    while (n > 0) {
        ssize_t done = write(o->fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return o->status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", o->path, strerror(errno));
        p += done;
        n -= (size_t)done;
    }
    return STANCE_OK;
}

static stance_status flush(struct stance_safetensors_out *o, struct stance_error *err)
{
    stance_status status = put(o, o->buffer, o->used, err);

    o->used = 0;
    return status;
}

static stance_status append(struct stance_safetensors_out *o, const void *data, size_t bytes,
                            struct stance_error *err)
{
    if (bytes > sizeof o->buffer - o->used) {
        stance_status status = flush(o, err);

        if (status == STANCE_OK && bytes > sizeof o->buffer / 2)
            return put(o, data, bytes, err);
        if (status != STANCE_OK)
            return status;
    }
    if (bytes > 0)
        memcpy(o->buffer + o->used, data, bytes);
    o->used += bytes;
    return STANCE_OK;
}

static void release(struct stance_safetensors_out *o)
{
    stance_free(o->path);
    stance_free(o->temporary);
    stance_free(o);
}

void stance_safetensors_abort(struct stance_safetensors_out *o)
{
    if (o == NULL)
        return;
    if (o->fd >= 0)
        close(o->fd);
    unlink(o->temporary);
    release(o);
}

stance_status stance_safetensors_create(const char *path, const struct stance_entry *entries,
                                        size_t count, const struct stance_pair *meta,
                                        size_t meta_count, struct stance_safetensors_out **out,
                                        struct stance_error *err)
{
    struct stance_safetensors_out *o;
    struct stance_string           header = { 0 };
    size_t                         room = strlen(path) + sizeof ".tmp";
    uint64_t                       length;
    stance_status                  status;

    o = stance_calloc(1, sizeof *o);
    if (o == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: writing it", path);
    status = make_header(&header, entries, count, meta, meta_count, &o->left, err);
    if (status != STANCE_OK) {
        stance_error_prefix(err, status, "%s", path);
        goto free_header;
    }
    o->path      = stance_strdup(path);
    o->temporary = stance_calloc(1, room);
    if (o->path == NULL || o->temporary == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: writing it", path);
        goto free_header;
    }
    snprintf(o->temporary, room, "%s.tmp", path);
    o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (o->fd < 0) {
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", o->temporary, strerror(errno));
        goto free_header;
    }
    length = header.len;
    status = append(o, &length, sizeof length, err);
    if (status == STANCE_OK)
        status = append(o, header.s, header.len, err);
    stance_string_free(&header);
    if (status != STANCE_OK) {
        stance_safetensors_abort(o);
        return status;
    }
    *out = o;
    return STANCE_OK;

free_header:
    stance_string_free(&header);
    release(o);
    return status;
}

stance_status stance_safetensors_write(struct stance_safetensors_out *o, const void *data,
                                       size_t bytes, struct stance_error *err)
{
    if (o->status != STANCE_OK)
        return STANCE_FAIL(err, o->status, "%s: an earlier write failed", o->path);
    if (bytes > o->left)
        return o->status = STANCE_FAIL(err, STANCE_ERR_INVAL,
                                       "%s: %zu bytes more than were declared", o->path,
                                       (size_t)(bytes - o->left));
    o->left -= bytes;
    return append(o, data, bytes, err);
}

/* The folder of the file, open, or -1 with errno set. */
static int open_folder(const struct stance_safetensors_out *o)
{
    char *slash = strrchr(o->temporary, '/'), kept;
    int   fd;

    if (slash == NULL)
        return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kept     = slash[1];
    slash[1] = '\0';
    fd       = open(o->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    slash[1] = kept;
    return fd;
}

stance_status stance_safetensors_commit(struct stance_safetensors_out *o, struct stance_error *err)
{
    stance_status status = o->status;
    int           folder;

    if (status != STANCE_OK) {
        STANCE_FAIL(err, status, "%s: an earlier write failed", o->path);
        goto abort;
    }
    if (o->left > 0) {
        status = STANCE_FAIL(err, STANCE_ERR_INVAL,
                             "%s: %" PRIu64 " bytes fewer than were declared", o->path, o->left);
        goto abort;
    }
    status = flush(o, err);
    if (status != STANCE_OK)
        goto abort;
    if (fsync(o->fd) != 0) {
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", o->path, strerror(errno));
        goto abort;
    }
    if (close(o->fd) != 0) {
        o->fd  = -1;
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", o->path, strerror(errno));
        goto abort;
    }
    o->fd = -1;
    folder = open_folder(o);
    if (folder < 0 || rename(o->temporary, o->path) != 0) {
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", o->path, strerror(errno));
        if (folder >= 0)
            close(folder);
        goto abort;
    }
    /* A new name is durable when its folder is. Some file systems cannot sync a folder (EINVAL):
     * they are as safe as they get. */
    if (fsync(folder) != 0 && errno != EINVAL)
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: its folder: %s", o->path, strerror(errno));
    close(folder);
    release(o);
    return status;

abort:
    stance_safetensors_abort(o);
    return status;
}
