/* SPDX-License-Identifier: Apache-2.0 */
#include "case_yaml.h"
#include "golden.h"
#include "runner.h"

#include "config/recipe.h"
#include "data/augment.h"
#include "data/image.h"
#include "data/pose_info.h"
#include "data/target.h"
#include "data/warp.h"

#include <math.h>

static const int32_t input_size[2] = { 192, 256 };

static struct stance_pose coco_pose(void)
{
    struct stance_pose p = *stance_pose_coco();

    p.input_size[0]   = 192;
    p.input_size[1]   = 256;
    p.heatmap_size[0] = 48;
    p.heatmap_size[1] = 64;
    return p;
}

static double at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

/* ---- golden/topdown ------------------------------------------------------------------------------- */

struct annotation { float keypoint[51]; };

static void find_annotation(const json_t *file, json_int_t id, struct annotation *a)
{
    size_t  i;
    json_t *one;

    json_array_foreach(json_object_get(file, "annotations"), i, one)
    {
        if (json_integer_value(json_object_get(one, "id")) != id)
            continue;
        for (size_t k = 0; k < 51; k++)
            a->keypoint[k] = (float)at(json_object_get(one, "keypoints"), k);
        return;
    }
    ck_abort_msg("annotation %lld is absent", (long long)id);
}

static struct stance_placement placement_of(const json_t *e)
{
    struct stance_placement p, golden = { 0 };
    double                  box[4];
    float                   factor = (float)json_number_value(json_object_get(e, "scale_factor"));

    for (size_t i = 0; i < 4; i++)
        box[i] = at(json_object_get(e, "bbox"), i);
    for (size_t i = 0; i < 2; i++) {
        golden.centre[i] = (float)at(json_object_get(e, "center"), i);
        golden.scale[i]  = (float)at(json_object_get(e, "scale"), i);
    }
    golden.rotation = json_number_value(json_object_get(e, "rotation"));
    stance_placement_of_box(box, input_size, 1.25, &p);
    for (int i = 0; i < 2; i++) { /* the same arithmetic in binary32: equal but for one rounding */
        ck_assert_float_eq_tol(p.centre[i], golden.centre[i], golden.centre[i] * 1.2e-7f);
        ck_assert_float_eq_tol(p.scale[i] * factor, golden.scale[i], golden.scale[i] * 1.2e-7f);
    }
    return golden;
}

/* @return worst difference of joints, px */
static double check_joints(const json_t *e, const float *points)
{
    double worst = 0;

    for (size_t k = 0; k < 17; k++) {
        ck_assert_int_eq(points[3 * k + 2] > 0, at(json_object_get(e, "visible"), k) > 0);
        for (size_t i = 0; i < 2; i++)
            worst = fmax(worst, fabs(points[3 * k + i] - at(json_array_get(json_object_get(e, "joints"), k), i)));
    }
    return worst;
}

/* The golden tensors: the file and its header. */
struct golden { char *bytes; json_t *header; };

static double check_targets(const json_t *e, const struct golden *g, const struct stance_pose *pose,
                            const float *points)
{
    static float   target[17 * 64 * 48];
    float          weight[17], want;
    char           name[32];
    double         worst = 0;
    const char    *golden;

    snprintf(name, sizeof name, "%s.target", json_string_value(json_object_get(e, "id")));
    golden = golden_tensor(g->bytes, g->header, name);
    stance_target_draw(pose, points, 2, false, target, weight);
    for (size_t k = 0; k < 17; k++)
        ck_assert(weight[k] == at(json_object_get(e, "target_weight"), k));
    for (size_t i = 0; i < sizeof target / sizeof *target; i++) {
        memcpy(&want, golden + 4 * i, 4);
        worst = fmax(worst, fabs(want - target[i]));
    }
    return worst;
}

/* @return number of crops compared */
static int check_crop(const json_t *e, const struct golden *g, const char *folder, const struct stance_placement *p,
                      const double m[6], int *differ)
{
    static uint8_t      crop[256 * 192 * 3];
    static float        floats[256 * 192 * 3];
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_image image;
    struct stance_normalise n;
    char                name[32], path[4096];
    size_t              sum = 0, far = 0, size = sizeof crop;
    const uint8_t      *golden;

    snprintf(name, sizeof name, "%s.crop", json_string_value(json_object_get(e, "id")));
    if (json_object_get(g->header, name) == NULL)
        return 0;
    golden = golden_tensor(g->bytes, g->header, name);
    snprintf(path, sizeof path, "%s/images/%s", folder, json_string_value(json_object_get(e, "file")));
    ck_assert_msg(stance_image_read(path, &image, &err) == STANCE_OK, "%s", err.text);
    stance_warp_u8(&image, p->mirrored, m, 192, 256, crop);
    for (size_t i = 0; i < size; i++) {
        int d = abs(crop[i] - golden[i]);

        sum += (size_t)d;
        far += d > 8;
        *differ += d != 0;
    }
    ck_assert_msg((double)sum / (double)size <= 0.5, "%s: mean difference %g", name, (double)sum / (double)size);
    ck_assert_msg((double)far / (double)size <= 0.001, "%s: %zu bytes are off by more than 8", name, far);
    stance_normalise_init(&n, stance_image_mean, stance_image_std);
    stance_warp_f32(&image, p->mirrored, m, &n, 192, 256, floats);
    for (size_t i = 0; i < 192 * 256; i++)
        for (size_t c = 0; c < 3; c++)
            ck_assert(floats[c * 192 * 256 + i]
                      == ((float)crop[3 * i + c] / 255.0f - stance_image_mean[c]) / stance_image_std[c]);
    stance_image_free(&image);
    return 1;
}

START_TEST(golden_topdown)
{
    const char        *list = shared_file("golden/topdown/topdown.json"), *folder = shared_file("data/coco-person");
    struct stance_pose pose  = coco_pose();
    double             worst_m = 0, worst_joint = 0, worst_target = 0;
    int                crops = 0, differ = 0;
    struct golden      g;
    json_t            *cases, *e, *file;
    char               path[4096];
    size_t             i, size;

    if (list == NULL || folder == NULL) {
        SKIP("golden/topdown: the shared golden files are absent");
        return;
    }
    cases = golden_json(list);
    snprintf(path, sizeof path, "%s/annotations/val.json", folder);
    file     = golden_json(path);
    g.bytes  = golden_bytes(shared_file("golden/topdown/topdown.safetensors"), &size);
    g.header = golden_header(g.bytes);
    json_array_foreach(cases, i, e)
    {
        struct stance_placement p = placement_of(e);
        struct annotation       a;
        double                  m[6];

        stance_affine_matrix(&p, input_size, m);
        for (size_t k = 0; k < 6; k++)
            worst_m = fmax(worst_m, fabs(m[k] - at(json_array_get(json_object_get(e, "matrix"), k / 3), k % 3)));
        find_annotation(file, json_integer_value(json_object_get(e, "ann_id")), &a);
        stance_affine_points(m, a.keypoint, 17);
        worst_joint  = fmax(worst_joint, check_joints(e, a.keypoint));
        worst_target = fmax(worst_target, check_targets(e, &g, &pose, a.keypoint));
        crops += check_crop(e, &g, folder, &p, m, &differ);
    }
    printf("golden/topdown: %zu boxes, matrix off by %.2g, joints %.2g px, targets %.2g; %d crops, %d bytes differ\n",
           json_array_size(cases), worst_m, worst_joint, worst_target, crops, differ);
    ck_assert_uint_eq(json_array_size(cases), 36);
    ck_assert_int_ge(crops, 7);
    /* The matrix follows from the same binary32 points; joints end in binary32 of up to 2^10 px. */
    ck_assert_double_lt(worst_m, 1e-9);
    ck_assert_double_lt(worst_joint, 1.3e-4);
    ck_assert_double_lt(worst_target, 1e-6);
    json_decref(g.header);
    free(g.bytes);
    json_decref(cases);
    json_decref(file);
}
END_TEST

/* ---- vectors of the specification ------------------------------------------------------------------ */

static uint8_t *filler(int width, int height)
{
    size_t   n   = (size_t)width * (size_t)height * 3;
    uint8_t *rgb = stance_calloc(n, 1);
    uint32_t x   = 2166136261u;

    for (const char *c = "image"; *c != '\0'; c++)
        x = (x ^ (uint8_t)*c) * 16777619u;
    for (size_t i = 0; i < n; i++) {
        x      = 1664525u * x + 1013904223u;
        rgb[i] = (uint8_t)floor((2.0 * x / 4294967296.0 - 1 + 1) / 2 * 256);
    }
    return rgb;
}

static const struct {
    struct stance_placement p;
    double                  m[6];
    unsigned long           sum;
    uint8_t                 a[3], b[3], c[3]; /* at (100,120), (5,7), (191,255) */
    double                  x, y;             /* of (50,40) */
} warps[] = {
    { { { 60.5f, 45.25f }, { 0.45f, 0.6f }, 20, false },
      { 2.00467759, 0.729643015, -58.2993409, -0.729643026, 2.00467756, 81.4317435 },
      15873036, { 107, 196, 98 }, { 0 }, { 0 }, 71.12026, 125.1367 },
    { { { 10, 90 }, { 0.6f, 0.8f }, 0, false },
      { 1.5999999, 0, 80.000001, 0, 1.5999999, -15.9999908 },
      6009699, { 117, 201, 146 }, { 0 }, { 0 }, 160, 48.00001 },
    { { { 65, 48 }, { 0.3f, 0.4f }, -75, false },
      { 0.828220975, -3.09096253, 190.531838, 3.09096253, 0.828220975, -112.667171 },
      18877996, { 150, 117, 40 }, { 104, 157, 203 }, { 161, 108, 136 }, 108.3044, 75.00979 },
};

START_TEST(warp_vectors)
{
    static uint8_t      out[256 * 192 * 3];
    struct stance_image image = { filler(131, 97), 131, 97 };
    float               point[3] = { 50, 40, 2 };
    unsigned long       sum = 0;
    double              m[6];

    ck_assert(image.rgb[0] == 248 && image.rgb[1] == 28 && image.rgb[2] == 166);
    stance_affine_matrix(&warps[_i].p, input_size, m);
    for (int i = 0; i < 6; i++) /* printed with nine digits */
        ck_assert_double_eq_tol(m[i], warps[_i].m[i], 1e-8 + 5e-9 * fabs(warps[_i].m[i]));
    stance_warp_u8(&image, false, m, 192, 256, out);
    for (size_t i = 0; i < sizeof out; i++)
        sum += out[i];
    ck_assert_uint_eq(sum, warps[_i].sum);
    ck_assert_mem_eq(out + 3 * (120 * 192 + 100), warps[_i].a, 3);
    ck_assert_mem_eq(out + 3 * (7 * 192 + 5), warps[_i].b, 3);
    ck_assert_mem_eq(out + 3 * (255 * 192 + 191), warps[_i].c, 3);
    stance_affine_points(m, point, 1);
    ck_assert_double_eq_tol(point[0], warps[_i].x, 1e-5 * 10);
    ck_assert_double_eq_tol(point[1], warps[_i].y, 1e-5 * 10);
    stance_image_free(&image);
}
END_TEST

/* Mirroring while warping is mirroring the image first, byte by byte. */
START_TEST(mirrored_warp)
{
    static uint8_t      a[256 * 192 * 3], b[256 * 192 * 3];
    struct stance_image image = { filler(131, 97), 131, 97 }, mirror = { filler(131, 97), 131, 97 };
    double              m[6];

    for (int y = 0; y < 97; y++)
        for (int x = 0; x < 131; x++)
            memcpy(mirror.rgb + 3 * (y * 131 + x), image.rgb + 3 * (y * 131 + 130 - x), 3);
    stance_affine_matrix(&warps[_i].p, input_size, m);
    stance_warp_u8(&image, true, m, 192, 256, a);
    stance_warp_u8(&mirror, false, m, 192, 256, b);
    ck_assert_mem_eq(a, b, sizeof a);
    stance_image_free(&image);
    stance_image_free(&mirror);
}
END_TEST

/* Every pixel from its four neighbours, one by one. */
static uint8_t blended(const struct stance_image *image, bool mirrored, const double m[6], int x, int y, int c)
{
    double   d = 1 / (m[0] * m[4] - m[1] * m[3]), v[6] = { m[4] * d, -m[1] * d, 0, -m[3] * d, m[0] * d, 0 };
    long     fx, fy, sum = 512;

    v[2] = -v[0] * m[2] - v[1] * m[5];
    v[5] = -v[3] * m[2] - v[4] * m[5];
    fx   = (lrint(v[0] * x * 1024) + lrint((v[1] * y + v[2]) * 1024) + 16) >> 5;
    fy   = (lrint(v[3] * x * 1024) + lrint((v[4] * y + v[5]) * 1024) + 16) >> 5;
    for (long j = 0; j < 2; j++)
        for (long i = 0; i < 2; i++) {
            long px = (fx >> 5) + i, py = (fy >> 5) + j;
            long weight = (i ? fx & 31 : 32 - (fx & 31)) * (j ? fy & 31 : 32 - (fy & 31));

            if (px >= 0 && px < image->width && py >= 0 && py < image->height)
                sum += weight * image->rgb[3 * (py * image->width + (mirrored ? image->width - 1 - px : px)) + c];
        }
    return (uint8_t)(sum >> 10);
}

/* Whatever instructions the machine has, and at every edge. */
START_TEST(warp_by_hand)
{
    static uint8_t      out[64 * 48 * 3];
    struct stance_image image = { filler(131, 97), 131, 97 };
    struct stance_rng   r     = stance_rng(11, STANCE_USE_INIT, 0, (uint64_t)_i);

    for (int k = 0; k < 20; k++) {
        struct stance_placement p = { { (float)(stance_rng_uniform(&r) * 131), (float)(stance_rng_uniform(&r) * 97) },
                                      { 0, 0 }, stance_rng_uniform(&r) * 180 - 90, _i % 2 };
        const int32_t           size[2] = { 48, 64 };
        double                  m[6];

        p.scale[0] = (float)(0.02 + stance_rng_uniform(&r));
        p.scale[1] = p.scale[0] * 4 / 3;
        stance_affine_matrix(&p, size, m);
        stance_warp_u8(&image, p.mirrored, m, 48, 64, out);
        for (int y = 0; y < 64; y++)
            for (int x = 0; x < 48; x++)
                for (int c = 0; c < 3; c++)
                    ck_assert_int_eq(out[3 * (y * 48 + x) + c], blended(&image, p.mirrored, m, x, y, c));
    }
    stance_image_free(&image);
}
END_TEST

/* Nothing outside the part is looked at. */
START_TEST(part_is_enough)
{
    static uint8_t      a[256 * 192 * 3], b[256 * 192 * 3];
    struct stance_image image = { filler(131, 97), 131, 97 }, some = { filler(131, 97), 131, 97 };
    int32_t             part[4];
    double              m[6];

    stance_affine_matrix(&warps[_i / 2].p, input_size, m);
    stance_warp_part(_i % 2, m, 192, 256, 131, part);
    for (int y = 0; y < 97; y++)
        for (int x = 0; x < 131; x++)
            if (x < part[0] || x >= part[2] || y < part[1] || y >= part[3])
                memset(some.rgb + 3 * (y * 131 + x), 255 - image.rgb[3 * (y * 131 + x)], 3);
    stance_warp_u8(&image, _i % 2, m, 192, 256, a);
    stance_warp_u8(&some, _i % 2, m, 192, 256, b);
    ck_assert_mem_eq(a, b, sizeof a);
    stance_image_free(&image);
    stance_image_free(&some);
}
END_TEST

/* Matrices that show nothing or lie far away give black and touch no pixel outside. */
START_TEST(wild_matrices)
{
    static const double m[][6] = { { 0 }, { 1e-300, 0, 0, 0, 1e-300, 0 }, { 1, 0, 1e300, 0, 1, -1e300 },
                                   { 1e9, 1e9, 1e18, -1e9, 1e9, 5 }, { NAN, NAN, NAN, NAN, NAN, NAN } };
    static uint8_t      out[300 * 20 * 3];
    struct stance_image image = { filler(1, 1), 1, 1 };

    memset(out, 1, sizeof out);
    stance_warp_u8(&image, _i % 2, m[_i], 300, 20, out);
    for (size_t i = 0; i < sizeof out; i++)
        ck_assert(out[i] == 0 || out[i] == image.rgb[i % 3] || _i > 1 || out[i] < image.rgb[i % 3]);
    stance_image_free(&image);
}
END_TEST

static const struct {
    float  x, y;
    float  weight;
    double sum;
    int    pixels;
} blobs[] = {
    { 81.5f, 123.9f, 1, 25.081287, 169 }, { -5.9f, 10, 1, 14.472790, 70 }, { -27.9f, 10, 1, 0.05352027, 10 },
    { -30.1f, 10, 1, 0, 0 },              { -34.1f, 10, 0, 0, 0 },         { 214, 100, 0, 0, 0 },
    { 213.9f, 100, 1, 0.05563521, 13 },   { 1e30f, 5, 0, 0, 0 },           { NAN, 5, 0, 0, 0 },
};

START_TEST(target_vectors)
{
    static float       target[64 * 48];
    struct stance_pose pose = coco_pose();
    float              point[3] = { blobs[_i].x, blobs[_i].y, 1 }, weight;
    double             sum = 0;
    int                pixels = 0;

    pose.keypoints = 1;
    stance_target_draw(&pose, point, 2, false, target, &weight);
    for (size_t i = 0; i < 64 * 48; i++) {
        sum += target[i];
        pixels += target[i] != 0;
    }
    ck_assert(weight == blobs[_i].weight);
    ck_assert_double_eq_tol(sum, blobs[_i].sum, 5e-6); /* theirs are sums of binary32 */
    ck_assert_int_eq(pixels, blobs[_i].pixels);
}
END_TEST

START_TEST(unbiased_targets)
{
    static float       target[17 * 64 * 48];
    struct stance_pose pose       = coco_pose();
    float              points[51] = { 81.3f, 122.9f, 2, -30, 10, 2, -31, 10, 2 }, weight[17];

    stance_target_draw(&pose, points, 2, true, target, weight);
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 48; x++) {
            double u = 81.3f / 4.0, v = 122.9f / 4.0;

            ck_assert_double_eq_tol(target[y * 48 + x], exp(-((x - u) * (x - u) + (y - v) * (y - v)) / 8), 2e-7);
        }
    ck_assert(weight[0] == 1 && weight[3] == 0);
    ck_assert(weight[1] == 0 && weight[2] == 0); /* -7.5 + 6 + 1 < 0: no truncation here */
}
END_TEST

/* ---- shared cases ---------------------------------------------------------------------------------- */

#define CASE(name, d)                                                        \
    yaml_document_t d;                                                       \
    const char     *path = shared_file("cases/pose/" name "/case.yaml");     \
    if (path == NULL) {                                                      \
        SKIP("cases/pose/" name ": the shared cases are absent");            \
        return;                                                              \
    }                                                                        \
    case_load(path, &d);                                                     \
    yaml_node_t *input = case_get(&d, case_root(&d), "input");               \
    yaml_node_t *expect = case_get(&d, case_root(&d), "expect")

static void points_of(yaml_document_t *d, yaml_node_t *list, float *points)
{
    for (int i = 0; i < case_length(list); i++)
        for (int j = 0; j < 3; j++)
            points[3 * i + j] = (float)case_number(case_item(d, case_item(d, list, i), j));
}

START_TEST(case_flip)
{
    CASE("flip-swaps-sides", d);
    struct stance_error err = STANCE_ERROR_INIT;
    yaml_node_t        *pairs = case_get(&d, input, "flip_pairs");
    int                 n     = case_length(case_get(&d, input, "points"));
    int32_t             pair[8][2], partner[8];
    float               points[24], want[24];

    ck_assert_int_eq(n, 4);
    for (int i = 0; i < case_length(pairs); i++)
        for (int j = 0; j < 2; j++)
            pair[i][j] = (int32_t)case_number(case_item(&d, case_item(&d, pairs, i), j));
    ck_assert_int_eq(stance_pose_partners((const int32_t(*)[2])pair, case_length(pairs), n, partner, &err), STANCE_OK);
    points_of(&d, case_get(&d, input, "points"), points);
    points_of(&d, case_get(&d, expect, "points"), want);
    stance_flip_points(points, n, partner, (int32_t)case_number(case_get(&d, input, "width")));
    for (int i = 0; i < 3 * n; i++)
        ck_assert_float_eq(points[i], want[i]);
    yaml_document_delete(&d);
}
END_TEST

START_TEST(case_targets)
{
    CASE("targets-inside-and-outside", d);
    static float       target[17 * 64 * 48];
    struct stance_pose pose = coco_pose();
    yaml_node_t       *list = case_get(&d, expect, "targets");
    float              points[51], weight[17];

    pose.keypoints = case_length(list);
    points_of(&d, case_get(&d, input, "points"), points);
    stance_target_draw(&pose, points, case_number(case_get(&d, input, "sigma")), false, target, weight);
    for (int k = 0; k < pose.keypoints; k++) {
        yaml_node_t *want = case_item(&d, list, k);
        const float *map  = target + k * 64 * 48;
        double       sum = 0, peak = 0;
        int          px = -1, py = -1;

        for (int i = 0; i < 64 * 48; i++) {
            sum += map[i];
            if (map[i] > peak) {
                peak = map[i];
                px   = i % 48;
                py   = i / 48;
            }
        }
        ck_assert(weight[k] == case_number(case_get(&d, want, "weight")));
        ck_assert_double_eq_tol(sum, case_number(case_get(&d, want, "sum")), 1e-4);
        ck_assert_double_eq_tol(peak, case_number(case_get(&d, want, "peak")), 1e-4);
        ck_assert(px == case_number(case_get(&d, want, "peak_x")) && py == case_number(case_get(&d, want, "peak_y")));
    }
    yaml_document_delete(&d);
}
END_TEST

static void check_window(yaml_document_t *d, yaml_node_t *input, yaml_node_t *expect)
{
    struct stance_placement p;
    double                  box[4];
    int32_t                 size[2] = { (int32_t)case_number(case_get(d, input, "input_width")),
                                        (int32_t)case_number(case_get(d, input, "input_height")) };

    for (int i = 0; i < 4; i++)
        box[i] = case_number(case_item(d, case_get(d, input, "box"), i));
    stance_placement_of_box(box, size, case_number(case_get(d, input, "padding")), &p);
    for (int i = 0; i < 2; i++) {
        ck_assert_double_eq_tol(p.centre[i], case_number(case_item(d, case_get(d, expect, "center"), i)), 1e-4);
        ck_assert_double_eq_tol(200.0 * p.scale[i], case_number(case_item(d, case_get(d, expect, "size"), i)), 1e-4);
    }
    yaml_document_delete(d);
}

START_TEST(case_tall_window)
{
    CASE("window-from-tall-box", d);
    check_window(&d, input, expect);
}
END_TEST

START_TEST(case_wide_window)
{
    CASE("window-from-wide-box", d);
    check_window(&d, input, expect);
}
END_TEST

/* ---- augmentation ---------------------------------------------------------------------------------- */

static const struct stance_augment recipe = { .flip = 0.5, .half_body = 0.3, .rotation = 40, .rotation_prob = 0.6,
                                              .scale = 0.5, .shift = 0.16, .shift_prob = 0.3 };

static struct stance_placement draw(const struct stance_augment *a, const struct stance_pose *pose, uint64_t epoch,
                                    uint64_t sample, float *points)
{
    static const double     box[4] = { 100, 50, 150, 300 };
    struct stance_rng       r      = stance_rng(7, STANCE_USE_AUGMENT, epoch, sample);
    struct stance_placement p;

    for (int k = 0; k < 17; k++) {
        points[3 * k]     = (float)(110 + 5 * k);
        points[3 * k + 1] = (float)(60 + 15 * k);
        points[3 * k + 2] = 2;
    }
    stance_placement_of_box(box, input_size, 1.25, &p);
    stance_augment_draw(a, pose, &r, 640, points, &p);
    return p;
}

START_TEST(augmentation_off)
{
    struct stance_augment   off  = { 0 };
    struct stance_pose      pose = coco_pose();
    float                   points[51];
    struct stance_placement p = draw(&off, &pose, 0, 0, points);

    ck_assert(p.rotation == 0 && !p.mirrored && p.centre[0] == 175 && p.centre[1] == 200);
    ck_assert(p.scale[1] == (float)(300 / 200.) * 1.25f && points[0] == 110);
}
END_TEST

START_TEST(augmentation_statistics)
{
    enum { N = 20000 };
    struct stance_pose pose = coco_pose();
    int                mirrored = 0, turned = 0, halves = 0, upper = 0, shifted = 0;
    double             largest = 0, low = 9, high = 0;

    for (int i = 0; i < N; i++) {
        float                   points[51], again[51];
        struct stance_placement p = draw(&recipe, &pose, 3, (uint64_t)i, points), q = draw(&recipe, &pose, 3, (uint64_t)i, again);
        double                  x = p.mirrored ? 639 - p.centre[0] : p.centre[0];
        bool                    half;

        ck_assert(memcmp(points, again, sizeof points) == 0 && p.rotation == q.rotation && p.centre[0] == q.centre[0]);
        mirrored += p.mirrored;
        turned += p.rotation != 0;
        largest = fmax(largest, fabs(p.rotation));
        /* Half the points of a figure: the mean of 0..10 or of 11..16 of the line of points. */
        half = fabs(x - 135) < 1e-3 || fabs(x - 177.5) < 1e-3;
        halves += half;
        upper += fabs(x - 135) < 1e-3;
        shifted += !half && fabs(x - 175) > 1e-3;
        if (!half) {
            low  = fmin(low, p.scale[1] / 1.875);
            high = fmax(high, p.scale[1] / 1.875);
        }
        if (p.mirrored) { /* left and right eye have changed places */
            ck_assert_float_eq(points[3], 639 - 120);
            ck_assert_float_eq(points[6], 639 - 115);
        }
    }
    /* Five standard errors of a proportion: 5 sqrt(p (1 - p) / N). */
    ck_assert_double_eq_tol((double)mirrored / N, 0.5, 5 * sqrt(0.25 / N));
    ck_assert_double_eq_tol((double)turned / N, 0.6, 5 * sqrt(0.24 / N));
    ck_assert_double_eq_tol((double)halves / N, 0.3, 5 * sqrt(0.21 / N));
    ck_assert_double_eq_tol((double)upper / halves, 0.6915, 5 * sqrt(0.2133 / halves));
    ck_assert_double_eq_tol((double)shifted / N, 0.3 * 0.7, 5 * sqrt(0.166 / N));
    ck_assert(largest <= 80 && largest > 75); /* twice the standard deviation of 40 degrees */
    ck_assert(low >= 0.5 - 1e-6 && low < 0.51 && high <= 1.5 + 1e-6 && high > 1.49);
}
END_TEST

START_TEST(half_body_needs_more_than_eight)
{
    struct stance_augment only = { .half_body = 1 };
    struct stance_pose    pose = coco_pose();

    for (int labelled = 8; labelled <= 9; labelled++) {
        static const double     box[4]     = { 100, 50, 150, 300 };
        struct stance_rng       r          = stance_rng(7, STANCE_USE_AUGMENT, 0, 0);
        float                   points[51] = { 0 };
        struct stance_placement p;

        for (int k = 0; k < labelled; k++) {
            points[3 * k]     = (float)(10 * k);
            points[3 * k + 2] = 1;
        }
        stance_placement_of_box(box, input_size, 1.25, &p);
        stance_augment_draw(&only, &pose, &r, 640, points, &p);
        ck_assert_int_eq(p.centre[0] != 175, labelled == 9);
    }
}
END_TEST

/* ---- names and partners ----------------------------------------------------------------------------- */

START_TEST(partners)
{
    static const int32_t far[][2] = { { 1, 2 }, { 3, 18 } }, twice[][2] = { { 1, 2 }, { 2, 3 } }, self[][2] = { { 4, 4 } };
    struct stance_error  err = STANCE_ERROR_INIT;
    int32_t              partner[6];

    ck_assert_int_eq(stance_pose_partners(far, 2, 6, partner, &err), STANCE_ERR_RANGE);
    ck_assert(strstr(err.text, "flip") && strstr(err.text, "18") && strstr(err.text, "6"));
    ck_assert_int_eq(stance_pose_partners(twice, 2, 6, partner, &err), STANCE_ERR_INVAL);
    ck_assert_int_eq(stance_pose_partners(self, 1, 6, partner, &err), STANCE_ERR_INVAL);
}
END_TEST

START_TEST(join)
{
    static const char *const  names[5] = { "nose", "L_ear", "R_ear", "paw_left", "paw_right" };
    struct stance_pose_found  found    = { names, 5, NULL, 0, "f.json" };
    struct stance_error       err      = STANCE_ERROR_INIT;
    struct stance_arena      *arena    = stance_arena_new(4096);
    struct stance_pose        info     = { .size = sizeof info, .input_size = { 96, 64 } };
    const struct stance_pose *p;

    ck_assert_msg(stance_pose_join(arena, &info, &found, &p, &err) == STANCE_OK, "%s", err.text);
    ck_assert(p->keypoints == 5 && p->sigmas == NULL && p->upper == NULL && p->input_size[0] == 96);
    ck_assert(p->partner[0] == 0 && p->partner[1] == 2 && p->partner[2] == 1 && p->partner[3] == 4);
    info.keypoints = 6;
    ck_assert_int_eq(stance_pose_join(arena, &info, &found, &p, &err), STANCE_ERR_SHAPE);
    ck_assert(strstr(err.text, "5") && strstr(err.text, "6"));
    found = (struct stance_pose_found){ stance_pose_coco()->names, 17, NULL, 0, "f.json" };
    ck_assert_int_eq(stance_pose_join(arena, NULL, &found, &p, &err), STANCE_OK);
    ck_assert(p->sigmas == stance_pose_coco()->sigmas && p->partner[15] == 16 && p->upper[10] == 1 && p->upper[11] == 0);
    found.keypoints = 0;
    found.names     = NULL;
    ck_assert_int_eq(stance_pose_join(arena, NULL, &found, &p, &err), STANCE_ERR_INVAL);
    stance_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crop");
    TCase *t = tcase_create("crop");

    tcase_add_test(t, golden_topdown);
    tcase_add_loop_test(t, warp_vectors, 0, (int)(sizeof warps / sizeof *warps));
    tcase_add_loop_test(t, warp_by_hand, 0, 6);
    tcase_add_loop_test(t, part_is_enough, 0, 2 * (int)(sizeof warps / sizeof *warps));
    tcase_add_loop_test(t, mirrored_warp, 0, (int)(sizeof warps / sizeof *warps));
    tcase_add_loop_test(t, wild_matrices, 0, 5);
    tcase_add_loop_test(t, target_vectors, 0, (int)(sizeof blobs / sizeof *blobs));
    tcase_add_test(t, unbiased_targets);
    tcase_add_test(t, case_flip);
    tcase_add_test(t, case_targets);
    tcase_add_test(t, case_tall_window);
    tcase_add_test(t, case_wide_window);
    tcase_add_test(t, augmentation_off);
    tcase_add_test(t, augmentation_statistics);
    tcase_add_test(t, half_body_needs_more_than_eight);
    tcase_add_test(t, partners);
    tcase_add_test(t, join);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return run_suite(s);
}
