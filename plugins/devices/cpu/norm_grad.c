/* SPDX-License-Identifier: Apache-2.0
 *
 * "norm_sum_grad", and "batch_norm_grad" as its simplest case, in two passes over memory (after Ioffe and
 * Szegedy, ICML 2015, with the sums rearranged so that each pass reads every tensor once):
 *
 *   1: g = mask (sum of the contributions); dbias = sum g; dweight = inv_std sum g (z - mean);
 *      an upsampled operand has the sums over its factor x factor blocks of g in place of g
 *   2: dz = a g + c2 z + c0, a = weight inv_std, c2 = -a inv_std dweight / m, c0 = -a dbias / m - c2 mean
 *
 * g is kept only if something reads it again: as the gradient of the plain operands, else in the place of
 * some dz. A lone BN or BN+ReLU recomputes it from the contribution and the mask. */
#include "cpu.h"

struct norm_grad {
    struct cpu_kernel           base;
    struct stance_norm_sum_grad attr;
    int                         typed, channels, padded;
    enum cpu_kind               kind;          /**< of gradients */
    int                         mask, first_z; /**< operands: the mask's, or -1; the first z */
    int                         plain, first_dz; /**< results: of the plain operands, or -1; the first dz */
    int                         keeper;        /**< dz_k that holds g; -1: the plain result, the workspace or nothing */
    bool                        keep;          /**< g is stored */
    struct cpu_grid             y, z[CPU_NORM_MAX];
    size_t                      coefficients, partial, g_at, shared_at, workspace;
};

static bool per_channel(const struct stance_tensor *t, int64_t channels)
{
    return stance_cpu_plain(t, STANCE_TYPE_F32) && stance_elements(&t->shape) == channels;
}

static size_t part(size_t *workspace, size_t bytes)
{
    size_t at = *workspace;

    *workspace += (bytes + 63) / 64 * 64;
    return at;
}

static bool is_gradient(const struct norm_grad *n, const struct stance_tensor *t, const struct stance_shape *shape)
{
    return t->layout == CPU_BLOCKED && stance_cpu_gradient(t, n->typed) && stance_cpu_same_shape(&t->shape, shape);
}

static bool plan_operand(struct cpu *cpu, const struct stance_request *q, struct norm_grad *n, int k)
{
    const struct stance_tensor *z = &q->in[n->first_z + 4 * k], *dz = &q->out[n->first_dz + 3 * k];
    const int64_t              *d = q->in[0].shape.dim;
    int                         f = n->attr.factor[k];

    if ((f != 1 && f != 2 && f != 4 && f != 8) || z[0].layout != CPU_BLOCKED || stance_cpu_typed(z) != n->typed
        || z[0].shape.rank != 4 || z[0].shape.dim[0] != d[0] || z[0].shape.dim[1] != d[1]
        || z[0].shape.dim[2] * f != d[2] || z[0].shape.dim[3] * f != d[3] || !is_gradient(n, &dz[0], &z[0].shape))
        return false;
    for (int i = 1; i < 4; i++)
        if (!per_channel(&z[i], n->channels))
            return false;
    n->z[k] = stance_cpu_grid(cpu, &z[0]);
    return per_channel(&dz[1], n->channels) && per_channel(&dz[2], n->channels);
}

static bool plan(struct cpu *cpu, const struct stance_request *q, struct norm_grad *n)
{
    const struct stance_norm_sum_grad *a = &n->attr;
    const struct stance_tensor        *dy = &q->in[0];
    bool                               upsampled = false;
    size_t                             units;

    if (a->n_dy < 1 || a->n_dy > CPU_DY_MAX || a->n_norm < 0 || a->n_norm > CPU_NORM_MAX || dy->shape.rank != 4)
        return false;
    n->mask    = q->n_in - a->n_dy - 4 * a->n_norm; /* slots of the mask: 0 or 1 */
    n->first_z = a->n_dy + n->mask;
    n->plain   = q->n_out - 3 * a->n_norm;
    n->first_dz = n->plain;
    if (n->mask < 0 || n->mask > 1 || n->plain < 0 || n->plain > 1 || a->n_norm + n->plain < 1)
        return false;
    n->mask  = n->mask == 1 && q->in[a->n_dy].shape.rank >= 0 ? a->n_dy : -1;
    n->plain = n->plain == 1 && q->out[0].shape.rank >= 0 ? 0 : -1;
    if ((a->relu != 0) != (n->mask >= 0) || (a->n_norm == 0 && n->plain < 0))
        return false;
    if (a->n_norm > 0)
        n->typed = stance_cpu_typed(&q->in[n->first_z]);
    else
        for (n->typed = 2; n->typed >= 0 && !stance_cpu_gradient(dy, n->typed); n->typed--)
            ;
    if (n->typed < 0 || !stance_cpu_kind(dy, &n->kind))
        return false;
    n->channels = (int)dy->shape.dim[1];
    n->padded   = (int)stance_cpu_round_up(n->channels, cpu->lanes);
    n->y        = stance_cpu_grid(cpu, dy);
    for (int i = 0; i < a->n_dy; i++)
        if (!is_gradient(n, &q->in[i], &dy->shape))
            return false;
    if (n->plain >= 0 && !is_gradient(n, &q->out[0], &dy->shape))
        return false;
    n->keeper = -1;
    for (int k = 0; k < a->n_norm; k++) {
        if (!plan_operand(cpu, q, n, k))
            return false;
        if (a->factor[k] == 1)
            n->keeper = k;
        else
            upsampled = true;
    }
    n->keep = n->plain >= 0 || a->n_dy > 1 || a->n_norm > 1 || upsampled;
    if (n->plain >= 0 || !n->keep)
        n->keeper = -1;
    units           = (size_t)stance_cpu_units(&n->y);
    n->workspace    = 0;
    n->coefficients = part(&n->workspace, (size_t)((a->n_norm + 3) * n->padded) * sizeof(float));
    n->partial      = part(&n->workspace, units * (size_t)(a->n_norm * 2 * cpu->lanes) * sizeof(float));
    n->g_at         = part(&n->workspace, n->keep && n->plain < 0 && n->keeper < 0
                                              ? (size_t)stance_cpu_length(cpu, dy) * cpu_kind_size(n->kind)
                                              : 0);
    n->shared_at    = part(&n->workspace, a->sync != NULL ? (size_t)(2 * n->channels + 1) * sizeof(double) : 0);
    return true;
}

static void read_attr(const struct stance_request *q, struct stance_norm_sum_grad *a)
{
    if (strcmp(q->op, "norm_sum_grad") == 0)
        *a = *(const struct stance_norm_sum_grad *)q->attr;
    else
        *a = (struct stance_norm_sum_grad){ .n_dy = 1, .n_norm = 1, .factor = { 1 },
                                            .sync = ((const struct stance_batch_norm *)q->attr)->sync };
}

/* Every pass reads an element of each tensor before it writes that element of another, so results may lie
 * over the first contribution, and over the z that pass 2 comes to last unless g is kept there. */
static void alias(const struct norm_grad *n, int32_t *over)
{
    int k = n->keeper >= 0 ? n->keeper : n->attr.n_norm - 1;

    if (n->plain >= 0)
        over[0] = 0;
    if (k < 0 || n->attr.factor[k] != 1)
        return;
    over[n->first_dz + 3 * k] = n->plain < 0 ? 0 : n->first_z + 4 * k;
}

static bool offer(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    struct norm_grad n = { .typed = 0 };

    read_attr(q, &n.attr);
    if (!plan(cpu, q, &n))
        return false;
    if (n.mask >= 0 && q->in[n.mask].layout != CPU_MASK) {
        o->in[n.mask] = (struct stance_form){ CPU_MASK, STANCE_TYPE_U8,
                                              (size_t)(stance_cpu_length(cpu, &q->in[0]) / 8) };
    }
    o->workspace = n.workspace;
    alias(&n, o->alias);
    return true;
}

static stance_status prepare(struct cpu *cpu, const struct stance_request *q, struct cpu_kernel **kernel,
                             struct stance_error *err)
{
    struct norm_grad *n = stance_calloc(1, sizeof *n);

    if (n == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "kernel of '%s'", q->op);
    read_attr(q, &n->attr);
    if (!plan(cpu, q, n) || (n->mask >= 0 && q->in[n->mask].layout != CPU_MASK)) {
        stance_free(n);
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "%s: operands are not in the forms that device 'cpu' offered",
                           q->op);
    }
    *kernel = &n->base;
    return STANCE_OK;
}

struct work {
    const struct cpu         *cpu;
    const struct norm_grad   *n;
    const struct stance_call *call;
    int                       k;
    void                     *g; /**< where g is kept; NULL: nowhere */
    float                    *mean, *a, *c2, *c0, *partial;
    double                   *shared; /**< sums [2 C + 1] of all processes; NULL: this one alone */
};

static void *dz_of(const struct work *w, int k)
{
    return w->call->out[w->n->first_dz + 3 * k].data;
}

static const struct stance_tensor *z_of(const struct work *w, int k)
{
    return &w->call->in[w->n->first_z + 4 * k];
}

/* Sums of operand k over unit i of the grid of y: sum g, then sum g (z - mean). */
static float *sums(const struct work *w, int k, int64_t i)
{
    return w->partial + (i * w->n->attr.n_norm + k) * 2 * w->cpu->lanes;
}

/* Pass 1 over one band: what has just been written is read again while it is in the cache. */
static void reduce_unit(void *ctx, int64_t i)
{
    struct work                   *w = ctx;
    const struct norm_grad        *n = w->n;
    const struct cpu_typed_passes *pass = &w->cpu->pass->typed[n->typed];
    struct cpu_unit                u = stance_cpu_unit(&n->y, i);
    int                            lanes = w->cpu->lanes, c = (int)u.block * lanes;
    int64_t                        at = stance_cpu_start(&n->y, &u, lanes, 1);
    struct cpu_reduce              t = { .n_dy = n->attr.n_dy, .n = u.rows * n->y.width };
    void                          *g = w->g == NULL ? NULL : stance_cpu_at(w->g, n->kind, at);
    bool                           first = true;

    for (int j = 0; j < n->attr.n_dy; j++)
        t.dy[j] = stance_cpu_at(w->call->in[j].data, n->kind, at);
    t.mask = n->mask < 0 ? NULL : (char *)w->call->in[n->mask].data + at / 8;
    t.g    = g;
    for (int k = 0; k <= n->attr.n_norm; k++) {
        bool last = k == n->attr.n_norm;

        if (last ? !first : n->attr.factor[k] != 1)
            continue;
        if (!last) {
            t.z    = stance_cpu_at(z_of(w, k)->data, (enum cpu_kind)n->typed, at);
            t.mean = w->mean + k * n->padded + c;
            t.sum  = sums(w, k, i);
        }
        pass->reduce(&t);
        if (first && g != NULL) { /* from here on g is the one contribution, already masked */
            t.n_dy  = 1;
            t.dy[0] = g;
            t.g     = NULL;
            t.mask  = NULL;
        }
        first = false;
    }
    for (int k = 0; k < n->attr.n_norm; k++) {
        struct cpu_gather s = { .g = g, .mean = w->mean + k * n->padded + c, .sum = sums(w, k, i), .rows = u.rows,
                                .width = n->y.width, .factor = n->attr.factor[k] };
        int64_t           start;

        if (s.factor == 1)
            continue;
        start = stance_cpu_start(&n->y, &u, lanes, s.factor);
        s.z   = stance_cpu_at(z_of(w, k)->data, (enum cpu_kind)n->typed, start);
        s.gu  = stance_cpu_at(dz_of(w, k), n->kind, start);
        pass->gather(&s);
    }
}

/* Both sums of channel c for operand w->k. */
static void join(const struct work *w, int c, double *s, double *q)
{
    const struct cpu_grid *g = &w->n->y;
    int                    lanes = w->cpu->lanes;

    *s = *q = 0;
    for (int64_t image = 0; image < g->images; image++)
        for (int64_t band = 0; band < g->bands; band++) {
            const float *p = sums(w, w->k, (image * g->blocks + c / lanes) * g->bands + band);

            *s += p[c % lanes];
            *q += p[lanes + c % lanes];
        }
}

static stance_status share(const struct work *w)
{
    const struct norm_grad *n = w->n;
    double                 *v = w->shared;

    for (int c = 0; c < n->channels; c++)
        join(w, c, &v[c], &v[n->channels + c]);
    v[2 * n->channels] = (double)(n->z[w->k].images * n->z[w->k].height * n->z[w->k].width);
    return n->attr.sync->sum(n->attr.sync, v, (size_t)(2 * n->channels + 1));
}

/* dweight, dbias and the coefficients of pass 2 for operand w->k. */
static void finish(const struct work *w)
{
    const struct norm_grad     *n = w->n;
    const struct stance_tensor *z = z_of(w, w->k), *out = &w->call->out[n->first_dz + 3 * w->k];
    const float *weight = z[1].data, *mean = z[2].data, *inv = z[3].data;
    double       m = (double)(n->z[w->k].images * n->z[w->k].height * n->z[w->k].width);

    if (w->shared != NULL)
        m = w->shared[2 * n->channels];
    for (int c = 0; c < n->padded; c++) {
        double s, q, a, c2;

        if (c >= n->channels) {
            w->a[c] = w->c2[c] = w->c0[c] = 0;
            continue;
        }
        join(w, c, &s, &q);
        ((float *)out[1].data)[c] = (float)(q * inv[c]);
        ((float *)out[2].data)[c] = (float)s;
        if (w->shared != NULL) {
            s = w->shared[c];
            q = w->shared[n->channels + c];
        }
        a        = (double)weight[c] * inv[c];
        c2       = -a * inv[c] * inv[c] * q / m;
        w->a[c]  = (float)a;
        w->c2[c] = (float)c2;
        w->c0[c] = (float)(-a * s / m - c2 * mean[c]);
    }
}

static void dz_unit(void *ctx, int64_t i)
{
    struct work            *w = ctx;
    const struct norm_grad *n = w->n;
    const struct cpu_grid  *grid = &n->z[w->k];
    struct cpu_unit         u = stance_cpu_unit(grid, i);
    int                     lanes = w->cpu->lanes, c = (int)u.block * lanes;
    int64_t                 at = stance_cpu_start(grid, &u, lanes, 1);
    const void             *g = n->attr.factor[w->k] != 1 ? dz_of(w, w->k) : w->g != NULL ? w->g : w->call->in[0].data;
    struct cpu_dz           t = { .g = stance_cpu_at(g, n->kind, at),
                                  .z = stance_cpu_at(z_of(w, w->k)->data, (enum cpu_kind)n->typed, at),
                                  .dz = stance_cpu_at(dz_of(w, w->k), n->kind, at), .a = w->a + c, .c2 = w->c2 + c,
                                  .c0 = w->c0 + c, .n = u.rows * grid->width };

    if (w->g == NULL && n->mask >= 0)
        t.mask = (char *)w->call->in[n->mask].data + at / 8;
    w->cpu->pass->typed[n->typed].dz(&t);
}

static stance_status second_pass(struct work *w, int k)
{
    stance_status status = STANCE_OK;

    w->k = k;
    if (w->shared != NULL)
        status = share(w);
    if (status != STANCE_OK)
        return status;
    finish(w);
    stance_cpu_parallel(w->cpu, stance_cpu_units(&w->n->z[k]), dz_unit, w);
    return STANCE_OK;
}

static stance_status launch(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct norm_grad *n = (struct norm_grad *)kernel;
    char             *workspace = call->workspace;
    struct work       w = { .cpu = cpu, .n = n, .call = call };
    stance_status     status = STANCE_OK;

    w.mean    = (float *)(workspace + n->coefficients);
    w.a       = w.mean + n->attr.n_norm * n->padded;
    w.c2      = w.a + n->padded;
    w.c0      = w.c2 + n->padded;
    w.partial = (float *)(workspace + n->partial);
    if (n->attr.sync != NULL)
        w.shared = (double *)(workspace + n->shared_at);
    for (int k = 0; k < n->attr.n_norm; k++) {
        memset(w.mean + k * n->padded, 0, (size_t)n->padded * sizeof(float));
        memcpy(w.mean + k * n->padded, z_of(&w, k)[2].data, (size_t)n->channels * sizeof(float));
    }
    if (n->keep)
        w.g = n->plain >= 0 ? call->out[0].data : n->keeper >= 0 ? dz_of(&w, n->keeper) : workspace + n->g_at;
    stance_cpu_parallel(cpu, stance_cpu_units(&n->y), reduce_unit, &w);
    /* The operand whose place holds g comes last. */
    for (int k = 0; k < n->attr.n_norm && status == STANCE_OK; k++)
        if (k != n->keeper)
            status = second_pass(&w, k);
    if (n->keeper >= 0 && status == STANCE_OK)
        status = second_pass(&w, n->keeper);
    return status;
}

static const struct cpu_op norm_sum_grad   = { "norm_sum_grad", offer, prepare, launch, NULL };
static const struct cpu_op batch_norm_grad = { "batch_norm_grad", offer, prepare, launch, NULL };

const struct cpu_op *const stance_cpu_norm_grad_ops[] = { &norm_sum_grad, &batch_norm_grad, NULL };
