/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/tensors.h"

#include "base/text.h"

#include <stance/alloc.h>

#include <stdlib.h>
#include <string.h>

/* Names told of each kind of fault; more help nobody. */
#define TOLD_MAX 4

struct faults {
    struct stance_string misshapen, missing, unexpected;
    size_t               n_misshapen, n_missing, n_unexpected;
};

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A counter that no arithmetic reads; many files lack it. */
static bool is_counter(const char *name)
{
    static const char leaf[] = "num_batches_tracked";
    size_t            len = strlen(name), tail = sizeof leaf - 1;

    return len >= tail && strcmp(name + len - tail, leaf) == 0
           && (len == tail || name[len - tail - 1] == '.');
}

static void tell(struct stance_string *list, size_t *count, const char *name)
{
    if ((*count)++ < TOLD_MAX)
        stance_string_add(list, "%s%s", *count > 1 ? ", " : "", name);
}

static void tell_shapes(struct faults *f, const struct stance_wanted *w,
                        const struct stance_entry *e)
{
    char found[128], wanted[128];

    if (f->n_misshapen++ >= TOLD_MAX)
        return;
    stance_entry_shape_text(e->rank, e->dim, found, sizeof found);
    stance_entry_shape_text(w->shape.rank, w->shape.dim, wanted, sizeof wanted);
    stance_string_add(&f->misshapen, "%s%s is %s in the file and %s in the model",
                      f->n_misshapen > 1 ? ", " : "", w->name, found, wanted);
}

static bool same_shape(const struct stance_wanted *w, const struct stance_entry *e)
{
    if (w->shape.rank != e->rank)
        return false;
    for (int d = 0; d < e->rank; d++)
        if (w->shape.dim[d] != e->dim[d])
            return false;
    return true;
}

/* One list of the message: "; missing 17: a, b, c, d and 13 more". */
static void add_list(struct stance_string *text, const char *what, const struct stance_string *list,
                     size_t count)
{
    if (count == 0)
        return;
    stance_string_add(text, "%s%s: %s", text->len > 0 ? "; " : "", what,
                      list->s != NULL ? list->s : "");
    if (count > TOLD_MAX)
        stance_string_add(text, " and %zu more", count - TOLD_MAX);
}

static stance_status judge(const struct stance_tensors *t, const struct stance_wanted *wanted,
                           size_t n, const struct stance_match *m, const struct faults *f,
                           struct stance_error *err)
{
    const char          *path = stance_tensors_path(t);
    struct stance_string text = { 0 };
    stance_status        status = STANCE_OK;

    if (n > 0 && m->loaded == 0 && f->n_misshapen == 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: nothing in it matches the model, which wants for instance %s; the "
                           "file has for instance %s",
                           path, wanted[0].name, stance_tensors_at(t, 0)->name);
    if (f->n_misshapen + f->n_missing + f->n_unexpected == 0)
        return STANCE_OK;
    add_list(&text, "shapes differ", &f->misshapen, f->n_misshapen);
    add_list(&text, "missing in the file", &f->missing, f->n_missing);
    add_list(&text, "not in the model", &f->unexpected, f->n_unexpected);
    if (text.failed || f->misshapen.failed || f->missing.failed || f->unexpected.failed)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: list of what does not match", path);
    else
        status = STANCE_FAIL(err, f->n_misshapen > 0 ? STANCE_ERR_SHAPE : STANCE_ERR_INVAL,
                             "%s: does not fit the model: %s", path, text.s);
    stance_string_free(&text);
    return status;
}

/* Whether no name of the file has the prefix. */
static bool lacks(const struct stance_tensors *t, const char *prefix)
{
    for (size_t i = 0; i < stance_tensors_count(t); i++)
        if (starts(stance_tensors_at(t, i)->name, prefix))
            return false;
    return true;
}

/* Fills in the lists. @p taken  [tensors of the file] is set for those that somebody wants */
static void compare(const struct stance_tensors *t, const struct stance_wanted *wanted, size_t n,
                    const char *only, struct stance_match *m, bool *taken, struct faults *f)
{
    const struct stance_entry *first = stance_tensors_at(t, 0);

    for (size_t i = 0; i < n; i++) {
        const char                *name = wanted[i].name;
        const struct stance_entry *e    = NULL;

        if (only == NULL || starts(name, only)) {
            e = stance_tensors_find(t, name + (m->completed ? strlen(only) : 0));
            if (e == NULL && !is_counter(name))
                tell(&f->missing, &f->n_missing, name);
        }
        if (e != NULL) {
            taken[e - first] = true;
            if (!same_shape(&wanted[i], e)) {
                tell_shapes(f, &wanted[i], e);
                continue;
            }
            m->entry[i] = e;
            m->loaded++;
        } else {
            m->not_loaded[m->n_not_loaded++] = i;
        }
    }
    for (size_t i = 0; i < stance_tensors_count(t); i++) {
        const struct stance_entry *e = stance_tensors_at(t, i);

        if (taken[i])
            continue;
        m->ignored[m->n_ignored++] = e;
        if (only == NULL && !is_counter(e->name) && !starts(e->name, STANCE_TENSORS_RESERVED))
            tell(&f->unexpected, &f->n_unexpected, e->name);
    }
}

stance_status stance_tensors_match(const struct stance_tensors *t,
                                   const struct stance_wanted *wanted, size_t n, const char *only,
                                   struct stance_match *out, struct stance_error *err)
{
    size_t              count = stance_tensors_count(t);
    struct stance_match m     = { .stripped = stance_tensors_stripped(t) };
    struct faults       f     = { 0 };
    bool               *taken = stance_calloc(count + 1, sizeof *taken);
    stance_status       status;

    m.entry      = stance_calloc(n + 1, sizeof *m.entry);
    m.not_loaded = stance_calloc(n + 1, sizeof *m.not_loaded);
    m.ignored    = stance_calloc(count + 1, sizeof *m.ignored);
    m.completed  = only != NULL && lacks(t, only);
    if (taken == NULL || m.entry == NULL || m.not_loaded == NULL || m.ignored == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: matching it", stance_tensors_path(t));
    } else {
        compare(t, wanted, n, only, &m, taken, &f);
        status = judge(t, wanted, n, &m, &f, err);
    }
    stance_free(taken);
    stance_string_free(&f.misshapen);
    stance_string_free(&f.missing);
    stance_string_free(&f.unexpected);
    if (status == STANCE_OK)
        *out = m;
    else
        stance_match_free(&m);
    return status;
}

void stance_match_free(struct stance_match *m)
{
    stance_free(m->entry);
    stance_free(m->not_loaded);
    stance_free(m->ignored);
    *m = (struct stance_match){ 0 };
}
