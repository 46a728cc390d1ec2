/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe as plain C: read from YAML, its bases, --set and options, checked against the tables of
 * the sections and of the plugins that it chooses. */
#ifndef CONFIG_RECIPE_H
#define CONFIG_RECIPE_H

#include "config/tree.h"

#include <stance/dataset.h>
#include <stance/plugin.h>
#include <stance/task.h>

#include <stdio.h>

/** What activations and weight copies are stored in; the words are fp32, bf16, fp16, fp64, auto. */
enum stance_precision {
    STANCE_PRECISION_FP32,
    STANCE_PRECISION_BF16,
    STANCE_PRECISION_FP16,
    STANCE_PRECISION_FP64, /**< device ref only */
    STANCE_PRECISION_AUTO, /**< until stance_recipe_settle_precision() */
    STANCE_PRECISION_COUNT
};
const char *stance_precision_word(enum stance_precision p);

/** Where the recipe reader finds plugins: stance_registry_find() behind a pointer. An error of
 * `find` names the known plugins (as the registry's does). */
struct stance_recipe_lookup {
    stance_status (*find)(void *ctx, enum stance_kind kind, const char *name,
                          const struct stance_plugin **out, struct stance_error *err);
    void *ctx;
};

/** A plugin that the recipe chooses, with its settings. */
struct stance_recipe_plugin {
    enum stance_kind kind;
    const char      *name; /**< NULL: none chosen (the scaler of `precision: auto`) */
    const char      *path; /**< where the choice stands: "train.optimizer" */
    struct stance_config_node  *settings; /**< a mapping without `name`; there if the name is */
    const struct stance_plugin *plugin;   /**< the registry's; NULL when read without lookup */
    void *config; /**< [plugin->config_size] filled; NULL without plugin or params */
};

struct stance_recipe_data {
    struct stance_text     root; /**< "": the current folder; the paths below are relative to it */
    struct stance_list_i64 input_size, heatmap_size; /**< width, height in px; two elements */
    double                 sigma;                    /**< of the targets, px of the heatmap */
    bool                   unbiased_encoding;        /**< targets by the unrounded centre */
    double                 padding;                  /**< the box is made larger by this factor */
    int                    on_bad_image;             /**< enum stance_on_bad_image */
};
enum stance_on_bad_image { STANCE_ON_BAD_IMAGE_ERROR, STANCE_ON_BAD_IMAGE_SKIP };

struct stance_recipe_part {
    struct stance_text annotations, images, boxes;
    int64_t            samples;
};

/** Probabilities 0..1; rotation in degrees and scale: standard deviations' limits as MMPose's. */
struct stance_recipe_augment {
    double flip, half_body, rotation, rotation_prob, scale, shift, shift_prob;
};

struct stance_recipe_test {
    bool    flip, shift_heatmap;
    int     post_process;    /**< enum stance_post_process */
    int64_t modulate_kernel; /**< px of the heatmap, odd */
    double  oks_thr, vis_thr;
    int64_t batch_size; /**< never null: train.batch_size unless set */
};

enum stance_on_skip { STANCE_ON_SKIP_ADVANCE, STANCE_ON_SKIP_HOLD };

enum stance_clip_norm { STANCE_CLIP_NORM_2, STANCE_CLIP_NORM_INF };

struct stance_recipe_train {
    int64_t epochs;
    int64_t max_steps;        /**< windows; INT64_MIN: no limit */
    int64_t batch_size;       /**< samples per process and micro-batch */
    int64_t accumulate;       /**< micro-batches of a window */
    bool    accumulate_flush; /**< end the window with the epoch */
    bool    accumulate_drop;  /**< leave out the window that the end cuts short */
    double  clip_grad_norm;   /**< NaN: no clipping by norm */
    int     clip_norm_type;   /**< enum stance_clip_norm */
    double  clip_grad_value;  /**< NaN: no clipping by value */
    int     on_skip; /**< enum stance_on_skip: does the schedule go on after a skipped window? */
    int64_t max_consecutive_skips; /**< INT64_MIN: max(25, log2(init_scale / min_scale) + 9) */
    int64_t seed;
    int64_t workers;                 /**< loader threads */
    int64_t eval_interval;           /**< epochs; INT64_MIN: never */
    struct stance_text best;         /**< metric whose best checkpoint is kept; "": none */
    int64_t            log_interval; /**< iterations */
    bool               debug_overflow;     /**< name the tensor at every overflow */
    int64_t            histogram_interval; /**< steps between exponents of gradients; INT64_MIN: never */
};

struct stance_recipe_checkpoint {
    int64_t epochs, steps, keep; /**< INT64_MIN: never, never, all */
};

enum stance_ema_statistics { STANCE_EMA_STATISTICS_AVERAGE, STANCE_EMA_STATISTICS_COPY };
/** Moving average of the masters. */
struct stance_recipe_ema {
    double decay;      /**< NaN: no average is kept */
    int    warmup;     /**< enum stance_ema_warmup */
    double tau;        /**< steps, of the exponential warm-up */
    int    statistics; /**< enum stance_ema_statistics: what becomes of running statistics */
    bool   evaluate;   /**< evaluations of a run use the average */
};

enum stance_recompute { STANCE_RECOMPUTE_NONE, STANCE_RECOMPUTE_NORM, STANCE_RECOMPUTE_BLOCK };
struct stance_recipe_memory {
    int recompute; /**< enum stance_recompute */
};
struct stance_recipe_comm {
    struct stance_text name;    /**< of a plugin, or "auto" */
    double             bucket;  /**< MB (2^20 bytes) of gradients that are reduced at once */
    bool               sync_bn; /**< batch statistics over all processes */
    double             timeout; /**< s */
};
struct stance_recipe_machine {
    int64_t threads; /**< INT64_MIN: as many as the device finds */
};

/** Constant once loaded, but for stance_recipe_settle_precision(). */
struct stance_recipe {
    struct stance_config *tree; /**< the merged files; owns every text and node here */
    const char           *file; /**< path that was read */
    const char           *name; /**< its last part without .yaml: the name of the work folder */

    struct stance_recipe_plugin task, backbone, head, loss, dataset, optimizer, schedule, scaler,
        device;
    struct stance_recipe_plugin *logger; /**< [n_loggers] */
    size_t                       n_loggers;
    const char           *pretrained; /**< absolute path of the backbone's weights, or NULL */
    enum stance_precision precision;

    struct stance_recipe_data data;
    struct stance_recipe_part train_part, val_part; /**< as written; the splits have whole paths */
    struct stance_recipe_augment    augment;
    struct stance_recipe_test       test;
    struct stance_recipe_train      train;
    struct stance_recipe_checkpoint checkpoint;
    struct stance_recipe_ema        ema;
    struct stance_recipe_memory     memory;
    struct stance_recipe_comm       comm;
    struct stance_recipe_machine    machine;

    struct stance_pose pose; /**< keypoints 0: the dataset's own; the sizes are set */
    struct stance_split        train_split, val_split; /**< for the dataset; info is &pose */
    struct stance_config_node *resolved; /**< everything with its defaults, as a tree */
};

/** Options of the command line, as text and NULL where not given. */
struct stance_recipe_options {
    const char *const *sets; /**< "a.b=c" */
    size_t             n_sets;
    const char        *device, *precision, *scaler;
    bool               amp; /**< --amp: `precision: auto` */
    bool use_amp; /**< --use-amp: the recipe's low precision, else fp16 on cuda, else fp32 with a
                     warning */
    const char *batch_size, *accumulate, *clip_grad_norm, *epochs, *max_steps, *workers, *seed,
        *threads;
};

/** Reads a recipe.
 *  @param recipe   a path, or the bare name of one in $STANCE_RECIPE_PATH or the installed folder
 *  @param options  may be NULL
 *  @param lookup   may be NULL: plugins are not looked up and their settings not checked
 *  @param[out] out the caller's, stance_recipe_free(); plugins found must live longer
 *  @return STANCE_OK; INPUT, FORMAT, INVAL, RANGE with file, line and column; what `find` says;
 * NOMEM */
stance_status stance_recipe_load(const char *recipe, const struct stance_recipe_options *options,
                                 const struct stance_recipe_lookup *lookup,
                                 struct stance_recipe             **out,
                                 struct stance_error               *err) STANCE_MUST_CHECK;
/** Accepts NULL. */
void stance_recipe_free(struct stance_recipe *r);

/** Path of a recipe by path or bare name: the caller's (stance_free()). */
stance_status stance_recipe_locate(const char *recipe, char **path,
                                   struct stance_error *err) STANCE_MUST_CHECK;

/** Puts a type in the place of `auto`, and the scaler that goes with it where the recipe names
 * none. */
stance_status stance_recipe_settle_precision(struct stance_recipe *r, enum stance_precision p,
                                             const struct stance_recipe_lookup *lookup,
                                             struct stance_error *err) STANCE_MUST_CHECK;

/** Fills what a task reads. @param pose  the dataset's, with the sizes of the recipe */
void stance_recipe_task_setup(const struct stance_recipe *r, const struct stance_pose *pose,
                              struct stance_task_setup *out);

/** Whether the augmentations can be done with these points: half_body wants to know the upper body.
 *  Called by the loader for the points of `data.info`; to be called for those of a dataset. */
stance_status stance_recipe_check_pose(const struct stance_recipe *r,
                                       const struct stance_pose   *pose,
                                       struct stance_error        *err) STANCE_MUST_CHECK;

/** Writes the resolved recipe as YAML that reads back to the same one. @param origins  each value
 * with the place it comes from, as a comment. @return STANCE_ERR_IO, STANCE_ERR_NOMEM */
stance_status stance_recipe_dump(const struct stance_recipe *r, FILE *f, bool origins,
                                 struct stance_error *err) STANCE_MUST_CHECK;
/** The same as text; out->failed tells a lack of memory. */
void stance_recipe_text(const struct stance_recipe *r, bool origins, struct stance_string *out);
/** FNV-1a (64 bits) of the resolved text without origins. @return false: out of memory */
bool stance_recipe_hash(const struct stance_recipe *r, uint64_t *hash) STANCE_MUST_CHECK;


/** Points of an `info` mapping (keypoints, flip_pairs, sigmas, skeleton, upper_body; other keys are
 *  ignored), checked against each other; points in pairs may be numbers from 0 or names. What is not
 *  given is NULL (stance_pose_join() knows what to do then), but for the upper body of COCO's points.
 *  Arrays lie in the arena of @p c; sizes are left alone. */
stance_status stance_pose_read(struct stance_config *c, const struct stance_config_node *info,
                               struct stance_pose  *pose,
                               struct stance_error *err) STANCE_MUST_CHECK;

#endif
