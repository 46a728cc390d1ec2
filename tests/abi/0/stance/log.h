/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  What went on, for the reader of a terminal. Failures are returned, not logged. */
#ifndef STANCE_LOG_H
#define STANCE_LOG_H

#include <stance/common.h>

STANCE_BEGIN_DECLS

/** @addtogroup log Log lines
 *  @{ */

/** warn: it goes on, but you should know; info: once per run; debug: once per object; trace: once
 *  per step. */
enum stance_log_level { STANCE_LOG_WARN, STANCE_LOG_INFO, STANCE_LOG_DEBUG, STANCE_LOG_TRACE };

/** Receives the lines: @p text without newline, @p module as STANCE_LOG_MODULE names it; both are the
 *  caller's. May be called by any thread. @p ctx is what stance_log_set_sink() was given. */
typedef void (*stance_log_sink)(void *ctx, enum stance_log_level level, const char *module,
                                const char *text);

/** Replaces the default sink (one line to stderr); NULL restores it. Not safe
 *  against running threads. */
STANCE_API void stance_log_set_sink(stance_log_sink sink, void *ctx);

/** Level in force; starts from $STANCE_LOG ("warn", "info", "debug", "trace"). Safe in any thread. */
STANCE_API enum stance_log_level stance_log_level_get(void);
/** Sets it for the whole process. Safe in any thread. */
STANCE_API void                  stance_log_level_set(enum stance_log_level level);

/** Each .c file defines STANCE_LOG_MODULE first. Arguments of a level that is off are not
 *  evaluated, so a debug line may cost what it likes. */
#define STANCE_LOG(level, ...)                                         \
    do {                                                               \
        if ((level) <= stance_log_level_get())                         \
            stance_log_write((level), STANCE_LOG_MODULE, __VA_ARGS__); \
    } while (0)

/** Behind STANCE_LOG(), which asks for the level first. Lines longer than 1023 bytes are cut. */
STANCE_API void stance_log_write(enum stance_log_level level, const char *module, const char *fmt,
                                 ...) STANCE_PRINTF(3, 4);

/** @} */

STANCE_END_DECLS
#endif
