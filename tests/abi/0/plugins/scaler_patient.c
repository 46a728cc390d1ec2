/* SPDX-License-Identifier: Apache-2.0 */
/* Halves the loss scale with every overflow, and doubles it after some steps without one. */
#include <stance/plugin.h>

struct config { int64_t patience; };
struct state { double scale; int64_t good; };

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, patience, "100", 1, 1000000, "steps", "steps before it doubles"),
    STANCE_PARAM_END
};
static const struct stance_param fields[] = { /* first values; what a checkpoint keeps */
    STANCE_PARAM_F64(struct state, scale, "1024", 1, 16777216, "1", "factor of the coming step"),
    STANCE_PARAM_I64(struct state, good, "0", 0, 1000000, "steps", "steps since it changed"),
    STANCE_PARAM_END
};

static float scale(const void *state, const void *config)
{
    (void)config;
    return (float)((const struct state *)state)->scale;
}

static void update(void *state, const void *config, const struct stance_outcome *outcome)
{
    struct state *s = state;

    if (!outcome->overflow && ++s->good < ((const struct config *)config)->patience)
        return;
    s->good = 0;
    if (outcome->overflow ? s->scale > 1 : s->scale < 16777216)
        s->scale *= outcome->overflow ? 0.5 : 2;
}

static const struct stance_scaler_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .state = fields, .scale = scale, .update = update,
};
STANCE_PLUGIN(scaler, patient) = {
    STANCE_PLUGIN_HEAD, .kind = STANCE_KIND_SCALER, .name = "patient", .version = "1.0",
    .license = "Apache-2.0", .source = "an example", .summary = "halves, and doubles in its own time",
    .params = params, .config_size = sizeof(struct config), .ops.scaler = &ops,
};
