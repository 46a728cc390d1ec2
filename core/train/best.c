/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/best.h"

#include <math.h>
#include <strings.h>

bool stance_best_is_lower(const char *metric)
{
    /* What MMEngine's CheckpointHook and MMPose's metrics rank downwards. */
    static const char *const words[] = { "loss", "error", "NME",     "EPE",
                                         "MPE",  "MPJPE", "P-MPJPE", "N-MPJPE" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(metric, words[i]) == 0)
            return true;
    return false;
}

bool stance_best_improves(double value, double best, bool lower)
{
    if (!isfinite(value) || value == -1)
        return false;
    return isnan(best) || (lower ? value < best : value > best);
}
