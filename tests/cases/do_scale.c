/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss scaling, unscaling, clipping, the optimizer and accumulation, all in the real step. */
#include "config.h"

#include "tiny.h"

#include "graph/ops/table.h"
#include "step/window.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a weight whose gradient is an input ----------------------------------------------------- */

/* y = sum of w x as a 1x1 convolution, the commonest reader of a weight: the gradient of w is x
 * times what flows into y. */
static struct stance_value build_weight(struct stance_builder *b, const void *ctx)
{
    const int64_t        n    = *(const int64_t *)ctx;
    struct stance_conv2d a    = { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, { 1, 1 }, { 0, 0 } };
    struct stance_init   zero = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value  in[2];

    in[0] = stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(1, n, 1, 1));
    in[1] = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32,
                          stance_shape4(1, n, 1, 1), zero);
    return stance_node1(b, "conv2d", &a, sizeof a, in, 2);
}

/* The gradients of a case, as the type they come in holds them. */
struct grads {
    double          *v;
    size_t           n;
    enum stance_type type;
};

static struct grads grads_of(struct walk *w)
{
    const struct stance_config_node *fill = walk_get(w, "grad_fill");
    struct grads g = { .type = tiny_type(w, walk_text(w, "grad_dtype", "fp32")) };

    g.v = walk_numbers(w, walk_get(w, "scaled_grad"), "scaled_grad", &g.n);
    if (fill != NULL) {
        walk_known(w, fill, "grad_fill", "count value");
        stance_free(g.v);
        g.n = (size_t)walk_node_i64(w, stance_config_find(fill, "count"), "grad_fill.count");
        g.v = stance_calloc(g.n + 1, sizeof *g.v);
        if (g.v == NULL)
            abort();
        for (size_t i = 0; i < g.n; i++)
            g.v[i] = walk_node_f64(w, stance_config_find(fill, "value"), "grad_fill.value");
    }
    if (g.n == 0 || (fill != NULL && walk_has(w, "scaled_grad")))
        walk_fail(w, "one of scaled_grad and grad_fill is wanted");
    for (size_t i = 0; i < g.n; i++)
        g.v[i] = tiny_round(g.v[i], g.type);
    return g;
}

/* Opens a window and puts the scaled gradients where the backward pass leaves them; narrow ones are
 * added to the flat array by the device's kernel, as those of a backward pass in that type are. */
static stance_status put_gradient(struct walk *w, struct tiny *t, const struct grads *g,
                                  struct stance_error *err)
{
    const size_t         at  = tiny_segment(w, t, "weight");
    struct stance_tensor sum = stance_store_tensor(t->store, at, STANCE_ARRAY_GRADIENT), narrow,
                         host, in[2];
    const size_t size = stance_type_size(g->type), count = sum.bytes / stance_type_size(sum.stored);
    struct stance_arena *memory;
    struct stance_launch launch;
    double              *zero = stance_calloc(g->n + 1, sizeof *zero);
    stance_status        status;

    if (zero == NULL)
        abort();
    status = tiny_fill(w, t, "x", zero, err);
    if (status == STANCE_OK)
        status = stance_step_micro(t->step, STANCE_STEP_BATCH, 1, err);
    if (status == STANCE_OK)
        status =
            tiny_write(t, at, STANCE_ARRAY_GRADIENT, g->type == STANCE_TYPE_F32 ? g->v : zero, err);
    stance_free(zero);
    if (status != STANCE_OK || g->type == STANCE_TYPE_F32)
        return status;
    memory = stance_arena_new(4096);
    if (memory == NULL)
        abort();
    narrow = (struct stance_tensor){ NULL, g->type, g->type, sum.layout, sum.shape, count * size };
    host   = (struct stance_tensor){ g->v, STANCE_TYPE_F64, STANCE_TYPE_F64,
                                     0,    sum.shape,       g->n * sizeof *g->v };
    status = t->device->ops->alloc(t->device->state, narrow.bytes, &narrow.data, err);
    if (status == STANCE_OK) {
        status = t->device->ops->reorder(t->device->state, &narrow, &host, err);
        in[0] = sum, in[1] = narrow;
        for (int i = 0; i < 2; i++) {
            in[i].layout = 0;
            in[i].shape  = stance_shape1((int64_t)count);
        }
        if (status == STANCE_OK)
            status =
                stance_launch_make(t->device, memory, "accumulate", stance_builtin_op("accumulate"),
                                   NULL, in, 2, in, 1, true, &launch, err);
        if (status == STANCE_OK) {
            launch.call.workspace = stance_arena_get(memory, launch.workspace + 1, 64);
            status                = stance_launch_run(t->device, &launch);
            stance_launch_dispose(t->device, &launch);
        }
        t->device->ops->release(t->device->state, narrow.data, narrow.bytes);
    }
    stance_arena_free(memory);
    return status;
}

/* ---- clip-step ------------------------------------------------------------------------------- */

static stance_status clip_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    const struct grads              *g    = arg;
    const struct stance_config_node *fill = walk_expects(w, "clipped_fill");
    struct stance_step_result        r;
    stance_status                    status = put_gradient(w, t, g, err);
    double                          *v;

    /* Plain descent at rate 1 from 0: the weights are then the clipped gradients with their sign
     * turned. */
    if (status == STANCE_OK)
        status = stance_step_apply(t->step, 1, &r, err);
    if (status != STANCE_OK)
        return status;
    walk_is_f64(w, "norm", r.grad_norm);
    walk_is_bool(w, "stepped", !r.skipped);
    v = tiny_read(w, t, tiny_segment(w, t, "weight"), STANCE_ARRAY_MASTER);
    for (size_t i = 0; i < g->n; i++)
        v[i] = 0 - v[i];
    walk_is_list(w, "clipped_grad", v, g->n);
    for (size_t i = 0; fill != NULL && i < g->n; i++)
        walk_same(w, "clipped_fill", v[i], fill);
    stance_free(v);
    return STANCE_OK;
}

static void static_scaler(struct walk *w, char *text, size_t size)
{
    char number[40];

    stance_text_of_f64(walk_f64(w, "scale", 1), number, sizeof number);
    snprintf(text, size, "static:scale=%s", number);
}

static void clip_step(struct walk *w)
{
    struct grads        g = grads_of(w);
    int64_t             n = (int64_t)g.n;
    char                scaler[100];
    struct tiny_net     net = { build_weight, NULL, &n };
    struct tiny_options o   = { .precision = "fp32",
                                .optimizer = "sgd",
                                .scaler    = scaler,
                                .clip      = walk_f64(w, "max_norm", 0) };

    static_scaler(w, scaler, sizeof scaler);
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, clip_on, &g);
    stance_free(g.v);
}

/* ---- optim-step ------------------------------------------------------------------------------ */

struct descent {
    struct grads     g;
    double          *weight;
    int64_t          repeat;
    enum stance_type type; /* of the copies of the weights */
};

/* Optimizer states by their names in checkpoints. */
static stance_status put_slots(struct walk *w, struct tiny *t, size_t at, size_t n,
                               struct stance_error *err)
{
    const struct stance_optimizer_ops *ops    = t->optimizer.plugin->ops.optimizer;
    stance_status                      status = STANCE_OK;

    for (int i = 0; i < t->store->n_slots && status == STANCE_OK; i++) {
        size_t  count;
        double *v;

        if (!walk_has(w, ops->slot_names[i]))
            continue;
        v = walk_numbers(w, walk_get(w, ops->slot_names[i]), ops->slot_names[i], &count);
        if (count != n)
            walk_fail(w, "%s has %zu numbers, the weight %zu", ops->slot_names[i], count, n);
        else
            status = tiny_write(t, at, STANCE_ARRAY_SLOT + i, v, err);
        stance_free(v);
    }
    return status;
}

/* The copy of the weight that kernels of the low type read. */
static void compare_copy(struct walk *w, struct tiny *t, size_t at, size_t n, enum stance_type type,
                         const char *key)
{
    double *v     = stance_calloc(n + 1, sizeof *v);
    bool    found = false;

    if (v == NULL)
        abort();
    if (stance_program_pack(stance_step_program(t->step, STANCE_STEP_BATCH)) != STANCE_OK)
        walk_fail(w, "copying weights failed");
    for (size_t i = 0; i < t->store->n_packed && !found; i++) {
        const struct stance_packed *p = &t->store->packed[i];

        if (p->segment == at && p->type == type) {
            struct stance_tensor from = {
                p->data,      p->type, p->form.stored, p->form.layout, t->store->segments[at].shape,
                p->form.bytes
            };
            struct stance_tensor to = { v, STANCE_TYPE_F64, STANCE_TYPE_F64,
                                        0, from.shape,      n * sizeof *v };

            found = t->device->ops->reorder(t->device->state, &to, &from, NULL) == STANCE_OK;
        }
    }
    if (found)
        walk_is_list(w, key, v, n);
    else if (walk_expects(w, key) != NULL)
        walk_fail(w, "%s: there is no such copy", key);
    stance_free(v);
}

static stance_status optim_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    const struct descent              *d   = arg;
    const struct stance_optimizer_ops *ops = t->optimizer.plugin->ops.optimizer;
    const size_t                       at  = tiny_segment(w, t, "weight");
    struct stance_step_result          r   = { 0 };
    stance_status                      status;
    float                              scale = 0;
    double                            *v;

    status = tiny_write(t, at, STANCE_ARRAY_MASTER, d->weight, err);
    if (status == STANCE_OK)
        status = put_slots(w, t, at, d->g.n, err);
    if (status == STANCE_OK)
        status = stance_step_refresh(t->step, err);
    stance_step_set_applied(t->step, (uint64_t)walk_i64(w, "steps_before", 0));
    for (int64_t i = 0; i < d->repeat && status == STANCE_OK && !walk_failed(w); i++) {
        status = put_gradient(w, t, &d->g, err);
        if (status == STANCE_OK)
            status = stance_step_apply(t->step, ops->base_rate(t->optimizer.config), &r, err);
    }
    if (status == STANCE_OK)
        status = stance_scaler_scale(t->scaler, &scale, err);
    if (status != STANCE_OK || walk_failed(w))
        return status;
    walk_is_f64(w, "stepped",
                (double)stance_step_applied(t->step) - (double)walk_i64(w, "steps_before", 0));
    walk_is_f64(w, "norm", r.grad_norm);
    walk_is_f64(w, "scale_used", (double)r.scale);
    walk_is_f64(w, "scale_after", (double)scale);
    v = tiny_read(w, t, at, STANCE_ARRAY_MASTER);
    walk_is_list(w, "weight", v, d->g.n);
    walk_is_list(w, "master_weight", v, d->g.n);
    stance_free(v);
    for (int i = 0; i < t->store->n_slots; i++) {
        v = tiny_read(w, t, at, STANCE_ARRAY_SLOT + i);
        walk_is_list(w, ops->slot_names[i], v, d->g.n);
        stance_free(v);
    }
    if (d->type != STANCE_TYPE_F32)
        compare_copy(w, t, at, d->g.n, d->type,
                     d->type == STANCE_TYPE_F16 ? "weight_fp16" : "weight_bf16");
    return STANCE_OK;
}

static void optim_step(struct walk *w)
{
    const struct stance_config_node *settings = walk_get(w, "optimizer"),
                                    *type     = stance_config_find(settings, "type");
    const char         *dtype                 = walk_text(w, "weight_dtype", "fp32");
    struct descent      d                     = { .g      = grads_of(w),
                                                  .repeat = walk_i64(w, "repeat", 1),
                                                  .type   = tiny_type(w, dtype) };
    int64_t             n                     = (int64_t)d.g.n;
    size_t              count;
    char                scaler[300];
    struct tiny_net     net = { build_weight, NULL, &n };
    struct tiny_options o   = { .precision = dtype,
                                .optimizer = type != NULL ? type->text : "",
                                .settings  = settings,
                                .scaler    = scaler,
                                .clip      = walk_f64(w, "max_norm", 0) };

    d.weight = walk_numbers(w, walk_get(w, "weight"), "weight", &count);
    if (count != d.g.n)
        walk_fail(w, "weight has %zu numbers, the gradient %zu", count, d.g.n);
    if (type == NULL)
        walk_fail(w, "optimizer.type is missing");
    tiny_scaler(w, scaler, sizeof scaler);
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, optim_on, &d);
    stance_free(d.g.v);
    stance_free(d.weight);
}

/* ---- accumulate ------------------------------------------------------------------------------ */

struct micros {
    double               *grad; /* [windows.end, n], not scaled */
    int64_t               n;
    struct stance_windows windows;
};

static stance_status accumulate_on(struct walk *w, struct tiny *t, void *arg,
                                   struct stance_error *err)
{
    const struct micros *m    = arg;
    const size_t         at   = tiny_segment(w, t, "weight");
    double              *out  = stance_calloc((size_t)(m->windows.end * m->n) + 1, sizeof *out), *v;
    double              *zero = stance_calloc((size_t)m->n + 1, sizeof *zero);
    int64_t              done = 0, steps = 0;
    stance_status        status = STANCE_OK;

    if (out == NULL || zero == NULL)
        abort();
    for (int64_t i = 0; i < m->windows.end && status == STANCE_OK && !walk_failed(w); i++) {
        struct stance_step_result r;

        if (done == 0 && stance_windows_dropped(&m->windows, i))
            break;
        status = tiny_fill(w, t, "x", m->grad + i * m->n, err);
        if (status == STANCE_OK)
            status = stance_step_micro(t->step, STANCE_STEP_BATCH,
                                       stance_windows_weight(&m->windows, i, done), err);
        if (i + 1 < stance_windows_end(&m->windows, i, done++) || status != STANCE_OK)
            continue;
        /* From 0 at rate 1: the weights become the gradient of the window with its sign turned. */
        done   = 0;
        status = tiny_write(t, at, STANCE_ARRAY_MASTER, zero, err);
        if (status == STANCE_OK)
            status = stance_step_apply(t->step, 1, &r, err);
        if (status != STANCE_OK || r.skipped)
            continue;
        v = tiny_read(w, t, at, STANCE_ARRAY_MASTER);
        for (int64_t k = 0; k < m->n; k++)
            out[steps * m->n + k] = 0 - v[k];
        steps++;
        stance_free(v);
    }
    if (status == STANCE_OK) {
        walk_is_list(w, "step_grad", out, (size_t)(steps * m->n));
        walk_is_f64(w, "optimizer_steps", (double)steps);
    }
    stance_free(out);
    stance_free(zero);
    return status;
}

static void accumulate(struct walk *w)
{
    const char *key = walk_has(w, "micro_scaled_grad") ? "micro_scaled_grad" : "micro_grad";
    const struct stance_config_node *list = walk_get(w, key);
    size_t                           count, n_samples;
    struct micros                    m = { .grad = walk_numbers(w, list, key, &count) };
    double *s    = walk_numbers(w, walk_get(w, "micro_samples"), "micro_samples", &n_samples),
           scale = walk_f64(w, "scale", 1);
    int64_t *each,
        micros = list != NULL && list->kind == STANCE_CONFIG_LIST ? (int64_t)list->count : 0;
    char                scaler[100];
    struct tiny_net     net = { build_weight, NULL, &m.n };
    struct tiny_options o   = { .precision  = "fp32",
                                .optimizer  = "sgd",
                                .scaler     = scaler,
                                .accumulate = true,
                                .clip       = walk_f64(w, "max_norm", 0) };

    each = stance_calloc((size_t)micros + 1, sizeof *each);
    if (each == NULL)
        abort();
    if (micros == 0 || count % (size_t)micros != 0
        || (walk_has(w, "micro_samples") && (int64_t)n_samples != micros)
        || (walk_has(w, "micro_grad") && walk_has(w, "micro_scaled_grad")))
        walk_fail(
            w, "micro_grad or micro_scaled_grad, and micro_samples of the same length are wanted");
    for (int64_t i = 0; i < micros && !walk_failed(w); i++)
        each[i] = n_samples > 0 ? (int64_t)s[i] : 1;
    for (size_t i = 0; i < count && strcmp(key, "micro_scaled_grad") == 0; i++)
        m.grad[i] /= scale;
    m.n       = micros > 0 ? (int64_t)count / micros : 0;
    m.windows = (struct stance_windows){ .accumulate = walk_i64(w, "window", 1),
                                         .batches    = micros,
                                         .end        = micros,
                                         .each       = each,
                                         .flush      = true,
                                         .drop       = !walk_bool(w, "flush_last", true) };
    static_scaler(w, scaler, sizeof scaler);
    if (m.windows.accumulate < 1)
        walk_fail(w, "window is below 1");
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, accumulate_on, &m);
    stance_free(m.grad);
    stance_free(s);
    stance_free(each);
}

const struct walk_do walk_scale[] = {
    { "clip-step", clip_step, "scaled_grad grad_fill grad_dtype scale max_norm",
      "norm clipped_grad clipped_fill stepped" },
    { "optim-step", optim_step,
      TINY_SCALER_KEYS
      "scale optimizer weight weight_dtype momentum_buffer exp_avg exp_avg_sq steps_before "
      "repeat scaled_grad grad_fill "
      "grad_dtype max_norm",
      "stepped norm scale_used scale_after weight master_weight weight_fp16 weight_bf16 "
      "momentum_buffer exp_avg exp_avg_sq" },
    { "accumulate", accumulate,
      "micro_grad micro_scaled_grad micro_samples scale window flush_last max_norm",
      "step_grad optimizer_steps" },
    { NULL, NULL, NULL, NULL },
};
