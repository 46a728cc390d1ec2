/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixed-precision step: what a skipped window leaves alone, windows of several micro-batches, clipping,
 * what binary16 does to numbers, and that the same run twice gives the same bytes. */
#include "step_models.h"

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

/* How the samples of a window are cut; weights are samples over samples of the window. */
static const struct { int32_t batch, last_batch; int whole, last; } cuts[] = {
    { 1, 0, 4, 0 }, { 2, 0, 2, 0 }, { 3, 1, 1, 1 }, { 2, 0, 3, 0 }, { 1, 0, 6, 0 }, { 2, 1, 2, 1 },
};
enum { CUTS = sizeof cuts / sizeof *cuts };
static const struct { const char *device, *precision; double off; } accumulators[] = {
    { "ref", "fp32", 5e-6 }, { "cpu", "fp32", 5e-6 }, { "ref", "fp64", 1e-14 },
};
enum { ACCUMULATORS = sizeof accumulators / sizeof *accumulators };

START_TEST(accumulation_is_one_large_batch)
{
    int             cut = _i % CUTS;
    const char     *device = accumulators[_i / CUTS].device, *precision = accumulators[_i / CUTS].precision;
    int32_t         samples = cuts[cut].batch * cuts[cut].whole + cuts[cut].last_batch * cuts[cut].last;
    double          off = accumulators[_i / CUTS].off, loss[2];
    struct step_run large, small;
    int64_t         n, first = 0;

    if (!step_has_device(device, "accumulation"))
        return;
    open_convs(&large, device, precision);
    large.options.batch = samples;
    step_make(&large);
    step_fill_inputs(&large, STANCE_STEP_BATCH, 0);
    open_convs(&small, device, precision);
    small.options.batch      = cuts[cut].batch;
    small.options.last_batch = cuts[cut].last_batch;
    small.options.accumulate = true;
    step_make(&small);
    for (int window = 0; window < 3; window++, first = 0) {
        micro(&large, STANCE_STEP_BATCH, 1);
        loss[0] = apply(&large, 0.5).loss;
        for (int i = 0; i < cuts[cut].whole + cuts[cut].last; i++) {
            enum stance_step_program which = i < cuts[cut].whole ? STANCE_STEP_BATCH : STANCE_STEP_LAST;
            int32_t                  b     = i < cuts[cut].whole ? cuts[cut].batch : cuts[cut].last_batch;

            step_fill_inputs(&small, which, first);
            micro(&small, which, (double)b / samples);
            first += b;
        }
        ck_assert_int_eq(first, samples);
        loss[1] = apply(&small, 0.5).loss;
        ck_assert_msg(fabs(loss[0] / loss[1] - 1) <= off, "%g, %g", loss[0], loss[1]);
    }
    /* Sums of the same products in another order, over at most 6 x 256 pixels: 2^-24 times the square root
     * of the terms, 2.4e-6 of the tensor's norm; gradients of later windows see moved weights too. In
     * binary64 the same with 2^-53. */
    for (size_t i = 0; i < stance_step_store(large.step)->n_segments; i++) {
        for (int array = STANCE_ARRAY_MASTER; array <= STANCE_ARRAY_GRADIENT; array += STANCE_ARRAY_GRADIENT) {
            double *a = step_values(&large, i, array, &n), *b = step_values(&small, i, array, &n);

            ck_assert_msg(small_distance(b, a, n) <= off, "%s, array %d: off by %g",
                          stance_step_store(large.step)->segments[i].name, array, small_distance(b, a, n));
            free(a);
            free(b);
        }
    }
    step_close(&large);
    step_close(&small);
}
END_TEST

/* ---- clipping and scaling by hand ------------------------------------------------------------------------- */

enum clip_kind { CLIP_L2, CLIP_INF, CLIP_VALUE };
static const struct { const char *device, *precision; enum clip_kind kind; double part, scale; } clips[] = {
    { "ref", "fp32", CLIP_L2, 0.5, 1 },      { "ref", "fp32", CLIP_L2, 0.01, 1024 },   { "ref", "fp32", CLIP_L2, 2, 1024 },
    { "cpu", "fp32", CLIP_L2, 0.5, 1024 },   { "cpu", "fp32", CLIP_L2, 2, 1 },         { "ref", "fp32", CLIP_L2, 0, 512 },
    { "ref", "fp64", CLIP_L2, 0.5, 1024 },   { "cpu", "bf16", CLIP_L2, 0.5, 1024 },    { "cpu", "fp16", CLIP_L2, 0.5, 1024 },
    { "ref", "fp32", CLIP_INF, 0.5, 1024 },  { "ref", "fp64", CLIP_INF, 0.25, 1024 },  { "ref", "fp32", CLIP_INF, 2, 1024 },
    { "cpu", "fp32", CLIP_INF, 0.5, 1024 },  { "cpu", "bf16", CLIP_INF, 0.5, 1024 },   { "cpu", "fp16", CLIP_INF, 0.01, 1024 },
    { "ref", "fp32", CLIP_VALUE, 0.5, 1024 }, { "ref", "fp64", CLIP_VALUE, 0.25, 1024 }, { "ref", "fp32", CLIP_VALUE, 2, 1 },
    { "cpu", "fp32", CLIP_VALUE, 0.5, 1024 }, { "cpu", "bf16", CLIP_VALUE, 0.1, 1024 }, { "cpu", "fp16", CLIP_VALUE, 0.5, 1000 },
};

/* part: the limit over the true norm, or over the largest magnitude; 2 clips nothing, 0 means no limit. */
START_TEST(clipping_by_hand)
{
    struct step_run           r;
    struct stance_step_result result;
    double                   *g[16], *p[16], *q, squares = 0, largest = 0, norm, factor, limit = INFINITY, rate = 0.7, unit;
    int64_t                   n, cut = 0;
    size_t                    segments;
    float                     inverse = (float)(1 / clips[_i].scale);
    enum clip_kind            kind    = clips[_i].kind;

    if (!step_has_device(clips[_i].device, "clipping"))
        return;
    open_convs(&r, clips[_i].device, clips[_i].precision);
    use_scaler(&r, "scripted");
    script[0] = script[1] = (float)clips[_i].scale;
    r.options.clip       = kind != CLIP_VALUE; /* set to what it should be below */
    r.options.clip_value = kind == CLIP_VALUE;
    r.options.clip_inf   = kind == CLIP_INF;
    step_make(&r);
    unit     = r.setup.policy.wide == STANCE_TYPE_F64 ? 0x1p-53 : 0x1p-24;
    segments = stance_step_store(r.step)->n_segments;
    ck_assert_uint_le(segments, 16);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, STANCE_STEP_BATCH, 1);
    for (size_t i = 0; i < segments; i++) {
        g[i] = step_values(&r, i, STANCE_ARRAY_GRADIENT, &n);
        p[i] = step_values(&r, i, STANCE_ARRAY_MASTER, &n);
        for (int64_t k = 0; k < n; k++) {
            double v = g[i][k] * (double)inverse;

            squares += v * v;
            largest = fabs(v) > largest ? fabs(v) : largest;
        }
    }
    norm   = kind == CLIP_INF ? largest : sqrt(squares);
    factor = (double)inverse;
    if (kind == CLIP_VALUE) {
        limit = clips[_i].part * largest;
        stance_step_store(r.step)->control->clip_value = limit;
    } else {
        stance_step_store(r.step)->control->clip = clips[_i].part * norm;
        if (clips[_i].part > 0 && clips[_i].part < 1)
            factor *= clips[_i].part * norm / (norm + 1e-6); /* torch.nn.utils.clip_grad_norm_ */
    }
    result = apply(&r, rate);
    ck_assert_msg(fabs(result.grad_norm / norm - 1) <= 1e-9, "%.17g, %.17g", result.grad_norm, norm);
    for (size_t i = 0; i < segments; i++) {
        q = step_values(&r, i, STANCE_ARRAY_MASTER, &n);
        for (int64_t k = 0; k < n; k++) {
            double v = factor * g[i][k], want;

            cut += fabs(v) > limit;
            v    = v > limit ? limit : v < -limit ? -limit : v; /* torch.nn.utils.clip_grad_value_ */
            want = p[i][k] - rate * v;
            /* Rounded where the step rounds: the limit, the product, the factor and the sum. */
            ck_assert_msg(fabs(q[k] - want) <= 2 * unit * (fabs(p[i][k]) + 3 * fabs(rate * v)),
                          "%s[%lld]: %.17g, not %.17g", stance_step_store(r.step)->segments[i].name, (long long)k, q[k], want);
        }
        free(q);
        free(g[i]);
        free(p[i]);
    }
    ck_assert((cut > 0) == (kind == CLIP_VALUE && clips[_i].part < 1));
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
    tcase_add_loop_test(tc, accumulation_is_one_large_batch, 0, ACCUMULATORS * CUTS);
    tcase_add_loop_test(tc, clipping_by_hand, 0, sizeof clips / sizeof *clips);
    tcase_add_test(tc, loss_is_unscaled);
    tcase_add_test(tc, half_overflows_between_ops);
    tcase_add_test(tc, half_underflows_between_ops);
    tcase_add_test(tc, half_in_the_backward_pass);
    tcase_add_loop_test(tc, same_run_gives_the_same_bytes, 0, sizeof repeats / sizeof *repeats);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
