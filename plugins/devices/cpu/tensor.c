/* SPDX-License-Identifier: Apache-2.0
 *
 * What tensors of this device hold, and how their planes are cut into work. */
#include "cpu.h"

bool stance_cpu_kind(const struct stance_tensor *t, enum cpu_kind *kind)
{
    if (t->stored == STANCE_TYPE_F32)
        *kind = t->type == STANCE_TYPE_F16    ? CPU_F32_OF_F16
                : t->type == STANCE_TYPE_BF16 ? CPU_F32_OF_BF16
                                              : CPU_F32;
    else if (t->stored == STANCE_TYPE_BF16)
        *kind = CPU_BF16;
    else if (t->stored == STANCE_TYPE_F16)
        *kind = CPU_F16;
    else
        return false;
    return true;
}

int stance_cpu_typed(const struct stance_tensor *t)
{
    enum cpu_kind k;

    return stance_cpu_kind(t, &k) && k <= CPU_F16 ? (int)k : -1;
}

bool stance_cpu_gradient(const struct stance_tensor *t, int typed)
{
    enum cpu_kind k;

    return stance_cpu_kind(t, &k) && k == (typed == CPU_F16 ? CPU_F32_OF_F16 : (enum cpu_kind)typed);
}

int64_t stance_cpu_length(const struct cpu *cpu, const struct stance_tensor *t)
{
    const struct cpu_layout *l;

    if (t->layout == CPU_PLAIN)
        return stance_elements(&t->shape);
    if (t->layout == CPU_BLOCKED && t->shape.rank == 4)
        return t->shape.dim[0] * stance_cpu_round_up(t->shape.dim[1], cpu->lanes) * t->shape.dim[2]
               * t->shape.dim[3];
    l = stance_cpu_layout(cpu, t->layout);
    return l == NULL ? 0 : l->elements;
}

bool stance_cpu_plain(const struct stance_tensor *t, enum stance_type type)
{
    return t->shape.rank >= 0 && t->layout == CPU_PLAIN && t->type == type && t->stored == type;
}

bool stance_cpu_same_shape(const struct stance_shape *a, const struct stance_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

struct cpu_grid stance_cpu_grid(const struct cpu *cpu, const struct stance_tensor *t)
{
    const int64_t  *d = t->shape.dim;
    struct cpu_grid g = { d[0], stance_cpu_round_up(d[1], cpu->lanes) / cpu->lanes, d[2], d[3], 8, 1 };

    if (g.width > 0 && 1024 / g.width > 8)
        g.rows = 1024 / g.width / 8 * 8;
    g.bands = (g.height + g.rows - 1) / g.rows;
    return g;
}
