/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: the product of the last two dimensions, for each index of the leading ones; a matrix b without
 * leading dimensions serves them all. */
#include "graph/ops/op.h"

#include <inttypes.h>

/* Rows and columns of an operand as it enters the product. */
struct matrix { int64_t rows, columns; };

static struct matrix matrix_of(const struct stance_shape *s, bool transposed)
{
    int64_t r = s->dim[s->rank - 2], c = s->dim[s->rank - 1];

    return transposed ? (struct matrix){ c, r } : (struct matrix){ r, c };
}

static stance_status shape(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err)
{
    const struct stance_matmul *t      = attr;
    const struct stance_shape  *a      = &in[0], *b = &in[1];
    stance_status               status = stance_op_count("matmul", n_in, 2, 2, n_out, 1, err);
    struct stance_shape         y;
    bool                        agree;

    (void)out_type;
    if (status == STANCE_OK)
        status = stance_op_range("matmul", "transpose_a", t->transpose_a, 0, 1, err);
    if (status == STANCE_OK)
        status = stance_op_range("matmul", "transpose_b", t->transpose_b, 0, 1, err);
    if (status == STANCE_OK)
        status = stance_op_operand("matmul", "a", a, -1, err);
    if (status == STANCE_OK)
        status = stance_op_operand("matmul", "b", b, -1, err);
    if (status != STANCE_OK)
        return status;
    if (a->rank < 2 || b->rank < 2)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "matmul: a is %s, b is %s: both must have 2 dimensions or more",
                           OP_TEXT(a), OP_TEXT(b));
    if (matrix_of(a, t->transpose_a).columns != matrix_of(b, t->transpose_b).rows)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE,
                           "matmul: a %s%s has %" PRId64 " columns, b %s%s has %" PRId64 " rows", OP_TEXT(a),
                           t->transpose_a ? " transposed" : "", matrix_of(a, t->transpose_a).columns, OP_TEXT(b),
                           t->transpose_b ? " transposed" : "", matrix_of(b, t->transpose_b).rows);
    agree = b->rank == 2 || b->rank == a->rank;
    for (int i = 0; agree && b->rank > 2 && i < a->rank - 2; i++)
        agree = a->dim[i] == b->dim[i];
    if (!agree)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "matmul: leading dimensions of a %s and b %s differ",
                           OP_TEXT(a), OP_TEXT(b));
    y                  = *a;
    y.dim[y.rank - 2] = matrix_of(a, t->transpose_a).rows;
    y.dim[y.rank - 1] = matrix_of(b, t->transpose_b).columns;
    status             = stance_op_result("matmul", &y, err);
    if (status == STANCE_OK)
        out[0] = y;
    return status;
}

static struct stance_value product(struct stance_builder *b, struct stance_value x, bool transpose_x,
                                   struct stance_value y, bool transpose_y)
{
    const struct stance_matmul t       = { transpose_x, transpose_y };
    struct stance_value        from[2] = { x, y };

    return stance_node1(b, "matmul", &t, sizeof t, from, 2);
}

/* All leading dimensions and the rows as one dimension of rows. */
static struct stance_value flat(struct stance_builder *b, struct stance_value v)
{
    struct stance_shape   s = stance_shape_of(b, v);
    struct stance_reshape r = { { 2, { 1, s.dim[s.rank - 1] } } };

    for (int i = 0; i < s.rank - 1; i++)
        r.shape.dim[0] *= s.dim[i];
    return stance_node1(b, "reshape", &r, sizeof r, &v, 1);
}

/* With A' and B' the matrices as they enter: dA' = dY B'^T and dB' = A'^T dY. */
static void gradient(struct stance_builder *b, const void *attr, const struct stance_value *in, int n_in,
                     const struct stance_value *out, const struct stance_value *d_out, int n_out,
                     struct stance_value *d_in)
{
    const struct stance_matmul *t      = attr;
    const int                   rank_a = stance_shape_of(b, in[0]).rank;
    const bool                  shared = stance_shape_of(b, in[1]).rank < rank_a;
    struct stance_value         dy     = d_out[0], a = in[0];

    (void)n_in, (void)out, (void)n_out;
    if (dy.id == 0 || stance_failed(b))
        return;
    if (op_wants(b, in[0])) {
        if (!t->transpose_a) {
            d_in[0] = product(b, dy, false, in[1], !t->transpose_b);
        } else if (!shared) {
            d_in[0] = product(b, in[1], t->transpose_b, dy, true);
        } else {
            struct stance_value     d    = product(b, dy, false, in[1], !t->transpose_b);
            struct stance_transpose swap = { { 0, 1, 2, 3, 4, 5 } };

            swap.axis[rank_a - 2] = rank_a - 1;
            swap.axis[rank_a - 1] = rank_a - 2;
            d_in[0] = stance_node1(b, "transpose", &swap, sizeof swap, &d, 1);
        }
    }
    if (op_wants(b, in[1])) {
        struct stance_reduce over = { (1u << (rank_a - 2)) - 1, 0 };

        /* A shared b gathers from all leading dimensions: as rows of one product where a's layout allows. */
        if (shared && !t->transpose_a) {
            dy = flat(b, dy);
            a  = flat(b, a);
        }
        d_in[1] = t->transpose_b ? product(b, dy, true, a, t->transpose_a) : product(b, a, !t->transpose_a, dy, false);
        if (shared && t->transpose_a)
            d_in[1] = stance_node1(b, "reduce_sum", &over, sizeof over, &d_in[1], 1);
    }
}

#define TILE 64 /* columns summed together in binary64: the innermost loop runs along a row of b */

OP_INLINE void body(const struct stance_call *c, enum op_mode mode)
{
    const struct stance_matmul *t = c->attr;
    const struct stance_tensor *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
    const struct matrix         ma = matrix_of(&a->shape, t->transpose_a), mb = matrix_of(&b->shape, t->transpose_b);
    const int64_t               rows = ma.rows, depth = ma.columns, columns = mb.columns;
    const int64_t               a_row = t->transpose_a ? 1 : depth, a_step = t->transpose_a ? rows : 1;
    const int64_t               b_row = t->transpose_b ? 1 : columns, b_step = t->transpose_b ? depth : 1;
    const int64_t               matrices = stance_elements(&y->shape) / (rows * columns);
    const int64_t               next_b   = b->shape.rank > 2 ? depth * columns : 0;

    for (int64_t m = 0; m < matrices; m++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j0 = 0; j0 < columns; j0 += TILE) {
                const int64_t count = columns - j0 < TILE ? columns - j0 : TILE;
                double        acc[TILE] = { 0 };

                for (int64_t k = 0; k < depth; k++) {
                    const double v = get(a, m * rows * depth + i * a_row + k * a_step, mode);

                    for (int64_t j = 0; j < count; j++)
                        acc[j] += v * get(b, m * next_b + k * b_row + (j0 + j) * b_step, mode);
                }
                for (int64_t j = 0; j < count; j++)
                    put(y, (m * rows + i) * columns + j0 + j, acc[j], mode);
            }
}
OP_REFERENCE(reference, body)

const struct stance_op_ops stance_op_matmul = {
    .size       = sizeof(struct stance_op_ops),
    .attr_size  = sizeof(struct stance_matmul),
    .type_class = STANCE_CLASS_LOW,
    .shape      = shape,
    .gradient   = gradient,
    .reference  = reference,
};
