/* SPDX-License-Identifier: Apache-2.0 */
/* As dynamic, but the first overflows are forgiven: only when `hysteresis` of them have come does
 * the factor back off, and then with every further one until it grows again. Clean windows alone do
 * not refill the patience. */
#include <stance/plugin.h>

#define SCALE_MIN 0x1p-126
#define SCALE_MAX 0x1p127

struct config {
    double  init_scale, growth_factor, backoff_factor;
    int64_t growth_interval, hysteresis;
    double  min_scale, max_scale;
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, init_scale, "65536", SCALE_MIN, SCALE_MAX, "1",
                     "factor of the first window, if within min_scale and max_scale"),
    STANCE_PARAM_F64(struct config, growth_factor, "2", 1, 65536, "1",
                     "growth; 1: the factor never grows"),
    STANCE_PARAM_F64(struct config, backoff_factor, "0.5", 0.0001, 0.99, "1",
                     "back-off after overflows"),
    STANCE_PARAM_I64(struct config, growth_interval, "1000", 1, 1000000, "steps",
                     "clean windows in a row before the factor grows"),
    STANCE_PARAM_I64(struct config, hysteresis, "2", 1, 1000000, "steps",
                     "overflows until the factor backs off"),
    STANCE_PARAM_F64(struct config, min_scale, "1", SCALE_MIN, SCALE_MAX, "1",
                     "floor of the factor"),
    STANCE_PARAM_F64(struct config, max_scale, "1.7014118346046923e38", SCALE_MIN, SCALE_MAX, "1",
                     "ceiling of the factor; 2^127"),
    STANCE_PARAM_END
};

struct state {
    double  scale; /* a binary32 */
    int64_t growth_tracker, hysteresis_tracker;
};

static const struct stance_param state_table[] = {
    STANCE_PARAM_F64(struct state, scale, "65536", SCALE_MIN, SCALE_MAX, "1",
                     "factor of the coming window"),
    STANCE_PARAM_I64(struct state, growth_tracker, "0", 0, 1000000, "steps",
                     "clean windows in a row"),
    STANCE_PARAM_I64(struct state, hysteresis_tracker, "2", -1000000000, 1000000, "steps",
                     "overflows that are still forgiven, and below 1 how many were not"),
    STANCE_PARAM_END
};

static double within(const struct config *c, double scale)
{
    float s = (float)scale;

    if (s < c->min_scale)
        s = (float)c->min_scale;
    if (s > c->max_scale)
        s = (float)c->max_scale;
    return s;
}

static void start(void *state, const void *config)
{
    const struct config *c = config;
    struct state        *s = state;

    s->scale              = within(c, c->init_scale);
    s->hysteresis_tracker = c->hysteresis;
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

    if (outcome->overflow) {
        s->growth_tracker = 0;
        if (s->hysteresis_tracker > -1000000000)
            s->hysteresis_tracker--;
        if (s->hysteresis_tracker <= 0)
            s->scale = within(c, s->scale * c->backoff_factor);
    } else if (++s->growth_tracker >= c->growth_interval) {
        s->growth_tracker     = 0;
        s->hysteresis_tracker = c->hysteresis;
        s->scale              = within(c, s->scale * c->growth_factor);
    }
}

static const struct stance_scaler_ops ops = {
    .size       = sizeof ops,
    .state_size = sizeof(struct state),
    .state      = state_table,
    .start      = start,
    .scale      = scale,
    .update     = update,
};

STANCE_PLUGIN(scaler, hysteresis) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_SCALER,
    .name        = "hysteresis",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "DynamicGradScaler (Megatron-LM)",
    .summary     = "as dynamic, but forgives the first overflows",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.scaler  = &ops,
};
