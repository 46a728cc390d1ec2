/* SPDX-License-Identifier: Apache-2.0
 *
 * stance train. */
#include "config.h"

#include "cli/cli.h"
#include "cli/job.h"
#include "cli/run.h"
#include "train/run.h"

#include <stance/log.h>

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The one thing that a signal may touch: which one came. A second one ends the program at once. */
static volatile int caught;

static void on_signal(int number)
{
    if (caught != 0)
        _exit(128 + number);
    caught = number;
}

static void signals(void)
{
    struct sigaction a;

    memset(&a, 0, sizeof a);
    a.sa_handler = on_signal;
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

static void print_result(const struct stance_setup *s, const struct stance_train_result *r)
{
    printf("%s: %" PRId64 " epochs, %" PRId64 " steps (%" PRId64 " skipped)", s->recipe->name, r->epochs, r->iterations,
           r->skipped);
    if (!isnan(r->best))
        printf(", best %s %.4f", s->recipe->train.best.s, r->best);
    printf("\nwork folder: %s\n", r->folder);
    if (r->last[0] != '\0')
        printf("checkpoint:  %s\n", r->last);
    if (r->best_file[0] != '\0')
        printf("best:        %s\n", r->best_file);
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    const unsigned parts = STANCE_SETUP_TRAIN | STANCE_SETUP_VAL | STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD
                           | STANCE_SETUP_COMM;
    struct stance_registry    *registry = NULL;
    struct stance_setup        setup    = { 0 };
    struct stance_run_given    given    = { 0 };
    struct stance_train_result result   = { .best = NAN };
    stance_status              status   = stance_job_start(stance_command_i64(c, "nproc", 0), &setup.place, err);
    int                        exit_status;

    if (status == STANCE_OK)
        status = stance_command_registry(c, &registry, err);

    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, parts, &setup, &given, err);
    if (status == STANCE_OK) {
        struct stance_train_options o = {
            .work_dir = given.work_dir, .resume = given.resume, .resume_from = given.resume_from, .load = given.load,
            .debug_overflow = given.debug_overflow, .quiet = given.quiet, .stop = &caught,
        };

        if (given.verbose && stance_log_level_get() < STANCE_LOG_INFO)
            stance_log_level_set(STANCE_LOG_INFO);
        status = stance_train(&setup, &o, &result, err);
        if (!given.quiet && result.iterations > 0 && setup.place.writes)
            print_result(&setup, &result);
    }
    exit_status = status == STANCE_OK ? 0 : stance_job_end(&setup, status, caught, err);
    stance_run_given_clear(&given);
    stance_setup_clear(&setup);
    stance_registry_free(registry);
    return exit_status;
}

static const struct stance_option *const tables[] = { stance_run_options, stance_train_options, NULL };

const struct stance_verb stance_verb_train = {
    .name = "train", .summary = "Train a network from a recipe", .arguments = "RECIPE", .min_args = 1, .max_args = 1,
    .options = tables, .run = run, .signals = signals,
    .doc = "RECIPE is a YAML file or the name of an installed one. Checkpoints and logs go to the work folder "
           "(work_dirs/RECIPE); on SIGINT and SIGTERM a checkpoint is written first, and --resume goes on from it.",
};
