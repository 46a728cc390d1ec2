/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/plan.h"

#include <stance/alloc.h>

#include <stdlib.h>

enum { ALIGN = 64 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Sorting keys carry the number last, so that equal blocks have one order on every machine. */
struct key { size_t major, minor; uint32_t number; };

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->major != y->major)
        return x->major > y->major ? -1 : 1;
    if (x->minor != y->minor)
        return x->minor > y->minor ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Takes blocks in the order of the keys; each goes into the smallest gap that holds it between those
 * placed before it that live at the same time, or to the end of them. */
static size_t place(const struct stance_life *b, const struct key *keys, size_t n, size_t *offset, uint32_t *sorted)
{
    size_t placed = 0, top = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t me   = keys[i].number;
        size_t   need = aligned(b[me].bytes), end = 0, best = SIZE_MAX, at = 0, k;

        for (size_t j = 0; j < placed; j++) {
            uint32_t other = sorted[j];

            if (b[other].last < b[me].first || b[other].first > b[me].last)
                continue;
            if (offset[other] > end && offset[other] - end >= need && offset[other] - end < best) {
                best = offset[other] - end;
                at   = end;
            }
            if (offset[other] + aligned(b[other].bytes) > end)
                end = offset[other] + aligned(b[other].bytes);
        }
        if (best == SIZE_MAX)
            at = end;
        offset[me] = at;
        if (at + need > top)
            top = at + need;
        for (k = placed; k > 0 && offset[sorted[k - 1]] > at; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = me;
        placed++;
    }
    return top;
}

static size_t lower_bound(const struct stance_life *b, size_t n, uint32_t launches, size_t *live)
{
    size_t now = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        live[b[i].first] += aligned(b[i].bytes);
        live[b[i].last + 1] -= aligned(b[i].bytes); /* unsigned wrap-around cancels in the sum */
    }
    for (uint32_t t = 0; t < launches; t++) {
        now += live[t];
        if (now > most)
            most = now;
    }
    return most;
}

stance_status stance_plan(struct stance_life *blocks, size_t n, uint32_t launches, size_t *total,
                          size_t *bound, struct stance_error *err)
{
    struct key   *keys   = stance_calloc(n + 1, sizeof *keys);
    uint32_t     *sorted = stance_calloc(n + 1, sizeof *sorted);
    size_t       *offset = stance_calloc(n + 1, sizeof *offset);
    size_t       *live   = stance_calloc((size_t)launches + 2, sizeof *live);
    size_t        best   = SIZE_MAX;
    stance_status status = STANCE_OK;

    if (keys == NULL || sorted == NULL || offset == NULL || live == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "memory plan of %zu blocks", n);
        goto done;
    }
    *bound = lower_bound(blocks, n, launches, live);
    /* None of the orders is best for all networks: the largest first, the longest-lived first, and
     * first come first served. */
    for (int rule = 0; rule < 3; rule++) {
        size_t top;

        for (size_t i = 0; i < n; i++) {
            size_t span = blocks[i].last - blocks[i].first, size = aligned(blocks[i].bytes);

            keys[i].number = (uint32_t)i;
            keys[i].major  = rule == 0 ? size : rule == 1 ? span : SIZE_MAX - blocks[i].first;
            keys[i].minor  = rule == 0 ? span : size;
        }
        qsort(keys, n, sizeof *keys, by_key);
        top = place(blocks, keys, n, offset, sorted);
        if (top < best) {
            best = top;
            for (size_t i = 0; i < n; i++)
                blocks[i].offset = offset[i];
        }
    }
    *total = best == SIZE_MAX ? 0 : best;

done:
    stance_free(keys);
    stance_free(sorted);
    stance_free(offset);
    stance_free(live);
    return status;
}
