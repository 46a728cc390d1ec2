/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/describe.h"
#include "cli/json.h"
#include "cli/mdoc.h"
#include "cli/params.h"
#include "cli/terminal.h"
#include "registry/instance.h"

#include <stance/alloc.h>
#include <stance/device.h>

#include <stdio.h>
#include <string.h>

static const struct { enum stance_type low; const char *word; } precisions[] = {
    { STANCE_TYPE_F32, "fp32" },
    { STANCE_TYPE_BF16, "bf16" },
    { STANCE_TYPE_F16, "fp16" },
    { STANCE_TYPE_F64, "fp64" },
};
enum { N_PRECISIONS = sizeof precisions / sizeof *precisions };

static void ask(const struct stance_device_ops *ops, void *state, struct stance_machine *m)
{
    enum stance_type fast = STANCE_HAS(ops, fast_type) ? ops->fast_type(state) : STANCE_TYPE_F32;

    m->fast = "fp32";
    for (int i = 0; i < N_PRECISIONS; i++) {
        struct stance_error why = STANCE_ERROR_INIT;

        if (precisions[i].low == fast)
            m->fast = precisions[i].word;
        if (!STANCE_HAS(ops, precision) || ops->precision(state, precisions[i].low, true, &why) == STANCE_OK)
            stance_string_add(&m->usable, "%s%s", m->usable.len > 0 ? ", " : "", precisions[i].word);
    }
    if (STANCE_HAS(ops, describe) && ops->describe(state) != NULL)
        stance_string_add(&m->lines, "%s", ops->describe(state));
}

bool stance_machine_ask(const struct stance_plugin *device, struct stance_machine *out)
{
    const struct stance_device_ops *ops = device->ops.device;
    void                           *config, *state;

    if (stance_plugin_config_new(device, &config, &out->why) != STANCE_OK)
        return out->why.status != STANCE_ERR_NOMEM;
    state = stance_calloc(1, ops->state_size + 1);
    if (state == NULL) {
        stance_plugin_config_free(config);
        return false;
    }
    if (ops->open(state, config, 0, &out->why) == STANCE_OK) {
        ask(ops, state, out);
        ops->close(state);
    }
    stance_free(state);
    stance_plugin_config_free(config);
    return !out->lines.failed && !out->usable.failed;
}

void stance_machine_clear(struct stance_machine *m)
{
    stance_string_free(&m->lines);
    stance_string_free(&m->usable);
}

static const struct stance_param *attributes(const struct stance_plugin *p)
{
    return p->kind == STANCE_KIND_OP && STANCE_HAS(p->ops.op, attrs) ? p->ops.op->attrs : NULL;
}

static const struct stance_param *state_fields(const struct stance_plugin *p)
{
    return p->kind == STANCE_KIND_SCALER ? p->ops.scaler->state : NULL;
}

/* ---- for people ------------------------------------------------------------------------------ */

enum { KEY_COLUMN = 2, VALUE_COLUMN = 18 };

static void print_pair(const char *key, int key_len, const char *value, int columns)
{
    int at = printf("%*s%.*s:", KEY_COLUMN, "", key_len, key);

    stance_print_pad(at, VALUE_COLUMN);
    stance_print_wrapped(value, at < VALUE_COLUMN ? VALUE_COLUMN : at + 1, VALUE_COLUMN, columns);
    printf("\n");
}

static void print_row(const char *key, const char *value, int columns)
{
    print_pair(key, (int)strlen(key), value, columns);
}

static void print_machine(const struct stance_machine *m, int columns)
{
    printf("\nOn this machine:\n");
    if (m->why.status != STANCE_OK) {
        print_row("unusable", m->why.text, columns);
        return;
    }
    print_row("precisions", m->usable.s != NULL ? m->usable.s : "none", columns);
    print_row("precision auto", m->fast, columns);
    for (const char *line = m->lines.s; line != NULL && *line != '\0';) {
        size_t len = strcspn(line, "\n"), key = strcspn(line, ":\n");
        char   value[512];

        if (line[key] == ':') {
            snprintf(value, sizeof value, "%.*s", (int)(len - key - 1), line + key + 1);
            print_pair(line, (int)key, value + strspn(value, " "), columns);
        } else if (len > 0) {
            printf("%*s%.*s\n", KEY_COLUMN, "", (int)len, line);
        }
        line += len + (line[len] == '\n');
    }
}

void stance_plugin_print(const struct stance_plugin *p, const char *file, const struct stance_machine *m, int columns)
{
    char abi[64];

    snprintf(abi, sizeof abi, "%u", (unsigned)p->abi);
    printf("%s/%s %s\n  ", stance_kind_word(p->kind), p->name, p->version);
    stance_print_wrapped(p->summary, 2, 2, columns);
    printf("\n\n");
    print_row("Source", p->source, columns);
    print_row("Licence", p->license, columns);
    print_row("File", file, columns);
    print_row("Plugin ABI", abi, columns);
    stance_params_print("Parameters", p->params, columns);
    stance_params_print("Attributes", attributes(p), columns);
    stance_params_print("State that checkpoints keep", state_fields(p), columns);
    if (m != NULL)
        print_machine(m, columns);
}

/* ---- for programs ---------------------------------------------------------------------------- */

/* "fp32, bf16" as a list. */
static json_t *words_json(const char *text)
{
    json_t *list = json_array();

    while (text != NULL && *text != '\0' && list != NULL) {
        char   word[16];
        size_t len = strcspn(text, ",");

        snprintf(word, sizeof word, "%.*s", (int)len, text);
        if (json_array_append_new(list, stance_json_text(word)) != 0) {
            json_decref(list);
            return NULL;
        }
        text += len;
        text += strspn(text, ", ");
    }
    return list;
}

/* "key: value" lines as an object. */
static json_t *facts_json(const char *line)
{
    json_t *facts = json_object();

    while (line != NULL && *line != '\0' && facts != NULL) {
        size_t len = strcspn(line, "\n"), key_len = strcspn(line, ":\n");
        char   key[64], value[512];

        snprintf(key, sizeof key, "%.*s", (int)key_len, line);
        snprintf(value, sizeof value, "%.*s", len > key_len ? (int)(len - key_len - 1) : 0, line + key_len + (len > key_len));
        if (len > 0 && json_object_set_new(facts, key, stance_json_text(value + strspn(value, " "))) != 0) {
            json_decref(facts);
            return NULL;
        }
        line += len + (line[len] == '\n');
    }
    return facts;
}

static json_t *machine_json(const struct stance_machine *m)
{
    bool usable = m->why.status == STANCE_OK;

    return json_pack("{s:b, s:o, s:o, s:o, s:o}", "usable", usable, "reason",
                     stance_json_text(usable ? NULL : m->why.text), "precisions", words_json(m->usable.s),
                     "precision_auto", stance_json_text(m->fast), "facts", facts_json(m->lines.s));
}

json_t *stance_plugin_json(const struct stance_plugin *p, const char *file, const struct stance_machine *m)
{
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:o, s:n, s:o, s:o, s:o, s:o, s:i, s:o}", "kind",
        stance_json_text(stance_kind_word(p->kind)), "name", stance_json_text(p->name), "version",
        stance_json_text(p->version), "state", stance_json_text("ok"), "reason", "file",
        stance_json_text(file), "license", stance_json_text(p->license), "source",
        stance_json_text(p->source), "summary", stance_json_text(p->summary), "abi", (int)p->abi,
        "parameters", stance_params_json(p->params));
    bool ok = root != NULL;

    if (ok && attributes(p) != NULL)
        ok = json_object_set_new(root, "attributes", stance_params_json(attributes(p))) == 0;
    if (ok && state_fields(p) != NULL)
        ok = json_object_set_new(root, "state_fields", stance_params_json(state_fields(p))) == 0;
    if (ok && m != NULL)
        ok = json_object_set_new(root, "machine", machine_json(m)) == 0;
    if (ok)
        return root;
    json_decref(root);
    return NULL;
}

/* ---- for man pages --------------------------------------------------------------------------- */

void stance_plugin_mdoc(const struct stance_plugin *p)
{
    printf(".Ss %s/%s\n", stance_kind_word(p->kind), p->name);
    stance_mdoc_text(p->summary);
    printf("Source: ");
    stance_mdoc_word(p->source);
    printf(".\n");
    if (p->params != NULL && p->params->name != NULL)
        stance_params_mdoc("", p->params);
    if (attributes(p) != NULL)
        stance_params_mdoc("", attributes(p));
}
