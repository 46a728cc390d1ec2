/* SPDX-License-Identifier: Apache-2.0 */
#include "case_yaml.h"
#include "fault.h"
#include "runner.h"

#include "base/random.h"
#include "data/image.h"

#include <stance/error.h>

#include <dirent.h>
#include <fcntl.h>
#include <turbojpeg.h>

static void check_pixels(yaml_document_t *d, const struct stance_image *image)
{
    yaml_node_t *expect = case_get(d, case_root(d), "expect"), *pixels = case_get(d, expect, "pixels");
    int          tolerance = (int)case_number(case_get(d, expect, "pixel_tolerance"));

    ck_assert_int_ge(case_length(pixels), 4);
    for (int i = 0; i < case_length(pixels); i++) {
        yaml_node_t *pixel = case_item(d, pixels, i), *rgb = case_get(d, pixel, "rgb");
        int          x = (int)case_number(case_get(d, pixel, "x")), y = (int)case_number(case_get(d, pixel, "y"));

        for (int c = 0; c < 3; c++) {
            int want = (int)case_number(case_item(d, rgb, c)), got = image->rgb[3 * (y * image->width + x) + c];

            ck_assert_msg(abs(want - got) <= tolerance, "(%d, %d) channel %d: %d, not %d", x, y, c, got, want);
        }
    }
}

START_TEST(cases)
{
    const char    *root = shared_file("cases/image");
    DIR           *dir;
    int            walked = 0;
    struct dirent *e;

    if (root == NULL) {
        SKIP("cases/image: the shared cases are absent");
        return;
    }
    dir = opendir(root);
    while ((e = readdir(dir)) != NULL) {
        char                path[4096];
        struct stance_error err = STANCE_ERROR_INIT;
        struct stance_image image;
        int32_t             w, h;
        yaml_document_t     d;
        yaml_node_t        *expect;

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/case.yaml", root, e->d_name);
        case_load(path, &d);
        expect = case_get(&d, case_root(&d), "expect");
        ck_assert_str_eq(case_text(case_get(&d, case_root(&d), "do")), "load-image");
        snprintf(path, sizeof path, "%s/%s/%s", root, e->d_name, case_text(case_get(&d, case_get(&d, case_root(&d), "input"), "file")));
        ck_assert_msg(stance_image_read(path, &image, &err) == STANCE_OK, "%s: %s", e->d_name, err.text);
        ck_assert_int_eq(image.width, (int)case_number(case_get(&d, expect, "width")));
        ck_assert_int_eq(image.height, (int)case_number(case_get(&d, expect, "height")));
        ck_assert_msg(stance_image_size(path, &w, &h, &err) == STANCE_OK, "%s", err.text);
        ck_assert(w == image.width && h == image.height);
        check_pixels(&d, &image);
        stance_image_free(&image);
        yaml_document_delete(&d);
        walked++;
    }
    closedir(dir);
    ck_assert_int_ge(walked, 7);
}
END_TEST

/* A 7 x 5 picture of large flat areas that has no symmetry. */
enum { W = 35, H = 28 };

static void picture(uint8_t *rgb)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            uint8_t *p = rgb + 3 * (y * W + x);

            p[0] = x < W / 2 ? 220 : 40;
            p[1] = y < H / 2 ? 200 : 30;
            p[2] = x < W / 2 && y < H / 2 ? 60 : 128;
        }
}

/* A JPEG with an EXIF record that holds an orientation. @return its size */
static size_t jpeg_with_orientation(int orientation, bool big, uint8_t **out)
{
    static const uint8_t little_head[] = { 0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                                           1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    static const uint8_t big_head[] = { 0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                        0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 };
    uint8_t        rgb[3 * W * H];
    unsigned char *jpeg = NULL;
    unsigned long  size = 0;
    tjhandle       tj   = tjInitCompress();

    picture(rgb);
    ck_assert_int_eq(tjCompress2(tj, rgb, W, 0, H, TJPF_RGB, &jpeg, &size, TJSAMP_444, 95, 0), 0);
    *out = calloc(1, size + sizeof big_head);
    memcpy(*out, jpeg, 2);
    memcpy(*out + 2, big ? big_head : little_head, sizeof big_head);
    (*out)[2 + (big ? 29 : 28)] = (uint8_t)orientation;
    memcpy(*out + 2 + sizeof big_head, jpeg + 2, size - 2);
    tjFree(jpeg);
    tjDestroy(tj);
    return size + sizeof big_head;
}

START_TEST(orientations)
{
    /* Where the stored top left and top right corners are seen (EXIF 2.32, tag 274). */
    static const struct { bool turned, x0, y0, x1, y1; } seen[9] = {
        [1] = { 0, 0, 0, 1, 0 }, [2] = { 0, 1, 0, 0, 0 }, [3] = { 0, 1, 1, 0, 1 }, [4] = { 0, 0, 1, 1, 1 },
        [5] = { 1, 0, 0, 0, 1 }, [6] = { 1, 1, 0, 1, 1 }, [7] = { 1, 1, 1, 1, 0 }, [8] = { 1, 0, 1, 0, 0 },
    };
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_image image;
    uint8_t            *jpeg, rgb[3 * W * H];
    size_t              size = jpeg_with_orientation(_i, _i % 2, &jpeg);
    const uint8_t      *a = rgb, *b = rgb + 3 * (W - 1);

    picture(rgb);
    ck_assert_msg(stance_image_decode(jpeg, size, "mem", &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(image.width, seen[_i].turned ? H : W);
    for (int c = 0; c < 3; c++) { /* quality 95, flat areas: a few steps */
        const uint8_t *p = image.rgb + 3 * (seen[_i].y0 * (image.height - 1) * image.width + seen[_i].x0 * (image.width - 1));
        const uint8_t *q = image.rgb + 3 * (seen[_i].y1 * (image.height - 1) * image.width + seen[_i].x1 * (image.width - 1));

        ck_assert_int_le(abs(p[c] - a[c]), 6);
        ck_assert_int_le(abs(q[c] - b[c]), 6);
    }
    stance_image_free(&image);
    free(jpeg);
}
END_TEST

START_TEST(odd_orientations_are_none)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_image image;
    uint8_t            *jpeg;
    size_t              size = jpeg_with_orientation(_i, false, &jpeg);

    ck_assert_msg(stance_image_decode(jpeg, size, "mem", &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(image.width, W);
    stance_image_free(&image);
    free(jpeg);
}
END_TEST

/* Every prefix of a file is refused, by decoding and by the quick look alike. */
static void refuse_prefixes(const uint8_t *bytes, size_t size, const char *path)
{
    for (size_t n = 0; n < size - 1; n += n < 64 || n + 64 > size ? 1 : 37) {
        struct stance_error err = STANCE_ERROR_INIT;
        struct stance_image image;
        int32_t             w, h;
        FILE               *f = fopen(path, "wb");

        fwrite(bytes, 1, n, f);
        fclose(f);
        ck_assert_msg(stance_image_decode(bytes, n, "cut.file", &image, &err) != STANCE_OK, "%zu of %zu bytes", n, size);
        ck_assert_msg(strstr(err.text, "cut.file") == err.text, "%s", err.text);
        ck_assert_int_eq(err.status, STANCE_ERR_FORMAT);
        ck_assert_msg(stance_image_check(path, false, &w, &h, &err) != STANCE_OK, "%zu of %zu bytes", n, size);
    }
    unlink(path);
}

START_TEST(truncated_jpeg)
{
    uint8_t *jpeg;
    size_t   size = jpeg_with_orientation(6, false, &jpeg);

    refuse_prefixes(jpeg, size, "test_image.cut.jpg");
    free(jpeg);
}
END_TEST

START_TEST(truncated_png)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_image image = { .width = W, .height = H }, back;
    uint8_t             rgb[3 * W * H], bytes[16384];
    FILE               *f;
    size_t              size;
    int32_t             w, h;

    picture(rgb);
    image.rgb = rgb;
    ck_assert_msg(stance_image_write_png("test_image.png", &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_image_read("test_image.png", &back, &err) == STANCE_OK, "%s", err.text);
    ck_assert(back.width == W && back.height == H && memcmp(back.rgb, rgb, sizeof rgb) == 0);
    ck_assert_msg(stance_image_check("test_image.png", false, &w, &h, &err) == STANCE_OK, "%s", err.text);
    stance_image_free(&back);
    f    = fopen("test_image.png", "rb");
    size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    refuse_prefixes(bytes, size, "test_image.png");
    ck_assert_int_eq(stance_image_write_png("/nowhere/a.png", &image, &err), STANCE_ERR_IO);
}
END_TEST

START_TEST(data_after_the_end_is_allowed)
{
    struct stance_error err = STANCE_ERROR_INIT;
    uint8_t            *jpeg;
    size_t              size = jpeg_with_orientation(1, false, &jpeg);
    FILE               *f    = fopen("test_image.tail.jpg", "wb");
    int32_t             w, h;

    fwrite(jpeg, 1, size, f);
    fwrite("more of some maker's", 1, 20, f);
    fclose(f);
    ck_assert_msg(stance_image_check("test_image.tail.jpg", false, &w, &h, &err) == STANCE_OK, "%s", err.text);
    unlink("test_image.tail.jpg");
    free(jpeg);
}
END_TEST

START_TEST(refusals)
{
    /* A PNG header of 2^15 x 2^14 pixels, and one of none. */
    static const uint8_t large[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R',
                                     0, 0, 0x80, 0, 0, 0, 0x40, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0 };
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_image  image;
    uint8_t              none[sizeof large];

    ck_assert_int_eq(stance_image_decode(large, sizeof large, "large.png", &image, &err), STANCE_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "large.png: 32768 x 16384 pixels"));
    memcpy(none, large, sizeof none);
    none[18] = 0;
    ck_assert_int_eq(stance_image_decode(none, sizeof none, "none.png", &image, &err), STANCE_ERR_FORMAT);
    ck_assert_int_eq(stance_image_read("no such file.jpg", &image, &err), STANCE_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no such file.jpg"));
    ck_assert_int_eq(stance_image_read("/", &image, &err), STANCE_ERR_INPUT);
    ck_assert_int_eq(stance_image_decode((const uint8_t *)"GIF89a  ", 8, "a.gif", &image, &err), STANCE_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "neither a JPEG nor a PNG"));
    ck_assert_int_eq(stance_image_decode((const uint8_t *)"", 0, "e.jpg", &image, &err), STANCE_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "empty"));
}
END_TEST

/* A picture of noise over slopes: every coefficient and every neighbour counts. */
static uint8_t *noise(int32_t w, int32_t h)
{
    uint8_t          *rgb = malloc(3 * (size_t)w * (size_t)h);
    struct stance_rng r   = stance_rng(3, STANCE_USE_INIT, (uint64_t)w, (uint64_t)h);

    for (int32_t i = 0; i < 3 * w * h; i++)
        rgb[i] = (uint8_t)((i / 7 + i / (3 * w)) % 200 + (int)(50 * stance_rng_uniform(&r)));
    return rgb;
}

static bool same_part(const struct stance_image *a, const struct stance_image *b, const int32_t part[4])
{
    if (a->width != b->width || a->height != b->height)
        return false;
    for (int32_t y = part[1]; y < part[3]; y++) {
        size_t at = 3 * ((size_t)y * (size_t)a->width + (size_t)part[0]);

        if (memcmp(a->rgb + at, b->rgb + at, 3 * (size_t)(part[2] - part[0])) != 0)
            return false;
    }
    return true;
}

/* A part is the same bytes as in the whole image, whatever colours share samples, and wherever it lies. */
START_TEST(parts)
{
    static const int    sampling[] = { TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_GRAY, TJSAMP_440, TJSAMP_411 };
    const int32_t       w = 203, h = 149;
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_rng   r = stance_rng(7, STANCE_USE_INIT, 0, (uint64_t)_i);
    struct stance_image whole, some;
    uint8_t            *rgb  = noise(w, h);
    unsigned char      *jpeg = NULL;
    unsigned long       size = 0;
    tjhandle            tj   = tjInitCompress();

    ck_assert_int_eq(tjCompress2(tj, rgb, w, 0, h, TJPF_RGB, &jpeg, &size, sampling[_i / 2], 80,
                                 _i % 2 ? TJFLAG_PROGRESSIVE : 0), 0);
    ck_assert_msg(stance_image_decode(jpeg, size, "a.jpg", &whole, &err) == STANCE_OK, "%s", err.text);
    for (int k = 0; k < 200; k++) {
        int32_t part[4] = { (int32_t)(stance_rng_uniform(&r) * w), (int32_t)(stance_rng_uniform(&r) * h), 0, 0 };

        part[2] = part[0] + 1 + (int32_t)(stance_rng_uniform(&r) * (w - part[0]));
        part[3] = part[1] + 1 + (int32_t)(stance_rng_uniform(&r) * (h - part[1]));
        if (k == 0)
            memcpy(part, (int32_t[4]){ 0, 0, w, h }, sizeof part);
        ck_assert_msg(stance_image_decode_part(jpeg, size, "a.jpg", part, k % 2, &some, &err) == STANCE_OK, "%s", err.text);
        ck_assert_msg(same_part(&whole, &some, part), "%d %d %d %d", part[0], part[1], part[2], part[3]);
        stance_image_free(&some);
    }
    stance_image_free(&whole);
    tjFree(jpeg);
    tjDestroy(tj);
    free(rgb);
}
END_TEST

/* Parts outside or empty are allowed; damage is told wherever it is; a turned image has its parts as seen. */
START_TEST(odd_parts)
{
    static const int32_t odd[][4] = { { -9, -9, 500, 500 }, { 90, 90, 95, 95 }, { -20, -20, -10, -10 }, { 5, 5, 5, 5 },
                                      { INT32_MAX - 1, INT32_MAX - 1, INT32_MAX, INT32_MAX } };
    const int32_t        top[4] = { 0, 0, 4, 4 };
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_image  whole, some;
    uint8_t             *jpeg;
    size_t               size = jpeg_with_orientation(6, false, &jpeg);

    ck_assert_msg(stance_image_decode(jpeg, size, "a.jpg", &whole, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_image_decode_part(jpeg, size, "a.jpg", top, true, &some, &err) == STANCE_OK, "%s", err.text);
    ck_assert(same_part(&whole, &some, top));
    stance_image_free(&whole);
    stance_image_free(&some);
    free(jpeg);
    size = jpeg_with_orientation(1, false, &jpeg);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        ck_assert_msg(stance_image_decode_part(jpeg, size, "a.jpg", odd[i], i % 2, &some, &err) == STANCE_OK, "%s", err.text);
        ck_assert(some.width == W && some.height == H);
        stance_image_free(&some);
    }
    ck_assert_int_eq(stance_image_decode_part(jpeg, size - 40, "cut.jpg", top, true, &some, &err), STANCE_ERR_FORMAT);
    ck_assert_msg(strstr(err.text, "cut.jpg: damaged or cut short: ") == err.text, "%s", err.text);
    free(jpeg);
}
END_TEST

START_TEST(memory_runs_out)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_image image = { .width = W, .height = H }, back;
    uint8_t             rgb[3 * W * H], *jpeg;
    size_t              size = jpeg_with_orientation(6, false, &jpeg);
    stance_status       status;

    picture(rgb);
    image.rgb = rgb;
    ck_assert_msg(stance_image_write_png("test_image.oom.png", &image, &err) == STANCE_OK, "%s", err.text);
    for (int kind = 0; kind < 2; kind++) {
        long n = 0;

        do {
            fault_after(n++);
            status = kind == 0 ? stance_image_decode(jpeg, size, "mem", &back, &err)
                               : stance_image_read("test_image.oom.png", &back, &err);
            ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "%s", err.text);
            if (status == STANCE_OK)
                stance_image_free(&back);
            ck_assert_int_eq(fault_live, 0);
        } while (status != STANCE_OK);
        ck_assert_int_gt(n, 2);
    }
    stance_set_allocator(NULL);
    unlink("test_image.oom.png");
    free(jpeg);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("image");
    TCase *t = tcase_create("image");

    tcase_add_test(t, cases);
    tcase_add_loop_test(t, orientations, 1, 9);
    tcase_add_loop_test(t, odd_orientations_are_none, 9, 11);
    tcase_add_test(t, truncated_jpeg);
    tcase_add_test(t, truncated_png);
    tcase_add_test(t, data_after_the_end_is_allowed);
    tcase_add_test(t, refusals);
    tcase_add_loop_test(t, parts, 0, 12);
    tcase_add_test(t, odd_parts);
    tcase_add_test(t, memory_runs_out);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return run_suite(s);
}
