/* SPDX-License-Identifier: Apache-2.0 */
/* train.log: lines in the form of mmengine's LogProcessor, which scripts and eyes know. */
#include <stance/log.h>
#include <stance/logger.h>

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STANCE_LOG_MODULE "logger_text"

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
    if (snprintf(s->path, sizeof s->path, "%s/train.log", directory) >= (int)sizeof s->path)
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

static int digits(int64_t n)
{
    int d = 1;

    while (n >= 10) {
        n /= 10;
        d++;
    }
    return d;
}

/* As Python prints a timedelta: "1:02:03", "2 days, 1:02:03". */
static void put_duration(FILE *f, double seconds)
{
    int64_t s = seconds < 9e15 ? (int64_t)seconds : 0, days = s / 86400;

    if (days > 0)
        fprintf(f, "%" PRId64 " day%s, ", days, days > 1 ? "s" : "");
    fprintf(f, "%d:%02d:%02d", (int)(s % 86400 / 3600), (int)(s % 3600 / 60), (int)(s % 60));
}

static const struct stance_scalar *find(const struct stance_event *e, const char *name)
{
    for (int32_t i = 0; i < e->n_scalars; i++)
        if (strcmp(e->scalars[i].name, name) == 0)
            return &e->scalars[i];
    return NULL;
}

static void put_named(FILE *f, const struct stance_event *e, const char *name, int decimals)
{
    const struct stance_scalar *s = find(e, name);

    if (s != NULL)
        fprintf(f, "  %s: %.*f", name, decimals, s->value);
}

static bool is_placed(const char *name)
{
    return strcmp(name, "lr") == 0 || strcmp(name, "time") == 0 || strcmp(name, "data_time") == 0
           || strcmp(name, "memory") == 0;
}

/* Counts and factors that are whole numbers are printed as such. */
static bool is_count(const struct stance_scalar *s)
{
    return (strcmp(s->name, "loss_scale") == 0 || strcmp(s->name, "skipped") == 0)
           && s->value > -9e15 && s->value < 9e15 && s->value == (double)(int64_t)s->value;
}

/* Four decimals are mmengine's; a loss of 4e-5 would be 0.0000 in them. */
static void put_value(FILE *f, const struct stance_scalar *s)
{
    double m = s->value < 0 ? -s->value : s->value;

    fprintf(f, "  %s: ", s->name);
    if (is_count(s))
        fprintf(f, "%" PRId64, (int64_t)s->value);
    else
        fprintf(f, m >= 1e6 || (m > 0 && m < 1e-3) ? "%.4e" : "%.4f", s->value);
}

static void put_line(struct state *s, const struct stance_event *e)
{
    FILE *f = s->file;
    bool  training = e->kind == STANCE_EVENT_TRAIN;

    /* The epoch is aligned to the right in the width of the last one, with the blank before it. */
    fprintf(f, "Epoch(%s)%*s[%" PRId64 "]", training ? "train" : "val",
            digits(e->epochs) + 1 - digits(e->epoch), "", e->epoch);
    if (e->iterations > 0)
        fprintf(f, "[%*" PRId64 "/%" PRId64 "]", digits(e->iterations), e->iteration,
                e->iterations);
    if (training) {
        if (find(e, "lr") != NULL)
            fprintf(f, "  lr: %.4e", find(e, "lr")->value);
        if (e->eta >= 0) {
            fputs("  eta: ", f);
            put_duration(f, e->eta);
        }
        put_named(f, e, "time", 4);
        put_named(f, e, "data_time", 4);
        put_named(f, e, "memory", 0);
    }
    for (int32_t i = 0; i < e->n_scalars; i++) {
        if (!is_placed(e->scalars[i].name))
            put_value(f, &e->scalars[i]);
    }
    if (!training) {
        put_named(f, e, "data_time", 4);
        put_named(f, e, "time", 4);
    }
}

static void event(void *state, const struct stance_event *e)
{
    struct state *s = state;
    locale_t      before;
    time_t        now = time(NULL);
    struct tm     tm;
    char          stamp[32] = "";

    if (s->failed
        || ((e->kind == STANCE_EVENT_START || e->kind == STANCE_EVENT_END) && e->text == NULL)
        || (e->kind == STANCE_EVENT_MESSAGE && e->text == NULL))
        return;
    before = uselocale(s->c);
    errno  = 0;
    if (localtime_r(&now, &tm) != NULL)
        strftime(stamp, sizeof stamp, "%Y/%m/%d %H:%M:%S", &tm);
    fprintf(s->file, "%s - stance - INFO - ", stamp);
    if (e->kind == STANCE_EVENT_TRAIN || e->kind == STANCE_EVENT_EVAL)
        put_line(s, e);
    else
        fputs(e->text, s->file);
    fputc('\n', s->file);
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

STANCE_PLUGIN(logger, text) = {
    STANCE_PLUGIN_HEAD,
    .kind       = STANCE_KIND_LOGGER,
    .name       = "text",
    .version    = "1.0",
    .license    = "Apache-2.0",
    .source     = "LogProcessor (MMEngine 0.10)",
    .summary    = "train.log, lines for people and for scripts that read mmengine's logs",
    .ops.logger = &ops,
};
