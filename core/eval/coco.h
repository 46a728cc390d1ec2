/* SPDX-License-Identifier: Apache-2.0
 *
 * The COCO keypoint evaluation: ten numbers from annotated and detected persons.
 * Source: COCO keypoint evaluation (cocodataset.org) as pycocotools 2.0.11 computes it, whose numbers
 * these are, ties and all. Differences: whether a person has labelled points is seen from the points,
 * not from num_keypoints; a similarity that is not a number counts as 0. */
#ifndef EVAL_COCO_H
#define EVAL_COCO_H

#include <stance/error.h>
#include <stance/pose.h>
#include <stance/task.h>

#define STANCE_COCO_STATS      10
#define STANCE_COCO_THRESHOLDS 10  /**< OKS 0.50, 0.55, ..., 0.95 */
#define STANCE_COCO_RECALLS    101 /**< 0, 0.01, ..., 1 */
#define STANCE_COCO_AREAS      3   /**< all, medium (32^2 to 96^2 px), large (above 96^2) */
#define STANCE_COCO_DETECTIONS 20  /**< of an image, the best ones */

/** One detected person. */
struct stance_coco_detection {
    int64_t       image_id, category_id;
    double        score;
    const double *keypoint; /**< [K,3] x, y in px, score (unused) */
};

/** What to evaluate; everything is the caller's. */
struct stance_coco_input {
    int32_t                    keypoints; /**< K */
    const double              *sigmas;    /**< [K] */
    const int64_t             *image_ids; /**< [images] in any order */
    int64_t                    images;
    const struct stance_truth *truths;
    int64_t                    n_truths;
    const struct stance_coco_detection *detections;
    int64_t                    n_detections;
    /** NULL: every person is of the one category there is; else [n_truths]. */
    const int64_t *truth_category;
    const int64_t *category_ids; /**< [categories], ascending; read with truth_category alone */
    int64_t        categories;
};

/** Precision by threshold, recall, category and area, and final recall: -1 where there is nothing to
 *  find. */
struct stance_coco_curves {
    int64_t categories;
    double *precision; /**< [THRESHOLDS,RECALLS,categories,AREAS], from stance_calloc */
    double *recall;    /**< [THRESHOLDS,categories,AREAS], in the same block */
};

/** @param[out] stats   AP, AP50, AP75, APM, APL, AR, AR50, AR75, ARM, ARL; -1 where undefined
 *  @param[out] curves  the caller's to release; NULL: not wanted
 *  Objects of an image or category that is not listed take no part. An annotation whose id is 0
 *  cannot be found: to pycocotools, 0 says that there was no match.
 *  @return STANCE_OK; STANCE_ERR_INVAL (an image id twice); STANCE_ERR_RANGE (K, a sigma);
 *          STANCE_ERR_NOMEM */
stance_status stance_coco_evaluate(const struct stance_coco_input *in, double stats[STANCE_COCO_STATS],
                                   struct stance_coco_curves *curves,
                                   struct stance_error *err) STANCE_MUST_CHECK;

/** Accepts zeroed curves. */
void stance_coco_curves_free(struct stance_coco_curves *curves);

/** The same over what a run has found, all of one category.
 *  @param pose  its sigmas must be known */
stance_status stance_coco_score(const struct stance_pose *pose, const struct stance_truth *truths,
                                int64_t n_truths, const int64_t *image_ids, int64_t images,
                                const struct stance_prediction *p, int64_t count,
                                double stats[STANCE_COCO_STATS],
                                struct stance_error *err) STANCE_MUST_CHECK;

#endif
