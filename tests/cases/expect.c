/* SPDX-License-Identifier: Apache-2.0
 *
 * Input and expectation of a case. */
#include "config.h"

#include "walk.h"

#include "registry/instance.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void walk_fail(struct walk *w, const char *fmt, ...)
{
    va_list ap;

    if (walk_failed(w))
        return;
    va_start(ap, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, ap);
    va_end(ap);
    for (char *c = w->why; *c != '\0'; c++)
        if (*c == '\n')
            *c = ' ';
}

/* ---- input -------------------------------------------------------------------------------------
 */

const struct stance_config_node *walk_get(const struct walk *w, const char *key)
{
    return stance_config_find(w->input, key);
}

bool walk_has(const struct walk *w, const char *key)
{
    return walk_get(w, key) != NULL;
}

static const char *node_text(struct walk *w, const struct stance_config_node *n, const char *what)
{
    if (n == NULL || n->kind == STANCE_CONFIG_LIST || n->kind == STANCE_CONFIG_MAP) {
        walk_fail(w, "%s is %s, not a value", what,
                  n == NULL ? "missing" : stance_config_kind_word(n));
        return "";
    }
    return n->text;
}

const char *walk_text(struct walk *w, const char *key, const char *dflt)
{
    return walk_has(w, key) ? node_text(w, walk_get(w, key), key) : dflt;
}

const char *walk_need(struct walk *w, const char *key)
{
    return node_text(w, walk_get(w, key), key);
}

double walk_node_f64(struct walk *w, const struct stance_config_node *n, const char *what)
{
    const char *text = node_text(w, n, what);
    double      v    = 0;

    if (!walk_failed(w) && !stance_text_f64(text, &v))
        walk_fail(w, "%s: '%.60s' is not a number", what, text);
    return v;
}

int64_t walk_node_i64(struct walk *w, const struct stance_config_node *n, const char *what)
{
    double v = walk_node_f64(w, n, what);

    if (!walk_failed(w) && !(v == floor(v) && fabs(v) < 0x1p53)) {
        walk_fail(w, "%s: %g is not a whole number", what, v);
        return 0;
    }
    return walk_failed(w) ? 0 : (int64_t)v;
}

double walk_f64(struct walk *w, const char *key, double dflt)
{
    return walk_has(w, key) ? walk_node_f64(w, walk_get(w, key), key) : dflt;
}

int64_t walk_i64(struct walk *w, const char *key, int64_t dflt)
{
    return walk_has(w, key) ? walk_node_i64(w, walk_get(w, key), key) : dflt;
}

static int truth_of(const char *text)
{
    return strcmp(text, "true") == 0 || strcmp(text, "1") == 0    ? 1
           : strcmp(text, "false") == 0 || strcmp(text, "0") == 0 ? 0
                                                                  : -1;
}

bool walk_bool(struct walk *w, const char *key, bool dflt)
{
    const char *text = walk_text(w, key, dflt ? "true" : "false");
    int         v    = truth_of(text);

    if (v < 0)
        walk_fail(w, "%s: '%.60s' is neither true nor false", key, text);
    return v == 1;
}

static size_t leaves(const struct stance_config_node *n)
{
    size_t count = 0;

    if (n == NULL || n->kind != STANCE_CONFIG_LIST)
        return n != NULL;
    for (size_t i = 0; i < n->count; i++)
        count += leaves(n->child[i]);
    return count;
}

static void gather(struct walk *w, const struct stance_config_node *n, const char *what,
                   double **to)
{
    if (n != NULL && n->kind == STANCE_CONFIG_LIST)
        for (size_t i = 0; i < n->count; i++)
            gather(w, n->child[i], what, to);
    else if (n != NULL)
        *(*to)++ = walk_node_f64(w, n, what);
}

double *walk_numbers(struct walk *w, const struct stance_config_node *list, const char *what,
                     size_t *count)
{
    double *v, *to;

    *count = leaves(list);
    v = to = stance_calloc(*count + 1, sizeof *v);
    if (v == NULL)
        abort();
    gather(w, list, what, &to);
    return v;
}

static bool listed(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = words; (at = strstr(at, word)) != NULL; at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

void walk_known(struct walk *w, const struct stance_config_node *map, const char *where,
                const char *known)
{
    if (map == NULL)
        return;
    if (map->kind != STANCE_CONFIG_MAP) {
        walk_fail(w, "%s is %s, not a mapping", where, stance_config_kind_word(map));
        return;
    }
    for (size_t i = 0; i < map->count; i++)
        if (!listed(known, map->child[i]->key))
            walk_fail(w, "does not know key %s in %s", map->child[i]->key, where);
}

const char *walk_path(const struct walk *w, const char *name)
{
    static char paths[4][4096];
    static int  next;
    char       *path = paths[next = (next + 1) % 4];

    snprintf(path, sizeof paths[0], "%s/%s", w->folder, name);
    return path;
}

/* The value as stance_param_set() takes it. */
static void setting_text(const struct stance_config_node *n, struct stance_string *text)
{
    if (n->kind != STANCE_CONFIG_LIST) {
        stance_string_add(text, "%s", n->kind == STANCE_CONFIG_MAP ? "{}" : n->text);
        return;
    }
    stance_string_add(text, "[");
    for (size_t i = 0; i < n->count; i++) {
        stance_string_add(text, i > 0 ? "," : "");
        setting_text(n->child[i], text);
    }
    stance_string_add(text, "]");
}

bool walk_param(struct walk *w, const struct stance_plugin *plugin, void *config, const char *name,
                const char *key)
{
    struct stance_string text = { 0 };

    if (!walk_has(w, key))
        return w->status == STANCE_OK;
    setting_text(walk_get(w, key), &text);
    if (w->status == STANCE_OK)
        w->status = stance_param_set(plugin->params, config, name, text.s, &w->err);
    stance_string_free(&text);
    return w->status == STANCE_OK;
}

const struct stance_plugin *walk_plugin(struct walk *w, enum stance_kind kind, const char *name,
                                        void **config)
{
    const struct stance_plugin *p;
    struct stance_error         err = STANCE_ERROR_INIT;

    *config = NULL;
    if (stance_registry_find(w->registry, kind, name, &p, &err) != STANCE_OK
        || stance_plugin_config_new(p, config, &err) != STANCE_OK) {
        walk_fail(w, "%s", err.text);
        return NULL;
    }
    return p;
}

/* ---- expect ------------------------------------------------------------------------------------
 */

const struct stance_config_node *walk_expects(struct walk *w, const char *key)
{
    const struct stance_config_node *n = stance_config_find(w->expect, key);

    for (int i = 0; i < w->n_seen; i++)
        if (w->seen[i] == n)
            return n;
    if (n != NULL && w->n_seen < (int)(sizeof w->seen / sizeof *w->seen))
        w->seen[w->n_seen++] = n;
    return n;
}

bool walk_close(struct walk *w, double have, double want)
{
    const struct stance_config_node *absolute = stance_config_find(w->expect, "tolerance");
    const struct stance_config_node *relative = stance_config_find(w->expect, "tolerance_relative");

    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(have) : have == want;
    /* Exact but for the last bits of binary64, in which the decimals of a case are rounded
     * themselves. */
    if (fabs(have - want) <= 4 * DBL_EPSILON * fabs(want))
        return true;
    return (absolute != NULL && fabs(have - want) <= walk_node_f64(w, absolute, "tolerance"))
           || (relative != NULL
               && fabs(have - want)
                      <= walk_node_f64(w, relative, "tolerance_relative") * fabs(want));
}

void walk_same(struct walk *w, const char *what, double have, const struct stance_config_node *want)
{
    double v = walk_node_f64(w, want, what);

    if (!walk_failed(w) && !walk_close(w, have, v))
        walk_fail(w, "%s is %.9g, not %.9g", what, have, v);
}

void walk_is_f64(struct walk *w, const char *key, double have)
{
    const struct stance_config_node *want = walk_expects(w, key);

    if (want != NULL)
        walk_same(w, key, have, want);
}

void walk_is_list(struct walk *w, const char *key, const double *have, size_t n)
{
    const struct stance_config_node *want = walk_expects(w, key);
    double                          *v;
    size_t                           count;

    if (want == NULL)
        return;
    v = walk_numbers(w, want, key, &count);
    if (count != n)
        walk_fail(w, "%s has %zu numbers, not %zu", key, n, count);
    for (size_t i = 0; i < n && !walk_failed(w); i++)
        if (!walk_close(w, have[i], v[i]))
            walk_fail(w, "%s[%zu] is %.9g, not %.9g", key, i, have[i], v[i]);
    stance_free(v);
}

void walk_is_bool(struct walk *w, const char *key, bool have)
{
    const struct stance_config_node *want = walk_expects(w, key);
    int                              v;

    if (want == NULL)
        return;
    v = truth_of(node_text(w, want, key));
    if (v < 0)
        walk_fail(w, "expect.%s is neither true nor false", key);
    else if ((v == 1) != have)
        walk_fail(w, "%s is %s", key, have ? "true" : "false");
}

void walk_is_text(struct walk *w, const char *key, const char *have)
{
    const struct stance_config_node *want = walk_expects(w, key);

    if (want == NULL)
        return;
    if (want->kind == STANCE_CONFIG_NULL
            ? have != NULL
            : have == NULL || strcmp(node_text(w, want, key), have) != 0)
        walk_fail(w, "%s is %s, not %s", key, have != NULL ? have : "none",
                  want->kind == STANCE_CONFIG_NULL ? "none" : node_text(w, want, key));
}

static bool among(const char *word, const struct stance_config_node *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->child[i]->text != NULL && strcmp(list->child[i]->text, word) == 0)
            return true;
    return false;
}

void walk_is_names(struct walk *w, const char *key, const char *const *have, size_t n)
{
    const struct stance_config_node *want = walk_expects(w, key);

    if (want == NULL)
        return;
    if (want->kind != STANCE_CONFIG_LIST) { /* a count */
        walk_same(w, key, (double)n, want);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!among(have[i], want))
            walk_fail(w, "%s has %s", key, have[i]);
    for (size_t i = 0; i < want->count; i++) {
        bool found = false;

        for (size_t j = 0; j < n; j++)
            found |= want->child[i]->text != NULL && strcmp(want->child[i]->text, have[j]) == 0;
        if (!found)
            walk_fail(w, "%s lacks %s", key,
                      want->child[i]->text != NULL ? want->child[i]->text : "an entry");
    }
    if (n != want->count)
        walk_fail(w, "%s has %zu entries, not %zu", key, n, want->count);
}

void walk_is_ids(struct walk *w, const char *key, const int64_t *have, size_t n)
{
    const char **names = stance_calloc(n + 1, sizeof *names);
    char        *text  = stance_calloc(n + 1, 24);

    if (names == NULL || text == NULL)
        abort();
    for (size_t i = 0; i < n; i++) {
        snprintf(text + 24 * i, 24, "%lld", (long long)have[i]);
        names[i] = text + 24 * i;
    }
    walk_is_names(w, key, names, n);
    stance_free(names);
    stance_free(text);
}
