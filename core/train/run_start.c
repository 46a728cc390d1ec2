/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/run_priv.h"

#include "train/schedule.h"
#include "train/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static stance_status make_step(struct stance_run *r, struct stance_error *err)
{
    const struct stance_setup *s = r->setup;
    bool                       evaluates = r->t->eval_interval != INT64_MIN;
    struct stance_step_options o = {
        .model = &s->model, .device = s->device, .policy = s->policy, .optimizer = &s->optimizer, .scaler = s->scaler,
        .batch = (int32_t)r->t->batch_size, .last_batch = stance_loader_count(r->loader, r->batches - 1),
        .eval_batch = evaluates ? (int32_t)s->recipe->test.batch_size : 0,
        .eval_last_batch = evaluates ? stance_evaluation_last_batch(s) : 0,
        .rebuild = stance_setup_rebuild(s), .accumulate = r->t->accumulate > 1,
        .max_skips = r->t->max_consecutive_skips == INT64_MIN ? stance_scaler_skip_limit(s->scaler)
                                                              : r->t->max_consecutive_skips,
        .debug_overflow = stance_run_debugs(r),
        .comm = r->comm, .bucket = (size_t)(s->recipe->comm.bucket * 1048576), .sync_bn = s->recipe->comm.sync_bn,
    };

    stance_setup_window(s, &o);
    return stance_step_new(&o, &r->step, err);
}

static stance_status find_inputs(struct stance_run *r, struct stance_error *err)
{
    int                        n;
    const struct stance_field *f = r->setup->task->fields(r->setup->task_state, &n);
    const struct stance_pose  *p = &r->setup->pose;

    if (n > STANCE_RUN_FIELDS_MAX)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "the task has more than %d fields", STANCE_RUN_FIELDS_MAX);
    r->n_fields = n;
    r->target = r->target_weight = -1;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++)
            r->input[k][i] = stance_step_input(r->step, (enum stance_step_program)k, f[i].name);
        if (strcmp(f[i].name, "target") == 0)
            r->target = i;
        if (strcmp(f[i].name, "target_weight") == 0)
            r->target_weight = i;
    }
    if (stance_program_output(stance_step_program(r->step, STANCE_STEP_BATCH), "heatmap") != NULL) {
        r->heat = stance_calloc((size_t)r->t->batch_size * (size_t)p->keypoints * (size_t)p->heatmap_size[0]
                                    * (size_t)p->heatmap_size[1], sizeof *r->heat);
        if (r->heat == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "heatmaps");
    }
    return STANCE_OK;
}

/* A place that the epochs and windows of this recipe do not have would never be left. */
static stance_status check_position(const struct stance_run *r, const char *path, struct stance_error *err)
{
    if (r->at.batch > r->batches)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: stopped at batch %" PRId64 " of an epoch, which has %" PRId64 " here: other data or batch_size",
                           path, r->at.batch, r->batches);
    if (r->at.micro > 0 && r->at.micro >= r->t->accumulate)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: stopped within a step of more than %" PRId64 " batches, train.accumulate is %" PRId64, path,
                           r->at.micro, r->t->accumulate);
    return STANCE_OK;
}

/* The weights are there: copies and averages start from them. */
static stance_status begin(struct stance_run *r, struct stance_error *err)
{
    stance_status status = stance_store_begin_average(stance_step_store(r->step), err);

    return status == STANCE_OK ? stance_step_refresh(r->step, err) : status;
}

/* The checkpoint to go on from; NULL: there is none, which is told. */
static stance_status find_checkpoint(struct stance_run *r, char **found, struct stance_error *err)
{
    char          text[4300];
    stance_status status = STANCE_OK;

    *found = NULL;
    if (!r->o->resume)
        return STANCE_OK;
    if (r->o->resume_from != NULL) {
        *found = stance_strdup(r->o->resume_from);
        return *found != NULL ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", r->o->resume_from);
    }
    if (r->writes)
        status = stance_checkpoint_newest(r->folder.work, found, err);
    status = stance_comm_agree(r->comm, status, err);
    if (status == STANCE_OK && r->comm != NULL)
        status = stance_ranks_path(r->comm, found, err);
    if (status == STANCE_OK && *found == NULL) {
        snprintf(text, sizeof text, "no checkpoint in %.4000s: starting from the beginning", r->folder.work);
        stance_run_message(r, text);
    }
    return status;
}

/* Fresh weights, the backbone's published ones over them, or what --load names. Of several processes rank 0
 * reads the files. */
static stance_status fresh_weights(struct stance_run *r, struct stance_error *err)
{
    struct stance_store *store      = stance_step_store(r->step);
    const char          *pretrained = r->setup->recipe->pretrained;
    stance_status        status     = stance_store_initialise(store, (uint64_t)r->t->seed, err);

    if (status == STANCE_OK && r->writes && r->o->load != NULL)
        status = stance_weights_load(store, r->o->load, NULL, err);
    else if (status == STANCE_OK && r->writes && pretrained != NULL)
        status = stance_weights_load(store, pretrained, "backbone.", err);
    return status == STANCE_OK ? begin(r, err) : status;
}

static stance_status resume(struct stance_run *r, const char *path, struct stance_error *err)
{
    char          text[4300];
    stance_status status = stance_store_initialise(stance_step_store(r->step), (uint64_t)r->t->seed, err);

    if (status == STANCE_OK)
        status = begin(r, err);
    if (status == STANCE_OK)
        status = stance_checkpoint_read(path, r->step, r->setup, &r->at, err);
    if (status == STANCE_OK)
        status = check_position(r, path, err);
    if (status == STANCE_OK && r->comm != NULL && r->at.micro > 0)
        status = STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "%s: was written within a step by one process: only one can go on from it",
                             path);
    if (status != STANCE_OK)
        return status;
    snprintf(text, sizeof text, "resumed from %.4000s at step %" PRId64, path, r->at.iteration);
    stance_run_message(r, text);
    r->saved = r->mark = r->at;
    snprintf(r->result->last, sizeof r->result->last, "%.4095s", path);
    return STANCE_OK;
}

stance_status stance_run_first_weights(struct stance_run *r, struct stance_error *err)
{
    char         *path   = NULL;
    stance_status status = find_checkpoint(r, &path, err);

    if (status != STANCE_OK)
        return status;
    status = stance_comm_agree(r->comm, path != NULL ? resume(r, path, err) : fresh_weights(r, err), err);
    if (status == STANCE_OK && r->comm != NULL && path == NULL)
        status = stance_ranks_weights(r->comm, r->step, err);
    if (status == STANCE_OK && r->comm != NULL && path == NULL)
        status = stance_comm_agree(r->comm, begin(r, err), err);
    if (status == STANCE_OK && r->comm != NULL)
        status = stance_ranks_compare(r->comm, r->step, r->setup, &r->at, err);
    stance_free(path);
    return status;
}

/* A setting that this run is too short for. */
static void warn_of_schedule(struct stance_run *r)
{
    char text[300];

    if (stance_schedule_warning(r->setup->schedule.plugin, r->setup->schedule.config, r->steps, text, sizeof text))
        stance_run_message(r, text);
}

/* Alone: what this process needs. */
stance_status stance_run_prepare(struct stance_run *r, struct stance_error *err)
{
    struct stance_setup         *s = r->setup;
    struct stance_loader_options o = {
        .task = s->task, .task_state = s->task_state, .dataset = s->train.ops, .dataset_state = s->train.state,
        .batch_size = (int32_t)r->t->batch_size, .workers = (int32_t)r->t->workers, .seed = (uint64_t)r->t->seed,
        .training = true, .cache_bytes = STANCE_RUN_CACHE_BYTES, .rank = stance_comm_rank(r->comm), .world = s->place.world,
    };
    stance_status status = stance_loader_new(&o, &r->loader, err);

    if (status != STANCE_OK)
        return status;
    r->batches = stance_loader_batches(r->loader);
    r->windows = (struct stance_windows){
        .accumulate = r->t->accumulate, .batches = r->batches, .end = r->t->epochs * r->batches,
        .batch_size = r->t->batch_size * s->place.world, .samples = s->train.ops->count(s->train.state),
        .flush = r->t->accumulate_flush, .drop = r->t->accumulate_drop,
    };
    r->steps = stance_windows_count(&r->windows);
    if (r->steps == 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "train.accumulate_drop: no window of %" PRId64 " batches is full: an "
                           "epoch has %" PRId64, r->t->accumulate, r->batches);
    if (r->t->max_steps != INT64_MIN && r->t->max_steps < r->steps)
        r->steps = r->t->max_steps;
    status = make_step(r, err);
    if (status == STANCE_OK)
        status = find_inputs(r, err);
    if (status == STANCE_OK && r->t->eval_interval != INT64_MIN)
        status = stance_evaluation_new(s, r->step, (int)r->t->workers, STANCE_RUN_CACHE_BYTES, &r->evaluation, err);
    if (status == STANCE_OK && r->writes)
        status = stance_folder_make(s, r->o->work_dir, &r->folder, err);
    if (status == STANCE_OK && r->writes)
        status = stance_run_open_loggers(r, err);
    if (status == STANCE_OK && r->writes)
        stance_look_log_open(&r->look, r->folder.start);
    if (status == STANCE_OK)
        warn_of_schedule(r);
    return status;
}
