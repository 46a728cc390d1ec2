/* SPDX-License-Identifier: Apache-2.0 */
/* The rate goes up and down between a fraction of the base rate and all of it.
 * Source: Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017. */
#include <stance/plugin.h>

struct config { int64_t period; double low; };

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, period, "1000", 2, 1000000000, "iterations", "one way up and down"),
    STANCE_PARAM_F64(struct config, low, "0.1", 0, 1, "1", "least share of the base rate"),
    STANCE_PARAM_END
};

/* A pure function of where the run is: a run that is resumed needs nothing else. */
static double rate(const void *config, const struct stance_progress *p)
{
    const struct config *c  = config;
    double               at = (double)(p->iteration % c->period) / (double)c->period;
    double               up = at < 0.5 ? 2 * at : 2 - 2 * at;

    return p->base_rate * (c->low + (1 - c->low) * up);
}

static const struct stance_schedule_ops ops = { .size = sizeof ops, .rate = rate };

STANCE_PLUGIN(schedule, triangle) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_SCHEDULE,
    .name         = "triangle",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "Smith, WACV 2017",
    .summary      = "up and down, again and again",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.schedule = &ops,
};
