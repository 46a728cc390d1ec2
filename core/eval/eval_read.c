/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/eval_read.h"

#include <stance/alloc.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const coco_names[] = {
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder",
    "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee",
    "right_knee", "left_ankle", "right_ankle",
};
enum { COCO_NAMES = sizeof coco_names / sizeof *coco_names };

/* What an entry is called in a message. */
struct label { const char *word; long long number; };

static stance_status no_memory(struct stance_error *err, const char *what)
{
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reading %s", what);
}

static const char *word_of(const json_t *v)
{
    static const char *const words[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false", [JSON_NULL] = "null",
    };

    return words[json_typeof(v)];
}

/* An id: a whole number, also when written 1.0. Text is refused with the text. */
static stance_status read_id(const json_t *object, const char *key, struct label label, int64_t *out,
                             struct stance_error *err)
{
    const json_t *v = json_object_get(object, key);

    if (v == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: %s is missing", label.word, label.number, key);
    if (json_is_string(v))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: %s \"%.60s\" is text where a number must be",
                           label.word, label.number, key, json_string_value(v));
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return STANCE_OK;
    }
    /* 2^53: beyond, a binary64 names no single integer. */
    if (json_is_real(v) && fabs(json_real_value(v)) <= 9007199254740992.
        && json_real_value(v) == floor(json_real_value(v))) {
        *out = (int64_t)json_real_value(v);
        return STANCE_OK;
    }
    return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: %s is %s, not a whole number", label.word,
                       label.number, key, json_is_real(v) ? "a fraction" : word_of(v));
}

static stance_status read_number(const json_t *v, const char *key, struct label label, double *out,
                                 struct stance_error *err)
{
    if (!json_is_number(v))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: %s has %s where a number must be",
                           label.word, label.number, key, word_of(v));
    *out = json_number_value(v);
    return STANCE_OK;
}

static stance_status read_box(const json_t *object, struct label label, struct stance_entry *e,
                              struct stance_error *err)
{
    const json_t *v      = json_object_get(object, "bbox");
    stance_status status = STANCE_OK;

    if (v == NULL || json_is_null(v))
        return STANCE_OK;
    if (!json_is_array(v) || json_array_size(v) != 4)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "%s %lld: bbox is not a list of four numbers (x, y, width, height)",
                           label.word, label.number);
    for (size_t i = 0; i < 4 && status == STANCE_OK; i++)
        status = read_number(json_array_get(v, i), "bbox", label, &e->box[i], err);
    e->has |= STANCE_HAS_BOX;
    return status;
}

static stance_status read_keypoints(const json_t *object, struct label label,
                                    struct stance_eval_data *d, struct stance_entry *e,
                                    struct stance_error *err)
{
    const json_t *v      = json_object_get(object, "keypoints");
    stance_status status = STANCE_OK;

    if (v == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: keypoints is missing", label.word,
                           label.number);
    if (!json_is_array(v))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: keypoints is %s, not a list of numbers",
                           label.word, label.number, word_of(v));
    e->first   = d->n_numbers;
    e->numbers = json_array_size(v);
    if (!stance_grow((void **)&d->numbers, &d->number_room, d->n_numbers + e->numbers,
                     sizeof *d->numbers))
        return no_memory(err, "keypoints");
    for (size_t i = 0; i < e->numbers && status == STANCE_OK; i++)
        status = read_number(json_array_get(v, i), "keypoints", label, &d->numbers[d->n_numbers++], err);
    return status;
}

static stance_status read_crowd(const json_t *object, struct label label, struct stance_entry *e,
                                struct stance_error *err)
{
    const json_t *v = json_object_get(object, "iscrowd");

    if (v == NULL || json_is_null(v))
        return STANCE_OK;
    if (!json_is_number(v) && !json_is_boolean(v))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: iscrowd is %s, not 0 or 1", label.word,
                           label.number, word_of(v));
    e->crowd = json_is_true(v) || json_number_value(v) != 0;
    return STANCE_OK;
}

static stance_status read_area(const json_t *object, struct label label, struct stance_entry *e,
                               struct stance_error *err)
{
    const json_t *v = json_object_get(object, "area");
    stance_status status;

    if (v == NULL || json_is_null(v))
        return STANCE_OK;
    status = read_number(v, "area", label, &e->area, err);
    if (status == STANCE_OK && e->area < 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: area %g is below 0", label.word,
                           label.number, e->area);
    e->has |= STANCE_HAS_AREA;
    return status;
}

static stance_status read_score(const json_t *object, struct label label, struct stance_entry *e,
                                struct stance_error *err)
{
    const json_t *v = json_object_get(object, "score");

    if (v == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: score is missing", label.word, label.number);
    return read_number(v, "score", label, &e->score, err);
}

static stance_status read_category_id(const json_t *object, struct label label, struct stance_entry *e,
                                      struct stance_error *err)
{
    if (json_object_get(object, "category_id") == NULL)
        return STANCE_OK;
    e->has |= STANCE_HAS_CATEGORY;
    return read_id(object, "category_id", label, &e->category_id, err);
}

static stance_status read_annotation(const json_t *object, struct label label,
                                     struct stance_eval_data *d, struct stance_entry *e,
                                     struct stance_error *err)
{
    stance_status status = read_id(object, "id", label, &e->id, err);

    if (status != STANCE_OK)
        return status;
    label  = (struct label){ "annotation", e->id };
    status = read_id(object, "image_id", label, &e->image_id, err);
    if (status == STANCE_OK)
        status = read_category_id(object, label, e, err);
    if (status == STANCE_OK)
        status = read_crowd(object, label, e, err);
    if (status == STANCE_OK)
        status = read_area(object, label, e, err);
    if (status == STANCE_OK)
        status = read_box(object, label, e, err);
    if (status == STANCE_OK)
        status = read_keypoints(object, label, d, e, err);
    return status;
}

static stance_status read_result(const json_t *object, struct label label, struct stance_eval_data *d,
                                 struct stance_entry *e, struct stance_error *err)
{
    stance_status status = read_id(object, "image_id", label, &e->image_id, err);

    if (status == STANCE_OK)
        status = read_category_id(object, label, e, err);
    if (status == STANCE_OK)
        status = read_score(object, label, e, err);
    if (status == STANCE_OK)
        status = read_keypoints(object, label, d, e, err);
    return status;
}

static stance_status read_entries(const json_t *list, enum stance_eval_kind kind,
                                  struct stance_eval_data *d, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < json_array_size(list) && status == STANCE_OK; i++) {
        const json_t       *object = json_array_get(list, i);
        struct stance_entry e      = { .has = 0 };
        struct label        label  = { kind == STANCE_EVAL_TRUTH ? "entry of annotations" : "result",
                                       (long long)i };

        if (!json_is_object(object))
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s %lld: it is %s, not an object", label.word,
                               label.number, word_of(object));
        status = kind == STANCE_EVAL_TRUTH ? read_annotation(object, label, d, &e, err)
                                           : read_result(object, label, d, &e, err);
        if (status == STANCE_OK
            && !stance_grow((void **)&d->entries, &d->entry_room, d->n_entries + 1, sizeof e))
            status = no_memory(err, "entries");
        if (status == STANCE_OK)
            d->entries[d->n_entries++] = e;
    }
    return status;
}

static stance_status read_images(const json_t *list, struct stance_eval_data *d, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < json_array_size(list) && status == STANCE_OK; i++) {
        struct label label = { "entry of images", (long long)i };
        int64_t      id    = 0;

        status = read_id(json_array_get(list, i), "id", label, &id, err);
        if (status == STANCE_OK
            && !stance_grow((void **)&d->image_ids, &d->image_room, d->images + 1, sizeof id))
            status = no_memory(err, "images");
        if (status == STANCE_OK)
            d->image_ids[d->images++] = id;
    }
    return status;
}

static bool names_are_cocos(const json_t *names)
{
    if (json_array_size(names) != COCO_NAMES)
        return false;
    for (size_t i = 0; i < COCO_NAMES; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (name == NULL || strcmp(name, coco_names[i]) != 0)
            return false;
    }
    return true;
}

static stance_status read_categories(const json_t *list, struct stance_eval_data *d,
                                     struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < json_array_size(list) && status == STANCE_OK; i++) {
        struct label           label = { "entry of categories", (long long)i };
        const json_t          *names = json_object_get(json_array_get(list, i), "keypoints");
        struct stance_category c     = { .keypoints = -1 };

        if (json_is_array(names)) {
            c.keypoints = (int64_t)json_array_size(names);
            c.human     = names_are_cocos(names);
        }
        status = read_id(json_array_get(list, i), "id", label, &c.id, err);
        if (status == STANCE_OK
            && !stance_grow((void **)&d->categories, &d->category_room, d->n_categories + 1, sizeof c))
            status = no_memory(err, "categories");
        if (status == STANCE_OK)
            d->categories[d->n_categories++] = c;
    }
    return status;
}

/* A list under a key of the document; NULL and STANCE_OK where it may be absent and is. */
static stance_status get_list(const json_t *root, const char *key, bool needed, const json_t **out,
                              struct stance_error *err)
{
    *out = json_object_get(root, key);
    if (*out == NULL && needed)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "there is no '%s' in it", key);
    if (*out != NULL && !json_is_array(*out))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "'%s' is %s, not a list", key, word_of(*out));
    return STANCE_OK;
}

static stance_status read_truth(const json_t *root, struct stance_eval_data *d, struct stance_error *err)
{
    const json_t *images = NULL, *annotations = NULL, *categories = NULL;
    stance_status status;

    if (!json_is_object(root))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "ground truth must be an object with images and annotations; this is %s",
                           word_of(root));
    status = get_list(root, "images", true, &images, err);
    if (status == STANCE_OK)
        status = get_list(root, "annotations", true, &annotations, err);
    if (status == STANCE_OK)
        status = get_list(root, "categories", false, &categories, err);
    if (status == STANCE_OK)
        status = read_images(images, d, err);
    if (status == STANCE_OK)
        status = read_categories(categories, d, err);
    if (status == STANCE_OK)
        status = read_entries(annotations, STANCE_EVAL_TRUTH, d, err);
    return status;
}

static stance_status read_results(const json_t *root, struct stance_eval_data *d, struct stance_error *err)
{
    if (!json_is_array(root))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "results must be a list of objects; this is %s",
                           word_of(root));
    return read_entries(root, STANCE_EVAL_RESULTS, d, err);
}

static stance_status read_document(const json_t *root, const json_error_t *told, const char *name,
                                   enum stance_eval_kind kind, struct stance_eval_data *out,
                                   struct stance_error *err)
{
    struct stance_eval_data d = { .name = name };
    stance_status           status;

    if (root == NULL && json_error_code(told) == json_error_out_of_memory)
        return no_memory(err, name);
    if (root == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s:%d:%d: not JSON: %s", name, told->line,
                           told->column, told->text);
    status = kind == STANCE_EVAL_TRUTH ? read_truth(root, &d, err) : read_results(root, &d, err);
    if (status != STANCE_OK) {
        stance_eval_data_free(&d);
        return stance_error_prefix(err, status, "%s", name);
    }
    *out = d;
    return STANCE_OK;
}

stance_status stance_eval_read(const char *path, enum stance_eval_kind kind,
                               struct stance_eval_data *out, struct stance_error *err)
{
    FILE         *file = fopen(path, "rb");
    json_error_t  told;
    json_t       *root;
    stance_status status;

    if (file == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(errno));
    root = json_loadf(file, JSON_DECODE_ANY, &told);
    if (root == NULL && ferror(file))
        status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: it cannot be read", path);
    else
        status = read_document(root, &told, path, kind, out, err);
    json_decref(root);
    fclose(file);
    return status;
}

stance_status stance_eval_read_memory(const void *text, size_t size, const char *name,
                                      enum stance_eval_kind kind, struct stance_eval_data *out,
                                      struct stance_error *err)
{
    json_error_t  told;
    json_t       *root   = json_loadb(text, size, JSON_DECODE_ANY, &told);
    stance_status status = read_document(root, &told, name, kind, out, err);

    json_decref(root);
    return status;
}

void stance_eval_data_free(struct stance_eval_data *d)
{
    stance_free(d->image_ids);
    stance_free(d->categories);
    stance_free(d->entries);
    stance_free(d->numbers);
    *d = (struct stance_eval_data){ 0 };
}
