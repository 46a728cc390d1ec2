/* SPDX-License-Identifier: Apache-2.0
 *
 * What the built-in ops share: the checks of their shape rules and the access to elements.
 *
 * A reference is written once, in binary64: every operand is widened when it is read and every result
 * is rounded once, when it is stored. So binary32 results carry no rounding of intermediate sums, which
 * makes them the judge of faster kernels whatever order those sum in; the order here is fixed. The
 * loop is compiled three times: operands all binary32, all binary64, and any mixture of types. */
#ifndef GRAPH_OPS_OP_H
#define GRAPH_OPS_OP_H

#include "config.h"

#include "graph/ops/table.h"

#include <stance/ops.h>

#include <string.h>

enum op_mode { OP_F32, OP_F64, OP_MIXED };

/** Elements of any stored type; what is put is first rounded to the tensor's type. */
double stance_tensor_get(const struct stance_tensor *t, int64_t i);
void   stance_tensor_put(const struct stance_tensor *t, int64_t i, double v);

/** Copies n elements; bytes as they are where the types agree. */
void stance_tensor_copy(const struct stance_tensor *to, int64_t i, const struct stance_tensor *from,
                        int64_t j, int64_t n);

/* Forced inline: each body is written for any mode and compiled for a known one. */
#define OP_INLINE static inline __attribute__((always_inline))

OP_INLINE double get(const struct stance_tensor *t, int64_t i, enum op_mode mode)
{
    return mode == OP_F32   ? ((const float *)t->data)[i]
           : mode == OP_F64 ? ((const double *)t->data)[i]
                            : stance_tensor_get(t, i);
}

OP_INLINE void put(const struct stance_tensor *t, int64_t i, double v, enum op_mode mode)
{
    if (mode == OP_F32)
        ((float *)t->data)[i] = (float)v;
    else if (mode == OP_F64)
        ((double *)t->data)[i] = v;
    else
        stance_tensor_put(t, i, v);
}

/** Mode of a call, by its first n_in operands and n_out results: the others are not read by get(). */
enum op_mode stance_op_mode(const struct stance_call *c, int n_in, int n_out);

/** Defines the reference @p name from `void body(const struct stance_call *, enum op_mode)`. */
#define OP_REFERENCE_OF(name, body, n_in, n_out)           \
    static stance_status name(const struct stance_call *c) \
    {                                                      \
        switch (stance_op_mode(c, n_in, n_out)) {          \
        case OP_F32: body(c, OP_F32); break;               \
        case OP_F64: body(c, OP_F64); break;               \
        case OP_MIXED: body(c, OP_MIXED); break;           \
        }                                                  \
        return STANCE_OK;                                  \
    }
#define OP_REFERENCE(name, body) OP_REFERENCE_OF(name, body, c->n_in, c->n_out)
/** The same from a body that may fail: `stance_status body(...)`. */
#define OP_REFERENCE_STATUS(name, body)                           \
    static stance_status name(const struct stance_call *c)        \
    {                                                             \
        enum op_mode mode = stance_op_mode(c, c->n_in, c->n_out); \
                                                                  \
        return mode == OP_F32   ? body(c, OP_F32)                 \
               : mode == OP_F64 ? body(c, OP_F64)                 \
                                : body(c, OP_MIXED);              \
    }

/* ---- shape rules: each check tells its failure and gives its status --------------------------- */

/** "[2,3,8,8]", "[]" for a scalar. */
struct op_text { char s[160]; };
struct op_text stance_op_text(const struct stance_shape *s);
#define OP_TEXT(shape) (stance_op_text(shape).s)

/** min <= n_in <= max operands and @p want_out results. */
stance_status stance_op_count(const char *op, int n_in, int min, int max, int n_out, int want_out,
                              struct stance_error *err);

/** An operand that must be there: of @p rank dimensions (-1: any number), none of them empty. */
stance_status stance_op_operand(const char *op, const char *what, const struct stance_shape *s,
                                int rank, struct stance_error *err);

/** An operand [N,C,H,W] whose H and W fit the int32_t of the attributes. */
stance_status stance_op_image(const char *op, const char *what, const struct stance_shape *s,
                              struct stance_error *err);

/** Two operands of one shape, both there. */
stance_status stance_op_same(const char *op, const char *what_a, const struct stance_shape *a,
                             const char *what_b, const struct stance_shape *b,
                             struct stance_error *err);

/** An operand [n]: one value a channel. */
stance_status stance_op_vector(const char *op, const char *what, const struct stance_shape *s,
                               int64_t n, struct stance_error *err);

/** A result that some memory can hold. */
stance_status stance_op_result(const char *op, const struct stance_shape *s, struct stance_error *err);

/** An attribute in [min, max]. */
stance_status stance_op_range(const char *op, const char *what, int64_t v, int64_t min, int64_t max,
                              struct stance_error *err);

/** Shape rule of an op that is element-wise in one operand. */
stance_status stance_op_unary(const char *op, const struct stance_shape *in, int n_in,
                              struct stance_shape *out, int n_out, struct stance_error *err);

bool stance_shape_equal(const struct stance_shape *a, const struct stance_shape *b);

/* ---- gradient rules --------------------------------------------------------------------------- */

/** Whether the rule has to build a gradient towards operand @p v. */
static inline bool op_wants(const struct stance_builder *b, struct stance_value v)
{
    return v.id != 0 && stance_wants_gradient(b, v);
}

/* ---- walking over dimensions ------------------------------------------------------------------ */

/** Element of a plain tensor that a walk over another shape meets next: call next() once an element.
 *  Zero-initialise, then set n, dim and the stride that each dimension of the walk has in the tensor. */
struct op_walk {
    int     n;
    int64_t dim[STANCE_RANK_MAX], stride[STANCE_RANK_MAX], at[STANCE_RANK_MAX], index;
};

static inline void op_walk_next(struct op_walk *w)
{
    for (int d = w->n - 1; d >= 0; d--) {
        w->index += w->stride[d];
        if (++w->at[d] < w->dim[d])
            return;
        w->index -= w->stride[d] * w->dim[d];
        w->at[d] = 0;
    }
}

#endif
