/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin says of itself, and what a device finds on this machine: for people, programs and man
 * pages. */
#ifndef CLI_DESCRIBE_H
#define CLI_DESCRIBE_H

#include "base/text.h"

#include <stance/registry.h>

#include <jansson.h>

/** What opening a device on this machine gave. Zero-initialise; for stance_machine_clear(). */
struct stance_machine {
    struct stance_string lines;  /**< its own "key: value" lines */
    struct stance_string usable; /**< precisions that it trains in: "fp32, bf16" */
    const char          *fast;   /**< the one that `precision: auto` means; NULL: it does not start */
    struct stance_error  why;    /**< why it cannot be used here; status STANCE_OK if it can */
};

/** Opens the device and asks it. A device that does not start is no failure: see @p out->why.
 *  @return false when memory is short */
bool stance_machine_ask(const struct stance_plugin *device, struct stance_machine *out);
void stance_machine_clear(struct stance_machine *m);

/** Prints the sheet of a plugin. @param file  where it comes from. @param m  of a device; else NULL.
 *  @param columns  0: lines are not broken */
void stance_plugin_print(const struct stance_plugin *p, const char *file, const struct stance_machine *m, int columns);

/** The same as an object, the caller's; NULL when memory is short. */
json_t *stance_plugin_json(const struct stance_plugin *p, const char *file, const struct stance_machine *m);

/** The same as a section of a man page, without what differs from machine to machine. */
void stance_plugin_mdoc(const struct stance_plugin *p);

#endif
