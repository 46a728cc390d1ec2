/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/build.h"
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <ltdl.h>
#include <stdio.h>
#include <string.h>

static int tell(const struct stance_error *err)
{
    fprintf(stderr, "stance: %s\n", err->text);
    return stance_exit_status(err->status);
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
    struct stance_error       err = STANCE_ERROR_INIT;
    int                       exit_status;

    if (word == NULL) {
        fprintf(stderr, "stance: a command is missing; see 'stance --help'\n");
        return 2;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        stance_help_print();
        return 0;
    }
    if (strcmp(word, "help") == 0) {
        exit_status = stance_help(argc - 2, argv + 2, &err);
        return exit_status == STANCE_FAILED ? tell(&err) : exit_status;
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
    verb = stance_verb_of(word);
    if (verb != NULL)
        return run(verb, argc, argv);
    stance_verb_unknown(word, &err);
    return tell(&err);
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
