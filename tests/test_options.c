/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "runner.h"

#include "cli/run_options.h"

static int run(const struct stance_command *c, struct stance_error *err)
{
    (void)c;
    (void)err;
    return 0;
}

static const struct stance_option *const tables[] = { stance_run_options, stance_train_options,
                                                      NULL };
static const struct stance_verb train = {
    .name      = "train",
    .summary   = "Train",
    .arguments = "RECIPE",
    .min_args  = 1,
    .max_args  = 1,
    .options   = tables,
    .run       = run,
};

enum { MAX_WORDS = 64 };

/* Splits a line at blanks, as a shell would; the words stay in place. */
static int words_of(char *line, char **argv)
{
    int   argc = 0;
    char *rest;

    for (char *w = strtok_r(line, " ", &rest); w != NULL && argc < MAX_WORDS - 1;
         w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    argv[argc] = NULL;
    return argc;
}

static stance_status parse(char *line, struct stance_command *c, struct stance_run_given *g,
                           struct stance_error *err)
{
    static char  *argv[MAX_WORDS];
    int           argc   = words_of(line, argv);
    stance_status status = stance_command_parse(&train, argc, argv, c, err);

    if (status != STANCE_OK)
        return status;
    status = stance_run_given(c, g, err);
    if (status != STANCE_OK)
        stance_command_clear(c);
    return status;
}

START_TEST(takes_every_spelling)
{
    char line[] =
        "stance train --set a.b=1 r.yaml --cfg-options c=2 d.e=x=y --batch-size=8 "
        "--gradient-accumulation-steps 4 "
        "--resume --precision fp16 --scaler dynamic:growth_interval=500 --device cuda:1 "
        "--clip-grad-norm 0.5 "
        "--epochs 3 --max-steps 100 --workers 0 --seed 0 --nproc 2 --threads 2 -q --work-dir w";
    struct stance_command   c;
    struct stance_run_given g;
    struct stance_error     err = STANCE_ERROR_INIT;

    ck_assert_msg(parse(line, &c, &g, &err) == STANCE_OK, "%s", err.text);
    ck_assert(c.n_args == 1 && strcmp(c.args[0], "r.yaml") == 0);
    ck_assert_uint_eq(g.n_sets, 3);
    ck_assert(strcmp(g.sets[0], "a.b=1") == 0 && strcmp(g.sets[1], "c=2") == 0
              && strcmp(g.sets[2], "d.e=x=y") == 0);
    ck_assert_str_eq(g.batch_size, "8");
    ck_assert_str_eq(g.accumulate, "4");
    ck_assert(g.resume && g.resume_from == NULL && g.load == NULL && !g.amp && !g.use_amp);
    ck_assert_str_eq(g.precision, "fp16");
    ck_assert_str_eq(g.scaler, "dynamic:growth_interval=500");
    ck_assert_str_eq(g.device, "cuda:1");
    ck_assert_str_eq(g.clip_grad_norm, "0.5");
    ck_assert(strcmp(g.epochs, "3") == 0 && strcmp(g.max_steps, "100") == 0
              && strcmp(g.workers, "0") == 0);
    ck_assert(strcmp(g.seed, "0") == 0 && strcmp(g.threads, "2") == 0
              && strcmp(g.work_dir, "w") == 0);
    ck_assert(g.nproc == 2 && g.quiet && !g.verbose);
    stance_run_given_clear(&g);
    stance_command_clear(&c);
}
END_TEST

START_TEST(nothing_given)
{
    char                    line[] = "stance train r.yaml";
    struct stance_command   c;
    struct stance_run_given g;
    struct stance_error     err = STANCE_ERROR_INIT;

    ck_assert_msg(parse(line, &c, &g, &err) == STANCE_OK, "%s", err.text);
    ck_assert(!g.amp && !g.use_amp && g.precision == NULL && g.device == NULL && g.scaler == NULL);
    ck_assert(g.batch_size == NULL && g.seed == NULL && g.workers == NULL
              && g.clip_grad_norm == NULL);
    ck_assert(g.n_sets == 0 && !g.resume && g.nproc == 0);
    stance_run_given_clear(&g);
    stance_command_clear(&c);
}
END_TEST

static const struct {
    const char *words;
    bool amp, use_amp;
    const char *precision;
} precisions[] = {
    { "--amp", true, false, NULL },
    { "--use-amp", false, true, NULL },
    { "--precision bf16", false, false, "bf16" },
    { "--amp --precision auto", true, false, "auto" },
    { "--precision fp16 --precision fp32", false, false, "fp32" }, /* the last one counts */
};

START_TEST(precision_asked)
{
    char                    line[256];
    struct stance_command   c;
    struct stance_run_given g;
    struct stance_error     err = STANCE_ERROR_INIT;

    snprintf(line, sizeof line, "stance train %s r.yaml", precisions[_i].words);
    ck_assert_msg(parse(line, &c, &g, &err) == STANCE_OK, "%s", err.text);
    ck_assert(g.amp == precisions[_i].amp && g.use_amp == precisions[_i].use_amp);
    ck_assert((g.precision == NULL) == (precisions[_i].precision == NULL));
    if (g.precision != NULL)
        ck_assert_str_eq(g.precision, precisions[_i].precision);
    stance_run_given_clear(&g);
    stance_command_clear(&c);
}
END_TEST

static const struct { const char *words, *says; } errors[] = {
    { "", "train: an argument is missing; usage: stance train [OPTION]... RECIPE" },
    { "r.yaml s.yaml", "train: unexpected argument 's.yaml'" },
    { "r.yaml --resume c.safetensors", "train: unexpected argument 'c.safetensors'" },
    { "r.yaml --batch-size", "train: --batch-size wants an argument" },
    { "r.yaml --batch-size 0", "train: --batch-size: 0 is outside [1, 65536]" },
    { "r.yaml --batch-size x", "train: --batch-size: 'x' is not an integer" },
    { "r.yaml --batch-size 99999999999999999999", "outside" },
    { "r.yaml --clip-grad-norm 0", "--clip-grad-norm: 0 is outside" },
    { "r.yaml --clip-grad-norm .nan", "outside" },
    { "r.yaml --clip-grad-norm one", "'one' is not a number" },
    { "r.yaml --precision fp17", "--precision: 'fp17' is not one of fp32, bf16, fp16, fp64, auto" },
    { "r.yaml --amp=1", "--amp takes no argument" },
    { "r.yaml --batchsize 4", "unknown option '--batchsize'; did you mean '--batch-size'?" },
    { "r.yaml --colour", "unknown option '--colour'; see 'stance train --help'" },
    { "r.yaml -x", "unknown option '-x'" },
    { "r.yaml --set epochs", "--set: 'epochs' is not of the form KEY=VALUE" },
    { "r.yaml --set =3", "KEY=VALUE" },
    { "r.yaml --device=", "--device: the argument is empty" },
    { "r.yaml --amp --precision fp16", "--amp is --precision auto" },
    { "r.yaml --use-amp --amp", "contradict" },
    { "r.yaml --use-amp --precision fp16", "--use-amp and --precision contradict" },
    { "r.yaml --resume --load c", "--resume and --load contradict" },
    { "r.yaml -q -v", "--quiet and --verbose" },
};

START_TEST(usage_errors)
{
    char                    line[256];
    struct stance_command   c;
    struct stance_run_given g;
    struct stance_error     err = STANCE_ERROR_INIT;
    stance_status           status;

    snprintf(line, sizeof line, "stance train %s", errors[_i].words);
    status = parse(line, &c, &g, &err);
    ck_assert_msg(status != STANCE_OK, "%s", line);
    ck_assert_int_eq(stance_exit_status(status), 2);
    ck_assert_msg(strstr(err.text, errors[_i].says) != NULL && strncmp(err.text, "train: ", 7) == 0,
                  "%s", err.text);
}
END_TEST

START_TEST(help_needs_no_argument)
{
    char                  line[] = "stance train --help";
    char                 *argv[MAX_WORDS];
    int                   argc = words_of(line, argv);
    struct stance_command c;
    struct stance_error   err = STANCE_ERROR_INIT;

    ck_assert_int_eq(stance_command_parse(&train, argc, argv, &c, &err), STANCE_OK);
    ck_assert(c.help);
    stance_command_clear(&c);
}
END_TEST

START_TEST(memory_runs_out_anywhere)
{
    stance_status status = STANCE_ERR_NOMEM;

    for (long n = 0; status != STANCE_OK; n++) {
        char                    line[] = "stance train r.yaml --set a=1";
        struct stance_command   c;
        struct stance_run_given g;
        struct stance_error     err = STANCE_ERROR_INIT;

        fault_after(n);
        status = parse(line, &c, &g, &err);
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        if (status == STANCE_OK) {
            stance_run_given_clear(&g);
            stance_command_clear(&c);
        }
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
}
END_TEST

/* Every name is there once, whatever tables a verb joins. */
START_TEST(names_do_not_meet)
{
    const char *seen[128];
    int         n = 0;

    for (int t = 0; t < 3; t++)
        for (const struct stance_option *o = t < 2 ? tables[t] : stance_common_options;
             o->name != NULL; o++)
            for (int k = -1; k < 2; k++) {
                const char *name = k < 0 ? o->name : o->alias[k];

                for (int i = 0; name != NULL && i < n; i++)
                    ck_assert_msg(strcmp(seen[i], name) != 0, "--%s", name);
                if (name != NULL)
                    seen[n++] = name;
                ck_assert(o->kind == STANCE_OPTION_FLAG || o->argument != NULL);
            }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tc    = tcase_create("all");

    tcase_add_test(tc, takes_every_spelling);
    tcase_add_test(tc, nothing_given);
    tcase_add_loop_test(tc, precision_asked, 0, sizeof precisions / sizeof *precisions);
    tcase_add_loop_test(tc, usage_errors, 0, sizeof errors / sizeof *errors);
    tcase_add_test(tc, help_needs_no_argument);
    tcase_add_test(tc, memory_runs_out_anywhere);
    tcase_add_test(tc, names_do_not_meet);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
