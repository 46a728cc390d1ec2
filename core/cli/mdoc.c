/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/environment.h"
#include "cli/mdoc.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { N_ALIASES = sizeof ((struct stance_option *)0)->alias / sizeof(char *) };

void stance_mdoc_word(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        switch (*c) {
        case '\\': fputs("\\e", stdout); break;
        case '-': fputs("\\-", stdout); break;
        case '`': fputs("\\(ga", stdout); break;
        case '\'': fputs("\\(aq", stdout); break;
        case '"': fputs("\\(dq", stdout); break;
        case '^': fputs("\\(ha", stdout); break;
        case '~': fputs("\\(ti", stdout); break;
        default: putchar(*c);
        }
}

/* Whether the text begins with a word of prose, which may have a capital; not with a file, a number or
 * a value such as fp32 or "none: ...". */
static bool begins_plain(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz");

    return len > 0 && (text[len] == '\0' || strchr(" ;-", text[len]) != NULL || (text[len] == ',' && len > 4))
           && strncmp(text, "warn ", 5) != 0;
}

/* A hyphen between two letters; else a minus, as in options and numbers. */
static bool is_hyphen(const char *text, size_t i)
{
    return i > 0 && text[i] == '-' && isalpha((unsigned char)text[i - 1]) && isalpha((unsigned char)text[i + 1]);
}

void stance_mdoc_text(const char *text)
{
    size_t len   = strlen(text);
    bool   start = true, option = false; /* of a line; within a word that begins with a minus */

    for (size_t i = 0; i < len; i++) {
        char c[2] = { text[i], '\0' };

        if (i == 0 || text[i - 1] == ' ')
            option = c[0] == '-';
        if (start && (c[0] == '.' || c[0] == '\''))
            fputs("\\&", stdout);
        if (i == 0 && begins_plain(text))
            c[0] = (char)toupper((unsigned char)c[0]);
        start = c[0] == ' ' && i > 0 && strchr(".?!", text[i - 1]) != NULL;
        if (start || (!option && is_hyphen(text, i)))
            putchar(start ? '\n' : '-');
        else
            stance_mdoc_word(c);
    }
    printf("%s\n", len > 0 && strchr(".?!:", text[len - 1]) == NULL ? "." : "");
}

static void print_upper(const char *text)
{
    for (; *text != '\0'; text++)
        putchar(toupper((unsigned char)*text));
}

/* "RECIPE CKPT [IMAGE]": each word an argument of its own. */
static void print_arguments(const char *arguments)
{
    while (*arguments != '\0') {
        size_t len = strcspn(arguments, " ");
        char   word[64];

        snprintf(word, sizeof word, "%.*s", (int)len, arguments);
        if (strcmp(word, "|") == 0) {
            printf("|\n");
        } else if (strncmp(word, "--", 2) == 0) {
            printf(".Fl \\-%s\n", word + 2);
        } else if (word[0] == '[' && word[len - 1] == ']') {
            word[len - 1] = '\0';
            printf(".Op Ar ");
            stance_mdoc_word(word + 1);
            printf("\n");
        } else {
            printf(".Ar ");
            stance_mdoc_word(word);
            printf("\n");
        }
        arguments += len;
        arguments += strspn(arguments, " ");
    }
}

void stance_mdoc_head(const struct stance_verb *verb, const char *date)
{
    printf(".Dd %s\n.Dt STANCE-", date);
    print_upper(verb->name);
    printf(" 1\n.Os\n.Sh NAME\n.Nm stance-%s\n.Nd ", verb->name);
    putchar(tolower((unsigned char)verb->summary[0]));
    stance_mdoc_word(verb->summary + 1);
    printf("\n.Sh SYNOPSIS\n.Nm stance %s\n.Op Ar option ...\n", verb->name);
    print_arguments(verb->arguments);
}

static void print_range(const struct stance_option *o)
{
    if (o->kind == STANCE_OPTION_INTEGER || o->kind == STANCE_OPTION_REAL) {
        printf(o->kind == STANCE_OPTION_INTEGER ? "From %.17g to %.17g.\n" : "From %.10g to %.10g.\n", o->min, o->max);
    } else if (o->kind == STANCE_OPTION_CHOICE && strstr(o->doc, o->choices[0]) == NULL) {
        printf("One of");
        for (int i = 0; o->choices[i] != NULL; i++) {
            printf("%s\n.Cm ", i > 0 ? " ," : "");
            stance_mdoc_word(o->choices[i]);
        }
        printf(" .\n");
    }
}

static void print_option(const struct stance_option *o)
{
    printf(".It ");
    if (o->letter != 0)
        printf("Fl %c , ", o->letter);
    printf("Fl \\-");
    stance_mdoc_word(o->name);
    if (o->argument != NULL) {
        printf(o->kind == STANCE_OPTION_OPTIONAL ? " Ns Op = Ns Ar " : " Ar ");
        stance_mdoc_word(o->argument);
    }
    printf("\n");
    stance_mdoc_text(o->doc);
    print_range(o);
    if (o->repeatable)
        printf("May be given more than once.\n");
    for (size_t i = 0; i < N_ALIASES && o->alias[i] != NULL; i++) {
        printf(i == 0 ? ".Fl \\-" : "and\n.Fl \\-");
        stance_mdoc_word(o->alias[i]);
        printf("\n");
    }
    if (o->alias[0] != NULL)
        printf(o->alias[1] != NULL ? "are the same.\n" : "is the same.\n");
}

void stance_mdoc_options(const struct stance_verb *verb)
{
    const struct stance_option *table;

    printf(".Bl -tag -width Ds\n");
    for (int i = 0; (table = stance_verb_table(verb, i)) != NULL; i++)
        for (; table->name != NULL; table++)
            print_option(table);
    printf(".El\n");
}

void stance_mdoc_verbs(void)
{
    printf(".Bl -tag -width completion\n");
    for (const struct stance_verb *const *v = stance_verbs; *v != NULL; v++) {
        printf(".It Cm %s\n", (*v)->name);
        stance_mdoc_text((*v)->summary);
        printf("See\n.Xr stance-%s 1 .\n", (*v)->name);
    }
    printf(".El\n");
}

void stance_mdoc_see_also(void)
{
    const char *names[64];
    int         n = 0;

    for (const struct stance_verb *const *v = stance_verbs; *v != NULL && n < 64; v++) {
        int at = n++;

        for (; at > 0 && strcmp(names[at - 1], (*v)->name) > 0; at--)
            names[at] = names[at - 1];
        names[at] = (*v)->name;
    }
    for (int i = 0; i < n; i++)
        printf(".Xr stance-%s 1 ,\n", names[i]);
    printf(".Xr stance-recipe 5 ,\n.Xr stance-plugin 7 ,\n.Xr stance-plugins 7\n");
}

void stance_mdoc_environment(void)
{
    printf(".Bl -tag -width Ds\n");
    for (int i = 0; i < STANCE_ENV_COUNT; i++) {
        const struct stance_env_variable *v = stance_env_variable((enum stance_env)i);

        printf(".It Ev %s\n", v->name);
        stance_mdoc_text(v->doc);
        if (*v->dflt != '\0') {
            printf("Default: ");
            stance_mdoc_word(v->dflt);
            printf(".\n");
        }
    }
    printf(".El\n");
}

void stance_mdoc_statuses(void)
{
    printf(".Bl -tag -width Ds -compact\n");
    for (int i = 0; stance_statuses[i].text != NULL; i++) {
        printf(".It %s\n", stance_statuses[i].status);
        stance_mdoc_text(stance_statuses[i].text);
    }
    printf(".El\n");
}
