/* SPDX-License-Identifier: Apache-2.0
 *
 * From a command line to the parts of a run. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/cli.h"
#include "cli/run_options.h"
#include "train/setup.h"

/** Reads the recipe of the first argument with the options of the command line over it.
 *  @param[out] given  what else was given, for stance_run_given_clear(); NULL: not wanted */
stance_status stance_command_setup(const struct stance_command *c, struct stance_registry *registry, unsigned parts,
                                   struct stance_setup *out, struct stance_run_given *given, struct stance_error *err);

#endif
