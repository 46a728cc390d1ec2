/* SPDX-License-Identifier: Apache-2.0
 *
 * One picture of the synthetic dataset: a person in a place, perhaps with something in front. */
#ifndef SYNTHETIC_SCENE_H
#define SYNTHETIC_SCENE_H

#include "synthetic_figure.h"

/** What all pictures of a split share. */
struct scene_setup {
    uint64_t seed;
    bool     training; /**< training and validation draw from different streams */
    int      input[2]; /**< width and height of the network's input, px */
    double   occlusion, truncation, behind; /**< probabilities */
    double   turn;     /**< degrees */
    int      clutter;  /**< most things in the background */
    double   noise;    /**< standard deviation of the sensor, grey levels */
};

#define OBSTACLE_SHAPES_MAX 8

struct scene {
    int                    width, height;
    const struct scene_setup *setup;
    int64_t                index;
    struct shape           figure[FIGURE_SHAPES_MAX], obstacle[OBSTACLE_SHAPES_MAX];
    int                    figure_shapes, obstacle_shapes;
    struct vec2            low, high;          /**< box of the figure, px, may leave the picture */
    float                  ground;             /**< y of the lowest foot */
    float keypoint[3 * POINTS]; /**< x, y, v as in COCO; 0, 0, 0 outside the picture */
};

/** Width and height of every picture, px. */
void scene_size(const struct scene_setup *setup, int *width, int *height);

/** Places the person and what hides it: a function of setup and index alone. Paints nothing. */
void scene_compose(struct scene *scene, const struct scene_setup *setup, int64_t index);

/** Paints a composed scene. */
void scene_paint(const struct scene *scene, const struct canvas *canvas);

/** The background, from the stream @p rng. @param horizon  its y, px */
void backdrop_paint(const struct canvas *canvas, struct stance_rng *rng, float horizon,
                    int clutter);

#endif
