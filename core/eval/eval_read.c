/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/eval_read.h"
#include "io/json.h"

#include <stance/alloc.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const coco_names[] = {
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder",
    "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee",
    "right_knee", "left_ankle", "right_ankle",
};
enum { COCO_NAMES = sizeof coco_names / sizeof *coco_names };

/* Members that an object had. */
enum { SAW_ID = 1, SAW_IMAGE_ID = 2, SAW_SCORE = 4, SAW_KEYPOINTS = 8 };

/* An object while it is read. What is wrong with it is told at its end, when its id is known. */
struct draft {
    struct stance_entry e;
    unsigned            saw;
    char                fault[200]; /* the first one; "" if there is none */
};

static STANCE_PRINTF(2, 3) void blame(struct draft *d, const char *fmt, ...)
{
    va_list ap;

    if (d->fault[0] != '\0')
        return;
    va_start(ap, fmt);
    vsnprintf(d->fault, sizeof d->fault, fmt, ap);
    va_end(ap);
}

/* Whether the next value is of the wanted kind; else the fault is noted and the value passed over. */
static bool expect(struct stance_json *r, struct draft *d, const char *key, enum stance_json_kind want)
{
    enum stance_json_kind found = stance_json_peek(r);

    if (found == want)
        return true;
    if (found == STANCE_JSON_STRING) {
        struct stance_json_text t = stance_json_string(r);

        blame(d, "%s \"%.*s\" is text where %s must be", key, (int)(t.len < 60 ? t.len : 60), t.s,
              stance_json_kind_word(want));
        return false;
    }
    blame(d, "%s has %s where %s must be", key, stance_json_kind_word(found), stance_json_kind_word(want));
    stance_json_skip(r);
    return false;
}

/* An id: a whole number, also when written 1.0. */
static void read_id(struct stance_json *r, struct draft *d, const char *key, int64_t *out)
{
    struct stance_json_number n;

    if (!expect(r, d, key, STANCE_JSON_NUMBER) || !stance_json_number(r, &n))
        return;
    if (n.integer)
        *out = n.i64;
    else if (n.f64 == floor(n.f64) && fabs(n.f64) <= 9007199254740992.) /* 2^53 */
        *out = (int64_t)n.f64;
    else
        blame(d, "%s %.17g is not a whole number of 64 bits", key, n.f64);
}

static void read_number(struct stance_json *r, struct draft *d, const char *key, double *out)
{
    if (!expect(r, d, key, STANCE_JSON_NUMBER))
        return;
    *out = stance_json_f64(r);
    if (!isfinite(*out))
        blame(d, "%s is beyond binary64", key);
}

static void read_box(struct stance_json *r, struct draft *d)
{
    int n = 0;

    if (!expect(r, d, "bbox", STANCE_JSON_ARRAY))
        return;
    for (stance_json_array(r); stance_json_next_item(r); n++) {
        double v = 0;

        read_number(r, d, "bbox", &v);
        if (n < 4)
            d->e.box[n] = v;
    }
    if (n != 4)
        blame(d, "bbox is not a list of four numbers (x, y, width, height)");
    d->e.has |= STANCE_HAS_BOX;
}

static void read_keypoints(struct stance_json *r, struct stance_eval_data *data, struct draft *d)
{
    d->saw |= SAW_KEYPOINTS;
    if (!expect(r, d, "keypoints", STANCE_JSON_ARRAY))
        return;
    data->n_numbers = d->e.first; /* a key that stands twice counts once */
    for (stance_json_array(r); stance_json_next_item(r); data->n_numbers++) {
        if (!stance_grow((void **)&data->numbers, &data->number_room, data->n_numbers + 1,
                         sizeof *data->numbers)) {
            stance_json_refuse(r, STANCE_ERR_NOMEM, "out of memory for keypoints");
            return;
        }
        read_number(r, d, "keypoints", &data->numbers[data->n_numbers]);
    }
    d->e.numbers = data->n_numbers - d->e.first;
}

static void read_crowd(struct stance_json *r, struct draft *d)
{
    double v = 0;

    if (stance_json_peek(r) == STANCE_JSON_BOOL)
        d->e.crowd = stance_json_bool(r);
    else {
        read_number(r, d, "iscrowd", &v);
        d->e.crowd = v != 0;
    }
}

static void read_area(struct stance_json *r, struct draft *d)
{
    read_number(r, d, "area", &d->e.area);
    if (d->e.area < 0)
        blame(d, "area %g is below 0", d->e.area);
    d->e.has |= STANCE_HAS_AREA;
}

static void read_member(struct stance_json *r, struct stance_json_text key, enum stance_eval_kind kind,
                        struct stance_eval_data *data, struct draft *d)
{
    bool truth = kind == STANCE_EVAL_TRUTH;

    if (stance_json_is(key, "image_id")) {
        d->saw |= SAW_IMAGE_ID;
        read_id(r, d, "image_id", &d->e.image_id);
    } else if (stance_json_is(key, "category_id")) {
        d->e.has |= STANCE_HAS_CATEGORY;
        read_id(r, d, "category_id", &d->e.category_id);
    } else if (stance_json_is(key, "keypoints")) {
        read_keypoints(r, data, d);
    } else if (!truth && stance_json_is(key, "score")) {
        d->saw |= SAW_SCORE;
        read_number(r, d, "score", &d->e.score);
    } else if (truth && stance_json_is(key, "id")) {
        d->saw |= SAW_ID;
        read_id(r, d, "id", &d->e.id);
    } else if (!truth || stance_json_peek(r) == STANCE_JSON_NULL) {
        stance_json_skip(r); /* a member that is null is as good as absent */
    } else if (stance_json_is(key, "iscrowd")) {
        read_crowd(r, d);
    } else if (stance_json_is(key, "area")) {
        read_area(r, d);
    } else if (stance_json_is(key, "bbox")) {
        read_box(r, d);
    } else {
        stance_json_skip(r);
    }
}

static void refuse(struct stance_json *r, enum stance_eval_kind kind, size_t index, const struct draft *d)
{
    if (kind == STANCE_EVAL_RESULTS)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "result %zu: %s", index, d->fault);
    else if ((d->saw & SAW_ID) && strncmp(d->fault, "id ", 3) != 0)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "annotation %lld: %s", (long long)d->e.id, d->fault);
    else
        stance_json_refuse(r, STANCE_ERR_FORMAT, "entry of annotations %zu: %s", index, d->fault);
}

static void read_entry(struct stance_json *r, enum stance_eval_kind kind, struct stance_eval_data *data)
{
    struct draft            d = { .e = { .first = data->n_numbers }, .fault = "" };
    struct stance_json_text key;

    if (expect(r, &d, "it", STANCE_JSON_OBJECT)) {
        for (stance_json_object(r); stance_json_next_key(r, &key);)
            read_member(r, key, kind, data, &d);
        if (kind == STANCE_EVAL_TRUTH && !(d.saw & SAW_ID))
            blame(&d, "id is missing");
        if (!(d.saw & SAW_IMAGE_ID))
            blame(&d, "image_id is missing");
        if (kind == STANCE_EVAL_RESULTS && !(d.saw & SAW_SCORE))
            blame(&d, "score is missing");
        if (!(d.saw & SAW_KEYPOINTS))
            blame(&d, "keypoints is missing");
    }
    if (d.fault[0] != '\0')
        refuse(r, kind, data->n_entries, &d);
    else if (!stance_grow((void **)&data->entries, &data->entry_room, data->n_entries + 1, sizeof d.e))
        stance_json_refuse(r, STANCE_ERR_NOMEM, "out of memory for persons");
    else
        data->entries[data->n_entries++] = d.e;
}

static void read_image(struct stance_json *r, struct stance_eval_data *data)
{
    struct draft            d = { .fault = "" };
    struct stance_json_text key;

    if (expect(r, &d, "it", STANCE_JSON_OBJECT)) {
        for (stance_json_object(r); stance_json_next_key(r, &key);)
            if (stance_json_is(key, "id")) {
                d.saw |= SAW_ID;
                read_id(r, &d, "id", &d.e.id);
            } else {
                stance_json_skip(r);
            }
        if (!(d.saw & SAW_ID))
            blame(&d, "id is missing");
    }
    if (d.fault[0] != '\0')
        stance_json_refuse(r, STANCE_ERR_FORMAT, "entry of images %zu: %s", data->images, d.fault);
    else if (!stance_grow((void **)&data->image_ids, &data->image_room, data->images + 1,
                          sizeof *data->image_ids))
        stance_json_refuse(r, STANCE_ERR_NOMEM, "out of memory for images");
    else
        data->image_ids[data->images++] = d.e.id;
}

/* Counts a category's names, and sees whether they are COCO's. */
static void read_names(struct stance_json *r, struct stance_category *c)
{
    if (stance_json_peek(r) != STANCE_JSON_ARRAY) {
        stance_json_skip(r);
        return;
    }
    c->keypoints = 0;
    c->human     = true;
    for (stance_json_array(r); stance_json_next_item(r); c->keypoints++) {
        if (stance_json_peek(r) != STANCE_JSON_STRING) {
            stance_json_skip(r);
            c->human = false;
            continue;
        }
        if (c->keypoints >= COCO_NAMES || !stance_json_is(stance_json_string(r), coco_names[c->keypoints])) {
            if (c->keypoints >= COCO_NAMES)
                stance_json_skip(r);
            c->human = false;
        }
    }
    c->human &= c->keypoints == COCO_NAMES;
}

static void read_category(struct stance_json *r, struct stance_eval_data *data)
{
    struct draft            d = { .fault = "" };
    struct stance_category  c = { .keypoints = -1 };
    struct stance_json_text key;

    if (expect(r, &d, "it", STANCE_JSON_OBJECT)) {
        for (stance_json_object(r); stance_json_next_key(r, &key);)
            if (stance_json_is(key, "id")) {
                d.saw |= SAW_ID;
                read_id(r, &d, "id", &c.id);
            } else if (stance_json_is(key, "keypoints")) {
                read_names(r, &c);
            } else {
                stance_json_skip(r);
            }
        if (!(d.saw & SAW_ID))
            blame(&d, "id is missing");
    }
    if (d.fault[0] != '\0')
        stance_json_refuse(r, STANCE_ERR_FORMAT, "entry of categories %zu: %s", data->n_categories, d.fault);
    else if (!stance_grow((void **)&data->categories, &data->category_room, data->n_categories + 1, sizeof c))
        stance_json_refuse(r, STANCE_ERR_NOMEM, "out of memory for categories");
    else
        data->categories[data->n_categories++] = c;
}

/* Steps into the list under a key of the document. */
static bool open_list(struct stance_json *r, const char *key)
{
    enum stance_json_kind found = stance_json_peek(r);

    if (found != STANCE_JSON_ARRAY)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "'%s' is %s, not a list", key, stance_json_kind_word(found));
    return stance_json_array(r);
}

static void read_truth(struct stance_json *r, struct stance_eval_data *data)
{
    bool                    images = false, annotations = false;
    struct stance_json_text key;

    if (stance_json_peek(r) != STANCE_JSON_OBJECT)
        stance_json_refuse(r, STANCE_ERR_FORMAT,
                           "ground truth must be an object with images and annotations; this is %s",
                           stance_json_kind_word(stance_json_peek(r)));
    for (stance_json_object(r); stance_json_next_key(r, &key);)
        if (stance_json_is(key, "images")) {
            images = true;
            for (open_list(r, "images"); stance_json_next_item(r);)
                read_image(r, data);
        } else if (stance_json_is(key, "annotations")) {
            annotations = true;
            for (open_list(r, "annotations"); stance_json_next_item(r);)
                read_entry(r, STANCE_EVAL_TRUTH, data);
        } else if (stance_json_is(key, "categories")) {
            for (open_list(r, "categories"); stance_json_next_item(r);)
                read_category(r, data);
        } else {
            stance_json_skip(r);
        }
    if (!images || !annotations)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "there is no '%s' in it",
                           images ? "annotations" : "images");
}

static void read_results(struct stance_json *r, struct stance_eval_data *data)
{
    if (stance_json_peek(r) != STANCE_JSON_ARRAY)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "results must be a list of objects; this is %s",
                           stance_json_kind_word(stance_json_peek(r)));
    for (stance_json_array(r); stance_json_next_item(r);)
        read_entry(r, STANCE_EVAL_RESULTS, data);
}

static stance_status read_document(struct stance_json *r, const char *name, enum stance_eval_kind kind,
                                   struct stance_eval_data *out, struct stance_error *err)
{
    struct stance_eval_data data = { .name = name };
    stance_status           status;

    if (kind == STANCE_EVAL_TRUTH)
        read_truth(r, &data);
    else
        read_results(r, &data);
    status = stance_json_finish(r, err);
    if (status == STANCE_OK)
        *out = data;
    else
        stance_eval_data_free(&data);
    stance_json_close(r);
    return status;
}

stance_status stance_eval_read(const char *path, enum stance_eval_kind kind,
                               struct stance_eval_data *out, struct stance_error *err)
{
    struct stance_json *r;
    stance_status       status = stance_json_open(path, &r, err);

    return status == STANCE_OK ? read_document(r, path, kind, out, err) : status;
}

stance_status stance_eval_read_memory(const void *text, size_t size, const char *name,
                                      enum stance_eval_kind kind, struct stance_eval_data *out,
                                      struct stance_error *err)
{
    struct stance_json *r;
    stance_status       status = stance_json_open_memory(text, size, name, &r, err);

    return status == STANCE_OK ? read_document(r, name, kind, out, err) : status;
}

void stance_eval_data_free(struct stance_eval_data *d)
{
    stance_free(d->image_ids);
    stance_free(d->categories);
    stance_free(d->entries);
    stance_free(d->numbers);
    *d = (struct stance_eval_data){ 0 };
}
