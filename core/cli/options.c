/* SPDX-License-Identifier: Apache-2.0
 *
 * getopt_long() driven by the tables of cli.h. */
#include "config.h"

#include "base/text.h"
#include "cli/cli.h"

#include <stance/alloc.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LONG = 128, MAX_SHORT = 3 * 52 + 2 };

const struct stance_option stance_common_options[] = { { .name     = "plugin-path",
                                                         .kind     = STANCE_OPTION_TEXT,
                                                         .argument = "DIR[:DIR...]",
                                                         .doc = "look for plugins here first" },
                                                       { .name   = "help",
                                                         .letter = 'h',
                                                         .kind   = STANCE_OPTION_FLAG,
                                                         .doc    = "print this help and exit" },
                                                       { .name = NULL } };

const struct stance_option *stance_verb_table(const struct stance_verb *verb, int i)
{
    int n = 0;

    while (verb->options != NULL && verb->options[n] != NULL)
        n++;
    return i < n ? verb->options[i] : i == n ? stance_common_options : NULL;
}

#define EACH_OPTION(verb, o)                                                                          \
    for (int table_ = 0; stance_verb_table((verb), table_) != NULL; table_++)                         \
        for (const struct stance_option *o = stance_verb_table((verb), table_); o->name != NULL; o++)

struct names {
    struct option               opts[MAX_LONG];
    const struct stance_option *of[MAX_LONG];
    int                         n;
    char                        letters[MAX_SHORT];
};

static void add_name(struct names *names, const char *name, const struct stance_option *o)
{
    if (name == NULL || names->n >= MAX_LONG - 1)
        return;
    names->opts[names->n] = (struct option){
        name,
        o->kind == STANCE_OPTION_FLAG       ? no_argument
        : o->kind == STANCE_OPTION_OPTIONAL ? optional_argument
                                            : required_argument,
        NULL, 256 + names->n
    };
    names->of[names->n++] = o;
}

static void collect(const struct stance_verb *verb, struct names *names)
{
    size_t used = 0;

    memset(names, 0, sizeof *names);
    names->letters[used++] = ':'; /* a missing argument is told apart from an unknown option */
    EACH_OPTION(verb, o) {
        add_name(names, o->name, o);
        for (size_t i = 0; i < sizeof o->alias / sizeof *o->alias; i++)
            add_name(names, o->alias[i], o);
        if (o->letter != 0 && used < sizeof names->letters - 3) {
            names->letters[used++] = o->letter;
            if (o->kind != STANCE_OPTION_FLAG)
                names->letters[used++] = ':';
        }
    }
}

static const struct stance_option *by_letter(const struct stance_verb *verb, int letter)
{
    EACH_OPTION(verb, o)
        if (o->letter == letter && letter != 0)
            return o;
    return NULL;
}

static const char *nearest(const struct names *names, const char *word)
{
    const char *near = NULL;
    int         best = 3; /* further away is another word, not a slip */

    for (int i = 0; i < names->n; i++) {
        int d = stance_text_distance(word, names->opts[i].name);

        if (d < best) {
            best = d;
            near = names->opts[i].name;
        }
    }
    return near;
}

static stance_status unknown(const struct stance_verb *verb, const struct names *names,
                             const char *word, struct stance_error *err)
{
    char        name[64];
    const char *near;
    size_t      len;

    if (word[0] != '-' || word[1] != '-')
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown option '-%c'", verb->name, optopt);
    len = strcspn(word + 2, "=");
    snprintf(name, sizeof name, "%.*s", len < sizeof name ? (int)len : (int)sizeof name - 1,
             word + 2);
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->opts[i].name, name) == 0)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: --%s takes no argument", verb->name,
                               name);
    near = nearest(names, name);
    if (near != NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown option '--%s'; did you mean '--%s'?",
                           verb->name, name, near);
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown option '--%s'; see 'stance %s --help'",
                       verb->name, name, verb->name);
}

static stance_status check_integer(const struct stance_option *o, const char *text,
                                   struct stance_error *err)
{
    char     *end;
    long long v;

    errno = 0;
    v     = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || *text == ' ')
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "--%s: '%s' is not an integer", o->name, text);
    if (errno == ERANGE || (double)v < o->min || (double)v > o->max)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "--%s: %s is outside [%.15g, %.15g]", o->name,
                           text, o->min, o->max);
    return STANCE_OK;
}

static stance_status check_real(const struct stance_option *o, const char *text,
                                struct stance_error *err)
{
    double v;

    if (!stance_text_f64(text, &v))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "--%s: '%s' is not a number", o->name, text);
    if (!(v >= o->min && v <= o->max)) /* written so that a NaN is refused */
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "--%s: %s is outside [%.10g, %.10g]", o->name,
                           text, o->min, o->max);
    return STANCE_OK;
}

static stance_status check_choice(const struct stance_option *o, const char *text,
                                  struct stance_error *err)
{
    char   known[256] = "";
    size_t used       = 0;

    for (int i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(text, o->choices[i]) == 0)
            return STANCE_OK;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                     o->choices[i]);
    }
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "--%s: '%s' is not one of %s", o->name, text, known);
}

static stance_status check(const struct stance_option *o, const char *text,
                           struct stance_error *err)
{
    switch (o->kind) {
    case STANCE_OPTION_INTEGER: return check_integer(o, text, err);
    case STANCE_OPTION_REAL: return check_real(o, text, err);
    case STANCE_OPTION_CHOICE: return check_choice(o, text, err);
    case STANCE_OPTION_TEXT:
        if (*text == '\0')
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "--%s: the argument is empty", o->name);
        return STANCE_OK;
    case STANCE_OPTION_SETTING:
        if (*text == '=' || strchr(text, '=') == NULL)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "--%s: '%s' is not of the form KEY=VALUE",
                               o->name, text);
        return STANCE_OK;
    case STANCE_OPTION_FLAG:
    case STANCE_OPTION_OPTIONAL: break;
    }
    return STANCE_OK;
}

static stance_status keep(struct stance_command *c, const struct stance_option *o, const char *text,
                          struct stance_error *err)
{
    stance_status status = text != NULL ? check(o, text, err) : STANCE_OK;

    if (status != STANCE_OK)
        return stance_error_prefix(err, status, "%s", c->verb->name);
    c->given[c->n_given++] = (struct stance_given){ o, text };
    return STANCE_OK;
}

/* KEY=VALUE: what may follow the first argument of a setting. */
static bool is_setting(const char *word)
{
    size_t key = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");

    return key > 0 && word[key] == '=';
}

static stance_status check_arguments(const struct stance_command *c, struct stance_error *err)
{
    const struct stance_verb *v = c->verb;

    if (c->n_args < v->min_args)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: an argument is missing; usage: stance %s [OPTION]... %s", v->name,
                           v->name, v->arguments);
    if (v->max_args >= 0 && c->n_args > v->max_args)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unexpected argument '%s'", v->name,
                           c->args[v->max_args]);
    return STANCE_OK;
}

static stance_status parse(struct stance_command *c, const struct names *names, int argc,
                           char **argv, struct stance_error *err)
{
    stance_status status = STANCE_OK;
    int           got;

    optind = 0; /* glibc: starts afresh */
    opterr = 0;
    while (status == STANCE_OK
           && (got = getopt_long(argc, argv, names->letters, names->opts, NULL)) != -1) {
        const struct stance_option *o = got >= 256 ? names->of[got - 256] : by_letter(c->verb, got);

        if (got == ':')
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: %s wants an argument", c->verb->name,
                               argv[optind - 1]);
        if (got == '?' || o == NULL)
            return unknown(c->verb, names, argv[optind - 1], err);
        status = keep(c, o, optarg, err);
        while (status == STANCE_OK && o->kind == STANCE_OPTION_SETTING && optind < argc
               && is_setting(argv[optind]))
            status = keep(c, o, argv[optind++], err);
    }
    c->args   = argv + optind;
    c->n_args = argc - optind;
    return status;
}

stance_status stance_command_parse(const struct stance_verb *verb, int argc, char **argv,
                                   struct stance_command *out, struct stance_error *err)
{
    struct stance_command c = { .verb = verb };
    struct names          names;
    stance_status         status;

    /* Each word gives one option at most, except a cluster of letters. */
    size_t room = 1;

    for (int i = 0; i < argc; i++)
        room += strlen(argv[i]);
    c.given = stance_calloc(room, sizeof *c.given);
    if (c.given == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "command line");
    collect(verb, &names);
    status = parse(&c, &names, argc - 1, argv + 1, err);
    if (status == STANCE_OK) {
        c.help = stance_command_has(&c, "help");
        if (!c.help)
            status = check_arguments(&c, err);
    }
    if (status != STANCE_OK) {
        stance_command_clear(&c);
        return status;
    }
    *out = c;
    return STANCE_OK;
}

void stance_command_clear(struct stance_command *c)
{
    stance_free(c->given);
    *c = (struct stance_command){ 0 };
}

static const struct stance_given *last(const struct stance_command *c, const char *name)
{
    for (int i = c->n_given - 1; i >= 0; i--)
        if (strcmp(c->given[i].option->name, name) == 0)
            return &c->given[i];
    return NULL;
}

bool stance_command_has(const struct stance_command *c, const char *name)
{
    return last(c, name) != NULL;
}

const char *stance_command_text(const struct stance_command *c, const char *name)
{
    const struct stance_given *g = last(c, name);

    return g != NULL ? g->text : NULL;
}

int64_t stance_command_i64(const struct stance_command *c, const char *name, int64_t otherwise)
{
    const char *text = stance_command_text(c, name);

    return text != NULL ? strtoll(text, NULL, 10) : otherwise;
}

double stance_command_f64(const struct stance_command *c, const char *name, double otherwise)
{
    const char *text = stance_command_text(c, name);
    double      v;

    return text != NULL && stance_text_f64(text, &v) ? v : otherwise;
}

const char *stance_command_next(const struct stance_command *c, const char *name, int *at)
{
    while (*at < c->n_given) {
        const struct stance_given *g = &c->given[(*at)++];

        if (strcmp(g->option->name, name) == 0)
            return g->text;
    }
    return NULL;
}

stance_status stance_command_registry(const struct stance_command *c, struct stance_registry **out,
                                      struct stance_error *err)
{
    return stance_registry_new(stance_command_text(c, "plugin-path"), out, err);
}
