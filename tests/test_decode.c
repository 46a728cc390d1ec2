/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "golden.h"
#include "runner.h"

#include "eval/decode.h"

#include <math.h>

enum { B = 6, K = 17, H = 64, W = 48 };

static char   *bytes;
static json_t *header;

/* golden/topdown/decode.safetensors, or NULL */
static const float *tensor(const char *name)
{
    const char *path = shared_file("golden/topdown/decode.safetensors");
    size_t      size;

    if (path == NULL)
        return NULL;
    if (bytes == NULL) {
        bytes  = golden_bytes(path, &size);
        header = golden_header(bytes);
    }
    return golden_tensor(bytes, header, name);
}

static const char *const ways[] = { [STANCE_POST_NONE] = "None", [STANCE_POST_DEFAULT] = "default",
                                    [STANCE_POST_UNBIASED] = "unbiased" };

START_TEST(golden_decoding)
{
    static float         out[B * K * 3];
    struct stance_error  err = STANCE_ERROR_INIT;
    char                 name[64];
    const float         *preds, *maxima;
    double               worst = 0;
    struct stance_decode d = {
        .size = sizeof d, .heatmap = tensor("heatmaps"), .batch = B, .keypoints = K, .height = H, .width = W,
        .post_process = (enum stance_post_process)_i, .modulate_kernel = 11, .keypoint = out,
    };

    if (d.heatmap == NULL) {
        SKIP("golden/topdown is not there");
        return;
    }
    d.centre = tensor("center");
    d.scale  = tensor("scale");
    snprintf(name, sizeof name, "preds_%s", ways[_i]);
    preds = tensor(name);
    snprintf(name, sizeof name, "maxvals_%s", ways[_i]);
    maxima = tensor(name);
    ck_assert_msg(stance_decode_heatmap(&d, &err) == STANCE_OK, "%s", err.text);
    for (int i = 0; i < B * K; i++) {
        ck_assert_float_eq(out[3 * i + 2], maxima[i]);
        for (int j = 0; j < 2; j++)
            worst = fmax(worst, fabs((double)out[3 * i + j] - preds[2 * i + j]));
    }
    /* Image px. Coordinates of some 500 px have an ulp of 3e-5; the Newton step divides differences
     * of logarithms, which OpenCV's blur rounds in another order. */
    ck_assert_msg(worst <= 1e-4, "%s: off by %g px", ways[_i], worst);
}
END_TEST

START_TEST(golden_unflip)
{
    static const int32_t partner[K] = { 0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15 };
    static float         heat[B * K * H * W];
    const float         *in = tensor("heatmaps");

    if (in == NULL) {
        SKIP("golden/topdown is not there");
        return;
    }
    for (int shift = 0; shift < 2; shift++) {
        memcpy(heat, in, sizeof heat);
        stance_unflip_heatmap(partner, heat, B, K, H, W, shift);
        ck_assert_int_eq(memcmp(heat, tensor(shift ? "flip_back_shift" : "flip_back"), sizeof heat), 0);
    }
}
END_TEST

START_TEST(golden_pck)
{
    const char         *path = shared_file("golden/topdown/pck.json");
    const float        *in   = tensor("heatmaps");
    static float        rolled[B * K * H * W];
    static float        weight[B * K];
    double              joint[K], mean;
    json_t             *want;

    if (path == NULL || in == NULL) {
        SKIP("golden/topdown is not there");
        return;
    }
    want = golden_json(path);
    for (int r = 0; r < B * K * H; r++)
        for (int x = 0; x < W; x++)
            rolled[r * W + (x + 1) % W] = in[r * W + x];
    mean = stance_pck(rolled, in, NULL, B, K, H, W, 0.05, joint);
    ck_assert_double_eq_tol(mean, json_number_value(json_object_get(want, "avg")), 1e-15 * K);
    for (size_t k = 0; k < K; k++)
        ck_assert_double_eq(joint[k], json_number_value(json_array_get(json_object_get(want, "per_joint"), k)));
    json_decref(want);
    weight[3] = 1;
    ck_assert_double_eq(stance_pck(in, in, weight, B, K, H, W, 0.05, joint), 1);
    ck_assert(joint[3] == 1 && joint[4] == -1);
    weight[3] = 0;
    ck_assert_double_eq(stance_pck(in, in, weight, B, K, H, W, 0.05, joint), 0);
}
END_TEST

/* spec/topdown.md 5.2: x over the height, y over the width. */
START_TEST(pck_measures_as_mmpose)
{
    static float at[3][64 * 48];

    at[0][10 * 48 + 10] = at[1][10 * 48 + 13] = at[2][13 * 48 + 10] = 1;
    ck_assert_double_eq(stance_pck(at[0], at[1], NULL, 1, 1, 64, 48, 0.05, NULL), 1);
    ck_assert_double_eq(stance_pck(at[0], at[2], NULL, 1, 1, 64, 48, 0.05, NULL), 0);
}
END_TEST

static void gaussian(float *map, double u, double v)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            map[y * W + x] = (float)exp(-((x - u) * (x - u) + (y - v) * (y - v)) / 8);
}

/* spec/topdown.md 8.3: Gaussians of sigma 2 at (20.3, 30.7) and (1.2, 5), a map of -0.1 throughout. */
static const struct { double u, v; enum stance_post_process how; double x, y, score; } measured[] = {
    { 20.3, 30.7, STANCE_POST_NONE, 80, 195, 0.977751 },
    { 20.3, 30.7, STANCE_POST_DEFAULT, 81.25, 193.75, 0.977751 },
    { 20.3, 30.7, STANCE_POST_UNBIASED, 81.4992, 193.5008, 0.977751 },
    { 1.2, 5, STANCE_POST_NONE, -15, 65, 0.995012 },
    { 1.2, 5, STANCE_POST_DEFAULT, -15, 65, 0.995012 },
    { 1.2, 5, STANCE_POST_UNBIASED, -15, 65, 0.995012 },
    { -1, -1, STANCE_POST_DEFAULT, -25, 35, -0.1 },
    { -1, -1, STANCE_POST_UNBIASED, -25, 35, -0.1 },
};

START_TEST(measured_decoding)
{
    static float         map[H * W];
    float                centre[2] = { 100, 200 }, scale[2] = { 1.2f, 1.6f }, out[3];
    struct stance_decode d = {
        .size = sizeof d, .heatmap = map, .batch = 1, .keypoints = 1, .height = H, .width = W, .centre = centre,
        .scale = scale, .post_process = measured[_i].how, .modulate_kernel = 11, .keypoint = out,
    };

    gaussian(map, measured[_i].u, measured[_i].v);
    if (measured[_i].u < 0)
        for (int i = 0; i < H * W; i++)
            map[i] = -0.1f;
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
    /* Given to four decimals. */
    ck_assert_float_eq_tol(out[0], measured[_i].x, 1e-4);
    ck_assert_float_eq_tol(out[1], measured[_i].y, 1e-4);
    ck_assert_float_eq_tol(out[2], measured[_i].score, 1e-6);
}
END_TEST

/* cases/pose/decode-quarter-offset and decode-flat-map, in pixels of the map. */
START_TEST(quarter_and_flat)
{
    static float         map[H * W];
    float                centre[2] = { W / 2, H / 2 }, scale[2] = { W / 200.f, H / 200.f }, out[3];
    struct stance_decode d = {
        .size = sizeof d, .heatmap = map, .batch = 1, .keypoints = 1, .height = H, .width = W, .centre = centre,
        .scale = scale, .post_process = STANCE_POST_DEFAULT, .keypoint = out,
    };

    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
    ck_assert(out[2] == 0 && !(out[2] > 0));
    map[20 * W + 10] = 0.9f;
    map[20 * W + 11] = 0.6f;
    map[20 * W + 9]  = 0.4f;
    map[19 * W + 10] = 0.5f;
    map[21 * W + 10] = 0.3f;
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
    ck_assert_float_eq_tol(out[0], 10.25f, 2e-6f); /* an ulp of 24 px: the centre is taken off */
    ck_assert_float_eq_tol(out[1], 19.75f, 2e-6f);
    ck_assert_float_eq(out[2], 0.9f);
}
END_TEST

/* Peaks at the edge of where refinement starts, ties, NaN, tiny maps. */
START_TEST(edges)
{
    static float         map[H * W];
    float                centre[2] = { W / 2, H / 2 }, scale[2] = { W / 200.f, H / 200.f }, out[3];
    struct stance_decode d = {
        .size = sizeof d, .heatmap = map, .batch = 1, .keypoints = 1, .height = H, .width = W, .centre = centre,
        .scale = scale, .post_process = STANCE_POST_UNBIASED, .modulate_kernel = 17, .keypoint = out,
    };
    int64_t at;

    for (int how = STANCE_POST_NONE; how <= STANCE_POST_UNBIASED; how++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x += 1 + 3 * (x > 4 && x < W - 6)) {
                d.post_process = how;
                memset(map, 0, sizeof map);
                map[y * W + x] = 1;
                ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
                /* A lone peak has equal neighbours: no offset, whatever the way. */
                ck_assert_float_eq_tol(out[0], (float)x, 2e-5f);
                ck_assert_float_eq_tol(out[1], (float)y, 2e-5f);
            }
    memset(map, 0, sizeof map);
    map[700] = map[900] = 0.5f;
    ck_assert_float_eq(stance_heatmap_peak(map, H, W, &at), 0.5f);
    ck_assert_int_eq(at, 700);
    map[800] = NAN;
    map[1000] = NAN;
    ck_assert(isnan(stance_heatmap_peak(map, H, W, &at)) && at == 800);
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
    ck_assert(isnan(out[2]) && !(out[2] > 0) && fabsf(out[0] + 1) < 1e-5f);
    d.height = 1;
    d.width  = 1;
    map[0]   = 1;
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
    d.modulate_kernel = 10;
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_ERR_RANGE);
    d.width = 0;
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_ERR_SHAPE);
    d.width           = 1;
    d.modulate_kernel = 11;
    fault_after(0);
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_ERR_NOMEM);
    fault_after(1);
    ck_assert_int_eq(stance_decode_heatmap(&d, NULL), STANCE_OK);
    ck_assert_int_eq(fault_live, 0);
    stance_set_allocator(NULL);
}
END_TEST

/* The shift keeps the first column; an odd width mirrors about its middle. */
START_TEST(unflip_small)
{
    static const int32_t partner[3] = { 0, 2, 1 };
    float                heat[]     = { 0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24 };
    static const float   want[]     = { 4, 4, 3, 2, 1, 24, 24, 23, 22, 21, 14, 14, 13, 12, 11 };

    stance_unflip_heatmap(partner, heat, 1, 3, 1, 5, true);
    ck_assert_int_eq(memcmp(heat, want, sizeof want), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *tc    = tcase_create("all");

    tcase_add_loop_test(tc, golden_decoding, 0, 3);
    tcase_add_test(tc, golden_unflip);
    tcase_add_test(tc, golden_pck);
    tcase_add_test(tc, pck_measures_as_mmpose);
    tcase_add_loop_test(tc, measured_decoding, 0, sizeof measured / sizeof *measured);
    tcase_add_test(tc, quarter_and_flat);
    tcase_add_test(tc, edges);
    tcase_add_test(tc, unflip_small);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
