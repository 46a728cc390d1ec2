/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/image.h"
#include "data/image_codec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool stance_source_get(struct image_source *s, size_t at, void *to, size_t n)
{
    if (at > s->size || n > s->size - at)
        return false;
    if (s->bytes != NULL) {
        memcpy(to, s->bytes + at, n);
        return true;
    }
    if (at < s->window_at || at + n > s->window_at + s->window_size) {
        ssize_t got = pread(s->fd, s->window, sizeof s->window, (off_t)at);

        s->window_at   = at;
        s->window_size = got > 0 ? (size_t)got : 0;
        if (n > s->window_size)
            return false;
    }
    memcpy(to, s->window + (at - s->window_at), n);
    return true;
}

static stance_status read_header(struct image_source *s, const char *name, struct image_header *h,
                                 struct stance_error *err)
{
    static const uint8_t png[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    uint8_t              b[8]   = { 0 };
    const char          *reason;

    *h = (struct image_header){ .orientation = 1 };
    if (s->size == 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: the file is empty", name);
    (void)stance_source_get(s, 0, b, s->size < 8 ? s->size : 8);
    if (memcmp(b, png, 8) == 0)
        reason = stance_png_header(s, h);
    else if (b[0] == 0xff && b[1] == 0xd8)
        reason = stance_jpeg_header(s, h);
    else
        reason = "is neither a JPEG nor a PNG file";
    if (reason != NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: %s", name, reason);
    if ((int64_t)h->width * h->height > STANCE_IMAGE_PIXELS_MAX)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: %d x %d pixels are more than %lld", name,
                           h->width, h->height, (long long)STANCE_IMAGE_PIXELS_MAX);
    return STANCE_OK;
}

/* Turns stored pixels upright: out(x, y) = in[base + x dx + y dy]. EXIF 2.32, 4.6.4 A, orientation. */
static void turn(const uint8_t *in, ptrdiff_t w, ptrdiff_t h, int orientation, uint8_t *out)
{
    static const struct { int8_t right, low, x_dx, x_dy, y_dx, y_dy; } walk[9] = {
        [2] = { 1, 0, -1, 0, 0, 1 },  [3] = { 1, 1, -1, 0, 0, -1 }, [4] = { 0, 1, 1, 0, 0, -1 },
        [5] = { 0, 0, 0, 1, 1, 0 },   [6] = { 0, 1, 0, -1, 1, 0 },  [7] = { 1, 1, 0, -1, -1, 0 },
        [8] = { 1, 0, 0, 1, -1, 0 },
    };
    ptrdiff_t      base = walk[orientation].right * (w - 1) + walk[orientation].low * (h - 1) * w;
    ptrdiff_t      dx   = walk[orientation].x_dx + walk[orientation].x_dy * w;
    ptrdiff_t      dy   = walk[orientation].y_dx + walk[orientation].y_dy * w;
    ptrdiff_t      ow = orientation >= 5 ? h : w, oh = orientation >= 5 ? w : h;

    for (ptrdiff_t y = 0; y < oh; y++)
        for (ptrdiff_t x = 0; x < ow; x++, out += 3)
            memcpy(out, in + 3 * (base + x * dx + y * dy), 3);
}

/* Within the image and not empty, as decoders want it. */
static void clamp_part(const int32_t part[4], const struct image_header *h, int32_t out[4])
{
    const int32_t size[2] = { h->width, h->height };

    for (int i = 0; i < 2; i++) {
        out[i]     = part[i] < 0 ? 0 : part[i] >= size[i] ? size[i] - 1 : part[i];
        out[i + 2] = part[i + 2] <= out[i] ? out[i] + 1 : part[i + 2] > size[i] ? size[i] : part[i + 2];
    }
}

/* Parts of what is turned, of ink and of PNG are the whole. */
static stance_status decode_stored(const uint8_t *bytes, size_t size, const char *name, const struct image_header *h,
                                   const int32_t part[4], bool tail, uint8_t *rgb, struct stance_error *err)
{
    int32_t within[4];

    if (h->format == IMAGE_PNG)
        return stance_png_decode(bytes, size, name, h, rgb, err);
    if (part == NULL || h->orientation != 1 || h->channels == 4)
        return stance_jpeg_decode(bytes, size, name, h, rgb, err);
    clamp_part(part, h, within);
    return stance_jpeg_decode_part(bytes, size, name, h, within, tail, rgb, err);
}

stance_status stance_image_decode_part(const uint8_t *bytes, size_t size, const char *name, const int32_t part[4],
                                       bool tail, struct stance_image *out, struct stance_error *err)
{
    struct image_source s = { .bytes = bytes, .size = size };
    struct image_header h;
    uint8_t            *rgb, *turned;
    stance_status       status = read_header(&s, name, &h, err);

    if (status != STANCE_OK)
        return status;
    rgb = stance_calloc((size_t)h.width * (size_t)h.height, 3);
    if (rgb == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: %d x %d pixels", name, h.width, h.height);
    status = decode_stored(bytes, size, name, &h, part, tail, rgb, err);
    if (status != STANCE_OK)
        goto free_rgb;
    if (h.orientation != 1) {
        turned = stance_calloc((size_t)h.width * (size_t)h.height, 3);
        if (turned == NULL) {
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: %d x %d pixels", name, h.width, h.height);
            goto free_rgb;
        }
        turn(rgb, h.width, h.height, h.orientation, turned);
        stance_free(rgb);
        rgb = turned;
    }
    *out = (struct stance_image){ .rgb    = rgb,
                                  .width  = h.orientation >= 5 ? h.height : h.width,
                                  .height = h.orientation >= 5 ? h.width : h.height };
    return STANCE_OK;
free_rgb:
    stance_free(rgb);
    return status;
}

stance_status stance_image_decode(const uint8_t *bytes, size_t size, const char *name,
                                  struct stance_image *out, struct stance_error *err)
{
    return stance_image_decode_part(bytes, size, name, NULL, true, out, err);
}

static stance_status open_file(const char *path, struct image_source *s, struct stance_error *err)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: is not a regular file", path);
    }
    s->fd          = fd;
    s->bytes       = NULL;
    s->size        = (size_t)st.st_size;
    s->window_size = 0;
    s->window_at   = 0;
    return STANCE_OK;
}

static stance_status read_all(const char *path, uint8_t **bytes, size_t *size, struct stance_error *err)
{
    struct image_source s;
    size_t              have   = 0;
    uint8_t            *b;
    stance_status       status = open_file(path, &s, err);

    if (status != STANCE_OK)
        return status;
    b = stance_calloc(1, s.size + 1);
    if (b == NULL) {
        close(s.fd);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: %zu bytes", path, s.size);
    }
    while (have < s.size) {
        ssize_t got = read(s.fd, b + have, s.size - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path,
                                 got < 0 ? strerror(errno) : "became shorter while it was read");
            break;
        }
        have += (size_t)got;
    }
    close(s.fd);
    if (status != STANCE_OK) {
        stance_free(b);
        return status;
    }
    *bytes = b;
    *size  = have;
    return STANCE_OK;
}

stance_status stance_image_read_part(const char *path, const int32_t part[4], bool tail, struct stance_image *out,
                                     struct stance_error *err)
{
    uint8_t      *bytes;
    size_t        size;
    stance_status status = read_all(path, &bytes, &size, err);

    if (status != STANCE_OK)
        return status;
    status = stance_image_decode_part(bytes, size, path, part, tail, out, err);
    stance_free(bytes);
    return status;
}

stance_status stance_image_read(const char *path, struct stance_image *out, struct stance_error *err)
{
    return stance_image_read_part(path, NULL, true, out, err);
}

/* Whether the file ends as a whole one does. Something may follow the end of the image in a good file,
 * so that false means "unknown". */
static bool ends_well(struct image_source *s, enum image_format format)
{
    static const uint8_t iend[8] = { 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82 };
    uint8_t              b[8];

    if (s->size < 8 || !stance_source_get(s, s->size - 8, b, 8))
        return false;
    return format == IMAGE_PNG ? memcmp(b, iend, 8) == 0 : b[6] == 0xff && b[7] == 0xd9;
}

stance_status stance_image_check(const char *path, bool decode, int32_t *width, int32_t *height,
                                 struct stance_error *err)
{
    struct image_source s;
    struct image_header h;
    struct stance_image image;
    stance_status       status = open_file(path, &s, err);
    bool                whole;

    if (status != STANCE_OK)
        return status;
    status = read_header(&s, path, &h, err);
    whole  = status == STANCE_OK && ends_well(&s, h.format);
    close(s.fd);
    if (status != STANCE_OK)
        return status;
    if (decode || !whole) {
        status = stance_image_read(path, &image, err);
        if (status != STANCE_OK)
            return status;
        stance_image_free(&image);
    }
    *width  = h.orientation >= 5 ? h.height : h.width;
    *height = h.orientation >= 5 ? h.width : h.height;
    return STANCE_OK;
}

stance_status stance_image_size(const char *path, int32_t *width, int32_t *height,
                                struct stance_error *err)
{
    struct image_source s;
    struct image_header h;
    stance_status       status = open_file(path, &s, err);

    if (status != STANCE_OK)
        return status;
    status = read_header(&s, path, &h, err);
    close(s.fd);
    if (status != STANCE_OK)
        return status;
    *width  = h.orientation >= 5 ? h.height : h.width;
    *height = h.orientation >= 5 ? h.width : h.height;
    return STANCE_OK;
}

void stance_image_free(struct stance_image *image)
{
    stance_free(image->rgb);
    *image = (struct stance_image){ 0 };
}
