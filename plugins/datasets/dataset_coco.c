/* SPDX-License-Identifier: Apache-2.0
 *
 * Keypoint annotations in COCO's JSON format. Samples are chosen and boxes cleaned as MMPose 0.29 does,
 * with two differences: a box is cut to the image (MMPose moves the corner of a box that starts left of or
 * above the image and keeps its size, so that one wholly outside stays), and the points, not
 * num_keypoints, say whether anything is labelled. */
#include <stance/plugin.h>

#include "data/annotations.h"
#include "data/image.h"
#include "data/pose_info.h"

#include <stance/dataset.h>
#include <stance/log.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANCE_LOG_MODULE "data"

enum { TOLD_MAX = 20 }; /* faults of a kind that are told one by one */

struct config { double score_thr; };

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, score_thr, "0", 0, 1, "1", "least score of a detected box"),
    STANCE_PARAM_END
};

struct state {
    struct stance_annotations file, boxes;
    struct stance_arena      *arena;
    const struct stance_pose *pose;
    struct stance_sample     *samples;
    int32_t                  *image_of; /* [n] index into file.images */
    const char              **paths;    /* [n_images] of those that samples need; in the arena */
    int64_t                   n;
    struct stance_truth      *truths;
    int64_t                   n_truths;
    int64_t                  *image_ids;
    atomic_bool              *whole; /* [n_images] decoded to the end once, and found good */
};

/* What is needed while opening and not after. */
struct opening {
    struct state              *s;
    const struct stance_split *split;
    const char                *name; /* of the annotation file, for messages */
    int32_t                   *by_id; /* [n_images] indices of images, by id */
    int32_t                   *first; /* [n_images + 1] where an image's objects start in `list` */
    int32_t                   *list;  /* objects, by image in file order, then in file order */
    const char               **paths; /* [n_images] of images that samples need, else NULL */
    bool                      *bad;   /* [n_images] left out */
    int64_t                    left_out_box, left_out_area, unlabelled, strangers, bad_images, faults;
};

/* ---- images by id ------------------------------------------------------------------------------- */

struct id_index { int64_t id; int32_t index; };

static int by_id(const void *a, const void *b)
{
    const struct id_index *x = a, *y = b;

    return x->id != y->id ? (x->id < y->id ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}

static stance_status index_images(struct opening *o, struct stance_error *err)
{
    const struct stance_annotations *f = &o->s->file;
    struct id_index                 *all;
    stance_status                    status = STANCE_OK;

    if (f->n_images > INT32_MAX - 1 || f->n_objects > INT32_MAX - 1)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: more than 2^31 entries", o->name);
    all = stance_calloc((size_t)f->n_images + 1, sizeof *all);
    if (all == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: index of images", o->name);
    for (int32_t i = 0; i < f->n_images; i++)
        all[i] = (struct id_index){ f->images[i].id, i };
    qsort(all, (size_t)f->n_images, sizeof *all, by_id);
    for (int32_t i = 0; i < f->n_images; i++) {
        o->by_id[i] = all[i].index;
        if (i > 0 && all[i].id == all[i - 1].id) {
            status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: two images have the id %lld", o->name,
                                 (long long)all[i].id);
            break;
        }
    }
    stance_free(all);
    return status;
}

static int32_t find_image(const struct opening *o, int64_t id)
{
    const struct stance_annotations *f   = &o->s->file;
    int64_t                          low = 0, high = f->n_images;

    while (low < high) {
        int64_t middle = (low + high) / 2, at = f->images[o->by_id[middle]].id;

        if (at == id)
            return o->by_id[middle];
        if (at < id)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* Lists objects by image, in the order of the file. Strangers to the file's images are told. */
static void group_objects(struct opening *o, const struct stance_annotations *objects, const char *what)
{
    const int64_t images = o->s->file.n_images;

    memset(o->first, 0, ((size_t)images + 1) * sizeof *o->first);
    o->strangers = 0;
    for (int32_t i = 0; i < objects->n_objects; i++) {
        int32_t at = find_image(o, objects->objects[i].image_id);

        if (at >= 0)
            o->first[at + 1]++;
        else if (o->strangers++ < TOLD_MAX)
            STANCE_LOG(STANCE_LOG_WARN, "%s: %s %lld: image_id %lld is not among the images: left out",
                       o->name, what, (long long)(objects->objects[i].id ? objects->objects[i].id : i + 1),
                       (long long)objects->objects[i].image_id);
    }
    for (int64_t i = 0; i < images; i++)
        o->first[i + 1] += o->first[i];
    for (int32_t i = (int32_t)objects->n_objects - 1; i >= 0; i--) {
        int32_t at = find_image(o, objects->objects[i].image_id);

        if (at >= 0)
            o->list[--o->first[at + 1]] = i;
    }
    /* first[i + 1] now is where image i starts; shift down. */
    for (int64_t i = 0; i < images; i++)
        o->first[i] = o->first[i + 1];
    o->first[images] = (int32_t)(objects->n_objects - o->strangers);
}

/* ---- points --------------------------------------------------------------------------------------- */

static stance_status join_pose(struct opening *o, struct stance_error *err)
{
    const struct stance_annotations *f     = &o->s->file;
    struct stance_pose_found         found = { .file = o->name };

    for (int32_t i = 0; i < f->n_categories; i++) {
        const struct stance_coco_category *c = &f->categories[i];

        if (c->n_names == 0)
            continue;
        if (found.keypoints != 0 && c->n_names != found.keypoints)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: category %lld lists %d keypoints, another %d",
                               o->name, (long long)c->id, c->n_names, found.keypoints);
        if (found.keypoints == 0)
            found = (struct stance_pose_found){ c->names, c->n_names, c->skeleton, c->bones, o->name };
    }
    for (int64_t i = 0; i < f->n_objects && found.keypoints == 0; i++)
        if (f->objects[i].n_values % 3 == 0)
            found.keypoints = f->objects[i].n_values / 3;
    return stance_pose_join(o->s->arena, o->split->info, &found, &o->s->pose, err);
}

static int32_t labelled(const struct stance_coco_object *a)
{
    int32_t n = 0;

    for (int32_t i = 2; i < a->n_values; i += 3)
        n += a->value[i] > 0;
    return n;
}

/* ---- boxes ---------------------------------------------------------------------------------------- */

/* Cuts a box to the image, whose last pixel is at width - 1. @return false when nothing is left */
static bool clean_box(const double box[4], int32_t width, int32_t height, double out[4])
{
    double size[2] = { width, height };

    for (int i = 0; i < 2; i++) {
        double low = box[i] > 0 ? box[i] : 0, high = box[i] + (box[i + 2] > 0 ? box[i + 2] : 0);

        if (high > size[i] - 1)
            high = size[i] - 1;
        if (!(high > low))
            return false;
        out[i]     = low;
        out[i + 2] = high - low;
    }
    return true;
}

/* ---- images --------------------------------------------------------------------------------------- */

/* Whether a sample of this object would need its image. */
static bool wants_image(const struct opening *o, const struct stance_coco_object *a)
{
    return o->split->boxes != NULL || (!a->crowd && a->has_box && labelled(a) > 0);
}

static const char *path_of(struct opening *o, const struct stance_coco_image *image)
{
    const char *folder = o->split->images != NULL ? o->split->images : ".";
    size_t      size   = strlen(folder) + strlen(image->file) + 2;
    char       *path   = stance_arena_get(o->s->arena, size, 1);

    if (path == NULL)
        return NULL;
    if (image->file[0] == '/')
        strcpy(path, image->file);
    else
        snprintf(path, size, "%s/%s", folder, image->file);
    return path;
}

static stance_status check_image(struct opening *o, int32_t i, struct stance_error *err)
{
    struct stance_coco_image *image = &o->s->file.images[i];
    int32_t                   w, h;
    stance_status             status;

    if (o->split->check_images || o->split->skip_bad_images)
        status = stance_image_check(o->paths[i], o->split->skip_bad_images, &w, &h, err);
    else if (image->width == 0 || image->height == 0)
        status = stance_image_size(o->paths[i], &w, &h, err);
    else
        return STANCE_OK;
    if (status != STANCE_OK)
        return status;
    if (image->width == 0 || image->height == 0) {
        image->width  = w;
        image->height = h;
    }
    if (w != image->width || h != image->height)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: is %d x %d pixels, its annotation says %d x %d",
                           o->paths[i], w, h, image->width, image->height);
    return STANCE_OK;
}

/* Files of the images that samples need. With skip_bad_images the bad ones are left out; else the first
 * is the error, and the others are told. */
static stance_status check_images(struct opening *o, const struct stance_annotations *objects,
                                  struct stance_error *err)
{
    struct state *s      = o->s;
    stance_status status = STANCE_OK;

    for (int32_t i = 0; i < s->file.n_images; i++) {
        struct stance_error why = STANCE_ERROR_INIT;
        stance_status       got;
        bool                wanted = false;

        for (int32_t k = o->first[i]; k < o->first[i + 1] && !wanted; k++)
            wanted = wants_image(o, &objects->objects[o->list[k]]);
        if (!wanted)
            continue;
        o->paths[i] = path_of(o, &s->file.images[i]);
        if (o->paths[i] == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: paths of images", o->name);
        got = check_image(o, i, &why);
        if (got == STANCE_OK)
            continue;
        if (got == STANCE_ERR_NOMEM)
            return STANCE_FAIL(err, got, "%s", why.text);
        o->bad_images++;
        if (o->split->skip_bad_images) {
            o->bad[i] = true;
            STANCE_LOG(STANCE_LOG_WARN, "image %lld: %s: left out with its %d annotations",
                       (long long)s->file.images[i].id, why.text, o->first[i + 1] - o->first[i]);
        } else if (status == STANCE_OK) {
            status = STANCE_FAIL(err, got, "image %lld: %s", (long long)s->file.images[i].id, why.text);
        } else if (o->bad_images <= TOLD_MAX) {
            STANCE_LOG(STANCE_LOG_WARN, "image %lld: %s", (long long)s->file.images[i].id, why.text);
        }
    }
    if (status != STANCE_OK && o->bad_images > 1)
        return stance_error_prefix(err, status, "%lld images cannot be used, the first",
                                   (long long)o->bad_images);
    return status;
}

/* ---- samples -------------------------------------------------------------------------------------- */

static void tell_box(struct opening *o, const struct stance_coco_object *a, const struct stance_coco_image *image)
{
    const double *b = a->box;

    if (o->left_out_box++ < TOLD_MAX)
        STANCE_LOG(STANCE_LOG_WARN, "%s: annotation %lld (%s): box [%g, %g, %g, %g] %s %d x %d: left out",
                   o->name, (long long)a->id, image->file, b[0], b[1], b[2], b[3],
                   b[2] > 0 && b[3] > 0 ? "has no part in the image of" : "is empty, in an image of",
                   image->width, image->height);
}

/* @return whether the object gives a sample; fills its box */
static bool usable(struct opening *o, const struct stance_coco_object *a, const struct stance_coco_image *image,
                   double box[4])
{
    int32_t points = labelled(a);

    if (a->crowd || !a->has_box)
        return false;
    if (points == 0) {
        o->unlabelled++;
        return false;
    }
    if (!clean_box(a->box, image->width, image->height, box)) {
        tell_box(o, a, image);
        return false;
    }
    if (a->has_area && !(a->area > 0)) {
        if (o->left_out_area++ < TOLD_MAX)
            STANCE_LOG(STANCE_LOG_WARN, "%s: annotation %lld (%s): area %g is not above 0: left out", o->name,
                       (long long)a->id, image->file, a->area);
        return false;
    }
    if (a->num_keypoints == 0 && o->faults++ < TOLD_MAX)
        STANCE_LOG(STANCE_LOG_WARN, "%s: annotation %lld (%s): num_keypoints says 0, but %d are labelled: kept",
                   o->name, (long long)a->id, image->file, points);
    return true;
}

static stance_status from_annotations(struct opening *o, struct stance_error *err)
{
    struct state *s = o->s;
    const int32_t K = s->pose->keypoints;

    for (int32_t i = 0; i < s->file.n_images; i++) {
        const struct stance_coco_image *image = &s->file.images[i];
        int32_t                         index = 0;

        for (int32_t k = o->first[i]; k < o->first[i + 1] && !o->bad[i]; k++) {
            const struct stance_coco_object *a = &s->file.objects[o->list[k]];
            struct stance_sample            *t = &s->samples[s->n];
            float                           *keypoint;

            if (!usable(o, a, image, t->box))
                continue;
            keypoint = stance_arena_get(s->arena, 3 * (size_t)K * sizeof *keypoint, sizeof *keypoint);
            if (keypoint == NULL)
                return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: samples", o->name);
            for (int32_t v = 0; v < 3 * K; v++)
                keypoint[v] = (float)a->value[v];
            t->image_id      = a->image_id;
            t->annotation_id = a->id;
            t->category_id   = a->category_id;
            t->score         = 1;
            t->area          = a->has_area ? a->area : a->box[2] * a->box[3];
            t->box_id        = index++;
            t->keypoint      = keypoint;
            s->image_of[s->n++] = i;
        }
    }
    return STANCE_OK;
}

static bool has_category(const struct stance_annotations *f, int64_t id)
{
    for (int32_t i = 0; i < f->n_categories; i++)
        if (f->categories[i].id == id)
            return true;
    return f->n_categories == 0;
}

/* Detected boxes are taken as they are; their numbers count over the whole file. */
static stance_status from_detections(struct opening *o, double score_thr, struct stance_error *err)
{
    struct state *s        = o->s;
    const int32_t K        = s->pose->keypoints;
    float        *keypoint = stance_arena_get(s->arena, 3 * (size_t)K * sizeof *keypoint, sizeof *keypoint);

    if (keypoint == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: samples", o->name);
    for (int32_t k = 0; k < K; k++)
        keypoint[3 * k + 2] = 1;
    for (int32_t i = 0; i < s->boxes.n_objects; i++) {
        const struct stance_coco_object *b  = &s->boxes.objects[i];
        int32_t                          at = find_image(o, b->image_id);
        struct stance_sample            *t  = &s->samples[s->n];

        if (at < 0 || o->bad[at] || !has_category(&s->file, b->category_id) || b->score < score_thr)
            continue;
        if (!b->has_box || !(b->box[2] > 0) || !(b->box[3] > 0)) {
            if (o->left_out_box++ < TOLD_MAX)
                STANCE_LOG(STANCE_LOG_WARN, "%s: detection %d: its box is absent or empty: left out",
                           o->split->boxes, i + 1);
            continue;
        }
        memcpy(t->box, b->box, sizeof t->box);
        t->image_id         = b->image_id;
        t->annotation_id    = 0;
        t->category_id      = b->category_id;
        t->score            = b->has_score ? b->score : 1;
        t->area             = b->box[2] * b->box[3];
        t->box_id           = (int32_t)s->n;
        t->keypoint         = keypoint;
        s->image_of[s->n++] = at;
    }
    return STANCE_OK;
}

/* ---- truth ---------------------------------------------------------------------------------------- */

/* Numbers of keypoints are checked here, for every annotation that has any. */
static stance_status make_truths(struct opening *o, struct stance_error *err)
{
    struct state *s      = o->s;
    const int32_t K      = s->pose->keypoints;
    double       *zeros  = stance_arena_get(s->arena, 3 * (size_t)K * sizeof *zeros, sizeof *zeros);
    int64_t       wrong  = 0;
    stance_status status = STANCE_OK;

    if (zeros == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: ground truth", o->name);
    for (int64_t i = 0; i < s->file.n_objects; i++) {
        const struct stance_coco_object *a  = &s->file.objects[i];
        struct stance_truth             *t  = &s->truths[s->n_truths];
        int32_t                          at = find_image(o, a->image_id);

        if (a->n_values != 0 && a->n_values != 3 * K) {
            const char *file = at >= 0 ? s->file.images[at].file : "no image";

            if (wrong++ == 0)
                status = STANCE_FAIL(err, STANCE_ERR_SHAPE,
                                     "%s: annotation %lld (%s): %d numbers in keypoints, %d points need %d",
                                     o->name, (long long)a->id, file, a->n_values, K, 3 * K);
            else if (wrong <= TOLD_MAX)
                STANCE_LOG(STANCE_LOG_WARN, "%s: annotation %lld (%s): %d numbers in keypoints", o->name,
                           (long long)a->id, file, a->n_values);
            continue;
        }
        if (at < 0)
            continue;
        t->image_id      = a->image_id;
        t->annotation_id = a->id;
        t->keypoint      = a->n_values != 0 ? a->value : zeros;
        t->area          = a->has_area ? a->area : NAN; /* whoever scores has to refuse it */
        t->crowd         = a->crowd;
        memcpy(t->box, a->box, sizeof t->box);
        s->n_truths++;
    }
    for (int64_t i = 0; i < s->file.n_images; i++)
        s->image_ids[i] = s->file.images[i].id;
    if (wrong > 1)
        return stance_error_prefix(err, status, "%lld annotations cannot be used, the first", (long long)wrong);
    return status;
}

/* ---- opening -------------------------------------------------------------------------------------- */

static void tell_counts(const struct opening *o)
{
    const struct state *s = o->s;

    if (o->left_out_box + o->left_out_area + o->bad_images + o->strangers > 0)
        STANCE_LOG(STANCE_LOG_WARN,
                   "%s: %lld samples; left out: %lld for their box, %lld for their area, %lld of no listed "
                   "image; %lld images",
                   o->name, (long long)s->n, (long long)o->left_out_box, (long long)o->left_out_area,
                   (long long)o->strangers, (long long)o->bad_images);
    STANCE_LOG(STANCE_LOG_INFO, "%s: %lld images, %lld annotations, %lld samples, %lld without labelled points",
               o->name, (long long)s->file.n_images, (long long)s->file.n_objects, (long long)s->n,
               (long long)o->unlabelled);
}

static bool make_room(struct opening *o, int64_t samples)
{
    struct state *s = o->s;
    size_t        n = (size_t)s->file.n_images;
    size_t        m = (size_t)(s->file.n_objects > samples ? s->file.n_objects : samples);

    s->arena     = stance_arena_new((size_t)1 << 20);
    s->samples   = stance_calloc((size_t)samples + 1, sizeof *s->samples);
    s->image_of  = stance_calloc((size_t)samples + 1, sizeof *s->image_of);
    s->truths    = stance_calloc((size_t)s->file.n_objects + 1, sizeof *s->truths);
    s->image_ids = stance_calloc(n + 1, sizeof *s->image_ids);
    s->whole     = stance_calloc(n + 1, sizeof *s->whole);
    o->by_id     = stance_calloc(n + 1, sizeof *o->by_id);
    o->first     = stance_calloc(n + 2, sizeof *o->first);
    o->list      = stance_calloc(m + 1, sizeof *o->list);
    o->bad       = stance_calloc(n + 1, sizeof *o->bad);
    o->paths     = s->arena != NULL ? stance_arena_get(s->arena, (n + 1) * sizeof *o->paths, sizeof *o->paths)
                                    : NULL;
    return s->samples && s->image_of && s->truths && s->image_ids && s->whole && o->by_id && o->first && o->list && o->bad
           && o->paths;
}

static stance_status fill(struct opening *o, const struct config *config, struct stance_error *err)
{
    struct state                    *s          = o->s;
    const bool                       detections = s->boxes.objects != NULL;
    const struct stance_annotations *objects    = detections ? &s->boxes : &s->file;
    stance_status                    status     = index_images(o, err);

    if (status == STANCE_OK)
        status = join_pose(o, err);
    if (status == STANCE_OK)
        status = make_truths(o, err);
    if (status != STANCE_OK)
        return status;
    group_objects(o, objects, detections ? "detection" : "annotation");
    status = check_images(o, objects, err);
    if (status == STANCE_OK)
        status = detections ? from_detections(o, config->score_thr, err) : from_annotations(o, err);
    if (status != STANCE_OK)
        return status;
    if (s->n == 0)
        return STANCE_FAIL(err, STANCE_ERR_INPUT,
                           "%s: no usable %s among %lld: %lld without labelled points, %lld for their box, %lld "
                           "for their area, %lld bad images",
                           o->name, detections ? "detection" : "annotation", (long long)objects->n_objects,
                           (long long)o->unlabelled, (long long)o->left_out_box, (long long)o->left_out_area,
                           (long long)o->bad_images);
    tell_counts(o);
    return STANCE_OK;
}

static void coco_close(void *state)
{
    struct state *s = state;

    stance_annotations_free(&s->file);
    stance_annotations_free(&s->boxes);
    stance_arena_free(s->arena);
    stance_free(s->samples);
    stance_free(s->image_of);
    stance_free(s->truths);
    stance_free(s->image_ids);
    stance_free(s->whole);
    memset(s, 0, sizeof *s);
}

static stance_status coco_open(void *state, const void *config, const struct stance_split *split,
                               struct stance_error *err)
{
    struct state *s          = state;
    const bool    detections = split->boxes != NULL && strcmp(split->boxes, "truth") != 0;
    struct stance_split use  = *split;
    struct opening o         = { .s = s, .split = &use, .name = split->annotations };
    stance_status  status;

    if (split->annotations == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "dataset coco: no annotation file is named");
    if (!detections)
        use.boxes = NULL;
    status = stance_annotations_read(split->annotations, &s->file, err);
    if (status == STANCE_OK && detections)
        status = stance_detections_read(split->boxes, &s->boxes, err);
    if (status == STANCE_OK && detections && s->boxes.n_objects == 0)
        status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: holds no detection", split->boxes);
    if (status == STANCE_OK && !make_room(&o, detections ? s->boxes.n_objects : s->file.n_objects))
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: samples", split->annotations);
    if (status == STANCE_OK)
        status = fill(&o, config, err);
    stance_free(o.by_id);
    stance_free(o.first);
    stance_free(o.list);
    stance_free(o.bad);
    if (status != STANCE_OK) {
        coco_close(s);
        return status;
    }
    s->paths = o.paths;
    return STANCE_OK;
}

/* ---- reading -------------------------------------------------------------------------------------- */

static const struct stance_pose *coco_pose(const void *state)
{
    return ((const struct state *)state)->pose;
}

static int64_t coco_count(const void *state)
{
    return ((const struct state *)state)->n;
}

static const struct stance_sample *coco_sample(const void *state, int64_t index)
{
    return &((const struct state *)state)->samples[index];
}

static const char *coco_path(const void *state, int64_t index)
{
    const struct state *s = state;

    return s->paths[s->image_of[index]];
}

static void coco_image_size(const void *state, int64_t index, int32_t *width, int32_t *height)
{
    const struct state *s = state;

    *width  = s->file.images[s->image_of[index]].width;
    *height = s->file.images[s->image_of[index]].height;
}

/* To the end the first time, so that a damaged file is told in the first epoch and not in one that chance picks. */
static stance_status coco_image_part(const void *state, int64_t index, const int32_t part[4], struct stance_image *out,
                                     struct stance_error *err)
{
    const struct state             *s     = state;
    const struct stance_coco_image *image = &s->file.images[s->image_of[index]];
    atomic_bool                    *whole = &s->whole[s->image_of[index]];
    const bool                      tail  = !atomic_load_explicit(whole, memory_order_relaxed);
    stance_status                   status = stance_image_read_part(coco_path(state, index), part, tail, out, err);

    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "image %lld", (long long)image->id);
    if (out->width != image->width || out->height != image->height) {
        status = STANCE_FAIL(err, STANCE_ERR_INPUT, "image %lld: %s: is %d x %d pixels, its annotation says %d x %d",
                             (long long)image->id, coco_path(state, index), out->width, out->height,
                             image->width, image->height);
        stance_image_free(out);
    } else {
        atomic_store_explicit(whole, true, memory_order_relaxed);
    }
    return status;
}

static stance_status coco_image(const void *state, int64_t index, struct stance_image *out,
                                struct stance_error *err)
{
    return coco_image_part(state, index, NULL, out, err);
}

static const struct stance_truth *coco_truths(const void *state, int64_t *count)
{
    const struct state *s = state;

    *count = s->n_truths;
    return s->truths;
}

static const int64_t *coco_image_ids(const void *state, int64_t *count)
{
    const struct state *s = state;

    *count = s->file.n_images;
    return s->image_ids;
}

static const struct stance_dataset_ops ops = {
    .size       = sizeof ops,
    .state_size = sizeof(struct state),
    .open       = coco_open,
    .close      = coco_close,
    .pose       = coco_pose,
    .count      = coco_count,
    .sample     = coco_sample,
    .image      = coco_image,
    .path       = coco_path,
    .truths     = coco_truths,
    .image_ids  = coco_image_ids,
    .image_size = coco_image_size,
    .image_part = coco_image_part,
};

STANCE_PLUGIN(dataset, coco) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_DATASET,
    .name        = "coco",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "Lin et al., \"Microsoft COCO: Common Objects in Context\", ECCV 2014",
    .summary     = "keypoint annotations in COCO's JSON format",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.dataset = &ops,
};
