/* SPDX-License-Identifier: Apache-2.0
 *
 * Found persons as files that other tools read. */
#ifndef EVAL_RESULTS_H
#define EVAL_RESULTS_H

#include <stance/error.h>
#include <stance/task.h>

#include <stdio.h>

enum stance_results_format {
    STANCE_RESULTS_COCO,   /**< list of {category_id, center, image_id, keypoints, scale, score}, as
                                MMPose 0.29's result_keypoints.json */
    STANCE_RESULTS_MMPOSE, /**< {meta_info, instance_info: [{frame_id, image, image_id, instances:
                                [{keypoints, keypoint_scores, bbox, bbox_score}]}]}, as MMPose 1.x's */
    STANCE_RESULTS_CSV     /**< a line a person: where, how sure, then x, y, score of each point */
};

/** "coco", "mmpose", "csv". @return false: it is none of them */
bool stance_results_format_of(const char *word, enum stance_results_format *out);

struct stance_results_image { int64_t id; const char *path; };

struct stance_results {
    const struct stance_pose       *pose; /**< K, names, skeleton, sigmas; all but K may be absent */
    const struct stance_prediction *p;    /**< [count]; those of an image together, images in the order
                                               of @p image */
    int64_t                         count;
    const struct stance_results_image *image; /**< [images], also those without persons; NULL: as they
                                                   come, by id alone */
    int64_t                         images;
    const double                   *box;  /**< [count,4] x, y, width, height in px; NULL: from centre and
                                               scale, without the padding of 1.25 */
};

/** Numbers are written so that they read back as they are.
 *  @return STANCE_OK; STANCE_ERR_RANGE (a number that is not finite: nothing is written);
 *          STANCE_ERR_INVAL (persons of an image that is not listed, or out of order); STANCE_ERR_IO */
stance_status stance_results_print(FILE *to, enum stance_results_format format,
                                   const struct stance_results *r,
                                   struct stance_error *err) STANCE_MUST_CHECK;
/** Writes a file, whole or not at all. @return likewise; STANCE_ERR_NOMEM */
stance_status stance_results_write(const char *path, enum stance_results_format format,
                                   const struct stance_results *r,
                                   struct stance_error *err) STANCE_MUST_CHECK;

#endif
