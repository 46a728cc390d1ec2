/* SPDX-License-Identifier: Apache-2.0
 *
 * The config structs of the optimizer plugins, which are also the attributes of their update ops
 * ("optimizer_adam", ...): what a device reads that has its own kernels for these rules. */
#ifndef OPTIMIZERS_H
#define OPTIMIZERS_H

#include "rounding.h"

#include <stance/plugin.h>

#include <math.h>

/** Adam and AdamW. betas has exactly two numbers when the op's shape rule has passed. Operands
 * after gradient and update block: master, exp_avg, exp_avg_sq; with BF16_KAHAN also compensation. */
struct stance_adam {
    double                 lr;           /**< before the schedule; kernels use stance_update.rate */
    struct stance_list_f64 betas;        /**< decay of the first and the second moment */
    double                 eps;          /**< added to the root of the corrected second moment */
    double                 weight_decay; /**< Adam: added to the gradient; AdamW: decoupled */
    int                    master;       /**< enum stance_master */
};

/** SGD with momentum. Operands after gradient and update block: master, momentum_buffer (untouched
 *  when momentum is 0); with BF16_KAHAN also compensation. */
struct stance_sgd {
    double lr, momentum, dampening, weight_decay;
    bool   nesterov;
    int    master; /**< enum stance_master */
};

#define OPTIMIZER_MASTER_DOC                                                                          \
    "precision that weights are kept in between steps: fp32, or bf16 (in the same four bytes) rounded " \
    "at random or with compensation"

/** Arrays of a rule that keeps @p own of them. */
static inline int32_t optimizer_slots(int32_t own, int master)
{
    return own + (master == STANCE_MASTER_BF16_KAHAN);
}

/** Shape rule of every element-wise update: gradient [n], update block, then 1 + slots arrays [n],
 *  which are also the outputs, of the wide type. */
static inline stance_status optimizer_shape(const char *rule, int slots,
                                            const struct stance_shape *in, int n_in,
                                            struct stance_shape *out, enum stance_type *out_type,
                                            int n_out, struct stance_error *err)
{
    int64_t n = n_in > 0 ? stance_elements(&in[0]) : 0;

    if (n_in != 3 + slots || n_out != 1 + slots)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                           "%s: %d operands and %d results instead of %d and %d", rule, n_in, n_out,
                           3 + slots, 1 + slots);
    if (stance_elements(&in[1]) < (int64_t)sizeof(struct stance_update))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                           "%s: the update block has %lld bytes instead of %zu", rule,
                           (long long)stance_elements(&in[1]), sizeof(struct stance_update));
    for (int i = 0; i < n_out; i++) {
        if (stance_elements(&in[2 + i]) != n)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                               "%s: operand %d has %lld elements, the gradient %lld", rule, 2 + i,
                               (long long)stance_elements(&in[2 + i]), (long long)n);
        out[i]      = in[2 + i];
        out_type[i] = STANCE_TYPE_F32;
    }
    return STANCE_OK;
}

/** Whether the reference can walk these arrays: all binary32 or all binary64, stored as such. */
static inline bool optimizer_wide(const struct stance_call *call, int slots)
{
    enum stance_type t = call->in[2].stored;

    if (t != STANCE_TYPE_F32 && t != STANCE_TYPE_F64)
        return false;
    for (int i = 0; i < 3 + slots; i++)
        if (i != 1 && call->in[i].stored != t)
            return false;
    return true;
}

/* One body serves binary32 and binary64: the rule is computed in binary64 and rounded once, when an
 * array is written. */
static inline double optimizer_get(const struct stance_tensor *t, int64_t i)
{
    return t->stored == STANCE_TYPE_F64 ? ((const double *)t->data)[i]
                                        : (double)((const float *)t->data)[i];
}

static inline void optimizer_put(const struct stance_tensor *t, int64_t i, double v);

/** Writes the new value of master i as the config keeps it.
 *  @param own  slots of the rule itself: the compensation comes after them */
static inline void optimizer_put_master(const struct stance_call *call, int master, int own, int64_t i, double v)
{
    const struct stance_update *u = (const struct stance_update *)call->in[1].data;

    if (master == STANCE_MASTER_BF16_STOCHASTIC) {
        uint16_t bits[8];

        rounding_bits(u->seed, u->applied, (uint64_t)i / 8, bits);
        v = (double)rounding_cut((float)v, bits[i % 8]);
    } else if (master == STANCE_MASTER_BF16_KAHAN) {
        float c = (float)optimizer_get(&call->in[3 + own], i);

        v = (double)rounding_kahan(optimizer_get(&call->in[2], i), v, &c);
        optimizer_put(&call->out[1 + own], i, (double)c);
    }
    optimizer_put(&call->out[0], i, v);
}

static inline void optimizer_put(const struct stance_tensor *t, int64_t i, double v)
{
    if (t->stored == STANCE_TYPE_F64)
        ((double *)t->data)[i] = v;
    else
        ((float *)t->data)[i] = (float)v;
}

#endif
