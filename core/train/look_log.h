/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.jsonl: the exponents of gradients, one JSON object a window that was asked for. */
#ifndef TRAIN_LOOK_LOG_H
#define TRAIN_LOOK_LOG_H

#include "step/exponents.h"

#include <stdio.h>

/** The file is made with its first line, so that runs without histograms have none. */
struct stance_look_log { char path[4300]; FILE *file; bool failed; /**< told once; nothing is written afterwards */ };

/** @param folder  of this start */
void stance_look_log_open(struct stance_look_log *l, const char *folder);
/** Appends {"step": N, "scale": S, "first": -40, "activations": {"zero":, "below":, "above":, "inf":, "nan":,
 *  "counts": [...]}, "weights": {...}}; counts are of |x| / S in [2^(first + i), 2^(first + i + 1)). */
void stance_look_log_exponents(struct stance_look_log *l, const struct stance_gradient_exponents *e, int64_t step);
/** Accepts a zeroed struct. */
void stance_look_log_close(struct stance_look_log *l);

#endif
