/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The device kind: memory, and kernels asked for node by node when a program is made. Not yet
 *  stable: STANCE_UNSTABLE_ABI moves with it. */
#ifndef STANCE_DEVICE_H
#define STANCE_DEVICE_H

#include <stance/plugin.h>

#include <math.h>

STANCE_BEGIN_DECLS

/** @addtogroup device Devices
 *  @{ */

/** What a tensor is for; a device may choose its form by it. */
enum stance_purpose {
    STANCE_PURPOSE_ACTIVATION, /**< a value of the forward pass */
    STANCE_PURPOSE_GRADIENT,   /**< a value of the backward pass */
    STANCE_PURPOSE_INPUT,      /**< filled from the host, always plain */
    STANCE_PURPOSE_STATE       /**< a weight or a running statistic */
};

/** Form of a tensor in memory. Layout 0 is plain; the other numbers are the device's own. */
struct stance_form {
    uint32_t         layout; /**< 0: plain */
    enum stance_type stored; /**< type of the bytes */
    size_t           bytes;  /**< of the whole tensor, padding included */
};

/** One node, asked for. Tensors have no data yet. */
struct stance_request {
    size_t                      size; /**< sizeof(struct stance_request) */
    const char                 *op;   /**< its name */
    const struct stance_op_ops *ops;  /**< its description */
    const void                 *attr; /**< its attribute struct; NULL if it has none */
    const struct stance_tensor *in;   /**< [n_in] operands; rank -1: absent */
    const struct stance_tensor *out;  /**< [n_out] results */
    int32_t                     n_in; /**< operands */
    int32_t                     n_out; /**< results */
    bool                        training; /**< the program has a backward pass */
};

/** The answer to a request. The core presets the forms with those of the tensors; the device may
 *  change the form of an operand that is a weight (the core then packs it after each update), of a
 *  result that is a weight's gradient (masters and moments then have that form), and of a result that
 *  only its own kernels read (a mask). */
struct stance_offer {
    size_t              size;      /**< sizeof(struct stance_offer) */
    size_t              workspace; /**< bytes of scratch during a launch */
    struct stance_form *in;        /**< [n_in] */
    struct stance_form *out;       /**< [n_out] */
    int32_t            *alias;     /**< [n_out], preset to -1: operand that result i may lie over if that
                                        operand is not read afterwards */
};

/** A device: memory, and programs that run in it. */
struct stance_device_ops {
    size_t size;        /**< sizeof(struct stance_device_ops) */
    size_t state_size;  /**< zeroed bytes that the core keeps */
    bool   host_memory; /**< its memory is the host's: plain C kernels may run on it */

    /** Starts the device. @param threads  0: as many as it finds */
    stance_status (*open)(void *state, const void *config, int threads, struct stance_error *err);
    /** Gives back what open() took; called once after a successful open(). */
    void (*close)(void *state);

    /** Whether forward (and, training, backward) can run with @p low as the low type; the reason why
     *  not names the type and what is missing. NULL: binary32 only. */
    stance_status (*precision)(void *state, enum stance_type low, bool training, struct stance_error *err);
    /** Low type that `precision: auto` means here. */
    enum stance_type (*fast_type)(void *state);

    /** Memory, zeroed, aligned to 64 bytes at least; asked for once, when a program is made. */
    stance_status (*alloc)(void *state, size_t bytes, void **out, struct stance_error *err);
    /** Gives back memory of alloc(). */
    void (*release)(void *state, void *memory, size_t bytes);

    /** Form of a value; @p t has type and shape. NULL: plain, stored as its type. */
    void (*form)(void *state, const struct stance_tensor *t, enum stance_purpose purpose,
                 struct stance_form *out);

    /** Whether the device has a kernel for the node; with prepare and launch, or NULL like them.
     *  @return false: it declines; the core then looks for a plain kernel of the op, and fails with the op's name if there is none. */
    bool (*offer)(void *state, const struct stance_request *req, struct stance_offer *offer);
    /** Makes the kernel of an accepted offer; tensors have their final forms. */
    stance_status (*prepare)(void *state, const struct stance_request *req, void **kernel,
                             struct stance_error *err);
    /** Undoes prepare(). */
    void (*dispose)(void *state, void *kernel);
    /** Runs a kernel, or puts it into the queue. @p call is the program's, the same each time. */
    stance_status (*launch)(void *state, void *kernel, const struct stance_call *call);

    /** Converts between forms, synchronously: *to is filled from *from (same shape). Either side may
     *  be host memory in the plain layout; numbers there are binary32 or binary64 whatever the device
     *  stores. Padding of the device's layouts is zeroed. */
    stance_status (*reorder)(void *state, const struct stance_tensor *to,
                             const struct stance_tensor *from, struct stance_error *err);
    /** Waits for everything launched. NULL: launches are synchronous. */
    stance_status (*wait)(void *state, struct stance_error *err);
    /** Lines "key: value" for `stance inspect`: ISA, threads, types that it stores but does not compute in.
     *  Owned by the state. */
    const char *(*describe)(void *state);
    /** What op plugins' kernels for this device launch on (CUDA: the stream). NULL: they are called and
     *  have finished when they return. */
    void *(*queue)(void *state);
};

/* ---- ops that the compiler makes, and only devices meet -------------------------------------- */

/** The block of scalars that host and device exchange in a step; in device memory. */
struct stance_control {
    size_t  size;          /**< sizeof(struct stance_control) */
    float   scale;         /**< in: loss scale of the window */
    int32_t clip_inf;      /**< in: `clip` is of the largest magnitude, not of the L2 norm */
    double  micro_weight;  /**< in: weight of the micro-batch in its window */
    double  clip;          /**< in: largest norm of the gradient; 0: no clipping by norm */
    struct stance_update update; /**< rate and applied: in; skip and factor: set by "grad_check" */
    double  sum_squares;   /**< out: of the unscaled gradients, summed in binary64 */
    double  max_abs;       /**< out: largest magnitude among the unscaled gradients */
    int64_t first_bad;     /**< out: index into the flat gradients of the first non-finite one; -1 */
    double  clip_value;    /**< in: largest magnitude of an unscaled gradient; 0: no clipping by value */
};

/* "loss_seed" (control) -> scalar F32: scale * micro_weight, the gradient of the loss.
 * "accumulate" (sum, g) -> sum + g, over the memory of sum; any stored type of g, sum is wide.
 * "grad_check" (flat gradients [n]) -> control: finite?, norm, factor = 1/scale and clip coefficient
 *     min(1, clip / (norm + 1e-6)) together; the factor's inverse scale is the binary32 of 1/(double)scale.
 * "clip_value" (flat gradients [n], control) -> the same memory: after "grad_check", every gradient that
 *     would be larger than clip_value once multiplied by the factor is cut to it; nothing when skipped.
 * "ema" (average [n], update, value [n]) -> the memory of the average: a step of a moving average with the
 *     decay that struct stance_ema gives for update.applied; nothing when the window is skipped.
 * "commit" (pending [n], update, committed [n]) -> pending, committed: committed = pending, or, when the
 *     window is skipped, pending = committed. Wide or I64.
 * "pack" (weight) -> the form that a kernel asked for; "reorder" (x) -> the same values in another form. */

/** How the decay of "ema" comes to its final value; t is the number of this applied step, from 1.
 *  RATIO: min(decay, (1 + t) / (10 + t)); EXPONENTIAL: decay (1 - exp(-t / tau)). */
enum stance_ema_warmup { STANCE_EMA_CONSTANT, STANCE_EMA_RATIO, STANCE_EMA_EXPONENTIAL };
/** Attributes of "ema". */
struct stance_ema {
    double decay; /**< final weight of the average, 0..1 */
    double tau;   /**< of EXPONENTIAL, applied steps */
    enum stance_ema_warmup warmup; /**< how the decay begins */
};

/** Decay of the applied step whose number, from 1, is @p applied + 1. */
static inline double stance_ema_decay(const struct stance_ema *e, uint64_t applied)
{
    double t = (double)applied + 1, ratio = (1 + t) / (10 + t);

    if (e->warmup == STANCE_EMA_EXPONENTIAL)
        return e->decay * (1 - exp(-t / e->tau));
    return e->warmup == STANCE_EMA_RATIO && ratio < e->decay ? ratio : e->decay;
}

#define STANCE_NORM_SUM_MAX 4 /**< normalised operands of one sum; plain ones likewise */

/** "norm_sum": y = act( sum over k of upsample_k(batch_norm(z_k)) + sum over j of x_j ), which is
 *  BN, BN+ReLU, BN+add+ReLU, and HRNet's fuse layers in one pass (nearest upsampling).
 *  in: (z, weight, bias, running_mean, running_var) for each k, then the plain x_j of y's shape.
 *  out, training: y, mask (1 bit an element in a form of the device's; absent without relu), then
 *  (new_mean, new_var, mean, inv_std) for each k. out, inference: y alone, by running statistics. */
struct stance_norm_sum {
    int32_t n_norm;    /**< normalised operands */
    int32_t n_plain;   /**< plain operands */
    int32_t factor[STANCE_NORM_SUM_MAX]; /**< of upsample_k */
    int32_t relu;      /**< act is max(x, 0), else nothing */
    int32_t inference; /**< by running statistics */
    double  eps;       /**< as in stance_batch_norm */
    double  momentum;  /**< as in stance_batch_norm */
    const struct stance_sync *sync; /**< as in struct stance_batch_norm; for each k in turn */
};

/* "norm_sum_given", with the attribute of norm_sum: the y and the mask of a norm_sum once more, by the
 *  statistics that it has found. in: (z, weight, bias, mean, inv_std) for each k, then the plain x_j;
 *  out: y, and the mask (absent if not wanted). They must have the bytes of the first time, so a device
 *  that has this op computes norm_sum by mean and inv_std as it has stored them. Without it, norm_sum is
 *  run again as a whole. */

/** "norm_sum_grad": in: n_dy contributions to y's gradient (summed here, in order), mask (absent
 *  without relu), then (z, weight, mean, inv_std) for each k. out: the gradient of the plain operands
 *  (one for all of them; absent unless want_plain), then (dz, dweight, dbias) for each k. */
struct stance_norm_sum_grad {
    int32_t n_dy;       /**< contributions to the gradient of y */
    int32_t n_norm;     /**< normalised operands */
    int32_t want_plain; /**< the gradient of the plain operands is wanted */
    int32_t factor[STANCE_NORM_SUM_MAX]; /**< as in stance_norm_sum */
    int32_t relu;       /**< as in stance_norm_sum */
    const struct stance_sync *sync; /**< as in struct stance_batch_norm; for each k in turn */
};

/** @} */

STANCE_END_DECLS
#endif
