/* SPDX-License-Identifier: Apache-2.0
 *
 * Help from the option tables, the man pages, and the parts of the man pages that come from tables. */
#include "config.h"

#include "cli/cli.h"
#include "cli/mdoc.h"
#include "cli/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DOC_COLUMN = 28, WIDEST = 100 };

/* Help is prose: it is broken where it goes to no terminal too, and not wider than reads well. */
static int help_columns(void)
{
    int columns = stance_columns();

    return columns == 0 ? STANCE_COLUMNS_HELP : columns > WIDEST ? WIDEST : columns;
}

void stance_help_print(void)
{
    int columns = help_columns();

    printf("Usage: stance COMMAND [OPTION]... [ARGUMENT]...\n"
           "Mixed-precision training of pose-estimation networks.\n\nCommands:\n");
    for (const struct stance_verb *const *v = stance_verbs; *v != NULL; v++) {
        printf("  %-12s", (*v)->name);
        stance_print_wrapped((*v)->summary, 14, 14, columns);
        printf("\n");
    }
    printf("\nOptions:\n"
           "  -h, --help      print this help and exit\n"
           "  -V, --version   print the version and exit\n"
           "      --build-info\n"
           "                  print how stance was built and exit\n\n"
           "'stance COMMAND --help' tells the options of a command, 'stance help COMMAND'\n"
           "opens its man page; 'stance help recipe' and 'stance help plugins' have every\n"
           "setting.\n");
}

/* "  -h, --help            doc": the doc on a line of its own if its column is taken. */
static void print_option(const struct stance_option *o, int columns)
{
    char   left[128], doc[512];
    size_t used;
    int    at;

    if (o->letter != 0)
        used = (size_t)snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name);
    else
        used = (size_t)snprintf(left, sizeof left, "      --%s", o->name);
    if (o->argument != NULL && used < sizeof left)
        snprintf(left + used, sizeof left - used,
                 o->kind == STANCE_OPTION_OPTIONAL ? "[=%s]" : " %s", o->argument);
    at = printf("%s", left);
    if (at < DOC_COLUMN - 1) {
        stance_print_pad(at, DOC_COLUMN);
    } else {
        printf("\n");
        stance_print_pad(0, DOC_COLUMN);
    }
    used = (size_t)snprintf(doc, sizeof doc, "%s%s", o->doc, o->repeatable ? " (repeatable)" : "");
    for (size_t i = 0; i < sizeof o->alias / sizeof *o->alias && o->alias[i] != NULL && used < sizeof doc; i++)
        used += (size_t)snprintf(doc + used, sizeof doc - used, "%s--%s", i == 0 ? "; also " : ", ", o->alias[i]);
    stance_print_wrapped(doc, DOC_COLUMN, DOC_COLUMN, columns);
    printf("\n");
}

void stance_verb_help(const struct stance_verb *verb)
{
    int                         columns = help_columns();
    const struct stance_option *table;

    printf("Usage: stance %s [OPTION]...%s%s\n\n%s.\n", verb->name, *verb->arguments != '\0' ? " " : "",
           verb->arguments, verb->summary);
    if (verb->doc != NULL) {
        stance_print_wrapped(verb->doc, 0, 0, columns);
        printf("\n");
    }
    printf("\nOptions:\n");
    for (int i = 0; (table = stance_verb_table(verb, i)) != NULL; i++)
        for (; table->name != NULL; table++)
            print_option(table, columns);
}

/* ---- the man page ---------------------------------------------------------------------------- */

/* @return whether man showed the page; where it is not installed it says nothing. */
static bool show_page(const char *section, const char *page)
{
    int   status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) != NULL)
            execlp("man", "man", section, page, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const struct topic { const char *word, *section, *page; } topics[] = {
    { "recipe", "5", "stance-recipe" },
    { "plugin", "7", "stance-plugin" },
    { "plugins", "7", "stance-plugins" },
};

static const struct topic *topic_of(const char *word)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strcmp(topics[i].word, word) == 0)
            return &topics[i];
    return NULL;
}

static int open_page(const char *word, struct stance_error *err)
{
    const struct stance_verb *verb  = stance_verb_of(word);
    const struct topic       *topic = verb == NULL ? topic_of(word) : NULL;
    bool                      wanted = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    char                      page[64];

    if (topic != NULL) {
        if (show_page(topic->section, topic->page))
            return 0;
        STANCE_FAIL(err, STANCE_ERR_IO, "help: the man page %s(%s) cannot be shown: is it installed?", topic->page,
                    topic->section);
        return STANCE_FAILED;
    }
    if (verb == NULL) {
        stance_verb_unknown(word, err);
        return STANCE_FAILED;
    }
    snprintf(page, sizeof page, "stance-%s", verb->name);
    if (!wanted || !show_page("1", page))
        stance_verb_help(verb);
    return 0;
}

/* `stance help --mdoc PART [VERB [DATE]]`: what doc/manual puts between the prose. */
static int print_part(int argc, char **argv, struct stance_error *err)
{
    static const struct { const char *word; void (*print)(void); } parts[] = {
        { "verbs", stance_mdoc_verbs },
        { "see-also", stance_mdoc_see_also },
        { "environment", stance_mdoc_environment },
        { "statuses", stance_mdoc_statuses },
    };
    const struct stance_verb *verb = argc > 1 ? stance_verb_of(argv[1]) : NULL;

    for (size_t i = 0; argc == 1 && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].word, argv[0]) == 0) {
            parts[i].print();
            return 0;
        }
    if (verb != NULL && argc == 3 && strcmp(argv[0], "head") == 0) {
        stance_mdoc_head(verb, argv[2]);
        return 0;
    }
    if (verb != NULL && argc == 2 && strcmp(argv[0], "options") == 0) {
        stance_mdoc_options(verb);
        return 0;
    }
    STANCE_FAIL(err, STANCE_ERR_INVAL,
                "help: --mdoc verbs | see-also | environment | statuses | head VERB DATE | options VERB");
    return STANCE_FAILED;
}

int stance_help(int argc, char **argv, struct stance_error *err)
{
    if (argc > 0 && strcmp(argv[0], "--mdoc") == 0)
        return print_part(argc - 1, argv + 1, err);
    if (argc > 1) {
        STANCE_FAIL(err, STANCE_ERR_INVAL, "help: unexpected argument '%s'", argv[1]);
        return STANCE_FAILED;
    }
    if (argc == 1 && argv[0][0] != '-')
        return open_page(argv[0], err);
    stance_help_print();
    return 0;
}
