/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation as a layer: the op, its five tensors, and what a training step makes of them. */
#include "config.h"

#include <stance/ops.h>

struct stance_value stance_batch_norm(struct stance_builder *b, struct stance_value x, float weight)
{
    const struct stance_batch_norm a    = { .eps = 1e-5, .momentum = 0.1 };
    const struct stance_init       zero = { STANCE_INIT_CONSTANT, 0, 0 }, one = { STANCE_INIT_CONSTANT, 1, 0 };
    const struct stance_init       start  = { STANCE_INIT_CONSTANT, weight, 0 };
    const struct stance_shape      xs     = stance_shape_of(b, x);
    const struct stance_shape      c      = stance_shape1(xs.rank >= 2 ? xs.dim[1] : 1);
    const struct stance_shape      scalar = { 0 };
    struct stance_value            in[5], out[5], counter;

    /* Shape and gradient rules say what is wrong with an x of another rank; "no value" has failed already. */
    if (stance_failed(b) || x.id == 0)
        return (struct stance_value){ 0 };
    in[0]   = x;
    in[1]   = stance_weight(b, "weight", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c, start);
    in[2]   = stance_weight(b, "bias", STANCE_ROLE_PARAM, STANCE_TYPE_F32, c, zero);
    in[3]   = stance_weight(b, "running_mean", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, zero);
    in[4]   = stance_weight(b, "running_var", STANCE_ROLE_STATE, STANCE_TYPE_F32, c, one);
    counter = stance_weight(b, "num_batches_tracked", STANCE_ROLE_STATE, STANCE_TYPE_I64, scalar, zero);
    if (!stance_training(b))
        return stance_node1(b, "batch_norm_inference", &a, sizeof a, in, 5);
    stance_node(b, "batch_norm", &a, sizeof a, in, 5, out, 5);
    stance_assign(b, in[3], out[1]);
    stance_assign(b, in[4], out[2]);
    stance_assign(b, counter, stance_node1(b, "increment", NULL, 0, &counter, 1));
    return out[0];
}
