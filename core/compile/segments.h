/* SPDX-License-Identifier: Apache-2.0
 *
 * Which results of the forward pass are kept for the backward pass when the others may be computed
 * again. The forward pass is cut into segments; what is read across a cut is kept, the rest of a segment
 * is rebuilt from it when the backward pass comes there. The last segment is kept as it is: the backward
 * pass begins with it. Where that leaves room, more is kept: what is dearest to rebuild for its size. (Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016,
 * cut into about sqrt(n) equal parts; here the cuts are those of the smallest peak.) */
#ifndef COMPILE_SEGMENTS_H
#define COMPILE_SEGMENTS_H

#include <stance/error.h>

/** A node of the forward pass, in execution order. */
struct stance_segment_node {
    uint32_t last;     /**< number of the last forward node that reads its results; its own if none */
    size_t   fixed;    /**< bytes that are kept for the backward pass whatever is chosen */
    size_t   inside;   /**< bytes that the backward pass reads, kept or rebuilt */
    size_t   crossing; /**< bytes that are kept when a cut lies between it and @ref last */
    size_t   beside;   /**< bytes of gradients that live when the backward pass first reads its results */
    double   work;     /**< of running it again, in any unit */
};

/** Chooses what is kept. The largest sum of live bytes,
 *  fixed up to here + kept of earlier segments + inside of the segment + beside,
 *  is the smallest that cuts can give (to 1 %), or by the part @p more larger; with that peak, as little
 *  work is done again as is found. Time n^2 at worst.
 *  @param more  0: the smallest peak; 0.1: one larger by a tenth, for less work
 *  @param[out] kept  [n]: the results of the node are kept, not rebuilt
 *  @param[out] peak  that sum; may be NULL */
stance_status stance_segments_choose(const struct stance_segment_node *nodes, size_t n, double more, bool *kept,
                                     size_t *peak, struct stance_error *err);

#endif
