/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line as tables: a verb is one file with one `const struct stance_verb`, and one line
 * in main.c. Help, checks and the man page's test are made from the same tables. */
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

/** Prints `stance VERB --help`. */
void stance_verb_help(const struct stance_verb *verb);

/** Registry of the command: --plugin-path and the usual path. */
stance_status stance_command_registry(const struct stance_command *c, struct stance_registry **out,
                                      struct stance_error *err);

/** Options that every verb has: --help, --plugin-path. Added by the parser, not by the verb. */
extern const struct stance_option stance_common_options[];

/* One line each; in the order of `stance --help` in main.c. */
extern const struct stance_verb stance_verb_bench;
extern const struct stance_verb stance_verb_check;
extern const struct stance_verb stance_verb_config;
extern const struct stance_verb stance_verb_convert;
extern const struct stance_verb stance_verb_eval;
extern const struct stance_verb stance_verb_inspect;
extern const struct stance_verb stance_verb_list;
extern const struct stance_verb stance_verb_new;
extern const struct stance_verb stance_verb_predict;
extern const struct stance_verb stance_verb_test;
extern const struct stance_verb stance_verb_trace;
extern const struct stance_verb stance_verb_train;

#endif
