/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/target.h"

#include <math.h>
#include <string.h>

enum { PATCH_MAX = 6 * 64 + 2 };

/* Part of one axis that a blob covers: map pixels [from, to), pixel i takes entry i - first. */
struct span { int32_t first, from, to; };

static struct span span_of(double mu, double reach, int32_t size)
{
    double      low = trunc(mu - reach), high = trunc(mu + reach + 1);
    struct span s;

    s.first = (int32_t)low; /* the caller has checked that the blob meets the map */
    s.from  = low > 0 ? (int32_t)low : 0;
    s.to    = high < size ? (int32_t)high : size;
    return s;
}

static void draw_patch(const double *blob, struct span x, struct span y, int32_t width, float *map)
{
    for (int32_t j = y.from; j < y.to; j++)
        for (int32_t i = x.from; i < x.to; i++)
            map[(size_t)j * (size_t)width + (size_t)i] = (float)(blob[i - x.first] * blob[j - y.first]);
}

static void draw_everywhere(double mu_x, double mu_y, double sigma, int32_t width, int32_t height, float *map)
{
    double c = -1 / (2 * sigma * sigma);

    /* exp() of each axis apart is w + h calls instead of w h. Rows run upwards, because the first one
     * holds exp() along x until it is its turn. */
    for (int32_t y = height - 1; y >= 0; y--) {
        double ey = exp(c * (y - mu_y) * (y - mu_y));
        float *row = map + (size_t)y * (size_t)width;

        if (y == height - 1)
            for (int32_t x = 0; x < width; x++)
                map[x] = (float)exp(c * (x - mu_x) * (x - mu_x));
        for (int32_t x = 0; x < width; x++)
            row[x] = (float)(ey * map[x]);
    }
}

void stance_target_draw(const struct stance_pose *pose, const float *points, double sigma, bool unbiased,
                        float *target, float *weight)
{
    const int32_t width = pose->heatmap_size[0], height = pose->heatmap_size[1];
    const double  stride_x = (double)pose->input_size[0] / width;
    const double  stride_y = (double)pose->input_size[1] / height;
    const double  reach    = 3 * sigma;
    const size_t  area     = (size_t)width * (size_t)height;
    double        blob[PATCH_MAX];
    int           middle = (int)floor((2 * reach + 1) / 2);

    for (int i = 0; i < PATCH_MAX; i++)
        blob[i] = exp(-(double)(i - middle) * (i - middle) / (2 * sigma * sigma));
    memset(target, 0, (size_t)pose->keypoints * area * sizeof *target);
    for (int32_t k = 0; k < pose->keypoints; k++) {
        double mu_x = points[3 * k] / stride_x, mu_y = points[3 * k + 1] / stride_y;

        double low_x, low_y, high_x, high_y;

        if (!unbiased) { /* towards zero, as a cast does: the field's targets left of the map depend on it */
            mu_x = trunc(mu_x + 0.5);
            mu_y = trunc(mu_y + 0.5);
        }
        low_x  = mu_x - reach;
        low_y  = mu_y - reach;
        high_x = mu_x + reach + 1;
        high_y = mu_y + reach + 1;
        if (!unbiased) {
            low_x  = trunc(low_x);
            low_y  = trunc(low_y);
            high_x = trunc(high_x);
            high_y = trunc(high_y);
        }
        /* A blob that ends right before the map (high = 0) keeps its weight and an empty map; NaN fails. */
        weight[k] = points[3 * k + 2] > 0 && low_x < width && low_y < height && high_x >= 0 && high_y >= 0;
        if (weight[k] == 0)
            continue;
        if (unbiased)
            draw_everywhere(mu_x, mu_y, sigma, width, height, target + (size_t)k * area);
        else
            draw_patch(blob, span_of(mu_x, reach, width), span_of(mu_y, reach, height), width,
                       target + (size_t)k * area);
    }
}
