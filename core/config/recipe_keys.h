/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a recipe as tables, for those who print them. */
#ifndef CONFIG_RECIPE_KEYS_H
#define CONFIG_RECIPE_KEYS_H

#include <stance/param.h>
#include <stance/plugin.h>

/** A key whose value is more than a number or a word: a plugin's choice, a file, a form of its own. */
struct stance_recipe_key {
    const char      *path; /**< "train.optimizer" */
    enum stance_kind kind; /**< plugin that is chosen; STANCE_KIND_COUNT: none */
    const char      *dflt; /**< as it would stand in a recipe */
    const char      *doc;  /**< one line */
};

/** Ends with path NULL; in the order of a recipe. */
extern const struct stance_recipe_key stance_recipe_keys[];

/** Section @p i of a recipe: its path ("" for the root) and its table, which may be NULL.
 *  @return NULL behind the last one */
const char *stance_recipe_section(size_t i, const struct stance_param **table);

/** Names that section @p i takes beside its table, NULL-ended; NULL: none. */
const char *const *stance_recipe_section_extra(size_t i);

/** Calls @p found with every recipe of $STANCE_RECIPE_PATH and of the installed folder, by the name
 *  that a command line takes. */
void stance_recipe_each(void (*found)(void *ctx, const char *name), void *ctx);

#endif
