/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise ops over tensors of one layout: "relu", "relu_grad", "add", "cast". The zeros of the padding
 * stay zeros under all of them. */
#include "cpu.h"

#define RUN 16384 /* values a unit */
#define ADD_MAX 16

/* All of one shape, in the same layout, plain or blocked. */
static bool alike(const struct stance_tensor *t, int n, const struct stance_tensor *out)
{
    for (int i = 0; i < n; i++)
        if (t[i].layout != out->layout || !stance_cpu_same_shape(&t[i].shape, &out->shape))
            return false;
    return out->layout <= CPU_BLOCKED && out->shape.rank >= 0;
}

struct flat {
    const struct cpu         *cpu;
    const struct stance_call *call;
    int                       typed;
    enum cpu_kind             kind; /**< of the gradient, or of the operands of add */
    int64_t                   n;
};

static void run(const struct cpu *cpu, const struct stance_call *call, int typed, enum cpu_kind kind,
                void (*unit)(void *, int64_t))
{
    struct flat f = { cpu, call, typed, kind, stance_cpu_length(cpu, &call->out[0]) };

    stance_cpu_parallel(cpu, (f.n + RUN - 1) / RUN, unit, &f);
}

static int64_t run_length(const struct flat *f, int64_t i)
{
    return f->n - i * RUN < RUN ? f->n - i * RUN : RUN;
}

static bool offer_relu(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    int typed = stance_cpu_typed(&q->in[0]);

    (void)cpu;
    o->alias[0] = 0;
    return typed >= 0 && stance_cpu_typed(&q->out[0]) == typed && alike(q->in, 1, &q->out[0]);
}

static void relu_unit(void *ctx, int64_t i)
{
    struct flat  *f = ctx;
    enum cpu_kind k = (enum cpu_kind)f->typed;

    f->cpu->pass->typed[f->typed].relu(stance_cpu_at(f->call->in[0].data, k, i * RUN),
                                       stance_cpu_at(f->call->out[0].data, k, i * RUN), run_length(f, i));
}

static stance_status launch_relu(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    (void)kernel;
    run(cpu, call, stance_cpu_typed(&call->in[0]), CPU_F32, relu_unit);
    return STANCE_OK;
}

static bool offer_relu_grad(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    int typed = stance_cpu_typed(&q->in[1]);

    (void)cpu;
    o->alias[0] = 0;
    return typed >= 0 && stance_cpu_gradient(&q->in[0], typed) && stance_cpu_gradient(&q->out[0], typed)
           && alike(q->in, 2, &q->out[0]);
}

static void relu_grad_unit(void *ctx, int64_t i)
{
    struct flat *f = ctx;

    f->cpu->pass->typed[f->typed].relu_grad(
        stance_cpu_at(f->call->in[0].data, f->kind, i * RUN),
        stance_cpu_at(f->call->in[1].data, (enum cpu_kind)f->typed, i * RUN),
        stance_cpu_at(f->call->out[0].data, f->kind, i * RUN), run_length(f, i));
}

static stance_status launch_relu_grad(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    enum cpu_kind kind;

    (void)kernel;
    stance_cpu_kind(&call->in[0], &kind);
    run(cpu, call, stance_cpu_typed(&call->in[1]), kind, relu_grad_unit);
    return STANCE_OK;
}

static bool offer_add(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    enum cpu_kind k, other;

    (void)cpu;
    o->alias[0] = 0;
    if (q->n_in < 1 || q->n_in > ADD_MAX || !stance_cpu_kind(&q->out[0], &k) || !alike(q->in, q->n_in, &q->out[0]))
        return false;
    for (int i = 0; i < q->n_in; i++)
        if (!stance_cpu_kind(&q->in[i], &other) || other != k)
            return false;
    return true;
}

static void add_unit(void *ctx, int64_t i)
{
    struct flat *f = ctx;
    const void  *x[ADD_MAX];

    for (int j = 0; j < f->call->n_in; j++)
        x[j] = stance_cpu_at(f->call->in[j].data, f->kind, i * RUN);
    f->cpu->pass->add[f->kind](stance_cpu_at(f->call->out[0].data, f->kind, i * RUN), x, f->call->n_in,
                               run_length(f, i));
}

static stance_status launch_add(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    enum cpu_kind kind;

    (void)kernel;
    stance_cpu_kind(&call->out[0], &kind);
    run(cpu, call, 0, kind, add_unit);
    return STANCE_OK;
}

static bool offer_cast(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    enum cpu_kind a, b;

    (void)o;
    return stance_cpu_kind(&q->in[0], &a) && stance_cpu_kind(&q->out[0], &b)
           && stance_cpu_can_reorder(cpu, &q->out[0], &q->in[0]);
}

static stance_status launch_cast(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    (void)kernel;
    return stance_cpu_reorder(cpu, &call->out[0], &call->in[0], NULL);
}

static const struct cpu_op relu      = { "relu", offer_relu, NULL, launch_relu, NULL };
static const struct cpu_op relu_grad = { "relu_grad", offer_relu_grad, NULL, launch_relu_grad, NULL };
static const struct cpu_op add       = { "add", offer_add, NULL, launch_add, NULL };
static const struct cpu_op cast      = { "cast", offer_cast, NULL, launch_cast, NULL };

const struct cpu_op *const stance_cpu_flat_ops[] = { &relu, &relu_grad, &add, &cast, NULL };
