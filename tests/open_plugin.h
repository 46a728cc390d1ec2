/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens one plugin of the build folder, without the registry where plugins are files. */
#ifndef TESTS_OPEN_PLUGIN_H
#define TESTS_OPEN_PLUGIN_H

#include <stance/plugin.h>
#include <stance/registry.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The plugin <kind>_<name>.so in one of the folders of STANCE_PLUGIN_PATH, or the one that is part of
 *  the program; NULL if there is none. */
static inline const struct stance_plugin *open_plugin(const char *kind, const char *name)
{
    const char *list = getenv("STANCE_PLUGIN_PATH");
    char        path[4300], symbol[100];
    static struct stance_registry *built_in;
    const struct stance_plugin    *plugin;

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
    if (built_in == NULL && stance_registry_new(NULL, &built_in, NULL) != STANCE_OK)
        return NULL;
    return stance_registry_find(built_in, stance_kind_of(kind), name, &plugin, NULL) == STANCE_OK ? plugin : NULL;
}

#endif
