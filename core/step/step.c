/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/step.h"

#include <stance/log.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STANCE_LOG_MODULE "step"

/* Skips in a row after which somebody should be told where they come from. */
enum { INPUTS_MAX = 8, UPDATES_MAX = 8, SKIPS_TOLD = 3 };

struct bound {
    struct stance_program      *program;
    const struct stance_tensor *input[INPUTS_MAX], *loss;
    int                         n_inputs;
    bool                        packed; /* its copies of the weights are up to date */
};

/* For the kernels of batch norms, which know nothing of processes. */
struct sync { struct stance_sync sync; struct stance_comm *comm; struct stance_error error; };

struct stance_step {
    const struct stance_device *device;
    struct stance_store        *store;
    struct stance_scaler       *scaler;
    struct bound                programs[STANCE_STEP_PROGRAMS];
    struct stance_arena        *memory;
    struct stance_launch        updates[UPDATES_MAX]; /* check, clipping by value, optimizer, commits, averages */
    int                         n_updates;
    struct stance_ema           average;
    bool                        accumulate, clip_inf;
    struct stance_window        window;
    struct stance_skips         skips;
    uint64_t                    windows; /* so far, skipped ones too */

    bool                             debug_overflow, diagnosed, want_exponents, have_exponents;
    int64_t                          micro; /* micro-batches of this window that this step has seen */
    struct stance_program           *newest; /* of the last of them; NULL: there was none yet */
    struct stance_diagnosis          diagnosis;
    struct stance_gradient_exponents exponents;

    struct stance_comm         *comm;    /* NULL: one process */
    struct stance_reducer      *reduce;
    struct sync                 sync;
    bool                        sync_bn, closing; /* the micro-batch at hand is the window's last */
    double                      share[STANCE_SHARES];
};

/* Arrays that the optimizer keeps with this config. */
static int slots_of(const struct stance_instance *optimizer)
{
    const struct stance_optimizer_ops *ops = optimizer->plugin->ops.optimizer;

    return STANCE_HAS(ops, slots_used) ? ops->slots_used(optimizer->config) : ops->slots;
}

static stance_status sum_over_processes(const struct stance_sync *sync, double *v, size_t n)
{
    struct sync *s = (struct sync *)sync;

    return s->comm->ops->all_reduce(s->comm->state, v, n, STANCE_TYPE_F64, STANCE_COMM_SUM, &s->error);
}

static struct stance_tensor flat(void *data, enum stance_type type, size_t bytes)
{
    struct stance_tensor t = { data, type, type, 0, { 1, { (int64_t)(bytes / stance_type_size(type)) } }, bytes };

    return t;
}

static stance_status add_update(struct stance_step *s, const char *name, const struct stance_op_ops *op,
                                const void *attr, const struct stance_tensor *in, int n_in,
                                const struct stance_tensor *out, int n_out, struct stance_error *err)
{
    stance_status status = stance_launch_make(s->device, s->memory, name, op, attr, in, n_in, out, n_out, true,
                                              &s->updates[s->n_updates], err);

    if (status != STANCE_OK)
        return status;
    if (s->updates[s->n_updates].workspace > 0) {
        status = stance_store_take_arena(s->store, s->updates[s->n_updates].workspace, err);
        if (status != STANCE_OK)
            return status;
    }
    s->n_updates++;
    return STANCE_OK;
}

/* Averages of the masters and of the committed statistics, after both are final. */
static stance_status add_averages(struct stance_step *s, struct stance_error *err)
{
    struct stance_store *store  = s->store;
    enum stance_type     wide   = store->policy.wide;
    struct stance_tensor update = flat(&store->control->update, STANCE_TYPE_U8, sizeof store->control->update), in[3];
    stance_status        status = STANCE_OK;

    for (int b = 0; b < STANCE_BANK_COUNT && status == STANCE_OK; b++) {
        if (store->average[b] == NULL)
            continue;
        in[0]  = flat(store->average[b], wide, store->bytes[b]);
        in[1]  = update;
        in[2]  = flat(store->committed[b] != NULL ? store->committed[b] : store->bank[b], wide, store->bytes[b]);
        status = add_update(s, "ema", stance_builtin_op("ema"), &s->average, in, 3, in, 1, err);
    }
    return status;
}

/* What happens once a window, over whole banks: they are flat, and the update is element-wise, so the
 * order of elements within a segment does not matter. */
static stance_status make_updates(struct stance_step *s, const struct stance_instance *optimizer, struct stance_error *err)
{
    const struct stance_optimizer_ops *ops     = optimizer->plugin->ops.optimizer;
    struct stance_store               *store   = s->store;
    enum stance_type                   wide    = store->policy.wide;
    size_t                             bytes   = store->bytes[STANCE_BANK_PARAM];
    struct stance_tensor               control = flat(store->control, STANCE_TYPE_U8, sizeof *store->control);
    struct stance_tensor               update  = flat(&store->control->update, STANCE_TYPE_U8, sizeof store->control->update);
    struct stance_tensor               grad    = flat(store->gradient, wide, bytes);
    struct stance_tensor               in[3 + STANCE_SLOTS_MAX], out[2];
    char                               rule[160];
    const char                        *name;
    stance_status                      status;

    status = add_update(s, "grad_check", stance_builtin_op("grad_check"), NULL, &grad, 1, &control, 1, err);
    if (status == STANCE_OK && store->control->clip_value > 0) {
        in[0]  = grad;
        in[1]  = control;
        status = add_update(s, "clip_value", stance_builtin_op("clip_value"), NULL, in, 2, in, 1, err);
    }
    if (status != STANCE_OK)
        return status;
    in[0] = grad;
    in[1] = update;
    in[2] = flat(store->bank[STANCE_BANK_PARAM], wide, bytes);
    for (int i = 0; i < store->n_slots; i++)
        in[3 + i] = flat(store->slot[i], wide, bytes);
    /* Not its bare name: that may be one of an op which the device has. */
    snprintf(rule, sizeof rule, "optimizer_%s", optimizer->plugin->name);
    name = stance_arena_strdup(s->memory, rule);
    if (name == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", rule);
    status = add_update(s, name, ops->update, optimizer->config, in, 3 + store->n_slots, in + 2,
                        1 + store->n_slots, err);
    for (int b = STANCE_BANK_STATE; b <= STANCE_BANK_COUNTER && status == STANCE_OK; b++) {
        enum stance_type type = b == STANCE_BANK_STATE ? wide : STANCE_TYPE_I64;

        if (store->bytes[b] == 0)
            continue;
        out[0] = in[0] = flat(store->bank[b], type, store->bytes[b]);
        in[1]          = update;
        out[1] = in[2] = flat(store->committed[b], type, store->bytes[b]);
        status = add_update(s, "commit", stance_builtin_op("commit"), NULL, in, 3, out, 2, err);
    }
    return status == STANCE_OK ? add_averages(s, err) : status;
}

static stance_status add_program(struct stance_step *s, const struct stance_step_options *o,
                                 enum stance_step_program which, int32_t batch, struct stance_error *err)
{
    bool                          training = which == STANCE_STEP_BATCH || which == STANCE_STEP_LAST;
    struct stance_program_options po = { .accumulate = o->accumulate, .no_fusion = o->no_fusion, .rebuild = o->rebuild,
                                         .slots = o->optimizer != NULL ? slots_of(o->optimizer) : -1,
                                         .sync  = training && s->sync_bn ? &s->sync.sync : NULL };
    struct bound                 *b = &s->programs[which];
    struct stance_graph          *g;
    stance_status                 status;

    if (batch == 0)
        return STANCE_OK;
    status = stance_model_graph(o->model, batch, training, &g, err);
    if (status == STANCE_OK)
        status = stance_program_new(g, s->store, &po, &b->program, err);
    for (int i = 0; status == STANCE_OK && stance_program_input_name(b->program, (size_t)i) != NULL; i++) {
        if (i == INPUTS_MAX)
            return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "the model has more than %d inputs", INPUTS_MAX);
        b->input[b->n_inputs++] = stance_program_input(b->program, stance_program_input_name(b->program, (size_t)i));
    }
    return status;
}

static stance_status make_reduce(struct stance_step *s, size_t bucket, struct stance_error *err)
{
    stance_status status;

    if (!s->comm->ops->host_memory
        && (s->comm->ops->device_name == NULL || strcmp(s->comm->ops->device_name, s->device->plugin->name) != 0))
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "comm '%s' reduces gradients of device '%s', not of '%s'",
                           s->comm->plugin->name, s->comm->ops->device_name != NULL ? s->comm->ops->device_name : "?",
                           s->device->plugin->name);
    if (s->comm->ops->host_memory && !s->device->ops->host_memory)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "comm '%s' cannot reach the memory of device '%s'",
                           s->comm->plugin->name, s->device->plugin->name);
    status = stance_reducer_new(s->comm, s->store, bucket, &s->reduce, err);
    for (int i = STANCE_STEP_BATCH; i <= STANCE_STEP_LAST && status == STANCE_OK; i++)
        if (s->programs[i].program != NULL)
            status = stance_reducer_watch(s->reduce, i, s->programs[i].program, err);
    return status;
}

stance_status stance_step_new(const struct stance_step_options *o, struct stance_step **out, struct stance_error *err)
{
    struct stance_step *s = stance_calloc(1, sizeof *s);
    const int32_t       batch[STANCE_STEP_PROGRAMS] = {
        o->optimizer != NULL ? o->batch : 0, o->optimizer != NULL && o->last_batch != o->batch ? o->last_batch : 0,
        o->eval_batch, o->eval_last_batch != o->eval_batch ? o->eval_last_batch : 0,
    };
    stance_status status;

    if (s == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "step");
    s->device      = o->device;
    s->scaler      = o->scaler;
    s->accumulate  = o->accumulate;
    s->debug_overflow = o->debug_overflow;
    s->skips.limit = o->max_skips;
    s->comm        = o->comm;
    s->sync        = (struct sync){ { sum_over_processes }, o->comm, STANCE_ERROR_INIT };
    s->sync_bn     = o->comm != NULL && o->sync_bn;
    s->memory      = stance_arena_new(16 << 10);
    if (s->memory == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "step");
        goto free_step;
    }
    status = stance_store_new(o->device, o->policy, &s->store, err);
    if (status == STANCE_OK && o->average != NULL && o->optimizer != NULL) {
        s->average                = *o->average;
        s->store->averages        = true;
        s->store->averages_states = o->average_states;
    }
    for (int i = 0; i < STANCE_STEP_PROGRAMS && status == STANCE_OK; i++)
        status = add_program(s, o, (enum stance_step_program)i, batch[i], err);
    if (status == STANCE_OK && o->optimizer != NULL && s->store->bytes[STANCE_BANK_PARAM] == 0)
        status = STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "the loss depends on no weight that is trained");
    if (status == STANCE_OK && o->optimizer != NULL) {
        s->store->control->clip       = o->clip;
        s->store->control->clip_inf   = s->clip_inf = o->clip_inf;
        s->store->control->clip_value = o->clip_value;
        s->store->control->update.seed = o->seed;
        status = make_updates(s, o->optimizer, err);
        if (status == STANCE_OK && s->comm != NULL)
            status = make_reduce(s, o->bucket, err);
    }
    for (int i = 0; i < STANCE_STEP_PROGRAMS && status == STANCE_OK; i++) {
        if (s->programs[i].program == NULL)
            continue;
        status = stance_program_bind(s->programs[i].program, err);
        s->programs[i].loss = stance_program_output(s->programs[i].program, "loss");
    }
    for (int i = 0; i < s->n_updates; i++)
        s->updates[i].call.workspace = s->updates[i].workspace > 0 ? s->store->arena : NULL;
    if (status == STANCE_OK) {
        *out = s;
        return STANCE_OK;
    }

free_step:
    stance_step_free(s);
    return status;
}

void stance_step_free(struct stance_step *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < s->n_updates; i++)
        stance_launch_dispose(s->device, &s->updates[i]);
    for (int i = 0; i < STANCE_STEP_PROGRAMS; i++)
        stance_program_free(s->programs[i].program);
    stance_reducer_free(s->reduce);
    stance_store_free(s->store);
    stance_arena_free(s->memory);
    stance_free(s);
}

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

static stance_status pack(struct stance_step *s, struct bound *b, struct stance_error *err)
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
    const struct bound *b = &s->programs[which];
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

/* ---- looking into a window -------------------------------------------------------------------------- */

const struct stance_diagnosis *stance_step_diagnosis(const struct stance_step *s)
{
    return s->diagnosed ? &s->diagnosis : NULL;
}

void stance_step_want_exponents(struct stance_step *s)
{
    s->want_exponents = s->want_exponents || !s->window.open;
}

const struct stance_gradient_exponents *stance_step_exponents(const struct stance_step *s)
{
    return s->have_exponents ? &s->exponents : NULL;
}

static void begin_looking(struct stance_step *s)
{
    s->diagnosed = s->have_exponents = false;
    s->micro     = 0;
}

static bool wants_diagnosis(const struct stance_step *s)
{
    int64_t row = s->skips.in_a_row + 1;

    return !s->diagnosed && (s->debug_overflow || row == SKIPS_TOLD || (s->skips.limit > 0 && row >= s->skips.limit));
}

/* Runs the newest micro-batch again. What cannot be looked at ends the looking, not the run. Statistics of
 * several processes cannot: the others do not look at the same time. */
static stance_status look(struct stance_step *s, bool overflow, struct stance_error *err)
{
    struct stance_error why    = STANCE_ERROR_INIT;
    stance_status       status = STANCE_OK;

    if (s->newest == NULL || s->micro == 0 || s->sync_bn || !(overflow || s->want_exponents))
        return STANCE_OK;
    s->exponents = (struct stance_gradient_exponents){ .scale = s->window.scale };
    status = stance_diagnose(s->store, s->newest, s->accumulate, overflow ? &s->diagnosis : NULL,
                             s->want_exponents ? &s->exponents.activation : NULL, s->window.scale, &why);
    if (status == STANCE_ERR_DEVICE) {
        if (err != NULL)
            *err = why;
        return status;
    }
    if (status != STANCE_OK) {
        STANCE_LOG(STANCE_LOG_WARN, "looking into a micro-batch: %s", why.text);
        s->want_exponents = false;
    } else if (overflow) {
        s->diagnosed       = true;
        s->diagnosis.micro = s->micro - 1;
    }
    return STANCE_OK;
}

/* After a micro-batch that others will be added to: whether it is the one. The first update is the check; it
 * changes the control block alone. */
static stance_status look_at_micro(struct stance_step *s, struct stance_error *err)
{
    struct stance_control *control = s->store->control, before = *control;
    bool                   overflow;

    if (!s->accumulate || s->n_updates == 0 || !wants_diagnosis(s))
        return STANCE_OK;
    if (stance_launch_run(s->device, &s->updates[0]) != STANCE_OK)
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device '%s': %s failed", s->device->plugin->name, s->updates[0].op);
    if (STANCE_HAS(s->device->ops, wait) && s->device->ops->wait(s->device->state, err) != STANCE_OK)
        return STANCE_ERR_DEVICE;
    overflow = control->update.skip;
    *control = before;
    return overflow ? look(s, true, err) : STANCE_OK;
}

/* At the end of a window, between the check and the update. */
static stance_status look_at_window(struct stance_step *s, struct stance_error *err)
{
    struct stance_error why    = STANCE_ERROR_INIT;
    stance_status       status = look(s, s->store->control->update.skip && wants_diagnosis(s), err);

    if (status != STANCE_OK || !s->want_exponents)
        return status;
    s->want_exponents = false;
    s->have_exponents = stance_diagnose_weights(s->store, s->window.scale, &s->exponents.weight, &why) == STANCE_OK;
    if (!s->have_exponents)
        STANCE_LOG(STANCE_LOG_WARN, "looking at the gradients of the weights: %s", why.text);
    return STANCE_OK;
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
    begin_looking(s);
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
    struct bound          *b       = &s->programs[which];
    struct stance_control *control = s->store->control;
    double                 loss    = 0;
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
    return look_at_micro(s, err);
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
        if ((status = look_at_window(s, err)) != STANCE_OK)
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
