/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/complete.h"
#include "config/recipe_keys.h"
#include "registry/registry.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum add { ADD_WORDS, ADD_FOLDERS, ADD_FILES };

struct answer {
    struct stance_registry *registry; /* NULL until a plugin's name is asked for */
    const char             *path;     /* --plugin-path of the command line */
    const char             *current;  /* what the word starts with */
    const char             *prefix;   /* stands before every candidate: "--precision=" */
    struct stance_string    words;
    enum add                add;
    stance_status           status;
    struct stance_error    *err;
};

/* One word, if it goes on from what is there and has not been offered. */
static void offer(struct answer *a, const char *doc, const char *fmt, ...) STANCE_PRINTF(3, 4);
static void offer(struct answer *a, const char *doc, const char *fmt, ...)
{
    char    word[512], line[1024];
    size_t  skip = strlen(a->prefix);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(word, sizeof word, fmt, ap);
    va_end(ap);
    if (strncmp(word, a->current + skip, strlen(a->current + skip)) != 0)
        return;
    snprintf(line, sizeof line, "\n%s%s\t", a->prefix, word);
    if (a->words.s == NULL || strstr(a->words.s, line) == NULL)
        stance_string_add(&a->words, "%s%s", line, doc);
}

static void add(struct answer *a, enum add what)
{
    if (what > a->add)
        a->add = what;
}

/* ---- plugins --------------------------------------------------------------------------------- */

static bool open_registry(struct answer *a)
{
    if (a->registry == NULL && a->status == STANCE_OK)
        a->status = stance_registry_new(a->path, &a->registry, a->err);
    return a->registry != NULL && a->status == STANCE_OK;
}

struct naming { struct answer *a; bool with_kind; };

static void offer_plugin(void *ctx, enum stance_kind kind, const char *name)
{
    struct naming *n = ctx;

    if (n->with_kind)
        offer(n->a, "plugin", "%s/%s", stance_kind_word(kind), name);
    else
        offer(n->a, stance_kind_word(kind), "%s", name);
}

static void offer_plugins(struct answer *a, enum stance_kind kind, bool with_kind)
{
    struct naming n = { a, with_kind };

    if (open_registry(a))
        a->status = stance_registry_each(a->registry, kind, offer_plugin, &n, a->err);
}

/* What `key=` of a table may be. */
static void offer_values(struct answer *a, const char *before, const struct stance_param *p)
{
    if (p->type == STANCE_PARAM_TYPE_BOOL) {
        offer(a, p->doc, "%s%s=true", before, p->name);
        offer(a, p->doc, "%s%s=false", before, p->name);
    }
    for (int i = 0; p->type == STANCE_PARAM_TYPE_ENUM && p->choices[i] != NULL; i++)
        offer(a, p->doc, "%s%s=%s", before, p->name, p->choices[i]);
}

static void offer_keys(struct answer *a, const char *before, const struct stance_param *table)
{
    const char *word = a->current + strlen(a->prefix);

    for (const struct stance_param *p = table; p != NULL && p->name != NULL; p++) {
        size_t len = strlen(before) + strlen(p->name);

        if (strlen(word) > len && word[len] == '=')
            offer_values(a, before, p);
        else
            offer(a, p->doc, "%s%s=", before, p->name);
    }
}

/* NAME, or behind NAME: the keys of that plugin. */
static void offer_choice(struct answer *a, enum stance_kind kind)
{
    const char                 *word = a->current + strlen(a->prefix), *colon = strchr(word, ':');
    const struct stance_plugin *p;
    char                        name[128], before[256];
    const char                 *comma;

    if (colon == NULL) {
        offer_plugins(a, kind, false);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(colon - word), word);
    comma = strrchr(colon, ',');
    snprintf(before, sizeof before, "%.*s", (int)((comma != NULL ? comma : colon) + 1 - word), word);
    if (open_registry(a) && stance_registry_find(a->registry, kind, name, &p, NULL) == STANCE_OK)
        offer_keys(a, before, p->params);
}

/* ---- recipes --------------------------------------------------------------------------------- */

static void offer_recipe(void *ctx, const char *name)
{
    offer(ctx, "recipe", "%s", name);
}

static void offer_settings(struct answer *a)
{
    const struct stance_param *table;
    const char                *path;

    for (size_t i = 0; (path = stance_recipe_section(i, &table)) != NULL; i++) {
        char before[64];

        snprintf(before, sizeof before, "%s%s", path, *path != '\0' ? "." : "");
        offer_keys(a, before, table);
    }
    for (const struct stance_recipe_key *k = stance_recipe_keys; k->path != NULL; k++)
        offer(a, k->doc, "%s=", k->path);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* By the word that stands for an argument in the help. */
static void offer_by_word(struct answer *a, const char *word)
{
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz";

    if (strcmp(word, "KIND/NAME") == 0) {
        if (strchr(a->current, '/') != NULL)
            offer_plugins(a, STANCE_KIND_COUNT, true);
        else
            for (int i = 0; i < STANCE_KIND_COUNT; i++)
                offer(a, "plugins of this kind", "%s/", stance_kind_word((enum stance_kind)i));
    } else if (strcmp(word, "KIND") == 0) {
        for (int i = 0; i < STANCE_KIND_COUNT; i++)
            offer(a, "kind of plugin", "%s", stance_kind_word((enum stance_kind)i));
    } else if (strcmp(word, "RECIPE") == 0) {
        stance_recipe_each(offer_recipe, a);
        add(a, ADD_FILES);
    } else if (strstr(word, "DIR") != NULL) {
        add(a, ADD_FOLDERS);
    } else if (word[strspn(word, lower)] == '\0') {
        offer(a, "", "%s", word);
    } else if (strcmp(word, "FILE.so") == 0 && a->words.len > 0) {
        return; /* a folder called scalers would come between scaler/ and its plugins */
    } else if (strcmp(word, "N") != 0 && strcmp(word, "X") != 0 && strncmp(word, "NAME", 4) != 0 && *word != '-') {
        add(a, ADD_FILES);
    }
}

/* "F|LIST", "IMAGE|DIR...", "[KIND]": every alternative. */
static void offer_by_words(struct answer *a, const char *words, size_t len)
{
    while (len > 0) {
        size_t n = 0;
        char   word[64];

        while (n < len && words[n] != '|')
            n++;
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        word[strcspn(word, "].")] = '\0';
        if (*word != '\0')
            offer_by_word(a, word + (*word == '['));
        n += n < len;
        words += n;
        len -= n;
    }
}

static void offer_argument(struct answer *a, const struct stance_option *o)
{
    enum stance_kind kind = stance_kind_of(o->name);

    if (o->kind == STANCE_OPTION_CHOICE)
        for (int i = 0; o->choices[i] != NULL; i++)
            offer(a, o->doc, "%s", o->choices[i]);
    else if (o->kind == STANCE_OPTION_SETTING)
        offer_settings(a);
    else if (kind != STANCE_KIND_COUNT)
        offer_choice(a, kind);
    else if (o->argument != NULL)
        offer_by_words(a, o->argument, strlen(o->argument));
}

/* Positional argument number @p at of "KIND/NAME | KIND | FILE.so", "RECIPE CKPT IMAGE|DIR...": a bar
 * that stands alone joins its neighbours into one. */
static void offer_positional(struct answer *a, const char *arguments, int at)
{
    for (int slot = 0; *arguments != '\0'; slot++)
        for (bool more = true; more;) {
            size_t      len  = strcspn(arguments, " ");
            const char *next = arguments + len + strspn(arguments + len, " ");
            bool        dots = len > 3 && strncmp(arguments + len - 3, "...", 3) == 0;

            if (slot == at || (dots && at > slot))
                offer_by_words(a, arguments, len);
            more      = next[0] == '|' && next[1] == ' ';
            arguments = next + (more ? 2 : 0);
        }
}

/* ---- the line -------------------------------------------------------------------------------- */

static const struct stance_option *option_of(const struct stance_verb *verb, const char *name, size_t len, char letter)
{
    const struct stance_option *o;

    for (int i = 0; (o = stance_verb_table(verb, i)) != NULL; i++)
        for (; o->name != NULL; o++) {
            if (letter != '\0' ? o->letter == letter : strlen(o->name) == len && strncmp(o->name, name, len) == 0)
                return o;
            for (int k = 0; letter == '\0' && k < 2 && o->alias[k] != NULL; k++)
                if (strlen(o->alias[k]) == len && strncmp(o->alias[k], name, len) == 0)
                    return o;
        }
    return NULL;
}

static void offer_options(struct answer *a, const struct stance_verb *verb)
{
    const struct stance_option *o;

    for (int i = 0; (o = stance_verb_table(verb, i)) != NULL; i++)
        for (; o->name != NULL; o++) {
            offer(a, o->doc, "--%s", o->name);
            for (int k = 0; k < 2 && o->alias[k] != NULL; k++)
                offer(a, o->doc, "--%s", o->alias[k]);
        }
}

static bool wants_argument(const struct stance_option *o)
{
    return o != NULL && o->kind != STANCE_OPTION_FLAG && o->kind != STANCE_OPTION_OPTIONAL;
}

/* The words behind the verb. */
static void complete_verb(struct answer *a, const struct stance_verb *verb, int n, char *const *words)
{
    const struct stance_option *pending = NULL, *setting = NULL;
    int                         position = 0;
    bool                        only_arguments = false;
    char                        prefix[128];
    size_t                      equals;

    for (int i = 0; i + 1 < n; i++) {
        const char                 *w   = words[i];
        size_t                      len = strcspn(w, "=");
        const struct stance_option *o   = NULL;

        if (pending != NULL) {
            if (strcmp(pending->name, "plugin-path") == 0)
                a->path = w;
            pending = NULL;
        } else if (only_arguments || *w != '-' || w[1] == '\0') {
            position += setting == NULL || w[len] != '=';
        } else if (strcmp(w, "--") == 0) {
            only_arguments = true;
        } else {
            o       = w[1] == '-' ? option_of(verb, w + 2, len - 2, '\0') : option_of(verb, "", 0, w[1]);
            pending = wants_argument(o) && w[len] == '\0' ? o : NULL;
            setting = o != NULL && o->kind == STANCE_OPTION_SETTING ? o : NULL;
        }
    }
    equals = strcspn(a->current, "=");
    if (pending != NULL) {
        offer_argument(a, pending);
    } else if (!only_arguments && strncmp(a->current, "--", 2) == 0 && a->current[equals] == '=') {
        const struct stance_option *o = option_of(verb, a->current + 2, equals - 2, '\0');

        if (o == NULL || equals + 2 > sizeof prefix)
            return;
        snprintf(prefix, sizeof prefix, "%.*s", (int)equals + 1, a->current);
        a->prefix = prefix;
        offer_argument(a, o);
        a->prefix = "";
    } else if (!only_arguments && *a->current == '-') {
        offer_options(a, verb);
    } else {
        if (setting != NULL)
            offer_settings(a);
        offer_positional(a, verb->arguments, position);
    }
}

static void complete(struct answer *a, int n, char *const *words)
{
    static const char *const topics[] = { "recipe", "plugin", "plugins" };
    const struct stance_verb *verb    = n > 1 ? stance_verb_of(words[0]) : NULL;
    bool                      help    = n == 2 && strcmp(words[0], "help") == 0;

    if (verb != NULL) {
        complete_verb(a, verb, n - 1, words + 1);
    } else if (n == 1 || help) {
        for (const struct stance_verb *const *v = stance_verbs; *v != NULL; v++)
            offer(a, (*v)->summary, "%s", (*v)->name);
        for (int i = 0; help && i < 3; i++)
            offer(a, "man page", "%s", topics[i]);
        if (!help) {
            offer(a, "Open the man page of a command", "help");
            if (*a->current == '-') {
                offer(a, "print the commands", "--help");
                offer(a, "print the version", "--version");
                offer(a, "print how stance was built", "--build-info");
            }
        }
    }
}

stance_status stance_complete(int n, char *const *words, struct stance_error *err)
{
    static const char *const more[] = { ":words", ":folders", ":files" };
    struct answer            a      = { .current = n > 0 ? words[n - 1] : "", .prefix = "", .err = err };

    stance_log_set_sink(stance_log_drop, NULL); /* a warning would stand in the middle of the line */
    complete(&a, n, words);
    stance_registry_free(a.registry);
    if (a.status == STANCE_OK && a.words.failed)
        a.status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "completion");
    if (a.status == STANCE_OK)
        printf("%s%s\n", more[a.add], a.words.s != NULL ? a.words.s : "");
    stance_string_free(&a.words);
    return a.status;
}
