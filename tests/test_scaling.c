/* SPDX-License-Identifier: Apache-2.0
 *
 * Why there is loss scaling: HRNet-W32 as it starts, one backward pass in binary16. The gradient of the
 * heatmaps is 2 w (p - t) / (N K H W) times the scale; what is below 2^-25 is lost before it enters the
 * network. */
#include "runner.h"

#include "compile/program.h"
#include "registry/instance.h"

#include <stance/registry.h>

#include <math.h>

/* The recipe's 64 samples a step, as sixteen micro-batches. */
enum { WINDOW = 64, BATCH = 4, K = 17, H = 64, W = 48 };

static struct stance_registry *reg;

/* HRNet-W32 and its loss on a batch, with the gradient of the heatmaps, as it enters the last
 * convolution, as an output. */
static struct stance_graph *build(void)
{
    struct stance_error     err = STANCE_ERROR_INIT;
    struct stance_pose      pose = { .size = sizeof pose, .keypoints = K, .input_size = { 4 * W, 4 * H }, .heatmap_size = { W, H } };
    struct stance_cast      low = { STANCE_TYPE_ANY };
    struct stance_instance  net, head, loss;
    struct stance_graph    *g;
    struct stance_builder  *b;
    struct stance_value     v, image, feature[STANCE_FEATURES_MAX], out[STANCE_FEATURES_MAX];
    int                     n;

    ck_assert_msg(stance_instance_new(reg, STANCE_KIND_BACKBONE, "hrnet:width=32", &net, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(stance_instance_new(reg, STANCE_KIND_HEAD, "heatmap", &head, &err), STANCE_OK);
    ck_assert_int_eq(stance_instance_new(reg, STANCE_KIND_LOSS, "joints_mse", &loss, &err), STANCE_OK);
    ck_assert_int_eq(stance_graph_new(reg, true, &g, &err), STANCE_OK);
    b     = stance_graph_builder(g);
    image = stance_input(b, "image", STANCE_TYPE_ANY, stance_shape4(BATCH, 3, 4 * H, 4 * W));
    stance_enter(b, "backbone");
    net.plugin->ops.backbone->build(b, net.config, image, feature, &n);
    stance_leave(b);
    stance_enter(b, "keypoint_head");
    head.plugin->ops.head->build(b, head.config, &pose, feature, n, out, &n);
    stance_leave(b);
    v = loss.plugin->ops.loss->build(b, loss.config, &pose, out, n);
    ck_assert_msg(stance_graph_backward(g, v, &err) == STANCE_OK, "%s", err.text);
    for (size_t i = 1; i < g->n_nodes; i++) {
        if (strcmp(g->nodes[i].name, "mse_grad") == 0) {
            v.id = g->nodes[i].out[0];
            v    = stance_node1(b, "cast", &low, sizeof low, &v, 1);
            stance_output(b, "d_heatmap", v);
            break;
        }
    }
    ck_assert_msg(stance_graph_status(g, &err) == STANCE_OK, "%s", err.text);
    stance_instance_clear(&net);
    stance_instance_clear(&head);
    stance_instance_clear(&loss);
    return g;
}

static void fill(const struct stance_device *d, const struct stance_tensor *to, float (*value)(int64_t))
{
    int64_t              n = stance_elements(&to->shape);
    float               *v = calloc((size_t)n, sizeof *v);
    struct stance_tensor host = { v, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, to->shape, (size_t)n * sizeof *v };

    for (int64_t i = 0; i < n; i++)
        v[i] = value(i);
    ck_assert_int_eq(d->ops->reorder(d->state, to, &host, NULL), STANCE_OK);
    free(v);
}

static float pixel(int64_t i)
{
    return (float)((i * 7919) % 1009) / 252 - 2;
}

/* One blob of sigma 2 a map, as the recipe draws them. */
static float blob(int64_t i)
{
    int64_t map = i / (H * W), x = i % W - (5 + map % 38), y = i / W % H - (7 + map % 50);

    return labs((long)x) > 6 || labs((long)y) > 6 ? 0 : expf(-(float)(x * x + y * y) / 8);
}

static float one(int64_t i)
{
    (void)i;
    return 1;
}

START_TEST(scaling_saves_the_head_gradient)
{
    static const float scales[3] = { 1, 512, 65536 };
    double             lost[3];
    struct stance_error           err = STANCE_ERROR_INIT;
    struct stance_device         *d;
    struct stance_store          *store;
    struct stance_program        *p;
    struct stance_program_options o = { .slots = 0 };
    struct stance_policy          policy = { STANCE_TYPE_F16, STANCE_TYPE_F32 };
    size_t                        n = (size_t)BATCH * K * H * W;
    float                        *heat = calloc(n, sizeof *heat), *grad = calloc(n, sizeof *grad);
    struct stance_shape           shape = stance_shape4(BATCH, K, H, W);
    struct stance_tensor          to_heat = { heat, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, n * sizeof *heat };
    struct stance_tensor          to_grad = { grad, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, n * sizeof *grad };

    if (stance_device_open(reg, "cpu", NULL, 1, &d, &err) != STANCE_OK) {
        SKIP("loss scaling on HRNet-W32: the cpu device is not built");
        free(heat);
        free(grad);
        return;
    }
    ck_assert_int_eq(stance_store_new(d, policy, &store, &err), STANCE_OK);
    ck_assert_msg(stance_program_new(build(), store, &o, &p, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(stance_program_bind(p, &err), STANCE_OK);
    ck_assert_int_eq(stance_store_initialise(store, 1, &err), STANCE_OK);
    ck_assert_int_eq(stance_program_pack(p), STANCE_OK);
    fill(d, stance_program_input(p, "image"), pixel);
    fill(d, stance_program_input(p, "target"), blob);
    fill(d, stance_program_input(p, "target_weight"), one);
    for (int s = 0; s < 3; s++) {
        size_t differ = 0, zero = 0;

        store->control->scale        = scales[s];
        store->control->micro_weight = (double)BATCH / WINDOW;
        ck_assert_int_eq(stance_program_forward(p), STANCE_OK);
        ck_assert_int_eq(stance_program_backward(p), STANCE_OK);
        ck_assert_int_eq(d->ops->reorder(d->state, &to_heat, stance_program_output(p, "heatmap"), &err), STANCE_OK);
        ck_assert_int_eq(d->ops->reorder(d->state, &to_grad, stance_program_output(p, "d_heatmap"), &err), STANCE_OK);
        for (size_t i = 0; i < n; i++) {
            bool apart = heat[i] != blob((int64_t)i);

            differ += apart;
            zero += apart && grad[i] == 0;
        }
        ck_assert_uint_gt(differ, n / 2);
        lost[s] = (double)zero / (double)differ;
        printf("scale %g: %.4f of the head's gradient is exactly zero where prediction and target differ\n",
               (double)scales[s], lost[s]);
    }
    /* 2 / (64 17 64 48) is 6.0e-7: at scale 1 differences below 0.05 round to 0 (2^-25), and the
     * heatmaps of a fresh network are of that order; at 65536 only differences below 7.6e-7 do. */
    ck_assert_double_gt(lost[0], 0.5);
    ck_assert_double_lt(lost[1], lost[0]);
    ck_assert_double_lt(lost[2], 0.05);
    stance_program_free(p);
    stance_store_free(store);
    stance_device_close(d);
    free(heat);
    free(grad);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scaling");
    TCase *tc    = tcase_create("all");
    int    failed;

    LTDL_SET_PRELOADED_SYMBOLS();
    if (stance_registry_new(NULL, &reg, NULL) != STANCE_OK)
        return 1;
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, scaling_saves_the_head_gradient);
    suite_add_tcase(suite, tc);
    failed = run_suite(suite);
    stance_registry_free(reg);
    return failed;
}
