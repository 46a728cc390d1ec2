/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

double stance_median(double *v, size_t n)
{
    if (n == 0)
        return (double)NAN;
    qsort(v, n, sizeof *v, ascending);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}
