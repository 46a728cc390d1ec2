/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON on standard output. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stance/error.h>

#include <jansson.h>

/** A string, or null for NULL; bytes that are not UTF-8 (file names may have them) become '?'. */
json_t *stance_json_text(const char *text);
/** A number, or null where it is not finite. */
json_t *stance_json_finite(double v);

/** Prints @p root on stdout, doubles with 17 digits, and gives it back; @p root may be NULL (memory
 *  was short while it was made). @return 0, or STANCE_FAILED with the reason */
int stance_json_print(json_t *root, struct stance_error *err);

#endif
