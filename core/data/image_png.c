/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/image_codec.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Chunks are length, type, data, CRC (ISO/IEC 15948, 5.3). */
const char *stance_png_header(struct image_source *s, struct image_header *h)
{
    uint8_t b[8];
    size_t  at = 8;

    h->format      = IMAGE_PNG;
    h->orientation = 1;
    h->width       = 0;
    for (int chunks = 0; stance_source_get(s, at, b, 8); chunks++) {
        uint32_t length = big_endian(b);

        if (chunks == 0) {
            if (memcmp(b + 4, "IHDR", 4) != 0 || length != 13 || !stance_source_get(s, at + 8, b, 8))
                return "is damaged in the header";
            if (big_endian(b) == 0 || big_endian(b) > INT32_MAX || big_endian(b + 4) == 0
                || big_endian(b + 4) > INT32_MAX)
                return "has no pixels";
            h->width    = (int32_t)big_endian(b);
            h->height   = (int32_t)big_endian(b + 4);
            h->channels = 3;
        } else if (memcmp(b + 4, "IDAT", 4) == 0 || memcmp(b + 4, "IEND", 4) == 0) {
            break; /* an orientation after the data is left alone: the header is read in one go */
        } else if (memcmp(b + 4, "eXIf", 4) == 0) {
            h->orientation = stance_exif_orientation(s, at + 8, length);
        }
        at += 12 + (size_t)length;
    }
    return h->width != 0 ? NULL : "is cut short in the header";
}

/* One decoding: libpng's callbacks find it by their io, error and memory pointers. */
struct png_job {
    const uint8_t *bytes;
    size_t         size, at;
    bool           no_memory;
    char           text[160];
    jmp_buf        out;
};

static png_voidp get_memory(png_structp png, png_alloc_size_t size)
{
    struct png_job *job = png_get_mem_ptr(png);
    void           *p   = stance_calloc(1, size);

    job->no_memory |= p == NULL;
    return p;
}

static void put_memory(png_structp png, png_voidp p)
{
    (void)png;
    stance_free(p);
}

static void failed(png_structp png, png_const_charp text)
{
    struct png_job *job = png_get_error_ptr(png);

    snprintf(job->text, sizeof job->text, "%s", text);
    longjmp(job->out, 1);
}

static void warned(png_structp png, png_const_charp text)
{
    (void)png; /* odd ancillary chunks do not change a pixel */
    (void)text;
}

static void get_bytes(png_structp png, png_bytep to, size_t n)
{
    struct png_job *job = png_get_io_ptr(png);

    if (n > job->size - job->at)
        png_error(png, "the file is cut short");
    memcpy(to, job->bytes + job->at, n);
    job->at += n;
}

static void read_pixels(png_structp png, png_infop info, const struct image_header *h, uint8_t *rgb,
                        png_bytep *rows)
{
    png_uint_32 w, hh;
    int         depth, colour;

    png_read_info(png, info);
    png_get_IHDR(png, info, &w, &hh, &depth, &colour, NULL, NULL, NULL);
    if (w != (png_uint_32)h->width || hh != (png_uint_32)h->height)
        png_error(png, "two headers disagree");
    if (depth == 16)
        png_set_strip_16(png);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if ((colour & PNG_COLOR_MASK_COLOR) == 0) {
        if (depth < 8)
            png_set_expand_gray_1_2_4_to_8(png);
        png_set_gray_to_rgb(png);
    }
    png_set_strip_alpha(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != (size_t)w * 3)
        png_error(png, "pixel format");
    for (png_uint_32 y = 0; y < hh; y++)
        rows[y] = rgb + (size_t)y * w * 3;
    png_read_image(png, rows);
    png_read_end(png, NULL);
}

stance_status stance_png_decode(const uint8_t *bytes, size_t size, const char *name,
                                const struct image_header *h, uint8_t *rgb, struct stance_error *err)
{
    struct png_job    job    = { .bytes = bytes, .size = size };
    volatile bool     bad    = true;
    png_structp volatile png = NULL;
    png_infop volatile info  = NULL;
    png_bytep        *rows   = stance_calloc((size_t)h->height, sizeof *rows);

    if (rows == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: PNG decoder", name);
    if (setjmp(job.out) == 0) {
        png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &job, failed, warned, &job, get_memory,
                                       put_memory);
        info = png != NULL ? png_create_info_struct(png) : NULL;
        if (info != NULL) {
            png_set_user_limits(png, INT32_MAX, INT32_MAX); /* image.c has checked the product */
            png_set_read_fn(png, &job, get_bytes);
            read_pixels(png, info, h, rgb, rows);
            bad = false;
        } else {
            job.no_memory = true;
        }
    }
    if (png != NULL) {
        png_structp p = png;
        png_infop   i = info;

        png_destroy_read_struct(&p, &i, NULL);
    }
    stance_free(rows);
    if (bad && job.no_memory)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: PNG decoder", name);
    if (bad)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: damaged or cut short: %s", name, job.text);
    return STANCE_OK;
}

stance_status stance_image_write_png(const char *path, const struct stance_image *image,
                                     struct stance_error *err)
{
    png_image out = { .version = PNG_IMAGE_VERSION,
                      .width   = (png_uint_32)image->width,
                      .height  = (png_uint_32)image->height,
                      .format  = PNG_FORMAT_RGB };

    if (png_image_write_to_file(&out, path, 0, image->rgb, 0, NULL))
        return STANCE_OK;
    unlink(path);
    return STANCE_FAIL(err, STANCE_ERR_IO, "%s: cannot be written: %s", path, out.message);
}
