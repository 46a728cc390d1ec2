/* SPDX-License-Identifier: Apache-2.0
 *
 * Built-in ops: values of the references, shape rules and what they refuse. */
#include "ops.h"
#include "runner.h"

#include "base/half.h"

#include <jansson.h>
#include <math.h>

/* ---- the table and the number formats --------------------------------------------------------- */

START_TEST(table_is_sorted_and_complete)
{
    int                          n;
    const struct stance_builtin *all = stance_builtin_ops(&n);

    ck_assert_int_gt(n, 35);
    for (int i = 0; i < n; i++) {
        ck_assert(i == 0 || strcmp(all[i - 1].name, all[i].name) < 0);
        ck_assert_ptr_eq(stance_builtin_op(all[i].name), all[i].ops);
        ck_assert_uint_eq(all[i].ops->size, sizeof(struct stance_op_ops));
        ck_assert(all[i].ops->shape != NULL && all[i].ops->reference != NULL);
    }
    ck_assert_ptr_null(stance_builtin_op("conv"));
    ck_assert_ptr_null(stance_builtin_op(""));
}
END_TEST

START_TEST(half_formats)
{
    /* spec/mixed-precision.md 1, and ties to even. */
    static const struct { double v; int fraction; uint16_t bits; } known[] = {
        { 65519, 10, 0x7bff }, { 65520, 10, 0x7c00 }, { -65520, 10, 0xfc00 }, { INFINITY, 10, 0x7c00 },
        { 0x1p-25, 10, 0 }, { 0x1.0000000001p-25, 10, 1 }, { 0x1.8p-24, 10, 2 }, { 0x1p-14, 10, 0x0400 },
        { 0x1.ff8p-15, 10, 0x03ff }, { 0x1.ffcp-15, 10, 0x0400 }, { -0.0, 10, 0x8000 }, { 1 + 0x1p-11, 10, 0x3c00 },
        { 1 + 0x3p-11, 10, 0x3c02 }, { 2048.0 + 1, 10, 0x6800 }, { 1e300, 10, 0x7c00 }, { 1e-300, 10, 0 },
        { 1 + 0x1p-8, 7, 0x3f80 }, { 3.38953e38, 7, 0x7f7f }, { 0x1.ffp127, 7, 0x7f80 }, { 0x1p-133, 7, 1 },
        { 0x1p-134, 7, 0 }, { 0x1p-126, 7, 0x0080 }, { 0x1p128, 7, 0x7f80 }, { 257, 7, 0x4380 },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_msg(stance_half_of_f64(known[i].v, known[i].fraction) == known[i].bits, "%a: %04x, not %04x",
                      known[i].v, stance_half_of_f64(known[i].v, known[i].fraction), known[i].bits);
    for (int fraction = 7; fraction <= 10; fraction += 3)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            double v = stance_f64_of_half((uint16_t)bits, fraction), up;

            if (isnan(v)) {
                ck_assert(isnan(stance_f64_of_half(stance_half_of_f64(v, fraction), fraction)));
                continue;
            }
            ck_assert_uint_eq(stance_half_of_f64(v, fraction), bits);
            /* Halfway to the next one goes to the even one of the two. */
            up = stance_f64_of_half((uint16_t)(bits + 1), fraction);
            if (isfinite(v) && isfinite(up) && (bits & 0x7fff) != 0x7fff)
                ck_assert_uint_eq(stance_half_of_f64((v + up) / 2, fraction), bits + (bits & 1));
        }
}
END_TEST

START_TEST(casts)
{
    struct stance_cast a = { STANCE_TYPE_I32 };
    struct ops         o = { .op = "cast", .attr = &a, .wide = STANCE_TYPE_F32 };

    IN(&o, SHAPE(6), 1.9, -1.9, 3e9, -3e9, NAN, 7);
    ops_run(&o, 1);
    ck_assert_int_eq(o.out[0].type, STANCE_TYPE_I32);
    EXPECT(o.out[0], 0, 1, -1, INT32_MAX, INT32_MIN, 0, 7);
    ops_free(&o);

    /* A device that keeps rounded values wide: rounded all the same, to infinity too. */
    o      = (struct ops){ .op = "cast", .attr = &a, .wide = STANCE_TYPE_F32 };
    a.type = STANCE_TYPE_F16;
    IN(&o, SHAPE(4), 1 + 0x1p-11, 65520, 0x1p-25, -3);
    o.out[0]      = ops_tensor(STANCE_TYPE_F32, SHAPE(4));
    o.out[0].type = STANCE_TYPE_F16;
    ops_run(&o, 1);
    ck_assert(((float *)o.out[0].data)[0] == 1 && isinf(((float *)o.out[0].data)[1])
              && ((float *)o.out[0].data)[2] == 0 && ((float *)o.out[0].data)[3] == -3);
    ops_free(&o);
}
END_TEST

/* ---- convolutions ----------------------------------------------------------------------------- */

static const struct stance_conv2d convs[] = {
    { { 1, 1 }, { 1, 1 }, { 0, 0 }, 0, { 3, 3 }, { 5, 4 } },
    { { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, { 3, 3 }, { 6, 7 } },
    { { 3, 2 }, { 0, 2 }, { 2, 3 }, 2, { 2, 3 }, { 9, 8 } },
    { { 3, 3 }, { 0, 0 }, { 1, 1 }, 1, { 1, 1 }, { 5, 4 } },
    { { 1, 1 }, { 1, 1 }, { 1, 1 }, 4, { 3, 3 }, { 4, 4 } },
    { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, { 1, 1 }, { 1, 1 } },
    { { 1, 2 }, { 0, 40 }, { 1, 1 }, 1, { 1, 7 }, { 1, 150 } },
    { { 2, 2 }, { 5, 5 }, { 4, 4 }, 2, { 3, 3 }, { 3, 3 } },
};

/* The definition, with the roles of x and y as in a convolution: calls `add` for each product. */
static void each_product(const struct stance_conv2d *a, const struct stance_tensor *x, const struct stance_tensor *w,
                         const struct stance_tensor *y,
                         void (*add)(void *ctx, int64_t xi, int64_t wi, int64_t yi), void *ctx)
{
    const int64_t *X = x->shape.dim, *W = w->shape.dim, *Y = y->shape.dim;
    int64_t        groups = a->groups > 0 ? a->groups : 1;

    for (int64_t n = 0; n < X[0]; n++)
    for (int64_t o = 0; o < Y[1]; o++)
    for (int64_t p = 0; p < Y[2]; p++)
    for (int64_t q = 0; q < Y[3]; q++)
    for (int64_t c = 0; c < W[1]; c++)
    for (int64_t i = 0; i < W[2]; i++)
    for (int64_t j = 0; j < W[3]; j++) {
        int64_t h  = p * a->stride[0] + i * (a->dilation[0] > 0 ? a->dilation[0] : 1) - a->pad[0];
        int64_t v  = q * a->stride[1] + j * (a->dilation[1] > 0 ? a->dilation[1] : 1) - a->pad[1];
        int64_t xc = o / (Y[1] / groups) * W[1] + c;

        if (h >= 0 && h < X[2] && v >= 0 && v < X[3])
            add(ctx, ((n * X[1] + xc) * X[2] + h) * X[3] + v, ((o * W[1] + c) * W[2] + i) * W[3] + j,
                ((n * Y[1] + o) * Y[2] + p) * Y[3] + q);
    }
}

struct products { const struct stance_tensor *x, *w; double *sum; };

static void into_y(void *ctx, int64_t xi, int64_t wi, int64_t yi)
{
    struct products *p = ctx;

    p->sum[yi] += stance_tensor_get(p->x, xi) * stance_tensor_get(p->w, wi);
}

static void into_x(void *ctx, int64_t xi, int64_t wi, int64_t yi)
{
    struct products *p = ctx;

    p->sum[xi] += stance_tensor_get(p->x, yi) * stance_tensor_get(p->w, wi);
}

START_TEST(convolution_is_its_definition)
{
    const struct stance_conv2d *a      = &convs[_i];
    const int64_t               groups = a->groups > 0 ? a->groups : 1;

    for (int type = 0; type < 2; type++) {
        struct ops      o = { .op = "conv2d", .attr = a, .wide = type ? STANCE_TYPE_F64 : STANCE_TYPE_F32 };
        struct products p = { &o.in[0], &o.in[1], NULL };

        ops_in(&o, SHAPE(2, 2 * groups, a->size[0], a->size[1]), NULL);
        ops_in(&o, SHAPE(3 * groups, 2, a->kernel[0], a->kernel[1]), NULL);
        ops_in(&o, SHAPE(3 * groups), NULL);
        for (int i = 0; i < 3; i++)
            ops_random(&o.in[i], (uint64_t)(_i * 3 + i));
        ops_run(&o, 1);
        p.sum = stance_calloc((size_t)stance_elements(&o.out[0].shape), sizeof *p.sum);
        each_product(a, &o.in[0], &o.in[1], &o.out[0], into_y, &p);
        for (int64_t i = 0; i < stance_elements(&o.out[0].shape); i++) {
            int64_t plane = o.out[0].shape.dim[2] * o.out[0].shape.dim[3];
            double  want  = p.sum[i] + stance_tensor_get(&o.in[2], i / plane % o.in[2].shape.dim[0]);

            /* Another order of at most 37 terms below 1.3: 37 * 1.3 * 2^-53 < 6e-15; then one rounding
             * to binary32 of a sum that is below 50: 2^-24 * 50. */
            ck_assert_double_le(fabs(stance_tensor_get(&o.out[0], i) - want), type ? 6e-15 : 3e-6);
        }
        stance_free(p.sum);
        ops_free(&o);
    }
}
END_TEST

START_TEST(transposed_convolution_is_its_definition)
{
    static const struct stance_conv_transpose2d cases[] = {
        { { 2, 2 }, { 1, 1 }, { 0, 0 }, 0, { 4, 4 } }, { { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, { 3, 3 } },
        { { 3, 2 }, { 0, 1 }, { 2, 0 }, 2, { 2, 3 } }, { { 1, 1 }, { 0, 0 }, { 0, 0 }, 3, { 1, 1 } },
    };
    const struct stance_conv_transpose2d *a      = &cases[_i];
    const int64_t                         groups = a->groups > 0 ? a->groups : 1;
    const struct stance_conv2d mirror = { { a->stride[0], a->stride[1] }, { a->pad[0], a->pad[1] }, { 1, 1 },
                                          a->groups, { 0, 0 }, { 0, 0 } };
    struct ops      o = { .op = "conv_transpose2d", .attr = a, .wide = STANCE_TYPE_F64 };
    struct products p = { &o.in[0], &o.in[1], NULL };

    ops_in(&o, SHAPE(2, 2 * groups, 3, 4), NULL);
    ops_in(&o, SHAPE(2 * groups, 3, a->kernel[0], a->kernel[1]), NULL);
    ops_in(&o, SHAPE(3 * groups), NULL);
    for (int i = 0; i < 3; i++)
        ops_random(&o.in[i], (uint64_t)(_i * 3 + i));
    ops_run(&o, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(o.out[0].shape.dim[2 + i],
                         (2 + i) * a->stride[i] - 2 * a->pad[i] + a->kernel[i] + a->output_pad[i]);
    p.sum = stance_calloc((size_t)stance_elements(&o.out[0].shape), sizeof *p.sum);
    each_product(&mirror, &o.out[0], &o.in[1], &o.in[0], into_x, &p);
    for (int64_t i = 0; i < stance_elements(&o.out[0].shape); i++) {
        int64_t plane = o.out[0].shape.dim[2] * o.out[0].shape.dim[3];

        ck_assert_double_le(fabs(stance_tensor_get(&o.out[0], i) - p.sum[i]
                                 - stance_tensor_get(&o.in[2], i / plane % o.in[2].shape.dim[0])), 6e-15);
    }
    stance_free(p.sum);
    ops_free(&o);
}
END_TEST

/* {"shape": [...], "data": [...]} as a binary32 tensor. */
static struct stance_tensor read_json(const char *path)
{
    json_t              *root = json_load_file(path, 0, NULL);
    json_t              *dims = json_object_get(root, "shape"), *data = json_object_get(root, "data");
    struct stance_shape  s    = { .rank = (int32_t)json_array_size(dims) };
    struct stance_tensor t;

    ck_assert_ptr_nonnull(root);
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = json_integer_value(json_array_get(dims, (size_t)i));
    t = ops_tensor(STANCE_TYPE_F32, s);
    for (size_t i = 0; i < json_array_size(data); i++)
        stance_tensor_put(&t, (int64_t)i, json_number_value(json_array_get(data, i)));
    json_decref(root);
    return t;
}

/* The three cases of cases/backend differ in how x is stored; here a transpose makes it plain. */
START_TEST(convolution_cases)
{
    static const struct { const char *folder, *x; struct stance_transpose t; } cases[] = {
        { "conv-plain", "x", { { 0, 1, 2, 3 } } },
        { "conv-on-channels-last", "x_nhwc", { { 0, 3, 1, 2 } } },
        { "conv-on-strided-view", "x_stored", { { 0, 1, 3, 2 } } },
    };
    static const struct stance_conv2d a = { .stride = { 1, 1 }, .pad = { 1, 1 } };
    struct ops           t = { .op = "transpose", .attr = &cases[_i].t, .wide = STANCE_TYPE_F32, .n_in = 1 };
    struct ops           o = { .op = "conv2d", .attr = &a, .wide = STANCE_TYPE_F32, .n_in = 2 };
    struct stance_tensor want;
    char                 name[3][128];

    snprintf(name[0], sizeof *name, "cases/backend/%s/%s.json", cases[_i].folder, cases[_i].x);
    snprintf(name[1], sizeof *name, "cases/backend/%s/w.json", cases[_i].folder);
    snprintf(name[2], sizeof *name, "cases/backend/%s/y.json", cases[_i].folder);
    if (shared_file(name[0]) == NULL) {
        SKIP("%s is not there", name[0]);
        return;
    }
    t.in[0] = read_json(shared_file(name[0]));
    ops_run(&t, 1);
    o.in[0] = t.out[0];
    o.in[1] = read_json(shared_file(name[1]));
    want    = read_json(shared_file(name[2]));
    ops_run(&o, 1);
    ck_assert(stance_shape_equal(&o.out[0].shape, &want.shape));
    ck_assert_int_eq(memcmp(o.out[0].data, want.data, want.bytes), 0); /* whole numbers */
    t.n_out = 0;
    ops_free(&t);
    ops_free(&o);
    stance_free(want.data);
}
END_TEST

/* ---- batch normalisation ---------------------------------------------------------------------- */

static const struct stance_batch_norm norm = { .eps = 1e-5, .momentum = 0.1 };

/* x [n,c] with weight 1, bias 0 and the running statistics given. */
static void norm_run(struct ops *o, enum stance_type type, int64_t n, int64_t c, const double *x, double mean,
                     double var)
{
    *o = (struct ops){ .op = "batch_norm", .attr = &norm, .wide = type };
    ops_in(o, SHAPE(n, c), x);
    for (int i = 1; i < 5; i++) {
        o->wide = STANCE_TYPE_F32;
        ops_in(o, SHAPE(c), NULL);
        for (int64_t k = 0; k < c; k++)
            stance_tensor_put(&o->in[i], k, i == 1 ? 1 : i == 2 ? 0 : i == 3 ? mean : var);
    }
    ops_run(o, 5);
}

START_TEST(running_statistics)
{
    double     half[4096];
    struct ops o;

    /* cases/loss-scale/running-stats-in-single-precision: the sums pass 65504. */
    for (int i = 0; i < 4096; i++)
        half[i] = i % 2 == 0 ? 100 : 300;
    norm_run(&o, STANCE_TYPE_F16, 4096, 1, half, 0, 1);
    EXPECT(o.out[1], 0.01, 20);
    EXPECT(o.out[2], 0.01, 1001.1442);
    EXPECT(o.out[3], 0.01, 200);
    ck_assert_int_eq(o.out[0].type, STANCE_TYPE_F16);
    ck_assert_double_eq_tol(stance_tensor_get(&o.out[0], 0), -1, 1e-3);
    ops_free(&o);

    /* .../one-value-per-channel */
    norm_run(&o, STANCE_TYPE_F32, 1, 1, (double[]){ 3 }, 1, 2);
    EXPECT(o.out[0], 0, 0);
    EXPECT(o.out[1], 1e-6, 1.2);
    EXPECT(o.out[2], 1e-6, 1.8);
    ops_free(&o);

    /* .../skipped-step-leaves-running-stats-finite; the channel beside it is folded as ever. */
    norm_run(&o, STANCE_TYPE_F16, 4, 2, (double[]){ 1, 1, 2, 2, INFINITY, 3, 4, 4 }, 0.5, 2);
    EXPECT(o.out[1], 1e-6, 0.5, 0.9 * 0.5 + 0.1 * 2.5);
    EXPECT(o.out[2], 1e-6, 2, 0.9 * 2 + 0.1 * 5 / 3);
    ops_free(&o);
    norm_run(&o, STANCE_TYPE_F32, 2, 1, (double[]){ 1, NAN }, 0.5, 2);
    EXPECT(o.out[1], 0, 0.5);
    EXPECT(o.out[2], 0, 2);
    ops_free(&o);
    /* A variance that binary32 cannot hold would stay infinite for ever. */
    norm_run(&o, STANCE_TYPE_F32, 2, 1, (double[]){ -3e38, 3e38 }, 0.5, 2);
    EXPECT(o.out[1], 0, 0.5);
    EXPECT(o.out[2], 0, 2);
    ops_free(&o);
}
END_TEST

START_TEST(normalised_values)
{
    struct ops o = { .op = "batch_norm_inference", .attr = &norm, .wide = STANCE_TYPE_F64 };

    IN(&o, SHAPE(1, 2, 1, 2), 3, 5, 1, -1);
    IN(&o, SHAPE(2), 2, 1);
    IN(&o, SHAPE(2), 10, 0);
    IN(&o, SHAPE(2), 1, 0);
    IN(&o, SHAPE(2), 4 - 1e-5, 1 - 1e-5);
    ops_run(&o, 1);
    EXPECT(o.out[0], 1e-12, 12, 14, 1, -1);
    o.op = "batch_norm";
    stance_free(o.out[0].data);
    o.out[0].data = NULL;
    ops_run(&o, 5);
    /* Channel 0: mean 4, biased variance 1, unbiased 2. */
    EXPECT(o.out[0], 1e-4, 8, 12, 1, -1);
    EXPECT(o.out[1], 1e-12, 0.9 * 1 + 0.4, 0);
    EXPECT(o.out[2], 1e-12, 0.9 * (4 - 1e-5) + 0.2, 0.9 * (1 - 1e-5) + 0.2);
    EXPECT(o.out[3], 1e-12, 4, 0);
    EXPECT(o.out[4], 1e-12, 1 / sqrt(1 + 1e-5), 1 / sqrt(1 + 1e-5));
    ops_free(&o);
}
END_TEST

/* ---- losses ----------------------------------------------------------------------------------- */

START_TEST(loss_is_summed_wide)
{
    /* cases/loss-scale/loss-summed-in-single-precision: 17 maps of 64x48, off by 2, in binary16. */
    struct ops o = { .op = "mse", .wide = STANCE_TYPE_F16 };

    ops_in(&o, SHAPE(1, 17, 64, 48), NULL);
    ops_in(&o, SHAPE(1, 17, 64, 48), NULL);
    for (int64_t i = 0; i < 17 * 64 * 48; i++)
        stance_tensor_put(&o.in[0], i, 2);
    o.wide = STANCE_TYPE_F32;
    ops_run(&o, 1);
    ck_assert_int_eq(o.out[0].shape.rank, 0);
    ck_assert_int_eq(o.out[0].type, STANCE_TYPE_F32);
    EXPECT(o.out[0], 1e-6, 4);
    ops_free(&o);
}
END_TEST

START_TEST(unlabelled_point_has_no_loss)
{
    /* cases/pose/unlabelled-point-has-no-loss */
    double first = 0;

    for (int changed = 0; changed < 2; changed++) {
        struct ops o = { .op = "mse", .wide = STANCE_TYPE_F32 };
        struct ops g = { .op = "mse_grad", .wide = STANCE_TYPE_F32 };

        ops_in(&o, SHAPE(1, 2, 3, 4), NULL);
        ops_in(&o, SHAPE(1, 2, 3, 4), NULL);
        for (int64_t i = 0; i < 24; i++)
            stance_tensor_put(&o.in[0], i, i < 12 ? 0.5 : changed ? -3 : 9);
        IN(&o, SHAPE(1, 2, 1), 1, 0);
        ops_run(&o, 1);
        if (!changed)
            first = stance_tensor_get(&o.out[0], 0);
        EXPECT(o.out[0], 0, first);
        EXPECT(o.out[0], 1e-7, 0.125); /* 12 * 0.25 over all 24 elements */
        IN(&g, SCALAR, 1024);
        for (int i = 0; i < 3; i++)
            g.in[g.n_in++] = o.in[i];
        ops_run(&g, 1);
        for (int64_t i = 0; i < 24; i++)
            ck_assert_double_eq_tol(stance_tensor_get(&g.out[0], i), i < 12 ? 1024 * 2 * 0.5 / 24 : 0, 1e-5);
        o.n_in = 0;
        ops_free(&o);
        ops_free(&g);
    }
}
END_TEST

/* ---- resampling and pooling -------------------------------------------------------------------- */

START_TEST(upsampling)
{
    struct stance_upsample a = { { 2, 2 }, 0 };
    struct ops             o = { .op = "upsample", .attr = &a, .wide = STANCE_TYPE_F32 };

    IN(&o, SHAPE(1, 1, 2, 2), 1, 2, 3, 4);
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4);
    stance_free(o.out[0].data);
    o.out[0].data = NULL;
    /* As PyTorch's documentation of nn.Upsample gives it. */
    a.bilinear = 1;
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4);
    ops_free(&o);
}
END_TEST

START_TEST(max_pooling)
{
    const struct stance_pool a = { { 3, 3 }, { 2, 2 }, { 1, 1 }, { 3, 4 } };
    struct ops               o = { .op = "max_pool", .attr = &a, .wide = STANCE_TYPE_F32 };
    struct ops               g = { .op = "max_pool_grad", .attr = &a, .wide = STANCE_TYPE_F32 };

    /* Below zero, so that a padding of zeros would show; ties; a NaN; and nothing but -inf. */
    IN(&o, SHAPE(1, 2, 3, 4), -5, -5, -2, -3, -5, -5, -2, -3, -1, NAN, -7, NAN,
       -INFINITY, -INFINITY, 1, 1, -INFINITY, -INFINITY, 1, 1, 0, 0, 0, 0);
    ops_run(&o, 2);
    ck_assert_int_eq(o.out[1].type, STANCE_TYPE_I32);
    EXPECT(o.out[1], 0, 0, 2, 9, 9, 0, 2, 8, 2 + 4);
    ck_assert(stance_tensor_get(&o.out[0], 0) == -5 && stance_tensor_get(&o.out[0], 1) == -2);
    ck_assert(isnan(stance_tensor_get(&o.out[0], 2)) && isnan(stance_tensor_get(&o.out[0], 3)));
    ck_assert(stance_tensor_get(&o.out[0], 4) == -INFINITY && stance_tensor_get(&o.out[0], 7) == 1);
    IN(&g, SHAPE(1, 2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
    g.in[g.n_in++] = o.out[1];
    ops_run(&g, 1);
    EXPECT(g.out[0], 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 7, 0, 0, 5, 0, 6, 0, 0, 0, 8, 0, 7, 0, 0, 0);
    o.n_out = 1;
    ops_free(&o);
    ops_free(&g);
}
END_TEST

START_TEST(average_pooling)
{
    const struct stance_pool a = { { 2, 2 }, { 2, 2 }, { 1, 1 }, { 2, 3 } };
    struct ops               o = { .op = "avg_pool", .attr = &a, .wide = STANCE_TYPE_F32 };

    IN(&o, SHAPE(1, 1, 2, 3), 4, 8, 12, 16, 20, 24);
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 1, 5, 4, 11); /* corners are divided by 4 too */
    ops_free(&o);
}
END_TEST

/* ---- products, sums and moves ------------------------------------------------------------------ */

START_TEST(products)
{
    /* rows, depth, columns above one tile; leading dimensions 2 or none */
    enum { M = 3, K = 5, N = 70 };
    const struct stance_matmul t       = { _i & 1, _i >> 1 & 1 };
    const bool                 shared  = (_i & 4) != 0;
    struct ops                 o       = { .op = "matmul", .attr = &t, .wide = STANCE_TYPE_F64 };

    ops_in(&o, t.transpose_a ? SHAPE(2, K, M) : SHAPE(2, M, K), NULL);
    ops_in(&o, shared ? (t.transpose_b ? SHAPE(N, K) : SHAPE(K, N)) : t.transpose_b ? SHAPE(2, N, K) : SHAPE(2, K, N), NULL);
    ops_random(&o.in[0], 1);
    ops_random(&o.in[1], 2);
    ops_run(&o, 1);
    ck_assert(o.out[0].shape.rank == 3 && o.out[0].shape.dim[1] == M && o.out[0].shape.dim[2] == N);
    for (int z = 0; z < 2; z++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;

                for (int k = 0; k < K; k++)
                    sum += stance_tensor_get(&o.in[0], z * M * K + (t.transpose_a ? k * M + i : i * K + k))
                           * stance_tensor_get(&o.in[1], (shared ? 0 : z * K * N) + (t.transpose_b ? j * K + k : k * N + j));
                ck_assert_double_le(fabs(stance_tensor_get(&o.out[0], (z * M + i) * N + j) - sum), 5 * 1.3 * 0x1p-52);
            }
    ops_free(&o);
}
END_TEST

START_TEST(element_wise)
{
    const struct stance_scale a = { -0.5 };
    struct ops                o = { .op = "add", .wide = STANCE_TYPE_F32 };

    IN(&o, SHAPE(3), 1, 2, 3);
    IN(&o, SHAPE(3), 10, -20, 30);
    IN(&o, SHAPE(3), 100, 200, 300);
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 111, 182, 333);
    stance_free(o.out[0].data);
    stance_free(o.in[--o.n_in].data);
    o.op     = "mul";
    o.out[0] = o.in[0]; /* in place */
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 10, -40, 90);
    o.op   = "relu_grad"; /* dy = (10, -40, 90), y = (10, -20, 30) */
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 10, 0, 90);
    stance_free(o.in[--o.n_in].data);
    o.op   = "scale";
    o.attr = &a;
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, -5, 0, -45);
    stance_tensor_put(&o.in[0], 1, NAN);
    stance_tensor_put(&o.in[0], 2, INFINITY);
    o.op = "relu";
    ops_run(&o, 1);
    ck_assert(stance_tensor_get(&o.out[0], 0) == 0 && isnan(stance_tensor_get(&o.out[0], 1))
              && isinf(stance_tensor_get(&o.out[0], 2)));
    ops_free(&o);
}
END_TEST

START_TEST(sums_and_repeats)
{
    struct stance_reduce    r = { 1u << 0 | 1u << 2, 0 };
    struct stance_broadcast b = { SHAPE(2, 2, 3), 1u << 0 | 1u << 2 };
    struct ops              o = { .op = "reduce_sum", .attr = &r, .wide = STANCE_TYPE_F32 };

    IN(&o, SHAPE(2, 2, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    ops_run(&o, 1);
    ck_assert(o.out[0].shape.rank == 1 && o.out[0].shape.dim[0] == 2);
    EXPECT(o.out[0], 0, 1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12);
    stance_free(o.out[0].data);
    o.out[0].data = NULL;
    r             = (struct stance_reduce){ 1u << 1, 1 };
    ops_run(&o, 1);
    ck_assert(o.out[0].shape.rank == 3 && o.out[0].shape.dim[1] == 1);
    EXPECT(o.out[0], 0, 5, 7, 9, 17, 19, 21);
    stance_free(o.out[0].data);
    o.out[0].data = NULL;
    r             = (struct stance_reduce){ 7, 0 };
    ops_run(&o, 1);
    ck_assert_int_eq(o.out[0].shape.rank, 0);
    EXPECT(o.out[0], 0, 78);
    ops_free(&o);

    for (int keep = 0; keep < 2; keep++) {
        o = (struct ops){ .op = "broadcast", .attr = &b, .wide = STANCE_TYPE_F16 };
        IN(&o, keep ? SHAPE(1, 2, 1) : SHAPE(2), 8, 9);
        ops_run(&o, 1);
        ck_assert_int_eq(o.out[0].type, STANCE_TYPE_F16);
        EXPECT(o.out[0], 0, 8, 8, 8, 9, 9, 9, 8, 8, 8, 9, 9, 9);
        ops_free(&o);
    }
}
END_TEST

/* binary64, binary16 and integers: what only moves is not touched. */
START_TEST(moves)
{
    static const enum stance_type types[] = { STANCE_TYPE_F32, STANCE_TYPE_F64, STANCE_TYPE_BF16, STANCE_TYPE_I32,
                                              STANCE_TYPE_I64, STANCE_TYPE_U8 };
    const struct stance_concat    c = { 1 };
    const struct stance_slice     s = { 1, 1, 2 }, back = { 1, 1, 4 };
    const struct stance_transpose t = { { 1, 2, 0 } };
    const struct stance_reshape   r = { SHAPE(3, 2) };
    struct ops                    o = { .op = "concat", .attr = &c, .wide = types[_i] };

    IN(&o, SHAPE(2, 1, 2), 1, 2, 3, 4);
    IN(&o, SHAPE(2, 2, 2), 5, 6, 7, 8, 9, 10, 11, 12);
    ops_run(&o, 1);
    ck_assert_int_eq(o.out[0].type, types[_i]);
    EXPECT(o.out[0], 0, 1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12);
    ops_free(&o);

    o = (struct ops){ .op = "slice", .attr = &s, .wide = types[_i] };
    IN(&o, SHAPE(2, 3, 2), 1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12);
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 5, 6, 7, 8, 9, 10, 11, 12);
    ops_free(&o);

    o = (struct ops){ .op = "slice_grad", .attr = &back, .wide = types[_i] };
    IN(&o, SHAPE(1, 2, 2), 5, 6, 7, 8);
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 0, 0, 5, 6, 7, 8, 0, 0);
    ops_free(&o);

    o = (struct ops){ .op = "transpose", .attr = &t, .wide = types[_i] };
    IN(&o, SHAPE(2, 3, 1), 1, 2, 3, 4, 5, 6);
    ops_run(&o, 1);
    ck_assert(o.out[0].shape.dim[0] == 3 && o.out[0].shape.dim[1] == 1 && o.out[0].shape.dim[2] == 2);
    EXPECT(o.out[0], 0, 1, 4, 2, 5, 3, 6);
    ops_free(&o);

    o = (struct ops){ .op = "reshape", .attr = &r, .wide = types[_i] };
    IN(&o, SHAPE(1, 6), 1, 2, 3, 4, 5, 6);
    ops_run(&o, 1);
    ck_assert(o.out[0].shape.rank == 2 && o.out[0].shape.dim[0] == 3);
    EXPECT(o.out[0], 0, 1, 2, 3, 4, 5, 6);
    ops_free(&o);
}
END_TEST

START_TEST(counter)
{
    struct ops o = { .op = "increment", .wide = STANCE_TYPE_I64 };

    ops_in(&o, SCALAR, NULL);
    ((int64_t *)o.in[0].data)[0] = INT64_C(1) << 53; /* which binary64 could not add 1 to */
    ops_run(&o, 1);
    ck_assert_int_eq(((int64_t *)o.out[0].data)[0], (INT64_C(1) << 53) + 1);
    ops_free(&o);
}
END_TEST

/* ---- the compiler's ops ------------------------------------------------------------------------ */

static void check_gradients(struct stance_control *control, enum stance_type type, const double *g, int64_t n)
{
    struct ops o = { .op = "grad_check", .wide = type };

    ops_in(&o, SHAPE(n), g);
    o.out[0]      = ops_tensor(STANCE_TYPE_U8, SHAPE(sizeof *control));
    memcpy(o.out[0].data, control, sizeof *control);
    ops_run(&o, 1);
    memcpy(control, o.out[0].data, sizeof *control);
    ops_free(&o);
}

START_TEST(gradients_are_checked)
{
    struct stance_control c = { .size = sizeof c, .scale = 1000, .micro_weight = 0.25, .update.rate = 7 };
    double                inverse = 1 / 1000.f;

    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 3000, -4000 }, 2);
    ck_assert(c.first_bad == -1 && c.update.skip == 0 && c.update.factor == inverse && c.update.rate == 7);
    /* The inverse is off by 2^-24 of itself at most. */
    ck_assert_double_eq_tol(c.sum_squares, 25, 25 * 0x1p-23);
    ck_assert_double_eq_tol(c.max_abs, 4, 4 * 0x1p-24);
    c.clip = 1;
    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 3000, -4000 }, 2);
    ck_assert_double_eq_tol(c.update.factor, inverse / (5 + 1e-6), 1e-11);
    c.clip = 6;
    check_gradients(&c, STANCE_TYPE_F64, (double[]){ 3000, -4000 }, 2);
    ck_assert(c.update.factor == inverse);
    c.clip = 1;
    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 1, 2, NAN, INFINITY }, 4);
    ck_assert(c.update.skip == 1 && c.first_bad == 2 && isnan(c.sum_squares) && isinf(c.max_abs));
    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 1, -INFINITY, INFINITY }, 3);
    ck_assert(c.update.skip == 1 && c.first_bad == 1 && isinf(c.sum_squares) && c.update.factor == inverse);
    /* Finite, though their squares are not in binary32; and all zero, which divides by no zero. */
    c.scale = 1;
    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 1e30, 1e30 }, 2);
    ck_assert(c.update.skip == 0 && c.first_bad == -1);
    ck_assert_double_eq_tol(c.update.factor, 1 / (sqrt(2) * 1e30), 1e-36);
    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 0, 0 }, 2);
    ck_assert(c.update.skip == 0 && c.update.factor == 1 && c.sum_squares == 0);
    /* A scale whose inverse is infinite must not pass for a clean step. */
    c.scale = 0;
    check_gradients(&c, STANCE_TYPE_F32, (double[]){ 0, 1 }, 2);
    ck_assert(c.update.skip == 1 && c.first_bad == 0);
}
END_TEST

START_TEST(seed_and_accumulation)
{
    struct stance_control c = { .size = sizeof c, .scale = 65536, .micro_weight = 0.25 };
    struct ops            o = { .op = "loss_seed", .wide = STANCE_TYPE_F32 };

    o.in[o.n_in++] = ops_tensor(STANCE_TYPE_U8, SHAPE(sizeof c));
    memcpy(o.in[0].data, &c, sizeof c);
    ops_run(&o, 1);
    ck_assert(o.out[0].shape.rank == 0 && o.out[0].type == STANCE_TYPE_F32);
    EXPECT(o.out[0], 0, 16384);
    ops_free(&o);

    /* The sum is wide and may be a stretch of the flat gradients; the gradient is binary16 in any store. */
    o = (struct ops){ .op = "accumulate", .wide = STANCE_TYPE_F32 };
    IN(&o, SHAPE(4), 1, 2, 3, 65504);
    o.wide = STANCE_TYPE_F16;
    IN(&o, SHAPE(2, 2), 0.5, -2, 65504, 65504);
    o.out[0] = o.in[0];
    ops_run(&o, 1);
    EXPECT(o.out[0], 0, 1.5, 0, 65507, 131008);
    ops_free(&o);
}
END_TEST

START_TEST(commits)
{
    static const enum stance_type types[] = { STANCE_TYPE_F32, STANCE_TYPE_F64, STANCE_TYPE_I64 };

    for (int skip = 0; skip < 2; skip++)
        for (size_t t = 0; t < 3; t++) {
            struct stance_update u = { .size = sizeof u, .skip = skip };
            struct ops           o = { .op = "commit", .wide = types[t] };

            IN(&o, SHAPE(2), 1, 2);
            o.in[o.n_in++] = ops_tensor(STANCE_TYPE_U8, SHAPE(sizeof u));
            memcpy(o.in[1].data, &u, sizeof u);
            IN(&o, SHAPE(2), 3, 4);
            o.out[0] = o.in[0];
            o.out[1] = o.in[2];
            ops_run(&o, 2);
            EXPECT(o.in[0], 0, skip ? 3 : 1, skip ? 4 : 2);
            EXPECT(o.in[2], 0, skip ? 3 : 1, skip ? 4 : 2);
            ops_free(&o);
        }
}
END_TEST

START_TEST(packing_converts)
{
    static const char *const names[] = { "pack", "reorder" };

    for (int i = 0; i < 2; i++) {
        struct ops o = { .op = names[i], .wide = STANCE_TYPE_F32 };

        IN(&o, SHAPE(1, 3), 1 + 0x1p-8, 3e38, -2);
        o.out[0] = ops_tensor(STANCE_TYPE_BF16, SHAPE(1, 3));
        ops_run(&o, 1);
        EXPECT(o.out[0], 0, 1, 0x1.c4p127, -2);
        ops_free(&o);
    }
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------- */

#define S(...) { .rank = (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { __VA_ARGS__ } }
#define NONE   { .rank = -1 }
#define CONV   &(const struct stance_conv2d)
#define DECONV &(const struct stance_conv_transpose2d)
#define POOL   &(const struct stance_pool)
#define NORM   &(const struct stance_batch_norm)

static const struct refusal {
    const char         *op;
    const void         *attr;
    int                 n_in, n_out;
    stance_status       status;
    const char         *says;
    struct stance_shape in[5];
} refusals[] = {
    { "conv2d", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_SHAPE,
      "conv2d: weight [64,32,3,3] wants 32 channels, x is [2,16,8,8]", { S(2, 16, 8, 8), S(64, 32, 3, 3) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .groups = 4 }, 2, 1, STANCE_ERR_SHAPE,
      "wants 32 channels in each of 4 groups", { S(2, 16, 8, 8), S(64, 32, 3, 3) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .groups = 4 }, 2, 1, STANCE_ERR_SHAPE,
      "the 6 filters of weight [6,4,3,3] do not divide into 4 groups", { S(2, 16, 8, 8), S(6, 4, 3, 3) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .pad = { 1, 1 } }, 2, 1, STANCE_ERR_SHAPE,
      "weight [4,1,5,5] with dilation 1,1 does not fit into x [1,1,2,8] with padding 1,1", { S(1, 1, 2, 8), S(4, 1, 5, 5) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .dilation = { INT32_MAX, 1 } }, 2, 1, STANCE_ERR_SHAPE, "does not fit",
      { S(1, 1, 2, 8), S(4, 1, 5, 5) } },
    { "conv2d", CONV{ .stride = { 1, 0 } }, 2, 1, STANCE_ERR_RANGE, "stride 0 is outside [1, 2147483647]",
      { S(1, 1, 8, 8), S(1, 1, 3, 3) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .pad = { 0, -1 } }, 2, 1, STANCE_ERR_RANGE, "padding -1",
      { S(1, 1, 8, 8), S(1, 1, 3, 3) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .groups = -2 }, 2, 1, STANCE_ERR_RANGE, "groups -2",
      { S(1, 1, 8, 8), S(1, 1, 3, 3) } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 3, 1, STANCE_ERR_SHAPE, "bias is [3], it must be [4]",
      { S(1, 1, 8, 8), S(4, 1, 3, 3), S(3) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .kernel = { 3, 3 } }, 2, 1, STANCE_ERR_SHAPE, "says a 3x3 kernel",
      { S(1, 1, 8, 8), S(4, 1, 1, 1) } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_INVAL, "operand weight is missing", { S(1, 1, 8, 8), NONE } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 1, 1, STANCE_ERR_INVAL, "1 operands given, it takes 2 to 3", { S(1, 1, 8, 8) } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 2, 2, STANCE_ERR_INVAL, "2 results asked for, it gives 1",
      { S(1, 1, 8, 8), S(4, 1, 1, 1) } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_SHAPE, "x is [1,8,8], it must have 4 dimensions",
      { S(1, 8, 8), S(4, 1, 1, 1) } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_SHAPE, "x is [0,1,8,8], dimension 0 is empty",
      { S(0, 1, 8, 8), S(4, 1, 1, 1) } },
    { "conv2d", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_SHAPE, "too large",
      { S(1 << 30, 1 << 30, 8, 8), S(4, 1, 1, 1) } },
    { "conv2d", CONV{ .stride = { 1, 1 }, .pad = { INT32_MAX, INT32_MAX } }, 2, 1, STANCE_ERR_SHAPE, "too large",
      { S(1, 1, 8, 8), S(4, 1, 1, 1) } },
    { "conv2d_grad_data", CONV{ .stride = { 2, 2 }, .pad = { 1, 1 }, .size = { 8, 9 } }, 2, 1, STANCE_ERR_SHAPE,
      "x [1,3,8,9] and weight [2,3,3,3] give 5 positions in dimension 3", { S(1, 2, 4, 4), S(2, 3, 3, 3) } },
    { "conv2d_grad_data", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_RANGE, "height of x 0",
      { S(1, 2, 4, 4), S(2, 3, 3, 3) } },
    { "conv2d_grad_data", CONV{ .stride = { 1, 1 }, .groups = INT32_MAX, .size = { 4, 4 } }, 2, 1, STANCE_ERR_SHAPE, "too large",
      { S(1, 2, 4, 4), S(2, INT64_C(1) << 40, 1, 1) } },
    { "conv2d_grad_weight", CONV{ .stride = { 1, 1 }, .kernel = { 3, 3 } }, 2, 1, STANCE_ERR_SHAPE, "give 2 positions",
      { S(1, 2, 4, 4), S(1, 3, 4, 4) } },
    { "conv2d_grad_weight", CONV{ .stride = { 1, 1 }, .kernel = { 1, 1 } }, 2, 1, STANCE_ERR_SHAPE, "dy is [2,2,4,4], but x is",
      { S(2, 2, 4, 4), S(1, 3, 4, 4) } },
    { "conv2d_grad_weight", CONV{ .stride = { 1, 1 } }, 2, 1, STANCE_ERR_RANGE, "height of the kernel 0",
      { S(1, 2, 4, 4), S(1, 3, 4, 4) } },
    { "conv_transpose2d", DECONV{ .stride = { 2, 2 }, .output_pad = { 0, 2 } }, 2, 1, STANCE_ERR_RANGE,
      "output padding 2 is outside [0, 1]", { S(1, 2, 4, 4), S(2, 3, 4, 4) } },
    { "conv_transpose2d", DECONV{ .stride = { 2, 2 } }, 2, 1, STANCE_ERR_SHAPE, "wants 3 channels, x is [1,2,4,4]",
      { S(1, 2, 4, 4), S(3, 2, 4, 4) } },
    { "conv_transpose2d", DECONV{ .stride = { 1, 1 }, .pad = { 4, 4 } }, 2, 1, STANCE_ERR_SHAPE, "leaves nothing",
      { S(1, 2, 4, 4), S(2, 2, 4, 4) } },
    { "conv_transpose2d", DECONV{ .stride = { INT32_MAX, 1 } }, 2, 1, STANCE_ERR_SHAPE, "too large",
      { S(1, 2, INT32_MAX, 4), S(2, 2, 4, 4) } },
    { "conv_transpose2d_grad_data", DECONV{ .stride = { 2, 2 } }, 2, 1, STANCE_ERR_SHAPE, "but weight [3,2,4,4] gives [1,2,8,8]",
      { S(1, 2, 9, 8), S(3, 2, 4, 4) } },
    { "conv_transpose2d_grad_weight", DECONV{ .stride = { 2, 2 }, .kernel = { 4, 4 } }, 2, 1, STANCE_ERR_SHAPE,
      "dy is [1,2,9,9], but x [1,3,4,4] and a 4x4 kernel give [1,2,10,10]", { S(1, 2, 9, 9), S(1, 3, 4, 4) } },
    { "batch_norm", NORM{ .eps = 1e-5, .momentum = 0.1 }, 5, 5, STANCE_ERR_SHAPE, "running_var is [4], it must be [3]",
      { S(2, 3, 4, 4), S(3), S(3), S(3), S(4) } },
    { "batch_norm", NORM{ .eps = 0, .momentum = 0.1 }, 5, 5, STANCE_ERR_RANGE, "eps 0", { S(2, 3, 4, 4), S(3), S(3), S(3), S(3) } },
    { "batch_norm", NORM{ .eps = 1e-5, .momentum = NAN }, 5, 5, STANCE_ERR_RANGE, "momentum nan", { S(2, 3, 4, 4), S(3), S(3), S(3), S(3) } },
    { "batch_norm", NORM{ .eps = 1e-5, .momentum = 0.1 }, 5, 5, STANCE_ERR_SHAPE, "2 dimensions or more", { S(3), S(3), S(3), S(3), S(3) } },
    { "batch_norm", NORM{ .eps = 1e-5, .momentum = 0.1 }, 5, 4, STANCE_ERR_INVAL, "it gives 5", { S(2, 3), S(3), S(3), S(3), S(3) } },
    { "batch_norm_grad", NORM{ .eps = 1e-5, .momentum = 0.1 }, 5, 3, STANCE_ERR_SHAPE, "dy is [2,3,4], x is [2,3,5]",
      { S(2, 3, 4), S(2, 3, 5), S(3), S(3), S(3) } },
    { "relu_grad", NULL, 2, 1, STANCE_ERR_SHAPE, "dy is [2,3], y is [3,2]: they must be equal", { S(2, 3), S(3, 2) } },
    { "add", NULL, 3, 1, STANCE_ERR_SHAPE, "operand 0 is [2,3], operand 2 is [2,4]", { S(2, 3), S(2, 3), S(2, 4) } },
    { "add", NULL, 2, 1, STANCE_ERR_INVAL, "operand 1 is missing", { S(2, 3), NONE } },
    { "mul", NULL, 2, 1, STANCE_ERR_SHAPE, "a is [2,3], b is []", { S(2, 3), { .rank = 0 } } },
    { "scale", &(const struct stance_scale){ INFINITY }, 1, 1, STANCE_ERR_RANGE, "factor inf", { S(2) } },
    { "cast", &(const struct stance_cast){ 99 }, 1, 1, STANCE_ERR_RANGE, "type number 99", { S(2) } },
    { "upsample", &(const struct stance_upsample){ { 0, 2 }, 0 }, 1, 1, STANCE_ERR_RANGE, "vertical factor 0", { S(1, 1, 2, 2) } },
    { "upsample", &(const struct stance_upsample){ { 2, 2 }, 2 }, 1, 1, STANCE_ERR_RANGE, "bilinear 2", { S(1, 1, 2, 2) } },
    { "upsample_grad", &(const struct stance_upsample){ { 2, 3 }, 0 }, 1, 1, STANCE_ERR_SHAPE, "no multiple of the factors 2,3",
      { S(1, 1, 4, 4) } },
    { "max_pool", POOL{ { 3, 3 }, { 2, 2 }, { 2, 1 }, { 0, 0 } }, 1, 2, STANCE_ERR_RANGE, "padding 2 is outside [0, 1]", { S(1, 1, 8, 8) } },
    { "max_pool", POOL{ { 3, 3 }, { 2, 2 }, { 0, 0 }, { 0, 0 } }, 1, 2, STANCE_ERR_SHAPE, "a 3x3 kernel does not fit into x [1,1,2,8]",
      { S(1, 1, 2, 8) } },
    { "max_pool", POOL{ { 3, 3 }, { 2, 2 }, { 0, 0 }, { 0, 0 } }, 1, 2, STANCE_ERR_SHAPE, "more pixels than the index",
      { S(1, 1, 1 << 20, 1 << 20) } },
    { "max_pool_grad", POOL{ { 2, 2 }, { 2, 2 }, { 0, 0 }, { 8, 8 } }, 2, 1, STANCE_ERR_SHAPE, "x [1,1,8,8] gives [1,1,4,4]",
      { S(1, 1, 3, 4), S(1, 1, 3, 4) } },
    { "avg_pool_grad", POOL{ { 2, 2 }, { 2, 2 }, { 0, 0 }, { 0, 0 } }, 1, 1, STANCE_ERR_SHAPE, "x is [1,1,0,0]", { S(1, 1, 3, 4) } },
    { "avg_pool", POOL{ { 0, 2 }, { 2, 2 }, { 0, 0 }, { 0, 0 } }, 1, 1, STANCE_ERR_RANGE, "kernel 0", { S(1, 1, 3, 4) } },
    { "mse", NULL, 3, 1, STANCE_ERR_SHAPE, "weight is [2,3,4], but prediction [2,3,4,4]", { S(2, 3, 4, 4), S(2, 3, 4, 4), S(2, 3, 4) } },
    { "mse", NULL, 2, 1, STANCE_ERR_SHAPE, "prediction is [2,3], target is [2,4]", { S(2, 3), S(2, 4) } },
    { "mse_grad", NULL, 3, 1, STANCE_ERR_SHAPE, "d_loss is [1], it must have 0 dimensions", { S(1), S(2, 3), S(2, 3) } },
    { "reduce_sum", &(const struct stance_reduce){ 4, 0 }, 1, 1, STANCE_ERR_RANGE, "axes 0x4", { S(2, 3) } },
    { "broadcast", &(const struct stance_broadcast){ S(2, 3), 1 }, 1, 1, STANCE_ERR_SHAPE, "it must be [1,3] or [3]", { S(2) } },
    { "matmul", &(const struct stance_matmul){ 0, 0 }, 2, 1, STANCE_ERR_SHAPE, "a [2,3] has 3 columns, b [4,5] has 4 rows", { S(2, 3), S(4, 5) } },
    { "matmul", &(const struct stance_matmul){ 1, 0 }, 2, 1, STANCE_ERR_SHAPE, "a [2,3] transposed has 2 columns", { S(2, 3), S(3, 5) } },
    { "matmul", &(const struct stance_matmul){ 0, 0 }, 2, 1, STANCE_ERR_SHAPE, "leading dimensions", { S(7, 2, 3), S(6, 3, 5) } },
    { "matmul", &(const struct stance_matmul){ 0, 0 }, 2, 1, STANCE_ERR_SHAPE, "2 dimensions or more", { S(3), S(3, 5) } },
    { "concat", &(const struct stance_concat){ 2 }, 2, 1, STANCE_ERR_RANGE, "axis 2", { S(2, 3), S(2, 3) } },
    { "concat", &(const struct stance_concat){ 1 }, 2, 1, STANCE_ERR_SHAPE, "operand 1 is [3,3]", { S(2, 3), S(3, 3) } },
    { "slice", &(const struct stance_slice){ 0, 2, 3 }, 1, 1, STANCE_ERR_RANGE, "3 positions from 2 on leave dimension 0 of x [4]", { S(4) } },
    { "slice", &(const struct stance_slice){ 0, 1, INT64_MAX }, 1, 1, STANCE_ERR_RANGE, "leave", { S(4) } },
    { "slice_grad", &(const struct stance_slice){ 0, 3, 4 }, 1, 1, STANCE_ERR_RANGE, "does not fit at 3 of 4", { S(2) } },
    { "reshape", &(const struct stance_reshape){ S(2, 3) }, 1, 1, STANCE_ERR_SHAPE, "x [5] has not as many elements as [2,3]", { S(5) } },
    { "transpose", &(const struct stance_transpose){ { 0, 0 } }, 1, 1, STANCE_ERR_RANGE, "axis 0 of x [2,3] is named twice", { S(2, 3) } },
    { "transpose", &(const struct stance_transpose){ { 0, 2 } }, 1, 1, STANCE_ERR_RANGE, "axis 2", { S(2, 3) } },
    { "accumulate", NULL, 2, 1, STANCE_ERR_SHAPE, "not as many elements", { S(4), S(5) } },
    { "grad_check", NULL, 1, 1, STANCE_ERR_SHAPE, "1 dimension", { S(4, 2) } },
    { "commit", NULL, 3, 2, STANCE_ERR_SHAPE, "pending is [4], committed is [5]", { S(4), S(64), S(5) } },
};

START_TEST(refuses)
{
    const struct refusal *r   = &refusals[_i];
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_shape   shape[OPS_MAX];
    enum stance_type      type[OPS_MAX];
    struct ops            o = { .op = r->op, .attr = r->attr, .n_in = r->n_in, .n_out = r->n_out };

    for (int i = 0; i < r->n_in; i++)
        o.in[i].shape = r->in[i];
    ck_assert_int_eq(ops_infer(&o, shape, type, &err), r->status);
    ck_assert_msg(strstr(err.text, r->says) != NULL, "says: %s", err.text);
    ck_assert_msg(strncmp(err.text, r->op, strlen(r->op)) == 0, "says: %s", err.text);
    for (int i = 0; i < r->n_out; i++)
        ck_assert_int_eq(shape[i].rank, -1); /* written on success only */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops");
    TCase *tc    = tcase_create("all");

    tcase_add_test(tc, table_is_sorted_and_complete);
    tcase_add_test(tc, half_formats);
    tcase_add_test(tc, casts);
    tcase_add_loop_test(tc, convolution_is_its_definition, 0, sizeof convs / sizeof *convs);
    tcase_add_loop_test(tc, transposed_convolution_is_its_definition, 0, 4);
    tcase_add_loop_test(tc, convolution_cases, 0, 3);
    tcase_add_test(tc, running_statistics);
    tcase_add_test(tc, normalised_values);
    tcase_add_test(tc, loss_is_summed_wide);
    tcase_add_test(tc, unlabelled_point_has_no_loss);
    tcase_add_test(tc, upsampling);
    tcase_add_test(tc, max_pooling);
    tcase_add_test(tc, average_pooling);
    tcase_add_loop_test(tc, products, 0, 8);
    tcase_add_test(tc, element_wise);
    tcase_add_test(tc, sums_and_repeats);
    tcase_add_loop_test(tc, moves, 0, 6);
    tcase_add_test(tc, counter);
    tcase_add_test(tc, gradients_are_checked);
    tcase_add_test(tc, seed_and_accumulation);
    tcase_add_test(tc, commits);
    tcase_add_test(tc, packing_converts);
    tcase_add_loop_test(tc, refuses, 0, sizeof refusals / sizeof *refusals);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
