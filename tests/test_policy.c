/* SPDX-License-Identifier: Apache-2.0
 *
 * The precision policy: what the command line makes of a recipe, a second forward pass without gradient under
 * the same policy, and the precision that gradients of convolutions come in. */
#include "step_models.h"

#include "base/half.h"
#include "config/recipe.h"

#include <stance/log.h>

#include <math.h>

/* ---- --use-amp, --amp, --precision: every combination ------------------------------------------------------ */

static const struct { const char *text; enum stance_precision precision; const char *scaler; } recipes[] = {
    { "train: {}\n", STANCE_PRECISION_FP32, "none" },
    { "precision: fp32\n", STANCE_PRECISION_FP32, "none" },
    { "precision: {compute: fp32, scaler: static}\n", STANCE_PRECISION_FP32, "static" },
    { "precision: bf16\n", STANCE_PRECISION_BF16, "none" },
    { "precision: {compute: bf16, scaler: dynamic}\n", STANCE_PRECISION_BF16, "dynamic" },
    { "precision: fp16\n", STANCE_PRECISION_FP16, "dynamic" },
    { "fp16: {loss_scale: dynamic}\n", STANCE_PRECISION_FP16, "dynamic" },
    { "fp16: {loss_scale: 512.}\n", STANCE_PRECISION_FP16, "static" },
    { "precision: {compute: fp16, scaler: hysteresis}\n", STANCE_PRECISION_FP16, "hysteresis" },
    { "precision: fp64\n", STANCE_PRECISION_FP64, "none" },
    { "precision: auto\n", STANCE_PRECISION_AUTO, NULL },
    { "precision: {compute: auto, scaler: static}\n", STANCE_PRECISION_AUTO, "static" },
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static const char *const devices[] = { NULL, "cpu", "ref", "cuda", "cuda:1" }; /* NULL: the default, cpu */
enum { DEVICES = sizeof devices / sizeof *devices };

/* What is asked: nothing, --use-amp, --amp, --precision P. */
enum asked { NOTHING, USE_AMP, AMP, PRECISION };

static int warnings;

static void count_warning(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx, (void)module, (void)text;
    warnings += level == STANCE_LOG_WARN;
}

static void check_combination(const char *path, int i, const char *device, bool in_recipe, enum asked what,
                              enum stance_precision p)
{
    struct stance_recipe_options o = { .device    = in_recipe ? NULL : device, .amp = what == AMP, .use_amp = what == USE_AMP,
                                       .precision = what == PRECISION ? stance_precision_word(p) : NULL };
    enum stance_precision        own = recipes[i].precision, want = own;
    const char                  *scaler = recipes[i].scaler;
    bool                         cuda   = device != NULL && strncmp(device, "cuda", 4) == 0, warns = false;
    struct stance_recipe        *r;
    struct stance_error          err = STANCE_ERROR_INIT;

    /* design.md 10, in its words: --use-amp takes "the recipe's own low precision if it names one; else fp16 + dynamic
     * on cuda; else a warning and fp32"; --amp is --precision auto; --precision replaces the recipe's, whose scaler "is
     * kept only if the policy stays the same". */
    if (what == USE_AMP && (own == STANCE_PRECISION_FP32 || own == STANCE_PRECISION_FP64)) {
        want  = cuda ? STANCE_PRECISION_FP16 : STANCE_PRECISION_FP32;
        warns = !cuda;
    }
    if (what == AMP)
        want = STANCE_PRECISION_AUTO;
    if (what == PRECISION)
        want = p;
    if (want != own)
        scaler = want == STANCE_PRECISION_FP16 ? "dynamic" : want == STANCE_PRECISION_AUTO ? NULL : "none";
    warnings = 0;
    ck_assert_msg(stance_recipe_load(path, &o, NULL, &r, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(r->precision == want, "%s, device %s, %d: %s instead of %s", recipes[i].text, device != NULL ? device : "-",
                  what, stance_precision_word(r->precision), stance_precision_word(want));
    ck_assert_msg((r->scaler.name == NULL) == (scaler == NULL) && (scaler == NULL || strcmp(r->scaler.name, scaler) == 0),
                  "%s, device %s, %d: scaler %s instead of %s", recipes[i].text, device != NULL ? device : "-", what,
                  r->scaler.name != NULL ? r->scaler.name : "-", scaler != NULL ? scaler : "-");
    ck_assert_int_eq(warnings, warns);
    stance_recipe_free(r);
}

START_TEST(every_combination_of_precision)
{
    char  path[] = "/tmp/stance-policy-XXXXXX.yaml";
    int   fd     = mkstemps(path, 5);

    ck_assert_int_ge(fd, 0);
    stance_log_set_sink(count_warning, NULL);
    for (int d = 0; d < DEVICES; d++) {
        for (int in_recipe = 0; in_recipe < 2; in_recipe++) {
            char text[300];
            int  n = snprintf(text, sizeof text, "%s%s%s\n", recipes[_i].text, in_recipe && devices[d] != NULL ? "device: " : "",
                              in_recipe && devices[d] != NULL ? devices[d] : "");

            ck_assert_int_eq(ftruncate(fd, 0), 0);
            ck_assert(pwrite(fd, text, (size_t)n, 0) == n);
            for (int k = NOTHING; k < PRECISION; k++)
                check_combination(path, _i, devices[d], in_recipe, (enum asked)k, STANCE_PRECISION_FP32);
            for (int p = 0; p < STANCE_PRECISION_COUNT; p++)
                check_combination(path, _i, devices[d], in_recipe, PRECISION, (enum stance_precision)p);
        }
    }
    stance_log_set_sink(NULL, NULL);
    close(fd);
    unlink(path);
}
END_TEST

/* ---- a second forward pass ----------------------------------------------------------------------------------- */

static const struct { const char *device, *precision; } places[] = {
    { "ref", "fp32" }, { "ref", "fp64" }, { "cpu", "fp32" }, { "cpu", "bf16" }, { "cpu", "fp16" },
};
enum { PLACES = sizeof places / sizeof *places };

enum teacher { FROZEN_INFERENCE, FROZEN_TRAINING, SAME_WEIGHTS };
static enum teacher teacher_kind;

static struct stance_value image16(struct stance_builder *b)
{
    return stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(2, 16, 8, 8));
}

/* Convolution and batch norm, once more than the network itself: as a teacher that is frozen, with running or with
 * batch statistics, or that is the student itself. */
static struct stance_value network(struct stance_builder *b, const char *scope, bool teacher)
{
    const struct stance_init       spread = { STANCE_INIT_NORMAL, 0, 0.3F }, one = { STANCE_INIT_CONSTANT, 1, 0 },
                                   zero = { STANCE_INIT_CONSTANT, 0, 0 };
    const struct stance_conv2d     conv = { { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, { 3, 3 }, { 0, 0 } };
    const struct stance_batch_norm norm = { .eps = 1e-5, .momentum = 0.1 };
    const struct stance_shape      c    = stance_shape1(16);
    struct stance_value            in[5] = { image16(b) }, out[5];
    bool                           frozen = teacher && teacher_kind != SAME_WEIGHTS;
    enum stance_role               role = frozen ? STANCE_ROLE_FROZEN : STANCE_ROLE_PARAM;

    stance_enter(b, "%s", scope);
    in[1] = stance_weight(b, "weight", role, STANCE_TYPE_F32, stance_shape4(16, 16, 3, 3), spread);
    in[0] = stance_node1(b, "conv2d", &conv, sizeof conv, in, 2);
    if (teacher)
        stance_output(b, "convolved", in[0]);
    in[1] = stance_weight(b, "bn.weight", role, STANCE_TYPE_F32, c, one);
    in[2] = stance_weight(b, "bn.bias", role, STANCE_TYPE_F32, c, zero);
    in[3] = stance_weight(b, "bn.running_mean", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, zero);
    in[4] = stance_weight(b, "bn.running_var", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, one);
    stance_leave(b);
    if (teacher && teacher_kind != FROZEN_TRAINING)
        return stance_node1(b, "batch_norm_inference", &norm, sizeof norm, in, 5);
    stance_node(b, "batch_norm", &norm, sizeof norm, in, 5, out, 5);
    stance_assign(b, in[3], out[1]);
    stance_assign(b, in[4], out[2]);
    return out[0];
}

static struct stance_value build_teacher(struct stance_builder *b)
{
    struct stance_value student = network(b, "net", false);
    /* Rectified, as a plain one would be what the student can be by its scale alone: no gradient but noise. */
    struct stance_value teacher = stance_relu(b, network(b, teacher_kind == SAME_WEIGHTS ? "net" : "teacher", true));
    struct stance_value in[2]   = { student, { 0 } };

    stance_output(b, "student", student);
    stance_output(b, "teacher", teacher);
    in[1] = stance_stop_gradient(b, teacher);
    return stance_node1(b, "mse", NULL, 0, in, 2);
}

/* Whether a number is one of the low type. */
static bool is_low(double v, const char *precision)
{
    int fraction = strcmp(precision, "fp16") == 0 ? STANCE_F16_FRACTION : STANCE_BF16_FRACTION;

    if (precision[0] == 'f' && strcmp(precision, "fp16") != 0)
        return false;
    return stance_f64_of_half(stance_half_of_f64(v, fraction), fraction) == v;
}

static double first_of(const struct small *s, const char *name)
{
    long    i = stance_store_find(s->store, name);
    double *v, r;

    ck_assert_msg(i >= 0, "no %s", name);
    v = malloc((size_t)stance_elements(&s->store->segments[i].shape) * sizeof *v);
    ck_assert_ptr_nonnull(v);
    ck_assert_int_eq(stance_store_read(s->store, (size_t)i, STANCE_ARRAY_MASTER, STANCE_TYPE_F64, v, NULL), STANCE_OK);
    r = v[0];
    free(v);
    return r;
}

START_TEST(teacher_forward_is_under_the_policy)
{
    struct small s;
    const char  *precision = places[_i % PLACES].precision;
    bool         low = strcmp(precision, "bf16") == 0 || strcmp(precision, "fp16") == 0;
    int64_t      n;
    double      *y;
    int          lows = 0;

    if (!step_has_device(places[_i % PLACES].device, "a teacher"))
        return;
    teacher_kind = (enum teacher)(_i / PLACES);
    small_open(&s, places[_i % PLACES].device, precision);
    small_make(&s, build_teacher, true);
    small_run(&s);
    /* Its convolution runs in the low type, as the student's does. */
    ck_assert_int_eq(stance_program_output(s.program, "convolved")->type, low ? s.policy.low : s.policy.wide);
    y = small_output(&s, "convolved", &n);
    for (int64_t i = 0; i < n; i++)
        lows += is_low(y[i], precision);
    ck_assert_msg(low ? lows == n : lows < n, "%d of %d", lows, (int)n);
    free(y);
    /* No gradient is computed for it, and the optimizer cannot reach it. */
    ck_assert_int_eq(small_count(&s, "conv2d", NULL), 2);
    ck_assert_int_eq(small_count(&s, "conv2d_grad_weight", NULL), 1);
    ck_assert_int_eq(small_count(&s, "conv2d_grad_data", NULL), 0);
    ck_assert_uint_eq(stance_store_parameters(s.store), 16 * 16 * 9 + 32);
    if (teacher_kind != SAME_WEIGHTS)
        ck_assert_int_eq(s.store->segments[stance_store_find(s.store, "teacher.weight")].bank, STANCE_BANK_FROZEN);
    /* Its batch norm does what the graph says: statistics move in training form alone. */
    ck_assert(first_of(&s, "net.bn.running_var") != 1);
    if (teacher_kind != SAME_WEIGHTS)
        ck_assert((first_of(&s, "teacher.bn.running_var") != 1) == (teacher_kind == FROZEN_TRAINING));
    small_close(&s);
}
END_TEST

static struct stance_value build_alone(struct stance_builder *b)
{
    struct stance_value in[2] = { network(b, "net", false), stance_input(b, "target", STANCE_TYPE_F32, stance_shape4(2, 16, 8, 8)) };

    return stance_node1(b, "mse", NULL, 0, in, 2);
}

/* A teacher that is the student itself: the gradient is that of a student whose target is what the teacher said. */
START_TEST(same_weights_twice)
{
    struct small s, alone;
    int64_t      n;
    double      *target, *a, *b;

    if (!step_has_device(places[_i].device, "a teacher"))
        return;
    teacher_kind = SAME_WEIGHTS;
    small_open(&s, places[_i].device, places[_i].precision);
    small_make(&s, build_teacher, true);
    small_run(&s);
    target = small_output(&s, "teacher", &n);
    small_open(&alone, places[_i].device, places[_i].precision);
    small_make(&alone, build_alone, true);
    small_fill(&alone, "target", target);
    small_run(&alone);
    a = small_gradient(&s, "net.weight", &n);
    b = small_gradient(&alone, "net.weight", &n);
    /* The target of fp64 is rounded on its way in through binary32. */
    ck_assert_msg(small_distance(a, b, n) <= 1e-6, "off by %g", small_distance(a, b, n));
    free(target);
    free(a);
    free(b);
    small_close(&s);
    small_close(&alone);
}
END_TEST

/* ---- gradients of weights ---------------------------------------------------------------------------------- */

static struct stance_value build_one_conv(struct stance_builder *b)
{
    struct stance_init  zero  = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value y     = stance_conv2d(b, image16(b), 16, 1, 1, false, zero);
    struct stance_value in[2] = { y, stance_input(b, "target", STANCE_TYPE_F32, stance_shape_of(b, y)) };

    return stance_node1(b, "mse", NULL, 0, in, 2);
}

/* y = 0, target 1: dy = -2 / 2048 everywhere; x is 1 and 1 + e in turn, so that dw = -2^-10 (64 + 64 (1 + e)) =
 * -2^-3 (1 + e / 2), which needs one bit more than x. */
static double gradient_of(const char *device, const char *precision, double e)
{
    struct small s;
    double       x[2048], target[2048], *d, v;
    int64_t      n;

    for (int i = 0; i < 2048; i++) {
        x[i]      = i % 2 == 0 ? 1 : 1 + e;
        target[i] = 1;
    }
    small_open(&s, device, precision);
    small_make(&s, build_one_conv, true);
    small_fill(&s, "x", x);
    small_fill(&s, "target", target);
    small_run(&s);
    d = small_gradient(&s, "weight", &n);
    v = d[0];
    free(d);
    small_close(&s);
    return v;
}

/* design.md 4: under bf16 the device may give a weight's gradient in binary32, and cpu does; under fp16 it is rounded
 * to binary16 before it is widened, as a GPU stores it. */
START_TEST(weight_gradients_of_convolutions)
{
    if (!step_has_device("cpu", "gradients"))
        return;
    ck_assert(gradient_of("ref", "fp32", 0x1p-12) == -0.125 * (1 + 0x1p-13));
    ck_assert(gradient_of("cpu", "fp32", 0x1p-12) == -0.125 * (1 + 0x1p-13));
    ck_assert(gradient_of("cpu", "bf16", 0x1p-7) == -0.125 * (1 + 0x1p-8)); /* 9 bits: not a bfloat16 */
    ck_assert(!is_low(-0.125 * (1 + 0x1p-8), "bf16"));
    ck_assert(gradient_of("cpu", "fp16", 0x1p-9) == -0.125 * (1 + 0x1p-10));
    ck_assert(gradient_of("cpu", "fp16", 0x1p-10) == -0.125); /* 12 bits: a tie, to even */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, every_combination_of_precision, 0, RECIPES);
    tcase_add_loop_test(tc, teacher_forward_is_under_the_policy, 0, 3 * PLACES);
    tcase_add_loop_test(tc, same_weights_twice, 0, PLACES);
    tcase_add_test(tc, weight_gradients_of_convolutions);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
