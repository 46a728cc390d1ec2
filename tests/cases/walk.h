/* SPDX-License-Identifier: Apache-2.0
 *
 * What the groups of `do` words share: a case under way, its input with every key accounted for,
 * and the comparison with what it expects. */
#ifndef TESTS_CASES_WALK_H
#define TESTS_CASES_WALK_H

#include "config/tree.h"

#include <stance/registry.h>

/** A case that is being run, in a process of its own. */
struct walk {
    const char                      *folder;         /**< that case.yaml lies in */
    const struct stance_config_node *input, *expect; /**< mappings, or NULL */
    struct stance_registry          *registry;
    char                             scratch[64]; /**< an empty folder that is removed afterwards */

    /* What the run came to: set by the function of the `do`. */
    stance_status       status;
    struct stance_error err;
    struct {
        char from[128], to[200];
    } alias[16]; /* words of message_has that are called otherwise here */
    int n_alias;

    /* The walker's. */
    struct stance_string said; /**< log lines, warnings too */
    int                  warnings;
    char                 why[600]; /**< the first thing that is wrong with the case; "": nothing */
    const struct stance_config_node *seen[64]; /**< children of expect that were compared */
    int                              n_seen;
};

/** One word of `do`. The lists name the keys of `input` and of `expect` that it reads, between
 * blanks; any other key fails the case. The keys that every case may have are not listed. A listed
 * key of `expect` that the run did not come to compare fails the case as well. */
struct walk_do {
    const char *word;
    void (*run)(struct walk *w);
    const char *input, *expect;
};

/** The groups, each ended by a NULL word. */
extern const struct walk_do walk_data[], walk_settings[], walk_scale[], walk_trace[], walk_ops[],
    walk_files[], walk_plugins[], walk_pose[], walk_train[];

/** Fails the case; only the first reason is kept. */
void               walk_fail(struct walk *w, const char *fmt, ...) STANCE_PRINTF(2, 3);
static inline bool walk_failed(const struct walk *w)
{
    return w->why[0] != '\0';
}

/* ---- input -------------------------------------------------------------------------------------
 */

/* A key that is absent gives the default; one of the wrong kind fails the case. */
const struct stance_config_node *walk_get(const struct walk *w, const char *key);
bool                             walk_has(const struct walk *w, const char *key);
const char                      *walk_text(struct walk *w, const char *key, const char *dflt);
double                           walk_f64(struct walk *w, const char *key, double dflt);
int64_t                          walk_i64(struct walk *w, const char *key, int64_t dflt);
bool                             walk_bool(struct walk *w, const char *key, bool dflt);
/** A required word or number. */
const char *walk_need(struct walk *w, const char *key);

/** The same for any node; @p what names it in messages. */
double  walk_node_f64(struct walk *w, const struct stance_config_node *n, const char *what);
int64_t walk_node_i64(struct walk *w, const struct stance_config_node *n, const char *what);

/** Numbers of a list (NULL: none), nested lists one after another; a lone number is a list of one.
 *  @return from stance_calloc, never NULL; *count of them */
double *walk_numbers(struct walk *w, const struct stance_config_node *list, const char *what,
                     size_t *count);

/** Fails unless every key of @p map is among the words of @p known. */
void walk_known(struct walk *w, const struct stance_config_node *map, const char *where,
                const char *known);

/** Path of a file of the case: @p name relative to its folder. Four static buffers in turn. */
const char *walk_path(const struct walk *w, const char *name);

/** Sets a parameter of a plugin from a key of the input (@p key), if it is there. A refusal is the
 *  outcome of the run. @return false then */
bool walk_param(struct walk *w, const struct stance_plugin *plugin, void *config, const char *name,
                const char *key);

/** A plugin with its defaults. @param[out] config  for stance_plugin_config_free(). @return NULL:
 * the case has failed */
const struct stance_plugin *walk_plugin(struct walk *w, enum stance_kind kind, const char *name,
                                        void **config);

/* ---- expect ------------------------------------------------------------------------------------
 */

/** Whether the case expects @p key; it then counts as compared. */
const struct stance_config_node *walk_expects(struct walk *w, const char *key);

/** Compares, if the case expects @p key, within its tolerances; NaN equals NaN. A list must have
 * the same length. */
void walk_is_f64(struct walk *w, const char *key, double have);
void walk_is_list(struct walk *w, const char *key, const double *have, size_t n);
void walk_is_bool(struct walk *w, const char *key, bool have);        /**< true, false, 1, 0 */
void walk_is_text(struct walk *w, const char *key, const char *have); /**< NULL is ~ */
/** Compares names in any order. */
void walk_is_names(struct walk *w, const char *key, const char *const *have, size_t n);
/** The same for numbers that name things. */
void walk_is_ids(struct walk *w, const char *key, const int64_t *have, size_t n);
/** Compares one number with a node of the expectation. @param device  added to messages, or NULL */
void walk_same(struct walk *w, const char *what, double have,
               const struct stance_config_node *want);
/** Whether @p have lies within the case's tolerances of @p want. */
bool walk_close(struct walk *w, double have, double want);

#endif
