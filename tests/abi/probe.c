/* SPDX-License-Identifier: Apache-2.0 */
/* The op "probe" copies, and fails unless its kernel is given the type of number that the settings of the
 * backbone "probe" name: PLUGIN_OP builds the one, otherwise it is the other. */
#include <stance/plugin.h>

#include <string.h>

struct attr { int32_t expect; }; /* enum stance_type; -1: the reference, not the kernel */

#ifdef PLUGIN_OP

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in, struct stance_shape *out,
                           enum stance_type *out_type, int n_out, struct stance_error *err)
{
    (void)attr; (void)n_in; (void)out_type; (void)n_out; (void)err;
    out[0] = in[0];
    return STANCE_OK;
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)in; (void)n_in; (void)out; (void)n_out;
    d_in[0] = stance_node1(b, "probe_grad", attr, sizeof(struct attr), d_out, 1);
}

static stance_status copy(const struct stance_call *call, bool kernel)
{
    int32_t expect = ((const struct attr *)call->attr)->expect;

    if (kernel ? (int32_t)call->in[0].stored != expect || call->out[0].stored != call->in[0].stored
                     || call->in[0].layout != 0 || call->workspace == NULL
               : expect != -1)
        return STANCE_ERR_INTERNAL;
    memcpy(call->out[0].data, call->in[0].data, call->in[0].bytes);
    return STANCE_OK;
}

static stance_status reference(const struct stance_call *call)
{
    return copy(call, false);
}

static stance_status kernel(const struct stance_call *call)
{
    return copy(call, true);
}

static size_t workspace(const struct stance_call *call)
{
    (void)call;
    return 64;
}

static const struct stance_kernel kernels[] = {
    { .device = "cuda", .run = reference, .types = ~0u },
    { .device = "cpu", .run = kernel, .workspace = workspace, .types = 1u << STANCE_TYPE_F32 | 1u << STANCE_TYPE_BF16 },
};

static const struct stance_op_ops grad_ops = {
    .size = sizeof grad_ops, .attr_size = sizeof(struct attr), .type_class = STANCE_CLASS_FOLLOW, .shape = shape,
    .reference = reference, .kernels = kernels, .n_kernels = 2,
};
static const struct stance_op_ops ops = {
    .size = sizeof ops, .attr_size = sizeof(struct attr), .type_class = STANCE_CLASS_FOLLOW, .shape = shape,
    .gradient = gradient, .reference = reference, .kernels = kernels, .n_kernels = 2, .backward = &grad_ops,
};

STANCE_PLUGIN(op, probe) = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_OP, .name = "probe", .version = "1", .license = "Apache-2.0",
    .source = "test", .summary = "for tests", .ops.op = &ops,
};

#else

struct config { int64_t expect; };

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, expect, "-1", -1, 7, "1", "type of number, -1: the reference"),
    STANCE_PARAM_END
};

static void build(struct stance_builder *b, const void *config, struct stance_value image, struct stance_value *out,
                  int *n_out)
{
    struct stance_init  start = { STANCE_INIT_NORMAL, 0, 0.05F };
    struct attr         a     = { (int32_t)((const struct config *)config)->expect };
    struct stance_value x;

    stance_enter(b, "conv");
    x = stance_conv2d(b, image, 16, 3, 4, true, start);
    stance_leave(b);
    out[0] = stance_node1(b, "probe", &a, sizeof a, &x, 1);
    *n_out = 1;
}

static const struct stance_backbone_ops ops = { .size = sizeof ops, .build = build };

STANCE_PLUGIN(backbone, probe) = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_BACKBONE, .name = "probe", .version = "1", .license = "Apache-2.0",
    .source = "test", .summary = "for tests", .params = params, .config_size = sizeof(struct config),
    .ops.backbone = &ops,
};

#endif
