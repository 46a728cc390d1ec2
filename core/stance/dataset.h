/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The dataset kind: annotated persons and their images. Not yet stable. */
#ifndef STANCE_DATASET_H
#define STANCE_DATASET_H

#include <stance/plugin.h>

STANCE_BEGIN_DECLS

/** @addtogroup dataset Data sets
 *  @{ */

/** 8-bit RGB, row by row without padding. rgb is from stance_calloc, the caller's. */
struct stance_image {
    uint8_t *rgb;    /**< [height, width, 3] */
    int32_t  width;  /**< px */
    int32_t  height; /**< px */
};

/** One annotated (or detected) person. Arrays are the dataset's. */
struct stance_sample {
    int64_t      image_id;      /**< as in the file */
    int64_t      annotation_id; /**< as in the file; 0 for a detection */
    int64_t      category_id;   /**< as in the file */
    double       box[4];   /**< x, y, width, height in px, cleaned as MMPose 0.29 does */
    double       score;    /**< of the box; 1 for annotations */
    double       area;     /**< px^2, of the annotation */
    int32_t      box_id;   /**< within the image for annotations, in the file for detections */
    const float *keypoint; /**< [K,3] x, y in px, v (0 not labelled, 1 hidden, 2 visible) */
};

/** One object of the ground truth, as COCO evaluation wants it (also crowds and unlabelled ones). */
struct stance_truth {
    int64_t       image_id;      /**< as in the file */
    int64_t       annotation_id; /**< as in the file */
    const double *keypoint; /**< [K,3] x, y in px, v as in stance_sample */
    double        box[4];   /**< x, y, width, height in px, as in the file */
    double        area;     /**< px^2; NaN where the file has none */
    bool          crowd;    /**< `iscrowd`: matched by any number of results */
};

/** Which part of the data: `data.train` or `data.val` of the recipe. */
struct stance_split {
    size_t      size;        /**< sizeof(struct stance_split) */
    const char *annotations; /**< path; NULL where the dataset has none (synthetic) */
    const char *images;      /**< folder */
    const char *boxes;       /**< NULL or "truth": those of the annotations; else a COCO detection file */
    int64_t     samples;     /**< number of samples to draw (synthetic) */
    bool        training; /**< of `data.train` */
    bool        skip_bad_images; /**< leave unreadable images out with a warning instead of failing */
    bool        check_images; /**< decode nothing, but open every image and compare its size */
    uint64_t    seed; /**< of the run */
    const struct stance_pose *info; /**< from `data.info`; keypoints 0: take the category's */
    int32_t     image_size[2]; /**< width, height wanted by the network, px (synthetic) */
};

/** All functions are needed, but for the last two. */
struct stance_dataset_ops {
    size_t size;       /**< sizeof(struct stance_dataset_ops) */
    size_t state_size; /**< zeroed bytes that the core keeps */
    /** Reads annotations and checks them; every fault is named by id, file and reason. */
    stance_status (*open)(void *state, const void *config, const struct stance_split *split,
                          struct stance_error *err);
    /** Gives back what open() took; called once after a successful open(). */
    void (*close)(void *state);
    /** Names, sigmas, flip pairs: owned by the state; the sizes in it are not read. */
    const struct stance_pose *(*pose)(const void *state);
    /** Number of samples. */
    int64_t (*count)(const void *state);
    /** Sample @p index, from 0; owned by the state. Safe in any thread. */
    const struct stance_sample *(*sample)(const void *state, int64_t index);
    /** Decodes or draws the image of a sample. Safe in any thread. */
    stance_status (*image)(const void *state, int64_t index, struct stance_image *out,
                           struct stance_error *err);
    /** Path of a sample's image for messages and results; "" where there is none. */
    const char *(*path)(const void *state, int64_t index);
    /** All objects of the ground truth, in file order; owned by the state. */
    const struct stance_truth *(*truths)(const void *state, int64_t *count);
    /** Ids of all images, those without objects too; owned by the state. */
    const int64_t *(*image_ids)(const void *state, int64_t *count);
    /** Optional, with image_part(): size of a sample's image without opening it, px. Safe in any thread. */
    void (*image_size)(const void *state, int64_t index, int32_t *width, int32_t *height);
    /** Optional: image() where only the pixels part[0] <= x < part[2], part[1] <= y < part[3] are asked for. @p out
     *  has the size and the places of the whole image; its other pixels are undefined. */
    stance_status (*image_part)(const void *state, int64_t index, const int32_t part[4], struct stance_image *out,
                                struct stance_error *err);
};

/** @} */

STANCE_END_DECLS
#endif
