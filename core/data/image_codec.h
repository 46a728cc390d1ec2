/* SPDX-License-Identifier: Apache-2.0
 *
 * Between image.c, which knows files, and the two decoders, which know formats. */
#ifndef DATA_IMAGE_CODEC_H
#define DATA_IMAGE_CODEC_H

#include "data/image.h"

/** Bytes of a file, all in memory or fetched as they are asked for. */
struct image_source {
    const uint8_t *bytes;  /**< whole file, or NULL: read from fd */
    size_t         size;
    int            fd;
    uint8_t        window[4096]; /**< of the file from window_at on */
    size_t         window_at, window_size;
};

/** Copies @p n <= 4096 bytes from @p at. @return false when the file ends before. */
bool stance_source_get(struct image_source *s, size_t at, void *to, size_t n);

enum image_format { IMAGE_JPEG, IMAGE_PNG };

struct image_header {
    enum image_format format;
    int32_t           width, height; /**< as stored, px */
    int32_t           channels;      /**< JPEG: components */
    int               orientation;   /**< EXIF, 1 to 8 */
};

/** Orientation in the TIFF block of @p size bytes at @p at, the body of an EXIF record (CIPA DC-008,
 *  tag 0x0112); 1 when it has none, is damaged or holds a number outside 1 to 8. */
int stance_exif_orientation(struct image_source *s, size_t at, size_t size);

/* @return NULL, or the reason why the header cannot be used. */
const char *stance_jpeg_header(struct image_source *s, struct image_header *h);
const char *stance_png_header(struct image_source *s, struct image_header *h);

/* Decode into rgb [h->height, h->width, 3]. Messages start with @p name. */
stance_status stance_jpeg_decode(const uint8_t *bytes, size_t size, const char *name,
                                 const struct image_header *h, uint8_t *rgb, struct stance_error *err);
/* The same of the pixels part[0] <= x < part[2], part[1] <= y < part[3] within the image, at their place; the
 * others stay as they are or are set as well. Not for four channels.
 * @param tail  whether damage below the part is looked for */
stance_status stance_jpeg_decode_part(const uint8_t *bytes, size_t size, const char *name,
                                      const struct image_header *h, const int32_t part[4], bool tail, uint8_t *rgb,
                                      struct stance_error *err);
stance_status stance_png_decode(const uint8_t *bytes, size_t size, const char *name,
                                const struct image_header *h, uint8_t *rgb, struct stance_error *err);

#endif
