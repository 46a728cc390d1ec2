/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/schedule.h"

#include <stance/schedule.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

double stance_warmup(enum stance_warmup_shape shape, double regular, int64_t iteration,
                     int64_t iters, double ratio)
{
    double left;

    if (shape == STANCE_WARMUP_NONE || iteration >= iters)
        return regular;
    left = 1 - (double)iteration / (double)iters;
    switch (shape) {
    case STANCE_WARMUP_LINEAR: return regular * (1 - left * (1 - ratio));
    case STANCE_WARMUP_CONSTANT: return regular * ratio;
    case STANCE_WARMUP_EXP: return regular * pow(ratio, left);
    default: return regular;
    }
}

bool stance_schedule_warning(const struct stance_plugin *schedule, const void *config,
                             int64_t iterations, char *text, size_t size)
{
    const struct stance_param *shape = stance_param_find(schedule->params, "warmup");
    const struct stance_param *iters = stance_param_find(schedule->params, "warmup_iters");
    int64_t                    length;

    if (shape == NULL || iters == NULL || shape->type != STANCE_PARAM_TYPE_ENUM
        || iters->type != STANCE_PARAM_TYPE_I64
        || *(const int *)((const char *)config + shape->offset) == STANCE_WARMUP_NONE)
        return false;
    length = *(const int64_t *)((const char *)config + iters->offset);
    if (length <= iterations)
        return false;
    snprintf(text, size,
             "schedule '%s': warmup of %" PRId64 " iterations in a run of %" PRId64
             ": the full learning rate is never reached",
             schedule->name, length, iterations);
    return true;
}
