/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment variables that stance reads. */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <stance/error.h>

/** Prints them with value, origin and meaning, and every other STANCE_... variable as unknown.
 *  @param path  the plugin path in force @return an exit status, or STANCE_FAILED */
int stance_environment_print(const char *path, bool json, struct stance_error *err);

#endif
