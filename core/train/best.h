/* SPDX-License-Identifier: Apache-2.0
 *
 * Which score is the best one so far. */
#ifndef TRAIN_BEST_H
#define TRAIN_BEST_H

#include <stance/common.h>

/** Whether lower values of a metric are better, by its name: errors and losses (NME, EPE, MPJPE,
 *  "loss", ...). Letter case is ignored. */
bool stance_best_is_lower(const char *metric);

/** Whether @p value is better than @p best. An undefined score (NaN, an infinity, or the -1 of
 * COCO's evaluation) never is; an equal one is not. @param best  NaN: none yet */
bool stance_best_improves(double value, double best, bool lower);

#endif
