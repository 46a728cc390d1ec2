/* SPDX-License-Identifier: Apache-2.0
 *
 * A run from inside: run_start.c prepares it, run.c is the loop, run_keep.c scores and saves, run_log.c tells. */
#ifndef TRAIN_RUN_PRIV_H
#define TRAIN_RUN_PRIV_H

#include "base/clock.h"
#include "data/loader.h"
#include "step/window.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/folder.h"
#include "train/look_log.h"
#include "train/progress.h"
#include "train/ranks.h"
#include "train/run.h"

#include <stance/logger.h>

enum { STANCE_RUN_FIELDS_MAX = 8, STANCE_RUN_LOGGERS_MAX = 8, STANCE_RUN_CACHE_BYTES = 1 << 30 };

struct stance_run_logger { const struct stance_logger_ops *ops; void *state; };

/* Sums since the last log line. */
struct stance_run_sums { double loss, acc, time, data_time, grad_norm; int64_t n, skipped, samples, finite; };

struct stance_run {
    struct stance_setup               *setup;
    const struct stance_train_options *o;
    const struct stance_recipe_train  *t;
    struct stance_step                *step;
    struct stance_loader              *loader;
    struct stance_evaluation          *evaluation;
    struct stance_folder               folder;
    struct stance_run_logger                      loggers[STANCE_RUN_LOGGERS_MAX];
    int                                n_loggers;
    struct stance_meter                meter;
    struct stance_position             at, saved; /* saved: of the newest checkpoint; epoch -1: none */
    int                                input[2][STANCE_RUN_FIELDS_MAX]; /* number of each field's input, per training program */
    int                                n_fields, target, target_weight; /* numbers of fields */
    float                             *heat; /* [batch,K,h,w], for acc_pose */
    struct stance_windows              windows;
    int64_t                            batches; /* of an epoch */
    int64_t                            steps; /* in all, for the ETA */
    struct stance_run_sums                    sum;
    struct stance_look_log             look; /* what diagnosis finds */
    int64_t                            bad_micro; /* of the window at hand, from 1; 0: none is known */
    bool                               exponents_due;
    bool                               writes; /* files and the terminal: of several processes rank 0 */
    struct stance_comm                *comm; /* NULL: one process. What follows is for several only: */
    struct stance_position             mark; /* the end of the last window: what checkpoints hold */
    bool                               stopping; /* all have agreed to */
    struct stance_error                failure;  /* of this process, until the others know */
    double                             started;
    int64_t                            started_at; /* windows done before this start */
    struct stance_train_result        *result;
};

/* run_log.c */
/* To the loggers. */
void stance_run_tell(struct stance_run *r, const struct stance_event *e);
/* With the place and the ETA of the run filled in. */
struct stance_event stance_run_event(const struct stance_run *r, enum stance_event_kind kind, const struct stance_scalar *s, int n);
/* For the logs and the terminal. */
void stance_run_message(struct stance_run *r, const char *text);
/* After a window: the terminal sees every one, the log one in log_interval and the last of an epoch. */
void stance_run_report(struct stance_run *r, double lr, const struct stance_step_result *w);
stance_status stance_run_open_loggers(struct stance_run *r, struct stance_error *err);
/* Whether overflows are to be looked into. */
bool stance_run_debugs(const struct stance_run *r);
/* Before a window. */
void stance_run_want_exponents(struct stance_run *r);
/* After a micro-batch: which one of its window it was, once something is found. */
void stance_run_mark_bad(struct stance_run *r);
/* After a window. @param goes_on  the run does: what ends it is told by its error */
void stance_run_tell_findings(struct stance_run *r, bool skipped, bool goes_on);

/* run_keep.c */
/* Writes a checkpoint, and removes those that are too many. */
stance_status stance_run_save(struct stance_run *r, struct stance_error *err);
/* Whether the newest checkpoint is behind the run: also by an evaluation, or the end of an epoch, alone. */
bool stance_run_unsaved(const struct stance_run *r);
/* Scores the network, tells it, and keeps the checkpoint if it is the best. */
stance_status stance_run_evaluate(struct stance_run *r, struct stance_error *err);

/* run_start.c */
/* What this process needs before the first weights: loader, step, evaluation, folder, loggers. */
stance_status stance_run_prepare(struct stance_run *r, struct stance_error *err);
/* From the checkpoint to go on from, or fresh ones. */
stance_status stance_run_first_weights(struct stance_run *r, struct stance_error *err);

#endif
