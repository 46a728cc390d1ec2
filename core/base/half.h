/* SPDX-License-Identifier: Apache-2.0
 *
 * IEEE binary16 and bfloat16 in plain C: one rounding, to nearest even, from binary64. Subnormals are
 * kept and nothing saturates: what is too large becomes infinite, for that is how a loss scale that is
 * too large gets noticed. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <math.h>
#include <stdint.h>

/** Bits of @p v in a 16-bit format of @p fraction fraction bits: 10 for binary16, 7 for bfloat16. */
static inline uint16_t stance_half_of_f64(double v, int fraction)
{
    int      bias = (1 << (14 - fraction)) - 1; /* of the exponent; also the largest exponent */
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double   a    = fabs(v);
    int      e    = 0;

    if (isnan(v))
        return (uint16_t)(sign | ((2 * bias + 1) << fraction) | (1 << (fraction - 1)));
    frexp(a, &e); /* a in [2^(e-1), 2^e) */
    if (isinf(v) || e - 1 > bias)
        return (uint16_t)(sign | ((2 * bias + 1) << fraction));
    if (a == 0 || e - 1 < 1 - bias) /* subnormal: a multiple of 2^(1 - bias - fraction) */
        return (uint16_t)(sign | (int)rint(ldexp(a, bias - 1 + fraction)));
    /* The hidden bit, and a carry out of the fraction, add one to the exponent field by themselves:
     * a carry out of the largest exponent gives infinity. */
    return (uint16_t)(sign | (((e - 2 + bias) << fraction) + (int)rint(ldexp(a, fraction + 1 - e))));
}

static inline double stance_f64_of_half(uint16_t bits, int fraction)
{
    int    bias = (1 << (14 - fraction)) - 1;
    int    e    = (bits & 0x7fff) >> fraction;
    int    m    = bits & ((1 << fraction) - 1);
    double a    = e == 0              ? ldexp(m, 1 - bias - fraction)
                  : e == 2 * bias + 1 ? (m == 0 ? (double)INFINITY : (double)NAN)
                                      : ldexp(m + (1 << fraction), e - bias - fraction);

    return bits & 0x8000 ? -a : a;
}

#define STANCE_F16_FRACTION  10
#define STANCE_BF16_FRACTION 7

#endif
