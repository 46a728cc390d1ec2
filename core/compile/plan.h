/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory plan: offsets in one arena for blocks with known life times. */
#ifndef COMPILE_PLAN_H
#define COMPILE_PLAN_H

#include <stance/error.h>

struct stance_life {
    uint32_t first, last; /**< launches between which it lives, inclusive */
    size_t   bytes;
    size_t   offset;      /**< out; a multiple of 64 */
};

/** Places blocks so that those that live at once do not meet. Deterministic.
 *  @param[out] total  bytes of the arena
 *  @param[out] bound  largest sum of live bytes: no plan can be smaller */
stance_status stance_plan(struct stance_life *blocks, size_t n, uint32_t launches, size_t *total,
                          size_t *bound, struct stance_error *err);

#endif
