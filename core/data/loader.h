/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Batches, made ahead of time by worker threads. Which samples are in a batch, their order and their
 *  random changes follow from (seed, epoch, sample, rank, world): the number of workers changes nothing,
 *  and starting in the middle of an epoch gives what running through it would have given. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include <stance/task.h>

struct stance_loader_options {
    const struct stance_task_ops    *task;
    const void                      *task_state;
    const struct stance_dataset_ops *dataset;
    const void                      *dataset_state;
    int32_t  batch_size;
    int32_t  workers;    /**< threads; 0: batches are made in stance_loader_next() */
    int32_t  ahead;      /**< batches made in advance; 0: two */
    uint64_t seed;
    bool     training;   /**< shuffle, augment, fill the targets */
    bool     drop_last;  /**< leave out an incomplete last batch */
    int32_t  rank, world; /**< world 0: one process. Each sample is one rank's. Training: batch b of all ranks
                               together is batch b of one process with world times the batch size; the last,
                               smaller one is divided evenly, so that a rank may have no sample in it.
                               Evaluation: ranks have whole batches of one process, in runs that follow one
                               another */
    size_t   cache_bytes; /**< of decoded images kept in memory; 0: none */
};

/** One batch, the loader's; valid until the next call of stance_loader_next() or _begin(). */
struct stance_batch {
    int32_t                   count;  /**< samples: batch_size, less in the last batch; 0 only with several ranks */
    int64_t                   number; /**< within the epoch */
    void *const              *field;  /**< one a field of the task: [count, ...] contiguous, aligned to 64
                                           bytes; NULL: a target, in evaluation */
    const struct stance_meta *meta;   /**< [count] */
};

struct stance_loader;

/** @param options  copied; task and dataset are used until the loader is freed.
 *  @return STANCE_OK; STANCE_ERR_INVAL (no sample, or no batch with drop_last); STANCE_ERR_RANGE;
 *          STANCE_ERR_NOMEM */
stance_status stance_loader_new(const struct stance_loader_options *options, struct stance_loader **out,
                                struct stance_error *err) STANCE_MUST_CHECK;

/** Batches an epoch, on this rank; in training as many on all ranks. */
int64_t stance_loader_batches(const struct stance_loader *l);
/** Samples an epoch, on this rank. */
int64_t stance_loader_samples(const struct stance_loader *l);
/** Samples of this rank in a batch. */
int32_t stance_loader_count(const struct stance_loader *l, int64_t batch);

/** Begins an epoch at a batch; the workers set to work at once. Waits for samples under way. */
void stance_loader_begin(struct stance_loader *l, int64_t epoch, int64_t first_batch);

/** @param[out] batch  the next one; NULL at the end of the epoch
 *  @return STANCE_OK; else what went wrong with a sample, with its file; the epoch then goes no further */
stance_status stance_loader_next(struct stance_loader *l, const struct stance_batch **batch,
                                 struct stance_error *err) STANCE_MUST_CHECK;

/** Ends the workers. Accepts NULL. */
void stance_loader_free(struct stance_loader *l);

#endif
