/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table in doc/mixed-precision.md that a step decides: overflow, unscaling, clipping, windows.
 * Gradients are put into the flat array by hand after a backward pass, so that each case is exactly what
 * the row says. */
#include "step_models.h"

#include "base/half.h"
#include "step/window.h"

#include <stance/log.h>

#include <math.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "tests of Inf and NaN need real ones"
#endif

static const struct { const char *device, *precision; } places[] = {
    { "ref", "fp32" }, { "ref", "fp64" }, { "cpu", "fp32" }, { "cpu", "bf16" }, { "cpu", "fp16" },
};
enum { PLACES = sizeof places / sizeof *places };

static const char adam_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18}\n  head: {name: heatmap, deconv: []}\n"
    "  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [32, 32], heatmap_size: [8, 8]}\n"
    "train: {batch_size: 2, optimizer: {name: adam, lr: 1.0e-3}}\n";

/* The network without normalisation, Adam, a scaler; made later so that options can be changed. */
static bool begin(struct step_run *r, int place, const char *spec)
{
    if (!step_has_device(places[place].device, "rows of the step"))
        return false;
    for (size_t i = 0; i < sizeof script / sizeof *script; i++)
        script[i] = 1024;
    step_setup(r, adam_recipe, places[place].device, places[place].precision);
    r->setup.model.backbone = (struct stance_instance){ &convs, NULL };
    use_scaler(r, spec);
    return true;
}

static int64_t length(const struct step_run *r)
{
    const struct stance_store *s = stance_step_store(r->step);

    return (int64_t)(s->bytes[STANCE_BANK_PARAM] / stance_type_size(s->policy.wide));
}

static void poke(struct step_run *r, int64_t i, double v)
{
    const struct stance_store *s = stance_step_store(r->step);

    if (s->policy.wide == STANCE_TYPE_F64)
        ((double *)s->gradient)[i] = v;
    else
        ((float *)s->gradient)[i] = (float)v;
}

static void poke_all(struct step_run *r, double v)
{
    for (int64_t i = 0; i < length(r); i++)
        poke(r, i, v);
}

static double master(const struct step_run *r, int64_t i)
{
    const struct stance_store *s = stance_step_store(r->step);

    return s->policy.wide == STANCE_TYPE_F64 ? ((const double *)s->bank[STANCE_BANK_PARAM])[i]
                                             : (double)((const float *)s->bank[STANCE_BANK_PARAM])[i];
}

/* Index of the first number of the n-th trained weight. */
static int64_t first_of(const struct step_run *r, int n)
{
    const struct stance_store *s = stance_step_store(r->step);

    for (size_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].bank == STANCE_BANK_PARAM && n-- == 0)
            return (int64_t)(s->segments[i].offset / stance_type_size(s->policy.wide));
    ck_abort_msg("so many weights there are not");
}

/* A whole window on the data of batch @p first; its gradients are what the network makes. */
static struct stance_step_result window(struct step_run *r, int64_t first)
{
    step_fill_inputs(r, STANCE_STEP_BATCH, first);
    micro(r, STANCE_STEP_BATCH, 1);
    return apply(r, 1e-3);
}

/* The scaler's state by its text. */
static double field(const struct step_run *r, const char *name)
{
    char               *text, *at, key[64];
    struct stance_error err = STANCE_ERROR_INIT;
    double              v;

    ck_assert_int_eq(stance_scaler_save(r->setup.scaler, &text, &err), STANCE_OK);
    snprintf(key, sizeof key, "%s=", name);
    at = strstr(text, key);
    ck_assert_msg(at != NULL, "%s in %s", name, text);
    v = strtod(at + strlen(key), NULL);
    stance_free(text);
    return v;
}

static char warned[512];
static int  warnings;

static void keep_warning(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx, (void)module;
    if (level != STANCE_LOG_WARN)
        return;
    warnings++;
    snprintf(warned, sizeof warned, "%s", text);
}

/* ---- what is not finite ------------------------------------------------------------------------------------ */

static const struct { int row; double value[2]; } bad[] = {
    { 1, { INFINITY, 0 } }, { 1, { -INFINITY, 0 } }, { 2, { NAN, 0 } }, { 3, { INFINITY, -INFINITY } },
};
enum { BAD = sizeof bad / sizeof *bad };

/* Rows 1, 2, 3: one element of the first weight, of the second, of the last but one. Row 50: Adam's counter. Row 54: the flag
 * does not outlive its window. Row 14 in passing: the window that would have grown the scale. */
START_TEST(row_01_02_03_50_54_one_bad_element)
{
    struct step_run           r;
    struct stance_step_result result;
    struct snapshot           before, after;

    if (!begin(&r, _i % PLACES, "dynamic:init_scale=1024,growth_interval=3"))
        return;
    step_make(&r);
    ck_assert(!window(&r, 0).skipped && !window(&r, 2).skipped);
    for (int where = 0; where < 3; where++) {
        int64_t at    = where == 0 ? 0 : where == 1 ? first_of(&r, 1) : first_of(&r, 3);
        double  scale = field(&r, "scale");

        ck_assert_uint_eq(stance_step_applied(r.step), (uint64_t)where + 2);
        step_fill_inputs(&r, STANCE_STEP_BATCH, 4);
        micro(&r, STANCE_STEP_BATCH, 1);
        poke(&r, at, bad[_i / PLACES].value[0]);
        poke(&r, at + 1, bad[_i / PLACES].value[1]);
        before = step_snapshot(&r);
        result = apply(&r, 1e-3);
        after  = step_snapshot(&r);
        ck_assert(result.skipped && !isfinite(result.grad_norm));
        ck_assert(step_equal(&before, &after)); /* masters, moments, states, Adam's counter */
        ck_assert(field(&r, "scale") == scale * 0.5 && field(&r, "growth_tracker") == 0);
        ck_assert_int_eq(stance_step_store(r.step)->control->first_bad, at);
        free(before.bytes);
        free(after.bytes);
        ck_assert(!window(&r, 4).skipped);
        ck_assert(field(&r, "growth_tracker") == 1);
    }
    step_close(&r);
}
END_TEST

/* Elements are tested, not their sum: 2e38 each is finite, and so is every master after it. */
START_TEST(row_04_finite_elements_whose_sum_is_not)
{
    struct step_run           r;
    struct stance_step_result result;
    double                    norm;

    if (!begin(&r, _i, "static:scale=1"))
        return;
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, STANCE_STEP_BATCH, 1);
    poke_all(&r, 2e38);
    norm   = 2e38 * sqrt((double)length(&r));
    result = apply(&r, 1e-3);
    /* The squares, 4e76, are summed in binary64. */
    ck_assert_msg(!result.skipped && fabs(result.grad_norm / norm - 1) < 1e-6, "%g, not %g", result.grad_norm, norm);
    ck_assert_uint_eq(stance_step_applied(r.step), 1);
    step_close(&r);
}
END_TEST

/* Row 28: clipped by that norm, gradients keep their direction; in binary32 they would all become 0. */
START_TEST(row_28_norm_beyond_single_precision)
{
    struct step_run r;
    double          before[2], moved[2];

    if (!step_has_device(places[_i].device, "rows of the step"))
        return;
    step_setup(&r, convs_recipe, places[_i].device, places[_i].precision); /* SGD */
    r.setup.model.backbone = (struct stance_instance){ &convs, NULL };
    use_scaler(&r, "static:scale=1");
    r.options.clip = 1;
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, STANCE_STEP_BATCH, 1);
    poke_all(&r, 0);
    poke(&r, 0, 3e30);
    poke(&r, 1, -4e30);
    for (int i = 0; i < 2; i++)
        before[i] = master(&r, i);
    ck_assert(!apply(&r, 1).skipped);
    for (int i = 0; i < 2; i++)
        moved[i] = master(&r, i) - before[i];
    ck_assert_msg(fabs(moved[0] + 0.6) < 1e-6 && fabs(moved[1] - 0.8) < 1e-6, "%g, %g", moved[0], moved[1]);
    step_close(&r);
}
END_TEST

/* A target that is not a number, of a point without weight: mse leaves it out of the gradient, and the loss of
 * this test's own adds it. */
static struct stance_value build_nan_loss(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                                          const struct stance_value *outputs, int n)
{
    struct stance_shape shape  = stance_shape_of(b, outputs[0]);
    struct stance_value two[2] = { outputs[0], stance_input(b, "target", STANCE_TYPE_F32, shape) };
    struct stance_value sum[2] = { stance_node1(b, "mse", NULL, 0, two, 2),
                                   stance_input(b, "constant", STANCE_TYPE_F32, (struct stance_shape){ 0 }) };

    (void)config, (void)pose, (void)n;
    return stance_node1(b, "add", NULL, 0, sum, 2);
}

static const struct stance_loss_ops nan_loss_ops = { .size = sizeof nan_loss_ops, .build = build_nan_loss };
static const struct stance_plugin   nan_loss     = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_LOSS, .name = "nan", .ops.loss = &nan_loss_ops,
};

static void fill_constant_input(struct step_run *r, float v)
{
    int                 input = stance_step_input(r->step, STANCE_STEP_BATCH, "constant");
    struct stance_error err   = STANCE_ERROR_INIT;

    ck_assert_int_ge(input, 0);
    ck_assert_msg(stance_step_fill(r->step, STANCE_STEP_BATCH, input, STANCE_TYPE_F32, &v, &err) == STANCE_OK, "%s", err.text);
}

START_TEST(row_05_loss_is_nan_gradients_are_not)
{
    struct step_run           r;
    struct stance_step_result result;
    double                    before;

    if (!begin(&r, _i, "dynamic"))
        return;
    r.setup.model.loss = (struct stance_instance){ &nan_loss, NULL };
    step_make(&r);
    warnings = 0;
    stance_log_set_sink(keep_warning, NULL);
    for (int i = 0; i < 5; i++) {
        before = master(&r, 0);
        step_fill_inputs(&r, STANCE_STEP_BATCH, 2 * i);
        fill_constant_input(&r, i == 0 ? 1 : NAN);
        micro(&r, STANCE_STEP_BATCH, 1);
        result = apply(&r, 1e-3);
        ck_assert(!result.skipped && isfinite(result.loss) == (i == 0) && master(&r, 0) != before);
        ck_assert_int_eq(stance_step_skips(r.step)->bad_losses, i);
    }
    stance_log_set_sink(NULL, NULL);
    ck_assert_int_eq(warnings, 3); /* the 1st, the 2nd and the 4th */
    ck_assert_str_eq(warned, "the loss of step 5 is nan, its gradients are finite: applied (4 such steps so far)");
    ck_assert(field(&r, "growth_tracker") == 5);
    step_close(&r);
}
END_TEST

/* An image that is not a number: every window is skipped, down to the floor, to the end of the run. Rows 10 and
 * 12: at the floor the scale stays. */
START_TEST(row_06_10_12_nan_everywhere_ends_the_run)
{
    struct step_run           r;
    struct stance_step_result result;
    struct stance_error       err    = STANCE_ERROR_INIT;
    stance_status             status = STANCE_OK;
    struct snapshot           before, after;
    int                       n = 0;

    if (!begin(&r, _i, "dynamic:init_scale=8"))
        return;
    r.options.max_skips = stance_scaler_skip_limit(r.setup.scaler);
    ck_assert_int_eq(r.options.max_skips, 25);
    step_make(&r);
    before = step_snapshot(&r);
    while (status == STANCE_OK && n < 100) {
        step_fill_infinity(&r);
        micro(&r, STANCE_STEP_BATCH, 1);
        status = stance_step_apply(r.step, 1e-3, &result, &err);
        n++;
        ck_assert(result.skipped && field(&r, "scale") == (n < 3 ? 8 >> n : 1));
    }
    after = step_snapshot(&r);
    ck_assert(step_equal(&before, &after));
    ck_assert_int_eq(status, STANCE_ERR_DIVERGED);
    ck_assert_int_eq(stance_exit_status(status), 4);
    ck_assert_int_eq(n, 25);
    ck_assert_msg(strstr(err.text, "25 steps in a row") != NULL && strstr(err.text, "weight") != NULL, "%s", err.text);
    free(before.bytes);
    free(after.bytes);
    step_close(&r);
}
END_TEST

/* loss x scale is beyond binary32; nobody computes it. */
START_TEST(row_07_scaled_loss_is_infinite)
{
    struct step_run           r;
    struct stance_step_result result;

    if (!begin(&r, _i, "static:scale=1e35"))
        return;
    if (strcmp(places[_i].precision, "fp16") == 0) {
        step_close(&r); /* binary16 gradients would not survive that scale */
        return;
    }
    r.setup.model.loss = (struct stance_instance){ &nan_loss, NULL };
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    fill_constant_input(&r, 1e6F);
    micro(&r, STANCE_STEP_BATCH, 1);
    result = apply(&r, 1e-3);
    ck_assert(result.loss * 1e35 > 3.5e38);
    ck_assert(!result.skipped && isfinite(result.grad_norm) && result.grad_norm > 0);
    step_close(&r);
}
END_TEST

static struct stance_value build_vector_loss(struct stance_builder *b)
{
    struct stance_init one = { STANCE_INIT_CONSTANT, 1, 0 };

    return stance_conv2d(b, stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(1, 16, 2, 2)), 16, 1, 1, false, one);
}

/* A loss is a scalar, and the seed of the backward pass is binary32 whatever the low type. */
START_TEST(row_08_loss_is_a_wide_scalar)
{
    struct small        s;
    struct stance_error err = STANCE_ERROR_INIT;
    struct step_run     r;

    small_open(&s, "ref", "fp32");
    ck_assert_int_eq(small_compile(&s, build_vector_loss, true, &err), STANCE_ERR_SHAPE);
    ck_assert_msg(strstr(err.text, "the loss is not a scalar") != NULL, "%s", err.text);
    small_close(&s);
    if (!begin(&r, PLACES - 1, "static:scale=131072")) /* beyond binary16 */
        return;
    step_make(&r);
    ck_assert(stance_program_output(stance_step_program(r.step, STANCE_STEP_BATCH), "loss")->type == STANCE_TYPE_F32);
    ck_assert(!window(&r, 0).skipped);
    step_close(&r);
}
END_TEST

/* Below a scale of 1 a finite gradient may be infinite once unscaled: seen, and named. */
START_TEST(row_11_scale_below_one)
{
    struct step_run r;
    bool            wide = strcmp(places[_i].precision, "fp64") == 0;

    if (!begin(&r, _i, "scripted"))
        return;
    for (int i = 0; i < 4; i++)
        script[i] = i % 2 == 0 ? 0x1p-4F : 3e-3F;
    step_make(&r);
    for (int i = 0; i < 4; i++) {
        double inverse = (float)(1 / (double)script[i]), most = 3.4028234e38 / inverse;

        step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
        micro(&r, STANCE_STEP_BATCH, 1);
        poke_all(&r, 0);
        poke(&r, 7, i < 2 ? most * 0.999999 : -most * 1.000001);
        ck_assert(apply(&r, 0).skipped == (i >= 2 && !wide));
        ck_assert_int_eq(stance_step_store(r.step)->control->first_bad, i >= 2 && !wide ? 7 : -1);
    }
    step_close(&r);
}
END_TEST

/* ---- static, none -------------------------------------------------------------------------------------------- */

START_TEST(row_16_static_scale_is_checked)
{
    struct step_run r;
    struct snapshot before, after;

    if (!begin(&r, _i, "static"))
        return;
    step_make(&r);
    ck_assert(window(&r, 0).scale == 512);
    micro(&r, STANCE_STEP_BATCH, 1);
    poke(&r, 3, INFINITY);
    before = step_snapshot(&r);
    ck_assert(apply(&r, 1e-3).skipped);
    after = step_snapshot(&r);
    ck_assert(step_equal(&before, &after));
    ck_assert(window(&r, 2).scale == 512);
    free(before.bytes);
    free(after.bytes);
    step_close(&r);
}
END_TEST

/* Without a scaler the scale is 1; the check stays: no window may poison the weights (design: a deviation). */
START_TEST(row_18_no_scaler)
{
    struct step_run r;
    struct snapshot before, after;
    char           *text;

    if (!begin(&r, _i, "none"))
        return;
    step_make(&r);
    ck_assert(window(&r, 0).scale == 1);
    micro(&r, STANCE_STEP_BATCH, 1);
    poke(&r, 3, NAN);
    before = step_snapshot(&r);
    ck_assert(apply(&r, 1e-3).skipped);
    after = step_snapshot(&r);
    ck_assert(step_equal(&before, &after));
    ck_assert_int_eq(stance_scaler_save(r.setup.scaler, &text, NULL), STANCE_OK);
    ck_assert_str_eq(text, "none");
    warnings = 0;
    stance_log_set_sink(keep_warning, NULL);
    ck_assert_int_eq(stance_scaler_restore(r.setup.scaler, "dynamic:scale=8", NULL), STANCE_OK);
    stance_log_set_sink(NULL, NULL);
    ck_assert(warnings == 1 && window(&r, 2).scale == 1);
    stance_free(text);
    free(before.bytes);
    free(after.bytes);
    step_close(&r);
}
END_TEST

/* ---- the order of calls --------------------------------------------------------------------------------------- */

/* Unscaling is a factor of the update, so that the gradients at rest are the same bytes before and after. */
START_TEST(row_19_60_gradients_are_unscaled_once)
{
    struct step_run            r;
    const struct stance_store *s;
    char                      *before;

    if (!begin(&r, _i, "static:scale=1000"))
        return;
    step_make(&r);
    s = stance_step_store(r.step);
    /* Row 60: gradients at rest are wide, so that none in binary16 can come to be unscaled. */
    for (size_t i = 0; i < s->n_segments; i++)
        ck_assert(s->segments[i].bank != STANCE_BANK_PARAM || s->segments[i].type == s->policy.wide);
    ck_assert(s->policy.wide == (strcmp(places[_i].precision, "fp64") == 0 ? STANCE_TYPE_F64 : STANCE_TYPE_F32));
    micro(&r, STANCE_STEP_BATCH, 1);
    before = malloc(s->bytes[STANCE_BANK_PARAM]);
    ck_assert_ptr_nonnull(before);
    memcpy(before, s->gradient, s->bytes[STANCE_BANK_PARAM]);
    ck_assert(!apply(&r, 1e-3).skipped);
    ck_assert(memcmp(before, s->gradient, s->bytes[STANCE_BANK_PARAM]) == 0);
    free(before);
    step_close(&r);
}
END_TEST

/* Rows 20, 21, 22: a step twice, a step without anything checked, a step before any scale. */
START_TEST(row_20_21_22_no_step_without_a_batch)
{
    struct step_run           r;
    struct stance_step_result result;
    struct stance_error       err = STANCE_ERROR_INIT;
    struct snapshot           before, after;
    char                     *state[2];

    if (!begin(&r, _i, "dynamic"))
        return;
    step_make(&r);
    for (int k = 0; k < 2; k++) {
        before = step_snapshot(&r);
        ck_assert_int_eq(stance_scaler_save(r.setup.scaler, &state[0], &err), STANCE_OK);
        ck_assert_int_eq(stance_step_apply(r.step, 1e-3, &result, &err), STANCE_ERR_INTERNAL);
        ck_assert_msg(strstr(err.text, "a step without a batch") != NULL, "%s", err.text);
        ck_assert_int_eq(stance_scaler_save(r.setup.scaler, &state[1], &err), STANCE_OK);
        after = step_snapshot(&r);
        ck_assert(step_equal(&before, &after));
        ck_assert_str_eq(state[0], state[1]);
        free(before.bytes);
        free(after.bytes);
        stance_free(state[0]);
        stance_free(state[1]);
        ck_assert(!window(&r, 0).skipped);
    }
    step_close(&r);
}
END_TEST

/* ---- what is trained ------------------------------------------------------------------------------------------- */

static enum stance_role first_role, second_role;

/* Two convolutions of which each may be frozen; the third is made and read by nobody. */
static void build_roles(struct stance_builder *b, const void *config, struct stance_value image, struct stance_value *out,
                        int *n_out)
{
    struct stance_init   init = { STANCE_INIT_NORMAL, 0, 0.1F };
    struct stance_conv2d attr = { .stride = { 2, 2 }, .pad = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
    enum stance_role     role[3] = { first_role, second_role, STANCE_ROLE_PARAM };
    struct stance_value  x       = image;

    (void)config;
    for (int i = 0; i < 3; i++) {
        struct stance_value in[2] = { i < 2 ? x : image };

        stance_enter(b, "conv%d", i + 1);
        in[1] = stance_weight(b, "weight", role[i], STANCE_TYPE_F32, stance_shape4(16, i == 1 ? 16 : 3, 3, 3), init);
        stance_leave(b);
        if (i < 2)
            x = stance_relu(b, stance_node1(b, "conv2d", &attr, sizeof attr, in, 2));
    }
    out[0] = x;
    *n_out = 1;
}

/* A head without weights: it takes as many channels as there are points. */
static void build_plain_head(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                             const struct stance_value *features, int n, struct stance_value *out, int *n_out)
{
    (void)config, (void)pose, (void)n;
    stance_output(b, "heatmap", features[0]);
    out[0] = features[0];
    *n_out = 1;
}

static struct stance_value build_plain_loss(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                                            const struct stance_value *outputs, int n)
{
    struct stance_value two[2] = { outputs[0], stance_input(b, "target", STANCE_TYPE_F32, stance_shape_of(b, outputs[0])) };

    (void)config, (void)pose, (void)n;
    return stance_node1(b, "mse", NULL, 0, two, 2);
}

static const struct stance_backbone_ops roles_ops = { .size = sizeof roles_ops, .build = build_roles };
static const struct stance_plugin       roles     = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_BACKBONE, .name = "roles", .ops.backbone = &roles_ops,
};
static const struct stance_head_ops plain_head_ops = { .size = sizeof plain_head_ops, .build = build_plain_head };
static const struct stance_plugin   plain_head     = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_HEAD, .name = "plain", .ops.head = &plain_head_ops,
};
static const struct stance_loss_ops plain_loss_ops = { .size = sizeof plain_loss_ops, .build = build_plain_loss };
static const struct stance_plugin   plain_loss     = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_LOSS, .name = "plain", .ops.loss = &plain_loss_ops,
};

static const char decay_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18}\n  head: {name: heatmap, deconv: []}\n"
    "  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [32, 32], heatmap_size: [8, 8]}\n"
    "train: {batch_size: 2, optimizer: {name: adamw, lr: 1.0e-2, weight_decay: 0.5}}\n";

static bool begin_roles(struct step_run *r, int place, enum stance_role first, enum stance_role second)
{
    if (!step_has_device(places[place].device, "rows of the step"))
        return false;
    first_role  = first;
    second_role = second;
    step_setup(r, decay_recipe, places[place].device, places[place].precision);
    r->setup.model.backbone = (struct stance_instance){ &roles, NULL };
    r->setup.model.head     = (struct stance_instance){ &plain_head, NULL };
    r->setup.model.loss     = (struct stance_instance){ &plain_loss, NULL };
    return true;
}

/* Row 23: nothing to train is an error, told before the first step. */
START_TEST(row_23_nothing_to_train)
{
    struct step_run     r;
    struct stance_error err = STANCE_ERROR_INIT;

    if (!begin_roles(&r, _i, STANCE_ROLE_FROZEN, STANCE_ROLE_FROZEN))
        return;
    ck_assert_int_eq(stance_step_new(&r.options, &r.step, &err), STANCE_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "the loss depends on no weight that is trained") != NULL, "%s", err.text);
    step_close(&r);
}
END_TEST

/* Row 24: a weight without a gradient keeps its bytes though the optimizer decays weights, and has no moments.
 * Row 26: so does a frozen one; and neither is part of the norm. */
START_TEST(row_24_26_unused_and_frozen_weights)
{
    struct step_run            r;
    const struct stance_store *s;
    struct stance_step_result  result;
    double                    *before[3], *g, squares = 0;
    static const char *const   names[3] = { "backbone.conv1.weight", "backbone.conv2.weight", "backbone.conv3.weight" };
    int64_t                    n;

    if (!begin_roles(&r, _i, STANCE_ROLE_FROZEN, STANCE_ROLE_PARAM))
        return;
    use_scaler(&r, "static:scale=1024");
    r.options.eval_batch = 2; /* an evaluation graph does not know what is trained */
    step_make(&r);
    s = stance_step_store(r.step);
    for (int i = 0; i < 3; i++)
        before[i] = step_values(&r, (size_t)stance_store_find(s, names[i]), STANCE_ARRAY_MASTER, &n);
    ck_assert_uint_eq(stance_store_parameters(s), 16 * 16 * 9); /* of conv2 alone */
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, STANCE_STEP_BATCH, 1);
    g = step_values(&r, (size_t)stance_store_find(s, names[1]), STANCE_ARRAY_GRADIENT, &n);
    for (int64_t i = 0; i < n; i++)
        squares += g[i] / 1024 * (g[i] / 1024);
    free(g);
    result = apply(&r, 1e-2);
    ck_assert(!result.skipped && squares > 0 && fabs(result.grad_norm / sqrt(squares) - 1) < 1e-6);
    for (int i = 0; i < 3; i++) {
        double *now  = step_values(&r, (size_t)stance_store_find(s, names[i]), STANCE_ARRAY_MASTER, &n);
        bool    same = memcmp(now, before[i], (size_t)n * sizeof *now) == 0;

        ck_assert_msg(same == (i != 1), "%s", names[i]);
        free(now);
        free(before[i]);
    }
    step_close(&r);
}
END_TEST

START_TEST(row_25_zero_gradients)
{
    struct step_run           r;
    struct stance_step_result result;
    double                    before;

    if (!begin(&r, _i, "dynamic"))
        return;
    step_make(&r);
    ck_assert(!window(&r, 0).skipped);
    micro(&r, STANCE_STEP_BATCH, 1);
    poke_all(&r, 0);
    before = master(&r, 0);
    result = apply(&r, 1e-3);
    ck_assert(!result.skipped && result.grad_norm == 0 && field(&r, "growth_tracker") == 2);
    ck_assert(master(&r, 0) != before); /* by momentum */
    ck_assert_uint_eq(stance_step_applied(r.step), 2);
    step_close(&r);
}
END_TEST

/* ---- clipping --------------------------------------------------------------------------------------------------- */

/* Rows 27, 30: with each kind of clipping, an overflow is skipped with the gradients left as they are, and its norm
 * is no number that a mean could take up. */
START_TEST(row_27_30_clipping_and_overflow)
{
    for (int kind = 0; kind < 3; kind++) {
        struct step_run           r;
        struct stance_step_result result;
        struct snapshot           before, after;
        const struct stance_store *s;
        char                     *g;

        if (!begin(&r, _i, "dynamic"))
            return;
        r.options.clip       = kind < 2 ? 1e-3 : 0;
        r.options.clip_inf   = kind == 1;
        r.options.clip_value = kind == 2 ? 1e-3 : 0;
        step_make(&r);
        s = stance_step_store(r.step);
        ck_assert(!window(&r, 0).skipped);
        step_fill_inputs(&r, STANCE_STEP_BATCH, 2);
        micro(&r, STANCE_STEP_BATCH, 1);
        poke(&r, 5, kind == 0 ? NAN : INFINITY);
        g = malloc(s->bytes[STANCE_BANK_PARAM]);
        ck_assert_ptr_nonnull(g);
        memcpy(g, s->gradient, s->bytes[STANCE_BANK_PARAM]);
        before = step_snapshot(&r);
        result = apply(&r, 1e-3);
        after  = step_snapshot(&r);
        ck_assert(result.skipped && !isfinite(result.grad_norm) && step_equal(&before, &after));
        ck_assert(memcmp(g, s->gradient, s->bytes[STANCE_BANK_PARAM]) == 0);
        free(g);
        free(before.bytes);
        free(after.bytes);
        step_close(&r);
    }
}
END_TEST

/* Row 29: the limit is of the unscaled gradient: the same weights for any scale. Row 58: powers of two are exact. */
START_TEST(row_29_clipping_does_not_see_the_scale)
{
    static const char *const specs[] = { "none", "static:scale=1024", "static:scale=65536" };
    struct snapshot          s[3];
    double                   norm[3];

    if (strcmp(places[_i].precision, "fp16") == 0)
        return; /* there the scale decides what vanishes, which is its purpose */
    for (int kind = 0; kind < 3; kind++) {
        for (int k = 0; k < 3; k++) {
            struct step_run r;

            if (!begin(&r, _i, specs[k]))
                return;
            r.options.clip       = kind < 2 ? 1e-4 : 0;
            r.options.clip_inf   = kind == 1;
            r.options.clip_value = kind == 2 ? 1e-5 : 0;
            step_make(&r);
            norm[k] = window(&r, 0).grad_norm;
            window(&r, 2);
            s[k] = step_snapshot(&r);
            step_close(&r);
        }
        ck_assert_msg(norm[0] > 1e-4 && norm[1] == norm[0] && norm[2] == norm[0], "%.17g, %.17g, %.17g", norm[0], norm[1], norm[2]);
        for (int k = 1; k < 3; k++)
            ck_assert_msg(step_equal(&s[0], &s[k]), "kind %d, scale %s", kind, specs[k]);
        for (int k = 0; k < 3; k++)
            free(s[k].bytes);
    }
}
END_TEST

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* Row 31: infinity in any of three micro-batches skips their window once; rows 32 and 65: under one scale, and
 * nothing of it is left in the next window. */
START_TEST(row_31_65_overflow_inside_a_window)
{
    struct step_run r, other;
    struct snapshot before, after, clean;
    int             place = _i % PLACES, where = _i / PLACES;

    if (!begin(&r, place, "dynamic:init_scale=1024"))
        return;
    r.options.accumulate = true;
    step_make(&r);
    before = step_snapshot(&r);
    for (int i = 0; i < 3; i++) {
        if (i == where)
            step_fill_infinity(&r);
        else
            step_fill_inputs(&r, STANCE_STEP_BATCH, 2 * i);
        micro(&r, STANCE_STEP_BATCH, 1 / 3.0);
    }
    ck_assert(apply(&r, 1e-3).skipped);
    after = step_snapshot(&r);
    ck_assert(step_equal(&before, &after));
    ck_assert(field(&r, "scale") == 512 && stance_step_skips(r.step)->total == 1);
    free(before.bytes);
    free(after.bytes);
    /* The next window is that of a run which begins with it. */
    begin(&other, place, "dynamic:init_scale=512");
    other.options.accumulate = true;
    step_make(&other);
    for (int k = 0; k < 2; k++) {
        struct step_run *it = k == 0 ? &r : &other;

        for (int i = 0; i < 3; i++) {
            step_fill_inputs(it, STANCE_STEP_BATCH, 6 + 2 * i);
            micro(it, STANCE_STEP_BATCH, 1 / 3.0);
        }
        ck_assert(!apply(it, 1e-3).skipped);
    }
    after = step_snapshot(&r);
    clean = step_snapshot(&other);
    ck_assert(step_equal(&after, &clean));
    free(after.bytes);
    free(clean.bytes);
    step_close(&r);
    step_close(&other);
}
END_TEST

START_TEST(row_32_55_scale_is_constant_in_a_window)
{
    struct step_run           r;
    struct stance_step_result result;

    if (!begin(&r, _i, "scripted"))
        return;
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
        ck_assert_int_eq(asked, 1); /* row 55: the host's own number, asked once a window */
        ck_assert(result.scale == want && !result.skipped && !stance_step_window(r.step).open);
    }
    step_close(&r);
}
END_TEST

/* Rows 33, 34: 10 micro-batches in windows of 4, by epochs of 5; the last one is as long as what is left, and its
 * parts weigh what MMCV's factor `remainder` makes them weigh. */
START_TEST(row_33_34_windows_of_a_run)
{
    static const int64_t ends[10]    = { 4, 4, 4, 4, 8, 8, 8, 8, 10, 10 };
    struct stance_windows w          = { .accumulate = 4, .batches = 5, .end = 10, .batch_size = 8, .samples = 40 };
    int64_t               done       = 0;

    ck_assert_int_eq(stance_windows_count(&w), 3);
    for (int64_t i = 0; i < 10; i++) {
        ck_assert_int_eq(stance_windows_end(&w, i, done), ends[i]);
        ck_assert_double_eq(stance_windows_weight(&w, i, done), i < 8 ? 0.25 : 0.5);
        done = i + 1 == ends[i] ? 0 : done + 1;
    }
}
END_TEST

/* ---- batch norm ----------------------------------------------------------------------------------------------------- */

static const char norm_recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [8, 8, 8]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [16, 16]}\n"
    "train: {batch_size: 2, optimizer: {name: adam, lr: 5.0e-4}}\nthreads: 1\n";

/* design.md 3 in the place of rows 46 and 48: running statistics and num_batches_tracked of a skipped window keep
 * their bytes, whether its batches were finite or not, and the next window's are those of a run without it. */
START_TEST(row_46_48_statistics_of_a_skipped_window)
{
    for (int infinite = 0; infinite < 2; infinite++) {
        struct step_run            r;
        const struct stance_store *s;
        struct snapshot            before, after;
        long                       tracked;
        int64_t                    count;

        if (!step_has_device(places[_i].device, "rows of the step"))
            return;
        step_setup(&r, norm_recipe, places[_i].device, places[_i].precision);
        use_scaler(&r, "dynamic:init_scale=1024");
        r.options.accumulate = true;
        step_make(&r);
        s       = stance_step_store(r.step);
        tracked = stance_store_find(s, "backbone.bn1.num_batches_tracked");
        ck_assert_int_ge(tracked, 0);
        ck_assert(!window(&r, 0).skipped);
        before = step_snapshot(&r);
        for (int i = 0; i < 2; i++) {
            if (infinite)
                step_fill_infinity(&r);
            else
                step_fill_inputs(&r, STANCE_STEP_BATCH, 4);
            micro(&r, STANCE_STEP_BATCH, 0.5);
        }
        poke(&r, 9, INFINITY);
        ck_assert(apply(&r, 1e-3).skipped);
        after = step_snapshot(&r);
        ck_assert(step_equal(&before, &after));
        ck_assert_int_eq(stance_store_read(s, (size_t)tracked, STANCE_ARRAY_COMMITTED, STANCE_TYPE_I64, &count, NULL), STANCE_OK);
        ck_assert_int_eq(count, 1);
        free(before.bytes);
        free(after.bytes);
        step_close(&r);
    }
}
END_TEST

/* ---- the beginning, evaluation -------------------------------------------------------------------------------------- */

/* From 2^32, where MMCV's own scaler begins, the scale halves its way down by itself. */
START_TEST(row_51_settles_from_2_to_the_32)
{
    struct step_run           r;
    struct stance_step_result result = { 0 };
    int                       skipped = 0, n;

    if (!begin(&r, PLACES - 1, "dynamic:init_scale=4294967296"))
        return;
    r.options.max_skips = stance_scaler_skip_limit(r.setup.scaler);
    ck_assert_int_eq(r.options.max_skips, 41);
    step_make(&r);
    for (n = 0; n < 60; n++) {
        result = window(&r, 2 * n);
        skipped += result.skipped;
        ck_assert(result.scale == ldexpf(1, 32 - (result.skipped ? skipped - 1 : skipped)));
    }
    ck_assert_msg(skipped > 3 && skipped < 32 && !result.skipped, "%d skipped", skipped);
    ck_assert_uint_eq(stance_step_applied(r.step), 60 - (uint64_t)skipped);
    ck_assert_int_eq(stance_step_skips(r.step)->total, skipped);
    step_close(&r);
}
END_TEST

/* Row 52: evaluation knows no scale, and gives binary16 numbers under fp16. */
START_TEST(row_52_evaluation)
{
    float heat[2][2 * 17 * 8 * 8];

    for (int k = 0; k < 2; k++) {
        struct step_run     r;
        struct stance_error err = STANCE_ERROR_INIT;

        if (!begin(&r, _i, k == 0 ? "static:scale=1" : "static:scale=1e30"))
            return;
        r.options.eval_batch = 2;
        step_make(&r);
        step_fill_inputs(&r, STANCE_STEP_EVAL, 0);
        ck_assert_int_eq(stance_step_evaluate(r.step, STANCE_STEP_EVAL, &err), STANCE_OK);
        ck_assert_int_eq(stance_step_read(r.step, STANCE_STEP_EVAL, "heatmap", STANCE_TYPE_F32, heat[k], &err), STANCE_OK);
        step_close(&r);
    }
    ck_assert(memcmp(heat[0], heat[1], sizeof heat[0]) == 0);
    for (size_t i = 0; i < sizeof heat[0] / sizeof *heat[0]; i++) {
        float h = heat[0][i];

        ck_assert(isfinite(h));
        if (strcmp(places[_i].precision, "fp16") == 0) /* it is what binary16 can hold */
            ck_assert((float)stance_f64_of_half(stance_half_of_f64((double)h, STANCE_F16_FRACTION), STANCE_F16_FRACTION) == h);
    }
}
END_TEST

/* ---- numbers ---------------------------------------------------------------------------------------------------------- */

/* Row 58: the factor is the binary32 of 1/(double)scale. Row 59: for any other scale each unscaled gradient is off by
 * half a unit at most, from that rounding and from its own. */
START_TEST(row_58_59_reciprocal)
{
    static const float scales[] = { 1, 2, 512, 65536, 0x1p127F, 3, 768, 1000, 66560.5F, 1.3e5F };
    struct step_run    r;

    if (!begin(&r, _i, "scripted"))
        return;
    for (int i = 0; i < 10; i++)
        script[i] = scales[i];
    step_make(&r);
    for (int i = 0; i < 10; i++) {
        int   e;
        bool  exact = frexpf(scales[i], &e) == 0.5F;
        double factor;

        step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
        micro(&r, STANCE_STEP_BATCH, 1);
        poke_all(&r, 0);
        poke(&r, 0, (double)scales[i]);
        ck_assert(!apply(&r, 0).skipped);
        factor = stance_step_store(r.step)->control->update.factor;
        ck_assert(factor == (double)(float)(1 / (double)scales[i]));
        ck_assert(exact ? factor * (double)scales[i] == 1 : fabs(factor * (double)scales[i] - 1) <= 0x1p-24);
    }
    step_close(&r);
}
END_TEST

/* Row 61: a scale that only binary16 cannot bear is noticed there, and only there. */
START_TEST(row_61_overflow_of_a_half_gradient)
{
    struct step_run r;

    if (!begin(&r, _i, "static:scale=1e9"))
        return;
    step_make(&r);
    ck_assert(window(&r, 0).skipped == (strcmp(places[_i].precision, "fp16") == 0));
    step_close(&r);
}
END_TEST

/* Row 64: one launch looks at the gradients, whatever is clipped; none is in the programs. */
START_TEST(row_64_one_check_a_window)
{
    struct step_run              r;
    struct stance_program_launch l;

    if (!begin(&r, _i, "dynamic"))
        return;
    r.options.clip = 1;
    step_make(&r);
    for (size_t i = 0; stance_program_launch(stance_step_program(r.step, STANCE_STEP_BATCH), i, &l); i++)
        ck_assert(strcmp(l.op, "grad_check") != 0 && strcmp(l.op, "clip_value") != 0);
    ck_assert(!window(&r, 0).skipped);
    step_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows of the step");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, row_01_02_03_50_54_one_bad_element, 0, BAD * PLACES);
    tcase_add_loop_test(tc, row_04_finite_elements_whose_sum_is_not, 0, PLACES);
    tcase_add_loop_test(tc, row_05_loss_is_nan_gradients_are_not, 0, PLACES);
    tcase_add_loop_test(tc, row_06_10_12_nan_everywhere_ends_the_run, 0, PLACES);
    tcase_add_loop_test(tc, row_07_scaled_loss_is_infinite, 0, PLACES);
    tcase_add_test(tc, row_08_loss_is_a_wide_scalar);
    tcase_add_loop_test(tc, row_11_scale_below_one, 0, PLACES);
    tcase_add_loop_test(tc, row_16_static_scale_is_checked, 0, PLACES);
    tcase_add_loop_test(tc, row_18_no_scaler, 0, PLACES);
    tcase_add_loop_test(tc, row_19_60_gradients_are_unscaled_once, 0, PLACES);
    tcase_add_loop_test(tc, row_20_21_22_no_step_without_a_batch, 0, PLACES);
    tcase_add_loop_test(tc, row_23_nothing_to_train, 0, PLACES);
    tcase_add_loop_test(tc, row_24_26_unused_and_frozen_weights, 0, PLACES);
    tcase_add_loop_test(tc, row_25_zero_gradients, 0, PLACES);
    tcase_add_loop_test(tc, row_27_30_clipping_and_overflow, 0, PLACES);
    tcase_add_loop_test(tc, row_28_norm_beyond_single_precision, 0, PLACES);
    tcase_add_loop_test(tc, row_29_clipping_does_not_see_the_scale, 0, PLACES);
    tcase_add_loop_test(tc, row_31_65_overflow_inside_a_window, 0, 3 * PLACES);
    tcase_add_loop_test(tc, row_32_55_scale_is_constant_in_a_window, 0, PLACES);
    tcase_add_test(tc, row_33_34_windows_of_a_run);
    tcase_add_loop_test(tc, row_46_48_statistics_of_a_skipped_window, 0, PLACES);
    tcase_add_test(tc, row_51_settles_from_2_to_the_32);
    tcase_add_loop_test(tc, row_52_evaluation, 0, PLACES);
    tcase_add_loop_test(tc, row_58_59_reciprocal, 0, PLACES);
    tcase_add_loop_test(tc, row_61_overflow_of_a_half_gradient, 0, PLACES);
    tcase_add_loop_test(tc, row_64_one_check_a_window, 0, PLACES);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
