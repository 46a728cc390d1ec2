/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place with OpenMP in it. */
#include "cpu.h"

#include <omp.h>

void stance_cpu_parallel(const struct cpu *cpu, int64_t n, void (*unit)(void *ctx, int64_t i), void *ctx)
{
    if (n < 2 || cpu->threads < 2) {
        for (int64_t i = 0; i < n; i++)
            unit(ctx, i);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int64_t i = 0; i < n; i++)
        unit(ctx, i);
}

int stance_cpu_threads(int threads)
{
    int old = omp_get_max_threads();

    if (old != threads)
        omp_set_num_threads(threads);
    return old;
}

int stance_cpu_default_threads(void)
{
    return omp_get_max_threads();
}

#define RUN 16384 /* values a unit: 64 KiB of binary32 */

struct convert { void (*pass)(void *, const void *, int64_t); char *to; const char *from; size_t ts, fs; int64_t n; };

static void convert_unit(void *ctx, int64_t i)
{
    struct convert *c = ctx;
    int64_t         n = c->n - i * RUN < RUN ? c->n - i * RUN : RUN;

    c->pass(c->to + (size_t)(i * RUN) * c->ts, c->from + (size_t)(i * RUN) * c->fs, n);
}

void stance_cpu_convert(const struct cpu *cpu, enum cpu_kind to_kind, void *to, enum cpu_kind kind,
                        const void *from, int64_t n)
{
    enum cpu_kind  load = kind == CPU_F32_OF_F16 || kind == CPU_F32_OF_BF16 ? CPU_F32 : kind;
    struct convert c = { cpu->pass->convert[to_kind][load], to, from, cpu_kind_size(to_kind),
                         cpu_kind_size(load), n };

    stance_cpu_parallel(cpu, (n + RUN - 1) / RUN, convert_unit, &c);
}
