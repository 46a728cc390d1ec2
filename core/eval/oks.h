/* SPDX-License-Identifier: Apache-2.0
 *
 * Object keypoint similarity: how alike two poses are, 1 equal, 0 far apart. Each point counts
 * exp(-d^2 / (2 s^2 k^2)), d its distance in px, s^2 the area of the object in px^2, k = 2 sigma the
 * point's fall-off.
 * Source: Ronchi and Perona, "Benchmarking and Error Diagnosis in Multi-Instance Pose Estimation",
 * ICCV 2017; COCO keypoint evaluation; the non-maximum suppression of MMPose 0.29. */
#ifndef EVAL_OKS_H
#define EVAL_OKS_H

#include <stance/error.h>
#include <stance/task.h>

/** The decimal that a sigma was written as: 0.026f is 0.026, not 0.0260000005. So that scores of a
 *  run and of `stance eval` on its results agree. */
double stance_oks_sigma(float sigma);

/** Similarity of a detection to an annotated person: mean over the labelled points (v > 0); without
 *  any, over the distances of all points to the person's box enlarged by its own size on each side.
 *  Summed in the order of NumPy, so that thresholds fall as they do with pycocotools.
 *  @param dt  [K,3] x, y in px, any score   @param vars  [K] (2 sigma)^2
 *  @param scratch  [K], of any content */
double stance_oks_truth(const struct stance_truth *gt, const double *dt, const double *vars, int32_t k,
                        double *scratch);

/** Similarity of two detections: mean over all points, by the mean of both areas (which are those of
 *  the padded boxes here).
 *  @param vars  [K] (2 sigma)^2 */
float stance_oks_pair(const struct stance_prediction *a, const struct stance_prediction *b,
                      const double *vars, int32_t k);

/** Sets score to box_score times the mean of the points' scores above @p vis_thr (0 without any). */
void stance_rescore(struct stance_prediction *p, int64_t n, int32_t k, double vis_thr);

/** How stance_oks_nms() suppresses: drop whoever is more alike than the threshold, or lower the
 *  scores by exp(-oks^2 / threshold) and keep the 20 best. */
enum stance_nms { STANCE_NMS_HARD, STANCE_NMS_SOFT };
#define STANCE_NMS_SOFT_KEEPS 20

/** Non-maximum suppression among the persons of one image. Scores stay as they are. Of equal scores
 *  the later one goes first.
 *  @param sigmas  [K]
 *  @param[out] keep  [n] indices of those kept, best first   @param[out] kept  their number
 *  @return STANCE_OK; STANCE_ERR_NOMEM */
stance_status stance_oks_nms(const struct stance_prediction *p, int64_t n, int32_t k,
                             const float *sigmas, enum stance_nms how, double threshold, int64_t *keep,
                             int64_t *kept, struct stance_error *err) STANCE_MUST_CHECK;

/** From decoded persons to results, as MMPose does: by image and box_id, without the repeats of a
 *  sampler that pads; rescored; suppressed. The outcome depends on no order of arrival.
 *  @param p  [*count]; reordered: those kept come first, by image_id and then best first, the others
 *            behind them, so that whoever owns the points loses none
 *  @return STANCE_OK; STANCE_ERR_NOMEM, then @p p is as it was but for the order and the scores */
stance_status stance_oks_finish(struct stance_prediction *p, int64_t *count, int32_t k,
                                const float *sigmas, double vis_thr, enum stance_nms how, double oks_thr,
                                struct stance_error *err) STANCE_MUST_CHECK;

#endif
