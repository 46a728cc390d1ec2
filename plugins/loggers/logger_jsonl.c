/* SPDX-License-Identifier: Apache-2.0 */
/* scalars.jsonl: one JSON object a line with the keys of mmengine's scalars.json. What is not
 * finite is null: Python would write a bare NaN, which no other reader of JSON takes. */
#include <stance/log.h>
#include <stance/logger.h>

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANCE_LOG_MODULE "logger_jsonl"

struct state {
    FILE    *file;
    locale_t c;      /* numbers have a point whatever the process has set */
    bool     failed; /* told once; nothing is written afterwards */
    char     path[4096];
};

static void fail(struct state *s, int error)
{
    s->failed = true;
    STANCE_LOG(STANCE_LOG_WARN, "%s: %s; the log ends here", s->path, strerror(error));
}

static stance_status open_log(void *state, const void *config, const char *directory,
                              struct stance_error *err)
{
    struct state *s = state;

    (void)config;
    if (snprintf(s->path, sizeof s->path, "%s/scalars.jsonl", directory) >= (int)sizeof s->path)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: the path is too long", directory);
    s->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (s->c == (locale_t)0)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", s->path);
    s->file = fopen(s->path, "ae");
    if (s->file == NULL) {
        int error = errno;

        freelocale(s->c);
        s->c = (locale_t)0;
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", s->path, strerror(error));
    }
    return STANCE_OK;
}

static void close_log(void *state)
{
    struct state *s = state;

    if (s->file != NULL && fclose(s->file) != 0 && !s->failed)
        fail(s, errno);
    if (s->c != (locale_t)0)
        freelocale(s->c);
    s->file = NULL;
    s->c    = (locale_t)0;
}

static void put_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(f, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(f, "\\u%04x", *c);
        else
            fputc(*c, f);
    }
    fputc('"', f);
}

/* The shortest decimal that reads back to the same number, as Python writes it. */
static void put_number(FILE *f, double v)
{
    char text[32];

    if (!isfinite(v)) {
        fputs("null", f);
        return;
    }
    for (int n = 1; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*g", n, v);
        if (strtod(text, NULL) == v)
            break;
    }
    fputs(text, f);
}

static void event(void *state, const struct stance_event *e)
{
    struct state *s = state;
    locale_t      before;

    if (s->failed || (e->kind != STANCE_EVENT_TRAIN && e->kind != STANCE_EVENT_EVAL))
        return;
    before = uselocale(s->c);
    errno  = 0;
    fputc('{', s->file);
    for (int32_t i = 0; i < e->n_scalars; i++) {
        put_text(s->file, e->scalars[i].name);
        fputs(": ", s->file);
        put_number(s->file, e->scalars[i].value);
        fputs(", ", s->file);
    }
    /* mmengine counts iterations over the whole run here, and within the epoch in the text. */
    if (e->kind == STANCE_EVENT_TRAIN)
        fprintf(s->file, "\"epoch\": %" PRId64 ", \"iter\": %" PRId64 ", ", e->epoch, e->step);
    fprintf(s->file, "\"step\": %" PRId64 "}\n", e->step);
    if (fflush(s->file) != 0 || ferror(s->file))
        fail(s, errno);
    uselocale(before);
}

static const struct stance_logger_ops ops = {
    .size       = sizeof ops,
    .state_size = sizeof(struct state),
    .open       = open_log,
    .event      = event,
    .close      = close_log,
};

STANCE_PLUGIN(logger, jsonl) = {
    STANCE_PLUGIN_HEAD,
    .kind       = STANCE_KIND_LOGGER,
    .name       = "jsonl",
    .version    = "1.0",
    .license    = "Apache-2.0",
    .source     = "LocalVisBackend (MMEngine 0.10)",
    .summary    = "scalars.jsonl, one object a line with mmengine's keys",
    .ops.logger = &ops,
};
