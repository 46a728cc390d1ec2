/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/diagnose.h"

#include "compile/kernel.h"
#include "compile/watch.h"

#include <stance/alloc.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what a second run would change --------------------------------------------------------------- */

/* The flat gradients, the pending states and counters, and the control block. */
enum { KEPT = 3 };

struct kept {
    const struct stance_store *store;
    void                      *copy[KEPT];
    struct stance_control      control;
};

static struct stance_tensor kept_tensor(const struct stance_store *s, int i, void *host)
{
    static const enum stance_bank banks[KEPT] = { STANCE_BANK_PARAM, STANCE_BANK_STATE, STANCE_BANK_COUNTER };
    enum stance_type type = banks[i] == STANCE_BANK_COUNTER ? STANCE_TYPE_I64 : s->policy.wide;
    void            *data = host != NULL ? host : i == 0 ? s->gradient : s->bank[banks[i]];

    return stance_tensor_flat(data, type, s->bytes[banks[i]]);
}

static stance_status copy(const struct stance_store *s, const struct stance_tensor *to, const struct stance_tensor *from,
                          struct stance_error *err)
{
    if (!s->device->ops->host_memory)
        return s->device->ops->reorder(s->device->state, to, from, err);
    memcpy(to->data, from->data, from->bytes);
    return STANCE_OK;
}

static void drop(struct kept *k)
{
    for (int i = 0; i < KEPT; i++)
        stance_free(k->copy[i]);
}

static stance_status keep(struct kept *k, const struct stance_store *s, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    *k = (struct kept){ .store = s, .control = *s->control };
    for (int i = 0; i < KEPT && status == STANCE_OK; i++) {
        struct stance_tensor from = kept_tensor(s, i, NULL), to;

        if (from.bytes == 0)
            continue;
        k->copy[i] = stance_calloc(from.bytes, 1);
        if (k->copy[i] == NULL) {
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "diagnosis");
            break;
        }
        to     = kept_tensor(s, i, k->copy[i]);
        status = copy(s, &to, &from, err);
    }
    if (status != STANCE_OK)
        drop(k);
    return status;
}

static stance_status put_back(struct kept *k, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    *k->store->control = k->control;
    for (int i = 0; i < KEPT; i++) {
        struct stance_tensor to = kept_tensor(k->store, i, NULL), from;

        if (k->copy[i] == NULL)
            continue;
        from = kept_tensor(k->store, i, k->copy[i]);
        if (copy(k->store, &to, &from, err) != STANCE_OK)
            status = STANCE_ERR_DEVICE;
    }
    drop(k);
    return status;
}

/* ---- looking --------------------------------------------------------------------------------------- */

struct look {
    const struct stance_device *device;
    enum stance_type            low; /* what gradients of activations are stored in */
    struct stance_diagnosis    *findings;
    struct stance_exponents    *exponents;
    double                      inverse;
    void                       *host; /* of the tensor at hand, plain, binary32 or binary64 */
    size_t                      room;
    stance_status               status; /* the first failure; nothing is looked at after it */
    struct stance_error        *err;
};

static bool to_host(struct look *l, const struct stance_tensor *t, struct stance_tensor *out)
{
    enum stance_type type = t->type == STANCE_TYPE_F64 ? STANCE_TYPE_F64 : STANCE_TYPE_F32;

    *out = (struct stance_tensor){ NULL, type, type, 0, t->shape, (size_t)stance_elements(&t->shape) * stance_type_size(type) };
    if (out->bytes > l->room) {
        stance_free(l->host);
        l->room = 0;
        l->host = stance_calloc(out->bytes, 1);
        if (l->host == NULL) {
            l->status = STANCE_FAIL(l->err, STANCE_ERR_NOMEM, "diagnosis");
            return false;
        }
        l->room = out->bytes;
    }
    out->data = l->host;
    l->status = l->device->ops->reorder(l->device->state, out, t, l->err);
    return l->status == STANCE_OK;
}

static double element(const struct stance_tensor *t, int64_t i)
{
    return t->type == STANCE_TYPE_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void examine(const struct stance_tensor *t, struct stance_finding *f)
{
    f->elements = stance_elements(&t->shape);
    f->min      = INFINITY;
    f->max      = -INFINITY;
    for (int64_t i = 0; i < f->elements; i++) {
        double v = element(t, i);

        if (isnan(v)) {
            f->nan++;
        } else if (isinf(v)) {
            f->inf++;
        } else {
            f->min = v < f->min ? v : f->min;
            f->max = v > f->max ? v : f->max;
        }
    }
    if (f->nan + f->inf == f->elements)
        f->min = f->max = NAN;
}

static void count(struct look *l, const struct stance_tensor *t)
{
    int64_t n = stance_elements(&t->shape);

    if (t->type == STANCE_TYPE_F32) {
        stance_exponents_add(l->exponents, t->data, n, l->inverse);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float v = (float)((const double *)t->data)[i];

        stance_exponents_add(l->exponents, &v, 1, l->inverse);
    }
}

static void look_at(void *ctx, const struct stance_watched *w)
{
    struct look            *l = ctx;
    struct stance_diagnosis *d = l->findings;
    struct stance_finding   *pass = d == NULL ? NULL : w->backward ? &d->backward : &d->forward, f = { .found = true };
    bool                     search = pass != NULL && !pass->found, largest;
    bool counted = l->exponents != NULL && w->gradient && w->tensor->type == l->low
                   && w->tensor->shape.rank > 0; /* a scalar is the gradient of the loss, which is the scale */
    struct stance_tensor     host;

    if (l->status != STANCE_OK || !(search || counted) || !to_host(l, w->tensor, &host))
        return;
    if (counted)
        count(l, &host);
    if (!search)
        return;
    f.type  = w->tensor->type;
    f.shape = w->tensor->shape;
    examine(&host, &f);
    /* Of activations: statistics of a norm and the loss are wide whatever the policy. */
    largest = !w->backward && w->kind == STANCE_WATCHED_RESULT && f.shape.rank > 1 && fmax(-f.min, f.max) > d->largest;
    if (largest) {
        d->largest = fmax(-f.min, f.max);
        stance_watched_name(w, d->largest_in, sizeof d->largest_in);
    }
    if (f.nan + f.inf == 0)
        return;
    stance_watched_name(w, f.where, sizeof f.where);
    *pass = f;
}

stance_status stance_diagnose(struct stance_store *store, struct stance_program *p, bool accumulate,
                              struct stance_diagnosis *findings, struct stance_exponents *exponents, float scale,
                              struct stance_error *err)
{
    struct look   l = { .device = store->device, .low = store->policy.low, .findings = findings, .exponents = exponents,
                        .inverse = 1 / (double)scale, .err = err };
    struct kept   k;
    stance_status status;

    if (findings != NULL)
        *findings = (struct stance_diagnosis){ .scale = scale };
    status = keep(&k, store, err);
    if (status != STANCE_OK)
        return status;
    /* Sums with what earlier micro-batches left would not be this one's. */
    if (accumulate) {
        void *zero = stance_calloc(store->bytes[STANCE_BANK_PARAM] + 1, 1);
        struct stance_tensor to = kept_tensor(store, 0, NULL), from;

        from   = kept_tensor(store, 0, zero);
        status = zero == NULL ? STANCE_FAIL(err, STANCE_ERR_NOMEM, "diagnosis") : copy(store, &to, &from, err);
        stance_free(zero);
    }
    if (status == STANCE_OK)
        status = stance_program_watch(p, store->device, look_at, &l, err);
    if (status == STANCE_OK)
        status = l.status;
    if (put_back(&k, err) != STANCE_OK)
        status = STANCE_ERR_DEVICE;
    stance_free(l.host);
    return status;
}

stance_status stance_diagnose_weights(const struct stance_store *store, float scale, struct stance_exponents *exponents,
                                      struct stance_error *err)
{
    struct look l = { .device = store->device, .exponents = exponents, .inverse = 1 / (double)scale, .err = err };

    for (size_t i = 0; i < store->n_segments && l.status == STANCE_OK; i++) {
        struct stance_tensor t, host;

        if (store->segments[i].bank != STANCE_BANK_PARAM)
            continue;
        t = stance_store_tensor(store, i, STANCE_ARRAY_GRADIENT);
        if (to_host(&l, &t, &host))
            count(&l, &host);
    }
    stance_free(l.host);
    return l.status;
}

/* ---- telling --------------------------------------------------------------------------------------- */

/* "3 of 393216 elements (0.00076 %) are not finite (2 inf, 1 nan), the others lie in [-65504, 6.1e+04]" */
static void range_text(const struct stance_finding *f, char *text, size_t size)
{
    int n = snprintf(text, size, "%" PRId64 " of %" PRId64 " elements (%.3g %%) are not finite (%" PRId64 " inf, %" PRId64 " nan)",
                     f->inf + f->nan, f->elements, 100 * (double)(f->inf + f->nan) / (double)f->elements, f->inf, f->nan);

    if (n > 0 && (size_t)n < size && !isnan(f->min))
        snprintf(text + n, size - (size_t)n, ", the others lie in [%.6g, %.6g]", f->min, f->max);
}

void stance_diagnosis_text(const struct stance_diagnosis *d, bool backward, char *text, size_t size)
{
    const struct stance_finding *f    = backward ? &d->backward : &d->forward;
    const char                  *pass = backward ? "backward" : "forward";
    char                         shape[STANCE_SHAPE_TEXT], range[200];

    if (f->found) {
        range_text(f, range, sizeof range);
        snprintf(text, size, "%s: first not finite is %s, %s %s: %s", pass, f->where, stance_type_word(f->type),
                 stance_shape_text(&f->shape, shape, sizeof shape), range);
    } else if (backward && !d->forward.found) {
        snprintf(text, size, "backward: everything is finite when this micro-batch is run again: what is not came from "
                             "another process, or from the sum over micro-batches");
    } else if (!backward && d->largest_in[0] != '\0') {
        snprintf(text, size, "forward: everything is finite; the largest magnitude is %.6g, in %s", d->largest, d->largest_in);
    } else {
        snprintf(text, size, "%s: everything is finite", pass);
    }
}

bool stance_diagnosis_first(const struct stance_diagnosis *d, char *text, size_t size)
{
    const struct stance_finding *f = d->forward.found ? &d->forward : &d->backward;
    char                         range[200];

    if (!f->found)
        return false;
    range_text(f, range, sizeof range);
    snprintf(text, size, "%s, %s pass: %s", f->where, d->forward.found ? "forward" : "backward", range);
    return true;
}
