/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several verbs share: what a run can be told over its recipe. */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli/cli.h"

/** For train, trace, bench, test and predict: device, precision, scaler, batch size, threads, --set. */
extern const struct stance_option stance_run_options[];
/** For train besides: work folder, resuming, length, accumulation, clipping, workers, seed, processes. */
extern const struct stance_option stance_train_options[];

/** The precision that was asked for. */
enum stance_asked_precision {
    STANCE_ASKED_NOTHING,
    STANCE_ASKED_POLICY,  /**< --precision P, or --amp for auto: replaces the recipe's */
    STANCE_ASKED_USE_AMP  /**< --use-amp: the recipe's own low precision; else fp16 and dynamic on cuda; else
                               a warning and fp32 */
};

/** What was given. Texts are argv's. A number that was not given is -1, a real one NaN, a text NULL. */
struct stance_run_given {
    const char                 *device;  /**< "cpu", "cuda:1", "ref" */
    enum stance_asked_precision asked;
    const char                 *precision; /**< with STANCE_ASKED_POLICY: "fp32", ... */
    const char                 *scaler;    /**< NAME[:key=value,...]; replaces the recipe's */
    int64_t                     batch_size, threads;
    const char                **set;       /**< [n_set] KEY=VALUE in the order given; owned */
    int                         n_set;
    /* train */
    const char *work_dir, *load;
    bool        resume;      /**< --resume or --resume=CKPT */
    const char *resume_from; /**< NULL: the newest checkpoint of the work folder */
    int64_t     accumulate, epochs, max_steps, workers, seed, nproc;
    double      clip_grad_norm;
    bool        quiet, verbose;
};

/** Gathers them; options that the verb does not have count as not given.
 *  @return STANCE_OK; STANCE_ERR_INVAL when options contradict each other; STANCE_ERR_NOMEM */
stance_status stance_run_given(const struct stance_command *c, struct stance_run_given *out,
                               struct stance_error *err);
void stance_run_given_clear(struct stance_run_given *g);

#endif
