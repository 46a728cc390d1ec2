/* SPDX-License-Identifier: Apache-2.0
 *
 * Poses drawn over their images, as PNG. Orange is the left of the person or animal, blue its right,
 * green what has no side; colours that the colour-blind tell apart too, with dark rims so that they
 * show on any ground. */
#ifndef EVAL_OVERLAY_H
#define EVAL_OVERLAY_H

#include <stance/dataset.h>
#include <stance/error.h>
#include <stance/pose.h>

#define STANCE_OVERLAY_THRESHOLD 0.3 /**< the usual kpt_thr */

/** One pose to draw. */
struct stance_overlay_person {
    const float  *keypoint; /**< [K,3] x, y in px of the image, score (or visibility) */
    const double *box;      /**< [4] x, y, width, height; NULL: none is drawn */
    double        score;    /**< written at the box; NaN: none */
};

struct stance_overlay {
    const struct stance_pose *pose;    /**< K, names and partners (for the sides), skeleton */
    double                    kpt_thr; /**< points of a score below are left out, and their bones */
    bool                      legend;  /**< tells the colours in a corner */
};

/** Draws over a copy of @p image and writes it, whole or not at all.
 *  @return STANCE_OK; STANCE_ERR_RANGE (an image without pixels or above 32767 px); STANCE_ERR_IO;
 *          STANCE_ERR_NOMEM */
stance_status stance_overlay_write(const char *path, const struct stance_image *image,
                                   const struct stance_overlay_person *p, int64_t n,
                                   const struct stance_overlay *how,
                                   struct stance_error *err) STANCE_MUST_CHECK;

/** One picture of a contact sheet. */
struct stance_overlay_tile {
    struct stance_image                 image; /**< the caller's */
    const struct stance_overlay_person *p;     /**< [n] */
    int64_t                             n;
    const char                         *caption; /**< a line of UTF-8 below it; NULL: none */
};

/** Draws pictures in a grid, each scaled to fit, under a line of text.
 *  @param columns  >= 1   @param side  px of a picture's place, in [32, 2048]
 *  @param title    NULL: none
 *  @return likewise */
stance_status stance_overlay_sheet(const char *path, const struct stance_overlay_tile *tiles, int64_t n,
                                   int columns, int side, const char *title,
                                   const struct stance_overlay *how,
                                   struct stance_error *err) STANCE_MUST_CHECK;

#endif
