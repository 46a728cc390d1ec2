/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MEDIAN_H
#define BASE_MEDIAN_H

#include <math.h>
#include <stddef.h>

/** Sorts @p v and gives the middle, or the mean of the two in the middle. NaN for none. No value is NaN. */
double stance_median(double *v, size_t n);

#endif
