/* SPDX-License-Identifier: Apache-2.0
 *
 * grad_check: one pass over the flat gradients of a window: are they finite, what is their norm, and by
 * what are they to be multiplied. The result is the control block, in whose memory scale and clip stand
 * already. */
#include "graph/ops/op.h"

#include <stance/device.h>

#include <math.h>

#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the check has to see Inf and NaN: no -ffast-math, no -ffinite-math-only"
#endif

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    stance_status status = stance_op_count("grad_check", n_in, 1, 1, n_out, 1, err);

    (void)attr;
    if (status == STANCE_OK)
        status = stance_op_operand("grad_check", "gradients", &in[0], 1, err);
    if (status != STANCE_OK)
        return status;
    out[0]      = stance_shape1(sizeof(struct stance_control));
    out_type[0] = STANCE_TYPE_U8;
    return STANCE_OK;
}

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    struct stance_control *control = c->out[0].data;
    /* As PyTorch's GradScaler: the reciprocal is rounded to binary32 whatever the gradients are. */
    const double inverse   = (float)(1 / (double)control->scale);
    double       squares   = 0, max = 0;
    int64_t      first_bad = -1;

    for (int64_t i = 0, n = stance_elements(&c->in[0].shape); i < n; i++) {
        double g = get(&c->in[0], i, mode) * inverse;

        /* The unscaled number has to be one as well: below a scale of 1 it is the larger. */
        if (first_bad < 0 && !isfinite(mode == OP_F32 ? (double)(float)g : g))
            first_bad = i;
        squares += g * g;
        if (fabs(g) > max)
            max = fabs(g);
    }
    control->sum_squares   = squares;
    control->max_abs       = first_bad < 0 ? max : (double)INFINITY;
    control->first_bad     = first_bad;
    control->update.skip   = first_bad >= 0;
    control->update.factor = inverse;
    if (first_bad < 0 && control->clip > 0) {
        double norm        = control->clip_inf ? max : sqrt(squares);
        double coefficient = control->clip / (norm + 1e-6); /* 1e-6: torch.nn.utils.clip_grad_norm_ */

        if (coefficient < 1)
            control->update.factor = inverse * coefficient;
    }
}
OP_REFERENCE_OF(reference, body, 1, 0)

const struct stance_op_ops stance_op_grad_check = {
    .size       = sizeof(struct stance_op_ops),
    .type_class = STANCE_CLASS_WIDE,
    .flags      = STANCE_OP_NO_RECOMPUTE,
    .shape      = shape,
    .reference  = reference,
};
