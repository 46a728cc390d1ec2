/* SPDX-License-Identifier: Apache-2.0
 *
 * Which micro-batches make one window, and what each counts in it. Micro-batches are numbered
 * through the whole run, from 0. */
#ifndef STEP_WINDOW_H
#define STEP_WINDOW_H

#include <stance/common.h>

/** The run as far as windows care. */
struct stance_windows {
    int64_t        accumulate; /**< micro-batches of a whole window, at least 1 */
    int64_t        batches;    /**< micro-batches of an epoch, at least 1 */
    int64_t        end;        /**< micro-batches of the run */
    int64_t        batch_size; /**< samples of a micro-batch */
    int64_t        samples;    /**< of an epoch: its last micro-batch has what is left */
    const int64_t *each;  /**< [end] samples of each micro-batch instead; NULL: by the two above */
    bool           flush; /**< windows end with the epoch; else only with the run */
    bool           drop;  /**< a window that these ends would cut short is left out */
};

/** Samples of a micro-batch. */
int64_t stance_windows_samples(const struct stance_windows *w, int64_t micro);

/** One past the last micro-batch of the window that holds micro-batch @p micro.
 *  @param done  micro-batches of that window before @p micro */
int64_t stance_windows_end(const struct stance_windows *w, int64_t micro, int64_t done);

/** Weight of a micro-batch in its window: its samples over those of the window, so that the sum
 * over the window is the mean over its samples, also where it is cut short. */
double stance_windows_weight(const struct stance_windows *w, int64_t micro, int64_t done);

/** Whether the window that would begin with @p micro is left out. */
bool stance_windows_dropped(const struct stance_windows *w, int64_t micro);

/** Windows of the whole run. */
int64_t stance_windows_count(const struct stance_windows *w);

#endif
