/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes over memory that this device does itself. One source (passes_*.h) is compiled for each
 * instruction set; the table at hand is chosen when the device is opened. A pass does one unit of work
 * (a block of channels of some rows of one image, or a run of a flat array) and knows no threads. */
#ifndef CPU_PASSES_H
#define CPU_PASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What an array holds: how a value is loaded, and to what it is rounded when it is stored. */
enum cpu_kind {
    CPU_F32, CPU_BF16, CPU_F16,
    CPU_F32_OF_F16,  /**< binary32 that holds values of binary16 */
    CPU_F32_OF_BF16,
    CPU_KIND_COUNT
};

static inline size_t cpu_kind_size(enum cpu_kind k)
{
    return k == CPU_BF16 || k == CPU_F16 ? 2 : 4;
}

#define CPU_NORM_MAX 4
#define CPU_DY_MAX 16
#define CPU_LANES_MAX 16

/* Passes over channel-blocked tensors come three times, by the kind of the activations: F32, BF16 and
 * F16; gradients are then F32, BF16 and F32_OF_F16. Pixels of a unit are contiguous, `lanes` channels
 * each; per-channel operands are `lanes` floats. A mask has `lanes` bits a pixel. */

/** Sums of (z - shift) and its square over n pixels, shift being about the mean of z. */
struct cpu_stats { const void *z; int64_t n; float *shift, *sum, *square; };

/** y = act(sum a_k z_k + b + sum x_j) over some rows; z_k is 1/factor as wide and high. */
struct cpu_apply {
    int          n_norm, n_plain, factor[CPU_NORM_MAX];
    const void  *z[CPU_NORM_MAX], *x[CPU_NORM_MAX];
    const float *a[CPU_NORM_MAX], *b;
    void        *y, *mask; /**< mask: may be NULL */
    bool         relu;
    int64_t      rows, width;
};

/** g = mask (dy_0 + ...), stored unless g is NULL; with z also sum of g and of g (z - mean). */
struct cpu_reduce {
    int          n_dy;
    const void  *dy[CPU_DY_MAX], *mask, *z;
    void        *g;
    const float *mean;
    float       *sum; /**< [2 lanes] */
    int64_t      n;
};

/** gu = sums of factor x factor blocks of g, with the sums of struct cpu_reduce. */
struct cpu_gather {
    const void  *g, *z;
    void        *gu;
    const float *mean;
    float       *sum;
    int64_t      rows, width; /**< of g */
    int          factor;
};

/** dz = a g + c2 z + c0, g masked first if mask is not NULL. */
struct cpu_dz { const void *g, *mask, *z; void *dz; const float *a, *c2, *c0; int64_t n; };

/** One plane of max_pool: index is the place within the window. */
struct cpu_pool {
    const void *x;
    void       *y;
    uint8_t    *index;
    int         kernel[2], stride[2], pad[2];
    int64_t     h, w, oh, ow;
};

/** Prediction in blocks against plain targets [lanes'][n]: the sum of squares, or its gradient. */
struct cpu_loss {
    const void  *p;
    const float *target, *weight; /**< weight: one a channel, or NULL */
    void        *dp;
    double       sum;
    float        factor;   /**< of the gradient */
    int          channels; /**< of this block that exist */
    int64_t      n;
};

struct cpu_typed_passes {
    void (*stats)(const struct cpu_stats *);
    void (*apply)(const struct cpu_apply *);
    void (*reduce)(const struct cpu_reduce *);
    void (*gather)(const struct cpu_gather *);
    void (*dz)(const struct cpu_dz *);
    void (*max_pool)(const struct cpu_pool *);
    /** x is the gradient of the input here, y that of the output. */
    void (*max_pool_grad)(const struct cpu_pool *);
    /** Nearest neighbour over rows of y; and sums over blocks of dy. */
    void (*upsample)(const void *x, void *y, int64_t rows, int64_t width, int fh, int fw);
    void (*upsample_grad)(const void *dy, void *dx, int64_t rows, int64_t width, int fh, int fw);
    void (*relu)(const void *x, void *y, int64_t n);
    void (*relu_grad)(const void *dy, const void *y, void *dx, int64_t n);
    void (*loss)(struct cpu_loss *);
    void (*loss_grad)(const struct cpu_loss *);
    void (*loss_grad_wide)(const struct cpu_loss *); /**< the gradient in binary32 whatever p is */
};

/** What grad_check learns of a run of gradients: sum of squares, largest magnitude, the first that is
 *  larger than allowed or no number, or -1. */
struct cpu_check { double sum; float max; int64_t bad; };

/** Adam's numbers of one step. Gradients times factor, plus l2 times the weight; weights times keep first. */
struct cpu_adam { float factor, l2, keep, take1, beta2, take2, step, inverse_root, eps; };
struct cpu_sgd { float factor, l2, momentum, take, rate; bool nesterov; };

struct cpu_passes {
    const char *isa;
    int         lanes;
    struct cpu_typed_passes typed[3];

    /** to[i] = from[i] for n values. */
    void (*convert[CPU_KIND_COUNT][3])(void *to, const void *from, int64_t n);
    /** y = x_0 + x_1 + ..., all of one kind. */
    void (*add[CPU_KIND_COUNT])(void *y, const void *const *x, int count, int64_t n);
    /** Sum over n pixels of `lanes` channels. */
    void (*channel_sum[3])(const void *x, int64_t n, float *sum);
    /** sum += g, g of one of the first three kinds. */
    void (*accumulate[3])(float *sum, const void *g, int64_t n);
    /** One block of lanes x lanes weights: run r of `lanes` values goes to to + segment[r] from the
     *  places index[r * lanes ..] of from. */
    void (*pack[CPU_KIND_COUNT])(void *to, const float *from, const int32_t *segment, const int32_t *index);
    struct cpu_check (*check)(float most, const float *g, int64_t n);
    /** out = g within [-limit, limit]; out = average + take (value - average). */
    void (*clip)(float limit, const float *g, float *out, int64_t n);
    void (*ema)(float take, const float *average, const float *value, float *out, int64_t n);
    /** Arrays are (master, moment, second moment) and (master, buffer): read from in, written to out. */
    void (*adam)(const struct cpu_adam *, const float *g, const float *const *in, float *const *out, int64_t n);
    void (*sgd)(const struct cpu_sgd *, const float *g, const float *const *in, float *const *out, int64_t n);
};

extern const struct cpu_passes stance_cpu_passes_base;
#if defined(__x86_64__)
extern const struct cpu_passes stance_cpu_passes_avx2, stance_cpu_passes_avx512;
#endif

#endif
