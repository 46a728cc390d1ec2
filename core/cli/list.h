/* SPDX-License-Identifier: Apache-2.0
 *
 * The listing of plugins. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include <stance/registry.h>

#include <jansson.h>

/** "ok", "broken", "hidden" or "blocked". */
const char *stance_listing_state(const struct stance_listing *l);

/** An object with kind, name, version, file, state and reason; NULL when memory is short. */
json_t *stance_listing_json(const struct stance_listing *l);

#endif
