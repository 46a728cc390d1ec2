/* SPDX-License-Identifier: Apache-2.0
 *
 * "pack": from masters to the form a kernel asked for, after each update; and "reorder". Where both sides
 * have blocks of lanes x lanes weights, one block is `lanes` gathers by a table, each stored in one piece:
 * spec/cpu-training.md 4, "Weights". */
#include "cpu.h"

#include <stdlib.h>

struct pack {
    struct cpu_kernel base;
    bool              by_blocks;
    int64_t           rows, columns, kh, kw; /**< in blocks; taps */
    int64_t          *to_at[4], *from_at[4]; /**< of the blocks' corners and the taps */
    enum cpu_kind     kind;
    int32_t           segment[CPU_LANES_MAX], index[CPU_LANES_MAX * CPU_LANES_MAX];
    int64_t           places[];
};

static bool offer(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)o;
    return q->n_in == 1 && q->n_out == 1 && stance_cpu_can_reorder(cpu, &q->out[0], &q->in[0]);
}

/* Whether the table repeats block by block: at[b lanes + i] - at[b lanes] is the same for every b. */
static bool repeats(const int64_t *at, int64_t n, int lanes)
{
    for (int64_t i = 0; i < n; i++)
        if (at[i] - at[i / lanes * lanes] != at[i % lanes] - at[0])
            return false;
    return n % lanes == 0;
}

struct pair { int64_t to, from; };

static int by_target(const void *a, const void *b)
{
    int64_t x = ((const struct pair *)a)->to, y = ((const struct pair *)b)->to;

    return (x > y) - (x < y);
}

/* Fills segment and index. @return false: a block of the target does not lie in whole runs. */
static bool tabulate(struct pack *p, const struct cpu_layout *to, const struct cpu_layout *from, int lanes)
{
    struct pair pair[CPU_LANES_MAX * CPU_LANES_MAX];

    for (int d = 0; d < 2; d++)
        if (!repeats(to->at[d], to->padded[d], lanes) || !repeats(from->at[d], from->padded[d], lanes)
            || to->padded[d] != from->padded[d])
            return false;
    for (int o = 0; o < lanes; o++)
        for (int i = 0; i < lanes; i++)
            pair[o * lanes + i] = (struct pair){ to->at[0][o] + to->at[1][i], from->at[0][o] + from->at[1][i] };
    qsort(pair, (size_t)(lanes * lanes), sizeof *pair, by_target);
    for (int r = 0; r < lanes; r++) {
        if (pair[r * lanes].to > INT32_MAX)
            return false;
        p->segment[r] = (int32_t)pair[r * lanes].to;
        for (int i = 0; i < lanes; i++) {
            if (pair[r * lanes + i].to != p->segment[r] + i || pair[r * lanes + i].from > INT32_MAX)
                return false;
            p->index[r * lanes + i] = (int32_t)pair[r * lanes + i].from;
        }
    }
    return true;
}

static stance_status prepare(struct cpu *cpu, const struct stance_request *q, struct cpu_kernel **kernel,
                             struct stance_error *err)
{
    const struct cpu_layout *to = stance_cpu_layout(cpu, q->out[0].layout), *from = stance_cpu_layout(cpu, q->in[0].layout);
    int64_t      count[4] = { 0 }, n = 0;
    struct pack *p;

    if (to != NULL && from != NULL)
        for (int d = 0; d < 4; d++) {
            count[d] = d < 2 ? to->padded[d] / cpu->lanes : to->padded[d];
            n += 2 * count[d];
        }
    p = stance_calloc(1, sizeof *p + (size_t)n * sizeof *p->places);
    if (p == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "kernel of '%s'", q->op);
    if (to != NULL && from != NULL && stance_cpu_kind(&q->out[0], &p->kind) && q->in[0].stored == STANCE_TYPE_F32
        && tabulate(p, to, from, cpu->lanes)) {
        int64_t *next = p->places;

        for (int d = 0; d < 4; d++) {
            int step = d < 2 ? cpu->lanes : 1;

            p->to_at[d]   = next;
            p->from_at[d] = next + count[d];
            next += 2 * count[d];
            for (int64_t i = 0; i < count[d]; i++) {
                p->to_at[d][i]   = to->at[d][i * step];
                p->from_at[d][i] = from->at[d][i * step];
            }
        }
        p->by_blocks = true;
        p->rows      = count[0];
        p->columns   = count[1];
        p->kh        = count[2];
        p->kw        = count[3];
    }
    *kernel = &p->base;
    return STANCE_OK;
}

struct work { const struct cpu *cpu; const struct pack *p; const struct stance_call *call; };

static void pack_unit(void *ctx, int64_t i)
{
    struct work       *w = ctx;
    const struct pack *p = w->p;
    int64_t to = p->to_at[0][i / p->columns] + p->to_at[1][i % p->columns];
    int64_t from = p->from_at[0][i / p->columns] + p->from_at[1][i % p->columns];

    for (int64_t y = 0; y < p->kh; y++)
        for (int64_t x = 0; x < p->kw; x++)
            w->cpu->pass->pack[p->kind](
                stance_cpu_at(w->call->out[0].data, p->kind, to + p->to_at[2][y] + p->to_at[3][x]),
                (const float *)w->call->in[0].data + from + p->from_at[2][y] + p->from_at[3][x], p->segment, p->index);
}

static stance_status launch(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct pack *p = (struct pack *)kernel;
    struct work  w = { cpu, p, call };

    if (!p->by_blocks)
        return stance_cpu_reorder(cpu, &call->out[0], &call->in[0], NULL);
    stance_cpu_parallel(cpu, p->rows * p->columns, pack_unit, &w);
    return STANCE_OK;
}

static const struct cpu_op pack    = { "pack", offer, prepare, launch, NULL };
static const struct cpu_op reorder = { "reorder", offer, prepare, launch, NULL };

const struct cpu_op *const stance_cpu_pack_ops[] = { &pack, &reorder, NULL };
