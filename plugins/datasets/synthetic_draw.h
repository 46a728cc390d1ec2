/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers for pictures. C leaves the order of arguments open: what draws more than one
 * number does so here, in statements, or two compilers would paint two datasets. */
#ifndef SYNTHETIC_DRAW_H
#define SYNTHETIC_DRAW_H

#include "synthetic_paint.h"

#include "base/random.h"

static inline float uniform(struct stance_rng *rng, float low, float high)
{
    return low + (high - low) * (float)stance_rng_uniform(rng);
}

static inline struct vec2 point_between(struct stance_rng *rng, float x0, float x1, float y0,
                                        float y1)
{
    float x = uniform(rng, x0, x1), y = uniform(rng, y0, y1);

    return vec2(x, y);
}

/** A colour of hue h0 to h1, saturation s0 to s1, value v0 to v1. */
static inline struct colour hsv_between(struct stance_rng *rng, float h0, float h1, float s0,
                                        float s1, float v0, float v1)
{
    float h = uniform(rng, h0, h1), s = uniform(rng, s0, s1), v = uniform(rng, v0, v1);

    return colour_hsv(h, s, v);
}

#endif
