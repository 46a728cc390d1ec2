/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights from files into the store. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "compile/store.h"
#include "io/tensors.h"

/** Loads a state dict (safetensors or .pth), all or nothing.
 *  @param only  NULL: every weight of the model; "backbone.": those alone, from a whole model's file or
 *  a backbone's */
stance_status stance_weights_load(struct stance_store *s, const char *path, const char *only, struct stance_error *err);

/** The same from an open file. */
stance_status stance_weights_take(struct stance_store *s, const struct stance_tensors *t, const char *only,
                                  struct stance_error *err);

/** The same, and then the moving averages of a checkpoint in the place of the weights.
 *  @return STANCE_ERR_INVAL when it has none */
stance_status stance_weights_take_average(struct stance_store *s, const struct stance_tensors *t, struct stance_error *err);

/** The same from a path. */
stance_status stance_weights_load_average(struct stance_store *s, const char *path, struct stance_error *err);

/** Copies one tensor of a file into an array of a segment; the shapes agree. */
stance_status stance_weights_put(struct stance_store *s, size_t segment, int array, const struct stance_entry *e,
                                 struct stance_error *err);

#endif
