/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a run, as the recipe and the command line name them: plugins found, device opened,
 * precision settled, data opened. What every verb with a recipe begins with. */
#ifndef TRAIN_SETUP_H
#define TRAIN_SETUP_H

#include "compile/program.h"
#include "config/recipe.h"
#include "registry/instance.h"
#include "step/comm.h"
#include "step/model.h"
#include "step/scaler.h"
#include "step/step.h"
#include "train/launch.h"

/** An opened dataset. ops NULL: not opened. */
struct stance_data { const struct stance_dataset_ops *ops; void *state; };

struct stance_setup {
    struct stance_registry *registry; /**< the caller's */
    struct stance_place     place;    /**< as the launcher tells it; world 1 without STANCE_SETUP_COMM */
    struct stance_comm     *comm;     /**< NULL: one process */
    int                     cores;    /**< of this process' share; 0: all that it may use */
    struct stance_recipe   *recipe;
    struct stance_device   *device;
    struct stance_policy    policy;
    struct stance_arena    *points; /**< of stance_setup_pose() */
    struct stance_pose      pose; /**< points of the data (or the recipe), sizes of the recipe */
    struct stance_model     model;
    struct stance_instance  optimizer, schedule;
    struct stance_ema       average; /**< decay NaN: none */
    struct stance_scaler   *scaler;
    struct stance_data      train, val;
    const struct stance_task_ops *task;
    void                   *task_state;
};

enum stance_setup_part {
    STANCE_SETUP_TRAIN = 1,  /**< open data.train */
    STANCE_SETUP_VAL   = 2,  /**< open data.val */
    STANCE_SETUP_DEVICE = 4, /**< open the device, settle the precision */
    STANCE_SETUP_BACKWARD = 8, /**< the device must train: optimizer, schedule and scaler too */
    STANCE_SETUP_COMM = 16   /**< join the other processes of the job, if this one is one of several */
};

/** @param registry  outlives the setup. @param parts  STANCE_SETUP_... or-ed together
 *  @param[out] out  for stance_setup_clear(), also after a failure */
stance_status stance_setup_make(struct stance_registry *registry, const char *recipe,
                                const struct stance_recipe_options *options, unsigned parts,
                                struct stance_setup *out, struct stance_error *err);

/** Points and heatmap geometry for the model where no data say them (trace, bench).
 *  @param keypoints  0: the recipe's, else COCO's 17 */
stance_status stance_setup_pose(struct stance_setup *s, int32_t keypoints, struct stance_error *err);

/** What `train` asks of a window's end: how gradients are clipped, the moving average, the seed. */
void stance_setup_window(const struct stance_setup *s, struct stance_step_options *o);

/** What memory.recompute of the recipe asks for. */
enum stance_rebuild stance_setup_rebuild(const struct stance_setup *s);

/** Accepts a zeroed struct. */
void stance_setup_clear(struct stance_setup *s);

#endif
