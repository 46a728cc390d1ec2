/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment variables that stance reads, once: the code that reads one names it here, and
 * `stance inspect --env` and the man page print this table. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stance/common.h>

/** Identifier, name, value in force where it is not set ("" for none), meaning in one line. */
#define STANCE_ENV_MAP(X)                                                                          \
    X(PLUGIN_PATH, "STANCE_PLUGIN_PATH", "",                                                       \
      "folders searched for plugins before the user's and the installed one, separated by colons") \
    X(PLUGIN_BLOCKLIST, "STANCE_PLUGIN_BLOCKLIST", "",                                             \
      "plugins that must not be loaded: KIND/NAME,KIND/NAME")                                      \
    X(RECIPE_PATH, "STANCE_RECIPE_PATH", "",                                                       \
      "folders searched for recipes before the installed one, separated by colons")                \
    X(LOG, "STANCE_LOG", "warn", "what is told on standard error: warn, info, debug or trace")     \
    X(XDG_DATA_HOME, "XDG_DATA_HOME", "~/.local/share",                                            \
      "its stance/plugins is the user's plugin folder")                                            \
    X(HOME, "HOME", "", "where the default of XDG_DATA_HOME begins")                               \
    X(OMP_NUM_THREADS, "OMP_NUM_THREADS", "one for each core",                                     \
      "threads of the device cpu where neither --threads nor the recipe says (read by OpenMP)")    \
    X(NO_COLOR, "NO_COLOR", "", "where it is set, no colours on a terminal")                                   \
    X(TERM, "TERM", "dumb", "the terminal; dumb: no progress line that is written over")           \
    X(COLUMNS, "COLUMNS", "the terminal's", "width of help and tables, in characters")

enum stance_env {
#define STANCE_ENV_ENUM(id, name, dflt, doc) STANCE_ENV_##id,
    STANCE_ENV_MAP(STANCE_ENV_ENUM)
#undef STANCE_ENV_ENUM
    STANCE_ENV_COUNT
};

struct stance_env_variable {
    const char *name, *dflt, *doc;
};

/** The row of a variable. */
const struct stance_env_variable *stance_env_variable(enum stance_env which);

/** Its value; NULL where it is not set, and in a set-user-id program. The environment's. */
const char *stance_env(enum stance_env which);

#endif
