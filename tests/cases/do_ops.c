/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm's running statistics, the heatmap loss, and convolution over layouts. */
#include "config.h"

#include "tiny.h"

#include "io/json.h"
#include "registry/instance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t count, size_t size)
{
    void *p = stance_calloc(count + 1, size);

    if (p == NULL)
        abort();
    return p;
}

/* ---- bn-update ------------------------------------------------------------------------------- */

struct norm {
    int64_t channels, n; /* values of a channel */
    double *x;           /* [channels, n] */
    double *mean, *var;  /* [channels] before the pass */
    double  momentum, eps;
};

static struct stance_value build_norm(struct stance_builder *b, const void *ctx)
{
    const struct norm             *m    = ctx;
    const struct stance_batch_norm a    = { .eps = m->eps, .momentum = m->momentum };
    const struct stance_init       zero = { STANCE_INIT_CONSTANT, 0, 0 },
                             one        = { STANCE_INIT_CONSTANT, 1, 0 };
    const struct stance_shape c         = stance_shape1(m->channels);
    struct stance_value       in[5], out[5];

    in[0] = stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(1, m->channels, 1, m->n));
    in[1] = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c, one);
    in[2] = stance_weight(b, "bias", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c, zero);
    in[3] = stance_weight(b, "running_mean", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, zero);
    in[4] = stance_weight(b, "running_var", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, one);
    stance_node(b, "batch_norm", &a, sizeof a, in, 5, out, 5);
    stance_assign(b, in[3], out[1]);
    stance_assign(b, in[4], out[2]);
    return out[0];
}

static bool all_finite(const double *v, int64_t n)
{
    bool finite = true;

    for (int64_t i = 0; i < n; i++)
        finite &= isfinite(v[i]) != 0;
    return finite;
}

static stance_status norm_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    static const char *const  leaf[]   = { "running_mean", "running_var" };
    static const char *const  finite[] = { "running_mean_finite", "running_var_finite" };
    const struct norm        *m        = arg;
    const double             *start[]  = { m->mean, m->var };
    struct stance_step_result r;
    stance_status             status = STANCE_OK;

    for (int i = 0; i < 2 && status == STANCE_OK; i++) {
        status = tiny_write(t, tiny_segment(w, t, leaf[i]), STANCE_ARRAY_MASTER, start[i], err);
        if (status == STANCE_OK)
            status =
                tiny_write(t, tiny_segment(w, t, leaf[i]), STANCE_ARRAY_COMMITTED, start[i], err);
    }
    if (status == STANCE_OK)
        status = stance_step_refresh(t->step, err);
    if (status == STANCE_OK)
        status = tiny_fill(w, t, "x", m->x, err);
    if (status == STANCE_OK)
        status = stance_step_micro(t->step, STANCE_STEP_BATCH, 1, err);
    if (status == STANCE_OK)
        status = stance_step_apply(t->step, 0, &r, err);
    for (int i = 0; i < 2 && status == STANCE_OK; i++) {
        double *v = tiny_read(w, t, tiny_segment(w, t, leaf[i]), STANCE_ARRAY_COMMITTED);

        walk_is_list(w, leaf[i], v, (size_t)m->channels);
        walk_is_bool(w, finite[i], all_finite(v, m->channels));
        stance_free(v);
    }
    return status;
}

/* Rows of `x`, or one row that repeats a pattern. */
static void rows_of(struct walk *w, struct norm *m)
{
    const struct stance_config_node *x = walk_get(w, "x"), *pattern = walk_get(w, "x_pattern");
    size_t                           count, n;
    double                          *v;

    if ((x == NULL) == (pattern == NULL) || (x != NULL && x->kind != STANCE_CONFIG_LIST)) {
        walk_fail(w, "one of x and x_pattern is wanted");
        m->x = zeroed(1, sizeof *m->x);
        return;
    }
    if (x != NULL) {
        bool nested = x->count > 0 && x->child[0]->kind == STANCE_CONFIG_LIST;

        m->x        = walk_numbers(w, x, "x", &count);
        m->channels = nested ? (int64_t)x->count : 1;
        m->n        = m->channels > 0 ? (int64_t)count / m->channels : 0;
        for (size_t i = 0; nested && i < x->count; i++)
            if ((int64_t)x->child[i]->count != m->n)
                walk_fail(w, "x: rows differ in length");
        return;
    }
    walk_known(w, pattern, "x_pattern", "count values");
    v           = walk_numbers(w, stance_config_find(pattern, "values"), "x_pattern.values", &n);
    m->channels = 1;
    m->n        = walk_node_i64(w, stance_config_find(pattern, "count"), "x_pattern.count");
    if (n == 0 || m->n < 1)
        walk_fail(w, "x_pattern has no values");
    m->x = zeroed(walk_failed(w) ? 1 : (size_t)m->n, sizeof *m->x);
    for (int64_t i = 0; !walk_failed(w) && i < m->n; i++)
        m->x[i] = v[(size_t)i % n];
    stance_free(v);
}

static void bn_update(struct walk *w)
{
    const char *dtype = walk_text(w, "x_dtype", "fp32");
    struct norm m = { .momentum = walk_f64(w, "momentum", 0.1), .eps = walk_f64(w, "eps", 1e-5) };
    size_t      n_mean, n_var;
    struct tiny_net     net = { build_norm, NULL, &m };
    struct tiny_options o   = { .precision = dtype, .optimizer = "sgd", .scaler = "none" };

    rows_of(w, &m);
    m.mean = walk_numbers(w, walk_get(w, "running_mean"), "running_mean", &n_mean);
    m.var  = walk_numbers(w, walk_get(w, "running_var"), "running_var", &n_var);
    if ((int64_t)n_mean != m.channels || (int64_t)n_var != m.channels)
        walk_fail(w, "running_mean and running_var want a number a channel");
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, norm_on, &m);
    stance_free(m.x);
    stance_free(m.mean);
    stance_free(m.var);
}

/* ---- heatmap-loss ---------------------------------------------------------------------------- */

struct heat {
    const struct stance_plugin *loss;
    void                       *config;
    int64_t                     k, h, w;
    double *pred, *changed, *target, *weight; /* [k]: one value a map; changed NULL: none */
};

static struct stance_value build_heat(struct stance_builder *b, const void *ctx)
{
    const struct heat       *h    = ctx;
    const struct stance_cast low  = { STANCE_TYPE_ANY };
    const struct stance_init zero = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value      v    = stance_weight(b, "heat", STANCE_ROLE_PARAM, STANCE_TYPE_F32,
                                                  stance_shape4(1, h->k, h->h, h->w), zero);

    return stance_node1(b, "cast", &low, sizeof low, &v, 1);
}

static struct stance_value loss_of_heat(struct stance_builder *b, const void *ctx,
                                        struct stance_value output)
{
    const struct heat *h = ctx;

    return h->loss->ops.loss->build(b, h->config, NULL, &output, 1);
}

static double *maps_of(const struct heat *h, const double *each)
{
    size_t  size = (size_t)(h->h * h->w);
    double *v    = zeroed((size_t)h->k * size, sizeof *v);

    for (size_t i = 0; i < (size_t)h->k * size; i++)
        v[i] = each[i / size];
    return v;
}

/* Loss and gradient for one prediction. @param[out] grad  the caller's */
static stance_status one_loss(struct walk *w, struct tiny *t, const struct heat *h,
                              const double *pred, double *loss, double **grad,
                              struct stance_error *err)
{
    const size_t              at   = tiny_segment(w, t, "heat");
    double                   *maps = maps_of(h, pred), *target = maps_of(h, h->target);
    struct stance_step_result r;
    stance_status             status = tiny_write(t, at, STANCE_ARRAY_MASTER, maps, err);

    if (status == STANCE_OK)
        status = stance_step_refresh(t->step, err);
    if (status == STANCE_OK)
        status = tiny_fill(w, t, "target", target, err);
    if (status == STANCE_OK)
        status = tiny_fill(w, t, "target_weight", h->weight, err);
    if (status == STANCE_OK)
        status = stance_step_micro(t->step, STANCE_STEP_BATCH, 1, err);
    if (status == STANCE_OK)
        status = stance_step_read(t->step, STANCE_STEP_BATCH, "loss", STANCE_TYPE_F64, loss, err);
    if (status == STANCE_OK)
        *grad = tiny_read(w, t, at, STANCE_ARRAY_GRADIENT);
    if (status == STANCE_OK)
        status = stance_step_apply(t->step, 0, &r, err);
    stance_free(maps);
    stance_free(target);
    return status;
}

static void compare_gradients(struct walk *w, const struct heat *h, const double *grad)
{
    const struct stance_config_node *zero = walk_expects(w, "gradient_zero_for");
    size_t                           size = (size_t)(h->h * h->w);

    for (size_t i = 0; zero != NULL && i < zero->count; i++) {
        int64_t k = walk_node_i64(w, zero->child[i], "gradient_zero_for");

        if (k < 0 || k >= h->k)
            walk_fail(w, "gradient_zero_for: there is no map %lld", (long long)k);
        for (size_t p = 0; !walk_failed(w) && p < size; p++)
            if (grad[(size_t)k * size + p] != 0)
                walk_fail(w, "the gradient of map %lld is not 0", (long long)k);
    }
}

static stance_status heat_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    const struct heat *h    = arg;
    double             loss = 0, other = 0, *grad = NULL, *again = NULL;
    stance_status      status = one_loss(w, t, h, h->pred, &loss, &grad, err);

    if (status == STANCE_OK) {
        walk_is_f64(w, "loss", loss);
        walk_is_f64(w, "mean_squared_error", loss);
        walk_is_f64(w, "sum_squared_error", loss * (double)(h->k * h->h * h->w));
        compare_gradients(w, h, grad);
    }
    if (status == STANCE_OK && h->changed != NULL)
        status = one_loss(w, t, h, h->changed, &other, &again, err);
    if (status == STANCE_OK && h->changed != NULL) {
        size_t bytes = (size_t)(h->k * h->h * h->w) * sizeof *grad;

        walk_is_bool(w, "loss_unchanged", memcmp(&loss, &other, sizeof loss) == 0);
        walk_is_bool(w, "gradient_unchanged", memcmp(grad, again, bytes) == 0);
        compare_gradients(w, h, again);
    }
    stance_free(grad);
    stance_free(again);
    return status;
}

/* A number a map: a list, or one for all. */
static double *fills(struct walk *w, const char *key, int64_t k, double dflt)
{
    size_t  n;
    double *v   = walk_numbers(w, walk_get(w, key), key, &n);
    double *out = zeroed((size_t)k, sizeof *out);

    if (n > 1 && (int64_t)n != k)
        walk_fail(w, "%s has %zu numbers for %lld maps", key, n, (long long)k);
    for (int64_t i = 0; i < k && !walk_failed(w); i++)
        out[i] = n == 0 ? dflt : n == 1 ? v[0] : v[i];
    stance_free(v);
    return out;
}

static void heatmap_loss(struct walk *w)
{
    const char                      *dtype = walk_text(w, "dtype", "fp32");
    const struct stance_config_node *pred  = walk_get(w, "pred_fill");
    struct heat         h = { .h = walk_i64(w, walk_has(w, "height") ? "height" : "map_height", 0),
                              .w = walk_i64(w, walk_has(w, "width") ? "width" : "map_width", 0) };
    struct tiny_net     net = { build_heat, loss_of_heat, &h };
    struct tiny_options o   = { .precision = dtype, .optimizer = "sgd", .scaler = "none" };

    h.k = walk_i64(w, "joints",
                   pred != NULL && pred->kind == STANCE_CONFIG_LIST ? (int64_t)pred->count : 1);
    if (h.k < 1 || h.h < 1 || h.w < 1 || pred == NULL) {
        walk_fail(w, "pred_fill, and a size of at least one joint, row and column are wanted");
        return;
    }
    h.pred    = fills(w, "pred_fill", h.k, 0);
    h.target  = fills(w, "target_fill", h.k, 0);
    h.weight  = fills(w, "weight", h.k, 1);
    h.changed = walk_has(w, "pred_fill_changed") ? fills(w, "pred_fill_changed", h.k, 0) : NULL;
    h.loss    = walk_plugin(w, STANCE_KIND_LOSS, "joints_mse", &h.config);
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, heat_on, &h);
    stance_plugin_config_free(h.config);
    stance_free(h.pred);
    stance_free(h.target);
    stance_free(h.weight);
    stance_free(h.changed);
}

/* ---- conv-forward ---------------------------------------------------------------------------- */

struct array {
    struct stance_shape shape;
    double             *data;
    size_t              n;
};

/* {"shape": [...], "data": [...]}; data may be nested. */
static struct array array_of(struct walk *w, const char *path)
{
    struct array            a = { .shape = { 0 } };
    struct stance_json     *r = NULL;
    struct stance_json_text key;
    struct stance_error     err    = STANCE_ERROR_INIT;
    size_t                  room   = 0;
    stance_status           status = stance_json_open(path, &r, &err);

    for (bool in = status == STANCE_OK && stance_json_object(r);
         in && stance_json_next_key(r, &key);) {
        bool shape = stance_json_is(key, "shape");

        if (!shape && !stance_json_is(key, "data")) {
            stance_json_skip(r);
            continue;
        }
        for (stance_json_array(r); stance_json_next_item(r);) {
            double v = stance_json_f64(r);

            if (shape && a.shape.rank < STANCE_RANK_MAX)
                a.shape.dim[a.shape.rank++] = (int64_t)v;
            else if (!shape && stance_grow((void **)&a.data, &room, a.n + 1, sizeof *a.data))
                a.data[a.n++] = v;
        }
    }
    if (status == STANCE_OK)
        status = stance_json_finish(r, &err);
    stance_json_close(r);
    if (status != STANCE_OK)
        walk_fail(w, "%s", err.text);
    else if (stance_elements(&a.shape) != (int64_t)a.n)
        walk_fail(w, "%s: shape and data differ in size", path);
    return a;
}

/* Axis of y = axis[i] of what is stored: for a layout such as "nhwc". @return false: no permutation
 */
static bool axes_of(const char *layout, const char *plain, int32_t axis[4])
{
    if (strlen(layout) != 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char *at = strchr(layout, plain[i]);

        if (at == NULL)
            return false;
        axis[i] = (int32_t)(at - layout);
    }
    return true;
}

struct conv {
    struct array         x, w, y;
    struct stance_shape  stored; /* of x as the graph reads it */
    struct stance_conv2d attr;
    int32_t              axis[4];
    bool                 plain; /* x needs no transpose */
};

/* Puts an array into the plain order on the host. */
static void gather(struct array *a, const struct stance_shape *shape, int64_t offset,
                   const int64_t stride[4])
{
    double *v = zeroed((size_t)stance_elements(shape), sizeof *v);
    size_t  i = 0;

    for (int64_t n = 0; n < shape->dim[0]; n++)
        for (int64_t c = 0; c < shape->dim[1]; c++)
            for (int64_t y = 0; y < shape->dim[2]; y++)
                for (int64_t x = 0; x < shape->dim[3]; x++)
                    v[i++] = a->data[offset + n * stride[0] + c * stride[1] + y * stride[2]
                                     + x * stride[3]];
    stance_free(a->data);
    a->data  = v;
    a->n     = i;
    a->shape = *shape;
}

static void permute(struct array *a, const int32_t axis[4])
{
    struct stance_shape shape    = { .rank = 4 };
    int64_t             dense[4] = { 0, 0, 0, 1 }, stride[4];

    for (int i = 2; i >= 0; i--)
        dense[i] = dense[i + 1] * a->shape.dim[i + 1];
    for (int i = 0; i < 4; i++) {
        shape.dim[i] = a->shape.dim[axis[i]];
        stride[i]    = dense[axis[i]];
    }
    gather(a, &shape, 0, stride);
}

/* A view by strides. One that is a dense array with its dimensions in another order is given to the
 * graph as that array and a transpose; any other is gathered here. */
static void view(struct walk *w, struct conv *c)
{
    size_t              n_shape, n_stride;
    double             *shape  = walk_numbers(w, walk_get(w, "x_shape"), "x_shape", &n_shape);
    double             *stride = walk_numbers(w, walk_get(w, "x_strides"), "x_strides", &n_stride);
    struct stance_shape s      = { .rank = 4 };
    int64_t offset = walk_i64(w, "x_offset", 0), step[4] = { 0 }, lowest = offset, last = offset,
            expected = 1;
    int  order[4]    = { 0, 1, 2, 3 };
    bool dense       = offset == 0;

    if (n_shape != 4 || n_stride != 4)
        walk_fail(w, "x_shape and x_strides want four numbers");
    for (int i = 0; i < 4 && !walk_failed(w); i++) {
        s.dim[i] = (int64_t)shape[i];
        step[i]  = (int64_t)stride[i];
        if (s.dim[i] < 1)
            walk_fail(w, "x_shape: %g is below 1", shape[i]);
        *(step[i] < 0 ? &lowest : &last) += (s.dim[i] - 1) * step[i];
    }
    stance_free(shape);
    stance_free(stride);
    if (!walk_failed(w) && (lowest < 0 || last >= (int64_t)c->x.n))
        walk_fail(w, "x_strides reach outside the array");
    if (walk_failed(w))
        return;
    /* Outermost first: larger strides, and dimensions of one element, whose stride says nothing. */
    for (int i = 0; i < 4; i++)
        for (int k = i + 1; k < 4; k++) {
            int64_t a = s.dim[order[i]] == 1 ? INT64_MAX : step[order[i]],
                    b = s.dim[order[k]] == 1 ? INT64_MAX : step[order[k]];
            int t     = order[i];

            if (b > a) {
                order[i] = order[k];
                order[k] = t;
            }
        }
    for (int i = 3; i >= 0; i--) {
        dense = dense && (s.dim[order[i]] == 1 || step[order[i]] == expected);
        expected *= s.dim[order[i]];
    }
    if (dense && expected == (int64_t)c->x.n) {
        c->stored.rank = 4;
        for (int i = 0; i < 4; i++) {
            c->stored.dim[i]  = s.dim[order[i]];
            c->axis[order[i]] = i;
        }
        return;
    }
    gather(&c->x, &s, offset, step);
    c->stored = s;
}

static struct stance_value build_conv(struct stance_builder *b, const void *ctx)
{
    const struct conv      *c    = ctx;
    struct stance_transpose t    = { { 0 } };
    struct stance_init      zero = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value     in[2];

    in[0] = stance_input(b, "x", STANCE_TYPE_ANY, c->stored);
    for (int i = 0; i < 4; i++)
        t.axis[i] = c->axis[i];
    if (!c->plain)
        in[0] = stance_node1(b, "transpose", &t, sizeof t, in, 1);
    in[1] = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c->w.shape, zero);
    return stance_node1(b, "conv2d", &c->attr, sizeof c->attr, in, 2);
}

static stance_status conv_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    const struct conv          *c = arg;
    const struct stance_tensor *y =
        stance_program_output(stance_step_program(t->step, STANCE_STEP_BATCH), "output");
    double       *have = zeroed((size_t)stance_elements(&y->shape), sizeof *have);
    stance_status status =
        tiny_write(t, tiny_segment(w, t, "weight"), STANCE_ARRAY_MASTER, c->w.data, err);

    if (status == STANCE_OK)
        status = stance_step_refresh(t->step, err);
    if (status == STANCE_OK)
        status = tiny_fill(w, t, "x", c->x.data, err);
    if (status == STANCE_OK)
        status = stance_step_micro(t->step, STANCE_STEP_BATCH, 1, err);
    if (status == STANCE_OK)
        status = stance_step_read(t->step, STANCE_STEP_BATCH, "output", STANCE_TYPE_F64, have, err);
    if (status == STANCE_OK && c->y.data != NULL) {
        for (int i = 0; i < 4; i++)
            if (y->shape.dim[i] != c->y.shape.dim[i] || c->y.shape.rank != 4)
                walk_fail(w, "y has another shape");
        for (size_t i = 0; i < c->y.n && !walk_failed(w); i++)
            if (!walk_close(w, have[i], c->y.data[i]))
                walk_fail(w, "y[%zu] is %.9g, not %.9g", i, have[i], c->y.data[i]);
    }
    stance_free(have);
    return status;
}

/* One number for both directions, or two: height, width. */
static void pair_of(struct walk *w, const char *key, int32_t dflt, int32_t out[2])
{
    size_t  n;
    double *v = walk_numbers(w, walk_get(w, key), key, &n);

    if (n > 2)
        walk_fail(w, "%s has %zu numbers", key, n);
    for (int i = 0; i < 2; i++)
        out[i] = n == 0 || n > 2 ? dflt : (int32_t)v[n == 1 ? 0 : i];
    stance_free(v);
}

static void conv_forward(struct walk *w)
{
    const struct stance_config_node *y      = walk_expects(w, "y");
    const char                      *layout = walk_text(w, "x_layout", "nchw"),
               *w_layout                    = walk_text(w, "w_layout", "oihw");
    struct conv     c = { .plain = false, .attr = { .groups = (int32_t)walk_i64(w, "groups", 1) } };
    struct tiny_net net   = { build_conv, NULL, &c };
    struct tiny_options o = { .precision = walk_text(w, "precision", "fp32"),
                              .optimizer = "sgd",
                              .scaler    = "none" };
    int32_t             axis[4];

    pair_of(w, "stride", 1, c.attr.stride);
    pair_of(w, "pad", 0, c.attr.pad);
    pair_of(w, "dilation", 1, c.attr.dilation);
    c.x = array_of(w, walk_path(w, walk_need(w, "x")));
    c.w = array_of(w, walk_path(w, walk_need(w, "w")));
    if (y != NULL)
        c.y = array_of(w, walk_path(w, y->text != NULL ? y->text : ""));
    c.stored = c.x.shape;
    if (!axes_of(layout, "nchw", c.axis) || !axes_of(w_layout, "oihw", axis))
        walk_fail(w, "layouts '%s' and '%s' are not known", layout, w_layout);
    if (walk_has(w, "x_strides") != walk_has(w, "x_shape")
        || (walk_has(w, "x_strides") && walk_has(w, "x_layout")))
        walk_fail(w, "x_shape and x_strides go together, and without x_layout");
    if (!walk_failed(w)
        && (c.w.shape.rank != 4 || (!walk_has(w, "x_strides") && c.x.shape.rank != 4)))
        walk_fail(w, "x and w want four dimensions");
    if (!walk_failed(w))
        permute(&c.w, axis);
    if (!walk_failed(w) && walk_has(w, "x_strides"))
        view(w, &c);
    c.plain = c.axis[0] == 0 && c.axis[1] == 1 && c.axis[2] == 2 && c.axis[3] == 3;
    for (int i = 0; i < 2; i++)
        c.attr.kernel[i] = (int32_t)c.w.shape.dim[2 + i];
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, conv_on, &c);
    stance_free(c.x.data);
    stance_free(c.w.data);
    stance_free(c.y.data);
}

const struct walk_do walk_ops[] = {
    { "bn-update", bn_update, "x x_pattern x_dtype momentum eps running_mean running_var",
      "running_mean running_var running_mean_finite running_var_finite" },
    { "heatmap-loss", heatmap_loss,
      "joints height width map_height map_width pred_fill pred_fill_changed target_fill weight "
      "dtype",
      "loss mean_squared_error sum_squared_error loss_unchanged gradient_unchanged "
      "gradient_zero_for" },
    { "conv-forward", conv_forward,
      "x x_layout x_shape x_strides x_offset w w_layout stride pad dilation groups precision",
      "y" },
    { NULL, NULL, NULL, NULL },
};
