/* SPDX-License-Identifier: Apache-2.0
 *
 * What every Check program of ours ends with, and where the shared golden files lie. */
#ifndef TESTS_RUNNER_H
#define TESTS_RUNNER_H

#include <check.h>
#include <ltdl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Path of a file under ../shared (static buffers, four at a time), or NULL where that is absent. */
static inline const char *shared_file(const char *name)
{
    static char paths[4][4096];
    static int  next;
    const char *root = getenv("STANCE_SHARED");
    char       *path = paths[next = (next + 1) % 4];

    if (root == NULL)
        return NULL;
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return access(path, R_OK) == 0 ? path : NULL;
}

/** Tells why a test does not run; the line is collected by ./check and must be listed in
 *  tests/skips.txt. */
#define SKIP(...)                \
    do {                         \
        printf("SKIPPED: ");     \
        printf(__VA_ARGS__);     \
        printf("\n");            \
        fflush(stdout);          \
    } while (0)

/** Runs a suite and gives main()'s exit status. */
static inline int run_suite(Suite *suite)
{
    SRunner *run = srunner_create(suite);
    int      failed;

    srunner_run_all(run, CK_ENV);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}

#endif
