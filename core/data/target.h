/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Target heatmaps of one sample, as MMPose 0.29 draws them. Safe in any thread. */
#ifndef DATA_TARGET_H
#define DATA_TARGET_H

#include <stance/pose.h>

#define STANCE_TARGET_SIGMA_MAX 64.0 /**< px of the heatmap */

/** exp(-d^2 / (2 sigma^2)) around each labelled point, on the grid (the centre rounded to a pixel, the
 *  blob cut at 3 sigma; `MSRA` encoding) or, @p unbiased, around its exact place over the whole map
 *  (Zhang et al., "Distribution-Aware Coordinate Representation for Human Pose Estimation", CVPR 2020).
 *  A point whose blob lies outside the map, or that is not labelled, has weight 0 and an empty map.
 *
 *  @param pose    input_size / heatmap_size is the stride of each axis
 *  @param points  [K,3] x, y, v in input px
 *  @param sigma   px of the heatmap, in (0, STANCE_TARGET_SIGMA_MAX]
 *  @param[out] target  [K,h,w]; @param[out] weight  [K], 0 or 1 */
void stance_target_draw(const struct stance_pose *pose, const float *points, double sigma, bool unbiased,
                        float *target, float *weight);

#endif
