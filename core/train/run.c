/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/run_priv.h"

#include "eval/decode.h"
#include "plot/report.h"

#include <stance/log.h>
#include <stance/schedule.h>

#include <math.h>
#include <stdio.h>

#define STANCE_LOG_MODULE "train"

static bool asked_to_stop(const struct stance_run *r)
{
    return r->o->stop != NULL && *r->o->stop;
}

/* Several processes stop together, at the end of a window. */
static bool stopped(const struct stance_run *r)
{
    return r->comm != NULL ? r->stopping : asked_to_stop(r);
}

static double rate(const struct stance_run *r)
{
    struct stance_progress p = {
        .size = sizeof p, .base_rate = r->setup->optimizer.plugin->ops.optimizer->base_rate(r->setup->optimizer.config),
        .epoch = r->at.epoch, .epochs = r->t->epochs,
        .iteration = r->t->on_skip == STANCE_ON_SKIP_HOLD ? (int64_t)stance_step_applied(r->step) : r->at.iteration,
        .iterations_per_epoch = (r->batches + r->t->accumulate - 1) / r->t->accumulate,
    };

    return r->setup->schedule.plugin->ops.schedule->rate(r->setup->schedule.config, &p);
}

static stance_status fill(struct stance_run *r, enum stance_step_program which, const struct stance_batch *b, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (int i = 0; i < r->n_fields && status == STANCE_OK; i++)
        if (r->input[which][i] >= 0)
            status = stance_step_fill(r->step, which, r->input[which][i], STANCE_TYPE_F32, b->field[i], err);
    return status;
}

static double accuracy(struct stance_run *r, enum stance_step_program which, const struct stance_batch *b)
{
    const struct stance_pose *p = &r->setup->pose;

    if (r->heat == NULL || r->target < 0 || stance_step_read(r->step, which, "heatmap", STANCE_TYPE_F32, r->heat, NULL) != STANCE_OK)
        return NAN;
    return stance_pck(r->heat, b->field[r->target], r->target_weight >= 0 ? b->field[r->target_weight] : NULL, b->count,
                      p->keypoints, p->heatmap_size[1], p->heatmap_size[0], 0.05, NULL);
}

/* ---- one of several processes ------------------------------------------------------------------- */

/* Weight of this process' samples of a micro-batch in its window. */
static double weight_of(const struct stance_run *r, int64_t micro, int32_t count)
{
    double weight = stance_windows_weight(&r->windows, micro, r->at.micro);

    return r->comm == NULL ? weight : weight * (double)count / (double)stance_windows_samples(&r->windows, micro);
}

static bool last_of_window(const struct stance_run *r, int64_t micro, int64_t done)
{
    return micro + 1 == stance_windows_end(&r->windows, micro, done);
}

/* After a failure of this process alone: takes part in the rest of the window without a sample, so that the
 * others get to its end and learn of it there. A window that goes on into the next epoch has no such end:
 * then the others have to be ended. */
static stance_status leave_window(struct stance_run *r, struct stance_error *err)
{
    int64_t micro = r->at.epoch * r->batches + r->at.batch;
    stance_status status = STANCE_OK;
    struct stance_step_result w;

    r->failure = *err;
    if (stance_windows_end(&r->windows, micro, r->at.micro) > (r->at.epoch + 1) * r->batches)
        return err->status;
    for (bool last = false; !last && status == STANCE_OK; micro++, r->at.micro++) {
        last   = last_of_window(r, micro, r->at.micro);
        status = stance_step_idle(r->step, err);
    }
    if (status == STANCE_OK) {
        stance_step_share(r->step)[STANCE_SHARE_FAILED] = 1;
        status = stance_step_apply(r->step, 0, &w, err);
    }
    *err = r->failure;
    return status == STANCE_ERR_INTERRUPTED ? stance_comm_agree(r->comm, err->status, err) : err->status;
}

/* ---- the loop ------------------------------------------------------------------------------------ */

/* One micro-batch; at the end of its window, the update. */
static stance_status train_batch(struct stance_run *r, const struct stance_batch *b, double data_time, double start,
                                 struct stance_error *err)
{
    enum stance_step_program  which = b->count == r->t->batch_size ? STANCE_STEP_BATCH : STANCE_STEP_LAST;
    int64_t                   micro = r->at.epoch * r->batches + r->at.batch;
    double                    weight = weight_of(r, micro, b->count), lr;
    double                   *share  = stance_step_share(r->step);
    bool                      last   = last_of_window(r, micro, r->at.micro);
    struct stance_step_result w;
    stance_status             status = fill(r, which, b, err);

    if (r->at.micro == 0)
        stance_run_want_exponents(r);
    if (r->comm != NULL && last)
        stance_step_close_window(r->step);
    if (status == STANCE_OK)
        status = b->count > 0 ? stance_step_micro(r->step, which, weight, err) : stance_step_idle(r->step, err);
    if (status != STANCE_OK)
        return status;
    if (b->count > 0)
        share[STANCE_SHARE_ACC] += weight * accuracy(r, which, b);
    share[STANCE_SHARE_SAMPLES] += b->count;
    r->sum.data_time += data_time;
    r->at.batch++;
    r->at.micro++;
    stance_run_mark_bad(r);
    if (!last) {
        r->sum.time += stance_seconds() - start;
        return STANCE_OK;
    }
    lr = rate(r);
    if (r->comm != NULL)
        share[STANCE_SHARE_STOP] = asked_to_stop(r);
    status = stance_step_apply(r->step, lr, &w, err);
    stance_run_mark_bad(r);
    if (r->comm != NULL && share[STANCE_SHARE_FAILED] > 0)
        return stance_comm_agree(r->comm, STANCE_OK, err);
    if (status != STANCE_OK && status != STANCE_ERR_DIVERGED)
        return status;
    r->stopping = share[STANCE_SHARE_STOP] > 0;
    r->at.iteration++;
    r->at.micro = 0;
    r->mark     = r->at;
    r->sum.acc += share[STANCE_SHARE_ACC];
    r->sum.samples += (int64_t)share[STANCE_SHARE_SAMPLES];
    r->sum.time += stance_seconds() - start;
    r->sum.loss += w.loss;
    r->sum.n++;
    if (!w.skipped) {
        r->sum.grad_norm += w.grad_norm;
        r->sum.finite++;
    }
    stance_run_tell_findings(r, w.skipped, status == STANCE_OK);
    stance_run_report(r, lr, &w);
    return status == STANCE_ERR_DIVERGED ? stance_comm_common(r->comm, status) : status;
}

static bool finished(const struct stance_run *r)
{
    return r->at.epoch >= r->t->epochs || (r->t->max_steps != INT64_MIN && r->at.iteration >= r->t->max_steps);
}

static bool due(int64_t interval, int64_t count)
{
    return interval != INT64_MIN && count % interval == 0;
}

static stance_status train_epoch(struct stance_run *r, struct stance_error *err)
{
    const struct stance_recipe_checkpoint *c = &r->setup->recipe->checkpoint;

    stance_loader_begin(r->loader, r->at.epoch, r->at.batch);
    while (r->at.batch < r->batches && !finished(r) && !stopped(r)) {
        const struct stance_batch *b;
        double        start = stance_seconds(), loaded;
        int64_t       before = r->at.iteration;
        stance_status status;

        if (r->at.micro == 0 && stance_windows_dropped(&r->windows, r->at.epoch * r->batches + r->at.batch)) {
            r->at.batch = r->batches;
            break;
        }
        status = stance_loader_next(r->loader, &b, err);
        if (status != STANCE_OK)
            return r->comm != NULL ? leave_window(r, err) : status;
        if (b == NULL)
            return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "the loader ended an epoch early");
        loaded = stance_seconds();
        status = train_batch(r, b, loaded - start, start, err);
        if (status == STANCE_OK && r->at.iteration > before && due(c->steps, r->at.iteration))
            status = stance_run_save(r, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

static stance_status end_epoch(struct stance_run *r, struct stance_error *err)
{
    bool          last   = r->at.epoch + 1 == r->t->epochs;
    stance_status status = STANCE_OK;

    if (r->t->eval_interval != INT64_MIN && (last || due(r->t->eval_interval, r->at.epoch + 1)))
        status = stance_run_evaluate(r, err);
    r->at.epoch++;
    r->at.batch = 0;
    if (status == STANCE_OK && !last && due(r->setup->recipe->checkpoint.epochs, r->at.epoch))
        status = stance_run_save(r, err);
    return status;
}

static stance_status loop(struct stance_run *r, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    r->started    = stance_seconds();
    r->started_at = r->at.iteration;
    while (!finished(r) && !stopped(r) && status == STANCE_OK) {
        status = train_epoch(r, err);
        if (status == STANCE_OK && r->at.batch == r->batches && !stopped(r))
            status = end_epoch(r, err);
    }
    if (status == STANCE_ERR_INTERRUPTED && stopped(r) && r->comm == NULL)
        status = STANCE_OK; /* within an evaluation; told below, after the checkpoint */
    if (status == STANCE_OK && stance_run_unsaved(r))
        status = stance_run_save(r, err);
    if (status == STANCE_OK && stopped(r))
        status = stance_comm_common(r->comm, STANCE_FAIL(err, STANCE_ERR_INTERRUPTED, "stopped by a signal; checkpoint %s",
                                                         r->result->last));
    return status;
}

/* After the loggers have closed their files. A run is none the worse for lack of its page. */
static void write_page(const struct stance_run *r)
{
    struct stance_error err = STANCE_ERROR_INIT;

    if (r->writes && r->started > 0 && stance_report_of(r->folder.work, r->folder.start, &err) != STANCE_OK)
        STANCE_LOG(STANCE_LOG_WARN, "no report: %s", err.text);
}

stance_status stance_train(struct stance_setup *setup, const struct stance_train_options *o,
                           struct stance_train_result *result, struct stance_error *err)
{
    struct stance_run    r = { .setup = setup, .o = o, .t = &setup->recipe->train, .at = { .best = NAN }, .saved = { .epoch = -1 }, .mark = { .best = NAN },
                        .result = result, .comm = setup->comm, .writes = setup->place.writes };
    struct stance_event e;
    stance_status status;

    *result = (struct stance_train_result){ .best = NAN };
    stance_meter_init(&r.meter, stderr, o->quiet || !r.writes);
    if (r.writes)
        stance_log_set_sink(stance_meter_log, &r.meter);
    status = stance_comm_agree(r.comm, stance_run_prepare(&r, err), err);
    if (status == STANCE_OK)
        status = stance_run_first_weights(&r, err);
    if (status == STANCE_OK) {
        e = stance_run_event(&r, STANCE_EVENT_START, NULL, 0);
        stance_run_tell(&r, &e);
        status = loop(&r, err);
        e = stance_run_event(&r, STANCE_EVENT_END, NULL, 0);
        stance_run_tell(&r, &e);
        result->skipped = stance_step_skips(r.step)->total;
    }
    stance_meter_close_line(&r.meter);
    if (r.writes)
        stance_log_set_sink(NULL, NULL);
    result->epochs     = r.at.epoch;
    result->iterations = r.at.iteration;
    result->best       = r.at.best;
    snprintf(result->folder, sizeof result->folder, "%s", r.folder.work);
    for (int i = 0; i < r.n_loggers; i++) {
        if (STANCE_HAS(r.loggers[i].ops, close))
            r.loggers[i].ops->close(r.loggers[i].state);
        stance_free(r.loggers[i].state);
    }
    stance_look_log_close(&r.look);
    write_page(&r);
    stance_evaluation_free(r.evaluation);
    stance_loader_free(r.loader);
    stance_step_free(r.step);
    stance_free(r.heat);
    return status;
}
