/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The task kind: which targets a sample needs, how outputs become predictions and scores. Not yet
 *  stable. */
#ifndef STANCE_TASK_H
#define STANCE_TASK_H

#include <stance/dataset.h>

STANCE_BEGIN_DECLS

/** An input of the graph that the task fills, one sample's share of it. */
struct stance_field { const char *name; enum stance_type type; struct stance_shape shape; };

/** What decoding needs to know of a sample after its transforms. */
struct stance_meta {
    int64_t index;       /**< of the sample in the dataset */
    int64_t image_id, category_id;
    int32_t box_id;
    float   centre[2], scale[2]; /**< MMPose's: px, and box size / 200 with padding */
    float   score;       /**< of the box */
};

/** One person found. */
struct stance_prediction {
    int64_t image_id, category_id;
    int32_t box_id;
    float   centre[2], scale[2], area, box_score;
    double  score;     /**< after rescoring */
    float  *keypoint;  /**< [K,3] x, y, score; owned by whoever made the prediction */
};

/** Settings of the recipe that a task reads; filled by the core. */
struct stance_task_setup {
    size_t                    size;
    const struct stance_pose *pose;
    double sigma;             /**< px of the heatmap */
    bool   unbiased_encoding;
    /* data.augment */
    double flip, half_body, rotation, rotation_prob, scale, shift, shift_prob;
    double padding;           /**< of the box: 1.25 */
    /* test */
    double oks_thr, vis_thr;
};

struct stance_metric { const char *name; double value; };

/** All functions are needed. */
struct stance_task_ops {
    size_t size, state_size;
    stance_status (*open)(void *state, const void *config, const struct stance_task_setup *setup,
                          struct stance_error *err);
    void (*close)(void *state);
    /** The inputs: "image" first, then targets ("target", "target_weight"), which evaluation leaves out. */
    const struct stance_field *(*fields)(const void *state, int *count);
    /** Prepares one sample: image, transforms (random ones drawn from (seed, epoch, index) only),
     *  targets, straight into its places. Safe in any thread.
     *  @param place  one address a field; NULL: not wanted */
    stance_status (*load)(const void *state, const struct stance_dataset_ops *dataset,
                          const void *dataset_state, int64_t index, uint64_t seed, int64_t epoch,
                          bool training, void *const *place, struct stance_meta *meta,
                          struct stance_error *err);
    /** Rescores and suppresses (OKS-NMS) in place. @param[in,out] count */
    stance_status (*finish)(const void *state, struct stance_prediction *p, int64_t *count,
                            struct stance_error *err);
    /** Scores predictions against the ground truth. @param[out] metrics  room for 16. */
    stance_status (*score)(const void *state, const struct stance_dataset_ops *dataset,
                           const void *dataset_state, const struct stance_prediction *p, int64_t count,
                           struct stance_metric *metrics, int *n_metrics, struct stance_error *err);
};

STANCE_END_DECLS
#endif
