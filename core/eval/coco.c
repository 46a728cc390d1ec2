/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/coco.h"
#include "eval/coco_match.h"
#include "eval/oks.h"
#include "eval/order.h"

#include <stance/alloc.h>

#include <float.h>
#include <math.h>
#include <string.h>

/* All pieces are the arena's. "The best" are the detections that count: at most 20 an image, numbered
 * by score over all images. */
struct evaluation {
    const struct stance_coco_input *in;
    struct stance_arena            *arena;
    struct stance_coco_match        match;

    int64_t *ids;                            /* [images] ascending */
    int64_t *truth_image, *detection_image;  /* place among ids; -1: takes no part */
    int64_t *truth_start, *truth_list;       /* [images + 1], [n_truths] persons by image */
    int64_t *best_start, *best_list;         /* [images + 1], [n_detections] numbers by image */
    int64_t *filled;                         /* [images + 1] */
    int64_t *best;                           /* [n_detections] number -> detection */
    int64_t  n_best;

    struct stance_ranked *ranked, *scratch;  /* [n_detections] */
    uint16_t *hit[STANCE_COCO_AREAS], *ignored[STANCE_COCO_AREAS]; /* [n_detections] by number */
    double   *precision;                     /* [n_truths] where the n-th person is found */
    struct stance_coco_curves curves;
};

/* ---- images ---------------------------------------------------------------------------------- */

static bool ascending(const int64_t *ids, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (ids[i] < ids[i - 1])
            return false;
    return true;
}

static void sort_ids(int64_t *ids, int64_t *scratch, int64_t n)
{
    for (int64_t width = 1; width < n && !ascending(ids, n); width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t middle = n - i < width ? n : i + width, end = n - i < 2 * width ? n : i + 2 * width;
            int64_t a = i, b = middle;

            for (int64_t to = i; to < end; to++)
                scratch[to] = b >= end || (a < middle && ids[a] <= ids[b]) ? ids[a++] : ids[b++];
        }
        memcpy(ids, scratch, (size_t)n * sizeof *ids);
    }
}

/* @param guess  place to try first: neighbours in a file are often of one image */
static int64_t place_of(const struct evaluation *e, int64_t id, int64_t guess)
{
    int64_t low = 0, high = e->in->images;

    if (guess >= 0 && e->ids[guess] == id)
        return guess;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (e->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->in->images && e->ids[low] == id ? low : -1;
}

static stance_status place_all(struct evaluation *e, struct stance_error *err)
{
    const struct stance_coco_input *in    = e->in;
    int64_t                         guess = -1;

    for (int64_t i = 0; i < in->images; i++)
        e->ids[i] = in->image_ids[i];
    sort_ids(e->ids, e->filled, in->images);
    for (int64_t i = 1; i < in->images; i++)
        if (e->ids[i] == e->ids[i - 1])
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "evaluation: image %lld is listed twice",
                               (long long)e->ids[i]);
    for (int64_t i = 0; i < in->n_truths; i++)
        guess = e->truth_image[i] = place_of(e, in->truths[i].image_id, guess);
    for (int64_t i = 0; i < in->n_detections; i++)
        guess = e->detection_image[i] = place_of(e, in->detections[i].image_id, guess);
    return STANCE_OK;
}

/* ---- one category ---------------------------------------------------------------------------- */

/* Turns counts at [i + 1] into starts, and sets `filled` to them. */
static void starts_of_counts(struct evaluation *e, int64_t *start)
{
    for (int64_t i = 0; i < e->in->images; i++) {
        start[i + 1] += start[i];
        e->filled[i] = start[i];
    }
}

static bool truth_takes_part(const struct evaluation *e, int64_t i, int64_t category)
{
    return e->truth_image[i] >= 0
           && (e->in->truth_category == NULL
               || e->in->truth_category[i] == e->in->category_ids[category]);
}

static void list_truths(struct evaluation *e, int64_t category)
{
    const struct stance_coco_input *in = e->in;

    memset(e->truth_start, 0, (size_t)(in->images + 1) * sizeof *e->truth_start);
    for (int64_t i = 0; i < in->n_truths; i++)
        if (truth_takes_part(e, i, category))
            e->truth_start[e->truth_image[i] + 1]++;
    starts_of_counts(e, e->truth_start);
    for (int64_t i = 0; i < in->n_truths; i++)
        if (truth_takes_part(e, i, category))
            e->truth_list[e->filled[e->truth_image[i]]++] = i;
}

static bool detection_takes_part(const struct evaluation *e, int64_t i, int64_t category)
{
    return e->detection_image[i] >= 0
           && (e->in->truth_category == NULL
               || e->in->detections[i].category_id == e->in->category_ids[category]);
}

/* Ranks the category's detections by score, equal ones by image and then by place in the file, and
 * keeps the best of each image. */
static void rank_detections(struct evaluation *e, int64_t category)
{
    const struct stance_coco_input *in = e->in;
    int64_t                         n;

    memset(e->best_start, 0, (size_t)(in->images + 1) * sizeof *e->best_start);
    for (int64_t i = 0; i < in->n_detections; i++)
        if (detection_takes_part(e, i, category))
            e->best_start[e->detection_image[i] + 1]++;
    starts_of_counts(e, e->best_start);
    for (int64_t i = 0; i < in->n_detections; i++)
        if (detection_takes_part(e, i, category))
            e->ranked[e->filled[e->detection_image[i]]++]
                = (struct stance_ranked){ in->detections[i].score, i };
    n = e->best_start[in->images];
    stance_order(e->ranked, e->scratch, n);

    memset(e->best_start, 0, (size_t)(in->images + 1) * sizeof *e->best_start);
    e->n_best = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t *of_image = &e->best_start[e->detection_image[e->ranked[i].at] + 1];

        if (*of_image < STANCE_COCO_DETECTIONS) {
            ++*of_image;
            e->best[e->n_best++] = e->ranked[i].at;
        }
    }
    starts_of_counts(e, e->best_start);
    for (int64_t i = 0; i < e->n_best; i++)
        e->best_list[e->filled[e->detection_image[e->best[i]]]++] = i;
}

/* @param[out] persons  to be found, by range of areas */
static void match_images(struct evaluation *e, int64_t persons[STANCE_COCO_AREAS])
{
    struct stance_coco_match *m = &e->match;

    memset(persons, 0, STANCE_COCO_AREAS * sizeof *persons);
    for (int64_t i = 0; i < e->in->images; i++) {
        const int64_t *truth = e->truth_list + e->truth_start[i];
        const int64_t *best  = e->best_list + e->best_start[i];

        m->truths     = e->truth_start[i + 1] - e->truth_start[i];
        m->detections = (int32_t)(e->best_start[i + 1] - e->best_start[i]);
        for (int64_t j = 0; j < m->truths; j++)
            m->truth[j] = &e->in->truths[truth[j]];
        for (int32_t j = 0; j < m->detections; j++)
            m->detection[j] = e->in->detections[e->best[best[j]]].keypoint;
        stance_coco_match_image(m);
        for (int a = 0; a < STANCE_COCO_AREAS; a++) {
            persons[a] += m->persons[a];
            for (int32_t j = 0; j < m->detections; j++) {
                e->hit[a][best[j]]     = m->hit[a][j];
                e->ignored[a][best[j]] = m->ignored[a][j];
            }
        }
    }
}

/* Walks the ranked detections at one threshold. Precision falls at every false alarm, so the largest
 * precision from some place on is that of a hit: those of the hits are enough.
 * @return hits */
static int64_t walk(struct evaluation *e, int area, int t)
{
    const uint16_t *hit = e->hit[area], *ignored = e->ignored[area];
    int64_t         hits = 0, alarms = 0;
    double          most = 0;

    for (int64_t i = 0; i < e->n_best; i++) {
        if ((ignored[i] >> t & 1) != 0)
            continue;
        if ((hit[i] >> t & 1) == 0) {
            alarms++;
            continue;
        }
        hits++;
        e->precision[hits - 1] = (double)hits / ((double)alarms + (double)hits + DBL_EPSILON);
    }
    for (int64_t i = hits - 1; i >= 0; i--)
        e->precision[i] = most = e->precision[i] > most ? e->precision[i] : most;
    return hits;
}

static void accumulate(struct evaluation *e, int64_t category, int area, int64_t persons)
{
    int64_t columns = e->curves.categories * STANCE_COCO_AREAS;
    int64_t column  = category * STANCE_COCO_AREAS + area;

    for (int t = 0; t < STANCE_COCO_THRESHOLDS; t++) {
        double *curve = e->curves.precision + t * STANCE_COCO_RECALLS * columns + column;
        int64_t hits = walk(e, area, t), n = 0;

        e->curves.recall[t * columns + column] = (double)hits / (double)persons;
        for (int r = 0; r < STANCE_COCO_RECALLS; r++) {
            double recall = r == STANCE_COCO_RECALLS - 1 ? 1 : r * (1. / (STANCE_COCO_RECALLS - 1));

            while (n < hits && (double)(n + 1) / (double)persons < recall)
                n++;
            curve[r * columns] = n < hits ? e->precision[n] : 0;
        }
    }
}

/* ---- the ten numbers ------------------------------------------------------------------------- */

/* Mean of what is defined among v[0], v[step], ...; -1 if nothing is. */
static double mean_defined(const double *v, int64_t n, int64_t step)
{
    double  sum     = 0;
    int64_t defined = 0;

    for (int64_t i = 0; i < n; i++)
        if (v[i * step] > -1) {
            sum += v[i * step];
            defined++;
        }
    return defined > 0 ? sum / (double)defined : -1;
}

static void summarise(const struct stance_coco_curves *c, double stats[STANCE_COCO_STATS])
{
    enum { AT_50 = 0, AT_75 = 5 };
    int64_t       columns = c->categories * STANCE_COCO_AREAS, step = STANCE_COCO_AREAS;
    int64_t       recalls = STANCE_COCO_RECALLS * c->categories;
    const double *p = c->precision, *r = c->recall;

    for (int a = 0; a < STANCE_COCO_AREAS; a++) {
        int at = a == 0 ? 0 : a + 2; /* all, then at 0.5 and 0.75, then the other areas */

        stats[at]     = mean_defined(p + a, STANCE_COCO_THRESHOLDS * recalls, step);
        stats[5 + at] = mean_defined(r + a, STANCE_COCO_THRESHOLDS * c->categories, step);
    }
    stats[1] = mean_defined(p + AT_50 * STANCE_COCO_RECALLS * columns, recalls, step);
    stats[2] = mean_defined(p + AT_75 * STANCE_COCO_RECALLS * columns, recalls, step);
    stats[6] = mean_defined(r + AT_50 * columns, c->categories, step);
    stats[7] = mean_defined(r + AT_75 * columns, c->categories, step);
}

/* ---- putting it together --------------------------------------------------------------------- */

static int64_t largest_group(const int64_t *place, int64_t n, int64_t *count)
{
    int64_t largest = 0;

    for (int64_t i = 0; i < n; i++)
        if (place[i] >= 0 && ++count[place[i]] > largest)
            largest = count[place[i]];
    return largest;
}

static bool get_room(struct evaluation *e)
{
    struct stance_arena *a      = e->arena;
    size_t               images = (size_t)e->in->images + 1, truths = (size_t)e->in->n_truths + 1;
    size_t               n      = (size_t)e->in->n_detections + 1;

    e->ids             = stance_arena_get(a, images * sizeof *e->ids, 64);
    e->truth_image     = stance_arena_get(a, truths * sizeof *e->truth_image, 64);
    e->detection_image = stance_arena_get(a, n * sizeof *e->detection_image, 64);
    e->truth_start     = stance_arena_get(a, images * sizeof *e->truth_start, 64);
    e->truth_list      = stance_arena_get(a, truths * sizeof *e->truth_list, 64);
    e->best_start      = stance_arena_get(a, images * sizeof *e->best_start, 64);
    e->best_list       = stance_arena_get(a, n * sizeof *e->best_list, 64);
    e->filled          = stance_arena_get(a, images * sizeof *e->filled, 64);
    e->best            = stance_arena_get(a, n * sizeof *e->best, 64);
    e->ranked          = stance_arena_get(a, n * sizeof *e->ranked, 64);
    e->scratch         = stance_arena_get(a, n * sizeof *e->scratch, 64);
    e->precision       = stance_arena_get(a, n * sizeof *e->precision, 64);
    for (int i = 0; i < STANCE_COCO_AREAS; i++) {
        e->hit[i]     = stance_arena_get(a, n * sizeof *e->hit[i], 64);
        e->ignored[i] = stance_arena_get(a, n * sizeof *e->ignored[i], 64);
        if (e->hit[i] == NULL || e->ignored[i] == NULL)
            return false;
    }
    return e->ids != NULL && e->truth_image != NULL && e->detection_image != NULL
           && e->truth_start != NULL && e->truth_list != NULL && e->best_start != NULL
           && e->best_list != NULL && e->filled != NULL && e->best != NULL && e->ranked != NULL
           && e->scratch != NULL && e->precision != NULL;
}

static bool get_curves(struct stance_coco_curves *c, int64_t categories)
{
    int64_t precisions = STANCE_COCO_THRESHOLDS * STANCE_COCO_RECALLS * STANCE_COCO_AREAS * categories;
    int64_t recalls    = STANCE_COCO_THRESHOLDS * STANCE_COCO_AREAS * categories;

    c->categories = categories;
    c->precision  = stance_calloc((size_t)(precisions + recalls) + 1, sizeof *c->precision);
    if (c->precision == NULL)
        return false;
    c->recall = c->precision + precisions;
    for (int64_t i = 0; i < precisions + recalls; i++)
        c->precision[i] = -1;
    return true;
}

static stance_status get_vars(struct evaluation *e, double **out, struct stance_error *err)
{
    const struct stance_coco_input *in = e->in;
    double                         *vars;

    if (in->keypoints < 1)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "evaluation: %d keypoints", (int)in->keypoints);
    vars = stance_arena_get(e->arena, (size_t)in->keypoints * sizeof *vars, 64);
    if (vars == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation of %d keypoints", (int)in->keypoints);
    for (int32_t i = 0; i < in->keypoints; i++) {
        if (!(in->sigmas[i] > 0 && isfinite(in->sigmas[i])))
            return STANCE_FAIL(err, STANCE_ERR_RANGE, "sigmas: %g, of keypoint %d, is not above 0",
                               in->sigmas[i], (int)i);
        vars[i] = in->sigmas[i] * 2 * (in->sigmas[i] * 2);
    }
    *out = vars;
    return STANCE_OK;
}

stance_status stance_coco_evaluate(const struct stance_coco_input *in, double stats[STANCE_COCO_STATS],
                                   struct stance_coco_curves *curves, struct stance_error *err)
{
    struct evaluation e          = { .in = in, .arena = stance_arena_new(0) };
    int64_t           categories = in->truth_category != NULL ? in->categories : 1;
    double           *vars       = NULL;
    stance_status     status;

    if (e.arena == NULL || !get_room(&e) || !get_curves(&e.curves, categories)) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation of %lld detections",
                             (long long)in->n_detections);
        goto free_arena;
    }
    status = get_vars(&e, &vars, err);
    if (status == STANCE_OK)
        status = place_all(&e, err);
    if (status != STANCE_OK)
        goto free_arena;
    if (!stance_coco_match_init(&e.match, e.arena, in->keypoints, vars,
                                largest_group(e.truth_image, in->n_truths, e.truth_start))) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation of %lld persons", (long long)in->n_truths);
        goto free_arena;
    }
    for (int64_t c = 0; c < categories; c++) {
        int64_t persons[STANCE_COCO_AREAS];

        list_truths(&e, c);
        rank_detections(&e, c);
        match_images(&e, persons);
        for (int a = 0; a < STANCE_COCO_AREAS; a++)
            if (persons[a] > 0)
                accumulate(&e, c, a, persons[a]);
    }
    summarise(&e.curves, stats);
    if (curves != NULL) {
        *curves  = e.curves;
        e.curves = (struct stance_coco_curves){ 0 };
    }
free_arena:
    stance_coco_curves_free(&e.curves);
    stance_arena_free(e.arena);
    return status;
}

void stance_coco_curves_free(struct stance_coco_curves *curves)
{
    stance_free(curves->precision);
    *curves = (struct stance_coco_curves){ 0 };
}

stance_status stance_coco_score(const struct stance_pose *pose, const struct stance_truth *truths,
                                int64_t n_truths, const int64_t *image_ids, int64_t images,
                                const struct stance_prediction *p, int64_t count,
                                double stats[STANCE_COCO_STATS], struct stance_error *err)
{
    size_t         k = (size_t)pose->keypoints, n = (size_t)count;
    double        *sigmas, *points;
    stance_status  status;
    struct stance_coco_detection *found;

    if (pose->sigmas == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "evaluation: the sigmas of the %d keypoints are not known", (int)k);
    sigmas = stance_calloc(k + 1, sizeof *sigmas);
    points = stance_calloc(n + 1, 3 * k * sizeof *points);
    found  = stance_calloc(n + 1, sizeof *found);
    if (sigmas == NULL || points == NULL || found == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation of %lld persons", (long long)count);
        goto free_all;
    }
    for (size_t i = 0; i < k; i++)
        sigmas[i] = stance_oks_sigma(pose->sigmas[i]);
    for (size_t i = 0; i < n; i++) {
        double *to = points + 3 * k * i;

        for (size_t j = 0; j < 3 * k; j++)
            to[j] = p[i].keypoint[j];
        found[i] = (struct stance_coco_detection){ p[i].image_id, p[i].category_id, p[i].score, to };
    }
    struct stance_coco_input in = {
        .keypoints = pose->keypoints, .sigmas = sigmas, .image_ids = image_ids, .images = images,
        .truths = truths, .n_truths = n_truths, .detections = found, .n_detections = count,
    };

    status = stance_coco_evaluate(&in, stats, NULL, err);
free_all:
    stance_free(found);
    stance_free(points);
    stance_free(sigmas);
    return status;
}
