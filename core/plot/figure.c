/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/figure.h"

#include "eval/aside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 2, GAP = 16, TITLE = 44, LEGEND_ROW = 20 };

/* Panels in their order. With several runs, the first series of each. */
static const struct kind {
    const char             *title;
    enum stance_panel_scale scale;
    bool                    steps, dots;
    const char             *series[3], *label[3];
} kinds[] = {
    { "Loss", STANCE_PANEL_AUTO, false, false, { "loss" }, { "loss" } },
    { "COCO AP on the validation set", STANCE_PANEL_UNIT, false, true, { "AP", "AP50", "AP75" }, { "AP", "AP50", "AP75" } },
    { "Training PCK (acc_pose)", STANCE_PANEL_UNIT, false, false, { "acc_pose" }, { "acc_pose" } },
    { "Learning rate", STANCE_PANEL_ZERO, false, false, { "lr" }, { "lr" } },
    { "Gradient norm (L2, before clipping)", STANCE_PANEL_AUTO, false, false, { "grad_norm" }, { "grad_norm" } },
    { "Loss scale", STANCE_PANEL_LOG2, true, false, { "loss_scale" }, { "loss_scale" } },
    { "Skipped steps (in all)", STANCE_PANEL_COUNT, true, false, { "skipped" }, { "skipped" } },
    { "Throughput (images/s)", STANCE_PANEL_ZERO, false, false, { "throughput" }, { "throughput" } },
};

static int64_t last_step(const struct stance_curves *run, int n)
{
    int64_t last = 0;

    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < run[r].n_series; i++)
            for (size_t k = 0; k < run[r].series[i].n; k++)
                if (run[r].series[i].point[k].step > last)
                    last = run[r].series[i].point[k].step;
    return last;
}

static void add_line(struct stance_panel *p, const struct stance_series *s, const char *label, int number)
{
    if (s != NULL && p->n < STANCE_PANEL_LINES)
        p->line[p->n++] = (struct stance_panel_line){ s, label, number };
}

static void add_kind(struct stance_figure *f, const struct kind *k, int64_t last)
{
    struct stance_panel *p = &f->panel[f->n_panels];

    *p = (struct stance_panel){ .title = k->title, .scale = k->scale, .steps = k->steps, .dots = k->dots, .last = last };
    for (int r = 0; r < f->n; r++)
        for (int i = 0; i < 3 && k->series[i] != NULL && (f->n == 1 || i == 0); i++)
            add_line(p, stance_curves_find(&f->run[r], k->series[i]), f->n == 1 ? k->label[i] : f->run[r].label,
                     f->n == 1 ? i : r);
    p->legend = f->n == 1 && p->n > 1;
    p->nested = f->n > 1 && (k->steps || strcmp(k->series[0], "lr") == 0); /* runs often agree in these */
    f->n_panels += stance_panel_filled(p);
}

/* The newest histogram of each run. */
static void add_exponents(struct stance_figure *f)
{
    struct stance_panel *p = &f->panel[f->n_panels];
    char                *title = f->titles[f->n_panels];

    *p = (struct stance_panel){ .title = title, .alone = f->n == 1 };
    for (int r = 0; r < f->n; r++) {
        if (f->run[r].n_histograms == 0)
            continue;
        p->exponents[p->n_exponents].of       = &f->run[r].histogram[f->run[r].n_histograms - 1];
        p->exponents[p->n_exponents++].number = r;
    }
    if (p->n_exponents == 0)
        return;
    if (f->n > 1) {
        snprintf(title, sizeof f->titles[0], "Gradients of activations (%%)");
    } else {
        snprintf(title, sizeof f->titles[0], "Gradients of step %" PRId64 " (%%)", p->exponents[0].of->step);
        p->line[p->n++] = (struct stance_panel_line){ NULL, "activations", 0 };
        p->line[p->n++] = (struct stance_panel_line){ NULL, "weights", 1 };
        p->legend = true;
    }
    f->n_panels++;
}

void stance_figure_make(struct stance_figure *f, const struct stance_curves *run, int n)
{
    int64_t last = last_step(run, n);

    *f = (struct stance_figure){ .run = run, .n = n };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        add_kind(f, &kinds[i], last);
    add_exponents(f);
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static double figure_width(void)
{
    return GAP + COLUMNS * (STANCE_PANEL_WIDTH + GAP);
}

/* Rows of names that @p draw puts over the panels, or would. */
static int draw_names(const struct stance_figure *f, const struct stance_canvas *c, bool draw)
{
    double x = GAP + 12, right = figure_width() - GAP;
    int    rows = 1;

    for (int r = 0; r < f->n; r++) {
        double              width = 30 + stance_canvas_width(f->run[r].label, 12, false) + 18;
        double              y = TITLE + (rows - 1) * LEGEND_ROW;
        struct stance_label l;

        if (x + width > right && x > GAP + 12) {
            rows++;
            x = GAP + 12;
            y += LEGEND_ROW;
        }
        if (draw) {
            c->ops->line(c->ctx, STANCE_INK_SERIES + r % STANCE_INK_SERIES_COUNT, 3, r / STANCE_INK_SERIES_COUNT % 3,
                         (const double[]){ x, y, x + 22, y }, 2);
            l = (struct stance_label){ x + 28, y + 4, 12, -1, false };
            c->ops->text(c->ctx, STANCE_INK_TEXT, &l, f->run[r].label);
        }
        x += width;
    }
    return rows;
}

static double head_height(const struct stance_figure *f)
{
    return f->n == 1 ? TITLE : TITLE + draw_names(f, NULL, false) * LEGEND_ROW;
}

static double figure_height(const struct stance_figure *f)
{
    int rows = (f->n_panels + COLUMNS - 1) / COLUMNS;

    return head_height(f) + rows * (STANCE_PANEL_HEIGHT + GAP);
}

static void draw(const struct stance_canvas *c, void *ctx)
{
    const struct stance_figure *f = ctx;
    struct stance_label         l = { GAP + 12, 28, 16, -1, true };

    c->ops->text(c->ctx, STANCE_INK_TEXT, &l, f->n == 1 ? f->run[0].label : "Comparison of runs");
    if (f->n > 1)
        draw_names(f, c, true);
    for (int i = 0; i < f->n_panels; i++)
        stance_panel_draw(&f->panel[i], c, GAP + i % COLUMNS * (STANCE_PANEL_WIDTH + GAP),
                          head_height(f) + i / COLUMNS * (STANCE_PANEL_HEIGHT + GAP));
}

static bool ends_with(const char *path, const char *end)
{
    size_t a = strlen(path), b = strlen(end);

    return a > b && strcmp(path + a - b, end) == 0;
}

stance_status stance_figure_write(const struct stance_figure *f, const char *path, struct stance_error *err)
{
    struct stance_string text = { 0 };
    struct stance_aside  a;
    stance_status        status;

    if (ends_with(path, ".png"))
        return stance_canvas_png(path, figure_width(), figure_height(f), 2, draw, (void *)f, err);
    if (!ends_with(path, ".svg"))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: the name of a figure ends with .png or .svg", path);
    stance_canvas_svg(&text, figure_width(), figure_height(f), f->n == 1 ? f->run[0].label : "Comparison of runs", true, draw,
                      (void *)f);
    status = text.failed ? STANCE_FAIL(err, STANCE_ERR_NOMEM, "drawing %s", path) : stance_aside_open(&a, path, err);
    if (status == STANCE_OK) {
        fwrite(text.s, 1, text.len, a.file);
        status = stance_aside_close(&a, status, err);
    }
    stance_string_free(&text);
    return status;
}
