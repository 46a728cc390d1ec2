/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/sheet.h"

#include "eval/oks.h"
#include "eval/overlay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TILES = 12, COLUMNS = 4, SIDE = 240, CAPTION_MAX = 64 };

/* Below the usual threshold: a sheet is looked at after minutes of training, when few points are sure. */
#define SHEET_THRESHOLD 0.2

struct sheet {
    const struct stance_setup    *setup;
    struct stance_overlay_tile    tile[TILES];
    struct stance_overlay_person  person[TILES];
    char                          caption[TILES][CAPTION_MAX];
    float                        *keypoint; /* [TILES,K,3], px of the cut image */
    double                       *work;     /* [8K]: points of both, variances, scratch */
};

/* The sample that a prediction belongs to; -1: none. */
static int64_t sample_of(const struct stance_data *data, const struct stance_prediction *p)
{
    for (int64_t i = 0, n = data->ops->count(data->state); i < n; i++) {
        const struct stance_sample *s = data->ops->sample(data->state, i);

        if (s->image_id == p->image_id && s->box_id == p->box_id)
            return i;
    }
    return -1;
}

/* Cuts the padded box of a prediction out of its image. @return false: no memory */
static bool cut(const struct stance_prediction *p, struct stance_image *image, int32_t origin[2])
{
    const int32_t size[2] = { image->width, image->height };
    int32_t       high[2];
    uint8_t      *rgb;

    for (int j = 0; j < 2; j++) {
        double half = p->scale[j] * 100.0; /* scale is in units of 200 px */

        origin[j] = (int32_t)fmin(fmax(0, floor(p->centre[j] - half)), size[j] - 1);
        high[j]   = (int32_t)fmin(fmax(origin[j] + 1, ceil(p->centre[j] + half)), size[j]);
    }
    rgb = stance_calloc((size_t)(high[0] - origin[0]) * (size_t)(high[1] - origin[1]), 3);
    if (rgb == NULL)
        return false;
    for (int32_t y = origin[1]; y < high[1]; y++)
        memcpy(rgb + (size_t)(y - origin[1]) * (size_t)(high[0] - origin[0]) * 3,
               image->rgb + ((size_t)y * (size_t)image->width + (size_t)origin[0]) * 3, (size_t)(high[0] - origin[0]) * 3);
    stance_free(image->rgb);
    *image = (struct stance_image){ rgb, high[0] - origin[0], high[1] - origin[1] };
    return true;
}

/* Similarity to the annotation; NaN where nothing is labelled or no sigmas are known. */
static double similarity(const struct sheet *s, const struct stance_sample *sample, const struct stance_prediction *p)
{
    const struct stance_pose *pose = &s->setup->pose;
    int32_t                   k = pose->keypoints, labelled = 0;
    double                   *truth = s->work, *found = truth + 3 * k, *vars = found + 3 * k, *scratch = vars + k;
    struct stance_truth       gt = { .keypoint = truth, .area = sample->area };

    if (sample->keypoint == NULL || pose->sigmas == NULL)
        return NAN;
    memcpy(gt.box, sample->box, sizeof gt.box);
    for (int32_t i = 0; i < 3 * k; i++) {
        truth[i] = sample->keypoint[i];
        found[i] = p->keypoint[i];
    }
    for (int32_t i = 0; i < k; i++) {
        vars[i] = pow(2 * stance_oks_sigma(pose->sigmas[i]), 2);
        labelled += truth[3 * i + 2] > 0;
    }
    return labelled > 0 ? stance_oks_truth(&gt, found, vars, k, scratch) : NAN;
}

static stance_status fill_tile(struct sheet *s, int i, const struct stance_prediction *p, struct stance_error *err)
{
    const struct stance_data   *data = &s->setup->val;
    const struct stance_sample *sample;
    struct stance_image        *image = &s->tile[i].image;
    size_t                      k = (size_t)s->setup->pose.keypoints;
    float                      *keypoint = s->keypoint + (size_t)i * 3 * k;
    int64_t                     at = sample_of(data, p);
    int32_t                     origin[2];
    double                      oks;
    stance_status               status;

    if (at < 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "sheet: no sample of image %lld", (long long)p->image_id);
    sample = data->ops->sample(data->state, at);
    status = data->ops->image(data->state, at, image, err);
    if (status != STANCE_OK)
        return status;
    if (!cut(p, image, origin))
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "sheet");
    memcpy(keypoint, p->keypoint, 3 * k * sizeof *keypoint);
    for (size_t j = 0; j < k; j++) {
        keypoint[3 * j] -= (float)origin[0];
        keypoint[3 * j + 1] -= (float)origin[1];
    }
    oks = similarity(s, sample, p);
    if (isnan(oks))
        snprintf(s->caption[i], CAPTION_MAX, "score %.2f", p->score);
    else
        snprintf(s->caption[i], CAPTION_MAX, "score %.2f, OKS %.2f", p->score, oks);
    s->person[i]       = (struct stance_overlay_person){ keypoint, NULL, NAN };
    s->tile[i].p       = &s->person[i];
    s->tile[i].n       = 1;
    s->tile[i].caption = s->caption[i];
    return STANCE_OK;
}

stance_status stance_sheet_write(const char *path, const struct stance_setup *setup, const struct stance_prediction *p,
                                 int64_t count, const struct stance_metric *score, struct stance_error *err)
{
    struct stance_overlay how = { &setup->pose, SHEET_THRESHOLD, true };
    struct sheet         *s;
    size_t                k = (size_t)setup->pose.keypoints;
    int                   n = (int)(count < TILES ? count : TILES);
    char                  title[256];
    stance_status         status = STANCE_OK;

    if (n < 1)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "sheet %s: nothing was found that could be drawn", path);
    s = stance_calloc(1, sizeof *s);
    if (s == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "sheet");
    s->setup    = setup;
    s->keypoint = stance_calloc(TILES * 3 * k, sizeof *s->keypoint);
    s->work     = stance_calloc(8 * k, sizeof *s->work);
    if (s->keypoint == NULL || s->work == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "sheet");
    for (int i = 0; i < n && status == STANCE_OK; i++)
        status = fill_tile(s, i, &p[i * count / n], err);
    if (score->name != NULL)
        snprintf(title, sizeof title, "%s: %d of %lld, %s %.3f", setup->recipe->name, n, (long long)count, score->name,
                 score->value);
    else
        snprintf(title, sizeof title, "%s: %d of %lld", setup->recipe->name, n, (long long)count);
    if (status == STANCE_OK)
        status = stance_overlay_sheet(path, s->tile, n, COLUMNS, SIDE, title, &how, err);
    for (int i = 0; i < n; i++)
        stance_free(s->tile[i].image.rgb);
    stance_free(s->keypoint);
    stance_free(s->work);
    stance_free(s);
    return status;
}
