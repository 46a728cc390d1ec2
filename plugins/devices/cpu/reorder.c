/* SPDX-License-Identifier: Apache-2.0
 *
 * Between forms: plain, blocked and weight layouts, in any of the float types. */
#include "cpu.h"

#include "half.h"

#define TILE 64 /* pixels turned at a time */

/* ---- weights ------------------------------------------------------------------------------------ */

static int64_t weight_place(const struct cpu_layout *l, const int64_t *dim, const int64_t i[4])
{
    return l != NULL ? l->at[0][i[0]] + l->at[1][i[1]] + l->at[2][i[2]] + l->at[3][i[3]]
                     : ((i[0] * dim[1] + i[1]) * dim[2] + i[2]) * dim[3] + i[3];
}

static double get(const struct stance_tensor *t, int64_t i)
{
    switch (t->stored) {
    case STANCE_TYPE_F64: return ((const double *)t->data)[i];
    case STANCE_TYPE_F16: return half_from_f16(((const uint16_t *)t->data)[i]);
    case STANCE_TYPE_BF16: return half_from_bf16(((const uint16_t *)t->data)[i]);
    default: return ((const float *)t->data)[i];
    }
}

static void put(const struct stance_tensor *t, int64_t i, double v)
{
    float f = (float)v;

    if (t->stored == STANCE_TYPE_F64)
        ((double *)t->data)[i] = v;
    else if (t->stored == STANCE_TYPE_F16)
        ((uint16_t *)t->data)[i] = half_to_f16(f);
    else if (t->stored == STANCE_TYPE_BF16)
        ((uint16_t *)t->data)[i] = half_to_bf16(f);
    else
        ((float *)t->data)[i] = t->type == STANCE_TYPE_F16    ? half_from_f16(half_to_f16(f))
                                : t->type == STANCE_TYPE_BF16 ? half_from_bf16(half_to_bf16(f))
                                                              : f;
}

struct weights {
    const struct cpu_layout    *to_layout, *from_layout; /**< NULL: plain */
    const struct stance_tensor *to, *from;
};

static void weights_unit(void *ctx, int64_t o)
{
    struct weights *w = ctx;
    const int64_t  *dim = w->to->shape.dim;
    int64_t         i[4] = { o, 0, 0, 0 };

    for (i[1] = 0; i[1] < dim[1]; i[1]++)
        for (i[2] = 0; i[2] < dim[2]; i[2]++)
            for (i[3] = 0; i[3] < dim[3]; i[3]++)
                put(w->to, weight_place(w->to_layout, dim, i), get(w->from, weight_place(w->from_layout, dim, i)));
}

/* ---- blocks of channels ------------------------------------------------------------------------- */

struct blocks {
    const struct cpu           *cpu;
    const struct stance_tensor *to, *from;
    enum cpu_kind               tk, fk;
};

static enum cpu_kind load_kind(enum cpu_kind k)
{
    return k > CPU_F16 ? CPU_F32 : k;
}

static void to_blocked_unit(void *ctx, int64_t i)
{
    struct blocks *b = ctx;
    const int64_t *d = b->to->shape.dim;
    int64_t        lanes = b->cpu->lanes, blocks = stance_cpu_round_up(d[1], lanes) / lanes, n = d[2] * d[3];
    int64_t        c0 = i % blocks * lanes, channels = d[1] - c0 < lanes ? d[1] - c0 : lanes;
    int64_t        plain = (i / blocks * d[1] + c0) * n, blocked = i * n * lanes;
    float          row[TILE], tile[TILE * CPU_LANES_MAX] = { 0 };

    for (int64_t p = 0; p < n; p += TILE) {
        int64_t m = n - p < TILE ? n - p : TILE;

        for (int64_t c = 0; c < channels; c++) {
            b->cpu->pass->convert[CPU_F32][load_kind(b->fk)](
                row, stance_cpu_at(b->from->data, b->fk, plain + c * n + p), m);
            for (int64_t j = 0; j < m; j++)
                tile[j * lanes + c] = row[j];
        }
        b->cpu->pass->convert[b->tk][CPU_F32](stance_cpu_at(b->to->data, b->tk, blocked + p * lanes), tile, m * lanes);
    }
}

static void to_plain_unit(void *ctx, int64_t i)
{
    struct blocks *b = ctx;
    const int64_t *d = b->to->shape.dim;
    int64_t        lanes = b->cpu->lanes, blocks = stance_cpu_round_up(d[1], lanes) / lanes, n = d[2] * d[3];
    int64_t        c0 = i % blocks * lanes, channels = d[1] - c0 < lanes ? d[1] - c0 : lanes;
    int64_t        plain = (i / blocks * d[1] + c0) * n, blocked = i * n * lanes;
    float          row[TILE], tile[TILE * CPU_LANES_MAX];

    for (int64_t p = 0; p < n; p += TILE) {
        int64_t m = n - p < TILE ? n - p : TILE;

        b->cpu->pass->convert[CPU_F32][load_kind(b->fk)](
            tile, stance_cpu_at(b->from->data, b->fk, blocked + p * lanes), m * lanes);
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t j = 0; j < m; j++)
                row[j] = tile[j * lanes + c];
            b->cpu->pass->convert[b->tk][CPU_F32](stance_cpu_at(b->to->data, b->tk, plain + c * n + p), row, m);
        }
    }
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static bool known(const struct cpu *cpu, const struct stance_tensor *t)
{
    const struct cpu_layout *l = stance_cpu_layout(cpu, t->layout);

    if (t->layout == CPU_PLAIN)
        return t->shape.rank >= 0;
    if (t->shape.rank != 4)
        return false;
    if (t->layout == CPU_BLOCKED)
        return true;
    return l != NULL && memcmp(l->dim, t->shape.dim, sizeof l->dim) == 0;
}

/* Doubles meet this device in files and in new weights only: as the other side of a conversion. */
static bool wide(const struct stance_tensor *t)
{
    return t->stored == STANCE_TYPE_F64 && t->layout == CPU_PLAIN;
}

static bool is_known_float(const struct stance_tensor *t)
{
    enum cpu_kind k;

    return wide(t) || stance_cpu_kind(t, &k);
}

bool stance_cpu_can_reorder(const struct cpu *cpu, const struct stance_tensor *to, const struct stance_tensor *from)
{
    if (!stance_cpu_same_shape(&to->shape, &from->shape))
        return false;
    if (to->layout == from->layout && to->type == from->type && to->stored == from->stored)
        return to->layout != CPU_PLAIN || to->shape.rank >= 0;
    if (!known(cpu, to) || !known(cpu, from) || !is_known_float(to) || !is_known_float(from))
        return false;
    if (to->layout != CPU_BLOCKED && from->layout != CPU_BLOCKED)
        return true;
    return to->layout == from->layout || to->layout == CPU_PLAIN || from->layout == CPU_PLAIN;
}

static void double_convert(const struct stance_tensor *to, const struct stance_tensor *from)
{
    int64_t n = stance_elements(&to->shape);

    for (int64_t i = 0; i < n; i++)
        put(to, i, get(from, i));
}

/* Plain doubles to or from blocks; padding channels are zeroed. */
static void double_blocks(const struct cpu *cpu, const struct stance_tensor *to, const struct stance_tensor *from)
{
    const int64_t *d = to->shape.dim;
    int64_t        lanes = cpu->lanes, blocks = stance_cpu_round_up(d[1], lanes) / lanes, n = d[2] * d[3];

    if (to->layout == CPU_BLOCKED)
        memset(to->data, 0, (size_t)(d[0] * blocks * lanes * n) * stance_type_size(to->stored));
    for (int64_t i = 0; i < d[0] * d[1]; i++) {
        int64_t row = (i / d[1] * blocks + i % d[1] / lanes) * n * lanes + i % d[1] % lanes;

        for (int64_t p = 0; p < n; p++)
            if (to->layout == CPU_BLOCKED)
                put(to, row + p * lanes, get(from, i * n + p));
            else
                put(to, i * n + p, get(from, row + p * lanes));
    }
}

stance_status stance_cpu_reorder(struct cpu *cpu, const struct stance_tensor *to, const struct stance_tensor *from,
                                 struct stance_error *err)
{
    enum cpu_kind tk, fk;

    if (!stance_cpu_can_reorder(cpu, to, from))
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED,
                           "device 'cpu': no conversion from %s in layout %u to %s in layout %u",
                           stance_type_word(from->stored), (unsigned)from->layout, stance_type_word(to->stored),
                           (unsigned)to->layout);
    if (to->layout == from->layout && to->type == from->type && to->stored == from->stored) {
        if (to->data != from->data)
            memcpy(to->data, from->data, to->bytes < from->bytes ? to->bytes : from->bytes);
        return STANCE_OK;
    }
    if (to->layout == from->layout && (wide(to) || wide(from))) {
        double_convert(to, from);
        return STANCE_OK;
    }
    if (to->layout != from->layout && to->layout != CPU_BLOCKED && from->layout != CPU_BLOCKED) {
        struct weights w = { stance_cpu_layout(cpu, to->layout), stance_cpu_layout(cpu, from->layout), to, from };

        if (w.to_layout != NULL && w.to_layout->elements != stance_elements(&to->shape))
            memset(to->data, 0, (size_t)w.to_layout->elements * stance_type_size(to->stored));
        stance_cpu_parallel(cpu, to->shape.dim[0], weights_unit, &w);
        return STANCE_OK;
    }
    if (wide(to) || wide(from)) {
        double_blocks(cpu, to, from);
        return STANCE_OK;
    }
    stance_cpu_kind(to, &tk);
    stance_cpu_kind(from, &fk);
    if (to->layout == from->layout) {
        stance_cpu_convert(cpu, tk, to->data, fk, from->data, stance_cpu_length(cpu, to));
    } else {
        const struct stance_tensor *t = to->layout == CPU_BLOCKED ? to : from;
        struct blocks               b = { cpu, to, from, tk, fk };

        stance_cpu_parallel(cpu, t->shape.dim[0] * (stance_cpu_round_up(t->shape.dim[1], cpu->lanes) / cpu->lanes),
                            t == to ? to_blocked_unit : to_plain_unit, &b);
    }
    return STANCE_OK;
}
