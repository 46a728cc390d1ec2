/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "cli/cli.h"

#include <string.h>

/* In the order of the help. A new one is a line here and one in cli.h. */
const struct stance_verb *const stance_verbs[] = {
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
    &stance_verb_plot,
    &stance_verb_trace,
    &stance_verb_completion,
    NULL,
};

const struct stance_verb *stance_verb_of(const char *name)
{
    for (const struct stance_verb *const *v = stance_verbs; *v != NULL; v++)
        if (strcmp((*v)->name, name) == 0)
            return *v;
    return NULL;
}

stance_status stance_verb_unknown(const char *name, struct stance_error *err)
{
    const char *near = NULL;
    int         best = 3; /* further away is another word, not a slip */

    for (const struct stance_verb *const *v = stance_verbs; *v != NULL; v++) {
        int d = stance_text_distance(name, (*v)->name);

        if (d < best) {
            best = d;
            near = (*v)->name;
        }
    }
    if (near != NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "unknown command '%s'; did you mean '%s'?", name, near);
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "unknown command '%s'; see 'stance --help'", name);
}

const struct stance_status_text stance_statuses[] = {
    { "0", "done" },
    { "1", "failed at run time" },
    { "2", "the command line, the recipe or an input file is wrong" },
    { "3", "a plugin or a device is missing or cannot be used" },
    { "4", "training diverged" },
    { "130 , 143", "stopped by SIGINT or SIGTERM, with a checkpoint written" },
    { NULL, NULL },
};
