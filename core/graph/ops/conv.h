/* SPDX-License-Identifier: Apache-2.0
 *
 * The three sums behind conv2d and conv_transpose2d. With
 *
 *     y[n,o,p,q] = sum over c,i,j of w[o,c,i,j] x[n,c, p stride - pad + i dilation, q stride - ...]
 *
 * conv2d is the sum itself, its gradients are the two adjoints; conv_transpose2d is the adjoint towards x,
 * so that its own gradients are the sum and the adjoint towards w. */
#ifndef GRAPH_OPS_CONV_H
#define GRAPH_OPS_CONV_H

#include "graph/ops/op.h"

/** Geometry: x [n,c,h,w], y [n,o,p,q], weight [o,c/groups,kh,kw]. */
struct conv_plan {
    int64_t n, c, h, w, o, p, q, kh, kw;
    int64_t stride[2], pad[2], dilation[2], groups;
};

/** Positions that a kernel of k taps takes on a padded axis; below 1 if it does not fit once. */
static inline int64_t conv_positions(int64_t size, int64_t k, int64_t stride, int64_t pad, int64_t dilation)
{
    int64_t span;

    if (__builtin_mul_overflow(dilation, k - 1, &span) || size + 2 * pad <= span)
        return 0;
    return (size + 2 * pad - span - 1) / stride + 1;
}

/** y = w * x + bias; @p bias NULL or [o]. */
void stance_conv_sum(const struct conv_plan *g, const struct stance_tensor *x,
                     const struct stance_tensor *w, const struct stance_tensor *bias,
                     const struct stance_tensor *y, enum op_mode mode);

/** x = adjoint of w * y, + bias; @p bias NULL or [c]. */
void stance_conv_adjoint_data(const struct conv_plan *g, const struct stance_tensor *y,
                              const struct stance_tensor *w, const struct stance_tensor *bias,
                              const struct stance_tensor *x, enum op_mode mode);

/** w = sum over n, p, q of y times the x under it. */
void stance_conv_adjoint_weight(const struct conv_plan *g, const struct stance_tensor *y,
                                const struct stance_tensor *x, const struct stance_tensor *w,
                                enum op_mode mode);

/** Sum of a gradient [N,C,H,W] over all but C: the gradient of a bias. */
struct stance_value stance_conv_bias_gradient(struct stance_builder *b, struct stance_value dy);

#endif
