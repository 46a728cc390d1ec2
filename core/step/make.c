/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/step_priv.h"

#include <stdio.h>
#include <string.h>

/* Arrays that the optimizer keeps with this config. */
static int slots_of(const struct stance_instance *optimizer)
{
    const struct stance_optimizer_ops *ops = optimizer->plugin->ops.optimizer;

    return STANCE_HAS(ops, slots_used) ? ops->slots_used(optimizer->config) : ops->slots;
}

static stance_status sum_over_processes(const struct stance_sync *sync, double *v, size_t n)
{
    struct stance_step_sync *s = (struct stance_step_sync *)sync;

    return s->comm->ops->all_reduce(s->comm->state, v, n, STANCE_TYPE_F64, STANCE_COMM_SUM, &s->error);
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
    struct stance_tensor update = stance_tensor_flat(&store->control->update, STANCE_TYPE_U8, sizeof store->control->update), in[3];
    stance_status        status = STANCE_OK;

    for (int b = 0; b < STANCE_BANK_COUNT && status == STANCE_OK; b++) {
        if (store->average[b] == NULL)
            continue;
        in[0]  = stance_tensor_flat(store->average[b], wide, store->bytes[b]);
        in[1]  = update;
        in[2]  = stance_tensor_flat(store->committed[b] != NULL ? store->committed[b] : store->bank[b], wide, store->bytes[b]);
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
    struct stance_tensor               control = stance_tensor_flat(store->control, STANCE_TYPE_U8, sizeof *store->control);
    struct stance_tensor               update  = stance_tensor_flat(&store->control->update, STANCE_TYPE_U8, sizeof store->control->update);
    struct stance_tensor               grad    = stance_tensor_flat(store->gradient, wide, bytes);
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
    in[2] = stance_tensor_flat(store->bank[STANCE_BANK_PARAM], wide, bytes);
    for (int i = 0; i < store->n_slots; i++)
        in[3 + i] = stance_tensor_flat(store->slot[i], wide, bytes);
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
        out[0] = in[0] = stance_tensor_flat(store->bank[b], type, store->bytes[b]);
        in[1]          = update;
        out[1] = in[2] = stance_tensor_flat(store->committed[b], type, store->bytes[b]);
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
    struct stance_bound                 *b = &s->programs[which];
    struct stance_graph          *g;
    stance_status                 status;

    if (batch == 0)
        return STANCE_OK;
    status = stance_model_graph(o->model, batch, training, &g, err);
    if (status == STANCE_OK)
        status = stance_program_new(g, s->store, &po, &b->program, err);
    for (int i = 0; status == STANCE_OK && stance_program_input_name(b->program, (size_t)i) != NULL; i++) {
        if (i == STANCE_STEP_INPUTS_MAX)
            return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "the model has more than %d inputs", STANCE_STEP_INPUTS_MAX);
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
    s->sync        = (struct stance_step_sync){ { sum_over_processes }, o->comm, STANCE_ERROR_INIT };
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
