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

/** Calls @p found with the name of every plugin on the path that is not blocked, opening none: folders in
 *  the order of their rank, so that a name may come more than once; built-in ones last.
 *  @param kind  STANCE_KIND_COUNT: all kinds */
stance_status stance_registry_each(struct stance_registry *reg, enum stance_kind kind,
                                   void (*found)(void *ctx, enum stance_kind kind, const char *name),
                                   void *ctx, struct stance_error *err);

#endif
