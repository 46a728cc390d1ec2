/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/log.h"

#include "base/environment.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const word[] = { "warning", "info", "debug", "trace" };

static void to_stderr(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx;
    fprintf(stderr, "stance: %s: %s: %s\n", word[level], module, text);
}

void stance_log_drop(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx, (void)level, (void)module, (void)text;
}

static stance_log_sink sink     = to_stderr;
static void           *sink_ctx = NULL;
static atomic_int      current  = -1; /* -1: the environment has not been asked yet */

void stance_log_set_sink(stance_log_sink s, void *ctx)
{
    sink     = s != NULL ? s : to_stderr;
    sink_ctx = ctx;
}

void stance_log_level_set(enum stance_log_level level)
{
    atomic_store(&current, (int)level);
}

enum stance_log_level stance_log_level_get(void)
{
    static const char *const name[] = { "warn", "info", "debug", "trace" };
    int level = atomic_load_explicit(&current, memory_order_relaxed);

    if (level < 0) {
        const char *env = stance_env(STANCE_ENV_LOG);

        level = STANCE_LOG_WARN;
        for (int i = 0; env != NULL && i < (int)(sizeof name / sizeof *name); i++)
            if (strcmp(env, name[i]) == 0)
                level = i;
        atomic_store(&current, level);
    }
    return (enum stance_log_level)level;
}

void stance_log_write(enum stance_log_level level, const char *module, const char *fmt, ...)
{
    char    text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    sink(sink_ctx, level, module, text);
}
