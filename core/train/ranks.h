/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processes of a run tell each other outside of a step. Nothing to do with one process. */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H

#include "step/step.h"
#include "train/checkpoint.h"
#include "train/setup.h"

/** The checkpoint that rank 0 has found, for all. @param[in,out] path  from stance_calloc, or NULL for none */
stance_status stance_ranks_path(struct stance_comm *c, char **path, struct stance_error *err);

/** The weights and states of rank 0, for all: at the start of a run that goes on with nothing. The caller
 *  refreshes what is made of them. */
stance_status stance_ranks_weights(struct stance_comm *c, struct stance_step *step, struct stance_error *err);

/** Compares with rank 0: the places of tensors in memory, masters, states, moments, scaler, counters.
 *  @return STANCE_ERR_INVAL, on all, naming thing and rank */
stance_status stance_ranks_compare(struct stance_comm *c, struct stance_step *step, const struct stance_setup *setup,
                                   const struct stance_position *at, struct stance_error *err);

/** The running statistics of rank 0, which are those of checkpoints, for an evaluation by all. */
stance_status stance_ranks_statistics(struct stance_comm *c, struct stance_step *step, struct stance_error *err);

#endif
