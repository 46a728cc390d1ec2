/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The dataset kind: annotated persons and their images. Not yet stable. */
#ifndef STANCE_DATASET_H
#define STANCE_DATASET_H

#include <stance/plugin.h>

STANCE_BEGIN_DECLS

/** 8-bit RGB, row by row without padding. rgb is from stance_calloc, the caller's. */
struct stance_image { uint8_t *rgb; int32_t width, height; };

/** One annotated (or detected) person. Arrays are the dataset's. */
struct stance_sample {
    int64_t      image_id, annotation_id, category_id;
    double       box[4];   /**< x, y, width, height in px, cleaned as MMPose 0.29 does */
    double       score;    /**< of the box; 1 for annotations */
    double       area;     /**< px^2, of the annotation */
    int32_t      box_id;   /**< within the image for annotations, in the file for detections */
    const float *keypoint; /**< [K,3] x, y in px, v (0 not labelled, 1 hidden, 2 visible) */
};

/** One object of the ground truth, as COCO evaluation wants it (also crowds and unlabelled ones). */
struct stance_truth {
    int64_t       image_id, annotation_id;
    const double *keypoint; /**< [K,3] */
    double        box[4], area;
    bool          crowd;
};

/** Which part of the data: `data.train` or `data.val` of the recipe. */
struct stance_split {
    size_t      size;
    const char *annotations; /**< path; NULL where the dataset has none (synthetic) */
    const char *images;      /**< folder */
    const char *boxes;       /**< NULL or "truth": those of the annotations; else a COCO detection file */
    int64_t     samples;     /**< number of samples to draw (synthetic) */
    bool        training;
    bool        skip_bad_images; /**< leave unreadable images out with a warning instead of failing */
    bool        check_images; /**< decode nothing, but open every image and compare its size */
    uint64_t    seed;
    const struct stance_pose *info; /**< from `data.info`; keypoints 0: take the category's */
    int32_t     image_size[2]; /**< width, height wanted by the network, px (synthetic) */
};

/** All functions are needed. */
struct stance_dataset_ops {
    size_t size, state_size;
    /** Reads annotations and checks them; every fault is named by id, file and reason. */
    stance_status (*open)(void *state, const void *config, const struct stance_split *split,
                          struct stance_error *err);
    void (*close)(void *state);
    /** Names, sigmas, flip pairs: owned by the state; the sizes in it are not read. */
    const struct stance_pose *(*pose)(const void *state);
    int64_t (*count)(const void *state);
    const struct stance_sample *(*sample)(const void *state, int64_t index);
    /** Decodes or draws the image of a sample. Safe in any thread. */
    stance_status (*image)(const void *state, int64_t index, struct stance_image *out,
                           struct stance_error *err);
    /** Path of a sample's image for messages and results; "" where there is none. */
    const char *(*path)(const void *state, int64_t index);
    /** All objects of the ground truth, in file order, and the ids of all images. */
    const struct stance_truth *(*truths)(const void *state, int64_t *count);
    const int64_t *(*image_ids)(const void *state, int64_t *count);
};

STANCE_END_DECLS
#endif
