/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the largest gradient of a window as log-normal, and scales so that only one window in a
 * thousand would exceed 2^log_max. Where OpenSeq2Seq takes 2^log_max for the logarithm of an
 * overflowed window, which drives the factor to its floor for a long time, log_max is taken here;
 * an all-zero gradient says nothing and is passed over. */
#include <stance/plugin.h>

#include <math.h>

struct config {
    double init_scale, log_max, beta1, beta2, quantile, min_scale, max_scale;
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, init_scale, "1", 0x1p-126, 0x1p127, "1",
                     "factor of the first window"),
    STANCE_PARAM_F64(struct config, log_max, "16", -100, 127, "1",
                     "binary logarithm of the largest scaled gradient wanted"),
    STANCE_PARAM_F64(struct config, beta1, "0.99", 0, 0.999999, "1",
                     "decay of the average that is the mean"),
    STANCE_PARAM_F64(struct config, beta2, "0.999", 0, 0.999999, "1",
                     "decay of the averages that give the deviation"),
    STANCE_PARAM_F64(struct config, quantile, "3.09", 0, 10, "1",
                     "deviations above the mean; 3.09: 99.9 % of a normal law"),
    STANCE_PARAM_F64(struct config, min_scale, "1", 0x1p-126, 0x1p127, "1", "floor of the factor"),
    STANCE_PARAM_F64(struct config, max_scale, "16777216", 0x1p-126, 0x1p127, "1",
                     "ceiling of the factor; 2^24"),
    STANCE_PARAM_END
};

struct state {
    double  scale;
    double  mean, slow_mean, slow_square; /* decaying sums, not yet divided by 1 - beta^count */
    int64_t count;
};

static const struct stance_param state_table[] = {
    STANCE_PARAM_F64(struct state, scale, "1", 0x1p-126, 0x1p127, "1",
                     "factor of the coming window"),
    STANCE_PARAM_F64(struct state, mean, "0", -1100, 1100, "1",
                     "average of log2 of the largest gradient by beta1"),
    STANCE_PARAM_F64(struct state, slow_mean, "0", -1100, 1100, "1", "the same by beta2"),
    STANCE_PARAM_F64(struct state, slow_square, "0", 0, 1210000, "1",
                     "average of its square by beta2"),
    STANCE_PARAM_I64(struct state, count, "0", 0, 9e15, "steps", "windows averaged"),
    STANCE_PARAM_END
};

static double within(const struct config *c, double scale)
{
    float s = (float)(scale < 0x1p127 ? scale : 0x1p127);

    if (s < c->min_scale)
        s = (float)c->min_scale;
    if (s > c->max_scale)
        s = (float)c->max_scale;
    return s;
}

static void start(void *state, const void *config)
{
    const struct config *c = config;

    ((struct state *)state)->scale = within(c, c->init_scale);
}

static float scale(const void *state, const void *config)
{
    (void)config;
    return (float)((const struct state *)state)->scale;
}

static void update(void *state, const void *config, const struct stance_outcome *outcome)
{
    const struct config *c = config;
    struct state        *s = state;
    double               x, n, mean, slow, variance, deviation;

    if (!outcome->overflow && !(outcome->max_abs > 0 && isfinite(outcome->max_abs)))
        return;
    x = outcome->overflow ? c->log_max : log2(outcome->max_abs);
    n = (double)++s->count;
    s->mean        = c->beta1 * s->mean + (1 - c->beta1) * x;
    s->slow_mean   = c->beta2 * s->slow_mean + (1 - c->beta2) * x;
    s->slow_square = c->beta2 * s->slow_square + (1 - c->beta2) * x * x;

    mean      = s->mean / (1 - pow(c->beta1, n));
    slow      = s->slow_mean / (1 - pow(c->beta2, n));
    variance  = s->slow_square / (1 - pow(c->beta2, n)) - slow * slow;
    deviation = sqrt(variance > 0 ? variance : 0);
    s->scale  = within(c, exp2(c->log_max - (mean + c->quantile * deviation)));
}

static const struct stance_scaler_ops ops = {
    .size       = sizeof ops,
    .state_size = sizeof(struct state),
    .state      = state_table,
    .wants      = STANCE_WANT_MAX_ABS,
    .start      = start,
    .scale      = scale,
    .update     = update,
};

STANCE_PLUGIN(scaler, lognormal) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_SCALER,
    .name        = "lognormal",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "LogMaxScaler (OpenSeq2Seq); Kuchaiev et al., arXiv:1805.10387",
    .summary     = "keeps the 99.9 % quantile of the largest gradient below 2^16",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.scaler  = &ops,
};
