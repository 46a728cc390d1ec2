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

/* Sizes when ABI 0 began, by the last field of then: what was compiled with an older header of the same
 * ABI is as large at least. */
#define UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define SIZE_MIN           UP_TO(struct stance_plugin, ops)

/* Flags of an op that a newer stance has: what they ask for would not happen here. */
#define OP_FLAGS (STANCE_OP_IN_PLACE | STANCE_OP_NO_RECOMPUTE | STANCE_OP_STATE)

static size_t size_min(enum stance_kind kind)
{
    switch (kind) {
    case STANCE_KIND_BACKBONE: return UP_TO(struct stance_backbone_ops, build);
    case STANCE_KIND_HEAD: return UP_TO(struct stance_head_ops, decode);
    case STANCE_KIND_LOSS: return UP_TO(struct stance_loss_ops, build);
    case STANCE_KIND_SCALER: return UP_TO(struct stance_scaler_ops, update);
    case STANCE_KIND_OPTIMIZER: return UP_TO(struct stance_optimizer_ops, update);
    case STANCE_KIND_SCHEDULE: return UP_TO(struct stance_schedule_ops, rate);
    case STANCE_KIND_OP: return UP_TO(struct stance_op_ops, backward);
    default: return sizeof(size_t); /* not stable: its own number says that the sizes agree */
    }
}

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
        if (p->more != NULL || (p->flags & ~(uint32_t)STANCE_PARAM_NULLABLE) != 0)
            return STANCE_FAIL(err, STANCE_ERR_ABI, "%s '%s' uses what only a later stance has", what, p->name);
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
        NEED(dataset, sample); NEED(dataset, image); NEED(dataset, path); NEED(dataset, truths);
        NEED(dataset, image_ids);
        break;
    case STANCE_KIND_TASK:
        NEED(task, open);
        NEED(task, close);
        NEED(task, fields);
        NEED(task, load);
        NEED(task, finish);
        NEED(task, score);
        break;
    case STANCE_KIND_DEVICE:
        NEED(device, open); NEED(device, close); NEED(device, alloc); NEED(device, release);
        NEED(device, reorder);
        if (STANCE_HAS(p->ops.device, offer)) {
            NEED(device, prepare); NEED(device, launch);
        }
        break;
    case STANCE_KIND_LOGGER: NEED(logger, open); NEED(logger, event); NEED(logger, close); break;
    case STANCE_KIND_COMM:
        NEED(comm, open); NEED(comm, close); NEED(comm, place); NEED(comm, start); NEED(comm, wait);
        NEED(comm, all_reduce); NEED(comm, broadcast); NEED(comm, all_gather); NEED(comm, gather);
        NEED(comm, barrier); NEED(comm, abort);
        break;
    case STANCE_KIND_COUNT:
    case STANCE_KIND_ALL: break;
    }
#undef NEED
    return NULL;
}

static bool empty(const char *text)
{
    return text == NULL || *text == '\0';
}

/* An op of a plugin: the rule of its own, its backward part, or the update of an optimizer. */
static stance_status check_op(const struct stance_op_ops *op, const char *what, struct stance_error *err)
{
    if (op->size < size_min(STANCE_KIND_OP))
        return STANCE_FAIL(err, STANCE_ERR_ABI, "%s has %zu bytes, ABI %d has %zu at least", what, op->size,
                           STANCE_PLUGIN_ABI, size_min(STANCE_KIND_OP));
    if (op->shape == NULL || op->reference == NULL)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s has no function '%s'", what,
                           op->shape == NULL ? "shape" : "reference");
    if ((op->flags & ~(uint32_t)OP_FLAGS) != 0)
        return STANCE_FAIL(err, STANCE_ERR_ABI, "%s has flags 0x%x, which this stance does not know", what,
                           (unsigned)(op->flags & ~(uint32_t)OP_FLAGS));
    if (op->n_kernels < 0 || (op->n_kernels > 0 && op->kernels == NULL))
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s has %d kernels and no list of them", what, (int)op->n_kernels);
    for (int32_t i = 0; i < op->n_kernels; i++)
        if (op->kernels[i].device == NULL || op->kernels[i].run == NULL)
            return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: kernel %d has no %s", what, (int)i,
                               op->kernels[i].device == NULL ? "device" : "function");
    return check_table(op->attrs, op->attr_size, "attribute", err);
}

static stance_status check_optimizer(const struct stance_plugin *p, struct stance_error *err)
{
    const struct stance_optimizer_ops *o = p->ops.optimizer;

    if (o->slots < 0 || o->slots > STANCE_SLOTS_MAX || (o->slots > 0 && o->slot_names == NULL))
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "has %d slots%s; 0 to %d are possible, with names", (int)o->slots,
                           o->slot_names == NULL ? " without names" : "", STANCE_SLOTS_MAX);
    for (int32_t i = 0; i < o->slots; i++)
        if (o->slot_names[i] == NULL || *o->slot_names[i] == '\0')
            return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "slot %d has no name", (int)i);
    if (o->update->attr_size != p->config_size)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "update takes %zu bytes of attributes, the settings have %zu",
                           o->update->attr_size, p->config_size);
    return check_op(o->update, "update", err);
}

stance_status stance_plugin_check_head(const struct stance_plugin_head *h, enum stance_kind kind,
                                       struct stance_error *err)
{
    if (h->abi != STANCE_PLUGIN_ABI)
        return STANCE_FAIL(err, STANCE_ERR_ABI, "built for plugin ABI %u, this stance has %d",
                           (unsigned)h->abi, STANCE_PLUGIN_ABI);
    if (h->size < SIZE_MIN)
        return STANCE_FAIL(err, STANCE_ERR_ABI,
                           "its descriptor has %u bytes, ABI %d has %zu at least",
                           (unsigned)h->size, STANCE_PLUGIN_ABI, SIZE_MIN);
    if (h->kind != kind)
        return STANCE_FAIL(
            err, STANCE_ERR_PLUGIN, "is a %s by its file name and a %s by its descriptor",
            stance_kind_word(kind),
            stance_kind_word(h->kind) != NULL ? stance_kind_word(h->kind) : "thing unknown");
    if (is_unstable(kind) && h->unstable_abi != STANCE_UNSTABLE_ABI)
        return STANCE_FAIL(err, STANCE_ERR_ABI, "built for %s interface %u, this stance has %d",
                           stance_kind_word(kind), (unsigned)h->unstable_abi, STANCE_UNSTABLE_ABI);
    return STANCE_OK;
}

stance_status stance_plugin_check(const struct stance_plugin *p, enum stance_kind kind,
                                  const char *name, struct stance_error *err)
{
    struct stance_plugin_head head = { p->abi, p->unstable_abi, p->size, p->kind };
    const char   *lacks;
    size_t        size;
    stance_status status = stance_plugin_check_head(&head, kind, err);

    if (status != STANCE_OK)
        return status;
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
    memcpy(&size, p->ops.any, sizeof size); /* every table begins with it */
    if (size < size_min(kind))
        return STANCE_FAIL(err, STANCE_ERR_ABI, "its table of functions has %zu bytes, ABI %d has %zu at least",
                           size, STANCE_PLUGIN_ABI, size_min(kind));
    lacks = missing_function(p);
    if (lacks != NULL)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "has no function '%s', which a %s needs", lacks,
                           stance_kind_word(kind));
    status = check_table(p->params, p->config_size, "parameter", err);
    if (status == STANCE_OK && kind == STANCE_KIND_SCALER)
        status = check_table(p->ops.scaler->state, p->ops.scaler->state_size, "state", err);
    if (status == STANCE_OK && kind == STANCE_KIND_OPTIMIZER)
        status = check_optimizer(p, err);
    if (status == STANCE_OK && kind == STANCE_KIND_OP)
        status = check_op(p->ops.op, "the op", err);
    if (status == STANCE_OK && kind == STANCE_KIND_OP && p->ops.op->backward != NULL)
        status = check_op(p->ops.op->backward, "backward", err);
    return status;
}
