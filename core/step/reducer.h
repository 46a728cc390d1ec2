/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of the flat gradients over all processes, in buckets: each is a run of the flat array, from its
 * end to its beginning, which is about the order in which backward writes it. The reduction of a bucket
 * starts when backward has written the last gradient of it and goes on beside the rest of backward.
 *
 * Every process starts the same buckets in the same order, whatever program it runs. */
#ifndef STEP_REDUCER_H
#define STEP_REDUCER_H

#include "compile/program.h"
#include "step/comm.h"

struct stance_reducer;

/** @param bucket  bytes of a bucket, at least; a tensor is never divided. @param c  outlives it */
stance_status stance_reducer_new(struct stance_comm *c, struct stance_store *store, size_t bucket,
                                struct stance_reducer **out, struct stance_error *err);
/** Accepts NULL. */
void stance_reducer_free(struct stance_reducer *r);

enum { STANCE_REDUCER_PROGRAMS = 2 };
/** Finds the launches of a training program after which buckets are complete. @param which  0 or 1 */
stance_status stance_reducer_watch(struct stance_reducer *r, int which, const struct stance_program *p, struct stance_error *err);

/** Runs the backward section of the program, starting buckets as they are complete.
 *  @return STANCE_ERR_DEVICE without a text in @p err for a failed launch, else with one */
stance_status stance_reducer_backward(struct stance_reducer *r, int which, struct stance_program *p, struct stance_error *err);
/** Waits for all buckets; those that no backward pass has started are started here. */
stance_status stance_reducer_finish(struct stance_reducer *r, struct stance_error *err);

/** Since the last stance_reducer_reset(). */
struct stance_reducer_stats {
    uint64_t bytes;    /**< reduced */
    double   waited;   /**< s in stance_reducer_finish(): communication that nothing hid */
    double   polled;   /**< s in tests during backward */
    int      buckets;  /**< there are */
};
struct stance_reducer_stats stance_reducer_stats(const struct stance_reducer *r);
void stance_reducer_reset(struct stance_reducer *r);

#endif
