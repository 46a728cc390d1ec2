/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in ops by name. */
#ifndef GRAPH_OPS_TABLE_H
#define GRAPH_OPS_TABLE_H

#include <stance/graph.h>

/** The one list, in the order of strcmp(). A new op is a word here and `stance_op_<word>` in its file. */
#define STANCE_BUILTIN_OPS(X)                                                                     \
    X(accumulate) X(add) X(avg_pool) X(avg_pool_grad) X(batch_norm) X(batch_norm_grad)            \
    X(batch_norm_inference) X(batch_norm_inference_grad) X(broadcast) X(cast) X(clip_value) X(commit) \
    X(concat)                                                                                     \
    X(conv2d) X(conv2d_grad_data) X(conv2d_grad_weight) X(conv_transpose2d)                       \
    X(conv_transpose2d_grad_data) X(conv_transpose2d_grad_weight) X(ema) X(grad_check) X(increment) \
    X(loss_seed) X(matmul) X(max_pool) X(max_pool_grad) X(mse) X(mse_grad) X(mul) X(pack)         \
    X(reduce_sum) X(relu) X(relu_grad) X(reorder) X(reshape) X(scale) X(slice) X(slice_grad)      \
    X(transpose) X(upsample) X(upsample_grad)

#define STANCE_BUILTIN_DECLARE(name) extern const struct stance_op_ops stance_op_##name;
STANCE_BUILTIN_OPS(STANCE_BUILTIN_DECLARE)
#undef STANCE_BUILTIN_DECLARE

struct stance_builtin {
    const char                 *name;
    const struct stance_op_ops *ops;
};

/** NULL if there is none of that name. */
const struct stance_op_ops *stance_builtin_op(const char *name);

/** All of them, sorted by name. @param[out] count  how many */
const struct stance_builtin *stance_builtin_ops(int *count);

#endif
