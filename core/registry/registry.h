/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program wants to know of a registry beside the public interface. */
#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include <stance/registry.h>

#define STANCE_BUILT_IN "(built in)" /**< stands for the file of a plugin linked into the program */

/** The folders searched, colon-separated; owned by the registry. */
const char *stance_registry_path(const struct stance_registry *reg);

/** Path of the file that @p plugin was opened from, or STANCE_BUILT_IN; owned by the registry. */
const char *stance_registry_file(const struct stance_registry *reg,
                                 const struct stance_plugin *plugin);

#endif
