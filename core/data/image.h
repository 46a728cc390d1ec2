/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Image files: JPEG (libjpeg-turbo) and PNG (libpng) to 8-bit RGB, the way OpenCV's colour flag reads
 *  them: EXIF orientation applied, grey repeated over three channels, the high byte of 16 bits, alpha
 *  dropped without blending. Every function is safe in any thread; every failure names the file. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include <stance/dataset.h>

/** Larger images are refused before anything is allocated, px. */
#define STANCE_IMAGE_PIXELS_MAX ((int64_t)1 << 28)

/** Decodes a file. A damaged or truncated file is an error, also where the decoder could fill the
 *  missing rows with grey. @param[out] out  from stance_calloc, for stance_image_free().
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be read); STANCE_ERR_FORMAT (neither JPEG nor PNG,
 *          damaged, too large); STANCE_ERR_NOMEM. */
stance_status stance_image_read(const char *path, struct stance_image *out, struct stance_error *err)
    STANCE_MUST_CHECK;

/** The same where only the pixels with part[0] <= x < part[2] and part[1] <= y < part[3] are asked for: these are
 *  the same bytes, the others are undefined. Takes down to half of the time.
 *  @param part  NULL: all of it
 *  @param tail  whether damage in the rows below the part is looked for, which saves less */
stance_status stance_image_read_part(const char *path, const int32_t part[4], bool tail, struct stance_image *out,
                                     struct stance_error *err) STANCE_MUST_CHECK;

/** stance_image_read_part() from memory. @param name  for messages. */
stance_status stance_image_decode_part(const uint8_t *bytes, size_t size, const char *name, const int32_t part[4],
                                       bool tail, struct stance_image *out, struct stance_error *err) STANCE_MUST_CHECK;

/** stance_image_read() from memory. @param name  for messages. */
stance_status stance_image_decode(const uint8_t *bytes, size_t size, const char *name,
                                  struct stance_image *out, struct stance_error *err) STANCE_MUST_CHECK;

/** Size after orientation, from the header alone: a few small reads. */
stance_status stance_image_size(const char *path, int32_t *width, int32_t *height,
                                struct stance_error *err) STANCE_MUST_CHECK;

/** Size as stance_image_size() gives it, and whether the file is whole: by its closing marker, and by
 *  decoding it where that is not at the end of the file, or where @p decode asks for it. */
stance_status stance_image_check(const char *path, bool decode, int32_t *width, int32_t *height,
                                 struct stance_error *err) STANCE_MUST_CHECK;

/** Writes an 8-bit RGB PNG. @return STANCE_OK; STANCE_ERR_IO: nothing is left at @p path. */
stance_status stance_image_write_png(const char *path, const struct stance_image *image,
                                     struct stance_error *err) STANCE_MUST_CHECK;

/** Frees the pixels and zeroes the struct; accepts one that is zero. */
void stance_image_free(struct stance_image *image);

#endif
