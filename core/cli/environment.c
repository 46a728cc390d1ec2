/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct variable {
    const char *name, *doc;
} known[] = {
    { "STANCE_PLUGIN_PATH",
      "folders searched for plugins before the user's and the installed one" },
    { "STANCE_PLUGIN_BLOCKLIST", "plugins that must not be loaded: kind_name,kind_name" },
    { "STANCE_LOG", "warn (default), info, debug or trace" },
    { "XDG_DATA_HOME", "its stance/plugins is the user's plugin folder; default ~/.local/share" },
    { "NO_COLOR", "no colours on a terminal" },
};
enum { N_KNOWN = sizeof known / sizeof *known };

static bool is_known(const char *entry)
{
    for (int i = 0; i < N_KNOWN; i++) {
        size_t len = strlen(known[i].name);

        if (strncmp(entry, known[i].name, len) == 0 && entry[len] == '=')
            return true;
    }
    return false;
}

static void print_row(const char *name, const char *value, const char *origin, const char *doc,
                      json_t *list)
{
    if (list != NULL)
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o}", "name", stance_json_text(name), "value",
                            stance_json_text(value), "origin", stance_json_text(origin), "meaning",
                            stance_json_text(doc)));
    else
        printf("%s=%s\n    %s%s%s\n", name, value != NULL ? value : "", origin,
               doc != NULL ? "; " : "", doc != NULL ? doc : "");
}

int stance_environment_print(const char *path, bool json, struct stance_error *err)
{
    json_t *list = json ? json_array() : NULL;

    for (int i = 0; i < N_KNOWN; i++) {
        const char *value = getenv(known[i].name), *seen = secure_getenv(known[i].name);

        print_row(known[i].name, value,
                  value == NULL  ? "default"
                  : seen == NULL ? "environment, ignored in a set-user-id program"
                                 : "environment",
                  known[i].doc, list);
    }
    for (char **e = environ; *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        char        name[128];

        if (strncmp(*e, "STANCE_", 7) != 0 || is_known(*e) || equals == NULL)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
        print_row(name, equals + 1, "environment, unknown to stance", NULL, list);
    }
    if (!json) {
        printf("\nPlugins are searched in %s\n", path);
        return 0;
    }
    return stance_json_print(
        json_pack("{s:o, s:o}", "variables", list, "plugin_path", stance_json_text(path)), err);
}
