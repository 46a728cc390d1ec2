/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/eval_file.h"
#include "eval/sigmas.h"

#include <stance/alloc.h>
#include <stance/log.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANCE_LOG_MODULE "eval"

/* Two files on their way to an evaluation. Arrays are the arena's. */
struct evaluation {
    const struct stance_eval_data    *gt, *dt;
    const struct stance_eval_options *options;
    struct stance_string             *warnings;
    struct stance_arena              *arena;
    struct stance_coco_input          in;
    int64_t                          *images, *categories; /* ids, ascending */
    int64_t                           n_categories;
    const struct stance_entry        *named; /* the annotation that gave K; NULL: none did */
    bool                              human; /* the category's points are COCO's */
};

static STANCE_PRINTF(2, 3) void warn(struct evaluation *e, const char *fmt, ...)
{
    char    text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (e->warnings != NULL)
        stance_string_add(e->warnings, "%s\n", text);
    else
        STANCE_LOG(STANCE_LOG_WARN, "%s", text);
}

static void *get(struct evaluation *e, size_t count, size_t size)
{
    return stance_arena_get(e->arena, (count + 1) * size, 64);
}

static stance_status no_memory(struct stance_error *err)
{
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation");
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool is_known(const int64_t *ids, int64_t n, int64_t id)
{
    return n > 0 && bsearch(&id, ids, (size_t)n, sizeof id, compare_ids) != NULL;
}

/* Sorts ids. @return the first that is there twice, or NULL */
static const int64_t *sort_ids(int64_t *ids, size_t n)
{
    qsort(ids, n, sizeof *ids, compare_ids);
    for (size_t i = 1; i < n; i++)
        if (ids[i] == ids[i - 1])
            return &ids[i];
    return NULL;
}

static stance_status told_of(const struct stance_eval_data *d, stance_status status,
                             struct stance_error *err)
{
    return d->name != NULL ? stance_error_prefix(err, status, "%s", d->name) : status;
}

/* ---- what the ground truth is about ---------------------------------------------------------- */

static stance_status list_images(struct evaluation *e, struct stance_error *err)
{
    const int64_t *twice;

    e->images = get(e, e->gt->images, sizeof *e->images);
    if (e->images == NULL)
        return no_memory(err);
    for (size_t i = 0; i < e->gt->images; i++)
        e->images[i] = e->gt->image_ids[i];
    twice = sort_ids(e->images, e->gt->images);
    if (twice != NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "image %lld is listed twice", (long long)*twice);
    return STANCE_OK;
}

/* Those listed, or, in a file without a list, those that annotations name. */
static stance_status list_categories(struct evaluation *e, struct stance_error *err)
{
    const struct stance_eval_data *gt = e->gt;
    size_t         n      = gt->n_categories > 0 ? gt->n_categories : gt->n_entries;
    const int64_t *twice;

    e->categories = get(e, n, sizeof *e->categories);
    if (e->categories == NULL)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        e->categories[i] = gt->n_categories > 0 ? gt->categories[i].id : gt->entries[i].category_id;
    twice = sort_ids(e->categories, n);
    if (twice != NULL && gt->n_categories > 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "category %lld is listed twice", (long long)*twice);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || e->categories[i] != e->categories[e->n_categories - 1])
            e->categories[e->n_categories++] = e->categories[i];
    return STANCE_OK;
}

static bool takes_part(const struct evaluation *e, const struct stance_entry *a)
{
    return is_known(e->images, (int64_t)e->gt->images, a->image_id)
           && is_known(e->categories, e->n_categories, a->category_id);
}

/* K is the number of points of the annotations; the categories must not say otherwise. */
static stance_status find_keypoints(struct evaluation *e, struct stance_error *err)
{
    const struct stance_eval_data *gt = e->gt;
    int64_t                        k  = 0;

    for (size_t i = 0; i < gt->n_entries && e->named == NULL; i++)
        if (takes_part(e, &gt->entries[i]))
            e->named = &gt->entries[i];
    if (e->named != NULL) {
        k = (int64_t)(e->named->numbers / 3);
        if (k == 0 || e->named->numbers % 3 != 0)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                               "annotation %lld: keypoints has %zu numbers, which is not 3 for each point",
                               (long long)e->named->id, e->named->numbers);
    }
    for (size_t i = 0; i < gt->n_categories; i++) {
        const struct stance_category *c = &gt->categories[i];

        if (k == 0 && c->keypoints > 0)
            k = c->keypoints;
        e->human |= c->human;
        if (e->named != NULL && c->id == e->named->category_id && c->keypoints >= 0 && c->keypoints != k)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                               "annotation %lld: %lld keypoints, but its category names %lld",
                               (long long)e->named->id, (long long)k, (long long)c->keypoints);
    }
    if (k == 0 && e->dt->n_entries > 0)
        k = (int64_t)(e->dt->entries[0].numbers / 3);
    if (k > INT32_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%lld keypoints are too many", (long long)k);
    e->in.keypoints = (int32_t)k;
    return STANCE_OK;
}

static stance_status find_sigmas(struct evaluation *e, struct stance_error *err)
{
    int32_t       k = e->in.keypoints;
    double       *given, *kept;
    int64_t       n;
    stance_status status;

    if (e->options->sigmas == NULL) {
        if (k != 17)
            return STANCE_FAIL(err, STANCE_ERR_INVAL,
                               "sigmas are needed: the annotations have %d keypoints, and only COCO's 17 "
                               "have known ones", (int)k);
        if (!e->human)
            warn(e, "the sigmas are COCO's for the 17 points of a person, but the category's names are "
                    "not COCO's: give the sigmas of these points");
        e->in.sigmas = stance_coco_sigmas;
        return STANCE_OK;
    }
    status = stance_sigmas_read(e->options->sigmas, &given, &n, err);
    if (status != STANCE_OK)
        return status;
    kept = get(e, (size_t)n, sizeof *kept);
    if (kept != NULL)
        memcpy(kept, given, (size_t)n * sizeof *kept);
    stance_free(given);
    if (kept == NULL)
        return no_memory(err);
    if (n != k)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "sigmas: %lld are given, but the annotations have %d "
                           "keypoints", (long long)n, (int)k);
    e->in.sigmas = kept;
    return STANCE_OK;
}

/* ---- persons --------------------------------------------------------------------------------- */

static bool is_labelled(const double *keypoint, int32_t k)
{
    for (int32_t i = 0; i < k; i++)
        if (keypoint[3 * i + 2] > 0)
            return true;
    return false;
}

static stance_status take_annotation(struct evaluation *e, const struct stance_entry *a,
                                     struct stance_truth *t, struct stance_error *err)
{
    int32_t   k  = e->in.keypoints;
    long long id = (long long)a->id;

    *t = (struct stance_truth){
        .image_id = a->image_id, .annotation_id = a->id, .area = a->area, .crowd = a->crowd,
        .keypoint = e->gt->numbers + a->first,
    };
    memcpy(t->box, a->box, sizeof t->box);
    if (!(a->has & STANCE_HAS_CATEGORY))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "annotation %lld: category_id is missing", id);
    if (a->numbers != 3 * (size_t)k)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "annotation %lld: keypoints has %zu numbers, but annotation %lld has %d", id,
                           a->numbers, (long long)e->named->id, 3 * (int)k);
    if (!(a->has & STANCE_HAS_BOX)
        && (!is_labelled(t->keypoint, k)
            || (!(a->has & STANCE_HAS_AREA) && e->options->area_fallback == STANCE_AREA_BBOX)))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "annotation %lld: bbox is missing", id);
    if (a->has & STANCE_HAS_AREA)
        return STANCE_OK;
    if (e->options->area_fallback != STANCE_AREA_BBOX)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "annotation %lld: area is missing (area_fallback bbox takes width times height "
                           "of its box)", id);
    t->area = a->box[2] * a->box[3];
    return STANCE_OK;
}

static stance_status check_annotation_ids(struct evaluation *e, struct stance_error *err)
{
    int64_t       *ids = get(e, e->gt->n_entries, sizeof *ids);
    const int64_t *twice;

    if (ids == NULL)
        return no_memory(err);
    for (size_t i = 0; i < e->gt->n_entries; i++)
        ids[i] = e->gt->entries[i].id;
    twice = sort_ids(ids, e->gt->n_entries);
    if (twice != NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "annotation %lld: its id is given twice",
                           (long long)*twice);
    if (is_known(ids, (int64_t)e->gt->n_entries, 0))
        warn(e, "annotation 0 counts as never found: to COCO's evaluation the id 0 means no match; number "
                "annotations from 1");
    return STANCE_OK;
}

/* How many annotations are how, and the first of them, for a warning. */
struct tally { int64_t n, first; };

static void count(struct tally *t, int64_t id)
{
    if (t->n++ == 0)
        t->first = id;
}

static void warn_of_annotations(struct evaluation *e, const struct tally *strange,
                                const struct tally *flat, int64_t wanted)
{
    if (strange->n > 0)
        warn(e, "%lld annotations take no part, because their image or category is not listed (first: "
                "annotation %lld)", (long long)strange->n, (long long)strange->first);
    if (flat->n > 0)
        warn(e, "area is 0 in %lld annotations of %lld (first: annotation %lld): the score divides by it, "
                "so that nothing can find them", (long long)flat->n, (long long)wanted,
             (long long)flat->first);
    if (wanted == 0)
        warn(e, "there is no person with labelled keypoints to find: every number is -1");
}

static stance_status take_annotations(struct evaluation *e, struct stance_error *err)
{
    const struct stance_eval_data *gt       = e->gt;
    struct stance_truth           *truths   = get(e, gt->n_entries, sizeof *truths);
    int64_t                       *category = get(e, gt->n_entries, sizeof *category);
    struct tally                   strange = { 0, 0 }, flat = { 0, 0 };
    int64_t                        n = 0, wanted = 0;

    if (truths == NULL || category == NULL)
        return no_memory(err);
    for (size_t i = 0; i < gt->n_entries; i++) {
        const struct stance_entry *a = &gt->entries[i];
        stance_status              status;

        if (!takes_part(e, a)) {
            count(&strange, a->id);
            continue;
        }
        status = take_annotation(e, a, &truths[n], err);
        if (status != STANCE_OK)
            return status;
        if (!a->crowd && is_labelled(truths[n].keypoint, e->in.keypoints)) {
            wanted++;
            if (!(truths[n].area > 0))
                count(&flat, a->id);
        }
        category[n++] = a->category_id;
    }
    warn_of_annotations(e, &strange, &flat, wanted);
    e->in.truths         = truths;
    e->in.truth_category = category;
    e->in.n_truths       = n;
    return STANCE_OK;
}

static stance_status check_result(const struct evaluation *e, size_t i, struct stance_error *err)
{
    const struct stance_entry *r = &e->dt->entries[i];

    if (!is_known(e->images, (int64_t)e->gt->images, r->image_id))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "result %zu: image_id %lld is not in the ground truth",
                           i, (long long)r->image_id);
    if (!(r->has & STANCE_HAS_CATEGORY))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "result %zu: category_id is missing", i);
    if (r->numbers != 3 * (size_t)e->in.keypoints)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT,
                           "result %zu: %zu keypoints (%zu numbers), but the annotations have %d", i,
                           r->numbers / 3, r->numbers, (int)e->in.keypoints);
    return STANCE_OK;
}

static stance_status take_results(struct evaluation *e, struct stance_error *err)
{
    const struct stance_eval_data *dt      = e->dt;
    struct stance_coco_detection  *found   = get(e, dt->n_entries, sizeof *found);
    struct tally                   strange = { 0, 0 };

    if (found == NULL)
        return no_memory(err);
    for (size_t i = 0; i < dt->n_entries; i++) {
        const struct stance_entry *r = &dt->entries[i];

        stance_status              status = check_result(e, i, err);

        if (status != STANCE_OK)
            return told_of(dt, status, err);
        if (!is_known(e->categories, e->n_categories, r->category_id))
            count(&strange, (int64_t)i);
        found[i] = (struct stance_coco_detection){ r->image_id, r->category_id, r->score,
                                                   dt->numbers + r->first };
    }
    if (strange.n > 0)
        warn(e, "%lld results take no part, because their category is not in the ground truth (first: "
                "result %lld)", (long long)strange.n, (long long)strange.first);
    e->in.detections   = found;
    e->in.n_detections = (int64_t)dt->n_entries;
    return STANCE_OK;
}

/* ---- putting it together --------------------------------------------------------------------- */

static stance_status take_truth(struct evaluation *e, struct stance_error *err)
{
    stance_status status = list_images(e, err);

    if (status == STANCE_OK)
        status = list_categories(e, err);
    if (status == STANCE_OK)
        status = find_keypoints(e, err);
    if (status == STANCE_OK)
        status = check_annotation_ids(e, err);
    if (status == STANCE_OK)
        status = take_annotations(e, err);
    return status == STANCE_OK ? status : told_of(e->gt, status, err);
}

stance_status stance_eval_data(const struct stance_eval_data *gt, const struct stance_eval_data *dt,
                               const struct stance_eval_options *options,
                               struct stance_eval_result *result, struct stance_coco_curves *curves,
                               struct stance_string *warnings, struct stance_error *err)
{
    static const struct stance_eval_options none = { NULL, STANCE_AREA_NONE };
    struct evaluation e = {
        .gt = gt, .dt = dt, .options = options != NULL ? options : &none, .warnings = warnings,
    };
    struct stance_eval_result r = { .images = (int64_t)gt->images };
    stance_status             status;

    e.arena = stance_arena_new(4096);
    if (e.arena == NULL)
        return no_memory(err);
    status = take_truth(&e, err);
    if (status == STANCE_OK)
        status = find_sigmas(&e, err);
    if (status == STANCE_OK)
        status = take_results(&e, err);
    if (status != STANCE_OK)
        goto free_arena;
    e.in.image_ids    = e.images;
    e.in.images       = (int64_t)gt->images;
    e.in.category_ids = e.categories;
    e.in.categories   = e.n_categories;
    if (warnings != NULL && warnings->failed) {
        status = no_memory(err);
        goto free_arena;
    }
    status = stance_coco_evaluate(&e.in, r.stats, curves, err);
    if (status != STANCE_OK)
        goto free_arena;
    r.keypoints   = e.in.keypoints;
    r.annotations = e.in.n_truths;
    r.results     = e.in.n_detections;
    *result       = r;
free_arena:
    stance_arena_free(e.arena);
    return status;
}

stance_status stance_eval_files(const char *gt_path, const char *dt_path,
                                const struct stance_eval_options *options,
                                struct stance_eval_result *result, struct stance_string *warnings,
                                struct stance_error *err)
{
    struct stance_eval_data gt = { .images = 0 }, dt = { .images = 0 };
    stance_status           status = stance_eval_read(gt_path, STANCE_EVAL_TRUTH, &gt, err);

    if (status == STANCE_OK)
        status = stance_eval_read(dt_path, STANCE_EVAL_RESULTS, &dt, err);
    if (status == STANCE_OK)
        status = stance_eval_data(&gt, &dt, options, result, NULL, warnings, err);
    stance_eval_data_free(&dt);
    stance_eval_data_free(&gt);
    return status;
}
