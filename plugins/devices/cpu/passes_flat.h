/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over flat arrays. */

#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "check() has to see Inf and NaN: no -ffast-math, no -ffinite-math-only"
#endif

INLINE void convert(enum cpu_kind to_kind, enum cpu_kind kind, void *to, const void *from, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_store(to_kind, to, i, vec_load(kind, from, i));
    if (i < n)
        vec_store_some(to_kind, to, i, n - i, vec_load_some(kind, from, i, n - i));
}

INLINE void add(enum cpu_kind k, void *y, const void *const *x, int count, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vec v = vec_load(k, x[0], i);

        for (int j = 1; j < count; j++)
            v = vec_add(v, vec_load(k, x[j], i));
        vec_store(k, y, i, v);
    }
    if (i < n) {
        vec v = vec_load_some(k, x[0], i, n - i);

        for (int j = 1; j < count; j++)
            v = vec_add(v, vec_load_some(k, x[j], i, n - i));
        vec_store_some(k, y, i, n - i, v);
    }
}

INLINE void channel_sum(enum cpu_kind k, const void *x, int64_t n, float *sum)
{
    vec s = vec_zero();

    for (int64_t i = 0; i < n; i++)
        s = vec_add(s, vec_load(k, x, i * LANES));
    vec_store_f32(sum, s);
}

INLINE void accumulate(enum cpu_kind k, float *sum, const void *g, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_store_f32(sum + i, vec_add(vec_load_f32(sum + i), vec_load(k, g, i)));
    if (i < n)
        vec_store_some(CPU_F32, sum, i, n - i,
                       vec_add(vec_load_some(CPU_F32, sum, i, n - i), vec_load_some(k, g, i, n - i)));
}

INLINE void pack(enum cpu_kind k, void *to, const float *from, const int32_t *segment, const int32_t *index)
{
    for (int r = 0; r < LANES; r++)
        vec_store(k, to, segment[r], vec_gather(from, index + r * LANES));
}

/* Lanes are summed by themselves and joined in order at the end: the same sum for any number of threads. */
static struct cpu_check check(float most, const float *g, int64_t n)
{
    struct cpu_check r = { 0, 0, -1 };
    vec     top = vec_zero(), limit = vec_set(most);
    vec_f64 s = vec_f64_zero();
    double  lane[LANES];
    float   max[LANES];

    for (int64_t i = 0; i < n; i += LANES) {
        vec      v = n - i >= LANES ? vec_load_f32(g + i) : vec_load_some(CPU_F32, g, i, n - i);
        vec_mask bad;

        s   = vec_f64_add_square(s, v);
        v   = vec_abs(v);
        top = vec_max(top, v);
        bad = vec_not_le(v, limit);
        if (bad != 0 && r.bad < 0)
            r.bad = i + __builtin_ctz(bad);
    }
    vec_f64_store(lane, s);
    vec_store_f32(max, top);
    for (int c = 0; c < LANES; c++) {
        r.sum += lane[c];
        r.max = r.max > max[c] ? r.max : max[c];
    }
    return r;
}

static void clip(float limit, const float *g, float *out, int64_t n)
{
    vec high = vec_set(limit), low = vec_set(-limit);

    for (int64_t i = 0; i < n; i += LANES) {
        bool some = n - i < LANES;
        vec  v    = vec_max(low, vec_min(high, some ? vec_load_some(CPU_F32, g, i, n - i) : vec_load_f32(g + i)));

        if (some)
            vec_store_some(CPU_F32, out, i, n - i, v);
        else
            vec_store_f32(out + i, v);
    }
}

static void ema(float take, const float *average, const float *value, float *out, int64_t n)
{
    vec t = vec_set(take);

    for (int64_t i = 0; i < n; i += LANES) {
        bool some = n - i < LANES;
        vec  a    = some ? vec_load_some(CPU_F32, average, i, n - i) : vec_load_f32(average + i);
        vec  v    = some ? vec_load_some(CPU_F32, value, i, n - i) : vec_load_f32(value + i);

        v = vec_fma(t, vec_sub(v, a), a);
        if (some)
            vec_store_some(CPU_F32, out, i, n - i, v);
        else
            vec_store_f32(out + i, v);
    }
}

INLINE void adam_some(const struct cpu_adam *a, vec g, vec *p, vec *m, vec *v)
{
    g  = vec_fma(vec_set(a->l2), *p, vec_mul(g, vec_set(a->factor)));
    *m = vec_fma(vec_set(a->take1), vec_sub(g, *m), *m);
    *v = vec_fma(vec_set(a->beta2), *v, vec_mul(vec_set(a->take2), vec_mul(g, g)));
    g  = vec_div(*m, vec_fma(vec_sqrt(*v), vec_set(a->inverse_root), vec_set(a->eps)));
    *p = vec_sub(vec_mul(*p, vec_set(a->keep)), vec_mul(vec_set(a->step), g));
}

static void adam(const struct cpu_adam *a, const float *g, const float *const *in, float *const *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vec p = vec_load_f32(in[0] + i), m = vec_load_f32(in[1] + i), v = vec_load_f32(in[2] + i);

        adam_some(a, vec_load_f32(g + i), &p, &m, &v);
        vec_store_f32(out[0] + i, p);
        vec_store_f32(out[1] + i, m);
        vec_store_f32(out[2] + i, v);
    }
    if (i < n) {
        vec p = vec_load_some(CPU_F32, in[0], i, n - i), m = vec_load_some(CPU_F32, in[1], i, n - i);
        vec v = vec_load_some(CPU_F32, in[2], i, n - i);

        adam_some(a, vec_load_some(CPU_F32, g, i, n - i), &p, &m, &v);
        vec_store_some(CPU_F32, out[0], i, n - i, p);
        vec_store_some(CPU_F32, out[1], i, n - i, m);
        vec_store_some(CPU_F32, out[2], i, n - i, v);
    }
}

INLINE void sgd_some(const struct cpu_sgd *a, vec g, vec *p, vec *m)
{
    g = vec_fma(vec_set(a->l2), *p, vec_mul(g, vec_set(a->factor)));
    if (a->momentum != 0) {
        *m = vec_fma(vec_set(a->momentum), *m, vec_mul(vec_set(a->take), g));
        g  = a->nesterov ? vec_fma(vec_set(a->momentum), *m, g) : *m;
    }
    *p = vec_sub(*p, vec_mul(vec_set(a->rate), g));
}

static void sgd(const struct cpu_sgd *a, const float *g, const float *const *in, float *const *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vec p = vec_load_f32(in[0] + i), m = vec_load_f32(in[1] + i);

        sgd_some(a, vec_load_f32(g + i), &p, &m);
        vec_store_f32(out[0] + i, p);
        vec_store_f32(out[1] + i, m);
    }
    if (i < n) {
        vec p = vec_load_some(CPU_F32, in[0], i, n - i), m = vec_load_some(CPU_F32, in[1], i, n - i);

        sgd_some(a, vec_load_some(CPU_F32, g, i, n - i), &p, &m);
        vec_store_some(CPU_F32, out[0], i, n - i, p);
        vec_store_some(CPU_F32, out[1], i, n - i, m);
    }
}
