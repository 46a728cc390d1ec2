/* SPDX-License-Identifier: Apache-2.0
 *
 * The ten numbers in the forms that people and programs know. */
#ifndef EVAL_SUMMARY_H
#define EVAL_SUMMARY_H

#include "eval/coco.h"

#include <stdio.h>

/** Name of number @p i in JSON: "AP", "AP50", ..., "ARL"; and in MMPose's logs: "AP", "AP .5", ...,
 *  "AR (L)". NULL out of range. */
const char *stance_summary_name(int i);
const char *stance_summary_label(int i);

/** Prints ten lines as COCO's evaluation does:
 *  " Average Precision  (AP) @[ IoU=0.50:0.95 | type=   all | maxDets= 20 ] = 0.746".
 *  @return whether all of it was written */
bool stance_summary_print(FILE *to, const double stats[STANCE_COCO_STATS]);

/** Prints one JSON object and a line end, numbers with 17 digits, -1 where undefined. */
bool stance_summary_json(FILE *to, const double stats[STANCE_COCO_STATS]);

#endif
