/* SPDX-License-Identifier: Apache-2.0
 *
 * stance inspect: what plugins say of themselves, the keys of a recipe, and the environment. */
#include "config.h"

#include "base/log.h"
#include "cli/cli.h"
#include "cli/describe.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "cli/list.h"
#include "cli/recipe_sheet.h"
#include "cli/terminal.h"
#include "registry/registry.h"

#include <stdio.h>
#include <string.h>

static const struct stance_option options[] = {
    { .name = "json", .kind = STANCE_OPTION_FLAG, .doc = "print JSON, and nothing else" },
    { .name = "exists",
      .kind = STANCE_OPTION_FLAG,
      .doc  = "print nothing; exit status 0 if it can be used, else 3" },
    { .name = "env",
      .kind = STANCE_OPTION_FLAG,
      .doc  = "print the environment variables that stance reads, with value and origin" },
    { .name = "mdoc",
      .kind = STANCE_OPTION_FLAG,
      .doc  = "print its parameters as a section of a man page, in mdoc(7)" },
    { .name = NULL }
};
static const struct stance_option *const tables[] = { options, NULL };

static int no_memory(struct stance_error *err)
{
    STANCE_FAIL(err, STANCE_ERR_NOMEM, "inspect");
    return STANCE_FAILED;
}

/* KIND/NAME or a file that ends in .so. */
static stance_status find(struct stance_registry *reg, const char *what,
                          const struct stance_plugin **out, struct stance_error *err)
{
    const char      *slash = strchr(what, '/');
    size_t           len   = strlen(what);
    char             word[32];
    enum stance_kind kind = STANCE_KIND_COUNT;

    if (len > 3 && strcmp(what + len - 3, ".so") == 0)
        return stance_registry_open(reg, what, out, err);
    if (slash != NULL && (size_t)(slash - what) < sizeof word) {
        memcpy(word, what, (size_t)(slash - what));
        word[slash - what] = '\0';
        kind = stance_kind_of(word);
    }
    if (kind == STANCE_KIND_COUNT)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "inspect: '%s' is neither KIND/NAME (scaler/dynamic) nor a kind, 'recipe' or a .so file",
                           what);
    return stance_registry_find(reg, kind, slash + 1, out, err);
}

static int show_plugin(const struct stance_command *c, const struct stance_plugin *p, const char *file,
                       json_t **json, struct stance_error *err)
{
    struct stance_machine  machine = { .why = STANCE_ERROR_INIT };
    struct stance_machine *m       = p->kind == STANCE_KIND_DEVICE ? &machine : NULL;
    int                    exit_status = 0;

    if (stance_command_has(c, "mdoc")) {
        stance_plugin_mdoc(p);
        return 0;
    }
    if (m != NULL && !stance_machine_ask(p, m))
        exit_status = no_memory(err);
    else if (json != NULL)
        exit_status = (*json = stance_plugin_json(p, file, m)) != NULL ? 0 : no_memory(err);
    else
        stance_plugin_print(p, file, m, stance_columns());
    if (m != NULL)
        stance_machine_clear(m);
    return exit_status;
}

static void show_unusable(const struct stance_listing *l)
{
    printf("%s/%s\n  %s: ", stance_kind_word(l->kind), l->name, stance_listing_state(l));
    stance_print_wrapped(l->reason, 12, 4, stance_columns());
    printf("\n");
}

/* Every plugin of a kind; as JSON one list. */
static int show_kind(const struct stance_command *c, struct stance_registry *reg, enum stance_kind kind,
                     struct stance_error *err)
{
    const struct stance_listing *list;
    size_t                       n;
    bool                         json = stance_command_has(c, "json");
    json_t                      *all  = json ? json_array() : NULL;
    int                          exit_status = 0;

    if (json && all == NULL)
        return no_memory(err);
    if (stance_registry_list(reg, kind, &list, &n, err) != STANCE_OK)
        exit_status = STANCE_FAILED;
    for (size_t i = 0; exit_status == 0 && i < n; i++) {
        json_t *one = NULL;

        if (!json && i > 0)
            printf("\n");
        if (list[i].plugin != NULL)
            exit_status = show_plugin(c, list[i].plugin, list[i].file, json ? &one : NULL, err);
        else if (json)
            one = stance_listing_json(&list[i]);
        else if (!stance_command_has(c, "mdoc"))
            show_unusable(&list[i]);
        if (json && exit_status == 0 && json_array_append_new(all, one) != 0)
            exit_status = no_memory(err);
    }
    if (json && exit_status == 0)
        return stance_json_print(all, err);
    json_decref(all);
    return exit_status;
}

static int show_recipe(const struct stance_command *c, struct stance_error *err)
{
    if (stance_command_has(c, "json"))
        return stance_json_print(stance_recipe_json(), err);
    if (stance_command_has(c, "mdoc"))
        stance_recipe_mdoc();
    else
        stance_recipe_print(stance_columns());
    return 0;
}

/* Silent, but for a word that cannot be a plugin's: 0 if it loads and, a device, starts; else 3. */
static int exists(struct stance_registry *reg, const char *what, struct stance_error *err)
{
    const struct stance_plugin *p;
    struct stance_machine       m = { .why = STANCE_ERROR_INIT };
    int                         exit_status = 0;

    stance_log_set_sink(stance_log_drop, NULL);
    if (find(reg, what, &p, err) != STANCE_OK)
        return stance_exit_status(err->status) == 3 ? 3 : STANCE_FAILED;
    if (p->kind == STANCE_KIND_DEVICE) {
        exit_status = !stance_machine_ask(p, &m) ? no_memory(err) : m.why.status != STANCE_OK ? 3 : 0;
        stance_machine_clear(&m);
    }
    return exit_status;
}

static int run_with(const struct stance_command *c, struct stance_registry *reg, struct stance_error *err)
{
    const struct stance_plugin *p;
    enum stance_kind            kind;
    json_t                     *json = NULL;
    int                         exit_status;

    if (stance_command_has(c, "env"))
        return stance_environment_print(stance_registry_path(reg), stance_command_has(c, "json"), err);
    if (c->n_args == 0) {
        STANCE_FAIL(err, STANCE_ERR_INVAL,
                    "inspect: an argument is missing: KIND/NAME, KIND, FILE.so, recipe or --env");
        return STANCE_FAILED;
    }
    if (stance_command_has(c, "exists"))
        return exists(reg, c->args[0], err);
    if (strcmp(c->args[0], "recipe") == 0)
        return show_recipe(c, err);
    kind = stance_kind_of(c->args[0]);
    if (kind != STANCE_KIND_COUNT)
        return show_kind(c, reg, kind, err);
    if (find(reg, c->args[0], &p, err) != STANCE_OK)
        return STANCE_FAILED;
    exit_status = show_plugin(c, p, stance_registry_file(reg, p), stance_command_has(c, "json") ? &json : NULL, err);
    return exit_status == 0 && json != NULL ? stance_json_print(json, err) : exit_status;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct stance_registry *reg;
    int                     exit_status;

    if (stance_command_registry(c, &reg, err) != STANCE_OK)
        return STANCE_FAILED;
    exit_status = run_with(c, reg, err);
    stance_registry_free(reg);
    return exit_status;
}

const struct stance_verb stance_verb_inspect = {
    .name      = "inspect",
    .summary   = "Show a plugin, the keys of a recipe or the environment",
    .arguments = "KIND/NAME | KIND | FILE.so | recipe | --env",
    .max_args  = 1,
    .options   = tables,
    .run       = run,
    .doc       = "Of a plugin: origin, licence, file and its parameters with defaults, ranges and units; of a device "
                 "also what it finds on this machine. KIND alone shows every plugin of the kind.",
};
