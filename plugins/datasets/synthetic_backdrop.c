/* SPDX-License-Identifier: Apache-2.0
 *
 * Places to stand in: a park, a street, a room, a studio. Paler than people are dressed, and full
 * of round and long things that are no limbs. */
#include "synthetic_scene.h"
#include "synthetic_draw.h"

#include <math.h>
#include <stddef.h>

enum place { PLACE_PARK, PLACE_STREET, PLACE_ROOM, PLACE_STUDIO, PLACES };

/* A colour that gives way to the person's. */
static struct colour pale(struct stance_rng *rng, float hue_low, float hue_high)
{
    return hsv_between(rng, hue_low, hue_high, 0.06F, 0.36F, 0.5F, 0.95F);
}

static struct fill flat(struct colour c, float shade)
{
    struct fill f = { .colour = c,
                      .second = colour_scale(c, 0.86F),
                      .along  = { 1, 0 },
                      .period = 1,
                      .shade  = shade };

    return f;
}

static void stroke(const struct canvas *c, struct fill fill, struct vec2 a, float ra, struct vec2 b,
                   float rb)
{
    struct shape s = { .kind = SHAPE_STROKE,
                       .fill = fill,
                       .a    = a,
                       .b    = b,
                       .ra   = most(ra, 0.5F),
                       .rb   = most(rb, 0.5F) };

    canvas_paint(c, &s);
}

static void ellipse(const struct canvas *c, struct fill fill, struct vec2 at, float rx, float ry)
{
    struct shape s = { .kind = SHAPE_ELLIPSE,
                       .fill = fill,
                       .a    = at,
                       .b    = { 1, 0 },
                       .ra   = most(rx, 0.5F),
                       .rb   = most(ry, 0.5F) };

    canvas_paint(c, &s);
}

static void box(const struct canvas *c, struct fill fill, float x0, float y0, float x1, float y1,
                float round)
{
    struct shape s = { .kind = SHAPE_POLYGON, .fill = fill, .corners = 4, .ra = round,
                       .corner = { { x0, y0 }, { x1, y0 }, { x1, y1 }, { x0, y1 } } };

    canvas_paint(c, &s);
}

/* Wall or sky above the horizon, floor below, both graded and grained. */
static void ground(const struct canvas *c, struct stance_rng *rng, float horizon, struct colour top,
                   struct colour bottom, struct colour near, struct colour far, float grain)
{
    uint32_t seed = stance_rng_u32(rng);
    float    height = (float)c->height, cell = most(0.05F * height, 3);

    for (int y = 0; y < c->height; y++) {
        float fy = (float)y, below = fy - horizon, strength = grain * (below < 0 ? 0.25F : 1);
        float            t = below < 0 ? fy / most(horizon, 1) : below / most(height - horizon, 1);
        float            depth = below < 0 ? fy : 2.5F * fy; /* the floor is seen flat */
        struct colour    v = below < 0 ? colour_mix(top, bottom, t) : colour_mix(far, near, t);
        struct noise_row coarse = noise_row(depth, cell, seed),
                         fine   = noise_row(depth, 0.37F * cell, ~seed);
        uint8_t         *p = c->rgb + 3 * (size_t)y * (size_t)c->width;

        for (int x = 0; x < c->width; x++, p += 3) {
            float n = 0.6F * noise_at(&coarse, (float)x) + 0.4F * noise_at(&fine, (float)x) - 0.5F;
            float f = 1 + strength * n;

            p[0] = (uint8_t)least(v.r * f, 255);
            p[1] = (uint8_t)least(v.g * f, 255);
            p[2] = (uint8_t)least(v.b * f, 255);
        }
    }
}

static void tree(const struct canvas *c, struct stance_rng *rng, float horizon)
{
    float h = (float)c->height * uniform(rng, 0.15F, 0.5F), x = uniform(rng, 0, (float)c->width);
    float y            = horizon + uniform(rng, 0, 0.06F) * (float)c->height,
          lean         = uniform(rng, -0.05F, 0.05F) * h;
    struct colour bark = hsv_between(rng, 0.07F, 0.07F, 0.2F, 0.5F, 0.3F, 0.6F);
    struct colour leaf =
        hsv_between(rng, 0.18F, 0.42F, 0.2F, 0.5F, 0.4F, 0.75F);

    stroke(c, flat(bark, 0.5F), vec2(x, y), 0.05F * h, vec2(x + lean, y - 0.7F * h), 0.03F * h);
    for (int i = 0; i < 4; i++) {
        struct colour green = colour_scale(leaf, uniform(rng, 0.85F, 1.1F));
        struct vec2   at    = point_between(rng, x + lean - 0.16F * h, x + lean + 0.16F * h,
                                            y - 0.9F * h, y - 0.55F * h);
        struct vec2   r     = point_between(rng, 0.14F * h, 0.22F * h, 0.12F * h, 0.2F * h);

        ellipse(c, flat(green, 0.45F), at, r.x, r.y);
    }
}

static void park(const struct canvas *c, struct stance_rng *rng, float horizon, int clutter)
{
    float         w = (float)c->width, h = (float)c->height;
    struct colour grass = hsv_between(rng, 0.16F, 0.36F, 0.22F, 0.48F, 0.5F, 0.8F);
    struct colour sky =
        hsv_between(rng, 0.5F, 0.68F, 0.12F, 0.45F, 0.75F, 1);
    struct fill   cloud = flat(rgb(250, 250, 252), 0);

    ground(c, rng, horizon, sky, colour_mix(sky, rgb(255, 246, 230), uniform(rng, 0.4F, 0.8F)),
           grass, colour_scale(grass, 0.88F), 0.35F);
    cloud.soft  = 0.05F * h;
    cloud.clear = 0.1F;
    for (int i = (int)stance_rng_below(rng, 4); i > 0; i--) {
        struct vec2 at = point_between(rng, 0, w, 0, most(horizon * 0.6F, 1));

        for (int k = 0; k < 3; k++) {
            struct vec2 puff = point_between(rng, at.x - 0.1F * w, at.x + 0.1F * w,
                                             at.y - 0.02F * h, at.y + 0.02F * h);
            struct vec2 r    = point_between(rng, 0.06F * w, 0.14F * w, 0.02F * h, 0.05F * h);

            ellipse(c, cloud, puff, r.x, r.y);
        }
    }
    for (int i = 0; i < 3; i++) {
        struct colour hill = colour_mix(colour_scale(grass, 0.8F), sky, 0.6F - 0.2F * (float)i);
        float         r    = uniform(rng, 0.3F, 0.7F) * w, high = uniform(rng, 0.04F, 0.14F) * h;
        struct shape  s     = { .kind = SHAPE_ELLIPSE,
                                .fill = flat(hill, 0),
                                .a    = { uniform(rng, 0, w), horizon },
                                .b    = { 1, 0 },
                                .ra   = r,
                                .rb   = high };
        struct canvas above = { c->rgb, c->width, (int)least(most(horizon + 1, 0), h) };

        canvas_paint(&above, &s);
    }
    for (int i = (int)stance_rng_below(rng, (uint32_t)clutter + 1); i > 0; i--)
        tree(c, rng, horizon);
}

static void street(const struct canvas *c, struct stance_rng *rng, float horizon, int clutter)
{
    float w = (float)c->width, h = (float)c->height, step = uniform(rng, 0.2F, 0.34F) * w,
          size          = step * uniform(rng, 0.25F, 0.36F);
    struct colour wall  = pale(rng, 0, 1),
                  glass = hsv_between(rng, 0.5F, 0.65F, 0.1F, 0.4F, 0.4F, 0.85F);
    struct colour stone =
        hsv_between(rng, 0, 1, 0, 0.12F, 0.45F, 0.75F);
    struct fill pane  = flat(glass, 0.5F),
                frame = flat(colour_scale(wall, uniform(rng, 0.6F, 1.15F)), 0);
    float y0 = uniform(rng, 0, step), x0 = uniform(rng, 0, step),
          rise = step * uniform(rng, 1.1F, 1.6F);

    ground(c, rng, horizon, colour_scale(wall, 0.94F), wall, colour_scale(stone, 1.1F), stone,
           0.16F);
    for (float y = y0; y + size * 1.4F < horizon - 0.05F * h; y += rise)
        for (float x = x0; x < w + size; x += step) {
            box(c, frame, x - size * 1.15F, y - size * 1.5F, x + size * 1.15F, y + size * 1.5F,
                0.5F);
            box(c, pane, x - size * 0.9F, y - size * 1.25F, x + size * 0.9F, y + size * 1.25F,
                0.3F);
        }
    box(c, flat(colour_scale(stone, 0.8F), 0), -5, horizon - 0.012F * h, w + 5,
        horizon + 0.012F * h, 0);
    for (int i = (int)stance_rng_below(rng, (uint32_t)clutter + 1); i > 0; i--) {
        struct colour metal =
            hsv_between(rng, 0, 1, 0, 0.35F, 0.3F, 0.8F);
        float x = uniform(rng, 0, w), foot = horizon + uniform(rng, 0, 0.1F) * h,
              tall = uniform(rng, 0.08F, 0.5F) * h;

        stroke(c, flat(metal, 0.6F), vec2(x, foot), 0.014F * h, vec2(x, foot - tall), 0.011F * h);
        if (stance_rng_below(rng, 2) == 0)
            ellipse(c, flat(colour_mix(metal, rgb(255, 250, 220), 0.7F), 0.4F),
                    vec2(x, foot - tall), 0.035F * h, 0.035F * h);
    }
}

static void room(const struct canvas *c, struct stance_rng *rng, float horizon, int clutter)
{
    float         w = (float)c->width, h = (float)c->height;
    struct colour wall    = pale(rng, 0, 1),
                  wood    = hsv_between(rng, 0.04F, 0.12F, 0.2F, 0.5F, 0.4F, 0.75F);
    struct fill   paper = flat(wall, 0);
    enum pattern  pattern = (enum pattern)stance_rng_below(rng, 4);

    ground(c, rng, horizon, colour_scale(wall, 0.96F), wall, wood, colour_scale(wood, 0.85F),
           0.12F);
    if (pattern != PATTERN_PLAIN) {
        paper.pattern = pattern;
        paper.second  = colour_mix(
             wall, stance_rng_below(rng, 2) == 0 ? rgb(255, 255, 255) : rgb(90, 80, 80), 0.22F);
        paper.period  = uniform(rng, 0.04F, 0.12F) * w;
        paper.clear   = 0.2F;
        box(c, paper, -5, -5, w + 5, horizon, 0);
    }
    for (float y = horizon, d = 0.02F * h; y < h; y += d, d *= 1.45F)
        box(c, flat(colour_scale(wood, 0.78F), 0), -5, y, w + 5, y, 0.3F);
    box(c, flat(colour_mix(wall, rgb(255, 255, 255), 0.5F), 0), -5, horizon - 0.03F * h, w + 5,
        horizon, 0);
    for (int i = (int)stance_rng_below(rng, (uint32_t)clutter + 1); i > 0; i--) {
        float       wall_high = most(horizon, 1);
        struct vec2 at = point_between(rng, 0, w, 0.05F * wall_high, 0.75F * wall_high), r;
        float       size = uniform(rng, 0.05F, 0.11F) * h, aspect = uniform(rng, 0.7F, 1.4F);

        if (stance_rng_below(rng, 3) == 0) { /* a ball on the floor, else a picture on the wall */
            size *= 0.7F;
            at.y = least(horizon + uniform(rng, 0, 0.1F) * h, h) - size * 0.5F;
            ellipse(c, flat(pale(rng, 0, 1), 0.7F), at, size, size);
            continue;
        }
        box(c, flat(colour_scale(wood, 0.6F), 0), at.x - size, at.y - size * aspect, at.x + size,
            at.y + size * aspect, 0.5F);
        box(c, flat(pale(rng, 0, 1), 0), at.x - size * 0.82F, at.y - size * aspect * 0.85F,
            at.x + size * 0.82F, at.y + size * aspect * 0.85F, 0);
        r = point_between(rng, 0.25F * size, 0.6F * size, 0.25F * size, 0.6F * size);
        ellipse(c, flat(pale(rng, 0, 1), 0.5F), at, r.x, r.y);
    }
}

static void studio(const struct canvas *c, struct stance_rng *rng, float horizon, int clutter)
{
    float         w = (float)c->width, h = (float)c->height;
    struct colour a = pale(rng, 0, 1), b = colour_mix(a, pale(rng, 0, 1), 0.6F);

    ground(c, rng, horizon, a, b, colour_scale(b, 0.92F), colour_scale(b, 0.8F),
           uniform(rng, 0, 0.4F));
    for (int i = (int)stance_rng_below(rng, 2 * (uint32_t)clutter + 1); i > 0; i--) {
        struct vec2 at = point_between(rng, 0, w, 0, h);
        float       size = uniform(rng, 0.03F, 0.14F) * h, angle = uniform(rng, 0, 6.2831853F);
        struct fill fill = flat(pale(rng, 0, 1), 0);

        fill.shade = uniform(rng, 0, 0.6F);
        fill.clear = uniform(rng, 0, 0.5F);
        switch (stance_rng_below(rng, 3)) {
        case 0:
            ellipse(c, fill, at, size, size * uniform(rng, 0.5F, 1));
            break;
        case 1: {
            struct vec2 to = point_between(rng, at.x - 0.2F * size, at.x + size, at.y - 0.2F * size,
                                           at.y + size);

            box(c, fill, at.x - size, at.y - size, to.x, to.y, 1);
            break;
        }
        default:
            stroke(c, fill, at, size * 0.3F,
                   vec2(at.x + 2 * size * cosf(angle), at.y + 2 * size * sinf(angle)),
                   size * uniform(rng, 0.1F, 0.3F));
        }
    }
}

void backdrop_paint(const struct canvas *c, struct stance_rng *rng, float horizon, int clutter)
{
    switch ((enum place)stance_rng_below(rng, PLACES)) {
    case PLACE_PARK:
        park(c, rng, horizon, clutter);
        break;
    case PLACE_STREET:
        street(c, rng, horizon, clutter);
        break;
    case PLACE_ROOM:
        room(c, rng, horizon, clutter);
        break;
    default:
        studio(c, rng, horizon, clutter);
    }
}
