/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions and their gradients by oneDNN. A transposed convolution is the data gradient of a
 * convolution from its result to its operand, with the very same weights; so three primitives serve six
 * ops. What oneDNN cannot compute in (binary16 everywhere, bfloat16 on older machines) is converted to
 * binary32 in the workspace, and results are rounded as they are stored.
 *
 * oneDNN is told that there are as many channels as the blocks have room for: padding is zero in every
 * tensor and in the weights, so the results are the same, and kernels exist that narrow tensors would
 * not get. Rules for Winograd kernels: spec/cpu-training.md 5. */
#include "cpu.h"

#include <stance/log.h>

#define STANCE_LOG_MODULE "cpu"

enum direction { FORWARD, DATA, WEIGHTS };

/** Where a convolution's source, weights and result stand among an op's operands: i is in[i], -1 - i is
 *  out[i]. NONE: has none. */
struct roles { enum direction direction; bool transposed; int src, weights, dst, bias; };
#define NONE 100
#define OUT0 (-1)

struct conv {
    struct cpu_kernel     base;
    const struct roles   *roles;
    struct cpu_conv_desc  desc;
    dnnl_dims_t           src_dims, dst_dims, weight_dims;
    int                   weight_rank;
    bool                  src_blocked, dst_blocked, bf16;
    enum cpu_kind         src_kind, dst_kind;
    int64_t               src_length, dst_length, channels; /**< channels: of the result, with padding */
    size_t                scratch, src_at, dst_at, bias_at, workspace;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t      primitive;
    dnnl_memory_t         memory[5];
    void                 *handle[5];
    dnnl_exec_arg_t       arg[5];
    int                   n_args, bias_elements;
    enum cpu_kind         bias_kind;
};

static const struct stance_tensor *operand(const struct stance_tensor *in, const struct stance_tensor *out, int role)
{
    return role == NONE ? NULL : role >= 0 ? &in[role] : &out[-1 - role];
}

static int32_t or_one(int32_t v)
{
    return v == 0 ? 1 : v;
}

/* F(4x4, 3x3) pays when the transform of the weights is spread over enough tiles; the gradient of narrow
 * weights is no faster with it. The rule sees shapes only, so the same run takes the same kernels. */
static bool winograd_pays(const struct cpu *cpu, const struct conv *c, const struct stance_shape *w, int groups)
{
    int64_t tiles = c->dst_dims[0] * ((c->dst_dims[2] + 3) / 4) * ((c->dst_dims[3] + 3) / 4);

    if (cpu->config.winograd == CPU_WINOGRAD_OFF || c->bf16 || groups != 1 || !c->src_blocked || !c->dst_blocked
        || w->dim[2] != 3 || w->dim[3] != 3)
        return false;
    for (int d = 0; d < 2; d++)
        if (c->desc.stride[d] != 1 || c->desc.dilation[d] != 0 || c->desc.pad_low[d] > 1)
            return false;
    if (c->roles->direction == WEIGHTS)
        return tiles >= 48 && c->src_dims[1] > 32 && c->dst_dims[1] > 32;
    return tiles >= 40;
}

/* Everything that shapes and forms say. @return false: not a convolution that is done here. */
static bool plan(const struct cpu *cpu, const struct roles *r, const struct stance_request *q, struct conv *c)
{
    const struct stance_tensor *src = operand(q->in, q->out, r->src), *dst = operand(q->in, q->out, r->dst);
    const struct stance_tensor *w = operand(q->in, q->out, r->weights);
    const int32_t *stride, *pad, *dilation = NULL;
    int64_t        groups, lanes = cpu->lanes;

    if (src->shape.rank != 4 || dst->shape.rank != 4 || w->shape.rank != 4 || src->layout > CPU_BLOCKED
        || dst->layout > CPU_BLOCKED || !stance_cpu_kind(src, &c->src_kind) || !stance_cpu_kind(dst, &c->dst_kind))
        return false;
    if (r->transposed) {
        const struct stance_conv_transpose2d *a = q->attr;

        stride = a->stride, pad = a->pad, groups = or_one(a->groups);
    } else {
        const struct stance_conv2d *a = q->attr;

        stride = a->stride, pad = a->pad, dilation = a->dilation, groups = or_one(a->groups);
    }
    c->roles       = r;
    c->src_blocked = src->layout == CPU_BLOCKED;
    c->dst_blocked = dst->layout == CPU_BLOCKED;
    c->src_length  = stance_cpu_length(cpu, src);
    c->dst_length  = stance_cpu_length(cpu, dst);
    c->bf16        = cpu->bf16 && c->src_kind == CPU_BF16 && c->dst_kind == CPU_BF16;
    for (int d = 0; d < 4; d++) {
        c->src_dims[d] = src->shape.dim[d];
        c->dst_dims[d] = dst->shape.dim[d];
    }
    if (groups == 1) {
        if (c->src_blocked)
            c->src_dims[1] = stance_cpu_round_up(c->src_dims[1], lanes);
        if (c->dst_blocked)
            c->dst_dims[1] = stance_cpu_round_up(c->dst_dims[1], lanes);
    } else if (c->src_dims[1] % lanes != 0 || c->dst_dims[1] % lanes != 0) {
        return false;
    }
    c->weight_rank = groups == 1 ? 4 : 5;
    if (groups == 1) {
        memcpy(c->weight_dims, (dnnl_dims_t){ c->dst_dims[1], c->src_dims[1], w->shape.dim[2], w->shape.dim[3] },
               sizeof c->weight_dims);
    } else {
        memcpy(c->weight_dims,
               (dnnl_dims_t){ groups, c->dst_dims[1] / groups, c->src_dims[1] / groups, w->shape.dim[2],
                              w->shape.dim[3] },
               sizeof c->weight_dims);
    }
    for (int d = 0; d < 2; d++) {
        int64_t s = or_one(stride[d]), dil = dilation == NULL ? 1 : or_one(dilation[d]);

        c->desc.stride[d]   = s;
        c->desc.dilation[d] = dil - 1;
        c->desc.pad_low[d]  = pad[d];
        c->desc.pad_high[d] = (c->dst_dims[2 + d] - 1) * s + (w->shape.dim[2 + d] - 1) * dil + 1
                              - c->src_dims[2 + d] - pad[d];
    }
    c->desc.algorithm = winograd_pays(cpu, c, &w->shape, (int)groups) ? dnnl_convolution_winograd
                                                                      : dnnl_convolution_direct;
    return true;
}

static dnnl_format_tag_t tag(const struct cpu *cpu, bool blocked)
{
    return !blocked ? dnnl_abcd : cpu->lanes == 16 ? dnnl_aBcd16b : dnnl_aBcd8b;
}

/* Makes the primitive descriptor. @param weights  the layout of the weights; NULL: whatever oneDNN likes.
 * The gradient of the weights is always binary32. */
static dnnl_status_t describe(struct cpu *cpu, struct conv *c, cpu_md_ref weights, bool bias)
{
    dnnl_data_type_t      type = c->bf16 ? dnnl_bf16 : dnnl_f32;
    dnnl_dims_t           channels = { c->dst_dims[1] };
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t         s = dnnl_out_of_memory;
    cpu_md                src, dst, any, wide, b;

    if (!cpu_md_make(&src, 4, c->src_dims, type, tag(cpu, c->src_blocked)))
        return s;
    if (!cpu_md_make(&dst, 4, c->dst_dims, type, tag(cpu, c->dst_blocked)))
        goto drop_src;
    if (!cpu_md_make(&any, c->weight_rank, c->weight_dims, type, dnnl_format_tag_any))
        goto drop_dst;
    if (!cpu_md_make(&wide, c->weight_rank, c->weight_dims, dnnl_f32, dnnl_format_tag_any))
        goto drop_any;
    if (!cpu_md_make(&b, 1, channels, dnnl_f32, dnnl_a))
        goto drop_wide;
    if (c->roles->direction == FORWARD) {
        s = cpu_conv_forward(&c->pd, cpu->engine, &c->desc, cpu_md_of(&src), weights != NULL ? weights : cpu_md_of(&any),
                             bias ? cpu_md_of(&b) : NULL, cpu_md_of(&dst), cpu->attr);
    } else {
        s = cpu_conv_forward(&hint, cpu->engine, &c->desc, cpu_md_of(&src), cpu_md_of(&any), NULL, cpu_md_of(&dst),
                             cpu->attr);
        if (s == dnnl_success && c->roles->direction == DATA)
            s = cpu_conv_data(&c->pd, cpu->engine, &c->desc, cpu_md_of(&src),
                              weights != NULL ? weights : cpu_md_of(&any), cpu_md_of(&dst), hint, cpu->attr);
        else if (s == dnnl_success)
            s = cpu_conv_weights(&c->pd, cpu->engine, &c->desc, cpu_md_of(&src),
                                 weights != NULL ? weights : cpu_md_of(&wide), cpu_md_of(&dst), hint, cpu->attr);
        if (hint != NULL)
            dnnl_primitive_desc_destroy(hint);
    }
    cpu_md_drop(&b);
drop_wide:
    cpu_md_drop(&wide);
drop_any:
    cpu_md_drop(&any);
drop_dst:
    cpu_md_drop(&dst);
drop_src:
    cpu_md_drop(&src);
    if (s != dnnl_success && c->desc.algorithm == dnnl_convolution_winograd) {
        c->desc.algorithm = dnnl_convolution_direct;
        return describe(cpu, c, weights, bias);
    }
    return s;
}

static cpu_md_ref weights_md(const struct conv *c)
{
    return cpu_pd_md(c->pd, c->roles->direction == WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
}

static bool stored_wide(const struct conv *c, enum cpu_kind k)
{
    return c->bf16 || cpu_kind_size(k) == 4;
}

static size_t part(size_t *workspace, size_t bytes)
{
    size_t at = *workspace;

    *workspace += (bytes + 63) / 64 * 64;
    return at;
}

/* Cuts the workspace: oneDNN's scratch, wide copies of narrow operands, the padded bias. */
static void lay_out(struct conv *c, bool bias)
{
    cpu_md_ref scratch = cpu_pd_md(c->pd, dnnl_query_scratchpad_md);

    c->workspace = 0;
    c->scratch   = part(&c->workspace, scratch != NULL ? dnnl_memory_desc_get_size(scratch) : 0);
    c->src_at    = part(&c->workspace, stored_wide(c, c->src_kind) ? 0 : (size_t)c->src_length * 4);
    c->dst_at    = part(&c->workspace, stored_wide(c, c->dst_kind) ? 0 : (size_t)c->dst_length * 4);
    c->bias_at   = part(&c->workspace, bias ? (size_t)c->channels * 4 : 0);
}

static const struct stance_tensor *bias_of(const struct roles *r, const struct stance_tensor *in, int n_in)
{
    return r->bias != NONE && r->bias < n_in && in[r->bias].shape.rank >= 0 ? &in[r->bias] : NULL;
}

static bool plan_bias(const struct stance_tensor *b, struct conv *c)
{
    c->channels = c->roles->direction == DATA ? c->src_dims[1] : c->dst_dims[1];
    if (b == NULL)
        return true;
    c->bias_elements = (int)stance_elements(&b->shape);
    if (c->roles->direction == DATA && !c->src_blocked)
        return false;
    return b->layout == CPU_PLAIN && stance_cpu_kind(b, &c->bias_kind);
}

static bool offer(struct cpu *cpu, const struct roles *r, const struct stance_request *q, struct stance_offer *o)
{
    struct conv                 c = { .roles = r };
    const struct stance_tensor *b = bias_of(r, q->in, q->n_in);
    struct stance_form         *form = r->weights >= 0 ? &o->in[r->weights] : &o->out[-1 - r->weights];
    uint32_t                    id;

    if (!plan(cpu, r, q, &c) || !plan_bias(b, &c)
        || describe(cpu, &c, NULL, b != NULL && r->direction == FORWARD) != dnnl_success)
        return false;
    id = stance_cpu_layout_add(cpu, &operand(q->in, q->out, r->weights)->shape, weights_md(&c));
    if (id != 0) {
        form->layout = id;
        form->stored = c.bf16 && r->direction != WEIGHTS ? STANCE_TYPE_BF16 : STANCE_TYPE_F32;
        form->bytes  = dnnl_memory_desc_get_size(weights_md(&c));
        if (b != NULL) {
            o->in[r->bias].stored = STANCE_TYPE_F32;
            o->in[r->bias].bytes  = (size_t)c.bias_elements * 4;
        }
        lay_out(&c, b != NULL);
        o->workspace = c.workspace;
    }
    dnnl_primitive_desc_destroy(c.pd);
    return id != 0;
}

static void dispose(struct cpu_kernel *kernel)
{
    struct conv *c = (struct conv *)kernel;

    for (int i = 0; i < 5; i++)
        if (c->memory[i] != NULL)
            dnnl_memory_destroy(c->memory[i]);
    if (c->primitive != NULL)
        dnnl_primitive_destroy(c->primitive);
    if (c->pd != NULL)
        dnnl_primitive_desc_destroy(c->pd);
    stance_free(c);
}

/* A kernel named "ref" or "gemm" is tens of times slower; worth a word where the work is not small. */
static void warn_if_slow(const struct conv *c)
{
    const char *name = NULL;
    double      work = 2.0 * (double)c->dst_length * (double)c->weight_dims[c->weight_rank - 3]
                  * (double)c->weight_dims[c->weight_rank - 2] * (double)c->weight_dims[c->weight_rank - 1];

    if (work < 1e9 || dnnl_primitive_desc_query(c->pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success)
        return;
    if (strncmp(name, "ref", 3) == 0)
        STANCE_LOG(STANCE_LOG_WARN, "convolution %lldx%lld, %lld to %lld channels: oneDNN has only a slow kernel (%s)",
                   (long long)c->weight_dims[c->weight_rank - 2], (long long)c->weight_dims[c->weight_rank - 1],
                   (long long)c->src_dims[1], (long long)c->dst_dims[1], name);
}

static stance_status add_arg(struct cpu *cpu, struct conv *c, int name, dnnl_query_t what)
{
    cpu_md_ref md = cpu_pd_md(c->pd, what);

    if (dnnl_memory_create(&c->memory[c->n_args], md, cpu->engine, DNNL_MEMORY_NONE) != dnnl_success)
        return STANCE_ERR_NOMEM;
    c->arg[c->n_args] = (dnnl_exec_arg_t){ name, c->memory[c->n_args] };
    c->n_args++;
    return STANCE_OK;
}

static stance_status prepare(struct cpu *cpu, const struct roles *r, const struct stance_request *q,
                             struct cpu_kernel **kernel, struct stance_error *err)
{
    const struct stance_tensor *b = bias_of(r, q->in, q->n_in), *w = operand(q->in, q->out, r->weights);
    const struct cpu_layout    *layout = stance_cpu_layout(cpu, w->layout);
    int                         type = w->stored == STANCE_TYPE_BF16;
    struct conv                *c = stance_calloc(1, sizeof *c);
    cpu_md                      plain;
    dnnl_status_t               s;

    if (c == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "kernel of '%s'", q->op);
    if (!plan(cpu, r, q, c) || !plan_bias(b, c) || (w->layout != CPU_PLAIN && (layout == NULL || !layout->has[type]))
        || (r->direction != WEIGHTS && w->stored != (c->bf16 ? STANCE_TYPE_BF16 : STANCE_TYPE_F32))) {
        dispose(&c->base);
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "%s: operands are not in the forms that device 'cpu' offered", q->op);
    }
    if (layout != NULL) {
        s = describe(cpu, c, cpu_md_of(&layout->md[type]), b != NULL && r->direction == FORWARD);
    } else if (cpu_md_make(&plain, c->weight_rank, c->weight_dims, type ? dnnl_bf16 : dnnl_f32,
                           c->weight_rank == 4 ? dnnl_abcd : dnnl_abcde)) {
        s = describe(cpu, c, cpu_md_of(&plain), b != NULL && r->direction == FORWARD);
        cpu_md_drop(&plain);
    } else {
        s = dnnl_out_of_memory;
    }
    if (s == dnnl_success)
        s = dnnl_primitive_create(&c->primitive, c->pd);
    if (s != dnnl_success) {
        dispose(&c->base);
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "%s: oneDNN cannot make the convolution (status %d)", q->op, (int)s);
    }
    lay_out(c, b != NULL);
    warn_if_slow(c);
    /* The order is that of launch(): source, weights, result, scratch, bias. */
    if (add_arg(cpu, c, r->direction == DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
                r->direction == DATA ? dnnl_query_diff_src_md : dnnl_query_src_md) != STANCE_OK
        || add_arg(cpu, c, r->direction == WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                   r->direction == WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md) != STANCE_OK
        || add_arg(cpu, c, r->direction == FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
                   r->direction == FORWARD ? dnnl_query_dst_md : dnnl_query_diff_dst_md) != STANCE_OK
        || add_arg(cpu, c, DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md) != STANCE_OK)
        goto dispose_kernel;
    if (b != NULL && r->direction == FORWARD) {
        cpu_md md;
        bool   made;

        if (!cpu_md_make(&md, 1, (dnnl_dims_t){ c->dst_dims[1] }, dnnl_f32, dnnl_a))
            goto dispose_kernel;
        made = dnnl_memory_create(&c->memory[4], cpu_md_of(&md), cpu->engine, DNNL_MEMORY_NONE) == dnnl_success;
        cpu_md_drop(&md);
        if (!made)
            goto dispose_kernel;
        c->arg[c->n_args++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, c->memory[4] };
    }
    *kernel = &c->base;
    return STANCE_OK;

dispose_kernel:
    dispose(&c->base);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "memory objects of '%s'", q->op);
}

/* y += bias, channel by channel, for a transposed convolution. */
struct add_bias { const struct cpu *cpu; struct cpu_grid grid; enum cpu_kind kind; const float *bias; void *y; };

static void add_bias_unit(void *ctx, int64_t i)
{
    static const float one[CPU_LANES_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    struct add_bias   *a = ctx;
    struct cpu_unit    u = stance_cpu_unit(&a->grid, i);
    void              *y = stance_cpu_at(a->y, a->kind, stance_cpu_start(&a->grid, &u, a->cpu->lanes, 1));
    struct cpu_apply   t = { .n_norm = 1, .factor = { 1 }, .z = { y }, .a = { one }, .y = y, .rows = u.rows,
                             .width = a->grid.width };

    t.b = a->bias + u.block * a->cpu->lanes;
    a->cpu->pass->typed[a->kind].apply(&t);
}

static stance_status launch(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct conv                *c = (struct conv *)kernel;
    const struct roles         *r = c->roles;
    const struct stance_tensor *src = operand(call->in, call->out, r->src), *dst = operand(call->in, call->out, r->dst);
    const struct stance_tensor *w = operand(call->in, call->out, r->weights);
    const struct stance_tensor *b = bias_of(r, call->in, call->n_in);
    char                       *scratch = call->workspace;
    void *handle[5] = { src->data, w->data, dst->data, scratch + c->scratch, scratch + c->bias_at };

    if (!stored_wide(c, c->src_kind)) {
        handle[0] = scratch + c->src_at;
        if (r->direction != DATA)
            stance_cpu_convert(cpu, CPU_F32, handle[0], c->src_kind, src->data, c->src_length);
    }
    if (!stored_wide(c, c->dst_kind)) {
        handle[2] = scratch + c->dst_at;
        if (r->direction != FORWARD)
            stance_cpu_convert(cpu, CPU_F32, handle[2], c->dst_kind, dst->data, c->dst_length);
    }
    if (b != NULL) {
        float *to = handle[4];

        memset(to, 0, (size_t)c->channels * 4);
        cpu->pass->convert[CPU_F32][c->bias_kind > CPU_F16 ? CPU_F32 : c->bias_kind](to, b->data, c->bias_elements);
    }
    for (int i = 0; i < 5; i++) {
        if (c->memory[i] == NULL || c->handle[i] == handle[i])
            continue;
        if (dnnl_memory_set_data_handle(c->memory[i], handle[i]) != dnnl_success)
            return STANCE_ERR_DEVICE;
        c->handle[i] = handle[i];
    }
    if (dnnl_primitive_execute(c->primitive, cpu->stream, c->n_args, c->arg) != dnnl_success
        || dnnl_stream_wait(cpu->stream) != dnnl_success)
        return STANCE_ERR_DEVICE;
    if (b != NULL && r->direction == DATA) {
        struct add_bias a = { cpu, stance_cpu_grid(cpu, src), c->bf16 ? CPU_BF16 : CPU_F32, handle[4], handle[0] };

        stance_cpu_parallel(cpu, stance_cpu_units(&a.grid), add_bias_unit, &a);
    }
    if (c->bf16)
        return STANCE_OK;
    if (r->direction == FORWARD && c->dst_kind != CPU_F32)
        stance_cpu_convert(cpu, c->dst_kind, dst->data, CPU_F32, handle[2], c->dst_length);
    if (r->direction == DATA && c->src_kind != CPU_F32)
        stance_cpu_convert(cpu, c->src_kind, src->data, CPU_F32, handle[0], c->src_length);
    if (r->direction == WEIGHTS && w->type == STANCE_TYPE_F16)
        stance_cpu_convert(cpu, CPU_F32_OF_F16, w->data, CPU_F32, w->data, stance_cpu_length(cpu, w));
    return STANCE_OK;
}

#define CONV_OP(id, name, ...)                                                                                \
    static const struct roles roles_##id = { __VA_ARGS__ };                                                   \
    static bool offer_##id(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)           \
    {                                                                                                         \
        return offer(cpu, &roles_##id, q, o);                                                                 \
    }                                                                                                         \
    static stance_status prepare_##id(struct cpu *cpu, const struct stance_request *q, struct cpu_kernel **k, \
                                      struct stance_error *err)                                               \
    {                                                                                                         \
        return prepare(cpu, &roles_##id, q, k, err);                                                          \
    }                                                                                                         \
    static const struct cpu_op op_##id = { name, offer_##id, prepare_##id, launch, dispose };

CONV_OP(conv, "conv2d", FORWARD, false, 0, 1, OUT0, 2)
CONV_OP(conv_data, "conv2d_grad_data", DATA, false, OUT0, 1, 0, NONE)
CONV_OP(conv_weight, "conv2d_grad_weight", WEIGHTS, false, 1, OUT0, 0, NONE)
CONV_OP(deconv, "conv_transpose2d", DATA, true, OUT0, 1, 0, 2)
CONV_OP(deconv_data, "conv_transpose2d_grad_data", FORWARD, true, 0, 1, OUT0, NONE)
CONV_OP(deconv_weight, "conv_transpose2d_grad_weight", WEIGHTS, true, 0, OUT0, 1, NONE)

const struct cpu_op *const stance_cpu_conv_ops[] = { &op_conv, &op_conv_data, &op_conv_weight, &op_deconv,
                                                     &op_deconv_data, &op_deconv_weight, NULL };
