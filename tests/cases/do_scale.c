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

/* ---- a weight whose gradient is an input ----------------------------------------------------------- */

/* y = sum of w x as a 1x1 convolution, the commonest reader of a weight: the gradient of w is x times
 * what flows into y. */
static struct stance_value build_weight(struct stance_builder *b, const void *ctx)
{
    const int64_t        n     = *(const int64_t *)ctx;
    struct stance_conv2d a     = { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, { 1, 1 }, { 0, 0 } };
    struct stance_init   zero  = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value  in[2];

    in[0] = stance_input(b, "x", STANCE_TYPE_ANY, stance_shape4(1, n, 1, 1));
    in[1] = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32, stance_shape4(1, n, 1, 1), zero);
    return stance_node1(b, "conv2d", &a, sizeof a, in, 2);
}

/* The gradients of a case, as the type they come in holds them. */
struct grads { double *v; size_t n; enum stance_type type; };

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
static stance_status put_gradient(struct walk *w, struct tiny *t, const struct grads *g, struct stance_error *err)
{
    const size_t          at   = tiny_segment(w, t, "weight");
    struct stance_tensor  sum  = stance_store_tensor(t->store, at, STANCE_ARRAY_GRADIENT), narrow, host, in[2];
    const size_t          size = stance_type_size(g->type), count = sum.bytes / stance_type_size(sum.stored);
    struct stance_arena  *memory;
    struct stance_launch  launch;
    double               *zero = stance_calloc(g->n + 1, sizeof *zero);
    stance_status         status;

    if (zero == NULL)
        abort();
    status = tiny_fill(w, t, "x", zero, err);
    if (status == STANCE_OK)
        status = stance_step_micro(t->step, STANCE_STEP_BATCH, 1, err);
    if (status == STANCE_OK)
        status = tiny_write(t, at, STANCE_ARRAY_GRADIENT, g->type == STANCE_TYPE_F32 ? g->v : zero, err);
    stance_free(zero);
    if (status != STANCE_OK || g->type == STANCE_TYPE_F32)
        return status;
    memory = stance_arena_new(4096);
    if (memory == NULL)
        abort();
    narrow = (struct stance_tensor){ NULL, g->type, g->type, sum.layout, sum.shape, count * size };
    host   = (struct stance_tensor){ g->v, STANCE_TYPE_F64, STANCE_TYPE_F64, 0, sum.shape, g->n * sizeof *g->v };
    status = t->device->ops->alloc(t->device->state, narrow.bytes, &narrow.data, err);
    if (status == STANCE_OK) {
        status = t->device->ops->reorder(t->device->state, &narrow, &host, err);
        in[0] = sum, in[1] = narrow;
        for (int i = 0; i < 2; i++) {
            in[i].layout = 0;
            in[i].shape  = stance_shape1((int64_t)count);
        }
        if (status == STANCE_OK)
            status = stance_launch_make(t->device, memory, "accumulate", stance_builtin_op("accumulate"), NULL, in, 2, in, 1,
                                        true, &launch, err);
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

/* ---- clip-step ------------------------------------------------------------------------------------- */

static stance_status clip_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    const struct grads              *g    = arg;
    const struct stance_config_node *fill = walk_expects(w, "clipped_fill");
    struct stance_step_result        r;
    stance_status                    status = put_gradient(w, t, g, err);
    double                          *v;

    /* Plain descent at rate 1 from 0: the weights are then the clipped gradients with their sign turned. */
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
    struct tiny_options o   = { .precision = "fp32", .optimizer = "sgd", .scaler = scaler, .clip = walk_f64(w, "max_norm", 0) };

    static_scaler(w, scaler, sizeof scaler);
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, clip_on, &g);
    stance_free(g.v);
}

/* ---- optim-step ------------------------------------------------------------------------------------ */

struct descent {
    struct grads g;
    double      *weight;
    int64_t      repeat;
    enum stance_type type; /* of the copies of the weights */
};

/* Optimizer states by their names in checkpoints. */
static stance_status put_slots(struct walk *w, struct tiny *t, size_t at, size_t n, struct stance_error *err)
{
    const struct stance_optimizer_ops *ops    = t->optimizer.plugin->ops.optimizer;
    stance_status                      status = STANCE_OK;

    for (int i = 0; i < ops->slots && status == STANCE_OK; i++) {
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
static void compare_copy(struct walk *w, struct tiny *t, size_t at, size_t n, enum stance_type type, const char *key)
{
    double *v = stance_calloc(n + 1, sizeof *v);
    bool    found = false;

    if (v == NULL)
        abort();
    if (stance_program_pack(stance_step_program(t->step, STANCE_STEP_BATCH)) != STANCE_OK)
        walk_fail(w, "copying weights failed");
    for (size_t i = 0; i < t->store->n_packed && !found; i++) {
        const struct stance_packed *p = &t->store->packed[i];

        if (p->segment == at && p->type == type) {
            struct stance_tensor from = { p->data, p->type, p->form.stored, p->form.layout, t->store->segments[at].shape, p->form.bytes };
            struct stance_tensor to   = { v, STANCE_TYPE_F64, STANCE_TYPE_F64, 0, from.shape, n * sizeof *v };

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
    const struct descent             *d   = arg;
    const struct stance_optimizer_ops *ops = t->optimizer.plugin->ops.optimizer;
    const size_t                      at  = tiny_segment(w, t, "weight");
    struct stance_step_result         r   = { 0 };
    stance_status                     status;
    float                             scale = 0;
    double                           *v;

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
    walk_is_f64(w, "stepped", (double)stance_step_applied(t->step) - (double)walk_i64(w, "steps_before", 0));
    walk_is_f64(w, "norm", r.grad_norm);
    walk_is_f64(w, "scale_used", (double)r.scale);
    walk_is_f64(w, "scale_after", (double)scale);
    v = tiny_read(w, t, at, STANCE_ARRAY_MASTER);
    walk_is_list(w, "weight", v, d->g.n);
    walk_is_list(w, "master_weight", v, d->g.n);
    stance_free(v);
    for (int i = 0; i < ops->slots; i++) {
        v = tiny_read(w, t, at, STANCE_ARRAY_SLOT + i);
        walk_is_list(w, ops->slot_names[i], v, d->g.n);
        stance_free(v);
    }
    if (d->type != STANCE_TYPE_F32)
        compare_copy(w, t, at, d->g.n, d->type, d->type == STANCE_TYPE_F16 ? "weight_fp16" : "weight_bf16");
    return STANCE_OK;
}

/* The dynamic scaler unless the case says otherwise; its settings are the plugin's. */
static void scaler_spec(struct walk *w, char *text, size_t size)
{
    static const char *const keys[] = { "growth_factor", "backoff_factor", "growth_interval", "min_scale", "max_scale" };
    const char              *mode   = walk_text(w, "mode", "dynamic");
    char                     number[40];
    size_t                   len;

    stance_text_of_f64(walk_f64(w, walk_has(w, "init_scale") ? "init_scale" : "scale", 65536), number, sizeof number);
    if (strcmp(mode, "dynamic") != 0) {
        if (strcmp(mode, "static") != 0 && strcmp(mode, "none") != 0)
            walk_fail(w, "mode: '%s' is not known", mode);
        snprintf(text, size, strcmp(mode, "none") == 0 ? "none" : "static:scale=%s", number);
        return;
    }
    snprintf(text, size, "dynamic:init_scale=%s", number);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (walk_has(w, keys[i])) {
            stance_text_of_f64(walk_f64(w, keys[i], 0), number, sizeof number);
            len = strlen(text);
            snprintf(text + len, size - len, ",%s=%s", keys[i], number);
        }
}

static void optim_step(struct walk *w)
{
    const struct stance_config_node *settings = walk_get(w, "optimizer"), *type = stance_config_find(settings, "type");
    const char     *dtype = walk_text(w, "weight_dtype", "fp32");
    struct descent  d     = { .g = grads_of(w), .repeat = walk_i64(w, "repeat", 1), .type = tiny_type(w, dtype) };
    int64_t         n     = (int64_t)d.g.n;
    size_t          count;
    char            scaler[300];
    struct tiny_net net = { build_weight, NULL, &n };
    struct tiny_options o = { .precision = dtype, .optimizer = type != NULL ? type->text : "", .settings = settings,
                              .scaler = scaler, .clip = walk_f64(w, "max_norm", 0) };

    d.weight = walk_numbers(w, walk_get(w, "weight"), "weight", &count);
    if (count != d.g.n)
        walk_fail(w, "weight has %zu numbers, the gradient %zu", count, d.g.n);
    if (type == NULL)
        walk_fail(w, "optimizer.type is missing");
    scaler_spec(w, scaler, sizeof scaler);
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, optim_on, &d);
    stance_free(d.g.v);
    stance_free(d.weight);
}

/* ---- accumulate ------------------------------------------------------------------------------------ */

struct micros {
    double               *grad; /* [windows.end, n], not scaled */
    int64_t               n;
    struct stance_windows windows;
};

static stance_status accumulate_on(struct walk *w, struct tiny *t, void *arg, struct stance_error *err)
{
    const struct micros *m      = arg;
    const size_t         at     = tiny_segment(w, t, "weight");
    double              *out    = stance_calloc((size_t)(m->windows.end * m->n) + 1, sizeof *out), *v;
    double              *zero   = stance_calloc((size_t)m->n + 1, sizeof *zero);
    int64_t              done   = 0, steps = 0;
    stance_status        status = STANCE_OK;

    if (out == NULL || zero == NULL)
        abort();
    for (int64_t i = 0; i < m->windows.end && status == STANCE_OK && !walk_failed(w); i++) {
        struct stance_step_result r;

        if (done == 0 && stance_windows_dropped(&m->windows, i))
            break;
        status = tiny_fill(w, t, "x", m->grad + i * m->n, err);
        if (status == STANCE_OK)
            status = stance_step_micro(t->step, STANCE_STEP_BATCH, stance_windows_weight(&m->windows, i, done), err);
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
    const char   *key    = walk_has(w, "micro_scaled_grad") ? "micro_scaled_grad" : "micro_grad";
    const struct stance_config_node *list = walk_get(w, key);
    size_t        count, n_samples;
    struct micros m      = { .grad = walk_numbers(w, list, key, &count) };
    double       *s      = walk_numbers(w, walk_get(w, "micro_samples"), "micro_samples", &n_samples), scale = walk_f64(w, "scale", 1);
    int64_t      *each, micros = list != NULL && list->kind == STANCE_CONFIG_LIST ? (int64_t)list->count : 0;
    char          scaler[100];
    struct tiny_net     net = { build_weight, NULL, &m.n };
    struct tiny_options o   = { .precision = "fp32", .optimizer = "sgd", .scaler = scaler, .accumulate = true,
                                .clip = walk_f64(w, "max_norm", 0) };

    each = stance_calloc((size_t)micros + 1, sizeof *each);
    if (each == NULL)
        abort();
    if (micros == 0 || count % (size_t)micros != 0 || (walk_has(w, "micro_samples") && (int64_t)n_samples != micros)
        || (walk_has(w, "micro_grad") && walk_has(w, "micro_scaled_grad")))
        walk_fail(w, "micro_grad or micro_scaled_grad, and micro_samples of the same length are wanted");
    for (int64_t i = 0; i < micros && !walk_failed(w); i++)
        each[i] = n_samples > 0 ? (int64_t)s[i] : 1;
    for (size_t i = 0; i < count && strcmp(key, "micro_scaled_grad") == 0; i++)
        m.grad[i] /= scale;
    m.n       = micros > 0 ? (int64_t)count / micros : 0;
    m.windows = (struct stance_windows){ .accumulate = walk_i64(w, "window", 1), .batches = micros, .end = micros, .each = each,
                                         .flush = true, .drop = !walk_bool(w, "flush_last", true) };
    static_scaler(w, scaler, sizeof scaler);
    if (m.windows.accumulate < 1)
        walk_fail(w, "window is below 1");
    if (!walk_failed(w))
        tiny_on_devices(w, &net, &o, accumulate_on, &m);
    stance_free(m.grad);
    stance_free(s);
    stance_free(each);
}

/* ---- scale-trace ----------------------------------------------------------------------------------- */

struct trace { double *used, *after, *clean, *stepped, *applied, *lr, *lr_applied; size_t n, n_applied; };

/* The schedule of `lr`: a linear warm-up, and the counter that it follows. */
struct warmup { const struct stance_plugin *plugin; void *config; double base; bool hold; };

#define WARMUP_RULE "base * (step + 1) / warmup_steps"

static struct warmup warmup_of(struct walk *w)
{
    const struct stance_config_node *lr = walk_get(w, "lr"), *rule = stance_config_find(lr, "warmup_rule");
    const struct stance_config_node *skip = stance_config_find(lr, "on_skip"), *steps = stance_config_find(lr, "warmup_steps");
    struct warmup                    u    = { 0 };
    char                             text[40], ratio[40];
    int64_t                          n = steps != NULL ? walk_node_i64(w, steps, "lr.warmup_steps") : 0;

    if (lr == NULL)
        return u;
    walk_known(w, lr, "lr", "on_skip base warmup_steps warmup_rule");
    u.plugin = walk_plugin(w, STANCE_KIND_SCHEDULE, "step", &u.config);
    u.base   = walk_node_f64(w, stance_config_find(lr, "base"), "lr.base");
    u.hold   = skip != NULL && strcmp(skip->text, "hold") == 0;
    if (skip != NULL && !u.hold && strcmp(skip->text, "advance") != 0)
        walk_fail(w, "lr.on_skip: '%s' is not known", skip->text);
    if (rule != NULL && strcmp(rule->text, WARMUP_RULE) != 0)
        walk_fail(w, "lr.warmup_rule: '%.200s' is not known", rule->text);
    if (u.plugin == NULL || stance_param_set(u.plugin->params, u.config, "steps", "[]", &w->err) != STANCE_OK)
        walk_fail(w, "schedule 'step': %s", w->err.text);
    if (walk_failed(w) || n <= 1)
        return u;
    /* (step + 1) / n is a linear warm-up of n - 1 steps from 1/n. */
    snprintf(text, sizeof text, "%lld", (long long)n - 1);
    stance_text_of_f64(1 / (double)n, ratio, sizeof ratio);
    if (stance_param_set(u.plugin->params, u.config, "warmup", "linear", &w->err) != STANCE_OK
        || stance_param_set(u.plugin->params, u.config, "warmup_iters", text, &w->err) != STANCE_OK
        || stance_param_set(u.plugin->params, u.config, "warmup_ratio", ratio, &w->err) != STANCE_OK)
        walk_fail(w, "lr: %s", w->err.text);
    return u;
}

/* A field of the saved state, "growth_tracker=3". */
static double state_of(const struct stance_scaler *s, const char *field)
{
    char  *text, *at, key[64];
    double v = 0;

    if (stance_scaler_save(s, &text, NULL) != STANCE_OK)
        abort();
    snprintf(key, sizeof key, "%s=", field);
    at = strstr(text, key);
    if (at != NULL) {
        at[strcspn(at, ",")] = '\0';
        if (!stance_text_f64(at + strlen(key), &v))
            v = 0;
    }
    stance_free(text);
    return v;
}

/* As a resumed run takes it up: the saved text of this scaler with another count. */
static void set_clean_steps(struct walk *w, struct stance_scaler *s)
{
    char                *text, *at;
    struct stance_string t = { 0 };

    if (stance_scaler_save(s, &text, NULL) != STANCE_OK)
        abort();
    at = strstr(text, "growth_tracker=");
    if (at == NULL)
        walk_fail(w, "clean_steps: this scaler counts none");
    else {
        stance_string_add(&t, "%.*sgrowth_tracker=%lld%s", (int)(at - text), text, (long long)walk_i64(w, "clean_steps", 0),
                          at + strcspn(at, ","));
        w->status = stance_scaler_restore(s, t.s, &w->err);
    }
    stance_string_free(&t);
    stance_free(text);
}

static void trace_step(struct walk *w, struct trace *t, struct stance_scaler *s, bool overflow, const struct warmup *u,
                       struct stance_skips *skips)
{
    struct stance_outcome  o  = { .size = sizeof o, .step = t->n, .overflow = overflow, .grad_norm = overflow ? (double)NAN : 1 };
    struct stance_progress at = { .size = sizeof at, .base_rate = u->base, .iterations_per_epoch = INT64_MAX, .epochs = 1,
                                  .iteration = u->hold ? (int64_t)t->n_applied : (int64_t)t->n };
    float                  scale;

    w->status = stance_scaler_scale(s, &scale, &w->err);
    if (w->status != STANCE_OK)
        return;
    t->used[t->n] = (double)scale;
    if (u->plugin != NULL)
        t->lr[t->n] = u->plugin->ops.schedule->rate(u->config, &at);
    if (!overflow)
        t->lr_applied[t->n_applied++] = t->lr[t->n];
    stance_scaler_update(s, &o);
    t->stepped[t->n] = !overflow;
    t->applied[t->n] = (double)t->n_applied;
    t->clean[t->n]   = state_of(s, "growth_tracker");
    w->status        = stance_skips_count(skips, overflow, NULL, scale, &w->err);
    if (stance_scaler_scale(s, &scale, w->status == STANCE_OK ? &w->err : NULL) != STANCE_OK)
        scale = 0; /* and the next window tells it */
    t->after[t->n++] = (double)scale;
}

static void scale_trace(struct walk *w)
{
    struct trace          t;
    size_t                n, n_ends;
    double               *found = walk_numbers(w, walk_get(w, "found_inf"), "found_inf", &n), *memory;
    double               *ends  = walk_numbers(w, walk_get(w, "epoch_ends_after"), "epoch_ends_after", &n_ends);
    struct stance_scaler *s = NULL;
    struct warmup         u = warmup_of(w);
    struct stance_skips   skips = { 0 };
    char                  spec[300];

    memory = stance_calloc(7 * n + 1, sizeof *memory);
    if (memory == NULL)
        abort();
    t = (struct trace){ memory, memory + n, memory + 2 * n, memory + 3 * n, memory + 4 * n, memory + 5 * n, memory + 6 * n, 0, 0 };
    scaler_spec(w, spec, sizeof spec);
    /* Nothing of stance's scaler is tied to epochs: their ends leave it alone, wherever they are. */
    for (size_t i = 0; i < n_ends; i++)
        if (!(ends[i] >= 1 && ends[i] <= (double)n))
            walk_fail(w, "epoch_ends_after: %g is not a step of the trace", ends[i]);
    if (!walk_failed(w))
        w->status = stance_scaler_from(w->registry, spec, &s, &w->err);
    if (!walk_failed(w) && w->status == STANCE_OK && walk_has(w, "clean_steps"))
        set_clean_steps(w, s);
    if (s != NULL)
        skips.limit = walk_i64(w, "max_consecutive_skips", stance_scaler_skip_limit(s));
    for (size_t i = 0; i < n && !walk_failed(w) && w->status == STANCE_OK; i++)
        trace_step(w, &t, s, found[i] != 0, &u, &skips);
    walk_is_list(w, "scale_used", t.used, t.n);
    walk_is_list(w, "scale_after", t.after, t.n);
    walk_is_list(w, "clean_after", t.clean, t.n);
    walk_is_list(w, "stepped", t.stepped, t.n);
    walk_is_list(w, "optimizer_steps", t.applied, t.n);
    if (u.plugin != NULL) {
        walk_is_list(w, "lr", t.lr, t.n);
        walk_is_list(w, "lr_of_applied_steps", t.lr_applied, t.n_applied);
    }
    stance_scaler_free(s);
    stance_plugin_config_free(u.config);
    stance_free(found);
    stance_free(ends);
    stance_free(memory);
}

#define SCALER "mode init_scale growth_factor backoff_factor growth_interval min_scale max_scale "

const struct walk_do walk_scale[] = {
    { "scale-trace", scale_trace, SCALER "max_consecutive_skips clean_steps found_inf epoch_ends_after lr",
      "scale_used scale_after clean_after stepped optimizer_steps lr lr_of_applied_steps" },
    { "clip-step", clip_step, "scaled_grad grad_fill grad_dtype scale max_norm", "norm clipped_grad clipped_fill stepped" },
    { "optim-step", optim_step,
      SCALER "scale optimizer weight weight_dtype momentum_buffer exp_avg exp_avg_sq steps_before repeat scaled_grad grad_fill "
             "grad_dtype max_norm",
      "stepped norm scale_used scale_after weight master_weight weight_fp16 weight_bf16 momentum_buffer exp_avg exp_avg_sq" },
    { "accumulate", accumulate, "micro_grad micro_scaled_grad micro_samples scale window flush_last max_norm",
      "step_grad optimizer_steps" },
    { NULL, NULL, NULL, NULL },
};
