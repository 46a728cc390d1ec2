/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The logger kind: receives the events of a run. Not yet stable. */
#ifndef STANCE_LOGGER_H
#define STANCE_LOGGER_H

#include <stance/plugin.h>

STANCE_BEGIN_DECLS

/** @addtogroup logger Loggers
 *  @{ */

/** What happened. */
enum stance_event_kind {
    STANCE_EVENT_START,   /**< of a run */
    STANCE_EVENT_TRAIN,   /**< numbers of training, every log_interval */
    STANCE_EVENT_EVAL,    /**< scores of an evaluation */
    STANCE_EVENT_MESSAGE, /**< a sentence for people */
    STANCE_EVENT_END      /**< of the run */
};

/** A number with its name, as mmengine calls it. */
struct stance_scalar {
    const char *name;  /**< "lr", "loss", "coco/AP"; the caller's */
    double      value; /**< may be Inf or NaN */
};

/** One event. Everything it points to lives as long as the call. */
struct stance_event {
    size_t                 size;    /**< sizeof(struct stance_event) */
    enum stance_event_kind kind;    /**< which of the fields below are set depends on it */
    const char            *text;    /**< MESSAGE: the sentence; else NULL */
    int64_t                epoch;   /**< counted from 1, as people read it */
    int64_t                epochs;  /**< of the run */
    int64_t                iteration;  /**< batches of this epoch, or of the evaluation, so far */
    int64_t                iterations; /**< batches of the whole */
    int64_t                step;    /**< windows since the start of the run */
    double                 eta;     /**< s; < 0: unknown */
    const struct stance_scalar *scalars; /**< in the order of mmengine's lines: lr, data_time, loss, ... */
    int32_t                n_scalars; /**< how many */
};

/** Receives the events of a run, in one thread. */
struct stance_logger_ops {
    size_t size;       /**< sizeof(struct stance_logger_ops) */
    size_t state_size; /**< zeroed bytes that the core keeps */
    /** @param directory  of this start of the run: work_dirs/RECIPE/TIMESTAMP */
    stance_status (*open)(void *state, const void *config, const char *directory, struct stance_error *err);
    /** One event. A failure is the logger's own matter: it must not stop a run. */
    void (*event)(void *state, const struct stance_event *e);
    /** Writes out what is left, and gives back what open() took. */
    void (*close)(void *state);
};

/** @} */

STANCE_END_DECLS
#endif
