/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/panel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 56, RIGHT = 16, TOP = 40, BOTTOM = 44, POINTS_MAX = 4096 };

/* Where the axes lie on the canvas. */
struct frame { const struct stance_canvas *c; double x, y, w, h; struct stance_axis ax, ay; };

static double at_x(const struct frame *f, double v)
{
    return f->x + f->w * stance_axis_place(&f->ax, v);
}

/* NaN stays. */
static double at_y(const struct frame *f, double v)
{
    double part = stance_axis_place(&f->ay, v);

    return f->y + f->h * (1 - (part < 0 ? 0 : part > 1 ? 1 : part));
}

static void put_text(const struct stance_canvas *c, int ink, double x, double y, double size, int anchor, bool bold,
                     const char *text)
{
    struct stance_label l = { x, y, size, anchor, bold };

    c->ops->text(c->ctx, ink, &l, text);
}

static void put_line(const struct stance_canvas *c, int ink, double width, double x0, double y0, double x1, double y1)
{
    c->ops->line(c->ctx, ink, width, 0, (const double[]){ x0, y0, x1, y1 }, 2);
}

static int ink_of(int number)
{
    return STANCE_INK_SERIES + number % STANCE_INK_SERIES_COUNT;
}

static int dash_of(int number)
{
    return number / STANCE_INK_SERIES_COUNT % 3;
}

bool stance_panel_filled(const struct stance_panel *p)
{
    return p->n > 0 || p->n_exponents > 0;
}

/* ---- axes ------------------------------------------------------------------------------------------- */

/* Labels of the x axis do not touch: those that would are left out. */
static void draw_axes(const struct frame *f, const char *x_title, double y)
{
    const struct stance_canvas *c = f->c;
    double                      end = -1e9;

    for (int i = 0; i < f->ay.n; i++) {
        double v = at_y(f, f->ay.tick[i].at);

        put_line(c, STANCE_INK_GRID, 1, f->x, v, f->x + f->w, v);
        put_text(c, STANCE_INK_FAINT, f->x - 7, v + 4, 11, 1, false, f->ay.tick[i].text);
    }
    put_line(c, STANCE_INK_FAINT, 1, f->x, f->y + f->h, f->x + f->w, f->y + f->h);
    for (int i = 0; i < f->ax.n; i++) {
        double v = at_x(f, f->ax.tick[i].at), half = stance_canvas_width(f->ax.tick[i].text, 11, false) / 2;

        put_line(c, STANCE_INK_FAINT, 1, v, f->y + f->h, v, f->y + f->h + 4);
        if (v - half < end + 6)
            continue;
        put_text(c, STANCE_INK_FAINT, v, f->y + f->h + 16, 11, 0, false, f->ax.tick[i].text);
        end = v + half;
    }
    put_text(c, STANCE_INK_FAINT, f->x + f->w / 2, y + STANCE_PANEL_HEIGHT - 10, 11, 0, false, x_title);
}

/* Right to left in the row of the title; what has no room there is left out (names of runs stand over the
 * figure besides). */
static void draw_legend(const struct stance_canvas *c, const struct stance_panel *p, double x, double y)
{
    double right = x + STANCE_PANEL_WIDTH - RIGHT, left = x + LEFT - 44 + stance_canvas_width(p->title, 13, true) + 16;
    double used = 0;
    int    n = 0;

    while (n < p->n && left + used + 28 + stance_canvas_width(p->line[n].label, 11, false) < right)
        used += 28 + stance_canvas_width(p->line[n++].label, 11, false);
    for (int i = 0; i < n; i++) {
        double at = right - used;

        c->ops->line(c->ctx, ink_of(p->line[i].number), 2.5, dash_of(p->line[i].number),
                     (const double[]){ at, y + 16, at + 14, y + 16 }, 2);
        put_text(c, STANCE_INK_FAINT, at + 18, y + 20, 11, -1, false, p->line[i].label);
        used -= 28 + stance_canvas_width(p->line[i].label, 11, false);
    }
}

/* ---- curves ------------------------------------------------------------------------------------------- */

struct range { double min, max, least; /* > 0 */ };

static struct range range_of(const struct stance_panel *p)
{
    struct range r = { INFINITY, -INFINITY, INFINITY };

    for (int i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->line[i].series->n; k++) {
            double v = p->line[i].series->point[k].value;

            if (!isfinite(v))
                continue;
            r.min = fmin(r.min, v);
            r.max = fmax(r.max, v);
            if (v > 0)
                r.least = fmin(r.least, v);
        }
    return r;
}

static void make_y_axis(const struct stance_panel *p, struct stance_axis *a)
{
    struct range r = range_of(p);

    if (!(r.min <= r.max))
        r = (struct range){ 0, 1, 1 };
    if (p->scale == STANCE_PANEL_LOG2 && r.least <= r.max)
        stance_axis_make(a, STANCE_AXIS_LOG2, r.least, r.max, false, false, 6);
    else if (p->scale == STANCE_PANEL_AUTO && r.min > 0 && r.max > 20 * r.min)
        stance_axis_make(a, STANCE_AXIS_LOG10, r.min, r.max, false, false, 6);
    else if (p->scale == STANCE_PANEL_UNIT && r.min >= 0 && r.max <= 1)
        stance_axis_make(a, STANCE_AXIS_LINEAR, 0, 1, false, false, 5);
    else
        stance_axis_make(a, STANCE_AXIS_LINEAR, fmin(r.min, 0), fmax(r.max, 0), false, p->scale == STANCE_PANEL_COUNT, 5);
}

/* A stretch of a curve without gaps. */
struct stretch { double xy[2 * POINTS_MAX]; int n; };

static void finish_stretch(const struct frame *f, const struct stance_panel *p, const struct stance_panel_line *l,
                           struct stretch *s)
{
    const struct stance_canvas *c = f->c;

    if (s->n > 1)
        c->ops->line(c->ctx, ink_of(l->number), p->nested && dash_of(l->number) == 0 ? 1.4 + 0.6 * l->number : 1.6,
                     dash_of(l->number), s->xy, s->n);
    for (int i = 0; i < s->n && (p->dots || s->n == 1); i++)
        c->ops->disc(c->ctx, ink_of(l->number), s->xy[2 * i], s->xy[2 * i + 1], 2.2);
    s->n = 0;
}

static void add_point(struct stretch *s, double x, double y)
{
    s->xy[2 * s->n]     = x;
    s->xy[2 * s->n + 1] = y;
    s->n++;
}

static void draw_curve(const struct frame *f, const struct stance_panel *p, const struct stance_panel_line *l)
{
    const struct stance_series *series = l->series;
    struct stretch              s = { .n = 0 };
    int                         per = 1;
    double                      low = 0, high = 0, y_before = 0;
    bool                        open = false;

    /* More points than can be seen: two of each bin of neighbours are drawn, its lowest and its highest. */
    while (series->n / (size_t)per > 700)
        per++;
    for (size_t i = 0; i < series->n; i += (size_t)per) {
        size_t lowest = i, highest = i;
        bool   any = false;

        for (size_t k = i; k < series->n && k < i + (size_t)per; k++) {
            double y = at_y(f, series->point[k].value);

            if (!isfinite(y))
                continue;
            if (!any || y < low) {
                low    = y;
                lowest = k;
            }
            if (!any || y > high) {
                high    = y;
                highest = k;
            }
            any = true;
        }
        if (!any) {
            finish_stretch(f, p, l, &s);
            open = false;
            continue;
        }
        for (int half = 0; half < (lowest == highest ? 1 : 2); half++) {
            bool   use_low = (lowest < highest) == (half == 0);
            double x = at_x(f, (double)series->point[use_low ? lowest : highest].step), y = use_low ? low : high;

            if (s.n + 2 > POINTS_MAX)
                finish_stretch(f, p, l, &s);
            if (p->steps && open)
                add_point(&s, x, y_before);
            add_point(&s, x, y);
            y_before = y;
            open     = true;
        }
    }
    finish_stretch(f, p, l, &s);
}

static void draw_curves(const struct stance_panel *p, struct frame *f, double x, double y)
{
    stance_axis_make(&f->ax, STANCE_AXIS_LINEAR, 0, p->last > 0 ? (double)p->last : 1, true, true, 6);
    make_y_axis(p, &f->ay);
    draw_axes(f, "step", y);
    for (int i = p->n; i-- > 0;) /* the first one on top */
        draw_curve(f, p, &p->line[i]);
    if (p->legend)
        draw_legend(f->c, p, x, y);
}

/* ---- exponents ------------------------------------------------------------------------------------------ */

static double share(const struct stance_exponents *e, int i)
{
    uint64_t n = stance_exponents_total(e) - e->zero - e->inf - e->nan;

    return n > 0 ? 100 * (double)e->count[i] / (double)n : 0;
}

static void draw_outline(const struct frame *f, const struct stance_exponents *e, int number)
{
    double xy[4 * STANCE_EXPONENTS + 4];
    int    n = 0;

    for (int i = 0; i < STANCE_EXPONENTS; i++) {
        double y = at_y(f, share(e, i)), left = at_x(f, STANCE_EXPONENT_FIRST + i), right = at_x(f, STANCE_EXPONENT_FIRST + i + 1);

        if (share(e, i) > 0)
            f->c->ops->rectangle(f->c->ctx, ink_of(number), 0.12, left, y, right - left, f->y + f->h - y);
        xy[n++] = left;
        xy[n++] = y;
        xy[n++] = right;
        xy[n++] = y;
    }
    f->c->ops->line(f->c->ctx, ink_of(number), 1.6, dash_of(number), xy, n / 2);
}

/* What binary16 does to a magnitude, as a band behind the bars. */
static void draw_band(const struct frame *f, double from, double to, double opacity, const char *text)
{
    double left = at_x(f, from), right = at_x(f, to);

    f->c->ops->rectangle(f->c->ctx, STANCE_INK_FAINT, opacity, left, f->y, right - left, f->h);
    put_text(f->c, STANCE_INK_FAINT, (left + right) / 2, f->y + 12, 10, 0, false, text);
}

/* The magnitudes that the loss scale brings into the range of binary16. */
static void draw_reach(const struct frame *f, float scale)
{
    double shift = log2((double)scale), from = fmax(-25 - shift, STANCE_EXPONENT_FIRST), to = fmin(16 - shift, STANCE_EXPONENT_LAST + 1);
    double left = at_x(f, from), right = at_x(f, to), y = f->y + 22;
    char   text[64];

    if (from >= to)
        return;
    put_line(f->c, STANCE_INK_TEXT, 1.2, left, y, right, y);
    put_line(f->c, STANCE_INK_TEXT, 1.2, left, y - 3, left, y + 3);
    put_line(f->c, STANCE_INK_TEXT, 1.2, right, y - 3, right, y + 3);
    snprintf(text, sizeof text, "kept by the loss scale %.6g", (double)scale);
    put_text(f->c, STANCE_INK_TEXT, (left + right) / 2, y + 13, 10, 0, false, text);
}

static void draw_exponents(const struct stance_panel *p, struct frame *f, double x, double y)
{
    double most = 0;

    for (int k = 0; k < p->n_exponents; k++)
        for (int i = 0; i < STANCE_EXPONENTS; i++) {
            most = fmax(most, share(&p->exponents[k].of->e.activation, i));
            most = p->alone ? fmax(most, share(&p->exponents[k].of->e.weight, i)) : most;
        }
    stance_axis_make(&f->ax, STANCE_AXIS_LINEAR, STANCE_EXPONENT_FIRST, STANCE_EXPONENT_LAST + 1, true, true, 7);
    f->ax.n = 0;
    for (int e = STANCE_EXPONENT_FIRST; e <= STANCE_EXPONENT_LAST + 1; e += 8) {
        f->ax.tick[f->ax.n].at = e;
        snprintf(f->ax.tick[f->ax.n].text, sizeof f->ax.tick[0].text, "2^%d", e);
        f->ax.n++;
    }
    /* Room for what stands over the bars. */
    stance_axis_make(&f->ay, STANCE_AXIS_LINEAR, 0, fmax(most, 1) * 1.25, false, false, 5);
    draw_band(f, STANCE_EXPONENT_FIRST, -25, 0.22, "0 in fp16");
    draw_band(f, -25, -14, 0.10, "subnormal");
    put_text(f->c, STANCE_INK_FAINT, at_x(f, 1), f->y + 12, 10, 0, false, "normal");
    draw_axes(f, "magnitude of a gradient, divided by the loss scale", y);
    for (int k = p->n_exponents; k-- > 0;) {
        if (p->alone)
            draw_outline(f, &p->exponents[k].of->e.weight, 1);
        draw_outline(f, &p->exponents[k].of->e.activation, p->exponents[k].number);
    }
    if (p->alone)
        draw_reach(f, p->exponents[0].of->e.scale);
    if (p->legend)
        draw_legend(f->c, p, x, y);
}

void stance_panel_draw(const struct stance_panel *p, const struct stance_canvas *c, double x, double y)
{
    struct frame f = { .c = c, .x = x + LEFT, .y = y + TOP, .w = STANCE_PANEL_WIDTH - LEFT - RIGHT,
                       .h = STANCE_PANEL_HEIGHT - TOP - BOTTOM };

    put_text(c, STANCE_INK_TEXT, x + 12, y + 20, 13, -1, true, p->title);
    if (p->n_exponents > 0)
        draw_exponents(p, &f, x, y);
    else
        draw_curves(p, &f, x, y);
}
