/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Random changes to a training sample, in the order and with the rules of MMPose 0.29: shift of the box
 *  centre, mirroring, half body, scale and rotation. Safe in any thread. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include "base/random.h"
#include "data/warp.h"

/** `data.augment` of the recipe. */
struct stance_augment {
    double flip;                   /**< probability */
    double half_body;              /**< probability, where more than 8 points are labelled */
    double rotation, rotation_prob; /**< standard deviation, degrees (cut at twice that); probability */
    double scale;                  /**< standard deviation of the factor 1 + s, cut at 1 - s and 1 + s */
    double shift, shift_prob;      /**< largest shift as a part of the window; probability */
};

/** Mirrors points [n,3] x, y, v: x becomes width - 1 - x, partners change places, points that are not
 *  labelled go to (0, 0). @param partner  [n] of struct stance_pose */
void stance_flip_points(float *points, int32_t n, const int32_t *partner, int32_t width);

/** Draws the changes of one sample.
 *  @param rng  the stream of (seed, STANCE_USE_AUGMENT, epoch, sample index)
 *  @param width  of the image, px
 *  @param[in,out] points  [K,3] x, y, v in image px; mirrored when the image is
 *  @param[in,out] p  in: of the box; out: with the changes */
void stance_augment_draw(const struct stance_augment *a, const struct stance_pose *pose,
                         struct stance_rng *rng, int32_t width, float *points,
                         struct stance_placement *p);

#endif
