/* SPDX-License-Identifier: Apache-2.0
 *
 * stance config: the recipe as it is in force. */
#include "config.h"

#include "cli/cli.h"
#include "cli/run.h"

#include <stdio.h>

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct stance_registry *registry = NULL;
    struct stance_setup     s        = { 0 };
    stance_status           status   = stance_command_registry(c, &registry, err);

    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, 0, &s, NULL, err);
    if (status == STANCE_OK)
        status = stance_recipe_dump(s.recipe, stdout, stance_command_has(c, "origins"), err);
    stance_setup_clear(&s);
    stance_registry_free(registry);
    return status == STANCE_OK ? 0 : STANCE_FAILED;
}

static const struct stance_option options[] = {
    { .name = "origins", .kind = STANCE_OPTION_FLAG, .doc = "tell where each value comes from" },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, stance_run_options, NULL };

const struct stance_verb stance_verb_config = {
    .name = "config", .summary = "Print a recipe with its bases, overrides and defaults", .arguments = "RECIPE",
    .min_args = 1, .max_args = 1, .options = tables, .run = run,
};
