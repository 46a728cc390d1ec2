/* SPDX-License-Identifier: Apache-2.0
 *
 * Heatmaps to points, beside what <stance/pose.h> offers. */
#ifndef EVAL_DECODE_H
#define EVAL_DECODE_H

#include <stance/pose.h>

/** First maximum of a map [h,w] in row-major order; NaN counts as the largest value.
 *  @param[out] at  its index y * w + x   @return its value */
float stance_heatmap_peak(const float *map, int32_t h, int32_t w, int64_t *at);

/** Share of points whose predicted peak lies close to the target's: MMPose's acc_pose, by which its
 *  training logs are read. Distances are taken in the map, x over H and y over W (sic), and are close
 *  below @p threshold (0.05). A point counts where its weight is above 0.
 *  @param predicted, target  [B,K,H,W]   @param weight  [B,K]; NULL: all count
 *  @param[out] joint  [K] shares; -1 where no sample counts; NULL: not wanted
 *  @return mean over the points that have a share; 0 if none has */
double stance_pck(const float *predicted, const float *target, const float *weight, int32_t batch,
                  int32_t k, int32_t h, int32_t w, double threshold, double *joint);

#endif
