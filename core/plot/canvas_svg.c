/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/canvas.h"

#include "io/utf8.h"

#include <math.h>
#include <string.h>

/* Class k0 is TEXT, and so on in the order of enum stance_ink; l: a line, t: text. */
static const char style[] =
    "svg{--k0:#1a1d21;--k1:#5c636b;--k2:#e3e6e9;--k3:#fff;--k4:#0072b2;--k5:#d55e00;--k6:#009e73;--k7:#cc79a7;--k8:#b8860b;"
    "--k9:#56b4e9}\n"
    "@media(prefers-color-scheme:dark){svg{--k0:#e8eaed;--k1:#a3abb4;--k2:#33383e;--k3:#16191d;--k4:#4c9be8;--k5:#ff8a3d;"
    "--k6:#34c999;--k7:#f0a6ca;--k8:#f4c95d;--k9:#bfe3ff}}\n"
    ".k0{fill:var(--k0);stroke:var(--k0)}.k1{fill:var(--k1);stroke:var(--k1)}.k2{fill:var(--k2);stroke:var(--k2)}"
    ".k3{fill:var(--k3);stroke:var(--k3)}.k4{fill:var(--k4);stroke:var(--k4)}.k5{fill:var(--k5);stroke:var(--k5)}"
    ".k6{fill:var(--k6);stroke:var(--k6)}.k7{fill:var(--k7);stroke:var(--k7)}.k8{fill:var(--k8);stroke:var(--k8)}"
    ".k9{fill:var(--k9);stroke:var(--k9)}\n"
    ".l{fill:none;stroke-linejoin:round}.f,.t{stroke:none}.t{font-family:system-ui,\"DejaVu Sans\",sans-serif}\n"
    ".d1{stroke-dasharray:6 3}.d2{stroke-dasharray:1.5 2.5}.b{font-weight:600}.m{text-anchor:middle}.e{text-anchor:end}\n";

const char *stance_svg_style(void)
{
    return style;
}

double stance_canvas_width(const char *text, double size, bool bold)
{
    double n = 0;

    for (const char *c = text; *c != '\0'; c++) {
        if (((unsigned char)*c & 0xc0) == 0x80) /* the rest of a character of several bytes */
            continue;
        n += strchr("ijlIt.,:;'|!()[] ", *c) != NULL ? 0.36 : strchr("mwMW%@", *c) != NULL ? 0.93 : 0.62;
    }
    return n * size * (bold ? 1.08 : 1);
}

void stance_html_add(struct stance_string *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);

    while (p < end) {
        size_t n = stance_utf8_length(p, end);

        if (n == 0 || (*p < ' ' && *p != '\n' && *p != '\t') || *p == 0x7f)
            stance_string_add(out, "\xef\xbf\xbd");
        else if (*p == '&')
            stance_string_add(out, "&amp;");
        else if (*p == '<')
            stance_string_add(out, "&lt;");
        else if (*p == '>')
            stance_string_add(out, "&gt;");
        else if (*p == '"')
            stance_string_add(out, "&quot;");
        else if (*p == '\'')
            stance_string_add(out, "&#39;");
        else
            stance_string_add(out, "%.*s", (int)n, (const char *)p);
        p += n > 0 ? n : 1;
    }
}

/* A length with one or two decimals, without trailing zeros. */
static void number(struct stance_string *out, double v)
{
    long  k = lrint(v * 100);
    char  sign[2] = { k < 0 ? '-' : '\0', '\0' };

    k = k < 0 ? -k : k;
    if (k % 100 == 0)
        stance_string_add(out, "%s%ld", sign, k / 100);
    else if (k % 10 == 0)
        stance_string_add(out, "%s%ld.%ld", sign, k / 100, k / 10 % 10);
    else
        stance_string_add(out, "%s%ld.%02ld", sign, k / 100, k % 100);
}

static void attribute(struct stance_string *out, const char *name, double v)
{
    stance_string_add(out, " %s=\"", name);
    number(out, v);
    stance_string_add(out, "\"");
}

static void line(void *ctx, int ink, double width, int dash, const double *xy, int n)
{
    struct stance_string *out = ctx;

    stance_string_add(out, "<polyline class=\"k%d l", ink);
    if (dash > 0)
        stance_string_add(out, " d%d", dash);
    stance_string_add(out, "\"");
    attribute(out, "stroke-width", width);
    stance_string_add(out, " points=\"");
    for (int i = 0; i < n; i++) {
        if (i > 0)
            stance_string_add(out, " ");
        number(out, xy[2 * i]);
        stance_string_add(out, ",");
        number(out, xy[2 * i + 1]);
    }
    stance_string_add(out, "\"/>\n");
}

static void rectangle(void *ctx, int ink, double opacity, double x, double y, double w, double h)
{
    struct stance_string *out = ctx;

    stance_string_add(out, "<rect class=\"k%d f\"", ink);
    attribute(out, "x", x);
    attribute(out, "y", y);
    attribute(out, "width", w);
    attribute(out, "height", h);
    if (opacity < 1)
        attribute(out, "opacity", opacity);
    stance_string_add(out, "/>\n");
}

static void disc(void *ctx, int ink, double x, double y, double r)
{
    struct stance_string *out = ctx;

    stance_string_add(out, "<circle class=\"k%d f\"", ink);
    attribute(out, "cx", x);
    attribute(out, "cy", y);
    attribute(out, "r", r);
    stance_string_add(out, "/>\n");
}

static void text(void *ctx, int ink, const struct stance_label *l, const char *what)
{
    struct stance_string *out = ctx;

    stance_string_add(out, "<text class=\"k%d t%s%s\"", ink, l->bold ? " b" : "", l->anchor == 0 ? " m" : l->anchor > 0 ? " e" : "");
    attribute(out, "font-size", l->size);
    attribute(out, "x", l->x);
    attribute(out, "y", l->y);
    stance_string_add(out, ">");
    stance_html_add(out, what);
    stance_string_add(out, "</text>\n");
}

static const struct stance_canvas_ops ops = { line, rectangle, disc, text };

void stance_canvas_svg(struct stance_string *out, double width, double height, const char *title, bool alone,
                       void (*draw)(const struct stance_canvas *c, void *ctx), void *ctx)
{
    stance_string_add(out, "<svg%s role=\"img\" viewBox=\"0 0 ", alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "");
    number(out, width);
    stance_string_add(out, " ");
    number(out, height);
    stance_string_add(out, "\"");
    if (alone) {
        attribute(out, "width", width);
        attribute(out, "height", height);
    }
    stance_string_add(out, ">\n<title>");
    stance_html_add(out, title);
    stance_string_add(out, "</title>\n");
    if (alone) {
        stance_string_add(out, "<style>%s</style>\n", style);
        rectangle(out, STANCE_INK_PAPER, 1, 0, 0, width, height);
    }
    draw(&(struct stance_canvas){ &ops, out }, ctx);
    stance_string_add(out, "</svg>\n");
}
