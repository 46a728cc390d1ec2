/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { NUMBER_MAX = 32 };

/* The number as text, or NULL where it was not given. */
static const char *number(int64_t v, char text[NUMBER_MAX])
{
    if (v < 0)
        return NULL;
    snprintf(text, NUMBER_MAX, "%" PRId64, v);
    return text;
}

stance_status stance_command_setup(const struct stance_command *c, struct stance_registry *registry, unsigned parts,
                                   struct stance_setup *out, struct stance_run_given *given, struct stance_error *err)
{
    struct stance_run_given      mine, *g = given != NULL ? given : &mine;
    struct stance_recipe_options o = { 0 };
    char                         n[7][NUMBER_MAX];
    stance_status                status = stance_run_given(c, g, err);

    if (status != STANCE_OK)
        return status;
    o.sets       = g->set;
    o.n_sets     = (size_t)g->n_set;
    o.device     = g->device;
    o.scaler     = g->scaler;
    o.precision  = g->asked == STANCE_ASKED_POLICY ? g->precision : NULL;
    o.use_amp    = g->asked == STANCE_ASKED_USE_AMP;
    o.batch_size = number(g->batch_size, n[0]);
    o.accumulate = number(g->accumulate, n[1]);
    o.epochs     = number(g->epochs, n[2]);
    o.max_steps  = number(g->max_steps, n[3]);
    o.workers    = number(g->workers, n[4]);
    o.seed       = number(g->seed, n[5]);
    o.threads    = number(g->threads, n[6]);
    o.clip_grad_norm = stance_command_text(c, "clip-grad-norm");
    status = stance_setup_make(registry, c->args[0], &o, parts, out, err);
    if (given == NULL)
        stance_run_given_clear(&mine);
    return status;
}
