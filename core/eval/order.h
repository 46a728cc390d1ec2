/* SPDX-License-Identifier: Apache-2.0
 *
 * One stable sort for everything that is ranked by a score. */
#ifndef EVAL_ORDER_H
#define EVAL_ORDER_H

#include <stance/common.h>

/** Something with a score: @p at is the caller's. */
struct stance_ranked { double score; int64_t at; };

/** Sorts by score, the largest first; equal scores keep their order, NaN comes last.
 *  @param scratch  [n], of any content */
void stance_order(struct stance_ranked *r, struct stance_ranked *scratch, int64_t n);

#endif
