/* SPDX-License-Identifier: Apache-2.0 */
#include "synthetic_paint.h"

#include <math.h>
#include <stddef.h>

/* Direction to the light, length 1: upper left, in front. */
#define LIGHT_X (-0.48F)
#define LIGHT_Y (-0.60F)
#define LIGHT_Z 0.64F

/* A point as a shape sees it: distance to the edge (negative inside), and the normal of the round
 * body that the shape stands for. */
struct spot { float distance, nx, ny; };

static float clamp(float v, float low, float high)
{
    return v < low ? low : v > high ? high : v;
}

struct colour colour_hsv(float hue, float saturation, float value)
{
    float h = (hue - floorf(hue)) * 6, c[3];

    for (int i = 0; i < 3; i++) {
        float at = fabsf(fmodf(h + (i == 0 ? 0.0F : i == 1 ? 4.0F : 2.0F), 6) - 3) - 1;

        c[i] = 255 * value * (1 - saturation * (1 - clamp(at, 0, 1)));
    }
    return rgb(c[0], c[1], c[2]);
}

/* The union of the circles between both ends. With x along the axis and y across, the nearest
 * circle is where the derivative of |p - c(t)| - r(t) vanishes: at x + y k / sqrt(1 - k^2), k the
 * slope of the radius. */
static struct spot stroke_spot(const struct shape *s, struct vec2 p)
{
    float dx = s->b.x - s->a.x, dy = s->b.y - s->a.y, length = sqrtf(dx * dx + dy * dy), t, r;
    float px = p.x - s->a.x, py = p.y - s->a.y;
    struct spot at;

    if (length <= fabsf(s->ra - s->rb) + 1e-3F) { /* one circle holds the other */
        t = s->ra >= s->rb ? 0 : 1;
    } else {
        float k = (s->rb - s->ra) / length, x = (px * dx + py * dy) / length;
        float y = fabsf(px * dy - py * dx) / length;

        t = clamp((x + y * k / sqrtf(1 - k * k)) / length, 0, 1);
    }
    px -= t * dx;
    py -= t * dy;
    r           = s->ra + t * (s->rb - s->ra);
    at.distance = sqrtf(px * px + py * py) - r;
    at.nx       = px / r;
    at.ny       = py / r;
    return at;
}

/* First-order distance: exact on the edge, where it decides. */
static struct spot ellipse_spot(const struct shape *s, struct vec2 p)
{
    float px = p.x - s->a.x, py = p.y - s->a.y;
    float u = (px * s->b.x + py * s->b.y) / s->ra, v = (py * s->b.x - px * s->b.y) / s->rb;
    float k        = sqrtf(u * u + v * v),
          slope    = sqrtf(u * u / (s->ra * s->ra) + v * v / (s->rb * s->rb));
    struct spot at = { k > 1e-3F ? k * (k - 1) / slope : -least(s->ra, s->rb), 0, 0 };

    at.nx = u * s->b.x - v * s->b.y;
    at.ny = u * s->b.y + v * s->b.x;
    return at;
}

static struct spot polygon_spot(const struct shape *s, struct vec2 p)
{
    float       best = 1e30F, cx = 0, cy = 0, reach = 0;
    bool        inside = false;
    struct spot at;

    for (int i = 0, j = s->corners - 1; i < s->corners; j = i++) {
        struct vec2 a = s->corner[j], b = s->corner[i];
        float       ex = b.x - a.x, ey = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
        float       t = clamp((px * ex + py * ey) / most(ex * ex + ey * ey, 1e-6F), 0, 1);
        float       qx = px - t * ex, qy = py - t * ey;

        best = least(best, qx * qx + qy * qy);
        if ((a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x)
            inside = !inside;
        cx += b.x / (float)s->corners;
        cy += b.y / (float)s->corners;
    }
    for (int i = 0; i < s->corners; i++) {
        float x = s->corner[i].x - cx, y = s->corner[i].y - cy;

        reach = most(reach, x * x + y * y);
    }
    reach       = sqrtf(reach);
    at.distance = (inside ? -sqrtf(best) : sqrtf(best)) - s->ra;
    at.nx       = (p.x - cx) / (reach + s->ra);
    at.ny       = (p.y - cy) / (reach + s->ra);
    return at;
}

static struct spot shape_spot(const struct shape *s, struct vec2 p)
{
    switch (s->kind) {
    case SHAPE_STROKE:
        return stroke_spot(s, p);
    case SHAPE_POLYGON:
        return polygon_spot(s, p);
    default:
        return ellipse_spot(s, p);
    }
}

bool shape_covers(const struct shape *s, struct vec2 p)
{
    return s->fill.clear < 0.5F && shape_spot(s, p).distance < 0;
}

void shape_bounds(const struct shape *s, struct vec2 *low, struct vec2 *high)
{
    float edge = most(s->fill.soft, 1);

    if (s->kind == SHAPE_POLYGON) {
        *low = *high = s->corner[0];
        for (int i = 1; i < s->corners; i++) {
            *low  = vec2(least(low->x, s->corner[i].x), least(low->y, s->corner[i].y));
            *high = vec2(most(high->x, s->corner[i].x), most(high->y, s->corner[i].y));
        }
        edge += s->ra;
    } else if (s->kind == SHAPE_STROKE) {
        *low  = vec2(least(s->a.x - s->ra, s->b.x - s->rb), least(s->a.y - s->ra, s->b.y - s->rb));
        *high = vec2(most(s->a.x + s->ra, s->b.x + s->rb), most(s->a.y + s->ra, s->b.y + s->rb));
    } else {
        float x = sqrtf(s->ra * s->ra * s->b.x * s->b.x + s->rb * s->rb * s->b.y * s->b.y);
        float y = sqrtf(s->ra * s->ra * s->b.y * s->b.y + s->rb * s->rb * s->b.x * s->b.x);

        *low  = vec2(s->a.x - x, s->a.y - y);
        *high = vec2(s->a.x + x, s->a.y + y);
    }
    *low  = vec2(low->x - edge, low->y - edge);
    *high = vec2(high->x + edge, high->y + edge);
}

static bool pattern_second(const struct fill *f, struct vec2 p)
{
    float x = p.x - f->origin.x, y = p.y - f->origin.y;
    float u = (x * f->along.x + y * f->along.y) / f->period,
          v = (y * f->along.x - x * f->along.y) / f->period;

    u -= floorf(u);
    v -= floorf(v);
    switch (f->pattern) {
    case PATTERN_STRIPES:
        return u < 0.45F;
    case PATTERN_DOTS:
        return (u - 0.5F) * (u - 0.5F) + (v - 0.5F) * (v - 0.5F) < 0.08F;
    case PATTERN_CHECKS:
        return (u < 0.5F) != (v < 0.5F);
    default:
        return false;
    }
}

static struct colour shape_colour(const struct shape *s, struct vec2 p, const struct spot *at)
{
    const struct fill *f     = &s->fill;
    struct colour c = f->pattern != PATTERN_PLAIN && pattern_second(f, p) ? f->second : f->colour;
    float              front = sqrtf(most(0, 1 - at->nx * at->nx - at->ny * at->ny));

    if (s->kind == SHAPE_BALL) {
        float down  = s->turn[1][0] * at->nx + s->turn[1][1] * at->ny + s->turn[1][2] * front;
        float ahead = s->turn[2][0] * at->nx + s->turn[2][1] * at->ny + s->turn[2][2] * front;

        if (down < s->cap)
            c = s->hat;
        else if (down < s->hair_side - s->hair_slope * ahead)
            c = s->hair;
    }
    c = colour_scale(c,
                     1 + f->shade * (LIGHT_X * at->nx + LIGHT_Y * at->ny + LIGHT_Z * (front - 1)));
    return f->outline > 0 && at->distance > -f->outline ? colour_scale(c, 0.62F) : c;
}

static uint8_t blend(uint8_t below, float above, float alpha)
{
    return (uint8_t)clamp((float)below + (above - (float)below) * alpha + 0.5F, 0, 255);
}

void canvas_paint(const struct canvas *canvas, const struct shape *s)
{
    float       soft = s->fill.soft > 0 ? s->fill.soft : 1;
    struct vec2 low, high;
    int         x0, y0, x1, y1;

    shape_bounds(s, &low, &high);
    x0 = (int)clamp(floorf(low.x), 0, (float)canvas->width);
    y0 = (int)clamp(floorf(low.y), 0, (float)canvas->height);
    x1 = (int)clamp(ceilf(high.x) + 1, 0, (float)canvas->width);
    y1 = (int)clamp(ceilf(high.y) + 1, 0, (float)canvas->height);
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            struct vec2   p     = vec2((float)x, (float)y);
            struct spot   at    = shape_spot(s, p);
            float         alpha = clamp(0.5F - at.distance / soft, 0, 1) * (1 - s->fill.clear);
            uint8_t      *pixel = canvas->rgb + 3 * ((size_t)y * (size_t)canvas->width + (size_t)x);
            struct colour c;

            if (alpha <= 0)
                continue;
            c        = shape_colour(s, p, &at);
            pixel[0] = blend(pixel[0], c.r, alpha);
            pixel[1] = blend(pixel[1], c.g, alpha);
            pixel[2] = blend(pixel[2], c.b, alpha);
        }
}

static float lattice(int32_t x, int32_t y, uint32_t seed)
{
    uint32_t h = (uint32_t)x * 0x9E3779B1U ^ (uint32_t)y * 0x85EBCA77U ^ seed;

    h = (h ^ h >> 15) * 0x2C1B3C6DU;
    h = (h ^ h >> 12) * 0x297A2D39U;
    return (float)((h ^ h >> 15) >> 8) / 16777216.0F;
}

static float smooth(float t)
{
    return t * t * (3 - 2 * t);
}

struct noise_row noise_row(float y, float cell, uint32_t seed)
{
    float            line = floorf(y / cell);
    struct noise_row row  = { cell, smooth(y / cell - line), INT32_MIN, (int32_t)line, seed, 0, 0 };

    return row;
}

static float column(const struct noise_row *row, int32_t x)
{
    float top = lattice(x, row->line, row->seed), bottom = lattice(x, row->line + 1, row->seed);

    return top + (bottom - top) * row->blend;
}

float noise_at(struct noise_row *row, float x)
{
    float   at = x / row->cell, whole = floorf(at);
    int32_t ix = (int32_t)whole;

    if (ix != row->column) {
        row->left   = column(row, ix);
        row->right  = column(row, ix + 1);
        row->column = ix;
    }
    return row->left + (row->right - row->left) * smooth(at - whole);
}
