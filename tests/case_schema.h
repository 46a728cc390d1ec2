/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema in which the shared configuration cases are written (train.lr,
 * precision.loss_scale.mode,
 * ...). It is not the recipe's; it drives the same reader through tables of its own. */
#ifndef TESTS_CASE_SCHEMA_H
#define TESTS_CASE_SCHEMA_H

#include "config/tree.h"

/** A configuration read by the schema of the cases. Zero-initialise; case_config_free(). */
struct case_config {
    struct stance_config *tree;
    void                 *values; /* NULL without schema check */
};

/** Reads @p file with its bases (key `base`) and checks it against the schema.
 *  @param schema_check  false: any key will do, values are text */
stance_status case_config_load(const char *file, bool schema_check, struct case_config *out,
                               struct stance_error *err);
void          case_config_free(struct case_config *c);

/** Text of a value by dotted name: what the schema made of it, defaults included, or, for what no
 * table holds (data.keypoints), the text in the file; lists as "[a, b]". @return false: absent */
bool case_config_value(const struct case_config *c, const char *dotted, char *text, size_t size);

/** Whether a value is what a case expects; numbers compare as numbers unless @p expected is quoted.
 */
bool case_config_matches(const struct case_config *c, const char *dotted,
                         const struct stance_config_node *expected);

/** Runs a folder whose case.yaml says `do: load-config`. @return true, or false with the reason in
 * @p why */
bool case_load_config(const char *folder, char *why, size_t size);

#endif
