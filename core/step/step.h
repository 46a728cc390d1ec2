/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixed-precision step. A window is one optimizer step: one micro-batch or several, each
 *
 *   inputs -> forward -> loss (binary32) x weight x scale -> backward -> flat wide gradients
 *
 * and then, once, in stance_step_apply():
 *
 *   unscale, finite?, norm -> clip -> optimizer on the masters -> commit of the states (both only if
 *   finite, decided on the device) -> copies of the weights -> scaler.update(outcome)
 *
 * Nothing is allocated and no name is looked up between stance_step_new() and stance_step_free(). */
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "compile/program.h"
#include "step/diagnose.h"
#include "step/model.h"
#include "step/reducer.h"
#include "step/scaler.h"

struct stance_step;

struct stance_step_options {
    const struct stance_model    *model;
    const struct stance_device   *device;
    struct stance_policy          policy;
    const struct stance_instance *optimizer; /**< NULL: evaluation only */
    struct stance_scaler         *scaler;    /**< NULL: evaluation only; outlives the step */
    int32_t batch;      /**< samples of a micro-batch */
    int32_t last_batch; /**< samples of the last, smaller one of an epoch; 0: there is none */
    int32_t eval_batch; /**< 0: no evaluation */
    int32_t eval_last_batch;
    bool    accumulate; /**< windows have more than one micro-batch */
    double  clip;       /**< largest norm of the gradient; 0: none */
    bool    clip_inf;   /**< that is the largest magnitude; else the L2 norm */
    double  clip_value; /**< largest magnitude that a gradient is cut to; 0: none */
    const struct stance_ema *average; /**< moving average of the masters; NULL: none */
    bool    average_states;           /**< and of the running statistics; else they are the run's own */
    uint64_t seed;      /**< of the optimizer's random numbers */
    int64_t max_skips;  /**< windows skipped in a row that end the run; 0: no limit */
    bool    no_fusion;  /**< for tests */
    enum stance_rebuild rebuild; /**< what the backward pass computes again instead of keeping it */
    bool    debug_overflow; /**< look for the tensor at every overflow, not at the third in a row alone */
    struct stance_comm *comm; /**< NULL: one process. Outlives the step */
    size_t  bucket;     /**< bytes of gradients reduced at once, with comm */
    bool    sync_bn;    /**< batch statistics of all processes, with comm */
};

/** What the processes tell each other once a window, beside the gradients: each is summed. */
enum stance_share {
    STANCE_SHARE_ACC,    /**< the caller's accuracy, with the weights of the loss */
    STANCE_SHARE_SAMPLES,
    STANCE_SHARE_STOP,   /**< how many want to stop after this window */
    STANCE_SHARE_FAILED, /**< how many have no part of this window to give, and will never have: it is not
                              applied */
    STANCE_SHARES
};

/** Which program a batch runs on. */
enum stance_step_program { STANCE_STEP_BATCH, STANCE_STEP_LAST, STANCE_STEP_EVAL, STANCE_STEP_EVAL_LAST, STANCE_STEP_PROGRAMS };

/** What became of a window. */
struct stance_step_result {
    double  loss;      /**< unscaled, mean over the samples of the window */
    double  grad_norm; /**< before clipping: L2, or the largest magnitude with clip_inf; not finite on overflow */
    float   scale;     /**< that the window ran under */
    bool    skipped;
};

/** Compiles the programs and takes the memory. The weights are zero until they are initialised or
 *  loaded (stance_step_store()); then call stance_step_refresh(). */
stance_status stance_step_new(const struct stance_step_options *o, struct stance_step **out, struct stance_error *err);
/** Accepts NULL. */
void stance_step_free(struct stance_step *s);

struct stance_store   *stance_step_store(struct stance_step *s);
struct stance_program *stance_step_program(struct stance_step *s, enum stance_step_program which);

/** Steps applied so far: bias correction counts these. Set it on resume. */
uint64_t stance_step_applied(const struct stance_step *s);
void     stance_step_set_applied(struct stance_step *s, uint64_t applied);

/** After the weights have been changed from outside. */
stance_status stance_step_refresh(struct stance_step *s, struct stance_error *err);

/** Fills an input of a program from plain host memory, binary32 or binary64, converting to the type and
 *  form of the program. @param input  number of the input, as stance_step_input() gives it */
stance_status stance_step_fill(struct stance_step *s, enum stance_step_program which, int input,
                               enum stance_type type, const void *data, struct stance_error *err);
/** Number of an input by name, or -1. */
int stance_step_input(const struct stance_step *s, enum stance_step_program which, const char *name);

/** Runs forward and backward on the inputs. The first micro-batch of a window asks the scaler for the
 *  scale and clears the gradients. @param weight  of the micro-batch in its window: its samples over the
 *  window's; 1 for a window of one */
stance_status stance_step_micro(struct stance_step *s, enum stance_step_program which, double weight,
                                struct stance_error *err);

/** With several processes: the coming micro-batch is the window's last, so that its gradients are reduced
 *  as they are complete. */
void stance_step_close_window(struct stance_step *s);
/** Takes the place of stance_step_micro() where this process has no sample in the micro-batch. */
stance_status stance_step_idle(struct stance_step *s, struct stance_error *err);
/** [STANCE_SHARES], of this process before stance_step_apply(), of all of them after it; zeroed by the first
 *  micro-batch of a window. */
double *stance_step_share(struct stance_step *s);
/** NULL with one process. */
struct stance_reducer *stance_step_reducer(struct stance_step *s);

/** Ends the window. With several processes STANCE_ERR_INTERRUPTED tells that one of them has failed
 *  (STANCE_SHARE_FAILED); nothing is changed then. @param rate  learning rate
 *  @return STANCE_OK also for a skipped window; STANCE_ERR_DIVERGED after max_skips in a row, with the
 *          name of the first tensor that was not finite */
stance_status stance_step_apply(struct stance_step *s, double rate, struct stance_step_result *result,
                                struct stance_error *err);

/** Where the gradients of the window stopped being finite; NULL: they are finite, or nobody has looked.
 *  Overflows are looked into in every window with debug_overflow, else in the third skipped in a row and
 *  in the one that would end the run. Known after stance_step_apply(), in windows of several micro-batches
 *  after the one that it is; valid until the next window begins. */
const struct stance_diagnosis *stance_step_diagnosis(const struct stance_step *s);

/** Asks for the exponents of the coming window's gradients; has no effect within one. */
void stance_step_want_exponents(struct stance_step *s);
/** Those of the last window, of the activations in its last micro-batch, after stance_step_apply(); NULL: nobody has asked, or they could not be had. */
const struct stance_gradient_exponents *stance_step_exponents(const struct stance_step *s);

/** State of a window that is under way, for checkpoints. */
struct stance_window { bool open; float scale; double loss; };
struct stance_window stance_step_window(const struct stance_step *s);
void stance_step_set_window(struct stance_step *s, const struct stance_window *w);

/** Windows skipped in a row and in all. */
struct stance_skips *stance_step_skips(struct stance_step *s);

/** Puts the averages in the place of the masters, for evaluation, and back again. No-op without averages.
 *  Nothing else may be done in between. */
stance_status stance_step_exchange_average(struct stance_step *s, struct stance_error *err);

/** Runs an evaluation program on its inputs. */
stance_status stance_step_evaluate(struct stance_step *s, enum stance_step_program which, struct stance_error *err);

/** Copies a named output to plain host memory of @p type. */
stance_status stance_step_read(struct stance_step *s, enum stance_step_program which, const char *name,
                               enum stance_type type, void *to, struct stance_error *err);

#endif
