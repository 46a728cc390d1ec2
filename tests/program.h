/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the program as a user does, in a folder of its own. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include "runner.h"

#include <stance/common.h>

#include <stdarg.h>
#include <sys/wait.h>

static char program_folder[64];
static char program_out[262144], program_err[262144];

static inline void program_start(void)
{
    strcpy(program_folder, "/tmp/stance-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(program_folder));
}

static inline void program_stop(void)
{
    char command[256];

    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", program_folder, program_folder);
    ck_assert_int_eq(system(command), 0);
}

/** Path of a file in the folder (static buffers, eight at a time). */
static inline const char *program_path(const char *name)
{
    static char paths[8][4096];
    static int  next;

    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[0], "%s/%s", program_folder, name);
    return paths[next];
}

/** Writes a text file into the folder. */
static inline void program_write(const char *name, const char *text)
{
    FILE *f = fopen(program_path(name), "w");

    ck_assert_ptr_nonnull(f);
    ck_assert(fputs(text, f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
}

static inline void program_read(const char *path, char *text, size_t size)
{
    FILE  *f = fopen(path, "r");
    size_t got;

    ck_assert_msg(f != NULL, "%s", path);
    got       = fread(text, 1, size - 1, f);
    text[got] = '\0';
    fclose(f);
}

static inline int program_lines(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/** Runs a shell command. @return its exit status; -1: ended by a signal */
static inline int program_shell(const char *fmt, ...) STANCE_PRINTF(1, 2);
static inline int program_shell(const char *fmt, ...)
{
    char    command[16384];
    va_list ap;
    int     status;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/** Runs `ENVIRONMENT stance ARGUMENTS` in the folder; fills program_out and program_err.
 *  @return the exit status */
static inline int program_run_in(const char *environment, const char *fmt, ...) STANCE_PRINTF(2, 3);
static inline int program_run(const char *fmt, ...) STANCE_PRINTF(1, 2);

static inline int program_go(const char *environment, const char *arguments)
{
    const char *program = getenv("STANCE_PROGRAM");
    int         status;

    ck_assert_msg(program != NULL, "STANCE_PROGRAM is not set: run by make check");
    status = program_shell("cd %s && %s '%s' %s > out 2> err", program_folder, environment, program, arguments);
    program_read(program_path("out"), program_out, sizeof program_out);
    program_read(program_path("err"), program_err, sizeof program_err);
    return status;
}

static inline int program_run_in(const char *environment, const char *fmt, ...)
{
    char    arguments[8192];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(arguments, sizeof arguments, fmt, ap);
    va_end(ap);
    return program_go(environment, arguments);
}

static inline int program_run(const char *fmt, ...)
{
    char    arguments[8192];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(arguments, sizeof arguments, fmt, ap);
    va_end(ap);
    return program_go("", arguments);
}

#endif
