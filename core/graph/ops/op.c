/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/op.h"

#include "base/half.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- elements ---------------------------------------------------------------------------------- */

double stance_tensor_get(const struct stance_tensor *t, int64_t i)
{
    switch (t->stored) {
    case STANCE_TYPE_F32: return ((const float *)t->data)[i];
    case STANCE_TYPE_F64: return ((const double *)t->data)[i];
    case STANCE_TYPE_F16: return stance_f64_of_half(((const uint16_t *)t->data)[i], STANCE_F16_FRACTION);
    case STANCE_TYPE_BF16: return stance_f64_of_half(((const uint16_t *)t->data)[i], STANCE_BF16_FRACTION);
    case STANCE_TYPE_I32: return ((const int32_t *)t->data)[i];
    case STANCE_TYPE_I64: return (double)((const int64_t *)t->data)[i];
    case STANCE_TYPE_U8: return ((const uint8_t *)t->data)[i];
    default: return NAN;
    }
}

/* Towards zero; what the type cannot hold goes to its end, NaN to 0: C leaves both open. */
static int64_t integer_of(double v, int64_t min, int64_t max)
{
    return isnan(v)              ? 0
           : v <= (double)min    ? min
           : v >= (double)max    ? max /* 2^63 itself for I64, hence >= */
                                 : (int64_t)v;
}

void stance_tensor_put(const struct stance_tensor *t, int64_t i, double v)
{
    if (t->type != t->stored) {
        if (t->type == STANCE_TYPE_F16)
            v = stance_f64_of_half(stance_half_of_f64(v, STANCE_F16_FRACTION), STANCE_F16_FRACTION);
        else if (t->type == STANCE_TYPE_BF16)
            v = stance_f64_of_half(stance_half_of_f64(v, STANCE_BF16_FRACTION), STANCE_BF16_FRACTION);
        else if (t->type == STANCE_TYPE_F32)
            v = (float)v;
    }
    switch (t->stored) {
    case STANCE_TYPE_F32: ((float *)t->data)[i] = (float)v; break;
    case STANCE_TYPE_F64: ((double *)t->data)[i] = v; break;
    case STANCE_TYPE_F16: ((uint16_t *)t->data)[i] = stance_half_of_f64(v, STANCE_F16_FRACTION); break;
    case STANCE_TYPE_BF16: ((uint16_t *)t->data)[i] = stance_half_of_f64(v, STANCE_BF16_FRACTION); break;
    case STANCE_TYPE_I32: ((int32_t *)t->data)[i] = (int32_t)integer_of(v, INT32_MIN, INT32_MAX); break;
    case STANCE_TYPE_I64: ((int64_t *)t->data)[i] = integer_of(v, INT64_MIN, INT64_MAX); break;
    case STANCE_TYPE_U8: ((uint8_t *)t->data)[i] = (uint8_t)integer_of(v, 0, UINT8_MAX); break;
    default: break;
    }
}

void stance_tensor_copy(const struct stance_tensor *to, int64_t i, const struct stance_tensor *from,
                        int64_t j, int64_t n)
{
    size_t size = stance_type_size(to->stored);

    if (to->stored == from->stored && to->type == from->type) {
        memmove((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)j * size,
                (size_t)n * size);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        stance_tensor_put(to, i + k, stance_tensor_get(from, j + k));
}

enum op_mode stance_op_mode(const struct stance_call *c, int n_in, int n_out)
{
    bool f32 = true, f64 = true;

    for (int i = 0; i < n_in + n_out; i++) {
        const struct stance_tensor *t = i < n_in ? &c->in[i] : &c->out[i - n_in];

        if (t->shape.rank < 0)
            continue;
        f32 = f32 && t->type == STANCE_TYPE_F32 && t->stored == STANCE_TYPE_F32;
        f64 = f64 && t->type == STANCE_TYPE_F64 && t->stored == STANCE_TYPE_F64;
    }
    return f32 ? OP_F32 : f64 ? OP_F64 : OP_MIXED;
}

/* ---- shapes ------------------------------------------------------------------------------------ */

struct op_text stance_op_text(const struct stance_shape *s)
{
    struct op_text t    = { "[" };
    size_t         used = 1;

    if (s->rank < 0)
        return (struct op_text){ "nothing" };
    /* Six numbers of at most 20 characters, commas and brackets fit. */
    for (int i = 0; i < s->rank && i < STANCE_RANK_MAX; i++)
        used += (size_t)snprintf(t.s + used, sizeof t.s - used, "%s%" PRId64, i > 0 ? "," : "", s->dim[i]);
    snprintf(t.s + used, sizeof t.s - used, "]");
    return t;
}

bool stance_shape_equal(const struct stance_shape *a, const struct stance_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* Bytes of the widest type fit into an int64_t with room to spare, so that no index overflows. */
static bool countable(const struct stance_shape *s)
{
    int64_t n = 16;

    for (int i = 0; i < s->rank; i++)
        if (__builtin_mul_overflow(n, s->dim[i], &n))
            return false;
    return true;
}

stance_status stance_op_count(const char *op, int n_in, int min, int max, int n_out, int want_out,
                              struct stance_error *err)
{
    if (n_in < min || n_in > max) {
        if (min == max)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: %d operands given, it takes %d", op, n_in, min);
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: %d operands given, it takes %d to %d", op, n_in, min, max);
    }
    if (n_out != want_out)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: %d results asked for, it gives %d", op, n_out, want_out);
    return STANCE_OK;
}

stance_status stance_op_operand(const char *op, const char *what, const struct stance_shape *s,
                                int rank, struct stance_error *err)
{
    if (s->rank < 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: operand %s is missing", op, what);
    if (s->rank > STANCE_RANK_MAX)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s has %d dimensions, at most %d are possible", op,
                           what, s->rank, STANCE_RANK_MAX);
    if (rank >= 0 && s->rank != rank)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s is %s, it must have %d dimension%s", op, what,
                           OP_TEXT(s), rank, rank == 1 ? "" : "s");
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 1)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s is %s, dimension %d is empty", op, what,
                               OP_TEXT(s), i);
    if (!countable(s))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s is %s, which is too large", op, what, OP_TEXT(s));
    return STANCE_OK;
}

stance_status stance_op_image(const char *op, const char *what, const struct stance_shape *s,
                              struct stance_error *err)
{
    stance_status status = stance_op_operand(op, what, s, 4, err);

    if (status == STANCE_OK && (s->dim[2] > INT32_MAX || s->dim[3] > INT32_MAX))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s is %s, which is too large", op, what, OP_TEXT(s));
    return status;
}

stance_status stance_op_same(const char *op, const char *what_a, const struct stance_shape *a,
                             const char *what_b, const struct stance_shape *b,
                             struct stance_error *err)
{
    stance_status status = stance_op_operand(op, what_a, a, -1, err);

    if (status == STANCE_OK)
        status = stance_op_operand(op, what_b, b, -1, err);
    if (status == STANCE_OK && !stance_shape_equal(a, b))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s is %s, %s is %s: they must be equal", op,
                             what_a, OP_TEXT(a), what_b, OP_TEXT(b));
    return status;
}

stance_status stance_op_vector(const char *op, const char *what, const struct stance_shape *s,
                               int64_t n, struct stance_error *err)
{
    stance_status status = stance_op_operand(op, what, s, -1, err);

    if (status == STANCE_OK && (s->rank != 1 || s->dim[0] != n))
        status = STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: %s is %s, it must be [%" PRId64 "]", op, what,
                             OP_TEXT(s), n);
    return status;
}

stance_status stance_op_result(const char *op, const struct stance_shape *s, struct stance_error *err)
{
    if (!countable(s))
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: the result %s is too large", op, OP_TEXT(s));
    return STANCE_OK;
}

stance_status stance_op_range(const char *op, const char *what, int64_t v, int64_t min, int64_t max,
                              struct stance_error *err)
{
    if (v < min || v > max)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: %s %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]",
                           op, what, v, min, max);
    return STANCE_OK;
}

stance_status stance_op_unary(const char *op, const struct stance_shape *in, int n_in,
                              struct stance_shape *out, int n_out, struct stance_error *err)
{
    stance_status status = stance_op_count(op, n_in, 1, 1, n_out, 1, err);

    if (status == STANCE_OK)
        status = stance_op_operand(op, "x", &in[0], -1, err);
    if (status == STANCE_OK)
        out[0] = in[0];
    return status;
}
