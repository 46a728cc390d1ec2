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
    double               memory[6][N]; /* room for either type */
    struct stance_tensor in[6];
    struct stance_call   call;
};

static void rig_open(struct rig *r, const struct stance_plugin *p, enum stance_type type,
                     const char *const *set)
{
    struct stance_error err   = STANCE_ERROR_INIT;
    int                 slots;

    memset(r, 0, sizeof *r);
    r->plugin = p;
    r->op     = p->ops.optimizer->update;
    ck_assert(p->config_size <= sizeof r->config && r->op->attr_size == p->config_size);
    ck_assert_msg(stance_param_defaults(p->params, &r->config, &err) == STANCE_OK, "%s", err.text);
    for (; *set != NULL; set += 2)
        ck_assert_msg(stance_param_set(p->params, &r->config, set[0], set[1], &err) == STANCE_OK,
                      "%s", err.text);
    slots = p->ops.optimizer->slots_used(&r->config);
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
    double     before[6][N];

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

/* ---- masters of 8 bits --------------------------------------------------------------------------------- */

enum { MANY = 4096 };

/* SGD of rate 2^-9 on a gradient of -1 from weights of 1: a quarter of a unit of bfloat16 a step. */
static void climb(const char *master, uint64_t seed, int from, int to, float w[MANY], float c[MANY])
{
    static float         gradient[MANY], buffer[MANY];
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_sgd    config;
    struct stance_update u = { .size = sizeof u, .rate = 0x1p-9, .factor = 1, .seed = seed };
    struct stance_shape  shape = { 1, { MANY } };
    struct stance_tensor in[5] = {
        { gradient, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, sizeof gradient },
        { &u, STANCE_TYPE_U8, STANCE_TYPE_U8, 0, { 1, { sizeof u } }, sizeof u },
        { w, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, sizeof gradient },
        { buffer, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, sizeof gradient },
        { c, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, shape, sizeof gradient },
    };
    struct stance_call call = { .size = sizeof call, .attr = &config, .in = in, .out = in + 2 };

    ck_assert_int_eq(stance_param_defaults((SGD)->params, &config, &err), STANCE_OK);
    ck_assert_int_eq(stance_param_set((SGD)->params, &config, "master", master, &err), STANCE_OK);
    call.n_out = 1 + (SGD)->ops.optimizer->slots_used(&config);
    call.n_in  = 2 + call.n_out;
    for (int i = 0; i < MANY; i++) {
        gradient[i] = -1;
        if (from == 0) {
            w[i] = 1;
            c[i] = 0;
        }
    }
    for (u.applied = (uint64_t)from; u.applied < (uint64_t)to; u.applied++)
        ck_assert_int_eq((SGD)->ops.optimizer->update->reference(&call), STANCE_OK);
}

static double mean_of(const float *w)
{
    double sum = 0;

    for (int i = 0; i < MANY; i++)
        sum += (double)w[i];
    return sum / MANY;
}

/* 64 steps of a quarter of a unit, 2^-7, add up to 16 units = 0.125. */
START_TEST(small_updates_of_bfloat16_masters)
{
    static float w[MANY], c[MANY], other[MANY], again[MANY];

    /* Rounded to nearest, each is lost: what the two remedies are for. */
    ck_assert(rounding_nearest(1 + 0x1p-9F) == 1 && rounding_nearest(1 + 0x1p-7F) == 1 + 0x1p-7F);
    climb("fp32", 1, 0, 64, w, c);
    ck_assert(w[0] == 1.125F && w[MANY - 1] == 1.125F);
    /* At random: 64 draws of probability 1/4, each of one unit; five standard deviations of the mean of 4096. */
    climb("bf16_stochastic", 1, 0, 64, w, c);
    ck_assert_msg(fabs(mean_of(w) - 1.125) <= 5 * sqrt(64 * 0.25 * 0.75) * 0x1p-7 / 64, "%.6f", mean_of(w));
    for (int i = 0; i < MANY; i++)
        ck_assert(rounding_nearest(w[i]) == w[i] && w[i] >= 1);
    /* By compensation: the pair is exact here, where 4 steps make one unit, and the weight within half of one. */
    climb("bf16_kahan", 1, 0, 64, other, c);
    for (int i = 0; i < MANY; i++)
        ck_assert(other[i] == 1.125F && c[i] == 0);
    climb("bf16_kahan", 1, 0, 63, other, c);
    for (int i = 0; i < MANY; i++)
        ck_assert((double)other[i] - (double)c[i] == 1.125 - 0x1p-9 && rounding_nearest(c[i]) == c[i]);
    /* The same seed gives the same bytes, also in two halves; another one others. */
    climb("bf16_stochastic", 1, 0, 20, again, c);
    climb("bf16_stochastic", 1, 20, 64, again, c);
    ck_assert(memcmp(w, again, sizeof w) == 0);
    climb("bf16_stochastic", 2, 0, 64, again, c);
    ck_assert(memcmp(w, again, sizeof w) != 0);
}
END_TEST

/* Over all 2^16 draws the mean of what a number is rounded to is the number, exactly. */
START_TEST(stochastic_rounding_is_unbiased)
{
    static const float values[] = { 1.0009765F, -3.14159F, 1e-3F, 6.5e4F, 0x1.fefep-20F, -0x1p-126F, 1e-39F, 0 };
    static const float kept[]   = { INFINITY, -INFINITY, NAN };

    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        double sum = 0;

        for (uint32_t r = 0; r < 65536; r++)
            sum += (double)rounding_cut(values[k], r);
        ck_assert_msg(sum / 65536 == (double)values[k], "%.9g: %.17g", (double)values[k], sum / 65536);
    }
    for (int k = 0; k < 3; k++)
        for (uint32_t r = 0; r < 65536; r += 4369) {
            float v = rounding_cut(kept[k], r);

            ck_assert(memcmp(&v, &kept[k], sizeof v) == 0);
        }
}
END_TEST

/* The bits of each element and step look like draws of their own: each of the 16 is set half of the time. */
START_TEST(rounding_bits_are_fair)
{
    int      set[16] = { 0 }, same = 0;
    uint16_t a[8], b[8];

    for (uint64_t block = 0; block < 4096; block++) {
        rounding_bits(7, block % 64, block, a);
        rounding_bits(7, block % 64 + 1, block, b);
        for (int i = 0; i < 8; i++) {
            same += a[i] == b[i];
            for (int k = 0; k < 16; k++)
                set[k] += a[i] >> k & 1;
        }
    }
    /* Of 32768 draws: five standard deviations are 453; equal ones by chance: half of one. */
    for (int k = 0; k < 16; k++)
        ck_assert_msg(abs(set[k] - 16384) <= 453, "bit %d: %d", k, set[k]);
    ck_assert_int_le(same, 5);
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
    { ADAM, { "master", "bf16_kahan", NULL }, 0, 0, STANCE_OK, "" },
    { ADAMW, { "master", "bf16_kahan", NULL }, 1, 0, STANCE_ERR_SHAPE, "5 operands" },
    { ADAM, { NULL }, 0, 4, STANCE_ERR_SHAPE, "operand 4 has 8 elements" },
    { SGD, { "nesterov", "true", NULL }, 0, 0, STANCE_ERR_INVAL, "nesterov" },
    { SGD, { NULL }, 0, 2, STANCE_ERR_SHAPE, "operand 2 has 8 elements" },
};

START_TEST(shape_rules)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_shape in[6], out[4];
    enum stance_type    type[4] = { STANCE_TYPE_ANY };
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
    tcase_add_test(t, small_updates_of_bfloat16_masters);
    tcase_add_test(t, stochastic_rounding_is_unbiased);
    tcase_add_test(t, rounding_bits_are_fair);
    tcase_add_loop_test(t, shape_rules, 0, sizeof shapes / sizeof shapes[0]);
    suite_add_tcase(s, t);
    return run_suite(s);
}
