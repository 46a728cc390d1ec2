/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/conv.h"

/* Columns summed together in binary64 before they are rounded and stored: the innermost loop runs along a
 * row, which is contiguous, whatever the order of the outer ones. */
#define TILE 64

static int64_t at_least(int64_t v, int64_t limit) { return v < limit ? limit : v; }
static int64_t at_most(int64_t v, int64_t limit) { return v > limit ? limit : v; }

/* Smallest q >= 0 with q stride + shift >= low. */
static int64_t first_at(int64_t low, int64_t shift, int64_t stride)
{
    int64_t d = low - shift;

    return d <= 0 ? 0 : (d + stride - 1) / stride;
}

/* Number of q >= 0 with q stride + shift < end. */
static int64_t count_below(int64_t end, int64_t shift, int64_t stride)
{
    int64_t d = end - shift;

    return d <= 0 ? 0 : (d - 1) / stride + 1;
}

OP_INLINE void sum(const struct conv_plan *g, const struct stance_tensor *x,
                   const struct stance_tensor *w, const struct stance_tensor *bias,
                   const struct stance_tensor *y, enum op_mode mode)
{
    const int64_t cg = g->c / g->groups, og = g->o / g->groups, s = g->stride[1];

    for (int64_t n = 0; n < g->n; n++)
    for (int64_t o = 0; o < g->o; o++)
    for (int64_t p = 0; p < g->p; p++)
    for (int64_t q0 = 0; q0 < g->q; q0 += TILE) {
        const int64_t q1 = at_most(q0 + TILE, g->q);
        double        acc[TILE];

        for (int64_t q = q0; q < q1; q++)
            acc[q - q0] = bias != NULL ? get(bias, o, mode) : 0;
        for (int64_t c = 0; c < cg; c++)
        for (int64_t i = 0; i < g->kh; i++) {
            const int64_t h   = p * g->stride[0] - g->pad[0] + i * g->dilation[0];
            const int64_t row = ((n * g->c + o / og * cg + c) * g->h + h) * g->w;

            if (h < 0 || h >= g->h)
                continue;
            for (int64_t j = 0; j < g->kw; j++) {
                const int64_t shift = j * g->dilation[1] - g->pad[1];
                const int64_t end   = at_most(q1, count_below(g->w, shift, s));
                const double  k     = get(w, ((o * cg + c) * g->kh + i) * g->kw + j, mode);

                for (int64_t q = at_least(q0, first_at(0, shift, s)); q < end; q++)
                    acc[q - q0] += k * get(x, row + q * s + shift, mode);
            }
        }
        for (int64_t q = q0; q < q1; q++)
            put(y, ((n * g->o + o) * g->p + p) * g->q + q, acc[q - q0], mode);
    }
}

OP_INLINE void adjoint_data(const struct conv_plan *g, const struct stance_tensor *y,
                            const struct stance_tensor *w, const struct stance_tensor *bias,
                            const struct stance_tensor *x, enum op_mode mode)
{
    const int64_t cg = g->c / g->groups, og = g->o / g->groups, s = g->stride[1];

    for (int64_t n = 0; n < g->n; n++)
    for (int64_t c = 0; c < g->c; c++)
    for (int64_t h = 0; h < g->h; h++)
    for (int64_t w0 = 0; w0 < g->w; w0 += TILE) {
        const int64_t w1 = at_most(w0 + TILE, g->w);
        double        acc[TILE];

        for (int64_t v = w0; v < w1; v++)
            acc[v - w0] = bias != NULL ? get(bias, c, mode) : 0;
        for (int64_t o = c / cg * og; o < (c / cg + 1) * og; o++)
        for (int64_t i = 0; i < g->kh; i++) {
            const int64_t ps = h + g->pad[0] - i * g->dilation[0]; /* p times the stride */
            const int64_t p  = ps / g->stride[0];

            if (ps < 0 || ps % g->stride[0] != 0 || p >= g->p)
                continue;
            for (int64_t j = 0; j < g->kw; j++) {
                const int64_t row   = ((n * g->o + o) * g->p + p) * g->q;
                const int64_t shift = j * g->dilation[1] - g->pad[1];
                const int64_t end   = at_most(g->q, count_below(w1, shift, s));
                const double  k     = get(w, ((o * cg + c % cg) * g->kh + i) * g->kw + j, mode);

                for (int64_t q = first_at(w0, shift, s); q < end; q++)
                    acc[q * s + shift - w0] += k * get(y, row + q, mode);
            }
        }
        for (int64_t v = w0; v < w1; v++)
            put(x, ((n * g->c + c) * g->h + h) * g->w + v, acc[v - w0], mode);
    }
}

OP_INLINE void adjoint_weight(const struct conv_plan *g, const struct stance_tensor *y,
                              const struct stance_tensor *x, const struct stance_tensor *w,
                              enum op_mode mode)
{
    const int64_t cg = g->c / g->groups, og = g->o / g->groups, s = g->stride[1];

    for (int64_t o = 0; o < g->o; o++)
    for (int64_t c = 0; c < cg; c++)
    for (int64_t i = 0; i < g->kh; i++)
    for (int64_t j = 0; j < g->kw; j++) {
        const int64_t shift = j * g->dilation[1] - g->pad[1];
        const int64_t begin = first_at(0, shift, s);
        const int64_t end   = at_most(g->q, count_below(g->w, shift, s));
        double        acc   = 0;

        for (int64_t n = 0; n < g->n; n++)
        for (int64_t p = 0; p < g->p; p++) {
            const int64_t h   = p * g->stride[0] - g->pad[0] + i * g->dilation[0];
            const int64_t row = ((n * g->c + o / og * cg + c) * g->h + h) * g->w + shift;
            const int64_t out = ((n * g->o + o) * g->p + p) * g->q;

            if (h < 0 || h >= g->h)
                continue;
            for (int64_t q = begin; q < end; q++)
                acc += get(y, out + q, mode) * get(x, row + q * s, mode);
        }
        put(w, ((o * cg + c) * g->kh + i) * g->kw + j, acc, mode);
    }
}

/* One compiled loop a mode. */
#define FOR_EACH_MODE(body, ...)                           \
    switch (mode) {                                        \
    case OP_F32: body(__VA_ARGS__, OP_F32); break;         \
    case OP_F64: body(__VA_ARGS__, OP_F64); break;         \
    case OP_MIXED: body(__VA_ARGS__, OP_MIXED); break;     \
    }

void stance_conv_sum(const struct conv_plan *g, const struct stance_tensor *x,
                     const struct stance_tensor *w, const struct stance_tensor *bias,
                     const struct stance_tensor *y, enum op_mode mode)
{
    FOR_EACH_MODE(sum, g, x, w, bias, y)
}

void stance_conv_adjoint_data(const struct conv_plan *g, const struct stance_tensor *y,
                              const struct stance_tensor *w, const struct stance_tensor *bias,
                              const struct stance_tensor *x, enum op_mode mode)
{
    FOR_EACH_MODE(adjoint_data, g, y, w, bias, x)
}

void stance_conv_adjoint_weight(const struct conv_plan *g, const struct stance_tensor *y,
                                const struct stance_tensor *x, const struct stance_tensor *w,
                                enum op_mode mode)
{
    FOR_EACH_MODE(adjoint_weight, g, y, x, w)
}

struct stance_value stance_conv_bias_gradient(struct stance_builder *b, struct stance_value dy)
{
    struct stance_reduce r = { 1u << 0 | 1u << 2 | 1u << 3, 0 };

    return stance_node1(b, "reduce_sum", &r, sizeof r, &dy, 1);
}
