/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML document as a tree. Every node knows where it stands, so that a mistake can be told with
 * file, line and column long after the file was read. Words are kept as text; whoever asks decides
 * the type, so that a keypoint called "no" stays a name. */
#ifndef CONFIG_TREE_H
#define CONFIG_TREE_H

#include "base/text.h"

#include <stance/alloc.h>
#include <stance/error.h>
#include <stance/param.h>

enum stance_config_kind {
    STANCE_CONFIG_NULL, /**< a plain ~, null or nothing; its text is kept, lists of names read it */
    STANCE_CONFIG_SCALAR,
    STANCE_CONFIG_LIST,
    STANCE_CONFIG_MAP
};

struct stance_config_node {
    enum stance_config_kind     kind;
    bool                        quoted;  /**< 'text' or "text" in the file: never null */
    bool                        removed; /**< NULL: the file set a base's value to ~ */
    const char                 *key;     /**< in a mapping: its key; else NULL */
    const char                 *text;    /**< NULL and SCALAR; never NULL there */
    const char                 *file;    /**< as the user wrote it, or an option such as "--set" */
    int                         line, column; /**< of the value, from 1; 0: not from a file */
    int                         key_line, key_column; /**< of the key likewise */
    struct stance_config_node **child;                /**< LIST and MAP, in the order of the file */
    size_t                      count, capacity;
};

/** One or several merged documents: everything lives in the arena. */
struct stance_config {
    struct stance_arena       *arena;
    struct stance_config_node *root;  /**< a mapping */
    size_t                     nodes; /**< made so far, counted against a limit */
};

/* Limits. A recipe has some 100 nodes and a file of 294 points some 3000. */
#define STANCE_CONFIG_FILE_MAX  (16 << 20) /**< bytes of a file */
#define STANCE_CONFIG_DEPTH_MAX 64         /**< nested lists and mappings */
#define STANCE_CONFIG_NODES_MAX 1000000    /**< nodes of all files together */
#define STANCE_CONFIG_ALIAS_MAX 100000     /**< nodes that aliases of one file expand to */
#define STANCE_CONFIG_KEYS_MAX  10000      /**< keys of one mapping */
#define STANCE_CONFIG_KEY_MAX                                                                      \
    200 /**< bytes of a key; libyaml finds a ':' within 1024 characters only */
#define STANCE_CONFIG_BASES_MAX 64 /**< files read for one recipe */

/** Makes an empty document (root: a mapping without keys). @return NULL: out of memory. */
struct stance_config *stance_config_new(void) STANCE_MUST_CHECK;
/** Accepts NULL. */
void stance_config_free(struct stance_config *c);

/** Parses @p size bytes of YAML into the arena of @p c.
 *  @param name  file name for places. @param[out] out  the root; NULL when the text is empty. */
stance_status stance_config_parse(struct stance_config *c, const char *text, size_t size,
                                  const char *name, struct stance_config_node **out,
                                  struct stance_error *err) STANCE_MUST_CHECK;

/** Reads one file without its bases; the root must be a mapping. */
stance_status stance_config_read(struct stance_config *c, const char *path,
                                 struct stance_config_node **out,
                                 struct stance_error        *err) STANCE_MUST_CHECK;

/** Reads @p path and the files named by the key @p base_key (NULL: "_base_") of its root, relative
 * to the file they stand in and so on, and merges: bases first, mappings key by key, everything
 * else whole; ~ removes what a base has; a mapping with `_delete_: true` replaces instead of
 * merging. A mapping over something else, or the other way, is an error; so is a key that two bases
 * set from different places and the file itself does not.
 *  @param[out] out  the caller's, stance_config_free() */
stance_status stance_config_load(const char *path, const char *base_key, struct stance_config **out,
                                 struct stance_error *err) STANCE_MUST_CHECK;

/** Applies "a.b.c=VALUE": VALUE is YAML (flow form), a numeric component indexes a list, missing
 *  mappings are made, a mapping merges, anything else replaces; null takes the key back to its
 * default.
 *  @param origin  where the setting comes from, for messages: "--set" */
stance_status stance_config_set(struct stance_config *c, const char *assignment, const char *origin,
                                struct stance_error *err) STANCE_MUST_CHECK;

/** Merges @p over into the mapping @p into, in place, by the rules of stance_config_load().
 *  @param path  dotted name of @p into ("" at the root). @param kinds  refuse changes of kind. */
stance_status stance_config_merge(struct stance_config *c, struct stance_config_node *into,
                                  const struct stance_config_node *over, const char *path,
                                  bool kinds, struct stance_error *err) STANCE_MUST_CHECK;

/** Merges the mappings of two bases; a key that both set from different places is an error unless
 *  @p child (may be NULL) sets it as well. */
stance_status stance_config_merge_bases(struct stance_config *c, struct stance_config_node *into,
                                        const struct stance_config_node *other,
                                        const struct stance_config_node *child, const char *path,
                                        struct stance_error *err) STANCE_MUST_CHECK;

/* ---- nodes ----------------------------------------------------------------------------------- */

/** A node of the arena, with the place of @p place (may be NULL: none). NULL: out of memory, or
 * more than STANCE_CONFIG_NODES_MAX. */
struct stance_config_node *stance_config_node_new(
    struct stance_config *c, enum stance_config_kind kind,
    const struct stance_config_node *place) STANCE_MUST_CHECK;
/** A scalar with a copy of @p text. */
struct stance_config_node *stance_config_node_text(struct stance_config *c, const char *text,
                                                   const struct stance_config_node *place)
    STANCE_MUST_CHECK;
/** A deep copy. */
struct stance_config_node *stance_config_node_copy(
    struct stance_config *c, const struct stance_config_node *node) STANCE_MUST_CHECK;
/** Appends to a list or mapping. @p key: NULL in lists; else copied unless it already is the
 * child's. */
bool stance_config_node_add(struct stance_config *c, struct stance_config_node *parent,
                            const char *key, struct stance_config_node *child) STANCE_MUST_CHECK;
/** Puts @p child in the place of the key's value, or appends it. */
bool stance_config_node_put(struct stance_config *c, struct stance_config_node *map,
                            const char *key, struct stance_config_node *child) STANCE_MUST_CHECK;
/** Takes a key out of a mapping; true if it was there. */
bool stance_config_node_drop(struct stance_config_node *map, const char *key);

/** Value of a key, or NULL (also when @p map is NULL or no mapping). */
struct stance_config_node *stance_config_find(const struct stance_config_node *map,
                                              const char                      *key);
/** Node by dotted name, list items by number; NULL if there is none. */
struct stance_config_node *stance_config_get(const struct stance_config_node *root,
                                             const char                      *dotted);
/** Whether a node holds nothing: NULL pointer or NULL kind. */
bool stance_config_is_null(const struct stance_config_node *node);
/** Deep equality of kinds, keys and texts (places do not count). */
bool stance_config_equal(const struct stance_config_node *a, const struct stance_config_node *b);
/** Lists and mappings inside one another; 0 for a word. */
int stance_config_depth(const struct stance_config_node *node);
/** "a mapping", "a list", "null", "a value". */
const char *stance_config_kind_word(const struct stance_config_node *node);

/** Bytes that a place may take. */
#define STANCE_CONFIG_PLACE_MAX 600
/** Writes "file:line:column" of a value, or the option it came from; returns @p text. */
const char *stance_config_place(const struct stance_config_node *node,
                                char                             text[STANCE_CONFIG_PLACE_MAX]);

/** Reports a mistake at a node: "file:line:column: ...". @return @p status */
stance_status stance_config_fail(struct stance_error *err, stance_status status,
                                 const struct stance_config_node *node, const char *fmt, ...)
    STANCE_PRINTF(4, 5);

/* ---- parameter tables ------------------------------------------------------------------------ */

/** A mapping of the schema, so that a key in the wrong place can be offered with the right one. */
struct stance_config_section {
    const char *path; /**< "train", "data.augment"; "" is the root. NULL ends a schema */
    const struct stance_param *table; /**< may be NULL */
    const char *const         *extra; /**< NULL-ended: keys that are read otherwise; may be NULL */
};

/** Sets fields of @p config from a mapping: keys of @p table are converted (null gives null where
 * the parameter may be null and leaves other fields alone), others are errors that offer the
 * nearest. The defaults are the caller's (stance_param_defaults()).
 *  @param map   NULL or null: nothing to set
 *  @param path  dotted name of the mapping, "" at the root: "train" makes "train.lr: ..." */
stance_status stance_config_fill(const struct stance_config_node *map,
                                 const struct stance_param *table, void *config, const char *path,
                                 struct stance_error *err) STANCE_MUST_CHECK;

/** The same for one section of a schema: its extra keys are let through, and an unknown key that
 *  another section has is offered with its full name. @param schema  may be NULL */
stance_status stance_config_fill_section(const struct stance_config_node    *map,
                                         const struct stance_config_section *section,
                                         const struct stance_config_section *schema, void *config,
                                         struct stance_error *err) STANCE_MUST_CHECK;

/** The same for the settings of a plugin; messages say @p who ("scaler 'dynamic'") before the key.
 */
stance_status stance_config_fill_plugin(const struct stance_config_node *map,
                                        const struct stance_param *table, void *config,
                                        const char          *who,
                                        struct stance_error *err) STANCE_MUST_CHECK;

/* ---- text ------------------------------------------------------------------------------------ */

/** Appends the node as YAML that reads back to an equal tree; @p origins: each value's place
 * follows as a comment. out->failed tells a lack of memory. */
void stance_config_dump(const struct stance_config_node *node, bool origins,
                        struct stance_string *out);

/** Reads "NAME", "NAME:k=v,k=v" or "NAME:3,k=v" (a bare number becomes the key `index`) into a
 * mapping with `name` first. @param place  of the new nodes */
stance_status stance_config_spec(struct stance_config *c, const char *spec,
                                 const struct stance_config_node *place,
                                 struct stance_config_node      **out,
                                 struct stance_error             *err) STANCE_MUST_CHECK;

#endif
