/* SPDX-License-Identifier: Apache-2.0 */
/* No scaling: for binary32, and for bfloat16, whose exponent range is that of binary32. */
#include <stance/plugin.h>

static float scale(const void *state, const void *config)
{
    (void)state;
    (void)config;
    return 1;
}

static const struct stance_scaler_ops ops = { .size = sizeof ops, .scale = scale };

STANCE_PLUGIN(scaler, none) = {
    STANCE_PLUGIN_HEAD,
    .kind       = STANCE_KIND_SCALER,
    .name       = "none",
    .version    = "1.0",
    .license    = "Apache-2.0",
    .source     = "identity",
    .summary    = "no scaling (fp32, bf16)",
    .ops.scaler = &ops,
};
