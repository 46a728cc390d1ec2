/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixed-precision step: what a skipped window leaves alone, windows of several micro-batches, clipping,
 * what binary16 does to numbers, and that the same run twice gives the same bytes. */
#include "small_graph.h"
#include "snapshot.h"

#include "registry/instance.h"

#include <stance/ops.h>

/* ---- models and scalers of this test ------------------------------------------------------------------- */

/* Two convolutions to a quarter of the size, without normalisation: samples do not meet in it. */
static void build_convs(struct stance_builder *b, const void *config, struct stance_value image, struct stance_value *out,
                        int *n_out)
{
    static const struct stance_init spread = { STANCE_INIT_NORMAL, 0, 0.15F };

    (void)config;
    for (int i = 1; i <= 2; i++) {
        stance_enter(b, "conv%d", i);
        image = stance_relu(b, stance_conv2d(b, image, 16, 3, 2, true, spread));
        stance_leave(b);
    }
    out[0] = image;
    *n_out = 1;
}

static const struct stance_backbone_ops convs_ops = { .size = sizeof convs_ops, .build = build_convs };
static const struct stance_plugin       convs     = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_BACKBONE, .name = "convs", .ops.backbone = &convs_ops,
};

static const char convs_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18}\n  head: {name: heatmap, deconv: []}\n"
    "  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [32, 32], heatmap_size: [8, 8]}\n"
    "train: {batch_size: 4, optimizer: {name: sgd, lr: 0.5}}\n";

static const char resnet_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [8, 8, 8]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [16, 16]}\n"
    "train: {batch_size: 2, optimizer: {name: adam, lr: 5.0e-4}}\nthreads: %d\n";

/* The scale of window i is script[i]; counts how often it is asked. */
static float script[16];
static int   asked;

struct script_state { int64_t windows; };
static const struct stance_param script_table[] = {
    STANCE_PARAM_I64(struct script_state, windows, "0", 0, 1000000, "windows", "so far"), STANCE_PARAM_END
};

static float script_scale(const void *state, const void *config)
{
    (void)config;
    asked++;
    return script[((const struct script_state *)state)->windows];
}

static void script_update(void *state, const void *config, const struct stance_outcome *outcome)
{
    (void)config, (void)outcome;
    ((struct script_state *)state)->windows++;
}

static const struct stance_scaler_ops script_ops = {
    .size = sizeof script_ops, .state_size = sizeof(struct script_state), .state = script_table,
    .scale = script_scale, .update = script_update,
};
static const struct stance_plugin scripted = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_SCALER, .name = "scripted", .ops.scaler = &script_ops,
};

static void use_scaler(struct step_run *r, const char *spec)
{
    struct stance_error err = STANCE_ERROR_INIT;
    void               *config;

    stance_scaler_free(r->setup.scaler);
    r->setup.scaler = NULL;
    if (strcmp(spec, "scripted") != 0) {
        ck_assert_msg(stance_scaler_from(r->registry, spec, &r->setup.scaler, &err) == STANCE_OK, "%s", err.text);
    } else {
        ck_assert_int_eq(stance_plugin_config_new(&scripted, &config, &err), STANCE_OK);
        ck_assert_int_eq(stance_scaler_new(&scripted, config, &r->setup.scaler, &err), STANCE_OK);
        stance_plugin_config_free(config);
        asked = 0;
    }
    r->options.scaler = r->setup.scaler;
}

static void open_convs(struct step_run *r, const char *device, const char *precision)
{
    step_setup(r, convs_recipe, device, precision);
    r->setup.model.backbone = (struct stance_instance){ &convs, NULL };
}

static void micro(struct step_run *r, enum stance_step_program which, double weight)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_step_micro(r->step, which, weight, &err) == STANCE_OK, "%s", err.text);
}

static struct stance_step_result apply(struct step_run *r, double rate)
{
    struct stance_error       err = STANCE_ERROR_INIT;
    struct stance_step_result result;

    ck_assert_msg(stance_step_apply(r->step, rate, &result, &err) == STANCE_OK, "%s", err.text);
    return result;
}

/* ---- a skipped window ------------------------------------------------------------------------------------ */

static const struct { const char *device, *precision, *scaler; bool infinity, other_scale; } skips[] = {
    { "ref", "fp32", "dynamic", true, false },  { "cpu", "fp32", "dynamic", true, false },
    { "cpu", "bf16", "dynamic", true, false },  { "cpu", "fp16", "dynamic:init_scale=1024", true, true },
    { "cpu", "fp16", "scripted", false, false }, { "cpu", "fp16", "scripted", true, false },
};

START_TEST(skipped_window_changes_nothing)
{
    struct step_run           r, other;
    struct snapshot           before, after, clean;
    struct stance_step_result result;
    struct stance_error       err = STANCE_ERROR_INIT;
    char                      text[1024], *state[2];

    if (!step_has_device(skips[_i].device, "skipped windows"))
        return;
    snprintf(text, sizeof text, resnet_recipe, 1);
    for (int i = 0; i < 16; i++)
        script[i] = 1024;
    script[2] = skips[_i].infinity ? 1024 : 0x1p60F; /* gradients overflow binary16 */
    for (int k = 0; k < 2; k++) { /* k 1: the same without the bad window */
        struct step_run *it = k == 0 ? &r : &other;

        step_setup(it, text, skips[_i].device, skips[_i].precision);
        use_scaler(it, skips[_i].scaler);
        step_make(it);
        for (int i = 0; i < 2; i++) {
            step_fill_inputs(it, STANCE_STEP_BATCH, 2 * i);
            micro(it, STANCE_STEP_BATCH, 1);
            result = apply(it, 1e-3);
            ck_assert(!result.skipped && isfinite(result.grad_norm));
        }
        if (k == 1 && !skips[_i].infinity)
            script[2] = 1024;
    }
    before = step_snapshot(&r);
    ck_assert_int_eq(stance_scaler_save(r.setup.scaler, &state[0], &err), STANCE_OK);
    if (skips[_i].infinity)
        step_fill_infinity(&r);
    else
        step_fill_inputs(&r, STANCE_STEP_BATCH, 4);
    /* The other one's script has been put right: this window is asked with the overflowing scale. */
    script[2] = skips[_i].infinity ? 1024 : 0x1p60F;
    micro(&r, STANCE_STEP_BATCH, 1);
    result = apply(&r, 1e-3);
    script[2] = 1024;
    ck_assert(result.skipped && !isfinite(result.grad_norm));
    after = step_snapshot(&r);
    ck_assert_msg(step_equal(&before, &after), "the skipped window has changed something");
    ck_assert_int_eq(stance_step_skips(r.step)->total, 1);
    ck_assert_int_eq(stance_step_skips(r.step)->in_a_row, 1);
    ck_assert_int_eq(stance_scaler_save(r.setup.scaler, &state[1], &err), STANCE_OK);
    ck_assert_msg(strcmp(state[0], state[1]) != 0, "%s", state[1]);
    /* And the run goes on as if that window had not been: the scale is a power of two, so that unscaled
     * gradients are the same numbers, but where it decides what vanishes. */
    for (int k = 0; k < 2; k++) {
        struct step_run *it = k == 0 ? &r : &other;

        step_fill_inputs(it, STANCE_STEP_BATCH, 6);
        micro(it, STANCE_STEP_BATCH, 1);
        ck_assert(!apply(it, 1e-3).skipped);
    }
    ck_assert_int_eq(stance_step_skips(r.step)->in_a_row, 0);
    ck_assert_int_eq(stance_step_skips(r.step)->total, 1);
    free(after.bytes);
    after = step_snapshot(&r);
    clean = step_snapshot(&other);
    ck_assert_msg(step_equal(&after, &clean) || skips[_i].other_scale, "the step after a skipped window differs from one without it");
    ck_assert(!step_equal(&before, &after));
    free(before.bytes);
    free(after.bytes);
    free(clean.bytes);
    stance_free(state[0]);
    stance_free(state[1]);
    step_close(&r);
    step_close(&other);
}
END_TEST

START_TEST(too_many_skips_end_the_run)
{
    struct step_run           r;
    struct stance_step_result result;
    struct stance_error       err    = STANCE_ERROR_INIT;
    stance_status             status = STANCE_OK;
    bool                      named  = false;
    char                      text[1024];

    snprintf(text, sizeof text, resnet_recipe, 1);
    step_setup(&r, text, "ref", "fp32");
    use_scaler(&r, "dynamic");
    r.options.max_skips = 3;
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, STANCE_STEP_BATCH, 1);
    ck_assert(!apply(&r, 1e-3).skipped);
    step_fill_infinity(&r);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(status, STANCE_OK);
        micro(&r, STANCE_STEP_BATCH, 1);
        status = stance_step_apply(r.step, 1e-3, &result, &err);
        ck_assert(result.skipped);
    }
    ck_assert_int_eq(status, STANCE_ERR_DIVERGED);
    ck_assert_int_eq(stance_exit_status(status), 4);
    for (size_t i = 0; i < stance_step_store(r.step)->n_segments; i++)
        named = named || strstr(err.text, stance_step_store(r.step)->segments[i].name) != NULL;
    ck_assert_msg(named && strstr(err.text, "3 steps in a row") != NULL, "%s", err.text);
    step_close(&r);
}
END_TEST

/* ---- windows of several micro-batches -------------------------------------------------------------------- */

/* How the four samples of a window are cut; weights are samples over samples of the window. */
static const struct { int32_t batch, last_batch; int whole, last; } cuts[] = {
    { 1, 0, 4, 0 }, { 2, 0, 2, 0 }, { 3, 1, 1, 1 },
};
enum { CUTS = sizeof cuts / sizeof *cuts };
static const char *const accumulators[] = { "ref", "cpu" };

START_TEST(accumulation_is_one_large_batch)
{
    int             cut = _i % CUTS;
    struct step_run large, small;
    double          loss[2];
    int64_t         n, first = 0;

    if (!step_has_device(accumulators[_i / CUTS], "accumulation"))
        return;
    open_convs(&large, accumulators[_i / CUTS], "fp32");
    step_make(&large);
    step_fill_inputs(&large, STANCE_STEP_BATCH, 0);
    open_convs(&small, accumulators[_i / CUTS], "fp32");
    small.options.batch      = cuts[cut].batch;
    small.options.last_batch = cuts[cut].last_batch;
    small.options.accumulate = true;
    step_make(&small);
    for (int window = 0; window < 2; window++, first = 0) {
        micro(&large, STANCE_STEP_BATCH, 1);
        loss[0] = apply(&large, 0.5).loss;
        for (int i = 0; i < cuts[cut].whole + cuts[cut].last; i++) {
            enum stance_step_program which = i < cuts[cut].whole ? STANCE_STEP_BATCH : STANCE_STEP_LAST;
            int32_t                  b     = i < cuts[cut].whole ? cuts[cut].batch : cuts[cut].last_batch;

            step_fill_inputs(&small, which, first);
            micro(&small, which, b / 4.0);
            first += b;
        }
        ck_assert_int_eq(first, 4);
        loss[1] = apply(&small, 0.5).loss;
        ck_assert_msg(fabs(loss[0] / loss[1] - 1) <= 1e-6, "%g, %g", loss[0], loss[1]);
    }
    /* Sums of the same products in another order, over at most 4 x 256 pixels: 2^-24 times the square root
     * of the terms, 2e-6 of the tensor's norm; gradients of the second window see moved weights too. */
    for (size_t i = 0; i < stance_step_store(large.step)->n_segments; i++) {
        for (int array = STANCE_ARRAY_MASTER; array <= STANCE_ARRAY_GRADIENT; array += STANCE_ARRAY_GRADIENT) {
            double *a = step_values(&large, i, array, &n), *b = step_values(&small, i, array, &n);

            ck_assert_msg(small_distance(b, a, n) <= 5e-6, "%s, array %d: off by %g",
                          stance_step_store(large.step)->segments[i].name, array, small_distance(b, a, n));
            free(a);
            free(b);
        }
    }
    step_close(&large);
    step_close(&small);
}
END_TEST

START_TEST(scale_is_constant_in_a_window)
{
    struct step_run           r;
    struct stance_step_result result;

    open_convs(&r, "ref", "fp32");
    use_scaler(&r, "scripted");
    r.options.accumulate = true;
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    for (int window = 0; window < 3; window++) {
        float want = script[window] = (float)(8 << window);

        asked = 0;
        for (int i = 0; i < 4; i++) {
            micro(&r, STANCE_STEP_BATCH, 0.25);
            ck_assert(stance_step_window(r.step).open && stance_step_window(r.step).scale == want);
            script[window] = 3; /* whoever asked again would get this */
        }
        result = apply(&r, 0.1);
        ck_assert_int_eq(asked, 1);
        ck_assert(result.scale == want && !result.skipped && !stance_step_window(r.step).open);
    }
    step_close(&r);
}
END_TEST

/* ---- clipping and scaling by hand ------------------------------------------------------------------------- */

static const struct { const char *device; double part, scale; } clips[] = {
    { "ref", 0.5, 1 }, { "ref", 0.01, 1024 }, { "ref", 2, 1024 }, { "cpu", 0.5, 1024 }, { "cpu", 2, 1 }, { "ref", 0, 512 },
};

/* part: the limit over the true norm; 2 clips nothing, 0 means no limit. */
START_TEST(clipping_by_hand)
{
    struct step_run           r;
    struct stance_step_result result;
    double                   *g[16], *p[16], *q, squares = 0, norm, factor, rate = 0.7;
    int64_t                   n;
    size_t                    segments;
    float                     inverse = (float)(1 / clips[_i].scale);

    if (!step_has_device(clips[_i].device, "clipping"))
        return;
    open_convs(&r, clips[_i].device, "fp32");
    use_scaler(&r, "scripted");
    script[0] = script[1] = (float)clips[_i].scale;
    step_make(&r);
    segments = stance_step_store(r.step)->n_segments;
    ck_assert_uint_le(segments, 16);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, STANCE_STEP_BATCH, 1);
    for (size_t i = 0; i < segments; i++) {
        g[i] = step_values(&r, i, STANCE_ARRAY_GRADIENT, &n);
        p[i] = step_values(&r, i, STANCE_ARRAY_MASTER, &n);
        for (int64_t k = 0; k < n; k++)
            squares += g[i][k] * (double)inverse * (g[i][k] * (double)inverse);
    }
    norm   = sqrt(squares);
    factor = (double)inverse;
    stance_step_store(r.step)->control->clip = clips[_i].part * norm;
    if (clips[_i].part > 0 && clips[_i].part < 1)
        factor *= clips[_i].part * norm / (norm + 1e-6); /* torch.nn.utils.clip_grad_norm_ */
    result = apply(&r, rate);
    ck_assert_msg(fabs(result.grad_norm / norm - 1) <= 1e-9, "%.17g, %.17g", result.grad_norm, norm);
    for (size_t i = 0; i < segments; i++) {
        q = step_values(&r, i, STANCE_ARRAY_MASTER, &n);
        for (int64_t k = 0; k < n; k++) {
            double want = p[i][k] - rate * factor * g[i][k];

            /* Rounded where the step rounds: the product, the factor and the sum, to binary32. */
            ck_assert_msg(fabs(q[k] - want) <= 2 * 0x1p-24 * (fabs(p[i][k]) + 2 * fabs(rate * factor * g[i][k])),
                          "%s[%lld]: %.9g, not %.9g", stance_step_store(r.step)->segments[i].name, (long long)k, q[k], want);
        }
        free(q);
        free(g[i]);
        free(p[i]);
    }
    step_close(&r);
}
END_TEST

/* The loss that is told is not scaled. */
START_TEST(loss_is_unscaled)
{
    double loss[2];

    for (int i = 0; i < 2; i++) {
        struct step_run r;

        open_convs(&r, "ref", "fp32");
        use_scaler(&r, i == 0 ? "none" : "static:scale=65536");
        step_make(&r);
        step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
        micro(&r, STANCE_STEP_BATCH, 1);
        loss[i] = apply(&r, 0.1).loss;
        step_close(&r);
    }
    ck_assert(loss[0] == loss[1] && loss[0] > 0);
}
END_TEST

/* ---- what binary16 does --------------------------------------------------------------------------------- */

static double constant; /* of the first weight */

static struct stance_value pointwise(struct stance_builder *b, struct stance_value x, const char *scope, double v)
{
    struct stance_init  init = { STANCE_INIT_CONSTANT, (float)v, 0 };
    struct stance_value y;

    stance_enter(b, "%s", scope);
    y = stance_conv2d(b, x, 16, 1, 1, false, init);
    stance_leave(b);
    return y;
}

static struct stance_value image16(struct stance_builder *b)
{
    return stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(2, 16, 8, 8));
}

static struct stance_value finish(struct stance_builder *b, struct stance_value y)
{
    struct stance_value in[2] = { y, stance_input(b, "target", STANCE_TYPE_F32, stance_shape_of(b, y)) };
    struct stance_value loss  = stance_node1(b, "mse", NULL, 0, in, 2);

    stance_output(b, "y", y);
    stance_output(b, "loss", loss);
    return loss;
}

/* conv -> BN (times 2^-10) -> ReLU: back in range, were the convolution's result not stored. */
static struct stance_value build_conv_bn_relu(struct stance_builder *b)
{
    struct stance_value y = pointwise(b, image16(b), "conv", constant);

    stance_enter(b, "bn");
    y = stance_batch_norm(b, y, 0x1p-10F);
    stance_leave(b);
    return finish(b, stance_relu(b, y));
}

static struct stance_value build_two_convs(struct stance_builder *b)
{
    return finish(b, pointwise(b, stance_relu(b, pointwise(b, image16(b), "conv", constant)), "second", 1));
}

static struct stance_value build_one_conv(struct stance_builder *b)
{
    return finish(b, pointwise(b, image16(b), "conv", constant));
}

static void fill_constant(struct small *s, const char *name, double v)
{
    double *x = malloc(2048 * sizeof *x);

    ck_assert_ptr_nonnull(x);
    for (int i = 0; i < 2048; i++)
        x[i] = v;
    small_fill(s, name, x);
    free(x);
}

/* What comes out of a graph over a constant image. */
static double value_of(small_build *build, const char *precision, double x, double weight, bool training)
{
    struct small s;
    int64_t      n;
    double      *y, v;

    constant = weight;
    small_open(&s, "cpu", precision);
    small_make(&s, build, training);
    fill_constant(&s, "x", x);
    fill_constant(&s, "target", 0);
    ck_assert_int_eq(stance_program_forward(s.program), STANCE_OK);
    y = small_output(&s, "y", &n);
    v = y[0];
    for (int64_t i = 0; i < n; i++)
        ck_assert(y[i] == v || (isnan(y[i]) && isnan(v)));
    free(y);
    small_close(&s);
    return v;
}

START_TEST(half_overflows_between_ops)
{
    if (!step_has_device("cpu", "binary16"))
        return;
    /* 16 x 100 x 60 = 96000 between convolution and batch norm. In fp32 what follows brings it back. */
    ck_assert(fabs(value_of(build_conv_bn_relu, "fp32", 100, 60, false) - 96000 / 1024.0) < 1e-2);
    ck_assert(value_of(build_conv_bn_relu, "fp16", 100, 60, false) == (double)INFINITY);
    ck_assert(value_of(build_conv_bn_relu, "bf16", 100, 60, false) < 100);
    /* Just below the largest, 65504: 16 x 64 x 63.9375 = 65472. */
    ck_assert(value_of(build_two_convs, "fp32", 64, 63.9375, false) == 16 * 65472.0);
    ck_assert(value_of(build_one_conv, "fp16", 64, 63.9375, false) == 65472);
    ck_assert(value_of(build_one_conv, "fp16", 64, 64, false) == (double)INFINITY);
    ck_assert(value_of(build_one_conv, "fp16", -64, 64, false) == -(double)INFINITY);
    /* Nothing saturates in training either: the batch statistics of an infinite map are not numbers. */
    ck_assert(!isfinite(value_of(build_conv_bn_relu, "fp16", 100, 60, true)));
}
END_TEST

START_TEST(half_underflows_between_ops)
{
    if (!step_has_device("cpu", "binary16"))
        return;
    /* 16 x 2^-13 x: 2^-26 is nothing, 2^-24 is the smallest subnormal, 3 x 2^-26 rounds up to it. */
    ck_assert(value_of(build_two_convs, "fp16", 0x1p-17, 0x1p-13, false) == 0);
    ck_assert(value_of(build_two_convs, "fp32", 0x1p-17, 0x1p-13, false) == 0x1p-22);
    ck_assert(value_of(build_two_convs, "fp16", 0x1p-15, 0x1p-13, false) == 0x1p-20);
    ck_assert(value_of(build_two_convs, "fp16", 0x1.8p-16, 0x1p-13, false) == 0x1p-20);
    ck_assert(value_of(build_one_conv, "fp16", 0x1.8p-16, 0x1p-13, false) == 0x1p-24);
}
END_TEST

/* Gradient of the one weight: y = 0, target 1, so dy = -2 scale / 2048, and dw sums it over 128 pixels. */
static double gradient_of(const char *precision, double x, double scale)
{
    struct small s;
    int64_t      n;
    double      *d, v;

    constant = 0;
    small_open(&s, "cpu", precision);
    small_make(&s, build_one_conv, true);
    fill_constant(&s, "x", x);
    fill_constant(&s, "target", 1);
    s.store->control->scale = (float)scale;
    small_run(&s);
    d = small_gradient(&s, "conv.weight", &n);
    v = d[0];
    for (int64_t i = 0; i < n; i++)
        ck_assert(d[i] == v || (isnan(d[i]) && isnan(v)));
    free(d);
    small_close(&s);
    return v;
}

START_TEST(half_in_the_backward_pass)
{
    if (!step_has_device("cpu", "binary16"))
        return;
    ck_assert(gradient_of("fp32", 1, 0x1p-14) == -0x1p-17);
    ck_assert(gradient_of("fp16", 1, 0x1p-14) == -0x1p-17); /* dy is the smallest subnormal */
    ck_assert(gradient_of("fp32", 1, 0x1p-16) == -0x1p-19);
    ck_assert(gradient_of("fp16", 1, 0x1p-16) == 0); /* dy vanishes */
    ck_assert(gradient_of("fp32", 0x1p-12, 0x1p-14) == -0x1p-29);
    ck_assert(gradient_of("fp16", 0x1p-12, 0x1p-14) == 0); /* dw vanishes before it is widened */
    ck_assert(gradient_of("fp16", 1, 0x1p10) == -0x1p7);
    ck_assert(gradient_of("fp32", 1, 0x1p20) == -0x1p17);
    ck_assert(gradient_of("fp16", 1, 0x1p20) == -(double)INFINITY); /* 2^17 */
    ck_assert(!isfinite(gradient_of("fp16", 1, 0x1p30)));           /* dy overflows */
    ck_assert(gradient_of("bf16", 1, 0x1p30) == -0x1p27);
}
END_TEST

/* ---- the same bytes ---------------------------------------------------------------------------------------- */

static const struct { const char *device, *precision; int threads; } repeats[] = {
    { "ref", "fp32", 1 },  { "cpu", "fp32", 1 }, { "cpu", "bf16", 1 }, { "cpu", "fp16", 1 },
    { "cpu", "fp32", 2 }, { "cpu", "bf16", 2 }, { "cpu", "fp16", 2 },
};

START_TEST(same_run_gives_the_same_bytes)
{
    struct snapshot s[2];
    char            text[1024];

    if (!step_has_device(repeats[_i].device, "repeated runs"))
        return;
    snprintf(text, sizeof text, resnet_recipe, repeats[_i].threads);
    for (int k = 0; k < 2; k++) {
        struct step_run r;

        step_setup(&r, text, repeats[_i].device, repeats[_i].precision);
        r.options.accumulate = true;
        step_make(&r);
        for (int i = 0; i < 6; i++) {
            step_fill_inputs(&r, STANCE_STEP_BATCH, 2 * i);
            micro(&r, STANCE_STEP_BATCH, 0.5);
            if (i % 2 == 1)
                apply(&r, 1e-3);
        }
        s[k] = step_snapshot(&r);
        step_close(&r);
    }
    ck_assert(step_equal(&s[0], &s[1]));
    free(s[0].bytes);
    free(s[1].bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("step");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 180);
    tcase_add_loop_test(tc, skipped_window_changes_nothing, 0, sizeof skips / sizeof *skips);
    tcase_add_test(tc, too_many_skips_end_the_run);
    tcase_add_loop_test(tc, accumulation_is_one_large_batch, 0, 2 * CUTS);
    tcase_add_test(tc, scale_is_constant_in_a_window);
    tcase_add_loop_test(tc, clipping_by_hand, 0, sizeof clips / sizeof *clips);
    tcase_add_test(tc, loss_is_unscaled);
    tcase_add_test(tc, half_overflows_between_ops);
    tcase_add_test(tc, half_underflows_between_ops);
    tcase_add_test(tc, half_in_the_backward_pass);
    tcase_add_loop_test(tc, same_run_gives_the_same_bytes, 0, sizeof repeats / sizeof *repeats);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
