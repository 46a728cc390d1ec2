/* SPDX-License-Identifier: Apache-2.0
 *
 * The files a run leaves: work_dirs/RECIPE/ with checkpoints, and a folder a start within it. */
#ifndef TRAIN_FOLDER_H
#define TRAIN_FOLDER_H

#include "train/setup.h"

struct stance_folder { char work[4096], start[4200]; };

/** Makes the folders, recipe.yaml (resolved) and environment.txt.
 *  @param work_dir  NULL: work_dirs/<name of the recipe> */
stance_status stance_folder_make(const struct stance_setup *setup, const char *work_dir, struct stance_folder *out,
                                 struct stance_error *err);

/** Writes the path of the newest checkpoint into "last_checkpoint", aside and renamed. */
stance_status stance_folder_last(const struct stance_folder *f, const char *checkpoint, struct stance_error *err);

#endif
