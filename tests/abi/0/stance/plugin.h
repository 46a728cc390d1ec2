/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The binary interface between the core and its plugins. A plugin includes this file and nothing else of
 *  ours; one of a kind that is not yet stable includes <stance/KIND.h>, which includes this one.
 *
 *  What a plugin may rely on while STANCE_PLUGIN_ABI stays the same: no field moves or changes its
 *  meaning, no enumerator its number, no function of these headers goes away. A struct that begins with
 *  `size` may get fields at its end. Of a plugin that was compiled with an older header, the core takes
 *  what is there and reads the rest as 0: not offered. A plugin that reads an appended field of a struct
 *  which the core fills asks STANCE_COVERS() first. A struct without `size` never grows. */
#ifndef STANCE_PLUGIN_H
#define STANCE_PLUGIN_H

#include <stance/alloc.h>
#include <stance/error.h>
#include <stance/graph.h>
#include <stance/log.h>
#include <stance/ops.h>
#include <stance/param.h>
#include <stance/pose.h>
#include <stance/schedule.h>

STANCE_BEGIN_DECLS

/** @addtogroup plugin Plugins
 *  @{ */

/** Raised when an existing field changes meaning or place. Appending a field to a struct that
 *  starts with `size` does not raise it. */
#define STANCE_PLUGIN_ABI 0
/** Number of the kinds that are not yet stable: device, comm, task, dataset, logger. It is compared for
 *  these kinds only, so that raising it takes nothing from the plugins of the others. */
#define STANCE_UNSTABLE_ABI 0

/** Word of a kind in file names and recipes, in the order of the numbers. Append only. */
#define STANCE_KIND_MAP(X)                                                                    \
    X(BACKBONE, backbone) X(HEAD, head) X(LOSS, loss) X(SCALER, scaler) X(OPTIMIZER, optimizer) \
    X(SCHEDULE, schedule) X(OP, op) X(DATASET, dataset) X(TASK, task) X(DEVICE, device)       \
    X(COMM, comm) X(LOGGER, logger)

/** Kinds of plugins: STANCE_KIND_x for each x of STANCE_KIND_MAP. */
enum stance_kind {
#define STANCE_KIND_ENUM(id, word) STANCE_KIND_##id, /**< makes the enumerators */
    STANCE_KIND_MAP(STANCE_KIND_ENUM)
#undef STANCE_KIND_ENUM
    STANCE_KIND_COUNT,    /**< moves when a kind is appended */
    STANCE_KIND_ALL = 255 /**< for stance_registry_list() */
};

/** A backbone: image -> features. It builds nodes and touches no pixel. */
struct stance_backbone_ops {
    size_t size; /**< sizeof(struct stance_backbone_ops) */
    /** @param image  [B,3,H,W]; the scope is "backbone".
     *  @param[out] out  features, the finest first; at most STANCE_FEATURES_MAX.
     *  @param[out] n_out  how many; 1 at least
     *  Failures are told by stance_refuse(). */
    void (*build)(struct stance_builder *b, const void *config, struct stance_value image,
                  struct stance_value *out, int *n_out);
};
#define STANCE_FEATURES_MAX 8 /**< features of a backbone, results of a head, at most */

/** A head: features -> outputs, and outputs -> points. */
struct stance_head_ops {
    size_t size; /**< sizeof(struct stance_head_ops) */
    /** Builds nodes under the scope "keypoint_head" and names its results with stance_output()
     *  ("heatmap" [B,K,h,w], with h and w of pose->heatmap_size: what evaluation reads).
     *  @param[out] out  the results, first the main one; at most STANCE_FEATURES_MAX */
    void (*build)(struct stance_builder *b, const void *config, const struct stance_pose *pose,
                  const struct stance_value *features, int n, struct stance_value *out, int *n_out);
    /** Turns the result on a mirrored image into one on the image itself, in place.
     *  @param out  [B,K,h,w] binary32. @param shift  move one column right after mirroring (MMPose's
     *  shift_heatmap). NULL: no flip test with this head. */
    void (*unflip)(const void *config, const struct stance_pose *pose, float *out, int batch, bool shift);
    /** Points from results; stance_decode_heatmap() is it for a heatmap head. NULL: the head can be
     *  trained, not evaluated. */
    stance_status (*decode)(const void *config, const struct stance_decode *d, struct stance_error *err);
};

/** A loss: outputs and targets -> scalar. Targets are inputs it asks for by name with
 *  stance_input(): a task offers "target" and "target_weight". */
struct stance_loss_ops {
    size_t size; /**< sizeof(struct stance_loss_ops) */
    /** Builds nodes. @param outputs  [n] results of the head @return the scalar to be minimised, F32. */
    struct stance_value (*build)(struct stance_builder *b, const void *config,
                                 const struct stance_pose *pose, const struct stance_value *outputs, int n);
};

/** What a scaler is told after a window. */
struct stance_outcome {
    size_t   size;     /**< sizeof(struct stance_outcome) */
    uint64_t step;     /**< windows before this one, skipped ones included */
    int32_t  overflow; /**< some unscaled gradient was Inf or NaN: the window was skipped */
    double   grad_norm; /**< L2 norm of the unscaled gradients; not finite on overflow */
    double   max_abs;   /**< largest magnitude among them; only with STANCE_WANT_MAX_ABS */
};
/** What a scaler asks to be told. */
enum stance_want {
    STANCE_WANT_MAX_ABS = 1 /**< stance_outcome.max_abs */
};

/** A loss-scaling strategy: a function of outcomes. The loss is multiplied by S before the backward
 *  pass so that small gradients survive in binary16, gradients are divided by S before the update.
 *  Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018 (arXiv:1710.03740). */
struct stance_scaler_ops {
    size_t                     size;       /**< sizeof(struct stance_scaler_ops) */
    size_t                     state_size; /**< zeroed bytes that the core keeps */
    const struct stance_param *state;      /**< table over the state, which starts with its defaults: saved,
                                                restored and compared by the core */
    uint32_t                   wants;      /**< STANCE_WANT_... */
    /** Optional: first state of a fresh run, where it depends on the settings. */
    void (*start)(void *state, const void *config);
    /** S of the coming window: finite, > 0, binary32. */
    float (*scale)(const void *state, const void *config);
    /** Optional: after each window. */
    void (*update)(void *state, const void *config, const struct stance_outcome *outcome);
};

#define STANCE_SLOTS_MAX 4 /**< arrays that an optimizer keeps at most */

/** An update rule over flat arrays: an op that the device runs on each group of segments that share
 *  their hyper-parameters. */
struct stance_optimizer_ops {
    size_t  size;      /**< sizeof(struct stance_optimizer_ops) */
    int32_t slots;     /**< arrays of the size of the masters that it keeps (Adam: 2), started at 0; at most STANCE_SLOTS_MAX */
    const char *const *slot_names; /**< names in checkpoints: "exp_avg", ... */
    double (*base_rate)(const void *config); /**< learning rate before the schedule */
    /** Element-wise op, attribute = config (attr_size == config_size). Operands: gradient [n], update
     *  block (struct stance_update as U8 bytes), then inputs 2.. = master and slots [n]; outputs: the
     *  same memory as inputs 2... Must leave everything as it is when update->skip. n is the length of all
     *  weights together, in an order that is the device's. Device "cpu" has kernels of its own for the
     *  rules of adam, adamw and sgd; for others it runs the op's reference, or its kernel for "cpu". */
    const struct stance_op_ops *update;
    /** Optional: how many of the slots this config uses, the first ones. NULL: all. */
    int32_t (*slots_used)(const void *config);
};

/** What an optimizer's kernel reads beside its arrays. In device memory. */
struct stance_update {
    size_t   size;    /**< sizeof(struct stance_update) */
    int32_t  skip;    /**< the window overflowed: touch nothing */
    int32_t  pad;     /**< 0 */
    double   rate;    /**< learning rate of this step */
    double   factor;  /**< multiply gradients by this first: 1/scale, times the clip factor */
    uint64_t applied; /**< steps applied so far; this one, if applied, is number applied + 1 */
    uint64_t seed;    /**< of the run, for rules that draw random numbers */
};

/** Where a run is, for a schedule. */
struct stance_progress {
    size_t   size;      /**< sizeof(struct stance_progress) */
    double   base_rate; /**< of the optimizer */
    int64_t  epoch;     /**< from 0 */
    int64_t  iteration; /**< windows since the start of the run, from 0; skipped ones count unless on_skip: hold */
    int64_t  iterations_per_epoch; /**< windows */
    int64_t  epochs;    /**< of the run */
};

/** A learning-rate schedule: a pure function, so that resuming needs no state. */
struct stance_schedule_ops {
    size_t size; /**< sizeof(struct stance_schedule_ops) */
    /** The rate of the coming window. Safe in any thread. */
    double (*rate)(const void *config, const struct stance_progress *p);
};

struct stance_device_ops;  /* <stance/device.h>, not yet stable */
struct stance_dataset_ops; /* <stance/dataset.h>, not yet stable */
struct stance_task_ops;    /* <stance/task.h>, not yet stable */
struct stance_logger_ops;  /* <stance/logger.h>, not yet stable */
struct stance_comm_ops;    /* <stance/comm.h>, not yet stable */

/** What a plugin exports: one constant; nothing of it runs at load time. */
struct stance_plugin {
    uint32_t                   abi;  /**< STANCE_PLUGIN_ABI it was compiled with */
    uint32_t                   unstable_abi; /**< STANCE_UNSTABLE_ABI likewise */
    uint32_t                   size; /**< sizeof(struct stance_plugin) likewise */
    enum stance_kind           kind; /**< which member of ops is set */
    const char                *name;    /**< [a-z0-9_]+, the same as in the file name `KIND_NAME.so` */
    const char                *version; /**< the plugin's own */
    const char                *license; /**< SPDX identifier */
    const char                *source;  /**< paper or project it implements */
    const char                *summary; /**< one line for `stance list` */
    const struct stance_param *params;  /**< over the config struct; may be NULL */
    size_t                     config_size; /**< sizeof its config struct; 0 without params */
    /** Its functions, by kind. */
    union {
        const void                        *any;       /**< whichever it is */
        const struct stance_backbone_ops  *backbone;  /**< STANCE_KIND_BACKBONE */
        const struct stance_head_ops      *head;      /**< STANCE_KIND_HEAD */
        const struct stance_loss_ops      *loss;      /**< STANCE_KIND_LOSS */
        const struct stance_scaler_ops    *scaler;    /**< STANCE_KIND_SCALER */
        const struct stance_optimizer_ops *optimizer; /**< STANCE_KIND_OPTIMIZER */
        const struct stance_schedule_ops  *schedule;  /**< STANCE_KIND_SCHEDULE */
        const struct stance_op_ops        *op;        /**< STANCE_KIND_OP */
        const struct stance_dataset_ops   *dataset;   /**< STANCE_KIND_DATASET */
        const struct stance_task_ops      *task;      /**< STANCE_KIND_TASK */
        const struct stance_device_ops    *device;    /**< STANCE_KIND_DEVICE */
        const struct stance_comm_ops      *comm;      /**< STANCE_KIND_COMM */
        const struct stance_logger_ops    *logger;    /**< STANCE_KIND_LOGGER */
    } ops; /**< the table of its kind */
};

/** Opens the one definition of a plugin file; the designated initialiser follows. Libtool finds
 *  `MODULE_LTX_stance_plugin` in a shared object and in a preloaded one alike, hence the name: the
 *  module is `KIND_NAME`, as is the file. */
#define STANCE_PLUGIN(kind, name)                                                   \
    STANCE_API extern const struct stance_plugin kind##_##name##_LTX_stance_plugin; \
    const struct stance_plugin kind##_##name##_LTX_stance_plugin

/** First initialiser of every plugin. */
#define STANCE_PLUGIN_HEAD                                              \
    .abi = STANCE_PLUGIN_ABI, .unstable_abi = STANCE_UNSTABLE_ABI, \
    .size = sizeof(struct stance_plugin)

/** Whether who filled @p s knows of @p field: asked before a field is read that was appended after ABI 0
 *  began. */
#define STANCE_COVERS(s, field) \
    ((size_t)((const char *)(&(s)->field + 1) - (const char *)(s)) <= (s)->size)

/** Whether @p ops offers the function @p field. */
#define STANCE_HAS(ops, field) (STANCE_COVERS(ops, field) && (ops)->field != NULL)

/** @} */

STANCE_END_DECLS
#endif
