/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The logger kind: receives the events of a run. Not yet stable. */
#ifndef STANCE_LOGGER_H
#define STANCE_LOGGER_H

#include <stance/plugin.h>

STANCE_BEGIN_DECLS

enum stance_event_kind { STANCE_EVENT_START, STANCE_EVENT_TRAIN, STANCE_EVENT_EVAL, STANCE_EVENT_MESSAGE, STANCE_EVENT_END };

struct stance_scalar { const char *name; double value; };

struct stance_event {
    size_t                 size;
    enum stance_event_kind kind;
    const char            *text;    /**< MESSAGE */
    int64_t                epoch, epochs, iteration, iterations; /**< counted from 1, as people read them */
    int64_t                step;
    double                 eta;     /**< s; < 0: unknown */
    const struct stance_scalar *scalars; /**< in the order of mmengine's lines: lr, data_time, loss, ... */
    int32_t                n_scalars;
};

struct stance_logger_ops {
    size_t size, state_size;
    /** @param directory  of this start of the run: work_dirs/RECIPE/TIMESTAMP */
    stance_status (*open)(void *state, const void *config, const char *directory, struct stance_error *err);
    void (*event)(void *state, const struct stance_event *e);
    void (*close)(void *state);
};

STANCE_END_DECLS
#endif
