/* SPDX-License-Identifier: Apache-2.0 */
/* csvlog.csv in the folder of the run: one line for every number that it tells. */
#include <stance/logger.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct state { FILE *file; };

static stance_status open_log(void *state, const void *config, const char *directory, struct stance_error *err)
{
    struct state *s = state;
    char          path[4096];

    (void)config;
    if (snprintf(path, sizeof path, "%s/csvlog.csv", directory) >= (int)sizeof path)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: the path is too long", directory);
    s->file = fopen(path, "we");
    if (s->file == NULL)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", path, strerror(errno));
    fputs("step,name,value\n", s->file);
    return STANCE_OK;
}

static void event(void *state, const struct stance_event *e)
{
    struct state *s = state;

    if (e->kind != STANCE_EVENT_TRAIN && e->kind != STANCE_EVENT_EVAL)
        return;
    for (int32_t i = 0; i < e->n_scalars; i++)
        fprintf(s->file, "%" PRId64 ",%s,%.9g\n", e->step, e->scalars[i].name, e->scalars[i].value);
    fflush(s->file);
}

/* A failure to write has no one to go to but the reader of the terminal: the run goes on. */
#define STANCE_LOG_MODULE "logger_csvlog"

static void close_log(void *state)
{
    struct state *s = state;
    int           bad = ferror(s->file);

    if (fclose(s->file) != 0 || bad)
        STANCE_LOG(STANCE_LOG_WARN, "csvlog.csv could not be written whole");
}

static const struct stance_logger_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .open = open_log, .event = event, .close = close_log,
};

STANCE_PLUGIN(logger, csvlog) = {
    STANCE_PLUGIN_HEAD,
    .kind       = STANCE_KIND_LOGGER,
    .name       = "csvlog",
    .version    = "1.0",
    .license    = "Apache-2.0",
    .source     = "an example",
    .summary    = "a table of every number, one a line",
    .ops.logger = &ops,
};
