/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: one safetensors file each. Masters and states under their published names; moments as
 * "stance.<slot>.<name>", moving averages as "stance.ema.<name>"; inside an accumulation window also the gradients so far ("stance.gradient.")
 * and the pending states ("stance.pending."); counters, scaler and recipe as metadata. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "step/step.h"
#include "train/setup.h"

/** Where a run is. */
struct stance_position {
    int64_t epoch;     /**< from 0 */
    int64_t batch;     /**< micro-batches of the epoch that are done */
    int64_t iteration; /**< windows that are done, skipped ones too */
    int64_t micro;     /**< micro-batches of the open window that are done */
    double  best;      /**< NaN: none yet */
};

/** Writes a checkpoint; nothing is left of it after a failure. */
stance_status stance_checkpoint_write(const char *path, struct stance_step *step, const struct stance_setup *setup,
                                      const struct stance_position *at, struct stance_error *err);

/** Takes up a run where a checkpoint left it. A checkpoint without counters (another tool's weights) is
 *  an error that says to use --load. */
stance_status stance_checkpoint_read(const char *path, struct stance_step *step, const struct stance_setup *setup,
                                     struct stance_position *at, struct stance_error *err);

/** The newest whole checkpoint of a folder: the largest step in its metadata, best_* left out; if there
 *  is none with metadata, the file with the largest number in its name. Damaged ones are named in a warning.
 *  @param[out] path  the caller's, from stance_calloc; NULL if there is none
 *  @return STANCE_OK also then; STANCE_ERR_INPUT when the folder cannot be read, or has damaged ones only */
stance_status stance_checkpoint_newest(const char *folder, char **path, struct stance_error *err);

/** Removes all but the @p keep newest step_*.safetensors of a folder. Failures are left for next time. */
void stance_checkpoint_prune(const char *folder, int64_t keep);

#endif
