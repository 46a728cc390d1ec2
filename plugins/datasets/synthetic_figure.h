/* SPDX-License-Identifier: Apache-2.0
 *
 * A person for the synthetic dataset: a skeleton in three dimensions, dressed in shapes. Sides are
 * told apart as in photographs: by face, hair, collar and feet, which say where the person looks.
 * Colours do not tell them, so that a mirrored picture with its points swapped is as likely as the
 * picture. */
#ifndef SYNTHETIC_FIGURE_H
#define SYNTHETIC_FIGURE_H

#include "synthetic_paint.h"

#include "base/random.h"

/** Points in COCO's order, then those that only drawing needs. */
enum point {
    NOSE, LEFT_EYE, RIGHT_EYE, LEFT_EAR, RIGHT_EAR, LEFT_SHOULDER, RIGHT_SHOULDER, LEFT_ELBOW,
    RIGHT_ELBOW, LEFT_WRIST, RIGHT_WRIST, LEFT_HIP, RIGHT_HIP, LEFT_KNEE, RIGHT_KNEE, LEFT_ANKLE,
    RIGHT_ANKLE, POINTS, PELVIS = POINTS, NECK, HEAD, LEFT_HAND, RIGHT_HAND, LEFT_TOE, RIGHT_TOE,
    SKELETON
};

/** Owners of shapes; bits of the masks that say which of them may show a point. */
enum owner {
    OWNER_SCENE, OWNER_TORSO, OWNER_PELVIS, OWNER_NECK, OWNER_HEAD, OWNER_LEFT_UPPER_ARM,
    OWNER_RIGHT_UPPER_ARM, OWNER_LEFT_FOREARM, OWNER_RIGHT_FOREARM, OWNER_LEFT_THIGH,
    OWNER_RIGHT_THIGH, OWNER_LEFT_SHIN, OWNER_RIGHT_SHIN, OWNER_OBSTACLE
};

struct vec3 { float x, y, z; }; /* to the right, down, towards the viewer */

/** Lengths in units of the stature. */
struct figure {
    struct vec3 point[SKELETON];
    float       head[3][3];  /* rows: the head's left, down, front in picture axes */
    float       torso[3][3]; /* the same of the chest */
    float       build;       /* factor on the thickness of limbs */
    float       head_size;
};

/** Radii of the head over stature, at head_size 1. */
#define HEAD_WIDTH  0.070F
#define HEAD_HEIGHT 0.086F
#define HEAD_DEPTH  0.074F

#define FIGURE_SHAPES_MAX 64

/** Draws a pose. @param turn  largest angle from facing the viewer, degrees.
 *  @param behind  probability of being seen from behind */
void figure_pose(struct figure *f, struct stance_rng *rng, float turn, float behind);

/** Dresses a pose: fills @p shape, far ones first, in px: stature @p scale, pelvis at @p at.
 *  @return number of shapes, at most FIGURE_SHAPES_MAX */
int figure_dress(const struct figure *f, struct stance_rng *rng, float scale, struct vec2 at,
                 struct shape *shape);

/** Whether a point of the face looks towards the viewer; true for all other points. */
bool figure_faces(const struct figure *f, int point);

/** Owners that may show a point. */
uint32_t figure_owners(int point);

#endif
