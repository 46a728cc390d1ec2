/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of passes of one instruction set: PASSES_NAME, PASSES_ISA. */
#include "passes_norm.h"
#include "passes_pool.h"
#include "passes_flat.h"

/* The passes of one kind of activation k and gradient g, under names that end in s. */
#define TYPED(s, k, g)                                                                                  \
    static void stats_##s(const struct cpu_stats *t) { stats(k, t); }                                   \
    static void apply_##s(const struct cpu_apply *t) { apply(k, t); }                                   \
    static void reduce_##s(const struct cpu_reduce *t) { reduce(k, g, t); }                             \
    static void gather_##s(const struct cpu_gather *t) { gather(k, g, t); }                             \
    static void dz_##s(const struct cpu_dz *t) { dz(k, g, t); }                                         \
    static void max_pool_##s(const struct cpu_pool *t) { max_pool(k, t); }                              \
    static void max_pool_grad_##s(const struct cpu_pool *t)                                             \
    {                                                                                                   \
        max_pool_grad(g, t, t->y, t->x);                                                                \
    }                                                                                                   \
    static void upsample_##s(const void *x, void *y, int64_t rows, int64_t width, int fh, int fw)       \
    {                                                                                                   \
        upsample(k, x, y, rows, width, fh, fw);                                                         \
    }                                                                                                   \
    static void upsample_grad_##s(const void *dy, void *dx, int64_t rows, int64_t width, int fh, int fw) \
    {                                                                                                   \
        upsample_grad(g, dy, dx, rows, width, fh, fw);                                                  \
    }                                                                                                   \
    static void relu_##s(const void *x, void *y, int64_t n) { relu(k, x, y, n); }                       \
    static void relu_grad_##s(const void *dy, const void *y, void *dx, int64_t n)                       \
    {                                                                                                   \
        relu_grad(k, g, dy, y, dx, n);                                                                  \
    }                                                                                                   \
    static void loss_##s(struct cpu_loss *t) { loss(k, t); }                                            \
    static void loss_grad_##s(const struct cpu_loss *t) { loss_grad(k, g, t); }                         \
    static void loss_grad_wide_##s(const struct cpu_loss *t) { loss_grad(k, CPU_F32, t); }              \
    static void channel_sum_##s(const void *x, int64_t n, float *sum) { channel_sum(k, x, n, sum); }    \
    static void accumulate_##s(float *sum, const void *x, int64_t n) { accumulate(k, sum, x, n); }

TYPED(f32, CPU_F32, CPU_F32)
TYPED(bf16, CPU_BF16, CPU_BF16)
TYPED(f16, CPU_F16, CPU_F32_OF_F16)

#define FIRST(s, k)                                                                                     \
    static void convert_##s##_f32(void *y, const void *x, int64_t n) { convert(k, CPU_F32, y, x, n); }  \
    static void convert_##s##_bf16(void *y, const void *x, int64_t n) { convert(k, CPU_BF16, y, x, n); } \
    static void convert_##s##_f16(void *y, const void *x, int64_t n) { convert(k, CPU_F16, y, x, n); }  \
    static void add_##s(void *y, const void *const *x, int count, int64_t n) { add(k, y, x, count, n); } \
    static void pack_##s(void *y, const float *x, const int32_t *segment, const int32_t *index)         \
    {                                                                                                   \
        pack(k, y, x, segment, index);                                                                  \
    }

FIRST(f32, CPU_F32)
FIRST(bf16, CPU_BF16)
FIRST(f16, CPU_F16)
FIRST(wide_f16, CPU_F32_OF_F16)
FIRST(wide_bf16, CPU_F32_OF_BF16)

#define TYPED_ROW(s)                                                                                    \
    { .stats = stats_##s, .apply = apply_##s, .reduce = reduce_##s, .gather = gather_##s, .dz = dz_##s, \
      .max_pool = max_pool_##s, .max_pool_grad = max_pool_grad_##s, .upsample = upsample_##s,           \
      .upsample_grad = upsample_grad_##s, .relu = relu_##s, .relu_grad = relu_grad_##s,                 \
      .loss = loss_##s, .loss_grad = loss_grad_##s, .loss_grad_wide = loss_grad_wide_##s }
#define CONVERT_ROW(s) { convert_##s##_f32, convert_##s##_bf16, convert_##s##_f16 }

const struct cpu_passes PASSES_NAME = {
    .isa         = PASSES_ISA,
    .lanes       = LANES,
    .typed       = { TYPED_ROW(f32), TYPED_ROW(bf16), TYPED_ROW(f16) },
    .convert     = { CONVERT_ROW(f32), CONVERT_ROW(bf16), CONVERT_ROW(f16), CONVERT_ROW(wide_f16),
                     CONVERT_ROW(wide_bf16) },
    .add         = { add_f32, add_bf16, add_f16, add_wide_f16, add_wide_bf16 },
    .channel_sum = { channel_sum_f32, channel_sum_bf16, channel_sum_f16 },
    .accumulate  = { accumulate_f32, accumulate_bf16, accumulate_f16 },
    .pack        = { pack_f32, pack_bf16, pack_f16, pack_wide_f16, pack_wide_bf16 },
    .check       = check,
    .clip        = clip,
    .ema         = ema,
    .adam        = adam,
    .sgd         = sgd,
};
