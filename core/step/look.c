/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/step_priv.h"

#include <stance/log.h>

#define STANCE_LOG_MODULE "step"

/* Skips in a row after which somebody should be told where they come from. */
enum { SKIPS_TOLD = 3 };

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

void stance_step_begin_looking(struct stance_step *s)
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

/* The first update is the check; it changes the control block alone. */
stance_status stance_step_look_at_micro(struct stance_step *s, struct stance_error *err)
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

stance_status stance_step_look_at_window(struct stance_step *s, struct stance_error *err)
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
