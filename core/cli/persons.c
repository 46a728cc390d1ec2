/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/predict.h"

#include "base/text.h"

#include <stance/alloc.h>

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static stance_status add_file(struct stance_persons *p, const char *path, struct stance_error *err)
{
    if (!stance_grow((void **)&p->files, &p->room_files, (size_t)p->n_files + 1, sizeof *p->files)
        || (p->files[p->n_files] = stance_strdup(path)) == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", path);
    p->n_files++;
    return STANCE_OK;
}

static bool is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static stance_status add_folder(struct stance_persons *p, const char *folder, struct stance_error *err)
{
    DIR           *d = opendir(folder);
    struct dirent *e;
    int64_t        first = p->n_files;
    char           path[4200];
    stance_status  status = STANCE_OK;

    if (d == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", folder, strerror(errno));
    while (status == STANCE_OK && (e = readdir(d)) != NULL) {
        if (!is_image_name(e->d_name))
            continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
            status = STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: name is too long", e->d_name);
        else
            status = add_file(p, path, err);
    }
    closedir(d);
    if (status == STANCE_OK && p->n_files == first)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: has no .jpg, .jpeg or .png", folder);
    if (p->n_files > first)
        qsort(p->files + first, (size_t)(p->n_files - first), sizeof *p->files, by_name);
    return status;
}

static stance_status add_person(struct stance_persons *p, int64_t image, const double box[4], double score, struct stance_error *err)
{
    if (!stance_grow((void **)&p->list, &p->room_list, (size_t)p->n + 1, sizeof *p->list))
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "persons");
    p->list[p->n] = (struct stance_person){ image, p->n, { box[0], box[1], box[2], box[3] }, score };
    p->n++;
    return STANCE_OK;
}

/* The image that @p name means: by its end, at a slash. -1 if it was not asked for. */
static int64_t image_of(const struct stance_persons *p, const char *name)
{
    size_t len = strlen(name);

    for (int64_t i = 0; i < p->n_files; i++) {
        size_t have = strlen(p->files[i]);

        if (have >= len && strcmp(p->files[i] + have - len, name) == 0 && (have == len || p->files[i][have - len - 1] == '/'))
            return i;
    }
    return -1;
}

static bool read_box(const json_t *entry, double box[4], double *score)
{
    const json_t *b = json_object_get(entry, "bbox"), *s = json_object_get(entry, "score");

    if (json_array_size(b) != 4)
        return false;
    for (size_t i = 0; i < 4; i++) {
        if (!json_is_number(json_array_get(b, i)))
            return false;
        box[i] = json_number_value(json_array_get(b, i));
    }
    *score = json_is_number(s) ? json_number_value(s) : 1;
    return box[2] > 0 && box[3] > 0;
}

/* File name of the image with this id in a COCO file; NULL if there is none. */
static const char *name_of_id(const json_t *images, json_int_t id)
{
    for (size_t i = 0; i < json_array_size(images); i++) {
        const json_t *e = json_array_get(images, i);

        if (json_integer_value(json_object_get(e, "id")) == id)
            return json_string_value(json_object_get(e, "file_name"));
    }
    return NULL;
}

static stance_status read_boxes(struct stance_persons *p, const char *path, struct stance_error *err)
{
    json_error_t  why;
    json_t       *root   = json_load_file(path, 0, &why);
    const json_t *images = json_object_get(root, "images"), *list = json_is_array(root) ? root : json_object_get(root, "annotations");
    stance_status status = STANCE_OK;

    if (root == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s:%d:%d: %s", path, why.line, why.column, why.text);
    if (!json_is_array(list))
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is neither a list of boxes nor a COCO annotation file", path);
    for (size_t i = 0; status == STANCE_OK && i < json_array_size(list); i++) {
        const json_t *e    = json_array_get(list, i);
        const char   *name = images != NULL ? name_of_id(images, json_integer_value(json_object_get(e, "image_id")))
                                            : json_string_value(json_object_get(e, "file_name"));
        double        box[4], score;
        int64_t       at;

        if (name == NULL)
            status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: entry %zu: has no %s", path, i,
                                 images != NULL ? "image in the file's list" : "file_name");
        else if (json_integer_value(json_object_get(e, "iscrowd")) == 1 || (at = image_of(p, name)) < 0)
            continue;
        else if (!read_box(e, box, &score))
            status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: entry %zu: bbox is not [x, y, width, height] with a size", path, i);
        else
            status = add_person(p, at, box, score, err);
    }
    json_decref(root);
    if (status == STANCE_OK && p->n == 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: has no box for any of the %lld images", path, (long long)p->n_files);
    return status;
}

static int by_image(const void *a, const void *b)
{
    const struct stance_person *x = a, *y = b;

    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

stance_status stance_persons_find(char *const *args, int n_args, const char *boxes, struct stance_persons *out,
                                  struct stance_error *err)
{
    static const double whole[4] = { 0, 0, 0, 0 };
    struct stat         st;
    stance_status       status = STANCE_OK;

    *out = (struct stance_persons){ 0 };
    for (int i = 0; i < n_args && status == STANCE_OK; i++) {
        if (stat(args[i], &st) != 0)
            return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", args[i], strerror(errno));
        status = S_ISDIR(st.st_mode) ? add_folder(out, args[i], err) : add_file(out, args[i], err);
    }
    if (status != STANCE_OK)
        return status;
    if (boxes != NULL)
        status = read_boxes(out, boxes, err);
    for (int64_t i = 0; boxes == NULL && i < out->n_files && status == STANCE_OK; i++)
        status = add_person(out, i, whole, 1, err);
    if (out->n > 0)
        qsort(out->list, (size_t)out->n, sizeof *out->list, by_image);
    return status;
}

void stance_persons_free(struct stance_persons *p)
{
    for (int64_t i = 0; i < p->n_files; i++)
        stance_free(p->files[i]);
    stance_free(p->files);
    stance_free(p->list);
    *p = (struct stance_persons){ 0 };
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

stance_status stance_persons_overlay_path(const struct stance_persons *p, int64_t image, const char *dir, char *path,
                                          size_t size, struct stance_error *err)
{
    const char *name = base_name(p->files[image]);
    const char *dot  = strrchr(name, '.');
    int         stem = (int)(dot != NULL ? dot - name : (ptrdiff_t)strlen(name)), twins = 0;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", dir, strerror(errno));
    for (int64_t i = 0; i < image; i++) {
        const char *other = base_name(p->files[i]), *end = strrchr(other, '.');

        twins += (end != NULL ? end - other : (ptrdiff_t)strlen(other)) == stem && strncmp(other, name, (size_t)stem) == 0;
    }
    if (snprintf(path, size, twins > 0 ? "%s/%.*s-%d.png" : "%s/%.*s.png", dir, stem, name, twins) >= (int)size)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: name is too long", dir);
    return STANCE_OK;
}
