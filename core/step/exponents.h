/* SPDX-License-Identifier: Apache-2.0
 *
 * How many numbers have which binary exponent: where gradients lie against the range of binary16. */
#ifndef STEP_EXPONENTS_H
#define STEP_EXPONENTS_H

#include "base/text.h"

/** Bins of 2^e <= |x| < 2^(e+1), e from FIRST to LAST. */
enum { STANCE_EXPONENT_FIRST = -40, STANCE_EXPONENT_LAST = 15, STANCE_EXPONENTS = STANCE_EXPONENT_LAST - STANCE_EXPONENT_FIRST + 1 };

/** Zero-initialise. */
struct stance_exponents {
    uint64_t zero, below, above; /**< exactly 0; 0 < |x| < 2^-40; 2^16 <= |x| */
    uint64_t inf, nan;
    uint64_t count[STANCE_EXPONENTS];
};

/** Counts v[i] * factor; what is not finite is counted as it is. */
void stance_exponents_add(struct stance_exponents *e, const float *v, int64_t n, double factor);
/** All that was counted. */
uint64_t stance_exponents_total(const struct stance_exponents *e);

/** What binary16 makes of the finite, nonzero numbers when they are multiplied by 2^shift first. Whole
 *  bins are judged: below 2^-25 is 0 (2^-25 itself rounds to even, to 0), below 2^-14 subnormal, from
 *  2^16 infinite (from 65520 on, in fact: the last bin below is a little too good). */
struct stance_exponents_fate { double zero, subnormal, normal, overflow; /**< parts of them; sum 1, or all 0 */ };
struct stance_exponents_fate stance_exponents_fate(const struct stance_exponents *e, double shift);

/** A window's gradients, divided by the loss scale. */
struct stance_gradient_exponents {
    float                   scale;
    struct stance_exponents activation, weight;
};

/** A table for people: bins two by two, from the smallest with anything in it to the largest. */
void stance_gradient_exponents_text(const struct stance_gradient_exponents *g, int64_t step, struct stance_string *out);

#endif
