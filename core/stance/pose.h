/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  What a pose is to heads, losses, tasks and datasets: the points and the geometry of the recipe. */
#ifndef STANCE_POSE_H
#define STANCE_POSE_H

#include <stance/error.h>

STANCE_BEGIN_DECLS

/** The points of a dataset and the sizes of the recipe. Owned by the run; constant while it lasts. */
struct stance_pose {
    size_t             size;      /**< sizeof(struct stance_pose) */
    int32_t            keypoints; /**< K */
    const char *const *names;     /**< [K] */
    const float       *sigmas;    /**< [K] OKS fall-off, COCO's definition; NULL: not known */
    const int32_t     *partner;   /**< [K] point that a mirrored image shows instead; itself if none */
    const uint8_t     *upper;     /**< [K] 1 for the upper body; NULL: not known */
    const int32_t     *skeleton;  /**< [2 * bones] */
    int32_t            bones;
    int32_t            input_size[2];   /**< width, height of the network's input, px */
    int32_t            heatmap_size[2]; /**< width, height */
};

/** How heatmaps become points: `test` of the recipe (spec: MMPose 0.29's test_cfg). */
enum stance_post_process { STANCE_POST_NONE, STANCE_POST_DEFAULT, STANCE_POST_UNBIASED };

/** One batch of heatmaps to decode. All arrays are the caller's. */
struct stance_decode {
    size_t       size;
    const float *heatmap;   /**< [B,K,H,W], flip-averaged, binary32 */
    int32_t      batch, keypoints, height, width;
    const float *centre;    /**< [B,2] x, y in image px */
    const float *scale;     /**< [B,2] box width and height over 200, padding included (pixel_std 200) */
    enum stance_post_process post_process;
    int32_t      modulate_kernel; /**< unbiased only: width of the Gaussian, px of the heatmap, odd */
    float       *keypoint;  /**< out [B,K,3]: x, y in image px, score */
};

STANCE_API stance_status stance_decode_heatmap(const struct stance_decode *d, struct stance_error *err);
STANCE_API void stance_unflip_heatmap(const int32_t *partner, float *heat, int batch, int k, int h, int w, bool shift);

STANCE_END_DECLS
#endif
