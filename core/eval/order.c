/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/order.h"

#include <string.h>

/* Whether b has to stand before a although it comes later. */
static inline bool before(double b, double a)
{
    return b > a || (a != a && b == b);
}

static void insert_run(struct stance_ranked *r, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct stance_ranked x = r[i];
        int64_t              j = i;

        for (; j > 0 && before(x.score, r[j - 1].score); j--)
            r[j] = r[j - 1];
        r[j] = x;
    }
}

static void merge(const struct stance_ranked *a, int64_t na, const struct stance_ranked *b,
                  int64_t nb, struct stance_ranked *out)
{
    int64_t i = 0, j = 0, n = 0;

    while (i < na && j < nb)
        out[n++] = before(b[j].score, a[i].score) ? b[j++] : a[i++];
    memcpy(out + n, a + i, (size_t)(na - i) * sizeof *a);
    memcpy(out + n + na - i, b + j, (size_t)(nb - j) * sizeof *b);
}

void stance_order(struct stance_ranked *r, struct stance_ranked *scratch, int64_t n)
{
    enum { RUN = 16 };
    struct stance_ranked *from = r, *to = scratch;

    for (int64_t i = 0; i < n; i += RUN)
        insert_run(r + i, n - i < RUN ? n - i : RUN);
    for (int64_t width = RUN; width < n; width *= 2) {
        struct stance_ranked *other = from;

        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t na = n - i < width ? n - i : width;
            int64_t nb = n - i - na < width ? n - i - na : width;

            merge(from + i, na, from + i + na, nb, to + i);
        }
        from = to;
        to   = other;
    }
    if (from != r)
        memcpy(r, from, (size_t)n * sizeof *r);
}
