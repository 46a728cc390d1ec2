/* SPDX-License-Identifier: Apache-2.0 */
#include "synthetic_scene.h"
#include "synthetic_draw.h"

#include <math.h>
#include <string.h>

/* Streams of one picture, so that a change to one part leaves the others as they were. */
enum part { PART_FIGURE, PART_PLACE, PART_OUTFIT, PART_OBSTACLE, PART_BACKDROP, PART_NOISE };

/* The picture over the network's input: room for the person to stand anywhere, and for the crop to
 * be moved, scaled and turned. */
#define MARGIN 1.3

/* Padding of the box that the network sees, MMPose's. */
#define PADDING 1.25

static struct stance_rng stream(const struct scene_setup *setup, int64_t index, enum part part)
{
    return stance_rng(setup->seed, STANCE_USE_SYNTHETIC, (uint64_t)part << 1 | setup->training,
                      (uint64_t)index);
}

void scene_size(const struct scene_setup *setup, int *width, int *height)
{
    *width  = (int)lround(MARGIN * setup->input[0]);
    *height = (int)lround(MARGIN * setup->input[1]);
}

static void figure_bounds(const struct shape *shape, int count, struct vec2 *low, struct vec2 *high)
{
    *low  = vec2(1e30F, 1e30F);
    *high = vec2(-1e30F, -1e30F);
    for (int i = 0; i < count; i++) {
        struct vec2 a, b;

        shape_bounds(&shape[i], &a, &b);
        *low  = vec2(least(low->x, a.x), least(low->y, a.y));
        *high = vec2(most(high->x, b.x), most(high->y, b.y));
    }
}

/* Where the box's low edge lies so that it is inside a length, or, cut, up to a quarter outside. */
static float place_edge(struct stance_rng *rng, float extent, float room, bool cut)
{
    float free = room - extent;

    if (cut)
        return stance_rng_below(rng, 2) == 0 ? -extent * uniform(rng, 0.08F, 0.25F)
                                             : room - extent * uniform(rng, 0.75F, 0.92F);
    return free * uniform(rng, 0.1F, 0.9F);
}

/* Stature and pelvis in px: the padded box of the person, widened to the input's aspect, is to have
 * 0.75 to 1.15 times the input's size, as if the picture had been taken at about that distance. */
static void place(struct scene *s, const struct figure *f, float *scale, struct vec2 *at)
{
    const struct scene_setup *setup = s->setup;
    struct stance_rng         rng   = stream(setup, s->index, PART_PLACE), outfit;
    const float               probe = 1000; /* px: large, so that the smooth edges weigh nothing */
    float aspect = (float)setup->input[0] / (float)setup->input[1], tall, wide, left, top;
    bool                      cut = stance_rng_uniform(&rng) < setup->truncation;
    bool                      cut_x = stance_rng_below(&rng, 3) == 0;

    outfit           = stream(setup, s->index, PART_OUTFIT);
    s->figure_shapes = figure_dress(f, &outfit, probe, vec2(0, 0), s->figure);
    figure_bounds(s->figure, s->figure_shapes, &s->low, &s->high);
    wide   = (s->high.x - s->low.x) / probe;
    tall   = (s->high.y - s->low.y) / probe;
    *scale = uniform(&rng, 0.75F, 1.15F) * (float)setup->input[1]
        / ((float)PADDING * most(tall, wide / aspect));
    left   = place_edge(&rng, wide * *scale, (float)s->width, cut && cut_x);
    top    = place_edge(&rng, tall * *scale, (float)s->height, cut && !cut_x);
    *at    = vec2(left - s->low.x / probe * *scale, top - s->low.y / probe * *scale);
}

static struct shape *obstacle(struct scene *s, enum shape_kind kind, struct colour c, float scale)
{
    struct shape *o = &s->obstacle[s->obstacle_shapes++];

    memset(o, 0, sizeof *o);
    o->kind  = kind;
    o->owner = OWNER_OBSTACLE;
    o->b     = vec2(1, 0);
    o->fill  = (struct fill){ .colour  = c,
                              .second  = colour_scale(c, 0.8F),
                              .along   = { 0, 1 },
                              .period  = 1,
                              .shade   = 0.5F,
                              .outline = most(0.006F * scale, 0.6F) };
    return o;
}

/* Something in front of one of the lower points or of an arm: a crate, a bush or a post. */
static void place_obstacle(struct scene *s, float scale)
{
    struct stance_rng rng    = stream(s->setup, s->index, PART_OBSTACLE);
    int               target = LEFT_ELBOW + (int)stance_rng_below(&rng, POINTS - LEFT_ELBOW);
    float             x = s->keypoint[3 * target], y = s->keypoint[3 * target + 1], size;
    struct shape     *o;

    if (stance_rng_uniform(&rng) >= s->setup->occlusion)
        return;
    x += uniform(&rng, -0.05F, 0.05F) * scale;
    switch (stance_rng_below(&rng, 2) == 0 ? 2 : target >= LEFT_KNEE) { /* bushes do not float */
    case 0: {
        float w = uniform(&rng, 0.07F, 0.16F) * scale, h = uniform(&rng, 0.06F, 0.13F) * scale;

        o               = obstacle(s, SHAPE_POLYGON,
                                   hsv_between(&rng, 0.04F, 0.12F, 0.3F, 0.7F, 0.4F, 0.8F),
                                   scale);
        o->corners = 4;
        o->ra      = 0.01F * scale;
        o->corner[0] = vec2(x - w, y - h);
        o->corner[1] = vec2(x + w, y - h);
        o->corner[2] = vec2(x + w, y + h);
        o->corner[3] = vec2(x - w, y + h);
        o->fill.pattern = PATTERN_STRIPES;
        o->fill.period  = most(h * 0.6F, 3);
        o->fill.origin  = vec2(x, y);
        break;
    }
    case 1: {
        struct colour green = hsv_between(&rng, 0.22F, 0.40F, 0.4F, 0.8F, 0.3F, 0.65F);

        size = uniform(&rng, 0.06F, 0.10F) * scale;
        for (int i = 0; i < 4; i++) {
            o = obstacle(s, SHAPE_ELLIPSE, colour_scale(green, uniform(&rng, 0.85F, 1.1F)), scale);
            o->a = vec2(x + ((float)i - 1.5F) * 0.6F * size, y + uniform(&rng, -0.4F, 0.4F) * size);
            o->ra = size * uniform(&rng, 0.7F, 1.1F);
            o->rb = size * uniform(&rng, 0.8F, 1.3F);
        }
        break;
    }
    default:
        size  = uniform(&rng, 0.02F, 0.045F) * scale;
        o     = obstacle(
                s, SHAPE_STROKE,
                hsv_between(&rng, 0, 1, 0, 0.5F, 0.3F, 0.8F),
                scale);
        o->a  = vec2(x, s->ground - uniform(&rng, 0.5F, 1.1F) * scale);
        o->b  = vec2(x, s->ground + 0.05F * scale);
        o->ra = o->rb = size;
    }
}

/* COCO's v: 0 outside the picture, 1 behind something, 2 in sight. */
static int visibility(const struct scene *s, const struct figure *f, int point)
{
    struct vec2 p = vec2(s->keypoint[3 * point], s->keypoint[3 * point + 1]);

    if (p.x < 0 || p.y < 0 || p.x > (float)(s->width - 1) || p.y > (float)(s->height - 1))
        return 0;
    for (int i = s->obstacle_shapes - 1; i >= 0; i--)
        if (shape_covers(&s->obstacle[i], p))
            return 1;
    if (!figure_faces(f, point))
        return 1;
    for (int i = s->figure_shapes - 1; i >= 0; i--)
        if (shape_covers(&s->figure[i], p))
            return (figure_owners(point) >> s->figure[i].owner & 1) != 0 ? 2 : 1;
    return 2;
}

void scene_compose(struct scene *s, const struct scene_setup *setup, int64_t index)
{
    struct stance_rng rng    = stream(setup, index, PART_FIGURE),
                      outfit = stream(setup, index, PART_OUTFIT);
    struct figure     f;
    struct vec2       at;
    float             scale;

    memset(s, 0, sizeof *s);
    s->setup = setup;
    s->index = index;
    scene_size(setup, &s->width, &s->height);
    figure_pose(&f, &rng, (float)setup->turn, (float)setup->behind);
    place(s, &f, &scale, &at);
    s->figure_shapes = figure_dress(&f, &outfit, scale, at, s->figure);
    figure_bounds(s->figure, s->figure_shapes, &s->low, &s->high);
    s->ground = s->high.y - 1.5F;
    for (int k = 0; k < POINTS; k++) {
        s->keypoint[3 * k]     = at.x + scale * f.point[k].x;
        s->keypoint[3 * k + 1] = at.y + scale * f.point[k].y;
    }
    place_obstacle(s, scale);
    for (int k = 0; k < POINTS; k++)
        s->keypoint[3 * k + 2] = (float)visibility(s, &f, k);
    for (int k = 0; k < POINTS; k++)
        if (s->keypoint[3 * k + 2] == 0)
            s->keypoint[3 * k] = s->keypoint[3 * k + 1] = 0;
}

/* Gain, offset and noise of a camera. The sum of four uniform bytes is near enough to a normal
 * number: variance 4 * 255^2 / 12. */
static void expose(const struct scene *s, const struct canvas *canvas)
{
    struct stance_rng rng  = stream(s->setup, s->index, PART_NOISE);
    float             gain = uniform(&rng, 0.8F, 1.12F), offset = uniform(&rng, -8, 12);
    float             unit = (float)(s->setup->noise * uniform(&rng, 0.3F, 1.3F) / 147.2);
    size_t            n    = 3 * (size_t)canvas->width * (size_t)canvas->height;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits = stance_rng_u32(&rng);
        float    sum =
            (float)((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24)) - 510;
        float    v    = (float)canvas->rgb[i] * gain + offset + sum * unit + 0.5F;

        canvas->rgb[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

void scene_paint(const struct scene *s, const struct canvas *canvas)
{
    struct stance_rng rng    = stream(s->setup, s->index, PART_BACKDROP);
    float             tall   = s->high.y - s->low.y, feet = least(s->ground, (float)s->height);
    float             raise  = uniform(&rng, 0.06F, 0.30F);
    struct shape      shadow = { .kind = SHAPE_ELLIPSE, .b = { 1, 0 } };

    backdrop_paint(canvas, &rng, feet - raise * tall, s->setup->clutter);
    shadow.a    = vec2((s->low.x + s->high.x) / 2, s->ground - 0.01F * tall);
    shadow.ra   = 0.24F * tall;
    shadow.rb   = 0.045F * tall;
    shadow.fill = (struct fill){
        .colour = { 20, 20, 30 }, .period = 1, .soft = 0.07F * tall, .clear = 0.45F
    };
    canvas_paint(canvas, &shadow);
    for (int i = 0; i < s->figure_shapes; i++)
        canvas_paint(canvas, &s->figure[i]);
    for (int i = 0; i < s->obstacle_shapes; i++)
        canvas_paint(canvas, &s->obstacle[i]);
    expose(s, canvas);
}
