/* SPDX-License-Identifier: Apache-2.0
 *
 * stance inspect: what a plugin says of itself, and the environment. */
#include "config.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "registry/instance.h"
#include "registry/registry.h"

#include <stance/alloc.h>
#include <stance/device.h>

#include <string.h>

static const struct stance_option options[] = {
    { .name = "json", .kind = STANCE_OPTION_FLAG, .doc = "print one JSON object" },
    { .name = "exists",
      .kind = STANCE_OPTION_FLAG,
      .doc  = "print nothing; exit status 0 if it can be used, else 3" },
    { .name = "env",
      .kind = STANCE_OPTION_FLAG,
      .doc  = "print the environment variables that stance reads" },
    { .name = NULL }
};
static const struct stance_option *const tables[] = { options, NULL };

static const char *type_word(const struct stance_param *p)
{
    switch (p->type) {
    case STANCE_PARAM_TYPE_BOOL: return "bool";
    case STANCE_PARAM_TYPE_I64: return "integer";
    case STANCE_PARAM_TYPE_F64: return "number";
    case STANCE_PARAM_TYPE_ENUM: return "choice";
    case STANCE_PARAM_TYPE_TEXT: return "text";
    case STANCE_PARAM_TYPE_LIST_I64: return "integers";
    case STANCE_PARAM_TYPE_LIST_F64: return "numbers";
    }
    return "unknown";
}

static bool has_range(const struct stance_param *p)
{
    return p->type == STANCE_PARAM_TYPE_I64 || p->type == STANCE_PARAM_TYPE_F64
           || p->type == STANCE_PARAM_TYPE_LIST_I64 || p->type == STANCE_PARAM_TYPE_LIST_F64;
}

/* "[1, 1000000] steps", "red|green", "". */
static void range_text(const struct stance_param *p, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    if (has_range(p))
        used = (size_t)snprintf(text, size, "[%.10g, %.10g]%s%s", p->min, p->max,
                                strcmp(p->unit, "1") != 0 ? " " : "",
                                strcmp(p->unit, "1") != 0 ? p->unit : "");
    for (int i = 0; p->type == STANCE_PARAM_TYPE_ENUM && p->choices[i] != NULL && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "|" : "", p->choices[i]);
    if ((p->flags & STANCE_PARAM_NULLABLE) && used < size)
        snprintf(text + used, size - used, " or null");
}

static void print_params(const char *title, const struct stance_param *table)
{
    char   range[256];
    size_t wide[4] = { 4, 4, 7, 5 };

    if (table == NULL || table->name == NULL)
        return;
    for (const struct stance_param *p = table; p->name != NULL; p++) {
        const char *cell[4] = { p->name, type_word(p), *p->dflt != '\0' ? p->dflt : "''", range };

        range_text(p, range, sizeof range);
        for (int i = 0; i < 4; i++)
            if (strlen(cell[i]) > wide[i])
                wide[i] = strlen(cell[i]);
    }
    printf("\n%s:\n  %-*s  %-*s  %-*s  %-*s  %s\n", title, (int)wide[0], "NAME", (int)wide[1],
           "TYPE", (int)wide[2], "DEFAULT", (int)wide[3], "RANGE", "MEANING");
    for (const struct stance_param *p = table; p->name != NULL; p++) {
        range_text(p, range, sizeof range);
        printf("  %-*s  %-*s  %-*s  %-*s  %s\n", (int)wide[0], p->name, (int)wide[1], type_word(p),
               (int)wide[2], *p->dflt != '\0' ? p->dflt : "''", (int)wide[3], range, p->doc);
    }
}

static const struct stance_param *attributes(const struct stance_plugin *p)
{
    return p->kind == STANCE_KIND_OP && STANCE_HAS(p->ops.op, attrs) ? p->ops.op->attrs : NULL;
}

/* What a device finds on this machine: its own lines, or why it does not start. */
static void device_lines(const struct stance_plugin *p, struct stance_string *lines)
{
    struct stance_error             err = STANCE_ERROR_INIT;
    const struct stance_device_ops *ops = p->ops.device;
    void                           *config, *state;
    stance_status                   status;

    if (stance_plugin_config_new(p, &config, &err) != STANCE_OK) {
        stance_string_add(lines, "%s\n", err.text);
        return;
    }
    state = stance_calloc(1, ops->state_size + 1);
    if (state == NULL) {
        lines->failed = true;
        goto free_config;
    }
    status = ops->open(state, config, 0, &err);
    if (status != STANCE_OK) {
        stance_string_add(lines, "cannot be used here: %s\n", err.text);
    } else {
        if (STANCE_HAS(ops, describe) && ops->describe(state) != NULL)
            stance_string_add(lines, "%s\n", ops->describe(state));
        ops->close(state);
    }
    stance_free(state);
free_config:
    stance_plugin_config_free(config);
}

static void print_lines(const char *lines)
{
    printf("\nOn this machine:\n");
    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n");

        if (len > 0)
            printf("  %.*s\n", (int)len, lines);
        lines += len + (lines[len] == '\n');
    }
}

static void print_plugin(const struct stance_plugin *p, const char *file,
                         const struct stance_string *lines)
{
    printf("%s/%s %s\n  %s\n\n", stance_kind_word(p->kind), p->name, p->version, p->summary);
    printf("  Source:   %s\n  Licence:  %s\n  File:     %s\n  ABI:      %u\n", p->source,
           p->license, file, (unsigned)p->abi);
    print_params("Parameters", p->params);
    print_params("Attributes", attributes(p));
    if (lines->s != NULL)
        print_lines(lines->s);
}

static json_t *params_json(const struct stance_param *table)
{
    json_t *list = json_array();

    for (const struct stance_param *p = table; p != NULL && p->name != NULL && list != NULL; p++) {
        json_t *choices = p->type == STANCE_PARAM_TYPE_ENUM ? json_array() : json_null();
        json_t *row;

        for (int i = 0; p->type == STANCE_PARAM_TYPE_ENUM && p->choices[i] != NULL; i++)
            json_array_append_new(choices, stance_json_text(p->choices[i]));
        row = json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "name",
                        stance_json_text(p->name), "type", stance_json_text(type_word(p)),
                        "default", stance_json_text(p->dflt), "nullable",
                        (p->flags & STANCE_PARAM_NULLABLE) != 0, "min",
                        has_range(p) ? stance_json_finite(p->min) : json_null(), "max",
                        has_range(p) ? stance_json_finite(p->max) : json_null(), "choices", choices,
                        "unit", stance_json_text(p->unit), "doc", stance_json_text(p->doc));
        if (json_array_append_new(list, row) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static int json_plugin(const struct stance_plugin *p, const char *file,
                       const struct stance_string *lines, struct stance_error *err)
{
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:o, s:n, s:o, s:o, s:o, s:o, s:i, s:o}", "kind",
        stance_json_text(stance_kind_word(p->kind)), "name", stance_json_text(p->name), "version",
        stance_json_text(p->version), "state", stance_json_text("ok"), "reason", "file",
        stance_json_text(file), "license", stance_json_text(p->license), "source",
        stance_json_text(p->source), "summary", stance_json_text(p->summary), "abi", (int)p->abi,
        "parameters", params_json(p->params));

    if (root != NULL && attributes(p) != NULL)
        json_object_set_new(root, "attributes", params_json(attributes(p)));
    if (root != NULL && lines->s != NULL)
        json_object_set_new(root, "machine", stance_json_text(lines->s));
    return stance_json_print(root, err);
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
                           "inspect: '%s' is neither KIND/NAME (scaler/dynamic) nor a .so file",
                           what);
    return stance_registry_find(reg, kind, slash + 1, out, err);
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct stance_registry     *reg;
    const struct stance_plugin *p;
    struct stance_string        lines       = { 0 };
    int                         exit_status = 0;

    if (stance_command_registry(c, &reg, err) != STANCE_OK)
        return STANCE_FAILED;
    if (stance_command_has(c, "env")) {
        exit_status = stance_environment_print(stance_registry_path(reg),
                                               stance_command_has(c, "json"), err);
        goto free_registry;
    }
    if (c->n_args == 0) {
        STANCE_FAIL(err, STANCE_ERR_INVAL,
                    "inspect: an argument is missing: KIND/NAME, FILE.so or --env");
        exit_status = STANCE_FAILED;
        goto free_registry;
    }
    if (find(reg, c->args[0], &p, err) != STANCE_OK) {
        bool silent = stance_command_has(c, "exists") && stance_exit_status(err->status) == 3;

        exit_status = silent ? 3 : STANCE_FAILED;
        goto free_registry;
    }
    if (stance_command_has(c, "exists"))
        goto free_registry;
    if (p->kind == STANCE_KIND_DEVICE)
        device_lines(p, &lines);
    if (lines.failed) {
        STANCE_FAIL(err, STANCE_ERR_NOMEM, "inspect");
        exit_status = STANCE_FAILED;
    } else if (stance_command_has(c, "json")) {
        exit_status = json_plugin(p, stance_registry_file(reg, p), &lines, err);
    } else {
        print_plugin(p, stance_registry_file(reg, p), &lines);
    }
    stance_string_free(&lines);
free_registry:
    stance_registry_free(reg);
    return exit_status;
}

const struct stance_verb stance_verb_inspect = {
    .name      = "inspect",
    .summary   = "Show a plugin: origin, parameters, what a device finds",
    .arguments = "KIND/NAME | FILE.so | --env",
    .max_args  = 1,
    .options   = tables,
    .run       = run,
};
