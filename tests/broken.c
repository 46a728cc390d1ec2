/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins with one fault each, and sound ones beside them: built once for every VARIANT that
 * tests/reg.mk lists, with NAME the word in the file name. */
#include <stance/device.h>
#include <stance/plugin.h>

#define GOOD          0
#define OLD_ABI       1
#define SMALL         2
#define OTHER_NAME    3
#define OTHER_KIND    4
#define NO_LICENSE    5
#define NO_FUNCTION   6
#define OUTSIDE       7
#define NO_SYMBOL     8
#define NO_LIBRARY    9
#define NO_DESCRIPTOR 10
#define UNSTABLE      11
#define STATE_OUTSIDE 12
#define NO_DOC        13

#define TEXT_(x)              #x
#define TEXT(x)               TEXT_(x)
#define DEFINE_(kind, name)   STANCE_PLUGIN(kind, name)
#define DEFINE(kind, name)    DEFINE_(kind, name)

#if VARIANT == NO_DESCRIPTOR
int broken_number;
#else

int   no_such_function_anywhere(int);
int   gone_value(void);
float helper(void);

/* Both sound plugins define it: each must see its own. */
float helper(void)
{
    return HELPER;
}

static float scale(const void *state, const void *config)
{
    (void)state;
    (void)config;
#if VARIANT == NO_SYMBOL
    return (float)no_such_function_anywhere(1);
#elif VARIANT == NO_LIBRARY
    return (float)gone_value();
#else
    return helper();
#endif
}

struct config { double x; };

static const struct stance_param params[] = {
#if VARIANT == OUTSIDE
    { "x", STANCE_PARAM_TYPE_F64, 0, 4, "1", 0, 2, NULL, "1", "a number" },
#elif VARIANT == NO_DOC
    { "x", STANCE_PARAM_TYPE_F64, 0, 0, "1", 0, 2, NULL, "1", NULL },
#else
    STANCE_PARAM_F64(struct config, x, "1", 0, 2, "1", "a number"),
#endif
    STANCE_PARAM_END
};

static const struct stance_param state[] = {
    { "x", STANCE_PARAM_TYPE_F64, 0, 8, "1", 0, 2, NULL, "1", "a number" },
    STANCE_PARAM_END
};

static const struct stance_scaler_ops ops = {
    .size       = sizeof ops,
    .state_size = VARIANT == STATE_OUTSIDE ? 8 : 16,
    .state      = state,
    .scale      = VARIANT == NO_FUNCTION ? NULL : scale,
};

#if VARIANT == UNSTABLE
DEFINE(device, NAME) = {
    .kind         = STANCE_KIND_DEVICE,
    .unstable_abi = STANCE_UNSTABLE_ABI + 7,
#else
DEFINE(scaler, NAME) = {
    .kind         = VARIANT == OTHER_KIND ? STANCE_KIND_LOSS : STANCE_KIND_SCALER,
#endif
    .abi          = VARIANT == OLD_ABI ? 9999 : STANCE_PLUGIN_ABI,
    .size         = VARIANT == SMALL ? 24 : sizeof(struct stance_plugin),
    .name         = VARIANT == OTHER_NAME ? "somebody" : TEXT(NAME),
    .version      = "1.0",
    .license      = VARIANT == NO_LICENSE ? "" : "Apache-2.0",
    .source       = "test",
    .summary      = "for tests",
    .params       = params,
    .config_size  = sizeof(struct config),
    .ops.scaler   = &ops,
};
#endif
