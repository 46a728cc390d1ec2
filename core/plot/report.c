/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/report.h"

#include "base/median.h"
#include "eval/aside.h"
#include "io/map.h"

#include <stance/alloc.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OVERFLOWS_MAX = 40, FILE_BYTES_MAX = 1 << 20 };

static const char page_style[] =
    ":root{color-scheme:light dark;--paper:#f6f7f8;--card:#fff;--text:#1a1d21;--faint:#5c636b;--edge:#e3e6e9}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#0e1013;--card:#16191d;--text:#e8eaed;--faint:#a3abb4;--edge:#33383e}}\n"
    "body{margin:0;background:var(--paper);color:var(--text);font:15px/1.5 system-ui,\"DejaVu Sans\",sans-serif}\n"
    "main{max-width:1060px;margin:0 auto;padding:28px 20px 60px}h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:18px;margin:32px 0 10px}p{margin:0 0 12px;color:var(--faint)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(125px,1fr));gap:12px;margin:18px 0}"
    ".tile,figure,table,pre,ul{background:var(--card);border:1px solid var(--edge);border-radius:8px}"
    ".tile{padding:10px 14px}.tile b{display:block;font-size:22px;line-height:1.3}.tile span{color:var(--faint);font-size:13px}\n"
    ".curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}"
    "figure{margin:0;padding:4px}figure svg{display:block;width:100%;height:auto}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--edge);white-space:nowrap}"
    "tr:last-child td,tr:last-child th{border-bottom:0}th:first-child,td:first-child{text-align:left}"
    "th{font-weight:600;color:var(--faint)}\n"
    "pre{padding:12px 16px;overflow-x:auto;font:13px/1.45 ui-monospace,\"DejaVu Sans Mono\",monospace}"
    "ul{list-style:none;padding:10px 16px;margin:0;font-size:13.5px}li{overflow-wrap:anywhere;padding:3px 0}"
    "ul.legend{display:flex;flex-wrap:wrap;gap:4px 20px}.legend svg{width:26px;height:10px;margin-right:6px}\n";

/* ---- files of a start ------------------------------------------------------------------------------- */

/* The text of FOLDER/NAME, as much as is shown of it; "" where there is none. NULL: out of memory. */
static char *text_of(const char *folder, const char *name)
{
    struct stance_map   map  = { .data = NULL };
    size_t              size = strlen(folder) + strlen(name) + 2;
    char               *path = stance_calloc(size, 1), *text;
    struct stance_error err  = STANCE_ERROR_INIT;
    stance_status       status;

    if (path == NULL)
        return NULL;
    snprintf(path, size, "%s/%s", folder, name);
    status = access(path, R_OK) == 0 ? stance_map_open(path, &map, &err) : STANCE_ERR_INPUT;
    stance_free(path);
    if (status == STANCE_ERR_NOMEM)
        return NULL;
    size = status == STANCE_OK ? map.size : 0;
    if (size > FILE_BYTES_MAX)
        size = FILE_BYTES_MAX;
    text = stance_calloc(size + 1, 1);
    if (text != NULL && size > 0)
        memcpy(text, map.data, size);
    stance_map_close(&map);
    return text;
}

/* "key: value" of environment.txt, into @p value; "" where there is none. */
static void setting(const char *text, const char *key, char *value, size_t size)
{
    size_t n = strlen(key);

    value[0] = '\0';
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, n) == 0 && strncmp(line + n, ": ", 2) == 0) {
            snprintf(value, size, "%.*s", (int)strcspn(line + n + 2, "\n"), line + n + 2);
            return;
        }
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

/* Median of the finite values; NaN where there is none, or no memory, which the page's text will meet too. */
static double median(const struct stance_series *s)
{
    double *v = s != NULL ? stance_calloc(s->n + 1, sizeof *v) : NULL, m;
    size_t  n = 0;

    for (size_t i = 0; v != NULL && i < s->n; i++)
        if (isfinite(s->point[i].value))
            v[n++] = s->point[i].value;
    m = stance_median(v, n);
    stance_free(v);
    return m;
}

static const struct stance_point *best_of(const struct stance_series *s)
{
    const struct stance_point *best = NULL;

    for (size_t i = 0; s != NULL && i < s->n; i++)
        if (isfinite(s->point[i].value) && (best == NULL || s->point[i].value > best->value))
            best = &s->point[i];
    return best;
}

static double value_at(const struct stance_series *s, int64_t step)
{
    for (size_t i = s != NULL ? s->n : 0; i-- > 0;)
        if (s->point[i].step == step)
            return s->point[i].value;
    return (double)NAN;
}

static double last_value(const struct stance_curves *c, const char *name)
{
    const struct stance_point *p = stance_series_last(stance_curves_find(c, name));

    return p != NULL ? p->value : (double)NAN;
}

static int64_t last_step(const struct stance_curves *c)
{
    int64_t last = 0;

    for (size_t i = 0; i < c->n_series; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            if (c->series[i].point[k].step > last)
                last = c->series[i].point[k].step;
    return last;
}

/* ---- parts of the page ------------------------------------------------------------------------------ */

static void add_tile(struct stance_string *t, const char *value, const char *what)
{
    if (value[0] == '\0')
        return;
    stance_string_add(t, "<div class=\"tile\"><b>");
    stance_html_add(t, value);
    stance_string_add(t, "</b><span>");
    stance_html_add(t, what);
    stance_string_add(t, "</span></div>\n");
}

static void add_number_tile(struct stance_string *t, const char *fmt, double value, const char *what) STANCE_PRINTF(2, 0);
static void add_number_tile(struct stance_string *t, const char *fmt, double value, const char *what)
{
    char text[64];

    if (!isfinite(value))
        return;
    snprintf(text, sizeof text, fmt, value);
    add_tile(t, text, what);
}

static void add_tiles(struct stance_string *t, const struct stance_curves *c, const char *environment)
{
    const struct stance_point *best = best_of(stance_curves_find(c, "AP"));
    char                       text[200];

    stance_string_add(t, "<div class=\"tiles\">\n");
    if (best != NULL) {
        snprintf(text, sizeof text, "best AP, after step %" PRId64, best->step);
        add_number_tile(t, "%.3f", best->value, text);
    }
    add_number_tile(t, "%.4g", last_value(c, "loss"), "loss at the end");
    snprintf(text, sizeof text, isfinite(last_value(c, "skipped")) ? "steps, %.0f skipped" : "steps", last_value(c, "skipped"));
    add_number_tile(t, "%.0f", (double)last_step(c), text);
    add_number_tile(t, "%.1f", median(stance_curves_find(c, "throughput")), "images/s (median)");
    add_number_tile(t, "%.6g", last_value(c, "loss_scale"), "loss scale at the end");
    setting(environment, "precision", text, sizeof text);
    add_tile(t, text, "precision");
    setting(environment, "device", text, sizeof text);
    text[strcspn(text, " ")] = '\0';
    add_tile(t, text, "device");
    stance_string_add(t, "</div>\n");
}

static void add_cell(struct stance_string *t, const char *fmt, double value, bool defined) STANCE_PRINTF(2, 0);
static void add_cell(struct stance_string *t, const char *fmt, double value, bool defined)
{
    stance_string_add(t, "<td>");
    if (defined && isfinite(value))
        stance_string_add(t, fmt, value);
    else
        stance_string_add(t, "\xe2\x80\x93");
    stance_string_add(t, "</td>");
}

/* Runs side by side: what the tiles tell of one. */
static void add_runs(struct stance_string *t, const struct stance_figure *f)
{
    stance_string_add(t, "<h2>Runs</h2>\n<div class=\"wide\"><table><tr><th>run</th><th>steps</th><th>skipped</th><th>loss at the "
                         "end</th><th>best AP</th><th>loss scale at the end</th><th>images/s (median)</th></tr>\n");
    for (int i = 0; i < f->n; i++) {
        const struct stance_curves *c    = &f->run[i];
        const struct stance_point  *best = best_of(stance_curves_find(c, "AP"));

        stance_string_add(t, "<tr><td>");
        stance_html_add(t, c->label);
        stance_string_add(t, "</td>");
        add_cell(t, "%.0f", (double)last_step(c), true);
        add_cell(t, "%.0f", last_value(c, "skipped"), true);
        add_cell(t, "%.4g", last_value(c, "loss"), true);
        add_cell(t, "%.3f", best != NULL ? best->value : 0, best != NULL);
        add_cell(t, "%.6g", last_value(c, "loss_scale"), true);
        add_cell(t, "%.1f", median(stance_curves_find(c, "throughput")), true);
        stance_string_add(t, "</tr>\n");
    }
    stance_string_add(t, "</table></div>\n");
}

static const char *const ten[] = { "AP", "AP50", "AP75", "APM", "APL", "AR", "AR50", "AR75", "ARM", "ARL" };
enum { TEN = sizeof ten / sizeof *ten };

static void add_score_row(struct stance_string *t, const struct stance_curves *c, const char *what, bool name, int64_t step)
{
    stance_string_add(t, "<tr><td>");
    if (name) {
        stance_html_add(t, c->label);
        stance_string_add(t, ", ");
    }
    stance_string_add(t, "%s</td><td>%" PRId64 "</td>", what, step);
    for (int i = 0; i < TEN; i++) {
        double v = value_at(stance_curves_find(c, ten[i]), step);

        add_cell(t, "%.3f", v, v >= 0); /* -1: the set has no such persons */
    }
    stance_string_add(t, "</tr>\n");
}

static void add_scores(struct stance_string *t, const struct stance_figure *f)
{
    bool any = false;

    for (int r = 0; r < f->n; r++)
        any = any || stance_curves_find(&f->run[r], "AP") != NULL;
    if (!any)
        return;
    stance_string_add(t, "<h2>Evaluation</h2>\n<p>COCO's ten numbers on the validation set; \xe2\x80\x93 where it has no such "
                         "persons.</p>\n<div class=\"wide\"><table><tr><th></th><th>step</th>");
    for (int i = 0; i < TEN; i++)
        stance_string_add(t, "<th>%s</th>", ten[i]);
    stance_string_add(t, "</tr>\n");
    for (int r = 0; r < f->n; r++) {
        const struct stance_series *ap = stance_curves_find(&f->run[r], "AP");

        if (ap == NULL)
            continue;
        add_score_row(t, &f->run[r], "best", f->n > 1, best_of(ap)->step);
        add_score_row(t, &f->run[r], "last", f->n > 1, stance_series_last(ap)->step);
    }
    stance_string_add(t, "</table></div>\n");
}

static void draw_panel(const struct stance_canvas *c, void *ctx)
{
    stance_panel_draw(ctx, c, 0, 0);
}

static void draw_key(const struct stance_canvas *c, void *ctx)
{
    int r = *(int *)ctx;

    c->ops->line(c->ctx, STANCE_INK_SERIES + r % STANCE_INK_SERIES_COUNT, 3, r / STANCE_INK_SERIES_COUNT % 3,
                 (const double[]){ 0, 5, 26, 5 }, 2);
}

static void add_curves(struct stance_string *t, const struct stance_figure *f)
{
    stance_string_add(t, "<h2>Curves</h2>\n");
    if (f->n > 1) {
        stance_string_add(t, "<ul class=\"legend\" style=\"margin-bottom:14px\">\n");
        for (int r = 0; r < f->n; r++) {
            stance_string_add(t, "<li>");
            stance_canvas_svg(t, 26, 10, f->run[r].label, false, draw_key, &r);
            stance_html_add(t, f->run[r].label);
            stance_string_add(t, "</li>\n");
        }
        stance_string_add(t, "</ul>\n");
    }
    stance_string_add(t, "<div class=\"curves\">\n");
    for (int i = 0; i < f->n_panels; i++) {
        stance_string_add(t, "<figure>\n");
        stance_canvas_svg(t, STANCE_PANEL_WIDTH, STANCE_PANEL_HEIGHT, f->panel[i].title, false, draw_panel,
                          (void *)&f->panel[i]);
        stance_string_add(t, "</figure>\n");
    }
    stance_string_add(t, "</div>\n");
}

/* Lines of train.log that the diagnosis of overflows has written, the newest of them. */
static void add_overflows(struct stance_string *t, const char *log)
{
    static const char mark[] = " - overflow in step ";
    int               n = 0, skip;

    for (const char *at = log; (at = strstr(at, mark)) != NULL; at++)
        n++;
    if (n == 0)
        return;
    skip = n > OVERFLOWS_MAX ? n - OVERFLOWS_MAX : 0;
    stance_string_add(t, "<h2>Overflows</h2>\n<p>Where steps stopped being finite");
    if (skip > 0)
        stance_string_add(t, "; the last %d of %d lines", OVERFLOWS_MAX, n);
    stance_string_add(t, ".</p>\n<ul>\n");
    for (const char *at = log; (at = strstr(at, mark)) != NULL; at++) {
        struct stance_string line = { 0 };

        if (skip-- > 0)
            continue;
        stance_string_add(&line, "%.*s", (int)strcspn(at + 12, "\n"), at + 12);
        stance_string_add(t, "<li>");
        if (line.failed)
            t->failed = true;
        else
            stance_html_add(t, line.s);
        stance_string_add(t, "</li>\n");
        stance_string_free(&line);
    }
    stance_string_add(t, "</ul>\n");
}

static void add_file(struct stance_string *t, const char *title, const char *text)
{
    if (text[0] == '\0')
        return;
    stance_string_add(t, "<h2>%s</h2>\n<pre>", title);
    stance_html_add(t, text);
    stance_string_add(t, "</pre>\n");
}

static void add_head(struct stance_string *t, const char *title)
{
    stance_string_add(t, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                         "content=\"width=device-width,initial-scale=1\">\n<title>");
    stance_html_add(t, title);
    stance_string_add(t, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<main>\n<h1>", page_style, stance_svg_style());
    stance_html_add(t, title);
    stance_string_add(t, "</h1>\n");
}

static void make_page(struct stance_string *t, const struct stance_figure *f)
{
    const struct stance_curves *c = &f->run[0];
    char *log, *recipe, *environment;

    if (f->n > 1) {
        add_head(t, "Comparison of runs");
        add_runs(t, f);
        add_scores(t, f);
        add_curves(t, f);
        return;
    }
    log         = text_of(c->newest, "train.log");
    recipe      = text_of(c->newest, "recipe.yaml");
    environment = text_of(c->newest, "environment.txt");
    if (log == NULL || recipe == NULL || environment == NULL) {
        t->failed = true;
    } else {
        add_head(t, c->label);
        stance_string_add(t, "<p>%zu start%s; files of the newest: ", c->n_starts, c->n_starts == 1 ? "" : "s");
        stance_html_add(t, c->newest);
        stance_string_add(t, "</p>\n");
        add_tiles(t, c, environment);
        add_scores(t, f);
        add_curves(t, f);
        add_overflows(t, log);
        add_file(t, "Recipe", recipe);
        add_file(t, "Environment", environment);
    }
    stance_free(log);
    stance_free(recipe);
    stance_free(environment);
}

stance_status stance_report_write(const char *path, const struct stance_figure *f, struct stance_error *err)
{
    struct stance_string text = { 0 };
    struct stance_aside  a;
    stance_status        status;

    make_page(&text, f);
    stance_string_add(&text, "</main>\n</body>\n</html>\n");
    status = text.failed ? STANCE_FAIL(err, STANCE_ERR_NOMEM, "writing %s", path) : stance_aside_open(&a, path, err);
    if (status == STANCE_OK) {
        fwrite(text.s, 1, text.len, a.file);
        status = stance_aside_close(&a, status, err);
    }
    stance_string_free(&text);
    return status;
}

stance_status stance_report_of(const char *folder, const char *start, struct stance_error *err)
{
    struct stance_curves  c = { .label = NULL };
    struct stance_figure *f = NULL;
    char                  path[4400];
    stance_status         status;

    snprintf(path, sizeof path, "%.4200s/scalars.jsonl", start);
    if (access(path, F_OK) != 0)
        return STANCE_OK;
    snprintf(path, sizeof path, "%.4200s/report.html", start);
    status = stance_curves_read(folder, &c, err);
    f      = status == STANCE_OK ? stance_calloc(1, sizeof *f) : NULL;
    if (status == STANCE_OK && f == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "writing %s", path);
    if (status == STANCE_OK) {
        stance_figure_make(f, &c, 1);
        status = stance_report_write(path, f, err);
    }
    stance_free(f);
    stance_curves_clear(&c);
    return status;
}
