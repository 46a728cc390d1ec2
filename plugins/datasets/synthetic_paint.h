/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of the synthetic dataset: a picture is a list of them, painted in order with smooth edges,
 * and asked which one lies on top at a point. A shape is its signed distance, so both come from one
 * function. Lengths are px, x to the right, y down; pixel (0, 0) has its centre at the origin. */
#ifndef SYNTHETIC_PAINT_H
#define SYNTHETIC_PAINT_H

#include <stdbool.h>
#include <stdint.h>

struct vec2 { float x, y; };
struct colour { float r, g, b; }; /* 0 .. 255 */

enum pattern { PATTERN_PLAIN, PATTERN_STRIPES, PATTERN_DOTS, PATTERN_CHECKS };

/* How a shape is filled. */
struct fill {
    struct colour colour, second;
    enum pattern  pattern;
    float         period; /* of the pattern, px */
    struct vec2   origin, along; /* of the pattern; along has length 1 and crosses the stripes */
    float         shade;   /* 0 flat .. 1: light from the upper left, as on a round body */
    float         outline; /* width of the darker rim, px */
    float         soft;    /* width of the edge, px; 0 means 1 */
    float         clear;   /* 0 opaque .. 1 invisible */
};

enum shape_kind {
    SHAPE_STROKE,  /* from a (radius ra) to b (radius rb), round ends */
    SHAPE_ELLIPSE, /* centre a, radii ra along b (of length 1) and rb across */
    SHAPE_POLYGON, /* corners, rounded by ra */
    SHAPE_BALL     /* an ellipse seen as a ball with hair: the head */
};

#define CORNERS_MAX 6

struct shape {
    enum shape_kind kind;
    int             owner; /* what a point on it belongs to: the caller's number, 0 for scenery */
    float           depth; /* larger is nearer; sorted by it before painting */
    struct fill     fill;
    struct vec2     a, b;
    float           ra, rb;
    struct vec2     corner[CORNERS_MAX];
    int             corners;
    float turn[3][3]; /* ball: picture axes to those of the head (rows: its left, down, front) */
    /* ball: hair where down < hair_side - hair_slope * front, a cap where down < cap */
    float hair_side, hair_slope, cap;
    struct colour   hair, hat;
};

struct canvas { uint8_t *rgb; int width, height; };

static inline struct vec2 vec2(float x, float y)
{
    struct vec2 v = { x, y };
    return v;
}

static inline struct colour rgb(float r, float g, float b)
{
    struct colour c = { r, g, b };
    return c;
}

/** Weighted mean: @p t of b. */
static inline struct colour colour_mix(struct colour a, struct colour b, float t)
{
    return rgb(a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t);
}

/** Factor on all three. */
static inline struct colour colour_scale(struct colour c, float f)
{
    return rgb(c.r * f, c.g * f, c.b * f);
}

/** @param hue  turns, any value. @param saturation, value  0 .. 1 */
struct colour colour_hsv(float hue, float saturation, float value);

/** Smallest box around a shape, edge included. */
void shape_bounds(const struct shape *s, struct vec2 *low, struct vec2 *high);

/** Whether the shape covers the point by more than half. */
bool shape_covers(const struct shape *s, struct vec2 p);

void canvas_paint(const struct canvas *canvas, const struct shape *s);

/** One row of noise in [0, 1), smooth over `cell` px, asked for from left to right. */
struct noise_row {
    float    cell, blend; /* of the lattice rows above and below */
    int32_t  column, line;
    uint32_t seed;
    float    left, right;
};

struct noise_row noise_row(float y, float cell, uint32_t seed);
float noise_at(struct noise_row *row, float x);

static inline float least(float a, float b)
{
    return a < b ? a : b;
}

static inline float most(float a, float b)
{
    return a > b ? a : b;
}

#endif
