/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Finding plugins by kind and name. */
#ifndef STANCE_REGISTRY_H
#define STANCE_REGISTRY_H

#include <stance/plugin.h>

STANCE_BEGIN_DECLS

/** @addtogroup registry Finding plugins
 *  @{ */

/** The plugins that were found and opened. */
struct stance_registry;

/** Makes a registry. Searched in this order: @p path (colon-separated, may be NULL),
 *  $STANCE_PLUGIN_PATH, the user's folder ($XDG_DATA_HOME/stance/plugins), the installed folder. Opens
 *  no plugin yet. The current folder is never searched unless it is named; an empty element is none.
 *  $STANCE_PLUGIN_BLOCKLIST names plugins as KIND/NAME, separated by commas or colons: they are not opened.
 *  The environment is ignored in set-uid programs.
 *  @param[out] out  the caller's, who frees it after everything made from it. */
STANCE_API stance_status stance_registry_new(const char *path, struct stance_registry **out,
                                             struct stance_error *err) STANCE_MUST_CHECK;

/** Closes every plugin. Accepts NULL. */
STANCE_API void stance_registry_free(struct stance_registry *reg);

/** Finds a plugin, opening its file on the first request. Safe in any thread.
 *  @param[out] out  owned by the registry.
 *  @return STANCE_OK; STANCE_ERR_NOENT (no file of that name on the path; the known names are told);
 *          STANCE_ERR_PLUGIN (it does not open: the text has the linker's reason);
 *          STANCE_ERR_ABI (built for another version); STANCE_ERR_INVAL (no name); STANCE_ERR_NOMEM. */
STANCE_API stance_status stance_registry_find(struct stance_registry *reg, enum stance_kind kind,
                                              const char *name, const struct stance_plugin **out,
                                              struct stance_error *err) STANCE_MUST_CHECK;

/** Opens one file by its path; the name must be `KIND_NAME.so`. @return as stance_registry_find() */
STANCE_API stance_status stance_registry_open(struct stance_registry *reg, const char *file,
                                              const struct stance_plugin **out,
                                              struct stance_error *err) STANCE_MUST_CHECK;

/** One file found on the search path. */
struct stance_listing {
    enum stance_kind            kind;   /**< from the file's name */
    const char                 *name;   /**< from the file's name */
    const char                 *file;   /**< absolute path; "(built in)" for a preloaded one */
    const struct stance_plugin *plugin; /**< NULL when it does not load */
    const char                 *reason; /**< then: why; for a hidden duplicate: by which file; else NULL */
};

/** Lists every plugin file on the path, opening each.
 *  @param kind  or STANCE_KIND_ALL. @param[out] list  owned by the registry, valid until the next call. */
STANCE_API stance_status stance_registry_list(struct stance_registry *reg, enum stance_kind kind,
                                              const struct stance_listing **list, size_t *count,
                                              struct stance_error *err) STANCE_MUST_CHECK;

/** Word of a kind in file names and recipes: "backbone", "scaler", ...; NULL if out of range. */
STANCE_API const char *stance_kind_word(enum stance_kind kind);
/** The kind of a word; if it is none, a number that is no kind's (STANCE_KIND_COUNT of the library). */
STANCE_API enum stance_kind stance_kind_of(const char *word);

/** @} */

STANCE_END_DECLS
#endif
