/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/aside.h"
#include "eval/overlay.h"
#include "io/utf8.h"

#include <stance/alloc.h>

#include <cairo.h>
#include <math.h>
#include <string.h>
#include <strings.h>

enum side { LEFT, RIGHT, MIDDLE, SIDES };

/* Orange, blue and green of Okabe and Ito's palette, the latter two lightened for dark grounds. */
static const double colours[SIDES][3] = { { 0.98, 0.62, 0.00 }, { 0.25, 0.69, 1.00 }, { 0.25, 0.85, 0.45 } };
static const char *const side_words[SIDES] = { "left", "right", "middle" };

enum { SURFACE_MAX = 32767 }; /* of cairo */

/* ---- sides ------------------------------------------------------------------------------------- */

/* Whether a name tells the side: "left_eye", "eye_left", "LEye", "l_eye", "Left Eye". */
static bool tells(const char *name, const char *word)
{
    size_t n = strlen(word), len = strlen(name);

    if (strncasecmp(name, word, n) == 0 || (len > n && strcasecmp(name + len - n, word) == 0))
        return true;
    for (const char *c = name; *c != '\0'; c++)
        if ((*c == '_' || *c == ' ' || *c == '-') && strncasecmp(c + 1, word, n) == 0)
            return true;
    return (name[0] == word[0] || name[0] == word[0] - 'a' + 'A') && name[1] == '_';
}

/* Points that a mirror leaves alone are in the middle. The others by name; nameless, the lower number
 * of a pair is the left one, as in COCO. */
static enum side side_of(const struct stance_pose *pose, int32_t k)
{
    int32_t partner = pose->partner != NULL ? pose->partner[k] : k;

    if (pose->names != NULL && tells(pose->names[k], "left"))
        return LEFT;
    if (pose->names != NULL && tells(pose->names[k], "right"))
        return RIGHT;
    return partner == k ? MIDDLE : k < partner ? LEFT : RIGHT;
}

static enum side side_of_bone(const struct stance_pose *pose, int32_t a, int32_t b)
{
    enum side x = side_of(pose, a), y = side_of(pose, b);

    if (x == y)
        return x;
    return x == MIDDLE ? y : y == MIDDLE ? x : MIDDLE;
}

/* ---- strokes ----------------------------------------------------------------------------------- */

static void set_colour(cairo_t *c, enum side side)
{
    cairo_set_source_rgb(c, colours[side][0], colours[side][1], colours[side][2]);
}

static void set_dark(cairo_t *c, double alpha)
{
    cairo_set_source_rgba(c, 0.05, 0.05, 0.08, alpha);
}

/* Strokes the path, rimmed; keeps no path. */
static void stroke_rimmed(cairo_t *c, enum side side, double width, double rim)
{
    cairo_set_line_width(c, width + 2 * rim);
    set_dark(c, 0.75);
    cairo_stroke_preserve(c);
    cairo_set_line_width(c, width);
    set_colour(c, side);
    cairo_stroke(c);
}

static void draw_dot(cairo_t *c, double x, double y, enum side side, double radius, double rim)
{
    cairo_new_path(c);
    cairo_arc(c, x, y, radius + rim, 0, 2 * M_PI);
    set_dark(c, 0.9);
    cairo_fill(c);
    cairo_arc(c, x, y, radius, 0, 2 * M_PI);
    set_colour(c, side);
    cairo_fill(c);
}

/* Width of a label; the font size is set. */
static double label_width(cairo_t *c, double size, const char *text)
{
    cairo_text_extents_t e;

    cairo_set_font_size(c, size);
    cairo_text_extents(c, text, &e);
    return e.x_advance + 0.6 * size;
}

/* Light text on a dark plate, 1.3 times as high as the font; (x, y) is its upper left corner. */
static void draw_label(cairo_t *c, double x, double y, double size, const char *text)
{
    cairo_rectangle(c, x, y, label_width(c, size, text), 1.3 * size);
    set_dark(c, 0.7);
    cairo_fill(c);
    cairo_move_to(c, x + 0.3 * size, y + size);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_show_text(c, text);
}

/* ---- a person ---------------------------------------------------------------------------------- */

/* How image px become px of the drawing. */
struct view { double x, y, scale; };

static bool is_drawn(const struct stance_overlay *how, const float *point)
{
    return point[2] >= how->kpt_thr && isfinite(point[0]) && isfinite(point[1]);
}

/* Dots grow with the person: px of the drawing. */
static double dot_radius(const struct stance_overlay *how, const struct stance_overlay_person *p,
                         const struct view *v)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY, radius;

    for (int32_t k = 0; k < how->pose->keypoints; k++) {
        const float *q = p->keypoint + 3 * k;

        if (!is_drawn(how, q))
            continue;
        x0 = fmin(x0, q[0]);
        x1 = fmax(x1, q[0]);
        y0 = fmin(y0, q[1]);
        y1 = fmax(y1, q[1]);
    }
    radius = 0.014 * hypot(x1 - x0, y1 - y0) * v->scale;
    return radius > 5.5 ? 5.5 : radius > 1.8 ? radius : 1.8; /* without points too */
}

static void draw_box(cairo_t *c, const struct stance_overlay_person *p, const struct view *v)
{
    const double *b = p->box;

    cairo_rectangle(c, (b[0] - v->x) * v->scale, (b[1] - v->y) * v->scale, b[2] * v->scale,
                    b[3] * v->scale);
    cairo_set_line_width(c, 3);
    set_dark(c, 0.6);
    cairo_stroke_preserve(c);
    cairo_set_line_width(c, 1.2);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_stroke(c);
}

/* Over the box, or in its corner at the upper edge; not where it would hide a small person. */
static void draw_score(cairo_t *c, const struct stance_overlay_person *p, const struct view *v)
{
    const double size = 11, high = 1.3 * size;
    double       x = (p->box[0] - v->x) * v->scale, y = (p->box[1] - v->y) * v->scale;
    char         text[32];

    snprintf(text, sizeof text, "%d %%", (int)lrint(100 * fmin(fmax(p->score, 0), 9.99)));
    if (p->box[3] * v->scale < 4 * high || p->box[2] * v->scale < label_width(c, size, text))
        return;
    draw_label(c, fmax(x, 0), y >= high ? y - high : fmax(y, 0), size, text);
}

static void draw_person(cairo_t *c, const struct stance_overlay *how,
                        const struct stance_overlay_person *p, const struct view *v)
{
    const struct stance_pose *pose   = how->pose;
    double                    radius = dot_radius(how, p, v), rim = 0.35 * radius + 0.5;

    if (p->box != NULL)
        draw_box(c, p, v);
    for (int32_t i = 0; i < pose->bones; i++) {
        int32_t      a = pose->skeleton[2 * i], b = pose->skeleton[2 * i + 1];
        const float *q = p->keypoint + 3 * a, *r = p->keypoint + 3 * b;

        if (!is_drawn(how, q) || !is_drawn(how, r))
            continue;
        cairo_move_to(c, (q[0] - v->x) * v->scale, (q[1] - v->y) * v->scale);
        cairo_line_to(c, (r[0] - v->x) * v->scale, (r[1] - v->y) * v->scale);
        stroke_rimmed(c, side_of_bone(pose, a, b), radius, 0.6 * rim);
    }
    for (int32_t k = 0; k < pose->keypoints; k++) {
        const float *q = p->keypoint + 3 * k;

        if (is_drawn(how, q))
            draw_dot(c, (q[0] - v->x) * v->scale, (q[1] - v->y) * v->scale, side_of(pose, k), radius, rim);
    }
    if (p->box != NULL && isfinite(p->score))
        draw_score(c, p, v);
}

/* Which sides the pose has, and in what colours; (x, y) is the lower left corner.
 * @return its width; with draw false it is only measured */
static double legend(cairo_t *c, const struct stance_pose *pose, double x, double y, double size, bool draw)
{
    bool   has[SIDES] = { false };
    double start      = x;

    for (int32_t k = 0; k < pose->keypoints; k++)
        has[side_of(pose, k)] = true;
    for (int s = 0; s < SIDES; s++) {
        if (!has[s])
            continue;
        if (draw) {
            draw_label(c, x + 1.3 * size, y - 1.3 * size, size, side_words[s]);
            cairo_rectangle(c, x, y - 1.3 * size, 1.3 * size, 1.3 * size);
            set_dark(c, 0.7);
            cairo_fill(c);
            draw_dot(c, x + 0.8 * size, y - 0.62 * size, (enum side)s, 0.36 * size, 0.1 * size);
        }
        x += 1.3 * size + label_width(c, size, side_words[s]);
    }
    return x - start;
}

/* In the lower left corner, as small as it has to be, or not at all. */
static void draw_legend(cairo_t *c, const struct stance_pose *pose, double width, double height)
{
    double size = 12, wanted = legend(c, pose, 0, height, size, false);

    if (wanted > width)
        size *= width / wanted;
    if (size >= 7)
        legend(c, pose, 0, height, size, true);
}

/* ---- surfaces ---------------------------------------------------------------------------------- */

static stance_status told(cairo_status_t s, const char *path, struct stance_error *err)
{
    if (s == CAIRO_STATUS_SUCCESS)
        return STANCE_OK;
    if (s == CAIRO_STATUS_NO_MEMORY)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "drawing %s", path);
    if (s == CAIRO_STATUS_WRITE_ERROR)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: it could not be written", path);
    return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "drawing %s: %s", path, cairo_status_to_string(s));
}

/* cairo's 32-bit form of an image; check its status. */
static cairo_surface_t *surface_of(const struct stance_image *image)
{
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, image->width, image->height);
    unsigned char   *data;
    int              stride;

    if (cairo_surface_status(s) != CAIRO_STATUS_SUCCESS)
        return s;
    data   = cairo_image_surface_get_data(s);
    stride = cairo_image_surface_get_stride(s);
    for (int32_t y = 0; y < image->height; y++) {
        const uint8_t *in = image->rgb + (size_t)y * (size_t)image->width * 3;

        for (int32_t x = 0; x < image->width; x++, in += 3) {
            uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];

            memcpy(data + (size_t)y * (size_t)stride + 4 * (size_t)x, &v, 4);
        }
    }
    cairo_surface_mark_dirty(s);
    return s;
}

static cairo_status_t write_bytes(void *file, const unsigned char *data, unsigned int size)
{
    return fwrite(data, 1, size, file) == size ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* Ends the drawing: the file is whole or not there. */
static stance_status write_png(cairo_t *c, cairo_surface_t *s, const char *path, struct stance_error *err)
{
    struct stance_aside a;
    stance_status       status = told(cairo_status(c), path, err);

    if (status == STANCE_OK)
        status = stance_aside_open(&a, path, err);
    if (status != STANCE_OK)
        return status;
    status = told(cairo_surface_write_to_png_stream(s, write_bytes, a.file), path, err);
    return stance_aside_close(&a, status, err);
}

static stance_status check_image(const struct stance_image *image, const char *path, struct stance_error *err)
{
    if (image->rgb == NULL || image->width < 1 || image->height < 1 || image->width > SURFACE_MAX
        || image->height > SURFACE_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "drawing %s: an image of %dx%d px", path,
                           (int)image->width, (int)image->height);
    return STANCE_OK;
}

static void prepare(cairo_t *c)
{
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(c, CAIRO_LINE_CAP_ROUND);
}

stance_status stance_overlay_write(const char *path, const struct stance_image *image,
                                   const struct stance_overlay_person *p, int64_t n,
                                   const struct stance_overlay *how, struct stance_error *err)
{
    const struct view view   = { 0, 0, 1 };
    stance_status     status = check_image(image, path, err);
    cairo_surface_t  *s;
    cairo_t          *c;

    if (status != STANCE_OK)
        return status;
    s = surface_of(image);
    c = cairo_create(s);
    prepare(c);
    for (int64_t i = 0; i < n; i++)
        draw_person(c, how, &p[i], &view);
    if (how->legend)
        draw_legend(c, how->pose, image->width, image->height);
    status = write_png(c, s, path, err);
    cairo_destroy(c);
    cairo_surface_destroy(s);
    return status;
}

/* ---- contact sheet ----------------------------------------------------------------------------- */

enum { GAP = 8, CAPTION = 18, TITLE = 30 };

/* Copies a caption into @p text, cut with an ellipsis to what fits. cairo takes nothing but UTF-8, and
 * file names may be anything. */
static void fit_text(cairo_t *c, const char *caption, double width, char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)caption, *end = s + strlen(caption);
    size_t               starts[256], n = 0, length = 0;
    cairo_text_extents_t e;

    for (; s < end && length + 8 < size && n < sizeof starts / sizeof *starts; n++) {
        size_t one = stance_utf8_length(s, end);

        starts[n] = length;
        memcpy(text + length, one > 0 ? (const char *)s : "?", one > 0 ? one : 1);
        length += one > 0 ? one : 1;
        s += one > 0 ? one : 1;
    }
    memcpy(text + length, s < end ? "\xe2\x80\xa6" : "", s < end ? 4 : 1);
    for (cairo_text_extents(c, text, &e); n > 0 && e.x_advance > width; cairo_text_extents(c, text, &e))
        memcpy(text + starts[--n], "\xe2\x80\xa6", 4);
}

static void draw_caption(cairo_t *c, const char *caption, double x, double y, double width)
{
    char text[256];

    cairo_set_font_size(c, 12);
    cairo_set_source_rgb(c, 0.1, 0.1, 0.1);
    fit_text(c, caption, width, text, sizeof text);
    cairo_move_to(c, x, y);
    cairo_show_text(c, text);
}

/* The title at the left, the legend at the right if there is room for it. */
static void draw_head(cairo_t *c, const struct stance_overlay *how, const char *title, double width)
{
    double legend_width = how->legend ? legend(c, how->pose, 0, 0, 12, false) : 0;
    double room         = width - 3 * GAP - legend_width;

    if (how->legend && room >= 0)
        legend(c, how->pose, width - GAP - legend_width, TITLE - 6, 12, true);
    if (title != NULL)
        draw_caption(c, title, GAP, TITLE - 10, how->legend && room >= 0 ? room : width - 2 * GAP);
}

static stance_status draw_tile(cairo_t *c, const struct stance_overlay_tile *tile, double x, double y,
                               double side, const struct stance_overlay *how, const char *path,
                               struct stance_error *err)
{
    stance_status    status = check_image(&tile->image, path, err);
    cairo_surface_t *s;
    struct view      view = { 0, 0, side / fmax(tile->image.width, tile->image.height) };
    double           w = tile->image.width * view.scale, h = tile->image.height * view.scale;

    if (status != STANCE_OK)
        return status;
    s = surface_of(&tile->image);
    cairo_save(c);
    cairo_translate(c, x + floor((side - w) / 2), y + floor((side - h) / 2));
    cairo_rectangle(c, 0, 0, w, h);
    cairo_clip(c);
    cairo_save(c);
    cairo_scale(c, view.scale, view.scale);
    cairo_set_source_surface(c, s, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(c), CAIRO_FILTER_GOOD);
    cairo_pattern_set_extend(cairo_get_source(c), CAIRO_EXTEND_PAD); /* no soft edge */
    cairo_paint(c);
    cairo_restore(c);
    for (int64_t i = 0; i < tile->n; i++)
        draw_person(c, how, &tile->p[i], &view);
    cairo_restore(c);
    status = told(cairo_surface_status(s), path, err);
    cairo_surface_destroy(s);
    if (tile->caption != NULL)
        draw_caption(c, tile->caption, x, y + side + CAPTION - 5, side);
    return status;
}

stance_status stance_overlay_sheet(const char *path, const struct stance_overlay_tile *tiles, int64_t n,
                                   int columns, int side, const char *title,
                                   const struct stance_overlay *how, struct stance_error *err)
{
    int64_t          rows, head = title != NULL || how->legend ? TITLE : 0, width, height;
    cairo_surface_t *s;
    cairo_t         *c;
    stance_status    status = STANCE_OK;

    if (columns < 1 || side < 32 || side > 2048 || n < 1)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "drawing %s: %lld pictures of %d px in %d columns", path,
                           (long long)n, side, columns);
    rows   = (n + columns - 1) / columns;
    width  = GAP + (int64_t)(n < columns ? n : columns) * (side + GAP);
    height = head + GAP + rows * (side + CAPTION + GAP);
    if (width > SURFACE_MAX || height > SURFACE_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "drawing %s: %lld pictures of %d px are too many", path,
                           (long long)n, side);
    s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)width, (int)height);
    c = cairo_create(s);
    prepare(c);
    cairo_set_source_rgb(c, 0.93, 0.93, 0.93);
    cairo_paint(c);
    draw_head(c, how, title, (double)width);
    for (int64_t i = 0; i < n && status == STANCE_OK; i++)
        status = draw_tile(c, &tiles[i], GAP + (double)(i % columns) * (side + GAP),
                           (double)head + GAP + (double)(i / columns) * (side + CAPTION + GAP), side, how,
                           path, err);
    if (status == STANCE_OK)
        status = write_png(c, s, path, err);
    cairo_destroy(c);
    cairo_surface_destroy(s);
    return status;
}
