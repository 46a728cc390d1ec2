/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one op by its shape rule and its reference, without a graph. */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include "base/random.h"
#include "graph/ops/op.h"
#include "graph/ops/table.h"

#include <stance/alloc.h>
#include <stance/device.h>

#include <check.h>

#define OPS_MAX 16

/** Operands and results of one op. Zero-initialise; ops_free() gives everything back. */
struct ops {
    const char          *op;
    const void          *attr;
    enum stance_type     wide; /**< what F32 and ANY mean here */
    int                  n_in, n_out;
    struct stance_tensor in[OPS_MAX], out[OPS_MAX];
};

static inline struct stance_shape ops_shape(int rank, const int64_t *dim)
{
    struct stance_shape s = { .rank = rank };

    for (int i = 0; i < rank; i++)
        s.dim[i] = dim[i];
    return s;
}
#define SHAPE(...)                                                                     \
    ops_shape((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })
#define SCALAR ((struct stance_shape){ 0 })
#define ABSENT ((struct stance_shape){ .rank = -1 })

static inline struct stance_tensor ops_tensor(enum stance_type type, struct stance_shape shape)
{
    struct stance_tensor t = { .type = type, .stored = type, .shape = shape };

    t.bytes = (size_t)stance_elements(&shape) * stance_type_size(type);
    t.data  = stance_calloc(t.bytes + 1, 1);
    ck_assert_ptr_nonnull(t.data);
    return t;
}

static inline void ops_fill(struct stance_tensor *t, const double *v, int64_t n)
{
    ck_assert_int_eq(n, stance_elements(&t->shape));
    for (int64_t i = 0; i < n; i++)
        stance_tensor_put(t, i, v[i]);
}

/** Adds an operand of the wide type with these values. */
static inline void ops_in(struct ops *o, struct stance_shape shape, const double *v)
{
    o->in[o->n_in] = ops_tensor(o->wide, shape);
    if (v != NULL)
        ops_fill(&o->in[o->n_in], v, stance_elements(&shape));
    o->n_in++;
}
#define IN(o, shape, ...) ops_in(o, shape, (double[]){ __VA_ARGS__ })

static inline stance_status ops_infer(struct ops *o, struct stance_shape *out, enum stance_type *type,
                                      struct stance_error *err)
{
    const struct stance_op_ops *ops = stance_builtin_op(o->op);
    struct stance_shape         in[OPS_MAX];

    ck_assert_msg(ops != NULL, "no op %s", o->op);
    for (int i = 0; i < o->n_in; i++)
        in[i] = o->in[i].shape;
    for (int i = 0; i < o->n_out; i++) {
        out[i]  = ABSENT;
        type[i] = STANCE_TYPE_ANY;
    }
    return ops->shape(o->attr, in, o->n_in, out, type, o->n_out, err);
}

/** Runs the op. Results are made here unless they are there already (o->out[i].data). */
static inline void ops_run(struct ops *o, int n_out)
{
    const struct stance_op_ops *ops = stance_builtin_op(o->op);
    struct stance_error         err = STANCE_ERROR_INIT;
    struct stance_shape         shape[OPS_MAX];
    enum stance_type            type[OPS_MAX];
    struct stance_call          call = { .size = sizeof call, .attr = o->attr, .in = o->in, .out = o->out,
                                         .n_in = o->n_in, .n_out = n_out };

    o->n_out = n_out;
    ck_assert_msg(ops_infer(o, shape, type, &err) == STANCE_OK, "%s", err.text);
    for (int i = 0; i < n_out; i++) {
        enum stance_type t = type[i] == STANCE_TYPE_ANY ? o->in[0].type : type[i];

        if (o->out[i].data == NULL)
            o->out[i] = ops_tensor(t == STANCE_TYPE_F32 ? o->wide : t, shape[i]);
        ck_assert(stance_shape_equal(&o->out[i].shape, &shape[i]));
    }
    if (ops->workspace != NULL)
        call.workspace = stance_calloc(ops->workspace(&call) + 1, 1);
    ck_assert_int_eq(ops->reference(&call), STANCE_OK);
    stance_free(call.workspace);
}

static inline void ops_free(struct ops *o)
{
    for (int i = 0; i < o->n_in; i++)
        stance_free(o->in[i].data);
    for (int i = 0; i < o->n_out; i++) {
        for (int k = 0; k < o->n_in; k++)
            if (o->out[i].data == o->in[k].data)
                o->out[i].data = NULL;
        stance_free(o->out[i].data);
    }
}

/** Values from a stream of their own for each use: uniform, 0.1 or more away from 0 and all different, so
 *  that neither a kink nor a tie is within the reach of a small step. */
static inline void ops_random(struct stance_tensor *t, uint64_t seed)
{
    struct stance_rng r = stance_rng(seed, STANCE_USE_OP, 0, 0);

    for (int64_t i = 0, n = stance_elements(&t->shape); i < n; i++) {
        double v = 2 * stance_rng_uniform(&r) - 1;

        stance_tensor_put(t, i, v + (v < 0 ? -0.1 : 0.1));
    }
}

#define EXPECT(t, tolerance, ...)                                                          \
    do {                                                                                   \
        const double want_[] = { __VA_ARGS__ };                                            \
        ck_assert_int_eq(stance_elements(&(t).shape), (int64_t)(sizeof want_ / sizeof *want_)); \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++)                       \
            ck_assert_msg(fabs(stance_tensor_get(&(t), (int64_t)i_) - want_[i_]) <= (tolerance), \
                          "element %zu is %.17g, not %.17g", i_,                           \
                          stance_tensor_get(&(t), (int64_t)i_), want_[i_]);                \
    } while (0)

#endif
