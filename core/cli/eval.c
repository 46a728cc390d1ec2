/* SPDX-License-Identifier: Apache-2.0
 *
 * stance eval: scores a result file against a ground truth file. */
#include "config.h"

#include "cli/cli.h"
#include "eval/eval_file.h"
#include "eval/summary.h"

#include <stdio.h>
#include <string.h>

static const char *const fallbacks[] = { "none", "bbox", NULL };

static int run(const struct stance_command *c, struct stance_error *err)
{
    const char                *fallback = stance_command_text(c, "area-fallback");
    struct stance_eval_options o = { .sigmas = stance_command_text(c, "sigmas") };
    struct stance_eval_result  r;

    if (fallback != NULL && strcmp(fallback, "bbox") == 0)
        o.area_fallback = STANCE_AREA_BBOX;
    if (stance_eval_files(c->args[0], c->args[1], &o, &r, NULL, err) != STANCE_OK)
        return STANCE_FAILED;
    if (stance_command_has(c, "json") ? !stance_summary_json(stdout, r.stats) : !stance_summary_print(stdout, r.stats)) {
        STANCE_FAIL(err, STANCE_ERR_IO, "writing to standard output failed");
        return STANCE_FAILED;
    }
    return 0;
}

static const struct stance_option options[] = {
    { .name = "sigmas", .kind = STANCE_OPTION_TEXT, .argument = "F|LIST",
      .doc = "OKS fall-off of each keypoint: a list, or a file with one (default: COCO's for its 17)" },
    { .name = "area-fallback", .kind = STANCE_OPTION_CHOICE, .argument = "none|bbox", .choices = fallbacks,
      .doc = "what stands in for an annotation without area (none: an error)" },
    { .name = "json", .kind = STANCE_OPTION_FLAG, .doc = "print one JSON object" },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, NULL };

const struct stance_verb stance_verb_eval = {
    .name = "eval", .summary = "Score a result file against a ground truth file", .arguments = "GT.json DT.json",
    .min_args = 2, .max_args = 2, .options = tables, .run = run,
};
