/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/environment.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One row; into @p list as an object where that is not NULL.
 * @return false when memory is short */
static bool row(const char *name, const char *value, const char *dflt, const char *origin, const char *doc,
                json_t *list)
{
    int columns = stance_columns();

    if (list != NULL)
        return json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", stance_json_text(name),
                                                     "value", stance_json_text(value), "default",
                                                     stance_json_text(dflt), "origin", stance_json_text(origin),
                                                     "meaning", stance_json_text(doc)))
               == 0;
    printf("%s=%s\n    ", name, value != NULL ? value : dflt != NULL ? dflt : "");
    stance_print_wrapped(origin, 4, 4, columns);
    if (doc != NULL) {
        int at = 4 + (int)strlen(origin);

        printf("; ");
        stance_print_wrapped(doc, at + 2, 4, columns);
    }
    printf("\n");
    return true;
}

static bool known_rows(json_t *list)
{
    bool ok = true;

    for (int i = 0; i < STANCE_ENV_COUNT && ok; i++) {
        const struct stance_env_variable *v     = stance_env_variable((enum stance_env)i);
        const char                       *value = getenv(v->name);

        ok = row(v->name, value, v->dflt,
                 value == NULL                           ? "default"
                 : stance_env((enum stance_env)i) == NULL ? "environment, ignored in a set-user-id program"
                                                         : "environment",
                 v->doc, list);
    }
    return ok;
}

static bool is_known(const char *entry, size_t len)
{
    for (int i = 0; i < STANCE_ENV_COUNT; i++) {
        const char *name = stance_env_variable((enum stance_env)i)->name;

        if (strlen(name) == len && strncmp(entry, name, len) == 0)
            return true;
    }
    return false;
}

/* A slip in a name is silent otherwise. */
static bool unknown_rows(json_t *list)
{
    bool ok = true;

    for (char **e = environ; *e != NULL && ok; e++) {
        const char *equals = strchr(*e, '=');
        char        name[128];

        if (strncmp(*e, "STANCE_", 7) != 0 || equals == NULL || is_known(*e, (size_t)(equals - *e)))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
        ok = row(name, equals + 1, NULL, "environment, unknown to stance", NULL, list);
    }
    return ok;
}

int stance_environment_print(const char *path, bool json, struct stance_error *err)
{
    json_t *list = json ? json_array() : NULL;

    if ((json && list == NULL) || !known_rows(list) || !unknown_rows(list)) {
        json_decref(list);
        STANCE_FAIL(err, STANCE_ERR_NOMEM, "environment");
        return STANCE_FAILED;
    }
    if (json)
        return stance_json_print(
            json_pack("{s:o, s:o}", "variables", list, "plugin_path", stance_json_text(path)), err);
    printf("\nPlugins are searched in\n");
    while (*path != '\0') {
        size_t len = strcspn(path, ":");

        printf("    %.*s\n", (int)len, path);
        path += len + (path[len] == ':');
    }
    return 0;
}
