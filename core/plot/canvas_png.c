/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/canvas.h"

#include "eval/aside.h"
#include "io/utf8.h"

#include <cairo.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SURFACE_MAX = 32767 }; /* of cairo */

/* Those of the light style in canvas_svg.c. */
static const unsigned inks[STANCE_INK_SERIES + STANCE_INK_SERIES_COUNT] = {
    0x1a1d21, 0x5c636b, 0xe3e6e9, 0xffffff, 0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xb8860b, 0x56b4e9,
};

static void use(cairo_t *c, int ink, double opacity)
{
    unsigned v = inks[ink];

    cairo_set_source_rgba(c, (v >> 16) / 255.0, (v >> 8 & 255) / 255.0, (v & 255) / 255.0, opacity);
}

static void line(void *ctx, int ink, double width, int dash, const double *xy, int n)
{
    static const double dashes[2][2] = { { 6, 3 }, { 1.5, 2.5 } };
    cairo_t            *c = ctx;

    cairo_new_path(c);
    for (int i = 0; i < n; i++)
        cairo_line_to(c, xy[2 * i], xy[2 * i + 1]);
    cairo_set_dash(c, dash > 0 ? dashes[dash - 1] : NULL, dash > 0 ? 2 : 0, 0);
    cairo_set_line_width(c, width);
    use(c, ink, 1);
    cairo_stroke(c);
}

static void rectangle(void *ctx, int ink, double opacity, double x, double y, double w, double h)
{
    cairo_t *c = ctx;

    cairo_rectangle(c, x, y, w, h);
    use(c, ink, opacity);
    cairo_fill(c);
}

static void disc(void *ctx, int ink, double x, double y, double r)
{
    cairo_t *c = ctx;

    cairo_new_path(c);
    cairo_arc(c, x, y, r, 0, 2 * M_PI);
    use(c, ink, 1);
    cairo_fill(c);
}

/* cairo refuses to go on after a text that is no UTF-8: such bytes become question marks. */
static void clean(const char *text, char *out, size_t size)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    size_t               used = 0;

    while (p < end && used + 5 < size) {
        size_t n = stance_utf8_length(p, end);

        if (n == 0 || *p < ' ') {
            out[used++] = '?';
            p++;
            continue;
        }
        memcpy(out + used, p, n);
        used += n;
        p += n;
    }
    out[used] = '\0';
}

static void text(void *ctx, int ink, const struct stance_label *l, const char *what)
{
    cairo_t             *c = ctx;
    cairo_text_extents_t e;
    char                 shown[512];

    clean(what, shown, sizeof shown);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, l->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, l->size);
    cairo_text_extents(c, shown, &e);
    cairo_move_to(c, l->x - e.x_advance * (l->anchor + 1) / 2, l->y);
    use(c, ink, 1);
    cairo_show_text(c, shown);
}

static const struct stance_canvas_ops ops = { line, rectangle, disc, text };

static cairo_status_t put(void *ctx, const unsigned char *data, unsigned length)
{
    return fwrite(data, 1, length, ctx) == length ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

stance_status stance_canvas_png(const char *path, double width, double height, double scale,
                                void (*draw)(const struct stance_canvas *c, void *ctx), void *ctx, struct stance_error *err)
{
    struct stance_aside a;
    cairo_surface_t    *s;
    cairo_t            *c;
    cairo_status_t      got;
    stance_status       status;

    if (!(width * scale >= 1 && height * scale >= 1 && width * scale <= SURFACE_MAX && height * scale <= SURFACE_MAX))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "drawing %s: %.0f x %.0f pixels are no image", path, width * scale,
                           height * scale);
    s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * scale), (int)ceil(height * scale));
    c = cairo_create(s);
    cairo_scale(c, scale, scale);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    use(c, STANCE_INK_PAPER, 1);
    cairo_paint(c);
    draw(&(struct stance_canvas){ &ops, c }, ctx);
    got = cairo_status(c);
    if (got == CAIRO_STATUS_NO_MEMORY)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "drawing %s", path);
    else if (got != CAIRO_STATUS_SUCCESS)
        status = STANCE_FAIL(err, STANCE_ERR_INTERNAL, "drawing %s: %s", path, cairo_status_to_string(got));
    else
        status = stance_aside_open(&a, path, err);
    if (status == STANCE_OK) {
        got = cairo_surface_write_to_png_stream(s, put, a.file);
        if (got == CAIRO_STATUS_NO_MEMORY)
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "drawing %s", path);
        else if (got != CAIRO_STATUS_SUCCESS && !ferror(a.file))
            status = STANCE_FAIL(err, STANCE_ERR_INTERNAL, "drawing %s: %s", path, cairo_status_to_string(got));
        status = stance_aside_close(&a, status, err);
    }
    cairo_destroy(c);
    cairo_surface_destroy(s);
    return status;
}
