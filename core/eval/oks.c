/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "eval/oks.h"
#include "eval/order.h"

#include <stance/alloc.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

double stance_oks_sigma(float sigma)
{
    char   text[40];
    double v = sigma;

    /* 9 digits tell every binary32 from its neighbours (FLT_DECIMAL_DIG). */
    for (int digits = 1; digits <= FLT_DECIMAL_DIG; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)sigma);
        for (char *c = text; *c != '\0'; c++)
            if (*c == ',')
                *c = '.';
        if (stance_text_f64(text, &v) && (float)v == sigma)
            return v;
    }
    return sigma;
}

/* NumPy's sum of contiguous doubles: eight running sums up to 128 terms, halves beyond. */
static double pairwise_sum(const double *v, int32_t n)
{
    double  r[8], sum;
    int32_t i, half;

    if (n < 8) {
        sum = 0;
        for (i = 0; i < n; i++)
            sum += v[i];
        return sum;
    }
    if (n > 128) {
        half = n / 2 - n / 2 % 8;
        return pairwise_sum(v, half) + pairwise_sum(v + half, n - half);
    }
    memcpy(r, v, sizeof r);
    for (i = 8; i < n - n % 8; i += 8)
        for (int j = 0; j < 8; j++)
            r[j] += v[i + j];
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++)
        sum += v[i];
    return sum;
}

/* Distance of v to the interval [low, high]. */
static inline double outside(double v, double low, double high)
{
    return (low - v > 0 ? low - v : 0) + (v - high > 0 ? v - high : 0);
}

double stance_oks_truth(const struct stance_truth *gt, const double *dt, const double *vars, int32_t k,
                        double *scratch)
{
    const double *g    = gt->keypoint;
    double        area = gt->area + DBL_EPSILON;
    int32_t       n    = 0;

    for (int32_t i = 0; i < k; i++)
        if (g[3 * i + 2] > 0) {
            double dx = dt[3 * i] - g[3 * i], dy = dt[3 * i + 1] - g[3 * i + 1];

            scratch[n++] = (dx * dx + dy * dy) / vars[i] / area / 2;
        }
    if (n == 0) {
        const double *b = gt->box;

        for (n = 0; n < k; n++) {
            double dx = outside(dt[3 * n], b[0] - b[2], b[0] + b[2] * 2);
            double dy = outside(dt[3 * n + 1], b[1] - b[3], b[1] + b[3] * 2);

            scratch[n] = (dx * dx + dy * dy) / vars[n] / area / 2;
        }
    }
    /* Below exp(-745.2) there is no binary64 but 0. */
    for (int32_t i = 0; i < n; i++)
        scratch[i] = scratch[i] > 746 ? 0 : exp(-scratch[i]);
    return pairwise_sum(scratch, n) / n;
}

float stance_oks_pair(const struct stance_prediction *a, const struct stance_prediction *b,
                      const double *vars, int32_t k)
{
    double area = (double)((a->area + b->area) / 2) + DBL_EPSILON, sum = 0;

    for (int32_t i = 0; i < k; i++) {
        float dx = b->keypoint[3 * i] - a->keypoint[3 * i];
        float dy = b->keypoint[3 * i + 1] - a->keypoint[3 * i + 1];

        sum += exp(-((double)(dx * dx + dy * dy) / vars[i] / area / 2));
    }
    return (float)(sum / k);
}

void stance_rescore(struct stance_prediction *p, int64_t n, int32_t k, double vis_thr)
{
    for (int64_t i = 0; i < n; i++) {
        double  sum   = 0;
        int32_t found = 0;

        for (int32_t j = 0; j < k; j++)
            if (p[i].keypoint[3 * j + 2] > (float)vis_thr) {
                sum += p[i].keypoint[3 * j + 2];
                found++;
            }
        p[i].score = found > 0 ? sum / found * p[i].box_score : 0;
    }
}

/* Persons of one image, and what suppression needs for them. */
struct suppressor {
    const struct stance_prediction *p;
    const double                   *vars;
    int32_t                         k;
    struct stance_ranked           *ranked, *scratch;
};

static void suppress_hard(struct suppressor *s, int64_t n, float threshold, int64_t *keep, int64_t *kept)
{
    *kept = 0;
    while (n > 0) {
        const struct stance_prediction *best = &s->p[s->ranked[0].at];
        int64_t                         left = 0;

        keep[(*kept)++] = s->ranked[0].at;
        for (int64_t i = 1; i < n; i++)
            if (stance_oks_pair(best, &s->p[s->ranked[i].at], s->vars, s->k) <= threshold)
                s->ranked[left++] = s->ranked[i];
        n = left;
    }
}

static void reverse(struct stance_ranked *r, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        struct stance_ranked x = r[i];

        r[i]         = r[n - 1 - i];
        r[n - 1 - i] = x;
    }
}

static void suppress_soft(struct suppressor *s, int64_t n, double threshold, int64_t *keep, int64_t *kept)
{
    *kept = 0;
    while (n > 0 && *kept < STANCE_NMS_SOFT_KEEPS) {
        const struct stance_prediction *best = &s->p[s->ranked[0].at];

        keep[(*kept)++] = s->ranked[0].at;
        n--;
        for (int64_t i = 0; i < n; i++) {
            double oks = stance_oks_pair(best, &s->p[s->ranked[i + 1].at], s->vars, s->k);

            s->ranked[i] = s->ranked[i + 1];
            s->ranked[i].score *= exp(-oks * oks / threshold);
        }
        reverse(s->ranked, n); /* so that of equal scores the later one goes first */
        stance_order(s->ranked, s->scratch, n);
    }
}

stance_status stance_oks_nms(const struct stance_prediction *p, int64_t n, int32_t k,
                             const float *sigmas, enum stance_nms how, double threshold, int64_t *keep,
                             int64_t *kept, struct stance_error *err)
{
    double               *vars   = stance_calloc((size_t)k + 1, sizeof *vars);
    struct stance_ranked *ranked = stance_calloc((size_t)n + 1, 2 * sizeof *ranked);
    stance_status         status = STANCE_OK;

    if (vars == NULL || ranked == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "suppression among %lld persons", (long long)n);
        goto free_both;
    }
    for (int32_t i = 0; i < k; i++) {
        double sigma = stance_oks_sigma(sigmas[i]);

        vars[i] = 2 * sigma * (2 * sigma);
    }
    for (int64_t i = 0; i < n; i++)
        ranked[i] = (struct stance_ranked){ p[n - 1 - i].score, n - 1 - i };
    stance_order(ranked, ranked + n, n);
    struct suppressor s = { p, vars, k, ranked, ranked + n };

    if (how == STANCE_NMS_SOFT)
        suppress_soft(&s, n, threshold, keep, kept);
    else
        suppress_hard(&s, n, (float)threshold, keep, kept);
free_both:
    stance_free(ranked);
    stance_free(vars);
    return status;
}

/* The lists of a distributed run arrive in the order of its ranks: images and boxes put them right. */
static bool later(const struct stance_prediction *a, const struct stance_prediction *b)
{
    if (a->image_id != b->image_id)
        return a->image_id > b->image_id;
    return a->box_id > b->box_id;
}

/* Stable merge of neighbouring sorted parts, through scratch. */
static void sort_by_box(struct stance_prediction *p, struct stance_prediction *scratch, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2)
        for (int64_t i = 0; i + width < n; i += 2 * width) {
            int64_t middle = i + width, end = n - i < 2 * width ? n : i + 2 * width;
            int64_t a = i, b = middle, to = i;

            if (!later(&p[middle - 1], &p[middle]))
                continue;
            while (a < middle && b < end)
                scratch[to++] = later(&p[a], &p[b]) ? p[b++] : p[a++];
            memcpy(scratch + to, p + a, (size_t)(middle - a) * sizeof *p);
            memcpy(p + i, scratch + i, (size_t)(to + middle - a - i) * sizeof *p);
        }
}

/* Moves repeats of a box behind the others. @return how many stay in front */
static int64_t drop_repeats(struct stance_prediction *p, struct stance_prediction *scratch, int64_t n)
{
    int64_t kept = 0, dropped = 0;

    for (int64_t i = 0; i < n; i++)
        if (kept > 0 && p[i].image_id == p[kept - 1].image_id && p[i].box_id == p[kept - 1].box_id)
            scratch[dropped++] = p[i];
        else
            p[kept++] = p[i];
    memcpy(p + kept, scratch, (size_t)dropped * sizeof *p);
    return kept;
}

stance_status stance_oks_finish(struct stance_prediction *p, int64_t *count, int32_t k,
                                const float *sigmas, double vis_thr, enum stance_nms how, double oks_thr,
                                struct stance_error *err)
{
    int64_t                   n = *count, unique, done = 0, dropped = 0;
    struct stance_prediction *scratch = stance_calloc((size_t)n + 1, sizeof *scratch);
    struct stance_prediction *front   = stance_calloc((size_t)n + 1, sizeof *front);
    int64_t                  *keep    = stance_calloc((size_t)n + 1, sizeof *keep);
    bool                     *taken   = stance_calloc((size_t)n + 1, sizeof *taken);
    stance_status             status  = STANCE_OK;

    if (scratch == NULL || front == NULL || keep == NULL || taken == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "finishing %lld persons", (long long)n);
        goto free_all;
    }
    sort_by_box(p, scratch, n);
    unique = drop_repeats(p, scratch, n);
    stance_rescore(p, unique, k, vis_thr);
    for (int64_t i = 0, end; i < unique; i = end) {
        int64_t kept;

        for (end = i + 1; end < unique && p[end].image_id == p[i].image_id; end++)
            ;
        status = stance_oks_nms(p + i, end - i, k, sigmas, how, oks_thr, keep, &kept, err);
        if (status != STANCE_OK)
            goto free_all;
        for (int64_t j = 0; j < kept; j++) {
            front[done++]      = p[i + keep[j]];
            taken[i + keep[j]] = true;
        }
        for (int64_t j = i; j < end; j++)
            if (!taken[j])
                scratch[dropped++] = p[j];
    }
    memcpy(p, front, (size_t)done * sizeof *p);
    memcpy(p + done, scratch, (size_t)dropped * sizeof *p);
    *count = done;
free_all:
    stance_free(taken);
    stance_free(keep);
    stance_free(front);
    stance_free(scratch);
    return status;
}
