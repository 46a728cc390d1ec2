/* SPDX-License-Identifier: Apache-2.0 */
#include "models_stub.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
struct stance_builder *stub_new(void)
{
    struct stance_builder *b = calloc(1, sizeof *b);
    b->weight = calloc(8000, sizeof *b->weight);
    b->value = calloc(20000, sizeof *b->value);
    b->n_values = 1; b->value[0].rank = -1;
    b->training = true;
    return b;
}
void stub_free(struct stance_builder *b) { free(b->weight); free(b->value); free(b); }
static struct stance_value add_value(struct stance_builder *b, struct stance_shape s)
{ struct stance_value v = { (uint32_t)b->n_values }; b->value[b->n_values++] = s; return v; }
struct stance_value stance_input(struct stance_builder *b, const char *name, enum stance_type t, struct stance_shape s)
{ (void)t; if (b->err.status) return (struct stance_value){0}; strcpy(b->input[b->n_inputs].name, name); b->input[b->n_inputs++].s = s; return add_value(b, s); }
struct stance_value stance_weight(struct stance_builder *b, const char *leaf, enum stance_role role, enum stance_type type, struct stance_shape shape, struct stance_init init)
{
    struct stub_weight *w;
    if (b->err.status) return (struct stance_value){0};
    w = &b->weight[b->n_weights++];
    snprintf(w->name, sizeof w->name, "%s%s%s", b->scope, b->depth ? "." : "", leaf);
    w->role = role; w->type = type; w->shape = shape; w->init = init;
    return add_value(b, shape);
}
void stance_refuse(struct stance_builder *b, stance_status st, const char *fmt, ...)
{ va_list ap; if (b->err.status) return; b->err.status = st; va_start(ap, fmt); vsnprintf(b->err.text, sizeof b->err.text, fmt, ap); va_end(ap); }
void stance_node(struct stance_builder *b, const char *op, const void *attr, size_t size, const struct stance_value *in, int n_in, struct stance_value *out, int n_out)
{
    struct stance_shape x = stance_shape_of(b, in[0]), w = n_in > 1 ? stance_shape_of(b, in[1]) : x, y = x;
    (void)size;
    for (int i = 0; i < n_out; i++) out[i].id = 0;
    if (b->err.status) return;
    if (!strcmp(op, "conv2d")) {
        const struct stance_conv2d *a = attr;
        if (w.dim[1] != x.dim[1]) { stance_refuse(b, STANCE_ERR_SHAPE, "%s: conv2d", b->scope); return; }
        y.dim[1] = w.dim[0];
        for (int i = 0; i < 2; i++) y.dim[2 + i] = (x.dim[2 + i] + 2 * a->pad[i] - a->kernel[i]) / a->stride[i] + 1;
        b->convs++;
    } else if (!strcmp(op, "conv_transpose2d")) {
        const struct stance_conv_transpose2d *a = attr;
        y.dim[1] = w.dim[1];
        for (int i = 0; i < 2; i++) y.dim[2 + i] = (x.dim[2 + i] - 1) * a->stride[i] - 2 * a->pad[i] + a->kernel[i] + a->output_pad[i];
    } else if (!strcmp(op, "max_pool")) {
        const struct stance_pool *a = attr;
        for (int i = 0; i < 2; i++) y.dim[2 + i] = (x.dim[2 + i] + 2 * a->pad[i] - a->kernel[i]) / a->stride[i] + 1;
    } else if (!strcmp(op, "upsample")) {
        const struct stance_upsample *a = attr;
        for (int i = 0; i < 2; i++) y.dim[2 + i] *= a->factor[i];
    } else if (!strcmp(op, "add")) {
        for (int i = 1; i < n_in; i++) { struct stance_shape s = stance_shape_of(b, in[i]); if (memcmp(&s, &x, sizeof s)) stance_refuse(b, STANCE_ERR_SHAPE, "%s: add: shapes", b->scope); }
    } else if (!strcmp(op, "mse")) {
        if (memcmp(&w, &x, sizeof w)) stance_refuse(b, STANCE_ERR_SHAPE, "mse: shapes");
        memset(&y, 0, sizeof y);
    } else if (strcmp(op, "relu") && strcmp(op, "scale"))
        stance_refuse(b, STANCE_ERR_NOENT, "no op %s", op);
    for (int i = 0; i < n_out; i++) out[i] = add_value(b, y);
}
void stance_output(struct stance_builder *b, const char *name, struct stance_value v)
{ strcpy(b->output[b->n_outputs].name, name); b->output[b->n_outputs++].v = v; }
struct stance_shape stance_shape_of(const struct stance_builder *b, struct stance_value v) { return b->value[v.id]; }
void stance_enter(struct stance_builder *b, const char *fmt, ...)
{
    size_t n = strlen(b->scope); va_list ap;
    b->mark[b->depth++] = n;
    if (n) { strcat(b->scope, "."); n++; }
    va_start(ap, fmt); vsnprintf(b->scope + n, sizeof b->scope - n, fmt, ap); va_end(ap);
}
void stance_leave(struct stance_builder *b) { b->scope[b->mark[--b->depth]] = 0; }
bool stance_training(const struct stance_builder *b) { return b->training; }
bool stance_failed(const struct stance_builder *b) { return b->err.status != STANCE_OK; }
struct stance_value stance_batch_norm(struct stance_builder *b, struct stance_value x, float weight)
{
    struct stance_shape c = stance_shape1(stance_shape_of(b, x).dim[1]), one = { 0 };
    struct stance_init i0 = { 0 }, i1 = { STANCE_INIT_CONSTANT, 1, 0 }, iw = { STANCE_INIT_CONSTANT, weight, 0 };
    stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c, iw);
    stance_weight(b, "bias", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c, i0);
    stance_weight(b, "running_mean", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, i0);
    stance_weight(b, "running_var", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, i1);
    stance_weight(b, "num_batches_tracked", STANCE_ROLE_STATE, STANCE_TYPE_I64, one, i0);
    return b->err.status ? (struct stance_value){0} : add_value(b, stance_shape_of(b, x));
}
stance_status stance_decode_heatmap(const struct stance_decode *d, struct stance_error *err) { (void)d; (void)err; return STANCE_OK; }
void stance_unflip_heatmap(const int32_t *p, float *h, int b, int k, int hh, int w, bool s) { (void)p; (void)h; (void)b; (void)k; (void)hh; (void)w; (void)s; }
