/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line as tables: a verb is one file with one `const struct stance_verb`, and one line
 * in verbs.c. Help, checks, man pages and completion are made from the same tables. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stance/registry.h>

enum stance_option_kind {
    STANCE_OPTION_FLAG,     /**< no argument */
    STANCE_OPTION_TEXT,
    STANCE_OPTION_INTEGER,  /**< within [min, max] */
    STANCE_OPTION_REAL,     /**< within [min, max] */
    STANCE_OPTION_CHOICE,   /**< one of choices */
    STANCE_OPTION_OPTIONAL, /**< --name or --name=TEXT */
    STANCE_OPTION_SETTING   /**< KEY=VALUE; further ones may follow: --cfg-options a=1 b=2 */
};

/** One option. A table ends with an entry whose name is NULL. */
struct stance_option {
    const char             *name;     /**< long name, without the dashes */
    char                    letter;   /**< short name; 0: none */
    enum stance_option_kind kind;
    const char             *argument; /**< its word in the help: "N"; NULL for flags */
    const char             *doc;      /**< one line */
    const char             *alias[2]; /**< long names accepted too */
    double                  min, max;
    const char *const      *choices;  /**< NULL-ended */
    bool                    repeatable; /**< else the last one counts */
};

struct stance_command;

/** One verb of the program. */
struct stance_verb {
    const char *name;
    const char *summary;   /**< one line for `stance --help` */
    const char *arguments; /**< "RECIPE CKPT" in the usage line; "" for none */
    int         min_args, max_args; /**< positional; -1: any number */
    const struct stance_option *const *options; /**< NULL-ended list of tables; may be NULL */
    const char *doc;       /**< a paragraph for `stance VERB --help`; may be NULL */
    /** @return the exit status of the program, or STANCE_FAILED with the reason in @p err, which
     *  main prints and turns into an exit status by stance_exit_status(). */
    int (*run)(const struct stance_command *c, struct stance_error *err);
    /** Optional: installs signal handlers, before anything of the verb runs. */
    void (*signals)(void);
};
#define STANCE_FAILED (-1)

/** An option as it was given. */
struct stance_given {
    const struct stance_option *option;
    const char *text; /**< NULL for flags */
};

/** A parsed command line. Everything is owned by it or by argv. */
struct stance_command {
    const struct stance_verb *verb;
    char *const              *args; /**< positional arguments */
    int                       n_args;
    struct stance_given      *given;
    int                       n_given;
    bool                      help; /**< --help: args are not checked */
};

/** Parses argv[2..] for @p verb. argv may be reordered.
 *  @return STANCE_OK, or STANCE_ERR_INVAL / STANCE_ERR_RANGE with a usage error that starts with
 *  the verb. */
stance_status stance_command_parse(const struct stance_verb *verb, int argc, char **argv,
                                   struct stance_command *out, struct stance_error *err);
void stance_command_clear(struct stance_command *c);

/** Whether an option was given, under any of its names. */
bool stance_command_has(const struct stance_command *c, const char *name);
/** Text of the last one given; NULL if there is none, or for an optional argument that was left
 *  out. */
const char *stance_command_text(const struct stance_command *c, const char *name);
int64_t stance_command_i64(const struct stance_command *c, const char *name, int64_t otherwise);
double stance_command_f64(const struct stance_command *c, const char *name, double otherwise);
/** Steps through a repeatable option: start with *at = 0. @return NULL at the end. */
const char *stance_command_next(const struct stance_command *c, const char *name, int *at);

/** Table number @p i of the verb's options, the common one last; NULL behind it. */
const struct stance_option *stance_verb_table(const struct stance_verb *verb, int i);

/** Prints `stance --help`, and `stance VERB --help`. */
void stance_help_print(void);
void stance_verb_help(const struct stance_verb *verb);
/** `stance help [WORD]`: the man page of a verb or a topic on a terminal, else the help; and, for the
 *  build of the man pages, their parts that come from tables (--mdoc).
 *  @param argv  [argc] what stands behind `help`
 *  @return an exit status, or STANCE_FAILED */
int stance_help(int argc, char **argv, struct stance_error *err);

/** Registry of the command: --plugin-path and the usual path. */
stance_status stance_command_registry(const struct stance_command *c, struct stance_registry **out,
                                      struct stance_error *err);

/** Options that every verb has: --help, --plugin-path. Added by the parser, not by the verb. */
extern const struct stance_option stance_common_options[];

/** All verbs in the order of the help, NULL-ended: verbs.c. */
extern const struct stance_verb *const stance_verbs[];
/** The verb called @p name, or NULL. */
const struct stance_verb *stance_verb_of(const char *name);
/** Fails with STANCE_ERR_INVAL and the nearest verb. */
stance_status stance_verb_unknown(const char *name, struct stance_error *err);

/** The exit statuses of the program, as man page and help tell them; ends with text NULL. */
struct stance_status_text { const char *status, *text; };
extern const struct stance_status_text stance_statuses[];

/* One line each; in the order of the alphabet. */
extern const struct stance_verb stance_verb_bench;
extern const struct stance_verb stance_verb_check;
extern const struct stance_verb stance_verb_completion;
extern const struct stance_verb stance_verb_config;
extern const struct stance_verb stance_verb_convert;
extern const struct stance_verb stance_verb_eval;
extern const struct stance_verb stance_verb_inspect;
extern const struct stance_verb stance_verb_list;
extern const struct stance_verb stance_verb_new;
extern const struct stance_verb stance_verb_plot;
extern const struct stance_verb stance_verb_predict;
extern const struct stance_verb stance_verb_test;
extern const struct stance_verb stance_verb_trace;
extern const struct stance_verb stance_verb_train;

#endif
