/* SPDX-License-Identifier: Apache-2.0
 *
 * What Adam and AdamW share, which is all but the place of the weight decay. */
#ifndef ADAM_H
#define ADAM_H

#include "optimizers.h"

/** Their parameters. @param decay, doc  default and meaning of weight_decay */
#define ADAM_PARAMS(decay, doc)                                                                                   \
    static const char *const         masters[] = STANCE_MASTER_WORDS;                                             \
    static const struct stance_param params[]  = {                                                                \
        STANCE_PARAM_F64(struct stance_adam, lr, "1e-3", 0, 1000, "1", "learning rate before the schedule"),      \
        STANCE_PARAM_LIST_F64(struct stance_adam, betas, "[0.9, 0.999]", 0, 0.9999999, "1",                       \
                              "decay rates of the first and the second moment"),                                  \
        STANCE_PARAM_F64(struct stance_adam, eps, "1e-8", 1e-30, 1, "1", "added to the denominator"),             \
        STANCE_PARAM_F64(struct stance_adam, weight_decay, decay, 0, 1000, "1", doc),                             \
        STANCE_PARAM_ENUM(struct stance_adam, master, "fp32", masters, OPTIMIZER_MASTER_DOC),                     \
        STANCE_PARAM_END                                                                                          \
    }

static inline double adam_base_rate(const void *config)
{
    return ((const struct stance_adam *)config)->lr;
}

static inline int32_t adam_slots(const void *config)
{
    return optimizer_slots(2, ((const struct stance_adam *)config)->master);
}

static inline stance_status adam_shape(const char *rule, const void *attr, const struct stance_shape *in, int n_in,
                                       struct stance_shape *out, enum stance_type *out_type, int n_out,
                                       struct stance_error *err)
{
    const struct stance_adam *c = (const struct stance_adam *)attr;

    if (c->betas.n != 2)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: betas: %d numbers instead of 2", rule, c->betas.n);
    return optimizer_shape(rule, adam_slots(c), in, n_in, out, out_type, n_out, err);
}

/** The rule in binary64. @param decoupled  weights shrink by rate times weight_decay first; else the decay is part
 *  of the gradient */
static inline stance_status adam_reference(const struct stance_call *call, bool decoupled)
{
    const struct stance_adam   *c  = (const struct stance_adam *)call->attr;
    const struct stance_update *u  = (const struct stance_update *)call->in[1].data;
    double                      b1 = c->betas.v[0], b2 = c->betas.v[1], t = (double)u->applied + 1;
    double                      step = u->rate / (1 - pow(b1, t)), root = sqrt(1 - pow(b2, t));
    double                      keep = decoupled ? 1 - u->rate * c->weight_decay : 1, l2 = decoupled ? 0 : c->weight_decay;
    int64_t                     n    = stance_elements(&call->in[2].shape);

    if (!optimizer_wide(call, adam_slots(c)))
        return STANCE_ERR_UNSUPPORTED;
    if (u->skip)
        return STANCE_OK;
    for (int64_t i = 0; i < n; i++) {
        double p = optimizer_get(&call->in[2], i);
        double g = optimizer_get(&call->in[0], i) * u->factor + l2 * p;
        double m = optimizer_get(&call->in[3], i), v = optimizer_get(&call->in[4], i);

        m += (1 - b1) * (g - m);
        v = b2 * v + (1 - b2) * g * g;
        optimizer_put_master(call, c->master, 2, i, p * keep - step * (m / (sqrt(v) / root + c->eps)));
        optimizer_put(&call->out[1], i, m);
        optimizer_put(&call->out[2], i, v);
    }
    return STANCE_OK;
}

static const char *const adam_slot_names[] = { "exp_avg", "exp_avg_sq", "compensation" };

/** The op and the table of the kind, from `shape` and `reference` of the file. */
#define ADAM_OPS                                           \
    static const struct stance_op_ops update = {           \
        .size       = sizeof update,                       \
        .attr_size  = sizeof(struct stance_adam),          \
        .attrs      = params,                              \
        .type_class = STANCE_CLASS_WIDE,                   \
        .flags      = STANCE_OP_STATE,                     \
        .shape      = shape,                               \
        .reference  = reference,                           \
    };                                                     \
    static const struct stance_optimizer_ops ops = {       \
        .size       = sizeof ops,                          \
        .slots      = 3,                                   \
        .slot_names = adam_slot_names,                     \
        .base_rate  = adam_base_rate,                      \
        .update     = &update,                             \
        .slots_used = adam_slots,                          \
    }

#endif
