/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of a JPEG image. What costs time in a decoder, apart from the entropy code that has to be walked
 * from the start, is done for the blocks of the part alone: TurboJPEG 2 has no call for that, libjpeg-turbo's
 * other interface has. */
#include "config.h"

#include "data/image_codec.h"

#ifdef HAVE_LIBJPEG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

enum {
    SCANS_MAX = 500, /* a small progressive file can ask for hours of work */
    EDGE      = 2,   /* px: the upsampling of colours looks at neighbours, and at the edges of a part has none */
};

struct decoder {
    struct jpeg_error_mgr    errors;
    struct jpeg_progress_mgr progress;
    jmp_buf                  out;
    char                     reason[JMSG_LENGTH_MAX];
};

static void leave_with(struct decoder *d, const char *reason)
{
    snprintf(d->reason, sizeof d->reason, "%s", reason);
    longjmp(d->out, 1);
}

static void leave(j_common_ptr info)
{
    struct decoder *d = info->client_data;

    info->err->format_message(info, d->reason);
    longjmp(d->out, 1);
}

/* A warning means that pixels had to be made up. */
static void on_message(j_common_ptr info, int level)
{
    if (level < 0)
        leave(info);
}

static void count_scans(j_common_ptr info)
{
    if (((j_decompress_ptr)info)->input_scan_number > SCANS_MAX)
        leave_with(info->client_data, "more scans than any picture needs");
}

static void skip(j_decompress_ptr info, JDIMENSION to)
{
    if (info->output_scanline < to)
        (void)jpeg_skip_scanlines(info, to - info->output_scanline);
}

static void read_rows(j_decompress_ptr info, JDIMENSION to, JDIMENSION left, const struct image_header *h, uint8_t *rgb)
{
    while (info->output_scanline < to) {
        JSAMPROW row = rgb + 3 * ((size_t)info->output_scanline * (size_t)h->width + left);

        (void)jpeg_read_scanlines(info, &row, 1);
    }
}

static void decode(j_decompress_ptr info, const uint8_t *bytes, size_t size, const struct image_header *h,
                   const int32_t part[4], bool tail, uint8_t *rgb)
{
    JDIMENSION left = (JDIMENSION)(part[0] > EDGE ? part[0] - EDGE : 0), top = (JDIMENSION)part[1];
    JDIMENSION width, bottom = (JDIMENSION)part[3];

    jpeg_mem_src(info, bytes, (unsigned long)size);
    (void)jpeg_read_header(info, TRUE);
    if (info->image_width != (JDIMENSION)h->width || info->image_height != (JDIMENSION)h->height)
        leave_with(info->client_data, "two headers"); /* the pixels would not fit */
    info->out_color_space     = JCS_RGB;
    info->dct_method          = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    (void)jpeg_start_decompress(info);
    width = (JDIMENSION)(part[2] + EDGE < h->width ? part[2] + EDGE : h->width) - left;
    jpeg_crop_scanline(info, &left, &width);
    skip(info, top);
    read_rows(info, bottom, left, h, rgb);
    if (!tail)
        return;
    skip(info, info->output_height - 1); /* not to the very end: that would be a jump */
    read_rows(info, info->output_height, left, h, rgb);
    (void)jpeg_finish_decompress(info);
}

stance_status stance_jpeg_decode_part(const uint8_t *bytes, size_t size, const char *name,
                                      const struct image_header *h, const int32_t part[4], bool tail, uint8_t *rgb,
                                      struct stance_error *err)
{
    struct jpeg_decompress_struct info;
    struct decoder                d = { .progress.progress_monitor = count_scans };
    volatile bool                 done = false; /* set between setjmp() and what comes back to it */

    memset(&info, 0, sizeof info);
    info.err              = jpeg_std_error(&d.errors);
    d.errors.error_exit   = leave;
    d.errors.emit_message = on_message;
    info.client_data      = &d;
    if (setjmp(d.out) == 0) {
        jpeg_create_decompress(&info);
        info.progress = &d.progress;
        decode(&info, bytes, size, h, part, tail, rgb);
        done = true;
    }
    jpeg_destroy_decompress(&info);
    return done ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: damaged or cut short: %s", name, d.reason);
}

#else

stance_status stance_jpeg_decode_part(const uint8_t *bytes, size_t size, const char *name,
                                      const struct image_header *h, const int32_t part[4], bool tail, uint8_t *rgb,
                                      struct stance_error *err)
{
    (void)part;
    (void)tail;
    return stance_jpeg_decode(bytes, size, name, h, rgb, err);
}

#endif
