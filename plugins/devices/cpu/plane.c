/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops over planes of blocked tensors: pooling, nearest upsampling, the loss, sums over pixels. A unit is
 * one block of channels of one image. */
#include "cpu.h"

static bool blocked(const struct stance_tensor *t)
{
    return t->layout == CPU_BLOCKED && t->shape.rank == 4;
}

static int64_t planes(const struct cpu *cpu, const struct stance_tensor *t)
{
    return t->shape.dim[0] * (stance_cpu_round_up(t->shape.dim[1], cpu->lanes) / cpu->lanes);
}

/* Elements of one plane of a block. */
static int64_t plane_size(const struct cpu *cpu, const struct stance_tensor *t)
{
    return t->shape.dim[2] * t->shape.dim[3] * cpu->lanes;
}

struct plane {
    const struct cpu         *cpu;
    const struct stance_call *call;
    int                       typed;
    enum cpu_kind             gradient;
    double                   *sums;
};

static enum cpu_kind gradient_of(int typed)
{
    return typed == CPU_F16 ? CPU_F32_OF_F16 : (enum cpu_kind)typed;
}

static void *plane_at(const struct plane *p, const struct stance_tensor *t, enum cpu_kind k, int64_t i)
{
    return stance_cpu_at(t->data, k, i * plane_size(p->cpu, t));
}

/* ---- pooling ---------------------------------------------------------------------------------- */

static struct cpu_pool pool_of(const struct stance_call *call, const struct stance_tensor *x,
                               const struct stance_tensor *y)
{
    const struct stance_pool *a = call->attr;
    struct cpu_pool           t = { .h = x->shape.dim[2], .w = x->shape.dim[3], .oh = y->shape.dim[2],
                                    .ow = y->shape.dim[3] };

    for (int d = 0; d < 2; d++) {
        t.kernel[d] = a->kernel[d];
        t.stride[d] = a->stride[d];
        t.pad[d]    = a->pad[d];
    }
    return t;
}

static bool places_fit(const struct stance_pool *a)
{
    return a->kernel[0] > 0 && a->kernel[1] > 0 && a->kernel[0] * a->kernel[1] <= 255 && a->stride[0] > 0
           && a->stride[1] > 0;
}

static bool offer_pool(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    int typed = stance_cpu_typed(&q->in[0]);

    if (typed < 0 || !blocked(&q->in[0]) || !blocked(&q->out[0]) || stance_cpu_typed(&q->out[0]) != typed
        || q->n_out != 2 || !places_fit(q->attr))
        return false;
    o->out[1] = (struct stance_form){ CPU_PLACES, STANCE_TYPE_U8, (size_t)stance_cpu_length(cpu, &q->out[0]) };
    return true;
}

static void pool_unit(void *ctx, int64_t i)
{
    struct plane   *p = ctx;
    struct cpu_pool t = pool_of(p->call, &p->call->in[0], &p->call->out[0]);

    t.x     = plane_at(p, &p->call->in[0], (enum cpu_kind)p->typed, i);
    t.y     = plane_at(p, &p->call->out[0], (enum cpu_kind)p->typed, i);
    t.index = (uint8_t *)p->call->out[1].data + i * plane_size(p->cpu, &p->call->out[0]);
    p->cpu->pass->typed[p->typed].max_pool(&t);
}

static stance_status launch_pool(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane p = { .cpu = cpu, .call = call, .typed = stance_cpu_typed(&call->in[0]) };

    (void)kernel;
    if (call->out[1].layout != CPU_PLACES)
        return STANCE_ERR_UNSUPPORTED;
    stance_cpu_parallel(cpu, planes(cpu, &call->in[0]), pool_unit, &p);
    return STANCE_OK;
}

/* Typed passes that take gradients like @p t; -1: none. */
static int typed_of_gradient(const struct stance_tensor *t)
{
    for (int typed = 0; typed < 3; typed++)
        if (stance_cpu_gradient(t, typed))
            return typed;
    return -1;
}

static bool offer_pool_grad(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    int typed = typed_of_gradient(&q->in[0]);

    if (typed < 0 || !blocked(&q->in[0]) || !blocked(&q->out[0]) || !stance_cpu_gradient(&q->out[0], typed)
        || !places_fit(q->attr))
        return false;
    o->in[1] = (struct stance_form){ CPU_PLACES, STANCE_TYPE_U8, (size_t)stance_cpu_length(cpu, &q->in[0]) };
    return true;
}

static void pool_grad_unit(void *ctx, int64_t i)
{
    struct plane   *p = ctx;
    struct cpu_pool t = pool_of(p->call, &p->call->out[0], &p->call->in[0]);

    t.x     = plane_at(p, &p->call->in[0], p->gradient, i);
    t.y     = plane_at(p, &p->call->out[0], p->gradient, i);
    t.index = (uint8_t *)p->call->in[1].data + i * plane_size(p->cpu, &p->call->in[0]);
    p->cpu->pass->typed[p->typed].max_pool_grad(&t);
}

static stance_status launch_pool_grad(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane p = { .cpu = cpu, .call = call, .typed = typed_of_gradient(&call->in[0]) };

    (void)kernel;
    if (call->in[1].layout != CPU_PLACES)
        return STANCE_ERR_UNSUPPORTED;
    p.gradient = gradient_of(p.typed);
    stance_cpu_parallel(cpu, planes(cpu, &call->in[0]), pool_grad_unit, &p);
    return STANCE_OK;
}

/* ---- nearest upsampling ----------------------------------------------------------------------- */

static bool offer_upsample(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    const struct stance_upsample *a = q->attr;
    int                           typed = stance_cpu_typed(&q->in[0]);

    (void)cpu;
    (void)o;
    return !a->bilinear && typed >= 0 && blocked(&q->in[0]) && blocked(&q->out[0])
           && stance_cpu_typed(&q->out[0]) == typed;
}

static void upsample_unit(void *ctx, int64_t i)
{
    struct plane                 *p = ctx;
    const struct stance_upsample *a = p->call->attr;
    const struct stance_tensor   *x = &p->call->in[0], *y = &p->call->out[0];

    p->cpu->pass->typed[p->typed].upsample(plane_at(p, x, (enum cpu_kind)p->typed, i),
                                           plane_at(p, y, (enum cpu_kind)p->typed, i), y->shape.dim[2],
                                           y->shape.dim[3], a->factor[0], a->factor[1]);
}

static stance_status launch_upsample(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane p = { .cpu = cpu, .call = call, .typed = stance_cpu_typed(&call->in[0]) };

    (void)kernel;
    stance_cpu_parallel(cpu, planes(cpu, &call->in[0]), upsample_unit, &p);
    return STANCE_OK;
}

static bool offer_upsample_grad(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    const struct stance_upsample *a = q->attr;
    int                           typed = typed_of_gradient(&q->in[0]);

    (void)cpu;
    (void)o;
    return !a->bilinear && typed >= 0 && blocked(&q->in[0]) && blocked(&q->out[0])
           && stance_cpu_gradient(&q->out[0], typed);
}

static void upsample_grad_unit(void *ctx, int64_t i)
{
    struct plane                 *p = ctx;
    const struct stance_upsample *a = p->call->attr;
    const struct stance_tensor   *dy = &p->call->in[0], *dx = &p->call->out[0];

    p->cpu->pass->typed[p->typed].upsample_grad(plane_at(p, dy, p->gradient, i), plane_at(p, dx, p->gradient, i),
                                                dy->shape.dim[2], dy->shape.dim[3], a->factor[0], a->factor[1]);
}

static stance_status launch_upsample_grad(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane p = { .cpu = cpu, .call = call, .typed = typed_of_gradient(&call->in[0]) };

    (void)kernel;
    p.gradient = gradient_of(p.typed);
    stance_cpu_parallel(cpu, planes(cpu, &call->in[0]), upsample_grad_unit, &p);
    return STANCE_OK;
}

/* ---- mean squared error ------------------------------------------------------------------------ */

/* @param t  prediction, target and perhaps the weight. */
static bool loss_operands(const struct stance_tensor *t, int n)
{
    return (n == 2 || n == 3) && blocked(&t[0]) && stance_cpu_typed(&t[0]) >= 0
           && stance_cpu_plain(&t[1], STANCE_TYPE_F32) && stance_cpu_same_shape(&t[0].shape, &t[1].shape)
           && (n == 2 || t[2].shape.rank < 0
               || (stance_cpu_plain(&t[2], STANCE_TYPE_F32)
                   && stance_elements(&t[2].shape) == t[0].shape.dim[0] * t[0].shape.dim[1]));
}

static struct cpu_loss loss_of(const struct plane *p, const struct stance_tensor *t, int n, int64_t i)
{
    const int64_t  *d = t[0].shape.dim;
    int64_t         lanes = p->cpu->lanes, blocks = stance_cpu_round_up(d[1], lanes) / lanes;
    int64_t         c = i % blocks * lanes, first = i / blocks * d[1] + c;
    struct cpu_loss l = { .p = plane_at(p, &t[0], (enum cpu_kind)p->typed, i), .n = d[2] * d[3] };

    l.target   = (const float *)t[1].data + first * l.n;
    l.weight   = n == 3 && t[2].shape.rank >= 0 ? (const float *)t[2].data + first : NULL;
    l.channels = (int)(d[1] - c < lanes ? d[1] - c : lanes);
    return l;
}

static bool offer_mse(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    if (!loss_operands(q->in, q->n_in) || !stance_cpu_plain(&q->out[0], STANCE_TYPE_F32))
        return false;
    o->workspace = (size_t)planes(cpu, &q->in[0]) * sizeof(double);
    return true;
}

static void mse_unit(void *ctx, int64_t i)
{
    struct plane   *p = ctx;
    struct cpu_loss l = loss_of(p, p->call->in, p->call->n_in, i);

    p->cpu->pass->typed[p->typed].loss(&l);
    p->sums[i] = l.sum;
}

static stance_status launch_mse(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane p = { .cpu = cpu, .call = call, .typed = stance_cpu_typed(&call->in[0]), .sums = call->workspace };
    int64_t      n = planes(cpu, &call->in[0]);
    double       sum = 0;

    (void)kernel;
    stance_cpu_parallel(cpu, n, mse_unit, &p);
    for (int64_t i = 0; i < n; i++)
        sum += p.sums[i];
    *(float *)call->out[0].data = (float)(sum / (double)stance_elements(&call->in[0].shape));
    return STANCE_OK;
}

/* The gradient is of the prediction's type, or still wide: then a cast follows. */
static bool offer_mse_grad(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)cpu;
    (void)o;
    return stance_cpu_plain(&q->in[0], STANCE_TYPE_F32) && loss_operands(q->in + 1, q->n_in - 1)
           && blocked(&q->out[0])
           && (stance_cpu_gradient(&q->out[0], stance_cpu_typed(&q->in[1])) || stance_cpu_gradient(&q->out[0], CPU_F32));
}

static void mse_grad_unit(void *ctx, int64_t i)
{
    struct plane                  *p = ctx;
    struct cpu_loss                l = loss_of(p, p->call->in + 1, p->call->n_in - 1, i);
    const struct cpu_typed_passes *pass = &p->cpu->pass->typed[p->typed];

    l.dp     = plane_at(p, &p->call->out[0], p->gradient, i);
    l.factor = (float)(2.0 * *(const float *)p->call->in[0].data / (double)stance_elements(&p->call->in[1].shape));
    if (p->gradient == CPU_F32)
        pass->loss_grad_wide(&l);
    else
        pass->loss_grad(&l);
}

static stance_status launch_mse_grad(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane p = { .cpu = cpu, .call = call, .typed = stance_cpu_typed(&call->in[1]) };

    (void)kernel;
    stance_cpu_kind(&call->out[0], &p.gradient);
    stance_cpu_parallel(cpu, planes(cpu, &call->in[1]), mse_grad_unit, &p);
    return STANCE_OK;
}

/* ---- sums over everything but the channels: the gradient of a bias ------------------------------ */

static bool offer_sum(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    const struct stance_reduce *a = q->attr;
    enum cpu_kind               in, out;

    if (a->axes != (1u << 0 | 1u << 2 | 1u << 3) || a->keep || !blocked(&q->in[0]) || !stance_cpu_kind(&q->in[0], &in)
        || !stance_cpu_kind(&q->out[0], &out) || q->out[0].layout != CPU_PLAIN
        || stance_elements(&q->out[0].shape) != q->in[0].shape.dim[1])
        return false;
    o->workspace = (size_t)(planes(cpu, &q->in[0]) * cpu->lanes + q->in[0].shape.dim[1]) * sizeof(float);
    return true;
}

static void sum_unit(void *ctx, int64_t i)
{
    struct plane               *p = ctx;
    const struct stance_tensor *x = &p->call->in[0];
    enum cpu_kind               k;

    stance_cpu_kind(x, &k);
    if (k > CPU_F16)
        k = CPU_F32;
    p->cpu->pass->channel_sum[k](plane_at(p, x, k, i), x->shape.dim[2] * x->shape.dim[3],
                                 (float *)p->call->workspace + i * p->cpu->lanes);
}

static stance_status launch_sum(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct plane  p = { .cpu = cpu, .call = call };
    int64_t       n = planes(cpu, &call->in[0]), channels = call->in[0].shape.dim[1], images = call->in[0].shape.dim[0];
    int64_t       blocks = images == 0 ? 0 : n / images;
    float        *sums = call->workspace, *total = sums + n * cpu->lanes;
    enum cpu_kind k;

    (void)kernel;
    stance_cpu_parallel(cpu, n, sum_unit, &p);
    for (int64_t c = 0; c < channels; c++) {
        double s = 0;

        for (int64_t i = 0; i < images; i++)
            s += sums[(i * blocks + c / cpu->lanes) * cpu->lanes + c % cpu->lanes];
        total[c] = (float)s;
    }
    stance_cpu_kind(&call->out[0], &k);
    cpu->pass->convert[k][CPU_F32](call->out[0].data, total, channels);
    return STANCE_OK;
}

static const struct cpu_op max_pool      = { "max_pool", offer_pool, NULL, launch_pool, NULL };
static const struct cpu_op max_pool_grad = { "max_pool_grad", offer_pool_grad, NULL, launch_pool_grad, NULL };
static const struct cpu_op upsample      = { "upsample", offer_upsample, NULL, launch_upsample, NULL };
static const struct cpu_op upsample_grad = { "upsample_grad", offer_upsample_grad, NULL, launch_upsample_grad, NULL };
static const struct cpu_op mse           = { "mse", offer_mse, NULL, launch_mse, NULL };
static const struct cpu_op mse_grad      = { "mse_grad", offer_mse_grad, NULL, launch_mse_grad, NULL };
static const struct cpu_op reduce_sum    = { "reduce_sum", offer_sum, NULL, launch_sum, NULL };

const struct cpu_op *const stance_cpu_plane_ops[] = { &max_pool, &max_pool_grad, &upsample, &upsample_grad,
                                                      &mse, &mse_grad, &reduce_sum, NULL };
