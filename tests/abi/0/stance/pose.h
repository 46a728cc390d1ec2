/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  What a pose is to heads, losses, tasks and datasets: the points and the geometry of the recipe. */
#ifndef STANCE_POSE_H
#define STANCE_POSE_H

#include <stance/error.h>

STANCE_BEGIN_DECLS

/** @addtogroup pose Poses
 *  @{ */

/** The points of a dataset and the sizes of the recipe. Owned by the run; constant while it lasts. */
struct stance_pose {
    size_t             size;      /**< sizeof(struct stance_pose) */
    int32_t            keypoints; /**< K */
    const char *const *names;     /**< [K] */
    const float       *sigmas;    /**< [K] OKS fall-off, COCO's definition; NULL: not known */
    const int32_t     *partner;   /**< [K] point that a mirrored image shows instead; itself if none */
    const uint8_t     *upper;     /**< [K] 1 for the upper body; NULL: not known */
    const int32_t     *skeleton;  /**< [2 * bones] */
    int32_t            bones;     /**< how many */
    int32_t            input_size[2];   /**< width, height of the network's input, px */
    int32_t            heatmap_size[2]; /**< width, height */
};

/** How heatmaps become points: `test` of the recipe (spec: MMPose 0.29's test_cfg). */
enum stance_post_process {
    STANCE_POST_NONE,    /**< the pixel of the maximum */
    STANCE_POST_DEFAULT, /**< a quarter pixel towards the larger neighbour */
    STANCE_POST_UNBIASED /**< a Newton step on the blurred logarithm (DARK) */
};

/** One batch of heatmaps to decode. All arrays are the caller's. */
struct stance_decode {
    size_t       size;      /**< sizeof(struct stance_decode) */
    const float *heatmap;   /**< [B,K,H,W], flip-averaged, binary32 */
    int32_t      batch;     /**< B */
    int32_t      keypoints; /**< K */
    int32_t      height;    /**< H */
    int32_t      width;     /**< W */
    const float *centre;    /**< [B,2] x, y in image px */
    const float *scale;     /**< [B,2] box width and height over 200, padding included (pixel_std 200) */
    enum stance_post_process post_process; /**< refinement of the maximum */
    int32_t      modulate_kernel; /**< unbiased only: width of the Gaussian, px of the heatmap, odd */
    float       *keypoint;  /**< out [B,K,3]: x, y in image px, score */
};

/** Points from heatmaps: the first maximum of each map, refined, turned to image px by centre and
 *  scale. The score is the maximum; a point is found where it is above 0, else its place is that of
 *  (-1, -1) of the map. Refinement: a quarter pixel towards the larger neighbour (default); a Newton
 *  step on the logarithm of the blurred map (unbiased); none.
 *  @return STANCE_OK; STANCE_ERR_SHAPE (an empty dimension); STANCE_ERR_RANGE (modulate_kernel even or
 *          below 1); STANCE_ERR_NOMEM
 *  Source: Xiao, Wu, Wei, "Simple Baselines for Human Pose Estimation and Tracking", ECCV 2018; Zhang
 *  et al., "Distribution-Aware Coordinate Representation for Human Pose Estimation", CVPR 2020; the
 *  arithmetic, in binary32, is MMPose 0.29's. */
STANCE_API stance_status stance_decode_heatmap(const struct stance_decode *d,
                                               struct stance_error *err) STANCE_MUST_CHECK;

/** Turns heatmaps of a mirrored image into those of the image itself, in place: partners change
 *  places, every row is mirrored.
 *  @param partner  [K]; partner[partner[k]] is k
 *  @param heat     [B,K,H,W] binary32
 *  @param shift    move one column right afterwards; the first column stays (MMPose's shift_heatmap) */
STANCE_API void stance_unflip_heatmap(const int32_t *partner, float *heat, int batch, int k, int h,
                                      int w, bool shift);

/** @} */

STANCE_END_DECLS
#endif
