/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table in doc/mixed-precision.md that a scaler, or a number format, decides by itself. */
#include "small_graph.h"

#include "base/half.h"
#include "config/recipe.h"
#include "graph/ops/table.h"

#include <stance/log.h>

#include <math.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "tests of Inf and NaN need real ones"
#endif

static struct stance_registry *registry;

static void open_registry(void)
{
    LTDL_SET_PRELOADED_SYMBOLS();
    ck_assert_int_eq(stance_registry_new(NULL, &registry, NULL), STANCE_OK);
}

static void close_registry(void)
{
    stance_registry_free(registry);
}

static struct stance_scaler *scaler(const char *spec)
{
    struct stance_scaler *s;
    struct stance_error   err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_scaler_from(registry, spec, &s, &err) == STANCE_OK, "%s", err.text);
    return s;
}

static float scale_of(const struct stance_scaler *s)
{
    struct stance_error err = STANCE_ERROR_INIT;
    float               v;

    ck_assert_msg(stance_scaler_scale(s, &v, &err) == STANCE_OK, "%s", err.text);
    return v;
}

static void tell(struct stance_scaler *s, bool overflow)
{
    struct stance_outcome o = { .size = sizeof o, .overflow = overflow, .grad_norm = overflow ? INFINITY : 1, .max_abs = 1 };

    stance_scaler_update(s, &o);
}

static double field(const struct stance_scaler *s, const char *name)
{
    char  *text, *at, key[64];
    double v;

    ck_assert_int_eq(stance_scaler_save(s, &text, NULL), STANCE_OK);
    snprintf(key, sizeof key, "%s=", name);
    at = strstr(text, key);
    ck_assert_msg(at != NULL, "%s in %s", name, text);
    v = strtod(at + strlen(key), NULL);
    stance_free(text);
    return v;
}

static char warned[1024];

static void keep_warning(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx, (void)module;
    if (level == STANCE_LOG_WARN)
        snprintf(warned, sizeof warned, "%s", text);
}

/* ---- growing and falling --------------------------------------------------------------------------------- */

/* 2^127 is the last power of two of binary32: what would grow beyond it stays, and the count begins again. */
START_TEST(row_09_growth_beyond_single_precision)
{
    struct stance_scaler *s = scaler("dynamic:init_scale=1.7014118346046923e38,growth_interval=2");

    for (int i = 0; i < 6; i++) {
        ck_assert(scale_of(s) == 0x1p127F);
        ck_assert(field(s, "growth_tracker") == i % 2);
        tell(s, false);
    }
    stance_scaler_free(s);
}
END_TEST

/* Row 10: the floor, 1 unless set; without one the scale ends at 0, which ends the run instead of its weights.
 * Row 11: so it is below 1 by consent alone. Row 12: at the floor it stays. */
START_TEST(row_10_11_12_floor)
{
    struct stance_scaler *s   = scaler("dynamic:init_scale=4"), *bare = scaler("dynamic:init_scale=1.1754944e-38,min_scale=0");
    struct stance_error   err = STANCE_ERROR_INIT;
    stance_status         status = STANCE_OK;
    float                 v;
    int                   n = 0;

    for (int i = 0; i < 40; i++, tell(s, true))
        ck_assert(scale_of(s) == (i == 0 ? 4.0F : i == 1 ? 2.0F : 1.0F));
    while ((status = stance_scaler_scale(bare, &v, &err)) == STANCE_OK && n < 100) {
        tell(bare, true);
        n++;
    }
    ck_assert_int_eq(status, STANCE_ERR_DIVERGED);
    ck_assert_int_eq(n, 24); /* 2^-126 to 2^-149 */
    ck_assert_msg(strstr(err.text, "fallen to 0") != NULL, "%s", err.text);
    stance_scaler_free(s);
    stance_scaler_free(bare);
}
END_TEST

/* Row 13: doubled after the interval-th clean window. Row 14: an overflow there backs off instead. Row 15: an
 * interval of 1. The first 10 windows are the trace measured with PyTorch (init 4, interval 3). */
START_TEST(row_13_14_15_growth)
{
    static const int   flags[10] = { 0, 0, 1, 0, 0, 0, 0, 0, 0, 1 };
    static const float want[10]  = { 4, 4, 2, 2, 2, 4, 4, 4, 8, 4 };
    static const int   count[10] = { 1, 2, 0, 1, 2, 0, 1, 2, 0, 0 };
    struct stance_scaler *s = scaler("dynamic:init_scale=4,growth_interval=3"), *each = scaler("dynamic:init_scale=4,growth_interval=1");

    for (int i = 0; i < 10; i++) {
        tell(s, flags[i] != 0);
        ck_assert_msg(scale_of(s) == want[i] && field(s, "growth_tracker") == count[i], "window %d", i);
    }
    for (int i = 0; i < 10; i++, tell(each, false))
        ck_assert(scale_of(each) == ldexpf(4, i));
    stance_scaler_free(s);
    stance_scaler_free(each);
}
END_TEST

/* Row 17: `loss_scale: 512` is 512.0; MMCV refuses it. Read from a recipe, and by the option. */
START_TEST(row_17_static_scale_as_an_integer)
{
    static const char *const texts[] = { "fp16: {loss_scale: 512}\n", "fp16: {loss_scale: 512.}\n", "fp16: {loss_scale: 5.12e2}\n" };

    for (int i = 0; i < 3; i++) {
        struct step_run r;
        char            text[1024];

        snprintf(text, sizeof text,
                 "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18}\n  head: {name: heatmap, deconv: []}\n"
                 "  loss: {name: joints_mse}\ndata: {dataset: synthetic, input_size: [32, 32], heatmap_size: [1, 1]}\n%s", texts[i]);
        if (!step_has_device("cpu", "binary16"))
            return;
        step_setup(&r, text, "cpu", NULL);
        ck_assert_str_eq(stance_scaler_name(r.setup.scaler), "static");
        ck_assert(scale_of(r.setup.scaler) == 512);
        ck_assert_int_eq(r.setup.policy.low, STANCE_TYPE_F16);
        step_close(&r);
    }
}
END_TEST

/* ---- saved states ------------------------------------------------------------------------------------------ */

/* Row 40: scale, count and settings after the update are the state, and a run goes on with it to the same end.
 * Row 57: a scale given from outside leaves the count alone. */
START_TEST(row_40_57_saved_state)
{
    static const char *const specs[] = { "dynamic:init_scale=64,growth_interval=3", "hysteresis:init_scale=64,growth_interval=3,hysteresis=2",
                                         "lognormal", "static:scale=96", "none" };
    struct stance_scaler *a = scaler(specs[_i]), *b = scaler(specs[_i]);
    char                 *text, *ends[2];
    struct stance_error   err = STANCE_ERROR_INIT;

    for (int i = 0; i < 7; i++)
        tell(a, i == 2);
    ck_assert_int_eq(stance_scaler_save(a, &text, &err), STANCE_OK);
    ck_assert_msg(stance_scaler_restore(b, text, &err) == STANCE_OK, "%s", err.text);
    for (int i = 0; i < 20; i++) {
        ck_assert(scale_of(a) == scale_of(b));
        tell(a, i % 7 == 6);
        tell(b, i % 7 == 6);
    }
    ck_assert_int_eq(stance_scaler_save(a, &ends[0], &err), STANCE_OK);
    ck_assert_int_eq(stance_scaler_save(b, &ends[1], &err), STANCE_OK);
    ck_assert_str_eq(ends[0], ends[1]);
    stance_free(text);
    stance_free(ends[0]);
    stance_free(ends[1]);
    if (_i == 0) {
        char other[512], *count;

        tell(a, false);
        ck_assert_int_eq(stance_scaler_save(a, &text, &err), STANCE_OK);
        count = strchr(text, ','); /* "dynamic:scale=S,growth_tracker=N,..." */
        ck_assert_ptr_nonnull(count);
        snprintf(other, sizeof other, "dynamic:scale=4096%s", count);
        ck_assert_msg(stance_scaler_restore(b, other, &err) == STANCE_OK, "%s", err.text);
        ck_assert(scale_of(b) == 4096 && field(b, "growth_tracker") == field(a, "growth_tracker"));
        stance_free(text);
    }
    stance_scaler_free(a);
    stance_scaler_free(b);
}
END_TEST

/* Row 42: what was configured then wins over what is configured now, with a warning that names it. Row 43: the state
 * of another strategy does not turn this one into that: it starts afresh, and says so. */
START_TEST(row_42_43_state_against_recipe)
{
    struct stance_scaler *then = scaler("dynamic:init_scale=64,growth_interval=3"), *now = scaler("dynamic:init_scale=8,growth_interval=5");
    struct stance_scaler *still = scaler("static:scale=512");
    struct stance_error   err = STANCE_ERROR_INIT;
    char                 *text;

    tell(then, false);
    ck_assert_int_eq(stance_scaler_save(then, &text, &err), STANCE_OK);
    stance_log_set_sink(keep_warning, NULL);
    ck_assert_int_eq(stance_scaler_restore(now, text, &err), STANCE_OK);
    ck_assert_msg(strstr(warned, "growth_interval 3 of the checkpoint, not with 5") != NULL, "%s", warned);
    ck_assert(scale_of(now) == 64 && field(now, "growth_interval") == 3 && field(now, "growth_tracker") == 1);
    stance_free(text);
    warned[0] = '\0';
    ck_assert_int_eq(stance_scaler_save(still, &text, &err), STANCE_OK);
    ck_assert_int_eq(stance_scaler_restore(now, text, &err), STANCE_OK);
    ck_assert_msg(strstr(warned, "'dynamic' starts afresh") != NULL, "%s", warned);
    ck_assert(scale_of(now) == 64);
    tell(now, true);
    ck_assert(scale_of(now) == 32); /* still dynamic */
    stance_log_set_sink(NULL, NULL);
    stance_free(text);
    stance_scaler_free(then);
    stance_scaler_free(now);
    stance_scaler_free(still);
}
END_TEST

/* ---- number formats ------------------------------------------------------------------------------------------ */

/* What a tensor of the low type holds of a number, by the device: plain and stored as that type. */
static double through(const struct stance_device *d, enum stance_type type, double v)
{
    uint16_t             bits[16];
    float                in[16], out[16];
    struct stance_shape  shape = stance_shape1(16);
    struct stance_tensor low   = { bits, type, type, 0, shape, sizeof bits };
    struct stance_tensor wide  = { in, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, sizeof in };
    struct stance_error  err   = STANCE_ERROR_INIT;

    for (int i = 0; i < 16; i++)
        in[i] = (float)v;
    ck_assert_msg(d->ops->reorder(d->state, &low, &wide, &err) == STANCE_OK, "%s", err.text);
    wide.data = out;
    ck_assert_msg(d->ops->reorder(d->state, &wide, &low, &err) == STANCE_OK, "%s", err.text);
    for (int i = 1; i < 16; i++)
        ck_assert(out[i] == out[0] || (isnan(out[i]) && isnan(out[0])));
    return (double)out[0];
}

/* Row 53: subnormals of binary16 live. Row 62: what is too large becomes infinite, and nothing saturates. Values as
 * measured with PyTorch: halfway cases to even. */
static const struct { double v, f16, bf16; } numbers[] = {
    { 65504, 65504, 65536 },        { 65519, 65504, 65536 },         { 65520, INFINITY, 65536 },
    { -65520, -INFINITY, -65536 },  { 1e6, INFINITY, 999424 },       { INFINITY, INFINITY, INFINITY },
    { 3.4e38, INFINITY, INFINITY }, { 0x1p-14, 0x1p-14, 0x1p-14 },   { 0x1p-24, 0x1p-24, 0x1p-24 },
    { 0x1p-25, 0, 0x1p-25 },        { 0x1.01p-25, 0x1p-24, 0x1p-25 }, { 0x1.8p-24, 0x1p-23, 0x1.8p-24 },
    { -0x1p-24, -0x1p-24, -0x1p-24 }, { 1 + 0x1p-11, 1, 1 },         { 1 + 0x1p-8, 1 + 0x1p-8, 1 },
};

START_TEST(row_53_62_conversions)
{
    static const char *const devices[] = { "ref", "cpu" };

    for (int k = 0; k < 2; k++) {
        struct stance_device *d;
        struct stance_error   err = STANCE_ERROR_INIT;

        if (!step_has_device(devices[k], "conversions"))
            continue;
        ck_assert_msg(stance_device_open(registry, devices[k], NULL, 1, &d, &err) == STANCE_OK, "%s", err.text);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            double f16  = k == 0 ? stance_f64_of_half(stance_half_of_f64(numbers[i].v, STANCE_F16_FRACTION), STANCE_F16_FRACTION)
                                 : through(d, STANCE_TYPE_F16, numbers[i].v);
            double bf16 = k == 0 ? stance_f64_of_half(stance_half_of_f64(numbers[i].v, STANCE_BF16_FRACTION), STANCE_BF16_FRACTION)
                                 : through(d, STANCE_TYPE_BF16, numbers[i].v);

            ck_assert_msg(f16 == numbers[i].f16, "%s: %.9g in fp16: %.9g", devices[k], numbers[i].v, f16);
            ck_assert_msg(bf16 == numbers[i].bf16, "%s: %.9g in bf16: %.9g", devices[k], numbers[i].v, bf16);
        }
        ck_assert(k == 0 || isnan(through(d, STANCE_TYPE_F16, NAN)));
        stance_device_close(d);
    }
}
END_TEST

/* Row 63: the checks see what is not finite, wherever it stands; with -ffinite-math-only they would not. */
START_TEST(row_63_check_sees_what_is_not_finite)
{
    enum { N = 40000 };
    static const double values[] = { (double)INFINITY, -(double)INFINITY, (double)NAN };
    static float        g[N];
    struct stance_control c = { .size = sizeof c, .scale = 1 };
    struct stance_tensor  in  = { g, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, { 1, { N } }, sizeof g };
    struct stance_tensor  out = { &c, STANCE_TYPE_U8, STANCE_TYPE_U8, 0, { 1, { sizeof c } }, sizeof c };
    struct stance_device *d;
    struct stance_arena  *a   = stance_arena_new(4096);
    struct stance_launch  l;
    struct stance_error   err = STANCE_ERROR_INIT;
    void                 *room = NULL;

    if (!step_has_device(_i == 0 ? "ref" : "cpu", "the check"))
        return;
    ck_assert_int_eq(stance_device_open(registry, _i == 0 ? "ref" : "cpu", NULL, 1, &d, &err), STANCE_OK);
    ck_assert_msg(stance_launch_make(d, a, "grad_check", stance_builtin_op("grad_check"), NULL, &in, 1, &out, 1, true, &l, &err)
                      == STANCE_OK, "%s", err.text);
    ck_assert(l.workspace == 0 || d->ops->alloc(d->state, l.workspace, &room, &err) == STANCE_OK);
    l.call.workspace = room;
    for (int k = 0; k < 3; k++) {
        for (int64_t at = 0; at < N; at += at < 100 ? 1 : 997) {
            g[at] = (float)values[k];
            ck_assert_int_eq(stance_launch_run(d, &l), STANCE_OK);
            ck_assert_msg(c.update.skip == 1 && c.first_bad == at, "%g at %lld: skip %d, first %lld", values[k], (long long)at,
                          (int)c.update.skip, (long long)c.first_bad);
            g[at] = 1;
        }
        ck_assert_int_eq(stance_launch_run(d, &l), STANCE_OK);
        ck_assert(c.update.skip == 0 && c.first_bad == -1);
    }
    if (room != NULL)
        d->ops->release(d->state, room, l.workspace);
    stance_launch_dispose(d, &l);
    stance_arena_free(a);
    stance_device_close(d);
}
END_TEST

/* ---- batch norm ---------------------------------------------------------------------------------------------- */

static struct stance_value build_norm(struct stance_builder *b)
{
    struct stance_value x = stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(2, 16, 8, 8)), in[2];

    stance_enter(b, "bn");
    in[0] = stance_batch_norm(b, x, 1);
    stance_leave(b);
    stance_output(b, "y", in[0]);
    in[1] = stance_input(b, "target", STANCE_TYPE_F32, stance_shape_of(b, in[0]));
    return stance_node1(b, "mse", NULL, 0, in, 2);
}

/* Row 47: plus and minus 60000 in binary16: the sum of squares, 4.6e11, and the variance, 3.6e9, are binary32.
 * Row 46: one infinite value leaves the running statistics of its channel as they were, those beside it move. */
START_TEST(row_46_47_precision_of_statistics)
{
    static const char *const precisions[] = { "fp32", "bf16", "fp16" };
    double                   x[2048], *var, *y;
    int64_t                  n;
    const double             v = 59904; /* in bf16 too */

    if (!step_has_device("cpu", "statistics"))
        return;
    for (int infinite = 0; infinite < 2; infinite++) {
        struct small s;
        long         running;

        small_open(&s, "cpu", precisions[_i]);
        small_make(&s, build_norm, true);
        for (int i = 0; i < 2048; i++)
            x[i] = i % 2 == 0 ? v : -v;
        if (infinite)
            x[5] = INFINITY; /* channel 0 */
        small_fill(&s, "x", x);
        ck_assert_int_eq(stance_program_forward(s.program), STANCE_OK);
        running = stance_store_find(s.store, "bn.running_var");
        ck_assert_int_ge(running, 0);
        var = malloc(16 * sizeof *var);
        ck_assert_ptr_nonnull(var);
        ck_assert_int_eq(stance_store_read(s.store, (size_t)running, STANCE_ARRAY_MASTER, STANCE_TYPE_F64, var, NULL), STANCE_OK);
        for (int c = 0; c < 16; c++) {
            double want = infinite && c == 0 ? 1 : 0.9 + 0.1 * v * v * 128 / 127;

            ck_assert_msg(fabs(var[c] / want - 1) < 1e-5, "channel %d: %.9g, not %.9g", c, var[c], want);
        }
        free(var);
        y = small_output(&s, "y", &n);
        for (int64_t i = 64; i < 1024; i++) /* channel 1 and on, first image */
            ck_assert_msg(fabs(fabs(y[i]) - 1) < 1e-2, "%g", y[i]);
        free(y);
        small_close(&s);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows of the scaler");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_registry, close_registry);
    tcase_add_test(tc, row_09_growth_beyond_single_precision);
    tcase_add_test(tc, row_10_11_12_floor);
    tcase_add_test(tc, row_13_14_15_growth);
    tcase_add_test(tc, row_17_static_scale_as_an_integer);
    tcase_add_loop_test(tc, row_40_57_saved_state, 0, 5);
    tcase_add_test(tc, row_42_43_state_against_recipe);
    tcase_add_loop_test(tc, row_46_47_precision_of_statistics, 0, 3);
    tcase_add_test(tc, row_53_62_conversions);
    tcase_add_loop_test(tc, row_63_check_sees_what_is_not_finite, 0, 2);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
