/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over planes of channel-blocked tensors: pooling, upsampling, ReLU, loss. */

/* The first maximum wins; NaN wins over every number, as in PyTorch. */
INLINE void max_pool(enum cpu_kind k, const struct cpu_pool *t)
{
    for (int64_t oy = 0; oy < t->oh; oy++)
        for (int64_t ox = 0; ox < t->ow; ox++) {
            int64_t y0 = oy * t->stride[0] - t->pad[0], x0 = ox * t->stride[1] - t->pad[1];
            vec     best = vec_set(-INFINITY), at = vec_set(-1);
            int64_t o = (oy * t->ow + ox) * LANES;

            for (int dy = 0; dy < t->kernel[0]; dy++)
                for (int dx = 0; dx < t->kernel[1]; dx++) {
                    int64_t  y = y0 + dy, x = x0 + dx;
                    vec_mask m;
                    vec      v, place = vec_set((float)(dy * t->kernel[1] + dx));

                    if (y < 0 || y >= t->h || x < 0 || x >= t->w)
                        continue;
                    v    = vec_load(k, t->x, (y * t->w + x) * LANES);
                    m    = (vec_mask)(vec_gt(v, best) | vec_nan(v) | vec_gt(vec_zero(), at));
                    best = vec_pick(m, v, best);
                    at   = vec_pick(m, place, at);
                }
            vec_store(k, t->y, o, best);
            vec_store_u8(t->index + o, at);
        }
}

/* Gathers: each pixel of x sums the windows that cover it, so that a low type is rounded once. */
INLINE void max_pool_grad(enum cpu_kind gk, const struct cpu_pool *t, void *dx, const void *dy)
{
    for (int64_t y = 0; y < t->h; y++)
        for (int64_t x = 0; x < t->w; x++) {
            vec     g  = vec_zero();
            int64_t py = y + t->pad[0], px = x + t->pad[1];

            for (int ky = (int)(py % t->stride[0]); ky < t->kernel[0] && ky <= py; ky += t->stride[0])
                for (int kx = (int)(px % t->stride[1]); kx < t->kernel[1] && kx <= px; kx += t->stride[1]) {
                    int64_t oy = (py - ky) / t->stride[0], ox = (px - kx) / t->stride[1];
                    int64_t o = (oy * t->ow + ox) * LANES;
                    vec     place = vec_set((float)(ky * t->kernel[1] + kx));

                    if (oy >= t->oh || ox >= t->ow)
                        continue;
                    g = vec_add(g, vec_keep(vec_eq(vec_load_u8(t->index + o), place), vec_load(gk, dy, o)));
                }
            vec_store(gk, dx, (y * t->w + x) * LANES, g);
        }
}

INLINE void upsample(enum cpu_kind k, const void *x, void *y, int64_t rows, int64_t width, int fh, int fw)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width / fw; c++) {
            vec v = vec_load(k, x, (r / fh * (width / fw) + c) * LANES);

            for (int j = 0; j < fw; j++)
                vec_store(k, y, (r * width + c * fw + j) * LANES, v);
        }
}

INLINE void upsample_grad(enum cpu_kind gk, const void *dy, void *dx, int64_t rows, int64_t width, int fh,
                          int fw)
{
    int64_t w = width / fw;

    for (int64_t r = 0; r < rows / fh; r++)
        for (int64_t c = 0; c < w; c++) {
            vec g = vec_zero();

            for (int y = 0; y < fh; y++)
                for (int x = 0; x < fw; x++)
                    g = vec_add(g, vec_load(gk, dy, ((r * fh + y) * width + c * fw + x) * LANES));
            vec_store(gk, dx, (r * w + c) * LANES, g);
        }
}

INLINE void relu(enum cpu_kind k, const void *x, void *y, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_store(k, y, i, vec_relu(vec_load(k, x, i)));
    if (i < n)
        vec_store_some(k, y, i, n - i, vec_relu(vec_load_some(k, x, i, n - i)));
}

INLINE void relu_grad(enum cpu_kind k, enum cpu_kind gk, const void *dy, const void *y, void *dx, int64_t n)
{
    vec     zero = vec_zero();
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_store(gk, dx, i, vec_keep(vec_not_le(vec_load(k, y, i), zero), vec_load(gk, dy, i)));
    if (i < n) {
        vec v = vec_load_some(k, y, i, n - i), g = vec_load_some(gk, dy, i, n - i);

        vec_store_some(gk, dx, i, n - i, vec_keep(vec_not_le(v, zero), g));
    }
}

/* Targets are plain, one plane a channel: a tile of them is turned first. */
#define LOSS_TILE 64

INLINE int64_t loss_tile(const struct cpu_loss *t, int64_t from, float turned[LOSS_TILE * LANES])
{
    int64_t n = t->n - from < LOSS_TILE ? t->n - from : LOSS_TILE;

    for (int c = 0; c < t->channels; c++)
        for (int64_t i = 0; i < n; i++)
            turned[i * LANES + c] = t->target[c * t->n + from + i];
    return n;
}

INLINE vec loss_weight(const struct cpu_loss *t)
{
    float w[LANES] = { 0 };

    for (int c = 0; c < t->channels; c++)
        w[c] = t->weight != NULL ? t->weight[c] : 1;
    return vec_load_f32(w);
}

INLINE void loss(enum cpu_kind k, struct cpu_loss *t)
{
    float    turned[LOSS_TILE * LANES] = { 0 };
    double   lane[LANES];
    vec      w = loss_weight(t);
    vec_mask exists = (vec_mask)((1u << t->channels) - 1);

    t->sum = 0;
    for (int64_t from = 0; from < t->n; from += LOSS_TILE) {
        int64_t n = loss_tile(t, from, turned);
        vec     s = vec_zero();
        float   f[LANES];

        for (int64_t i = 0; i < n; i++) {
            vec d = vec_sub(vec_load(k, t->p, (from + i) * LANES), vec_load_f32(turned + i * LANES));

            s = vec_fma(d, d, s);
        }
        vec_store_f32(f, vec_keep(exists, vec_mul(s, w)));
        for (int c = 0; c < LANES; c++)
            lane[c] = f[c];
        for (int c = 0; c < LANES; c++)
            t->sum += lane[c];
    }
}

INLINE void loss_grad(enum cpu_kind k, enum cpu_kind gk, const struct cpu_loss *t)
{
    float    turned[LOSS_TILE * LANES] = { 0 };
    vec      w = vec_mul(loss_weight(t), vec_set(t->factor));
    vec_mask exists = (vec_mask)((1u << t->channels) - 1);

    for (int64_t from = 0; from < t->n; from += LOSS_TILE) {
        int64_t n = loss_tile(t, from, turned);

        for (int64_t i = 0; i < n; i++) {
            vec d = vec_sub(vec_load(k, t->p, (from + i) * LANES), vec_load_f32(turned + i * LANES));

            vec_store(gk, t->dp, (from + i) * LANES, vec_keep(exists, vec_mul(d, w)));
        }
    }
}
