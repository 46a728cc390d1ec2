/* SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor is looked at before anything of its plugin is used. */
#include "config.h"

#include "registry/internal.h"

#include <stance/comm.h>
#include <stance/dataset.h>
#include <stance/device.h>
#include <stance/logger.h>
#include <stance/task.h>

#include <string.h>

/* Size of the descriptor when ABI 0 began: one compiled with an older header of the same ABI is as
 * large at least. */
#define SIZE_MIN (offsetof(struct stance_plugin, ops) + sizeof(((struct stance_plugin *)0)->ops))

static bool is_unstable(enum stance_kind kind)
{
    return kind == STANCE_KIND_DEVICE || kind == STANCE_KIND_COMM || kind == STANCE_KIND_TASK
           || kind == STANCE_KIND_DATASET || kind == STANCE_KIND_LOGGER;
}

static size_t field_size(enum stance_param_type type)
{
    switch (type) {
    case STANCE_PARAM_TYPE_BOOL: return sizeof(bool);
    case STANCE_PARAM_TYPE_I64: return sizeof(int64_t);
    case STANCE_PARAM_TYPE_F64: return sizeof(double);
    case STANCE_PARAM_TYPE_ENUM: return sizeof(int);
    case STANCE_PARAM_TYPE_TEXT: return sizeof(struct stance_text);
    case STANCE_PARAM_TYPE_LIST_I64: return sizeof(struct stance_list_i64);
    case STANCE_PARAM_TYPE_LIST_F64: return sizeof(struct stance_list_f64);
    }
    return 0;
}

static stance_status check_table(const struct stance_param *table, size_t size, const char *what,
                                 struct stance_error *err)
{
    for (const struct stance_param *p = table; p != NULL && p->name != NULL; p++) {
        size_t need = field_size(p->type);

        if (need == 0)
            return STANCE_FAIL(err, STANCE_ERR_ABI,
                               "%s '%s' is of type %d, which this stance does not know", what,
                               p->name, (int)p->type);
        if (p->offset > size || size - p->offset < need)
            return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s '%s' lies outside its %zu bytes", what,
                               p->name, size);
        if (p->dflt == NULL || p->doc == NULL || p->unit == NULL
            || (p->type == STANCE_PARAM_TYPE_ENUM && p->choices == NULL))
            return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s '%s' is not described", what, p->name);
    }
    return STANCE_OK;
}

/* What a kind cannot do without. */
static const char *missing_function(const struct stance_plugin *p)
{
#define NEED(kind, field)                \
    if (!STANCE_HAS(p->ops.kind, field)) \
        return #field

    switch (p->kind) {
    case STANCE_KIND_BACKBONE: NEED(backbone, build); break;
    case STANCE_KIND_HEAD: NEED(head, build); break;
    case STANCE_KIND_LOSS: NEED(loss, build); break;
    case STANCE_KIND_SCALER: NEED(scaler, scale); break;
    case STANCE_KIND_OPTIMIZER: NEED(optimizer, base_rate); NEED(optimizer, update); break;
    case STANCE_KIND_SCHEDULE: NEED(schedule, rate); break;
    case STANCE_KIND_OP: NEED(op, shape); NEED(op, reference); break;
    case STANCE_KIND_DATASET:
        NEED(dataset, open); NEED(dataset, close); NEED(dataset, pose); NEED(dataset, count);
        NEED(dataset, sample); NEED(dataset, image);
        break;
    case STANCE_KIND_TASK:
        NEED(task, open);
        NEED(task, close);
        NEED(task, fields);
        NEED(task, load);
        break;
    case STANCE_KIND_DEVICE:
        NEED(device, open); NEED(device, close); NEED(device, alloc); NEED(device, release);
        NEED(device, reorder);
        break;
    case STANCE_KIND_LOGGER: NEED(logger, open); NEED(logger, event); NEED(logger, close); break;
    case STANCE_KIND_COMM:
        NEED(comm, open); NEED(comm, close); NEED(comm, place); NEED(comm, start); NEED(comm, wait);
        NEED(comm, all_reduce); NEED(comm, broadcast); NEED(comm, all_gather); NEED(comm, gather);
        NEED(comm, barrier); NEED(comm, abort);
        break;
    case STANCE_KIND_COUNT: break;
    }
#undef NEED
    return NULL;
}

static bool empty(const char *text)
{
    return text == NULL || *text == '\0';
}

stance_status stance_plugin_check(const struct stance_plugin *p, enum stance_kind kind,
                                  const char *name, struct stance_error *err)
{
    const char   *lacks;
    stance_status status;

    if (p->abi != STANCE_PLUGIN_ABI)
        return STANCE_FAIL(err, STANCE_ERR_ABI, "built for plugin ABI %u, this stance has %d",
                           (unsigned)p->abi, STANCE_PLUGIN_ABI);
    if (p->size < SIZE_MIN)
        return STANCE_FAIL(err, STANCE_ERR_ABI,
                           "its descriptor has %u bytes, ABI %d has %zu at least",
                           (unsigned)p->size, STANCE_PLUGIN_ABI, SIZE_MIN);
    if (p->kind != kind)
        return STANCE_FAIL(
            err, STANCE_ERR_PLUGIN, "is a %s by its file name and a %s by its descriptor",
            stance_kind_word(kind),
            stance_kind_word(p->kind) != NULL ? stance_kind_word(p->kind) : "thing unknown");
    if (is_unstable(kind) && p->unstable_abi != STANCE_UNSTABLE_ABI)
        return STANCE_FAIL(err, STANCE_ERR_ABI, "built for %s interface %u, this stance has %d",
                           stance_kind_word(kind), (unsigned)p->unstable_abi, STANCE_UNSTABLE_ABI);
    if (p->name == NULL || strcmp(p->name, name) != 0)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "calls itself '%s', not '%s' as its file name",
                           p->name != NULL ? p->name : "", name);
    lacks = empty(p->version)   ? "version"
            : empty(p->license) ? "license"
            : empty(p->source)  ? "source"
            : empty(p->summary) ? "summary"
                                : NULL;
    if (lacks != NULL)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "does not describe itself: no %s", lacks);
    if (p->ops.any == NULL)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "has no functions");
    lacks = missing_function(p);
    if (lacks != NULL)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "has no function '%s', which a %s needs", lacks,
                           stance_kind_word(kind));
    status = check_table(p->params, p->config_size, "parameter", err);
    if (status == STANCE_OK && kind == STANCE_KIND_SCALER)
        status = check_table(p->ops.scaler->state, p->ops.scaler->state_size, "state", err);
    return status;
}
