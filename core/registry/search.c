/* SPDX-License-Identifier: Apache-2.0
 *
 * The search path and the files on it. Kind and name are a file's name, so that one look per folder
 * finds a plugin. */
#include "config.h"

#include "base/environment.h"
#include "registry/internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *stance_kind_word(enum stance_kind kind)
{
    static const char *const word[STANCE_KIND_COUNT] = {
#define STANCE_KIND_ROW(id, word) [STANCE_KIND_##id] = #word,
        STANCE_KIND_MAP(STANCE_KIND_ROW)
#undef STANCE_KIND_ROW
    };

    return (unsigned)kind < STANCE_KIND_COUNT ? word[kind] : NULL;
}

enum stance_kind stance_kind_of(const char *word)
{
    enum stance_kind kind = 0;

    while (kind < STANCE_KIND_COUNT && strcmp(word, stance_kind_word(kind)) != 0)
        kind++;
    return kind;
}

/* A name becomes part of a path: letters that could leave the folder stay out. */
static bool is_name(const char *name)
{
    return *name != '\0' && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

bool stance_stem_split(const char *stem, enum stance_kind *kind, const char **name)
{
    const char *bar = strchr(stem, '_');
    char        word[STANCE_STEM_MAX];

    if (bar == NULL || strlen(stem) >= sizeof word || !is_name(bar + 1))
        return false;
    memcpy(word, stem, (size_t)(bar - stem));
    word[bar - stem] = '\0';
    *kind = stance_kind_of(word);
    *name = bar + 1;
    return *kind != STANCE_KIND_COUNT;
}

bool stance_stem_join(enum stance_kind kind, const char *name, char stem[STANCE_STEM_MAX])
{
    const char *word = stance_kind_word(kind);

    return word != NULL && is_name(name)
           && snprintf(stem, STANCE_STEM_MAX, "%s_%s", word, name) < STANCE_STEM_MAX;
}

/* Adds the folder of len bytes at text. What cannot be a folder has no plugins. */
static bool add_folder(struct stance_search *s, struct stance_arena *arena, const char *text,
                       size_t len)
{
    char        here[STANCE_FILE_MAX] = "";
    char        folder[2 * STANCE_FILE_MAX];
    const char *slash = "";

    while (len > 1 && text[len - 1] == '/')
        len--;
    if (len == 0 || len >= STANCE_FILE_MAX)
        return true;
    if (*text != '/') {
        if (getcwd(here, sizeof here) == NULL)
            return true;
        slash = "/";
    }
    snprintf(folder, sizeof folder, "%s%s%.*s", here, slash, (int)len, text);
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->folders[i], folder) == 0)
            return true;
    if (!stance_grow((void **)&s->folders, &s->capacity, s->n + 1, sizeof *s->folders))
        return false;
    s->folders[s->n] = stance_arena_strdup(arena, folder);
    return s->folders[s->n++] != NULL;
}

static bool add_path(struct stance_search *s, struct stance_arena *arena, const char *path)
{
    while (path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");

        if (!add_folder(s, arena, path, len))
            return false;
        path += len + (path[len] == ':');
    }
    return true;
}

/* $XDG_DATA_HOME/stance/plugins; the XDG base directory specification ignores relative values and
 * gives ~/.local/share as the default. */
static bool add_user_folder(struct stance_search *s, struct stance_arena *arena)
{
    const char *data = stance_env(STANCE_ENV_XDG_DATA_HOME), *home = stance_env(STANCE_ENV_HOME);
    char        folder[STANCE_FILE_MAX];
    int         len = 0;

    if (data != NULL && *data == '/')
        len = snprintf(folder, sizeof folder, "%s/stance/plugins", data);
    else if (home != NULL && *home == '/')
        len = snprintf(folder, sizeof folder, "%s/.local/share/stance/plugins", home);
    if (len <= 0 || len >= (int)sizeof folder)
        return true;
    return add_folder(s, arena, folder, (size_t)len);
}

stance_status stance_search_init(struct stance_search *s, struct stance_arena *arena,
                                 const char *path, struct stance_error *err)
{
    const char *blocked = stance_env(STANCE_ENV_PLUGIN_BLOCKLIST);

    s->blocked = stance_arena_strdup(arena, blocked != NULL ? blocked : "");
    if (s->blocked != NULL && add_path(s, arena, path)
        && add_path(s, arena, stance_env(STANCE_ENV_PLUGIN_PATH)) && add_user_folder(s, arena)
        && add_path(s, arena, STANCE_PLUGIN_DIR))
        return STANCE_OK;
    stance_search_clear(s);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "plugin path");
}

void stance_search_clear(struct stance_search *s)
{
    stance_free(s->folders);
    *s = (struct stance_search){ 0 };
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool stance_search_file(const struct stance_search *s, size_t i, const char *stem, char *file)
{
    const char *folder = s->folders[i];

    if (snprintf(file, STANCE_FILE_MAX, "%s/%s" STANCE_PLUGIN_SUFFIX, folder, stem)
        >= STANCE_FILE_MAX)
        return false;
    /* Also a link to nothing, or a folder of that name: opening it then tells the reason. */
    if (access(file, F_OK) == 0)
        return true;
    if (snprintf(file, STANCE_FILE_MAX, "%s/%s.la", folder, stem) >= STANCE_FILE_MAX
        || !is_file(file))
        return false;
    return snprintf(file, STANCE_FILE_MAX, "%s/.libs/%s" STANCE_PLUGIN_SUFFIX, folder, stem)
               < STANCE_FILE_MAX
           && is_file(file);
}

bool stance_search_blocked(const struct stance_search *s, const char *stem)
{
    size_t want = strlen(stem), bar = strcspn(stem, "_");

    for (const char *c = s->blocked; *c != '\0';) {
        size_t len;

        c += strspn(c, ",: ");
        len = strcspn(c, ",: ");
        /* KIND/NAME, or KIND_NAME as in the file's name. */
        if (len == want && memcmp(c, stem, bar) == 0 && (c[bar] == '/' || c[bar] == '_')
            && memcmp(c + bar + 1, stem + bar + 1, want - bar - 1) == 0)
            return true;
        c += len;
    }
    return false;
}

bool stance_same_file(const char *a, const char *b)
{
    struct stat sa, sb;

    return strcmp(a, b) == 0
           || (stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev
               && sa.st_ino == sb.st_ino);
}

struct names {
    char (*stem)[STANCE_STEM_MAX];
    size_t n, capacity;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Stems of the folder's files that end in suffix. */
static bool collect(struct names *names, const char *folder, const char *suffix,
                    enum stance_kind wanted)
{
    DIR           *dir = opendir(folder);
    struct dirent *d;
    bool           ok = true;

    if (dir == NULL)
        return true; /* a path may name folders that are not there (yet) */
    while (ok && (d = readdir(dir)) != NULL) {
        size_t           len = strlen(d->d_name), tail = strlen(suffix);
        enum stance_kind kind;
        const char      *name;
        char             stem[STANCE_STEM_MAX];

        if (len <= tail || len - tail >= sizeof stem || strcmp(d->d_name + len - tail, suffix) != 0)
            continue;
        memcpy(stem, d->d_name, len - tail);
        stem[len - tail] = '\0';
        if (!stance_stem_split(stem, &kind, &name)
            || (wanted != STANCE_KIND_COUNT && kind != wanted))
            continue;
        ok = stance_grow((void **)&names->stem, &names->capacity, names->n + 1,
                         sizeof *names->stem);
        if (ok)
            strcpy(names->stem[names->n++], stem);
    }
    closedir(dir);
    return ok;
}

stance_status stance_search_each(const struct stance_search *s, enum stance_kind kind,
                                 stance_status (*found)(void *ctx, const char *stem,
                                                        const char *file),
                                 void *ctx, struct stance_error *err)
{
    struct names  names  = { 0 };
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < s->n && status == STANCE_OK; i++) {
        names.n = 0;
        if (!collect(&names, s->folders[i], STANCE_PLUGIN_SUFFIX, kind)
            || !collect(&names, s->folders[i], ".la", kind)) {
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "files of %s", s->folders[i]);
            break;
        }
        if (names.n > 0)
            qsort(names.stem, names.n, sizeof *names.stem, by_text);
        for (size_t j = 0; j < names.n && status == STANCE_OK; j++) {
            char file[STANCE_FILE_MAX];

            if (j > 0 && strcmp(names.stem[j], names.stem[j - 1]) == 0)
                continue; /* the .so and the .la of one plugin */
            if (stance_search_file(s, i, names.stem[j], file))
                status = found(ctx, names.stem[j], file);
        }
    }
    stance_free(names.stem);
    return status;
}
