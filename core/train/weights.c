/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/weights.h"

#include <stdio.h>

stance_status stance_weights_put(struct stance_store *s, size_t segment, int array, const struct stance_entry *e,
                                 struct stance_error *err)
{
    bool          counter = s->segments[segment].bank == STANCE_BANK_COUNTER;
    size_t        n       = stance_entry_elements(e);
    void         *v       = stance_calloc(n + 1, sizeof(double));
    stance_status status;

    if (v == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", e->name);
    if (!counter)
        stance_entry_f64(e, 0, n, v);
    else if (!stance_entry_i64(e, 0, n, v)) {
        stance_free(v);
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is not a whole number", e->name);
    }
    status = stance_store_write(s, segment, array, counter ? STANCE_TYPE_I64 : STANCE_TYPE_F64, v, err);
    stance_free(v);
    return status;
}

stance_status stance_weights_take(struct stance_store *s, const struct stance_tensors *t, const char *only,
                                  struct stance_error *err)
{
    struct stance_wanted *wanted = stance_calloc(s->n_segments + 1, sizeof *wanted);
    struct stance_match   match  = { 0 };
    stance_status         status;

    if (wanted == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "weights");
    for (size_t i = 0; i < s->n_segments; i++)
        wanted[i] = (struct stance_wanted){ s->segments[i].name, s->segments[i].shape };
    status = stance_tensors_match(t, wanted, s->n_segments, only, &match, err);
    for (size_t i = 0; status == STANCE_OK && i < s->n_segments; i++) {
        if (match.entry[i] == NULL)
            continue;
        status = stance_weights_put(s, i, STANCE_ARRAY_MASTER, match.entry[i], err);
        if (status == STANCE_OK && s->committed[s->segments[i].bank] != NULL)
            status = stance_weights_put(s, i, STANCE_ARRAY_COMMITTED, match.entry[i], err);
    }
    stance_match_free(&match);
    stance_free(wanted);
    return status;
}

stance_status stance_weights_take_average(struct stance_store *s, const struct stance_tensors *t, struct stance_error *err)
{
    char          name[700];
    bool          found  = false;
    stance_status status = stance_weights_take(s, t, NULL, err);

    if (status == STANCE_OK && stance_tensors_meta(t, "stance.ema") == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "has no averaged weights (train.ema.decay)");
    for (size_t i = 0; i < s->n_segments && status == STANCE_OK; i++) {
        const struct stance_segment *g = &s->segments[i];
        const struct stance_entry   *e;
        bool                         fits;

        if (g->bank != STANCE_BANK_PARAM && g->bank != STANCE_BANK_STATE)
            continue;
        snprintf(name, sizeof name, "%sema.%s", STANCE_TENSORS_RESERVED, g->name);
        e = stance_tensors_find(t, name);
        if (e == NULL) /* statistics of the run, or a weight that was not trained */
            continue;
        fits = e->rank == g->shape.rank;
        for (int d = 0; fits && d < e->rank; d++)
            fits = e->dim[d] == g->shape.dim[d];
        if (!fits)
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: is of another shape", name);
        found = true;
        status = stance_weights_put(s, i, STANCE_ARRAY_MASTER, e, err);
        if (status == STANCE_OK && s->committed[g->bank] != NULL)
            status = stance_weights_put(s, i, STANCE_ARRAY_COMMITTED, e, err);
    }
    if (status == STANCE_OK && !found)
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "has no averaged weights of this model");
    return status;
}

stance_status stance_weights_load_average(struct stance_store *s, const char *path, struct stance_error *err)
{
    struct stance_tensors *t;
    stance_status          status = stance_tensors_open(path, &t, err);

    if (status != STANCE_OK)
        return status;
    status = stance_weights_take_average(s, t, err);
    if (status != STANCE_OK)
        stance_error_prefix(err, status, "%s", path);
    stance_tensors_close(t);
    return status;
}

stance_status stance_weights_load(struct stance_store *s, const char *path, const char *only, struct stance_error *err)
{
    struct stance_tensors *t;
    stance_status          status = stance_tensors_open(path, &t, err);

    if (status != STANCE_OK)
        return status;
    status = stance_weights_take(s, t, only, err);
    if (status != STANCE_OK)
        stance_error_prefix(err, status, "%s", path);
    stance_tensors_close(t);
    return status;
}
