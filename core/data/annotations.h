/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Annotation and detection files in COCO's JSON format, as they stand: nothing is cleaned, dropped or
 *  judged here but the form. */
#ifndef DATA_ANNOTATIONS_H
#define DATA_ANNOTATIONS_H

#include <stance/alloc.h>
#include <stance/error.h>

struct stance_coco_image {
    int64_t     id;
    const char *file;          /**< file_name */
    int32_t     width, height; /**< px; 0: not stated */
};

struct stance_coco_object {
    int64_t       id, image_id, category_id;
    int64_t       num_keypoints; /**< -1: not stated */
    double        box[4];        /**< x, y, width, height; px */
    double        area, score;
    const double *value;         /**< [n_values] of `keypoints`; shared where all are 0 */
    int32_t       n_values;
    bool          has_box, has_area, has_score, crowd;
};

struct stance_coco_category {
    int64_t            id;
    const char        *name;     /**< "" if not stated */
    const char *const *names;    /**< [n_names] of its points */
    const int32_t     *skeleton; /**< [2 * bones], counted from 0 */
    int32_t            n_names, bones;
};

/** Everything lives in the arena. */
struct stance_annotations {
    struct stance_arena         *arena;
    struct stance_coco_image    *images;
    struct stance_coco_object   *objects;
    struct stance_coco_category *categories;
    int64_t                      n_images, n_objects;
    int32_t                      n_categories;
};

/** Reads a keypoint annotation file. @param[out] out  for stance_annotations_free().
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened); STANCE_ERR_FORMAT (the text has the place);
 *          STANCE_ERR_NOMEM */
stance_status stance_annotations_read(const char *path, struct stance_annotations *out,
                                      struct stance_error *err) STANCE_MUST_CHECK;

/** Reads a detection file: an array of image_id, category_id, bbox, score. Only objects are filled. */
stance_status stance_detections_read(const char *path, struct stance_annotations *out,
                                     struct stance_error *err) STANCE_MUST_CHECK;

/** Either of them from memory. @param name  for messages */
stance_status stance_annotations_parse(const void *text, size_t size, const char *name, bool detections,
                                       struct stance_annotations *out,
                                       struct stance_error *err) STANCE_MUST_CHECK;

/** Accepts a zeroed struct. */
void stance_annotations_free(struct stance_annotations *a);

#endif
