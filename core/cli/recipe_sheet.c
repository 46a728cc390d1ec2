/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/json.h"
#include "cli/mdoc.h"
#include "cli/params.h"
#include "cli/recipe_sheet.h"
#include "cli/terminal.h"
#include "config/recipe_keys.h"

#include <stance/registry.h>

#include <stdio.h>
#include <string.h>

enum { KEY_INDENT = 2, DOC_INDENT = 6 };

void stance_recipe_print(int columns)
{
    const struct stance_param *table;
    const char                *path;

    printf("Keys of a recipe. Plugins are chosen by NAME, by NAME:key=value,... or by\n"
           "{name: NAME, key: value, ...}; 'stance inspect KIND/NAME' has their keys.\n\nChoices:\n");
    for (const struct stance_recipe_key *k = stance_recipe_keys; k->path != NULL; k++) {
        int at = printf("%*s%s", KEY_INDENT, "", k->path);

        if (k->kind != STANCE_KIND_COUNT)
            at += printf(" (%s)", stance_kind_word(k->kind));
        at += printf("  ");
        stance_print_wrapped(k->dflt, at, DOC_INDENT, columns);
        printf("\n%*s", DOC_INDENT, "");
        stance_print_wrapped(k->doc, DOC_INDENT, DOC_INDENT, columns);
        printf("\n");
    }
    for (size_t i = 0; (path = stance_recipe_section(i, &table)) != NULL; i++)
        stance_params_print(*path != '\0' ? path : "Top level", table, columns);
}

json_t *stance_recipe_json(void)
{
    const struct stance_param *table;
    const char                *path;
    json_t                    *choices = json_array(), *sections = json_object();
    bool                       ok = choices != NULL && sections != NULL;

    for (const struct stance_recipe_key *k = stance_recipe_keys; k->path != NULL && ok; k++)
        ok = json_array_append_new(choices, json_pack("{s:o, s:o, s:o, s:o}", "key", stance_json_text(k->path), "kind",
                                                      stance_json_text(stance_kind_word(k->kind)), "default",
                                                      stance_json_text(k->dflt), "doc", stance_json_text(k->doc)))
             == 0;
    for (size_t i = 0; ok && (path = stance_recipe_section(i, &table)) != NULL; i++)
        if (table != NULL)
            ok = json_object_set_new(sections, path, stance_params_json(table)) == 0;
    if (ok)
        return json_pack("{s:o, s:o}", "choices", choices, "sections", sections);
    json_decref(choices);
    json_decref(sections);
    return NULL;
}

void stance_recipe_mdoc(void)
{
    const struct stance_param *table;
    const char                *path;

    printf(".Ss Choices\n.Bl -tag -width Ds\n");
    for (const struct stance_recipe_key *k = stance_recipe_keys; k->path != NULL; k++) {
        printf(".It Cm %s", k->path);
        if (k->kind != STANCE_KIND_COUNT)
            printf(" Pq %s", stance_kind_word(k->kind));
        printf("\n");
        stance_mdoc_text(k->doc);
        printf(".br\nDefault: ");
        stance_mdoc_word(k->dflt);
        printf(".\n");
    }
    printf(".El\n");
    for (size_t i = 0; (path = stance_recipe_section(i, &table)) != NULL; i++) {
        char prefix[64];

        if (table == NULL || table->name == NULL)
            continue;
        snprintf(prefix, sizeof prefix, "%s%s", path, *path != '\0' ? "." : "");
        printf(".Ss %s\n", *path != '\0' ? path : "Top level");
        stance_params_mdoc(prefix, table);
    }
}
