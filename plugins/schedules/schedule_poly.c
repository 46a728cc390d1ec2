/* SPDX-License-Identifier: Apache-2.0
 *
 * Falls as a power of what is left of the run.
 * Source: MMCV 1.7 PolyLrUpdaterHook. */
#include <stance/plugin.h>

#include <math.h>

static const char *const warmups[] = STANCE_WARMUP_WORDS;

struct config {
    double  power, min_lr;
    bool    by_epoch;
    int     warmup;
    int64_t warmup_iters;
    double  warmup_ratio;
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, power, "1", 0, 100, "1", "exponent; 1 is a straight line"),
    STANCE_PARAM_F64(struct config, min_lr, "0", 0, 1e3, "1", "rate at the end"),
    STANCE_PARAM_BOOL(struct config, by_epoch, "true",
                      "changes at the begin of each epoch; otherwise each iteration"),
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
    int64_t              length   = c->by_epoch ? p->epochs : p->epochs * p->iterations_per_epoch;
    int64_t              progress = c->by_epoch ? p->epoch : p->iteration;
    double               left     = length > 0 ? 1 - (double)progress / (double)length : 0;
    double regular = (p->base_rate - c->min_lr) * pow(left > 0 ? left : 0, c->power) + c->min_lr;

    return stance_warmup((enum stance_warmup_shape)c->warmup, regular, p->iteration,
                         c->warmup_iters, c->warmup_ratio);
}

static const struct stance_schedule_ops ops = { .size = sizeof ops, .rate = rate };

STANCE_PLUGIN(schedule, poly) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_SCHEDULE,
    .name         = "poly",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "MMCV 1.7 PolyLrUpdaterHook",
    .summary      = "falls as a power of what is left of the run",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.schedule = &ops,
};
