/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a file beside its place and moving it there once it is whole: who looks sees the old file
 * or the new one, never half of it. */
#ifndef EVAL_ASIDE_H
#define EVAL_ASIDE_H

#include <stance/error.h>

#include <stdio.h>

struct stance_aside {
    FILE *file;      /**< to write to */
    char *path;
    char *temporary; /**< NULL: @p path is a pipe or device and written directly */
};

/** @return STANCE_OK; STANCE_ERR_IO (the text names the path); STANCE_ERR_NOMEM */
stance_status stance_aside_open(struct stance_aside *a, const char *path,
                                struct stance_error *err) STANCE_MUST_CHECK;
/** Ends it, in any case: with @p status STANCE_OK the file is flushed to the disk and moved into
 *  place; else it is removed. @return @p status, or STANCE_ERR_IO if that failed */
stance_status stance_aside_close(struct stance_aside *a, stance_status status,
                                 struct stance_error *err) STANCE_MUST_CHECK;

#endif
