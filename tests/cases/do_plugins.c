/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that the cases bring as source: compiled, put on a search path, found, opened and
 * started. */
#define _GNU_SOURCE
#include "config.h"

#include "walk.h"

#include "compile/device.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MODULES = 16 };

/* One shared object. */
struct module {
    const struct stance_config_node *sources;
    char                             file[200]; /**< as the case calls it: "d1/same.so" */
    char                             name[64];  /**< of the plugin in it */
    char built[300]; /**< relative to the scratch folder: "d1/device_same.so" */
};

struct modules {
    struct module of[MODULES];
    int           n;
    char          path[4096]; /**< search path */
};

/* ---- building -------------------------------------------------------------------------------- */

/* Runs a shell line. @return whether it ended well */
static bool shell(struct walk *w, const char *fmt, ...) STANCE_PRINTF(2, 3);
static bool shell(struct walk *w, const char *fmt, ...)
{
    struct stance_string line = { 0 };
    char                 text[8192];
    va_list              ap;
    bool                 good;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    stance_string_add(&line, "cd '%s' && { %s; }", w->scratch, text);
    good = !line.failed && system(line.s) == 0;
    if (!good)
        walk_fail(w, "cannot run: %.400s", text);
    stance_string_free(&line);
    return good;
}

/* The name in CASE_PLUGIN(abi, "name", start) of a source. @return false: there is none */
static bool name_in(const char *path, char *name, size_t size)
{
    FILE *f = fopen(path, "r");
    char  text[16384], *at;
    bool  found = false;

    if (f == NULL)
        return false;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    at = strstr(text, "CASE_PLUGIN");
    at = at != NULL ? strchr(at, '"') : NULL;
    if (at != NULL) {
        at[1 + strcspn(at + 1, "\"")] = '\0';
        found = snprintf(name, size, "%s", at + 1) < (int)size && at[1] != '\0';
    }
    for (const char *c = name; found && *c != '\0'; c++)
        found = islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '_';
    return found;
}

/* Names the module by what its sources say, else by its file. */
static void settle_name(struct walk *w, struct module *m)
{
    const char *slash = strrchr(m->file, '/'), *base = slash != NULL ? slash + 1 : m->file;
    bool        found = false;

    for (size_t i = 0; i < m->sources->count && !found; i++)
        found = name_in(walk_path(w, m->sources->child[i]->text), m->name, sizeof m->name);
    if (!found)
        snprintf(m->name, sizeof m->name, "%.*s", (int)strcspn(base, "."), base);
    snprintf(m->built, sizeof m->built, "%.*sdevice_%s.so", (int)(base - m->file), m->file,
             m->name);
    if (w->n_alias < (int)(sizeof w->alias / sizeof *w->alias)) {
        snprintf(w->alias[w->n_alias].from, sizeof w->alias[0].from, "%.120s", m->file);
        snprintf(w->alias[w->n_alias].to, sizeof w->alias[0].to, "%.190s", m->built);
        w->n_alias++;
    }
}

static void compile(struct walk *w, const struct module *m)
{
    const struct stance_config_node *link    = walk_get(w, "link");
    const char                      *srcdir  = getenv("STANCE_SRCDIR");
    struct stance_string             sources = { 0 };

    if (srcdir == NULL) {
        walk_fail(w, "STANCE_SRCDIR is not set");
        return;
    }
    stance_string_add(&sources, "%s", "");
    for (size_t i = 0; i < m->sources->count; i++)
        stance_string_add(&sources, " '%s'", walk_path(w, m->sources->child[i]->text));
    if (link != NULL)
        stance_string_add(&sources, " -L.");
    for (size_t i = 0; link != NULL && i < link->count; i++)
        stance_string_add(&sources, " -l'%s'", link->child[i]->text);
    /* Bound lazily, so that what is missing is for the loader to find. The stand-in header is
     * empty. */
    if (strchr(m->built, '/') != NULL)
        shell(w, "mkdir -p '%.*s'", (int)(strrchr(m->built, '/') - m->built), m->built);
    shell(w,
          WALK_CC
          " -shared -fPIC -w -pthread -Wl,-z,lazy '-I%s/core' -DCASE_PLUGIN_H -DCASE_NAME=%s "
          "-include '%s/tests/case_plugin_map.h' -o '%s'%s",
          srcdir, m->name, srcdir, m->built, sources.s);
    stance_string_free(&sources);
}

/* A shared library that the module needs. */
static void build_library(struct walk *w)
{
    const struct stance_config_node *lib    = walk_get(w, "build_library");
    const struct stance_config_node *source = stance_config_find(lib, "source"),
                                    *output = stance_config_find(lib, "output");

    if (lib == NULL)
        return;
    walk_known(w, lib, "build_library", "source output remove_after_build");
    if (source == NULL || output == NULL)
        walk_fail(w, "build_library: source and output are wanted");
    else
        shell(w, WALK_CC " -shared -fPIC -o '%s' '%s'", output->text, walk_path(w, source->text));
}

static void remove_library(struct walk *w)
{
    const struct stance_config_node *lib    = walk_get(w, "build_library");
    const struct stance_config_node *remove = stance_config_find(lib, "remove_after_build");

    if (remove != NULL && strcmp(remove->text, "true") == 0)
        shell(w, "rm '%s'", stance_config_find(lib, "output")->text);
}

/* Only what is listed stays where the loader looks. */
static void install(struct walk *w, struct modules *m)
{
    const struct stance_config_node *list = walk_get(w, "install");

    for (int i = 0; list != NULL && i < m->n; i++) {
        bool kept = false;

        for (size_t k = 0; k < list->count; k++)
            kept |= strcmp(list->child[k]->text, m->of[i].file) == 0;
        if (!kept)
            shell(w, "rm '%s'", m->of[i].built);
    }
}

static void search_path(struct walk *w, struct modules *m)
{
    const struct stance_config_node *list = walk_get(w, "search_path");
    size_t                           len;

    if (list == NULL)
        snprintf(m->path, sizeof m->path, "%s", w->scratch);
    m->path[list == NULL ? strlen(m->path) : 0] = '\0';
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        len = strlen(m->path);
        snprintf(m->path + len, sizeof m->path - len, "%s%s/%s", i > 0 ? ":" : "", w->scratch,
                 list->child[i]->text);
    }
}

static void build(struct walk *w, struct modules *m)
{
    build_library(w);
    for (int i = 0; i < m->n && !walk_failed(w); i++) {
        if (m->of[i].sources == NULL || m->of[i].sources->kind != STANCE_CONFIG_LIST) {
            walk_fail(w, "sources is not a list");
            return;
        }
        settle_name(w, &m->of[i]);
        compile(w, &m->of[i]);
    }
    if (!walk_failed(w))
        remove_library(w);
    install(w, m);
    search_path(w, m);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Finds and starts. @param[in,out] ran  whether code of a plugin was called */
static const char *load(struct walk *w, struct stance_registry *reg, const char *name, bool *ran)
{
    const struct stance_plugin *p;
    struct stance_device       *d = NULL;

    w->status = stance_registry_find(reg, STANCE_KIND_DEVICE, name, &p, &w->err);
    if (w->status != STANCE_OK)
        return NULL;
    *ran      = true;
    w->status = stance_device_open(reg, name, NULL, 1, &d, &w->err);
    stance_device_close(d);
    return w->status == STANCE_OK ? p->name : NULL;
}

static const struct module *by_file(const struct modules *m, const char *file)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->of[i].file, file) == 0)
            return &m->of[i];
    return NULL;
}

/* What is asked for: one name, the files of `order`, or every module. A name that stands for a file
 * ("p" of p.so) is that of the plugin in it. */
static int wanted(struct walk *w, const struct modules *m, const char *names[MODULES])
{
    const struct stance_config_node *name = walk_get(w, "by_name"), *order = walk_get(w, "order");
    int                              n = 0;

    if (name != NULL) {
        char file[200];

        snprintf(file, sizeof file, "%s.so", name->text);
        names[n++] = by_file(m, file) != NULL ? by_file(m, file)->name : name->text;
        return n;
    }
    for (size_t i = 0; order != NULL && i < order->count && n < MODULES; i++) {
        if (by_file(m, order->child[i]->text) == NULL)
            walk_fail(w, "order: %s is not a module", order->child[i]->text);
        else
            names[n++] = by_file(m, order->child[i]->text)->name;
    }
    for (int i = 0; order == NULL && i < m->n; i++)
        names[n++] = m->of[i].name;
    return n;
}

static void run_modules(struct walk *w, struct modules *m)
{
    const char             *names[MODULES], *loaded[MODULES];
    int                     n, n_loaded = 0;
    struct stance_registry *reg = NULL;
    struct stance_error     err = STANCE_ERROR_INIT;
    bool                    ran = false;

    build(w, m);
    n = wanted(w, m, names);
    if (walk_failed(w))
        return;
    unsetenv("STANCE_PLUGIN_PATH");
    if (stance_registry_new(m->path, &reg, &err) != STANCE_OK) {
        walk_fail(w, "%s", err.text);
        return;
    }
    for (int i = 0; i < n && w->status == STANCE_OK; i++) {
        const char *name = load(w, reg, names[i], &ran);

        if (name != NULL)
            loaded[n_loaded++] = name;
    }
    walk_is_names(w, "loaded", loaded, (size_t)n_loaded);
    walk_is_bool(w, "plugin_code_ran", ran);
    stance_registry_free(reg);
}

/* The walker's process always ends as `then: exit-normally` asks: by exit(), and a crash on the way
 * is a failure. */
static void load_plugin(struct walk *w)
{
    static struct modules m;
    const char           *then = walk_text(w, "then", "exit-normally");

    if (strcmp(then, "exit-normally") != 0)
        walk_fail(w, "then: '%s' is not known", then);
    m.n             = 1;
    m.of[0].sources = walk_get(w, "sources");
    snprintf(m.of[0].file, sizeof m.of[0].file, "%.190s", walk_need(w, "module"));
    if (!walk_failed(w))
        run_modules(w, &m);
}

static void load_plugins(struct walk *w)
{
    static struct modules            m;
    const struct stance_config_node *list = walk_get(w, "modules");
    const char                      *then = walk_text(w, "then", "exit-normally");

    if (strcmp(then, "exit-normally") != 0)
        walk_fail(w, "then: '%s' is not known", then);
    if (list == NULL || list->kind != STANCE_CONFIG_MAP || list->count > MODULES) {
        walk_fail(w, "modules is not a mapping of at most %d files", MODULES);
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        m.of[i].sources = list->child[i];
        snprintf(m.of[i].file, sizeof m.of[i].file, "%.190s", list->child[i]->key);
    }
    m.n = (int)list->count;
    if (!walk_failed(w))
        run_modules(w, &m);
}

#define KEYS "build_library link then install by_name search_path order"

const struct walk_do walk_plugins[] = {
    { "load-plugin", load_plugin, "sources module " KEYS, "loaded plugin_code_ran" },
    { "load-plugins", load_plugins, "modules " KEYS, "loaded plugin_code_ran" },
    { NULL, NULL, NULL, NULL },
};
