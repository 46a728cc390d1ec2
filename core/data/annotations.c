/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/annotations.h"
#include "io/json.h"

#include <string.h>

enum { VALUES_MAX = 3 * 4096 }; /* of one object's keypoints */

struct reading {
    struct stance_json        *json;
    struct stance_annotations *out;
    size_t                     images_room, objects_room, categories_room;
    double                    *values; /* [VALUES_MAX] of the object at hand */
    const double              *zeros;  /* [zeros_length], for every object without a labelled point */
    int32_t                    zeros_length;
};

static void no_memory(struct reading *r)
{
    stance_json_refuse(r->json, STANCE_ERR_NOMEM, "out of memory");
}

static const char *keep_text(struct reading *r, struct stance_json_text t)
{
    char *copy;

    if (memchr(t.s, '\0', t.len) != NULL) {
        stance_json_refuse(r->json, STANCE_ERR_FORMAT, "a name holds a zero character");
        return "";
    }
    copy = stance_arena_get(r->out->arena, t.len + 1, 1);
    if (copy == NULL) {
        no_memory(r);
        return "";
    }
    memcpy(copy, t.s, t.len);
    return copy;
}

/* A member that may be null, which is the same as absent. @return whether there is a value to read */
static bool present(struct reading *r)
{
    if (stance_json_peek(r->json) != STANCE_JSON_NULL)
        return true;
    stance_json_null(r->json);
    return false;
}

static int32_t read_side(struct reading *r)
{
    int64_t v = stance_json_i64(r->json);

    if (v < 1 || v > INT32_MAX) {
        stance_json_refuse(r->json, STANCE_ERR_FORMAT, "image size %lld is no number of pixels",
                           (long long)v);
        return 0;
    }
    return (int32_t)v;
}

static void read_image(struct reading *r)
{
    struct stance_annotations *a = r->out;
    struct stance_json        *j = r->json;
    struct stance_coco_image   image = { 0 };
    struct stance_json_text    key;
    bool                       has_id = false;

    for (stance_json_object(j); stance_json_next_key(j, &key);) {
        if (stance_json_is(key, "id")) {
            image.id = stance_json_i64(j);
            has_id   = true;
        } else if (stance_json_is(key, "file_name")) {
            image.file = keep_text(r, stance_json_string(j));
        } else if (stance_json_is(key, "width") && present(r)) {
            image.width = read_side(r);
        } else if (stance_json_is(key, "height") && present(r)) {
            image.height = read_side(r);
        } else {
            stance_json_skip(j);
        }
    }
    if (!has_id || image.file == NULL || image.file[0] == '\0') {
        stance_json_refuse(j, STANCE_ERR_FORMAT, "image number %lld has no %s",
                           (long long)a->n_images + 1, has_id ? "file_name" : "id");
        return;
    }
    if (!stance_grow((void **)&a->images, &r->images_room, (size_t)a->n_images + 1, sizeof *a->images))
        no_memory(r);
    else
        a->images[a->n_images++] = image;
}

static void read_box(struct reading *r, struct stance_coco_object *o)
{
    int n = 0;

    for (stance_json_array(r->json); stance_json_next_item(r->json); n++) {
        double v = stance_json_f64(r->json);

        if (n < 4)
            o->box[n] = v;
    }
    if (n != 4)
        stance_json_refuse(r->json, STANCE_ERR_FORMAT, "bbox has %d numbers where 4 are needed", n);
    o->has_box = true;
}

static void read_values(struct reading *r, struct stance_coco_object *o)
{
    int32_t n = 0;
    bool    zero = true;
    double *copy;

    for (stance_json_array(r->json); stance_json_next_item(r->json); n++) {
        if (n == VALUES_MAX) {
            stance_json_refuse(r->json, STANCE_ERR_FORMAT, "more than %d numbers in keypoints", VALUES_MAX);
            return;
        }
        r->values[n] = stance_json_f64(r->json);
        zero &= r->values[n] == 0;
    }
    o->n_values = n;
    if (zero && n <= r->zeros_length) {
        o->value = r->zeros;
        return;
    }
    copy = stance_arena_get(r->out->arena, (size_t)n * sizeof *copy, sizeof *copy);
    if (copy == NULL) {
        no_memory(r);
        return;
    }
    memcpy(copy, r->values, (size_t)n * sizeof *copy);
    o->value = copy;
    if (zero) {
        r->zeros        = copy;
        r->zeros_length = n;
    }
}

static bool read_flag(struct reading *r)
{
    if (stance_json_peek(r->json) == STANCE_JSON_BOOL)
        return stance_json_bool(r->json);
    return stance_json_i64(r->json) != 0;
}

static void read_object(struct reading *r)
{
    struct stance_annotations *a = r->out;
    struct stance_json        *j = r->json;
    struct stance_coco_object  o = { .num_keypoints = -1 };
    struct stance_json_text    key;
    bool                       has_image = false;

    for (stance_json_object(j); stance_json_next_key(j, &key);) {
        if (stance_json_is(key, "id") && present(r)) {
            o.id = stance_json_i64(j);
        } else if (stance_json_is(key, "image_id")) {
            o.image_id = stance_json_i64(j);
            has_image  = true;
        } else if (stance_json_is(key, "category_id")) {
            o.category_id = stance_json_i64(j);
        } else if (stance_json_is(key, "bbox") && present(r)) {
            read_box(r, &o);
        } else if (stance_json_is(key, "area") && present(r)) {
            o.area     = stance_json_f64(j);
            o.has_area = true;
        } else if (stance_json_is(key, "score") && present(r)) {
            o.score     = stance_json_f64(j);
            o.has_score = true;
        } else if (stance_json_is(key, "iscrowd") && present(r)) {
            o.crowd = read_flag(r);
        } else if (stance_json_is(key, "num_keypoints") && present(r)) {
            o.num_keypoints = stance_json_i64(j);
        } else if (stance_json_is(key, "keypoints") && present(r)) {
            read_values(r, &o);
        } else {
            stance_json_skip(j);
        }
    }
    if (!has_image)
        stance_json_refuse(j, STANCE_ERR_FORMAT, "object number %lld has no image_id",
                           (long long)a->n_objects + 1);
    else if (!stance_grow((void **)&a->objects, &r->objects_room, (size_t)a->n_objects + 1,
                          sizeof *a->objects))
        no_memory(r);
    else
        a->objects[a->n_objects++] = o;
}

static void read_names(struct reading *r, struct stance_coco_category *c)
{
    const char **names = NULL, **kept;
    size_t       room  = 0;
    int32_t      n     = 0;

    for (stance_json_array(r->json); stance_json_next_item(r->json);) {
        if (n == VALUES_MAX / 3 || !stance_grow((void **)&names, &room, (size_t)n + 1, sizeof *names)) {
            no_memory(r);
            break;
        }
        names[n++] = keep_text(r, stance_json_string(r->json));
    }
    kept = stance_arena_get(r->out->arena, (size_t)n * sizeof *kept + 1, sizeof *kept);
    if (kept == NULL) {
        no_memory(r);
    } else if (n > 0) {
        memcpy(kept, names, (size_t)n * sizeof *kept);
        c->names   = kept;
        c->n_names = n;
    }
    stance_free(names);
}

/* COCO's bones are pairs of numbers that count from 1. */
static void read_skeleton(struct reading *r, struct stance_coco_category *c)
{
    enum { BONES_MAX = 4096 };
    int32_t *ends = r->out->arena != NULL ? stance_calloc(BONES_MAX, 2 * sizeof *ends) : NULL, *kept;
    int32_t  n    = 0;

    if (ends == NULL) {
        no_memory(r);
        return;
    }
    for (stance_json_array(r->json); stance_json_next_item(r->json);) {
        int64_t end[2] = { 0, 0 };
        int     i      = 0;

        for (stance_json_array(r->json); stance_json_next_item(r->json); i++) {
            int64_t v = stance_json_i64(r->json);

            if (i < 2)
                end[i] = v;
        }
        if (i != 2 || end[0] < 0 || end[1] < 0 || end[0] > VALUES_MAX || end[1] > VALUES_MAX || n == BONES_MAX) {
            stance_json_refuse(r->json, STANCE_ERR_FORMAT, "skeleton: each bone is two numbers of points");
            break;
        }
        ends[2 * n]     = (int32_t)end[0] - 1;
        ends[2 * n + 1] = (int32_t)end[1] - 1;
        n++;
    }
    kept = stance_arena_get(r->out->arena, 2 * (size_t)n * sizeof *kept + 1, sizeof *kept);
    if (kept == NULL) {
        no_memory(r);
    } else {
        memcpy(kept, ends, 2 * (size_t)n * sizeof *kept);
        c->skeleton = kept;
        c->bones    = n;
    }
    stance_free(ends);
}

static void read_category(struct reading *r)
{
    struct stance_annotations  *a = r->out;
    struct stance_json         *j = r->json;
    struct stance_coco_category c = { .name = "" };
    struct stance_json_text     key;

    for (stance_json_object(j); stance_json_next_key(j, &key);) {
        if (stance_json_is(key, "id"))
            c.id = stance_json_i64(j);
        else if (stance_json_is(key, "name") && present(r))
            c.name = keep_text(r, stance_json_string(j));
        else if (stance_json_is(key, "keypoints") && present(r))
            read_names(r, &c);
        else if (stance_json_is(key, "skeleton") && present(r))
            read_skeleton(r, &c);
        else
            stance_json_skip(j);
    }
    if (!stance_grow((void **)&a->categories, &r->categories_room, (size_t)a->n_categories + 1,
                     sizeof *a->categories))
        no_memory(r);
    else
        a->categories[a->n_categories++] = c;
}

static void read_list(struct reading *r, void (*item)(struct reading *r))
{
    for (stance_json_array(r->json); stance_json_next_item(r->json);)
        item(r);
}

static void read_file(struct reading *r)
{
    struct stance_json_text key;
    bool                    images = false;

    for (stance_json_object(r->json); stance_json_next_key(r->json, &key);) {
        if (stance_json_is(key, "images")) {
            read_list(r, read_image);
            images = true;
        } else if (stance_json_is(key, "annotations")) {
            read_list(r, read_object);
        } else if (stance_json_is(key, "categories")) {
            read_list(r, read_category);
        } else {
            stance_json_skip(r->json);
        }
    }
    if (!images)
        stance_json_refuse(r->json, STANCE_ERR_FORMAT, "no list of images: not a COCO annotation file");
}

static stance_status read_json(struct stance_json *json, bool detections, struct stance_annotations *out,
                               struct stance_error *err)
{
    struct stance_annotations a = { .arena = stance_arena_new((size_t)1 << 20) };
    struct reading            r = { .json = json, .out = &a };
    stance_status             status;

    r.values = stance_calloc(VALUES_MAX, sizeof *r.values);
    if (a.arena == NULL || r.values == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "annotations");
    } else {
        if (detections)
            read_list(&r, read_object);
        else
            read_file(&r);
        status = stance_json_finish(json, err);
    }
    stance_free(r.values);
    if (status != STANCE_OK) {
        stance_annotations_free(&a);
        return status;
    }
    *out = a;
    return STANCE_OK;
}

static stance_status read_path(const char *path, bool detections, struct stance_annotations *out,
                               struct stance_error *err)
{
    struct stance_json *json;
    stance_status       status = stance_json_open(path, &json, err);

    if (status != STANCE_OK)
        return status;
    status = read_json(json, detections, out, err);
    stance_json_close(json);
    return status;
}

stance_status stance_annotations_read(const char *path, struct stance_annotations *out,
                                      struct stance_error *err)
{
    return read_path(path, false, out, err);
}

stance_status stance_detections_read(const char *path, struct stance_annotations *out,
                                     struct stance_error *err)
{
    return read_path(path, true, out, err);
}

stance_status stance_annotations_parse(const void *text, size_t size, const char *name, bool detections,
                                       struct stance_annotations *out, struct stance_error *err)
{
    struct stance_json *json;
    stance_status       status = stance_json_open_memory(text, size, name, &json, err);

    if (status != STANCE_OK)
        return status;
    status = read_json(json, detections, out, err);
    stance_json_close(json);
    return status;
}

void stance_annotations_free(struct stance_annotations *a)
{
    stance_free(a->images);
    stance_free(a->objects);
    stance_free(a->categories);
    stance_arena_free(a->arena);
    *a = (struct stance_annotations){ 0 };
}
