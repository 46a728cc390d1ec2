/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the registry share. */
#ifndef REGISTRY_INTERNAL_H
#define REGISTRY_INTERNAL_H

#include <stance/alloc.h>
#include <stance/registry.h>

#include <ltdl.h>

#define STANCE_PLUGIN_SUFFIX ".so"
enum {
    STANCE_STEM_MAX = 128, /* bytes of "<kind>_<name>" with its final zero */
    STANCE_FILE_MAX = 4096 /* bytes of a plugin's path with its final zero */
};

/* ---- search.c: folders and files, nothing is opened ------------------------------------------ */

/** The search path: absolute folders in the order of their rank, none twice. In an arena. */
struct stance_search {
    const char **folders;
    size_t       n, capacity;
    const char  *blocked; /**< KIND/NAME that must not be opened, separated by , or :; never NULL */
};

/** Fills @p s from @p path and the environment (see stance_registry_new()). */
stance_status stance_search_init(struct stance_search *s, struct stance_arena *arena,
                                 const char *path, struct stance_error *err);
void stance_search_clear(struct stance_search *s);

/** Looks for the file of @p stem in folder number @p i: FOLDER/STEM.so, or in a build folder, where
 *  libtool puts STEM.la beside it, FOLDER/.libs/STEM.so. @return whether there is one; @p file has
 *  its path, STANCE_FILE_MAX bytes. */
bool stance_search_file(const struct stance_search *s, size_t i, const char *stem, char *file);

/** Calls @p found for every plugin file of the path: by folder, in the order of their names.
 *  @param kind  STANCE_KIND_COUNT: all kinds. */
stance_status stance_search_each(const struct stance_search *s, enum stance_kind kind,
                                 stance_status (*found)(void *ctx, const char *stem,
                                                        const char *file),
                                 void *ctx, struct stance_error *err);

/** Whether $STANCE_PLUGIN_BLOCKLIST names @p stem. */
bool stance_search_blocked(const struct stance_search *s, const char *stem);

/** Whether two paths are one file. */
bool stance_same_file(const char *a, const char *b);

/** Splits "<kind>_<name>". @return false unless the kind exists and the name is [a-z0-9_]+. */
bool stance_stem_split(const char *stem, enum stance_kind *kind, const char **name);
/** Joins a stem; false when @p name cannot be a plugin's. */
bool stance_stem_join(enum stance_kind kind, const char *name, char stem[STANCE_STEM_MAX]);

/* ---- loader.c: libltdl; the caller holds the registry's lock ------------------------------ */

/** Starts libltdl once in the life of the process. */
stance_status stance_loader_start(struct stance_error *err);

/** Opens @p file and finds its descriptor, of which the head only was looked at, in the file: no code of a
 *  plugin that was built for another interface runs.
 *  Every symbol is bound now: what is missing is told by the linker's own words, with the file. */
stance_status stance_loader_open(const char *file, const char *stem, lt_dlhandle *dl,
                                 const struct stance_plugin **plugin, struct stance_error *err);
/** The same for a plugin linked into the program; @return false when there is none of that stem. */
bool stance_loader_open_builtin(const char *stem, lt_dlhandle *dl,
                                const struct stance_plugin **plugin);
/** Calls @p found with the stem of every plugin linked into the program. */
stance_status stance_loader_each_builtin(stance_status (*found)(void *ctx, const char *stem),
                                         void *ctx);

/* ---- elf.c: the file as it lies ------------------------------------------------------------ */

/** Whether an object file ends before its section headers, as when a copy has not finished. Such a file
 *  maps well and ends the process with SIGBUS at the first touch of a missing page. */
bool stance_elf_is_cut_short(const void *data, size_t size);

/** Reads the first @p n bytes of a variable that a shared object of this machine's kind exports.
 *  @return false: not such a file, no such symbol, or no section headers (some strip them) */
bool stance_elf_read(const void *data, size_t size, const char *symbol, void *out, size_t n);

/* ---- check.c ------------------------------------------------------------------------------ */

/** What struct stance_plugin begins with in every ABI. */
struct stance_plugin_head {
    uint32_t         abi, unstable_abi, size;
    enum stance_kind kind;
};

/** Whether it is of this interface and of this kind. */
stance_status stance_plugin_check_head(const struct stance_plugin_head *h, enum stance_kind kind,
                                       struct stance_error *err);

/** Whether a descriptor can be used: built for this interface, what its file name says, complete,
 *  and no parameter outside its config. */
stance_status stance_plugin_check(const struct stance_plugin *p, enum stance_kind kind,
                                  const char *name, struct stance_error *err);

/* ---- adopt.c ------------------------------------------------------------------------------ */

/** The copy of a checked descriptor and its tables with all fields that we know, those that the plugin's
 *  header lacked being 0. @return NULL when memory is short */
const struct stance_plugin *stance_plugin_adopt(const struct stance_plugin *from, struct stance_arena *arena);

#endif
