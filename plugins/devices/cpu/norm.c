/* SPDX-License-Identifier: Apache-2.0
 *
 * "norm_sum", and plain batch normalisation as its simplest case: statistics of each normalised operand,
 * then one pass that reads every operand once and writes y and the mask. No normalised or upsampled tensor
 * is ever stored. Sums are taken in binary32 within a unit and joined in binary64 in the order of the
 * units, so they do not depend on the number of threads. The second pass goes by mean and inv_std as they
 * are stored, so that "norm_sum_given", which has them from there, writes the same bytes. */
#include "cpu.h"

#include <math.h>

struct norm {
    struct cpu_kernel      base;
    struct stance_norm_sum attr;
    int                    typed, channels, padded;
    int                    mask, states; /**< results: the mask's, or -1; the first new_mean's */
    bool                   given;        /**< operands 3 and 4 are mean and inv_std */
    struct cpu_grid        y, z[CPU_NORM_MAX];
    size_t                 a_at, partial_at, shared_at, workspace; /**< a[k][padded] and b[padded]; sums of each
                                                unit; moments [2 C + 1] of all processes, only with attr.sync */
};

/* Sums of one unit: shift, sum, square. */
#define PARTIAL 3

static bool per_channel(const struct stance_tensor *t, int64_t channels)
{
    return stance_cpu_plain(t, STANCE_TYPE_F32) && stance_elements(&t->shape) == channels;
}

static bool shrunk(const struct stance_shape *z, const struct stance_shape *y, int factor)
{
    return z->rank == 4 && z->dim[0] == y->dim[0] && z->dim[1] == y->dim[1] && z->dim[2] * factor == y->dim[2]
           && z->dim[3] * factor == y->dim[3];
}

static bool without_statistics(const struct norm *n)
{
    return n->given || n->attr.inference;
}

static bool plan(const struct cpu *cpu, const struct stance_request *q, struct norm *n)
{
    const struct stance_norm_sum *a = &n->attr;
    const struct stance_tensor   *y = &q->out[0];
    int64_t                       units = 0;

    if (y->layout != CPU_BLOCKED || y->shape.rank != 4 || (n->typed = stance_cpu_typed(y)) < 0 || a->n_norm < 0
        || a->n_norm > CPU_NORM_MAX || a->n_plain < 0 || a->n_plain > CPU_NORM_MAX || a->n_norm + a->n_plain < 1
        || q->n_in != 5 * a->n_norm + a->n_plain)
        return false;
    n->channels = (int)y->shape.dim[1];
    n->padded   = (int)stance_cpu_round_up(n->channels, cpu->lanes);
    n->y        = stance_cpu_grid(cpu, y);
    for (int k = 0; k < a->n_norm; k++) {
        const struct stance_tensor *in = &q->in[5 * k];
        int                         f  = a->factor[k];

        if ((f != 1 && f != 2 && f != 4 && f != 8) || in[0].layout != CPU_BLOCKED
            || stance_cpu_typed(&in[0]) != n->typed || !shrunk(&in[0].shape, &y->shape, f))
            return false;
        for (int i = 1; i < 5; i++)
            if (!per_channel(&in[i], n->channels))
                return false;
        n->z[k] = stance_cpu_grid(cpu, &in[0]);
        if (stance_cpu_units(&n->z[k]) > units)
            units = stance_cpu_units(&n->z[k]);
    }
    for (int j = 0; j < a->n_plain; j++) {
        const struct stance_tensor *x = &q->in[5 * a->n_norm + j];

        if (x->layout != CPU_BLOCKED || stance_cpu_typed(x) != n->typed || !stance_cpu_same_shape(&x->shape, &y->shape))
            return false;
    }
    n->mask = -1;
    if (n->given) {
        if (q->n_out > 2)
            return false;
        if (q->n_out == 2 && q->out[1].shape.rank >= 0)
            n->mask = 1;
    } else if (a->inference) {
        if (q->n_out != 1)
            return false;
    } else {
        n->states = q->n_out - 4 * a->n_norm;
        if (n->states != 1 && n->states != 2)
            return false;
        if (n->states == 2 && q->out[1].shape.rank >= 0)
            n->mask = 1;
        for (int i = n->states; i < q->n_out; i++)
            if (!per_channel(&q->out[i], n->channels))
                return false;
    }
    n->a_at       = 0;
    n->partial_at = (size_t)(a->n_norm + 1) * (size_t)n->padded * sizeof(float);
    n->workspace  = n->partial_at + (without_statistics(n) ? 0 : (size_t)(units * PARTIAL * cpu->lanes) * sizeof(float));
    n->shared_at  = (n->workspace + 63) / 64 * 64;
    if (n->attr.sync != NULL && !n->given)
        n->workspace = n->shared_at + (size_t)(2 * n->channels + 1) * sizeof(double);
    return true;
}

static void read_attr(const struct stance_request *q, struct norm *n)
{
    const struct stance_batch_norm *b = q->attr;

    n->given = strcmp(q->op, "norm_sum_given") == 0;
    if (n->given || strcmp(q->op, "norm_sum") == 0)
        n->attr = *(const struct stance_norm_sum *)q->attr;
    else
        n->attr = (struct stance_norm_sum){ .n_norm = 1, .factor = { 1 }, .eps = b->eps, .momentum = b->momentum,
                                            .sync = b->sync,
                                            .inference = strcmp(q->op, "batch_norm_inference") == 0 };
}

static bool offer(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    struct norm n = { .typed = 0 };

    read_attr(q, &n);
    if (!plan(cpu, q, &n))
        return false;
    if (n.mask >= 0)
        o->out[n.mask] = (struct stance_form){ CPU_MASK, STANCE_TYPE_U8,
                                               (size_t)(stance_cpu_length(cpu, &q->out[0]) / 8) };
    o->workspace = n.workspace;
    if (n.attr.n_plain > 0)
        o->alias[0] = 5 * n.attr.n_norm;
    else if (n.attr.factor[0] == 1)
        o->alias[0] = 0;
    return true;
}

static stance_status prepare(struct cpu *cpu, const struct stance_request *q, struct cpu_kernel **kernel,
                             struct stance_error *err)
{
    struct norm *n = stance_calloc(1, sizeof *n);

    if (n == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "kernel of '%s'", q->op);
    read_attr(q, n);
    if (!plan(cpu, q, n) || (n->mask >= 0 && q->out[n->mask].layout != CPU_MASK)) {
        stance_free(n);
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "%s: operands are not in the forms that device 'cpu' offered",
                           q->op);
    }
    *kernel = &n->base;
    return STANCE_OK;
}

struct work {
    const struct cpu         *cpu;
    const struct norm        *n;
    const struct stance_call *call;
    int                       k;
    float                    *a, *b, *partial;
    double                   *shared; /**< NULL: statistics of this process alone */
};

static void stats_unit(void *ctx, int64_t i)
{
    struct work           *w = ctx;
    const struct cpu_grid *g = &w->n->z[w->k];
    struct cpu_unit        u = stance_cpu_unit(g, i);
    int                    lanes = w->cpu->lanes;
    float                 *p = w->partial + i * PARTIAL * lanes;
    struct cpu_stats       t = { stance_cpu_at(w->call->in[5 * w->k].data, (enum cpu_kind)w->n->typed,
                                               stance_cpu_start(g, &u, lanes, 1)),
                                 u.rows * g->width, p, p + lanes, p + 2 * lanes };

    w->cpu->pass->typed[w->n->typed].stats(&t);
}

/* Moments of one channel about the shift of its first unit, from the sums of all units. */
static void join(const struct work *w, int c, double *mean, double *variance)
{
    const struct cpu_grid *g = &w->n->z[w->k];
    int                    lanes = w->cpu->lanes, lane = c % lanes;
    double                 s = 0, q = 0, m = (double)(g->images * g->height * g->width);
    const float           *first = w->partial + c / lanes * g->bands * PARTIAL * lanes;

    for (int64_t image = 0; image < g->images; image++)
        for (int64_t band = 0; band < g->bands; band++) {
            const float *p = first + (image * g->blocks * g->bands + band) * PARTIAL * lanes;
            int64_t      rows = g->height - band * g->rows < g->rows ? g->height - band * g->rows : g->rows;
            double       d = (double)p[lane] - first[lane], sum = p[lanes + lane];

            s += sum + (double)(rows * g->width) * d;
            q += p[2 * lanes + lane] + 2 * d * sum + (double)(rows * g->width) * d * d;
        }
    *mean     = first[lane] + s / m;
    *variance = q / m - s / m * (s / m);
    if (*variance < 0)
        *variance = 0;
}

/* Moments of operand w->k over all processes, in w->shared: means, variances, the number of elements. */
static stance_status share(const struct work *w)
{
    const struct norm     *n = w->n;
    const struct cpu_grid *g = &n->z[w->k];
    double                 m = (double)(g->images * g->height * g->width), *v = w->shared;
    stance_status          status;

    for (int c = 0; c < n->channels; c++) {
        double mean, variance;

        join(w, c, &mean, &variance);
        v[c]               = m * mean;
        v[n->channels + c] = m * (variance + mean * mean);
    }
    v[2 * n->channels] = m;
    status             = n->attr.sync->sum(n->attr.sync, v, (size_t)(2 * n->channels + 1));
    m                  = v[2 * n->channels];
    for (int c = 0; c < n->channels; c++) {
        v[c] /= m;
        v[n->channels + c] = v[n->channels + c] / m - v[c] * v[c];
        if (v[n->channels + c] < 0)
            v[n->channels + c] = 0;
    }
    return status;
}

static void finish(const struct work *w)
{
    const struct norm          *n  = w->n;
    const struct stance_tensor *in = &w->call->in[5 * w->k];
    const struct cpu_grid      *g  = &n->z[w->k];
    double        m = (double)(g->images * g->height * g->width), momentum = n->attr.momentum;
    const float  *weight = in[1].data, *bias = in[2].data;
    const float  *old_mean = in[3].data, *old_variance = in[4].data; /* given: mean and inv_std */
    float        *a = w->a + (size_t)w->k * (size_t)n->padded;

    if (w->shared != NULL)
        m = w->shared[2 * n->channels];
    for (int c = 0; c < n->channels; c++) {
        double mean = old_mean[c], variance = old_variance[c], inv;

        if (w->shared != NULL) {
            mean     = w->shared[c];
            variance = w->shared[n->channels + c];
        } else if (!without_statistics(n)) {
            join(w, c, &mean, &variance);
        }
        inv = n->given ? (double)old_variance[c] : 1 / sqrt(variance + n->attr.eps);
        if (!without_statistics(n)) {
            const struct stance_tensor *out = &w->call->out[n->states + 4 * w->k];
            double wide   = m > 1 ? variance * (m / (m - 1)) : variance;
            bool   finite = isfinite((float)mean) && isfinite((float)wide);

            ((float *)out[0].data)[c] = finite ? (float)((1 - momentum) * old_mean[c] + momentum * mean) : old_mean[c];
            ((float *)out[1].data)[c] = finite ? (float)((1 - momentum) * old_variance[c] + momentum * wide)
                                               : old_variance[c];
            mean = ((float *)out[2].data)[c] = (float)mean;
            inv  = ((float *)out[3].data)[c] = (float)inv;
        }
        a[c] = (float)(weight[c] * inv);
        w->b[c] += (float)(bias[c] - mean * weight[c] * inv);
    }
}

static void apply_unit(void *ctx, int64_t i)
{
    struct work       *w = ctx;
    const struct norm *n = w->n;
    enum cpu_kind      kind = (enum cpu_kind)n->typed;
    struct cpu_unit    u = stance_cpu_unit(&n->y, i);
    int                lanes = w->cpu->lanes, c = (int)u.block * lanes;
    int64_t            at = stance_cpu_start(&n->y, &u, lanes, 1);
    struct cpu_apply   t = { .n_norm = n->attr.n_norm, .n_plain = n->attr.n_plain, .b = w->b + c,
                             .y = stance_cpu_at(w->call->out[0].data, kind, at), .relu = n->attr.relu,
                             .rows = u.rows, .width = n->y.width };

    for (int k = 0; k < n->attr.n_norm; k++) {
        t.factor[k] = n->attr.factor[k];
        t.z[k] = stance_cpu_at(w->call->in[5 * k].data, kind, stance_cpu_start(&n->y, &u, lanes, t.factor[k]));
        t.a[k] = w->a + (size_t)k * (size_t)n->padded + c;
    }
    for (int j = 0; j < n->attr.n_plain; j++)
        t.x[j] = stance_cpu_at(w->call->in[5 * n->attr.n_norm + j].data, kind, at);
    if (n->mask >= 0)
        t.mask = (char *)w->call->out[n->mask].data + at / 8;
    w->cpu->pass->typed[n->typed].apply(&t);
}

static stance_status launch(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct norm *n = (struct norm *)kernel;
    char        *workspace = call->workspace;
    struct work  w = { .cpu = cpu, .n = n, .call = call };

    w.a       = (float *)(workspace + n->a_at);
    w.b       = w.a + (size_t)n->attr.n_norm * (size_t)n->padded;
    w.partial = (float *)(workspace + n->partial_at);
    if (n->attr.sync != NULL && !n->given)
        w.shared = (double *)(workspace + n->shared_at);
    memset(w.a, 0, (size_t)(n->attr.n_norm + 1) * (size_t)n->padded * sizeof *w.a);
    for (w.k = 0; w.k < n->attr.n_norm; w.k++) {
        if (!without_statistics(n))
            stance_cpu_parallel(cpu, stance_cpu_units(&n->z[w.k]), stats_unit, &w);
        if (w.shared != NULL) {
            stance_status status = share(&w);

            if (status != STANCE_OK)
                return status;
        }
        finish(&w);
    }
    stance_cpu_parallel(cpu, stance_cpu_units(&n->y), apply_unit, &w);
    return STANCE_OK;
}

static const struct cpu_op norm_sum             = { "norm_sum", offer, prepare, launch, NULL };
static const struct cpu_op norm_sum_given       = { "norm_sum_given", offer, prepare, launch, NULL };
static const struct cpu_op batch_norm           = { "batch_norm", offer, prepare, launch, NULL };
static const struct cpu_op batch_norm_inference = { "batch_norm_inference", offer, prepare, launch, NULL };

const struct cpu_op *const stance_cpu_norm_ops[] = { &norm_sum, &norm_sum_given, &batch_norm, &batch_norm_inference,
                                                        NULL };
