/* SPDX-License-Identifier: Apache-2.0
 *
 * scale: a constant times x. */
#include "graph/ops/op.h"

#include <math.h>

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_scale *a = attr;

    (void)out_type;
    if (!isfinite(a->factor))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "scale: factor %g is not finite", a->factor);
    return stance_op_unary("scale", in, n_in, out, n_out, err);
}

static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    (void)n_in, (void)out, (void)n_out;
    if (d_out[0].id != 0 && op_wants(b, in[0]))
        d_in[0] = stance_node1(b, "scale", attr, sizeof(struct stance_scale), d_out, 1);
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const double factor = ((const struct stance_scale *)c->attr)->factor;

    for (int64_t i = 0, n = stance_elements(&c->out[0].shape); i < n; i++)
        put(&c->out[0], i, factor * get(&c->in[0], i, mode), mode);
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_scale = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_scale),
    .type_class = STANCE_CLASS_FOLLOW,
    .flags      = STANCE_OP_IN_PLACE,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
