/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stance/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int         exit;
    const char *text;
} status_table[STANCE_STATUS_COUNT] = {
    [STANCE_OK] = { 0, "success" },
#define STANCE_STATUS_ROW(id, exit, text) [STANCE_ERR_##id] = { exit, text },
    STANCE_STATUS_MAP(STANCE_STATUS_ROW)
#undef STANCE_STATUS_ROW
};

const char *stance_status_string(stance_status status)
{
    return (unsigned)status < STANCE_STATUS_COUNT ? status_table[status].text : "unknown status";
}

int stance_exit_status(stance_status status)
{
    return (unsigned)status < STANCE_STATUS_COUNT ? status_table[status].exit : 1;
}

/* A message is one line whatever name or text went into it. */
static void one_line(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = ' ';
}

stance_status stance_fail(struct stance_error *err, stance_status status, const char *file,
                          int line, const char *fmt, ...)
{
    va_list ap;

    if (err == NULL)
        return status;
    err->status = status;
    err->file   = file;
    err->line   = line;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    one_line(err->text);
    return status;
}

stance_status stance_error_prefix(struct stance_error *err, stance_status status, const char *fmt,
                                  ...)
{
    char    below[sizeof err->text];
    int     used;
    va_list ap;

    if (err == NULL)
        return status;
    memcpy(below, err->text, sizeof below);
    va_start(ap, fmt);
    used = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (used >= 0 && (size_t)used < sizeof err->text - 2) {
        size_t room = sizeof err->text - (size_t)used - 3; /* ": " and the final zero */

        snprintf(err->text + used, sizeof err->text - (size_t)used, ": %.*s", (int)room, below);
    }
    one_line(err->text);
    return status;
}
