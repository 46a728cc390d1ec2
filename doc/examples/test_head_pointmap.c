/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

enum { K = 2, H = 2, W = 4 };

static const int32_t partner[K] = { 1, 0 };
static const struct stance_pose pose = {
    .size = sizeof pose, .keypoints = K, .partner = partner, .input_size = { 4 * W, 4 * H }, .heatmap_size = { W, H }
};

START_TEST(flipping_twice_is_nothing)
{
    void                         *config;
    const struct stance_head_ops *ops = open_plugin(STANCE_KIND_HEAD, "pointmap", &config)->ops.head;
    float                         heat[K * H * W], before[K * H * W];

    for (int i = 0; i < K * H * W; i++)
        heat[i] = before[i] = (float)i;
    ops->unflip(config, &pose, heat, 1, false);
    ck_assert_float_eq(heat[0], before[H * W + W - 1]); /* the partner's, from the other end of the row */
    ops->unflip(config, &pose, heat, 1, false);
    ck_assert_mem_eq(heat, before, sizeof heat);
}
END_TEST

START_TEST(finds_the_maximum)
{
    void                         *config;
    const struct stance_head_ops *ops = open_plugin(STANCE_KIND_HEAD, "pointmap", &config)->ops.head;
    float                         heat[K * H * W] = { 0 }, centre[2] = { 8, 4 }, scale[2] = { 0.08F, 0.04F };
    float                         found[K * 3];
    struct stance_decode          d = { .size = sizeof d, .heatmap = heat, .batch = 1, .keypoints = K, .height = H,
                                        .width = W, .centre = centre, .scale = scale,
                                        .post_process = STANCE_POST_NONE, .keypoint = found };

    heat[0]                 = 0.5F; /* the upper left corner */
    heat[H * W + H * W - 1] = 0.25F; /* the lower right one */
    ck_assert_int_eq(ops->decode(config, &d, NULL), STANCE_OK);
    ck_assert_float_eq(found[2], 0.5F);
    ck_assert_float_eq(found[5], 0.25F);
    ck_assert(found[0] < found[3] && found[1] < found[4]);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("head");

    tcase_add_test(tests, flipping_twice_is_nothing);
    tcase_add_test(tests, finds_the_maximum);
    return run_tests(tests);
}
