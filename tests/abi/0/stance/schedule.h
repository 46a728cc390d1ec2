/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The warm-up that schedules share. */
#ifndef STANCE_SCHEDULE_H
#define STANCE_SCHEDULE_H

#include <stance/common.h>

STANCE_BEGIN_DECLS

/** @addtogroup schedule Warm-up of schedules
 *  @{ */

/** Shape of the warm-up, in the order of the words "null", "linear", "constant", "exp". */
enum stance_warmup_shape {
    STANCE_WARMUP_NONE,     /**< no warm-up */
    STANCE_WARMUP_LINEAR,   /**< from ratio to 1 in a line */
    STANCE_WARMUP_CONSTANT, /**< ratio throughout */
    STANCE_WARMUP_EXP       /**< from ratio to 1 by a constant factor */
};

/** Words of the shapes for a parameter table, NULL-ended: `warmup: null|linear|constant|exp`. */
#define STANCE_WARMUP_WORDS { "null", "linear", "constant", "exp", NULL }

/** Learning rate during warm-up: with f = iteration / iters
 *    linear    regular * (1 - (1 - f) (1 - ratio))
 *    constant  regular * ratio
 *    exp       regular * ratio^(1 - f)
 *  and @p regular itself from iteration @p iters on. Warm-up ignores the ends of epochs.
 *  @param regular    rate that the schedule gives for now
 *  @param iteration  windows since the start of the run, from 0
 *  @param iters      length of the warm-up, windows
 *  @param ratio      first factor, 0..1
 *  Source: MMCV 1.7 LrUpdaterHook. Safe in any thread. */
STANCE_API double stance_warmup(enum stance_warmup_shape shape, double regular, int64_t iteration,
                                int64_t iters, double ratio);

/** @} */

STANCE_END_DECLS
#endif
