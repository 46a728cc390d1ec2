/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/json.h"
#include "cli/mdoc.h"
#include "cli/params.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>

enum { CELLS = 4, LEFT = 2, GAP = 2, MEANING_MIN = 28, MEANING_INDENT = 6 };

const char *stance_param_type_word(const struct stance_param *p)
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

const char *stance_param_range(const struct stance_param *p, char *text, size_t size)
{
    /* Whole numbers are written out; of others, which are limits of types, ten digits tell enough. */
    int    digits = p->type == STANCE_PARAM_TYPE_I64 || p->type == STANCE_PARAM_TYPE_LIST_I64 ? 17 : 10;
    size_t used   = 0;

    text[0] = '\0';
    if (has_range(p))
        used = (size_t)snprintf(text, size, "[%.*g, %.*g]%s%s", digits, p->min, digits, p->max,
                                strcmp(p->unit, "1") != 0 ? " " : "",
                                strcmp(p->unit, "1") != 0 ? p->unit : "");
    for (int i = 0; p->type == STANCE_PARAM_TYPE_ENUM && p->choices[i] != NULL && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "|" : "", p->choices[i]);
    if ((p->flags & STANCE_PARAM_NULLABLE) && used < size)
        snprintf(text + used, size - used, " or null");
    return text;
}

static const char *default_text(const struct stance_param *p)
{
    return *p->dflt != '\0' ? p->dflt : "''";
}

/* ---- for people ------------------------------------------------------------------------------ */

struct row { const char *cell[CELLS]; char range[256]; };

static void fill(struct row *row, const struct stance_param *p)
{
    row->cell[0] = p->name;
    row->cell[1] = stance_param_type_word(p);
    row->cell[2] = default_text(p);
    row->cell[3] = stance_param_range(p, row->range, sizeof row->range);
}

/* Four columns, and the meaning behind them where it has room; else below. */
void stance_params_print(const char *title, const struct stance_param *table, int columns)
{
    static const char *const heads[CELLS] = { "NAME", "TYPE", "DEFAULT", "RANGE" };
    int                      wide[CELLS] = { 4, 4, 7, 5 }, full = LEFT;
    struct row               row;
    bool                     below;

    if (table == NULL || table->name == NULL)
        return;
    for (const struct stance_param *p = table; p->name != NULL; p++) {
        fill(&row, p);
        for (int i = 0; i < CELLS; i++)
            if ((int)strlen(row.cell[i]) > wide[i])
                wide[i] = (int)strlen(row.cell[i]);
    }
    for (int i = 0; i < CELLS; i++)
        full += wide[i] + GAP;
    below = columns > 0 && full + MEANING_MIN > columns;
    printf("\n%s:\n%*s", title, LEFT, "");
    for (int i = 0; i < CELLS; i++)
        printf("%-*s", i + 1 < CELLS || !below ? wide[i] + GAP : 0, heads[i]);
    printf(below ? "\n" : "MEANING\n");
    for (const struct stance_param *p = table; p->name != NULL; p++) {
        int at = LEFT;

        fill(&row, p);
        printf("%*s", LEFT, "");
        for (int i = 0; i < CELLS; i++) {
            bool last = below && (i + 1 == CELLS || (i + 2 == CELLS && *row.cell[i + 1] == '\0'));

            at += printf("%-*s", last ? 0 : wide[i] + GAP, row.cell[i]);
            if (last)
                break;
        }
        if (below)
            printf("\n%*s", MEANING_INDENT, "");
        stance_print_wrapped(p->doc, below ? MEANING_INDENT : at, below ? MEANING_INDENT : full, columns);
        printf("\n");
    }
}

/* ---- for programs ---------------------------------------------------------------------------- */

json_t *stance_params_json(const struct stance_param *table)
{
    json_t *list = json_array();

    for (const struct stance_param *p = table; p != NULL && p->name != NULL && list != NULL; p++) {
        json_t *choices = p->type == STANCE_PARAM_TYPE_ENUM ? json_array() : json_null();
        json_t *row;

        for (int i = 0; p->type == STANCE_PARAM_TYPE_ENUM && p->choices[i] != NULL; i++)
            json_array_append_new(choices, stance_json_text(p->choices[i]));
        row = json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "name",
                        stance_json_text(p->name), "type", stance_json_text(stance_param_type_word(p)),
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

/* ---- for man pages --------------------------------------------------------------------------- */

void stance_params_mdoc(const char *prefix, const struct stance_param *table)
{
    char range[256];

    printf(".Bl -tag -width Ds\n");
    for (const struct stance_param *p = table; p->name != NULL; p++) {
        printf(".It Cm ");
        stance_mdoc_word(prefix);
        stance_mdoc_word(p->name);
        printf(" Pq ");
        stance_mdoc_word(stance_param_type_word(p));
        printf("\n");
        stance_mdoc_text(p->doc);
        stance_param_range(p, range, sizeof range);
        printf(".br\n");
        if (*range != '\0') {
            printf("Range: ");
            stance_mdoc_word(range);
            printf(";\n");
        }
        printf("%s: ", *range != '\0' ? "default" : "Default");
        stance_mdoc_word(*p->dflt != '\0' ? p->dflt : "the empty text");
        printf(".\n");
    }
    printf(".El\n");
}
