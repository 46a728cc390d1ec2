/* SPDX-License-Identifier: Apache-2.0
 *
 * stance completion: the scripts for shells, and the words that they ask for. The scripts hold no list of
 * their own: verbs, options, choices, plugins, recipes and their keys come from the tables of the
 * program that is run, so that they are right for it and for the plugins that are installed. */
#include "config.h"

#include "cli/cli.h"
#include "cli/complete.h"

#include "core/cli/completion_scripts.h" /* made from doc/completion */

#include <stdio.h>
#include <string.h>

static int run(const struct stance_command *c, struct stance_error *err)
{
    static const struct { const char *word, *script; } shells[] = {
        { "bash", script_bash },
        { "zsh", script_zsh },
        { "fish", script_fish },
    };

    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (c->n_args == 1 && strcmp(shells[i].word, c->args[0]) == 0) {
            fputs(shells[i].script, stdout);
            return 0;
        }
    if (strcmp(c->args[0], "words") == 0)
        return stance_complete(c->n_args - 1, c->args + 1, err) == STANCE_OK ? 0 : STANCE_FAILED;
    STANCE_FAIL(err, STANCE_ERR_INVAL, "completion: '%s' is not one of bash, zsh, fish", c->args[0]);
    return STANCE_FAILED;
}

const struct stance_verb stance_verb_completion = {
    .name      = "completion",
    .summary   = "Print the completion script of a shell",
    .arguments = "bash|zsh|fish",
    .min_args  = 1,
    .max_args  = -1,
    .run       = run,
    .doc       = "For a stance that was installed where the shell does not look: source <(stance completion bash).",
};
