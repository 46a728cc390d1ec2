/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tiny.h"

#include "base/half.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plugins that build it --------------------------------------------------------------- */

static void build_backbone(struct stance_builder *b, const void *config, struct stance_value image,
                           struct stance_value *out, int *n_out)
{
    const struct tiny_net *net = config;

    (void)image;
    out[0] = net->build(b, net->ctx);
    *n_out = 1;
}

static void build_head(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                       const struct stance_value *features, int n, struct stance_value *out,
                       int *n_out)
{
    (void)config;
    (void)pose;
    (void)n;
    out[0] = features[0];
    *n_out = 1;
    stance_output(b, "output", out[0]);
}

static struct stance_value build_loss(struct stance_builder *b, const void *config,
                                      const struct stance_pose  *pose,
                                      const struct stance_value *outputs, int n)
{
    const struct tiny_net     *net = config;
    const struct stance_shape  s   = stance_shape_of(b, outputs[0]);
    const struct stance_reduce all = { (1u << (s.rank > 0 ? s.rank : 0)) - 1, 0 };

    (void)pose;
    (void)n;
    return net->loss != NULL ? net->loss(b, net->ctx, outputs[0])
                             : stance_node1(b, "reduce_sum", &all, sizeof all, outputs, 1);
}

static const struct stance_backbone_ops backbone_ops = { .size  = sizeof backbone_ops,
                                                         .build = build_backbone };
static const struct stance_head_ops     head_ops = { .size = sizeof head_ops, .build = build_head };
static const struct stance_loss_ops     loss_ops = { .size = sizeof loss_ops, .build = build_loss };

static void make_model(struct tiny *t, struct stance_registry *registry, const struct tiny_net *net)
{
    const struct stance_plugin head = { STANCE_PLUGIN_HEAD, .name = "tiny" };

    t->backbone = t->head = t->loss = head;
    t->backbone.kind         = STANCE_KIND_BACKBONE;
    t->backbone.ops.backbone = &backbone_ops;
    t->head.kind             = STANCE_KIND_HEAD;
    t->head.ops.head         = &head_ops;
    t->loss.kind             = STANCE_KIND_LOSS;
    t->loss.ops.loss         = &loss_ops;
    t->pose = (struct stance_pose){ .size         = sizeof t->pose,
                                    .keypoints    = 1,
                                    .input_size   = { 1, 1 },
                                    .heatmap_size = { 1, 1 } };
    t->model = (struct stance_model){ registry,
                                      { &t->backbone, (void *)net },
                                      { &t->head, NULL },
                                      { &t->loss, (void *)net },
                                      &t->pose };
}

/* ---- opening --------------------------------------------------------------------------------- */

static stance_status set_optimizer(struct walk *w, struct tiny *t, const struct tiny_options *o,
                                   struct stance_error *err)
{
    void         *config;
    stance_status status = STANCE_OK;

    t->optimizer.plugin = walk_plugin(w, STANCE_KIND_OPTIMIZER, o->optimizer, &config);
    t->optimizer.config = config;
    if (t->optimizer.plugin == NULL)
        return STANCE_ERR_NOENT;
    for (size_t i = 0; o->settings != NULL && i < o->settings->count && status == STANCE_OK; i++) {
        const struct stance_config_node *n    = o->settings->child[i];
        struct stance_string             text = { 0 };

        if (strcmp(n->key, "type") == 0)
            continue;
        if (stance_param_find(t->optimizer.plugin->params, n->key) == NULL)
            walk_fail(w, "does not know key %s in optimizer", n->key);
        if (n->kind == STANCE_CONFIG_LIST)
            for (size_t k = 0; k < n->count; k++)
                stance_string_add(&text, "%s%s", k > 0 ? "," : "", n->child[k]->text);
        else
            stance_string_add(&text, "%s", n->text != NULL ? n->text : "");
        if (!walk_failed(w))
            status = stance_param_set(t->optimizer.plugin->params, t->optimizer.config, n->key,
                                      text.s, err);
        stance_string_free(&text);
    }
    return status;
}

static stance_status open_step(struct walk *w, struct tiny *t, struct stance_policy policy,
                               const struct tiny_net *net, const struct tiny_options *o,
                               struct stance_error *err)
{
    struct stance_step_options so     = { .model      = &t->model,
                                          .device     = t->device,
                                          .policy     = policy,
                                          .optimizer  = &t->optimizer,
                                          .batch      = 1,
                                          .accumulate = o->accumulate,
                                          .clip       = o->clip };
    stance_status              status = set_optimizer(w, t, o, err);

    if (status != STANCE_OK || walk_failed(w))
        return status;
    make_model(t, w->registry, net);
    status = stance_scaler_from(w->registry, o->scaler, &t->scaler, err);
    if (status != STANCE_OK)
        return status;
    so.scaler = t->scaler;
    status    = stance_step_new(&so, &t->step, err);
    if (status != STANCE_OK)
        return status;
    t->store = stance_step_store(t->step);
    status   = stance_store_initialise(t->store, 0, err);
    return status == STANCE_OK ? stance_step_refresh(t->step, err) : status;
}

static void prefix(struct walk *w, const char *device)
{
    char text[sizeof w->why];

    if (!walk_failed(w))
        return;
    snprintf(text, sizeof text, "device %s: %.570s", device, w->why);
    memcpy(w->why, text, sizeof text);
}

void tiny_on_devices(struct walk *w, const struct tiny_net *net, const struct tiny_options *o,
                     stance_status (*run)(struct walk *w, struct tiny *t, void *arg,
                                          struct stance_error *err),
                     void *arg)
{
    static const char *const devices[] = { "ref", "cpu" };
    int                      ran       = 0;

    for (size_t i = 0;
         i < sizeof devices / sizeof *devices && w->status == STANCE_OK && !walk_failed(w); i++) {
        struct tiny          t = { .name = devices[i] };
        struct stance_policy policy;

        if (stance_device_open(w->registry, devices[i], NULL, 1, &t.device, NULL) != STANCE_OK)
            continue;
        if (stance_policy_of(o->precision, t.device, true, &policy, NULL) == STANCE_OK) {
            ran++;
            w->status = open_step(w, &t, policy, net, o, &w->err);
            if (w->status == STANCE_OK && !walk_failed(w))
                w->status = run(w, &t, arg, &w->err);
            prefix(w, devices[i]);
        }
        stance_step_free(t.step);
        stance_scaler_free(t.scaler);
        stance_instance_clear(&t.optimizer);
        stance_device_close(t.device);
    }
    if (ran == 0)
        walk_fail(w, "no device trains in %s", o->precision);
}

/* ---- numbers --------------------------------------------------------------------------------- */

size_t tiny_segment(struct walk *w, const struct tiny *t, const char *leaf)
{
    char name[100];
    long at;

    snprintf(name, sizeof name, "backbone.%s", leaf);
    at = stance_store_find(t->store, name);
    if (at < 0) {
        walk_fail(w, "the network has no %s", name);
        return 0;
    }
    return (size_t)at;
}

stance_status tiny_write(struct tiny *t, size_t segment, int array, const double *v,
                         struct stance_error *err)
{
    return stance_store_write(t->store, segment, array, STANCE_TYPE_F64, v, err);
}

double *tiny_read(struct walk *w, struct tiny *t, size_t segment, int array)
{
    double *v =
        stance_calloc((size_t)stance_elements(&t->store->segments[segment].shape) + 1, sizeof *v);
    struct stance_error err = STANCE_ERROR_INIT;

    if (v == NULL)
        abort();
    if (stance_store_read(t->store, segment, array, STANCE_TYPE_F64, v, &err) != STANCE_OK)
        walk_fail(w, "%s", err.text);
    return v;
}

stance_status tiny_fill(struct walk *w, struct tiny *t, const char *input, const double *v,
                        struct stance_error *err)
{
    int number = stance_step_input(t->step, STANCE_STEP_BATCH, input);

    if (number < 0) {
        walk_fail(w, "the network has no input %s", input);
        return STANCE_OK;
    }
    return stance_step_fill(t->step, STANCE_STEP_BATCH, number, STANCE_TYPE_F64, v, err);
}

enum stance_type tiny_type(struct walk *w, const char *word)
{
    if (strcmp(word, "fp16") == 0)
        return STANCE_TYPE_F16;
    if (strcmp(word, "bf16") == 0)
        return STANCE_TYPE_BF16;
    if (strcmp(word, "fp32") != 0)
        walk_fail(w, "type '%s' is not known", word);
    return STANCE_TYPE_F32;
}

double tiny_round(double v, enum stance_type type)
{
    int fraction = type == STANCE_TYPE_F16 ? STANCE_F16_FRACTION : STANCE_BF16_FRACTION;

    if (type == STANCE_TYPE_F32)
        return (double)(float)v;
    return stance_f64_of_half(stance_half_of_f64(v, fraction), fraction);
}

/* The dynamic scaler unless the case says otherwise; its settings are the plugin's. */
void tiny_scaler(struct walk *w, char *text, size_t size)
{
    static const char *const keys[] = { "growth_factor", "backoff_factor", "growth_interval",
                                        "min_scale", "max_scale" };
    const char              *mode   = walk_text(w, "mode", "dynamic");
    char                     number[40];
    size_t                   len;

    stance_text_of_f64(walk_f64(w, walk_has(w, "init_scale") ? "init_scale" : "scale", 65536),
                       number, sizeof number);
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
