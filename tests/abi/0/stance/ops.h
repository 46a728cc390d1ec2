/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The built-in ops: their attributes, and one-line builders for the common forms.
 *
 *  Shapes: x [N,C,H,W]; weights of a convolution [O,C/groups,kh,kw], of a transposed one
 *  [C,O/groups,kh,kw] (PyTorch's order, as in published checkpoints). conv1d is conv2d with H = 1. */
#ifndef STANCE_OPS_H
#define STANCE_OPS_H

#include <stance/graph.h>

STANCE_BEGIN_DECLS

/** @addtogroup ops Built-in ops
 *  @{ */

/** "conv2d" (x, w, [bias [O]]) -> y; zero padding; 0 in dilation or groups means 1; kernel is w's, or 0.
 *  "conv2d_grad_data" (dy, w) -> dx: attr.size is H, W of x.
 *  "conv2d_grad_weight" (dy, x) -> dw: attr.kernel is kh, kw. */
struct stance_conv2d {
    int32_t stride[2];   /**< down, across */
    int32_t pad[2];      /**< zeros at each side */
    int32_t dilation[2]; /**< distance of the taps */
    int32_t groups;      /**< parts that the channels are divided into */
    int32_t kernel[2];   /**< kh, kw */
    int32_t size[2];     /**< H, W of x, for the gradient */
};

/** "conv_transpose2d" (x, w, [bias]) -> y: H = (h-1) stride - 2 pad + kernel + output_pad.
 *  "conv_transpose2d_grad_data" (dy, w) -> dx; "conv_transpose2d_grad_weight" (dy, x) -> dw. */
struct stance_conv_transpose2d {
    int32_t stride[2];     /**< down, across */
    int32_t pad[2];        /**< taken off at each side */
    int32_t output_pad[2]; /**< rows and columns added at the end */
    int32_t groups;        /**< parts that the channels are divided into */
    int32_t kernel[2];     /**< kh, kw */
};

/** The sum of numbers over all processes of a run, in place: every process calls it as often and with as
 *  many numbers as the others. */
struct stance_sync {
    stance_status (*sum)(const struct stance_sync *, double *v, size_t n); /**< @p v [n] */
};

/** "batch_norm" (x, weight, bias, running_mean, running_var) -> y, new_mean, new_var, mean,
 *  inv_std: batch statistics, biased variance for y, unbiased one folded into new_var; non-finite
 *  batch statistics are not folded. All per-channel operands are F32 [C].
 *  "batch_norm_grad" (dy, x, weight, mean, inv_std) -> dx, dweight, dbias.
 *  "batch_norm_inference" (x, weight, bias, running_mean, running_var) -> y.
 *  "batch_norm_inference_grad" (dy, x, weight, running_mean, running_var) -> dx, dweight, dbias.
 *  "increment" (I64 counter) -> counter + 1. No attribute. */
/* With sync the statistics are those of all processes: one sum of 2 C + 1 numbers in each
 * direction (of x, of its square, elements; of dy, of dy (x - mean), elements); dweight and dbias stay those of
 * this process. */
struct stance_batch_norm {
    double eps;      /**< added to the variance */
    double momentum; /**< weight of the new statistics: running = (1 - momentum) running + momentum new */
    const struct stance_sync *sync; /**< NULL: one process */
};

/** "upsample" (x) -> y; "upsample_grad" (dy) -> dx. bilinear: align_corners false, as PyTorch's. */
struct stance_upsample {
    int32_t factor[2]; /**< down, across */
    int32_t bilinear;  /**< 0: nearest neighbour */
};

/** "max_pool" (x) -> y, index (I32: flat h*W+w of the first maximum); "max_pool_grad" (dy, index)
 *  -> dx. "avg_pool" (x) -> y (padding counts); "avg_pool_grad" (dy) -> dx. size: H, W of x, for the
 *  gradients. */
struct stance_pool {
    int32_t kernel[2]; /**< kh, kw */
    int32_t stride[2]; /**< down, across */
    int32_t pad[2];    /**< at each side */
    int32_t size[2];   /**< H, W of x, for the gradients */
};

/** "scale" (x) -> factor * x. */
struct stance_scale {
    double factor; /**< of every element */
};

/** "cast" (x) -> y of the given type; ANY is the low type of the policy. Integers: towards zero, clamped. */
struct stance_cast {
    int32_t type; /**< enum stance_type */
};

/** "mse" (prediction [B,K,...], target, [weight [B,K,1]]) -> scalar F32: sum of w (p-t)^2 over the
 *  number of elements of p (MMPose's JointsMSELoss; no factor 1/2).
 *  "mse_grad" (d_loss, prediction, target, [weight]) -> d_prediction. No attribute. */

/** "reduce_sum" (x) -> sum over the axes whose bit is set; keep: they stay with length 1.
 *  "broadcast" (x) -> x repeated to shape (its gradient and inverse) along the axes whose bit is set, which
 *  x lacks or has with length 1. */
struct stance_reduce {
    uint32_t axes; /**< bit i: dimension i */
    int32_t  keep; /**< the axes stay with length 1 */
};
/** Attributes of "broadcast"; see stance_reduce. */
struct stance_broadcast {
    struct stance_shape shape; /**< of y */
    uint32_t            axes;  /**< bit i: dimension i of y */
};

/** "matmul" (a [...,M,K], b [...,K,N]) -> [...,M,N]; equal leading dimensions or none in b. */
struct stance_matmul {
    int32_t transpose_a; /**< a is [...,K,M] */
    int32_t transpose_b; /**< b is [...,N,K] */
};

/** "concat" (x...) -> y along axis; "slice" (x) -> y = x[start : start+length] along axis.
 *  "slice_grad" (dy) -> dx: zeros but for dy at start; length is that of x along the axis. */
struct stance_concat {
    int32_t axis; /**< dimension along which they are joined */
};
/** Attributes of "slice" and "slice_grad"; see stance_concat. */
struct stance_slice {
    int32_t axis;   /**< dimension that is cut */
    int64_t start;  /**< first element */
    int64_t length; /**< elements; for the gradient those of x */
};

/** "reshape" (x) -> y; "transpose" (x) -> y: dimension i of y is dimension axis[i] of x. */
struct stance_reshape {
    struct stance_shape shape; /**< of y: as many elements as x */
};
/** Attributes of "transpose"; see stance_reshape. */
struct stance_transpose {
    int32_t axis[STANCE_RANK_MAX]; /**< a permutation of 0 .. rank - 1 */
};

/* "relu" (x) -> y; "relu_grad" (dy, y) -> dx; "add" (x...) -> sum of all, in order; "mul" (a, b). */

/** The shape [a]. */
static inline struct stance_shape stance_shape1(int64_t a)
{
    struct stance_shape s = { 1, { a, 0, 0, 0, 0, 0 } };
    return s;
}

/** The shape [n,c,h,w]. */
static inline struct stance_shape stance_shape4(int64_t n, int64_t c, int64_t h, int64_t w)
{
    struct stance_shape s = { 4, { n, c, h, w, 0, 0 } };
    return s;
}

/** stance_node() with one result. */
static inline struct stance_value stance_node1(struct stance_builder *b, const char *op,
                                               const void *attr, size_t attr_size,
                                               const struct stance_value *in, int n_in)
{
    struct stance_value out = { 0 };

    stance_node(b, op, attr, attr_size, in, n_in, &out, 1);
    return out;
}

/** Square convolution with padding k/2, weight "weight" and, on request, "bias" (started at 0) in
 *  the scope at hand. */
static inline struct stance_value stance_conv2d(struct stance_builder *b, struct stance_value x,
                                                int64_t out, int32_t k, int32_t stride, bool bias,
                                                struct stance_init init)
{
    struct stance_shape xs   = stance_shape_of(b, x);
    struct stance_init  zero = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_conv2d a   = { { stride, stride }, { k / 2, k / 2 }, { 1, 1 }, 1, { k, k }, { 0, 0 } };
    struct stance_value in[3] = { x, { 0 }, { 0 } };

    in[1] = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32,
                          stance_shape4(out, xs.dim[1], k, k), init);
    if (bias)
        in[2] = stance_weight(b, "bias", STANCE_ROLE_PARAM, STANCE_TYPE_F32, stance_shape1(out), zero);
    return stance_node1(b, "conv2d", &a, sizeof a, in, bias ? 3 : 2);
}

/** Batch normalisation over C with its five tensors "weight", "bias", "running_mean", "running_var",
 *  "num_batches_tracked" in the scope at hand: training or inference as the graph is. eps 1e-5,
 *  momentum 0.1. @param weight  value that the scale starts from (1; 0 for zero-initialised residuals) */
STANCE_API struct stance_value stance_batch_norm(struct stance_builder *b, struct stance_value x,
                                                 float weight);

/** max(x, 0). */
static inline struct stance_value stance_relu(struct stance_builder *b, struct stance_value x)
{
    return stance_node1(b, "relu", NULL, 0, &x, 1);
}

/** x + y, of one shape. */
static inline struct stance_value stance_add(struct stance_builder *b, struct stance_value x,
                                             struct stance_value y)
{
    struct stance_value in[2] = { x, y };

    return stance_node1(b, "add", NULL, 0, in, 2);
}

/** Nearest neighbour, the same integer factor both ways. */
static inline struct stance_value stance_upsample(struct stance_builder *b, struct stance_value x,
                                                  int32_t factor)
{
    struct stance_upsample a = { { factor, factor }, 0 };

    return stance_node1(b, "upsample", &a, sizeof a, &x, 1);
}

/** @} */

STANCE_END_DECLS
#endif
