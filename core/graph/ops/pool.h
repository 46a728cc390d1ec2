/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of the pooling ops. */
#ifndef GRAPH_OPS_POOL_H
#define GRAPH_OPS_POOL_H

#include "graph/ops/op.h"

/** Shape of y from that of x. Every window must touch x: padding is at most half of the kernel, as in
 *  PyTorch. */
stance_status stance_pool_result(const char *op, const struct stance_pool *a, const struct stance_shape *x,
                                 struct stance_shape *y, struct stance_error *err);

/** Shape rule of a gradient: x from dy and attr.size. */
stance_status stance_pool_source(const char *op, const struct stance_pool *a, const struct stance_shape *dy,
                                 struct stance_shape *x, struct stance_error *err);

/** Builds the gradient node @p op (dy[, index]) of a pooling op. */
struct stance_value stance_pool_gradient(struct stance_builder *b, const char *op, const void *attr,
                                         struct stance_value x, struct stance_value dy,
                                         struct stance_value index);

/** Half-open range. */
struct pool_range { int64_t begin, end; };

/** Positions of x (size) under window p along axis d. */
static inline struct pool_range pool_window(const struct stance_pool *a, int d, int64_t p, int64_t size)
{
    int64_t begin = p * a->stride[d] - a->pad[d], end = begin + a->kernel[d];

    return (struct pool_range){ begin < 0 ? 0 : begin, end > size ? size : end };
}

/** Windows (of n) that cover position v of x along axis d. */
static inline struct pool_range pool_covering(const struct stance_pool *a, int d, int64_t v, int64_t n)
{
    int64_t first = v + a->pad[d] - a->kernel[d] + 1, last = (v + a->pad[d]) / a->stride[d];

    return (struct pool_range){ first <= 0 ? 0 : (first + a->stride[d] - 1) / a->stride[d],
                                last + 1 > n ? n : last + 1 };
}

#endif
