/* SPDX-License-Identifier: Apache-2.0
 *
 * From a skeleton to shapes: clothes, skin, hair and face. */
#include "synthetic_figure.h"
#include "synthetic_draw.h"

#include <math.h>
#include <string.h>

/* Steps of depth, in statures, that keep the shapes of one body part together when sorted. */
#define LAYER 1e-4F

struct outfit {
    struct fill   shirt, legs, skin, shoe;
    struct colour hair, hat;
    bool          long_sleeves, long_legs;
    int           hair_style; /* 0 short, 1 long, 2 bald, 3 cap */
};

struct dresser {
    const struct figure *f;
    float                scale;
    struct vec2          at;
    struct shape        *shape;
    int                  count;
    float                outline;
};

static struct fill plain(struct colour c, float outline)
{
    struct fill f = {
        .colour = c, .second = c, .along = { 0, 1 }, .period = 1, .shade = 0.62F, .outline = outline
    };

    return f;
}

static struct fill cloth(struct stance_rng *rng, float scale, float outline)
{
    float         hue  = uniform(rng, 0, 1), value = uniform(rng, 0.35F, 0.95F);
    float sat = stance_rng_below(rng, 5) == 0 ? uniform(rng, 0, 0.15F) : uniform(rng, 0.45F, 0.95F);
    struct fill   f    = plain(colour_hsv(hue, sat, value), outline);
    uint32_t      kind = stance_rng_below(rng, 8);

    f.pattern = kind < 2 ? PATTERN_STRIPES
        : kind == 2      ? PATTERN_DOTS
        : kind == 3      ? PATTERN_CHECKS
                         : PATTERN_PLAIN;
    f.second  = stance_rng_below(rng, 2) == 0
         ? colour_hsv(hue + uniform(rng, 0.1F, 0.9F), sat, value)
         : colour_mix(f.colour, rgb(255, 255, 255), 0.75F);
    f.period  = most(uniform(rng, 0.045F, 0.09F) * scale, 3);
    return f;
}

static struct outfit choose(struct stance_rng *rng, float scale, float outline)
{
    /* From light to dark brown, after the ends of Fitzpatrick's scale. */
    static const struct colour light = { 246, 208, 178 }, dark = { 92, 58, 40 };
    struct outfit              o;
    struct colour              skin = colour_mix(light, dark, uniform(rng, 0, 1));
    float                      grey = uniform(rng, 0, 1);

    o.shirt        = cloth(rng, scale, outline);
    o.legs         = cloth(rng, scale, outline);
    o.legs.pattern = PATTERN_PLAIN;
    o.skin         = plain(skin, outline);
    o.shoe = plain(hsv_between(rng, 0, 1, 0, 0.8F, 0.15F, 0.95F), outline);
    o.hair = stance_rng_below(rng, 6) == 0
        ? rgb(200 * grey + 40, 200 * grey + 40, 200 * grey + 40)
        : hsv_between(rng, 0.02F, 0.12F, 0.4F, 0.8F, 0.08F, 0.75F);
    o.hat  = hsv_between(rng, 0, 1, 0.5F, 0.95F, 0.4F, 0.95F);
    o.long_sleeves = stance_rng_below(rng, 2) == 0;
    o.long_legs    = stance_rng_below(rng, 3) != 0;
    o.hair_style   = (int)stance_rng_below(rng, 9);
    o.hair_style   = o.hair_style < 4 ? 0 : o.hair_style < 6 ? 1 : o.hair_style == 6 ? 2 : 3;
    return o;
}

static struct vec2 project(const struct dresser *d, struct vec3 p)
{
    return vec2(d->at.x + d->scale * p.x, d->at.y + d->scale * p.y);
}

static struct vec3 between(struct vec3 a, struct vec3 b, float t)
{
    struct vec3 v = { a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t, a.z + (b.z - a.z) * t };

    return v;
}

static struct vec3 from_axes(const float frame[3][3], struct vec3 origin, float x, float y, float z)
{
    struct vec3 v = { origin.x + frame[0][0] * x + frame[1][0] * y + frame[2][0] * z,
                      origin.y + frame[0][1] * x + frame[1][1] * y + frame[2][1] * z,
                      origin.z + frame[0][2] * x + frame[1][2] * y + frame[2][2] * z };

    return v;
}

static struct shape *add(struct dresser *d, enum shape_kind kind, int owner, float depth,
                         const struct fill *fill)
{
    struct shape *s = &d->shape[d->count++];

    memset(s, 0, sizeof *s);
    s->kind  = kind;
    s->owner = owner;
    s->depth = depth;
    s->fill  = *fill;
    s->b     = vec2(1, 0);
    return s;
}

/* A limb from p (radius rp) to q (radius rq), radii in statures. */
static struct shape *limb(struct dresser *d, int owner, float depth, const struct fill *fill,
                          struct vec3 p, float rp, struct vec3 q, float rq)
{
    struct shape *s = add(d, SHAPE_STROKE, owner, depth, fill);
    float         dx, dy, length;

    s->a  = project(d, p);
    s->b  = project(d, q);
    s->ra = most(rp * d->scale, 0.5F);
    s->rb = most(rq * d->scale, 0.5F);
    dx     = s->b.x - s->a.x;
    dy     = s->b.y - s->a.y;
    length = sqrtf(dx * dx + dy * dy);
    s->fill.origin = s->a;
    if (length > 1)
        s->fill.along = vec2(dx / length, dy / length);
    return s;
}

static void dress_arm(struct dresser *d, const struct outfit *o, int k)
{
    const struct vec3 *p = d->f->point;
    struct vec3        shoulder = p[LEFT_SHOULDER + k], elbow = p[LEFT_ELBOW + k];
    struct vec3        wrist = p[LEFT_WRIST + k];
    struct vec3 hand = p[LEFT_HAND + k];
    float       g = d->f->build, upper = (shoulder.z + elbow.z) / 2, fore = (elbow.z + wrist.z) / 2;

    limb(d, OWNER_LEFT_UPPER_ARM + k, upper, o->long_sleeves ? &o->shirt : &o->skin, shoulder,
         0.034F * g, elbow, 0.027F * g);
    if (!o->long_sleeves)
        limb(d, OWNER_LEFT_UPPER_ARM + k, upper + LAYER, &o->shirt, shoulder, 0.038F * g,
             between(shoulder, elbow, 0.5F), 0.037F * g);
    limb(d, OWNER_LEFT_FOREARM + k, fore, &o->skin, wrist, 0.021F * g, hand, 0.024F * g);
    limb(d, OWNER_LEFT_FOREARM + k, fore + LAYER, o->long_sleeves ? &o->shirt : &o->skin, elbow,
         0.027F * g, wrist, 0.020F * g);
}

static void dress_leg(struct dresser *d, const struct outfit *o, int k)
{
    const struct vec3 *p = d->f->point;
    struct vec3        hip = p[LEFT_HIP + k], knee = p[LEFT_KNEE + k];
    struct vec3        ankle = p[LEFT_ANKLE + k], toe = p[LEFT_TOE + k];
    struct vec3 heel = between(ankle, toe, -0.18F), trunk = between(hip, p[PELVIS], 0.15F);
    /* Thighs hang under the shirt unless they are raised towards the viewer. */
    float g = d->f->build, thigh = (hip.z + knee.z) / 2 - 0.03F,
          shin = (knee.z + ankle.z) / 2 - 0.03F;

    heel.y += 0.012F;
    toe.y += 0.012F;
    limb(d, OWNER_LEFT_SHIN + k, shin, &o->shoe, heel, 0.025F, toe, 0.022F);
    limb(d, OWNER_LEFT_SHIN + k, shin + LAYER, o->long_legs ? &o->legs : &o->skin, knee, 0.038F * g,
         ankle, 0.025F * g);
    limb(d, OWNER_LEFT_THIGH + k, thigh, o->long_legs ? &o->legs : &o->skin, trunk, 0.054F * g,
         knee, 0.039F * g);
    if (!o->long_legs)
        limb(d, OWNER_LEFT_THIGH + k, thigh + LAYER, &o->legs, trunk, 0.056F * g,
             between(trunk, knee, 0.72F), 0.050F * g);
}

static void dress_torso(struct dresser *d, const struct outfit *o)
{
    const struct figure *f = d->f;
    struct vec3          pelvis = f->point[PELVIS], neck = f->point[NECK], front;
    float                g = 0.5F + 0.5F * f->build, middle = (pelvis.z + neck.z) / 2;
    struct fill          collar = o->skin;
    struct shape        *s;

    limb(d, OWNER_PELVIS, middle - 0.02F, &o->legs, between(pelvis, f->point[LEFT_HIP], 0.7F),
         0.058F * g, between(pelvis, f->point[RIGHT_HIP], 0.7F), 0.058F * g);
    limb(d, OWNER_NECK, least(middle, f->point[HEAD].z) - LAYER, &o->skin,
         between(neck, f->point[HEAD], -0.1F), 0.034F * g, between(neck, f->point[HEAD], 0.7F),
         0.032F * g);
    s          = add(d, SHAPE_POLYGON, OWNER_TORSO, middle, &o->shirt);
    s->ra      = 0.040F * d->scale;
    s->corners = 6;
    for (int i = 0; i < 2; i++) {
        float side = i == 0 ? 1.0F : -1.0F;
        int   step = i == 0 ? 1 : -1, first = i == 0 ? 0 : 5;

        s->corner[first] = project(d, from_axes(f->torso, neck, side * 0.090F * g, 0.030F, 0));
        s->corner[first + step] =
            project(d, from_axes(f->torso, neck, side * 0.058F * g, 0.175F, 0));
        s->corner[first + 2 * step] =
            project(d, from_axes(f->torso, pelvis, side * 0.064F * g, -0.005F, 0));
    }
    s->fill.origin = project(d, neck);
    s->fill.along  = vec2(f->torso[1][0], f->torso[1][1]);
    if (f->torso[2][2] < 0.25F)
        return;
    /* The open collar, on the front only: with face and feet it tells where the person looks. */
    collar.outline = 0;
    collar.clear   = f->torso[2][2] < 0.35F ? 0.4F : 0;
    front          = from_axes(f->torso, neck, 0, 0.005F, 0.045F);
    limb(d, OWNER_TORSO, middle + LAYER, &collar, from_axes(f->torso, front, 0, -0.02F, 0),
         0.034F * f->torso[2][2], from_axes(f->torso, front, 0, 0.055F, 0.01F), 0.006F);
}

static struct shape *spot(struct dresser *d, float depth, struct vec3 p, float rx, float ry,
                          struct colour c)
{
    struct fill   fill = plain(c, 0);
    struct shape *s    = add(d, SHAPE_ELLIPSE, OWNER_HEAD, depth, &fill);
    float         x = d->f->head[0][0], y = d->f->head[0][1], length = sqrtf(x * x + y * y);

    s->fill.shade = 0.3F;
    s->a          = project(d, p);
    s->ra         = most(rx * d->scale, 0.7F);
    s->rb         = most(ry * d->scale, 0.7F);
    if (length > 1e-3F)
        s->b = vec2(x / length, y / length);
    return s;
}

static void dress_head(struct dresser *d, const struct outfit *o)
{
    const struct figure *f = d->f;
    struct vec3          head = f->point[HEAD], brow, mouth;
    float h = f->head_size, z = head.z + 0.02F, x = f->head[1][0], y = f->head[1][1], length;
    struct colour shadow = colour_scale(o->skin.colour, 0.72F),
                  lips   = colour_mix(shadow, rgb(170, 40, 50), 0.55F);
    struct shape        *s;

    if (o->hair_style == 1) { /* falls behind the shoulders */
        float         behind = least(z, (f->point[NECK].z + f->point[PELVIS].z) / 2) - 0.05F;
        struct vec3   back = from_axes(f->head, head, 0, 0.045F * h, -0.035F * h);
        struct fill   fill = plain(o->hair, d->outline);
        struct vec3   end  = from_axes(f->head, back, 0, 0.085F * h, 0);
        struct shape *mane = limb(d, OWNER_HEAD, f->head[2][2] > 0 ? behind : z + 3 * LAYER, &fill,
                                  back, HEAD_WIDTH * h * 1.05F, end, HEAD_WIDTH * h * 0.80F);

        mane->fill.shade = 0.4F;
    }
    for (int k = 0; k < 2; k++) {
        struct vec3 ear = f->point[LEFT_EAR + k];

        if (o->hair_style == 1)
            continue;
        s = spot(d, ear.z > head.z - 0.03F ? z + LAYER : z - LAYER, ear, 0.016F * h, 0.023F * h,
                 colour_scale(o->skin.colour, 0.9F));
        s->fill.outline = d->outline * 0.7F;
    }
    s     = add(d, SHAPE_BALL, OWNER_HEAD, z, &o->skin);
    s->a  = project(d, head);
    s->ra = HEAD_HEIGHT * h * d->scale;
    s->rb = HEAD_WIDTH * h * d->scale;
    length = sqrtf(x * x + y * y);
    s->b   = length > 1e-3F ? vec2(x / length, y / length) : vec2(0, 1);
    memcpy(s->turn, f->head, sizeof s->turn);
    s->hair       = o->hair;
    s->hat        = o->hat;
    s->hair_side  = o->hair_style == 1 ? 0.25F : o->hair_style == 2 ? -9 : 0;
    s->hair_slope = o->hair_style == 1 ? 0.72F : o->hair_style == 2 ? 0 : 0.50F;
    s->cap        = o->hair_style == 3 ? -0.30F : -9;
    if (o->hair_style == 3) {
        struct fill brim = plain(o->hat, d->outline * 0.7F);

        brow = from_axes(f->head, head, 0, -0.36F * HEAD_HEIGHT * h, 0.7F * HEAD_DEPTH * h);
        if (f->head[2][2] > -0.2F)
            limb(d, OWNER_HEAD, z + 3 * LAYER, &brim, brow, 0.030F * h,
                 from_axes(f->head, brow, 0, -0.005F, 0.065F * h), 0.020F * h);
    }
    for (int k = 0; k < 2; k++)
        if (figure_faces(f, LEFT_EYE + k)) {
            spot(d, z + 2 * LAYER, f->point[LEFT_EYE + k], 0.017F * h, 0.014F * h,
                 rgb(248, 248, 248));
            spot(d, z + 2 * LAYER, f->point[LEFT_EYE + k], 0.0095F * h, 0.0115F * h,
                 rgb(25, 20, 20));
        }
    mouth = from_axes(f->head, head, 0, 0.48F * HEAD_HEIGHT * h, 0.86F * HEAD_DEPTH * h);
    if (figure_faces(f, NOSE)) {
        spot(d, z + 2 * LAYER, mouth, 0.024F * h * most(f->head[2][2], 0.3F), 0.008F * h, lips);
        spot(d, z + 2 * LAYER, f->point[NOSE], 0.012F * h, 0.016F * h, shadow);
    }
}

int figure_dress(const struct figure *f, struct stance_rng *rng, float scale, struct vec2 at,
                 struct shape *shape)
{
    float          outline = most(0.006F * scale, 0.6F);
    struct dresser d       = { f, scale, at, shape, 0, outline };
    struct outfit  o       = choose(rng, scale, outline);

    dress_torso(&d, &o);
    for (int k = 0; k < 2; k++) {
        dress_leg(&d, &o, k);
        dress_arm(&d, &o, k);
    }
    dress_head(&d, &o);
    /* Stable: shapes of equal depth stay in the order they were made in. */
    for (int i = 1; i < d.count; i++) {
        struct shape s = shape[i];
        int          j = i;

        for (; j > 0 && shape[j - 1].depth > s.depth; j--)
            shape[j] = shape[j - 1];
        shape[j] = s;
    }
    return d.count;
}
