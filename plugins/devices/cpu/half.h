/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between binary32 and the 16-bit types, one value at a time and on any machine. Round to
 * nearest, ties to even; subnormals survive; too large becomes infinity; NaN becomes quiet. */
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

static inline float half_float(uint32_t u)
{
    float v;

    memcpy(&v, &u, sizeof v);
    return v;
}

static inline float half_from_bf16(uint16_t h)
{
    return half_float((uint32_t)h << 16);
}

static inline uint16_t half_to_bf16(float v)
{
    uint32_t u = half_bits(v);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float half_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;

    if (e == 31)
        return half_float(sign | 0x7f800000 | m << 13 | (m != 0 ? 0x400000 : 0));
    if (e == 0) /* m units of 2^-24; exact in binary32 */
        return half_float(sign | half_bits((float)m * 0x1p-24f));
    return half_float(sign | (e + 112) << 23 | m << 13);
}

static inline uint16_t half_to_f16(float v)
{
    uint32_t u = half_bits(v), sign = u >> 16 & 0x8000, a = u & 0x7fffffff, shift, m;

    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) /* 65520, the tie between 65504 and the next power of two */
        return (uint16_t)(sign | 0x7c00);
    if (a >= 0x38800000) /* 2^-14: normal; the rounding carry moves into the exponent by itself */
        return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
    if (a <= 0x33000000) /* 2^-25 ties to 0 */
        return (uint16_t)sign;
    shift = 126 - (a >> 23); /* 14 .. 24: in units of 2^-24 */
    m     = (a & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | ((m + (1u << (shift - 1)) - 1 + (m >> shift & 1)) >> shift));
}

#endif
