/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a recipe: `stance inspect recipe`. */
#ifndef CLI_RECIPE_SHEET_H
#define CLI_RECIPE_SHEET_H

#include <jansson.h>

/** For people. @param columns  0: lines are not broken */
void stance_recipe_print(int columns);
/** One object; NULL when memory is short. */
json_t *stance_recipe_json(void);
/** Sections of stance-recipe(5). */
void stance_recipe_mdoc(void);

#endif
