/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/build.h"
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <ltdl.h>
#include <stdio.h>
#include <string.h>

/* The verbs in the order of the help. A new one is a line here and one in cli.h. */
static const struct stance_verb *const verbs[] = {
    &stance_verb_train,
    &stance_verb_test,
    &stance_verb_predict,
    &stance_verb_eval,
    &stance_verb_check,
    &stance_verb_list,
    &stance_verb_inspect,
    &stance_verb_config,
    &stance_verb_convert,
    &stance_verb_new,
    &stance_verb_bench,
    &stance_verb_trace,
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static const struct stance_verb *verb_of(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

static int tell(const struct stance_error *err)
{
    fprintf(stderr, "stance: %s\n", err->text);
    return stance_exit_status(err->status);
}

static int unknown_verb(const char *name)
{
    const char *near = NULL;
    int         best = 3; /* further away is another word, not a slip */

    for (int i = 0; i < N_VERBS; i++) {
        int d = stance_text_distance(name, verbs[i]->name);

        if (d < best) {
            best = d;
            near = verbs[i]->name;
        }
    }
    if (near != NULL)
        fprintf(stderr, "stance: unknown command '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "stance: unknown command '%s'; see 'stance --help'\n", name);
    return 2;
}

static int help(void)
{
    printf("Usage: stance COMMAND [OPTION]... [ARGUMENT]...\n"
           "Mixed-precision training of pose-estimation networks.\n\nCommands:\n");
    for (int i = 0; i < N_VERBS; i++)
        printf("  %-10s%s\n", verbs[i]->name, verbs[i]->summary);
    printf("\nOptions:\n"
           "  -h, --help      print this help, or that of COMMAND, and exit\n"
           "  -V, --version   print the version and exit\n"
           "      --build-info\n"
           "                  print how stance was built and exit\n");
    return 0;
}

static int build_info(void)
{
    struct stance_string text = { 0 };

    stance_build_info(&text);
    if (text.failed) {
        fprintf(stderr, "stance: out of memory\n");
        stance_string_free(&text);
        return 1;
    }
    fputs(text.s, stdout);
    stance_string_free(&text);
    return 0;
}

static int run(const struct stance_verb *verb, int argc, char **argv)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_command c;
    int                   exit_status = 0;

    if (stance_command_parse(verb, argc, argv, &c, &err) != STANCE_OK)
        return tell(&err);
    if (c.help) {
        stance_verb_help(verb);
    } else {
        if (verb->signals != NULL)
            verb->signals();
        exit_status = verb->run(&c, &err);
        if (exit_status == STANCE_FAILED)
            exit_status = tell(&err);
    }
    stance_command_clear(&c);
    return exit_status;
}

static int dispatch(int argc, char **argv)
{
    const char               *word = argc > 1 ? argv[1] : NULL;
    const struct stance_verb *verb;

    if (word == NULL) {
        fprintf(stderr, "stance: a command is missing; see 'stance --help'\n");
        return 2;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help();
    if (strcmp(word, "help") == 0) {
        if (argc < 3)
            return help();
        verb = verb_of(argv[2]);
        if (verb == NULL)
            return unknown_verb(argv[2]);
        stance_verb_help(verb);
        return 0;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("stance " PACKAGE_VERSION " (plugin ABI %d)\n", STANCE_PLUGIN_ABI);
        return 0;
    }
    if (strcmp(word, "--build-info") == 0)
        return build_info();
    if (*word == '-') {
        fprintf(stderr, "stance: unknown option '%s'; see 'stance --help'\n", word);
        return 2;
    }
    verb = verb_of(word);
    return verb != NULL ? run(verb, argc, argv) : unknown_verb(word);
}

int main(int argc, char **argv)
{
    int exit_status;

    LTDL_SET_PRELOADED_SYMBOLS(); /* plugins that are part of a --disable-shared program */
    exit_status = dispatch(argc, argv);
    /* A full disk behind `stance list > file` shows only here. */
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "stance: standard output: %s\n",
                errno != 0 ? strerror(errno) : "writing failed");
        if (exit_status == 0)
            exit_status = 1;
    }
    return exit_status;
}
