/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/run.h"

#include "data/loader.h"
#include "eval/decode.h"
#include "plot/report.h"
#include "step/window.h"
#include "train/best.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/folder.h"
#include "train/look_log.h"
#include "train/progress.h"
#include "train/ranks.h"
#include "train/schedule.h"
#include "train/weights.h"

#include <stance/log.h>
#include <stance/logger.h>
#include <stance/schedule.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STANCE_LOG_MODULE "train"

enum { FIELDS_MAX = 8, LOGGERS_MAX = 8, CACHE_BYTES = 1 << 30 };

struct logger { const struct stance_logger_ops *ops; void *state; };

/* Sums since the last log line. */
struct interval { double loss, acc, time, data_time, grad_norm; int64_t n, skipped, samples, finite; };

struct run {
    struct stance_setup               *setup;
    const struct stance_train_options *o;
    const struct stance_recipe_train  *t;
    struct stance_step                *step;
    struct stance_loader              *loader;
    struct stance_evaluation          *evaluation;
    struct stance_folder               folder;
    struct logger                      loggers[LOGGERS_MAX];
    int                                n_loggers;
    struct stance_meter                meter;
    struct stance_position             at, saved; /* saved: of the newest checkpoint; epoch -1: none */
    int                                input[2][FIELDS_MAX]; /* number of each field's input, per training program */
    int                                n_fields, target, target_weight; /* numbers of fields */
    float                             *heat; /* [batch,K,h,w], for acc_pose */
    struct stance_windows              windows;
    int64_t                            batches; /* of an epoch */
    int64_t                            steps; /* in all, for the ETA */
    struct interval                    sum;
    struct stance_look_log             look; /* what diagnosis finds */
    int64_t                            bad_micro; /* of the window at hand, from 1; 0: none is known */
    bool                               exponents_due;
    bool                               writes; /* files and the terminal: of several processes rank 0 */
    struct stance_comm                *comm; /* NULL: one process. What follows is for several only: */
    struct stance_position             mark; /* the end of the last window: what checkpoints hold */
    bool                               stopping; /* all have agreed to */
    struct stance_error                failure;  /* of this process, until the others know */
    double                             started;
    int64_t                            started_at; /* windows done before this start */
    struct stance_train_result        *result;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool asked_to_stop(const struct run *r)
{
    return r->o->stop != NULL && *r->o->stop;
}

/* Several processes stop together, at the end of a window. */
static bool stopped(const struct run *r)
{
    return r->comm != NULL ? r->stopping : asked_to_stop(r);
}

static double rate(const struct run *r)
{
    struct stance_progress p = {
        .size = sizeof p, .base_rate = r->setup->optimizer.plugin->ops.optimizer->base_rate(r->setup->optimizer.config),
        .epoch = r->at.epoch, .epochs = r->t->epochs,
        .iteration = r->t->on_skip == STANCE_ON_SKIP_HOLD ? (int64_t)stance_step_applied(r->step) : r->at.iteration,
        .iterations_per_epoch = (r->batches + r->t->accumulate - 1) / r->t->accumulate,
    };

    return r->setup->schedule.plugin->ops.schedule->rate(r->setup->schedule.config, &p);
}

/* ---- events ----------------------------------------------------------------------------------- */

static void tell(struct run *r, const struct stance_event *e)
{
    for (int i = 0; i < r->n_loggers; i++)
        r->loggers[i].ops->event(r->loggers[i].state, e);
}

static struct stance_event event(const struct run *r, enum stance_event_kind kind, const struct stance_scalar *s, int n)
{
    double  spent = now() - r->started;
    int64_t done  = r->at.iteration - r->started_at;

    return (struct stance_event){
        .size = sizeof(struct stance_event), .kind = kind, .epoch = r->at.epoch + 1, .epochs = r->t->epochs,
        .iteration = r->at.batch, .iterations = r->batches, .step = r->at.iteration,
        .eta = done > 0 ? spent / (double)done * (double)(r->steps - r->at.iteration) : -1,
        .scalars = s, .n_scalars = n,
    };
}

/* For the logs. */
static void log_message(struct run *r, const char *text)
{
    struct stance_event e = event(r, STANCE_EVENT_MESSAGE, NULL, 0);

    e.text = text;
    tell(r, &e);
}

/* For the logs and the terminal. */
static void message(struct run *r, const char *text)
{
    log_message(r, text);
    stance_meter_say(&r->meter, text);
}

/* After a window: the terminal sees every one, the log one in log_interval and the last of an epoch. */
static void report(struct run *r, double lr, const struct stance_step_result *w)
{
    const struct interval *s = &r->sum;
    double                 n = (double)s->n;
    struct stance_scalar   scalars[] = {
        { "lr", lr }, { "data_time", s->data_time / n }, { "loss", s->loss / n }, { "acc_pose", s->acc / n },
        { "grad_norm", s->finite > 0 ? s->grad_norm / (double)s->finite : NAN }, { "time", s->time / n },
        { "loss_scale", (double)w->scale }, { "skipped", (double)stance_step_skips(r->step)->total },
        { "throughput", (double)s->samples / s->time },
    };
    struct stance_event e = event(r, STANCE_EVENT_TRAIN, scalars, sizeof scalars / sizeof *scalars);

    stance_meter_step(&r->meter, &e, now());
    if (r->at.iteration % r->t->log_interval != 0 && r->at.batch != r->batches)
        return;
    tell(r, &e);
    r->sum = (struct interval){ 0 };
}

static stance_status open_loggers(struct run *r, struct stance_error *err)
{
    const struct stance_recipe *recipe = r->setup->recipe;

    if (recipe->n_loggers > LOGGERS_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "train.loggers: more than %d", LOGGERS_MAX);
    for (size_t i = 0; i < recipe->n_loggers; i++) {
        const struct stance_logger_ops *ops   = recipe->logger[i].plugin->ops.logger;
        void                           *state = stance_calloc(1, ops->state_size + 1);
        stance_status                   status;

        if (state == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "logger '%s'", recipe->logger[i].name);
        status = ops->open(state, recipe->logger[i].config, r->folder.start, err);
        if (status != STANCE_OK) {
            stance_free(state);
            return status;
        }
        r->loggers[r->n_loggers++] = (struct logger){ ops, state };
    }
    return STANCE_OK;
}

/* ---- checkpoints and evaluation ---------------------------------------------------------------- */

/* What a checkpoint holds. With several processes and an open window, of whose gradients each has its own
 * part, that is the end of the window before: masters, moments, states and scaler have not changed since. */
static struct stance_position kept(const struct run *r)
{
    struct stance_position p = r->comm != NULL && r->at.micro > 0 ? r->mark : r->at;

    p.best = r->at.best;
    return p;
}

static stance_status write_checkpoint(struct run *r, const char *path, struct stance_error *err)
{
    const struct stance_window   window = stance_step_window(r->step);
    const struct stance_position at     = kept(r);
    stance_status                status;

    if (r->comm != NULL)
        stance_step_set_window(r->step, &(struct stance_window){ 0 });
    status = stance_checkpoint_write(path, r->step, r->setup, &at, err);
    if (r->comm != NULL)
        stance_step_set_window(r->step, &window);
    return status;
}

static stance_status save(struct run *r, struct stance_error *err)
{
    char          path[4400];
    stance_status status = STANCE_OK;

    snprintf(path, sizeof path, "%s/step_%" PRId64 ".safetensors", r->folder.work, r->at.iteration);
    if (r->writes)
        status = write_checkpoint(r, path, err);
    if (status == STANCE_OK && r->writes)
        status = stance_folder_last(&r->folder, path, err);
    status = stance_comm_agree(r->comm, status, err);
    if (status != STANCE_OK)
        return status;
    if (r->writes && r->setup->recipe->checkpoint.keep != INT64_MIN)
        stance_checkpoint_prune(r->folder.work, r->setup->recipe->checkpoint.keep);
    snprintf(r->result->last, sizeof r->result->last, "%.4095s", path);
    r->saved = kept(r);
    return STANCE_OK;
}

/* Whether the newest checkpoint is behind the run: also by an evaluation, or the end of an epoch, alone. */
static bool unsaved(const struct run *r)
{
    const struct stance_position at = kept(r);

    return at.epoch != r->saved.epoch || at.batch != r->saved.batch || at.iteration != r->saved.iteration
           || at.micro != r->saved.micro || (at.best != r->saved.best && !isnan(at.best));
}

static stance_status keep_best(struct run *r, double value, struct stance_error *err)
{
    if (!stance_best_improves(value, r->at.best, stance_best_is_lower(r->t->best.s)))
        return STANCE_OK;
    r->at.best = value;
    snprintf(r->result->best_file, sizeof r->result->best_file, "%.4000s/best_%.60s.safetensors", r->folder.work,
             r->t->best.s);
    return stance_comm_agree(r->comm, r->writes ? write_checkpoint(r, r->result->best_file, err) : STANCE_OK, err);
}

/* The evaluation itself, over the averaged weights where the recipe has them. */
static stance_status run_evaluation(struct run *r, const struct stance_prediction **p, int64_t *count, struct stance_error *err)
{
    bool          average = !isnan(r->setup->recipe->ema.decay) && r->setup->recipe->ema.evaluate;
    stance_status status  = average ? stance_step_exchange_average(r->step, err) : STANCE_OK, back = STANCE_OK;

    if (status != STANCE_OK)
        return status;
    if (r->comm != NULL)
        status = stance_ranks_statistics(r->comm, r->step, err);
    if (status == STANCE_OK)
        status = stance_evaluation_run(r->evaluation, p, count, r->o->stop, err);
    if (average) /* also after a failure: the masters are to be saved */
        back = stance_step_exchange_average(r->step, status == STANCE_OK ? err : NULL);
    return status == STANCE_OK ? back : status;
}

static stance_status evaluate(struct run *r, struct stance_error *err)
{
    struct stance_metric            m[STANCE_METRICS_MAX];
    struct stance_scalar            scalars[STANCE_METRICS_MAX + 2];
    const struct stance_prediction *p;
    struct stance_event             e;
    int64_t                         count;
    int                             n = 0;
    double                          start = now();
    char                            text[200];
    stance_status                   status = run_evaluation(r, &p, &count, err);

    if (status == STANCE_OK)
        status = stance_evaluation_score(r->evaluation, m, &n, err);
    if (status != STANCE_OK)
        return status;
    for (int i = 0; i < n; i++)
        scalars[i] = (struct stance_scalar){ m[i].name, m[i].value };
    scalars[n] = (struct stance_scalar){ "time", now() - start };
    e = event(r, STANCE_EVENT_EVAL, scalars, n + 1);
    e.iteration = e.iterations = stance_evaluation_batches(r->evaluation);
    tell(r, &e);
    snprintf(text, sizeof text, "epoch %" PRId64 ": AP %.4f  AP50 %.4f  AP75 %.4f  AR %.4f", r->at.epoch + 1,
             n > 0 ? m[0].value : NAN, n > 1 ? m[1].value : NAN, n > 2 ? m[2].value : NAN, n > 5 ? m[5].value : NAN);
    stance_meter_say(&r->meter, text);
    for (int i = 0; i < n && status == STANCE_OK; i++)
        if (strcmp(m[i].name, r->t->best.s) == 0)
            status = keep_best(r, m[i].value, err);
    return status;
}

/* ---- the loop ----------------------------------------------------------------------------------- */

static stance_status fill(struct run *r, enum stance_step_program which, const struct stance_batch *b, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (int i = 0; i < r->n_fields && status == STANCE_OK; i++)
        if (r->input[which][i] >= 0)
            status = stance_step_fill(r->step, which, r->input[which][i], STANCE_TYPE_F32, b->field[i], err);
    return status;
}

static double accuracy(struct run *r, enum stance_step_program which, const struct stance_batch *b)
{
    const struct stance_pose *p = &r->setup->pose;

    if (r->heat == NULL || r->target < 0 || stance_step_read(r->step, which, "heatmap", STANCE_TYPE_F32, r->heat, NULL) != STANCE_OK)
        return NAN;
    return stance_pck(r->heat, b->field[r->target], r->target_weight >= 0 ? b->field[r->target_weight] : NULL, b->count,
                      p->keypoints, p->heatmap_size[1], p->heatmap_size[0], 0.05, NULL);
}

/* ---- what diagnosis finds ------------------------------------------------------------------------------ */

static bool debugs(const struct run *r)
{
    return r->o->debug_overflow || r->t->debug_overflow;
}

/* Before a window: its gradients' exponents are wanted each histogram_interval, and once when debugging;
 * of one that overflows they tell nothing, so that the next finite one is it. */
static void want_exponents(struct run *r)
{
    int64_t every = r->t->histogram_interval;

    if ((every != INT64_MIN && (r->at.iteration + 1) % every == 0) || (debugs(r) && r->at.iteration == r->started_at))
        r->exponents_due = true;
    if (r->exponents_due)
        stance_step_want_exponents(r->step);
}

/* Which micro-batch of its window it was, once something is found. */
static void mark_bad(struct run *r)
{
    if (r->bad_micro == 0 && stance_step_diagnosis(r->step) != NULL)
        r->bad_micro = r->at.micro;
}

/* After a window. @param goes_on  the run does: what ends it is told by its error */
static void tell_findings(struct run *r, bool skipped, bool goes_on)
{
    const struct stance_diagnosis          *d = stance_step_diagnosis(r->step);
    const struct stance_gradient_exponents *e = stance_step_exponents(r->step);
    struct stance_string                    text = { 0 };
    char                                    line[1000], found[800];

    for (int backward = 0; d != NULL && backward < 2; backward++) {
        stance_diagnosis_text(d, backward, found, sizeof found);
        if (r->t->accumulate > 1)
            snprintf(line, sizeof line, "overflow in step %" PRId64 ", batch %" PRId64 " of %" PRId64 ", loss scale %.10g: %s",
                     r->at.iteration, r->bad_micro, r->t->accumulate, (double)d->scale, found);
        else
            snprintf(line, sizeof line, "overflow in step %" PRId64 ", loss scale %.10g: %s", r->at.iteration, (double)d->scale,
                     found);
        log_message(r, line);
        if (goes_on)
            STANCE_LOG(STANCE_LOG_WARN, "%s", line);
    }
    r->bad_micro = 0;
    if (e == NULL || skipped)
        return;
    r->exponents_due = false;
    stance_look_log_exponents(&r->look, e, r->at.iteration);
    stance_gradient_exponents_text(e, r->at.iteration, &text);
    if (!text.failed) {
        log_message(r, text.s);
        if (debugs(r))
            stance_meter_say(&r->meter, text.s);
    }
    stance_string_free(&text);
}

/* ---- one of several processes --------------------------------------------------------------------------- */

/* Weight of this process' samples of a micro-batch in its window. */
static double weight_of(const struct run *r, int64_t micro, int32_t count)
{
    double weight = stance_windows_weight(&r->windows, micro, r->at.micro);

    return r->comm == NULL ? weight : weight * (double)count / (double)stance_windows_samples(&r->windows, micro);
}

static bool last_of_window(const struct run *r, int64_t micro, int64_t done)
{
    return micro + 1 == stance_windows_end(&r->windows, micro, done);
}

/* After a failure of this process alone: takes part in the rest of the window without a sample, so that the
 * others get to its end and learn of it there. A window that goes on into the next epoch has no such end:
 * then the others have to be ended. */
static stance_status leave_window(struct run *r, struct stance_error *err)
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

/* One micro-batch; at the end of its window, the update. */
static stance_status train_batch(struct run *r, const struct stance_batch *b, double data_time, double start,
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
        want_exponents(r);
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
    mark_bad(r);
    if (!last) {
        r->sum.time += now() - start;
        return STANCE_OK;
    }
    lr = rate(r);
    if (r->comm != NULL)
        share[STANCE_SHARE_STOP] = asked_to_stop(r);
    status = stance_step_apply(r->step, lr, &w, err);
    mark_bad(r);
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
    r->sum.time += now() - start;
    r->sum.loss += w.loss;
    r->sum.n++;
    if (!w.skipped) {
        r->sum.grad_norm += w.grad_norm;
        r->sum.finite++;
    }
    tell_findings(r, w.skipped, status == STANCE_OK);
    report(r, lr, &w);
    return status == STANCE_ERR_DIVERGED ? stance_comm_common(r->comm, status) : status;
}

static bool finished(const struct run *r)
{
    return r->at.epoch >= r->t->epochs || (r->t->max_steps != INT64_MIN && r->at.iteration >= r->t->max_steps);
}

static bool due(int64_t interval, int64_t count)
{
    return interval != INT64_MIN && count % interval == 0;
}

static stance_status train_epoch(struct run *r, struct stance_error *err)
{
    const struct stance_recipe_checkpoint *c = &r->setup->recipe->checkpoint;

    stance_loader_begin(r->loader, r->at.epoch, r->at.batch);
    while (r->at.batch < r->batches && !finished(r) && !stopped(r)) {
        const struct stance_batch *b;
        double        start = now(), loaded;
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
        loaded = now();
        status = train_batch(r, b, loaded - start, start, err);
        if (status == STANCE_OK && r->at.iteration > before && due(c->steps, r->at.iteration))
            status = save(r, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

static stance_status end_epoch(struct run *r, struct stance_error *err)
{
    bool          last   = r->at.epoch + 1 == r->t->epochs;
    stance_status status = STANCE_OK;

    if (r->t->eval_interval != INT64_MIN && (last || due(r->t->eval_interval, r->at.epoch + 1)))
        status = evaluate(r, err);
    r->at.epoch++;
    r->at.batch = 0;
    if (status == STANCE_OK && !last && due(r->setup->recipe->checkpoint.epochs, r->at.epoch))
        status = save(r, err);
    return status;
}

static stance_status loop(struct run *r, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    r->started    = now();
    r->started_at = r->at.iteration;
    while (!finished(r) && !stopped(r) && status == STANCE_OK) {
        status = train_epoch(r, err);
        if (status == STANCE_OK && r->at.batch == r->batches && !stopped(r))
            status = end_epoch(r, err);
    }
    if (status == STANCE_ERR_INTERRUPTED && stopped(r) && r->comm == NULL)
        status = STANCE_OK; /* within an evaluation; told below, after the checkpoint */
    if (status == STANCE_OK && unsaved(r))
        status = save(r, err);
    if (status == STANCE_OK && stopped(r))
        status = stance_comm_common(r->comm, STANCE_FAIL(err, STANCE_ERR_INTERRUPTED, "stopped by a signal; checkpoint %s",
                                                         r->result->last));
    return status;
}

/* ---- start and end ------------------------------------------------------------------------------- */

static stance_status make_step(struct run *r, struct stance_error *err)
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
        .debug_overflow = debugs(r),
        .comm = r->comm, .bucket = (size_t)(s->recipe->comm.bucket * 1048576), .sync_bn = s->recipe->comm.sync_bn,
    };

    stance_setup_window(s, &o);
    return stance_step_new(&o, &r->step, err);
}

static stance_status find_inputs(struct run *r, struct stance_error *err)
{
    int                        n;
    const struct stance_field *f = r->setup->task->fields(r->setup->task_state, &n);
    const struct stance_pose  *p = &r->setup->pose;

    if (n > FIELDS_MAX)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "the task has more than %d fields", FIELDS_MAX);
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
static stance_status check_position(const struct run *r, const char *path, struct stance_error *err)
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
static stance_status begin(struct run *r, struct stance_error *err)
{
    stance_status status = stance_store_begin_average(stance_step_store(r->step), err);

    return status == STANCE_OK ? stance_step_refresh(r->step, err) : status;
}

/* The checkpoint to go on from; NULL: there is none, which is told. */
static stance_status find_checkpoint(struct run *r, char **found, struct stance_error *err)
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
        message(r, text);
    }
    return status;
}

/* Fresh weights, the backbone's published ones over them, or what --load names. Of several processes rank 0
 * reads the files. */
static stance_status fresh_weights(struct run *r, struct stance_error *err)
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

static stance_status resume(struct run *r, const char *path, struct stance_error *err)
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
    message(r, text);
    r->saved = r->mark = r->at;
    snprintf(r->result->last, sizeof r->result->last, "%.4095s", path);
    return STANCE_OK;
}

static stance_status first_weights(struct run *r, struct stance_error *err)
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
static void warn_of_schedule(struct run *r)
{
    char text[300];

    if (stance_schedule_warning(r->setup->schedule.plugin, r->setup->schedule.config, r->steps, text, sizeof text))
        message(r, text);
}

/* Alone: what this process needs. */
static stance_status prepare(struct run *r, struct stance_error *err)
{
    struct stance_setup         *s = r->setup;
    struct stance_loader_options o = {
        .task = s->task, .task_state = s->task_state, .dataset = s->train.ops, .dataset_state = s->train.state,
        .batch_size = (int32_t)r->t->batch_size, .workers = (int32_t)r->t->workers, .seed = (uint64_t)r->t->seed,
        .training = true, .cache_bytes = CACHE_BYTES, .rank = stance_comm_rank(r->comm), .world = s->place.world,
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
        status = stance_evaluation_new(s, r->step, (int)r->t->workers, CACHE_BYTES, &r->evaluation, err);
    if (status == STANCE_OK && r->writes)
        status = stance_folder_make(s, r->o->work_dir, &r->folder, err);
    if (status == STANCE_OK && r->writes)
        status = open_loggers(r, err);
    if (status == STANCE_OK && r->writes)
        stance_look_log_open(&r->look, r->folder.start);
    if (status == STANCE_OK)
        warn_of_schedule(r);
    return status;
}

/* After the loggers have closed their files. A run is none the worse for lack of its page. */
static void write_page(const struct run *r)
{
    struct stance_error err = STANCE_ERROR_INIT;

    if (r->writes && r->started > 0 && stance_report_of(r->folder.work, r->folder.start, &err) != STANCE_OK)
        STANCE_LOG(STANCE_LOG_WARN, "no report: %s", err.text);
}

stance_status stance_train(struct stance_setup *setup, const struct stance_train_options *o,
                           struct stance_train_result *result, struct stance_error *err)
{
    struct run    r = { .setup = setup, .o = o, .t = &setup->recipe->train, .at = { .best = NAN }, .saved = { .epoch = -1 }, .mark = { .best = NAN },
                        .result = result, .comm = setup->comm, .writes = setup->place.writes };
    struct stance_event e;
    stance_status status;

    *result = (struct stance_train_result){ .best = NAN };
    stance_meter_init(&r.meter, stderr, o->quiet || !r.writes);
    if (r.writes)
        stance_log_set_sink(stance_meter_log, &r.meter);
    status = stance_comm_agree(r.comm, prepare(&r, err), err);
    if (status == STANCE_OK)
        status = first_weights(&r, err);
    if (status == STANCE_OK) {
        e = event(&r, STANCE_EVENT_START, NULL, 0);
        tell(&r, &e);
        status = loop(&r, err);
        e = event(&r, STANCE_EVENT_END, NULL, 0);
        tell(&r, &e);
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
