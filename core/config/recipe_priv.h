/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the recipe reader share. */
#ifndef CONFIG_RECIPE_PRIV_H
#define CONFIG_RECIPE_PRIV_H

#include "config/recipe.h"

stance_status stance_recipe_nomem(const struct stance_config *c, struct stance_error *err);

/* recipe_precision.c: options over the tree, and `fp16` and `precision` in one canonical form,
 * `precision: {compute: P, scaler: {name: ...}}`; without scaler where none is named. */
stance_status stance_recipe_apply_options(struct stance_config               *c,
                                          const struct stance_recipe_options *o,
                                          struct stance_error *err) STANCE_MUST_CHECK;
stance_status stance_recipe_normalise_precision(struct stance_config *c,
                                                struct stance_error  *err) STANCE_MUST_CHECK;
/* Scaler that goes with a type: "dynamic", "none"; NULL for auto. */
const char *stance_recipe_scaler_of(enum stance_precision p);

/* recipe_clip.c: `train.clip_grad_norm: {max_norm: X, norm_type: N}` as the two keys of the table. */
stance_status stance_recipe_normalise_clip(struct stance_config *c,
                                           struct stance_error  *err) STANCE_MUST_CHECK;

/* recipe_plugins.c: every plugin that the recipe chooses. */
stance_status stance_recipe_read_plugins(struct stance_recipe              *r,
                                         const struct stance_recipe_lookup *lookup,
                                         struct stance_error               *err) STANCE_MUST_CHECK;
stance_status stance_recipe_choose(struct stance_recipe *r, struct stance_recipe_plugin *p,
                                   const struct stance_config_node *node, const char *fallback,
                                   const struct stance_recipe_lookup *lookup,
                                   struct stance_error               *err) STANCE_MUST_CHECK;

/* recipe_tables.c: the sections. */
struct stance_recipe_section {
    const char                *path;
    const struct stance_param *table;
    const char *const         *extra;
    size_t                     offset; /* of the section's struct in struct stance_recipe */
};
extern const struct stance_recipe_section stance_recipe_sections[]; /* ends with path NULL */
stance_status stance_recipe_read_sections(struct stance_recipe *r,
                                          struct stance_error *err) STANCE_MUST_CHECK;

/* recipe_dump.c: makes r->resolved. */
stance_status stance_recipe_resolve(struct stance_recipe *r,
                                    struct stance_error  *err) STANCE_MUST_CHECK;

#endif
