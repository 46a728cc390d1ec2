/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of weight layouts. oneDNN asks for a layout when a convolution is made; the same layout asked
 * for twice has one number, so that equal numbers mean that no packing is needed between them. */
#include "cpu.h"

/* Place of index i of dimension d, all other indices being 0. */
static int64_t place(const struct cpu_blocking *b, int d, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int k = b->n_inner - 1; k >= 0; k--) {
        if (b->inner_dim[k] == d) {
            at += i % b->inner[k] * step;
            i /= b->inner[k];
        }
        step *= b->inner[k];
    }
    return at + i * b->stride[d];
}

/* Grouped weights have a fifth, leading dimension there; here group and output are one index. */
static bool fill(struct cpu_layout *l, const struct stance_shape *shape, const struct cpu_blocking *b)
{
    int g = b->ndims - 4;

    if (shape->rank != 4 || (g != 0 && g != 1))
        return false;
    for (int d = 0; d < 4; d++) {
        l->dim[d]    = shape->dim[d];
        l->padded[d] = b->padded[d + g] * (d == 0 && g == 1 ? b->dim[0] : 1);
        if (l->padded[d] < l->dim[d] || (d == 0 && g == 1 && b->padded[1] != b->dim[1]))
            return false;
        l->at[d] = stance_calloc((size_t)l->padded[d] + 1, sizeof *l->at[d]);
        if (l->at[d] == NULL)
            return false;
        for (int64_t i = 0; i < l->padded[d]; i++)
            l->at[d][i] = d == 0 && g == 1 ? place(b, 0, i / b->dim[1]) + place(b, 1, i % b->dim[1])
                                           : place(b, d + g, i);
    }
    l->elements = 1;
    for (int d = 0; d < b->ndims; d++)
        l->elements *= b->padded[d];
    return true;
}

static void drop(struct cpu_layout *l)
{
    for (int d = 0; d < 4; d++)
        stance_free(l->at[d]);
    for (int t = 0; t < 2; t++)
        if (l->has[t])
            cpu_md_drop(&l->md[t]);
}

static bool same(const struct cpu_layout *a, const struct cpu_layout *b)
{
    if (a->elements != b->elements)
        return false;
    for (int d = 0; d < 4; d++)
        if (a->dim[d] != b->dim[d] || a->padded[d] != b->padded[d]
            || memcmp(a->at[d], b->at[d], (size_t)a->padded[d] * sizeof *a->at[d]) != 0)
            return false;
    return true;
}

uint32_t stance_cpu_layout_add(struct cpu *cpu, const struct stance_shape *shape, cpu_md_ref md)
{
    struct cpu_layout   l = { .elements = 0 };
    struct cpu_blocking b = { .ndims = 0 };
    size_t              i, type;

    if (!cpu_md_blocking(md, &b) || (!b.f32 && !b.bf16))
        return 0;
    type = b.bf16;
    if (!fill(&l, shape, &b))
        goto drop_layout;
    for (i = 0; i < cpu->n_layouts && !same(&cpu->layouts[i], &l); i++)
        ;
    if (i < cpu->n_layouts) {
        drop(&l);
        if (!cpu->layouts[i].has[type]) {
            if (!cpu_md_copy(&cpu->layouts[i].md[type], md))
                return 0;
            cpu->layouts[i].has[type] = true;
        }
        return CPU_WEIGHTS + (uint32_t)i;
    }
    if (!stance_grow((void **)&cpu->layouts, &cpu->room_layouts, cpu->n_layouts + 1, sizeof l)
        || !cpu_md_copy(&l.md[type], md))
        goto drop_layout;
    l.has[type]     = true;
    cpu->layouts[i] = l;
    cpu->n_layouts++;
    return CPU_WEIGHTS + (uint32_t)i;

drop_layout:
    drop(&l);
    return 0;
}

const struct cpu_layout *stance_cpu_layout(const struct cpu *cpu, uint32_t id)
{
    return id >= CPU_WEIGHTS && id - CPU_WEIGHTS < cpu->n_layouts ? &cpu->layouts[id - CPU_WEIGHTS] : NULL;
}

void stance_cpu_layouts_free(struct cpu *cpu)
{
    for (size_t i = 0; i < cpu->n_layouts; i++)
        drop(&cpu->layouts[i]);
    stance_free(cpu->layouts);
    cpu->layouts   = NULL;
    cpu->n_layouts = 0;
}
