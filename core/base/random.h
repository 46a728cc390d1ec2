/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011), by Random123. A stream is named, not shared: the same (seed, use, a, b) gives the
 * same numbers whatever thread asks and in whatever order. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

#include <Random123/philox.h>

/** What a stream is for. Append only: the numbers of users depend on them. */
enum stance_use { STANCE_USE_INIT = 1, STANCE_USE_ORDER, STANCE_USE_AUGMENT, STANCE_USE_SYNTHETIC, STANCE_USE_OP };

struct stance_rng {
    philox4x32_key_t key;
    philox4x32_ctr_t counter;
    philox4x32_ctr_t have;
    int              left;
    double           spare; /* second number of a normal pair */
    int              has_spare;
};

/** @param a, b  what the stream belongs to: (epoch, sample), (hash of a tensor's name, 0), ... */
static inline struct stance_rng stance_rng(uint64_t seed, enum stance_use use, uint64_t a, uint64_t b)
{
    struct stance_rng r = { 0 };

    /* Counter word 0 counts; the names fill the other three and are mixed into the key, so that no
     * two streams meet: (a, b) enter by one round of Philox under the seed's key. */
    philox4x32_key_t k = { { (uint32_t)seed, (uint32_t)(seed >> 32) } };
    philox4x32_ctr_t n = { { (uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32) } };
    philox4x32_ctr_t m = philox4x32(n, k);

    r.key.v[0]     = (uint32_t)seed ^ m.v[0];
    r.key.v[1]     = (uint32_t)(seed >> 32) ^ m.v[1];
    r.counter.v[1] = m.v[2];
    r.counter.v[2] = m.v[3];
    r.counter.v[3] = (uint32_t)use;
    return r;
}

static inline uint32_t stance_rng_u32(struct stance_rng *r)
{
    if (r->left == 0) {
        r->have = philox4x32(r->counter, r->key);
        r->counter.v[0]++;
        r->left = 4;
    }
    return r->have.v[--r->left];
}

/** Uniform in [0, 1), 53 bits. */
static inline double stance_rng_uniform(struct stance_rng *r)
{
    uint64_t hi = stance_rng_u32(r) >> 5, lo = stance_rng_u32(r) >> 6;

    return (double)(hi << 26 | lo) / 9007199254740992.0;
}

/** Standard normal (Box and Muller). */
static inline double stance_rng_normal(struct stance_rng *r)
{
    double radius, angle;

    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    radius       = sqrt(-2 * log(1 - stance_rng_uniform(r)));
    angle        = 6.283185307179586 * stance_rng_uniform(r);
    r->spare     = radius * sin(angle);
    r->has_spare = 1;
    return radius * cos(angle);
}

/** Uniform integer in [0, n), n > 0, without bias. */
static inline uint32_t stance_rng_below(struct stance_rng *r, uint32_t n)
{
    uint32_t limit = UINT32_MAX - UINT32_MAX % n, v;

    do
        v = stance_rng_u32(r);
    while (v >= limit);
    return v % n;
}

#endif
