/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include "../plugins/optimizers/optimizers.h"

extern const struct stance_plugin optimizer_adam_LTX_stance_plugin,
    optimizer_adamw_LTX_stance_plugin, optimizer_sgd_LTX_stance_plugin;

#define ADAM  &optimizer_adam_LTX_stance_plugin
#define ADAMW &optimizer_adamw_LTX_stance_plugin
#define SGD   &optimizer_sgd_LTX_stance_plugin
#define N     7 /* elements of an array: odd, so that no vector width divides it */

/* A plugin with its config and arrays: gradient, update block, master, slots. */
struct rig {
    const struct stance_op_ops *op;
    const struct stance_plugin *plugin;
    union {
        struct stance_adam adam;
        struct stance_sgd  sgd;
    } config;
    struct stance_update update;
    double               memory[5][N]; /* room for either type */
    struct stance_tensor in[5];
    struct stance_call   call;
};

static void rig_open(struct rig *r, const struct stance_plugin *p, enum stance_type type,
                     const char *const *set)
{
    struct stance_error err   = STANCE_ERROR_INIT;
    int                 slots = p->ops.optimizer->slots;

    memset(r, 0, sizeof *r);
    r->plugin = p;
    r->op     = p->ops.optimizer->update;
    ck_assert(p->config_size <= sizeof r->config && r->op->attr_size == p->config_size);
    ck_assert_msg(stance_param_defaults(p->params, &r->config, &err) == STANCE_OK, "%s", err.text);
    for (; *set != NULL; set += 2)
        ck_assert_msg(stance_param_set(p->params, &r->config, set[0], set[1], &err) == STANCE_OK,
                      "%s", err.text);
    for (int i = 0; i < 3 + slots; i++) {
        r->in[i] = (struct stance_tensor){ r->memory[i], type,
                                           type,         0,
                                           { 1, { N } }, N * stance_type_size(type) };
        if (i == 1)
            r->in[i] = (struct stance_tensor){ &r->update, STANCE_TYPE_U8, STANCE_TYPE_U8, 0,
                                               { 1, { sizeof r->update } }, sizeof r->update };
    }
    r->update.size   = sizeof r->update;
    r->update.rate   = p->ops.optimizer->base_rate(&r->config);
    r->update.factor = 1;
    r->call          = (struct stance_call){ .size  = sizeof r->call,
                                             .attr  = &r->config,
                                             .in    = r->in,
                                             .out   = r->in + 2,
                                             .n_in  = 3 + slots,
                                             .n_out = 1 + slots };
}

static void put(struct rig *r, int array, int i, double v)
{
    optimizer_put(&r->in[array], i, v);
}

static double get(const struct rig *r, int array, int i)
{
    return optimizer_get(&r->in[array], i);
}

static void step(struct rig *r)
{
    ck_assert_int_eq(r->op->reference(&r->call), STANCE_OK);
    r->update.applied += !r->update.skip;
}

/* Values measured with PyTorch, printed to ten digits: half a unit of the last one. */
START_TEST(adam_matches_the_published_vector)
{
    static const double g[]        = { 0.1, -0.2, 0.3 },
                        want[]     = { 0.99950000005, 0.9996830518, 0.9995114313 };
    static const char *const set[] = { "lr", "5e-4", NULL };
    struct rig               r;

    rig_open(&r, ADAM, STANCE_TYPE_F64, set);
    for (int i = 0; i < N; i++)
        put(&r, 2, i, 1);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < N; i++)
            put(&r, 0, i, g[t]);
        step(&r);
        ck_assert_double_eq_tol(get(&r, 2, 0), want[t], 0.5e-10);
        ck_assert(get(&r, 2, N - 1) == get(&r, 2, 0));
    }
}
END_TEST

/* The textbook forms, written apart from the plugins: Algorithm 1 of the Adam paper with its
 * corrected moments, the decoupled decay of AdamW, and SGD from its sums. */
static void textbook(const struct stance_plugin *p, const struct rig *r, double *w, double *m,
                     double *v, double g, int t)
{
    const struct stance_adam *a = &r->config.adam;
    const struct stance_sgd  *s = &r->config.sgd;

    if (p == SGD) {
        g += s->weight_decay * *w;
        *m = t == 1 ? g : s->momentum * *m + (1 - s->dampening) * g;
        *w -= s->lr * (s->nesterov ? g + s->momentum * *m : s->momentum > 0 ? *m : g);
        return;
    }
    if (p == ADAM)
        g += a->weight_decay * *w;
    else
        *w -= a->lr * a->weight_decay * *w;
    *m = a->betas.v[0] * *m + (1 - a->betas.v[0]) * g;
    *v = a->betas.v[1] * *v + (1 - a->betas.v[1]) * g * g;
    *w -= a->lr * (*m / (1 - pow(a->betas.v[0], t)))
        / (sqrt(*v / (1 - pow(a->betas.v[1], t))) + a->eps);
}

static const struct {
    const struct stance_plugin *plugin;
    const char                 *set[9];
} rules[] = {
    { ADAM, { "lr", "5e-4", NULL } },
    { ADAM, { "lr", "1e-2", "weight_decay", "0.1", "betas", "[0.8, 0.99]", "eps", "1e-3", NULL } },
    { ADAMW, { "lr", "5e-4", "weight_decay", "0.1", NULL } },
    { SGD, { "lr", "1e-2", NULL } },
    { SGD, { "lr", "1e-2", "momentum", "0.9", "weight_decay", "1e-3", NULL } },
    { SGD, { "lr", "1e-2", "momentum", "0.9", "dampening", "0.5", NULL } },
    { SGD, { "lr", "1e-2", "momentum", "0.9", "nesterov", "true", "weight_decay", "1e-3", NULL } },
};

/* 1000 steps of noisy gradients of a quadratic, at a loss scale of 1024 with every tenth window
 * skipped. binary64: the two differ by the order of operations, a few units in the last place a
 * step: 1000 * 10 * 2^-53 of values near 1. binary32: masters and moments are rounded once a step,
 * to half a unit (2^-24, of weights below 8 in magnitude): a random walk, bounded by 1000 * 8 *
 * 2^-24 = 5e-4. */
static void long_run(int rule, enum stance_type type, double tolerance)
{
    const struct stance_plugin *p = rules[rule].plugin;
    double                      w[N], m[N] = { 0 }, v[N] = { 0 };
    uint32_t                    noise = 1;
    struct rig                  r;

    rig_open(&r, p, type, rules[rule].set);
    for (int i = 0; i < N; i++) {
        w[i] = i - 3;
        put(&r, 2, i, w[i]);
    }
    for (int t = 1, window = 0; t <= 1000; window++) {
        r.update.skip   = window % 10 == 3;
        r.update.factor = 1.0 / 1024;
        for (int i = 0; i < N; i++) {
            double g;

            noise = noise * 1664525 + 1013904223;
            g     = (float)(0.1 * (w[i] - 0.5) + noise / 4294967296.0 - 0.5);
            put(&r, 0, i, r.update.skip ? HUGE_VAL : g * 1024);
            if (!r.update.skip)
                textbook(p, &r, &w[i], &m[i], &v[i], g, t);
        }
        t += !r.update.skip;
        step(&r);
    }
    ck_assert_uint_eq(r.update.applied, 1000);
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabs(get(&r, 2, i) - w[i]) <= tolerance, "rule %d: %.17g instead of %.17g",
                      rule, get(&r, 2, i), w[i]);
}

START_TEST(a_thousand_steps_double)
{
    long_run(_i, STANCE_TYPE_F64, 2e-12);
}
END_TEST

START_TEST(a_thousand_steps_single)
{
    long_run(_i, STANCE_TYPE_F32, 5e-4);
}
END_TEST

START_TEST(skipping_touches_nothing)
{
    struct rig r;
    double     before[5][N];

    rig_open(&r, rules[_i].plugin, STANCE_TYPE_F32, rules[_i].set);
    for (int a = 0; a < r.call.n_in; a++)
        for (int i = 0; i < N && a != 1; i++)
            put(&r, a, i, a == 0 ? NAN : 0.3 * a + i);
    r.update.skip   = 1;
    r.update.factor = NAN;
    memcpy(before, r.memory, sizeof before);
    step(&r);
    ck_assert_int_eq(memcmp(before, r.memory, sizeof before), 0);
}
END_TEST

/* cases/loss-scale/small-updates-survive. */
START_TEST(small_updates_survive)
{
    static const char *const set[] = { "lr", "1e-4", "momentum", "0", NULL };
    struct rig               r;

    rig_open(&r, SGD, STANCE_TYPE_F32, set);
    put(&r, 2, 0, 1);
    put(&r, 0, 0, 1024);
    r.update.factor = 1.0 / 1024;
    for (int t = 0; t < 100; t++)
        step(&r);
    ck_assert_double_eq_tol(get(&r, 2, 0), 0.99, 1e-5);
}
END_TEST

static const struct {
    const struct stance_plugin *plugin;
    const char                 *set[5];
    int                         drop, longer; /* operands left out; an array that is longer, or 0 */
    stance_status               want;
    const char                 *says;
} shapes[] = {
    { ADAM, { NULL }, 0, 0, STANCE_OK, "" },
    { ADAM, { "betas", "[0.9]", NULL }, 0, 0, STANCE_ERR_INVAL, "betas: 1 numbers instead of 2" },
    { ADAMW, { "betas", "[]", NULL }, 0, 0, STANCE_ERR_INVAL, "betas: 0 numbers instead of 2" },
    { ADAM, { NULL }, 1, 0, STANCE_ERR_SHAPE, "4 operands" },
    { ADAM, { NULL }, 0, 4, STANCE_ERR_SHAPE, "operand 4 has 8 elements" },
    { SGD, { "nesterov", "true", NULL }, 0, 0, STANCE_ERR_INVAL, "nesterov" },
    { SGD, { NULL }, 0, 2, STANCE_ERR_SHAPE, "operand 2 has 8 elements" },
};

START_TEST(shape_rules)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_shape in[5], out[3];
    enum stance_type    type[3] = { STANCE_TYPE_ANY };
    struct rig          r;

    rig_open(&r, shapes[_i].plugin, STANCE_TYPE_F32, shapes[_i].set);
    for (int i = 0; i < r.call.n_in; i++)
        in[i] = r.in[i].shape;
    in[shapes[_i].longer].dim[0] += shapes[_i].longer > 0;
    ck_assert_int_eq(
        r.op->shape(&r.config, in, r.call.n_in - shapes[_i].drop, out, type, r.call.n_out, &err),
        shapes[_i].want);
    ck_assert_msg(strstr(err.text, shapes[_i].says) != NULL, "says: %s", err.text);
    for (int i = 0; i < r.call.n_out && shapes[_i].want == STANCE_OK; i++)
        ck_assert(stance_elements(&out[i]) == N && type[i] == STANCE_TYPE_F32);
}
END_TEST

int main(void)
{
    Suite    *s     = suite_create("optimizers");
    TCase    *t     = tcase_create("optimizers");
    const int count = sizeof rules / sizeof rules[0];

    tcase_add_test(t, adam_matches_the_published_vector);
    tcase_add_loop_test(t, a_thousand_steps_double, 0, count);
    tcase_add_loop_test(t, a_thousand_steps_single, 0, count);
    tcase_add_loop_test(t, skipping_touches_nothing, 0, count);
    tcase_add_test(t, small_updates_survive);
    tcase_add_loop_test(t, shape_rules, 0, sizeof shapes / sizeof shapes[0]);
    suite_add_tcase(s, t);
    return run_suite(s);
}
