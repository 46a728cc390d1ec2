/* SPDX-License-Identifier: Apache-2.0 */
/* Grows after growth_interval clean windows in a row, backs off after an overflow: the rule of
 * PyTorch's GradScaler (found by its defaults) and of MMCV's LossScaler (growth_interval =
 * scale_window, growth_factor = scale_factor, backoff_factor = 1/scale_factor). Two differences:
 * the floor min_scale, without which a diverged run reaches a factor of 0 and then writes NaN to
 * its weights; and the ceiling max_scale, the largest power of two whose inverse is a normal
 * binary32. */
#include <stance/plugin.h>

#define SCALE_MIN 0x1p-126
#define SCALE_MAX 0x1p127

struct config {
    double  init_scale, growth_factor, backoff_factor;
    int64_t growth_interval;
    double  min_scale, max_scale;
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, init_scale, "65536", SCALE_MIN, SCALE_MAX, "1",
                     "factor of the first window, if within min_scale and max_scale"),
    STANCE_PARAM_F64(struct config, growth_factor, "2", 1, 65536, "1",
                     "growth; 1: the factor never grows"),
    STANCE_PARAM_F64(struct config, backoff_factor, "0.5", 0.0001, 0.99, "1",
                     "back-off after an overflow"),
    STANCE_PARAM_I64(struct config, growth_interval, "2000", 1, 1000000, "steps",
                     "clean windows in a row before the factor grows"),
    STANCE_PARAM_F64(struct config, min_scale, "1", 0, SCALE_MAX, "1",
                     "floor of the factor; 0: none, as in PyTorch"),
    STANCE_PARAM_F64(struct config, max_scale, "1.7014118346046923e38", SCALE_MIN, SCALE_MAX, "1",
                     "ceiling of the factor; 2^127"),
    STANCE_PARAM_END
};

/* The settings are part of the state, because on resume those of the checkpoint win, as they do in
 * PyTorch and MMCV. */
struct state {
    double        scale; /* a binary32 */
    int64_t       growth_tracker; /* clean windows since it last changed or overflowed */
    struct config c;
};

#define F64(key, field, dflt, lo, hi, doc) \
    STANCE_PARAM_ROW(key, struct state, field, double, STANCE_PARAM_TYPE_F64, 0, dflt, lo, hi, NULL, "1", doc)
#define I64(key, field, dflt, lo, hi, doc) \
    STANCE_PARAM_ROW(key, struct state, field, int64_t, STANCE_PARAM_TYPE_I64, 0, dflt, lo, hi, NULL, "steps", doc)

static const struct stance_param state_table[] = {
    F64("scale", scale, "65536", 0, SCALE_MAX, "factor of the coming window"),
    I64("growth_tracker", growth_tracker, "0", 0, 1000000, "clean windows in a row"),
    F64("growth_factor", c.growth_factor, "2", 1, 65536, "as configured"),
    F64("backoff_factor", c.backoff_factor, "0.5", 0.0001, 0.99, "as configured"),
    I64("growth_interval", c.growth_interval, "2000", 1, 1000000, "as configured"),
    F64("min_scale", c.min_scale, "1", 0, SCALE_MAX, "as configured"),
    F64("max_scale", c.max_scale, "1.7014118346046923e38", SCALE_MIN, SCALE_MAX, "as configured"),
    STANCE_PARAM_END
};

/* Rounded where PyTorch rounds: once, after the product. */
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
    struct state *s = state;

    s->c     = *(const struct config *)config;
    s->scale = within(&s->c, s->c.init_scale);
}

static float scale(const void *state, const void *config)
{
    (void)config;
    return (float)((const struct state *)state)->scale;
}

static void update(void *state, const void *config, const struct stance_outcome *outcome)
{
    struct state *s = state;

    (void)config;
    if (outcome->overflow) {
        s->scale          = within(&s->c, s->scale * s->c.backoff_factor);
        s->growth_tracker = 0;
    } else if (++s->growth_tracker >= s->c.growth_interval) {
        s->scale          = within(&s->c, s->scale * s->c.growth_factor);
        s->growth_tracker = 0;
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

STANCE_PLUGIN(scaler, dynamic) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_SCALER,
    .name        = "dynamic",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "torch.amp.GradScaler (PyTorch); LossScaler (MMCV 1.7)",
    .summary     = "doubles after clean windows, halves on overflow",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.scaler  = &ops,
};
