/* SPDX-License-Identifier: Apache-2.0
 *
 * stance plot. */
#include "config.h"

#include "cli/cli.h"
#include "plot/report.h"

#include <stance/alloc.h>

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *path, const char *end)
{
    size_t a = strlen(path), b = strlen(end);

    return a > b && strcmp(path + a - b, end) == 0;
}

static stance_status write_to(const struct stance_figure *f, const char *path, struct stance_error *err)
{
    stance_status status = ends_with(path, ".html") ? stance_report_write(path, f, err) : stance_figure_write(f, path, err);

    if (status == STANCE_OK)
        printf("%s\n", path);
    return status;
}

static stance_status write_into(const struct stance_figure *f, const char *folder, const char *name, struct stance_error *err)
{
    char path[4400];

    if (snprintf(path, sizeof path, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", name) >= (int)sizeof path)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: name is too long", folder);
    return write_to(f, path, err);
}

static stance_status check(const struct stance_command *c, const char *out, struct stance_error *err)
{
    if (c->n_args > STANCE_PANEL_LINES)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "plot: more than %d runs are too many for one figure", STANCE_PANEL_LINES);
    if (c->n_args > 1 && out == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "plot: --out FILE is needed for several runs");
    if (out != NULL && !ends_with(out, ".png") && !ends_with(out, ".svg") && !ends_with(out, ".html"))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "plot: --out: '%s' ends with none of .png, .svg and .html", out);
    return STANCE_OK;
}

static stance_status draw(const struct stance_command *c, const char *out, struct stance_curves *runs, struct stance_figure *f,
                          struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (int i = 0; i < c->n_args && status == STANCE_OK; i++)
        status = stance_curves_read(c->args[i], &runs[i], err);
    if (status != STANCE_OK)
        return status;
    stance_figure_make(f, runs, c->n_args);
    if (f->n_panels == 0)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: its scalars.jsonl has nothing to draw yet", c->args[0]);
    if (out != NULL)
        return write_to(f, out, err);
    status = write_into(f, c->args[0], "curves.png", err);
    if (status == STANCE_OK)
        status = write_into(f, c->args[0], "curves.svg", err);
    return status == STANCE_OK ? write_into(f, runs[0].newest, "report.html", err) : status;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    const char           *out    = stance_command_text(c, "out");
    struct stance_curves *runs   = NULL;
    struct stance_figure *figure = NULL;
    stance_status         status = check(c, out, err);

    if (status != STANCE_OK)
        return STANCE_FAILED;
    runs   = stance_calloc((size_t)c->n_args, sizeof *runs);
    figure = stance_calloc(1, sizeof *figure);
    if (runs == NULL || figure == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "plot");
    else
        status = draw(c, out, runs, figure, err);
    for (int i = 0; runs != NULL && i < c->n_args; i++)
        stance_curves_clear(&runs[i]);
    stance_free(runs);
    stance_free(figure);
    return status == STANCE_OK ? 0 : STANCE_FAILED;
}

static const struct stance_option options[] = {
    { "out", 0, STANCE_OPTION_TEXT, "FILE", "write this .png, .svg or .html alone", { NULL }, 0, 0, NULL, false },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, NULL };

const struct stance_verb stance_verb_plot = {
    .name = "plot", .summary = "Draw the curves of a run, or of several", .arguments = "WORK_DIR...", .min_args = 1,
    .max_args = -1, .options = tables, .run = run,
    .doc = "Reads scalars.jsonl and histogram.jsonl of every start in WORK_DIR, joined by step, and writes curves.png and "
           "curves.svg there and report.html into the newest start. With several folders the runs are drawn over each other "
           "into FILE.",
};
