/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes of batch normalisation with what surrounds it: activation, residual, nearest upsampling, sums
 * of gradients. `k` is the kind of activations, `gk` of gradients; both are constants after inlining. */

#define MASK(p) ((const vec_mask *)(p))

/* The first pixels stand for the mean: with the sums taken about it, E[x^2] - E[x]^2 keeps its digits. */
INLINE void stats(enum cpu_kind k, const struct cpu_stats *t)
{
    vec     zero = vec_zero(), shift = zero, s0 = zero, s1 = zero, q0 = zero, q1 = zero;
    int64_t n = t->n, first = n < 8 ? n : 8, i = 0;

    for (int64_t p = 0; p < first; p++)
        shift = vec_add(shift, vec_load(k, t->z, p * LANES));
    shift = vec_mul(shift, vec_set(1.0f / (float)first));
    for (; i + 2 <= n; i += 2) {
        vec a = vec_sub(vec_load(k, t->z, i * LANES), shift);
        vec b = vec_sub(vec_load(k, t->z, (i + 1) * LANES), shift);

        s0 = vec_add(s0, a);
        s1 = vec_add(s1, b);
        q0 = vec_fma(a, a, q0);
        q1 = vec_fma(b, b, q1);
    }
    if (i < n) {
        vec a = vec_sub(vec_load(k, t->z, i * LANES), shift);

        s0 = vec_add(s0, a);
        q0 = vec_fma(a, a, q0);
    }
    vec_store_f32(t->shift, shift);
    vec_store_f32(t->sum, vec_add(s0, s1));
    vec_store_f32(t->square, vec_add(q0, q1));
}

/* One normalised operand of y's size and at most one plain one: BN, BN+ReLU, the end of a residual. */
INLINE void apply_one(enum cpu_kind k, const struct cpu_apply *t, bool plain, bool relu, bool mask)
{
    vec         a = vec_load_f32(t->a[0]), b = vec_load_f32(t->b), zero = vec_zero();
    const void *z = t->z[0], *x = t->x[0];
    vec_mask   *m = t->mask;
    int64_t     n = t->rows * t->width;

    for (int64_t i = 0; i < n; i++) {
        vec v = vec_fma(a, vec_load(k, z, i * LANES), b);

        if (plain)
            v = vec_add(v, vec_load(k, x, i * LANES));
        if (mask)
            m[i] = vec_not_le(v, zero);
        if (relu)
            v = vec_relu(v);
        vec_store(k, t->y, i * LANES, v);
    }
}

#define APPLY_TILE 64 /* pixels whose sum is kept in L1; a multiple of the largest factor */

INLINE void apply_factor(enum cpu_kind k, vec *sum, const void *z, int64_t from, int64_t n, vec a, int f)
{
    for (int64_t i = 0; i < n / f; i++) {
        vec v = vec_mul(a, vec_load(k, z, (from / f + i) * LANES));

        for (int j = 0; j < f; j++)
            sum[i * f + j] = vec_add(sum[i * f + j], v);
    }
}

INLINE void apply_tile(enum cpu_kind k, const struct cpu_apply *t, int64_t row, int64_t from, int64_t n)
{
    vec       sum[APPLY_TILE], b = vec_load_f32(t->b), zero = vec_zero();
    int64_t   at = row * t->width + from;
    vec_mask *m = t->mask;

    for (int64_t i = 0; i < n; i++)
        sum[i] = b;
    for (int j = 0; j < t->n_norm; j++) {
        int     f   = t->factor[j];
        vec     a   = vec_load_f32(t->a[j]);
        int64_t pos = row / f * (t->width / f) * f + from; /* of the row's start in z, times f */

        if (f == 1)
            for (int64_t i = 0; i < n; i++)
                sum[i] = vec_fma(a, vec_load(k, t->z[j], (at + i) * LANES), sum[i]);
        else if (f == 2)
            apply_factor(k, sum, t->z[j], pos, n, a, 2);
        else if (f == 4)
            apply_factor(k, sum, t->z[j], pos, n, a, 4);
        else
            apply_factor(k, sum, t->z[j], pos, n, a, 8);
    }
    for (int j = 0; j < t->n_plain; j++)
        for (int64_t i = 0; i < n; i++)
            sum[i] = vec_add(sum[i], vec_load(k, t->x[j], (at + i) * LANES));
    for (int64_t i = 0; i < n; i++) {
        if (m != NULL)
            m[at + i] = vec_not_le(sum[i], zero);
        vec_store(k, t->y, (at + i) * LANES, t->relu ? vec_relu(sum[i]) : sum[i]);
    }
}

INLINE void apply(enum cpu_kind k, const struct cpu_apply *t)
{
    if (t->n_norm == 1 && t->n_plain <= 1 && t->factor[0] == 1) {
        if (t->n_plain == 1 && t->mask != NULL)
            apply_one(k, t, true, true, true);
        else if (t->mask != NULL)
            apply_one(k, t, false, true, true);
        else if (t->n_plain == 1)
            apply_one(k, t, true, t->relu, false);
        else
            apply_one(k, t, false, t->relu, false);
        return;
    }
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0; c < t->width; c += APPLY_TILE)
            apply_tile(k, t, r, c, t->width - c < APPLY_TILE ? t->width - c : APPLY_TILE);
}

/* What is summed is what is stored: rounded, so that an overflow of the sum is seen by every reader. */
INLINE void reduce_some(enum cpu_kind k, enum cpu_kind gk, const struct cpu_reduce *t, int n_dy,
                        bool mask, bool store, bool sums)
{
    vec zero = vec_zero(), mean = sums ? vec_load_f32(t->mean) : zero, s0 = zero, q0 = zero;

    for (int64_t i = 0; i < t->n; i++) {
        vec g = vec_load(gk, t->dy[0], i * LANES);

        for (int j = 1; j < n_dy; j++)
            g = vec_add(g, vec_load(gk, t->dy[j], i * LANES));
        if (mask)
            g = vec_keep(MASK(t->mask)[i], g);
        if (n_dy > 1)
            g = vec_round(gk, g);
        if (store)
            vec_store(gk, t->g, i * LANES, g);
        if (sums) {
            s0 = vec_add(s0, g);
            q0 = vec_fma(g, vec_sub(vec_load(k, t->z, i * LANES), mean), q0);
        }
    }
    if (sums) {
        vec_store_f32(t->sum, s0);
        vec_store_f32(t->sum + LANES, q0);
    }
}

INLINE void reduce_count(enum cpu_kind k, enum cpu_kind gk, const struct cpu_reduce *t, int n_dy)
{
    if (t->mask != NULL) {
        if (t->g != NULL && t->z != NULL)
            reduce_some(k, gk, t, n_dy, true, true, true);
        else if (t->g != NULL)
            reduce_some(k, gk, t, n_dy, true, true, false);
        else
            reduce_some(k, gk, t, n_dy, true, false, true);
    } else {
        if (t->g != NULL && t->z != NULL)
            reduce_some(k, gk, t, n_dy, false, true, true);
        else if (t->g != NULL)
            reduce_some(k, gk, t, n_dy, false, true, false);
        else
            reduce_some(k, gk, t, n_dy, false, false, true);
    }
}

INLINE void reduce(enum cpu_kind k, enum cpu_kind gk, const struct cpu_reduce *t)
{
    switch (t->n_dy) {
    case 1: reduce_count(k, gk, t, 1); break;
    case 2: reduce_count(k, gk, t, 2); break;
    case 3: reduce_count(k, gk, t, 3); break;
    case 4: reduce_count(k, gk, t, 4); break;
    default: reduce_count(k, gk, t, t->n_dy); break;
    }
}

INLINE void gather(enum cpu_kind k, enum cpu_kind gk, const struct cpu_gather *t)
{
    vec     zero = vec_zero(), mean = vec_load_f32(t->mean), s = zero, q = zero;
    int     f = t->factor;
    int64_t w = t->width / f;

    for (int64_t r = 0; r < t->rows / f; r++)
        for (int64_t c = 0; c < w; c++) {
            vec v = zero;

            for (int y = 0; y < f; y++)
                for (int x = 0; x < f; x++)
                    v = vec_add(v, vec_load(gk, t->g, ((r * f + y) * t->width + c * f + x) * LANES));
            v = vec_round(gk, v);
            vec_store(gk, t->gu, (r * w + c) * LANES, v);
            s = vec_add(s, v);
            q = vec_fma(v, vec_sub(vec_load(k, t->z, (r * w + c) * LANES), mean), q);
        }
    vec_store_f32(t->sum, s);
    vec_store_f32(t->sum + LANES, q);
}

INLINE void dz_some(enum cpu_kind k, enum cpu_kind gk, const struct cpu_dz *t, bool mask)
{
    vec a = vec_load_f32(t->a), c2 = vec_load_f32(t->c2), c0 = vec_load_f32(t->c0);

    for (int64_t i = 0; i < t->n; i++) {
        vec g = vec_load(gk, t->g, i * LANES);

        if (mask)
            g = vec_keep(MASK(t->mask)[i], g);
        g = vec_fma(a, g, vec_fma(c2, vec_load(k, t->z, i * LANES), c0));
        vec_store(gk, t->dz, i * LANES, g);
    }
}

INLINE void dz(enum cpu_kind k, enum cpu_kind gk, const struct cpu_dz *t)
{
    if (t->mask != NULL)
        dz_some(k, gk, t, true);
    else
        dz_some(k, gk, t, false);
}
