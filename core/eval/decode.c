/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/decode.h"

#include <stance/alloc.h>

#include <math.h>
#include <string.h>

float stance_heatmap_peak(const float *map, int32_t h, int32_t w, int64_t *at)
{
    int64_t n = (int64_t)h * w, best = 0;
    float   top = map[0];

    for (int64_t i = 1; i < n && top == top; i++)
        if (!(map[i] <= top)) {
            top  = map[i];
            best = i;
        }
    *at = best;
    return top;
}

/* Peak of a map as MMPose has it: (-1, -1) unless it is above 0. @return its value */
static float peak_of(const float *map, int32_t h, int32_t w, float xy[2])
{
    int64_t at;
    float   top = stance_heatmap_peak(map, h, w, &at);

    xy[0] = top > 0 ? (float)(at % w) : -1;
    xy[1] = top > 0 ? (float)(at / w) : -1;
    return top;
}

static float sign(float v)
{
    return (float)((v > 0) - (v < 0));
}

static void refine_quarter(const float *map, int32_t h, int32_t w, float xy[2])
{
    int32_t      x = (int32_t)xy[0], y = (int32_t)xy[1];
    const float *p = map + (int64_t)y * w + x;

    if (x <= 1 || x >= w - 1 || y <= 1 || y >= h - 1)
        return;
    xy[0] += sign(p[1] - p[-1]) * 0.25f;
    xy[1] += sign(p[w] - p[-w]) * 0.25f;
}

/* ---- unbiased: DARK --------------------------------------------------------------------------- */

/* Room to blur one map: a Gaussian of odd width, the map between margins of zeros, one row pass. */
struct blur {
    int32_t      radius;
    const float *taps;   /* [2 radius + 1] */
    float       *padded; /* [h, w + 2 radius] */
    float       *rows;   /* [h + 2 radius, w], margins above and below stay zero */
    float       *out;    /* [h, w] */
};

/* OpenCV's kernels for a sigma that is to be derived from the width: fixed ones up to 7. */
static void make_taps(float *taps, int32_t width)
{
    static const float fixed[4][7] = {
        { 1 }, { 0.25f, 0.5f, 0.25f }, { 0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f },
        { 0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f },
    };
    double sigma = 0.3 * ((width - 1) * 0.5 - 1) + 0.8, sum = 0;

    if (width <= 7) {
        memcpy(taps, fixed[width / 2], (size_t)width * sizeof *taps);
        return;
    }
    for (int32_t i = 0; i < width; i++)
        sum += exp(-0.5 * (i - width / 2) * (i - width / 2) / (sigma * sigma));
    for (int32_t i = 0; i < width; i++)
        taps[i] = (float)(exp(-0.5 * (i - width / 2) * (i - width / 2) / (sigma * sigma)) / sum);
}

/* out[x] += tap * in[x]: a loop that the compiler turns into vectors. */
static void add_scaled(float *restrict out, const float *restrict in, float tap, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        out[i] += tap * in[i];
}

static void blur_map(struct blur *b, const float *map, int32_t h, int32_t w)
{
    int32_t r = b->radius, stride = w + 2 * r;

    for (int32_t y = 0; y < h; y++) {
        float *row = b->rows + (int64_t)(y + r) * w;

        memcpy(b->padded + (int64_t)y * stride + r, map + (int64_t)y * w, (size_t)w * sizeof *map);
        memset(row, 0, (size_t)w * sizeof *row);
        for (int32_t i = 0; i <= 2 * r; i++)
            add_scaled(row, b->padded + (int64_t)y * stride + i, b->taps[i], w);
    }
    for (int32_t y = 0; y < h; y++) {
        float *row = b->out + (int64_t)y * w;

        memset(row, 0, (size_t)w * sizeof *row);
        for (int32_t i = 0; i <= 2 * r; i++)
            add_scaled(row, b->rows + (int64_t)(y + i) * w, b->taps[i], w);
    }
}

/* Logarithm of the blurred map, scaled to the raw peak, at an offset from p. */
static float log_at(const float *p, float factor)
{
    float v = *p * factor;

    return logf(v > 1e-10f ? v : 1e-10f);
}

/* One Newton step to the top of the log-heatmap, which is a parabola for a Gaussian. */
static void refine_newton(struct blur *b, const float *map, float top, int32_t h, int32_t w, float xy[2])
{
    int32_t      x = (int32_t)xy[0], y = (int32_t)xy[1];
    int64_t      at;
    const float *p;
    float        f, dx, dy, dxx, dyy, dxy, det;

    if (x <= 1 || x >= w - 2 || y <= 1 || y >= h - 2)
        return;
    blur_map(b, map, h, w);
    p   = b->out + (int64_t)y * w + x;
    f   = top / stance_heatmap_peak(b->out, h, w, &at);
    dx  = 0.5f * (log_at(p + 1, f) - log_at(p - 1, f));
    dy  = 0.5f * (log_at(p + w, f) - log_at(p - w, f));
    dxx = 0.25f * (log_at(p + 2, f) - 2 * log_at(p, f) + log_at(p - 2, f));
    dyy = 0.25f * (log_at(p + 2 * w, f) - 2 * log_at(p, f) + log_at(p - 2 * w, f));
    dxy = 0.25f * (log_at(p + w + 1, f) - log_at(p - w + 1, f) - log_at(p + w - 1, f)
                   + log_at(p - w - 1, f));
    det = dxx * dyy - dxy * dxy;
    if (det == 0)
        return;
    xy[0] -= (dyy * dx - dxy * dy) / det;
    xy[1] -= (dxx * dy - dxy * dx) / det;
}

static stance_status make_blur(struct blur *b, const struct stance_decode *d, struct stance_error *err)
{
    size_t r = (size_t)d->modulate_kernel / 2, h = (size_t)d->height, w = (size_t)d->width;
    float *taps;

    *b = (struct blur){ .radius = (int32_t)r };
    if (d->modulate_kernel < 1 || d->modulate_kernel % 2 == 0 || d->modulate_kernel > 4095)
        return STANCE_FAIL(err, STANCE_ERR_RANGE,
                           "decoding: modulate_kernel %d is not an odd number in [1, 4095]",
                           (int)d->modulate_kernel);
    taps = stance_calloc(2 * r + 1 + h * (w + 2 * r) + (h + 2 * r) * w + h * w, sizeof *taps);
    if (taps == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "decoding heatmaps of %dx%d", (int)w, (int)h);
    make_taps(taps, d->modulate_kernel);
    b->taps   = taps;
    b->padded = taps + 2 * r + 1;
    b->rows   = b->padded + h * (w + 2 * r);
    b->out    = b->rows + (h + 2 * r) * w;
    return STANCE_OK;
}

/* ---- from map to image ------------------------------------------------------------------------ */

static void decode_map(const struct stance_decode *d, struct blur *b, const float *map, float out[3])
{
    int32_t h = d->height, w = d->width;

    out[2] = peak_of(map, h, w, out);
    if (!(out[2] > 0))
        return;
    if (d->post_process == STANCE_POST_DEFAULT)
        refine_quarter(map, h, w, out);
    else if (d->post_process == STANCE_POST_UNBIASED)
        refine_newton(b, map, out[2], h, w, out);
}

stance_status stance_decode_heatmap(const struct stance_decode *d, struct stance_error *err)
{
    int64_t       area = (int64_t)d->height * d->width;
    struct blur   b    = { .radius = 0 };
    stance_status status;

    if (d->batch < 0 || d->keypoints < 0 || d->height < 1 || d->width < 1)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "decoding: heatmaps of shape [%d,%d,%d,%d]",
                           (int)d->batch, (int)d->keypoints, (int)d->height, (int)d->width);
    if (d->post_process == STANCE_POST_UNBIASED) {
        status = make_blur(&b, d, err);
        if (status != STANCE_OK)
            return status;
    }
    for (int32_t i = 0; i < d->batch; i++) {
        const float *centre = d->centre + 2 * i, *scale = d->scale + 2 * i;

        for (int32_t k = 0; k < d->keypoints; k++) {
            int64_t at    = (int64_t)i * d->keypoints + k;
            float  *point = d->keypoint + 3 * at;

            decode_map(d, &b, d->heatmap + at * area, point);
            point[0] = point[0] * (scale[0] * 200 / (float)d->width) + centre[0] - scale[0] * 200 * 0.5f;
            point[1] = point[1] * (scale[1] * 200 / (float)d->height) + centre[1] - scale[1] * 200 * 0.5f;
        }
    }
    stance_free((void *)b.taps);
    return STANCE_OK;
}

/* ---- flip test -------------------------------------------------------------------------------- */

/* a and b, mirrored, change places; they may be the same map. */
static void swap_mirrored(float *a, float *b, int h, int w)
{
    for (int y = 0; y < h; y++, a += w, b += w)
        for (int x = 0; x < (a == b ? w / 2 : w); x++) {
            float v = a[x];

            a[x]         = b[w - 1 - x];
            b[w - 1 - x] = v;
        }
}

void stance_unflip_heatmap(const int32_t *partner, float *heat, int batch, int k, int h, int w, bool shift)
{
    size_t area = (size_t)h * (size_t)w;

    for (int b = 0; b < batch; b++, heat += (size_t)k * area)
        for (int i = 0; i < k; i++)
            if (partner[i] >= i)
                swap_mirrored(heat + (size_t)i * area, heat + (size_t)partner[i] * area, h, w);
    if (!shift)
        return;
    heat -= (size_t)batch * (size_t)k * area;
    for (size_t row = 0; row < (size_t)batch * (size_t)k * (size_t)h; row++)
        memmove(heat + row * (size_t)w + 1, heat + row * (size_t)w, (size_t)(w - 1) * sizeof *heat);
}

/* ---- accuracy while training ------------------------------------------------------------------ */

static bool is_close(const float *predicted, const float *target, int32_t h, int32_t w, double threshold)
{
    float  p[2], t[2];
    double dx, dy;

    peak_of(predicted, h, w, p);
    peak_of(target, h, w, t);
    dx = (double)(p[0] - t[0]) / h;
    dy = (double)(p[1] - t[1]) / w;
    return (float)sqrt(dx * dx + dy * dy) < (float)threshold;
}

double stance_pck(const float *predicted, const float *target, const float *weight, int32_t batch,
                  int32_t k, int32_t h, int32_t w, double threshold, double *joint)
{
    int64_t area = (int64_t)h * w;
    double  sum  = 0;
    int32_t with = 0;

    for (int32_t i = 0; i < k; i++) {
        int64_t counts = 0, close = 0;

        for (int32_t b = 0; b < batch; b++) {
            int64_t at = (int64_t)b * k + i;

            if (weight != NULL && !(weight[at] > 0))
                continue;
            counts++;
            close += is_close(predicted + at * area, target + at * area, h, w, threshold);
        }
        if (counts > 0) {
            sum += (double)close / (double)counts;
            with++;
        }
        if (joint != NULL)
            joint[i] = counts > 0 ? (double)close / (double)counts : -1;
    }
    return with > 0 ? sum / with : 0;
}
