/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of another interface whose constructor says that it ran, and one of this interface beside it. */
#include <stance/plugin.h>

#include <stdlib.h>

__attribute__((constructor)) static void early(void)
{
    setenv("STANCE_TEST_CONSTRUCTOR", "ran", 1);
}

static float scale(const void *state, const void *config)
{
    (void)state;
    (void)config;
    return 1;
}

static const struct stance_scaler_ops ops = { .size = sizeof ops, .scale = scale };

#define DEFINE_(kind, name) STANCE_PLUGIN(kind, name)
#define DEFINE(kind, name)  DEFINE_(kind, name)
#define TEXT_(x)            #x
#define TEXT(x)             TEXT_(x)

DEFINE(scaler, NAME) = {
    .abi = ABI, .unstable_abi = UNSTABLE, .size = sizeof(struct stance_plugin), .kind = STANCE_KIND_SCALER,
    .name = TEXT(NAME), .version = "1", .license = "Apache-2.0", .source = "test", .summary = "for tests",
    .ops.scaler = &ops,
};
