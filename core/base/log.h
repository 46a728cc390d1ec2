/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stance/log.h>

/** A sink for stance_log_set_sink() that tells nothing. */
void stance_log_drop(void *ctx, enum stance_log_level level, const char *module, const char *text);

#endif
