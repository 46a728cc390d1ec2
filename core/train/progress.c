/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/environment.h"
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 512, BAR_MIN = 6, BAR_MAX = 24 };

void stance_meter_init(struct stance_meter *m, FILE *out, bool quiet)
{
    const char    *term = stance_env(STANCE_ENV_TERM), *no_colour = stance_env(STANCE_ENV_NO_COLOR);
    struct winsize size;

    *m = (struct stance_meter){ .out = quiet ? NULL : out, .columns = 80, .interval = 10 };
    if (m->out == NULL || !isatty(fileno(out)) || term == NULL || strcmp(term, "dumb") == 0)
        return;
    m->terminal = true;
    m->interval = 0.1;
    m->colour   = no_colour == NULL
                || *no_colour == '\0'; /* no-color.org: any value but an empty one */
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        m->columns = size.ws_col;
}

static double scalar(const struct stance_event *e, const char *name)
{
    for (int32_t i = 0; i < e->n_scalars; i++)
        if (strcmp(e->scalars[i].name, name) == 0)
            return e->scalars[i].value;
    return NAN;
}

static void add(char *line, size_t *used, const char *fmt, ...) STANCE_PRINTF(3, 4);
static void add(char *line, size_t *used, const char *fmt, ...)
{
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(line + *used, LINE_MAX_BYTES - *used, fmt, ap);
    va_end(ap);
    if (n > 0)
        *used = *used + (size_t)n < LINE_MAX_BYTES ? *used + (size_t)n : LINE_MAX_BYTES - 1;
}

/* loss 0.0004  41.2 images/s  scale 65536  eta 1:02:03 */
static void add_numbers(char *line, size_t *used, const struct stance_event *e)
{
    double loss = scalar(e, "loss"), rate = scalar(e, "throughput"),
           scale = scalar(e, "loss_scale");

    if (!isnan(loss))
        add(line, used, "  loss %.4g", loss);
    if (!isnan(rate))
        add(line, used, "  %.1f images/s", rate);
    if (!isnan(scale) && scale != 1)
        add(line, used, "  scale %.6g", scale);
    if (e->eta >= 0 && e->eta < 9e15) {
        int64_t s = (int64_t)e->eta;

        add(line, used, "  eta %" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    }
}

static void draw(struct stance_meter *m, const struct stance_event *e)
{
    char   head[64], tail[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    size_t head_len = 0, tail_len = 0, used = 0, bar_to, room = (size_t)(m->columns > 1 ? m->columns - 1 : 1);
    double part = e->iterations > 0 ? (double)e->iteration / (double)e->iterations : 0;
    int    bar, full;

    snprintf(head, sizeof head, "epoch %" PRId64 "/%" PRId64 " ", e->epoch, e->epochs);
    head_len = strlen(head);
    add(tail, &tail_len, "%" PRId64 "/%" PRId64, e->iteration, e->iterations);
    add_numbers(tail, &tail_len, e);
    /* The bar gives way to the numbers. */
    bar = (int)room - (int)(head_len + tail_len) - 3;
    bar = bar < BAR_MIN ? 0 : bar > BAR_MAX ? BAR_MAX : bar;
    full = (int)((part < 0 ? 0 : part > 1 ? 1 : part) * bar + 0.5);
    add(line, &used, "%s", head);
    if (bar > 0)
        add(line, &used, "[%.*s%.*s] ", full, "########################", bar - full, "                        ");
    bar_to = used;
    add(line, &used, "%s", tail);
    if (used > room)
        used = room;
    /* Return, the line, and clear what a longer one has left behind. */
    if (m->colour && bar_to <= used)
        fprintf(m->out, "\r%s\033[32m%.*s\033[0m%.*s\033[K", head, (int)(bar_to - head_len), line + head_len,
                (int)(used - bar_to), line + bar_to);
    else
        fprintf(m->out, "\r%.*s\033[K", (int)used, line);
    m->open_line = true;
}

static void plain(struct stance_meter *m, const struct stance_event *e)
{
    char   line[LINE_MAX_BYTES];
    size_t used = 0;

    add(line, &used, "epoch %" PRId64 "/%" PRId64 "  iter %" PRId64 "/%" PRId64, e->epoch,
        e->epochs, e->iteration, e->iterations);
    add_numbers(line, &used, e);
    fprintf(m->out, "%s\n", line);
}

static bool is_due(const struct stance_meter *m, const struct stance_event *e, double now)
{
    bool last = e->iteration == e->iterations;

    return !m->started || now - m->shown_at >= m->interval || (m->terminal && last)
           || (!m->terminal && m->every > 0 && e->step - m->shown_step >= m->every)
           || (last && e->epoch == e->epochs);
}

void stance_meter_step(struct stance_meter *m, const struct stance_event *e, double now)
{
    if (m->out == NULL)
        return;
    flockfile(m->out);
    if (is_due(m, e, now)) {
        if (m->terminal)
            draw(m, e);
        else
            plain(m, e);
        fflush(m->out);
        m->started    = true;
        m->shown_at   = now;
        m->shown_step = e->step;
    }
    funlockfile(m->out);
}

void stance_meter_close_line(struct stance_meter *m)
{
    if (m->out == NULL)
        return;
    flockfile(m->out);
    if (m->open_line) {
        fputc('\n', m->out);
        fflush(m->out);
        m->open_line = false;
    }
    funlockfile(m->out);
}

void stance_meter_say(struct stance_meter *m, const char *text)
{
    if (m->out == NULL)
        return;
    flockfile(m->out);
    stance_meter_close_line(m);
    fprintf(m->out, "%s\n", text);
    fflush(m->out);
    funlockfile(m->out);
}

void stance_meter_log(void *meter, enum stance_log_level level, const char *module,
                      const char *text)
{
    static const char *const word[] = { "warning", "info", "debug", "trace" };
    struct stance_meter     *m      = meter;
    FILE                    *out    = m->out != NULL ? m->out : stderr;

    flockfile(out);
    stance_meter_close_line(m);
    fprintf(out, "stance: %s: %s: %s\n", word[level], module, text);
    fflush(out);
    funlockfile(out);
}
