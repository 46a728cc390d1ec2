/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several verbs share: what a run can be told over its recipe. */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli/cli.h"

/** For train, trace, bench, test and predict: device, precision, scaler, batch size, threads,
 *  --set. */
extern const struct stance_option stance_run_options[];
/** For train besides: work folder, resuming, length, accumulation, clipping, workers, seed,
 *  processes. */
extern const struct stance_option stance_train_options[];

/** What was given; texts are argv's and NULL where nothing was. Numbers have passed the ranges of
 *  the tables. */
struct stance_run_given {
    /* Over the recipe: names and meaning are those of struct stance_recipe_options
     * (config/recipe.h). */
    const char *const *sets; /**< [n_sets] KEY=VALUE in the order given; owned */
    size_t             n_sets;
    const char        *device, *precision, *scaler;
    bool               amp, use_amp;
    const char *batch_size, *accumulate, *clip_grad_norm, *epochs, *max_steps, *workers, *seed,
        *threads;
    /* Beside the recipe. */
    const char        *work_dir, *load;
    bool               resume;      /**< --resume or --resume=CKPT */
    const char        *resume_from; /**< NULL: the newest checkpoint of the work folder */
    int64_t            nproc;       /**< 0: not given */
    bool               debug_overflow;
    bool               quiet, verbose;
};

/** The first part as a struct stance_recipe_options, for verbs, which include config/recipe.h. */
#define STANCE_RUN_RECIPE_OPTIONS(g)                                        \
    ((struct stance_recipe_options){ .sets           = (g)->sets,           \
                                     .n_sets         = (g)->n_sets,         \
                                     .device         = (g)->device,         \
                                     .precision      = (g)->precision,      \
                                     .scaler         = (g)->scaler,         \
                                     .amp            = (g)->amp,            \
                                     .use_amp        = (g)->use_amp,        \
                                     .batch_size     = (g)->batch_size,     \
                                     .accumulate     = (g)->accumulate,     \
                                     .clip_grad_norm = (g)->clip_grad_norm, \
                                     .epochs         = (g)->epochs,         \
                                     .max_steps      = (g)->max_steps,      \
                                     .workers        = (g)->workers,        \
                                     .seed           = (g)->seed,           \
                                     .threads        = (g)->threads })

/** Gathers them; options that the verb does not have count as not given.
 *  @return STANCE_OK; STANCE_ERR_INVAL when options contradict each other; STANCE_ERR_NOMEM */
stance_status stance_run_given(const struct stance_command *c, struct stance_run_given *out,
                               struct stance_error *err);
void stance_run_given_clear(struct stance_run_given *g);

#endif
