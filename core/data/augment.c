/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/augment.h"

#include <math.h>
#include <string.h>

enum {
    HALF_BODY_MIN = 8 /* half body needs more labelled points than this (MMPose num_joints_half_body) */
};
static const float HALF_BODY_PADDING = 1.5f;

void stance_flip_points(float *points, int32_t n, const int32_t *partner, int32_t width)
{
    for (int32_t k = 0; k < n; k++) {
        int32_t other = partner != NULL ? partner[k] : k;

        if (other > k) {
            float t[3];

            memcpy(t, points + 3 * k, sizeof t);
            memcpy(points + 3 * k, points + 3 * other, sizeof t);
            memcpy(points + 3 * other, t, sizeof t);
        }
    }
    for (float *p = points; p < points + 3 * (size_t)n; p += 3) {
        if (p[2] > 0)
            p[0] = (float)(width - 1) - p[0];
        else
            p[0] = p[1] = 0;
    }
}

/* Window around the labelled points of one half; with fewer than two of them nothing changes. */
static void window_of_points(const struct stance_pose *pose, const float *points, int half,
                             struct stance_placement *p)
{
    float   low[2] = { INFINITY, INFINITY }, high[2] = { -INFINITY, -INFINITY };
    float   sum[2] = { 0, 0 };
    int32_t n      = 0;
    double  box[4];
    struct stance_placement around;

    for (int32_t k = 0; k < pose->keypoints; k++) {
        const float *q = points + 3 * k;

        if (!(q[2] > 0) || pose->upper[k] != half)
            continue;
        for (int i = 0; i < 2; i++) {
            sum[i] += q[i];
            low[i]  = fminf(low[i], q[i]);
            high[i] = fmaxf(high[i], q[i]);
        }
        n++;
    }
    if (n < 2)
        return;
    box[0] = box[1] = 0;
    box[2] = high[0] - low[0];
    box[3] = high[1] - low[1];
    if (!(box[2] > 0) && !(box[3] > 0))
        return; /* all on one spot: a window without size shows nothing */
    stance_placement_of_box(box, pose->input_size, HALF_BODY_PADDING, &around);
    for (int i = 0; i < 2; i++) {
        p->centre[i] = sum[i] / (float)n;
        p->scale[i]  = around.scale[i];
    }
}

static void half_body(const struct stance_pose *pose, struct stance_rng *rng, double probability,
                      const float *points, struct stance_placement *p)
{
    int32_t upper = 0, lower = 0;

    for (int32_t k = 0; k < pose->keypoints; k++) {
        if (points[3 * k + 2] > 0 && pose->upper != NULL && pose->upper[k])
            upper++;
        else if (points[3 * k + 2] > 0)
            lower++;
    }
    if (upper + lower <= HALF_BODY_MIN || !(stance_rng_uniform(rng) < probability) || pose->upper == NULL)
        return;
    /* A normal number, not a uniform one: the upper half comes with probability 0.69. */
    if (stance_rng_normal(rng) < 0.5 && upper > 2)
        window_of_points(pose, points, 1, p);
    else
        window_of_points(pose, points, lower > 2 ? 0 : 1, p);
}

static double clip(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

void stance_augment_draw(const struct stance_augment *a, const struct stance_pose *pose,
                         struct stance_rng *rng, int32_t width, float *points,
                         struct stance_placement *p)
{
    double factor, angle;

    if (stance_rng_uniform(rng) < a->shift_prob)
        for (int i = 0; i < 2; i++) {
            double u = 2 * stance_rng_uniform(rng) - 1;

            p->centre[i] = (float)(p->centre[i] + u * a->shift * p->scale[i] * 200);
        }
    if (stance_rng_uniform(rng) < a->flip) {
        stance_flip_points(points, pose->keypoints, pose->partner, width);
        p->centre[0] = (float)(width - 1) - p->centre[0];
        p->mirrored  = !p->mirrored;
    }
    half_body(pose, rng, a->half_body, points, p);
    factor = clip(1 + a->scale * stance_rng_normal(rng), 1 - a->scale, 1 + a->scale);
    angle  = clip(a->rotation * stance_rng_normal(rng), -2 * a->rotation, 2 * a->rotation);
    p->scale[0] *= (float)factor;
    p->scale[1] *= (float)factor;
    p->rotation = stance_rng_uniform(rng) < a->rotation_prob ? angle : 0;
}
