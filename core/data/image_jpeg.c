/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/image_codec.h"

#include <string.h>
#include <turbojpeg.h>

/* Walks the markers up to the frame header (ITU-T T.81, annex B). */
const char *stance_jpeg_header(struct image_source *s, struct image_header *h)
{
    uint8_t b[16];
    size_t  at = 2;

    h->format      = IMAGE_JPEG;
    h->orientation = 1;
    for (;;) {
        size_t length;
        int    marker;

        if (!stance_source_get(s, at, b, 2))
            return "is cut short in the header";
        if (b[0] != 0xff)
            return "is damaged in the header";
        marker = b[1];
        if (marker == 0xff) { /* fill byte */
            at++;
            continue;
        }
        at += 2;
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) /* stand alone */
            continue;
        if (marker == 0xd9 || marker == 0xda || marker == 0x00)
            return "is damaged: no frame header before the data";
        if (!stance_source_get(s, at, b, 2))
            return "is cut short in the header";
        length = (size_t)b[0] << 8 | b[1];
        if (length < 2)
            return "is damaged in the header";
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
            if (length < 8 || !stance_source_get(s, at, b, 8))
                return "is cut short in the header";
            h->height   = b[3] << 8 | b[4];
            h->width    = b[5] << 8 | b[6];
            h->channels = b[7];
            if (h->width == 0 || h->height == 0)
                return "has no pixels";
            if (h->channels != 1 && h->channels != 3 && h->channels != 4)
                return "has a number of channels other than 1, 3 or 4";
            return NULL;
        }
        if (marker == 0xe1 && length >= 8 && stance_source_get(s, at + 2, b, 6)
            && memcmp(b, "Exif\0", 6) == 0)
            h->orientation = stance_exif_orientation(s, at + 8, length - 8);
        at += length;
    }
}

/* Four channels are ink as print programs store it: 255 is no ink, whether or not there is an Adobe
 * marker. Viewers and OpenCV read them so. */
static void rgb_of_ink(const uint8_t *ink, uint8_t *rgb, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)((ink[4 * i + c] * ink[4 * i + 3] + 127) / 255);
}

stance_status stance_jpeg_decode(const uint8_t *bytes, size_t size, const char *name,
                                 const struct image_header *h, uint8_t *rgb, struct stance_error *err)
{
    /* A scan limit, because a small progressive file can ask for hours of work. */
    const int     flags  = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    stance_status status = STANCE_OK;
    int           w = -1, hh = -1, sub, space, rc;
    uint8_t      *ink = NULL;
    tjhandle      tj  = tjInitDecompress();

    if (tj == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: JPEG decoder", name);
    /* Its result is not asked for: it fails on sampling factors that decoding takes. The library must
     * see the same size as we do, or the pixels would not fit. */
    (void)tjDecompressHeader3(tj, bytes, (unsigned long)size, &w, &hh, &sub, &space);
    if (w != h->width || hh != h->height) {
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is damaged: %s", name, tjGetErrorStr2(tj));
        goto destroy;
    }
    if (h->channels == 4) {
        ink = stance_calloc((size_t)w * (size_t)hh, 4);
        if (ink == NULL) {
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: %d x %d pixels", name, w, hh);
            goto destroy;
        }
    }
    rc = tjDecompress2(tj, bytes, (unsigned long)size, ink != NULL ? ink : rgb, w, 0, hh,
                       ink != NULL ? TJPF_CMYK : TJPF_RGB, flags);
    if (rc != 0)
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: damaged or cut short: %s", name,
                             tjGetErrorStr2(tj));
    else if (ink != NULL)
        rgb_of_ink(ink, rgb, (size_t)w * (size_t)hh);
    stance_free(ink);
destroy:
    tjDestroy(tj);
    return status;
}
