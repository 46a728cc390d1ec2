/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  From a box in an image to the network's input. Conventions and rounding of MMPose 0.29 and of OpenCV
 *  4's fixed-point bilinear warp, so that crops are the same bytes. Safe in any thread. */
#ifndef DATA_WARP_H
#define DATA_WARP_H

#include <stance/dataset.h>

/** The window on the image that the network sees. */
struct stance_placement {
    float  centre[2]; /**< x, y, image px */
    float  scale[2];  /**< width, height over 200 px (MMPose's pixel_std), padding included */
    double rotation;  /**< degrees */
    bool   mirrored;  /**< the image is mirrored left to right first; centre counts in the mirrored one */
};

/** Grows a box (x, y, width, height; px) to the shape of the input and by @p padding. */
void stance_placement_of_box(const double box[4], const int32_t input_size[2], double padding,
                             struct stance_placement *p);

/** Matrix that takes image px to input px, row by row: x' = m0 x + m1 y + m2, y' = m3 x + m4 y + m5.
 *  Only the width of the scale counts. Solved in binary64 from three point pairs rounded to binary32. */
void stance_affine_matrix(const struct stance_placement *p, const int32_t input_size[2], double m[6]);

/** The part of an image of @p image_width px that a crop to @p width x @p height px looks at: part[0] <= x < part[2],
 *  part[1] <= y < part[3], not cut to the image. */
void stance_warp_part(bool mirrored, const double m[6], int32_t width, int32_t height, int32_t image_width,
                      int32_t part[4]);

/** Moves the labelled points (v > 0) of [n,3] x, y, v in place; the others keep their place. */
void stance_affine_points(const double m[6], float *points, int32_t n);

/** Table of (v / 255 - mean) / std in binary32 for the 256 values of each channel. */
struct stance_normalise { float of[3][256]; };
void stance_normalise_init(struct stance_normalise *n, const float mean[3], const float std[3]);

/** ImageNet's statistics, RGB, as MMPose's recipes have them. */
extern const float stance_image_mean[3], stance_image_std[3];

/** Bilinear crop, 0 outside the image. @param[out] out  [height,width,3] */
void stance_warp_u8(const struct stance_image *image, bool mirrored, const double m[6], int32_t width,
                    int32_t height, uint8_t *out);

/** The same, normalised. @param[out] out  [3,height,width] binary32 */
void stance_warp_f32(const struct stance_image *image, bool mirrored, const double m[6],
                     const struct stance_normalise *n, int32_t width, int32_t height, float *out);

#endif
