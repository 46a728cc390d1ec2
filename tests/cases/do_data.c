/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets, images and the COCO evaluation. */
#include "config.h"

#include "walk.h"

#include "config/recipe.h"
#include "data/annotations.h"
#include "data/image.h"
#include "eval/eval_file.h"
#include "registry/instance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- eval-keypoints -------------------------------------------------------------------------- */

static const char *const stat_names[STANCE_COCO_STATS] = { "AP", "AP50", "AP75", "AP_M", "AP_L",
                                                           "AR", "AR50", "AR75", "AR_M", "AR_L" };

static int stat_of(const char *name)
{
    for (int i = 0; i < STANCE_COCO_STATS; i++)
        if (strcmp(stat_names[i], name) == 0)
            return i;
    return -1;
}

static void compare_stats(struct walk *w, const double *stats)
{
    const struct stance_config_node *want      = walk_expects(w, "stats"),
                                    *undefined = walk_expects(w, "undefined");

    for (size_t i = 0; want != NULL && i < want->count; i++) {
        int at = stat_of(want->child[i]->key);

        if (at < 0)
            walk_fail(w, "expect.stats: does not know key %s", want->child[i]->key);
        else
            walk_same(w, want->child[i]->key, stats[at], want->child[i]);
    }
    for (int i = 0; undefined != NULL && i < STANCE_COCO_STATS; i++) {
        bool listed = false;

        for (size_t k = 0; k < undefined->count; k++)
            listed |= strcmp(undefined->child[k]->text, stat_names[i]) == 0;
        if (listed != (stats[i] == -1))
            walk_fail(w, "%s is %g", stat_names[i], stats[i]);
    }
}

static void eval_keypoints(struct walk *w)
{
    const char *gt = walk_path(w, walk_need(w, "gt")), *dt = walk_path(w, walk_need(w, "dt"));
    const char *fallback         = walk_text(w, "area_fallback", "none");
    struct stance_eval_options o = { 0 };
    struct stance_eval_result  r;
    struct stance_string       sigmas = { 0 };
    size_t                     n;
    double                    *v = walk_numbers(w, walk_get(w, "sigmas"), "sigmas", &n);

    for (size_t i = 0; i < n; i++) {
        char number[40];

        stance_text_of_f64(v[i], number, sizeof number);
        stance_string_add(&sigmas, "%s%s", i > 0 ? "," : "", number);
    }
    stance_free(v);
    if (walk_has(w, "sigmas"))
        o.sigmas = sigmas.s != NULL ? sigmas.s : "[]";
    if (strcmp(fallback, "bbox") == 0)
        o.area_fallback = STANCE_AREA_BBOX;
    else if (strcmp(fallback, "none") != 0)
        walk_fail(w, "area_fallback: '%s' is not known", fallback);
    if (!walk_failed(w)) {
        w->status = stance_eval_files(gt, dt, &o, &r, NULL, &w->err);
        if (w->status == STANCE_OK)
            compare_stats(w, r.stats);
    }
    stance_string_free(&sigmas);
}

/* ---- load-dataset ---------------------------------------------------------------------------- */

static struct stance_config_node *add(struct stance_config *c, struct stance_config_node *to,
                                      const char *key, struct stance_config_node *n)
{
    if (n == NULL || !stance_config_node_add(c, to, key, n))
        abort();
    return n;
}

/* The recipe's `data.info` with the pairs of the case; the points are those of the file. */
static bool pose_with_pairs(struct walk *w, const struct stance_annotations *a,
                            struct stance_config *c, struct stance_pose *pose)
{
    const struct stance_coco_category *category = NULL;
    struct stance_config_node *list, *pairs = stance_config_node_copy(c, walk_get(w, "flip_pairs"));

    for (int32_t i = 0; i < a->n_categories && category == NULL; i++)
        if (a->categories[i].n_names > 0)
            category = &a->categories[i];
    if (category == NULL) {
        walk_fail(w, "flip_pairs: the file names no points");
        return false;
    }
    list = add(c, c->root, "keypoints", stance_config_node_new(c, STANCE_CONFIG_LIST, NULL));
    for (int32_t i = 0; i < category->n_names; i++)
        add(c, list, NULL, stance_config_node_text(c, category->names[i], NULL));
    add(c, c->root, "flip_pairs", pairs);
    *pose     = (struct stance_pose){ .size = sizeof *pose };
    w->status = stance_pose_read(c, c->root, pose, &w->err);
    return w->status == STANCE_OK;
}

static const struct stance_sample *sample_of(const struct stance_dataset_ops *ops,
                                             const void *state, int64_t id)
{
    for (int64_t i = 0, n = ops->count(state); i < n; i++)
        if (ops->sample(state, i)->annotation_id == id)
            return ops->sample(state, i);
    return NULL;
}

static void compare_boxes(struct walk *w, const struct stance_dataset_ops *ops, const void *state)
{
    const struct stance_config_node *boxes     = walk_expects(w, "boxes"),
                                    *tolerance = walk_expects(w, "box_tolerance");
    double most = tolerance != NULL ? walk_node_f64(w, tolerance, "box_tolerance") : 0;

    for (size_t i = 0; boxes != NULL && i < boxes->count; i++) {
        const struct stance_sample *s =
            sample_of(ops, state, strtoll(boxes->child[i]->key, NULL, 10));
        size_t  n;
        double *v = walk_numbers(w, boxes->child[i], "boxes", &n);

        if (s == NULL || n != 4)
            walk_fail(w, "boxes: annotation %s has no box", boxes->child[i]->key);
        for (int k = 0; !walk_failed(w) && k < 4; k++)
            if (!(fabs(s->box[k] - v[k]) <= most) && !walk_close(w, s->box[k], v[k]))
                walk_fail(w, "boxes: annotation %s: number %d is %g, not %g", boxes->child[i]->key,
                          k, s->box[k], v[k]);
        stance_free(v);
    }
}

/* Flags of the points of one sample, as numbers or truths. */
static void compare_flags(struct walk *w, const struct stance_sample *s, int32_t points,
                          const struct stance_config_node *want)
{
    if (s == NULL || want->kind != STANCE_CONFIG_LIST || (int32_t)want->count != points) {
        walk_fail(w, "labelled: there is no sample with so many points");
        return;
    }
    for (int32_t k = 0; k < points; k++) {
        const char *text = want->child[k]->text != NULL ? want->child[k]->text : "";
        bool        flag =
            strcmp(text, "true") == 0 || (strcmp(text, "false") != 0 && strcmp(text, "0") != 0);

        if (flag != (s->keypoint[3 * k + 2] > 0))
            walk_fail(w, "labelled: point %d of annotation %lld is %s", (int)k,
                      (long long)s->annotation_id, flag ? "not" : "labelled");
    }
}

/* By annotation id; or for each kept one in turn; or, as one list of flags, for the first. */
static void compare_labelled(struct walk *w, const struct stance_dataset_ops *ops,
                             const void *state)
{
    const struct stance_config_node *want   = walk_expects(w, "labelled");
    int32_t                          points = ops->pose(state)->keypoints;

    if (want == NULL)
        return;
    if (want->kind == STANCE_CONFIG_LIST && want->count > 0
        && want->child[0]->kind != STANCE_CONFIG_LIST) {
        compare_flags(w, ops->count(state) > 0 ? ops->sample(state, 0) : NULL, points, want);
        return;
    }
    for (size_t i = 0; i < want->count; i++) {
        const struct stance_sample *s;

        if (want->kind == STANCE_CONFIG_MAP)
            s = sample_of(ops, state, strtoll(want->child[i]->key, NULL, 10));
        else
            s = (int64_t)i < ops->count(state) ? ops->sample(state, (int64_t)i) : NULL;
        compare_flags(w, s, points, want->child[i]);
    }
}

static void compare_samples(struct walk *w, const struct stance_annotations *a,
                            const struct stance_dataset_ops *ops, const void *state)
{
    int64_t        n = ops->count(state), images, with = 0, kept = 0, dropped = 0;
    const int64_t *image = ops->image_ids(state, &images);
    int64_t       *ids = stance_calloc((size_t)(n + a->n_objects) + 1, sizeof *ids), *out = ids + n;

    if (ids == NULL)
        abort();
    for (int64_t i = 0; i < n; i++)
        ids[kept++] = ops->sample(state, i)->annotation_id;
    for (int64_t i = 0; i < a->n_objects; i++)
        if (sample_of(ops, state, a->objects[i].id) == NULL)
            out[dropped++] = a->objects[i].id;
    walk_is_ids(w, "kept", ids, (size_t)kept);
    walk_is_ids(w, "dropped", out, (size_t)dropped);
    stance_free(ids);
    compare_boxes(w, ops, state);
    compare_labelled(w, ops, state);
    for (int64_t i = 0; i < images; i++) {
        bool any = false;

        for (int64_t k = 0; k < n && !any; k++)
            any = ops->sample(state, k)->image_id == image[i];
        with += any;
    }
    walk_is_f64(w, "images_without_samples", (double)(images - with));
    walk_is_f64(w, "samples", (double)n);
}

/* What training does first: opens the set and decodes what it will show. */
static void open_and_compare(struct walk *w, const struct stance_annotations *a,
                             const struct stance_split *split)
{
    const struct stance_plugin      *p;
    const struct stance_dataset_ops *ops;
    void                            *config, *state;

    p = walk_plugin(w, STANCE_KIND_DATASET, "coco", &config);
    if (p == NULL)
        return;
    ops   = p->ops.dataset;
    state = stance_calloc(1, ops->state_size + 1);
    if (state == NULL)
        abort();
    w->status = ops->open(state, config, split, &w->err);
    if (w->status == STANCE_OK) {
        for (int64_t i = 0; w->status == STANCE_OK && i < ops->count(state); i++) {
            struct stance_image image = { 0 };

            w->status = ops->image(state, i, &image, &w->err);
            stance_image_free(&image);
        }
        if (w->status == STANCE_OK)
            compare_samples(w, a, ops, state);
        ops->close(state);
    }
    stance_free(state);
    stance_plugin_config_free(config);
}

static void load_dataset(struct walk *w)
{
    const char *annotations         = walk_path(w, walk_need(w, "annotations")),
               *images              = walk_path(w, walk_text(w, "images", "."));
    const char               *bad   = walk_text(w, "on_bad_image", "error");
    struct stance_split       split = { .size            = sizeof split,
                                        .annotations     = annotations,
                                        .images          = images,
                                        .training        = walk_bool(w, "training", true),
                                        .check_images    = true,
                                        .skip_bad_images = strcmp(bad, "skip") == 0 };
    struct stance_annotations a     = { 0 };
    struct stance_config     *c     = stance_config_new();
    struct stance_pose        pose;

    if (strcmp(bad, "skip") != 0 && strcmp(bad, "error") != 0)
        walk_fail(w, "on_bad_image: '%s' is not known", bad);
    if (c == NULL)
        abort();
    if (!walk_failed(w))
        w->status = stance_annotations_read(annotations, &a, &w->err);
    if (!walk_failed(w) && w->status == STANCE_OK) {
        if (!walk_has(w, "flip_pairs") || pose_with_pairs(w, &a, c, &pose)) {
            split.info = walk_has(w, "flip_pairs") ? &pose : NULL;
            open_and_compare(w, &a, &split);
        }
    }
    stance_annotations_free(&a);
    stance_config_free(c);
}

/* ---- load-image ------------------------------------------------------------------------------ */

static void compare_pixels(struct walk *w, const struct stance_image *image)
{
    const struct stance_config_node *pixels = walk_expects(w, "pixels"),
                                    *within = walk_expects(w, "pixel_tolerance");
    double most = within != NULL ? walk_node_f64(w, within, "pixel_tolerance") : 0;

    for (size_t i = 0; pixels != NULL && i < pixels->count; i++) {
        const struct stance_config_node *p = pixels->child[i];
        int64_t x = walk_node_i64(w, stance_config_find(p, "x"), "pixels.x");
        int64_t y = walk_node_i64(w, stance_config_find(p, "y"), "pixels.y");
        size_t  n;
        double *rgb = walk_numbers(w, stance_config_find(p, "rgb"), "pixels.rgb", &n);

        walk_known(w, p, "pixels", "x y rgb");
        if (n != 3 || x < 0 || y < 0 || x >= image->width || y >= image->height)
            walk_fail(w, "pixels: there is no pixel %lld, %lld", (long long)x, (long long)y);
        for (int k = 0; !walk_failed(w) && k < 3; k++) {
            int have = image->rgb[3 * (y * image->width + x) + k];

            if (!(fabs(have - rgb[k]) <= most))
                walk_fail(w, "pixel %lld, %lld: channel %d is %d, not %g", (long long)x,
                          (long long)y, k, have, rgb[k]);
        }
        stance_free(rgb);
    }
}

static void load_image(struct walk *w)
{
    const char         *path  = walk_path(w, walk_need(w, "file"));
    struct stance_image image = { 0 };

    if (walk_failed(w))
        return;
    w->status = stance_image_read(path, &image, &w->err);
    if (w->status == STANCE_OK) {
        walk_is_f64(w, "width", image.width);
        walk_is_f64(w, "height", image.height);
        walk_is_f64(w, "channels", 3);
        compare_pixels(w, &image);
    }
    stance_image_free(&image);
}

const struct walk_do walk_data[] = {
    { "eval-keypoints", eval_keypoints, "gt dt sigmas area_fallback", "stats undefined" },
    { "load-dataset", load_dataset, "annotations images on_bad_image flip_pairs training",
      "kept dropped boxes box_tolerance labelled images_without_samples samples" },
    { "load-image", load_image, "file", "width height channels pixels pixel_tolerance" },
    { NULL, NULL, NULL, NULL },
};
