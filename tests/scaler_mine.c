/* SPDX-License-Identifier: Apache-2.0 */
/* A scaler that nobody of stance has written: built by one line, outside its tree. Halves its
 * factor with every overflow and never grows. */
#include <stance/plugin.h>

struct config { double first; };
struct state { double scale; };

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, first, "1024", 1, 16777216, "1", "factor of the first window"),
    STANCE_PARAM_END
};
static const struct stance_param fields[] = {
    STANCE_PARAM_F64(struct state, scale, "1024", 1, 16777216, "1", "factor of the coming window"),
    STANCE_PARAM_END
};

static void start(void *state, const void *config)
{
    ((struct state *)state)->scale = ((const struct config *)config)->first;
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
    if (outcome->overflow && s->scale > 1)
        s->scale /= 2;
}

static const struct stance_scaler_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .state = fields,
    .start = start, .scale = scale, .update = update,
};

STANCE_PLUGIN(scaler, mine) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_SCALER,
    .name        = "mine",
    .version     = "0.1",
    .license     = "Apache-2.0",
    .source      = "an example",
    .summary     = "halves with every overflow",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.scaler  = &ops,
};
