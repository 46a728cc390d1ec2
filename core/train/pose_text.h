/* SPDX-License-Identifier: Apache-2.0
 *
 * The points of a model as text, kept in its checkpoints so that they are known without the data. */
#ifndef TRAIN_POSE_TEXT_H
#define TRAIN_POSE_TEXT_H

#include "config/recipe.h"

/** Appends keypoints, flip_pairs, sigmas and skeleton in the form of a recipe's `info` file. */
void stance_pose_text(const struct stance_pose *pose, struct stance_string *out);

/** Reads that text; arrays live in the arena of @p c, sizes are left alone. */
stance_status stance_pose_parse(struct stance_config *c, const char *text, struct stance_pose *pose,
                                struct stance_error *err);

#endif
