/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/warp.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_SSE41 1
#endif

/* One build for machines with and without AVX2; the loader picks. Needs ifunc, which the address
 * sanitizer's start-up does not survive. */
#ifndef __has_attribute
#define __has_attribute(x) 0
#endif
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && __has_attribute(target_clones) \
    && !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

const float stance_image_mean[3] = { 0.485f, 0.456f, 0.406f };
const float stance_image_std[3]  = { 0.229f, 0.224f, 0.225f };

void stance_placement_of_box(const double box[4], const int32_t input_size[2], double padding,
                             struct stance_placement *p)
{
    double aspect = (double)input_size[0] / input_size[1];
    double w = box[2], h = box[3];

    p->centre[0] = (float)(box[0] + w * 0.5);
    p->centre[1] = (float)(box[1] + h * 0.5);
    if (w > aspect * h)
        h = w / aspect;
    else if (w < aspect * h)
        w = h * aspect;
    p->scale[0] = (float)(w / 200) * (float)padding;
    p->scale[1] = (float)(h / 200) * (float)padding;
    p->rotation = 0;
    p->mirrored = false;
}

/* b = A^-1 b by elimination with row pivoting, in the order of OpenCV's small solver: its last bits
 * decide which pixel a sample falls on. @return false when A is singular. */
static bool solve6(double a[6][6], double b[6])
{
    for (int i = 0; i < 6; i++) {
        int    pivot = i;
        double d;

        for (int j = i + 1; j < 6; j++)
            if (fabs(a[j][i]) > fabs(a[pivot][i]))
                pivot = j;
        if (!(fabs(a[pivot][i]) >= 2.220446049250313e-14)) /* 100 epsilon */
            return false;
        if (pivot != i) {
            for (int k = i; k < 6; k++) {
                double t    = a[i][k];
                a[i][k]     = a[pivot][k];
                a[pivot][k] = t;
            }
            d        = b[i];
            b[i]     = b[pivot];
            b[pivot] = d;
        }
        d = -1 / a[i][i];
        for (int j = i + 1; j < 6; j++) {
            double alpha = a[j][i] * d;

            for (int k = i + 1; k < 6; k++)
                a[j][k] += alpha * a[i][k];
            b[j] += alpha * b[i];
        }
    }
    for (int i = 5; i >= 0; i--) {
        for (int k = i + 1; k < 6; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    return true;
}

/* Third corner of the right angle at b whose leg is a - b. */
static void corner(const float a[2], const float b[2], float out[2])
{
    float dx = a[0] - b[0], dy = a[1] - b[1];

    out[0] = b[0] - dy;
    out[1] = b[1] + dx;
}

void stance_affine_matrix(const struct stance_placement *p, const int32_t input_size[2], double m[6])
{
    double angle = 3.141592653589793 * p->rotation / 180;
    double leg   = -0.5 * (double)(p->scale[0] * 200.0f);
    float  src[3][2], dst[3][2];
    double a[6][6], b[6];

    src[0][0] = p->centre[0];
    src[0][1] = p->centre[1];
    src[1][0] = (float)((double)p->centre[0] + (0 * cos(angle) - leg * sin(angle)));
    src[1][1] = (float)((double)p->centre[1] + (0 * sin(angle) + leg * cos(angle)));
    corner(src[0], src[1], src[2]);
    dst[0][0] = (float)(input_size[0] * 0.5);
    dst[0][1] = (float)(input_size[1] * 0.5);
    dst[1][0] = dst[0][0];
    dst[1][1] = (float)(input_size[1] * 0.5 + input_size[0] * -0.5);
    corner(dst[0], dst[1], dst[2]);
    for (int i = 0; i < 3; i++) {
        const double row[6] = { src[i][0], src[i][1], 1, 0, 0, 0 };

        for (int k = 0; k < 6; k++) {
            a[2 * i][k]     = row[k];
            a[2 * i + 1][k] = row[(k + 3) % 6];
        }
        b[2 * i]     = dst[i][0];
        b[2 * i + 1] = dst[i][1];
    }
    if (!solve6(a, b))
        memset(b, 0, sizeof b); /* a window without width shows nothing */
    memcpy(m, b, sizeof b);
}

void stance_affine_points(const double m[6], float *points, int32_t n)
{
    for (float *p = points; p < points + 3 * (size_t)n; p += 3) {
        double x = p[0], y = p[1];

        if (!(p[2] > 0))
            continue;
        p[0] = (float)(m[0] * x + m[1] * y + m[2]);
        p[1] = (float)(m[3] * x + m[4] * y + m[5]);
    }
}

void stance_normalise_init(struct stance_normalise *n, const float mean[3], const float std[3])
{
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            n->of[c][v] = ((float)v / 255.0f - mean[c]) / std[c];
}

enum { BLOCK = 128 }; /* columns at a time, so that nothing is allocated */

struct walk;
typedef void walk_block(const struct walk *s, int32_t x0, int32_t y0, const int32_t *dx, const int32_t *dy, int32_t n,
                        uint8_t *out);

/* The image with the walk of the inverse matrix over it. Coordinates are in 1/1024 px. */
struct walk {
    const uint8_t *origin; /* of pixel (0, 0) of the image as it is seen, mirrored or not */
    const uint8_t *end;
    ptrdiff_t      step, stride;
    int32_t        width, height;
    double         inverse[6];
    walk_block    *block;
};

static int32_t fixed(double v)
{
    /* Bounded so that sums of two stay in 31 bits; that far outside everything is black. */
    v *= 1024;
    return (int32_t)lrint(!(v > -1e9) ? -1e9 : v > 1e9 ? 1e9 : v);
}

static void invert(const double m[6], double inverse[6])
{
    double det = m[0] * m[4] - m[1] * m[3];
    double d   = det != 0 ? 1 / det : 0;

    inverse[0] = m[4] * d;
    inverse[1] = m[1] * -d;
    inverse[3] = m[3] * -d;
    inverse[4] = m[0] * d;
    inverse[2] = -inverse[0] * m[2] - inverse[1] * m[5];
    inverse[5] = -inverse[3] * m[2] - inverse[4] * m[5];
}

void stance_warp_part(bool mirrored, const double m[6], int32_t width, int32_t height, int32_t image_width,
                      int32_t part[4])
{
    const double corner_x[4] = { 0, width - 1, 0, width - 1 }, corner_y[4] = { 0, 0, height - 1, height - 1 };
    double       v[6], low[2] = { 1e9, 1e9 }, high[2] = { -1e9, -1e9 };

    invert(m, v);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            double at = v[3 * k] * corner_x[i] + v[3 * k + 1] * corner_y[i] + v[3 * k + 2];

            low[k]  = fmax(fmin(low[k], at), -1e8);
            high[k] = fmin(fmax(high[k], at), 1e8);
        }
    if (mirrored) {
        double left = low[0];

        low[0]  = image_width - 1 - high[0];
        high[0] = image_width - 1 - left;
    }
    for (int k = 0; k < 2; k++) { /* a neighbour on either side, and one for rounding */
        part[k]     = (int32_t)floor(low[k]) - 2;
        part[k + 2] = (int32_t)ceil(high[k]) + 3;
    }
}

/* A sample whose four neighbours are not all inside the image. */
static void at_edge(const struct walk *s, int32_t sx, int32_t sy, uint32_t fx, uint32_t fy, uint8_t *out)
{
    uint32_t sum[3] = { 512, 512, 512 };

    for (int32_t j = 0; j < 2; j++)
        for (int32_t i = 0; i < 2; i++) {
            int32_t        x = sx + i, y = sy + j;
            uint32_t       weight = (i ? fx : 32 - fx) * (j ? fy : 32 - fy);
            const uint8_t *p;

            if (x < 0 || x >= s->width || y < 0 || y >= s->height)
                continue;
            p = s->origin + y * s->stride + x * s->step;
            for (int c = 0; c < 3; c++)
                sum[c] += weight * p[c];
        }
    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)(sum[c] >> 10);
}

/* Four neighbours inside the image: weights are fx fy / 1024 exactly. OpenCV's are the same times 32, and so is
 * its rounding constant. */
static inline void inside(const uint8_t *p, const uint8_t *q, ptrdiff_t step, uint32_t fx, uint32_t fy, uint8_t *out)
{
    uint32_t w11 = fx * fy, w10 = 32 * fy - w11, w01 = 32 * fx - w11, w00 = 1024 - 32 * fx - w10;

    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)((w00 * p[c] + w01 * p[step + c] + w10 * q[c] + w11 * q[step + c] + 512) >> 10);
}

static inline void elsewhere(const struct walk *s, int32_t sx, int32_t sy, uint32_t fx, uint32_t fy, uint8_t *out)
{
    if (sx >= -1 && sx < s->width && sy >= -1 && sy < s->height)
        at_edge(s, sx, sy, fx, fy, out);
    else
        out[0] = out[1] = out[2] = 0;
}

/* One block of one row. */
static void warp_block(const struct walk *s, int32_t x0, int32_t y0, const int32_t *dx, const int32_t *dy, int32_t n,
                       uint8_t *out)
{
    const uint32_t inner_w = (uint32_t)(s->width - 1), inner_h = (uint32_t)(s->height - 1);

    for (int32_t i = 0; i < n; i++, out += 3) {
        int32_t        x = (x0 + dx[i]) >> 5, y = (y0 + dy[i]) >> 5, sx = x >> 5, sy = y >> 5;
        uint32_t       fx = (uint32_t)x & 31, fy = (uint32_t)y & 31;
        const uint8_t *p;

        if ((uint32_t)sx < inner_w && (uint32_t)sy < inner_h) {
            p = s->origin + sy * s->stride + sx * s->step;
            inside(p, p + s->stride, s->step, fx, fy, out);
        } else {
            elsewhere(s, sx, sy, fx, fy, out);
        }
    }
}

#ifdef HAVE_SSE41
/* The same numbers: both rows as 16-bit pairs of neighbours, of which one instruction weighs and adds four. */
__attribute__((target("sse4.1"))) static void warp_block_sse41(const struct walk *s, int32_t x0, int32_t y0,
                                                               const int32_t *dx, const int32_t *dy, int32_t n, uint8_t *out)
{
    const uint32_t  inner_w = (uint32_t)(s->width - 1), inner_h = (uint32_t)(s->height - 1);
    const ptrdiff_t first = s->step < 0 ? s->step : 0; /* of the pair, in memory */
    const __m128i   half = _mm_set1_epi32(512);
    const __m128i   pairs = s->step < 0 ? _mm_setr_epi8(3, -1, 0, -1, 4, -1, 1, -1, 5, -1, 2, -1, -1, -1, -1, -1)
                                        : _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);

    for (int32_t i = 0; i < n; i++, out += 3) {
        int32_t        x = (x0 + dx[i]) >> 5, y = (y0 + dy[i]) >> 5, sx = x >> 5, sy = y >> 5;
        uint32_t       fx = (uint32_t)x & 31, fy = (uint32_t)y & 31, w11 = fx * fy, w10 = 32 * fy - w11;
        uint32_t       w01 = 32 * fx - w11, w00 = 1024 - 32 * fx - w10, rgb;
        const uint8_t *p, *q;
        __m128i        sum;

        if ((uint32_t)sx >= inner_w || (uint32_t)sy >= inner_h) {
            elsewhere(s, sx, sy, fx, fy, out);
            continue;
        }
        p = s->origin + sy * s->stride + sx * s->step + first;
        q = p + s->stride;
        if (s->end - q < 8) { /* six bytes are meant, eight are read */
            inside(p - first, q - first, s->step, fx, fy, out);
            continue;
        }
        sum = _mm_add_epi32(_mm_madd_epi16(_mm_shuffle_epi8(_mm_loadu_si64(p), pairs), _mm_set1_epi32((int)(w00 | w01 << 16))),
                            _mm_madd_epi16(_mm_shuffle_epi8(_mm_loadu_si64(q), pairs), _mm_set1_epi32((int)(w10 | w11 << 16))));
        sum = _mm_srli_epi32(_mm_add_epi32(sum, half), 10);
        rgb = (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(sum, sum), sum));
        memcpy(out, &rgb, 3);
    }
}
#endif

static void walk_start(struct walk *s, const struct stance_image *image, bool mirrored, const double m[6])
{
    s->step   = mirrored ? -3 : 3;
    s->stride = 3 * (ptrdiff_t)image->width;
    s->origin = image->rgb + (mirrored ? s->stride - 3 : 0);
    s->width  = image->width;
    s->height = image->height;
    s->end    = image->rgb + s->stride * image->height;
    s->block  = warp_block;
#ifdef HAVE_SSE41
    if (__builtin_cpu_supports("sse4.1"))
        s->block = warp_block_sse41;
#endif
    invert(m, s->inverse);
}

CLONES static void normalise_block(const struct stance_normalise *t, const uint8_t *in, int32_t n,
                                   float *out, size_t plane)
{
    for (int c = 0; c < 3; c++, out += plane)
        for (int32_t i = 0; i < n; i++)
            out[i] = t->of[c][in[3 * i + c]];
}

/* Runs over the output block by block; bytes go to @p bytes, or normalised to @p out. */
static void warp(const struct walk *s, const struct stance_normalise *t, int32_t width, int32_t height,
                 uint8_t *bytes, float *out)
{
    const double *v = s->inverse;
    int32_t       dx[BLOCK], dy[BLOCK];
    uint8_t       block[3 * BLOCK];

    for (int32_t at = 0; at < width; at += BLOCK) {
        int32_t n = width - at < BLOCK ? width - at : BLOCK;

        for (int32_t i = 0; i < n; i++) {
            dx[i] = fixed(v[0] * (at + i));
            dy[i] = fixed(v[3] * (at + i));
        }
        for (int32_t y = 0; y < height; y++) {
            int32_t x0 = fixed(v[1] * y + v[2]) + 16, y0 = fixed(v[4] * y + v[5]) + 16;
            size_t  to = (size_t)y * (size_t)width + (size_t)at;

            s->block(s, x0, y0, dx, dy, n, bytes != NULL ? bytes + 3 * to : block);
            if (bytes == NULL)
                normalise_block(t, block, n, out + to, (size_t)width * (size_t)height);
        }
    }
}

void stance_warp_u8(const struct stance_image *image, bool mirrored, const double m[6], int32_t width,
                    int32_t height, uint8_t *out)
{
    struct walk s;

    walk_start(&s, image, mirrored, m);
    warp(&s, NULL, width, height, out, NULL);
}

void stance_warp_f32(const struct stance_image *image, bool mirrored, const double m[6],
                     const struct stance_normalise *n, int32_t width, int32_t height, float *out)
{
    struct walk s;

    walk_start(&s, image, mirrored, m);
    warp(&s, n, width, height, NULL, out);
}
