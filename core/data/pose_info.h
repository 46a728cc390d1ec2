/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  What is known of a set of points: from the recipe's info, from the annotation file, or because they
 *  are COCO's. */
#ifndef DATA_POSE_INFO_H
#define DATA_POSE_INFO_H

#include <stance/alloc.h>
#include <stance/error.h>
#include <stance/pose.h>

/** COCO's 17 points of a person; sizes are 0. */
const struct stance_pose *stance_pose_coco(void);
/** Whether the names are COCO's 17 in COCO's order. */
bool stance_pose_is_coco(const struct stance_pose *pose);

/** Table of partners from pairs of points.
 *  @param partner  [K]; itself where no pair names the point
 *  @return STANCE_OK; STANCE_ERR_RANGE (a point that the set does not have); STANCE_ERR_INVAL (a point
 *          in two pairs, or paired with itself) */
stance_status stance_pose_partners(const int32_t (*pairs)[2], int32_t n, int32_t keypoints,
                                   int32_t *partner, struct stance_error *err) STANCE_MUST_CHECK;

/** What an annotation file says of its points. */
struct stance_pose_found {
    const char *const *names;     /**< [keypoints]; NULL: not stated */
    int32_t            keypoints; /**< 0: not stated */
    const int32_t     *skeleton;  /**< [2 * bones] */
    int32_t            bones;
    const char        *file;      /**< for messages */
};

/** Joins both: what info has is taken and checked, what it lacks comes from the file, and from COCO's
 *  table where the points have COCO's names (or are 17 without names). Without flip pairs, points whose
 *  names differ in left and right alone are partners.
 *  @param info  sizes and points of the recipe; NULL, or keypoints 0: points are taken from the file
 *  @param[out] out  in the arena, but for the names and tables of @p info and @p found
 *  @return STANCE_OK; STANCE_ERR_SHAPE (numbers of points differ); STANCE_ERR_RANGE (a flip pair or bone
 *          out of range, a sigma not above 0); STANCE_ERR_INVAL (no points); STANCE_ERR_NOMEM */
stance_status stance_pose_join(struct stance_arena *arena, const struct stance_pose *info,
                               const struct stance_pose_found *found, const struct stance_pose **out,
                               struct stance_error *err) STANCE_MUST_CHECK;

#endif
