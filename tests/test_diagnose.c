/* SPDX-License-Identifier: Apache-2.0
 *
 * Overflows planted at a known place: whether they are named, on every device and fused or not; and that
 * looking changes no byte of the run. */
#include "config.h"

#include "fault.h"
#include "snapshot.h"

#include "registry/instance.h"

#include <stance/log.h>
#include <stance/ops.h>

#include <math.h>

/* ---- the network --------------------------------------------------------------------------------------- */

/* Three convolutions without normalisation: what one puts out, the next gets. */
static void build_convs(struct stance_builder *b, const void *config, struct stance_value image, struct stance_value *out,
                        int *n_out)
{
    static const struct stance_init spread = { STANCE_INIT_NORMAL, 0, 0.1F };

    (void)config;
    for (int i = 1; i <= 3; i++) {
        stance_enter(b, "conv%d", i);
        image = stance_relu(b, stance_conv2d(b, image, 16, 3, i < 3 ? 2 : 1, true, spread));
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
    "train: {batch_size: 2, optimizer: {name: adam, lr: 5.0e-4}}\nthreads: 1\n";

static void use_scaler(struct step_run *r, const char *spec)
{
    struct stance_error err = STANCE_ERROR_INIT;

    stance_scaler_free(r->setup.scaler);
    r->setup.scaler = NULL;
    ck_assert_msg(stance_scaler_from(r->registry, spec, &r->setup.scaler, &err) == STANCE_OK, "%s", err.text);
    r->options.scaler = r->setup.scaler;
}

static void open_run(struct step_run *r, bool resnet, const char *device, const char *precision, const char *scaler)
{
    step_setup(r, resnet ? resnet_recipe : convs_recipe, device, precision);
    if (!resnet)
        r->setup.model.backbone = (struct stance_instance){ &convs, NULL };
    use_scaler(r, scaler);
}

/* Multiplies a weight, or sets all of it (times 0). */
static void change_weight(struct step_run *r, const char *name, double factor, double offset)
{
    struct stance_store *s   = stance_step_store(r->step);
    struct stance_error  err = STANCE_ERROR_INIT;
    long                 at  = stance_store_find(s, name);
    int64_t              n;
    double              *v;

    ck_assert_msg(at >= 0, "%s", name);
    v = step_values(r, (size_t)at, STANCE_ARRAY_MASTER, &n);
    for (int64_t i = 0; i < n; i++)
        v[i] = factor * v[i] + offset;
    ck_assert_msg(stance_store_write(s, (size_t)at, STANCE_ARRAY_MASTER, STANCE_TYPE_F64, v, &err) == STANCE_OK, "%s", err.text);
    free(v);
    ck_assert_int_eq(stance_step_refresh(r->step, &err), STANCE_OK);
}

static void micro(struct step_run *r, double weight)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_step_micro(r->step, STANCE_STEP_BATCH, weight, &err) == STANCE_OK, "%s", err.text);
}

static struct stance_step_result apply(struct step_run *r)
{
    struct stance_error       err = STANCE_ERROR_INIT;
    struct stance_step_result result;

    ck_assert_msg(stance_step_apply(r->step, 1e-3, &result, &err) == STANCE_OK, "%s", err.text);
    return result;
}

/* ---- names ----------------------------------------------------------------------------------------------- */

static const struct planted {
    const char *device, *precision, *scaler;
    bool        resnet, no_fusion;
    const char *weight; /* changed */
    double      factor, offset;
    const char *weight2; /* NULL: no other */
    double      factor2;
    const char *forward, *backward; /* whole names; NULL: nothing is found there; "": whatever it is */
    enum stance_type type;          /* of the first found */
} planted[] = {
    /* Above 65504: a convolution, its heads fed with the rest. */
    { "cpu", "fp16", "static:scale=1", false, false, "backbone.conv2.weight", 0, 3000, NULL, 0, "backbone.conv2 conv2d", "",
      STANCE_TYPE_F16 },
    { "cpu", "fp16", "static:scale=1", false, true, "backbone.conv2.weight", 0, 3000, NULL, 0, "backbone.conv2 conv2d", "",
      STANCE_TYPE_F16 },
    /* A weight that binary16 cannot hold is infinite in its copy. */
    { "cpu", "fp16", "static:scale=1", false, false, "backbone.conv2.weight", 0, 70000, NULL, 0, "weight backbone.conv2.weight", "",
      STANCE_TYPE_F16 },
    { "ref", "fp32", "static:scale=1", false, false, "backbone.conv3.weight", 0, 3e38, NULL, 0, "backbone.conv3 conv2d", "",
      STANCE_TYPE_F32 },
    { "cpu", "fp32", "static:scale=1", false, false, "backbone.conv3.weight", 0, 3e38, NULL, 0, "backbone.conv3 conv2d", "",
      STANCE_TYPE_F32 },
    { "cpu", "bf16", "static:scale=1", false, false, "backbone.conv3.weight", 0, 3e38, NULL, 0, "backbone.conv3 conv2d", "",
      STANCE_TYPE_BF16 },
    /* In the backward pass alone: small values forward through large weights, large gradients back. */
    { "cpu", "fp16", "static:scale=1048576", false, false, "backbone.conv2.weight", 1e5, 0, "backbone.conv1.weight", 1e-5, NULL,
      "backbone.conv2 conv2d_grad_data", STANCE_TYPE_F16 },
    { "ref", "fp32", "static:scale=1073741824", false, false, "backbone.conv2.weight", 1e37, 0, "backbone.conv1.weight", 1e-37, NULL,
      "backbone.conv2 conv2d_grad_data", STANCE_TYPE_F32 },
    /* The gradient of the loss itself, as it is rounded to binary16. */
    { "cpu", "fp16", "static:scale=1073741824", false, false, "keypoint_head.final_layer.weight", 1, 0, NULL, 0, NULL,
      "cast of mse_grad", STANCE_TYPE_F16 },
    /* Norms, fused with what they are added to and not. */
    { "cpu", "fp16", "static:scale=1", true, false, "backbone.layer1.0.bn1.weight", 0, 1e5, NULL, 0,
      "backbone.layer1.0.bn1 norm_sum", "", STANCE_TYPE_F16 },
    { "cpu", "fp16", "static:scale=1", true, true, "backbone.layer1.0.bn1.weight", 0, 1e5, NULL, 0,
      "backbone.layer1.0.bn1 batch_norm", "", STANCE_TYPE_F16 },
    { "cpu", "fp16", "static:scale=1", true, false, "backbone.layer2.0.bn2.weight", 0, 1e5, NULL, 0,
      "backbone.layer2.0.bn2, backbone.layer2.0.downsample.1 norm_sum", "", STANCE_TYPE_F16 },
    { "ref", "fp32", "static:scale=1", true, false, "backbone.layer1.0.bn1.weight", 0, 3e38, NULL, 0,
      "backbone.layer1.0.bn1 batch_norm", "", STANCE_TYPE_F32 },
};
enum { PLANTED = sizeof planted / sizeof *planted };

static void check_name(const struct stance_finding *f, const char *want, const char *pass)
{
    if (want == NULL) {
        ck_assert_msg(!f->found, "%s: %s", pass, f->where);
        return;
    }
    ck_assert_msg(f->found, "%s: nothing found instead of '%s'", pass, want);
    if (*want != '\0')
        ck_assert_msg(strcmp(f->where, want) == 0, "%s: '%s' instead of '%s'", pass, f->where, want);
    ck_assert_int_gt(f->nan + f->inf, 0);
    ck_assert_int_le(f->nan + f->inf, f->elements);
    ck_assert_int_eq(f->elements, stance_elements(&f->shape));
    if (f->nan + f->inf < f->elements)
        ck_assert(isfinite(f->min) && isfinite(f->max) && f->min <= f->max);
    else
        ck_assert(isnan(f->min) && isnan(f->max));
}

START_TEST(planted_overflow_is_named)
{
    const struct planted          *p = &planted[_i];
    const struct stance_diagnosis *d;
    struct step_run                r;
    char                           text[1000];

    if (!step_has_device(p->device, "planted overflow"))
        return;
    open_run(&r, p->resnet, p->device, p->precision, p->scaler);
    r.options.no_fusion      = p->no_fusion;
    r.options.debug_overflow = true;
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    /* As it is: nothing overflows, but where it is the scale that is too large. */
    if (p->factor != 1 && p->weight2 == NULL) {
        micro(&r, 1);
        ck_assert(!apply(&r).skipped);
        ck_assert_ptr_null(stance_step_diagnosis(r.step));
    }
    change_weight(&r, p->weight, p->factor, p->offset);
    if (p->weight2 != NULL)
        change_weight(&r, p->weight2, p->factor2, 0);
    micro(&r, 1);
    ck_assert(apply(&r).skipped);
    d = stance_step_diagnosis(r.step);
    ck_assert_msg(d != NULL, "no overflow");
    check_name(&d->forward, p->forward, "forward");
    check_name(&d->backward, p->backward, "backward");
    ck_assert_int_eq((p->forward != NULL ? d->forward : d->backward).type, p->type);
    ck_assert_int_eq(d->micro, 0);
    for (int backward = 0; backward < 2; backward++) {
        stance_diagnosis_text(d, backward, text, sizeof text);
        ck_assert_msg(strncmp(text, backward ? "backward: " : "forward: ", 9) == 0 && strchr(text, '\n') == NULL, "%s", text);
        ck_assert_msg((strstr(text, "are not finite") != NULL) == (backward ? d->backward.found : d->forward.found), "%s", text);
    }
    ck_assert(stance_diagnosis_first(d, text, sizeof text));
    step_close(&r);
}
END_TEST

/* An input that is not finite is named itself, and how much of it is not. */
START_TEST(bad_input_is_named)
{
    const struct stance_diagnosis *d;
    struct step_run                r;

    open_run(&r, false, "ref", "fp32", "none");
    r.options.debug_overflow = true;
    step_make(&r);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    step_fill_infinity(&r);
    micro(&r, 1);
    apply(&r);
    d = stance_step_diagnosis(r.step);
    ck_assert_ptr_nonnull(d);
    ck_assert_str_eq(d->forward.where, "input 'image'");
    ck_assert_int_eq(d->forward.inf, 1);
    ck_assert_int_eq(d->forward.nan, 0);
    ck_assert_int_eq(d->forward.elements, 4 * 3 * 32 * 32);
    ck_assert(d->forward.min >= -2 && d->forward.min < -1.9 && d->forward.max < 2 && d->forward.max > 1.9);
    step_close(&r);
}
END_TEST

/* ---- when, and in which micro-batch -------------------------------------------------------------------------- */

START_TEST(third_in_a_row_without_the_flag)
{
    struct step_run           r;
    struct stance_step_result result;
    struct stance_error       err    = STANCE_ERROR_INIT;
    stance_status             status = STANCE_OK;

    open_run(&r, false, "ref", "fp32", "dynamic");
    r.options.max_skips = 6;
    step_make(&r);
    for (int i = 1; i <= 10; i++) { /* the fourth ends a streak of three, the tenth is the last of six */
        step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
        if (i != 4)
            step_fill_infinity(&r);
        micro(&r, 1);
        ck_assert_int_eq(status, STANCE_OK);
        status = stance_step_apply(r.step, 1e-3, &result, &err);
        ck_assert_msg((stance_step_diagnosis(r.step) != NULL) == (i == 3 || i == 7 || i == 10), "window %d", i);
        ck_assert_int_eq(result.skipped, i != 4);
    }
    ck_assert_int_eq(status, STANCE_ERR_DIVERGED);
    ck_assert_msg(strstr(err.text, "6 steps in a row had non-finite gradients") != NULL
                      && strstr(err.text, "first in backbone.conv1.weight, from input 'image', forward pass: 1 of 12288 elements") != NULL,
                  "%s", err.text);
    step_close(&r);
}
END_TEST

START_TEST(micro_batch_of_the_window)
{
    for (int bad = 0; bad < 3; bad++) {
        const struct stance_diagnosis *d;
        struct step_run                r;

        open_run(&r, false, "ref", "fp32", "dynamic");
        r.options.accumulate     = true;
        r.options.debug_overflow = true;
        step_make(&r);
        for (int window = 0; window < 2; window++) {
            for (int i = 0; i < 3; i++) {
                step_fill_inputs(&r, STANCE_STEP_BATCH, 4 * i);
                if (i == bad)
                    step_fill_infinity(&r);
                micro(&r, 1 / 3.0);
                d = stance_step_diagnosis(r.step);
                ck_assert_int_eq(d != NULL, i >= bad);
                if (d != NULL)
                    ck_assert_int_eq(d->micro, bad);
            }
            ck_assert_str_eq(d->forward.where, "input 'image'");
            ck_assert(apply(&r).skipped);
        }
        step_close(&r);
    }
}
END_TEST

/* ---- the run stays what it is --------------------------------------------------------------------------------- */

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes && data != NULL; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return h;
}

/* Everything that a later step, a checkpoint or a log reads. */
static uint64_t state_of(const struct step_run *r)
{
    const struct stance_store *s    = stance_step_store(r->step);
    const struct stance_tensor *out = stance_program_output(stance_step_program(r->step, STANCE_STEP_BATCH), "heatmap");
    uint64_t                   h    = 14695981039346656037u;

    for (int b = 0; b < STANCE_BANK_COUNT; b++) {
        h = hash(h, s->bank[b], s->bytes[b]);
        h = hash(h, s->committed[b], s->bytes[b]);
    }
    for (int i = 0; i < s->n_slots; i++)
        h = hash(h, s->slot[i], s->bytes[STANCE_BANK_PARAM]);
    h = hash(h, s->gradient, s->bytes[STANCE_BANK_PARAM]);
    h = hash(h, s->control, sizeof *s->control);
    return hash(h, out->data, out->bytes);
}

static const struct { const char *device, *precision; bool accumulate; } unchanged[] = {
    { "ref", "fp32", false }, { "ref", "fp32", true }, { "cpu", "fp16", false }, { "cpu", "fp16", true }, { "cpu", "bf16", true },
};

/* Two runs, one looked into at every turn. The first windows overflow in binary16; one has a bad image. */
START_TEST(looking_changes_nothing)
{
    struct step_run r[2];
    int             skipped = 0, looked = 0;

    if (!step_has_device(unchanged[_i].device, "a run looked into"))
        return;
    for (int k = 0; k < 2; k++) {
        open_run(&r[k], true, unchanged[_i].device, unchanged[_i].precision, "dynamic:init_scale=4194304");
        r[k].options.accumulate     = unchanged[_i].accumulate;
        r[k].options.debug_overflow = k == 1;
        step_make(&r[k]);
    }
    for (int window = 0; window < 10; window++) {
        struct stance_step_result w[2];

        for (int k = 0; k < 2; k++) {
            if (k == 1)
                stance_step_want_exponents(r[k].step);
            for (int i = 0; i < (unchanged[_i].accumulate ? 2 : 1); i++) {
                step_fill_inputs(&r[k], STANCE_STEP_BATCH, 2 * window + i);
                if (window == 7 && i == 0)
                    step_fill_infinity(&r[k]);
                micro(&r[k], unchanged[_i].accumulate ? 0.5 : 1);
            }
        }
        ck_assert_msg(state_of(&r[0]) == state_of(&r[1]), "window %d, before the update", window);
        for (int k = 0; k < 2; k++)
            w[k] = apply(&r[k]);
        ck_assert_msg(state_of(&r[0]) == state_of(&r[1]), "window %d", window);
        ck_assert(w[0].skipped == w[1].skipped && w[0].scale == w[1].scale);
        ck_assert(memcmp(&w[0].loss, &w[1].loss, sizeof w[0].loss) == 0);
        ck_assert_ptr_nonnull(stance_step_exponents(r[1].step));
        skipped += w[0].skipped;
        looked += stance_step_diagnosis(r[1].step) != NULL;
    }
    ck_assert_int_eq(looked, skipped);
    ck_assert_int_ge(skipped, 1);
    ck_assert_int_lt(skipped, 10);
    step_close(&r[0]);
    step_close(&r[1]);
}
END_TEST

static int  warnings;
static void count_warning(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx, (void)level, (void)module;
    warnings += strstr(text, "looking") != NULL;
}

/* Without memory to look with, the run goes on and is told. */
START_TEST(no_memory_to_look_with)
{
    struct step_run           r, blind;
    struct stance_step_result a, b;
    bool                      whole = false;

    open_run(&blind, false, "ref", "fp32", "dynamic");
    step_make(&blind);
    stance_log_set_sink(count_warning, NULL);
    for (long n = 0; !whole; n++) {
        struct stance_error err = STANCE_ERROR_INIT;
        stance_status       status[2];

        ck_assert_int_lt(n, 100);
        open_run(&r, false, "ref", "fp32", "dynamic");
        r.options.debug_overflow = true;
        r.options.accumulate     = true;
        step_make(&r);
        step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
        step_fill_infinity(&r);
        stance_step_want_exponents(r.step);
        warnings = 0;
        fault_after(n);
        status[0] = stance_step_micro(r.step, STANCE_STEP_BATCH, 1, &err);
        status[1] = stance_step_apply(r.step, 1e-3, &a, &err);
        ck_assert_int_eq(fault_live, 0);
        stance_set_allocator(NULL);
        ck_assert_msg(status[0] == STANCE_OK && status[1] == STANCE_OK, "request %ld: %s", n, err.text);
        ck_assert(a.skipped);
        whole = stance_step_diagnosis(r.step) != NULL && stance_step_exponents(r.step) != NULL;
        ck_assert_msg(whole == (warnings == 0), "request %ld", n);
        step_close(&r);
    }
    stance_log_set_sink(NULL, NULL);
    step_fill_inputs(&blind, STANCE_STEP_BATCH, 0);
    micro(&blind, 1);
    b = apply(&blind);
    ck_assert(!b.skipped);
    step_close(&blind);
}
END_TEST

/* ---- exponents --------------------------------------------------------------------------------------------- */

START_TEST(exponents_are_counted)
{
    const float v[] = { 0, -0.0F, 1, -1.5F, 2, 0x1p-40F, 0x1.fp-41F, -0x1p-120F, 0x1p15F, 0x1.ffp15F, 0x1p16F, -0x1p100F,
                        INFINITY, -INFINITY, NAN };
    struct stance_exponents      e = { 0 };
    struct stance_exponents_fate f;

    stance_exponents_add(&e, v, sizeof v / sizeof *v, 1);
    ck_assert(e.zero == 2 && e.below == 2 && e.above == 2 && e.inf == 2 && e.nan == 1);
    ck_assert(e.count[0] == 1 && e.count[40] == 2 && e.count[41] == 1 && e.count[55] == 2);
    ck_assert(stance_exponents_total(&e) == sizeof v / sizeof *v);
    /* The same shifted by the factor; zeros and what is not finite stay. */
    e = (struct stance_exponents){ 0 };
    stance_exponents_add(&e, v, sizeof v / sizeof *v, 0x1p-10);
    ck_assert(e.zero == 2 && e.below == 3 && e.above == 1 && e.inf == 2 && e.nan == 1);
    ck_assert(e.count[30] == 2 && e.count[31] == 1 && e.count[45] == 2 && e.count[46] == 1);
    /* A product that leaves binary32 is no infinity of the gradients'. */
    e = (struct stance_exponents){ 0 };
    stance_exponents_add(&e, (const float[]){ 0x1p120F }, 1, 0x1p20);
    ck_assert(e.above == 1 && e.inf == 0);
    /* One each at 2^-30, 2^-20, 2^0 and 2^14. */
    e = (struct stance_exponents){ 0 };
    stance_exponents_add(&e, (const float[]){ 0x1p-30F, 0x1p-20F, 1, 0x1p14F, 0 }, 5, 1);
    f = stance_exponents_fate(&e, 0);
    ck_assert(f.zero == 0.25 && f.subnormal == 0.25 && f.normal == 0.5 && f.overflow == 0);
    f = stance_exponents_fate(&e, 10);
    ck_assert(f.zero == 0 && f.subnormal == 0.25 && f.normal == 0.5 && f.overflow == 0.25);
    f = stance_exponents_fate(&(struct stance_exponents){ .zero = 3 }, 0);
    ck_assert(f.zero + f.subnormal + f.normal + f.overflow == 0);
}
END_TEST

START_TEST(exponents_text)
{
    struct stance_gradient_exponents g = { .scale = 65536 };
    struct stance_string             t = { 0 };

    stance_exponents_add(&g.activation, (const float[]){ 0, 0x1p-30F, 0x1p-20F, 1 }, 4, 1);
    stance_exponents_add(&g.weight, (const float[]){ 0x1p-3F }, 1, 1);
    stance_gradient_exponents_text(&g, 12, &t);
    ck_assert(!t.failed);
    ck_assert_msg(strstr(t.s, "step 12") != NULL && strstr(t.s, "65536") != NULL, "%s", t.s);
    ck_assert_msg(strstr(t.s, "activations: 4 numbers, 25.00 % of them 0, 0 not finite; of the others in fp16 without scaling 33.33 % are 0") != NULL, "%s", t.s);
    ck_assert_msg(strstr(t.s, "2^-30       33.333 %   0.000 %   0") != NULL, "%s", t.s);
    ck_assert_msg(strstr(t.s, "2^-20       33.333 %   0.000 %   subnormal") != NULL, "%s", t.s);
    ck_assert_msg(strstr(t.s, "2^-32") == NULL && strstr(t.s, "2^2 ") == NULL, "%s", t.s); /* from the first to the last */
    stance_string_free(&t);
    /* Nothing counted at all. */
    stance_gradient_exponents_text(&(struct stance_gradient_exponents){ .scale = 1 }, 1, &t);
    ck_assert(!t.failed);
    stance_string_free(&t);
    for (long n = 0; n < 3; n++) {
        fault_after(n);
        stance_gradient_exponents_text(&g, 12, &t);
        ck_assert(t.failed);
        stance_string_free(&t);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
}
END_TEST

static void run_exponents(struct step_run *r, const char *device, const char *precision, const char *scaler,
                          enum stance_rebuild rebuild, struct stance_gradient_exponents *out)
{
    open_run(r, true, device, precision, scaler);
    r->options.rebuild = rebuild;
    step_make(r);
    step_fill_inputs(r, STANCE_STEP_BATCH, 0);
    stance_step_want_exponents(r->step);
    micro(r, 1);
    ck_assert(!apply(r).skipped);
    ck_assert_ptr_nonnull(stance_step_exponents(r->step));
    *out = *stance_step_exponents(r->step);
    step_close(r);
}

/* A scale that is a power of two moves nothing but what would have been lost: in binary32 the counts of the
 * gradients divided by it are the same. Each trained scalar has one gradient. */
START_TEST(exponents_of_a_run)
{
    struct step_run                  r;
    struct stance_gradient_exponents one, scaled, half;

    run_exponents(&r, "ref", "fp32", "static:scale=1", STANCE_REBUILD_NONE, &one);
    run_exponents(&r, "ref", "fp32", "static:scale=1024", STANCE_REBUILD_NONE, &scaled);
    ck_assert(memcmp(&one.activation, &scaled.activation, sizeof one.activation) == 0);
    ck_assert(memcmp(&one.weight, &scaled.weight, sizeof one.weight) == 0);
    ck_assert(one.scale == 1 && scaled.scale == 1024);
    open_run(&r, true, "ref", "fp32", "none");
    step_make(&r);
    ck_assert_uint_eq(stance_exponents_total(&one.weight), stance_store_parameters(stance_step_store(r.step)));
    /* Nobody has asked in this one. */
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    micro(&r, 1);
    stance_step_want_exponents(r.step); /* too late for this window */
    apply(&r);
    ck_assert_ptr_null(stance_step_exponents(r.step));
    step_close(&r);
    if (!step_has_device("cpu", "exponents in binary16"))
        return;
    /* Without scaling binary16 loses what binary32 has below 2^-25, and with it some is there. */
    run_exponents(&r, "cpu", "fp16", "static:scale=1", STANCE_REBUILD_NONE, &half);
    ck_assert(stance_exponents_fate(&half.activation, 0).zero == 0);
    run_exponents(&r, "cpu", "fp32", "static:scale=1", STANCE_REBUILD_NONE, &one);
    ck_assert_uint_gt(half.activation.zero, one.activation.zero);
    ck_assert(stance_exponents_fate(&one.activation, 0).zero > 0);
    run_exponents(&r, "cpu", "fp16", "static:scale=4096", STANCE_REBUILD_NONE, &scaled);
    ck_assert_uint_lt(scaled.activation.zero, half.activation.zero);
    ck_assert(stance_exponents_fate(&scaled.activation, 0).zero > 0);
    ck_assert_uint_eq(stance_exponents_total(&scaled.weight), stance_exponents_total(&one.weight));
}
END_TEST

/* What backward makes again of the forward pass is no gradient, and which is looked at does not hang on it. */
static const struct { const char *device, *precision; enum stance_rebuild rebuild; } rebuilds[] = {
    { "ref", "fp32", STANCE_REBUILD_NORM }, { "ref", "fp32", STANCE_REBUILD_BLOCK },
    { "cpu", "fp16", STANCE_REBUILD_NORM }, { "cpu", "fp16", STANCE_REBUILD_BLOCK },
};

START_TEST(exponents_with_recomputation)
{
    struct step_run                  r;
    struct stance_gradient_exponents kept, again;

    if (!step_has_device(rebuilds[_i].device, "exponents with recomputation"))
        return;
    run_exponents(&r, rebuilds[_i].device, rebuilds[_i].precision, "static:scale=1024", STANCE_REBUILD_NONE, &kept);
    run_exponents(&r, rebuilds[_i].device, rebuilds[_i].precision, "static:scale=1024", rebuilds[_i].rebuild, &again);
    ck_assert_uint_eq(stance_exponents_total(&kept.activation), stance_exponents_total(&again.activation));
    ck_assert(memcmp(&kept.activation, &again.activation, sizeof kept.activation) == 0);
    ck_assert(memcmp(&kept.weight, &again.weight, sizeof kept.weight) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diagnose");
    TCase *names = tcase_create("names"), *runs = tcase_create("runs"), *exponents = tcase_create("exponents");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_loop_test(names, planted_overflow_is_named, 0, PLANTED);
    tcase_add_test(names, bad_input_is_named);
    tcase_add_test(runs, third_in_a_row_without_the_flag);
    tcase_add_test(runs, micro_batch_of_the_window);
    tcase_add_loop_test(runs, looking_changes_nothing, 0, sizeof unchanged / sizeof *unchanged);
    tcase_add_test(runs, no_memory_to_look_with);
    tcase_add_test(exponents, exponents_are_counted);
    tcase_add_test(exponents, exponents_text);
    tcase_add_test(exponents, exponents_of_a_run);
    tcase_add_loop_test(exponents, exponents_with_recomputation, 0, sizeof rebuilds / sizeof *rebuilds);
    tcase_set_timeout(runs, 60);
    tcase_set_timeout(names, 60);
    tcase_set_timeout(exponents, 60);
    suite_add_tcase(suite, names);
    suite_add_tcase(suite, runs);
    suite_add_tcase(suite, exponents);
    return run_suite(suite);
}
