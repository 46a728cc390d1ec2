/* SPDX-License-Identifier: Apache-2.0
 *
 * The COCO keypoint evaluation within one image: which detection finds which person, at every
 * threshold and for every range of areas. */
#ifndef EVAL_COCO_MATCH_H
#define EVAL_COCO_MATCH_H

#include "eval/coco.h"

#include <stance/alloc.h>

/** One image of one category, and room to match it. Bit t of a mark stands for threshold t. */
struct stance_coco_match {
    /* in */
    int32_t                     k;
    const double               *vars;  /**< [K] (2 sigma)^2 */
    const struct stance_truth **truth; /**< [truths] in file order */
    int64_t                     truths;
    const double              **detection; /**< [detections] points [K,3], best first, at most 20 */
    int32_t                     detections;
    /* out */
    int64_t  persons[STANCE_COCO_AREAS]; /**< to be found */
    uint16_t hit[STANCE_COCO_AREAS][STANCE_COCO_DETECTIONS];     /**< finds somebody */
    uint16_t ignored[STANCE_COCO_AREAS][STANCE_COCO_DETECTIONS]; /**< counts neither way */
    /* scratch */
    double   *term;    /* [K] */
    double   *oks;     /* [20, truths], rows of the detections */
    double    best[STANCE_COCO_DETECTIONS]; /* of a row */
    int64_t  *order;   /* [truths] those to be found first */
    uint16_t *taken;   /* [truths] in that order */
    bool     *unwanted; /* [truths] in that order: ignored at this range of areas */
};

/** Prepares for images with at most @p truths persons. @return false: memory is short */
bool stance_coco_match_init(struct stance_coco_match *m, struct stance_arena *arena, int32_t k,
                            const double *vars, int64_t truths) STANCE_MUST_CHECK;
void stance_coco_match_image(struct stance_coco_match *m);

/** Threshold t: linspace(0.5, 0.95, 10) of NumPy. */
double stance_coco_threshold(int t);

#endif
