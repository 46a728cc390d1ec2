/* SPDX-License-Identifier: Apache-2.0
 *
 * stance list: which plugins there are, and why some cannot be used. */
#include "config.h"

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/list.h"
#include "cli/terminal.h"
#include "registry/registry.h"

#include <stdio.h>
#include <string.h>

static const struct stance_option options[] = {
    { .name = "json",
      .kind = STANCE_OPTION_FLAG,
      .doc  = "print one JSON list: kind, name, version, file, state, reason" },
    { .name = NULL }
};
static const struct stance_option *const tables[] = { options, NULL };

const char *stance_listing_state(const struct stance_listing *l)
{
    if (l->plugin != NULL)
        return "ok";
    if (strncmp(l->reason, "hidden by ", 10) == 0)
        return "hidden";
    return strncmp(l->reason, "blocked by ", 11) == 0 ? "blocked" : "broken";
}

json_t *stance_listing_json(const struct stance_listing *l)
{
    const char *version = l->plugin != NULL ? l->plugin->version : NULL;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
                     stance_json_text(stance_kind_word(l->kind)), "name",
                     stance_json_text(l->name), "version", stance_json_text(version), "file",
                     stance_json_text(l->file), "state", stance_json_text(stance_listing_state(l)), "reason",
                     stance_json_text(l->reason));
}

static int print_json(const struct stance_listing *list, size_t n, struct stance_error *err)
{
    json_t *root = json_array();

    for (size_t i = 0; i < n && root != NULL; i++)
        if (json_array_append_new(root, stance_listing_json(&list[i])) != 0) {
            json_decref(root);
            root = NULL;
        }
    return stance_json_print(root, err);
}

static void print_table(const struct stance_listing *list, size_t n)
{
    int    name = 4, version = 7, columns = stance_columns(), indent;
    size_t unusable = 0;

    for (size_t i = 0; i < n; i++) {
        if ((int)strlen(list[i].name) > name)
            name = (int)strlen(list[i].name);
        if (list[i].plugin != NULL && (int)strlen(list[i].plugin->version) > version)
            version = (int)strlen(list[i].plugin->version);
        unusable += list[i].plugin == NULL;
    }
    indent = printf("%-10s %-*s %-*s %-8s", "KIND", name, "NAME", version, "VERSION", "STATE");
    printf("SUMMARY%s\n", unusable > 0 ? ", OR REASON" : "");
    for (size_t i = 0; i < n; i++) {
        const struct stance_listing *l = &list[i];

        printf("%-10s %-*s %-*s %-8s", stance_kind_word(l->kind), name, l->name, version,
               l->plugin != NULL ? l->plugin->version : "-", stance_listing_state(l));
        stance_print_wrapped(l->plugin != NULL ? l->plugin->summary : l->reason, indent, indent, columns);
        printf("\n");
    }
}

static stance_status kind_of(const char *word, enum stance_kind *kind, struct stance_error *err)
{
    char   known[256] = "";
    size_t used       = 0;

    *kind = stance_kind_of(word);
    if (*kind != STANCE_KIND_COUNT)
        return STANCE_OK;
    for (int i = 0; i < STANCE_KIND_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 stance_kind_word((enum stance_kind)i));
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "list: '%s' is not a kind of plugin; kinds: %s", word,
                       known);
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    enum stance_kind             kind = STANCE_KIND_COUNT;
    struct stance_registry      *reg;
    const struct stance_listing *list;
    size_t                       n;
    int                          exit_status = 0;

    if ((c->n_args > 0 && kind_of(c->args[0], &kind, err) != STANCE_OK)
        || stance_command_registry(c, &reg, err) != STANCE_OK)
        return STANCE_FAILED;
    if (stance_registry_list(reg, kind, &list, &n, err) != STANCE_OK)
        exit_status = STANCE_FAILED;
    else if (stance_command_has(c, "json"))
        exit_status = print_json(list, n, err);
    else if (n > 0)
        print_table(list, n);
    else
        printf("no plugin is found in %s\n", stance_registry_path(reg));
    stance_registry_free(reg);
    return exit_status;
}

const struct stance_verb stance_verb_list = {
    .name      = "list",
    .summary   = "List the plugins on the search path",
    .arguments = "[KIND]",
    .max_args  = 1,
    .options   = tables,
    .doc = "A plugin that cannot be loaded is listed with the reason. `stance inspect KIND/NAME` "
           "tells more.",
    .run = run,
};
