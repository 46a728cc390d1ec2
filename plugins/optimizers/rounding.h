/* SPDX-License-Identifier: Apache-2.0
 *
 * Masters without the lower half of their binary32: rounded to bfloat16 after each step, at random or with the
 * rest carried over to the next step. They lie in binary32 arrays as ever; what is saved is the meaning, and
 * that the copies which kernels read are exact.
 * Source: Zamirai, Zhang, Aberger and De Sa, "Revisiting BFloat16 Training", 2020 (arXiv:2010.06192). */
#ifndef ROUNDING_H
#define ROUNDING_H

#include <stdint.h>
#include <string.h>

#include <Random123/philox.h>

/** What masters are kept as. STOCHASTIC: rounded up or down with the probabilities that make the mean exact.
 *  KAHAN: rounded to nearest, and what was lost is taken off the next update. */
enum stance_master { STANCE_MASTER_FP32, STANCE_MASTER_BF16_STOCHASTIC, STANCE_MASTER_BF16_KAHAN };
#define STANCE_MASTER_WORDS { "fp32", "bf16_stochastic", "bf16_kahan", NULL }

/** 16 random bits for each of the 8 elements from 8 * block on: a function of (seed, step, block) alone, so
 *  that neither threads nor the order matter and a resumed run goes on with the same ones. */
static inline void rounding_bits(uint64_t seed, uint64_t applied, uint64_t block, uint16_t bits[8])
{
    philox4x32_key_t k = { { (uint32_t)seed, (uint32_t)(seed >> 32) } };
    /* "roun": apart from the streams of the core, which have a small number there. */
    philox4x32_ctr_t c = { { (uint32_t)block, (uint32_t)(block >> 32) ^ (uint32_t)(applied >> 32), (uint32_t)applied, 0x726f756e } };
    philox4x32_ctr_t r = philox4x32(c, k);

    for (int i = 0; i < 4; i++) {
        bits[2 * i]     = (uint16_t)r.v[i];
        bits[2 * i + 1] = (uint16_t)(r.v[i] >> 16);
    }
}

/** @p v to bfloat16 by adding @p add to the half that is cut off. Inf and NaN stay as they are. */
static inline float rounding_cut(float v, uint32_t add)
{
    uint32_t b;

    memcpy(&b, &v, sizeof b);
    if ((b & 0x7f800000u) == 0x7f800000u)
        return v;
    b = (b + add) & 0xffff0000u;
    memcpy(&v, &b, sizeof v);
    return v;
}

/** To the nearest, halves to even. */
static inline float rounding_nearest(float v)
{
    uint32_t b;

    memcpy(&b, &v, sizeof b);
    return rounding_cut(v, 0x7fffu + (b >> 16 & 1));
}

/** The master after an update from @p w to @p to, and the new compensation in *c; every result is a bfloat16. The
 *  order of operations is the algorithm: no reassociation. */
static inline float rounding_kahan(double w, double to, float *c)
{
    float y = rounding_nearest((float)(to - w - (double)*c));
    float t = rounding_nearest((float)(w + (double)y));

    *c = rounding_nearest((float)((double)rounding_nearest((float)((double)t - w)) - (double)y));
    return t;
}

#endif
