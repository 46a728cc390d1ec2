/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu device op by op against the ops' own plain C in binary64. Operands are rounded to the type at hand
 * before either sees them, so what differs is one rounding of each stored result, and sums in binary32. */
#include "compile/device.h"

#include "base/half.h"
#include "ops.h"
#include "runner.h"

#include "../plugins/optimizers/rounding.h"

#include <math.h>

static struct stance_registry *registry;
static struct stance_device   *device;
/* Set by a case: what ANY means, and whether Winograd kernels may be taken. */
static enum stance_type low;

static void open_device(const char *winograd, int threads)
{
    const struct stance_plugin *plugin;
    struct stance_error         err = STANCE_ERROR_INIT;
    void                       *config;

    ck_assert_msg(stance_registry_new(NULL, &registry, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_registry_find(registry, STANCE_KIND_DEVICE, "cpu", &plugin, &err) == STANCE_OK, "%s", err.text);
    config = stance_calloc(1, plugin->config_size);
    ck_assert_ptr_nonnull(config);
    ck_assert_int_eq(stance_param_defaults(plugin->params, config, &err), STANCE_OK);
    ck_assert_int_eq(stance_param_set(plugin->params, config, "winograd", winograd, &err), STANCE_OK);
    ck_assert_msg(stance_device_open(registry, "cpu", config, threads, &device, &err) == STANCE_OK, "%s", err.text);
}

static void close_device(void)
{
    stance_device_close(device);
    stance_registry_free(registry);
}

static double rounded(enum stance_type t, double v)
{
    return t == STANCE_TYPE_F16    ? stance_f64_of_half(stance_half_of_f64(v, STANCE_F16_FRACTION), STANCE_F16_FRACTION)
           : t == STANCE_TYPE_BF16 ? stance_f64_of_half(stance_half_of_f64(v, STANCE_BF16_FRACTION), STANCE_BF16_FRACTION)
           : t == STANCE_TYPE_F32  ? (double)(float)v
                                   : v;
}

/* Half the distance of 1 and the next number. */
static double half_ulp(enum stance_type t)
{
    return t == STANCE_TYPE_F16 ? 0x1p-11 : t == STANCE_TYPE_BF16 ? 0x1p-8 : 0x1p-24;
}

/* What a value is to the device. MASTER: a weight that a low op reads; it is packed. */
enum role { ACTIVATION, GRADIENT, INPUT, MASTER, VECTOR, BYTES, INDEX, WIDE_GRADIENT };

struct value {
    struct stance_tensor judge;  /* plain binary64 (or integers): what the reference sees */
    struct stance_tensor dev;    /* on the device */
    enum role            role;
    enum stance_type     type;
};

static enum stance_type type_of(enum role r)
{
    return r == VECTOR || r == INPUT || r == WIDE_GRADIENT ? STANCE_TYPE_F32
           : r == BYTES              ? STANCE_TYPE_U8
           : r == INDEX              ? STANCE_TYPE_I32
                                     : low;
}

static void *device_memory(size_t bytes)
{
    struct stance_error err = STANCE_ERROR_INIT;
    void               *p = NULL;

    ck_assert_int_eq(device->ops->alloc(device->state, bytes, &p, &err), STANCE_OK);
    return p;
}

static void set_form(struct stance_tensor *t, const struct stance_form *f)
{
    t->layout = f->layout;
    t->stored = f->stored;
    t->bytes  = f->bytes;
}

static struct stance_tensor device_tensor(enum stance_type type, struct stance_shape shape, enum role role)
{
    static const enum stance_purpose purpose[] = { STANCE_PURPOSE_ACTIVATION, STANCE_PURPOSE_GRADIENT, STANCE_PURPOSE_INPUT,
                                                   STANCE_PURPOSE_STATE, STANCE_PURPOSE_STATE, STANCE_PURPOSE_STATE,
                                                   STANCE_PURPOSE_ACTIVATION, STANCE_PURPOSE_GRADIENT };
    struct stance_tensor t = { .type = type, .shape = shape };
    struct stance_form   f;

    device->ops->form(device->state, &t, purpose[role], &f);
    set_form(&t, &f);
    return t;
}

/* Random in [-1, 1], rounded; on both sides. */
static struct value value_new(enum role role, struct stance_shape shape, uint64_t seed)
{
    struct value      v = { .role = role, .type = type_of(role) };
    struct stance_rng r = stance_rng(seed, STANCE_USE_OP, 0, 0);
    int64_t           n = stance_elements(&shape);

    v.judge = ops_tensor(STANCE_TYPE_F64, shape);
    for (int64_t i = 0; i < n; i++)
        ((double *)v.judge.data)[i] = rounded(v.type, 2 * stance_rng_uniform(&r) - 1);
    v.dev = device_tensor(role == MASTER ? STANCE_TYPE_F32 : v.type, shape, role);
    return v;
}

static struct value absent(void)
{
    struct value v = { .role = VECTOR };

    v.judge.shape.rank = v.dev.shape.rank = -1;
    return v;
}

/* Copies judge's numbers to the device, through binary32. */
static void upload(struct value *v)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_tensor host;

    if (v->judge.shape.rank < 0)
        return;
    host = ops_tensor(STANCE_TYPE_F32, v->judge.shape);
    for (int64_t i = 0, n = stance_elements(&host.shape); i < n; i++)
        ((float *)host.data)[i] = (float)((double *)v->judge.data)[i];
    v->dev.data = device_memory(v->dev.bytes);
    ck_assert_msg(device->ops->reorder(device->state, &v->dev, &host, &err) == STANCE_OK, "%s", err.text);
    stance_free(host.data);
}

static struct stance_tensor download(const struct stance_tensor *t)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_tensor host = ops_tensor(STANCE_TYPE_F32, t->shape);

    ck_assert_msg(device->ops->reorder(device->state, &host, t, &err) == STANCE_OK, "%s", err.text);
    return host;
}

static void value_free(struct value *v)
{
    stance_free(v->judge.data);
    if (v->dev.data != NULL)
        device->ops->release(device->state, v->dev.data, v->dev.bytes);
}

#define N_MAX 48

struct device_run {
    struct stance_tensor in[N_MAX], out[N_MAX];
    void  *packed[N_MAX], *workspace;
    size_t packed_bytes[N_MAX], workspace_bytes;
    int    n_in, n_out;
};

static stance_status launch(struct stance_request *q, const struct stance_call *call)
{
    struct stance_error err = STANCE_ERROR_INIT;
    void               *kernel = NULL;
    stance_status       status;

    ck_assert_msg(device->ops->prepare(device->state, q, &kernel, &err) == STANCE_OK, "%s: %s", q->op, err.text);
    status = device->ops->launch(device->state, kernel, call);
    /* Once more, for kernels that keep something from the first time. */
    if (status == STANCE_OK && strcmp(q->op, "accumulate") != 0 && strcmp(q->op, "norm_sum") != 0
        && strcmp(q->op, "batch_norm") != 0 && strncmp(q->op, "optimizer_", 10) != 0)
        status = device->ops->launch(device->state, kernel, call);
    device->ops->dispose(device->state, kernel);
    return status;
}

/* A node of the compiler's own: pack, reorder. */
static void simple(const char *op, const struct stance_tensor *in, int n_in, const struct stance_tensor *out, int n_out)
{
    struct stance_form    fi[4], fo[4];
    int32_t               alias[4] = { -1, -1, -1, -1 };
    struct stance_request q = { sizeof q, op, stance_builtin_op(op), NULL, in, out, n_in, n_out, true };
    struct stance_offer   o = { sizeof o, 0, fi, fo, alias };
    struct stance_call    call = { .size = sizeof call, .in = in, .out = out, .n_in = n_in, .n_out = n_out };

    ck_assert_msg(device->ops->offer(device->state, &q, &o), "%s is declined", op);
    if (o.workspace > 0)
        call.workspace = device_memory(o.workspace);
    ck_assert_int_eq(launch(&q, &call), STANCE_OK);
    if (o.workspace > 0)
        device->ops->release(device->state, call.workspace, o.workspace);
}

/* Runs one op as the compiler would. Results get default forms by their roles unless the device changes them;
 * r->out keeps them. @return false: declined */
static bool run_on_device(const char *op, const void *attr, struct value *in, int n_in, const enum role *out_role,
                          const struct stance_shape *out_shape, int n_out, struct device_run *r)
{
    struct stance_form    fi[N_MAX], fo[N_MAX];
    int32_t               alias[N_MAX];
    struct stance_request q = { sizeof q, op, stance_builtin_op(op), attr, r->in, r->out, n_in, n_out, true };
    struct stance_offer   o = { sizeof o, 0, fi, fo, alias };
    struct stance_call    call = { .size = sizeof call, .attr = attr, .in = r->in, .out = r->out, .n_in = n_in, .n_out = n_out };

    memset(r, 0, sizeof *r);
    r->n_in  = n_in;
    r->n_out = n_out;
    for (int i = 0; i < n_in; i++) {
        r->in[i] = in[i].dev;
        if (in[i].role == MASTER) /* the operand is the low copy */
            r->in[i] = device_tensor(low, in[i].dev.shape, MASTER);
        fi[i] = (struct stance_form){ r->in[i].layout, r->in[i].stored, r->in[i].bytes };
    }
    for (int i = 0; i < n_out; i++) {
        enum stance_type t = type_of(out_role[i]);

        if (out_shape[i].rank < 0)
            r->out[i].shape.rank = -1;
        else
            r->out[i] = device_tensor(t, out_shape[i], out_role[i] == VECTOR ? GRADIENT : out_role[i]);
        fo[i]    = (struct stance_form){ r->out[i].layout, r->out[i].stored, r->out[i].bytes };
        alias[i] = -1;
    }
    if (!device->ops->offer(device->state, &q, &o))
        return false;
    for (int i = 0; i < n_in; i++) {
        struct stance_tensor packed = r->in[i];

        if (in[i].role != MASTER) {
            ck_assert(fi[i].layout == r->in[i].layout && fi[i].stored == r->in[i].stored);
            continue;
        }
        set_form(&packed, &fi[i]);
        packed.data        = device_memory(packed.bytes);
        r->packed[i]       = packed.data;
        r->packed_bytes[i] = packed.bytes;
        simple("pack", &in[i].dev, 1, &packed, 1);
        r->in[i] = packed;
    }
    for (int i = 0; i < n_out; i++) {
        ck_assert_msg(alias[i] < n_in, "%s: alias", op);
        set_form(&r->out[i], &fo[i]);
        if (r->out[i].shape.rank >= 0)
            r->out[i].data = device_memory(r->out[i].bytes);
    }
    /* A kernel that reads what it has not written, or writes where it must not, is seen by this. */
    if (o.workspace > 0) {
        call.workspace = r->workspace = device_memory(o.workspace);
        r->workspace_bytes            = o.workspace;
        memset(call.workspace, 0xff, o.workspace);
    }
    for (int i = 0; i < n_out; i++)
        if (r->out[i].shape.rank >= 0)
            memset(r->out[i].data, 0xff, r->out[i].bytes);
    ck_assert_int_eq(launch(&q, &call), STANCE_OK);
    return true;
}

static void run_free(struct device_run *r)
{
    for (int i = 0; i < r->n_in; i++)
        if (r->packed[i] != NULL)
            device->ops->release(device->state, r->packed[i], r->packed_bytes[i]);
    for (int i = 0; i < r->n_out; i++)
        if (r->out[i].data != NULL)
            device->ops->release(device->state, r->out[i].data, r->out[i].bytes);
    if (r->workspace != NULL)
        device->ops->release(device->state, r->workspace, r->workspace_bytes);
}

/* Padding of blocked results must be zero: downstream kernels count on it. */
static void check_padding(const char *what, const struct stance_tensor *t)
{
    struct stance_tensor host, back = *t;
    struct stance_error  err = STANCE_ERROR_INIT;

    if (t->layout == 0 || t->stored == STANCE_TYPE_U8)
        return;
    host      = download(t);
    back.type = t->stored; /* weight gradients of a bf16 run are wide, and are not to be rounded here */
    back.data = device_memory(t->bytes);
    ck_assert_int_eq(device->ops->reorder(device->state, &back, &host, &err), STANCE_OK);
    ck_assert_msg(memcmp(back.data, t->data, t->bytes) == 0, "%s: padding is not zero", what);
    device->ops->release(device->state, back.data, t->bytes);
    stance_free(host.data);
}

/* |device - judge| <= relative |judge| + absolute, element by element. */
static void compare(const char *what, const struct stance_tensor *dev, const double *want, double relative, double absolute)
{
    struct stance_tensor got = download(dev);

    for (int64_t i = 0, n = stance_elements(&got.shape); i < n; i++) {
        double g = ((float *)got.data)[i];

        ck_assert_msg(fabs(g - want[i]) <= relative * fabs(want[i]) + absolute,
                      "%s %s: element %lld of %lld is %.9g, not %.9g (off by %.3g, allowed %.3g)", what,
                      stance_type_word(low), (long long)i, (long long)n, g, want[i], fabs(g - want[i]),
                      relative * fabs(want[i]) + absolute);
    }
    stance_free(got.data);
    check_padding(what, dev);
}

static struct stance_tensor judged(const char *op, const void *attr, struct value *in, int n_in, struct stance_shape shape)
{
    struct stance_tensor t[N_MAX], out = ops_tensor(STANCE_TYPE_F64, shape);
    struct stance_call   call = { .size = sizeof call, .attr = attr, .in = t, .out = &out, .n_in = n_in, .n_out = 1 };
    const struct stance_op_ops *ops = stance_builtin_op(op);

    for (int i = 0; i < n_in; i++)
        t[i] = in[i].judge;
    if (ops->workspace != NULL)
        call.workspace = stance_calloc(ops->workspace(&call) + 1, 1);
    ck_assert_int_eq(ops->reference(&call), STANCE_OK);
    stance_free(call.workspace);
    return out;
}

static const enum stance_type lows[] = { STANCE_TYPE_F32, STANCE_TYPE_BF16, STANCE_TYPE_F16 };
#define N_LOWS 3

/* ---- convolutions ------------------------------------------------------------------------------- */

struct conv_case { int n, c, o, h, w, k, stride, pad, dilation, groups; bool bias; const char *winograd; };

static const struct conv_case conv_cases[] = {
    { 2, 3, 64, 16, 12, 3, 2, 1, 1, 1, false, "auto" },
    { 1, 3, 8, 9, 7, 7, 2, 3, 1, 1, false, "auto" },
    { 2, 32, 32, 12, 9, 3, 1, 1, 1, 1, false, "off" },
    { 5, 32, 32, 16, 12, 3, 1, 1, 1, 1, false, "auto" },
    { 2, 64, 64, 32, 24, 3, 1, 1, 1, 1, true, "auto" },
    { 2, 48, 48, 11, 13, 3, 2, 1, 1, 1, false, "auto" },
    { 2, 18, 36, 11, 13, 3, 1, 1, 1, 1, false, "auto" },
    { 5, 18, 18, 24, 20, 3, 1, 1, 1, 1, false, "auto" },
    { 1, 4, 8, 5, 6, 3, 1, 1, 1, 1, true, "auto" },
    { 2, 8, 4, 5, 6, 1, 1, 0, 1, 1, false, "auto" },
    { 2, 64, 32, 7, 5, 1, 1, 0, 1, 1, false, "auto" },
    { 2, 32, 17, 16, 12, 1, 1, 0, 1, 1, true, "auto" },
    { 1, 64, 64, 7, 7, 1, 2, 0, 1, 1, false, "auto" },
    { 1, 32, 3, 6, 5, 1, 1, 0, 1, 1, true, "auto" },
    { 1, 16, 32, 9, 9, 3, 1, 2, 2, 1, false, "auto" },
    { 1, 32, 64, 8, 8, 3, 1, 1, 1, 2, false, "auto" },
    { 1, 32, 32, 1, 20, 3, 1, 0, 1, 1, true, "auto" },
};
#define N_CONV (int)(sizeof conv_cases / sizeof *conv_cases)

/* sum |terms| of a linear op: the reference on magnitudes. */
static double largest_sum(const char *op, const void *attr, struct value *in, int n_in, struct stance_shape shape)
{
    struct value         m[3];
    struct stance_tensor t;
    double               most = 0;

    for (int i = 0; i < n_in; i++) {
        m[i] = in[i];
        if (in[i].judge.shape.rank < 0)
            continue;
        m[i].judge = ops_tensor(STANCE_TYPE_F64, in[i].judge.shape);
        for (int64_t j = 0; j < stance_elements(&in[i].judge.shape); j++)
            ((double *)m[i].judge.data)[j] = fabs(((double *)in[i].judge.data)[j]);
    }
    t = judged(op, attr, m, n_in, shape);
    for (int64_t i = 0; i < stance_elements(&shape); i++)
        most = fmax(most, ((double *)t.data)[i]);
    stance_free(t.data);
    for (int i = 0; i < n_in; i++)
        if (in[i].judge.shape.rank >= 0)
            stance_free(m[i].judge.data);
    return most;
}

/* Tolerance: one rounding of the result, and for sums in binary32 the statistical bound
 * 2^-24 sqrt(terms) sum |terms|, under sum |terms| <= terms: 4 2^-24 sum|terms| covers direct kernels of up
 * to some thousand terms in blocked order; Winograd's transforms lose a factor of 8 more
 * (spec/cpu-training.md 5). Operands of binary16 that convolutions see in binary32 are the same numbers. */
static void check_linear(const char *op, const void *attr, struct value *in, int n_in, enum role out_role,
                         struct stance_shape out_shape)
{
    bool                 weights = strstr(op, "grad_weight") != NULL;
    struct device_run    r;
    struct stance_tensor want = judged(op, attr, in, n_in, out_shape);
    bool                 taken = run_on_device(op, attr, in, n_in, &out_role, &out_shape, 1, &r);
    /* bf16 products leave weight gradients in binary32. */
    enum stance_type     t = weights && low == STANCE_TYPE_BF16 ? STANCE_TYPE_F32 : low;

    ck_assert_msg(taken, "%s is declined", op);
    compare(op, &r.out[0], want.data, half_ulp(t) * 1.01,
            32 * 0x1p-24 * largest_sum(op, attr, in, n_in, out_shape) + (t == STANCE_TYPE_F16 ? 0x1p-25 : 0));
    stance_free(want.data);
    run_free(&r);
}

START_TEST(convolution)
{
    const struct conv_case *k = &conv_cases[_i / N_LOWS];
    struct stance_conv2d    a = { { k->stride, k->stride }, { k->pad, k->pad }, { k->dilation, k->dilation }, k->groups,
                                  { k->k, k->k }, { k->h, k->w } };
    int64_t                 kh = k->h == 1 ? 1 : k->k, reach_h = (kh - 1) * k->dilation + 1,
            reach_w = (k->k - 1) * k->dilation + 1;
    struct stance_shape x = SHAPE(k->n, k->c, k->h, k->w), w = SHAPE(k->o, k->c / k->groups, kh, k->k);
    struct stance_shape y = SHAPE(k->n, k->o, (k->h + 2 * k->pad - reach_h) / k->stride + 1,
                                  (k->w + 2 * k->pad - reach_w) / k->stride + 1);
    struct value v[3], g[2];

    low         = lows[_i % N_LOWS];
    a.kernel[0] = (int32_t)kh;
    open_device(k->winograd, 1);
    v[0] = value_new(ACTIVATION, x, 1);
    v[1] = value_new(MASTER, w, 2);
    v[2] = k->bias ? value_new(MASTER, SHAPE(k->o), 3) : absent();
    for (int i = 0; i < 3; i++)
        upload(&v[i]);
    check_linear("conv2d", &a, v, k->bias ? 3 : 2, ACTIVATION, y);

    g[0] = value_new(GRADIENT, y, 4);
    upload(&g[0]);
    g[1] = v[1];
    check_linear("conv2d_grad_data", &a, g, 2, GRADIENT, x);
    g[1] = v[0];
    check_linear("conv2d_grad_weight", &a, g, 2, GRADIENT, w);
    for (int i = 0; i < 3; i++)
        value_free(&v[i]);
    value_free(&g[0]);
    close_device();
}
END_TEST

struct deconv_case { int n, c, o, h, w, k, stride, pad, extra; bool bias; };

static const struct deconv_case deconv_cases[] = {
    { 2, 64, 32, 8, 6, 4, 2, 1, 0, false },
    { 1, 18, 17, 5, 4, 3, 2, 1, 1, true },
    { 1, 32, 32, 4, 4, 2, 2, 0, 0, false },
};
#define N_DECONV (int)(sizeof deconv_cases / sizeof *deconv_cases)

START_TEST(transposed_convolution)
{
    const struct deconv_case      *k = &deconv_cases[_i / N_LOWS];
    struct stance_conv_transpose2d a = { { k->stride, k->stride }, { k->pad, k->pad }, { k->extra, k->extra }, 1, { k->k, k->k } };
    struct stance_shape x = SHAPE(k->n, k->c, k->h, k->w), w = SHAPE(k->c, k->o, k->k, k->k);
    struct stance_shape y = SHAPE(k->n, k->o, (k->h - 1) * k->stride - 2 * k->pad + k->k + k->extra,
                                  (k->w - 1) * k->stride - 2 * k->pad + k->k + k->extra);
    struct value v[3], g[2];

    low = lows[_i % N_LOWS];
    open_device("auto", 1);
    v[0] = value_new(ACTIVATION, x, 1);
    v[1] = value_new(MASTER, w, 2);
    v[2] = k->bias ? value_new(MASTER, SHAPE(k->o), 3) : absent();
    for (int i = 0; i < 3; i++)
        upload(&v[i]);
    /* bf16 with a bias is rounded twice: after the primitive and after the bias. */
    if (!(k->bias && low == STANCE_TYPE_BF16))
        check_linear("conv_transpose2d", &a, v, k->bias ? 3 : 2, ACTIVATION, y);
    g[0] = value_new(GRADIENT, y, 4);
    upload(&g[0]);
    g[1] = v[1];
    check_linear("conv_transpose2d_grad_data", &a, g, 2, GRADIENT, x);
    g[1] = v[0];
    check_linear("conv_transpose2d_grad_weight", &a, g, 2, GRADIENT, w);
    for (int i = 0; i < 3; i++)
        value_free(&v[i]);
    value_free(&g[0]);
    close_device();
}
END_TEST

/* ---- the simple ops -------------------------------------------------------------------------------- */

static const int64_t plane_shapes[][4] = { { 2, 17, 8, 6 }, { 1, 4, 5, 7 }, { 5, 32, 9, 4 }, { 2, 3, 6, 6 } };
#define N_PLANES (int)(sizeof plane_shapes / sizeof *plane_shapes)

static void check_simple(const char *op, const void *attr, struct value *in, int n_in, enum role role, struct stance_shape shape,
                         double absolute)
{
    struct stance_tensor want = judged(op, attr, in, n_in, shape);
    struct device_run    r;

    ck_assert_msg(run_on_device(op, attr, in, n_in, &role, &shape, 1, &r), "%s is declined", op);
    compare(op, &r.out[0], want.data, half_ulp(role == VECTOR || role == WIDE_GRADIENT ? STANCE_TYPE_F32 : low) * 1.01,
            absolute + (low == STANCE_TYPE_F16 ? 0x1p-25 : 0));
    stance_free(want.data);
    run_free(&r);
}

START_TEST(element_wise)
{
    struct stance_shape s = ops_shape(4, plane_shapes[_i / N_LOWS]);
    struct value        v[3], g[2];

    low = lows[_i % N_LOWS];
    open_device("auto", 1);
    for (int i = 0; i < 3; i++) {
        v[i] = value_new(ACTIVATION, s, 10 + (uint64_t)i);
        upload(&v[i]);
    }
    check_simple("relu", NULL, v, 1, ACTIVATION, s, 0);
    check_simple("add", NULL, v, 3, ACTIVATION, s, 4 * 0x1p-24);
    g[0] = value_new(GRADIENT, s, 20);
    upload(&g[0]);
    g[1] = v[0];
    check_simple("relu_grad", NULL, g, 2, GRADIENT, s, 0);
    value_free(&g[0]);
    for (int i = 0; i < 3; i++)
        value_free(&v[i]);
    close_device();
}
END_TEST

START_TEST(pooling)
{
    static const struct stance_pool kinds[] = { { { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0 } }, { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 0, 0 } } };
    struct stance_shape  s = SHAPE(2, 18, 11, 8), out[2];
    struct stance_pool   a = kinds[_i / N_LOWS];
    enum role            roles[2] = { ACTIVATION, INDEX };
    struct value         v, g;
    struct device_run    r, back;
    struct stance_tensor want[2], t[2], dx, dy;
    struct stance_call   call = { .size = sizeof call, .attr = &a, .in = t, .out = want, .n_in = 1, .n_out = 2 };
    struct stance_form   fi[2], fo[1];
    int32_t              alias[1] = { -1 };
    struct stance_request q = { sizeof q, "max_pool_grad", NULL, &a, back.in, back.out, 2, 1, true };
    struct stance_offer  o = { sizeof o, 0, fi, fo, alias };

    low = lows[_i % N_LOWS];
    open_device("auto", 1);
    a.size[0] = 11, a.size[1] = 8;
    for (int i = 0; i < 2; i++)
        out[i] = SHAPE(2, 18, (11 + 2 * a.pad[0] - a.kernel[0]) / a.stride[0] + 1, (8 + 2 * a.pad[1] - a.kernel[1]) / a.stride[1] + 1);
    v = value_new(ACTIVATION, s, 1);
    /* Ties: the first one counts. */
    for (int64_t i = 0; i < stance_elements(&s); i++)
        ((double *)v.judge.data)[i] = rint(((double *)v.judge.data)[i] * 4) / 4;
    upload(&v);
    g = value_new(GRADIENT, out[0], 2);
    upload(&g);
    want[0] = ops_tensor(STANCE_TYPE_F64, out[0]);
    want[1] = ops_tensor(STANCE_TYPE_I32, out[0]);
    t[0]    = v.judge;
    ck_assert_int_eq(stance_builtin_op("max_pool")->reference(&call), STANCE_OK);
    ck_assert(run_on_device("max_pool", &a, &v, 1, roles, out, 2, &r));
    compare("max_pool", &r.out[0], want[0].data, 0, 0);

    dx   = ops_tensor(STANCE_TYPE_F64, s);
    dy   = g.judge;
    t[0] = dy;
    t[1] = want[1];
    call.out   = &dx;
    call.n_in  = 2;
    call.n_out = 1;
    ck_assert_int_eq(stance_builtin_op("max_pool_grad")->reference(&call), STANCE_OK);
    memset(&back, 0, sizeof back);
    back.in[0]  = g.dev;
    back.in[1]  = r.out[1];
    back.out[0] = device_tensor(low, s, GRADIENT);
    back.out[0].data = device_memory(back.out[0].bytes);
    ck_assert(device->ops->offer(device->state, &q, &o));
    ck_assert_int_eq(fi[1].layout, r.out[1].layout);
    call.in  = back.in;
    call.out = back.out;
    ck_assert_int_eq(launch(&q, &call), STANCE_OK);
    compare("max_pool_grad", &back.out[0], dx.data, half_ulp(low) * 1.01, 8 * 0x1p-24);
    device->ops->release(device->state, back.out[0].data, back.out[0].bytes);
    stance_free(dx.data);
    stance_free(want[0].data);
    stance_free(want[1].data);
    run_free(&r);
    value_free(&v);
    value_free(&g);
    close_device();
}
END_TEST

START_TEST(upsampling)
{
    struct stance_upsample a = { { 2, 2 }, 0 };
    struct stance_shape    s = SHAPE(2, 18, 3, 5), big;
    struct value           v, g;

    low = lows[_i % N_LOWS];
    if (_i / N_LOWS == 1)
        a.factor[0] = 3, a.factor[1] = 1;
    big = SHAPE(2, 18, 3 * a.factor[0], 5 * a.factor[1]);
    open_device("auto", 1);
    v = value_new(ACTIVATION, s, 1);
    g = value_new(GRADIENT, big, 2);
    upload(&v);
    upload(&g);
    check_simple("upsample", &a, &v, 1, ACTIVATION, big, 0);
    check_simple("upsample_grad", &a, &g, 1, GRADIENT, s, 8 * 0x1p-24);
    value_free(&v);
    value_free(&g);
    close_device();
}
END_TEST

START_TEST(mean_squared_error)
{
    struct stance_shape s = SHAPE(2, 17, 16, 12);
    struct value        v[3], g[4];
    int                 n = _i / N_LOWS == 0 ? 3 : 2;

    low = lows[_i % N_LOWS];
    open_device("auto", 1);
    v[0] = value_new(ACTIVATION, s, 1);
    v[1] = value_new(INPUT, s, 2);
    v[2] = value_new(INPUT, SHAPE(2, 17, 1), 3);
    for (int i = 0; i < 3; i++)
        upload(&v[i]);
    check_simple("mse", NULL, v, n, VECTOR, SCALAR, 64 * 0x1p-24);
    g[0] = value_new(VECTOR, SCALAR, 4);
    ((double *)g[0].judge.data)[0] = 1024;
    upload(&g[0]);
    memcpy(g + 1, v, sizeof v);
    check_simple("mse_grad", NULL, g, n + 1, GRADIENT, s, 8 * 0x1p-24);
    check_simple("mse_grad", NULL, g, n + 1, WIDE_GRADIENT, s, 8 * 0x1p-24);
    value_free(&g[0]);
    for (int i = 0; i < 3; i++)
        value_free(&v[i]);
    close_device();
}
END_TEST

START_TEST(bias_gradient)
{
    struct stance_reduce a = { 1 | 4 | 8, 0 };
    struct value         g;

    low = lows[_i];
    open_device("auto", 1);
    g = value_new(GRADIENT, SHAPE(3, 17, 9, 7), 1);
    upload(&g);
    check_simple("reduce_sum", &a, &g, 1, GRADIENT, SHAPE(17), 3 * 9 * 7 * 0x1p-24);
    value_free(&g);
    close_device();
}
END_TEST

/* ---- batch normalisation and what is fused with it ---------------------------------------------------- */

struct norm_case { int n, c, h, w, n_norm, factor[4], n_plain, n_dy; bool relu, want_plain; };

static const struct norm_case norm_cases[] = {
    { 2, 32, 12, 9, 1, { 1 }, 0, 1, false, false },
    { 1, 17, 5, 7, 1, { 1 }, 0, 1, true, false },
    { 5, 48, 16, 12, 1, { 1 }, 0, 3, true, false },
    { 2, 64, 32, 48, 1, { 1 }, 1, 1, true, true },
    { 2, 18, 13, 11, 1, { 1 }, 1, 2, true, true },
    { 2, 32, 16, 8, 2, { 1, 1 }, 0, 1, true, false },
    { 2, 8, 16, 24, 3, { 2, 4, 8 }, 1, 5, true, true },
    { 1, 36, 8, 8, 4, { 1, 1, 2, 4 }, 1, 4, true, true },
    { 2, 4, 8, 72, 2, { 1, 8 }, 2, 1, true, true },
    { 2, 32, 8, 8, 1, { 2 }, 0, 1, false, false },
    { 1, 18, 8, 8, 2, { 2, 2 }, 0, 16, true, false },
    { 2, 17, 6, 5, 0, { 0 }, 2, 3, true, true },
    { 3, 32, 1, 1, 1, { 1 }, 0, 1, true, false },
};
#define N_NORM (int)(sizeof norm_cases / sizeof *norm_cases)

/* In binary64, by the ops that norm_sum stands for. stat[k] is mean and inv_std; state[k] what is folded. */
struct norm_judge { double *y, *state[4][4]; };

static void judge_norm(const struct norm_case *k, struct value *in, struct norm_judge *j)
{
    struct stance_batch_norm a = { .eps = 1e-5, .momentum = 0.1 };
    struct stance_shape      y = SHAPE(k->n, k->c, k->h, k->w);
    int64_t                  n = stance_elements(&y);

    j->y = stance_calloc((size_t)n, sizeof *j->y);
    for (int t = 0; t < k->n_norm; t++) {
        int                    f = k->factor[t];
        struct stance_upsample u = { { f, f }, 0 };
        struct stance_tensor   out[5], operands[5], big = ops_tensor(STANCE_TYPE_F64, y);
        struct stance_call     call = { .size = sizeof call, .attr = &a, .in = operands, .out = out, .n_in = 5, .n_out = 5 };

        for (int i = 0; i < 5; i++) {
            operands[i] = in[5 * t + i].judge;
            out[i]      = ops_tensor(STANCE_TYPE_F64, operands[i].shape);
        }
        ck_assert_int_eq(stance_builtin_op("batch_norm")->reference(&call), STANCE_OK);
        operands[0] = out[0];
        call        = (struct stance_call){ .size = sizeof call, .attr = &u, .in = operands, .out = &big, .n_in = 1, .n_out = 1 };
        ck_assert_int_eq(stance_builtin_op("upsample")->reference(&call), STANCE_OK);
        for (int64_t i = 0; i < n; i++)
            j->y[i] += ((double *)big.data)[i];
        for (int i = 0; i < 4; i++)
            j->state[t][i] = out[1 + i].data;
        stance_free(out[0].data);
        stance_free(big.data);
    }
    for (int p = 0; p < k->n_plain; p++)
        for (int64_t i = 0; i < n; i++)
            j->y[i] += ((double *)in[5 * k->n_norm + p].judge.data)[i];
    if (k->relu)
        for (int64_t i = 0; i < n; i++)
            j->y[i] = fmax(j->y[i], 0);
}

static double largest(const double *v, int64_t n)
{
    double m = 0;

    for (int64_t i = 0; i < n; i++)
        m = fmax(m, fabs(v[i]));
    return m;
}

static void check_norm_grad(const struct norm_case *k, struct value *in, const struct norm_judge *j,
                            const struct device_run *forward)
{
    struct stance_norm_sum_grad b = { .n_dy = k->n_dy, .n_norm = k->n_norm, .want_plain = k->want_plain, .relu = k->relu };
    struct stance_shape  y = SHAPE(k->n, k->c, k->h, k->w), c = SHAPE(k->c), out_shape[13];
    enum role            out_role[13];
    int64_t              n = stance_elements(&y);
    struct value         v[N_MAX];
    struct stance_tensor device_y = download(&forward->out[0]);
    double              *g = stance_calloc((size_t)n, sizeof *g), eps = half_ulp(low);
    struct device_run    r;
    int                  n_in = 0, n_out = 0;

    memset(v, 0, sizeof v);
    for (int i = 0; i < k->n_dy; i++) {
        v[n_in] = value_new(GRADIENT, y, 100 + (uint64_t)i);
        upload(&v[n_in]);
        for (int64_t e = 0; e < n; e++)
            g[e] += ((double *)v[n_in].judge.data)[e];
        n_in++;
    }
    /* Where a value lies within rounding of zero either mask is right: the device's is taken. */
    for (int64_t e = 0; k->relu && e < n; e++)
        if (((float *)device_y.data)[e] <= 0)
            g[e] = 0;
    v[n_in] = absent();
    if (k->relu)
        v[n_in].dev = forward->out[1];
    n_in++;
    out_shape[n_out] = k->want_plain ? y : ABSENT;
    out_role[n_out++] = GRADIENT;
    for (int t = 0; t < k->n_norm; t++) {
        b.factor[t] = k->factor[t];
        v[n_in++]   = in[5 * t];
        v[n_in++]   = in[5 * t + 1];
        v[n_in].role = v[n_in + 1].role = VECTOR;
        v[n_in++].dev = forward->out[2 + 4 * t + 2];
        v[n_in++].dev = forward->out[2 + 4 * t + 3];
        out_shape[n_out] = in[5 * t].judge.shape;
        out_shape[n_out + 1] = out_shape[n_out + 2] = c;
        out_role[n_out++] = GRADIENT;
        out_role[n_out++] = VECTOR;
        out_role[n_out++] = VECTOR;
    }
    ck_assert_msg(run_on_device("norm_sum_grad", &b, v, n_in, out_role, out_shape, n_out, &r), "norm_sum_grad is declined");
    if (k->want_plain)
        compare("norm_sum_grad: plain", &r.out[0], g, eps * 1.01, k->n_dy * 4 * 0x1p-24 + (low == STANCE_TYPE_F16 ? 0x1p-25 : 0));
    for (int t = 0; t < k->n_norm; t++) {
        int                      f = k->factor[t];
        struct stance_upsample   u = { { f, f }, 0 };
        struct stance_batch_norm a = { .eps = 1e-5, .momentum = 0.1 };
        struct stance_tensor     operands[5], out[3], gt = ops_tensor(STANCE_TYPE_F64, y);
        struct stance_call call = { .size = sizeof call, .attr = &u, .in = &gt, .out = operands, .n_in = 1, .n_out = 1 };
        struct stance_tensor magnitude = ops_tensor(STANCE_TYPE_F64, in[5 * t].judge.shape);
        double *dz, most_g, *abs_sum = stance_calloc((size_t)k->c, sizeof *abs_sum);
        int64_t m, plane;

        for (int64_t e = 0; e < n; e++)
            ((double *)gt.data)[e] = fabs(g[e]);
        call.out = &magnitude;
        ck_assert_int_eq(stance_builtin_op("upsample_grad")->reference(&call), STANCE_OK);
        call.out = operands;

        memcpy(gt.data, g, (size_t)n * sizeof *g);
        operands[0] = ops_tensor(STANCE_TYPE_F64, in[5 * t].judge.shape);
        ck_assert_int_eq(stance_builtin_op("upsample_grad")->reference(&call), STANCE_OK);
        operands[1] = in[5 * t].judge;
        operands[2] = in[5 * t + 1].judge;
        operands[3] = operands[4] = ops_tensor(STANCE_TYPE_F64, c);
        operands[3].data          = j->state[t][2];
        stance_free(operands[4].data);
        operands[4].data = j->state[t][3];
        out[0] = ops_tensor(STANCE_TYPE_F64, in[5 * t].judge.shape);
        out[1] = ops_tensor(STANCE_TYPE_F64, c);
        out[2] = ops_tensor(STANCE_TYPE_F64, c);
        call = (struct stance_call){ .size = sizeof call, .attr = &a, .in = operands, .out = out, .n_in = 5, .n_out = 3 };
        ck_assert_int_eq(stance_builtin_op("batch_norm_grad")->reference(&call), STANCE_OK);
        m     = stance_elements(&in[5 * t].judge.shape);
        plane = m / k->n / k->c;
        dz    = out[0].data;
        most_g = largest(operands[0].data, m);
        for (int64_t e = 0; e < m; e++) {
            int64_t ch = e / plane % k->c;

            abs_sum[ch] += ((double *)magnitude.data)[e]
                           * fmax(1, fabs((((double *)operands[1].data)[e] - j->state[t][2][ch]) * j->state[t][3][ch]));
        }
        /* Roundings that reach dz: g when it is stored and again when blocks are summed, dz itself; each half
         * a unit of the largest g times a = weight inv_std. */
        for (int64_t ch = 0; ch < k->c; ch++) {
            double scale = fabs(((double *)operands[2].data)[ch]) * j->state[t][3][ch];

            for (int64_t e = 0; e < m; e++)
                if (e / plane % k->c == ch)
                    dz[e] /= fmax(scale * most_g, 1e-30);
        }
        {
            struct stance_tensor got = download(&r.out[1 + 3 * t]);

            for (int64_t e = 0; e < m; e++) {
                int64_t ch = e / plane % k->c;
                double  scale = fabs(((double *)operands[2].data)[ch]) * j->state[t][3][ch] * most_g;
                double  d = fabs(((float *)got.data)[e] - dz[e] * fmax(scale, 1e-30));
                double  allowed = scale * (6 * eps + 64 * 0x1p-24) * f * f + (low == STANCE_TYPE_F16 ? 0x1p-24 * (1 + scale / most_g * f * f) : 1e-12);

                ck_assert_msg(d <= allowed, "norm_sum_grad %s case of %d: dz %d element %lld is %.9g, not %.9g (allowed %.3g)",
                              stance_type_word(low), k->c, t, (long long)e, ((float *)got.data)[e], dz[e] * scale, allowed);
            }
            stance_free(got.data);
            check_padding("dz", &r.out[1 + 3 * t]);
        }
        for (int w = 0; w < 2; w++) {
            struct stance_tensor got = download(&r.out[2 + 3 * t + w]);

            for (int64_t ch = 0; ch < k->c; ch++) {
                double d = fabs(((float *)got.data)[ch] - ((double *)out[1 + w].data)[ch]);

                ck_assert_msg(d <= abs_sum[ch] * (2 * eps + 64 * 0x1p-24) + 1e-6, "norm_sum_grad %s case of %d: d%s %d channel %lld off by %.3g of %.3g",
                              stance_type_word(low), k->c, w == 0 ? "weight" : "bias", t, (long long)ch, d, abs_sum[ch]);
            }
            stance_free(got.data);
        }
        for (int i = 0; i < 3; i++)
            stance_free(out[i].data);
        stance_free(operands[0].data);
        stance_free(gt.data);
        stance_free(magnitude.data);
        stance_free(abs_sum);
    }
    for (int i = 0; i < k->n_dy; i++)
        value_free(&v[i]);
    run_free(&r);
    stance_free(device_y.data);
    stance_free(g);
}

START_TEST(norm_sum)
{
    const struct norm_case *k = &norm_cases[_i / N_LOWS];
    struct stance_norm_sum  a = { .n_norm = k->n_norm, .n_plain = k->n_plain, .relu = k->relu, .eps = 1e-5, .momentum = 0.1 };
    struct stance_shape     y = SHAPE(k->n, k->c, k->h, k->w), c = SHAPE(k->c), out_shape[18];
    enum role               out_role[18];
    struct value            v[24];
    struct norm_judge       j = { 0 };
    struct device_run       r;
    int                     n_in = 0, n_out = 0;
    double                  eps, most;

    low = lows[_i % N_LOWS];
    eps = half_ulp(low);
    open_device("auto", 1);
    out_shape[n_out]  = y;
    out_role[n_out++] = ACTIVATION;
    out_shape[n_out]  = k->relu ? y : ABSENT;
    out_role[n_out++] = BYTES;
    for (int t = 0; t < k->n_norm; t++) {
        a.factor[t] = k->factor[t];
        v[n_in++]   = value_new(ACTIVATION, SHAPE(k->n, k->c, k->h / k->factor[t], k->w / k->factor[t]), 7 * (uint64_t)t);
        for (int i = 1; i < 5; i++) {
            v[n_in] = value_new(VECTOR, c, 7 * (uint64_t)t + (uint64_t)i);
            if (i == 4)
                for (int64_t e = 0; e < k->c; e++)
                    ((double *)v[n_in].judge.data)[e] = fabs(((double *)v[n_in].judge.data)[e]);
            n_in++;
            out_shape[n_out]  = c;
            out_role[n_out++] = VECTOR;
        }
        /* A mean far from 0 is what E[x^2] - E[x]^2 would break on. */
        for (int64_t e = 0; e < stance_elements(&v[n_in - 5].judge.shape); e++)
            ((double *)v[n_in - 5].judge.data)[e] = rounded(low, ((double *)v[n_in - 5].judge.data)[e] + 3);
    }
    for (int p = 0; p < k->n_plain; p++)
        v[n_in++] = value_new(ACTIVATION, y, 50 + (uint64_t)p);
    for (int i = 0; i < n_in; i++)
        upload(&v[i]);
    judge_norm(k, v, &j);
    ck_assert_msg(run_on_device("norm_sum", &a, v, n_in, out_role, out_shape, n_out, &r), "norm_sum is declined");
    most = largest(j.y, stance_elements(&y));
    compare("norm_sum", &r.out[0], j.y, eps * 1.01, 64 * 0x1p-24 * (1 + most) + (low == STANCE_TYPE_F16 ? 0x1p-25 : 0));
    for (int t = 0; t < k->n_norm; t++) {
        static const char *const names[] = { "new_mean", "new_var", "mean", "inv_std" };

        for (int i = 0; i < 4; i++)
            compare(names[i], &r.out[2 + 4 * t + i], j.state[t][i], 1e-5, 1e-5);
    }
    check_norm_grad(k, v, &j, &r);
    run_free(&r);

    /* By running statistics. */
    a.inference = 1;
    out_shape[0] = y;
    for (int64_t e = 0; e < stance_elements(&y); e++)
        j.y[e] = 0;
    for (int t = 0; t < k->n_norm; t++)
        for (int64_t e = 0; e < stance_elements(&y); e++) {
            int     f = k->factor[t];
            int64_t x = e % k->w / f, row = e / k->w % k->h / f, plane = e / k->w / k->h, ch = plane % k->c;
            double  z = ((double *)v[5 * t].judge.data)[(plane * (k->h / f) + row) * (k->w / f) + x];

            j.y[e] += (z - ((double *)v[5 * t + 3].judge.data)[ch]) / sqrt(((double *)v[5 * t + 4].judge.data)[ch] + 1e-5)
                          * ((double *)v[5 * t + 1].judge.data)[ch] + ((double *)v[5 * t + 2].judge.data)[ch];
        }
    for (int64_t e = 0; e < stance_elements(&y); e++) {
        for (int p = 0; p < k->n_plain; p++)
            j.y[e] += ((double *)v[5 * k->n_norm + p].judge.data)[e];
        if (k->relu && j.y[e] < 0)
            j.y[e] = 0;
    }
    ck_assert_msg(run_on_device("norm_sum", &a, v, n_in, out_role, out_shape, 1, &r), "norm_sum is declined");
    most = largest(j.y, stance_elements(&y));
    compare("norm_sum, inference", &r.out[0], j.y, eps * 1.01, 64 * 0x1p-24 * (1 + most) + (low == STANCE_TYPE_F16 ? 0x1p-25 : 0));
    run_free(&r);

    for (int i = 0; i < n_in; i++)
        value_free(&v[i]);
    for (int t = 0; t < k->n_norm; t++)
        for (int i = 0; i < 4; i++)
            stance_free(j.state[t][i]);
    stance_free(j.y);
    close_device();
}
END_TEST

/* ---- binary16 as a GPU has it --------------------------------------------------------------------------- */

START_TEST(binary16_range)
{
    static const double cases[][2] = { /* operand of a sum with itself, what is stored */
        { 32752, 65504 }, { 32768, INFINITY }, { -32768, -INFINITY }, { 0x1p-24, 0x1p-23 }, { 0x1p-26, 0x1p-24 },
    };
    struct stance_shape s = SHAPE(1, 4, 1, 2);
    struct value        v;
    struct value        in[2];
    struct device_run   r;
    enum role           roles[] = { ACTIVATION, GRADIENT };

    low = STANCE_TYPE_F16;
    open_device("auto", 1);
    for (int g = 0; g < 2; g++) { /* stored in 16 bits, and as rounded binary32 */
        v = value_new(roles[g], s, 1);
        upload(&v);
        for (int i = 0; i < 5; i++) {
            struct stance_tensor got;

            for (int64_t e = 0; e < 8; e++)
                ((double *)v.judge.data)[e] = cases[i][0];
            device->ops->release(device->state, v.dev.data, v.dev.bytes);
            upload(&v);
            in[0] = in[1] = v;
            ck_assert(run_on_device("add", NULL, in, 2, &roles[g], &s, 1, &r));
            got = download(&r.out[0]);
            /* 2^-26 is no binary16 number: it was rounded to 0 on its way in. */
            ck_assert_double_eq(((float *)got.data)[3], i == 4 ? 0 : cases[i][1]);
            stance_free(got.data);
            run_free(&r);
        }
        value_free(&v);
    }
    close_device();
}
END_TEST

/* A convolution whose sums leave the range, and one whose sums are subnormal. */
START_TEST(binary16_convolution)
{
    struct stance_conv2d a = { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, { 1, 1 }, { 4, 4 } };
    struct stance_shape  x = SHAPE(1, 16, 4, 4), w = SHAPE(16, 16, 1, 1);
    static const double  values[][4] = { /* x, w; conv2d, conv2d_grad_weight (sums of 16 products) */
        { 128, 32, INFINITY, INFINITY }, { 128, 31.984375, 65504, 65504 }, { 0x1p-14, 0x1p-12, 0x1p-22, 0x1p-22 },
        { 0x1p-15, 0x1p-15, 0, 0 }, { 0x1p-14, 0x1.8p-15, 0x1p-24, 0x1p-24 },
    };
    struct value v[2], g[2];

    low = STANCE_TYPE_F16;
    open_device("auto", 1);
    for (int i = 0; i < 5; i++) {
        struct device_run    r;
        struct stance_tensor got;
        enum role            activation = ACTIVATION, gradient = GRADIENT;

        v[0] = value_new(ACTIVATION, x, 1);
        v[1] = value_new(MASTER, w, 2);
        g[0] = value_new(GRADIENT, x, 3);
        for (int64_t e = 0; e < 256; e++) {
            ((double *)v[0].judge.data)[e] = values[i][0];
            ((double *)v[1].judge.data)[e] = ((double *)g[0].judge.data)[e] = values[i][1];
        }
        upload(&v[0]);
        upload(&v[1]);
        upload(&g[0]);
        ck_assert(run_on_device("conv2d", &a, v, 2, &activation, &x, 1, &r));
        got = download(&r.out[0]);
        ck_assert_msg(((float *)got.data)[5] == values[i][2], "case %d: %g", i, ((float *)got.data)[5]);
        stance_free(got.data);
        run_free(&r);
        g[1] = v[0];
        ck_assert(run_on_device("conv2d_grad_weight", &a, g, 2, &gradient, &w, 1, &r));
        got = download(&r.out[0]);
        ck_assert_msg(((float *)got.data)[5] == values[i][3], "case %d, weights: %g", i, ((float *)got.data)[5]);
        stance_free(got.data);
        run_free(&r);
        /* The data gradient: sums of w w here, kept in binary32 but rounded. */
        g[1] = v[1];
        ck_assert(run_on_device("conv2d_grad_data", &a, g, 2, &gradient, &x, 1, &r));
        got = download(&r.out[0]);
        ck_assert_double_eq(((float *)got.data)[5], rounded(STANCE_TYPE_F16, 16 * values[i][1] * values[i][1]));
        stance_free(got.data);
        run_free(&r);
        value_free(&v[0]);
        value_free(&v[1]);
        value_free(&g[0]);
    }
    close_device();
}
END_TEST

/* ---- weights -------------------------------------------------------------------------------------------------- */

/* The form that the weight's gradient has is the master's; from there to the kernels' forms and back. */
START_TEST(packing)
{
    const struct conv_case *k = &conv_cases[_i / N_LOWS];
    struct stance_conv2d    a = { { k->stride, k->stride }, { k->pad, k->pad }, { k->dilation, k->dilation }, k->groups,
                                  { k->k, k->k }, { k->h, k->w } };
    int64_t                 kh = k->h == 1 ? 1 : k->k, reach_h = (kh - 1) * k->dilation + 1, reach_w = (k->k - 1) * k->dilation + 1;
    struct stance_shape x = SHAPE(k->n, k->c, k->h, k->w), w = SHAPE(k->o, k->c / k->groups, kh, k->k);
    struct stance_shape y = SHAPE(k->n, k->o, (k->h + 2 * k->pad - reach_h) / k->stride + 1,
                                  (k->w + 2 * k->pad - reach_w) / k->stride + 1);
    struct value         v[2], g[2], weight, master;
    struct stance_tensor host, got;
    struct device_run    r;
    struct stance_error  err = STANCE_ERROR_INIT;
    enum role            gradient = GRADIENT;

    low         = lows[_i % N_LOWS];
    a.kernel[0] = (int32_t)kh;
    open_device("auto", 1);
    v[0] = value_new(ACTIVATION, x, 1);
    g[0] = value_new(GRADIENT, y, 2);
    upload(&v[0]);
    upload(&g[0]);
    g[1] = v[0];
    ck_assert(run_on_device("conv2d_grad_weight", &a, g, 2, &gradient, &w, 1, &r));
    weight          = value_new(MASTER, w, 3);
    master          = weight;
    master.dev      = r.out[0];
    master.dev.type = STANCE_TYPE_F32;
    host            = ops_tensor(STANCE_TYPE_F64, w);
    /* Not low numbers, so that the packing has to round. */
    for (int64_t i = 0; i < stance_elements(&w); i++)
        ((double *)host.data)[i] = (float)((double)(i % 977) / 1953 - 0.25);
    ck_assert_msg(device->ops->reorder(device->state, &master.dev, &host, &err) == STANCE_OK, "%s", err.text);
    got = ops_tensor(STANCE_TYPE_F64, w);
    ck_assert_msg(device->ops->reorder(device->state, &got, &master.dev, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(memcmp(got.data, host.data, got.bytes), 0);
    for (int which = 0; which < 2; which++) {
        const char          *op = which == 0 ? "conv2d" : "conv2d_grad_data";
        enum role            role = which == 0 ? ACTIVATION : GRADIENT;
        struct stance_tensor want = ops_tensor(STANCE_TYPE_F32, w);
        struct device_run    packed;

        v[0] = which == 0 ? v[0] : g[0];
        v[1] = master;
        ck_assert(run_on_device(op, &a, v, 2, &role, which == 0 ? &y : &x, 1, &packed));
        for (int64_t i = 0; i < stance_elements(&w); i++)
            ((float *)want.data)[i] = (float)rounded(low, ((double *)host.data)[i]);
        {
            struct stance_tensor back = download(&packed.in[1]);

            ck_assert_msg(memcmp(back.data, want.data, want.bytes) == 0, "%s: packed weights differ", op);
            stance_free(back.data);
        }
        check_padding(op, &packed.in[1]);
        stance_free(want.data);
        run_free(&packed);
        v[0] = g[1];
    }
    stance_free(host.data);
    stance_free(got.data);
    value_free(&weight);
    run_free(&r);
    value_free(&g[1]);
    value_free(&g[0]);
    close_device();
}
END_TEST

/* Doubles, as files hold them, meet blocks as binary32 numbers do. */
START_TEST(doubles_and_blocks)
{
    const struct stance_shape s = SHAPE(2, 19, 3, 5);
    struct value              v;
    struct stance_tensor      wide = ops_tensor(STANCE_TYPE_F64, s), other, back;
    struct stance_error       err = STANCE_ERROR_INIT;

    low = lows[_i];
    open_device("auto", 1);
    v = value_new(ACTIVATION, s, 1);
    ck_assert_uint_ne(v.dev.layout, 0);
    upload(&v);
    back = download(&v.dev);
    for (int64_t i = 0, n = stance_elements(&s); i < n; i++)
        ((double *)wide.data)[i] = ((float *)back.data)[i];
    other      = v.dev;
    other.data = device_memory(other.bytes);
    memset(other.data, 0xff, other.bytes);
    ck_assert_msg(device->ops->reorder(device->state, &other, &wide, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(memcmp(other.data, v.dev.data, other.bytes), 0);
    memset(wide.data, 0xff, wide.bytes);
    ck_assert_int_eq(device->ops->reorder(device->state, &wide, &other, &err), STANCE_OK);
    for (int64_t i = 0, n = stance_elements(&s); i < n; i++)
        ck_assert_double_eq(((double *)wide.data)[i], ((float *)back.data)[i]);
    device->ops->release(device->state, other.data, other.bytes);
    stance_free(wide.data);
    stance_free(back.data);
    value_free(&v);
    close_device();
}
END_TEST

/* ---- the end of a step --------------------------------------------------------------------------------------------- */

START_TEST(gradient_check)
{
    enum { N = 40000 };
    struct stance_tensor g = ops_tensor(STANCE_TYPE_F32, SHAPE(N)), c = ops_tensor(STANCE_TYPE_U8, SHAPE(sizeof(struct stance_control)));
    struct stance_control *control = c.data, want;
    struct stance_call     call = { .size = sizeof call, .in = &g, .out = &c, .n_in = 1, .n_out = 1 };

    low = STANCE_TYPE_F32;
    open_device("auto", 1);
    ops_random(&g, 1);
    if (_i == 1)
        ((float *)g.data)[33333] = NAN, ((float *)g.data)[39999] = INFINITY;
    if (_i == 2)
        ((float *)g.data)[3] = -INFINITY;
    control->scale = 3;
    control->clip  = _i == 3 ? 1e6 : 2;
    ck_assert_int_eq(stance_builtin_op("grad_check")->reference(&call), STANCE_OK);
    want = *control;
    memset(&control->update, 0xff, sizeof control->update);
    simple("grad_check", &g, 1, &c, 1);
    ck_assert_int_eq(control->first_bad, want.first_bad);
    ck_assert_int_eq(control->update.skip, want.update.skip);
    ck_assert_double_eq(control->max_abs, want.max_abs);
    if (want.first_bad < 0) {
        ck_assert_double_eq_tol(control->sum_squares, want.sum_squares, 1e-12 * want.sum_squares);
        ck_assert_double_eq_tol(control->update.factor, want.update.factor, 1e-12);
    }
    stance_free(g.data);
    stance_free(c.data);
    close_device();
}
END_TEST

START_TEST(accumulation_and_commit)
{
    struct stance_tensor t[3], out[2];

    open_device("auto", 1);
    for (int l = 0; l < N_LOWS; l++) {
        enum { N = 17001 };

        low  = lows[l];
        t[0] = ops_tensor(STANCE_TYPE_F32, SHAPE(N));
        t[1] = ops_tensor(low, SHAPE(N));
        ops_random(&t[0], 1);
        ops_random(&t[1], 2);
        out[0] = ops_tensor(STANCE_TYPE_F32, SHAPE(N));
        simple("accumulate", t, 2, out, 1);
        for (int64_t i = 0; i < N; i++)
            ck_assert_double_eq(stance_tensor_get(&out[0], i), (float)(stance_tensor_get(&t[0], i) + stance_tensor_get(&t[1], i)));
        stance_free(t[0].data);
        stance_free(t[1].data);
        stance_free(out[0].data);
    }
    for (int skip = 0; skip < 2; skip++) {
        t[0] = ops_tensor(STANCE_TYPE_I64, SHAPE(5));
        t[1] = ops_tensor(STANCE_TYPE_U8, SHAPE(sizeof(struct stance_update)));
        t[2] = ops_tensor(STANCE_TYPE_I64, SHAPE(5));
        ((struct stance_update *)t[1].data)->skip = skip;
        for (int64_t i = 0; i < 5; i++)
            ((int64_t *)t[0].data)[i] = i + 1, ((int64_t *)t[2].data)[i] = -i;
        out[0] = t[0];
        out[1] = t[2];
        simple("commit", t, 3, out, 2);
        for (int64_t i = 0; i < 5; i++) {
            ck_assert_int_eq(((int64_t *)t[0].data)[i], skip ? -i : i + 1);
            ck_assert_int_eq(((int64_t *)t[2].data)[i], skip ? -i : i + 1);
        }
        for (int i = 0; i < 3; i++)
            stance_free(t[i].data);
    }
    close_device();
}
END_TEST

/* Five steps of an optimizer beside its reference. Operations in binary32 instead of binary64: some ten
 * roundings a step of numbers of the size of rate (the step) and of the weights. */
static void check_optimizer(const char *name, const char *const *settings)
{
    char                        op[64];
    enum { N = 20011 };
    const struct stance_plugin *plugin;
    struct stance_error         err = STANCE_ERROR_INIT;
    struct stance_tensor        t[6], mine[6];
    struct stance_update       *u;
    void                       *config;
    int                         n, master = STANCE_MASTER_FP32;
    int64_t                     apart = 0;

    ck_assert_msg(stance_registry_find(registry, STANCE_KIND_OPTIMIZER, name, &plugin, &err) == STANCE_OK, "%s", err.text);
    config = stance_calloc(1, plugin->config_size);
    ck_assert_int_eq(stance_param_defaults(plugin->params, config, &err), STANCE_OK);
    for (; *settings != NULL; settings += 2) {
        ck_assert_msg(stance_param_set(plugin->params, config, settings[0], settings[1], &err) == STANCE_OK, "%s", err.text);
        if (strcmp(settings[0], "master") == 0)
            master = strcmp(settings[1], "bf16_kahan") == 0 ? STANCE_MASTER_BF16_KAHAN : STANCE_MASTER_BF16_STOCHASTIC;
    }
    snprintf(op, sizeof op, "optimizer_%s", name);
    n = 3 + plugin->ops.optimizer->slots_used(config);
    for (int i = 0; i < n; i++)
        t[i] = ops_tensor(i == 1 ? STANCE_TYPE_U8 : STANCE_TYPE_F32, i == 1 ? SHAPE(sizeof *u) : SHAPE(N));
    ops_random(&t[0], 1);
    ops_random(&t[2], 2);
    for (int i = 0; i < n; i++) {
        mine[i] = t[i];
        if (i >= 2) {
            mine[i].data = stance_calloc(1, t[i].bytes);
            memcpy(mine[i].data, t[i].data, t[i].bytes);
        }
    }
    u = t[1].data;
    for (int step = 0; step < 6; step++) {
        struct stance_call    call = { .size = sizeof call, .attr = config, .in = t, .out = t + 2, .n_in = n, .n_out = n - 2 };
        struct stance_form    fi[6], fo[6];
        int32_t               alias[6] = { -1, -1, -1, -1, -1, -1 };
        struct stance_request q = { sizeof q, op, plugin->ops.optimizer->update, config, mine, mine + 2, n, n - 2, true };
        struct stance_offer   o = { sizeof o, 0, fi, fo, alias };
        void                 *kernel;

        *u = (struct stance_update){ .size = sizeof *u, .skip = step == 3, .rate = 1e-3 * (step + 1), .factor = 0.25,
                                     .applied = (uint64_t)(step > 3 ? step - 1 : step), .seed = 5 };
        ck_assert_int_eq(plugin->ops.optimizer->update->reference(&call), STANCE_OK);
        ck_assert_msg(device->ops->offer(device->state, &q, &o), "%s is declined", name);
        ck_assert_int_eq(device->ops->prepare(device->state, &q, &kernel, &err), STANCE_OK);
        call.in  = mine;
        call.out = mine + 2;
        ck_assert_int_eq(device->ops->launch(device->state, kernel, &call), STANCE_OK);
        device->ops->dispose(device->state, kernel);
        for (int64_t i = 0; i < N && master != STANCE_MASTER_FP32; i++) {
            double a = stance_tensor_get(&mine[2], i), b = stance_tensor_get(&t[2], i);

            /* Now and then the two meet a half on different sides: the next number of 8 bits. What Kahan's pair
             * stands for moves by y, of 8 bits, at most an update (0.25 rate |g| < 2e-3) and half a unit of the
             * weight: six steps of 2^-8 of that. */
            apart += a != b;
            ck_assert_msg(fabs(a - b) <= 0x1p-7 * (fabs(b) + 0x1p-126), "%s: step %d master %lld: %.9g, not %.9g", name, step, (long long)i, a, b);
            if (master == STANCE_MASTER_BF16_KAHAN)
                ck_assert(fabs(a - stance_tensor_get(&mine[n - 1], i) - (b - stance_tensor_get(&t[n - 1], i)))
                          <= 6 * 0x1p-8 * (2e-3 + 0x1p-9 * fabs(b)));
        }
        ck_assert_int_le(apart, N / 50);
        for (int k = 2; k < n; k++)
            for (int64_t i = 0; i < N && (master == STANCE_MASTER_FP32 || (k > 2 && k < n - (master == STANCE_MASTER_BF16_KAHAN))); i++)
                ck_assert_msg(fabs(stance_tensor_get(&mine[k], i) - stance_tensor_get(&t[k], i))
                                  <= 8 * 0x1p-24 * (1 + fabs(stance_tensor_get(&t[k], i))),
                              "%s: step %d array %d element %lld: %.9g, not %.9g", name, step, k, (long long)i,
                              stance_tensor_get(&mine[k], i), stance_tensor_get(&t[k], i));
    }
    for (int i = 0; i < n; i++) {
        stance_free(t[i].data);
        if (i >= 2)
            stance_free(mine[i].data);
    }
    stance_free(config);
}

START_TEST(optimizers)
{
    open_device("auto", 1);
    check_optimizer("adam", (const char *const[]){ NULL });
    check_optimizer("adam", (const char *const[]){ "weight_decay", "0.1", "betas", "[0.8, 0.99]", NULL });
    check_optimizer("adamw", (const char *const[]){ NULL });
    check_optimizer("sgd", (const char *const[]){ NULL });
    check_optimizer("sgd", (const char *const[]){ "momentum", "0.9", "nesterov", "true", "weight_decay", "0.01", NULL });
    check_optimizer("sgd", (const char *const[]){ "momentum", "0.9", "dampening", "0.5", NULL });
    check_optimizer("adam", (const char *const[]){ "master", "bf16_stochastic", NULL });
    check_optimizer("adamw", (const char *const[]){ "master", "bf16_kahan", NULL });
    check_optimizer("sgd", (const char *const[]){ "master", "bf16_stochastic", "momentum", "0.9", NULL });
    check_optimizer("sgd", (const char *const[]){ "master", "bf16_kahan", NULL });
    close_device();
}
END_TEST

/* ---- the device as such ------------------------------------------------------------------------------------------------ */

START_TEST(precision_and_description)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_policy p;

    open_device("auto", 2);
    for (int l = 0; l < N_LOWS; l++)
        ck_assert_int_eq(device->ops->precision(device->state, lows[l], true, &err), STANCE_OK);
    ck_assert_int_eq(stance_policy_of("fp64", device, true, &p, &err), STANCE_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "fp64"));
    ck_assert_ptr_nonnull(strstr(device->ops->describe(device->state), "threads: 2\n"));
    ck_assert_ptr_nonnull(strstr(device->ops->describe(device->state), "oneDNN"));
    stance_device_close(device);
    ck_assert_int_eq(stance_device_open(registry, "ref", NULL, 0, &device, &err), STANCE_OK);
    ck_assert_int_eq(stance_policy_of("fp16", device, true, &p, &err), STANCE_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text, "device 'ref' has no fp16 backward: it computes in fp32 and fp64");
    ck_assert_int_eq(stance_policy_of("fp64", device, true, &p, &err), STANCE_OK);
    close_device();
}
END_TEST

/* The same bytes from one thread and from two, for the passes of our own; and from one run to the next. */
START_TEST(same_bytes)
{
    const struct norm_case *k = &norm_cases[_i / N_LOWS];
    struct stance_norm_sum  a = { .n_norm = k->n_norm, .n_plain = k->n_plain, .relu = k->relu, .eps = 1e-5, .momentum = 0.1 };
    struct stance_shape     y = SHAPE(k->n, k->c, k->h, k->w), c = SHAPE(k->c), out_shape[18];
    enum role               out_role[18];
    struct stance_tensor    first[18];
    int                     n_out = 2;

    low = lows[_i % N_LOWS];
    out_shape[0] = y, out_role[0] = ACTIVATION;
    out_shape[1] = k->relu ? y : ABSENT, out_role[1] = BYTES;
    for (int i = 0; i < 4 * k->n_norm; i++)
        out_shape[n_out] = c, out_role[n_out++] = VECTOR;
    for (int threads = 1; threads <= 2; threads++) {
        struct value      v[24];
        struct device_run r;
        int               n_in = 0;

        open_device("auto", threads);
        for (int t = 0; t < k->n_norm; t++) {
            a.factor[t] = k->factor[t];
            v[n_in++]   = value_new(ACTIVATION, SHAPE(k->n, k->c, k->h / k->factor[t], k->w / k->factor[t]), 7 * (uint64_t)t);
            for (int i = 1; i < 5; i++)
                v[n_in++] = value_new(VECTOR, c, 7 * (uint64_t)t + (uint64_t)i);
        }
        for (int p = 0; p < k->n_plain; p++)
            v[n_in++] = value_new(ACTIVATION, y, 50 + (uint64_t)p);
        for (int i = 0; i < n_in; i++)
            upload(&v[i]);
        ck_assert(run_on_device("norm_sum", &a, v, n_in, out_role, out_shape, n_out, &r));
        for (int i = 0; i < n_out; i++) {
            if (r.out[i].shape.rank < 0)
                continue;
            if (threads == 1) {
                first[i]      = r.out[i];
                first[i].data = stance_calloc(1, r.out[i].bytes + 1);
                memcpy(first[i].data, r.out[i].data, r.out[i].bytes);
            } else {
                ck_assert_int_eq(memcmp(first[i].data, r.out[i].data, r.out[i].bytes), 0);
                stance_free(first[i].data);
            }
        }
        run_free(&r);
        for (int i = 0; i < n_in; i++)
            value_free(&v[i]);
        close_device();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu");
    TCase *conv = tcase_create("convolution"), *norm = tcase_create("norm"), *rest = tcase_create("rest");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_set_timeout(conv, 120);
    tcase_set_timeout(norm, 120);
    tcase_set_timeout(rest, 120);
    tcase_add_loop_test(conv, convolution, 0, N_CONV * N_LOWS);
    tcase_add_loop_test(conv, transposed_convolution, 0, N_DECONV * N_LOWS);
    tcase_add_loop_test(conv, doubles_and_blocks, 0, N_LOWS);
    tcase_add_loop_test(conv, packing, 0, N_CONV * N_LOWS);
    tcase_add_loop_test(norm, norm_sum, 0, N_NORM * N_LOWS);
    tcase_add_loop_test(norm, same_bytes, 0, N_NORM * N_LOWS);
    tcase_add_loop_test(rest, element_wise, 0, N_PLANES * N_LOWS);
    tcase_add_loop_test(rest, pooling, 0, 2 * N_LOWS);
    tcase_add_loop_test(rest, upsampling, 0, 2 * N_LOWS);
    tcase_add_loop_test(rest, mean_squared_error, 0, 2 * N_LOWS);
    tcase_add_loop_test(rest, bias_gradient, 0, N_LOWS);
    tcase_add_test(rest, binary16_range);
    tcase_add_test(rest, binary16_convolution);
    tcase_add_loop_test(rest, gradient_check, 0, 4);
    tcase_add_test(rest, accumulation_and_commit);
    tcase_add_test(rest, optimizers);
    tcase_add_test(rest, precision_and_description);
    suite_add_tcase(suite, conv);
    suite_add_tcase(suite, norm);
    suite_add_tcase(suite, rest);
    return run_suite(suite);
}
