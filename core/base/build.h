/* SPDX-License-Identifier: Apache-2.0
 *
 * How this stance was built. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

#include "base/text.h"

/** Appends lines "key: value": version, compiler, options of configure, folders, libraries. Loads
 *  no plugin, so those that only plugins use are not among them. */
void stance_build_info(struct stance_string *t);

#endif
