/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The task kind: which targets a sample needs, how outputs become predictions and scores. Not yet
 *  stable. */
#ifndef STANCE_TASK_H
#define STANCE_TASK_H

#include <stance/dataset.h>

STANCE_BEGIN_DECLS

/** @addtogroup task Tasks
 *  @{ */

/** An input of the graph that the task fills, one sample's share of it. */
struct stance_field {
    const char         *name;  /**< of the graph's input: "image", "target", ... */
    enum stance_type    type;  /**< of what load() writes */
    struct stance_shape shape; /**< without the batch */
};

/** What decoding needs to know of a sample after its transforms. */
struct stance_meta {
    int64_t index;       /**< of the sample in the dataset */
    int64_t image_id;    /**< of its image */
    int64_t category_id; /**< of its annotation */
    int32_t box_id;      /**< as in stance_sample */
    float   centre[2];   /**< of the padded box, x, y in image px */
    float   scale[2];    /**< MMPose's: size of the padded box over 200 */
    float   score;       /**< of the box */
};

/** One person found. */
struct stance_prediction {
    int64_t image_id;    /**< of its image */
    int64_t category_id; /**< of its annotation, or the detection's */
    int32_t box_id;      /**< as in stance_sample */
    float   centre[2];   /**< as in stance_meta */
    float   scale[2];    /**< as in stance_meta */
    float   area;        /**< of the padded box, px^2 */
    float   box_score;   /**< of the box that it was sought in */
    double  score;     /**< after rescoring */
    float  *keypoint;  /**< [K,3] x, y, score; owned by whoever made the prediction */
};

/** Settings of the recipe that a task reads; filled by the core. */
struct stance_task_setup {
    size_t                    size; /**< sizeof(struct stance_task_setup) */
    const struct stance_pose *pose; /**< the run's */
    double sigma;             /**< px of the heatmap */
    bool   unbiased_encoding; /**< targets around the unrounded point (DARK) */
    /* data.augment */
    double flip;              /**< probability of mirroring */
    double half_body;         /**< probability of showing one half of the body */
    double rotation;          /**< degrees, standard deviation */
    double rotation_prob;     /**< probability of rotating */
    double scale;             /**< standard deviation of the scale */
    double shift;             /**< largest shift, in parts of the box */
    double shift_prob;        /**< probability of shifting */
    double padding;           /**< of the box: 1.25 */
    /* test */
    double oks_thr;           /**< OKS above which the weaker pose is dropped */
    double vis_thr;           /**< score above which a point counts in rescoring */
};

/** One score of an evaluation. */
struct stance_metric {
    const char *name;  /**< "AP", ...; the task's */
    double      value; /**< -1 where it is not defined */
};

/** All functions are needed. */
struct stance_task_ops {
    size_t size;       /**< sizeof(struct stance_task_ops) */
    size_t state_size; /**< zeroed bytes that the core keeps */
    /** Takes the settings of a run. */
    stance_status (*open)(void *state, const void *config, const struct stance_task_setup *setup,
                          struct stance_error *err);
    /** Gives back what open() took; called once after a successful open(). */
    void (*close)(void *state);
    /** The inputs: "image" first, then targets ("target", "target_weight"), which evaluation leaves out.
     *  Owned by the state. */
    const struct stance_field *(*fields)(const void *state, int *count);
    /** Prepares one sample: image, transforms (random ones drawn from (seed, epoch, index) only),
     *  targets, straight into its places. Safe in any thread.
     *  @param place  one address a field; NULL: not wanted
     *  @param[out] meta  what decoding needs to know of it */
    stance_status (*load)(const void *state, const struct stance_dataset_ops *dataset,
                          const void *dataset_state, int64_t index, uint64_t seed, int64_t epoch,
                          bool training, void *const *place, struct stance_meta *meta,
                          struct stance_error *err);
    /** Rescores and suppresses (OKS-NMS) in place. @param[in,out] count  how many are there, and
     *  how many are left, at the front */
    stance_status (*finish)(const void *state, struct stance_prediction *p, int64_t *count,
                            struct stance_error *err);
    /** Scores predictions against the ground truth. @param[out] metrics  room for 16.
     *  @param[out] n_metrics  how many */
    stance_status (*score)(const void *state, const struct stance_dataset_ops *dataset,
                           const void *dataset_state, const struct stance_prediction *p, int64_t count,
                           struct stance_metric *metrics, int *n_metrics, struct stance_error *err);
};

/** @} */

STANCE_END_DECLS
#endif
