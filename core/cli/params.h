/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter tables as people, programs and man pages read them. */
#ifndef CLI_PARAMS_H
#define CLI_PARAMS_H

#include <stance/param.h>

#include <jansson.h>

/** Prints @p table under @p title, in @p columns columns (0: each parameter is one line). NULL and
 *  empty tables print nothing. */
void stance_params_print(const char *title, const struct stance_param *table, int columns);

/** A list of objects with name, type, default, nullable, min, max, choices, unit and doc, the caller's;
 *  NULL when memory is short. @p table may be NULL. */
json_t *stance_params_json(const struct stance_param *table);

/** Prints @p table as an mdoc(7) list, whose names have @p prefix in front. */
void stance_params_mdoc(const char *prefix, const struct stance_param *table);

/** Range of a parameter: "[1, 1000000] steps", "red|green", "null or [0, 1]"; "" where anything goes.
 *  @return @p text */
const char *stance_param_range(const struct stance_param *p, char *text, size_t size);

/** Word of its type: "bool", "integer", "number", "choice", "text", "integers", "numbers". */
const char *stance_param_type_word(const struct stance_param *p);

#endif
