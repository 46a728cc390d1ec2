/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stance/plugin.h>

/** Whether a warm-up is longer than the whole run; then @p text has the sentence to warn with.
 *  Any schedule is looked at that calls its settings `warmup` and `warmup_iters`.
 *  @param iterations  windows of the whole run */
bool stance_schedule_warning(const struct stance_plugin *schedule, const void *config,
                             int64_t iterations, char *text, size_t size);

#endif
