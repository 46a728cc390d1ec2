/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens one plugin of the build folder without the registry. */
#ifndef TESTS_OPEN_PLUGIN_H
#define TESTS_OPEN_PLUGIN_H

#include <stance/plugin.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The plugin <kind>_<name>.so in one of the folders of STANCE_PLUGIN_PATH; NULL if there is none.
 */
static inline const struct stance_plugin *open_plugin(const char *kind, const char *name)
{
    const char *list = getenv("STANCE_PLUGIN_PATH");
    char        path[4300], symbol[100];

    snprintf(symbol, sizeof symbol, "%s_%s_LTX_stance_plugin", kind, name);
    while (list != NULL && *list != '\0') {
        int   len = (int)strcspn(list, ":");
        void *so;

        snprintf(path, sizeof path, "%.*s/.libs/%s_%s.so", len, list, kind, name);
        so = dlopen(path, RTLD_NOW);
        if (so != NULL)
            return dlsym(so, symbol);
        list += len + (list[len] == ':');
    }
    return NULL;
}

#endif
