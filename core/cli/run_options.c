/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/run_options.h"

#include <stance/alloc.h>

#include <string.h>

static const char *const precisions[] = { "fp32", "bf16", "fp16", "fp64", "auto", NULL };

#define INTEGER(n, arg, lo, hi, d) \
    .name = n, .kind = STANCE_OPTION_INTEGER, .argument = arg, .min = lo, .max = hi, .doc = d
#define TEXT(n, arg, d) .name = n, .kind = STANCE_OPTION_TEXT, .argument = arg, .doc = d
#define FLAG(n, d)      .name = n, .kind = STANCE_OPTION_FLAG, .doc = d

const struct stance_option stance_run_options[] = {
    { TEXT("device", "NAME", "ref, cpu, cuda or cuda:N instead of the recipe's device") },
    { .name     = "precision",
      .kind     = STANCE_OPTION_CHOICE,
      .argument = "P",
      .choices  = precisions,
      .doc      = "fp32, bf16, fp16, fp64 or auto instead of the recipe's precision" },
    { FLAG("amp", "the same as --precision auto") },
    { FLAG("use-amp",
           "the recipe's own low precision; without one fp16 on cuda, else fp32 with a warning") },
    { TEXT("scaler", "NAME[:KEY=VALUE,...]", "loss scaler instead of the recipe's") },
    { INTEGER("batch-size", "N", 1, 65536, "samples in a batch of one process") },
    { INTEGER("threads", "N", 1, 4096, "threads that compute; default: one for each core") },
    { .name       = "set",
      .kind       = STANCE_OPTION_SETTING,
      .argument   = "KEY=VALUE",
      .repeatable = true,
      .alias      = { "cfg-options" },
      .doc        = "set a key of the recipe: train.epochs=20" },
    { .name = NULL }
};

const struct stance_option stance_train_options[] = {
    { TEXT("work-dir", "DIR", "folder of checkpoints and logs; default: work_dirs/RECIPE") },
    { .name     = "resume",
      .kind     = STANCE_OPTION_OPTIONAL,
      .argument = "CKPT",
      .doc      = "go on from a checkpoint; without CKPT from the newest of the work folder" },
    { TEXT("load", "CKPT",
           "start from the weights of a checkpoint, without its optimizer, scaler and counters") },
    { INTEGER("accumulate", "N", 1, 65536, "batches summed into one step"),
      .alias = { "gradient-accumulation-steps" } },
    { .name     = "clip-grad-norm",
      .kind     = STANCE_OPTION_REAL,
      .argument = "X",
      .min      = 1e-12,
      .max      = 1e12,
      .doc      = "largest norm of the gradient; L2 unless the recipe says inf" },
    { INTEGER("epochs", "N", 1, 1000000, "length of the run") },
    { INTEGER("max-steps", "N", 1, 9e15, "stop after this many steps, with a checkpoint") },
    { INTEGER("workers", "N", 0, 1024,
              "threads that load samples; 0: the computing thread does it") },
    { INTEGER("seed", "N", 0, 9e15, "of all random numbers") },
    { INTEGER("nproc", "N", 1, 4096, "processes on this machine, started by mpirun") },
    { FLAG("debug-overflow",
           "at an overflow name the first tensor that is not finite; show gradient exponents once") },
    { FLAG("quiet", "no progress on the terminal"), .letter = 'q' },
    { FLAG("verbose", "tell more on the terminal"), .letter = 'v' },
    { .name = NULL }
};

static stance_status contradictions(const struct stance_command *c,
                                    const struct stance_run_given *g, struct stance_error *err)
{
    const char *verb = c->verb->name;

    if (g->amp && g->precision != NULL && strcmp(g->precision, "auto") != 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: --amp is --precision auto, but --precision %s is given too", verb,
                           g->precision);
    if (g->use_amp && (g->amp || g->precision != NULL))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: --use-amp and --%s contradict each other",
                           verb, g->precision != NULL ? "precision" : "amp");
    if (g->resume && g->load != NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: --resume and --load contradict each other",
                           verb);
    if (g->quiet && g->verbose)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: --quiet and --verbose contradict each other",
                           verb);
    return STANCE_OK;
}

stance_status stance_run_given(const struct stance_command *c, struct stance_run_given *out,
                               struct stance_error *err)
{
    struct stance_run_given g = {
        .device         = stance_command_text(c, "device"),
        .precision      = stance_command_text(c, "precision"),
        .scaler         = stance_command_text(c, "scaler"),
        .amp            = stance_command_has(c, "amp"),
        .use_amp        = stance_command_has(c, "use-amp"),
        .batch_size     = stance_command_text(c, "batch-size"),
        .accumulate     = stance_command_text(c, "accumulate"),
        .clip_grad_norm = stance_command_text(c, "clip-grad-norm"),
        .epochs         = stance_command_text(c, "epochs"),
        .max_steps      = stance_command_text(c, "max-steps"),
        .workers        = stance_command_text(c, "workers"),
        .seed           = stance_command_text(c, "seed"),
        .threads        = stance_command_text(c, "threads"),
        .work_dir       = stance_command_text(c, "work-dir"),
        .load           = stance_command_text(c, "load"),
        .resume         = stance_command_has(c, "resume"),
        .resume_from    = stance_command_text(c, "resume"),
        .nproc          = stance_command_i64(c, "nproc", 0),
        .debug_overflow = stance_command_has(c, "debug-overflow"),
        .quiet          = stance_command_has(c, "quiet"),
        .verbose        = stance_command_has(c, "verbose"),
    };
    stance_status status = contradictions(c, &g, err);
    int           at     = 0;
    const char  **sets, *setting;

    if (status != STANCE_OK)
        return status;
    sets = stance_calloc((size_t)c->n_given + 1, sizeof *sets);
    if (sets == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "command line");
    while ((setting = stance_command_next(c, "set", &at)) != NULL)
        sets[g.n_sets++] = setting;
    g.sets = sets;
    *out   = g;
    return STANCE_OK;
}

void stance_run_given_clear(struct stance_run_given *g)
{
    stance_free((void *)g->sets);
    *g = (struct stance_run_given){ 0 };
}
