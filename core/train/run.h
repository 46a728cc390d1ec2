/* SPDX-License-Identifier: Apache-2.0
 *
 * `stance train`: epochs, windows, evaluation, checkpoints, logs, signals. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "train/setup.h"

struct stance_train_options {
    const char *work_dir;    /**< NULL: work_dirs/<recipe> */
    bool        resume;      /**< go on from resume_from, or from the newest checkpoint of the work folder */
    const char *resume_from; /**< may be NULL */
    const char *load;        /**< weights to start from; NULL: the recipe's init */
    bool        debug_overflow; /**< as the recipe's key; beside it, so that checkpoints are the same */
    bool        quiet;
    /** Set by a signal handler: the run writes a checkpoint and ends. May be NULL. */
    const volatile int *stop;
};

/** What came of it. */
struct stance_train_result {
    int64_t epochs, iterations, skipped;
    double  best;         /**< NaN: no evaluation */
    char    folder[4096]; /**< the work folder */
    char    last[4096], best_file[4096]; /**< checkpoints; "" if there is none */
};

/** Trains. @param setup  made with TRAIN, VAL, DEVICE and BACKWARD
 *  @return STANCE_OK; STANCE_ERR_INTERRUPTED after *stop (a checkpoint is written); STANCE_ERR_DIVERGED; ... */
stance_status stance_train(struct stance_setup *setup, const struct stance_train_options *o,
                           struct stance_train_result *result, struct stance_error *err);

#endif
