/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/run_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <stance/log.h>

#define STANCE_LOG_MODULE "train"

void stance_run_tell(struct stance_run *r, const struct stance_event *e)
{
    for (int i = 0; i < r->n_loggers; i++)
        r->loggers[i].ops->event(r->loggers[i].state, e);
}

struct stance_event stance_run_event(const struct stance_run *r, enum stance_event_kind kind, const struct stance_scalar *s, int n)
{
    double  spent = stance_seconds() - r->started;
    int64_t done  = r->at.iteration - r->started_at;

    return (struct stance_event){
        .size = sizeof(struct stance_event), .kind = kind, .epoch = r->at.epoch + 1, .epochs = r->t->epochs,
        .iteration = r->at.batch, .iterations = r->batches, .step = r->at.iteration,
        .eta = done > 0 ? spent / (double)done * (double)(r->steps - r->at.iteration) : -1,
        .scalars = s, .n_scalars = n,
    };
}

/* For the logs. */
static void log_message(struct stance_run *r, const char *text)
{
    struct stance_event e = stance_run_event(r, STANCE_EVENT_MESSAGE, NULL, 0);

    e.text = text;
    stance_run_tell(r, &e);
}

/* For the logs and the terminal. */
void stance_run_message(struct stance_run *r, const char *text)
{
    log_message(r, text);
    stance_meter_say(&r->meter, text);
}

/* After a window: the terminal sees every one, the log one in log_interval and the last of an epoch. */
void stance_run_report(struct stance_run *r, double lr, const struct stance_step_result *w)
{
    const struct stance_run_sums *s = &r->sum;
    double                 n = (double)s->n;
    struct stance_scalar   scalars[] = {
        { "lr", lr }, { "data_time", s->data_time / n }, { "loss", s->loss / n }, { "acc_pose", s->acc / n },
        { "grad_norm", s->finite > 0 ? s->grad_norm / (double)s->finite : NAN }, { "time", s->time / n },
        { "loss_scale", (double)w->scale }, { "skipped", (double)stance_step_skips(r->step)->total },
        { "throughput", (double)s->samples / s->time },
    };
    struct stance_event e = stance_run_event(r, STANCE_EVENT_TRAIN, scalars, sizeof scalars / sizeof *scalars);

    stance_meter_step(&r->meter, &e, stance_seconds());
    if (r->at.iteration % r->t->log_interval != 0 && r->at.batch != r->batches)
        return;
    stance_run_tell(r, &e);
    r->sum = (struct stance_run_sums){ 0 };
}

stance_status stance_run_open_loggers(struct stance_run *r, struct stance_error *err)
{
    const struct stance_recipe *recipe = r->setup->recipe;

    if (recipe->n_loggers > STANCE_RUN_LOGGERS_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "train.loggers: more than %d", STANCE_RUN_LOGGERS_MAX);
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
        r->loggers[r->n_loggers++] = (struct stance_run_logger){ ops, state };
    }
    return STANCE_OK;
}

bool stance_run_debugs(const struct stance_run *r)
{
    return r->o->debug_overflow || r->t->debug_overflow;
}

/* Before a window: its gradients' exponents are wanted each histogram_interval, and once when debugging;
 * of one that overflows they tell nothing, so that the next finite one is it. */
void stance_run_want_exponents(struct stance_run *r)
{
    int64_t every = r->t->histogram_interval;

    if ((every != INT64_MIN && (r->at.iteration + 1) % every == 0) || (stance_run_debugs(r) && r->at.iteration == r->started_at))
        r->exponents_due = true;
    if (r->exponents_due)
        stance_step_want_exponents(r->step);
}

/* Which micro-batch of its window it was, once something is found. */
void stance_run_mark_bad(struct stance_run *r)
{
    if (r->bad_micro == 0 && stance_step_diagnosis(r->step) != NULL)
        r->bad_micro = r->at.micro;
}

/* After a window. @param goes_on  the run does: what ends it is told by its error */
void stance_run_tell_findings(struct stance_run *r, bool skipped, bool goes_on)
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
        if (stance_run_debugs(r))
            stance_meter_say(&r->meter, text.s);
    }
    stance_string_free(&text);
}
