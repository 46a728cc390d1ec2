/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a plugin when it is first asked for; only a listing looks at all of them. */
#include "config.h"

#include "base/text.h"
#include "registry/internal.h"
#include "registry/registry.h"

#include <stance/log.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STANCE_LOG_MODULE "registry"

struct entry {
    struct entry               *next;
    lt_dlhandle                 dl;
    const struct stance_plugin *plugin;
    const char *stem, *file; /* file is NULL for a built-in one; in the registry's arena */
    bool                        resident;
    bool                        found; /* by its name on the path, not opened by its file alone */
};

struct stance_registry {
    struct stance_arena  *arena;
    struct stance_search  search;
    char                 *path_text;
    struct entry         *open;
    struct stance_arena  *list_arena;
    struct stance_listing *list;
    size_t                list_n, list_capacity;
};

/* Libltdl keeps its state in globals and is not thread-safe: every call to it, and every walk of a
 * list of open plugins, holds this. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static stance_status join_path(struct stance_registry *reg, struct stance_error *err)
{
    struct stance_string text = { 0 };

    stance_string_add(&text, "%s", "");
    for (size_t i = 0; i < reg->search.n; i++)
        stance_string_add(&text, "%s%s", i > 0 ? ":" : "", reg->search.folders[i]);
    if (text.failed) {
        stance_string_free(&text);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "plugin path");
    }
    reg->path_text = text.s;
    return STANCE_OK;
}

stance_status stance_registry_new(const char *path, struct stance_registry **out,
                                  struct stance_error *err)
{
    struct stance_registry *reg = stance_calloc(1, sizeof *reg);
    stance_status           status;

    if (reg == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "registry");
    reg->arena = stance_arena_new(4096);
    if (reg->arena == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "registry");
        goto free_registry;
    }
    status = stance_search_init(&reg->search, reg->arena, path, err);
    if (status != STANCE_OK)
        goto free_registry;
    status = join_path(reg, err);
    if (status != STANCE_OK)
        goto free_registry;
    pthread_mutex_lock(&lock);
    status = stance_loader_start(err);
    pthread_mutex_unlock(&lock);
    if (status != STANCE_OK)
        goto free_registry;
    *out = reg;
    return STANCE_OK;

free_registry:
    stance_registry_free(reg);
    return status;
}

void stance_registry_free(struct stance_registry *reg)
{
    if (reg == NULL)
        return;
    pthread_mutex_lock(&lock);
    while (reg->open != NULL) {
        struct entry *e = reg->open;

        reg->open = e->next;
        if (!e->resident)
            lt_dlclose(e->dl);
        stance_free(e);
    }
    pthread_mutex_unlock(&lock);
    stance_free(reg->list);
    stance_arena_free(reg->list_arena);
    stance_free(reg->path_text);
    stance_search_clear(&reg->search);
    stance_arena_free(reg->arena);
    stance_free(reg);
}

const char *stance_registry_path(const struct stance_registry *reg)
{
    return reg->path_text;
}

const char *stance_registry_file(const struct stance_registry *reg,
                                 const struct stance_plugin *plugin)
{
    const char *file = STANCE_BUILT_IN;

    pthread_mutex_lock(&lock);
    for (const struct entry *e = reg->open; e != NULL; e = e->next)
        if (e->plugin == plugin && e->file != NULL)
            file = e->file;
    pthread_mutex_unlock(&lock);
    return file;
}

/* Opens a plugin's file, or the built-in one for file NULL, or finds it open. A built-in one that
 * is not there leaves *out NULL with STANCE_OK. Under the lock. */
static stance_status open_entry(struct stance_registry *reg, const char *stem, const char *file,
                                struct entry **out, struct stance_error *err)
{
    enum stance_kind kind;
    const char      *name;
    struct entry    *e;
    stance_status    status;

    *out = NULL;
    for (e = reg->open; e != NULL; e = e->next)
        if (strcmp(e->stem, stem) == 0
            && (file == NULL ? e->file == NULL : e->file != NULL && strcmp(e->file, file) == 0)) {
            *out = e;
            return STANCE_OK;
        }
    e = stance_calloc(1, sizeof *e);
    if (e == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "registry entry");
    e->stem = stance_arena_strdup(reg->arena, stem);
    e->file = file != NULL ? stance_arena_strdup(reg->arena, file) : NULL;
    if (e->stem == NULL || (file != NULL && e->file == NULL)) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "registry entry");
        goto free_entry;
    }
    if (file == NULL) {
        if (!stance_loader_open_builtin(stem, &e->dl, &e->plugin)) {
            status = STANCE_OK;
            goto free_entry;
        }
    } else {
        status = stance_loader_open(file, stem, &e->dl, &e->plugin, err);
        if (status != STANCE_OK)
            goto free_entry;
    }
    stance_stem_split(stem, &kind, &name);
    status = stance_plugin_check(e->plugin, kind, name, err);
    if (status != STANCE_OK) {
        status = stance_error_prefix(err, status, "%s", file != NULL ? file : STANCE_BUILT_IN);
        goto close_file;
    }
    e->plugin = stance_plugin_adopt(e->plugin, reg->arena);
    if (e->plugin == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", file != NULL ? file : stem);
        goto close_file;
    }
    /* oneDNN, cuDNN and MPI keep threads, thread data and exit handlers: their code must stay. */
    e->resident = (kind == STANCE_KIND_DEVICE || kind == STANCE_KIND_COMM)
                  && lt_dlmakeresident(e->dl) == 0;
    STANCE_LOG(STANCE_LOG_DEBUG, "opened %s version %s from %s", stem, e->plugin->version,
               file != NULL ? file : STANCE_BUILT_IN);
    e->next   = reg->open;
    reg->open = e;
    *out      = e;
    return STANCE_OK;

close_file:
    lt_dlclose(e->dl);
free_entry:
    stance_free(e);
    return status;
}

struct known {
    struct stance_string text;
    char                 names[64][STANCE_STEM_MAX]; /* as many as a line could hold, sorted */
    int                  n;
    const struct stance_search *search;
};

static void add_known(struct known *known, const char *stem)
{
    const char *name = strchr(stem, '_') + 1;
    int         at   = 0;

    while (at < known->n && strcmp(known->names[at], name) < 0)
        at++;
    if ((at < known->n && strcmp(known->names[at], name) == 0)
        || known->n == (int)(sizeof known->names / sizeof *known->names)
        || stance_search_blocked(known->search, stem))
        return;
    memmove(known->names + at + 1, known->names + at,
            (size_t)(known->n - at) * sizeof *known->names);
    strcpy(known->names[at], name);
    known->n++;
}

static stance_status known_file(void *ctx, const char *stem, const char *file)
{
    (void)file;
    add_known(ctx, stem);
    return STANCE_OK;
}

struct known_builtin { struct known *known; enum stance_kind kind; };

static stance_status known_builtin(void *ctx, const char *stem)
{
    struct known_builtin *b = ctx;
    enum stance_kind      kind;
    const char           *name;

    if (stance_stem_split(stem, &kind, &name) && kind == b->kind)
        add_known(b->known, stem);
    return STANCE_OK;
}

/* Fails with the names that would have been found. */
static stance_status not_found(const struct stance_registry *reg, enum stance_kind kind,
                               struct stance_error *err)
{
    struct known *known = stance_calloc(1, sizeof *known);
    stance_status status;

    if (known == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "known names");
    known->search = &reg->search;
    status = stance_search_each(&reg->search, kind, known_file, known, err);
    if (status != STANCE_OK)
        goto free_known;
    stance_loader_each_builtin(known_builtin, &(struct known_builtin){ known, kind });
    for (int i = 0; i < known->n; i++)
        stance_string_add(&known->text, "%s%s", i > 0 ? ", " : "", known->names[i]);
    if (known->text.failed)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "known names");
    else if (known->n > 0)
        status = STANCE_FAIL(err, STANCE_ERR_NOENT, "not found; known: %s", known->text.s);
    else
        status = STANCE_FAIL(err, STANCE_ERR_NOENT, "not found; the path %s has no %s plugin",
                             reg->path_text, stance_kind_word(kind));
free_known:
    stance_string_free(&known->text);
    stance_free(known);
    return status;
}

/* The first file of the path wins; the others are told, because a stale plugin of the same name is
 * hard to find otherwise. */
static stance_status find_on_path(struct stance_registry *reg, const char *stem, struct entry **out,
                                  struct stance_error *err)
{
    char   file[STANCE_FILE_MAX], other[STANCE_FILE_MAX];
    size_t i = 0;

    while (i < reg->search.n && !stance_search_file(&reg->search, i, stem, file))
        i++;
    if (i == reg->search.n)
        return open_entry(reg, stem, NULL, out, err);
    while (++i < reg->search.n)
        if (stance_search_file(&reg->search, i, stem, other) && !stance_same_file(file, other))
            STANCE_LOG(STANCE_LOG_WARN, "%s is used and hides %s", file, other);
    return open_entry(reg, stem, file, out, err);
}

stance_status stance_registry_find(struct stance_registry *reg, enum stance_kind kind,
                                   const char *name, const struct stance_plugin **out,
                                   struct stance_error *err)
{
    char          stem[STANCE_STEM_MAX];
    struct entry *e;
    stance_status status = STANCE_OK;

    if (!stance_stem_join(kind, name, stem))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "'%s' cannot be the name of a %s", name,
                           stance_kind_word(kind) != NULL ? stance_kind_word(kind) : "plugin");
    pthread_mutex_lock(&lock);
    for (e = reg->open; e != NULL; e = e->next)
        if (e->found && strcmp(e->stem, stem) == 0)
            goto done;
    if (stance_search_blocked(&reg->search, stem))
        status = STANCE_FAIL(err, STANCE_ERR_NOENT, "blocked by STANCE_PLUGIN_BLOCKLIST");
    else
        status = find_on_path(reg, stem, &e, err);
    if (status == STANCE_OK && e == NULL)
        status = not_found(reg, kind, err);
    if (status != STANCE_OK) {
        pthread_mutex_unlock(&lock);
        return stance_error_prefix(err, status, "%s '%s'", stance_kind_word(kind), name);
    }
    e->found = true;
done:
    *out = e->plugin;
    pthread_mutex_unlock(&lock);
    return STANCE_OK;
}

stance_status stance_registry_open(struct stance_registry *reg, const char *file,
                                   const struct stance_plugin **out, struct stance_error *err)
{
    char             path[STANCE_FILE_MAX], stem[STANCE_STEM_MAX], here[STANCE_FILE_MAX] = "";
    const char      *base = strrchr(file, '/'), *name;
    size_t           len, tail = strlen(STANCE_PLUGIN_SUFFIX);
    enum stance_kind kind;
    struct entry    *e;
    stance_status    status;

    base = base != NULL ? base + 1 : file;
    len  = strlen(base);
    if (len <= tail || len - tail >= sizeof stem
        || strcmp(base + len - tail, STANCE_PLUGIN_SUFFIX) != 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: the file of a plugin is called <kind>_<name>.so", file);
    memcpy(stem, base, len - tail);
    stem[len - tail] = '\0';
    if (!stance_stem_split(stem, &kind, &name))
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: the file of a plugin is called <kind>_<name>.so", file);
    while (file[0] == '.' && file[1] == '/')
        file += 2;
    /* Without a slash the linker would look for it elsewhere. */
    if ((*file != '/' && getcwd(here, sizeof here) == NULL)
        || snprintf(path, sizeof path, "%s%s%s", here, *file != '/' ? "/" : "", file)
               >= (int)sizeof path)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: the path is too long", file);
    if (stance_search_blocked(&reg->search, stem))
        return STANCE_FAIL(err, STANCE_ERR_NOENT, "%s: blocked by STANCE_PLUGIN_BLOCKLIST", file);
    pthread_mutex_lock(&lock);
    status = open_entry(reg, stem, path, &e, err);
    if (status == STANCE_OK)
        *out = e->plugin;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- the listing -------------------------------------------------------------------------- */

struct listing_walk {
    struct stance_registry *reg;
    enum stance_kind        kind;
    struct stance_error    *err;
};

static stance_status no_room(struct listing_walk *w)
{
    return STANCE_FAIL(w->err, STANCE_ERR_NOMEM, "list of plugins");
}

static const struct stance_listing *listed(const struct stance_registry *reg, enum stance_kind kind,
                                           const char *name)
{
    for (size_t i = 0; i < reg->list_n; i++)
        if (reg->list[i].kind == kind && strcmp(reg->list[i].name, name) == 0)
            return &reg->list[i];
    return NULL;
}

/* Puts a row behind those of its kind and name, which came earlier on the path. */
static bool insert(struct stance_registry *reg, const struct stance_listing *row)
{
    size_t at = reg->list_n;

    if (!stance_grow((void **)&reg->list, &reg->list_capacity, reg->list_n + 1, sizeof *reg->list))
        return false;
    while (at > 0
           && (reg->list[at - 1].kind > row->kind
               || (reg->list[at - 1].kind == row->kind
                   && strcmp(reg->list[at - 1].name, row->name) > 0)))
        at--;
    memmove(reg->list + at + 1, reg->list + at, (reg->list_n - at) * sizeof *reg->list);
    reg->list[at] = *row;
    reg->list_n++;
    return true;
}

/* file is NULL for a built-in plugin. */
static stance_status add_row(struct listing_walk *w, const char *stem, const char *file)
{
    struct stance_registry      *reg = w->reg;
    struct stance_error          why = STANCE_ERROR_INIT;
    struct stance_listing        row = { 0 };
    const struct stance_listing *first;
    const char                  *name;
    char                         hidden[STANCE_FILE_MAX + 32];
    const char                  *reason = NULL;

    stance_stem_split(stem, &row.kind, &name);
    first = listed(reg, row.kind, name);
    if (first != NULL && file != NULL && stance_same_file(first->file, file))
        return STANCE_OK; /* two folders of the path are one */
    if (stance_search_blocked(&reg->search, stem)) {
        reason = "blocked by STANCE_PLUGIN_BLOCKLIST";
    } else if (first != NULL) {
        snprintf(hidden, sizeof hidden, "hidden by %s", first->file);
        reason = hidden;
    } else {
        struct entry *e;
        stance_status status = open_entry(reg, stem, file, &e, &why);

        if (status == STANCE_ERR_NOMEM)
            return no_room(w);
        if (status != STANCE_OK)
            reason = why.text;
        else if (e != NULL)
            row.plugin = e->plugin;
    }
    row.name   = stance_arena_strdup(reg->list_arena, name);
    row.file   = file != NULL ? stance_arena_strdup(reg->list_arena, file) : STANCE_BUILT_IN;
    row.reason = reason != NULL ? stance_arena_strdup(reg->list_arena, reason) : NULL;
    if (row.name == NULL || row.file == NULL || (reason != NULL && row.reason == NULL)
        || !insert(reg, &row))
        return no_room(w);
    return STANCE_OK;
}

static stance_status list_file(void *ctx, const char *stem, const char *file)
{
    return add_row(ctx, stem, file);
}

struct stems { struct stance_string text; enum stance_kind kind; };

/* Collected first: opening a plugin within libltdl's own walk would change what it walks over. */
static stance_status collect_builtin(void *ctx, const char *stem)
{
    struct stems    *stems = ctx;
    enum stance_kind kind;
    const char      *name;

    if (stance_stem_split(stem, &kind, &name)
        && (stems->kind == STANCE_KIND_COUNT || stems->kind == kind))
        stance_string_add(&stems->text, "%s\n", stem);
    return STANCE_OK;
}

static stance_status list_builtin(struct listing_walk *w)
{
    struct stems  stems  = { .kind = w->kind };
    stance_status status = STANCE_OK;

    stance_loader_each_builtin(collect_builtin, &stems);
    if (stems.text.failed)
        status = no_room(w);
    for (char *stem = stems.text.s, *end; status == STANCE_OK && stem != NULL && *stem != '\0';
         stem       = end + 1) {
        end  = strchr(stem, '\n');
        *end = '\0';
        status = add_row(w, stem, NULL);
    }
    stance_string_free(&stems.text);
    return status;
}

stance_status stance_registry_list(struct stance_registry *reg, enum stance_kind kind,
                                   const struct stance_listing **list, size_t *count,
                                   struct stance_error *err)
{
    struct listing_walk w = { reg, (unsigned)kind < STANCE_KIND_COUNT ? kind : STANCE_KIND_COUNT, err };
    stance_status       status;

    pthread_mutex_lock(&lock);
    stance_arena_free(reg->list_arena);
    reg->list_n     = 0;
    reg->list_arena = stance_arena_new(4096);
    status = reg->list_arena != NULL ? stance_search_each(&reg->search, w.kind, list_file, &w, err)
                                     : no_room(&w);
    if (status == STANCE_OK)
        status = list_builtin(&w);
    if (status == STANCE_OK) {
        *list  = reg->list;
        *count = reg->list_n;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

struct each {
    const struct stance_search *search;
    enum stance_kind            kind;
    void (*found)(void *ctx, enum stance_kind kind, const char *name);
    void *ctx;
};

static stance_status tell_builtin(void *ctx, const char *stem)
{
    struct each     *e = ctx;
    enum stance_kind kind;
    const char      *name;

    if (stance_stem_split(stem, &kind, &name) && (e->kind == STANCE_KIND_COUNT || e->kind == kind)
        && !stance_search_blocked(e->search, stem))
        e->found(e->ctx, kind, name);
    return STANCE_OK;
}

static stance_status tell_file(void *ctx, const char *stem, const char *file)
{
    (void)file;
    return tell_builtin(ctx, stem);
}

stance_status stance_registry_each(struct stance_registry *reg, enum stance_kind kind,
                                   void (*found)(void *ctx, enum stance_kind kind, const char *name),
                                   void *ctx, struct stance_error *err)
{
    struct each   e = { &reg->search, kind, found, ctx };
    stance_status status;

    pthread_mutex_lock(&lock);
    status = stance_search_each(&reg->search, kind, tell_file, &e, err);
    if (status == STANCE_OK)
        status = stance_loader_each_builtin(tell_builtin, &e);
    pthread_mutex_unlock(&lock);
    return status;
}
