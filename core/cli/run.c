/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/run.h"

stance_status stance_command_setup(const struct stance_command *c, struct stance_registry *registry, unsigned parts,
                                   struct stance_setup *out, struct stance_run_given *given, struct stance_error *err)
{
    struct stance_run_given      mine, *g = given != NULL ? given : &mine;
    struct stance_recipe_options options;
    stance_status                status = stance_run_given(c, g, err);

    if (status != STANCE_OK)
        return status;
    options = STANCE_RUN_RECIPE_OPTIONS(g);
    status  = stance_setup_make(registry, c->args[0], &options, parts, out, err);
    if (given == NULL)
        stance_run_given_clear(&mine);
    return status;
}
