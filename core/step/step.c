/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/step_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct stance_store *stance_step_store(struct stance_step *s)
{
    return s->store;
}

struct stance_program *stance_step_program(struct stance_step *s, enum stance_step_program which)
{
    return s->programs[which].program;
}

uint64_t stance_step_applied(const struct stance_step *s)
{
    return s->store->control->update.applied;
}

void stance_step_set_applied(struct stance_step *s, uint64_t applied)
{
    s->store->control->update.applied = applied;
}

struct stance_window stance_step_window(const struct stance_step *s)
{
    return s->window;
}

void stance_step_set_window(struct stance_step *s, const struct stance_window *w)
{
    s->window = *w;
    if (w->open)
        s->store->control->scale = w->scale;
}

struct stance_skips *stance_step_skips(struct stance_step *s)
{
    return &s->skips;
}

static stance_status pack(struct stance_step *s, struct stance_bound *b, struct stance_error *err)
{
    if (b->packed)
        return STANCE_OK;
    if (stance_program_pack(b->program) != STANCE_OK)
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device '%s': copying weights failed", s->device->plugin->name);
    b->packed = true;
    return STANCE_OK;
}

static void weights_changed(struct stance_step *s)
{
    for (int i = 0; i < STANCE_STEP_PROGRAMS; i++)
        s->programs[i].packed = false;
}

stance_status stance_step_refresh(struct stance_step *s, struct stance_error *err)
{
    (void)err;
    weights_changed(s);
    return STANCE_OK;
}

int stance_step_input(const struct stance_step *s, enum stance_step_program which, const char *name)
{
    const struct stance_bound *b = &s->programs[which];
    const char         *have;

    for (int i = 0; b->program != NULL && (have = stance_program_input_name(b->program, (size_t)i)) != NULL; i++)
        if (strcmp(have, name) == 0)
            return i;
    return -1;
}

stance_status stance_step_fill(struct stance_step *s, enum stance_step_program which, int input,
                               enum stance_type type, const void *data, struct stance_error *err)
{
    const struct stance_tensor *to   = s->programs[which].input[input];
    struct stance_tensor        host = { (void *)data, type, type, 0, to->shape,
                                         (size_t)stance_elements(&to->shape) * stance_type_size(type) };

    return s->device->ops->reorder(s->device->state, to, &host, err);
}

/* A scalar result, read without a queue's help: device memory of a host device is at hand. */
static stance_status read_scalar(struct stance_step *s, const struct stance_tensor *t, double *out, struct stance_error *err)
{
    struct stance_tensor host = { out, STANCE_TYPE_F64, STANCE_TYPE_F64, 0, t->shape, sizeof *out };

    if (s->device->ops->host_memory && t->stored == STANCE_TYPE_F32) {
        *out = (double)*(const float *)t->data;
        return STANCE_OK;
    }
    return s->device->ops->reorder(s->device->state, &host, t, err);
}

/* ---- a window ------------------------------------------------------------------------------------ */

/* The first micro-batch of a window. @param clear  the gradients: they will be added to, or left */
static stance_status open_window(struct stance_step *s, bool clear, struct stance_error *err)
{
    stance_status status;

    if (s->window.open)
        return STANCE_OK;
    s->window = (struct stance_window){ .open = true };
    memset(s->share, 0, sizeof s->share);
    status = stance_scaler_scale(s->scaler, &s->window.scale, err);
    stance_step_begin_looking(s);
    if (status == STANCE_OK && clear)
        memset(s->store->gradient, 0, s->store->bytes[STANCE_BANK_PARAM]);
    return status;
}

/* What a kernel could not tell itself. */
static stance_status pass_failed(struct stance_step *s, const char *pass, struct stance_error *err)
{
    if (s->sync.error.status != STANCE_OK) {
        if (err != NULL)
            *err = s->sync.error;
        return s->sync.error.status;
    }
    return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device '%s': the %s pass failed", s->device->plugin->name, pass);
}

static stance_status backward(struct stance_step *s, enum stance_step_program which, struct stance_error *err)
{
    struct stance_error of_comm = STANCE_ERROR_INIT;

    if (s->reduce == NULL || !s->closing)
        return stance_program_backward(s->programs[which].program) == STANCE_OK ? STANCE_OK : pass_failed(s, "backward", err);
    s->closing = false;
    if (stance_reducer_backward(s->reduce, which, s->programs[which].program, &of_comm) == STANCE_OK)
        return STANCE_OK;
    if (of_comm.status == STANCE_OK)
        return pass_failed(s, "backward", err);
    if (err != NULL)
        *err = of_comm;
    return of_comm.status;
}

stance_status stance_step_micro(struct stance_step *s, enum stance_step_program which, double weight,
                                struct stance_error *err)
{
    struct stance_bound          *b       = &s->programs[which];
    struct stance_control *control = s->store->control;
    double                 loss    = 0;
    bool                   reduces = s->reduce != NULL && s->closing;
    stance_status          status  = open_window(s, s->accumulate, err);

    if (status != STANCE_OK)
        return status;
    control->scale        = s->window.scale;
    control->micro_weight = weight;
    status = pack(s, b, err);
    if (status != STANCE_OK)
        return status;
    if (stance_program_forward(b->program) != STANCE_OK)
        return pass_failed(s, "forward", err);
    status = read_scalar(s, b->loss, &loss, err);
    if (status != STANCE_OK)
        return status;
    s->window.loss += weight * loss;
    status = backward(s, which, err);
    if (status != STANCE_OK)
        return status;
    s->newest = b->program;
    s->micro++;
    /* While the flat gradients are being summed over the processes nobody may read them; the window's end looks. */
    return reduces ? STANCE_OK : stance_step_look_at_micro(s, err);
}

stance_status stance_step_idle(struct stance_step *s, struct stance_error *err)
{
    stance_status status = open_window(s, true, err);

    s->closing = false; /* nothing to overlap with: stance_step_apply() starts the reductions */
    if (status == STANCE_OK && s->sync_bn && stance_program_idle(s->programs[STANCE_STEP_BATCH].program) != STANCE_OK)
        status = pass_failed(s, "empty", err);
    return status;
}

void stance_step_close_window(struct stance_step *s)
{
    s->closing = true;
}

double *stance_step_share(struct stance_step *s)
{
    return s->share;
}

struct stance_reducer *stance_step_reducer(struct stance_step *s)
{
    return s->reduce;
}

/* Loss, overflow and what the caller tells, summed over the processes. The flag is or-ed by itself, whatever
 * the sums of the gradients made of an infinity (spec row 37). */
static stance_status share(struct stance_step *s, struct stance_error *err)
{
    double        v[2 + STANCE_SHARES] = { s->window.loss, s->store->control->update.skip != 0 };
    stance_status status;

    memcpy(v + 2, s->share, sizeof s->share);
    status = s->comm->ops->all_reduce(s->comm->state, v, 2 + STANCE_SHARES, STANCE_TYPE_F64, STANCE_COMM_SUM, err);
    if (status != STANCE_OK)
        return status;
    s->window.loss = v[0];
    if (v[1] > 0)
        s->store->control->update.skip = 1;
    memcpy(s->share, v + 2, sizeof s->share);
    return s->share[STANCE_SHARE_FAILED] > 0 ? STANCE_FAIL(err, STANCE_ERR_INTERRUPTED, "another process has failed") : STANCE_OK;
}

/* The trained tensor that an index into the flat gradients falls into. */
static const char *segment_at(const struct stance_store *store, int64_t index)
{
    size_t at = (size_t)index * stance_type_size(store->policy.wide);

    for (size_t i = 0; i < store->n_segments; i++) {
        const struct stance_segment *t = &store->segments[i];

        if (index >= 0 && t->bank == STANCE_BANK_PARAM && at >= t->offset && at < t->offset + t->form.bytes)
            return t->name;
    }
    return NULL;
}

stance_status stance_step_apply(struct stance_step *s, double rate, struct stance_step_result *result,
                                struct stance_error *err)
{
    struct stance_control *control = s->store->control;
    struct stance_outcome  outcome = { .size = sizeof outcome };
    char                   found[700], first[900];
    const char            *bad = NULL;

    if (!s->window.open) /* nothing has been checked, or it has been applied already */
        return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "a step without a batch");
    control->update.rate = rate;
    control->scale       = s->window.scale;
    if (s->reduce != NULL) {
        stance_status status = stance_reducer_finish(s->reduce, err);

        if (status != STANCE_OK)
            return status;
    }
    for (int i = 0; i < s->n_updates; i++) {
        stance_status status;

        if (stance_launch_run(s->device, &s->updates[i]) != STANCE_OK)
            return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device '%s': %s failed", s->device->plugin->name, s->updates[i].op);
        if (i > 0) /* the check comes first */
            continue;
        if (s->comm != NULL && (status = share(s, err)) != STANCE_OK)
            return status;
        if ((status = stance_step_look_at_window(s, err)) != STANCE_OK)
            return status;
    }
    weights_changed(s);

    outcome.step      = s->windows++;
    outcome.overflow  = control->update.skip;
    outcome.grad_norm = sqrt(control->sum_squares);
    outcome.max_abs   = control->max_abs;
    stance_scaler_update(s->scaler, &outcome);
    if (!outcome.overflow)
        control->update.applied++;
    *result = (struct stance_step_result){ s->window.loss, s->clip_inf ? outcome.max_abs : outcome.grad_norm,
                                           s->window.scale, outcome.overflow != 0 };
    s->window.open = false;
    if (result->skipped)
        bad = segment_at(s->store, control->first_bad);
    if (result->skipped && s->diagnosed && stance_diagnosis_first(&s->diagnosis, found, sizeof found)) {
        snprintf(first, sizeof first, "%s, from %s", bad != NULL ? bad : "a tensor unknown", found);
        bad = first;
    }
    if (!outcome.overflow)
        stance_skips_loss(&s->skips, s->window.loss, outcome.step);
    return stance_skips_count(&s->skips, result->skipped, bad, result->scale, err);
}

stance_status stance_step_exchange_average(struct stance_step *s, struct stance_error *err)
{
    weights_changed(s);
    return stance_store_exchange_average(s->store, err);
}

stance_status stance_step_evaluate(struct stance_step *s, enum stance_step_program which, struct stance_error *err)
{
    stance_status status = pack(s, &s->programs[which], err);

    if (status != STANCE_OK)
        return status;
    if (stance_program_forward(s->programs[which].program) != STANCE_OK)
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device '%s': the forward pass failed", s->device->plugin->name);
    return STANCE_OK;
}

stance_status stance_step_read(struct stance_step *s, enum stance_step_program which, const char *name,
                               enum stance_type type, void *to, struct stance_error *err)
{
    const struct stance_tensor *from = stance_program_output(s->programs[which].program, name);
    struct stance_tensor        host;

    if (from == NULL)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "the model has no output '%s'", name);
    host = (struct stance_tensor){ to, type, type, 0, from->shape, (size_t)stance_elements(&from->shape) * stance_type_size(type) };
    return s->device->ops->reorder(s->device->state, &host, from, err);
}
