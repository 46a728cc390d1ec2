/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/curves.h"

#include "io/json.h"
#include "io/map.h"

#include <stance/alloc.h>

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a line; further ones are passed over. */
enum { SCALARS_MAX = 64, NAME_MAX_BYTES = 64 };

static stance_status no_memory(struct stance_error *err)
{
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "curves");
}

void stance_curves_clear(struct stance_curves *c)
{
    for (size_t i = 0; i < c->n_series; i++) {
        stance_free(c->series[i].name);
        stance_free(c->series[i].point);
    }
    stance_free(c->series);
    stance_free(c->histogram);
    stance_free(c->label);
    stance_free(c->newest);
    *c = (struct stance_curves){ .label = NULL };
}

const struct stance_point *stance_series_last(const struct stance_series *s)
{
    for (size_t i = s != NULL ? s->n : 0; i-- > 0;)
        if (isfinite(s->point[i].value))
            return &s->point[i];
    return NULL;
}

const struct stance_series *stance_curves_find(const struct stance_curves *c, const char *name)
{
    for (size_t i = 0; i < c->n_series; i++)
        if (strcmp(c->series[i].name, name) == 0)
            return stance_series_last(&c->series[i]) != NULL ? &c->series[i] : NULL;
    return NULL;
}

/* ---- lines of scalars ------------------------------------------------------------------------------- */

struct line {
    int64_t step;
    int     n;
    struct { char name[NAME_MAX_BYTES + 1]; double value; } scalar[SCALARS_MAX];
};

/* Reads one object. Epoch and iteration are step by other names. */
static void read_line(struct stance_json *r, struct line *l)
{
    struct stance_json_text key;
    bool                    have_step = false;

    l->n = 0;
    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        enum stance_json_kind kind;
        double                value = NAN;

        if (stance_json_is(key, "step")) {
            l->step   = stance_json_i64(r);
            have_step = true;
            continue;
        }
        if (key.len > NAME_MAX_BYTES || l->n == SCALARS_MAX || memchr(key.s, '\0', key.len) != NULL
            || stance_json_is(key, "epoch") || stance_json_is(key, "iter")) {
            stance_json_skip(r);
            continue;
        }
        memcpy(l->scalar[l->n].name, key.s, key.len);
        l->scalar[l->n].name[key.len] = '\0';
        kind = stance_json_peek(r);
        if (kind == STANCE_JSON_NUMBER)
            value = stance_json_f64(r);
        else
            stance_json_skip(r);
        if (kind == STANCE_JSON_NUMBER || kind == STANCE_JSON_NULL)
            l->scalar[l->n++].value = value;
    }
    if (!have_step)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "this object has no 'step'");
    else if (l->step < 0)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "step %lld is negative", (long long)l->step);
}

/* What an earlier start has from a step on is what the later one has done again. */
static void forget_from(struct stance_curves *c, int64_t step)
{
    for (size_t i = 0; i < c->n_series; i++) {
        struct stance_series *s = &c->series[i];
        size_t                n = 0;

        for (size_t k = 0; k < s->n; k++)
            if (s->point[k].step < step)
                s->point[n++] = s->point[k];
        s->n = n;
    }
}

static bool add_point(struct stance_curves *c, const char *name, struct stance_point p)
{
    struct stance_series *s = NULL;

    for (size_t i = 0; i < c->n_series && s == NULL; i++)
        if (strcmp(c->series[i].name, name) == 0)
            s = &c->series[i];
    if (s == NULL) {
        if (c->n_series == SCALARS_MAX)
            return true;
        if (!stance_grow((void **)&c->series, &c->room_series, c->n_series + 1, sizeof *c->series))
            return false;
        s  = &c->series[c->n_series];
        *s = (struct stance_series){ .name = stance_strdup(name) };
        if (s->name == NULL)
            return false;
        c->n_series++;
    }
    if (!stance_grow((void **)&s->point, &s->room, s->n + 1, sizeof *s->point))
        return false;
    s->point[s->n++] = p;
    return true;
}

static bool add_line(struct stance_curves *c, const struct line *l)
{
    for (int i = 0; i < l->n; i++)
        if (!add_point(c, l->scalar[i].name, (struct stance_point){ l->step, l->scalar[i].value }))
            return false;
    return true;
}

/* Reads one line of one of the two kinds of file. @param begun  whether a line has dropped earlier points */
typedef stance_status take_fn(struct stance_curves *c, struct stance_json *r, bool *begun, struct stance_error *err);

static stance_status take_scalars(struct stance_curves *c, struct stance_json *r, bool *begun, struct stance_error *err)
{
    struct line   l;
    stance_status status;

    read_line(r, &l);
    status = stance_json_finish(r, err);
    if (status != STANCE_OK)
        return status;
    if (!*begun)
        forget_from(c, l.step);
    *begun = true;
    return add_line(c, &l) ? STANCE_OK : no_memory(err);
}

/* The reader has a line alone before it and tells ":1:COLUMN: reason". */
static stance_status take_line(struct stance_curves *c, const char *text, size_t size, const char *name, size_t number,
                               take_fn *take, bool *begun, struct stance_error *err)
{
    struct stance_error why = STANCE_ERROR_INIT;
    struct stance_json *r;
    stance_status       status = stance_json_open_memory(text, size, "", &r, &why);

    if (status == STANCE_OK) {
        status = take(c, r, begun, &why);
        stance_json_close(r);
    }
    if (status == STANCE_ERR_NOMEM)
        return no_memory(err);
    if (status != STANCE_OK)
        return STANCE_FAIL(err, status, "%s:%zu:%s", name, number, strncmp(why.text, ":1:", 3) == 0 ? why.text + 3 : why.text);
    return STANCE_OK;
}

static bool is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

static stance_status take_text(struct stance_curves *c, const char *text, size_t size, const char *name, take_fn *take,
                               struct stance_error *err)
{
    size_t number = 0;
    bool   begun = false;

    for (size_t at = 0, next; at < size; at = next) {
        const char         *end  = memchr(text + at, '\n', size - at);
        size_t              len  = end != NULL ? (size_t)(end - (text + at)) : size - at;
        struct stance_error torn = STANCE_ERROR_INIT;
        stance_status       status;

        next = at + len + 1;
        number++;
        if (is_blank(text + at, len))
            continue;
        status = take_line(c, text + at, len, name, number, take, &begun, end != NULL ? err : &torn);
        if (status == STANCE_ERR_NOMEM)
            return no_memory(err);
        if (status != STANCE_OK && end != NULL)
            return status;
    }
    return STANCE_OK;
}

stance_status stance_curves_add_scalars(struct stance_curves *c, const char *text, size_t size, const char *name,
                                        struct stance_error *err)
{
    return take_text(c, text, size, name, take_scalars, err);
}

/* ---- lines of histograms ------------------------------------------------------------------------------ */

static uint64_t read_count(struct stance_json *r)
{
    int64_t n = stance_json_i64(r);

    if (n < 0)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "a count is negative");
    return n < 0 ? 0 : (uint64_t)n;
}

static void read_exponents(struct stance_json *r, struct stance_exponents *e)
{
    struct stance_json_text key;

    *e = (struct stance_exponents){ 0 };
    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        uint64_t *to = stance_json_is(key, "zero")    ? &e->zero
                       : stance_json_is(key, "below") ? &e->below
                       : stance_json_is(key, "above") ? &e->above
                       : stance_json_is(key, "inf")   ? &e->inf
                       : stance_json_is(key, "nan")   ? &e->nan
                                                      : NULL;
        int n = 0;

        if (to != NULL) {
            *to = read_count(r);
        } else if (!stance_json_is(key, "counts")) {
            stance_json_skip(r);
        } else {
            for (stance_json_array(r); stance_json_next_item(r); n++) {
                uint64_t count = read_count(r);

                if (n < STANCE_EXPONENTS)
                    e->count[n] = count;
            }
            if (n != STANCE_EXPONENTS)
                stance_json_refuse(r, STANCE_ERR_FORMAT, "%d counts instead of %d", n, STANCE_EXPONENTS);
        }
    }
}

static stance_status take_histogram(struct stance_curves *c, struct stance_json *r, bool *begun, struct stance_error *err)
{
    struct stance_step_exponents h = { .step = -1 };
    struct stance_json_text      key;
    int64_t                      first = STANCE_EXPONENT_FIRST;
    stance_status                status;

    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        if (stance_json_is(key, "step"))
            h.step = stance_json_i64(r);
        else if (stance_json_is(key, "scale"))
            h.e.scale = (float)stance_json_f64(r);
        else if (stance_json_is(key, "first"))
            first = stance_json_i64(r);
        else if (stance_json_is(key, "activations"))
            read_exponents(r, &h.e.activation);
        else if (stance_json_is(key, "weights"))
            read_exponents(r, &h.e.weight);
        else
            stance_json_skip(r);
    }
    if (h.step < 0 || first != STANCE_EXPONENT_FIRST || !(h.e.scale > 0 && isfinite(h.e.scale)))
        stance_json_refuse(r, STANCE_ERR_FORMAT, "no histogram of exponents: step >= 0, scale > 0 and first %d are expected",
                           STANCE_EXPONENT_FIRST);
    status = stance_json_finish(r, err);
    if (status != STANCE_OK)
        return status;
    while (!*begun && c->n_histograms > 0 && c->histogram[c->n_histograms - 1].step >= h.step)
        c->n_histograms--;
    *begun = true;
    if (!stance_grow((void **)&c->histogram, &c->room_histograms, c->n_histograms + 1, sizeof *c->histogram))
        return no_memory(err);
    c->histogram[c->n_histograms++] = h;
    return STANCE_OK;
}

stance_status stance_curves_add_histograms(struct stance_curves *c, const char *text, size_t size, const char *name,
                                           struct stance_error *err)
{
    return take_text(c, text, size, name, take_histogram, err);
}

/* ---- folders -------------------------------------------------------------------------------------------- */

struct starts { char **path; size_t n, room; };

static char *joined(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char  *path = stance_calloc(size, 1);

    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* Takes over @p folder where it has a scalars.jsonl; else frees it. */
static stance_status add_start(struct starts *s, char *folder, struct stance_error *err)
{
    char *file = folder != NULL ? joined(folder, "scalars.jsonl") : NULL;
    bool  there = file != NULL && access(file, F_OK) == 0;

    stance_free(file);
    if (file == NULL || (there && !stance_grow((void **)&s->path, &s->room, s->n + 1, sizeof *s->path))) {
        stance_free(folder);
        return no_memory(err);
    }
    if (there)
        s->path[s->n++] = folder;
    else
        stance_free(folder);
    return STANCE_OK;
}

/* By time: names are time stamps, with -1, -2, ... behind those of one second. */
static int by_version(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static stance_status find_starts(const char *folder, struct starts *s, struct stance_error *err)
{
    DIR           *d = opendir(folder);
    struct dirent *e;
    stance_status  status;

    if (d == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", folder, strerror(errno));
    status = add_start(s, stance_strdup(folder), err);
    if (status == STANCE_OK && s->n == 0) /* else it is one start, with nothing below it */
        while (status == STANCE_OK && (e = readdir(d)) != NULL)
            if (e->d_name[0] != '.')
                status = add_start(s, joined(folder, e->d_name), err);
    closedir(d);
    if (status == STANCE_OK && s->n == 0)
        status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: neither it nor a folder in it has a scalars.jsonl", folder);
    if (s->n > 0)
        qsort(s->path, s->n, sizeof *s->path, by_version);
    return status;
}

/* @param optional  a file that is not there is none */
static stance_status read_file(struct stance_curves *c, const char *folder, const char *name, bool optional, take_fn *take,
                               struct stance_error *err)
{
    char             *path = joined(folder, name);
    struct stance_map map  = { .data = NULL };
    stance_status     status = path == NULL ? no_memory(err) : STANCE_OK;

    if (status == STANCE_OK && !(optional && access(path, F_OK) != 0)) {
        status = stance_map_open(path, &map, err);
        if (status == STANCE_OK)
            status = take_text(c, (const char *)map.data, map.size, path, take, err);
        stance_map_close(&map);
    }
    stance_free(path);
    return status;
}

/* The last part of a path that says something: of "runs/a/" a, of "." the name of the current folder. */
static char *label_of(const char *folder)
{
    char       *real = realpath(folder, NULL), *label;
    const char *path = real != NULL ? real : folder, *slash = strrchr(path, '/');

    label = stance_strdup(slash != NULL && slash[1] != '\0' ? slash + 1 : path);
    free(real);
    return label;
}

stance_status stance_curves_read(const char *folder, struct stance_curves *out, struct stance_error *err)
{
    struct starts s = { .path = NULL };
    stance_status status;

    *out       = (struct stance_curves){ .label = label_of(folder) };
    status     = out->label != NULL ? find_starts(folder, &s, err) : no_memory(err);
    for (size_t i = 0; i < s.n && status == STANCE_OK; i++) {
        status = read_file(out, s.path[i], "scalars.jsonl", false, take_scalars, err);
        if (status == STANCE_OK)
            status = read_file(out, s.path[i], "histogram.jsonl", true, take_histogram, err);
    }
    if (status == STANCE_OK) {
        out->n_starts = s.n;
        out->newest   = s.path[s.n - 1];
        s.path[s.n - 1] = NULL;
    }
    for (size_t i = 0; i < s.n; i++)
        stance_free(s.path[i]);
    stance_free(s.path);
    return status;
}
