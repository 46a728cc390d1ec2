/* SPDX-License-Identifier: Apache-2.0
 *
 * A heap whose n-th request fails, and which counts what is not given back. */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include <stance/alloc.h>

#include <stdatomic.h>
#include <stdlib.h>

static atomic_long fault_countdown; /* requests that still succeed */
static atomic_long fault_live;      /* blocks handed out and not returned */

static void *fault_calloc(void *ctx, size_t count, size_t size)
{
    void *p;

    (void)ctx;
    if (atomic_fetch_sub(&fault_countdown, 1) <= 0)
        return NULL;
    p = calloc(count, size);
    fault_live += p != NULL;
    return p;
}

static void fault_free(void *ctx, void *p)
{
    (void)ctx;
    fault_live -= p != NULL;
    free(p);
}

/** Lets @p n requests succeed, then fails every one. stance_set_allocator(NULL) ends it. */
static inline void fault_after(long n)
{
    static const struct stance_allocator heap = { fault_calloc, fault_free, NULL };

    fault_countdown = n;
    fault_live      = 0;
    stance_set_allocator(&heap);
}

#endif
