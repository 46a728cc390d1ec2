/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies the rate by gamma at each of a list of epochs (or iterations), or every so many.
 * Source: MMCV 1.7 StepLrUpdaterHook. Its `step` is a list or one number; here these are two
 * settings, because a list of one element would read the same. */
#include <stance/plugin.h>

#include <math.h>

static const char *const warmups[] = STANCE_WARMUP_WORDS;

struct config {
    struct stance_list_i64 steps;
    int64_t                every;
    double                 gamma, min_lr;
    bool                   by_epoch;
    int                    warmup;
    int64_t                warmup_iters;
    double                 warmup_ratio;
};

static const struct stance_param params[] = {
    STANCE_PARAM_LIST_I64(
        struct config, steps, "[170, 200]", 0, 1e15, "epochs",
        "epochs (iterations without by_epoch), counted from 0, at which the rate falls"),
    STANCE_PARAM_I64_OR_NULL(
        struct config, every, "null", 1, 1e15, "epochs",
        "instead of steps: the rate falls each time so many epochs (iterations) are over"),
    STANCE_PARAM_F64(struct config, gamma, "0.1", 0, 1e3, "1", "factor of one fall"),
    STANCE_PARAM_F64_OR_NULL(struct config, min_lr, "null", 0, 1e3, "1",
                             "the rate never falls below this"),
    STANCE_PARAM_BOOL(struct config, by_epoch, "true", "steps count epochs; otherwise iterations"),
    STANCE_PARAM_ENUM(struct config, warmup, "null", warmups, "shape of the warm-up"),
    STANCE_PARAM_I64(struct config, warmup_iters, "500", 1, 1e15, "iterations",
                     "length of the warm-up"),
    STANCE_PARAM_F64(struct config, warmup_ratio, "0.001", 0, 1, "1",
                     "first factor of the warm-up"),
    STANCE_PARAM_END,
};

static double rate(const void *config, const struct stance_progress *p)
{
    const struct config *c        = config;
    int64_t              progress = c->by_epoch ? p->epoch : p->iteration, falls = 0;
    double               regular;

    if (c->every != INT64_MIN)
        falls = progress / c->every;
    else
        while (falls < c->steps.n && progress >= c->steps.v[falls])
            falls++;
    regular = p->base_rate * pow(c->gamma, (double)falls);
    if (regular < c->min_lr) /* false when there is none: it is NaN then */
        regular = c->min_lr;
    return stance_warmup((enum stance_warmup_shape)c->warmup, regular, p->iteration,
                         c->warmup_iters, c->warmup_ratio);
}

static const struct stance_schedule_ops ops = { .size = sizeof ops, .rate = rate };

STANCE_PLUGIN(schedule, step) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_SCHEDULE,
    .name         = "step",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "MMCV 1.7 StepLrUpdaterHook",
    .summary      = "falls by a factor at given epochs",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.schedule = &ops,
};
