/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows the backward pass: adding into the flat gradients, the check, the optimizer, committing. */
#include "cpu.h"

#include "../../optimizers/optimizers.h"

#include <float.h>
#include <math.h>

#define RUN 16384 /* values a unit */

static int64_t runs(int64_t n)
{
    return (n + RUN - 1) / RUN;
}

static int64_t run_length(int64_t n, int64_t i)
{
    return n - i * RUN < RUN ? n - i * RUN : RUN;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (to != from)
        memcpy(to, from, bytes);
}

/* ---- "accumulate" --------------------------------------------------------------------------------- */

/* The sum is a segment of the flat gradients: in the layout of g, or just as many numbers. */
static bool offer_accumulate(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    const struct stance_tensor *sum = &q->in[0], *g = &q->in[1];
    enum cpu_kind               k;

    (void)o;
    return q->n_in == 2 && sum->stored == STANCE_TYPE_F32 && stance_cpu_kind(g, &k)
           && stance_cpu_length(cpu, g) > 0 && stance_cpu_length(cpu, sum) == stance_cpu_length(cpu, g)
           && (sum->layout == g->layout || (sum->layout == CPU_PLAIN && sum->shape.rank == 1));
}

struct accumulate { const struct cpu *cpu; const struct stance_call *call; enum cpu_kind kind; int64_t n; };

static void accumulate_unit(void *ctx, int64_t i)
{
    struct accumulate *a = ctx;
    int64_t            n = run_length(a->n, i);
    float             *sum = (float *)a->call->out[0].data + i * RUN;
    const float       *old = (const float *)a->call->in[0].data + i * RUN;

    if (sum != old)
        memcpy(sum, old, (size_t)n * sizeof *sum);
    a->cpu->pass->accumulate[a->kind](sum, stance_cpu_at(a->call->in[1].data, a->kind, i * RUN), n);
}

static stance_status launch_accumulate(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct accumulate a = { cpu, call, CPU_F32, stance_cpu_length(cpu, &call->in[1]) };

    (void)kernel;
    stance_cpu_kind(&call->in[1], &a.kind);
    if (a.kind > CPU_F16)
        a.kind = CPU_F32;
    stance_cpu_parallel(cpu, runs(a.n), accumulate_unit, &a);
    return STANCE_OK;
}

/* ---- "loss_seed", "grad_check" ---------------------------------------------------------------------- */

static bool is_bytes(const struct stance_tensor *t, size_t size)
{
    return stance_cpu_plain(t, STANCE_TYPE_U8) && stance_elements(&t->shape) >= (int64_t)size;
}

static bool offer_seed(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)cpu;
    (void)o;
    return is_bytes(&q->in[0], sizeof(struct stance_control)) && stance_cpu_plain(&q->out[0], STANCE_TYPE_F32);
}

static stance_status launch_seed(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    const struct stance_control *c = call->in[0].data;

    (void)cpu;
    (void)kernel;
    *(float *)call->out[0].data = (float)((double)c->scale * c->micro_weight);
    return STANCE_OK;
}

static bool offer_check(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)cpu;
    if (!stance_cpu_plain(&q->in[0], STANCE_TYPE_F32) || !is_bytes(&q->out[0], sizeof(struct stance_control)))
        return false;
    o->workspace = (size_t)runs(stance_elements(&q->in[0].shape)) * sizeof(struct cpu_check);
    return true;
}

struct check { const struct cpu *cpu; const float *g; int64_t n; float most; struct cpu_check *part; };

/* The largest gradient that is finite before and after it is unscaled. */
static float most_of(double inverse)
{
    float most;

    if (inverse <= 1)
        return FLT_MAX;
    most = (float)((double)FLT_MAX / inverse);
    return (double)most * inverse > (double)FLT_MAX ? nextafterf(most, 0) : most;
}

static void check_unit(void *ctx, int64_t i)
{
    struct check *c = ctx;

    c->part[i] = c->cpu->pass->check(c->most, c->g + i * RUN, run_length(c->n, i));
}

static stance_status launch_check(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    struct stance_control *c = call->out[0].data;
    double                 inverse = (float)(1 / (double)c->scale), squares = 0, max = 0, norm;
    struct check           k = { cpu, call->in[0].data, stance_elements(&call->in[0].shape), most_of(inverse), call->workspace };

    (void)kernel;
    stance_cpu_parallel(cpu, runs(k.n), check_unit, &k);
    c->first_bad = -1;
    for (int64_t i = 0; i < runs(k.n); i++) {
        squares += k.part[i].sum;
        max = k.part[i].max > max ? k.part[i].max : max;
        if (k.part[i].bad >= 0 && c->first_bad < 0)
            c->first_bad = i * RUN + k.part[i].bad;
    }
    c->sum_squares   = squares * inverse * inverse;
    c->max_abs       = c->first_bad < 0 ? max * inverse : (double)INFINITY;
    c->update.skip   = c->first_bad >= 0;
    c->update.factor = inverse;
    norm             = c->clip_inf ? c->max_abs : sqrt(c->sum_squares);
    if (c->first_bad < 0 && c->clip > 0 && norm + 1e-6 > c->clip) /* 1e-6: torch.nn.utils.clip_grad_norm_ */
        c->update.factor = inverse * (c->clip / (norm + 1e-6));
    return STANCE_OK;
}

/* ---- "clip_value" ------------------------------------------------------------------------------------- */

static bool offer_clip(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)cpu;
    (void)o;
    return q->n_in == 2 && q->n_out == 1 && stance_cpu_plain(&q->in[0], STANCE_TYPE_F32)
           && stance_cpu_plain(&q->out[0], STANCE_TYPE_F32) && is_bytes(&q->in[1], sizeof(struct stance_control));
}

struct flat { const struct cpu *cpu; const struct stance_call *call; float number; int64_t n; };

static void clip_unit(void *ctx, int64_t i)
{
    struct flat *f = ctx;

    f->cpu->pass->clip(f->number, (const float *)f->call->in[0].data + i * RUN, (float *)f->call->out[0].data + i * RUN,
                       run_length(f->n, i));
}

static stance_status launch_clip(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    const struct stance_control *c = call->in[1].data;
    struct flat f = { cpu, call, (float)(c->clip_value / c->update.factor), stance_elements(&call->in[0].shape) };

    (void)kernel;
    if (c->update.skip || c->clip_value <= 0)
        copy(call->out[0].data, call->in[0].data, call->in[0].bytes);
    else
        stance_cpu_parallel(cpu, runs(f.n), clip_unit, &f);
    return STANCE_OK;
}

/* ---- "ema" --------------------------------------------------------------------------------------------- */

static bool offer_ema(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)cpu;
    (void)o;
    return q->n_in == 3 && q->n_out == 1 && stance_cpu_plain(&q->in[0], STANCE_TYPE_F32)
           && stance_cpu_plain(&q->in[2], STANCE_TYPE_F32) && stance_cpu_plain(&q->out[0], STANCE_TYPE_F32)
           && is_bytes(&q->in[1], sizeof(struct stance_update));
}

static void ema_unit(void *ctx, int64_t i)
{
    struct flat *f = ctx;

    f->cpu->pass->ema(f->number, (const float *)f->call->in[0].data + i * RUN, (const float *)f->call->in[2].data + i * RUN,
                      (float *)f->call->out[0].data + i * RUN, run_length(f->n, i));
}

static stance_status launch_ema(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    const struct stance_update *u = call->in[1].data;
    struct flat f = { cpu, call, (float)(1 - stance_ema_decay(call->attr, u->applied)), stance_elements(&call->in[0].shape) };

    (void)kernel;
    if (u->skip)
        copy(call->out[0].data, call->in[0].data, call->in[0].bytes);
    else
        stance_cpu_parallel(cpu, runs(f.n), ema_unit, &f);
    return STANCE_OK;
}

/* ---- "commit" ---------------------------------------------------------------------------------------- */

static bool offer_commit(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    (void)cpu;
    (void)o;
    if (q->n_in != 3 || q->n_out != 2 || !is_bytes(&q->in[1], sizeof(struct stance_update)))
        return false;
    return q->in[0].stored == q->in[2].stored && q->in[0].layout == q->in[2].layout && q->in[0].bytes == q->in[2].bytes
           && q->out[0].bytes == q->in[0].bytes && q->out[1].bytes == q->in[0].bytes;
}

static stance_status launch_commit(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    const struct stance_update *u = call->in[1].data;
    const struct stance_tensor *winner = u->skip ? &call->in[2] : &call->in[0];

    (void)cpu;
    (void)kernel;
    copy(call->out[0].data, winner->data, winner->bytes);
    copy(call->out[1].data, winner->data, winner->bytes);
    return STANCE_OK;
}

/* ---- optimizers --------------------------------------------------------------------------------------- */

/* Gradient, update block, then the masters and @p slots arrays; results over those. */
static bool update_operands(const struct stance_request *q, int slots)
{
    int64_t n;

    if (q->n_in != 3 + slots || q->n_out != 1 + slots || !is_bytes(&q->in[1], sizeof(struct stance_update)))
        return false;
    n = stance_elements(&q->in[2].shape);
    for (int i = 0; i < q->n_in; i++)
        if (i != 1 && (!stance_cpu_plain(&q->in[i], STANCE_TYPE_F32) || stance_elements(&q->in[i].shape) != n))
            return false;
    for (int i = 0; i < q->n_out; i++)
        if (!stance_cpu_plain(&q->out[i], STANCE_TYPE_F32) || stance_elements(&q->out[i].shape) != n)
            return false;
    return true;
}

static bool offer_adam(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    const struct stance_adam *a = q->attr;

    (void)cpu;
    (void)o;
    return q->ops->attr_size == sizeof *a && a->betas.n == 2 && update_operands(q, optimizer_slots(2, a->master));
}

static bool offer_sgd(struct cpu *cpu, const struct stance_request *q, struct stance_offer *o)
{
    const struct stance_sgd *a = q->attr;

    (void)cpu;
    (void)o;
    return q->ops->attr_size == sizeof *a && update_operands(q, optimizer_slots(1, a->master));
}

struct update {
    const struct cpu         *cpu;
    const struct stance_call *call;
    struct cpu_adam           adam;
    struct cpu_sgd            sgd;
    bool                      is_sgd;
    int                       master; /* enum stance_master */
    int64_t                   n;
};

static void run_rule(const struct update *u, const float *g, const float *const *in, float *const *out, int64_t n)
{
    if (u->is_sgd)
        u->cpu->pass->sgd(&u->sgd, g, in, out, n);
    else
        u->cpu->pass->adam(&u->adam, g, in, out, n);
}

/* p[i]: masters as the rule has left them, from element @p first of the flat array on. */
static void round_stochastically(const struct stance_update *u, uint64_t first, float *p, int64_t n)
{
    uint16_t bits[8];

    for (int64_t i = 0; i < n; i++) {
        if (i % 8 == 0) /* first is a multiple of 8 */
            rounding_bits(u->seed, u->applied, (first + (uint64_t)i) / 8, bits);
        p[i] = rounding_cut(p[i], bits[i % 8]);
    }
}

enum { PIECE = 1024 };

/* In pieces, as the rule must not write over the old masters yet. */
static void run_compensated(const struct update *u, const float *g, const float **in, float **out, int64_t n)
{
    int   last = u->is_sgd ? 2 : 3; /* the compensation */
    float to[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t      m = n - at < PIECE ? n - at : PIECE;
        const float *from[3];
        float       *into[3] = { to };

        for (int j = 0; j < last; j++) {
            from[j] = in[j] + at;
            if (j > 0)
                into[j] = out[j] + at;
        }
        run_rule(u, g + at, from, into, m);
        for (int64_t i = at; i < at + m; i++) {
            float c = in[last][i];

            out[0][i]    = rounding_kahan((double)in[0][i], (double)to[i - at], &c);
            out[last][i] = c;
        }
    }
}

static void update_unit(void *ctx, int64_t i)
{
    struct update *u = ctx;
    const float   *g = (const float *)u->call->in[0].data + i * RUN, *in[4];
    float         *out[4];
    int64_t        n = run_length(u->n, i);

    for (int j = 0; j < u->call->n_out; j++) {
        in[j]  = (const float *)u->call->in[2 + j].data + i * RUN;
        out[j] = (float *)u->call->out[j].data + i * RUN;
    }
    if (u->master == STANCE_MASTER_BF16_KAHAN)
        run_compensated(u, g, in, out, n);
    else
        run_rule(u, g, in, out, n);
    if (u->master == STANCE_MASTER_BF16_STOCHASTIC)
        round_stochastically(u->call->in[1].data, (uint64_t)(i * RUN), out[0], n);
}

static stance_status run_update(struct update *u)
{
    const struct stance_update *step = u->call->in[1].data;

    u->n = stance_elements(&u->call->in[2].shape);
    if (step->skip)
        for (int j = 0; j < u->call->n_out; j++)
            copy(u->call->out[j].data, u->call->in[2 + j].data, u->call->in[2 + j].bytes);
    else
        stance_cpu_parallel(u->cpu, runs(u->n), update_unit, u);
    return STANCE_OK;
}

static stance_status adam(struct cpu *cpu, const struct stance_call *call, bool decoupled)
{
    const struct stance_adam   *a = call->attr;
    const struct stance_update *s = call->in[1].data;
    double                      b1 = a->betas.v[0], b2 = a->betas.v[1], t = (double)s->applied + 1;
    struct update               u = { .cpu = cpu, .call = call, .master = a->master };

    u.adam = (struct cpu_adam){
        .factor = (float)s->factor, .l2 = decoupled ? 0 : (float)a->weight_decay,
        .keep = decoupled ? (float)(1 - s->rate * a->weight_decay) : 1, .take1 = (float)(1 - b1), .beta2 = (float)b2,
        .take2 = (float)(1 - b2), .step = (float)(s->rate / (1 - pow(b1, t))),
        .inverse_root = (float)(1 / sqrt(1 - pow(b2, t))), .eps = (float)a->eps,
    };
    return run_update(&u);
}

static stance_status launch_adam(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    (void)kernel;
    return adam(cpu, call, false);
}

static stance_status launch_adamw(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    (void)kernel;
    return adam(cpu, call, true);
}

static stance_status launch_sgd(struct cpu *cpu, struct cpu_kernel *kernel, const struct stance_call *call)
{
    const struct stance_sgd    *a = call->attr;
    const struct stance_update *s = call->in[1].data;
    struct update               u = { .cpu = cpu, .call = call, .is_sgd = true, .master = a->master };

    (void)kernel;
    u.sgd = (struct cpu_sgd){ (float)s->factor, (float)a->weight_decay, (float)a->momentum,
                              s->applied == 0 ? 1 : (float)(1 - a->dampening), (float)s->rate, a->nesterov };
    return run_update(&u);
}

static const struct cpu_op accumulate = { "accumulate", offer_accumulate, NULL, launch_accumulate, NULL };
static const struct cpu_op loss_seed  = { "loss_seed", offer_seed, NULL, launch_seed, NULL };
static const struct cpu_op grad_check = { "grad_check", offer_check, NULL, launch_check, NULL };
static const struct cpu_op clip_value = { "clip_value", offer_clip, NULL, launch_clip, NULL };
static const struct cpu_op ema        = { "ema", offer_ema, NULL, launch_ema, NULL };
static const struct cpu_op commit     = { "commit", offer_commit, NULL, launch_commit, NULL };
static const struct cpu_op adam_op    = { "optimizer_adam", offer_adam, NULL, launch_adam, NULL };
static const struct cpu_op adamw_op   = { "optimizer_adamw", offer_adam, NULL, launch_adamw, NULL };
static const struct cpu_op sgd_op     = { "optimizer_sgd", offer_sgd, NULL, launch_sgd, NULL };

const struct cpu_op *const stance_cpu_update_ops[] = { &accumulate, &loss_seed, &grad_check, &clip_value,
                                                       &ema, &commit, &adam_op, &adamw_op, &sgd_op,
                                                       NULL };
