/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/environment.h"

#include <stdlib.h>

static const struct stance_env_variable table[STANCE_ENV_COUNT] = {
#define ROW(id, name, dflt, doc) { name, dflt, doc },
    STANCE_ENV_MAP(ROW)
#undef ROW
};

const struct stance_env_variable *stance_env_variable(enum stance_env which)
{
    return &table[which];
}

const char *stance_env(enum stance_env which)
{
    return secure_getenv(table[which].name);
}
