/* SPDX-License-Identifier: Apache-2.0 */
/* A constant factor. An overflow still skips its window, as in every framework since 2020; older
 * ones applied the poisoned update. */
#include <stance/plugin.h>

struct config { double scale; };

static const struct stance_param params[] = { STANCE_PARAM_F64(
                                                  struct config, scale, "512", 0x1p-126, 0x1p127,
                                                  "1", "factor of the loss, rounded to binary32"),
                                              STANCE_PARAM_END };

static float scale(const void *state, const void *config)
{
    (void)state;
    return (float)((const struct config *)config)->scale;
}

static const struct stance_scaler_ops ops = { .size = sizeof ops, .scale = scale };

STANCE_PLUGIN(scaler, static) = {
    STANCE_PLUGIN_HEAD,
    .kind    = STANCE_KIND_SCALER,
    .name    = "static",
    .version = "1.0",
    .license = "Apache-2.0",
    .source =
        "Micikevicius et al., Mixed Precision Training, ICLR 2018 (arXiv:1710.03740), section 3.2",
    .summary     = "one factor for the whole run",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.scaler  = &ops,
};
