/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/run_priv.h"

#include "train/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a checkpoint holds. With several processes and an open window, of whose gradients each has its own
 * part, that is the end of the window before: masters, moments, states and scaler have not changed since. */
static struct stance_position kept(const struct stance_run *r)
{
    struct stance_position p = r->comm != NULL && r->at.micro > 0 ? r->mark : r->at;

    p.best = r->at.best;
    return p;
}

static stance_status write_checkpoint(struct stance_run *r, const char *path, struct stance_error *err)
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

stance_status stance_run_save(struct stance_run *r, struct stance_error *err)
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
bool stance_run_unsaved(const struct stance_run *r)
{
    const struct stance_position at = kept(r);

    return at.epoch != r->saved.epoch || at.batch != r->saved.batch || at.iteration != r->saved.iteration
           || at.micro != r->saved.micro || (at.best != r->saved.best && !isnan(at.best));
}

static stance_status keep_best(struct stance_run *r, double value, struct stance_error *err)
{
    if (!stance_best_improves(value, r->at.best, stance_best_is_lower(r->t->best.s)))
        return STANCE_OK;
    r->at.best = value;
    snprintf(r->result->best_file, sizeof r->result->best_file, "%.4000s/best_%.60s.safetensors", r->folder.work,
             r->t->best.s);
    return stance_comm_agree(r->comm, r->writes ? write_checkpoint(r, r->result->best_file, err) : STANCE_OK, err);
}

/* The evaluation itself, over the averaged weights where the recipe has them. */
static stance_status run_evaluation(struct stance_run *r, const struct stance_prediction **p, int64_t *count, struct stance_error *err)
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

stance_status stance_run_evaluate(struct stance_run *r, struct stance_error *err)
{
    struct stance_metric            m[STANCE_METRICS_MAX];
    struct stance_scalar            scalars[STANCE_METRICS_MAX + 2];
    const struct stance_prediction *p;
    struct stance_event             e;
    int64_t                         count;
    int                             n = 0;
    double                          start = stance_seconds();
    char                            text[200];
    stance_status                   status = run_evaluation(r, &p, &count, err);

    if (status == STANCE_OK)
        status = stance_evaluation_score(r->evaluation, m, &n, err);
    if (status != STANCE_OK)
        return status;
    for (int i = 0; i < n; i++)
        scalars[i] = (struct stance_scalar){ m[i].name, m[i].value };
    scalars[n] = (struct stance_scalar){ "time", stance_seconds() - start };
    e = stance_run_event(r, STANCE_EVENT_EVAL, scalars, n + 1);
    e.iteration = e.iterations = stance_evaluation_batches(r->evaluation);
    stance_run_tell(r, &e);
    snprintf(text, sizeof text, "epoch %" PRId64 ": AP %.4f  AP50 %.4f  AP75 %.4f  AR %.4f", r->at.epoch + 1,
             n > 0 ? m[0].value : NAN, n > 1 ? m[1].value : NAN, n > 2 ? m[2].value : NAN, n > 5 ? m[5].value : NAN);
    stance_meter_say(&r->meter, text);
    for (int i = 0; i < n && status == STANCE_OK; i++)
        if (strcmp(m[i].name, r->t->best.s) == 0)
            status = keep_best(r, m[i].value, err);
    return status;
}
