/* SPDX-License-Identifier: Apache-2.0
 *
 * A step from inside: make.c makes it, step.c runs windows, look.c looks into one that went wrong. */
#ifndef STEP_STEP_PRIV_H
#define STEP_STEP_PRIV_H

#include "step/step.h"

enum { STANCE_STEP_INPUTS_MAX = 8, STANCE_STEP_UPDATES_MAX = 8 };

struct stance_bound {
    struct stance_program      *program;
    const struct stance_tensor *input[STANCE_STEP_INPUTS_MAX], *loss;
    int                         n_inputs;
    bool                        packed; /* its copies of the weights are up to date */
};

/* For the kernels of batch norms, which know nothing of processes. */
struct stance_step_sync { struct stance_sync sync; struct stance_comm *comm; struct stance_error error; };

struct stance_step {
    const struct stance_device *device;
    struct stance_store        *store;
    struct stance_scaler       *scaler;
    struct stance_bound                programs[STANCE_STEP_PROGRAMS];
    struct stance_arena        *memory;
    struct stance_launch        updates[STANCE_STEP_UPDATES_MAX]; /* check, clipping by value, optimizer, commits, averages */
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
    struct stance_step_sync                 sync;
    bool                        sync_bn, closing; /* the micro-batch at hand is the window's last */
    double                      share[STANCE_SHARES];
};

/* A window begins: nothing has been found in it. */
void stance_step_begin_looking(struct stance_step *s);
/* After a micro-batch that others will be added to: whether it is the one that overflows. */
stance_status stance_step_look_at_micro(struct stance_step *s, struct stance_error *err);
/* At the end of a window, between the check and the update. */
stance_status stance_step_look_at_window(struct stance_step *s, struct stance_error *err);

#endif
