/* SPDX-License-Identifier: Apache-2.0
 *
 * Falls along half a cosine from the base rate to the last one over the whole run.
 * Source: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 without restarts; settings as in
 * MMCV 1.7 CosineAnnealingLrUpdaterHook. */
#include <stance/plugin.h>

#include <math.h>

static const char *const warmups[] = STANCE_WARMUP_WORDS;

struct config {
    double  min_lr, min_lr_ratio;
    bool    by_epoch;
    int     warmup;
    int64_t warmup_iters;
    double  warmup_ratio;
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, min_lr, "0", 0, 1e3, "1", "rate at the end"),
    STANCE_PARAM_F64_OR_NULL(struct config, min_lr_ratio, "null", 0, 1, "1",
                             "instead of min_lr: rate at the end, as a part of the base rate"),
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
    const double         pi       = 3.14159265358979323846;
    const struct config *c        = config;
    int64_t              length   = c->by_epoch ? p->epochs : p->epochs * p->iterations_per_epoch;
    int64_t              progress = c->by_epoch ? p->epoch : p->iteration;
    double               last = isnan(c->min_lr_ratio) ? c->min_lr : p->base_rate * c->min_lr_ratio;
    double               done = length > 0 ? (double)progress / (double)length : 1;
    double regular = last + 0.5 * (p->base_rate - last) * (cos(pi * (done < 1 ? done : 1)) + 1);

    return stance_warmup((enum stance_warmup_shape)c->warmup, regular, p->iteration,
                         c->warmup_iters, c->warmup_ratio);
}

static const struct stance_schedule_ops ops = { .size = sizeof ops, .rate = rate };

STANCE_PLUGIN(schedule, cosine) = {
    STANCE_PLUGIN_HEAD,
    .kind         = STANCE_KIND_SCHEDULE,
    .name         = "cosine",
    .version      = "1.0",
    .license      = "Apache-2.0",
    .source       = "Loshchilov and Hutter, ICLR 2017; MMCV 1.7 CosineAnnealingLrUpdaterHook",
    .summary      = "half a cosine over the whole run",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.schedule = &ops,
};
