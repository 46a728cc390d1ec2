/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation over a dataset: network, flip test, decoding, suppression, scores. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "data/loader.h"
#include "step/step.h"
#include "train/setup.h"

enum { STANCE_METRICS_MAX = 16 };

struct stance_evaluation;

/** Takes the buffers for evaluating data.val with the step's evaluation programs. */
stance_status stance_evaluation_new(const struct stance_setup *setup, struct stance_step *step, int workers,
                                    size_t cache_bytes, struct stance_evaluation **out, struct stance_error *err);
/** Accepts NULL. */
void stance_evaluation_free(struct stance_evaluation *e);

/** Samples of the last, smaller batch of an evaluation: for struct stance_step_options. */
int32_t stance_evaluation_last_batch(const struct stance_setup *setup);

/** Runs over all samples. Predictions are the evaluation's, until the next run. Several processes share the
 *  samples and rank 0 gets all predictions; the others get none.
 *  @param[out] p, count  those kept after suppression
 *  @param stop  checked between batches; NULL: none. @return STANCE_ERR_INTERRUPTED when it was set */
stance_status stance_evaluation_run(struct stance_evaluation *e, const struct stance_prediction **p, int64_t *count,
                                    const volatile int *stop, struct stance_error *err);

/** Scores the predictions of the last run against the ground truth; several processes all get the scores
 *  that rank 0 finds. @param[out] m  room for STANCE_METRICS_MAX */
stance_status stance_evaluation_score(struct stance_evaluation *e, struct stance_metric *m, int *n, struct stance_error *err);

/** Batches an evaluation has. */
int64_t stance_evaluation_batches(const struct stance_evaluation *e);

/** Heatmaps of one batch, flip test included as `test.flip` says: fills the program's image input from
 *  @p images [count,3,H,W] and leaves binary32 heatmaps [count,K,h,w] in @p heat. Buffers are the
 *  evaluation's own. Used by predict too. */
stance_status stance_evaluation_heatmaps(struct stance_evaluation *e, enum stance_step_program which, int32_t count,
                                         const float *images, float **heat, struct stance_error *err);

/** Decodes heatmaps of @p count samples into keypoints [count,K,3], image px. */
stance_status stance_evaluation_decode(struct stance_evaluation *e, const float *heat, const struct stance_meta *meta,
                                       int32_t count, float *keypoint, struct stance_error *err);

/** For predict: an evaluation without data, over batches that the caller makes. */
stance_status stance_evaluation_bare(const struct stance_setup *setup, struct stance_step *step,
                                     struct stance_evaluation **out, struct stance_error *err);

#endif
