/* SPDX-License-Identifier: Apache-2.0
 *
 * What a figure is drawn on: a PNG by cairo, or SVG text, whose letters stay letters and whose colours
 * follow the reader's choice of dark or light. Lengths are px, y grows downwards. */
#ifndef PLOT_CANVAS_H
#define PLOT_CANVAS_H

#include "base/text.h"

#include <stance/error.h>

/** What something is drawn in, by its meaning. SERIES: of STANCE_INK_SERIES colours, chosen by Okabe and
 *  Ito's palette; they differ in lightness too. */
enum stance_ink { STANCE_INK_TEXT, STANCE_INK_FAINT, STANCE_INK_GRID, STANCE_INK_PAPER, STANCE_INK_SERIES, STANCE_INK_SERIES_COUNT = 6 };

struct stance_label { double x, y, size; int anchor; /**< -1: begins at x, 0: around it, 1: ends there */ bool bold; };

struct stance_canvas_ops {
    /** A line through [n] points x, y. @param dash  0: drawn through; 1, 2: two ways of dashing */
    void (*line)(void *ctx, int ink, double width, int dash, const double *xy, int n);
    void (*rectangle)(void *ctx, int ink, double opacity, double x, double y, double w, double h);
    void (*disc)(void *ctx, int ink, double x, double y, double r);
    void (*text)(void *ctx, int ink, const struct stance_label *l, const char *text);
};

struct stance_canvas { const struct stance_canvas_ops *ops; void *ctx; };

/** About how wide a text is in a sans-serif face: the same on every machine, so that a figure is. */
double stance_canvas_width(const char *text, double size, bool bold);

/** Draws on an image and writes it. @param scale  pixels of the image a px
 *  @return STANCE_OK; STANCE_ERR_IO; STANCE_ERR_NOMEM; STANCE_ERR_RANGE (too large for an image) */
stance_status stance_canvas_png(const char *path, double width, double height, double scale,
                                void (*draw)(const struct stance_canvas *c, void *ctx), void *ctx, struct stance_error *err);

/** Appends one <svg> element. Its colours are classes of stance_svg_style(), which must stand once in the
 *  document. @param title  read out by screen readers; escaped here
 *  @param alone  with the name space and the style, as a file of its own needs it */
void stance_canvas_svg(struct stance_string *out, double width, double height, const char *title, bool alone,
                       void (*draw)(const struct stance_canvas *c, void *ctx), void *ctx);
/** The style sheet: colours for light and dark. */
const char *stance_svg_style(void);

/** Appends text with &, <, > and quotes escaped for HTML and XML; what is no UTF-8, and control
 *  characters, become U+FFFD. */
void stance_html_add(struct stance_string *out, const char *text);

#endif
