/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients against central differences in binary64: of the gradient ops by themselves, and of whole
 * graphs whose backward pass the gradient rules have built. Both with a step of 1e-5: truncation, h^2, and
 * cancellation, 2^-53 L / h, are then both near 1e-10 for operands of size 1. */
#include "fault.h"
#include "graph_run.h"
#include "runner.h"

#define STEP 1e-5

static void check_difference(const char *what, int operand, int64_t element, double exact, double difference)
{
    ck_assert_msg(fabs(difference - exact) <= 1e-7 * (1 + fabs(exact)),
                  "%s, operand %d, element %d: %.12g, by differences %.12g", what, operand, (int)element, exact,
                  difference);
}

#define CONV(s0, s1, p0, p1, d0, d1, g, kh, kw, h, w) \
    &(const struct stance_conv2d){ { s0, s1 }, { p0, p1 }, { d0, d1 }, g, { kh, kw }, { h, w } }
#define DECONV(s0, s1, p0, p1, o0, o1, g, kh, kw) \
    &(const struct stance_conv_transpose2d){ { s0, s1 }, { p0, p1 }, { o0, o1 }, g, { kh, kw } }
#define POOL(kh, kw, s0, s1, p0, p1, h, w) \
    &(const struct stance_pool){ { kh, kw }, { s0, s1 }, { p0, p1 }, { h, w } }
#define NORM    &(const struct stance_batch_norm){ .eps = 1e-3, .momentum = 0.1 }
#define UP(a, b, bilinear) &(const struct stance_upsample){ { a, b }, bilinear }
#define S(...)  { .rank = (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { __VA_ARGS__ } }

/* With L = sum of dy times result 0, result `result` of `grad` is dL by operand `wrt`. Operands of `grad`:
 * d is dy, 0..4 an operand of the forward op, a..e a result of it. */
static const struct pair {
    const char         *op;
    const void         *attr;
    int                 n_in, n_out;
    struct stance_shape in[5];
    const char         *grad, *from;
    int                 n_results, result, wrt;
} pairs[] = {
#define CONV_PAIRS(attr, x, w)                                                             \
    { "conv2d", attr, 2, 1, { x, w }, "conv2d_grad_data", "d1", 1, 0, 0 },                 \
    { "conv2d", attr, 2, 1, { x, w }, "conv2d_grad_weight", "d0", 1, 0, 1 }
#define X4(...) S(__VA_ARGS__)
    CONV_PAIRS(CONV(1, 1, 1, 1, 0, 0, 0, 3, 3, 5, 4), X4(2, 3, 5, 4), X4(4, 3, 3, 3)),
    CONV_PAIRS(CONV(2, 2, 1, 1, 1, 1, 1, 3, 3, 6, 7), X4(1, 2, 6, 7), X4(3, 2, 3, 3)),
    CONV_PAIRS(CONV(3, 2, 0, 2, 2, 3, 1, 2, 3, 9, 8), X4(1, 2, 9, 8), X4(2, 2, 2, 3)),
    CONV_PAIRS(CONV(3, 3, 0, 0, 1, 1, 1, 1, 1, 5, 4), X4(2, 2, 5, 4), X4(3, 2, 1, 1)),  /* stride > kernel */
    CONV_PAIRS(CONV(1, 1, 1, 1, 1, 1, 4, 3, 3, 4, 4), X4(1, 4, 4, 4), X4(4, 1, 3, 3)),  /* groups = C */
    CONV_PAIRS(CONV(2, 1, 1, 0, 1, 2, 2, 3, 2, 5, 6), X4(2, 4, 5, 6), X4(6, 2, 3, 2)),
    CONV_PAIRS(CONV(1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1), X4(2, 3, 1, 1), X4(2, 3, 1, 1)),
    CONV_PAIRS(CONV(1, 1, 2, 2, 1, 1, 1, 3, 3, 1, 70), X4(1, 1, 1, 70), X4(1, 1, 3, 3)), /* two tiles */
    CONV_PAIRS(CONV(2, 3, 4, 1, 1, 1, 1, 3, 3, 3, 140), X4(1, 1, 3, 140), X4(2, 1, 3, 3)),
#define DECONV_PAIRS(attr, x, w)                                                           \
    { "conv_transpose2d", attr, 2, 1, { x, w }, "conv_transpose2d_grad_data", "d1", 1, 0, 0 }, \
    { "conv_transpose2d", attr, 2, 1, { x, w }, "conv_transpose2d_grad_weight", "d0", 1, 0, 1 }
    DECONV_PAIRS(DECONV(2, 2, 1, 1, 0, 0, 0, 4, 4), X4(2, 3, 3, 4), X4(3, 2, 4, 4)),
    DECONV_PAIRS(DECONV(2, 2, 1, 1, 1, 1, 1, 3, 3), X4(1, 2, 3, 3), X4(2, 4, 3, 3)),
    DECONV_PAIRS(DECONV(3, 2, 0, 1, 2, 0, 2, 2, 3), X4(1, 4, 2, 3), X4(4, 2, 2, 3)),
    DECONV_PAIRS(DECONV(1, 1, 0, 0, 0, 0, 3, 1, 1), X4(1, 3, 1, 1), X4(3, 1, 1, 1)),
#define NORM_PAIRS(x, c)                                                                    \
    { "batch_norm", NORM, 5, 5, { x, c, c, c, c }, "batch_norm_grad", "d01de", 3, 0, 0 },   \
    { "batch_norm", NORM, 5, 5, { x, c, c, c, c }, "batch_norm_grad", "d01de", 3, 1, 1 },   \
    { "batch_norm", NORM, 5, 5, { x, c, c, c, c }, "batch_norm_grad", "d01de", 3, 2, 2 },   \
    { "batch_norm_inference", NORM, 5, 1, { x, c, c, c, c }, "batch_norm_inference_grad", "d0134", 3, 0, 0 }, \
    { "batch_norm_inference", NORM, 5, 1, { x, c, c, c, c }, "batch_norm_inference_grad", "d0134", 3, 1, 1 }, \
    { "batch_norm_inference", NORM, 5, 1, { x, c, c, c, c }, "batch_norm_inference_grad", "d0134", 3, 2, 2 }
    NORM_PAIRS(X4(3, 2, 2, 3), S(2)),
    NORM_PAIRS(X4(4, 3), S(3)),
    NORM_PAIRS(X4(1, 2, 1, 2), S(2)),
    { "relu", NULL, 1, 1, { X4(2, 3, 2, 2) }, "relu_grad", "da", 1, 0, 0 },
    { "upsample", UP(2, 3, 0), 1, 1, { X4(2, 2, 3, 2) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(1, 1, 0), 1, 1, { X4(1, 1, 1, 1) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(2, 3, 1), 1, 1, { X4(2, 2, 3, 2) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(4, 1, 1), 1, 1, { X4(1, 1, 1, 3) }, "upsample_grad", "d", 1, 0, 0 },
    { "upsample", UP(5, 2, 1), 1, 1, { X4(1, 1, 4, 1) }, "upsample_grad", "d", 1, 0, 0 },
#define POOL_PAIRS(attr, x)                                                              \
    { "max_pool", attr, 1, 2, { x }, "max_pool_grad", "db", 1, 0, 0 },                   \
    { "avg_pool", attr, 1, 1, { x }, "avg_pool_grad", "d", 1, 0, 0 }
    POOL_PAIRS(POOL(3, 3, 2, 2, 1, 1, 7, 6), X4(2, 2, 7, 6)),
    POOL_PAIRS(POOL(2, 2, 2, 2, 0, 0, 4, 5), X4(1, 2, 4, 5)),
    POOL_PAIRS(POOL(3, 2, 1, 3, 1, 0, 5, 8), X4(1, 1, 5, 8)),
    POOL_PAIRS(POOL(1, 1, 3, 2, 0, 0, 5, 4), X4(1, 1, 5, 4)),
    { "mse", NULL, 2, 1, { X4(2, 3, 2, 2), X4(2, 3, 2, 2) }, "mse_grad", "d01", 1, 0, 0 },
    { "mse", NULL, 3, 1, { X4(2, 3, 2, 2), X4(2, 3, 2, 2), S(2, 3, 1) }, "mse_grad", "d012", 1, 0, 0 },
};

static struct stance_tensor copy_of(const struct stance_tensor *t)
{
    struct stance_tensor c = ops_tensor(t->type, t->shape);

    memcpy(c.data, t->data, t->bytes);
    return c;
}

static double loss_of(const struct pair *p, const struct stance_tensor *in, const struct stance_tensor *dy,
                      struct ops *keep)
{
    struct ops f   = { .op = p->op, .attr = p->attr, .wide = STANCE_TYPE_F64 };
    double     sum = 0;

    for (f.n_in = 0; f.n_in < p->n_in; f.n_in++)
        f.in[f.n_in] = copy_of(&in[f.n_in]);
    ops_run(&f, p->n_out);
    for (int64_t i = 0; dy != NULL && i < stance_elements(&f.out[0].shape); i++)
        sum += ((const double *)dy->data)[i] * ((const double *)f.out[0].data)[i];
    if (keep != NULL)
        *keep = f;
    else
        ops_free(&f);
    return sum;
}

START_TEST(kernel_equals_central_difference)
{
    const struct pair   *p = &pairs[_i];
    struct ops           f, g = { .op = p->grad, .attr = p->attr, .wide = STANCE_TYPE_F64 };
    struct stance_tensor in[5], dy;

    for (int i = 0; i < p->n_in; i++) {
        in[i] = ops_tensor(STANCE_TYPE_F64, p->in[i]);
        ops_random(&in[i], (uint64_t)(_i * 10 + i));
    }
    if (strncmp(p->op, "batch_norm", 10) == 0)
        for (int64_t i = 0; i < stance_elements(&in[4].shape); i++) /* a variance */
            ((double *)in[4].data)[i] = fabs(((double *)in[4].data)[i]);
    loss_of(p, in, NULL, &f);
    dy = ops_tensor(STANCE_TYPE_F64, f.out[0].shape);
    ops_random(&dy, (uint64_t)_i + 1000);
    for (const char *c = p->from; *c != '\0'; c++)
        g.in[g.n_in++] = copy_of(*c == 'd' && c == p->from ? &dy : *c >= 'a' ? &f.out[*c - 'a'] : &in[*c - '0']);
    ops_run(&g, p->n_results);
    ck_assert(stance_shape_equal(&g.out[p->result].shape, &in[p->wrt].shape));
    for (int64_t i = 0; i < stance_elements(&in[p->wrt].shape); i++) {
        double *x = (double *)in[p->wrt].data + i, was = *x, difference, exact;

        *x         = was + STEP;
        difference = loss_of(p, in, &dy, NULL);
        *x         = was - STEP;
        difference = (difference - loss_of(p, in, &dy, NULL)) / (2 * STEP);
        *x         = was;
        exact      = ((const double *)g.out[p->result].data)[i];
        check_difference(p->grad, p->wrt, i, exact, difference);
    }
    for (int i = 0; i < p->n_in; i++)
        stance_free(in[i].data);
    stance_free(dy.data);
    ops_free(&f);
    ops_free(&g);
}
END_TEST

/* The same operands, exact in binary16, give the same results in every type but for one rounding each:
 * all sums are in binary64. */
START_TEST(types_differ_by_one_rounding)
{
    static const enum stance_type types[] = { STANCE_TYPE_F32, STANCE_TYPE_F16, STANCE_TYPE_BF16 };
    const struct pair            *p = &pairs[_i];
    struct ops                    wide = { .op = p->op, .attr = p->attr, .wide = STANCE_TYPE_F64 };

    for (int i = 0; i < p->n_in; i++) {
        ops_in(&wide, p->in[i], NULL);
        ops_random(&wide.in[i], (uint64_t)(_i * 10 + i));
        for (int64_t k = 0; k < stance_elements(&p->in[i]); k++) {
            double *v = (double *)wide.in[i].data + k;

            *v = rint(fabs(*v) * 64) / 64; /* exact in bfloat16 too; a variance is not negative */
        }
    }
    ops_run(&wide, p->n_out);
    for (int t = 0; t < 3; t++) {
        struct ops narrow = { .op = p->op, .attr = p->attr, .wide = types[t] };

        for (int i = 0; i < p->n_in; i++) {
            ops_in(&narrow, p->in[i], NULL);
            stance_tensor_copy(&narrow.in[i], 0, &wide.in[i], 0, stance_elements(&p->in[i]));
        }
        ops_run(&narrow, p->n_out);
        for (int i = 0; i < p->n_out; i++) {
            struct stance_tensor rounded = ops_tensor(narrow.out[i].type, narrow.out[i].shape);

            stance_tensor_copy(&rounded, 0, &wide.out[i], 0, stance_elements(&rounded.shape));
            ck_assert_int_eq(memcmp(rounded.data, narrow.out[i].data, rounded.bytes), 0);
            stance_free(rounded.data);
        }
        ops_free(&narrow);
    }
    ops_free(&wide);
}
END_TEST

/* ---- whole graphs ------------------------------------------------------------------------------ */

/* Sum of y times an input of random numbers: a scalar that every element of y matters to. */
static struct stance_value to_scalar(struct stance_builder *b, struct stance_value y, const char *name)
{
    struct stance_shape  s     = stance_shape_of(b, y);
    struct stance_reduce all   = { (1u << (s.rank > 0 ? s.rank : 0)) - 1, 0 };
    struct stance_value  in[2] = { y, stance_input(b, name, STANCE_TYPE_F32, s) };
    struct stance_value  v     = stance_node1(b, "mul", NULL, 0, in, 2);

    return stance_node1(b, "reduce_sum", &all, sizeof all, &v, 1);
}

/* Compares the gradient of every trained weight. */
static void check_graph(struct stance_graph *g, struct stance_value loss, const char *what)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct run          r;
    int                 trained = 0;

    ck_assert_msg(stance_graph_backward(g, loss, &err) == STANCE_OK, "%s", err.text);
    run_new(&r, g);
    run_nodes(&r, true, loss.id);
    for (size_t w = 0; w < g->n_weights; w++) {
        const struct stance_tensor *x = &r.t[g->weights[w].value];

        if (g->weights[w].role != STANCE_ROLE_PARAM) {
            ck_assert_uint_eq(g->weights[w].grad, 0);
            continue;
        }
        trained++;
        ck_assert_msg(g->weights[w].grad != 0, "%s: nothing flows to %s", what, g->weights[w].name);
        ck_assert(stance_shape_equal(&r.t[g->weights[w].grad].shape, &x->shape));
        for (int64_t i = 0; i < stance_elements(&x->shape); i++) {
            double *v = (double *)x->data + i, was = *v, difference;

            *v         = was + STEP;
            difference = run_nodes(&r, false, loss.id);
            *v         = was - STEP;
            difference = (difference - run_nodes(&r, false, loss.id)) / (2 * STEP);
            *v         = was;
            check_difference(what, (int)w, i, ((const double *)r.t[g->weights[w].grad].data)[i], difference);
        }
    }
    ck_assert_int_gt(trained, 0);
    run_free(&r);
}

/* Operands whose bit is set in `fixed` are states, through which nothing flows. */
static const struct node {
    const char         *op;
    const void         *attr;
    size_t              attr_size;
    int                 n_in, n_out;
    uint32_t            fixed;
    struct stance_shape in[5];
} nodes[] = {
#define ATTR(T, ...) &(const struct T){ __VA_ARGS__ }, sizeof(struct T)
    { "conv2d", ATTR(stance_conv2d, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, { 3, 3 }, { 0, 0 }), 3, 1, 0, { X4(2, 2, 4, 3), X4(3, 2, 3, 3), S(3) } },
    { "conv2d", ATTR(stance_conv2d, { 2, 1 }, { 0, 2 }, { 1, 2 }, 2, { 0, 0 }, { 0, 0 }), 2, 1, 0, { X4(1, 4, 5, 4), X4(2, 2, 2, 3) } },
    { "conv_transpose2d", ATTR(stance_conv_transpose2d, { 2, 2 }, { 1, 1 }, { 0, 1 }, 0, { 0, 0 }), 3, 1, 0, { X4(2, 2, 2, 3), X4(2, 3, 3, 4), S(3) } },
    { "conv_transpose2d", ATTR(stance_conv_transpose2d, { 1, 2 }, { 0, 0 }, { 0, 0 }, 2, { 2, 2 }), 2, 1, 0, { X4(1, 4, 2, 3), X4(4, 1, 2, 2) } },
    { "batch_norm", ATTR(stance_batch_norm, .eps = 1e-3, .momentum = 0.1), 5, 5, 0x18, { X4(3, 2, 2, 2), S(2), S(2), S(2), S(2) } },
    { "batch_norm_inference", ATTR(stance_batch_norm, .eps = 1e-3, .momentum = 0.1), 5, 1, 0x18, { X4(3, 2, 2, 2), S(2), S(2), S(2), S(2) } },
    { "relu", NULL, 0, 1, 1, 0, { X4(2, 3, 2, 2) } },
    { "add", NULL, 0, 3, 1, 2, { S(2, 3), S(2, 3), S(2, 3) } },
    { "mul", NULL, 0, 2, 1, 0, { S(2, 3), S(2, 3) } },
    { "scale", ATTR(stance_scale, -2.5), 1, 1, 0, { S(2, 3) } },
    { "cast", ATTR(stance_cast, STANCE_TYPE_F32), 1, 1, 0, { S(2, 3) } },
    { "upsample", ATTR(stance_upsample, { 2, 3 }, 0), 1, 1, 0, { X4(1, 2, 2, 3) } },
    { "upsample", ATTR(stance_upsample, { 3, 2 }, 1), 1, 1, 0, { X4(1, 2, 3, 3) } },
    { "max_pool", ATTR(stance_pool, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0 }), 1, 2, 0, { X4(1, 2, 5, 6) } },
    { "avg_pool", ATTR(stance_pool, { 3, 2 }, { 2, 1 }, { 1, 0 }, { 0, 0 }), 1, 1, 0, { X4(1, 2, 5, 4) } },
    { "mse", NULL, 0, 2, 1, 0, { X4(2, 2, 2, 2), X4(2, 2, 2, 2) } },
    { "mse", NULL, 0, 3, 1, 0x4, { X4(2, 2, 2, 2), X4(2, 2, 2, 2), S(2, 2, 1) } },
    { "reduce_sum", ATTR(stance_reduce, 5, 0), 1, 1, 0, { S(2, 3, 4) } },
    { "reduce_sum", ATTR(stance_reduce, 2, 1), 1, 1, 0, { S(2, 3, 4) } },
    { "broadcast", ATTR(stance_broadcast, S(2, 3, 4), 5), 1, 1, 0, { S(3) } },
    { "broadcast", ATTR(stance_broadcast, S(2, 3, 4), 5), 1, 1, 0, { S(1, 3, 1) } },
    { "matmul", ATTR(stance_matmul, 0, 0), 2, 1, 0, { S(2, 3), S(3, 4) } },
    { "matmul", ATTR(stance_matmul, 1, 0), 2, 1, 0, { S(3, 2), S(3, 4) } },
    { "matmul", ATTR(stance_matmul, 0, 1), 2, 1, 0, { S(2, 3), S(4, 3) } },
    { "matmul", ATTR(stance_matmul, 1, 1), 2, 1, 0, { S(3, 2), S(4, 3) } },
    { "matmul", ATTR(stance_matmul, 0, 0), 2, 1, 0, { X4(2, 2, 2, 3), X4(2, 2, 3, 2) } },
    { "matmul", ATTR(stance_matmul, 1, 1), 2, 1, 0, { S(2, 3, 2), S(2, 4, 3) } },
    { "matmul", ATTR(stance_matmul, 0, 0), 2, 1, 0, { X4(2, 2, 2, 3), S(3, 2) } }, /* b is shared */
    { "matmul", ATTR(stance_matmul, 1, 0), 2, 1, 0, { X4(2, 2, 3, 2), S(3, 2) } },
    { "matmul", ATTR(stance_matmul, 0, 1), 2, 1, 0, { S(2, 2, 3), S(4, 3) } },
    { "matmul", ATTR(stance_matmul, 1, 1), 2, 1, 0, { S(2, 3, 2), S(4, 3) } },
    { "concat", ATTR(stance_concat, 1), 3, 1, 2, { S(2, 1, 2), S(2, 3, 2), S(2, 2, 2) } },
    { "slice", ATTR(stance_slice, 1, 1, 2), 1, 1, 0, { S(2, 4, 2) } },
    { "reshape", ATTR(stance_reshape, S(4, 1, 3)), 1, 1, 0, { S(2, 6) } },
    { "transpose", ATTR(stance_transpose, { 2, 0, 1 }), 1, 1, 0, { S(2, 3, 4) } },
};

START_TEST(rule_equals_central_difference)
{
    static const char *const names[] = { "a", "b", "c", "d", "var" };
    const struct node       *n = &nodes[_i];
    struct stance_error      err = STANCE_ERROR_INIT;
    struct stance_init       init = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value      in[5], out[5];
    struct stance_graph     *g;
    struct stance_builder   *b;

    ck_assert_int_eq(stance_graph_new(NULL, true, &g, &err), STANCE_OK);
    b = stance_graph_builder(g);
    for (int i = 0; i < n->n_in; i++)
        in[i] = stance_weight(b, names[i], n->fixed >> i & 1 ? STANCE_ROLE_STATE : STANCE_ROLE_PARAM, STANCE_TYPE_F32,
                              n->in[i], init);
    stance_node(b, n->op, n->attr, n->attr_size, in, n->n_in, out, n->n_out);
    check_graph(g, to_scalar(b, out[0], "dy"), n->op);
}
END_TEST

/* A small network: shared weights, residual sums, two resolutions, the norm layer. */
static struct stance_value network(struct stance_builder *b)
{
    struct stance_init  init = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_value x    = stance_input(b, "image", STANCE_TYPE_ANY, stance_shape4(2, 3, 4, 4)), low, in[3];

    stance_enter(b, "conv");
    x = stance_conv2d(b, x, 2, 3, 1, false, init);
    stance_leave(b);
    stance_enter(b, "stem");
    x = stance_relu(b, stance_batch_norm(b, x, 1));
    stance_leave(b);
    for (int i = 0; i < 2; i++) { /* the same weights twice */
        struct stance_value y;

        stance_enter(b, "block");
        y = stance_conv2d(b, x, 2, 3, 1, true, init);
        stance_leave(b);
        x = stance_add(b, x, y);
    }
    stance_enter(b, "down");
    low = stance_conv2d(b, x, 2, 1, 2, true, init);
    stance_leave(b);
    x = stance_add(b, x, stance_upsample(b, low, 2));
    in[0] = x;
    in[1] = stance_input(b, "target", STANCE_TYPE_F32, stance_shape4(2, 2, 4, 4));
    in[2] = stance_input(b, "target_weight", STANCE_TYPE_F32, (struct stance_shape){ 3, { 2, 2, 1 } });
    return stance_node1(b, "mse", NULL, 0, in, 3);
}

START_TEST(network_equals_central_difference)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_graph *g;

    ck_assert_int_eq(stance_graph_new(NULL, true, &g, &err), STANCE_OK);
    check_graph(g, network(stance_graph_builder(g)), "network");
}
END_TEST

static int count_nodes(const struct stance_graph *g, const char *op)
{
    int n = 0;

    for (size_t i = 1; i < g->n_nodes; i++)
        n += strcmp(g->nodes[i].name, op) == 0;
    return n;
}

/* Whether a node of the backward pass reads the value. */
static bool is_kept(const struct stance_graph *g, struct stance_value v)
{
    for (size_t i = 1; i < g->n_nodes; i++)
        for (int k = 0; g->nodes[i].section == STANCE_SECTION_BACKWARD && k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] == v.id)
                return true;
    return false;
}

START_TEST(nothing_is_built_or_kept_in_vain)
{
    struct stance_error    err  = STANCE_ERROR_INIT;
    struct stance_init     init = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_conv2d   a    = { .stride = { 1, 1 } };
    struct stance_pool     p    = { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 0, 0 } };
    struct stance_graph   *g;
    struct stance_builder *b;
    struct stance_value    in[2], y, z, pooled[2], frozen;

    ck_assert_int_eq(stance_graph_new(NULL, true, &g, &err), STANCE_OK);
    b      = stance_graph_builder(g);
    in[0]  = stance_input(b, "image", STANCE_TYPE_ANY, stance_shape4(1, 2, 4, 4));
    in[1]  = stance_weight(b, "w", STANCE_ROLE_PARAM, STANCE_TYPE_F32, stance_shape4(2, 2, 1, 1), init);
    y      = stance_node1(b, "conv2d", &a, sizeof a, in, 2); /* the image wants no gradient */
    in[0]  = stance_relu(b, y);
    in[1]  = frozen = stance_weight(b, "f", STANCE_ROLE_FROZEN, STANCE_TYPE_F32, stance_shape4(2, 2, 1, 1), init);
    z      = stance_node1(b, "conv2d", &a, sizeof a, in, 2); /* nor does the frozen weight */
    stance_node(b, "max_pool", &p, sizeof p, &z, 1, pooled, 2);
    ck_assert_msg(stance_graph_backward(g, to_scalar(b, pooled[0], "dy"), &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(count_nodes(g, "conv2d_grad_data"), 1);
    ck_assert_int_eq(count_nodes(g, "conv2d_grad_weight"), 1);
    ck_assert_int_eq(count_nodes(g, "mul"), 2); /* one forward, one towards pooled[0] only */
    ck_assert(!is_kept(g, y) && !is_kept(g, z) && !is_kept(g, pooled[0]));
    ck_assert(is_kept(g, in[0]) && is_kept(g, frozen) && is_kept(g, pooled[1]));
    stance_graph_free(g);
}
END_TEST

START_TEST(undefined_gradients_are_refused)
{
    struct stance_init     init = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_error    err  = STANCE_ERROR_INIT;
    struct stance_shape    s    = { 2, { 2, 3 } }, c = stance_shape1(3);
    struct stance_graph   *g;
    struct stance_builder *b;
    struct stance_value    in[5], out[5];

    ck_assert_int_eq(stance_graph_new(NULL, true, &g, &err), STANCE_OK);
    b = stance_graph_builder(g);
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = { "x", "weight", "bias", "mean", "var" };

        in[i] = stance_weight(b, names[i], i < 3 ? STANCE_ROLE_PARAM : STANCE_ROLE_STATE, STANCE_TYPE_F32,
                              i == 0 ? s : c, init);
    }
    stance_node(b, "batch_norm", &(struct stance_batch_norm){ .eps = 1e-5, .momentum = 0.1 }, sizeof(struct stance_batch_norm), in, 5, out, 5);
    ck_assert_int_eq(stance_graph_backward(g, to_scalar(b, out[3], "dy"), &err), STANCE_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "no gradient flows through its statistics") != NULL, "%s", err.text);
    stance_graph_free(g);

    ck_assert_int_eq(stance_graph_new(NULL, true, &g, &err), STANCE_OK);
    b     = stance_graph_builder(g);
    in[0] = stance_input(b, "p", STANCE_TYPE_F32, s);
    in[1] = stance_input(b, "t", STANCE_TYPE_F32, s);
    in[2] = stance_weight(b, "w", STANCE_ROLE_PARAM, STANCE_TYPE_F32, s, init);
    ck_assert_int_eq(stance_graph_backward(g, stance_node1(b, "mse", NULL, 0, in, 3), &err), STANCE_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "no gradient flows to the weight") != NULL, "%s", err.text);
    stance_graph_free(g);
}
END_TEST

START_TEST(norm_layer)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_graph *g;
    struct run           r;
    long                 n;

    for (int training = 1; training >= 0; training--) {
        ck_assert_int_eq(stance_graph_new(NULL, training != 0, &g, &err), STANCE_OK);
        network(stance_graph_builder(g));
        ck_assert_msg(stance_graph_status(g, &err) == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(count_nodes(g, training ? "batch_norm" : "batch_norm_inference"), 1);
        for (int i = 0; i < 3; i++) {
            static const char *const states[] = { "stem.running_mean", "stem.running_var", "stem.num_batches_tracked" };

            n = stance_graph_weight_find(g, states[i]);
            ck_assert_int_ge(n, 0);
            ck_assert(g->weights[n].role == STANCE_ROLE_STATE && (g->weights[n].assigned != 0) == (training != 0));
            ck_assert_int_eq(g->weights[n].type, i < 2 ? STANCE_TYPE_F32 : STANCE_TYPE_I64);
            ck_assert_int_eq(g->weights[n].shape.rank, i < 2 ? 1 : 0);
            ck_assert(g->weights[n].init.a == (i == 1 ? 1 : 0));
            if (training && i < 2) /* new_mean and new_var */
                ck_assert_int_eq(g->values[g->weights[n].assigned].slot, 1 + i);
        }
        n = stance_graph_weight_find(g, "stem.weight");
        ck_assert(n >= 0 && g->weights[n].role == STANCE_ROLE_PARAM && g->weights[n].init.a == 1);
        if (!training) {
            stance_graph_free(g);
            continue;
        }
        run_new(&r, g);
        n = stance_graph_weight_find(g, "stem.num_batches_tracked");
        ((int64_t *)r.t[g->weights[n].value].data)[0] = 41;
        run_nodes(&r, false, 0);
        ck_assert_int_eq(((int64_t *)r.t[g->weights[n].assigned].data)[0], 42);
        run_free(&r);
    }
}
END_TEST

START_TEST(rules_survive_lack_of_memory)
{
    stance_status status = STANCE_ERR_NOMEM;

    for (long n = 0; status != STANCE_OK; n++) {
        struct stance_error  err = STANCE_ERROR_INIT;
        struct stance_graph *g   = NULL;

        fault_after(n);
        status = stance_graph_new(NULL, true, &g, &err);
        if (status == STANCE_OK) {
            struct stance_value loss = network(stance_graph_builder(g));

            status = stance_graph_backward(g, loss, &err);
        }
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "%d: %s", (int)status, err.text);
        stance_graph_free(g);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradients");
    TCase *tc    = tcase_create("kernels");

    tcase_add_loop_test(tc, kernel_equals_central_difference, 0, sizeof pairs / sizeof *pairs);
    tcase_add_loop_test(tc, types_differ_by_one_rounding, 0, sizeof pairs / sizeof *pairs);
    suite_add_tcase(suite, tc);
    tc = tcase_create("rules");
    tcase_add_loop_test(tc, rule_equals_central_difference, 0, sizeof nodes / sizeof *nodes);
    tcase_add_test(tc, network_equals_central_difference);
    tcase_add_test(tc, nothing_is_built_or_kept_in_vain);
    tcase_add_test(tc, undefined_gradients_are_refused);
    tcase_add_test(tc, norm_layer);
    tcase_add_test(tc, rules_survive_lack_of_memory);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
