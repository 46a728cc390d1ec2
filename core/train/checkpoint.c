/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/checkpoint.h"

#include "base/text.h"
#include "train/pose_text.h"
#include "train/weights.h"

#include <stance/log.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STANCE_LOG_MODULE "checkpoint"

enum { META_MAX = 20 };

/* One array of the store as a family of tensors in the file. */
struct family { const char *prefix; int array; bool states; };

#define AVERAGE    "ema" /* stance.ema.<name> */
#define STATISTICS "statistics"

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    struct stance_step           *step;
    const struct stance_store    *store;
    struct family                 family[STANCE_SLOTS_MAX + 5];
    int                           n_families;
    struct stance_entry          *entries;
    size_t                        n;
    struct stance_arena          *arena;
    struct stance_pair            meta[META_MAX];
    size_t                        n_meta;
    bool                          failed;
};

static bool in_family(const struct stance_store *s, const struct family *f, const struct stance_segment *g)
{
    if (f->array == STANCE_ARRAY_AVERAGE)
        return s->average[g->bank] != NULL && g->bank == (f->states ? STANCE_BANK_STATE : STANCE_BANK_PARAM);
    if (f->array == STANCE_ARRAY_COMMITTED)
        return true;
    return f->states ? g->bank == STANCE_BANK_STATE || g->bank == STANCE_BANK_COUNTER : g->bank == STANCE_BANK_PARAM;
}

static enum stance_dtype dtype_of(const struct stance_segment *g)
{
    return g->bank == STANCE_BANK_COUNTER ? STANCE_DTYPE_I64 : g->type == STANCE_TYPE_F64 ? STANCE_DTYPE_F64 : STANCE_DTYPE_F32;
}

static void say(struct writer *w, const char *key, const char *fmt, ...) STANCE_PRINTF(3, 4);
static void say(struct writer *w, const char *key, const char *fmt, ...)
{
    char    text[64];
    va_list ap;
    char   *copy;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    copy = stance_arena_strdup(w->arena, text);
    w->failed = w->failed || copy == NULL || w->n_meta == META_MAX;
    if (!w->failed)
        w->meta[w->n_meta++] = (struct stance_pair){ key, copy };
}

static void say_f64(struct writer *w, const char *key, double v)
{
    char text[64];

    stance_text_of_f64(v, text, sizeof text);
    say(w, key, "%s", text);
}

/* Families in the file: 8-byte types first would align them, but the order of banks does as well. */
static void choose_families(struct writer *w, const struct stance_setup *setup, bool window)
{
    const struct stance_optimizer_ops *o = setup->optimizer.plugin->ops.optimizer;

    w->family[w->n_families++] = (struct family){ "", STANCE_ARRAY_COMMITTED, false };
    for (int i = 0; i < w->store->n_slots; i++)
        w->family[w->n_families++] = (struct family){ o->slot_names[i], STANCE_ARRAY_SLOT + i, false };
    for (int states = 0; states < 2 && w->store->averages; states++)
        w->family[w->n_families++] = (struct family){ AVERAGE, STANCE_ARRAY_AVERAGE, states != 0 };
    if (window) {
        w->family[w->n_families++] = (struct family){ "gradient", STANCE_ARRAY_GRADIENT, false };
        w->family[w->n_families++] = (struct family){ "pending", STANCE_ARRAY_MASTER, true };
    }
}

static const char *member_name(struct stance_arena *a, const char *prefix, const char *name)
{
    size_t size = strlen(prefix) + strlen(name) + sizeof STANCE_TENSORS_RESERVED + 2;
    char  *text;

    if (*prefix == '\0')
        return name;
    text = stance_arena_get(a, size, 1);
    if (text != NULL)
        snprintf(text, size, "%s%s.%s", STANCE_TENSORS_RESERVED, prefix, name);
    return text;
}

static stance_status declare(struct writer *w, struct stance_error *err)
{
    w->entries = stance_calloc((size_t)w->n_families * w->store->n_segments + 1, sizeof *w->entries);
    if (w->entries == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "checkpoint");
    for (int f = 0; f < w->n_families; f++) {
        for (size_t i = 0; i < w->store->n_segments; i++) {
            const struct stance_segment *g = &w->store->segments[i];
            struct stance_entry         *e = &w->entries[w->n];

            if (!in_family(w->store, &w->family[f], g))
                continue;
            e->name  = member_name(w->arena, w->family[f].prefix, g->name);
            e->dtype = dtype_of(g);
            e->rank  = g->shape.rank;
            for (int d = 0; d < g->shape.rank; d++)
                e->dim[d] = g->shape.dim[d];
            if (e->name == NULL)
                return STANCE_FAIL(err, STANCE_ERR_NOMEM, "checkpoint");
            w->n++;
        }
    }
    return STANCE_OK;
}

static stance_status write_family(struct writer *w, const struct family *f, struct stance_safetensors_out *out,
                                  struct stance_error *err)
{
    for (size_t i = 0; i < w->store->n_segments; i++) {
        const struct stance_segment *g = &w->store->segments[i];
        int           array = f->array == STANCE_ARRAY_COMMITTED && w->store->committed[g->bank] == NULL
                                  ? STANCE_ARRAY_MASTER : f->array;
        size_t        bytes = (size_t)stance_elements(&g->shape) * stance_type_size(g->type);
        void         *v;
        stance_status status;

        if (!in_family(w->store, f, g))
            continue;
        v = stance_calloc(1, bytes + 1);
        if (v == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", g->name);
        status = stance_store_read(w->store, i, array, g->type, v, err);
        if (status == STANCE_OK)
            status = stance_safetensors_write(out, v, bytes, err);
        stance_free(v);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

stance_status stance_checkpoint_write(const char *path, struct stance_step *step, const struct stance_setup *setup,
                                      const struct stance_position *at, struct stance_error *err)
{
    struct writer                  w      = { .step = step, .store = stance_step_store(step) };
    struct stance_window           window = stance_step_window(step);
    struct stance_safetensors_out *out    = NULL;
    struct stance_string           recipe = { 0 }, pose = { 0 };
    char                          *scaler = NULL;
    stance_status                  status;

    w.arena = stance_arena_new(64 << 10);
    if (w.arena == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "checkpoint");
    choose_families(&w, setup, window.open);
    status = declare(&w, err);
    if (status == STANCE_OK)
        status = stance_scaler_save(setup->scaler, &scaler, err);
    if (status != STANCE_OK)
        goto done;
    stance_recipe_text(setup->recipe, false, &recipe);
    stance_pose_text(&setup->pose, &pose);
    say(&w, "stance.format", "1");
    say(&w, "stance.epoch", "%" PRId64, at->epoch);
    say(&w, "stance.batch", "%" PRId64, at->batch);
    say(&w, "stance.step", "%" PRId64, at->iteration);
    say(&w, "stance.applied", "%" PRIu64, stance_step_applied(step));
    say(&w, "stance.micro", "%" PRId64, window.open ? at->micro : 0);
    say(&w, "stance.skipped", "%" PRId64, stance_step_skips(step)->total);
    say(&w, "stance.skipped_in_a_row", "%" PRId64, stance_step_skips(step)->in_a_row);
    say_f64(&w, "stance.best", at->best);
    if (w.store->averages)
        say(&w, "stance.ema", "%s", w.store->averages_states ? "weights and " STATISTICS : "weights");
    if (window.open) {
        say_f64(&w, "stance.window_scale", (double)window.scale);
        say_f64(&w, "stance.window_loss", window.loss);
    }
    if (w.failed || recipe.failed || pose.failed) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "checkpoint");
        goto done;
    }
    w.meta[w.n_meta++] = (struct stance_pair){ "stance.optimizer", setup->optimizer.plugin->name };
    w.meta[w.n_meta++] = (struct stance_pair){ "stance.scaler", scaler };
    w.meta[w.n_meta++] = (struct stance_pair){ "stance.precision", stance_policy_word(setup->policy) };
    w.meta[w.n_meta++] = (struct stance_pair){ "stance.recipe", recipe.s };
    w.meta[w.n_meta++] = (struct stance_pair){ "stance.pose", pose.s };
    status = stance_safetensors_create(path, w.entries, w.n, w.meta, w.n_meta, &out, err);
    for (int f = 0; f < w.n_families && status == STANCE_OK; f++)
        status = write_family(&w, &w.family[f], out, err);
    if (status == STANCE_OK) {
        status = stance_safetensors_commit(out, err);
        out    = NULL;
    }

done:
    stance_safetensors_abort(out);
    stance_free(scaler);
    stance_string_free(&recipe);
    stance_string_free(&pose);
    stance_free(w.entries);
    stance_arena_free(w.arena);
    return status == STANCE_OK ? status : stance_error_prefix(err, status, "%s", path);
}

/* ---- reading --------------------------------------------------------------------------------- */

static stance_status read_i64(const struct stance_tensors *t, const char *key, int64_t *out, struct stance_error *err)
{
    const char *text = stance_tensors_meta(t, key);
    char       *end;
    long long   v;

    if (text == NULL)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "has no '%s'", key);
    errno = 0;
    v     = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || v < 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: '%s' is not a count", key, text);
    *out = v;
    return STANCE_OK;
}

static stance_status read_f64(const struct stance_tensors *t, const char *key, double *out, struct stance_error *err)
{
    const char *text = stance_tensors_meta(t, key);

    if (text == NULL || !stance_text_f64(text, out))
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is not a number", key);
    return STANCE_OK;
}

/* A family of the file into its arrays; every tensor must be there in the right shape. */
static stance_status read_family(struct stance_store *s, const struct stance_tensors *t, const struct family *f,
                                 struct stance_error *err)
{
    char name[700];

    for (size_t i = 0; i < s->n_segments; i++) {
        const struct stance_segment *g = &s->segments[i];
        const struct stance_entry   *e;
        bool                         fits;
        stance_status                status;

        if (!in_family(s, f, g))
            continue;
        snprintf(name, sizeof name, "%s%s.%s", STANCE_TENSORS_RESERVED, f->prefix, g->name);
        e    = stance_tensors_find(t, name);
        fits = e != NULL && e->rank == g->shape.rank;
        for (int d = 0; fits && d < e->rank; d++)
            fits = e->dim[d] == g->shape.dim[d];
        if (!fits)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is missing or of another shape", name);
        status = stance_weights_put(s, i, f->array, e, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

/* The averages of the file; what it has not starts from its weights, where a recipe has begun to ask. */
static stance_status read_average(struct stance_store *s, const struct stance_tensors *t, struct stance_error *err)
{
    const char   *have   = stance_tensors_meta(t, "stance.ema");
    stance_status status = stance_store_begin_average(s, err);

    if (have == NULL && s->averages)
        STANCE_LOG(STANCE_LOG_WARN, "the checkpoint has no averaged weights: the average starts from its weights");
    if (have != NULL && !s->averages)
        STANCE_LOG(STANCE_LOG_WARN, "the averaged weights of the checkpoint are left behind: train.ema.decay is null");
    if (status == STANCE_OK && have != NULL)
        status = read_family(s, t, &(struct family){ AVERAGE, STANCE_ARRAY_AVERAGE, false }, err);
    if (status == STANCE_OK && have != NULL && strstr(have, STATISTICS) != NULL)
        status = read_family(s, t, &(struct family){ AVERAGE, STANCE_ARRAY_AVERAGE, true }, err);
    return status;
}

static stance_status restore(const struct stance_tensors *t, struct stance_step *step, const struct stance_setup *setup,
                             struct stance_position *at, struct stance_error *err)
{
    struct stance_store   *store  = stance_step_store(step);
    struct stance_skips   *skips  = stance_step_skips(step);
    struct stance_window   window = { 0 };
    struct stance_position p      = *at;
    const char            *optimizer = stance_tensors_meta(t, "stance.optimizer");
    const char            *scaler    = stance_tensors_meta(t, "stance.scaler");
    int64_t                applied = 0, total = 0, in_a_row = 0;
    double                 scale = 1;
    stance_status          status;

    if (stance_tensors_meta(t, "stance.format") == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "holds weights, but no run to go on with: use --load");
    if (optimizer == NULL || strcmp(optimizer, setup->optimizer.plugin->name) != 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "was trained by optimizer '%s', the recipe has '%s'",
                           optimizer != NULL ? optimizer : "?", setup->optimizer.plugin->name);
    status = read_i64(t, "stance.epoch", &p.epoch, err);
    if (status == STANCE_OK)
        status = read_i64(t, "stance.batch", &p.batch, err);
    if (status == STANCE_OK)
        status = read_i64(t, "stance.step", &p.iteration, err);
    if (status == STANCE_OK)
        status = read_i64(t, "stance.micro", &p.micro, err);
    if (status == STANCE_OK)
        status = read_i64(t, "stance.applied", &applied, err);
    if (status == STANCE_OK)
        status = read_i64(t, "stance.skipped", &total, err);
    if (status == STANCE_OK)
        status = read_i64(t, "stance.skipped_in_a_row", &in_a_row, err);
    if (status == STANCE_OK)
        status = read_f64(t, "stance.best", &p.best, err);
    window.open = p.micro > 0;
    if (status == STANCE_OK && window.open) {
        status = read_f64(t, "stance.window_scale", &scale, err);
        if (status == STANCE_OK)
            status = read_f64(t, "stance.window_loss", &window.loss, err);
        window.scale = (float)scale;
    }
    if (status == STANCE_OK)
        status = stance_weights_take(store, t, NULL, err);
    for (int i = 0; i < store->n_slots && status == STANCE_OK; i++) {
        struct family f = { setup->optimizer.plugin->ops.optimizer->slot_names[i], STANCE_ARRAY_SLOT + i, false };

        status = read_family(store, t, &f, err);
    }
    if (status == STANCE_OK)
        status = read_average(store, t, err);
    if (status == STANCE_OK && window.open)
        status = read_family(store, t, &(struct family){ "gradient", STANCE_ARRAY_GRADIENT, false }, err);
    if (status == STANCE_OK && window.open)
        status = read_family(store, t, &(struct family){ "pending", STANCE_ARRAY_MASTER, true }, err);
    if (status == STANCE_OK && scaler != NULL)
        status = stance_scaler_restore(setup->scaler, scaler, err);
    if (status != STANCE_OK)
        return status;
    if (scaler == NULL)
        STANCE_LOG(STANCE_LOG_WARN, "the checkpoint has no state of a scaler: '%s' starts afresh",
                   stance_scaler_name(setup->scaler));
    stance_step_set_applied(step, (uint64_t)applied);
    stance_step_set_window(step, &window);
    skips->total    = total;
    skips->in_a_row = in_a_row;
    *at             = p;
    return stance_step_refresh(step, err);
}

stance_status stance_checkpoint_read(const char *path, struct stance_step *step, const struct stance_setup *setup,
                                     struct stance_position *at, struct stance_error *err)
{
    struct stance_tensors *t;
    stance_status          status = stance_tensors_open(path, &t, err);

    if (status != STANCE_OK)
        return status;
    status = restore(t, step, setup, at, err);
    stance_tensors_close(t);
    return status == STANCE_OK ? status : stance_error_prefix(err, status, "%s", path);
}

/* ---- a folder of them ------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);

    return a >= b && strcmp(s + a - b, end) == 0;
}

/* The number at the end of "step_000120.safetensors"; -1 if there is none. */
static int64_t step_of_name(const char *name)
{
    const char *dot = strrchr(name, '.'), *c = dot;

    while (c != NULL && c > name && c[-1] >= '0' && c[-1] <= '9')
        c--;
    return c == NULL || c == dot ? -1 : strtoll(c, NULL, 10);
}

struct candidate { bool ours; int64_t step; };

/* @return false when the file is damaged */
static bool look_at(const char *path, const char *name, struct candidate *out, struct stance_error *err)
{
    struct stance_tensors *t;

    if (stance_tensors_open(path, &t, err) != STANCE_OK)
        return false;
    out->ours = stance_tensors_meta(t, "stance.step") != NULL && read_i64(t, "stance.step", &out->step, NULL) == STANCE_OK;
    if (!out->ours)
        out->step = step_of_name(name);
    stance_tensors_close(t);
    return true;
}

/* What a run wrote goes before weights that somebody laid beside it, whatever number their name has. */
static bool is_newer(const struct candidate *a, const char *a_file, const struct candidate *b, const char *b_file)
{
    if (a->ours != b->ours)
        return a->ours;
    return a->step > b->step || (a->step == b->step && strcmp(a_file, b_file) > 0);
}

stance_status stance_checkpoint_newest(const char *folder, char **path, struct stance_error *err)
{
    DIR                *d = opendir(folder);
    struct dirent      *e;
    struct candidate    best = { .step = -1 };
    char                file[4096], found[4096] = "";
    bool                damaged = false;
    struct stance_error why = STANCE_ERROR_INIT;

    *path = NULL;
    if (d == NULL)
        return errno == ENOENT ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", folder, strerror(errno));
    while ((e = readdir(d)) != NULL) {
        struct candidate c = { .step = -1 };

        if (!ends_with(e->d_name, ".safetensors") || strncmp(e->d_name, "best_", 5) == 0)
            continue;
        if (snprintf(file, sizeof file, "%s/%s", folder, e->d_name) >= (int)sizeof file)
            continue;
        if (!look_at(file, e->d_name, &c, &why)) {
            STANCE_LOG(STANCE_LOG_WARN, "passed over: %s", why.text);
            damaged = true;
        } else if (is_newer(&c, file, &best, found)) {
            best = c;
            strcpy(found, file);
        }
    }
    closedir(d);
    if (found[0] == '\0')
        return !damaged ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: no whole checkpoint: %s", folder, why.text);
    *path = stance_strdup(found);
    return *path != NULL ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", found);
}

void stance_checkpoint_prune(const char *folder, int64_t keep)
{
    for (;;) {
        DIR           *d = opendir(folder);
        struct dirent *e;
        int64_t        n = 0, oldest = INT64_MAX;
        char           file[4096] = "";

        if (d == NULL)
            return;
        while ((e = readdir(d)) != NULL) {
            int64_t step = step_of_name(e->d_name);

            if (!ends_with(e->d_name, ".safetensors") || strncmp(e->d_name, "step_", 5) != 0 || step < 0)
                continue;
            n++;
            if (step < oldest && snprintf(file, sizeof file, "%s/%s", folder, e->d_name) < (int)sizeof file)
                oldest = step;
        }
        closedir(d);
        if (n <= keep || file[0] == '\0' || unlink(file) != 0)
            return;
    }
}
